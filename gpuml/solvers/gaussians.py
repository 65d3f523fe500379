r"""Normal densities of the components of mixtures.

A component with mean m and precision :math:`P = U U^\top`, U upper triangular, has the density

.. math:: \log N(x) = \tfrac12 \big(\log |P| - p \log 2 \pi - |U^\top (x - m)|^2\big) .

Covariances are of one of four types: "full" (k, p, p), one matrix "tied" (p, p) of all components,
"diag" (k, p), or "spherical" (k,).
"""

from math import log, pi

import numpy as np

from gpuml._arrays import Array, device_of, namespace, place_of
from gpuml._arrays.cholesky import cholesky_or_none
from gpuml._arrays.ops import all_true
from gpuml._arrays.threads import threads_for_order

# Workspace for differences of rows to a mean.
BLOCK_BYTES, HOST_BLOCK_BYTES = 2**27, 2**21
ILL_DEFINED = (
    "Fitting the mixture model failed because some components have ill-defined empirical "
    "covariance (for instance caused by singleton or collapsed samples). Try to decrease the "
    "number of components, increase reg_covar, or scale the input data."
)


def roots(matrices: Array) -> tuple[Array, np.ndarray]:
    """Cholesky factors L (K, p, p), and which matrices have one (K,); of others it is 1."""
    xp = namespace(matrices)
    with threads_for_order(matrices.shape[-1]):
        found = cholesky_or_none(matrices)
        if found is not None:
            return found, np.ones(matrices.shape[0], dtype=bool)
        each = [cholesky_or_none(matrices[k, ...]) for k in range(matrices.shape[0])]
    eye = xp.eye(matrices.shape[-1], dtype=matrices.dtype, device=device_of(matrices))
    good = np.asarray([factor is not None for factor in each])
    return xp.stack([eye if factor is None else factor for factor in each]), good


def upper_factors(lower: Array) -> Array:
    """U (K, p, p) of precisions, from Cholesky factors L (K, p, p) of covariances."""
    xp = namespace(lower)
    with threads_for_order(lower.shape[-1]):
        return xp.permute_dims(xp.linalg.inv(lower), (0, 2, 1))


def precision_factors(covariances: Array, kind: str) -> Array:
    """U, in the shape of the covariances.

    Raises
    ------
    ValueError
        If a covariance is not positive definite.
    """
    xp = namespace(covariances)
    if kind in ("diag", "spherical"):
        if not all_true(covariances > 0, xp):
            raise ValueError(ILL_DEFINED)
        return 1.0 / xp.sqrt(covariances)
    lower, good = roots(covariances[None, ...] if kind == "tied" else covariances)
    if not good.all():
        raise ValueError(ILL_DEFINED)
    found = upper_factors(lower)
    return found[0, ...] if kind == "tied" else found


def precisions_of(factors: Array, kind: str) -> Array:
    """P, in the shape of the covariances."""
    return (
        factors**2
        if kind in ("diag", "spherical")
        else factors @ namespace(factors).matrix_transpose(factors)
    )


def factors_of_precisions(precisions: Array, kind: str) -> Array:
    """U of precisions that are given.

    Reversed in rows and columns, the lower triangular factor of a matrix is an upper triangular
    one of the reversed matrix.
    """
    xp = namespace(precisions)
    if kind in ("diag", "spherical"):
        return xp.sqrt(precisions)
    return xp.flip(xp.linalg.cholesky(xp.flip(precisions, axis=(-2, -1))), axis=(-2, -1))


def log_determinants(factors: Array, kind: str, n_features: int) -> Array:
    """``log |U|`` (k,), or () of one matrix."""
    xp = namespace(factors)
    if kind == "spherical":
        return n_features * xp.log(factors)
    values = factors if kind == "diag" else xp.linalg.diagonal(factors)
    return xp.sum(xp.log(values), axis=-1)


def log_joints(X: Array, weights: Array, means: Array, factors: Array, kind: str) -> Array:
    """``log w_k + log N_k(x)`` (n, k) of rows X (n, p), in float64.

    Differences come before products, so that no digits are lost, wherever the means are.
    """
    xp, (n, p) = namespace(X), X.shape
    constants = log_determinants(factors, kind, p) - 0.5 * p * log(2 * pi)
    with np.errstate(divide="ignore"):  # a weight may be 0
        constants = constants + xp.log(weights)
    size = HOST_BLOCK_BYTES if place_of(X).is_host else BLOCK_BYTES
    step = max(1, size // (8 * p))
    found = []
    for start in range(0, max(n, 1), step):
        rows = xp.astype(X[start : min(start + step, n), :], xp.float64, copy=False)
        columns = []
        for k in range(means.shape[0]):
            own = factors if kind == "tied" else factors[k, ...]
            away = rows - means[k, :]
            away = away * own if kind in ("diag", "spherical") else away @ own
            columns.append(xp.sum(away * away, axis=1))
        found.append(constants - 0.5 * xp.stack(columns, axis=1))
    return xp.concat(found)


def log_densities(joints: Array) -> Array:
    """Logarithms (n,) of the densities of mixtures, from joint ones (n, k)."""
    xp = namespace(joints)
    most = xp.max(joints, axis=1, keepdims=True)
    return most[:, 0] + xp.log(xp.sum(xp.exp(joints - most), axis=1))
