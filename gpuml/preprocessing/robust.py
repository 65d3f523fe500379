"""Scaling by median and quantiles, on the device of the rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from sklearn import preprocessing as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_foreign, move, namespace, place_of
from gpuml._inputs.validation import check_images, check_rows
from gpuml.preprocessing._column_extrema import not_zero
from gpuml.preprocessing._fills import column_quantiles, count_missing, is_nan
from gpuml.preprocessing._places import at_host
from gpuml.preprocessing._scaler import beside
from gpuml.preprocessing._transformer import Transformer


class RobustScaler(Transformer, sk.RobustScaler):
    r"""Subtract the median of each feature, and divide by the distance of two quantiles.

    .. math:: z_j = (x_j - q_j(1/2)) / (q_j(b) - q_j(a))

    where q are quantiles of the values that are not nan. CuPy, torch and other arrays stay on their
    device, where columns are sorted; scikit-learn does the work for data in CPU memory, including
    sparse matrices.

    Parameters
    ----------
    with_centering : bool, default=True
        Whether to subtract the median.
    with_scaling : bool, default=True
        Whether to divide by the distance of the two quantiles.
    quantile_range : tuple (a, b), 0 <= a <= b <= 100, default=(25.0, 75.0)
        The two quantiles, in percent.
    copy : bool, default=True
        Whether `transform` must not write to X. gpuml never does; scikit-learn's code may.
    unit_variance : bool, default=False
        Whether to rescale so that normally distributed features get variance 1.

    Attributes
    ----------
    center_ : array of shape (n_features,) or None
        Medians. All arrays are in the library, on the device and of the dtype of X.
    scale_ : array of shape (n_features,) or None
        Distances of the quantiles; one within rounding of 0 counts as 1.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    StandardScaler : Scale by mean and standard deviation.

    Examples
    --------
    >>> from gpuml.preprocessing import RobustScaler
    >>> RobustScaler().fit_transform([[1.0], [2.0], [3.0], [100.0], [4.0]])
    array([[-1. ],
           [-0.5],
           [ 0. ],
           [48.5],
           [ 0.5]])
    """

    center_: Any
    scale_: Any

    def _fit_there(self, X, y=None):
        X = check_rows(self, X, reset=True, allow_nan=True)
        seen = X.shape[0] - count_missing(X, is_nan)
        self._fit_quantiles(lambda levels: column_quantiles(X, is_nan, seen, levels), seen)

    def _fit_quantiles(self, quantiles: Callable[[list[float]], Array], seen: np.ndarray) -> None:
        """Fit from quantiles (q, p), of columns with so many values (p,)."""
        low, high = self.quantile_range
        if not 0 <= low <= high <= 100:
            raise ValueError(f"Invalid quantile range: {self.quantile_range}")
        found = quantiles([0.5, low / 100, high / 100])
        self.center_ = _of_seen(found[0, :], seen) if self.with_centering else None
        self.scale_ = None
        if self.with_scaling:
            self.scale_ = _of_seen(not_zero(found[2, :] - found[1, :]), seen)
            if self.unit_variance:
                self.scale_ /= float(np.diff(stats.norm.ppf([low / 100, high / 100]))[0])

    def _transform_there(self, X):
        X = check_rows(self, X, reset=False, allow_nan=True)
        X = (
            X - beside(self.center_, X)
            if self.with_centering
            else namespace(X).asarray(X, copy=True)
        )
        if self.with_scaling:
            X /= beside(self.scale_, X)
        return X

    def inverse_transform(self, X):
        """Undo the scaling.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.
        """
        check_is_fitted(self)
        X = as_array(X)
        if not is_foreign(X):
            return sk.RobustScaler.inverse_transform(at_host(self), X)
        X = check_images(self, X, self.n_features_in_, allow_nan=True)
        if self.with_scaling:
            X = X * beside(self.scale_, X)
        if self.with_centering:
            X = X + beside(self.center_, X)
        return X if self.with_centering or self.with_scaling else namespace(X).asarray(X, copy=True)


def _of_seen(values: Array, seen: np.ndarray) -> Array:
    """The numbers of each column, nan for columns without values."""
    if (seen > 0).all():
        return values
    nan = namespace(values).full_like(values, float("nan"))
    return namespace(values).where(move(seen == 0, place_of(values)), nan, values)
