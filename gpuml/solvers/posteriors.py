r"""Gaussian processes at given kernels: likelihoods, their gradients, and Laplace's approximation.

Of targets y = f + noise, with K' = K + noise I, the logarithm of the marginal likelihood of each
target is

    -1/2 y' K'^{-1} y - sum_i log L_ii - n/2 log 2 pi ,    L L' = K' .

Of labels, f is found where  log p(y | f) - 1/2 f' K^{-1} f  is largest, by Newton's steps, and its
posterior is taken to be normal there. Gradients are by the entries of K; what a kernel makes of
them is its own business.

References
----------
C. E. Rasmussen, C. K. I. Williams, "Gaussian processes for machine learning", MIT Press (2006):
algorithms 2.1, 3.1, 3.2 and 5.1.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from scipy.linalg import lapack

from gpuml._arrays import Array, device_of, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.cholesky import cholesky_or_none
from gpuml._arrays.grams import full_symmetric
from gpuml._arrays.ops import clipped, constant
from gpuml.solvers._blocks import quiet

# Newton's steps end when the likelihood rises by less, as scikit-learn's do.
ENOUGH = 1e-10
# The logistic function is nearly a sum of these error functions [Williams & Barber, "Bayesian
# classification with Gaussian processes", IEEE Transactions on Pattern Analysis and Machine
# Intelligence 20 (1998), appendix A], with scikit-learn's constants.
SLOPES = (0.41, 0.4, 0.37, 0.44, 0.39)
SHARES = (-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654)


@dataclass(frozen=True)
class Factor:
    """The lower Cholesky factor L (n, n) of a positive definite matrix, in float64."""

    L: Array

    @classmethod
    def of(cls, A: Array, shift: Any, *, owned: bool = False) -> "Factor | None":
        """Of A with a number, or an array (n,), added to its diagonal; None if there is none.

        `owned` says that nobody needs A any more.
        """
        with quiet():
            L = _cholesky(_shifted(A, shift, owned))
        if L is None or not bool(namespace(L).all(namespace(L).linalg.diagonal(L) > 0)):
            return None
        return cls(L)

    @property
    def log_root(self) -> float:
        """Half the logarithm of the determinant."""
        xp = namespace(self.L)
        return float(xp.sum(xp.log(xp.linalg.diagonal(self.L))))

    def half(self, B: Array) -> Array:
        """``L^{-1} B`` of B (n, m)."""
        return _triangular(self.L, B, transposed=False)

    def solve(self, B: Array) -> Array:
        """``(L L')^{-1} B`` of B (n, m)."""
        if is_numpy(B):
            return lapack.dpotrs(self.L, B, lower=1)[0]
        return _triangular(self.L, self.half(B), transposed=True)

    def inverse(self) -> Array:
        """``(L L')^{-1}``."""
        if is_numpy(self.L):
            return full_symmetric(lapack.dpotri(self.L, lower=1)[0], np).T
        xp = namespace(self.L)
        eye = xp.eye(self.L.shape[0], dtype=xp.float64, device=device_of(self.L))
        root = self.half(eye)
        return xp.matrix_transpose(root) @ root


def _shifted(A, shift, owned):
    """A copy of A, or A itself, with more on its diagonal."""
    xp, n = namespace(A), A.shape[0]
    if is_numpy(A):
        found = A if owned else A.copy()
        found.flat[:: n + 1] += shift
        return found
    return A + shift * xp.eye(n, dtype=xp.float64, device=device_of(A))


def _cholesky(A):
    if is_numpy(A):
        L, info = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
        return L if info == 0 else None
    return cholesky_or_none(A)


def _triangular(L, B, *, transposed):
    if is_numpy(L):
        return lapack.dtrtrs(L, B, lower=1, trans=int(transposed))[0]
    library = type(L).__module__.partition(".")[0]
    if library == "cupy":
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, B, lower=True, trans=int(transposed))
    if library == "torch":
        import torch

        return torch.linalg.solve_triangular(L.mT if transposed else L, B, upper=transposed)
    xp = namespace(L)
    return xp.linalg.solve(xp.matrix_transpose(L) if transposed else L, B)


# ---------------------------------------------------------------- regression


def log_likelihood(factor: Factor, y: Array) -> tuple[float, Array]:
    """Sum over targets y (n, t) of their log marginal likelihoods, and coefficients (n, t)."""
    xp, (n, t) = namespace(y), y.shape
    dual = factor.solve(y)
    found = -0.5 * float(xp.sum(y * dual)) - t * factor.log_root
    return found - t * n / 2 * math.log(2 * math.pi), dual


def likelihood_slope(factor: Factor, dual: Array) -> Array:
    """The gradient (n, n) of the likelihood by the entries of K."""
    found = dual @ namespace(dual).matrix_transpose(dual)
    found -= dual.shape[1] * factor.inverse()
    found *= 0.5
    return found


# ---------------------------------------------------------------- labels


@dataclass(frozen=True)
class Mode:
    """Where the posterior of f at the rows is largest.

    Attributes
    ----------
    value : float
        The approximate log marginal likelihood.
    share : array (n,)
        Probabilities of label 1.
    root : array (n,)
        Roots of what minus the logarithm of the likelihood curves by f.
    factor : Factor
        Of ``I + root K root``.
    dual, f : arrays (n,)
        With ``f = K dual``.
    """

    value: float
    share: Array
    root: Array
    factor: Factor
    dual: Array
    f: Array


def posterior_mode(K: Array, y: Array, f: Array | None, most: int) -> Mode:
    """By at most so many of Newton's steps, for labels y (n,) of 0.0 and 1.0, from f or from 0.

    Raises
    ------
    LinAlgError
        If the kernel is not finite, or far from positive semidefinite.
    """
    xp, best = namespace(K), -math.inf
    f = xp.zeros_like(y) if f is None else f
    for _ in range(most):
        share = logistic(f)
        curved = share * (1.0 - share)
        root = xp.sqrt(curved)
        inner = root[:, None] * K
        factor = positive_factor(inner * root)
        slope = curved * f + (y - share)
        dual = slope - root * factor.solve((inner @ slope)[:, None])[:, 0]
        f = K @ dual
        margin = (2.0 * y - 1.0) * f
        lost = clipped(-margin, 0.0) + xp.log1p(xp.exp(-xp.abs(margin)))
        value = float(-0.5 * xp.sum(dual * f) - xp.sum(lost)) - factor.log_root
        if value - best < ENOUGH:
            break
        best = value
    return Mode(best, share, root, factor, dual, f)


def positive_factor(A: Array) -> Factor:
    """The factor of ``I + A``, which overwrites A.

    Raises
    ------
    LinAlgError
        If there is none.
    """
    factor = Factor.of(A, 1.0, owned=True)
    if factor is None:
        raise np.linalg.LinAlgError("The kernel is not positive semidefinite, or not finite.")
    return factor


def mode_slope(K: Array, y: Array, mode: Mode) -> Array:
    """The gradient (n, n) of the approximate likelihood by the entries of K."""
    xp = namespace(K)
    inverse = mode.factor.inverse()
    R = mode.root[:, None] * inverse * mode.root
    # What f's posterior variances weigh: (K - K R K)_ii times the curvature is 1 - inverse_ii.
    third = -0.5 * (1.0 - xp.linalg.diagonal(inverse)) * (1.0 - 2.0 * mode.share)
    moved = third - R @ (K @ third)
    left = y - mode.share
    found = mode.dual[:, None] * mode.dual - R
    found += moved[:, None] * left
    found += left[:, None] * moved
    found *= 0.5
    return found


def latent_variance(factor: Factor, root: Array, K: Array, prior: Array) -> Array:
    """Variances (m,) of f at other rows, with kernels K (n, m), whose prior ones are (m,)."""
    xp = namespace(K)
    v = factor.half(root[:, None] * K)
    return prior - xp.sum(v * v, axis=0)


def logistic(f: Array) -> Array:
    """``1 / (1 + exp(-f))``, with all its digits."""
    xp = namespace(f)
    small = xp.exp(-xp.abs(f))
    return xp.where(f >= 0, xp.ones_like(f), small) / (1.0 + small)


def mean_logistic(mean: Array, variance: Array) -> Array:
    """The mean of the logistic function of normal numbers, nearly."""
    xp = namespace(mean)
    found = xp.full_like(mean, 0.5 * sum(SHARES))
    alpha = 0.5 / variance
    for slope, share in zip(SLOPES, SHARES, strict=True):
        inside = _erf(slope * mean * xp.sqrt(alpha / (alpha + slope**2)))
        found = found + 0.5 * share * inside
    return found


def _erf(x):
    library = type(x).__module__.partition(".")[0]
    if library == "cupy":
        from cupyx.scipy.special import erf

        return erf(x)
    if library == "torch":
        import torch

        return torch.special.erf(x)
    found = special.erf(to_host(x))
    return found if is_numpy(x) else move(found, place_of(x))


def as_doubles(values: Any, like: Array) -> Array:
    """Numbers in CPU memory as float64 where an array is."""
    return constant(values, like=like, xp=namespace(like))
