"""Rows scaled to unit norm, on the device of the rows."""

from sklearn import preprocessing as sk

from gpuml._arrays import namespace
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._transformer import Transformer

ORDERS = {"l1": 1, "l2": 2, "max": float("inf")}


class Normalizer(Transformer, sk.Normalizer):
    r"""Divide each row by its norm, :math:`z_i = x_i / |x_i|`.

    A row of zeros stays as it is. Arrays of CuPy, torch and other libraries are transformed on
    their device; scikit-learn transforms data in CPU memory, sparse rows included.

    Parameters
    ----------
    norm : {"l1", "l2", "max"}, default="l2"
        Sum of absolute values, root of the sum of squares, or largest absolute value.
    copy : bool, default=True
        Whether `transform` must not write to X. gpuml never does; scikit-learn's code may.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    Examples
    --------
    >>> from gpuml.preprocessing import Normalizer
    >>> Normalizer().fit_transform([[3.0, 4.0], [0.0, 2.0]])
    array([[0.6, 0.8],
           [0. , 1. ]])
    """

    def _fit_there(self, X, y=None):
        check_rows(self, X, reset=True)

    def transform(self, X, copy=None):
        """Scale rows to unit norm.

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
        X = check_rows(self, X, reset=False)
        xp = namespace(X)
        norms = xp.linalg.vector_norm(X, axis=1, keepdims=True, ord=ORDERS[self.norm])
        # scikit-learn's bound for a row of zeros.
        tiny = norms < 10 * float(xp.finfo(X.dtype).eps)
        return X / xp.where(tiny, xp.ones_like(norms), norms)
