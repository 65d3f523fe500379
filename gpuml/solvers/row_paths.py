"""Sparse models of more features than rows, on a CPU: moments of features that matter, from rows.

Few rows of a GPU are brought to the CPU: a path is one change of signs after the other, which takes
launches there and no longer than a product here.

Second moments of many features are more numbers than a few rows of them, and most are never needed.
Each split has a copy of its training rows, centred, that `solvers.sparse_paths` takes slopes of all
features from, and moments of those that have coefficients or may get some.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

import numpy as np

from gpuml._arrays import HOST, is_numpy, move
from gpuml._arrays.ops import EPS
from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.data import Batch, Folds, Rows, count_rows, take
from gpuml.solvers._path_sources import OfRows
from gpuml.solvers._result import Path, in_order, joined
from gpuml.solvers.lasso import (
    MOST_FEATURES_HERE,
    VIOLATION,
    Penalties,
    SparseModels,
    Standard,
    models_of,
)
from gpuml.solvers.sparse_paths import follow

# Copies of training rows that threads may have at a time.
COPIES_BYTES = 2**28
# Numbers of few rows of a GPU: as many as second moments that are followed in CPU memory.
MOST_FROM_GPU = MOST_FEATURES_HERE**2
# A mean that is so small against the spread about it: what its square does to that is rounding.
ROOT_EPS = 1e-9


def may_follow(batch: Batch) -> bool:
    """Whether rows are in this process and on a CPU, where single coordinates are fast."""
    return not batch.is_divided and is_numpy(batch.X) and batch.work.kind == "numpy"


def near(batch: Batch) -> Batch:
    """The batch in CPU memory if its rows are so few that they are followed there."""
    few = batch.n_rows < batch.n_features and batch.n_rows * batch.n_features <= MOST_FROM_GPU
    if batch.is_divided or not few or type(batch) is not Batch:
        return batch
    arrays = {name: move(getattr(batch, name), HOST) for name in ("X", "y", "weight")}
    return replace(batch, **arrays, work=HOST)


def solve_rows(
    folds: Folds,
    penalties: Penalties,
    max_iter: int,
    start: np.ndarray | None = None,
    *,
    advance: Callable[[int], None] | None = None,
) -> SparseModels | None:
    """Models of all candidates on every split.

    Parameters
    ----------
    folds : Folds
        Whose batch `may_follow` says yes to.
    penalties : Penalties
    max_iter : int
    start : ndarray (t, p), optional
        Where each model starts.
    advance : callable, optional
        Called with the number of rows of each split.

    Returns
    -------
    SparseModels
        None where a candidate has no l1 part, so that all features matter, and where rows of a
        split have no weight, or squares that overflow: sums of theirs say so.
    """
    if not (penalties.alpha * penalties.l1_ratio > 0).all():
        return None

    def solve(split):
        found, places = [], []
        for fit_intercept, group in groupby(penalties.paths(), itemgetter(0)):
            centred = _centred(folds.batch, split.train, fit_intercept)
            if centred is None:
                return None
            for _, some in group:
                found.append(_solve_path(centred, penalties.of(some), max_iter, start))
                places.append(some)
        return in_order(found, places)

    splits = []
    with one_blas_thread():
        for split, models in zip(folds.splits, _each(solve, folds), strict=True):
            if models is None:
                return None
            splits.append(models)
            if advance is not None:
                advance(count_rows(split.train))
    return joined(splits, axis=1)


def _each(solve, folds):
    """The results of a function for each split, in as many threads as memory allows."""
    threads = 1
    if folds.n_splits > 1 and may_limit_blas():
        copies = COPIES_BYTES // (8 * folds.batch.n_rows * folds.batch.n_features)
        threads = max(1, min(blas_threads(), folds.n_splits, copies))
    return ordered_map(solve, folds.splits, threads) if threads > 1 else map(solve, folds.splits)


@dataclass(frozen=True)
class _Centred:
    """Rows (n, p) and targets (n, t) about their means, times the roots of their weights.

    `scale` (p,) has the roots of the mean squares of what is left of features: zero where that is
    rounding. No more than `rank` features are independent.
    """

    X: np.ndarray
    y: np.ndarray
    x_mean: np.ndarray
    y_mean: np.ndarray
    scale: np.ndarray
    weight: float
    rank: int


def _centred(batch: Batch, rows: Rows, fit_intercept: bool) -> _Centred | None:
    X, y = (take(a, rows, HOST.xp) for a in (batch.X, batch.y))
    weight = None
    if batch.weight is not None:
        weight = take(batch.weight, rows, HOST.xp).astype(np.float64)
    with np.errstate(all="ignore"):
        X, x_mean, x_scale, total = _about_mean(X, weight, fit_intercept)
        y, y_mean, y_scale, _ = _about_mean(y, weight, fit_intercept)
        is_finite = np.isfinite(sum(a.sum() for a in (x_mean, y_mean, x_scale, y_scale)))
    # The caller reports invalid values, because it knows the names.
    if not is_finite or not total > 0:
        return None
    used = len(X) if weight is None else int(np.count_nonzero(weight))
    return _Centred(X, y, x_mean, y_mean, x_scale, total, used - int(fit_intercept))


def _about_mean(a, weight, fit_intercept):
    """Rows about their mean, times the roots of weights; mean, scale, and the sum of weights."""
    ones = np.ones(len(a)) if weight is None else weight
    root = None if weight is None else np.sqrt(weight)[:, None]
    total = float(ones.sum())
    mean = np.zeros(a.shape[1])
    if fit_intercept:
        mean = ones @ a.astype(np.float64, copy=False) / total
        # In the order that they have: both serve, and turning them takes longer.
        a = np.subtract(a, mean, dtype=np.float64)
        # What rounding did to the mean: with no more of it than that, its square is lost.
        rest = ones @ a / total
    a = a.astype(np.float64, copy=False)
    if root is not None:
        a = a * root
    scale = _scale(a, mean, total)
    if fit_intercept and (np.abs(rest) > ROOT_EPS * scale)[scale > 0].any():
        a -= rest if root is None else root * rest
        mean = mean + rest
        scale = _scale(a, mean, total)
    return a, mean, scale, total


def _scale(a, mean, total):
    squares = np.einsum("ij,ij->j", a, a)
    noise = (4 * EPS * np.abs(mean)) ** 2 * total
    # Squares that overflow do not change, because the noise may have overflowed too.
    return np.sqrt(np.where((squares <= noise) & (squares < np.inf), 0.0, squares / total))


def _solve_path(rows, penalties, max_iter, start):
    """Models (C, 1, t, p) of the candidates of one path."""
    l1, l2 = penalties.parts()
    paths = []
    for t in range(rows.y.shape[1]):
        y = np.ascontiguousarray(rows.y[:, t])
        source = OfRows(rows.X, y, rows.weight, rows.scale, rows.rank)
        begin = None if start is None else np.broadcast_to(start[t], (len(l1), len(start[t])))
        paths.append(follow(source, l1, l2, begin, tol=VIOLATION, max_iter=max_iter))
    g = rows.y.T @ rows.X / rows.weight
    square = np.einsum("it,it->t", rows.y, rows.y) / rows.weight
    means = rows.x_mean[None, :], rows.y_mean[None, :]
    known = Standard(None, g[None, ...], square[None, :], *means, np.asarray([rows.weight]))
    return models_of(known, Path.stacked(paths, (1, len(paths))), l1, l2)
