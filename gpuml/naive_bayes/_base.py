"""What all naive Bayes classifiers say of rows once they are fitted."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_array, namespace
from gpuml._persistence.travel import Travels
from gpuml._sklearn import check_same_namespace
from gpuml.metrics.classification import accuracy_score
from gpuml.naive_bayes._input import check_X, labels_at, result_dtype


class Posterior(Travels):
    """`predict` and its kin from `_joint_log_likelihood`, which the classes have.

    That takes checked rows, and gives float64 (n, k) in their library and on their device.
    """

    # Tells where the model is.
    _located_by = "class_count_"

    def _check_X(self, X: Any) -> Any:
        return check_X(self, X)

    def _joint(self, X: Any, method: str) -> tuple[Array, Any]:
        """Joint log-likelihoods in float64, and the dtype that results are to have."""
        check_is_fitted(self)
        X = as_array(X)
        if is_array(X):
            check_same_namespace(X, self, attribute=self._located_by, method=method)
        X = self._check_X(X)
        return self._joint_log_likelihood(X), result_dtype(X)

    def predict_joint_log_proba(self, X):
        """Logarithms of ``P(x, y)`` for all classes y, up to the model's constant of x.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Sparse too, for the classifiers that are fitted to sparse rows.

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
            If X has other features than the X of `fit`, or holds nan or inf.
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
        """Logarithms of ``P(y | x)`` for all classes y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : array of shape (n_samples, n_classes)
            As of `predict_joint_log_proba`.
        """
        joint, dtype = self._joint(X, "predict_log_proba")
        return _normalised(joint, dtype)

    def predict_proba(self, X):
        """``P(y | x)`` for all classes y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_classes)
            As of `predict_joint_log_proba`; rows sum to 1.
        """
        joint, dtype = self._joint(X, "predict_proba")
        return namespace(joint).exp(_normalised(joint, dtype))

    def score(self, X, y, sample_weight=None):
        """Share of rows, by weight, whose predicted label is right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        return accuracy_score(y, self.predict(X), sample_weight=sample_weight)


def _normalised(joint, dtype):
    """Logarithms (n, k) less that of the sum of their exponentials, in the dtype of results."""
    xp = namespace(joint)
    largest = xp.max(joint, axis=1, keepdims=True)
    # Of a row that no class can have made, all are -inf; their difference would be nan here.
    largest = xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))
    # float32 holds differences well, but not the sums of many logarithms that they are of.
    rest = xp.astype(joint - largest, dtype, copy=False)
    return rest - xp.log(xp.sum(xp.exp(rest), axis=1, keepdims=True))
