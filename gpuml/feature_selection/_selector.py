"""What selectors share: features are taken out of rows where the rows are."""

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from gpuml._arrays import as_array, device_of, is_foreign, namespace
from gpuml._arrays.ops import zeros
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import check_rows, refuse_sparse_of_gpu
from gpuml.exceptions import level_of_user
from gpuml.preprocessing._transformer import Transformer


def checked(selector: Any, X: Any, allow_nan: bool) -> Any:
    """Rows to select features of, checked as scikit-learn's selectors check them."""
    X = as_array(X)
    refuse_sparse_of_gpu(selector, X)
    if not is_foreign(X):
        options = {"ensure_min_features": 2, "ensure_all_finite": not allow_nan}
        return validate_data(selector, X, accept_sparse="csc", **options)
    X = check_rows(selector, X, reset=True, allow_nan=allow_nan)
    if X.shape[1] < 2:
        raise ValueError(
            f"Found array with {X.shape[1]} feature(s) (shape={tuple(X.shape)}) while a minimum of "
            f"2 is required by {type(selector).__name__}."
        )
    return X


def columns(X: Any, index: np.ndarray) -> Any:
    """Some columns of rows, at their place."""
    if not is_foreign(X):
        return X[:, index]
    xp = namespace(X)
    return xp.take(X, xp.asarray(index, device=device_of(X)), axis=1)


class Selector(Transformer):
    """`transform` and `inverse_transform`, before scikit-learn's class, which has `get_support`."""

    def _transformed(self, X):
        self.get_support()  # says what is missing; a model that was fitted before needs no `fit`
        X = as_array(X)
        refuse_sparse_of_gpu(self, X)
        if is_foreign(X):
            return as_asked(self, self._transform_there(X))
        # Columns that are no numbers may be selected too; the estimator says what it can fit.
        return super(Transformer, self).transform(X)

    def _transform_there(self, X):
        tags = self.__sklearn_tags__().input_tags
        X = check_rows(self, X, reset=False, allow_nan=tags.allow_nan, keep_dtype=True)
        index = self.get_support(indices=True)
        if len(index) == 0:
            warnings.warn(
                "No features were selected: either the data is too noisy or the selection test too "
                "strict.",
                UserWarning,
                stacklevel=level_of_user(),
            )
        return columns(X, index)

    def inverse_transform(self, X):
        """Restore the columns of all features, with zeros for those that were not selected.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_selected_features)

        Returns
        -------
        X_original : array or sparse matrix of shape (n_samples, n_features)
            In the library and on the device of X.

        Raises
        ------
        ValueError
            If the number of columns of X is not the number of selected features.
        """
        X = as_array(X)
        if not is_foreign(X):
            return super().inverse_transform(X)
        support = self.get_support()
        if X.ndim != 2 or X.shape[1] != support.sum():
            raise ValueError(
                f"X has shape {tuple(X.shape)}, but {support.sum()} features were selected."
            )
        # The place of each feature among the selected ones; others come from a column of zeros.
        xp = namespace(X)
        nothing = xp.astype(zeros((X.shape[0], 1), like=X, xp=xp), X.dtype)
        index = np.where(support, np.cumsum(support) - 1, support.sum())
        return columns(xp.concat([X, nothing], axis=1), index)
