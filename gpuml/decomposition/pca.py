"""Principal component analysis on the device of its data."""

from typing import ClassVar

from sklearn.decomposition import PCA as SklearnPCA
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    is_cupyx_sparse,
    is_foreign,
    is_host_sparse,
    is_sparse,
    namespace,
    place_of,
)
from gpuml._inputs.host_rows import naming_columns
from gpuml._sklearn import StrOptions
from gpuml.decomposition._compressed import Iteration
from gpuml.decomposition._engines import CUML_SOLVERS, fit_cuml_pca
from gpuml.decomposition._estimator import Decomposition
from gpuml.decomposition._fitted import Principal
from gpuml.decomposition._fitting import MANY_SPARSE_FEATURES, SparseBatch
from gpuml.decomposition._input import check_fit_rows, check_seen_dense
from gpuml.decomposition._principal import (
    MANY_FEATURES,
    Generative,
    choose_solver,
    exact_solver,
    is_exact,
    log_likelihood,
    precision,
    streamed_log_likelihood,
    type_of_count,
)
from gpuml.decomposition._streamed import check_streamed, opened
from gpuml.reading.sources import is_stored
from gpuml.solvers.randomized import n_power_iter

NATIVE_SOLVERS = ("auto", "full", "covariance_eigh", "randomized", "compressed")


class PCA(Decomposition, Generative, SklearnPCA):
    r"""Principal component analysis: the directions in which rows vary most.

    With the mean m of the rows, the components are the orthonormal :math:`v_1, v_2, \dots` that
    maximise, one after the other,

    .. math:: \frac{1}{n - 1} \sum_i (v_j' (x_i - m))^2

    NumPy, pandas, polars and lists go to the device of ``gpuml.set_config(device=...)``;
    CuPy, torch and other device arrays stay on theirs, sparse CuPy matrices included. Sums are
    float64 whatever the dtype of X, so float32 data needs no widening in memory; results have the
    dtype of X.

    Parameters
    ----------
    n_components : int, float in (0, 1), "mle" or None, default=None
        Number of components to keep. A float keeps as many as are needed to explain more than this
        share of the variance. "mle" uses Minka's estimate. None keeps min(n_samples, n_features)
        (one less with "arpack").
    copy : bool, default=True
        Used only by scikit-learn's solvers; gpuml's never write to X.
    whiten : bool, default=False
        Whether `transform` divides each component by its standard deviation in the training rows.
    svd_solver : str, default="auto"
        - "covariance_eigh": eigenvectors of second moments, in one pass over the rows, which need
          not fit on the device. Singular values below 1e-8 of the largest are lost to rounding; for
          float32 rows in CPU memory, whose products are float32, those below 1e-3.
        - "full": an SVD of a triangular factor of the rows, exact up to rounding.
        - "randomized": subspace iteration with a random block; approximate, for large data and few
          components.
        - "compressed": the same iteration with one pass over the rows per step, where "randomized"
          takes two; see `gpuml.linalg.svd_compressed`. Use it for data that takes long to read, or
          does not fit into memory: it reads `gpuml.encodings.Packed` codes, ``zarr.Array``, memory
          maps and all other input of `svd_compressed` block by block. Missing codes count as the
          mean of their feature; products of codes and 8-bit integers are float32. If the rows are
          on a cluster, only sums are sent.
        - "auto": "covariance_eigh" for at least 10 times as many rows as features and up to 5,000
          features; otherwise "full" if the smaller side is at most 1,000; otherwise "randomized"
          for an integer `n_components` below 0.8 of the smaller side, and "full" for all others.
          scikit-learn chooses "randomized" more often, where exact components cost little more.
        - "arpack": scikit-learn's, for data in CPU memory. "auto" uses it for sparse data in CPU
          memory.
        - "jacobi", "cuml-full": cuML's solvers ("jacobi", "full"), on a GPU.
    tol : float, default=0.0
        Tolerance of "arpack" and "jacobi" (for "jacobi", 0 is cuML's default).
    iterated_power : int or "auto", default="auto"
        Number of iterations of "randomized", "compressed" and "jacobi". "auto" is 7 if there are
        fewer components than a tenth of the smaller side of X, and 4 otherwise.
    n_oversamples : int, default=10
        Number of random vectors, beyond the components, of "randomized" and "compressed".
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        Has no effect: "randomized" always orthonormalises by QR, the stable choice, which costs
        little compared with the products with the rows.
    random_state : int, RandomState instance or None, default=None
        Seed of "randomized", "compressed" and "arpack". The same seed draws the same numbers as in
        scikit-learn (and more, for "compressed").

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        Orthonormal rows, in the library, on the device and of the dtype of X, as are all arrays
        below. The entry of largest absolute value in each is positive.
    explained_variance_ : array of shape (n_components_,)
        Variances along the components, in descending order.
    explained_variance_ratio_ : array of shape (n_components_,)
        The same, as shares of the total variance of the features.
    singular_values_ : array of shape (n_components_,)
        Of the centred rows.
    mean_ : array of shape (n_features,)
    noise_variance_ : float or array of shape ()
        Mean variance along the components that are left out; 0.0 if none is.
    n_components_ : int
    n_samples_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    TruncatedSVD : The same without centring.
    IncrementalPCA : PCA of rows that come in batches.

    References
    ----------
    I. T. Jolliffe, "Principal component analysis", 2nd ed. (2002). M. E. Tipping, C. M. Bishop,
    "Probabilistic principal component analysis", J. R. Stat. Soc. B 61 (1999). T. P. Minka,
    "Automatic choice of dimensionality for PCA", NIPS 13 (2000).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.decomposition import PCA
    >>> X = np.array([[-1.0, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]])
    >>> pca = PCA(n_components=1).fit(X)
    >>> pca.explained_variance_ratio_.round(3)
    array([0.992])
    """

    _parameter_constraints: ClassVar[dict] = {
        **SklearnPCA._parameter_constraints,
        "svd_solver": [StrOptions({*NATIVE_SOLVERS, "arpack", *CUML_SOLVERS})],
    }

    # Hyper-parameters that may differ between candidates of one decomposition.
    affine_params = ("n_components", "whiten")

    _centred = True

    def _least(self):
        # Of one row scikit-learn knows the mean, and a component that it does not vary along.
        return {"min_rows": 2 if self.fits_batches else 1}

    def _find(self, X):
        if self.svd_solver not in CUML_SOLVERS or is_sparse(X):
            return super()._find(X)
        self.__dict__.update(fit_cuml_pca(self, X), _fit_svd_solver=self.svd_solver)
        X = check_fit_rows(self, X)
        return X, place_of(X)

    def _needs_sklearn(self, X):
        return is_host_sparse(X) or self.svd_solver == "arpack"

    def _fit_by_sklearn(self, method, X):
        """Sparse data in CPU memory, and ARPACK."""
        if is_foreign(X) or is_cupyx_sparse(X):
            raise ValueError(
                "PCA with svd_solver='arpack' is not supported for Array API inputs. ARPACK works "
                "in CPU memory: use svd_solver='auto', or pass NumPy arrays (cupy.asnumpy(X), "
                "X.cpu().numpy())."
            )
        with naming_columns(self, X):
            result = getattr(SklearnPCA, method)(self, X)
        self.n_components_ = self.components_.shape[0]
        return result

    @property
    def fits_batches(self) -> bool:
        """Whether `fit_batch` does the work of `fit`, wherever the rows of a batch are."""
        return self.svd_solver == "compressed"

    def _solver(self, rows):
        shape = rows.n_rows, rows.n_features
        if not isinstance(rows, SparseBatch):
            is_auto = self.svd_solver == "auto"
            return choose_solver(*shape, self.n_components) if is_auto else self.svd_solver
        if self.svd_solver == "auto":
            return "covariance_eigh" if shape[1] <= MANY_SPARSE_FEATURES else "randomized"
        if self.svd_solver not in ("covariance_eigh", "randomized"):
            raise TypeError(
                "PCA supports sparse input on a GPU only with svd_solver='auto', 'covariance_eigh' "
                f"or 'randomized', while {self.svd_solver!r} was passed."
            )
        return self.svd_solver

    def _iteration(self, count, n_rows, n_features):
        n_iter = n_power_iter(self.iterated_power, count, n_rows, n_features)
        return Iteration(self.n_oversamples, n_iter, self.random_state)

    def _fitted(self, found, counts, n_rows, batch, solvers):
        kind = type_of_count(self.n_components)
        return Principal(found.found, counts, n_rows, batch, self.whiten, solvers, kind)

    def score_samples(self, X):
        """Log-likelihood of each row under the generative model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            What is stored is read block by block, as by `transform`.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In the library and on the device of X.
        """
        check_is_fitted(self)
        X = opened(X)
        if is_stored(X):
            return streamed_log_likelihood(self, check_streamed(self, X, reset=False))
        X = check_seen_dense(self, X)
        return log_likelihood(precision(self), self.mean_, X)

    def score(self, X, y=None):
        """Mean log-likelihood of the rows under the generative model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        log_likelihood : float
        """
        samples = self.score_samples(X)
        return float(namespace(samples).mean(samples))

    def _why_not(self, shape):
        """Moments of more than 5,000 features are not to be had."""
        if shape[1] > MANY_FEATURES:
            return f"more than {MANY_FEATURES} features"
        exact = self.svd_solver in ("covariance_eigh", "full")
        if exact or (self.svd_solver == "auto" and is_exact(*shape)):
            return None
        return f"svd_solver={self.svd_solver!r} for X of shape {shape}"

    def _solver_of_part(self, n_rows, n_features):
        return exact_solver(n_rows, n_features) if self.svd_solver == "auto" else self.svd_solver

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self.svd_solver in NATIVE_SOLVERS
        return tags
