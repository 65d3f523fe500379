"""Zeros and ones by a threshold, on the device of the rows."""

from sklearn import preprocessing as sk

from gpuml._arrays import namespace
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._transformer import Transformer


class Binarizer(Transformer, sk.Binarizer):
    r"""Set values above a threshold to 1 and others to 0, :math:`z_{ij} = [x_{ij} > t]`.

    CuPy, torch and other arrays stay on their device; scikit-learn transforms data in CPU memory,
    including sparse matrices.

    Parameters
    ----------
    threshold : float, default=0.0
    copy : bool, default=True
        Whether `transform` must not write to X. gpuml never does; scikit-learn's code may.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    KBinsDiscretizer : Several bins for each feature.

    Examples
    --------
    >>> from gpuml.preprocessing import Binarizer
    >>> Binarizer(threshold=1.5).fit_transform([[1.0, 2.0], [3.0, 0.0]])
    array([[0., 1.],
           [1., 0.]])
    """

    def _fit_there(self, X, y=None):
        check_rows(self, X, reset=True)

    def transform(self, X, copy=None):
        """Compare each value with the threshold.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        copy : bool, default=None
            Overrides the parameter of the class.

        Returns
        -------
        X_tr : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.

        Raises
        ------
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        return self._transformed(X, copy)

    def _transform_there(self, X, copy=None):
        X = check_rows(self, X, reset=False, keep_dtype=True)
        xp = namespace(X)
        values = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
        return xp.astype(values > self.threshold, X.dtype)
