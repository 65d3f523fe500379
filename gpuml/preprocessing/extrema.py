"""Scaling by the smallest and the largest value of each feature, on the device of the rows."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn import preprocessing as sk
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import HOST, Array, as_array, is_foreign, move, namespace, place_of
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import check_images, check_rows, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context
from gpuml.extending import AffineStep
from gpuml.preprocessing._affine import diagonal_map, is_dense, part_extrema
from gpuml.preprocessing._column_extrema import (
    column_extrema,
    max_abs,
    not_zero,
    of_both,
    range_map,
)
from gpuml.preprocessing._places import as_asked, at_host, check_library, move_attributes
from gpuml.solvers.affine import FittedStep, Parts


class _ByExtrema(AffineStep, Travels, TransformerMixin):
    """What both scalers share, before scikit-learn's class: how rows come in and go out."""

    # A step of a search that is fitted to all training parts from their extrema.
    affine_is_diagonal = True
    affine_needs_extrema = True

    clip: bool
    n_features_in_: int
    n_samples_seen_: int

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Find the extrema of each feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            `MaxAbsScaler` takes sparse matrices too, here and below.
        y : None
            Ignored.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        """
        with unchanged_on_error(self):
            self._reset()
            return self.partial_fit(X, y)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None) -> Self:
        """Take more rows into account, as one `fit` to all rows so far would.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            As for `fit`.
        """
        with unchanged_on_error(self):
            X = as_array(X)
            if not is_foreign(X):
                move_attributes(self, HOST)
                theirs: Any = super()
                with naming_columns(self, X):
                    return theirs.partial_fit(X, y)
            first = not hasattr(self, "n_samples_seen_")
            X = check_rows(self, X, reset=first, allow_nan=True, finite_X=False)
            extrema = column_extrema(self, X)
            if not first:
                move_attributes(self, place_of(X))
            self._keep(*extrema, first)
            self.n_samples_seen_ = X.shape[0] + (0 if first else self.n_samples_seen_)
        return self

    def transform(self, X):
        """Scale rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            nan stays nan.

        Returns
        -------
        X_tr : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_library(self, X, "scale_", "transform")
        if not is_foreign(X):
            theirs: Any = super(_ByExtrema, at_host(self))
            with naming_columns(self, X):
                return theirs.transform(X)
        return as_asked(self, self._scaled(check_rows(self, X, reset=False, allow_nan=True)))

    def inverse_transform(self, X):
        """Undo `transform`, but for what was clipped.

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
            theirs: Any = super(_ByExtrema, at_host(self))
            return theirs.inverse_transform(X)
        return self._unscaled(check_images(self, X, self.n_features_in_, allow_nan=True))

    def affine_obstacle(self, X: Any) -> str | None:
        """Why extrema do not tell the map: of dense rows they do, where nothing is clipped."""
        return "clip=True" if self.clip else None if is_dense(X) else "sparse X"


class MinMaxScaler(_ByExtrema, sk.MinMaxScaler):
    r"""Scale each feature to a given range.

    .. math:: z_j = a + (b - a) (x_j - \min_i x_{ij}) / (\max_i x_{ij} - \min_i x_{ij})

    Extrema are of values that are not nan. Arrays of CuPy, torch and other libraries are worked on
    where they are; host data is scikit-learn's work.

    Parameters
    ----------
    feature_range : tuple (a, b), default=(0, 1)
    copy : bool, default=True
        Whether `transform` leaves X as it is. Ours always does, scikit-learn's may write to X.
    clip : bool, default=False
        Whether values of later rows outside of the range become its ends.

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
        Only where the columns of X have string names.

    See Also
    --------
    MaxAbsScaler : By the largest absolute value, without a shift.
    StandardScaler : By mean and standard deviation.

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

    def _keep(self, low, high, first):
        if not first:
            low = of_both(self.data_min_, low, smallest=True)
            high = of_both(self.data_max_, high, smallest=False)
        self.scale_, self.min_ = range_map(low, high, self.feature_range)
        self.data_min_, self.data_max_, self.data_range_ = low, high, high - low

    def _scaled(self, X):
        X = X * _like(self.scale_, X)
        X += _like(self.min_, X)
        return namespace(X).clip(X, *map(float, self.feature_range)) if self.clip else X

    def _unscaled(self, X):
        X = X - _like(self.min_, X)
        X /= _like(self.scale_, X)
        return X

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every training part, from extrema; see `StandardScaler`."""
        low, high = part_extrema(parts)
        return [
            _range_step(parts, low, high, {**vars(self), **c}["feature_range"]) for c in candidates
        ]


class MaxAbsScaler(_ByExtrema, sk.MaxAbsScaler):
    r"""Divide each feature by its largest absolute value, ``max_i |x_ij|``.

    Zeros stay zeros. Arrays of CuPy, torch and other libraries are worked on where they are; host
    data, sparse rows included, is scikit-learn's work.

    Parameters
    ----------
    copy : bool, default=True
        Whether `transform` leaves X as it is. Ours always does, scikit-learn's may write to X.
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
        Only where the columns of X have string names.

    See Also
    --------
    MinMaxScaler : Into a given range.
    StandardScaler : By mean and standard deviation.

    Examples
    --------
    >>> from gpuml.preprocessing import MaxAbsScaler
    >>> MaxAbsScaler().fit_transform([[1.0], [-4.0]])
    array([[ 0.25],
           [-1.  ]])
    """

    affine_params = ()

    max_abs_: Array

    def _keep(self, low, high, first):
        largest = max_abs(low, high)
        if not first:
            largest = of_both(self.max_abs_, largest, smallest=False)
        self.max_abs_, self.scale_ = largest, not_zero(largest)

    def _scaled(self, X):
        X = X / _like(self.scale_, X)
        return namespace(X).clip(X, -1.0, 1.0) if self.clip else X

    def _unscaled(self, X):
        return X * _like(self.scale_, X)

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every training part, from extrema; see `StandardScaler`."""
        low, high = part_extrema(parts)
        largest = max_abs(low, high)
        scale, home = not_zero(largest), parts.batch.home

        def pick(s):
            found = {"max_abs_": largest, "scale_": scale}
            attributes = {name: move(x[s, :], home) for name, x in found.items()}
            return {**attributes, "n_samples_seen_": parts.n_rows[s]}

        step = FittedStep(diagonal_map(1.0 / scale, namespace(scale).zeros_like(scale)), pick)
        return [step for _ in candidates]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def _like(attribute, X):
    """A fitted array where X is, of its dtype."""
    place = place_of(X)
    return place.xp.astype(move(attribute, place), X.dtype)


def _range_step(parts, low, high, feature_range):
    scale, offset = range_map(low, high, feature_range)
    found = {"scale_": scale, "min_": offset, "data_min_": low, "data_max_": high}
    found["data_range_"] = high - low

    def pick(s):
        attributes = {name: move(x[s, :], parts.batch.home) for name, x in found.items()}
        return {**attributes, "n_samples_seen_": parts.n_rows[s]}

    return FittedStep(diagonal_map(scale, offset), pick)
