"""Factor analysis of a training part, by expectation and maximisation on its covariance [1]_.

With a covariance S of n rows and a noise variance d of each feature, the factors are the leading
eigenvectors of ``G = D S D``, ``D = diag(1 / sqrt d)``. The rows are not needed: what a randomised
SVD of scaled rows finds in the span of ``G^i B``, of a random block B, follows from G as well. Of
fewer rows than features, with ``S = A'A``, they are ``D A'`` times those of ``G = (A D)(A D)'``.

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
from gpuml.decomposition._principal import log_density
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
        xp, turn = namespace(self.noise), self.turn
        distance = xp.sum((sample.variance + (sample.mean - self.mean) ** 2) / self.noise)
        spread = xp.linalg.solve(self._inner, sample.along(turn, self.mean))
        distance = distance - xp.linalg.trace(spread)
        return log_likelihood(distance, self._log_determinant, turn.shape[1])

    def log_density(self, X: Array) -> Array:
        """Logarithm of the density of each row (n,), where the rows are."""
        xp = namespace(self.noise)

        def distance(rows):
            images = rows @ self.turn.T
            along = xp.sum(images * xp.linalg.solve(self._inner, images.T).T, axis=1)
            return xp.sum(rows**2 / self.noise, axis=1) - along

        return log_density(distance, self._log_determinant, self.mean, X)

    @cached_property
    def _log_determinant(self) -> Array:
        """Of the precision."""
        xp = namespace(self.noise)
        found = -xp.sum(xp.log(self.noise))
        return found - xp.linalg.slogdet(self._inner)[1] if self.turn.shape[0] else found

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
    with threads_for_order(min(sample.n_rows, sample.mean.shape[0])):
        return _fitted(sample, params)


def _fitted(sample, params):
    variance, p = sample.variance, sample.mean.shape[0]
    xp = namespace(variance)
    count = p if params["n_components"] is None else params["n_components"]
    noise = _initial(params["noise_variance_init"], variance)
    # More factors than features vary have no variance, whose logarithm is anything.
    varies = variance > (CONSTANT * EPS * sample.mean) ** 2
    asked = min(count, p, sample.n_rows)
    count = min(count, int(xp.sum(xp.astype(varies, xp.int64))))
    A = sample.deviations
    leading = _leading(sample, count, params)
    steps: list[float] = []
    while True:
        root = xp.sqrt(noise) + LEAST
        if A is None:
            values, vectors, rest = leading(sample.covariance / root[:, None] / root)
        else:
            scaled = A / root
            values, shares, rest = leading(scaled @ scaled.T)
            vectors = scaled.T @ shares
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
    if asked > W.shape[0]:
        nothing = xp.zeros((asked - W.shape[0], p), dtype=W.dtype, device=device_of(W))
        W = xp.concat([W, nothing])
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


def _leading(sample, count, params):
    """What finds eigenvalues (k,), eigenvectors, and the sum of the other eigenvalues.

    Of products of rows it gives the shares (m, k) that the rows have in eigenvectors (p, k).
    """
    p, of_rows = sample.mean.shape[0], sample.deviations is not None
    block = count + OVERSAMPLES
    if params["svd_method"] == "lapack" or block >= min(sample.n_rows, p):
        return lambda G: _by_eigenvectors(G, min(count, sample.n_rows), of_rows)
    random = check_random_state(params["random_state"])
    size = (sample.deviations.shape[0] if of_rows else p, block)
    n_steps = params["iterated_power"]
    return lambda G: _by_random_block(G, count, random.normal(size=size), n_steps, of_rows)


def _by_eigenvectors(G, count, of_rows):
    xp = namespace(G)
    values, vectors = xp.linalg.eigh(G)
    values, vectors = xp.flip(values), xp.flip(vectors, axis=1)
    # Squares of singular values are not negative, and hardly ever zero.
    values = xp.where(values > EPS**2 * values[0], values, EPS**2 * values[0])
    found = values[:count]
    return found, vectors[:, :count] / (xp.sqrt(found) if of_rows else 1.0), xp.sum(values[count:])


def _by_random_block(G, count, block, n_steps, of_rows):
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
    turn = vectors * scale
    left, singular, right = xp.linalg.svd(Y @ turn, full_matrices=False)  # of (p, block)
    values = singular[:count] ** 2
    found = P @ turn @ right.T if of_rows else left
    return values, found[:, :count], xp.linalg.trace(G) - xp.sum(values)


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
