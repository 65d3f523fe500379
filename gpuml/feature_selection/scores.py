"""Scores of features one by one, from sums over rows where the rows are."""

from typing import Any

import numpy as np
from scipy import special
from sklearn import feature_selection as sk
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length

from gpuml._arrays import Array, as_array, is_foreign, move, namespace, place_of, to_host
from gpuml._arrays.gathered import gathered
from gpuml._arrays.labels import Encoded, encode
from gpuml._arrays.ops import constant, zeros
from gpuml._inputs.validation import check_fit, check_rows, finite_target
from gpuml.designs import Coded
from gpuml.preprocessing._column_sums import column_moments
from gpuml.preprocessing._places import row_blocks

# A standard deviation of at most so many roundings of the mean is 0.
ROUNDINGS = 10.0


def r_regression(X, y, *, center=True, force_finite=True):
    r"""Pearson's correlation of each feature with the target.

    .. math:: r_j = \sum_i (x_{ij} - \bar x_j) (y_i - \bar y) / (n s_j s_y)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        CuPy, torch and other arrays stay on their device; scikit-learn does the work for data in
        CPU memory.
    y : array-like of shape (n_samples,)
    center : bool, default=True
        Whether to subtract the means of X and y.
    force_finite : bool, default=True
        Whether constant features get 0 instead of nan.

    Returns
    -------
    r : ndarray of shape (n_features,)
        In CPU memory.

    Raises
    ------
    ValueError
        For input that scikit-learn's function rejects.

    Examples
    --------
    >>> from gpuml.feature_selection import r_regression
    >>> r_regression([[1.0, 2.0], [2.0, 0.0], [3.0, -2.0]], [1.0, 2.0, 3.0])
    array([ 1., -1.])
    """
    X, y = as_array(X), gathered(y)
    if not is_foreign(X):
        return sk.r_regression(X, y, center=center, force_finite=force_finite)
    data = check_fit(_Scored(), X, y)
    return _correlations(data.X, data.y, center, force_finite)


def f_regression(X, y, *, center=True, force_finite=True):
    r"""F statistic of a linear regression of the target on each feature, and its p-value.

    .. math:: F_j = (n - 2)\, r_j^2 / (1 - r_j^2)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Handled as in `r_regression`.
    y : array-like of shape (n_samples,)
    center : bool, default=True
        Whether to subtract the means of X and y. If False, n - 1 replaces n - 2.
    force_finite : bool, default=True
        Whether constant features get 0 instead of nan, and features that determine y exactly get
        the largest float.

    Returns
    -------
    f_statistic, p_values : ndarrays of shape (n_features,)
        In CPU memory.

    Raises
    ------
    ValueError
        For input that scikit-learn's function rejects.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.feature_selection import f_regression
    >>> y = np.array([1.0, 3.0, 2.0, 4.0])
    >>> f_regression([[1.0], [2.0], [3.0], [4.0]], y)[0].round(3)
    array([3.556])
    """
    X, y = as_array(X), gathered(y)
    if not is_foreign(X):
        return sk.f_regression(X, y, center=center, force_finite=force_finite)
    data = check_fit(_Scored(), X, y)
    n_free = data.y.shape[0] - (2 if center else 1)
    squared = _correlations(data.X, data.y, center, force_finite) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        found = squared / (1 - squared) * n_free
    p_values = special.fdtrc(1, n_free, found)
    if force_finite:
        p_values[np.isnan(found)] = 1.0
        found[np.isnan(found)] = 0.0
        found[np.isinf(found)] = np.finfo(found.dtype).max
    return found, p_values


def f_classif(X, y):
    r"""F statistic of an analysis of variance of each feature between classes, and its p-value.

    .. math:: F_j = \frac{\sum_k n_k (\bar x_{jk} - \bar x_j)^2 / (K - 1)}
        {\sum_i (x_{ij} - \bar x_{j k_i})^2 / (n - K)}

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Handled as in `r_regression`.
    y : array-like of shape (n_samples,)
        Labels of K classes.

    Returns
    -------
    f_statistic, p_values : ndarrays of shape (n_features,)
        In CPU memory.

    Raises
    ------
    ValueError
        For input that scikit-learn's function rejects.

    Examples
    --------
    >>> from gpuml.feature_selection import f_classif
    >>> f_classif([[1.0], [2.0], [3.0], [5.0]], [0, 0, 1, 1])[0]
    array([5.])
    """
    X, y = as_array(X), gathered(y)
    if not is_foreign(X):
        return sk.f_classif(X, y)
    X, classes = _rows_and_classes(X, y)
    moments = column_moments(X, None)
    sums = to_host(_sums_by_class(X, classes, constant(moments.mean, like=X, xp=namespace(X))))
    between = np.sum(sums**2 / classes.counts[None, :], axis=1)
    within = np.maximum(_not_rounding(moments) - between, 0.0)
    n_between, n_within = classes.n_classes - 1, X.shape[0] - classes.n_classes
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (between / n_between) / (within / n_within)
    return found, special.fdtrc(n_between, n_within, found)


def chi2(X, y):
    r"""Chi-squared statistic and p-value of each feature, for features that are counts.

    .. math:: \chi^2_j = \sum_k (o_{jk} - e_{jk})^2 / e_{jk}

    where o is the sum of the feature over the rows of class k, and e the sum that would be expected
    if the feature did not depend on the class.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Counts, or other values that are not negative; handled as in `r_regression`.
    y : array-like of shape (n_samples,)
        Labels.

    Returns
    -------
    chi2, p_values : ndarrays of shape (n_features,)
        In CPU memory.

    Raises
    ------
    ValueError
        For negative values.

    Examples
    --------
    >>> from gpuml.feature_selection import chi2
    >>> chi2([[1.0, 2.0], [3.0, 2.0]], [0, 1])[0]
    array([1., 0.])
    """
    X, y = as_array(X), gathered(y)
    if not is_foreign(X):
        return sk.chi2(X, y)
    X, classes = _rows_and_classes(X, y)
    if bool(namespace(X).any(X < 0)):
        raise ValueError("Input X must be non-negative.")
    observed = to_host(_sums_by_class(X, classes))
    share = classes.counts / classes.counts.sum()
    expected = observed.sum(axis=1)[:, None] * share[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.sum((observed - expected) ** 2 / expected, axis=1)
    return found, special.chdtrc(classes.n_classes - 1, found)


# scikit-learn's functions, and gpuml's for rows on a device.
OURS = {
    sk.r_regression: r_regression,
    sk.f_regression: f_regression,
    sk.f_classif: f_classif,
    sk.chi2: chi2,
}


class _Scored(BaseEstimator):
    """Whom the checks of rows are made for."""

    n_features_in_: int


def _correlations(X: Array, y: Array, center: bool, force_finite: bool) -> np.ndarray:
    xp = namespace(X)
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
    y = xp.astype(y, xp.float64)
    moments, mean = column_moments(X, None), zeros((X.shape[1],), like=X, xp=xp)
    squares = _not_rounding(moments)
    if center:
        y = y - xp.mean(y)
        mean = constant(moments.mean, like=X, xp=xp)
    else:
        squares = moments.squares + moments.count * moments.mean**2
    products = xp.zeros_like(mean)
    for rows in row_blocks(X, 16 * X.shape[1]):
        products = products + y[rows] @ (X[rows, ...] - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = to_host(products) / np.sqrt(squares) / np.sqrt(float(xp.sum(y * y)))
    if force_finite:
        found[~np.isfinite(found)] = 0.0
    return found


def _not_rounding(moments: Any) -> np.ndarray:
    """Sums of squares about the mean; 0 for features that are constant up to rounding."""
    bound = moments.count * (ROUNDINGS * np.finfo(np.float64).eps * np.abs(moments.mean)) ** 2
    return np.where(moments.squares <= bound, 0.0, moments.squares)


def _rows_and_classes(X: Any, y: Any) -> tuple[Array, Encoded]:
    X, labels = check_rows(_Scored(), X, reset=True), finite_target(_Scored(), y)
    check_consistent_length(X, labels)
    if labels.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {labels.shape} instead.")
    return X, encode(labels)


def _sums_by_class(X: Array, classes: Encoded, shift: Any = 0.0) -> Array:
    """Sums (p, K) of rows less a shift, over the rows of each class."""
    xp, place = namespace(X), place_of(X)
    codes = move(classes.codes, place)
    total: Any = 0.0
    for rows in row_blocks(X, 16 * X.shape[1]):
        block = xp.astype(X[rows, ...], xp.float64) - shift
        total = total + Coded((codes[rows],), (classes.n_classes,), xp.float64).rmatvec(block)
    return total
