"""Pairs of directions in two sets of columns, one after the other, by NIPALS or an SVD [1]_.

Everything is a function of inner products of columns, so any rows R with ``R'R = [X Y]'[X Y]`` give
the same: those that describe a training part, however many rows it has. They are NumPy's, centred
and scaled.

References
----------
.. [1] J. A. Wegelin, "A survey of partial least squares (PLS) methods, with emphasis on the
   two-block case", University of Washington (2000).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays.ops import EPS

# As scikit-learn has it: singular values below this share of the largest count as zero.
CUTOFF = 1e6 * EPS


@dataclass(frozen=True)
class Method:
    """How pairs are found: parameters of `sklearn.cross_decomposition`'s classes, by their names.

    `canonical` says that Y is deflated by its own scores, and `whitened` that directions are of
    largest correlation ("mode B"), not covariance.
    """

    canonical: bool
    whitened: bool
    algorithm: str
    max_iter: int
    tol: float


@dataclass(frozen=True)
class Pairs:
    """Columns (p, k) of X and (t, k) of Y; `n_iter` has a number for each that was found.

    `reliable` says whether second moments left them their digits.
    """

    x_weights: np.ndarray
    y_weights: np.ndarray
    x_loadings: np.ndarray
    y_loadings: np.ndarray
    n_iter: list[int]
    reliable: bool

    def first(self, k: int) -> "Pairs":
        """The first of them."""
        columns = (self.x_weights, self.y_weights, self.x_loadings, self.y_loadings)
        return _pairs([each[:, :k] for each in columns], self.n_iter[:k], self.reliable)

    @property
    def x_rotations(self) -> np.ndarray:
        """The matrix (p, k) that maps X to its scores."""
        return self.x_weights @ linalg.pinv(self.x_loadings.T @ self.x_weights)

    @property
    def y_rotations(self) -> np.ndarray:
        """The matrix (t, k) that maps Y to its scores."""
        return self.y_weights @ linalg.pinv(self.y_loadings.T @ self.y_weights)


def _pairs(columns: Sequence[np.ndarray], n_iter: list[int], reliable: bool) -> Pairs:
    x_weights, y_weights, x_loadings, y_loadings = columns
    return Pairs(x_weights, y_weights, x_loadings, y_loadings, n_iter, reliable)


def find_pairs(
    X: np.ndarray, Y: np.ndarray, n_pairs: int, n_rows: int, method: Method, noise: float
) -> Pairs:
    """Pairs of directions of rows (m, p) and (m, t), which represent `n_rows` rows.

    `noise` is the share of the squares of X, and of Y, below which they are not to be relied on.
    """
    X, Y = (np.array(columns, dtype=np.float64, order="C") for columns in (X, Y))
    (p, t) = X.shape[1], Y.shape[1]
    floor = EPS * np.maximum(100 * np.linalg.norm(Y, axis=0), 10 * n_rows**0.5)
    found = [np.zeros((size, n_pairs)) for size in (p, t, p, t)]
    least_x, least_y = noise * np.sum(X**2), noise * np.sum(Y**2)
    # Beyond the rank of X, the rest is rounding, and so would be further pairs.
    least = 100 * EPS * np.linalg.norm(X)
    reliable, n_iter = True, []
    for k in range(n_pairs):
        lengths = np.linalg.norm(Y, axis=0)
        reliable = reliable and bool(np.sum(lengths**2) >= least_y)
        if not np.linalg.norm(X) > least:
            warnings.warn(f"X residual is constant at iteration {k}", UserWarning, stacklevel=2)
            break
        if method.algorithm == "nipals":
            Y[:, lengths < floor] = 0.0
            if not (lengths >= floor).any():
                if reliable:  # otherwise they are not used
                    message = f"y residual is constant at iteration {k}"
                    warnings.warn(message, UserWarning, stacklevel=2)
                break
            first = int(np.argmax(lengths >= floor))
            x_weight, y_weight, steps = _by_power(X, Y, first, method)
            n_iter.append(steps)
        else:
            left, _, right = linalg.svd(X.T @ Y, full_matrices=False)
            x_weight, y_weight = left[:, 0], right[0]
        sign = np.sign(x_weight[np.argmax(np.abs(x_weight))])
        x_weight, y_weight = sign * x_weight, sign * y_weight
        x_score, x_loading, x_square = _deflated(X, X @ x_weight)
        if method.canonical:
            _, y_loading, y_square = _deflated(Y, Y @ y_weight)
            reliable = reliable and bool(y_square > least_y)
        else:
            _, y_loading, _ = _deflated(Y, x_score)
        reliable = reliable and bool(x_square > least_x)
        for columns, values in zip(found, (x_weight, y_weight, x_loading, y_loading), strict=True):
            columns[:, k] = values
    return _pairs(found, n_iter, reliable)


def _deflated(columns: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Take what a score explains out of columns; the score, its loadings, and its square."""
    square = float(score @ score)
    loading = score @ columns / square
    # In place: C-ordered columns are what BLAS calls the transpose.
    blas.dger(-1.0, loading, score, a=columns.T, overwrite_a=1)
    return score, loading, square


def _by_power(
    X: np.ndarray, Y: np.ndarray, first: int, method: Method
) -> tuple[np.ndarray, np.ndarray, int]:
    """The leading pair of directions by the power method, from a column of Y."""
    if method.whitened:
        towards_x, towards_y = _pseudo_inverse(X) @ Y, _pseudo_inverse(Y) @ X
    else:
        towards_x = X.T @ Y
        towards_y = towards_x.T
    y_weight = np.eye(Y.shape[1])[first]
    before: Any = 100.0
    step, moves = 0, True
    while moves and step < method.max_iter:
        step += 1
        x_weight = towards_x @ y_weight
        x_weight /= np.linalg.norm(x_weight) + np.finfo(float).tiny
        y_weight = towards_y @ x_weight
        change = x_weight - before
        moves = bool(change @ change >= method.tol) and Y.shape[1] > 1
        before = x_weight
    if step == method.max_iter:
        warnings.warn("Maximum number of iterations reached", ConvergenceWarning, stacklevel=2)
    if not method.whitened:
        x_score = X @ x_weight
        y_weight = y_weight / (x_score @ x_score)
    if method.canonical:
        y_weight = y_weight / (np.linalg.norm(y_weight) + EPS)
    return x_weight, y_weight, step


def _pseudo_inverse(columns: np.ndarray) -> np.ndarray:
    left, values, right = linalg.svd(columns, full_matrices=False)
    rank = int(np.sum(values > CUTOFF * values[0]))
    return (right[:rank].T / values[:rank]) @ left[:, :rank].T
