"""Shared code of all naive Bayes classifiers: `fit`, `partial_fit` and predictions."""

from contextlib import nullcontext
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_array, is_foreign, move, namespace, place_of
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context, check_same_namespace
from gpuml.divided.stored import StoredRows
from gpuml.metrics.own_scores import ScoredByAccuracy
from gpuml.naive_bayes._grid import Grid, normalised
from gpuml.naive_bayes._input import (
    Labelled,
    check_X,
    codes_among,
    first_classes,
    labelled,
    labels_at,
    result_dtype,
    values_of,
)
from gpuml.naive_bayes._sums import ClassRows, work_place


class Posterior(ScoredByAccuracy, Travels, Grid):
    """`fit` from sums over classes, and predictions from joint log likelihoods.

    Subclasses define the methods that `Grid` lists. A single model is a grid of one candidate.
    """

    _accept_sparse = True
    _classes_as_text = True

    # The attribute whose place is that of the model.
    _located_by = "class_count_"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the model, from sums or moments of the features in each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or StoredRows
            Sparse matrices, of SciPy or cupyx, only for classifiers of counts and binary features.
            Rows in files (`gpuml.read_parquet`) are read block by block; y and `sample_weight` may
            then be names of columns.
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or bools, in CPU memory or on a device.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, which must not be negative.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class of the same name rejects, and for negative
            weights. A failed fit leaves the estimator as it was.
        """
        if isinstance(X, StoredRows):
            return X.fit_model(self, y, sample_weight)
        with unchanged_on_error(self):
            data = self._checked(X, y, sample_weight, reset=True)
            self.classes_ = data.labels.classes
            self._learn(self._by_class(data))
        return self

    def _labelled(self, X, y, sample_weight, *, reset=True) -> Labelled:
        return labelled(self, self._check_X(X, reset=reset), y, sample_weight)

    def _checked(self, X, y, sample_weight, *, reset) -> Labelled:
        X = as_array(X)
        with nullcontext() if is_foreign(X) else naming_columns(self, X):
            data = self._labelled(X, y, sample_weight, reset=reset)
        self._check_values(data.X)
        return data

    def _by_class(self, data: Labelled) -> ClassRows:
        codes = codes_among(data.labels, self.classes_)
        home = place_of(values_of(data.X))
        return ClassRows(data.X, move(codes, home), data.weight, self.classes_.shape[0])

    def _learn(self, rows: ClassRows, first: bool = True) -> None:
        self._adopt(self._sums(rows), place_of(values_of(rows.X)), result_dtype(rows.X))

    def _joint_log_likelihood(self, X: Any) -> Array:
        """Joint log likelihoods (n, k) in float64 of checked rows, on their device."""
        return self._joints([self], X)[0, ...]

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        return check_X(self, X, reset=reset, accept_sparse=self._accept_sparse)

    def _joint(self, X: Any, method: str) -> tuple[Array, Any]:
        """Joint log likelihoods in float64, and the dtype of results."""
        check_is_fitted(self)
        X = as_array(X)
        if is_array(X):
            check_same_namespace(X, self, attribute=self._located_by, method=method)
        X = self._check_X(X)
        return self._joint_log_likelihood(X), result_dtype(X)

    def predict_joint_log_proba(self, X):
        """``log P(x, y)`` for all classes y, up to a term that depends only on x.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            May be sparse for classifiers that can be fitted to sparse X.

        Returns
        -------
        joint_log_proba : array of shape (n_samples, n_classes)
            In the library and on the device of X; float32 for float32 X, else float64. Columns
            are in the order of `classes_`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        joint, dtype = self._joint(X, "predict_joint_log_proba")
        return namespace(joint).astype(joint, dtype, copy=False)

    def predict(self, X):
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        joint, _ = self._joint(X, "predict")
        return labels_at(self.classes_, namespace(joint).argmax(joint, axis=1))

    def predict_log_proba(self, X):
        """``log P(y | x)`` for all classes y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : array of shape (n_samples, n_classes)
            Library, device, dtype and order of columns as for `predict_joint_log_proba`.
        """
        joint, dtype = self._joint(X, "predict_log_proba")
        return normalised(joint, dtype)

    def predict_proba(self, X):
        """``P(y | x)`` for all classes y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_classes)
            Rows sum to 1. Library, device, dtype and order of columns as for
            `predict_joint_log_proba`.
        """
        joint, dtype = self._joint(X, "predict_proba")
        return namespace(joint).exp(normalised(joint, dtype))


class Incremental(Posterior):
    """`partial_fit`, for subclasses whose `_before` restores the sums of a fitted model."""

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None) -> Self:
        """Update the model with more rows, so that it equals one `fit` to all rows so far.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            May be on another device than earlier rows; the model moves to that of X.
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that will occur in any call; required in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            As for `fit`, and if y contains a label that is not in `classes`.
        """
        with unchanged_on_error(self):
            first = getattr(self, "classes_", None) is None
            data = self._checked(X, y, sample_weight, reset=first)
            first_classes(self, classes, data.labels)
            self._learn(self._by_class(data), first)
        return self

    def _learn(self, rows: ClassRows, first: bool = True) -> None:
        sums = self._sums(rows)
        if not first:
            sums = self._joined([self._before(work_place(rows.X)), sums], [1, 1])
        self._adopt(sums, place_of(values_of(rows.X)), result_dtype(rows.X))

    def _before(self, place: Any) -> Any:
        """The sums of earlier rows, from the attributes."""
        raise NotImplementedError
