"""k-means models of all candidates on all splits, fitted in shared passes over the rows."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import (
    Array,
    as_array,
    device_of,
    is_cupyx_sparse,
    is_numpy,
    is_sparse,
    move,
    namespace,
)
from gpuml._arrays.ops import column_moments
from gpuml._inputs.validation import check_rows, check_weight
from gpuml._settings.config import current_settings
from gpuml._sklearn import _openmp_effective_n_threads
from gpuml.adapters._row import Data
from gpuml.adapters.rows.cluster import runs
from gpuml.cluster._starts import starts_of
from gpuml.data import Absent, Batch, Folds, Rows, resident, take, whole
from gpuml.exceptions import level_of_user
from gpuml.extending import ClusterStack, MultifitEstimator
from gpuml.resampling.stand_ins import refuse
from gpuml.solvers.clusters import Clusters, Points, Run
from gpuml.solvers.divided_clusters import DividedPoints

# Typical number of steps of Lloyd's algorithm in a run.
TYPICAL_STEPS = 20
PARAMS = ("copy_x", "init", "max_iter", "n_clusters", "n_init", "random_state", "tol")


class KMeansTogether(MultifitEstimator):
    """k-means that fits all candidates on all splits together; a base class before the adapter."""

    multifit_params = PARAMS
    multifit_divided = True

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why candidates are fitted one by one; None if they can be fitted together."""
        own: Any = self
        if own.algorithm != "lloyd":
            return f"algorithm={own.algorithm!r}"
        if callable(own.init):
            return "callable init"
        if own.verbose:
            return f"verbose={own.verbose!r}"
        return "sparse X" if is_sparse(as_array(X)) or is_cupyx_sparse(X) else None

    def multifit_batch(self, X: Any, y: Any = None, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and move them to their compute device."""
        X = check_rows(self, X, reset=True, dtype=["float64", "float32"])
        xp = namespace(X)
        weight = check_weight(sample_weight, X)
        no_targets = xp.zeros_like(X[:, :0])
        return resident(X, no_targets, weight, current_settings().device)

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """Approximate flops of products of rows and centres; the number of passes is unknown."""
        own: Any = self
        seeded = own.n_init == "auto" and own.init == "k-means++"
        runs = 1 if seeded else 10 if own.n_init == "auto" else own.n_init
        flops = 2.0 * n_rows * n_features * own.n_clusters
        return None, n_models * runs * TYPICAL_STEPS * flops

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> "KMeansStack":
        """Fit every candidate on the training part of every split; see `MultifitEstimator`."""
        own: Any = self
        params = [
            {name: each.get(name, getattr(own, name)) for name in PARAMS} for each in candidates
        ]
        if any(callable(each["init"]) for each in params):
            raise ValueError("a callable init is called by one fit at a time.")
        most = max(each["n_clusters"] for each in params)
        refuse_few(folds, most)
        fits = []
        for s, split in enumerate(folds.splits):
            fits.append(_fitted(own, folds, s, params))
            if advance is not None:
                advance(split.n_train)
        return KMeansStack(own, folds, params, fits)

    def multifit_model(self, params: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        """A fitted copy, as if scikit-learn had fitted it."""
        model = super().multifit_model(params, {})
        model._take_over(attributes)
        return model


@dataclass(frozen=True)
class _Fits:
    """The best run of each candidate on some rows, after subtracting their `mean` (p,)."""

    found: list[Clusters]
    mean: Array


@dataclass(frozen=True)
class KMeansStack(ClusterStack):
    """Clusters of all candidates on all splits."""

    model: Any
    folds: Folds
    params: list[dict[str, Any]]
    fits: list[_Fits]
    known: dict[int, _Fits] = field(default_factory=dict)

    @property
    def n_candidates(self) -> int:
        return len(self.params)

    @property
    def n_passes(self) -> int:
        """Iterations of the longest run, and one more pass for labels and cost."""
        return 1 + max(each.n_iter for fits in self.fits for each in fits.found)

    def inertia(self, part: str, weighted: bool) -> Array:
        """Costs (C, S) of the "train" or "test" rows of all splits; see `ClusterStack`."""
        columns = []
        for s, fits in enumerate(self.fits):
            points = _points(self.folds, s, part, fits.mean, weighted=weighted)
            columns.append([cost for cost, _ in points.costs([f.centres for f in fits.found])])
        xp = namespace(self.fits[0].mean)
        place = self.folds.batch.work
        return xp.asarray(columns, dtype=xp.float64, device=place.device).T

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        batch = self.folds.batch
        if split is not None:
            folds, number, fits, at = self.folds, split, self.fits[split], candidate
        else:
            folds, number, at = whole(batch), 0, 0
            if candidate not in self.known:
                params = [self.params[candidate]]
                self.known[candidate] = _fitted(self.model, folds, 0, params)
            fits = self.known[candidate]
        best = fits.found[at]
        points = _points(folds, number, "train", fits.mean, weighted=False)
        labels = points.labels(best.centres)
        return {
            "cluster_centers_": move(best.centres + fits.mean, batch.home),
            "labels_": move(labels, batch.home),
            "inertia_": best.inertia,
            "n_iter_": best.n_iter,
            "_n_features_out": best.centres.shape[0],
            "_n_threads": _openmp_effective_n_threads(),
        }


def _fitted(model: Any, folds: Folds, split: int, params: Sequence[Mapping[str, Any]]) -> _Fits:
    """The best run of each candidate on a training part."""
    batch, n_rows = folds.batch, folds.splits[split].n_train
    _, mean, variances = batch.total(_moments, split, combine=_merged, here=folds)
    xp = namespace(mean)
    variance = float(xp.mean(variances))
    mean = xp.astype(mean, getattr(xp, str(batch.dtype).rpartition(".")[2]), copy=False)
    points = _points(folds, split, "train", mean, weighted=True)
    data = Data(Absent((n_rows, batch.n_features), np.dtype(float)))
    n_runs = []
    for each in params:
        model._row.checks(each, data)
        n_runs.append(runs(each))
    begin = starts_of(points, mean, params, n_runs)
    all_runs = [
        Run(start, each["max_iter"], variance * each["tol"])
        for each, starts in zip(params, begin, strict=True)
        for start in starts
    ]
    ends = iter(points.lloyd(all_runs))
    found = []
    for each, count in zip(params, n_runs, strict=True):
        best = _best([next(ends) for _ in range(count)], points)
        warn_of_few(best.n_found, each["n_clusters"])
        found.append(best)
    return _Fits(found, mean)


def _moments(folds: Folds, split: int) -> tuple[float, Array, Array]:
    """Number of training rows, their mean (p,) and variance (p,), without weights."""
    batch = folds.batch
    X = move(take(batch.X, folds.splits[split].train, namespace(batch.X)), batch.work)
    xp, n = namespace(X), X.shape[0]
    if n == 0:
        nothing = xp.zeros(X.shape[1:], dtype=X.dtype, device=device_of(X))
        return 0.0, nothing, nothing
    return float(n), *column_moments(X, xp)


def _merged(one: tuple, other: tuple) -> tuple:
    """Moments of the rows of both."""
    if one[0] == 0 or other[0] == 0:
        return one if other[0] == 0 else other
    n = one[0] + other[0]
    share, step = other[0] / n, other[1] - one[1]
    within = (1.0 - share) * one[2] + share * other[2]
    return n, one[1] + share * step, within + (1.0 - share) * share * step * step


def _points(
    folds: Folds, split: int, part: str, mean: Array, *, weighted: bool
) -> Points | DividedPoints:
    """The "train" or "test" rows of a split, minus a mean."""
    if folds.batch.holders is not None:
        question = split, part, mean, weighted
        return DividedPoints(folds.batch.holders.map(_points_here, *question))
    return _points_here(folds, split, part, mean, weighted)


def _points_here(folds: Folds, split: int, part: str, mean: Array, weighted: bool) -> Points:
    batch = folds.batch
    mean = move(mean, batch.work)
    return points_of(batch, getattr(folds.splits[split], part), mean, weighted=weighted)


def refuse_few(folds: Folds, n_clusters: int) -> None:
    """Raise UnfittableSplits if a training part has fewer rows than clusters."""
    sizes = enumerate(split.n_train for split in folds.splits)
    why = {
        s: f"n_samples={n} should be >= n_clusters={n_clusters}."
        for s, n in sizes
        if n < n_clusters
    }
    refuse(why, folds.n_splits)


def points_of(batch: Batch, rows: Rows, mean: Array | float, *, weighted: bool) -> Points:
    """Rows minus a mean, on the compute device."""
    xp = namespace(batch.X)
    X = move(take(batch.X, rows, xp), batch.work) - mean
    if is_numpy(X):
        X = namespace(X).asarray(X, order="C")
    weight = batch.weight if weighted else None
    if weight is not None:
        weight = move(take(weight, rows, xp), batch.work)
        weight = namespace(X).astype(weight, X.dtype, copy=False)
    return Points(X, weight)


def _best(ends: Sequence[Clusters], points: Points | DividedPoints) -> Clusters:
    """The run with the lowest cost; the first one, of runs with the same clusters."""
    best = ends[0]
    for each in ends[1:]:
        if each.inertia < best.inertia and not _are_same(each, best, points):
            best = each
    return best


def _are_same(one: Clusters, other: Clusters, points: Points | DividedPoints) -> bool:
    """Whether two runs have the same clusters up to their order; costs may differ by rounding."""
    if not np.array_equal(one.sizes, other.sizes):
        return False
    return points.n_pairs(one.centres, other.centres) == max(one.n_found, other.n_found)


def warn_of_few(n_found: int, n_clusters: int) -> None:
    """Warn, as scikit-learn does, if a run found fewer clusters than `n_clusters`."""
    if n_found < n_clusters:
        warnings.warn(
            f"Number of distinct clusters ({n_found}) found smaller than n_clusters "
            f"({n_clusters}). Possibly due to duplicate points in X.",
            ConvergenceWarning,
            stacklevel=level_of_user(),
        )
