"""Where values are missing, on the device of the rows."""

import numpy as np
from sklearn import impute as sk

from gpuml._arrays import Array, move, namespace, place_of
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._fills import count_missing
from gpuml.preprocessing._transformer import Transformer
from gpuml.preprocessing.imputer import check_numeric, is_nan, mask_of


class MissingIndicator(Transformer, sk.MissingIndicator):
    """Indicators of missing values, for features that had some in `fit`.

    CuPy, torch and other arrays stay on their device; scikit-learn transforms data in CPU memory,
    including strings and sparse matrices.

    Parameters
    ----------
    missing_values : number, nan, str, None or pandas.NA, default=nan
        The value that counts as missing. For device data: nan (or pandas.NA) or a number.
    features : {"missing-only", "all"}, default="missing-only"
        Whether features without missing values in `fit` are left out.
    sparse : bool or "auto", default="auto"
        Whether `transform` gives a sparse matrix; "auto" gives one of sparse rows. True is only for
        data in CPU memory.
    error_on_new : bool, default=True
        Whether `transform` refuses missing values of a feature that had none in `fit`.

    Attributes
    ----------
    features_ : ndarray of shape (n_output_features,)
        Numbers of the features that are kept.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SimpleImputer : Fills missing values, and appends these columns with ``add_indicator=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.impute import MissingIndicator
    >>> MissingIndicator().fit_transform([[1.0, np.nan], [2.0, 3.0]])
    array([[ True],
           [False]])
    """

    _needs_numbers = False

    def fit_transform(self, X, y=None):
        """Find features with missing values, and mark the missing ones.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        mask : bool array of shape (n_samples, n_output_features)
            In the library and on the device of X.
        """
        return self.fit(X, y).transform(X)

    def _check_there(self, X: Array, *, reset: bool) -> Array:
        check_numeric(self.missing_values)
        if self.sparse is True:
            raise ValueError(
                "sparse=True needs data in CPU memory. Set sparse=False, or convert X to NumPy."
            )
        allow_nan = is_nan(self.missing_values)
        X = check_rows(self, X, reset=reset, allow_nan=allow_nan, keep_dtype=True)
        if namespace(X).isdtype(X.dtype, "bool"):
            raise ValueError(
                "MissingIndicator does not support data with dtype bool. Please provide a numeric "
                "array (with a floating point or integer dtype)."
            )
        return X

    def _fit_there(self, X, y=None):
        X = self._check_there(X, reset=True)
        n_missing = count_missing(X, lambda block: mask_of(block, self.missing_values))
        self._precomputed, self._n_features = False, X.shape[1]
        every = self.features == "all"
        self.features_ = np.arange(X.shape[1]) if every else np.flatnonzero(n_missing)

    def _transform_there(self, X):
        X = self._check_there(X, reset=False)
        xp, missing = namespace(X), mask_of(X, self.missing_values)
        if self.features == "missing-only" and self.error_on_new:
            n_missing = count_missing(X, lambda block: mask_of(block, self.missing_values))
            new = np.setdiff1d(np.flatnonzero(n_missing), self.features_)
            if len(new):
                raise ValueError(
                    f"The features {new} have missing values in transform but have no missing "
                    "values in fit."
                )
        if len(self.features_) == X.shape[1]:
            return missing
        return xp.take(missing, move(self.features_, place_of(X)), axis=1)
