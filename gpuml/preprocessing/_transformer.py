"""What the transformers share: rows in CPU memory are scikit-learn's work, others are ours."""

from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_foreign
from gpuml._arrays.gathered import gathered
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.nulls import with_nan
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import refuse_sparse_of_gpu, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context, is_scalar_nan
from gpuml.preprocessing._places import at_host, check_library


class Transformer(Travels, TransformerMixin):
    """`fit` and `transform`, before scikit-learn's class, which does both to rows in CPU memory.

    A class has `_fit_there(X, y)` and `_transform_there(X)` for arrays of other libraries, which
    are not checked yet.
    """

    # Whether rows in CPU memory have to be numbers, so that errors can name the other columns.
    _needs_numbers: ClassVar[bool] = True
    # The fitted array whose device scikit-learn's array-API dispatch checks.
    _located_by: ClassVar[str | None] = None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Fit the transformer.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class of the same name rejects, and for arrays of other
            libraries with parameters that need NumPy's. A failed fit leaves the estimator as it
            was.
        """
        return self._fitted(X, y)

    def _fitted(self, X: Any, *y_and_weights: Any) -> Self:
        with unchanged_on_error(self):
            X, given = self._read(X), [gathered(each) for each in y_and_weights]
            if is_foreign(X):
                self._fit_there(X, *given)
            else:
                theirs: Any = super()
                with self._naming(X):
                    theirs.fit(X, *given)
        return self

    def _fit_few(self, rows: Any) -> None:
        """scikit-learn's `fit` to rows in CPU memory that say the same as those on a device."""
        names = getattr(self, "feature_names_in_", None)
        theirs: Any = super()
        theirs.fit(rows)
        if names is not None:
            self.feature_names_in_ = names

    def transform(self, X):
        """Transform rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X_new : array or sparse matrix of shape (n_samples, n_features_out)
            In the library, on the device and of the dtype of X, unless a parameter names another
            dtype.

        Raises
        ------
        ValueError
            For rows that scikit-learn's class of the same name rejects, such as those with other
            features than in `fit`.
        """
        return self._transformed(X)

    def _transformed(self, X: Any, *options: Any) -> Any:
        check_is_fitted(self)
        X = self._read(X)
        if self._located_by is not None:
            check_library(self, X, self._located_by, "transform")
        if is_foreign(X):
            return as_asked(self, self._transform_there(X, *options))
        theirs: Any = super(Transformer, at_host(self))
        with self._naming(X):
            return theirs.transform(X, *options)

    def _read(self, X: Any) -> Any:
        """X as an array, or as a DataFrame in CPU memory.

        Holes among text are nan then; but nulls stay if something else is missing, such as None.
        """
        X = as_array(X)
        refuse_sparse_of_gpu(self, X)
        nulls = is_scalar_nan(getattr(self, "missing_values", np.nan))
        return X if self._needs_numbers else with_nan(X, nulls=nulls)

    def _naming(self, X):
        return naming_columns(self, X) if self._needs_numbers else nullcontext()

    def _fit_there(self, X: Array, *y_and_weights: Any) -> None:
        raise NotImplementedError

    def _transform_there(self, X: Array, *options: Any) -> Any:
        raise NotImplementedError
