"""Rows times components, where the rows are."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    as_array,
    is_array,
    is_cupyx_sparse,
    is_host_sparse,
    move,
    namespace,
    place_of,
)
from gpuml._inputs.output import as_asked
from gpuml._persistence.travel import Travels
from gpuml._sklearn import check_same_namespace
from gpuml.decomposition._input import check_reduced, check_seen
from gpuml.decomposition._streamed import (
    Streamed,
    check_streamed,
    doubles,
    float_like,
    opened,
    streamed_images,
)
from gpuml.reading.sources import is_stored, source_of


class Kind(Protocol):
    """The place, library and dtype that results need, from a batch."""

    @property
    def X(self) -> Any:
        """The rows."""

    @property
    def home(self) -> Place:
        """The place of the user's rows."""


def at_home(values: Array, batch: Kind) -> Array:
    """Results in the library and on the device of the user's X; of its dtype, if of floats."""
    return in_kind(move(values, batch.home), float_like(batch.X.dtype))


def all_at_home(attributes: Mapping[str, Any], batch: Kind) -> dict[str, Any]:
    """Fitted attributes, whose arrays are those of `at_home`; numbers stay as they are."""
    return {
        name: at_home(value, batch) if is_array(value) and not np.isscalar(value) else value
        for name, value in attributes.items()
    }


def in_kind(values: Array, dtype: Any) -> Array:
    """An array of the dtype of that name; NumPy's without an axis become scalars."""
    place = place_of(values)
    values = place.xp.astype(values, getattr(place.xp, str(dtype).rpartition(".")[2]))
    return values[()] if place.kind == "numpy" and values.ndim == 0 else values


def or_nan(total: Array) -> Array:
    """Suppress the warning about shares of a variance of 0."""
    xp = namespace(total)
    return xp.where(total > 0, total, xp.full_like(total, float("nan")))


def whitening_scale(variance: Array, dtype: Any) -> Array:
    """Standard deviations that are safe to divide by, for results of a dtype."""
    xp = namespace(variance)
    least = float(xp.finfo(getattr(xp, float_like(dtype))).eps)
    scale = xp.sqrt(variance)
    return xp.where(scale < least, xp.full_like(scale, least), scale)


class Projection(Travels, TransformerMixin):
    """`transform` and `inverse_transform` of a model with orthonormal `components_`.

    `mean_` and `whiten` count where the model has them.
    """

    def transform(self, X):
        """Project rows on the components: ``(X - mean_) components_'``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Packed codes, files (memory maps, ``zarr.Array``) and objects that are read by rows are
            read block by block, as `gpuml.linalg.svd_compressed` reads them; missing codes count
            as the mean of their feature.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            In the library and on the device of X. With ``whiten=True`` each column is divided by
            the square root of its variance in the rows of `fit`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        check_is_fitted(self)
        X = opened(X)
        if is_stored(X):
            rows = check_streamed(self, X, reset=False)
            return as_asked(self, move(project(self, rows), rows.home))
        # Only with scikit-learn's array-API dispatch on, and then by its rule: no mixing.
        check_same_namespace(X, self, attribute="components_", method="transform")
        X = check_seen(self, X)
        return as_asked(self, move(project(self, X), _place_of_rows(X)))

    def inverse_transform(self, X):
        """Rows of the original space that `transform` would send to X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library and on the device of X: the rows that lie in the space of the
            components.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X does not have a column for each component, or contains NaN or infinity.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="components_", method="inverse_transform")
        X = check_reduced(self, X, self.components_.shape[0])
        xp, place = namespace(X), place_of(X)
        components = _like(self.components_, place, X.dtype)
        if getattr(self, "whiten", False):
            variance = _like(self.explained_variance_, place, X.dtype)
            components = xp.sqrt(variance)[:, None] * components
        rows = X @ components
        mean = getattr(self, "mean_", None)
        return rows if mean is None else rows + _like(mean, place, X.dtype)


def project(estimator: Any, X: Any) -> Array:
    """`transform` for rows that were checked."""
    if isinstance(X, Streamed):
        return _project_streamed(estimator, X)
    if float_like(X.dtype) != str(X.dtype).rpartition(".")[2]:
        # Integers: nothing is widened but blocks that stay in cache.
        return _project_streamed(estimator, Streamed(source_of(X, by_columns=False), place_of(X)))
    place = _place_of_rows(X)
    turn = place.xp.matrix_transpose(_like(estimator.components_, place, X.dtype))
    rows = X @ turn
    if getattr(estimator, "mean_", None) is not None:
        # After the product, so that no copy of X is made and sparse rows stay sparse.
        rows = rows - _like(estimator.mean_, place, X.dtype) @ turn
    if getattr(estimator, "whiten", False):
        variance = _like(estimator.explained_variance_, place, X.dtype)
        rows = rows / whitening_scale(variance, X.dtype)
    return rows


def _project_streamed(estimator, rows):
    components = estimator.components_
    turn = doubles(components.T, place_of(components))
    found = streamed_images(estimator, rows, turn)
    if getattr(estimator, "mean_", None) is not None:
        mean = doubles(estimator.mean_, place_of(components))
        found = found - move(mean @ turn, rows.home)
    if getattr(estimator, "whiten", False):
        variance = doubles(estimator.explained_variance_, rows.home)
        found = found / whitening_scale(variance, rows.X.dtype)
    return in_kind(found, rows.X.dtype)


def _place_of_rows(X) -> Place:
    if is_host_sparse(X):
        return HOST
    return place_of(X.data if is_cupyx_sparse(X) else X)


def _like(values, place, dtype):
    return in_kind(move(values, place), dtype)
