"""Centring and scaling to unit variance, on the device of the rows."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn import preprocessing as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    as_array,
    is_array,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import EPS
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import (
    check_finite,
    check_images,
    check_rows,
    check_weight,
    unchanged_on_error,
)
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context
from gpuml.extending import AffineStep
from gpuml.preprocessing._affine import diagonal_map, is_dense
from gpuml.preprocessing._column_sums import ColumnMoments, column_moments
from gpuml.preprocessing._places import (
    as_asked,
    at_host,
    check_library,
    host_dtype,
    move_attributes,
)
from gpuml.solvers.affine import FittedStep, Parts
from gpuml.solvers.moments import normal_equations


class StandardScaler(AffineStep, Travels, sk.StandardScaler):
    r"""Remove the mean of each feature and scale it to unit variance.

    .. math:: z_j = (x_j - m_j) / s_j, \qquad m_j = \sum_i w_i x_{ij} / \sum_i w_i, \qquad
        s_j^2 = \sum_i w_i (x_{ij} - m_j)^2 / \sum_i w_i

    Sums run over values that are not nan. Arrays of CuPy, torch and other libraries are worked on
    where they are, with float64 sums whatever their dtype; host data is scikit-learn's work.

    In a `gpuml.model_selection` search over a pipeline, scalers of all candidates are fitted to
    all splits from the moments that the linear model at its end needs anyway.

    Parameters
    ----------
    copy : bool, default=True
        Whether `transform` leaves X as it is; False lets it write to X where it can.
    with_mean : bool, default=True
        Whether to subtract the mean m. Sparse rows need False.
    with_std : bool, default=True
        Whether to divide by s. Of a constant feature, s counts as 1.

    Attributes
    ----------
    scale_ : array of shape (n_features,) or None
        s, float64, in the library and on the device of the X of the last fit; None for
        ``with_std=False``.
    mean_ : array of shape (n_features,) or None
        m, likewise; None if neither mean nor variance is asked for.
    var_ : array of shape (n_features,) or None
        s^2 as computed, also of constant features.
    n_samples_seen_ : number or array of shape (n_features,)
        Sum of weights, or number of rows; per feature where the numbers of nan differ.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    MinMaxScaler, MaxAbsScaler : Scaling by extrema.

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
    affine_is_diagonal = True

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
        with unchanged_on_error(self):
            X = as_array(X)
            if not is_foreign(X):
                move_attributes(self, HOST)
                weight = as_array(sample_weight)
                weight = to_host(weight) if is_foreign(weight) else weight
                with naming_columns(self, X):
                    return super().partial_fit(X, y, weight)
            first = not hasattr(self, "n_samples_seen_")
            X = check_rows(self, X, reset=first, allow_nan=True, finite_X=False)
            weight = check_weight(sample_weight, X)
            uses_sums = self.with_mean or self.with_std
            found = column_moments(X, weight if uses_sums else None)
            if not np.isfinite(found.squares).all():
                check_finite(X, "X", self, allow_nan=True)
            found = found if first else _before(self).merged(found)
            # If only rows are counted, scikit-learn counts them without weights, in these dtypes.
            row_dtype = np.dtype(np.int64) if weight is None else host_dtype(X)
            self._keep(found, place_of(X), np.dtype(np.float64) if uses_sums else row_dtype)
        return self

    def _keep(self, found: ColumnMoments, place: Place, count_dtype: np.dtype) -> None:
        mean, var = found.mean, found.variance
        scale = _scales(var, mean, found.count, np)
        self.mean_ = move(mean, place) if self.with_mean or self.with_std else None
        self.var_ = move(var, place) if self.with_std else None
        self.scale_ = move(scale, place) if self.with_std else None
        count = found.count.astype(count_dtype)
        self.n_samples_seen_ = count[0] if count.min() == count.max() else move(count, place)

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
        check_is_fitted(self)
        X = as_array(X)
        check_library(self, X, "mean_", "transform")
        if not is_foreign(X):
            with naming_columns(self, X):
                return sk.StandardScaler.transform(at_host(self), X, copy)
        rows = check_rows(self, X, reset=False, allow_nan=True)
        may_write = rows is not X or not (self.copy if copy is None else copy)
        return as_asked(self, self._map(rows, may_write))

    def _map(self, X, may_write):
        place = place_of(X)
        if self.with_mean:
            mean = place.xp.astype(move(self.mean_, place), X.dtype)
            X = (operator.isub if may_write else operator.sub)(X, mean)
            may_write = True
        if self.with_std:
            scale = place.xp.astype(move(self.scale_, place), X.dtype)
            X = (operator.itruediv if may_write else operator.truediv)(X, scale)
            may_write = True
        return X if may_write else place.xp.asarray(X, copy=True)

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
        check_is_fitted(self)
        X = as_array(X)
        if not is_foreign(X):
            return sk.StandardScaler.inverse_transform(at_host(self), X, copy)
        X = check_images(self, X, self.n_features_in_, allow_nan=True)
        place = place_of(X)
        if self.with_std:
            X = X * place.xp.astype(move(self.scale_, place), X.dtype)
        if self.with_mean:
            X = X + place.xp.astype(move(self.mean_, place), X.dtype)
        return X

    def affine_obstacle(self, X: Any) -> str | None:
        """Why moments do not tell the map: of dense rows they do (`copy` has no influence)."""
        return None if is_dense(X) else "sparse X"

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every training part, from moments.

        Parameters
        ----------
        parts : Parts
        candidates : sequence of dicts
            Values of `affine_params`; what one leaves out is as on this estimator.

        Returns
        -------
        list of FittedStep
            One for each candidate.
        """
        xp = namespace(parts.moments.gram)
        normal = normal_equations(parts.moments, True)
        count = parts.moments.gram[:, -1, -1]
        squares = xp.linalg.diagonal(normal.xx)
        zero = xp.zeros_like(squares)
        var = xp.where(squares > 0, squares, zero) / count[:, None]
        scale = _scales(var, normal.x_mean, count[:, None], xp)
        # Moments know a variance less well than rows do: what may be rounding counts as constant.
        scale = xp.where(squares <= normal.noise, xp.ones_like(scale), scale)
        found = _Found(parts, to_host(count), normal.x_mean, var, scale)
        return [
            found.step(c.get("with_mean", self.with_mean), c.get("with_std", self.with_std))
            for c in candidates
        ]


class _Found:
    """Means, variances and scales (S, p) of the training parts, for any parameters."""

    def __init__(self, parts, count, mean, var, scale):
        self.parts, self.count, self.mean, self.var, self.scale = parts, count, mean, var, scale

    def step(self, with_mean: bool, with_std: bool) -> FittedStep:
        xp = namespace(self.mean)
        shrink = 1.0 / self.scale if with_std else xp.ones_like(self.scale)
        offset = -self.mean * shrink if with_mean else xp.zeros_like(self.mean)
        maps = diagonal_map(shrink, offset)
        return FittedStep(maps, lambda s: self.attributes(s, with_mean, with_std))

    def attributes(self, s: int, with_mean: bool, with_std: bool) -> dict[str, Any]:
        home = self.parts.batch.home
        uses_sums = with_mean or with_std
        row_dtype = host_dtype(self.parts.batch.X) if self.parts.weighted else np.dtype(np.int64)
        n_rows = row_dtype.type(self.parts.n_rows[s])
        return {
            "mean_": move(self.mean[s, :], home) if uses_sums else None,
            "var_": move(self.var[s, :], home) if with_std else None,
            "scale_": move(self.scale[s, :], home) if with_std else None,
            "n_samples_seen_": self.count[s] if uses_sums else n_rows,
        }


def _scales(var: Array, mean: Array, count: Array, xp: Any) -> Array:
    """Standard deviations, 1 where the variance is within the rounding of a constant feature.

    The bound is that of the two-pass algorithm (Chan, Golub, LeVeque 1983), as in scikit-learn.
    """
    is_constant = var <= count * EPS * var + (count * mean * EPS) ** 2
    return xp.where(is_constant, xp.ones_like(var), xp.sqrt(var))


def _before(scaler: StandardScaler) -> ColumnMoments:
    """What the attributes say of the rows so far."""
    shape = (scaler.n_features_in_,)
    seen = scaler.n_samples_seen_
    count = np.broadcast_to(to_host(seen) if is_array(seen) else seen, shape).astype(np.float64)
    mean, var = (np.zeros(shape) if x is None else to_host(x) for x in (scaler.mean_, scaler.var_))
    return ColumnMoments(count, mean, np.where(count > 0, var * count, 0.0))
