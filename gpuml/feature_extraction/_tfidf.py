"""Counts of terms weighted by how few documents have the term, where the counts are."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.feature_extraction import text as sk
from sklearn.utils.validation import check_is_fitted, validate_data

from gpuml._arrays import (
    Array,
    as_array,
    is_foreign,
    is_numpy,
    is_sparse,
    move,
    namespace,
    place_of,
)
from gpuml._inputs.csr import check_csr, with_values
from gpuml._inputs.validation import check_rows, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _align_api_if_sparse, _fit_context


class TfidfTransformer(Travels, sk.TfidfTransformer, auto_wrap_output_keys=None):
    r"""Weight term counts by tf-idf: terms that few documents contain count more.

    .. math:: z_{ij} = t_{ij} \, v_j / |t_i v|, \qquad v_j = \log \frac{n + s}{d_j + s} + 1

    with the count t of term j in document i, the number d of documents that have the term, and
    s = 1 for smoothing. CSR matrices of SciPy and cupyx are worked on where they are, with float64
    arithmetic; so are dense rows: those of NumPy and CuPy give sparse ones, those of other
    libraries dense ones.

    Parameters
    ----------
    norm : {"l1", "l2"} or None, default="l2"
        Norm of each row of the result; None leaves rows as they are.
    use_idf : bool, default=True
        False takes 1 for all v.
    smooth_idf : bool, default=True
        Whether to count one more document that has all terms.
    sublinear_tf : bool, default=False
        Whether to take 1 + log(t) for t.

    Attributes
    ----------
    idf_ : array of shape (n_features,)
        v, in the library and on the device of X, float32 for float32 X, else float64; only with
        `use_idf`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    TfidfVectorizer : Counts the terms, too.

    References
    ----------
    C. D. Manning, P. Raghavan, H. Schuetze, "Introduction to Information Retrieval", Cambridge
    University Press (2008), chapter 6.

    Examples
    --------
    >>> from gpuml.feature_extraction.text import TfidfTransformer
    >>> TfidfTransformer().fit_transform([[1, 1], [0, 2]]).toarray().round(2)
    array([[0.81, 0.58],
           [0.  , 1.  ]])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Find the weights of the terms.

        Parameters
        ----------
        X : sparse matrix or array-like of shape (n_samples, n_features)
            Counts.
        y : None
            Ignored.

        Returns
        -------
        self : TfidfTransformer

        Raises
        ------
        ValueError
            For input that scikit-learn's TfidfTransformer rejects. A failed fit leaves the
            estimator as it was.
        """
        with unchanged_on_error(self):
            X = _counts(self, X, reset=True)
            self.__dict__.pop("idf_", None)
            if self.use_idf:
                self.idf_ = _inverse_frequencies(X, int(self.smooth_idf))
        return self

    def transform(self, X, copy=True):
        """Weight counts.

        Parameters
        ----------
        X : sparse matrix or array-like of shape (n_samples, n_features)
        copy : bool, default=True
            False lets the result share its pattern with X.

        Returns
        -------
        X_tr : CSR matrix of shape (n_samples, n_features)
            In the library and on the device of X; float32 for float32 X, else float64.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        check_is_fitted(self)
        X = _counts(self, X, reset=False)
        if not is_sparse(X):
            return self._weigh_dense(X)
        place = place_of(X.data)
        xp = place.xp
        dtype = _result_dtype(X.data, xp)
        values = xp.astype(X.data, xp.float64)
        if self.sublinear_tf:
            values = xp.log(values) + 1.0
        if hasattr(self, "idf_"):
            values = values * xp.astype(move(self.idf_, place), xp.float64)[X.indices]
        if self.norm is not None:
            values = values / row_norms(X, values, self.norm)
        return _align_api_if_sparse(with_values(X, xp.astype(values, dtype), copy=copy))

    def _weigh_dense(self, X):
        """Dense rows of a library without sparse matrices."""
        place = place_of(X)
        xp = place.xp
        Z = xp.astype(X, xp.float64)
        if self.sublinear_tf:
            is_there = Z != 0
            Z = xp.where(is_there, xp.log(xp.where(is_there, Z, xp.ones_like(Z))) + 1.0, Z)
        if hasattr(self, "idf_"):
            Z = Z * xp.astype(move(self.idf_, place), xp.float64)
        if self.norm is not None:
            norms = xp.linalg.vector_norm(Z, axis=1, keepdims=True, ord=int(self.norm[1]))
            Z = Z / xp.where(norms > 0, norms, xp.ones_like(norms))
        return xp.astype(Z, _result_dtype(X, xp))


def normalised(X: Any, norm: str) -> Any:
    """CSR whose rows have norm 1, but for those that are 0; the pattern is that of X."""
    xp = namespace(X.data)
    values = xp.astype(X.data, xp.float64)
    values = values / row_norms(X, values, norm)
    return with_values(X, xp.astype(values, _result_dtype(X.data, xp)))


def row_norms(X: Any, values: Array, norm: str) -> Array:
    """For each value of a CSR matrix the norm of its row, 1 for rows of zeros; float64 (nnz,).

    `values` (nnz,) stand in for those of X.
    """
    xp = namespace(values)
    powers = xp.abs(values) if norm == "l1" else values * values
    sums = with_values(X, powers) @ xp.ones(X.shape[1], dtype=xp.float64)
    norms = sums if norm == "l1" else xp.sqrt(sums)
    norms = xp.where(norms > 0, norms, xp.ones_like(norms))
    return xp.take(norms, rows_of_values(X), axis=0)


def rows_of_values(X: Any) -> Array:
    """The number of the row of each value of a CSR matrix (nnz,)."""
    xp = namespace(X.data)
    if is_numpy(X.data):
        return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    # CuPy repeats by numbers in CPU memory only.
    position = xp.arange(X.indices.shape[0], dtype=X.indptr.dtype)
    return xp.searchsorted(X.indptr, position, side="right") - 1


def _counts(model, X, *, reset):
    """Checked counts: CSR, or dense rows of a library without sparse matrices."""
    X = as_array(X)
    if is_sparse(X):
        return check_csr(model, X, reset=reset)
    if not is_foreign(X):
        return sparse.csr_array(validate_data(model, X, reset=reset))
    X = check_rows(model, X, reset=reset, keep_dtype=True)
    if place_of(X).kind != "cupy":
        return X
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(X if X.dtype.kind == "f" and X.dtype.itemsize > 2 else X.astype(np.float64))


def _inverse_frequencies(X, smooth):
    values = X.data if is_sparse(X) else X
    place = place_of(values)
    xp = place.xp
    if is_sparse(X):
        documents = xp.bincount(X.indices, minlength=X.shape[1])
    else:
        documents = xp.sum(xp.astype(xp.astype(X, xp.bool), xp.int64), axis=0)
    frequency = xp.astype(documents, xp.float64) + float(smooth)
    weights = xp.log((X.shape[0] + smooth) / frequency) + 1.0
    return xp.astype(weights, _result_dtype(values, xp))


def _result_dtype(values, xp):
    return xp.float32 if values.dtype == xp.float32 else xp.float64
