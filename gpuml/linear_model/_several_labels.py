"""Ridge classifiers of several labels per row: a regression on 1 and -1 for each label."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_sample_weight

from gpuml._arrays import Array, as_array, is_foreign, is_sparse, namespace, to_host
from gpuml._inputs.csr import check_csr
from gpuml._inputs.validation import check_rows, unchanged_on_error
from gpuml._sklearn import _check_sample_weight
from gpuml.linear_model._classifier import LinearClassifier


class SeveralLabels(LinearClassifier):
    """`predict` and fits of a classifier whose targets may have a column for each label."""

    _label_binarizer: Any
    class_weight: Any

    def predict(self, X):
        """The class of largest decision value, or each label whose value is positive.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,) or (n_samples, n_outputs)
            In the library and on the device of X; strings are in NumPy arrays. Sparse if the
            targets of `fit` were.
        """
        binarizer = getattr(self, "_label_binarizer", None)
        if binarizer is None or not binarizer.y_type_.startswith("multilabel"):
            return super().predict(X)
        decision = self.decision_function(X)
        xp = namespace(decision)
        if binarizer.sparse_input_:
            return binarizer.inverse_transform(np.where(to_host(decision) > 0, 1.0, -1.0))
        return xp.astype(decision > 0, xp.int64)

    def _fit_labels(self, regressor: Any, X: Any, y: Any, sample_weight: Any) -> Self:
        """Take over the fitted attributes of a regressor of ours with the same parameters."""
        with unchanged_on_error(self):
            # Checked for this class, whose name errors say and whose names of features they are.
            X, y = as_array(X), as_array(y)
            if is_sparse(X):
                X = check_csr(self, X, reset=True, floats=True)
            else:
                X = check_rows(self, X, reset=True)
            check_consistent_length(X, y)
            y = to_host(y) if is_foreign(y) else y
            binarizer = LabelBinarizer(neg_label=-1)
            Y = binarizer.fit_transform(y)
            weight = self._weight_of_labels(y, sample_weight)
            model = regressor.fit(X, Y.astype(np.float64), weight)
            self.__dict__.pop("status_", None)  # of an earlier fit
            self.__dict__.update({n: v for n, v in vars(model).items() if n.endswith("_")})
            self.classes_, self._label_binarizer = binarizer.classes_, binarizer
        return self

    def _weight_of_labels(self, y: Any, sample_weight: Any) -> Array | None:
        if not self.class_weight:
            return sample_weight
        factors = compute_sample_weight(self.class_weight, y)
        weight = as_array(sample_weight)
        weight = to_host(weight) if is_foreign(weight) else weight
        return factors * _check_sample_weight(weight, y, ensure_non_negative=True)


def is_table(y: Any) -> bool:
    """Whether a target has several columns."""
    if y is None:
        return False
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    return sparse.issparse(y) or (len(shape) == 2 and shape[1] > 1)
