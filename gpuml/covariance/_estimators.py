"""Covariances of rows, without shrinkage, or with a given or estimated one."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn import covariance as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_array, move, namespace, place_of
from gpuml._inputs.validation import check_rows
from gpuml._sklearn import check_same_namespace
from gpuml.covariance._normal import Shrunk, location_of, moments_of, warn_of_one_row
from gpuml.decomposition._density import DensityEstimator
from gpuml.solvers.covariances import (
    Sample,
    ledoit_wolf_share,
    normal_likelihood,
    oas_share,
    pseudo_inverse,
)

NORMS = "Only spectral and frobenius norms are implemented"


class Covariance(DensityEstimator):
    """What the estimators of covariances share; a subclass defines `_share`."""

    multifit_score = "log_likelihood"

    def _share(self, sample: Sample, params: Mapping[str, Any]) -> tuple[float, dict[str, Any]]:
        """The share of shrinkage, and fitted attributes that only this class has."""
        raise NotImplementedError

    def _density(self, sample: Sample, params: Mapping[str, Any]) -> Shrunk:
        warn_of_one_row(sample)
        share, more = self._share(sample, params)
        return Shrunk(sample, params["assume_centered"], share, more, params["store_precision"])

    def get_precision(self):
        """The inverse of the covariance; the pseudo-inverse if it is singular.

        Returns
        -------
        precision_ : array of shape (n_features, n_features)
        """
        check_is_fitted(self)
        if self.store_precision:
            return self.precision_
        return _as(pseudo_inverse(_doubles(self.covariance_)), self.covariance_)

    def score(self, X_test, y=None):
        """Mean logarithm of the normal density over rows.

        Parameters
        ----------
        X_test : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        log_likelihood : float
            Minus infinity where the covariance is singular: scikit-learn's is then either that,
            or what rounding makes of it.
        """
        check_is_fitted(self)
        X_test = as_array(X_test)
        check_same_namespace(X_test, self, attribute="covariance_", method="score")
        sample = self._sample(X_test)
        place = place_of(sample.covariance)
        location, precision = (
            move(_doubles(a), place) for a in (self.location_, self.get_precision())
        )
        return np.float64(float(normal_likelihood(sample.about(location), precision)))

    def mahalanobis(self, X):
        """Squared Mahalanobis distances of rows from the location.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        distances : array of shape (n_samples,)
            In the library and on the device of X.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="covariance_", method="mahalanobis")
        X = check_rows(self, X, reset=False)
        location, precision = (_beside(a, X) for a in (self.location_, self.get_precision()))
        away = X - location
        return namespace(X).sum((away @ precision) * away, axis=1)

    def error_norm(self, comp_cov, norm="frobenius", scaling=True, squared=True):
        """How far the covariance is from another one.

        Parameters
        ----------
        comp_cov : array-like of shape (n_features, n_features)
        norm : {"frobenius", "spectral"}, default="frobenius"
            "frobenius" is ``tr(A'A)`` of the difference A, "spectral" the largest eigenvalue of
            ``A'A``.
        scaling : bool, default=True
            Whether it is divided by the number of features.
        squared : bool, default=True
            Whether it is left as it is; else its root is taken.

        Returns
        -------
        error : float
        """
        check_is_fitted(self)
        if norm not in ("frobenius", "spectral"):
            raise NotImplementedError(NORMS)
        own = _doubles(self.covariance_)
        other = as_array(comp_cov)
        if not is_array(other):
            other = namespace(own).asarray(other)
        error = _doubles(move(other, place_of(own))) - own
        xp = namespace(error)
        if norm == "frobenius":
            squares = np.float64(float(xp.sum(error**2)))
        else:
            squares = np.float64(float(xp.max(xp.linalg.svdvals(error)))) ** 2
        squares = squares / error.shape[0] if scaling else squares
        return squares if squared else squares**0.5


def _doubles(values: Array) -> Array:
    xp = namespace(values)
    return xp.astype(values, xp.float64, copy=False)


def _as(values: Array, like: Array) -> Array:
    return namespace(values).astype(values, like.dtype, copy=False)


def _beside(values: Array, like: Array) -> Array:
    """Fitted arrays where rows are, of their dtype."""
    return _as(move(as_array(values), place_of(like)), like)


class EmpiricalCovariance(Covariance, sk.EmpiricalCovariance):
    r"""Covariance estimated by maximum likelihood.

    With the mean m of n rows, it is

    .. math:: S = \frac{1}{n} \sum_i (x_i - m) (x_i - m)^\top .

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Sums over the rows are float64, made
    once. In a `gpuml.model_selection` search, held-out rows are scored from their second moments.

    Parameters
    ----------
    store_precision : bool, default=True
        Whether to compute `precision_`.
    assume_centered : bool, default=False
        Whether m is taken to be 0.

    Attributes
    ----------
    location_ : array of shape (n_features,)
        m. This and the arrays below are in the library, on the device and of the dtype of X.
    covariance_ : array of shape (n_features, n_features)
    precision_ : array of shape (n_features, n_features)
        Inverse of the covariance, or pseudo-inverse if it is singular; None without
        `store_precision`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LedoitWolf : Estimates how much to shrink the covariance.

    References
    ----------
    T. W. Anderson, "An introduction to multivariate statistical analysis", section 3.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.covariance import EmpiricalCovariance
    >>> X = load_iris().data
    >>> EmpiricalCovariance().fit(X).covariance_[:2, :2].round(2)
    array([[ 0.68, -0.04],
           [-0.04,  0.19]])
    """

    multifit_params = ("assume_centered", "store_precision")

    def _share(self, sample, params):
        return 0.0, {}


class ShrunkCovariance(Covariance, sk.ShrunkCovariance):
    r"""Covariance with a given shrinkage.

    Of the covariance S of rows with p features and a share s it makes

    .. math:: (1 - s) S + s \, \frac{\mathrm{tr}(S)}{p} I .

    Rows are read as by `EmpiricalCovariance`. In a `gpuml.model_selection` search, all shares on
    all splits come from one reading of them, and one decomposition for each training part.

    Parameters
    ----------
    store_precision : bool, default=True
        Whether to compute `precision_`.
    assume_centered : bool, default=False
        Whether to assume that the mean is 0, instead of estimating it.
    shrinkage : float in [0, 1], default=0.1
        s.

    Attributes
    ----------
    location_ : array of shape (n_features,)
        The mean. This and the arrays below are in the library, on the device and of the dtype of X.
    covariance_ : array of shape (n_features, n_features)
    precision_ : array of shape (n_features, n_features)
        Its inverse; None without `store_precision`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LedoitWolf : The share by what the rows say.

    References
    ----------
    O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices",
    Journal of Multivariate Analysis 88 (2004).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.covariance import ShrunkCovariance
    >>> from gpuml.model_selection import GridSearchCV
    >>> X = load_iris().data
    >>> search = GridSearchCV(ShrunkCovariance(), {"shrinkage": [0.0, 0.01, 0.1, 0.5]}).fit(X)
    >>> search.best_params_
    {'shrinkage': 0.01}
    """

    multifit_params = ("assume_centered", "shrinkage", "store_precision")

    def _share(self, sample, params):
        return float(params["shrinkage"]), {}


class LedoitWolf(Covariance, sk.LedoitWolf):
    r"""Covariance with Ledoit-Wolf shrinkage.

    For the covariance S of n rows with p features, the estimate is
    :math:`(1 - s) S + s \, \mathrm{tr}(S) I / p`, with

    .. math:: s = \min\Big(1, \frac{\frac{1}{n} \sum_i |x_i - m|^4 - |S|^2}
              {n (|S|^2 - \mathrm{tr}(S)^2 / p)}\Big) .

    Rows are read once, as by `EmpiricalCovariance`: fourth powers of lengths follow from the
    second moments of rows and their squared lengths.

    Parameters
    ----------
    store_precision : bool, default=True
        Whether to compute `precision_`.
    assume_centered : bool, default=False
        Whether the mean m is taken to be 0.
    block_size : int, default=1000
        Without effect: no product is as large as scikit-learn's.

    Attributes
    ----------
    location_ : array of shape (n_features,)
        m. This and the arrays below are in the library, on the device and of the dtype of X.
    covariance_ : array of shape (n_features, n_features)
    precision_ : array of shape (n_features, n_features)
        Its inverse; None without `store_precision`.
    shrinkage_ : float
        s.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    OAS : Another share, for rows that are normal.

    References
    ----------
    O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices",
    Journal of Multivariate Analysis 88 (2004).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.covariance import LedoitWolf
    >>> float(LedoitWolf().fit(load_iris().data).shrinkage_.round(4))
    0.0076
    """

    multifit_params = ("assume_centered", "block_size", "store_precision")
    _needs_lengths = True

    def _share(self, sample, params):
        centred = params["assume_centered"]
        fourth = sample.fourth(location_of(sample, centred))
        share = ledoit_wolf_share(sample.n_rows, moments_of(sample, centred), fourth)
        return share, {"shrinkage_": np.float64(share)}


class OAS(Covariance, sk.OAS):
    r"""Covariance with oracle approximating shrinkage (OAS), for normal data.

    For the covariance S of n rows with p features, the estimate is
    :math:`(1 - s) S + s \, \mathrm{tr}(S) I / p`, with

    .. math:: s = \min\Big(1, \frac{|S|^2 + \mathrm{tr}(S)^2}
              {(n + 1) (|S|^2 - \mathrm{tr}(S)^2 / p)}\Big) .

    Rows are read as by `EmpiricalCovariance`.

    Parameters
    ----------
    store_precision : bool, default=True
        Whether to compute `precision_`.
    assume_centered : bool, default=False
        Whether to assume that the mean is 0, instead of estimating it.

    Attributes
    ----------
    location_ : array of shape (n_features,)
        The mean. This and the arrays below are in the library, on the device and of the dtype of X.
    covariance_ : array of shape (n_features, n_features)
    precision_ : array of shape (n_features, n_features)
        Its inverse; None without `store_precision`.
    shrinkage_ : float
        s.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LedoitWolf : Shrinkage that does not assume normal data.

    References
    ----------
    Y. Chen, A. Wiesel, Y. C. Eldar, A. O. Hero, "Shrinkage algorithms for MMSE covariance
    estimation", IEEE Transactions on Signal Processing 58 (2010), without its factor 2 / p.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.covariance import OAS
    >>> float(OAS().fit(load_iris().data).shrinkage_.round(4))
    0.0202
    """

    multifit_params = ("assume_centered", "store_precision")

    def _share(self, sample, params):
        share = oas_share(sample.n_rows, moments_of(sample, params["assume_centered"]))
        return share, {"shrinkage_": np.float64(share)}
