"""Gaussian process regressors of all candidates on all splits, from distances of all rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from gpuml._arrays import Array, Place, move, namespace, place_of, to_host
from gpuml._arrays.threads import one_blas_thread, ordered_map, threads_for_order
from gpuml.data import Folds, row_indices, split_weights, take
from gpuml.extending import RegressionStack
from gpuml.gaussian_process._kernels import bases_of, kernel_of
from gpuml.gaussian_process._pairs import Own, Pairs
from gpuml.gaussian_process._process import first_kernel, fit_process, process_attributes
from gpuml.gaussian_process._theta import is_optimised
from gpuml.kernel_ridge._models import check_memory, doubles
from gpuml.solvers.kernel_systems import Systems, solve_penalties
from gpuml.solvers.loss_rows import own_threads

# Noise counts as equal for all rows if it differs by no more than this share.
SAME_NOISE = 1e-12
# For matrices of a smaller order, threads would mostly wait for Python.
THREADED_ORDER = 200


@dataclass(frozen=True)
class Fit:
    """The data for predictions of a candidate on a split: kernel, dual (n, t) and means (t,)."""

    kernel: sk.Kernel
    dual: Array
    mean: Array


@dataclass(frozen=True)
class ProcessStack(RegressionStack):
    """Fitted processes of C candidates on S splits.

    Attributes
    ----------
    folds : Folds
    models : list of C estimators
        Unfitted estimators with the parameters of the candidates.
    fits : list of C lists of S fits
    words : str
        How the processes were fitted.
    """

    folds: Folds
    models: Sequence[Any]
    fits: Sequence[Sequence[Fit]]
    words: str

    # One pass over the rows, for their distances.
    n_passes = 1

    @property
    def n_candidates(self) -> int:
        """Number of candidates."""
        return len(self.models)

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions (C, m, t) for rows X (m, p) of some candidates on one split."""
        pairs = Pairs(doubles(X), shared_pairs(self.folds).X)
        found, last, K = [], None, None
        for fits in self.fits[candidates]:
            fit = fits[split]
            if fit.kernel is not last:
                last, K = fit.kernel, kernel_of(fit.kernel, pairs)
            found.append(K @ fit.dual + fit.mean)
        return namespace(X).stack(found)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model fitted to all rows."""
        batch, model = self.folds.batch, self.models[candidate]
        pairs, X, y = shared_pairs(self.folds), batch.X, doubles(move(batch.y, batch.work))
        if split is not None:
            train, xp = self.folds.splits[split].train, namespace(X)
            pairs, X, y = pairs.part(train), take(X, train, xp), take(y, train, xp)
            # The hyperparameters of this split were chosen before.
            kernel = self.fits[candidate][split].kernel
            model = clone(model).set_params(kernel=kernel, optimizer=None)
        with threads_for_order(pairs.shape[0]):
            found = fit_process(model, pairs, y, flat=batch.y_is_flat)
        return process_attributes(found, X, batch.home, batch.y_is_flat)


def shared_pairs(folds: Folds) -> Pairs:
    """Pairs of all rows; all candidates and splits share their distances."""
    if "pairs" not in folds.known:
        batch = folds.batch
        check_memory(batch.n_rows, batch.work)
        folds.known["pairs"] = Pairs(doubles(move(batch.X, batch.work)))
    return folds.known["pairs"]


def fitted_processes(
    folds: Folds, models: Sequence[Any], advance: Callable[[int], None] | None
) -> ProcessStack:
    """Fit the processes of estimators on the training parts of splits.

    Raises
    ------
    LinAlgError
        If a kernel with its noise is not positive definite on a training part.
    """
    fits: list[Any] = [None] * len(models)
    together: list[int] = []
    alone: list[int] = []
    for kernel, some in _same_kernels(models):
        noise = _common_noise(kernel, shared_pairs(folds).X)
        for c in some:
            plain = np.size(models[c].alpha) == 1 and not is_optimised(models[c], kernel)
            (together if plain and noise is not None else alone).append(c)
        own = [c for c in some if c in together]
        if own:
            found = _solved(folds, kernel, noise, [models[c] for c in own])
            fits = [found[own.index(c)] if c in own else fit for c, fit in enumerate(fits)]
            if advance is not None:
                advance(folds.batch.n_rows)
    found = _one_after_another(folds, [models[c] for c in alone], advance)
    fits = [found[alone.index(c)] if c in alone else fit for c, fit in enumerate(fits)]
    return ProcessStack(folds, models, fits, _words(folds, models, together, alone))


def _words(folds, models, together, alone):
    n_kernels = sum(1 for _ in _same_kernels([models[c] for c in together]))
    words = []
    if together:
        words.append(f"{n_kernels} kernel matri{'x' if n_kernels == 1 else 'ces'} of all rows")
    if alone:
        words.append(f"{len(alone) * folds.n_splits} fits from the distances of all rows")
    return " and ".join(words)


def _same_kernels(models):
    """The different kernels of estimators, each with the indices of its estimators."""
    found: list[tuple[Any, list[int]]] = []
    for c, model in enumerate(models):
        kernel = first_kernel(model)
        same = next((own for each, own in found if _are_equal(each, kernel)), None)
        if same is None:
            found.append((kernel, [c]))
        else:
            same.append(c)
    return found


def _are_equal(one, other):
    # scikit-learn's own comparison fails on arrays of different lengths.
    if type(one) is not type(other):
        return False
    if not isinstance(one, sk.Kernel):
        return np.array_equal(np.asarray(one), np.asarray(other))
    params, others = (kernel.get_params(deep=False) for kernel in (one, other))
    return all(_are_equal(value, others[name]) for name, value in params.items())


def _common_noise(kernel: sk.Kernel, X: Array) -> float | None:
    """What the noise in a kernel adds to the diagonal; None if it differs between rows."""
    added = to_host(kernel_of(kernel, Own(X)) - kernel_of(kernel, Own(X, noise=0.0)))
    least, most = float(added.min()), float(added.max())
    return most if most - least <= SAME_NOISE * abs(most) else None


def _solved(folds, kernel, noise, models):
    """Fits of estimators with one kernel and no optimiser, on all splits together.

    The systems are solved for ``y - middle`` and for a column of ones, which give the solution for
    y minus any mean. The middle is the median of y: no wild value moves it, and means are close to
    it, so that few digits cancel.
    """
    batch, pairs = folds.batch, shared_pairs(folds)
    xp, y = namespace(pairs.X), doubles(move(batch.y, batch.work))
    check_memory(batch.n_rows, batch.work, len(models) * folds.n_splits * (y.shape[1] + 1))
    K = kernel_of(kernel, Pairs(pairs.X, pairs.X, pairs.known))
    counts = split_weights(folds)
    ones = xp.ones_like(y[:, :1])
    weight = ones.T if counts is None else doubles(counts)
    sides, middle = y, 0.0
    if any(model.normalize_y for model in models):
        middle = xp.sort(y, axis=0)[y.shape[0] // 2, :]
        sides = xp.concat([y - middle, ones], axis=1)
    alphas = np.asarray([[np.ravel(model.alpha)[0] + noise] for model in models], dtype=float)
    solved = solve_penalties(Systems(K, xp.sqrt(weight), sides), alphas)
    if not np.isfinite(solved.conditions).all():
        raise np.linalg.LinAlgError(
            f"The kernel, {kernel}, is not returning a positive definite matrix. Try gradually "
            "increasing the 'alpha' parameter of your GaussianProcessRegressor estimator."
        )
    t, found = y.shape[1], []
    means = weight @ sides[:, :t] / xp.sum(weight, axis=1)[:, None]  # (S, t)
    for c, model in enumerate(models):
        dual, shift = solved.dual[c, :, :, :t], means if model.normalize_y else 0.0 * means - middle
        if sides.shape[1] > t:
            dual = dual - solved.dual[c, :, :, t:] * shift[:, None, :]
        mean = shift + middle
        found.append([Fit(kernel, dual[s, ...], mean[s, ...]) for s in range(folds.n_splits)])
    return found


def _one_after_another(folds, models, advance):
    """Fit estimators one by one on each split, from the distances of all rows."""
    if not models:
        return []
    batch, pairs = folds.batch, shared_pairs(folds)
    y = doubles(move(batch.y, batch.work))
    find_bases(pairs, [first_kernel(model) for model in models])

    def jobs():
        for split in folds.splits:
            part = pairs.part(split.train), take(y, split.train, namespace(y))
            yield from ((model, split.train, *part) for model in models)

    def fit(job):
        model, rows, part, own = job
        process = fit_process(clone(model), part, own, flat=batch.y_is_flat)
        # In units of y, so that predictions need no scale.
        dual = _at_rows(process.dual * process.scale, rows, batch.n_rows)
        return Fit(process.kernel, dual, process.mean)

    serial = any(callable(model.optimizer) for model in models)
    done = side_by_side(fit, jobs(), batch.n_rows, batch.work, serial=serial, advance=advance)
    return [done[c :: len(models)] for c in range(len(models))]


def side_by_side(
    function: Callable[[Any], Any],
    jobs: Iterable[Any],
    order: int,
    place: Place,
    *,
    serial: bool = False,
    advance: Callable[[int], None] | None = None,
) -> list[Any]:
    """Results of a function for each job, in threads on a CPU; `order` is that of its matrices.

    Only a few jobs are in memory at a time. `serial` runs one after another, because a user's
    function may not be safe to call from threads.
    """
    threads = 1 if serial or order < THREADED_ORDER else own_threads(place)
    found = []
    with threads_for_order(order) if threads == 1 else one_blas_thread():
        done = map(function, jobs) if threads == 1 else ordered_map(function, jobs, threads)
        for each in done:
            found.append(each)
            if advance is not None:
                advance(order)
    return found


def find_bases(pairs: Pairs, kernels: Sequence[sk.Kernel]) -> None:
    """Compute the bases that kernels need, for all pairs, before parts of them are taken."""
    for kind in sorted({kind for kernel in kernels for kind in bases_of(kernel)}):
        pairs.base(kind)


def _at_rows(dual, rows, n_rows):
    """Coefficients (n, t) of all rows from those (m, t) of some; repeated rows are summed."""
    found = np.zeros((n_rows, dual.shape[1]))
    np.add.at(found, row_indices(rows), to_host(dual))
    return move(found, place_of(dual))
