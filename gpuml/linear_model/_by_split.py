"""Models that are fitted to the training rows of a split, candidate after candidate.

For objectives whose minima no sums over the rows give. Rows of a split are taken, and brought to
float64, once for all candidates.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import Array, free_bytes, is_sparse, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS
from gpuml._arrays.threads import ALONE_TO_ORDER, one_blas_thread, ordered_map
from gpuml.data import Batch, Folds, take
from gpuml.data.rows import cut
from gpuml.linear_model._base import LinearEstimator
from gpuml.linear_model._input import flat_batch
from gpuml.linear_model._models import Models, RegressionModels
from gpuml.solvers.loss_rows import own_threads
from gpuml.solvers.numbered_rows import NumberedBatch
from gpuml.solvers.weighted_sums import block_numbers

# Copies of the rows of a split while models are fitted to them.
COPIES = 6


@dataclass(frozen=True)
class TrainingRows:
    """Rows X (m, p) and targets (m,) in float64; weights (m,) above 0, or None."""

    X: Array
    y: Array
    weight: Array | None


@dataclass(frozen=True)
class Found:
    """A model: coefficients (p,) and intercept in CPU memory, readings of the rows, attributes.

    Or coefficients (k, p) and intercepts (k,) of several vectors.
    """

    coef: np.ndarray
    intercept: Any
    n_passes: int
    attributes: dict[str, Any] = field(default_factory=dict)


def training_rows(folds: Folds, split: int | None, *columns: Array | None) -> tuple[Any, ...]:
    """The rows (m, p), as models see them, in float64, of a training part or of all rows.

    And numbers (n,) of these rows, such as targets and codes of classes, as they are.
    """
    batch = folds.batch
    batch.must_be_here("This model needs the rows of each split.")
    found = [batch.X, *columns]
    splits = None
    if split is not None:
        rows, splits = folds.splits[split].train, slice(split, split + 1)
        found = [None if a is None else take(a, rows, namespace(a)) for a in found]
    X, *rest = (None if a is None else move(a, batch.work) for a in found)
    if isinstance(batch, NumberedBatch):
        X = batch.rows(X)
    X = batch.work.xp.astype(X, batch.work.xp.float64, copy=False)
    if folds.frame is not None:
        image = folds.frame.of(splits).beside(X)
        X = X @ image.matrix[0, ...] + image.offset[0, :]
    return X, *rest


class BySplit(LinearEstimator):
    """An estimator, a regressor by itself, that defines `_solve`, of rows and of candidates."""

    multifit_divided = False
    _kind: ClassVar[type[Models]] = RegressionModels

    def _solve(
        self, rows: TrainingRows, candidates: Sequence[Mapping[str, Any]], start: Any = None
    ) -> list[Found]:
        """A model for each candidate, whose parameters are all there; `start` as of `multifit`."""
        raise NotImplementedError

    # Whether a device has the rows of as many splits at once as fit, for `_solve_all`.
    _solves_together = False

    def _solve_all(
        self,
        parts: Sequence[TrainingRows],
        candidates: Sequence[Mapping[str, Any]],
        start: Any = None,
    ) -> list[list[Found]]:
        """As `_solve`, of several training parts."""
        return [self._solve(rows, candidates, start) for rows in parts]

    def _start_of_all(self, models: Models, candidate: int) -> Any:
        """What the model of all rows begins with, from those of the splits; None for nothing."""
        return None

    def _attributes_of(self, folds: Folds, split: int | None, found: Found) -> dict[str, Any]:
        """Fitted attributes beside `coef_` and `intercept_`."""
        return found.attributes

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        return "sparse X" if is_sparse(X) else super()._needs_sklearn(X, y)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return flat_batch(self, X, y, sample_weight)

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """Some twenty weighted second moments of the rows for each model."""
        return None, 40.0 * n_rows * n_features * min(n_rows, n_features) * n_models

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        params = [
            {name: each.get(name, getattr(self, name)) for name in self.multifit_params}
            for each in candidates
        ]
        return self._models(folds, params, range(folds.n_splits), advance, start)

    def _models(self, folds, params, splits, advance=None, start=None):
        batch, found = folds.batch, []

        def solved(some):
            parts = [self._rows(folds, split) for split in some]
            n_rows = sum(int(rows.X.shape[0]) for rows in parts)
            return n_rows, self._solve_all(parts, params, start)

        together = 1
        if self._solves_together and not batch.work.is_host:
            together = max(1, _copies(folds, len(params)))
        runs = [splits[i : i + together] for i in range(0, len(splits), together)]
        with _alone(folds, len(splits)) as threads:
            ways = ordered_map(solved, runs, threads) if threads > 1 else map(solved, runs)
            for n_rows, models in ways:
                found += models
                if advance is not None:
                    advance(n_rows)
        by_candidate = list(zip(*found, strict=True))
        coef = np.asarray([[np.atleast_2d(one.coef) for one in row] for row in by_candidate])
        levels = [[np.atleast_1d(one.intercept) for one in row] for row in by_candidate]
        return self._kind(
            folds=folds,
            coef=move(coef, batch.work),
            intercept=move(np.asarray(levels), batch.work),
            fit_intercept=[bool(each["fit_intercept"]) for each in params],
            n_passes=sum(one.n_passes for row in by_candidate for one in row),
            refit=lambda models, i: self._models(
                folds, [params[i]], [None], start=self._start_of_all(models, i)
            ),
            attributes=lambda _, i, s: self._attributes_of(folds, splits[s], by_candidate[i][s]),
            flat_coef=issubclass(self._kind, RegressionModels),
            of_all_rows=list(splits) == [None],
        )

    def _rows(self, folds, split):
        batch = folds.batch
        xp = batch.work.xp
        X, y, weight = training_rows(folds, split, batch.y[:, 0], batch.weight)
        y = xp.astype(y, xp.float64, copy=False)
        if weight is not None:
            counts = xp.nonzero(weight > 0)[0]
            X, y, weight = (xp.take(a, counts, axis=0) for a in (X, y, weight))
            weight = xp.astype(weight, xp.float64, copy=False)
        return TrainingRows(X, y, weight)


@contextmanager
def _alone(folds: Folds, n_splits: int) -> Iterator[int]:
    """Threads for splits, each with a copy of its rows; BLAS keeps to one thread if that is faster.

    Threads of BLAS would wait for each other in every one of many small products.
    """
    batch, threads = folds.batch, 1
    if n_splits > 1:
        threads = max(1, min(own_threads(batch.work), n_splits, _copies(folds)))
    on_cpu = batch.work.kind == "numpy"
    few = folds.n_features <= ALONE_TO_ORDER
    with one_blas_thread() if on_cpu and (threads > 1 or few) else nullcontext():
        yield threads


def _copies(folds: Folds, n_models: int = 0) -> int:
    """How many splits fit into memory at once, with rows and residuals of so many models."""
    of_row = COPIES * 8 * (folds.n_features + n_models)
    return free_bytes(folds.batch.work) // max(1, of_row * folds.batch.n_rows)


@dataclass(frozen=True)
class Centred:
    """Rows whose features have mean 0, if there is an intercept, and mean square 1.

    Attributes
    ----------
    X : array (m, q)
        Float64; with an intercept the last column is 1.
    y, weight : arrays (m,)
    mean : ndarray (p,)
    scale : ndarray (p,) or (r,)
        Of the features, or of the directions of the rows.
    fit_intercept : bool
    turn : array (p, r) or None
        Orthonormal directions in which the rows differ, where these take the place of the features.
    """

    X: Array
    y: Array
    weight: Array
    mean: np.ndarray
    scale: np.ndarray
    fit_intercept: bool
    turn: Array | None = None

    @classmethod
    def of(cls, rows: TrainingRows, fit_intercept: bool) -> "Centred":
        xp: Any = namespace(rows.X)
        m, p = rows.X.shape
        mean = _means(rows.X, fit_intercept, xp)
        device = place_of(rows.X).device
        X = xp.empty((m, p + int(fit_intercept)), dtype=xp.float64, device=device)
        squares = xp.zeros_like(mean)
        for some in cut(slice(0, m), max(1, block_numbers(X) // p)):
            block = rows.X[some, :] - mean
            X[some, :p] = block
            squares = squares + xp.sum(block * block, axis=0)
        scale = _roots(squares / m, xp)
        X[:, :p] /= scale
        X[:, p:] = 1.0
        weight = xp.ones_like(rows.y) if rows.weight is None else rows.weight
        return cls(X, rows.y, weight, to_host(mean), to_host(scale), fit_intercept)

    @classmethod
    def in_row_space(cls, rows: TrainingRows, fit_intercept: bool) -> "Centred":
        """The rows in the directions in which they differ, of which there are no more than rows.

        Under a penalty of the length of all coefficients, those of the best model are sums of rows.
        """
        xp: Any = namespace(rows.X)
        m, p = rows.X.shape
        mean = _means(rows.X, fit_intercept, xp)
        Q, R = xp.linalg.qr(xp.matrix_transpose(rows.X - mean))
        U, d, V = xp.linalg.svd(xp.matrix_transpose(R), full_matrices=False)
        rank = max(1, int((to_host(d) > EPS * p * float(d[0])).sum()))
        Z = U[:, :rank] * d[:rank]
        scale = _roots(xp.sum(Z * Z, axis=0) / m, xp)
        ones = xp.ones_like(Z[:, : int(fit_intercept)])
        X = xp.concat([Z / scale, ones], axis=1)
        turn = Q @ xp.matrix_transpose(V[:rank, :])
        weight = xp.ones_like(rows.y) if rows.weight is None else rows.weight
        return cls(X, rows.y, weight, to_host(mean), to_host(scale), fit_intercept, turn)

    def penalties(self, of_features: Array) -> np.ndarray:
        """Penalties (q,) of features, or of directions, and none of the intercept."""
        return np.append(of_features, 0.0) if self.fit_intercept else np.asarray(of_features)

    def vector(self, coef: np.ndarray, level: float) -> np.ndarray:
        """Scaled coefficients (q,) from those (p,) and an intercept for the original rows."""
        own = coef
        if self.turn is not None:
            own = to_host(move(coef, place_of(self.turn)) @ self.turn)
        scaled = own * self.scale
        return np.append(scaled, level + self.mean @ coef) if self.fit_intercept else scaled

    def model(self, coef: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients (p,) and intercept for the original rows."""
        of_features = coef[: len(self.scale)] / self.scale
        if self.turn is not None:
            of_features = to_host(self.turn @ move(of_features, place_of(self.turn)))
        return of_features, float(coef[-1] - self.mean @ of_features) if self.fit_intercept else 0.0


def _means(X, fit_intercept, xp):
    return xp.mean(X, axis=0) if fit_intercept else xp.zeros_like(X[0, :])


def _roots(squares, xp):
    """Root mean squares, and 1 in place of 0."""
    scale = xp.sqrt(squares)
    return xp.where(scale > 0, scale, 1.0)


def warn_late(n_late: int, n_models: int, advice: str) -> None:
    """Warn of models whose steps ended before the optimum; `advice` says what may help."""
    if n_late:
        warnings.warn(
            f"{n_late} of {n_models} models of a split did not converge. {advice}.",
            ConvergenceWarning,
            stacklevel=2,
        )
