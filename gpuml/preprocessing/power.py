"""Power transformations of features towards a normal distribution, on the device of the rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brent, fminbound
from sklearn import preprocessing as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_foreign, move, namespace, place_of, to_host
from gpuml._arrays.ops import any_true
from gpuml._inputs.validation import check_images, check_rows
from gpuml.preprocessing._places import at_host, host_dtype
from gpuml.preprocessing._transformer import Transformer
from gpuml.preprocessing.standard import StandardScaler

EPS = float(np.finfo(np.float64).eps)
# Where the search for a power begins, and how exact it is, as in SciPy.
BRACKET, PRECISION = (-2.0, 2.0), 1.48e-8


class PowerTransformer(Transformer, sk.PowerTransformer):
    r"""Transform each feature by a power so that its distribution is closer to a normal one.

    With the power :math:`\lambda` of a feature, the Box-Cox transformation is

    .. math:: z = (x^\lambda - 1) / \lambda

    for positive values. The Yeo-Johnson transformation [1]_ is for all values: it is the same of
    x + 1 if x is not negative; otherwise it is the negative of the same of :math:`1 - x` with the
    power :math:`2 - \lambda`. `fit` finds :math:`\lambda` by maximum likelihood and leaves out nan.

    CuPy, torch and other arrays stay on their device; scikit-learn transforms data in CPU memory.

    Parameters
    ----------
    method : {"yeo-johnson", "box-cox"}, default="yeo-johnson"
        The transformation. "box-cox" needs positive values; others raise ValueError.
    standardize : bool, default=True
        Whether to scale the output to mean 0 and standard deviation 1.
    copy : bool, default=True
        Whether `transform` must not write to X. gpuml never does; scikit-learn's code may.

    Attributes
    ----------
    lambdas_ : array of shape (n_features,)
        Power of each feature, in the library, on the device and of the dtype of X.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    QuantileTransformer : Map quantiles to those of a given distribution.

    References
    ----------
    .. [1] I.-K. Yeo, R. A. Johnson, "A new family of power transformations to improve normality or
       symmetry", Biometrika 87 (2000).

    Examples
    --------
    >>> from gpuml.preprocessing import PowerTransformer
    >>> PowerTransformer().fit([[1.0, 2.0], [3.0, 2.0], [4.0, 5.0]]).lambdas_.round(3)
    array([ 1.387, -3.101])
    """

    lambdas_: Any
    _located_by = "lambdas_"

    def _fit_there(self, X, y=None):
        X = self._checked(check_rows(self, X, reset=True, allow_nan=True))
        xp, place = namespace(X), place_of(X)
        lambdas = [self._found(xp.asarray(X[:, j], copy=True)) for j in range(X.shape[1])]
        self.lambdas_ = xp.astype(move(np.asarray(lambdas), place), X.dtype)
        if self.standardize:
            self._scaler = StandardScaler().fit(self._powers(X))

    def fit_transform(self, X, y=None):
        """Fit the transformer, and transform the same rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        X_new : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.
        """
        return self.fit(X, y).transform(X)

    def _checked(self, X):
        xp = namespace(X)
        if self.method == "box-cox" and any_true(X <= 0, xp):
            raise ValueError(
                "The Box-Cox transformation can only be applied to strictly positive data"
            )
        return X

    def _found(self, x):
        """The power of one feature (n,)."""
        xp, dtype = namespace(x), host_dtype(x)
        x = xp.astype(x[~xp.isnan(x)], xp.float64)
        if x.shape[0] == 0:
            if self.method == "box-cox":
                raise ValueError("Column must not be all nan.")
            return 1.0
        if _is_constant(x):
            if self.method == "box-cox":
                raise ValueError("Data must not be constant.")
            return 1.0
        if self.method == "box-cox":
            return float(brent(_box_cox_fit(x), brack=BRACKET))
        return float(fminbound(_yeo_johnson_fit(x), *_safe_powers(x, dtype), xtol=PRECISION))

    def _powers(self, X):
        """Images before they are standardized."""
        xp = namespace(X)
        power = xp.astype(move(self.lambdas_, place_of(X)), X.dtype)
        if self.method == "box-cox":
            return _power(xp.log(X), power, xp)
        return _yeo_johnson(X, power, xp)

    def _transform_there(self, X):
        X = self._powers(self._checked(check_rows(self, X, reset=False, allow_nan=True)))
        if not self.standardize:
            return X
        mean, scale = self._mean_and_scale(X)
        return (X - mean) / scale

    def _mean_and_scale(self, X):
        # The scaler is scikit-learn's if it did the fit.
        xp, place = namespace(X), place_of(X)
        return [
            xp.astype(move(each, place), X.dtype)
            for each in (self._scaler.mean_, self._scaler.scale_)
        ]

    def inverse_transform(self, X):
        """Undo the transformation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.
        """
        check_is_fitted(self)
        X = as_array(X)
        if not is_foreign(X):
            return sk.PowerTransformer.inverse_transform(at_host(self), X)
        X = check_images(self, X, self.n_features_in_, allow_nan=True)
        if self.standardize:
            mean, scale = self._mean_and_scale(X)
            X = X * scale + mean
        xp = namespace(X)
        power = xp.astype(move(self.lambdas_, place_of(X)), X.dtype)
        if self.method == "box-cox":
            return xp.exp(_root(X, power, xp))
        positive = xp.maximum(X, xp.zeros_like(X))
        negative = xp.maximum(-X, xp.zeros_like(X))
        found = xp.expm1(_root(positive, power, xp)), -xp.expm1(_root(negative, 2.0 - power, xp))
        found = xp.where(X < 0, found[1], found[0])
        return xp.where(xp.isnan(X), X, found)


def _power(logs, power, xp):
    """``(exp(power logs) - 1) / power``, of a power of 0 the logarithms."""
    is_zero = xp.abs(power) < EPS
    safe = xp.where(is_zero, xp.ones_like(power), power)
    return xp.where(is_zero, logs, xp.expm1(safe * logs) / safe)


def _root(images, power, xp):
    """The logarithms from which `_power` makes these images."""
    is_zero = xp.abs(power) < EPS
    safe = xp.where(is_zero, xp.ones_like(power), power)
    return xp.where(is_zero, images, xp.log1p(safe * images) / safe)


def _yeo_johnson(X, power, xp):
    """Both branches of the transformation; nan stays."""
    logs = xp.log1p(xp.abs(X))
    positive, negative = _power(logs, power, xp), -_power(logs, 2.0 - power, xp)
    return xp.where(X < 0, negative, positive)


def _is_constant(x: Array) -> bool:
    """Whether values (n,) differ by no more than rounding, as scikit-learn has it."""
    xp, n = namespace(x), x.shape[0]
    mean = float(xp.mean(x))
    variance = float(xp.mean((x - mean) ** 2))
    return variance <= n * EPS * variance + (n * mean * EPS) ** 2


def _box_cox_fit(x: Array) -> Callable[[float], float]:
    """Minus the log-likelihood of a power, of positive values (n,)."""
    xp, n = namespace(x), x.shape[0]
    logs = xp.log(x)
    mean = float(xp.mean(logs))
    about = logs - mean  # so that no power is too large for a float

    def minus_likelihood(power: float) -> float:
        images = _power(about, xp.full_like(about[:1], power), xp)
        return n * (power * mean + 0.5 * _log_variance(images)) - (power - 1.0) * n * mean

    return minus_likelihood


def _yeo_johnson_fit(x: Array) -> Callable[[float], float]:
    """The same of values (n,) of any sign."""
    xp, n = namespace(x), x.shape[0]
    total = float(xp.sum(xp.sign(x) * xp.log1p(xp.abs(x))))

    def minus_likelihood(power: float) -> float:
        images = _yeo_johnson(x, xp.full_like(x[:1], power), xp)
        return 0.5 * n * _log_variance(images) - (power - 1.0) * total

    return minus_likelihood


def _safe_powers(x: Array, dtype: np.dtype) -> tuple[float, float]:
    """The powers, from the first to the second, whose images of values (n,) have a variance.

    SciPy's bounds: values up to 20 times the largest have images within half of the exponents of
    `dtype`.
    """
    xp, floats = namespace(x), np.finfo(dtype)
    low, high = float(xp.min(x)), float(xp.max(x))
    with np.errstate(divide="ignore"):
        longest = np.log1p(20 * max(abs(low), abs(high)))
    digits = np.log(floats.eps)
    least = (np.log(floats.tiny) - digits) / 2 / longest
    most = (np.log(floats.max) + digits) / 2 / longest
    if low >= 0:
        return least, most
    if high < 0:
        return 2 - most, 2 - least
    return max(2 - most, least), min(2 - least, most)


def _log_variance(x):
    xp = namespace(x)
    with np.errstate(all="ignore"):
        variance = float(to_host(xp.mean((x - xp.mean(x)) ** 2)))
    return float(np.log(variance)) if 0 < variance < float("inf") else float("inf")
