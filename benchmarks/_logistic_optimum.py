"""How near fitted logistic regressions are to their optimum, in float64."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from _harness import needed_cupy, to_host
from _searches import N_SPLITS, not_complaining
from scipy.special import expit, logsumexp, softmax
from sklearn.model_selection import StratifiedKFold

TOL = 1e-4  # the default of every contender
CHECK_BYTES = 2**27


def solution(model, X, y):
    """Objective of a fitted model on its rows, and the largest component of its gradient."""
    value, gradient = objective(*arrays_of(model, X), *on_rows(X, y), model.C)
    n_iter = getattr(model, "n_iter_", None)  # not every library tells
    n_iter = n_iter.get() if hasattr(n_iter, "get") else n_iter
    facts = {"objective": value, "gradient": gradient, "reached_tol": gradient <= TOL}
    return facts | {"n_iter": None if n_iter is None else int(np.max(n_iter))}


def largest_gradient(search, X, y):
    """The same component, the largest of all models of a search on their training rows.

    `search` makes one with other options. A scorer sees one model after the other, and the rows
    beside it tell the fold.
    """
    seen = []

    def collect(model, X_test, y_test):
        seen.append((model.C, *arrays_of(model, X), to_host(X_test[:1])))
        return 0.0

    with not_complaining():
        search(scoring=collect, refit=False).fit(X, y)
    codes = to_host(y)
    tests = [test for _, test in StratifiedKFold(N_SPLITS).split(np.zeros(len(codes)), codes)]
    first_rows = [to_host(X[test[0] : test[0] + 1]) for test in tests]
    worst = 0.0
    for C, coef, intercept, first_row in seen:
        (held_out,) = (
            t for t, row in zip(tests, first_rows, strict=True) if (row == first_row).all()
        )
        weights = np.ones(len(codes), dtype=bool)
        weights[held_out] = False
        _, gradient = objective(coef, intercept, *on_rows(X, y, weights), C)
        worst = max(worst, gradient)
    return worst


def arrays_of(model, X):
    """Coefficients and intercepts beside X, in float64."""
    xp = needed_cupy() if type(X).__module__.startswith("cupy") else np
    return tuple(xp.asarray(to_host(a), dtype=np.float64) for a in (model.coef_, model.intercept_))


def on_rows(X, y, weights=None):
    """X, codes of the classes and weights beside it."""
    xp = needed_cupy() if type(X).__module__.startswith("cupy") else np
    codes = xp.asarray(np.unique(to_host(y), return_inverse=True)[1])
    weights = xp.ones(len(X)) if weights is None else xp.asarray(weights, dtype=np.float64)
    return X, codes, weights, xp


def objective(coef, intercept, X, codes, weights, xp, C):
    """scikit-learn's objective in float64, and the largest component of its gradient.

    sum of w_i loss_i over sum of w_i, plus |coef|^2 / (2 C sum of w_i).
    """
    total = float(weights.sum())
    value, slope_coef, slope_intercept = 0.0, xp.zeros_like(coef), xp.zeros_like(intercept)
    step = max(1, CHECK_BYTES // (8 * X.shape[1]))
    losses = binary_losses if len(coef) == 1 else class_losses
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        block = X[rows].astype(np.float64, copy=False)
        loss, slope = losses(block @ coef.T + intercept, codes[rows], special(xp))
        slope *= weights[rows, None]
        value += float((weights[rows] * loss).sum())
        slope_coef += slope.T @ block
        slope_intercept += slope.sum(axis=0)
    value = value / total + float((coef**2).sum()) / (2 * C * total)
    slope_coef = (slope_coef + coef / C) / total
    largest = max(float(abs(slope_coef).max()), float(abs(slope_intercept).max()) / total)
    return value, largest


@dataclass(frozen=True)
class Special:
    """A library of arrays, with the functions that it keeps elsewhere."""

    xp: object
    expit: Callable
    logsumexp: Callable
    softmax: Callable


def special(xp):
    if xp is np:
        return Special(xp, expit, logsumexp, softmax)
    from cupyx.scipy import special as on_gpu

    return Special(xp, on_gpu.expit, on_gpu.logsumexp, on_gpu.softmax)


def binary_losses(z, codes, library):
    z = z[:, 0]
    loss = library.xp.logaddexp(0, z) - codes * z
    return loss, (library.expit(z) - codes)[:, None]


def class_losses(z, codes, library):
    own = library.xp.arange(z.shape[1])[None, :] == codes[:, None]
    loss = library.logsumexp(z, axis=1) - (z * own).sum(axis=1)
    return loss, library.softmax(z, axis=1) - own
