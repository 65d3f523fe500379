"""A guess of sparse models of more features than rows, by coordinate descent on the rows.

Moments of many features are more numbers than a few rows of them, and most are never needed. On a
CPU, compiled coordinate descent finds which features have coefficients, and about which ones; the
exact solution then needs moments of these features alone. Models follow one path per split, from
the strongest penalty to the weakest.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpuml._arrays import HOST, is_numpy
from gpuml.data import Batch, Folds, count_rows, take
from gpuml.solvers._coordinates import descend_rows

if TYPE_CHECKING:
    from gpuml.solvers.lasso import Penalties

# Signs are known long before coefficients are.
TOL = 1e-5
# Features whose slope is so close to the penalty may turn out to have coefficients.
NEAR = 0.95


def may_descend(batch: Batch) -> bool:
    """Whether rows are in this process and on a CPU, where single coordinates are fast."""
    return not batch.is_divided and is_numpy(batch.X) and batch.work.kind == "numpy"


def guess_models(
    folds: Folds, penalties: "Penalties", max_iter: int, start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Coefficients near those of the solution, and features that may have some; None if unknown.

    Parameters
    ----------
    folds : Folds
        Whose batch `may_descend` says yes to.
    penalties : Penalties
    max_iter : int
        Bound on the sweeps of a model.
    start : ndarray (t, p), optional
        Where the first model of each path starts.

    Returns
    -------
    columns : int ndarray (k,)
        In order; more than have coefficients in the guess.
    coef : ndarray (C, S, t, k)
    """
    batch = folds.batch
    shape = (len(penalties), folds.n_splits, batch.y.shape[1], batch.n_features)
    # Without an l1 part, all features have coefficients.
    if not (penalties.alpha * penalties.l1_ratio > 0).all():
        return None
    coef, near = np.zeros(shape), np.zeros(batch.n_features, dtype=bool)
    for s, split in enumerate(folds.splits):
        for fit_intercept in np.unique(penalties.fit_intercept):
            prepared = _prepared(batch, split.train, bool(fit_intercept))
            if prepared is None:
                return None
            for path in _paths(penalties, fit_intercept):
                near |= _follow(path, penalties, prepared, coef[:, s], max_iter, start)
    columns = np.flatnonzero(near)
    return columns, coef[..., columns]


def _prepared(batch, rows, fit_intercept):
    """Centred rows times the roots of their weights, and the sum of weights; None for overflow."""
    X, y = (np.array(take(a, rows, HOST.xp), np.float64, order="F") for a in (batch.X, batch.y))
    weight = np.ones(count_rows(rows))
    if batch.weight is not None:
        weight = take(batch.weight, rows, HOST.xp).astype(np.float64)
    total = weight.sum()
    with np.errstate(all="ignore"):
        if fit_intercept:
            X -= weight @ X / total
            y -= weight @ y / total
        if batch.weight is not None:
            X *= np.sqrt(weight)[:, None]
            y *= np.sqrt(weight)[:, None]
        squares = np.vdot(X, X) + np.vdot(y, y)
    # What is wrong with them is for those to say who know what they are called.
    return (X, y, total) if np.isfinite(squares) and total > 0 else None


def _paths(penalties, fit_intercept):
    """Candidates of each l1_ratio, from strong to weak."""
    of_kind = penalties.fit_intercept == fit_intercept
    for ratio in np.unique(penalties.l1_ratio[of_kind]):
        some = np.flatnonzero(of_kind & (penalties.l1_ratio == ratio))
        yield some[np.argsort(-penalties.alpha[some], kind="stable")]


def _follow(path, penalties, prepared, coef, max_iter, start):
    """Fill in the models (C, t, p) of some candidates, each from the one before.

    Features are returned that have coefficients in one of them, or may have.
    """
    X, y, total = prepared
    near = np.zeros(X.shape[1], dtype=bool)
    for t in range(y.shape[1]):
        v = np.zeros(X.shape[1]) if start is None else start[t].astype(np.float64)
        target = np.ascontiguousarray(y[:, t])
        for c in path:
            alpha, ratio = penalties.alpha[c] * total, penalties.l1_ratio[c]
            l1, l2 = alpha * ratio, alpha * (1 - ratio)
            v = descend_rows(X, target, v, l1, l2, tol=TOL, max_iter=max_iter)
            coef[c, t] = v
            slope = X.T @ (target - X @ v) - l2 * v
            near |= (v != 0) | (np.abs(slope) >= NEAR * l1)
    return near
