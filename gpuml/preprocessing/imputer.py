"""Missing values filled with a statistic of their column, on the device of the rows."""

import numbers
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn import impute as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    Array,
    as_array,
    is_array,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import check_images, check_rows
from gpuml._sklearn import is_pandas_na, is_scalar_nan
from gpuml.exceptions import level_of_user
from gpuml.preprocessing._fills import (
    column_means,
    column_medians,
    column_modes,
    count_missing,
    per_column,
)
from gpuml.preprocessing._places import at_host, host_dtype
from gpuml.preprocessing._transformer import Transformer


class SimpleImputer(Transformer, sk.SimpleImputer):
    """Fill missing values with the mean, median, most frequent value or a constant.

    CuPy, torch and other arrays stay on their device; scikit-learn transforms data in CPU memory,
    including strings and sparse matrices.

    Parameters
    ----------
    missing_values : number, nan, str, None or pandas.NA, default=nan
        The value that counts as missing. For device data: nan (or pandas.NA) or a number.
    strategy : {"mean", "median", "most_frequent", "constant"} or callable, default="mean"
        The statistic of the present values that fills missing ones. If several values are most
        frequent, the smallest is used. A callable gets the present values of a column as a 1-D
        array in the library of X.
    fill_value : number or str, default=None
        The value for "constant"; None is 0 for numbers, and "missing_value" otherwise.
    copy : bool, default=True
        Whether `transform` must not write to X. gpuml never does; scikit-learn's code may.
    add_indicator : bool, default=False
        Whether `transform` appends, for each feature with missing values in `fit`, a column that
        is 1 where the value was missing.
    keep_empty_features : bool, default=False
        Whether to keep features without any value in `fit`, and fill them with 0 (or `fill_value`).

    Attributes
    ----------
    statistics_ : array of shape (n_features,)
        The fill value of each feature; nan for features that are left out. It is in the library and
        on the device of X, in the dtype of X for "median", and float64 otherwise (in CPU memory:
        object for "constant").
    indicator_ : sklearn.impute.MissingIndicator or None
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.impute import SimpleImputer
    >>> SimpleImputer().fit_transform([[1.0], [np.nan], [3.0]])
    array([[1.],
           [2.],
           [3.]])
    """

    _needs_numbers = False
    _located_by = "statistics_"

    def _naming(self, X):
        """Errors name columns where the statistic is one of numbers."""
        return naming_columns(self, X) if self.strategy in ("mean", "median") else nullcontext()

    def _fit_there(self, X, y=None):
        X = self._check_foreign(X, reset=True)
        n_missing = count_missing(X, self._is_missing)
        self._fit_indicator((n_missing > 0)[None, :])
        self._fit_dtype = self._fill_dtype = host_dtype(X)
        self.statistics_ = self._statistics(X, X.shape[0] - n_missing)

    def _check_foreign(self, X, *, reset):
        check_numeric(self.missing_values)
        keep_dtype = self.strategy in ("most_frequent", "constant")
        X = check_rows(
            self, X, reset=reset, allow_nan=is_nan(self.missing_values), keep_dtype=keep_dtype
        )
        xp = namespace(X)
        if xp.isdtype(X.dtype, "bool"):
            raise ValueError(
                "SimpleImputer does not support data with dtype bool. Please provide a numeric "
                "array (with a floating point or integer dtype)."
            )
        if self.strategy == "constant":
            given = self._fill_dtype if not reset else type(self.fill_value)
            is_default = reset and self.fill_value is None
            if not (is_default or np.can_cast(given, host_dtype(X), casting="same_kind")):
                raise ValueError(
                    f"fill_value={self.fill_value!r} (of type {given!r}) cannot be cast to the "
                    f"input data that is {X.dtype!r}. Make sure that both are of the same kind."
                )
        return X

    def _is_missing(self, X: Array) -> Array:
        """Mask of the missing values of device data."""
        return mask_of(X, self.missing_values)

    def _statistics(self, X: Array, seen: np.ndarray) -> Array:
        xp, place = namespace(X), place_of(X)
        if self.strategy in ("mean", "median"):
            statistic = column_means if self.strategy == "mean" else column_medians
            found = statistic(X, self._is_missing, seen)
        elif self.strategy == "constant":
            value = 0.0 if self.fill_value is None else float(self.fill_value)
            found = move(np.full(X.shape[1], value), place)
        elif self.strategy == "most_frequent":
            found = move(column_modes(X, self._is_missing), place)
        else:
            found = move(per_column(X, self._is_missing, self.strategy), place)
        if (seen > 0).all() or callable(self.strategy):
            return found
        if self.keep_empty_features and self.strategy == "constant":
            return found
        empty = 0.0 if self.keep_empty_features else float("nan")
        return xp.where(move(seen > 0, place), found, xp.full_like(found, empty))

    def _transform_there(self, X):
        X = self._check_foreign(X, reset=False)
        xp, place = namespace(X), place_of(X)
        missing = self._is_missing(X)
        statistics = _numbers(self.statistics_)
        kept = self._kept(statistics)
        filled = X if len(kept) == X.shape[1] else xp.take(X, move(kept, place), axis=1)
        hole = missing if len(kept) == X.shape[1] else xp.take(missing, move(kept, place), axis=1)
        fill = xp.astype(move(statistics[kept], place), X.dtype)
        filled = xp.where(hole, fill, filled)
        if self.add_indicator:
            flagged = xp.take(missing, move(self.indicator_.features_, place), axis=1)
            filled = xp.concat([filled, xp.astype(flagged, X.dtype)], axis=1)
        return filled

    def _kept(self, statistics: np.ndarray) -> np.ndarray:
        """Features that `transform` gives; it warns of others."""
        if self.keep_empty_features or not np.isnan(statistics).any():
            return np.arange(len(statistics))
        left_out = np.flatnonzero(np.isnan(statistics))
        if hasattr(self, "feature_names_in_"):
            left_out = self.feature_names_in_[left_out]
        warnings.warn(
            f"Skipping features without any observed values: {left_out}. At least one non-missing "
            f"value is needed for imputation with strategy='{self.strategy}'.",
            stacklevel=level_of_user(),
        )
        return np.flatnonzero(~np.isnan(statistics))

    def inverse_transform(self, X):
        """Put missing values back where the indicator says that they were.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)
            As `transform` gives it with ``add_indicator=True``.

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library and on the device of X. Features that were left out are missing where the
            indicator says so, and 0 elsewhere.
        """
        check_is_fitted(self)
        X = as_array(X)
        at_home = isinstance(X, np.ndarray)
        if not (self.add_indicator and (at_home or is_foreign(X))):
            return sk.SimpleImputer.inverse_transform(at_host(self), X)
        # scikit-learn's confuses columns that have no value in these rows with those without any in
        # `fit`, and all columns after them.
        X = X.astype(np.float64) if at_home else X
        statistics = to_host(self.statistics_)
        p, features = len(statistics), self.indicator_.features_
        there = [self.keep_empty_features or not is_scalar_nan(each) for each in statistics]
        kept = np.flatnonzero(there)
        n_columns = len(kept) + len(features)
        X = check_images(self, X, n_columns, allow_nan=True, keep_dtype=True)
        xp, place = namespace(X), place_of(X)
        # Columns are put in place by their number; what has none gets the column of zeros.
        with_zero = xp.concat([X, xp.zeros_like(X[:, :1])], axis=1)
        value_of, flag_of = np.full(p, n_columns), np.full(p, n_columns)
        value_of[kept] = np.arange(len(kept))
        flag_of[features] = len(kept) + np.arange(len(features))
        values = xp.take(with_zero, move(value_of, place), axis=1)
        flags = xp.take(with_zero, move(flag_of, place), axis=1) != 0
        if not is_nan(self.missing_values):
            return xp.where(flags, xp.full_like(values, self.missing_values), values)
        if not xp.isdtype(values.dtype, "real floating"):
            values = xp.astype(values, xp.float64)
        return xp.where(flags, xp.full_like(values, float("nan")), values)

    def get_feature_names_out(self, input_features=None):
        """Names of the columns that `transform` gives.

        Parameters
        ----------
        input_features : array-like of str, default=None

        Returns
        -------
        feature_names_out : ndarray of str
        """
        return sk.SimpleImputer.get_feature_names_out(at_host(self), input_features)


def mask_of(X: Array, missing_values: Any) -> Array:
    """A mask of missing values in data on a device; nan or a number marks them."""
    xp = namespace(X)
    is_integer = xp.isdtype(X.dtype, "integral")
    placeholder = None if is_nan(missing_values) else float(missing_values)
    if is_integer and (placeholder is None or not placeholder.is_integer()):
        return xp.zeros_like(X, dtype=xp.bool)
    if placeholder is None:
        return xp.isnan(X)
    return int(missing_values) == X if is_integer else placeholder == X


def is_nan(missing_values: Any) -> bool:
    """Whether nan, perhaps pandas's, marks missing values."""
    return is_pandas_na(missing_values) or is_scalar_nan(missing_values)


def check_numeric(missing_values: Any) -> None:
    """Refuse what no device data can hold."""
    if not (is_pandas_na(missing_values) or isinstance(missing_values, numbers.Real)):
        raise ValueError(
            "'X' and 'missing_values' types are expected to be both numerical. Got device data "
            f"and type(missing_values)={type(missing_values)}."
        )


def _numbers(statistics: Any) -> np.ndarray:
    """Statistics as NumPy numbers: of data in CPU memory, scikit-learn's may be objects."""
    host = to_host(statistics) if is_array(statistics) else np.asarray(statistics)
    return host.astype(np.float64) if host.dtype == object else host
