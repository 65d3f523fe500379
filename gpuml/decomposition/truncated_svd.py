"""Truncated singular value decomposition on the device of its data."""

from typing import ClassVar

from sklearn.decomposition import TruncatedSVD as SklearnTruncatedSVD

from gpuml._arrays import is_cupyx_sparse, is_foreign, is_host_sparse, is_sparse
from gpuml._inputs.host_rows import naming_columns
from gpuml._sklearn import StrOptions
from gpuml.decomposition._compressed import Iteration
from gpuml.decomposition._estimator import Decomposition
from gpuml.decomposition._fitted import Truncated
from gpuml.decomposition._fitting import MANY_SPARSE_FEATURES, SparseBatch
from gpuml.decomposition._principal import SMALL_SIDE
from gpuml.decomposition._streamed import Streamed


class TruncatedSVD(Decomposition, SklearnTruncatedSVD):
    r"""Truncated singular value decomposition: like PCA, without centring.

    For rows X the components are the first k right singular vectors V of

    .. math:: X = U \, \mathrm{diag}(s) \, V'

    NumPy, pandas, polars and lists go to the device of ``gpuml.set_config(device=...)``;
    CuPy, torch and other device arrays stay on theirs, sparse CuPy matrices included. Products
    are float64 whatever the dtype of X; results have the dtype of X.

    Parameters
    ----------
    n_components : int, default=2
        Number k of components, at most the number of features; for "arpack", less than both sides
        of X.
    algorithm : {"randomized", "arpack", "compressed"}, default="randomized"
        - "randomized": subspace iteration with a random block. For dense rows of up to 1,000
          features, eigenvectors of second moments instead: they are what the iteration converges
          to, and need one pass over the rows.
        - "compressed": the same iteration with one pass over the rows per step, where "randomized"
          takes two. It reads the input of `gpuml.linalg.svd_compressed` block by block: packed
          codes (missing ones count as the mean of their feature), ``zarr.Array``, memory maps.
          Products of codes and 8-bit integers are float32. If the rows are on a cluster, only sums
          are sent.
        - "arpack": scikit-learn's, for data in CPU memory; on a device, eigenvectors of second
          moments.
    n_iter : int, default=5
        Number of iterations of "randomized" and "compressed".
    n_oversamples : int, default=10
        Number of random vectors, beyond the components, of "randomized" and "compressed".
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        Has no effect: QR, the stable choice, is always used.
    random_state : int, RandomState instance or None, default=None
        Seed of "randomized", "compressed" and "arpack". The same seed draws the same numbers as in
        scikit-learn (and more, for "compressed").
    tol : float, default=0.0
        Only for ARPACK.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        V', in the library, on the device and of the dtype of X, as are all arrays below. The entry
        of largest absolute value in each row is positive.
    explained_variance_ : array of shape (n_components,)
        Variance of each column of the projected rows.
    explained_variance_ratio_ : array of shape (n_components,)
        The same, as shares of the total variance of the features.
    singular_values_ : array of shape (n_components,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PCA : The same with centring.

    References
    ----------
    N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness", SIAM Review 53
    (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.decomposition import TruncatedSVD
    >>> X = np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    >>> TruncatedSVD(n_components=2).fit(X).singular_values_.round(6)
    array([3., 2.])
    """

    _parameter_constraints: ClassVar[dict] = {
        **SklearnTruncatedSVD._parameter_constraints,
        "algorithm": [StrOptions({"arpack", "randomized", "compressed"})],
    }

    # Hyper-parameters that may differ between candidates of one decomposition.
    affine_params = ("n_components",)

    _centred = False

    def _least(self):
        return {"min_features": 2}

    def _fit_by_sklearn(self, method, X):
        """Sparse data in CPU memory, and ARPACK; its `fit` is a call of `fit_transform`."""
        with naming_columns(self, X):
            return SklearnTruncatedSVD.fit_transform(self, X)

    def _needs_sklearn(self, X):
        if self.algorithm == "compressed" and is_sparse(X):
            raise TypeError(
                "Sparse data was passed, but dense data is required for algorithm='compressed'. "
                "Use algorithm='randomized'."
            )
        return is_host_sparse(X) or (
            self.algorithm == "arpack" and not (is_foreign(X) or is_cupyx_sparse(X))
        )

    @property
    def fits_batches(self) -> bool:
        """Whether `fit_batch` does the work of `fit`, wherever the rows of a batch are."""
        return self.algorithm == "compressed"

    def _solver(self, rows):
        if isinstance(rows, SparseBatch):
            if self.algorithm == "arpack" and rows.n_features > MANY_SPARSE_FEATURES:
                raise ValueError(
                    "algorithm='arpack' needs the second moments of all features on a GPU, which "
                    f"is too much for {rows.n_features}. Use algorithm='randomized', or pass "
                    "data in CPU memory (X.get())."
                )
            by_moments = self.algorithm == "arpack"
        elif isinstance(rows, Streamed) or self.fits_batches:
            return "compressed"
        else:
            by_moments = self.algorithm == "arpack" or rows.n_features <= SMALL_SIDE
        return "covariance_eigh" if by_moments else "randomized"

    def _wanted(self, n_rows, n_features, solver):
        n, p = n_rows, n_features
        if self.algorithm == "arpack" and not self.n_components < min(n, p):
            raise ValueError(
                f"n_components({self.n_components}) must be < min(n_samples, n_features)="
                f"{min(n, p)} with algorithm='arpack'."
            )
        if self.n_components > p:
            raise ValueError(f"n_components({self.n_components}) must be <= n_features({p}).")
        return min(self.n_components, n)

    def _iteration(self, count, n_rows, n_features):
        return Iteration(self.n_oversamples, self.n_iter, self.random_state)

    def _fitted(self, found, counts, n_rows, batch, solvers):
        return Truncated(
            found.found, counts, n_rows, batch, found.variance, found.spread, found.fill
        )

    def _why_not(self, shape):
        """Components follow from second moments for both algorithms.

        ARPACK stops where only rounding is left, and the randomized iteration is replaced by its
        limit for so many features anyway.
        """
        loose = self.algorithm == "arpack" and self.tol > 0
        if loose or self.fits_batches:
            return f"tol={self.tol!r}" if loose else f"algorithm={self.algorithm!r}"
        return None if shape[1] <= SMALL_SIDE else f"more than {SMALL_SIDE} features"

    def _solver_of_part(self, n_rows, n_features):
        return "covariance_eigh"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self.algorithm in ("randomized", "compressed")
        tags.input_tags.sparse = self.algorithm != "compressed"
        return tags
