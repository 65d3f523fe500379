"""Centring and scaling to unit variance, on the device of the rows."""

import operator
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import preprocessing as sk

from gpuml._arrays import Array, as_array, is_array, is_foreign, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS
from gpuml._inputs.validation import check_finite, check_rows, check_weight, unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.divided.stored import StoredRows
from gpuml.preprocessing._column_sums import ColumnMoments, column_moments
from gpuml.preprocessing._places import host_dtype
from gpuml.preprocessing._scaler import Scaler, beside, diagonal_step
from gpuml.solvers.affine import Parts
from gpuml.solvers.moments import normal_equations


class StandardScaler(Scaler, sk.StandardScaler):
    r"""Remove the mean of each feature and scale it to unit variance.

    .. math:: z_j = (x_j - m_j) / s_j, \qquad m_j = \sum_i w_i x_{ij} / \sum_i w_i, \qquad
        s_j^2 = \sum_i w_i (x_{ij} - m_j)^2 / \sum_i w_i

    Sums leave out nan. CuPy, torch and other arrays stay on their device, with float64 sums for
    every dtype; scikit-learn does the work for data in CPU memory.

    In a `gpuml.model_selection` search over a pipeline, the scalers of all candidates are fitted on
    all splits from the moments that the linear model after them needs anyway.

    Parameters
    ----------
    copy : bool, default=True
        Whether `transform` must not write to X.
    with_mean : bool, default=True
        Whether to subtract the mean m. Sparse rows need False.
    with_std : bool, default=True
        Whether to divide by the standard deviation s; for a constant feature, s counts as 1.

    Attributes
    ----------
    scale_ : array of shape (n_features,) or None
        s, float64, in the library and on the device of the X of the last fit; None for
        ``with_std=False``.
    mean_ : array of shape (n_features,) or None
        m, likewise; None if both `with_mean` and `with_std` are False.
    var_ : array of shape (n_features,) or None
        s^2 as computed, also of constant features.
    n_samples_seen_ : number or array of shape (n_features,)
        Sum of the weights, or number of rows; per feature if features have different numbers of
        nan.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    MinMaxScaler, MaxAbsScaler : Scale by minimum and maximum.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance: analysis
    and recommendations", The American Statistician 37 (1983).

    Examples
    --------
    >>> from gpuml.preprocessing import StandardScaler
    >>> StandardScaler().fit_transform([[0.0, 1.0], [2.0, 1.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    # Hyper-parameters that may differ between candidates of one call of `multi_affine`.
    affine_params = ("with_mean", "with_std")
    _located_by: ClassVar[str] = "mean_"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Find the mean and the variance of each feature.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights w.

        Returns
        -------
        self : StandardScaler

        Raises
        ------
        ValueError
            For input that scikit-learn's StandardScaler rejects, and for negative weights of
            device data. A failed fit leaves the estimator as it was.
        """
        if isinstance(X, StoredRows):
            return X.fit_model(self, None, sample_weight)
        with unchanged_on_error(self):
            self._reset()
            return self.partial_fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None) -> Self:
        """Take more rows into account, as one `fit` to all rows so far would.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : StandardScaler

        Raises
        ------
        ValueError
            As for `fit`.
        """
        X, weight = as_array(X), as_array(sample_weight)
        if is_foreign(weight) and not is_foreign(X):
            weight = to_host(weight)
        return self._fit_more(X, y, weight)

    def _update(self, X, first, weight=None):
        weight = check_weight(weight, X)
        uses_sums = self.with_mean or self.with_std
        found = column_moments(X, weight if uses_sums else None)
        if not np.isfinite(found.squares).all():
            check_finite(X, "X", self, allow_nan=True)
        found = found if first else _before(self).merged(found)
        # If only rows are counted, scikit-learn counts them without weights, in these dtypes.
        row_dtype = np.dtype(np.int64) if weight is None else host_dtype(X)
        count = found.count.astype(np.float64 if uses_sums else row_dtype)
        place = place_of(X)
        scale = _scales(found.variance, found.mean, found.count, np)
        arrays = self._asked(found.mean, found.variance, scale)
        self.__dict__.update({name: move(a, place) for name, a in arrays.items()})
        self.n_samples_seen_ = count[0] if count.min() == count.max() else move(count, place)

    def _asked(self, mean, var, scale):
        """Fitted arrays; None for those that the parameters switch off."""
        return {
            "mean_": mean if self.with_mean or self.with_std else None,
            "var_": var if self.with_std else None,
            "scale_": scale if self.with_std else None,
        }

    def transform(self, X, copy=None):
        """Centre and scale rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            nan stays nan.
        copy : bool, default=None
            Overrides the parameter of the class.

        Returns
        -------
        X_tr : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.
        """
        return self._transformed(X, copy)

    def _transform_there(self, X, copy=None):
        rows = check_rows(self, X, reset=False, allow_nan=True)
        may_write = rows is not X or not (self.copy if copy is None else copy)
        if self.with_mean:
            rows = (operator.isub if may_write else operator.sub)(rows, beside(self.mean_, rows))
            may_write = True
        if self.with_std:
            scale = beside(self.scale_, rows)
            return (operator.itruediv if may_write else operator.truediv)(rows, scale)
        return rows if may_write else namespace(rows).asarray(rows, copy=True)

    def inverse_transform(self, X, copy=None):
        """Undo `transform`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        copy : bool, default=None
            Overrides the parameter of the class.

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.
        """
        return self._inverted(X, copy)

    def _undone(self, X):
        if self.with_std:
            X = X * beside(self.scale_, X)
        return X + beside(self.mean_, X) if self.with_mean else X

    def _known(self, parts: Parts) -> tuple[np.ndarray, Array, Array, Array]:
        """Weights (S,), means, variances and scales (S, p) of the training parts, from moments."""
        xp = namespace(parts.moments.gram)
        normal = normal_equations(parts.moments, True)
        count = parts.moments.gram[:, -1, -1]
        squares = xp.linalg.diagonal(normal.xx)
        zero = xp.zeros_like(squares)
        var = xp.where(squares > 0, squares, zero) / count[:, None]
        scale = _scales(var, normal.x_mean, count[:, None], xp)
        # Moments know a variance less well than rows do: what may be rounding counts as constant.
        scale = xp.where(squares <= normal.noise, xp.ones_like(scale), scale)
        return to_host(count), normal.x_mean, var, scale

    def _step(self, parts, count, mean, var, scale):
        xp = namespace(mean)
        shrink = 1.0 / scale if self.with_std else xp.ones_like(scale)
        offset = -mean * shrink if self.with_mean else xp.zeros_like(mean)
        if not (self.with_mean or self.with_std):
            row_dtype = np.dtype(np.int64)
            if parts.weighted:
                row_dtype = np.dtype(str(parts.batch.dtype).rpartition(".")[2])
            count = np.asarray(parts.n_rows, row_dtype)
        return diagonal_step(parts, shrink, offset, self._asked(mean, var, scale), count)


def _scales(var: Array, mean: Array, count: Array, xp: Any) -> Array:
    """Standard deviations, 1 where the variance is within the rounding of a constant feature.

    The bound is that of the two-pass algorithm (Chan, Golub, LeVeque 1983), as in scikit-learn.
    """
    is_constant = var <= count * EPS * var + (count * mean * EPS) ** 2
    return xp.where(is_constant, xp.ones_like(var), xp.sqrt(var))


def _before(scaler: StandardScaler) -> ColumnMoments:
    """The moments of earlier rows, from the attributes."""
    shape = (scaler.n_features_in_,)
    seen = scaler.n_samples_seen_
    count = np.broadcast_to(to_host(seen) if is_array(seen) else seen, shape).astype(np.float64)
    mean, var = (np.zeros(shape) if x is None else to_host(x) for x in (scaler.mean_, scaler.var_))
    return ColumnMoments(count, mean, np.where(count > 0, var * count, 0.0))
