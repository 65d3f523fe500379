"""Random projections: scikit-learn draws the matrix, and products are computed where X is."""

import copy
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import random_projection as sk
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    as_array,
    compute_place,
    is_array,
    is_cupyx_sparse,
    is_foreign,
    is_sparse,
    move,
    nbytes,
    place_of,
    to_host,
)
from gpuml._inputs.csr import check_csr
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import check_images, check_rows, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._settings.config import current_settings
from gpuml._sklearn import _align_api_if_sparse, _fit_context

# A CPU multiplies by about this many components in the time in which it reads the rows.
COMPONENTS_A_READING = 8


class RandomProjection(Travels, TransformerMixin):
    """`fit`, and products with `components_`; a base class before scikit-learn's class."""

    components_: Any  # an array, or a sparse matrix of SciPy or cupyx
    inverse_components_: Array

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Draw the random matrix.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Only its shape and dtype matter.
        y : None
            Ignored.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class of the same name rejects. A failed fit leaves the
            estimator as it was.
        """
        with unchanged_on_error(self):
            X = as_array(X)
            if _is_elsewhere(X):
                X = _check(self, X, reset=True)
                # scikit-learn's fit needs a matrix of that shape; an empty one costs nothing.
                super().fit(sparse.csc_matrix(X.shape, dtype=_host_dtype(X)))
                self._bring(_place(X))
            else:
                super().fit(X)
            # scikit-learn would treat "auto" as a number here.
            self._n_features_out = int(self.n_components_)
        return self

    def inverse_transform(self, X):
        """Map projections back to rows, by the pseudo-inverse of the random matrix.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_components)

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library and on the device of X.

        Raises
        ------
        ValueError
            If X has another number of columns, or contains NaN or infinity.
        """
        check_is_fitted(self)
        X = as_array(X)
        if not _is_elsewhere(X):
            return super(RandomProjection, _at_host(self)).inverse_transform(X)
        if not is_sparse(X):
            X = check_images(self, X, self.n_components_)
        known = getattr(self, "inverse_components_", None)
        if not self.compute_inverse_components or known is None:
            known = _at_host(self)._compute_inverse_components()
        return X @ _as_of(move(known, _place(X)), X).T

    def transform(self, X):
        """Project rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X_new : array or sparse matrix of shape (n_samples, n_components)
            In the library and on the device of X, and on a device also of the dtype of X. Sparse if
            X and the components are sparse and `dense_output` is False.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        check_is_fitted(self)
        X = as_array(X)
        if _is_elsewhere(X):
            return as_asked(self, self._product(_check(self, X, reset=False)))
        if sparse.issparse(X) or self._work_place(X) == HOST:
            return super(RandomProjection, _at_host(self)).transform(X)
        X = check_rows(self, X, reset=False)
        return to_host(self._product(move(X, self._work_place(X))))

    def _work_place(self, X: Any) -> Place:
        """The compute device for dense rows in CPU memory."""
        setting = current_settings().device
        if setting == "cuda" and not is_array(X):
            return compute_place(np.empty(0), 0, setting)
        if not is_array(X):
            return HOST
        passes = max(1, int(self.n_components_) // COMPONENTS_A_READING)
        return compute_place(X, nbytes(X) * passes, setting)

    def _sklearn_state(self) -> dict[str, Any]:
        return dict(vars(_at_host(self)))

    def _product(self, X: Any) -> Any:
        """``X C'`` for rows on a device or in a library other than NumPy."""
        C = _as_of(_at(self.components_, _place(X)), X)
        if is_sparse(X):
            Z = X @ C.T
            return Z.toarray() if is_sparse(Z) and self.dense_output else Z
        if is_sparse(C):
            return (C @ X.T).T
        return X @ C.T

    def _bring(self, place: Place) -> None:
        """Move the fitted matrices to a place."""
        self.components_ = _at(self.components_, place)
        if hasattr(self, "inverse_components_"):
            self.inverse_components_ = move(self.inverse_components_, place)


class GaussianRandomProjection(RandomProjection, sk.GaussianRandomProjection):
    r"""Project rows by a matrix of random normal numbers, :math:`Z = X C'`.

    The entries of C have mean 0 and variance 1 / k, for k components. scikit-learn draws C with
    NumPy, so a seed gives the same matrix on every device; C depends only on the shape of X. X may
    be a NumPy, CuPy, torch or other array, or a sparse matrix of SciPy or cupyx; the product is
    computed on its device. ``gpuml.set_config(device=...)`` may choose a GPU for dense rows in CPU
    memory; the result is then in CPU memory.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number k of columns of Z. "auto" is the bound of the Johnson-Lindenstrauss lemma for `eps`
        and the number of rows.
    eps : float, default=0.1
        Largest relative error of squared distances between rows, for "auto".
    compute_inverse_components : bool, default=False
        Whether `fit` computes the pseudo-inverse of C for `inverse_transform`, which otherwise
        computes it in each call.
    random_state : int, RandomState instance or None, default=None
        Seed of C.

    Attributes
    ----------
    n_components_ : int
    components_ : array of shape (n_components, n_features)
        C, in the library, on the device and of the dtype of the X of `fit`.
    inverse_components_ : array of shape (n_features, n_components)
        Pseudo-inverse of C; only with `compute_inverse_components`. Library, device and dtype as
        for `components_`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SparseRandomProjection : Projection by a sparse random matrix.

    References
    ----------
    E. Bingham, H. Mannila, "Random projection in dimensionality reduction", KDD 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.random_projection import GaussianRandomProjection
    >>> X = np.random.RandomState(0).uniform(size=(25, 300))
    >>> GaussianRandomProjection(n_components=10, random_state=0).fit_transform(X).shape
    (25, 10)
    """


class SparseRandomProjection(RandomProjection, sk.SparseRandomProjection):
    r"""Project rows by a sparse random matrix, :math:`Z = X C'`.

    The entries of C are :math:`\pm \sqrt{1 / (d k)}` with the probability d, for k components, and
    otherwise 0. scikit-learn draws C with NumPy, so a seed gives the same matrix on every device.
    The product is computed on the device of X, as for `GaussianRandomProjection`.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number k of columns of Z. "auto" is the bound of the Johnson-Lindenstrauss lemma for `eps`
        and the number of rows.
    density : float or "auto", default="auto"
        Share d of entries that are not 0; "auto" is 1 / sqrt(n_features).
    eps : float, default=0.1
        Largest relative error of squared distances between rows, for "auto".
    dense_output : bool, default=False
        Whether Z is dense for sparse X; for dense X, it always is.
    compute_inverse_components : bool, default=False
        Whether `fit` computes the pseudo-inverse of C for `inverse_transform`, which otherwise
        computes it in each call.
    random_state : int, RandomState instance or None, default=None
        Seed of C.

    Attributes
    ----------
    n_components_ : int
    components_ : sparse matrix or array of shape (n_components, n_features)
        C. A CSR matrix of SciPy, or of cupyx if the X of `fit` is of CuPy or cupyx, unless d is 1;
        for other libraries, an array of theirs.
    density_ : float
        The density d.
    inverse_components_ : array of shape (n_features, n_components)
        Pseudo-inverse of C; only with `compute_inverse_components`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    GaussianRandomProjection : Projection by a dense random matrix.

    References
    ----------
    P. Li, T. J. Hastie, K. W. Church, "Very sparse random projections", KDD 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.random_projection import SparseRandomProjection
    >>> X = np.random.RandomState(0).uniform(size=(25, 300))
    >>> SparseRandomProjection(n_components=10, random_state=0).fit_transform(X).shape
    (25, 10)
    """


def _is_elsewhere(X):
    return is_foreign(X) or is_cupyx_sparse(X)


def _place(X):
    return place_of(X.data if is_sparse(X) else X)


def _check(model, X, *, reset):
    if is_sparse(X):
        return check_csr(model, X, reset=reset, floats=True)
    return check_rows(model, X, reset=reset)


def _host_dtype(X):
    return np.dtype(str(X.dtype).rpartition(".")[2])


def _as_of(C, X):
    """The matrix C in the dtype of X."""
    if is_sparse(C):
        return C.astype(X.dtype)
    return place_of(C).xp.astype(C, X.dtype, copy=False)


def _at(components: Any, place: Place) -> Any:
    """Components at a place; dense if they are sparse and its library has no sparse matrices."""
    if is_cupyx_sparse(components):
        if place.kind == "cupy":
            return components
        components = components.get()
    if not sparse.issparse(components):
        return move(components, place)
    if place.kind == "cupy":
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(components)
    return move(components.toarray(), place)


def _at_host(model):
    """The model if scikit-learn can use its fitted matrices; otherwise a copy that it can use."""
    if not _is_elsewhere(model.components_):
        return model
    copied = copy.copy(model)
    components = model.components_
    if is_cupyx_sparse(components):
        copied.components_ = _align_api_if_sparse(components.get())
    elif getattr(model, "density_", 1) < 1:
        copied.components_ = _align_api_if_sparse(sparse.csr_array(to_host(components)))
    else:
        copied.components_ = to_host(components)
    if hasattr(model, "inverse_components_"):
        copied.inverse_components_ = to_host(model.inverse_components_)
    return copied
