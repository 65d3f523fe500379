"""A function of rows as a transformer; it gets the rows on their device."""

from typing import Any, Self

import numpy as np
from sklearn import preprocessing as sk

from gpuml._arrays import as_array, is_array, is_foreign, to_host
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import check_rows, unchanged_on_error
from gpuml._persistence.travel import Travels


class FunctionTransformer(Travels, sk.FunctionTransformer):
    """Apply a function to rows, :math:`Z = f(X)`.

    The function gets what `transform` gets: a DataFrame, a NumPy array, an array on a GPU. What it
    returns stays where it is.

    Parameters
    ----------
    func : callable, default=None
        Of X. None gives X as it is.
    inverse_func : callable, default=None
        For `inverse_transform`.
    validate : bool, default=False
        Whether X is checked, and becomes a 2-D array, before the function gets it.
    accept_sparse : bool, default=False
        Whether a checked X may be sparse.
    check_inverse : bool, default=True
        Whether `fit` warns where the inverse does not give some rows back.
    feature_names_out : callable, "one-to-one" or None, default=None
        Names of the columns of results, for `get_feature_names_out`.
    kw_args : dict, default=None
        For `func`.
    inv_kw_args : dict, default=None
        For `inverse_func`.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.preprocessing import FunctionTransformer
    >>> FunctionTransformer(np.log1p).transform(np.array([[0.0, 1.0]]))
    array([[0.        , 0.69314718]])
    """

    def fit(self, X, y=None) -> Self:
        """Note the number and the names of features.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : FunctionTransformer

        Raises
        ------
        ValueError
            For a checked X that scikit-learn's class rejects. A failed fit leaves the estimator as
            it was.
        """
        with unchanged_on_error(self):
            if not (self.validate and is_foreign(as_array(X))):
                theirs: Any = super()
                theirs.fit(X, y)
                return self
            self._validate_params()
            X = check_rows(self, X, reset=True, keep_dtype=True)
            if self.check_inverse and self.func is not None and self.inverse_func is not None:
                self._check_inverse_transform(X)
        return self

    def transform(self, X):
        """Apply the function.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X_new : array-like
            What the function gives.
        """
        if not is_foreign(as_array(X)):
            return super().transform(X)
        if self.validate:
            X = check_rows(self, X, reset=False, keep_dtype=True)
        found = self._transform(X, func=self.func, kw_args=self.kw_args)
        return as_asked(self, found) if is_array(found) else found

    def inverse_transform(self, X):
        """Apply the inverse function.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X_original : array-like
            What the inverse function gives.
        """
        if not is_foreign(as_array(X)):
            return super().inverse_transform(X)
        return self._transform(X, func=self.inverse_func, kw_args=self.inv_kw_args)

    def _check_inverse_transform(self, X):
        """Compare some rows with what comes back; those on a device in CPU memory."""
        X = as_array(X)
        if not is_foreign(X):
            super()._check_inverse_transform(X)
            return
        some: Any = X[:: max(1, X.shape[0] // 100), ...]
        back = to_host(as_array(self.inverse_transform(self.transform(some))))
        twin = sk.FunctionTransformer(lambda rows: rows, lambda rows: back)
        twin._check_inverse_transform(np.asarray(to_host(some)))
