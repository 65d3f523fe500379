"""Covariances of rows by functions, as scikit-learn names them."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array

from gpuml._arrays import Array, as_array, is_foreign, move, namespace, place_of
from gpuml._sklearn import Interval, validate_parameter_constraints
from gpuml.covariance._estimators import OAS, EmpiricalCovariance, LedoitWolf
from gpuml.solvers.covariances import normal_likelihood, shrunk

SHARE = {"shrinkage": [Interval(Real, 0, 1, closed="both")]}


def empirical_covariance(X: Any, *, assume_centered: bool = False) -> Array:
    """Covariance of the rows of X by maximum likelihood.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        One axis stands for one row.
    assume_centered : bool, default=False
        Whether to assume that the mean is 0, instead of estimating it.

    Returns
    -------
    covariance : array of shape (n_features, n_features)
        In the library, on the device and of the dtype of X.

    Raises
    ------
    ValueError
        If X contains NaN or infinity (scikit-learn returns NaN).

    Examples
    --------
    >>> from gpuml.covariance import empirical_covariance
    >>> empirical_covariance([[1.0, 1.0], [0.0, 0.0]])
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """
    X = as_array(X)
    if not hasattr(X, "ndim"):
        X = check_array(X, ensure_2d=False, dtype="numeric")
    X = X[None, :] if X.ndim == 1 else X
    model = EmpiricalCovariance(store_precision=False, assume_centered=assume_centered)
    return model.fit(X).covariance_


def shrunk_covariance(emp_cov: Any, shrinkage: float = 0.1) -> Array:
    """Covariances, shrunk towards the multiple of the identity with the same trace.

    Parameters
    ----------
    emp_cov : array-like of shape (..., n_features, n_features)
    shrinkage : float in [0, 1], default=0.1
        The share s of ``(1 - s) S + s tr(S) I / p``.

    Returns
    -------
    shrunk_cov : array of shape (..., n_features, n_features)
        In the library and on the device of `emp_cov`.

    Raises
    ------
    ValueError
        For a share that is not in [0, 1], and for matrices that are not square.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.covariance import shrunk_covariance
    >>> shrunk_covariance(np.array([[1.0, 0.5], [0.5, 3.0]]), 0.5)
    array([[1.5 , 0.25],
           [0.25, 2.5 ]])
    """
    validate_parameter_constraints(SHARE, {"shrinkage": shrinkage}, "shrunk_covariance")
    moments = _matrix(emp_cov)
    if moments.shape[-1] != moments.shape[-2]:
        raise ValueError(f"emp_cov must be square, got an array of shape {tuple(moments.shape)}.")
    return shrunk(moments, shrinkage)


def ledoit_wolf(
    X: Any, *, assume_centered: bool = False, block_size: int = 1000
) -> tuple[Array, float]:
    """Covariance, with the shrinkage of `LedoitWolf`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    assume_centered : bool, default=False
        Whether to assume that the mean is 0, instead of estimating it.
    block_size : int, default=1000
        Without effect.

    Returns
    -------
    shrunk_cov : array of shape (n_features, n_features)
        In the library, on the device and of the dtype of X.
    shrinkage : float

    Raises
    ------
    ValueError
        If X contains NaN or infinity.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.covariance import ledoit_wolf
    >>> print(round(ledoit_wolf(load_iris().data)[1], 4))
    0.0076
    """
    model = _ledoit_wolf(X, assume_centered, block_size)
    return model.covariance_, model.shrinkage_


def ledoit_wolf_shrinkage(X: Any, assume_centered: bool = False, block_size: int = 1000) -> float:
    """Shrinkage of `LedoitWolf`, between 0 and 1.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    assume_centered : bool, default=False
        Whether to assume that the mean is 0, instead of estimating it.
    block_size : int, default=1000
        Without effect.

    Returns
    -------
    shrinkage : float

    Raises
    ------
    ValueError
        If X contains NaN or infinity.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.covariance import ledoit_wolf_shrinkage
    >>> float(ledoit_wolf_shrinkage(load_iris().data).round(4))
    0.0076
    """
    return _ledoit_wolf(X, assume_centered, block_size).shrinkage_


def oas(X: Any, *, assume_centered: bool = False) -> tuple[Array, float]:
    """Covariance, with the shrinkage of `OAS`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    assume_centered : bool, default=False
        Whether to assume that the mean is 0, instead of estimating it.

    Returns
    -------
    shrunk_cov : array of shape (n_features, n_features)
        In the library, on the device and of the dtype of X.
    shrinkage : float

    Raises
    ------
    ValueError
        If X contains NaN or infinity.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.covariance import oas
    >>> print(round(oas(load_iris().data)[1], 4))
    0.0202
    """
    model = OAS(store_precision=False, assume_centered=assume_centered).fit(X)
    return model.covariance_, model.shrinkage_


def log_likelihood(emp_cov: Any, precision: Any) -> float:
    """Mean log likelihood of a normal density, from second moments about its location.

    Parameters
    ----------
    emp_cov : array-like of shape (n_features, n_features)
        The second moments.
    precision : array-like of shape (n_features, n_features)
        Of the density.

    Returns
    -------
    log_likelihood : float
        Minus infinity for a singular precision.

    Raises
    ------
    ValueError
        If the shapes do not go together.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.covariance import log_likelihood
    >>> float(log_likelihood(np.eye(2), np.eye(2)).round(4))
    -2.8379
    """
    precision = _matrix(precision)
    moments = move(_matrix(emp_cov), place_of(precision))
    if moments.shape != precision.shape:
        raise ValueError(
            f"emp_cov of shape {tuple(moments.shape)} and precision of shape "
            f"{tuple(precision.shape)} do not go together."
        )
    return np.float64(float(normal_likelihood(moments, precision)))


def _ledoit_wolf(X, assume_centered, block_size):
    model = LedoitWolf(
        store_precision=False, assume_centered=assume_centered, block_size=block_size
    )
    return model.fit(X)


def _matrix(values: Any) -> Array:
    """Matrices (..., p, p) of floats."""
    values = as_array(values)
    if not is_foreign(values):
        return check_array(values, allow_nd=True, dtype=["float64", "float32"])
    xp = namespace(values)
    return values if xp.isdtype(values.dtype, "real floating") else xp.astype(values, xp.float64)
