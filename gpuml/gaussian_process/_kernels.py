"""Kernels of scikit-learn as functions of arrays, with their gradients.

A kernel is a tree: constants, noise and functions of distances or inner products, summed,
multiplied and raised to powers. Each rule below returns the values k of a kernel for pairs of rows
and a function `pull`. For any function F of these values, `pull` turns dF/dk into the derivatives
of F by the kernel's theta (the logarithms of its hyperparameters that are not fixed, in
scikit-learn's order). So a gradient does not need an array for each hyperparameter.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from sklearn.gaussian_process import kernels as sk

from gpuml._arrays import Array, device_of, is_foreign, is_numpy, move, namespace, place_of, to_host
from gpuml._settings.config import current_settings
from gpuml.exceptions import FallbackError, FallbackWarning, level_of_user
from gpuml.gaussian_process._pairs import Own, Pairs
from gpuml.solvers.pair_kernels import BASES, PairKernel

Of = Pairs | Own
# Metrics of a PairwiseKernel that gpuml computes, and the keyword arguments that they use.
METRICS = tuple(name for name in BASES if name != "precomputed")
DEFAULTS = {"coef0": 1.0, "degree": 3.0}


@dataclass(frozen=True)
class Evaluated:
    """Values of a kernel, an array or one number, and `pull`, which gives derivatives by theta."""

    values: Any
    pull: Callable[[Array], list[Array]]


def kernel_of(kernel: sk.Kernel, pairs: Of) -> Array:
    """Values of a kernel: an array with the shape of the pairs."""
    return evaluate(kernel, pairs).values


def evaluate(kernel: sk.Kernel, pairs: Of) -> Evaluated:
    """As `kernel_of`, together with the derivatives by theta."""
    found = _evaluated(kernel, pairs)
    if not isinstance(found.values, float):
        return found
    xp = namespace(pairs.X)
    full = xp.full(pairs.shape, found.values, dtype=xp.float64, device=device_of(pairs.X))
    return Evaluated(full, found.pull)


def gradient(evaluated: Evaluated, slope: Array) -> np.ndarray:
    """Derivatives (n_dims,) by theta, in CPU memory, from the derivatives by the values."""
    found = evaluated.pull(slope)
    return to_host(namespace(slope).stack(found)) if found else np.zeros(0)


def own_functions(kernel: sk.Kernel) -> list[str]:
    """Names of the kernels in a tree that have no rule; their own functions are called."""
    parts = [getattr(kernel, name) for name in PARTS.get(type(kernel), ())]
    if not parts:
        return [type(kernel).__name__] if _rule(kernel) is _by_itself else []
    return [name for part in parts for name in own_functions(part)]


def bases_of(kernel: sk.Kernel) -> set[str]:
    """The bases of the pairs that the kernel needs, whatever its hyperparameters."""
    parts = [getattr(kernel, name) for name in PARTS.get(type(kernel), ())]
    if parts:
        return {kind for part in parts for kind in bases_of(part)}
    rule = _rule(kernel)
    if rule is _pairwise:
        return {BASES[kernel.metric]}
    if rule is _stationary and np.size(kernel.length_scale) > 1:
        return set()
    return {"apart"} if rule in OF_DISTANCES else {"inner"} if rule is _inner else set()


def _evaluated(kernel, pairs):
    return _rule(kernel)(kernel, pairs)


def _rule(kernel):
    if isinstance(kernel, sk.PairwiseKernel) and kernel.metric not in METRICS:
        return _by_itself
    return RULES.get(type(kernel), _by_itself)


def _free(kernel: Any, **by_name: Any) -> list[Array]:
    """Derivatives by the hyperparameters that are not fixed, in the order of their names."""
    return [
        make()
        for name, make in sorted(by_name.items())
        if not getattr(kernel, f"hyperparameter_{name}").fixed
    ]


# ---------------------------------------------------------------- trees


def _sum(kernel, pairs):
    one, other = _evaluated(kernel.k1, pairs), _evaluated(kernel.k2, pairs)
    return Evaluated(one.values + other.values, lambda M: one.pull(M) + other.pull(M))


def _product(kernel, pairs):
    one, other = _evaluated(kernel.k1, pairs), _evaluated(kernel.k2, pairs)

    def pull(M):
        return one.pull(M * other.values) + other.pull(M * one.values)

    return Evaluated(one.values * other.values, pull)


def _power(kernel, pairs):
    inner, exponent = _evaluated(kernel.kernel, pairs), float(kernel.exponent)

    def pull(M):
        return inner.pull(M * (exponent * inner.values ** (exponent - 1.0)))

    return Evaluated(inner.values**exponent, pull)


# ---------------------------------------------------------------- constants and noise


def _constant(kernel, pairs):
    value = float(kernel.constant_value)

    def pull(M):
        return _free(kernel, constant_value=lambda: value * namespace(M).sum(M))

    return Evaluated(value, pull)


def _white(kernel, pairs):
    level = float(kernel.noise_level)

    def pull(M):
        xp = namespace(M)
        return _free(kernel, noise_level=lambda: level * xp.sum(xp.linalg.diagonal(M)))

    return Evaluated(level * pairs.noise, pull)


# ---------------------------------------------------------------- distances


def _stationary(kernel, pairs):
    """RBF and Matern: functions of squared distances q of scaled rows."""
    scale = _length_scale(kernel, pairs.X)
    q = pairs.squares(scale)
    values, slope = _of_squares(getattr(kernel, "nu", np.inf), q)

    def by_scale(M):
        weight = M * slope()
        return namespace(M).sum(weight * q) if scale.ndim == 0 else pairs.moments(weight, scale)

    def pull(M):
        [*found] = _free(kernel, length_scale=lambda: by_scale(M))
        if found and scale.ndim:
            return [found[0][j] for j in range(len(scale))]
        return found

    return Evaluated(values, pull)


def _of_squares(nu, q):
    """A function of q, and a function that returns minus twice its slope."""
    xp = namespace(q)
    if nu == np.inf:
        values = xp.exp(-0.5 * q)
        return values, lambda: values
    root = xp.sqrt(q)
    if nu == 0.5:
        values = xp.exp(-root)
        apart = xp.where(root > 0, root, xp.ones_like(root))
        return values, lambda: xp.where(root > 0, values / apart, xp.zeros_like(root))
    if nu == 1.5:
        s = math.sqrt(3.0) * root
        shrunk = xp.exp(-s)
        return (1.0 + s) * shrunk, lambda: 3.0 * shrunk
    if nu == 2.5:
        s = math.sqrt(5.0) * root
        shrunk = xp.exp(-s)
        return (1.0 + s + s**2 / 3.0) * shrunk, lambda: 5.0 / 3.0 * (1.0 + s) * shrunk
    return _bessel(nu, root)


def _bessel(nu, root):
    """Matern's function for any nu, from SciPy's Bessel functions, in CPU memory."""
    u = to_host(root)
    t = math.sqrt(2.0 * nu) * np.where(u > 0, u, np.finfo(float).eps)
    factor = 2.0 ** (1.0 - nu) / special.gamma(nu)
    home = place_of(root)
    if not is_numpy(root):
        _warn_of_host(f"Matern(nu={nu:.3g})", home, "nu=0.5, 1.5, 2.5 or inf")
    values = np.where(u > 0, factor * t**nu * special.kv(nu, t), 1.0)

    def slope():
        found = factor * 2.0 * nu * t ** (nu - 1.0) * special.kv(nu - 1.0, t)
        return move(np.where(u > 0, found, 0.0), home)

    return move(values, home), slope


def _rational(kernel, pairs):
    if np.size(kernel.length_scale) > 1:
        raise AttributeError(
            "RationalQuadratic kernel only supports isotropic version, please use a single scalar "
            "for length_scale"
        )
    alpha = float(kernel.alpha)
    q = pairs.squares(np.asarray(float(np.squeeze(kernel.length_scale))))
    xp = namespace(q)
    base = 1.0 + q / (2.0 * alpha)
    values = base**-alpha

    def pull(M):
        return _free(
            kernel,
            length_scale=lambda: xp.sum(M * (q * values / base)),
            alpha=lambda: xp.sum(M * values * (0.5 * q / base - alpha * xp.log(base))),
        )

    return Evaluated(values, pull)


def _periodic(kernel, pairs):
    squares = pairs.base("apart")
    xp = namespace(squares)
    scale, period = float(np.squeeze(kernel.length_scale)), float(kernel.periodicity)
    angle = (math.pi / period) * xp.sqrt(squares)
    sine = xp.sin(angle)
    values = xp.exp(-2.0 * (sine / scale) ** 2)

    def pull(M):
        M = M * (4.0 / scale**2) * values * sine
        return _free(
            kernel,
            length_scale=lambda: xp.sum(M * sine),
            periodicity=lambda: xp.sum(M * angle * xp.cos(angle)),
        )

    return Evaluated(values, pull)


def _length_scale(kernel, X):
    scale = np.squeeze(np.asarray(kernel.length_scale, dtype=float))
    if scale.ndim > 1:
        raise ValueError("length_scale cannot be of dimension greater than 1")
    if scale.ndim == 1 and X.shape[1] != len(scale):
        raise ValueError(
            "Anisotropic kernel must have the same number of dimensions as data "
            f"({len(scale)}!={X.shape[1]})"
        )
    return scale


# ---------------------------------------------------------------- inner products, and others


def _inner(kernel, pairs):
    shift = float(kernel.sigma_0) ** 2

    def pull(M):
        return _free(kernel, sigma_0=lambda: 2.0 * shift * namespace(M).sum(M))

    return Evaluated(pairs.base("inner") + shift, pull)


def _pairwise(kernel, pairs):
    given = {**DEFAULTS, **(kernel.pairwise_kernels_kwargs or {})}
    gamma, shift, degree = float(kernel.gamma), given["coef0"], given["degree"]
    own = PairKernel.of(kernel.metric, gamma, shift, degree)
    base = pairs.base(own.base)
    flat = base[:, None] if base.ndim == 1 else base  # of the diagonal
    xp, values = namespace(base), own.of_base(flat, pairs.X.shape[1])
    values = xp.reshape(values, base.shape)

    def by_gamma():
        if own.name in ("rbf", "laplacian", "chi2"):
            return -gamma * base * values
        if own.name == "sigmoid":
            return gamma * base * (1.0 - values**2)
        if own.name in ("poly", "polynomial"):
            return degree * gamma * base * (gamma * base + shift) ** (degree - 1.0)
        return xp.zeros_like(base)

    return Evaluated(values, lambda M: _free(kernel, gamma=lambda: xp.sum(M * by_gamma())))


def _by_itself(kernel, pairs):
    """The result of the kernel's own function, in CPU memory."""
    home = place_of(pairs.X)
    if is_foreign(pairs.X):
        _warn_of_host(type(kernel).__name__, home, "the kernels of gpuml.gaussian_process.kernels")
    X, Y = (None if a is None else to_host(a) for a in (pairs.X, pairs.Y))
    if isinstance(pairs, Own):
        return Evaluated(move(np.asarray(kernel.diag(X), dtype=float), home), lambda M: [])

    def pull(M):
        _, by_theta = kernel(X, eval_gradient=True)
        found = np.einsum("ij,ijk->k", to_host(M), by_theta)
        xp = namespace(M)
        return [xp.asarray(each, dtype=xp.float64, device=device_of(M)) for each in found.tolist()]

    return Evaluated(move(np.asarray(kernel(X, Y), dtype=float), home), pull)


def _warn_of_host(name, home, instead):
    """Warn or raise, or neither, as the setting ``fallback`` says."""
    setting = current_settings().fallback
    text = (
        f"{name} is evaluated in CPU memory, for rows in {home}: gpuml has no function of arrays "
        f"for it. Use {instead}."
    )
    if setting == "error":
        raise FallbackError(f"{text} gpuml's setting fallback='error' does not allow it.")
    if setting == "warn":
        warnings.warn(text, FallbackWarning, stacklevel=level_of_user())


RULES: dict[type, Callable[[Any, Any], Evaluated]] = {
    sk.ConstantKernel: _constant,
    sk.DotProduct: _inner,
    sk.Exponentiation: _power,
    sk.ExpSineSquared: _periodic,
    sk.Matern: _stationary,
    sk.PairwiseKernel: _pairwise,
    sk.Product: _product,
    sk.RBF: _stationary,
    sk.RationalQuadratic: _rational,
    sk.Sum: _sum,
    sk.WhiteKernel: _white,
}
PARTS: dict[type, tuple[str, ...]] = {
    sk.Exponentiation: ("kernel",),
    sk.Product: ("k1", "k2"),
    sk.Sum: ("k1", "k2"),
}
OF_DISTANCES = (_stationary, _rational, _periodic)
