"""Factor analysis of a training part, by expectation and maximisation on its covariance [1]_.

With a covariance S of n rows and a noise variance d of each feature, the factors are the leading
eigenvectors of ``G = D S D``, ``D = diag(1 / sqrt d)``. The rows are not needed: what a randomised
SVD of scaled rows finds in the span of ``G^i B``, of a random block B, follows from G as well.

References
----------
.. [1] D. Barber, "Bayesian reasoning and machine learning", algorithm 21.1 (2012).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from gpuml._arrays import Array, device_of, is_array, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS, constant
from gpuml._arrays.threads import threads_for_order
from gpuml.exceptions import level_of_user
from gpuml.solvers.covariances import Sample, log_likelihood

# Standard deviations of the noise, and its variances, are at least this; as in scikit-learn.
LEAST = 1e-12
# A feature is constant if its standard deviation is at most so many roundings of its mean.
CONSTANT = 1e3
OVERSAMPLES = 10
MOST_TURNS, TURN_TOL = 100, 1e-6


@dataclass(frozen=True)
class Factors:
    """A normal density with the covariance ``W'W + diag(noise)``.

    Attributes
    ----------
    components : array (k, p)
        W.
    noise : array (p,)
    mean : array (p,)
    steps : list of float
        The logarithm of the likelihood of the training rows before each step.
    """

    components: Array
    noise: Array
    mean: Array
    steps: list[float]

    def log_likelihood(self, sample: Sample) -> Array:
        """Mean logarithm () of the density over some rows."""
        xp, moments = namespace(self.noise), sample.about(self.mean)
        turn = self.turn
        distance = xp.sum(xp.linalg.diagonal(moments) / self.noise)
        distance = distance - xp.sum((turn @ moments) * xp.linalg.solve(self._inner, turn))
        determinant = -xp.sum(xp.log(self.noise))
        if turn.shape[0]:
            determinant = determinant - xp.linalg.slogdet(self._inner)[1]
        return log_likelihood(distance, determinant, turn.shape[1])

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes."""
        return {
            "components_": self.components,
            "noise_variance_": self.noise,
            "mean_": self.mean,
            "loglike_": self.steps,
            "n_iter_": len(self.steps),
        }

    @cached_property
    def turn(self) -> Array:
        """Components (k, p) over the noise."""
        return self.components / self.noise

    @cached_property
    def _inner(self) -> Array:
        """``I + W diag(1 / noise) W'`` (k, k)."""
        return _plus_diagonal(self.turn @ self.components.T, 1.0)

    @property
    def covariance(self) -> Array:
        """``W'W + diag(noise)`` (p, p)."""
        return _plus_diagonal(self.components.T @ self.components, self.noise)

    @property
    def precision(self) -> Array:
        """Its inverse (p, p), by that of a matrix (k, k)."""
        found = self.turn.T @ namespace(self.turn).linalg.solve(self._inner, self.turn)
        return _plus_diagonal(-found, 1.0 / self.noise)

    @property
    def map(self) -> Array:
        """The matrix (p, k) that maps centred rows to means of the factors."""
        return namespace(self.turn).linalg.solve(self._inner, self.turn).T


def _plus_diagonal(matrix: Array, values: Any) -> Array:
    xp, n = namespace(matrix), matrix.shape[0]
    return matrix + xp.eye(n, dtype=matrix.dtype, device=device_of(matrix)) * values


def fitted_factors(sample: Sample, params: Mapping[str, Any]) -> Factors:
    """The model of training rows with parameters of `FactorAnalysis`."""
    with threads_for_order(sample.covariance.shape[0]):
        return _fitted(sample, params)


def _fitted(sample, params):
    S = sample.covariance
    xp, p = namespace(S), S.shape[0]
    count = p if params["n_components"] is None else params["n_components"]
    variance, noise = xp.linalg.diagonal(S), _initial(params["noise_variance_init"], S)
    # More factors than features vary have no variance, whose logarithm is anything.
    varies = variance > (CONSTANT * EPS * sample.mean) ** 2
    asked = min(count, p, sample.n_rows)
    count = min(count, int(xp.sum(xp.astype(varies, xp.int64))))
    leading = _leading(sample.n_rows, p, count, params)
    steps: list[float] = []
    while True:
        root = xp.sqrt(noise) + LEAST
        values, vectors, rest = leading(S / root[:, None] / root)
        size = xp.sqrt(xp.where(values > 1.0, values - 1.0, 0.0))
        W = size[:, None] * vectors.T * root
        total = xp.sum(xp.log(values)) + rest + xp.sum(xp.log(noise))
        constant_part = p * float(np.log(2.0 * np.pi)) + count
        steps.append(-0.5 * sample.n_rows * (constant_part + np.float64(float(total))))
        if len(steps) > 1 and steps[-1] - steps[-2] < params["tol"]:
            break
        after = variance - xp.sum(W**2, axis=0)
        after = xp.where(after > LEAST, after, LEAST)
        if len(steps) == params["max_iter"]:
            warnings.warn(
                "FactorAnalysis did not converge. You might want to increase the number of "
                "iterations.",
                ConvergenceWarning,
                stacklevel=level_of_user(),
            )
            noise = after
            break
        noise = after
    nothing = xp.zeros((max(0, asked - count), p), dtype=W.dtype, device=device_of(W))
    W = xp.concat([W, nothing]) if asked > count else W
    if params["rotation"] is not None:
        W = _rotated(W, params["rotation"])[: params["n_components"], :]
    return Factors(_turned(W), noise, sample.mean, steps)


def _initial(given, like):
    """Variances (p,) of the noise to begin with."""
    xp, p = namespace(like), like.shape[0]
    if given is None:
        return xp.ones((p,), dtype=like.dtype, device=device_of(like))
    given = np.asarray(to_host(given) if is_array(given) else given, dtype=np.float64)
    if len(given) != p:
        raise ValueError(
            f"noise_variance_init dimension does not with number of features : {len(given)} != {p}"
        )
    return move(given, place_of(like))


def _leading(n_rows, p, count, params):
    """What finds eigenvalues (k,), eigenvectors (p, k), and the sum of the other eigenvalues."""
    block = count + OVERSAMPLES
    if params["svd_method"] == "lapack" or block >= min(n_rows, p):
        return lambda G: _by_eigenvectors(G, min(count, n_rows))
    random = check_random_state(params["random_state"])
    n_steps = params["iterated_power"]
    return lambda G: _by_random_block(G, count, random.normal(size=(p, block)), n_steps)


def _by_eigenvectors(G, count):
    xp = namespace(G)
    values, vectors = xp.linalg.eigh(G)
    values, vectors = xp.flip(values), xp.flip(vectors, axis=1)
    # Squares of singular values are not negative, and hardly ever zero.
    values = xp.where(values > EPS**2 * values[0], values, EPS**2 * values[0])
    return values[:count], vectors[:, :count], xp.sum(values[count:])


def _by_random_block(G, count, block, n_steps):
    """From ``B'B = Y (P'Y)^-1 Y'``, ``Y = G P``, of the rows' part B in the span of their P."""
    xp = namespace(G)
    P = constant(block, like=G, xp=xp)
    for _ in range(n_steps):
        P = xp.linalg.qr(G @ P)[0]
    Y = G @ P
    square = P.T @ Y
    values, vectors = xp.linalg.eigh(0.5 * (square + square.T))
    some = values > values.shape[0] * EPS * values[-1]
    scale = xp.where(some, 1.0 / xp.sqrt(xp.where(some, values, 1.0)), 0.0)
    B = (Y @ vectors) * scale  # (p, block)
    left, singular, _ = xp.linalg.svd(B, full_matrices=False)
    values = singular[:count] ** 2
    return values, left[:, :count], xp.linalg.trace(G) - xp.sum(values)


def _rotated(W: Array, method: str) -> Array:
    """Components (k, p), turned so that their squares differ most."""
    xp, C = namespace(W), W.T
    turned, level = C, 0.0
    for _ in range(MOST_TURNS):
        spread = xp.mean(turned**2, axis=0) if method == "varimax" else 0.0
        left, size, right = xp.linalg.svd(C.T @ (turned**3 - turned * spread), full_matrices=False)
        turn, before, level = left @ right, level, float(xp.sum(size))
        if before != 0 and level < before * (1.0 + TURN_TOL):
            break
        turned = C @ turn
    return (C @ turn).T


def _turned(W: Array) -> Array:
    """The same factors; the largest number of each is positive, whatever LAPACK chose."""
    xp = namespace(W)
    if W.shape[0] == 0:
        return W
    largest = xp.argmax(xp.abs(W), axis=1)[:, None]
    sign = xp.take_along_axis(W, largest, axis=1)
    return xp.where(sign < 0, -W, W)
