"""Scaling by the smallest and the largest value of each feature, on the device of the rows."""

from typing import Any, ClassVar

from sklearn import preprocessing as sk

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import clipped
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._column_extrema import (
    column_extrema,
    max_abs,
    not_zero,
    of_both,
    range_map,
)
from gpuml.preprocessing._scaler import Scaler, beside, diagonal_step
from gpuml.solvers.affine import Parts


class _ByExtrema(Scaler):
    """A scaler that depends only on extrema.

    A class has `_found(low, high)`, the fitted arrays, for extrema (p,) or (S, p); `_extrema()` of
    the rows so far; `_map(found)`, factor and offset; and `_scaled(X)`.
    """

    affine_needs_extrema = True
    _located_by: ClassVar[str] = "scale_"

    clip: bool
    n_samples_seen_: int

    def _update(self, X, first, weight=None):
        low, high = column_extrema(self, X)
        n_before = 0
        if not first:
            before = self._extrema()
            low = of_both(before[0], low, smallest=True)
            high = of_both(before[1], high, smallest=False)
            n_before = self.n_samples_seen_
        self.__dict__.update(self._found(low, high), n_samples_seen_=n_before + X.shape[0])

    def _transform_there(self, X):
        return self._scaled(check_rows(self, X, reset=False, allow_nan=True))

    def affine_obstacle(self, X: Any) -> str | None:
        """Why extrema do not tell the map: of dense rows they do, where nothing is clipped."""
        return "clip=True" if self.clip else super().affine_obstacle(X)

    def _known(self, parts: Parts) -> tuple[Array, Array]:
        """Extrema (S, p) of the parts, in the dtype of X, as in single fits."""
        if parts.extrema is None:
            raise ValueError("Extrema of features are not known after a step that mixes features.")
        low, high = parts.extrema()
        xp = namespace(low)
        dtype = getattr(xp, str(parts.batch.dtype).rpartition(".")[2])
        return xp.astype(low, dtype), xp.astype(high, dtype)

    def _step(self, parts, low, high):
        found = self._found(low, high)
        factor, offset = self._map(found)
        return diagonal_step(parts, factor, offset, found, parts.n_rows)


class MinMaxScaler(_ByExtrema, sk.MinMaxScaler):
    r"""Scale each feature to a given range.

    .. math:: z_j = a + (b - a) (x_j - \min_i x_{ij}) / (\max_i x_{ij} - \min_i x_{ij})

    Minima and maxima leave out nan. CuPy, torch and other arrays stay on their device; scikit-learn
    does the work for data in CPU memory.

    Parameters
    ----------
    feature_range : tuple (a, b), default=(0, 1)
    copy : bool, default=True
        Whether `transform` must not write to X. gpuml never does; scikit-learn's code may.
    clip : bool, default=False
        Whether `transform` clips values outside the range, which later rows may have.

    Attributes
    ----------
    min_ : array of shape (n_features,)
        ``z = x scale_ + min_``. All arrays are in the library, on the device and of the dtype of X.
    scale_ : array of shape (n_features,)
        ``(b - a) / data_range_``; a range within rounding of 0 counts as 1.
    data_min_, data_max_, data_range_ : arrays of shape (n_features,)
    n_samples_seen_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    MaxAbsScaler : Scale by the largest absolute value, without a shift.
    StandardScaler : Scale by mean and standard deviation.

    Examples
    --------
    >>> from gpuml.preprocessing import MinMaxScaler
    >>> MinMaxScaler().fit_transform([[0.0], [1.0], [4.0]])
    array([[0.  ],
           [0.25],
           [1.  ]])
    """

    affine_params = ("feature_range",)

    data_min_: Array
    data_max_: Array

    def _extrema(self):
        return self.data_min_, self.data_max_

    def _found(self, low, high):
        scale, offset = range_map(low, high, self.feature_range)
        extrema = {"data_min_": low, "data_max_": high, "data_range_": high - low}
        return {"scale_": scale, "min_": offset, **extrema}

    def _map(self, found):
        return found["scale_"], found["min_"]

    def _scaled(self, X):
        X = X * beside(self.scale_, X)
        X += beside(self.min_, X)
        return clipped(X, *map(float, self.feature_range)) if self.clip else X

    def _undone(self, X):
        X = X - beside(self.min_, X)
        X /= beside(self.scale_, X)
        return X


class MaxAbsScaler(_ByExtrema, sk.MaxAbsScaler):
    r"""Divide each feature by its largest absolute value, ``max_i |x_ij|``.

    Zeros stay zeros. Arrays of CuPy, torch and other libraries are transformed on their device;
    scikit-learn transforms data in CPU memory, sparse rows included.

    Parameters
    ----------
    copy : bool, default=True
        Whether `transform` must not write to X. gpuml never does; scikit-learn's code may.
    clip : bool, default=False
        Whether values of later rows outside of [-1, 1] become its ends.

    Attributes
    ----------
    scale_ : array of shape (n_features,)
        What features are divided by: `max_abs_`, or 1 where that is within rounding of 0. In the
        library, on the device and of the dtype of X.
    max_abs_ : array of shape (n_features,)
        Of the values that are not nan.
    n_samples_seen_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    MinMaxScaler : Into a given range.
    StandardScaler : Scale by mean and standard deviation.

    Examples
    --------
    >>> from gpuml.preprocessing import MaxAbsScaler
    >>> MaxAbsScaler().fit_transform([[1.0], [-4.0]])
    array([[ 0.25],
           [-1.  ]])
    """

    affine_params = ()

    max_abs_: Array

    def _extrema(self):
        return -self.max_abs_, self.max_abs_

    def _found(self, low, high):
        largest = max_abs(low, high)
        return {"max_abs_": largest, "scale_": not_zero(largest)}

    def _map(self, found):
        scale = found["scale_"]
        return 1.0 / scale, namespace(scale).zeros_like(scale)

    def _scaled(self, X):
        X = X / beside(self.scale_, X)
        return clipped(X, -1.0, 1.0) if self.clip else X

    def _undone(self, X):
        return X * beside(self.scale_, X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags
