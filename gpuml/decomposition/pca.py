"""Principal component analysis on the device of its data."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    as_array,
    is_cupyx_sparse,
    is_foreign,
    is_sparse,
    move,
    namespace,
    place_of,
)
from gpuml._inputs.csr import check_csr
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import unchanged_on_error
from gpuml._settings.config import current_settings
from gpuml._sklearn import StrOptions, _fit_context
from gpuml.data import Batch
from gpuml.decomposition._engines import CUML_SOLVERS, fit_cuml_pca
from gpuml.decomposition._fitting import fit_dense, fit_sparse
from gpuml.decomposition._input import batch_of, check_fit_rows, check_seen_dense
from gpuml.decomposition._principal import (
    MANY_FEATURES,
    Principal,
    check_n_components,
    covariance,
    exact_solver,
    is_exact,
    kept_counts,
    log_likelihood,
    n_leading,
    precision,
    streamed_log_likelihood,
)
from gpuml.decomposition._projection import Projection, in_kind, project
from gpuml.decomposition._streamed import check_streamed, opened
from gpuml.extending import AffineStep
from gpuml.reading.sources import is_stored
from gpuml.solvers.affine import FittedStep, Parts
from gpuml.solvers.components import Components, from_moments, from_rows
from gpuml.solvers.moments import squares_vanish

NATIVE_SOLVERS = ("auto", "full", "covariance_eigh", "randomized", "compressed")
SCORE_BLOCK_BYTES = 2**25


class PCA(AffineStep, Projection, SklearnPCA):
    r"""Principal component analysis: the directions in which rows vary most.

    With the mean m of the rows, the components are the orthonormal :math:`v_1, v_2, \dots` that
    maximise, one after the other,

    .. math:: \frac{1}{n - 1} \sum_i (v_j' (x_i - m))^2

    NumPy, pandas, polars and lists are worked on where ``gpuml.set_config(device=...)`` says;
    CuPy, torch and other device arrays where they are, sparse CuPy matrices included. Sums are
    float64 whatever the dtype of X, so float32 data needs no widening in memory; results have the
    dtype of X.

    Parameters
    ----------
    n_components : int, float in (0, 1), "mle" or None, default=None
        Components to keep. A float keeps as many as explain more than that share of the variance;
        "mle" lets Minka's estimate decide; None keeps min(n_samples, n_features) (one less with
        "arpack").
    copy : bool, default=True
        Only for scikit-learn's solvers; ours never write to X.
    whiten : bool, default=False
        Whether `transform` divides each column by its standard deviation in the rows of `fit`.
    svd_solver : str, default="auto"
        - "covariance_eigh": eigenvectors of float64 second moments, in one pass over the rows,
          which may be more than a device holds. Singular values below 1e-8 of the largest are
          lost in rounding.
        - "full": an SVD of a triangular factor of the rows, exact to rounding of the rows.
        - "randomized": iteration with a random block; approximate, for large data and few
          components.
        - "compressed": the same iteration with one reading of the rows for each step, where
          "randomized" takes two; see `gpuml.linalg.svd_compressed`. For data that takes long to
          read, or does not fit into memory: it takes `gpuml.encodings.Packed` codes,
          ``zarr.Array``, memory maps and what else `svd_compressed` takes, and reads it block by
          block. Missing codes count as the mean of their feature; products of codes, and of
          integers of 8 bits, are float32. Of rows on a cluster, only sums travel.
        - "auto": "covariance_eigh" for at least 10 times as many rows as features, up to 5,000
          features; else "full" where the smaller side is at most 1,000; else "randomized" for an
          integer below 0.8 of the smaller side, and "full" for anything else. scikit-learn takes
          "randomized" more often, where exact components cost little more.
        - "arpack": scikit-learn's, for host data. "auto" takes it for sparse host data.
        - "jacobi", "cuml-full": cuML's solvers ("jacobi", "full"), on a GPU.
    tol : float, default=0.0
        Only for "arpack" and "jacobi" (0 is then cuML's default).
    iterated_power : int or "auto", default="auto"
        Iterations of "randomized", "compressed" and "jacobi". "auto" is 7 for fewer components
        than a tenth of the smaller side, else 4.
    n_oversamples : int, default=10
        Random vectors of "randomized" and "compressed" beyond the number of components.
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        Kept for scikit-learn's sake: "randomized" always orthonormalises by QR, the stable choice,
        which costs little next to the products with the rows.
    random_state : int, RandomState instance or None, default=None
        For "randomized", "compressed" and "arpack". The same seed draws the numbers that
        scikit-learn draws ("compressed" draws some of its own).

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        Orthonormal rows, in the library, on the device and of the dtype of X, as are all arrays
        below. The entry of largest absolute value in each is positive.
    explained_variance_ : array of shape (n_components_,)
        Variances along the components, in descending order.
    explained_variance_ratio_ : array of shape (n_components_,)
        The same as shares of the variance of all features.
    singular_values_ : array of shape (n_components_,)
        Of the centred rows.
    mean_ : array of shape (n_features,)
    noise_variance_ : float or array of shape ()
        Mean variance along the directions that are left out; 0.0 where none is.
    n_components_ : int
    n_samples_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    TruncatedSVD : Without removing the mean.
    IncrementalPCA : For rows that come in batches.

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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            At least two rows. With "compressed", also what `gpuml.linalg.svd_compressed` takes.
        y : ignored

        Returns
        -------
        self : PCA

        Raises
        ------
        ValueError
            For input that scikit-learn's PCA rejects, for a single row, and for device data with
            "arpack". A failed fit leaves the estimator as it was.
        TypeError
            For sparse X with a solver that would make it dense.
        RuntimeError, ImportError
            For cuML's solvers without a GPU or without cuML.
        MemoryError
            If a device has no room for even small blocks of rows.
        """
        with unchanged_on_error(self):
            X = opened(X)
            if self._needs_host(X):
                self._fit_on_host(SklearnPCA.fit, X)
            else:
                self._find(X)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X, y=None):
        """Find the components, and project the same rows on them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        X_new : array of shape (n_samples, n_components_)
            In the library and on the device of X.
        """
        with unchanged_on_error(self):
            X = opened(X)
            if self._needs_host(X):
                return self._fit_on_host(SklearnPCA.fit_transform, X)
            rows, home = self._find(X)
            return as_asked(self, move(project(self, rows), home))

    def _find(self, X):
        """Fit; gives rows to project, perhaps on a device, and the place for the result."""
        if self.svd_solver in CUML_SOLVERS and not is_sparse(X):
            self.__dict__.update(fit_cuml_pca(self, X))
            self._fit_svd_solver = self.svd_solver
            X = check_fit_rows(self, X)
            return X, place_of(X)
        if is_cupyx_sparse(X):
            rows = check_csr(self, X, reset=True, floats=True)
            principal, solver = fit_sparse(self, rows)
            self._take(principal, solver)
            return rows, place_of(rows.data)
        if self.fits_batches and is_stored(X):
            rows = check_streamed(self, X, reset=True, min_rows=2)
            self._take(*fit_dense(self, rows))
            return rows, rows.home
        # Of one row scikit-learn knows the mean, and a component that it does not vary along.
        least = 2 if self.fits_batches else 1
        rows = check_fit_rows(self, X, min_rows=least, keep_dtype=self.fits_batches)
        batch = batch_of(rows)
        self._take(*fit_dense(self, batch))
        return batch.X, batch.home

    def _take(self, principal: Principal, solver: str) -> None:
        self.__dict__.update(principal.pick(0))
        self._fit_svd_solver = solver

    def _needs_host(self, X):
        return sparse.issparse(X) or self.svd_solver == "arpack"

    def _fit_on_host(self, fit, X):
        """What scikit-learn does: sparse host data, and ARPACK."""
        if is_foreign(X) or is_cupyx_sparse(X):
            raise ValueError(
                "PCA with svd_solver='arpack' is not supported for Array API inputs. ARPACK works "
                "on the host: use svd_solver='auto', or pass NumPy arrays (cupy.asnumpy(X), "
                "X.cpu().numpy())."
            )
        with naming_columns(self, X):
            result = fit(self, X)
        self.n_components_ = self.components_.shape[0]
        return result

    @property
    def fits_batches(self) -> bool:
        """Whether `fit_batch` does the work of `fit`, wherever the rows of a batch are."""
        return self.svd_solver == "compressed"

    def fit_batch(self, batch: Batch) -> dict[str, Any]:
        """Attributes fitted to the rows of a batch, which may be divided."""
        principal, solver = fit_dense(self, batch)
        return {**principal.pick(0), "_fit_svd_solver": solver}

    def get_covariance(self):
        """Covariance of the generative model.

        With the components V, explained variances l and noise variance s, it is
        ``V' diag(l - s) V + s I``.

        Returns
        -------
        cov : array of shape (n_features, n_features)
            Where the components are.
        """
        check_is_fitted(self)
        return in_kind(covariance(self), self.components_.dtype)

    def get_precision(self):
        """Inverse of `get_covariance`.

        Returns
        -------
        precision : array of shape (n_features, n_features)
            Where the components are.
        """
        check_is_fitted(self)
        return in_kind(precision(self), self.components_.dtype)

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
        block_bytes = current_settings().block_bytes or SCORE_BLOCK_BYTES
        block = max(1, block_bytes // (8 * X.shape[1]))
        rows = move(X, place_of(self.components_))
        return move(log_likelihood(self, rows, block), place_of(X))

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

    # ---------------------------------------------------------------- as a step of a search

    def affine_obstacle(self, X: Any) -> str | None:
        """Why no exact solver of ours does the work that all candidates could share.

        It is asked with all rows; training parts hold at least half of them. Moments of more than
        5,000 features are not to be had.
        """
        X = as_array(X)
        shape: tuple[int, ...] = tuple(getattr(X, "shape", ()))
        if is_sparse(X) or len(shape) != 2:
            return "sparse X" if is_sparse(X) else "X without two dimensions"
        if shape[1] > MANY_FEATURES:
            return f"more than {MANY_FEATURES} features"
        exact = self.svd_solver in ("covariance_eigh", "full")
        if exact or (self.svd_solver == "auto" and is_exact(*shape)):
            return None
        return f"svd_solver={self.svd_solver!r} for X of shape {shape}"

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every part, from one decomposition of each part.

        Parameters
        ----------
        parts : Parts
            Without weights.
        candidates : sequence of dicts
            Values of `affine_params`; what one leaves out is as on this estimator.

        Returns
        -------
        steps : list of FittedStep
            One for each candidate. Where a float or "mle" keeps different numbers of components
            in different parts, maps of parts with fewer end in zero columns; ``pick(s)`` gives
            the attributes of part s without them.

        Raises
        ------
        UnfittableSplits
            For a number of components that some part cannot have, by the numbers of the parts.
        """
        models = [clone(self).set_params(**candidate) for candidate in candidates]
        for model in models:
            model._validate_params()
        solvers = [self._exact_solver(n, parts.n_features) for n in parts.n_rows]
        by_part = parts.each(
            lambda s: [
                check_n_components(
                    model.n_components, parts.n_rows[s], parts.n_features, solvers[s]
                )
                for model in models
            ]
        )
        found = _components_of(parts, solvers, [k for ks in by_part for k in ks])
        steps = []
        for model, ks in zip(models, zip(*by_part, strict=True), strict=True):
            counts = kept_counts(found, ks, parts.n_rows)
            principal = Principal(found, counts, parts.n_rows, model.whiten, parts.batch)
            steps.append(_step(principal, solvers))
        return steps

    def _exact_solver(self, n_rows, n_features):
        return exact_solver(n_rows, n_features) if self.svd_solver == "auto" else self.svd_solver

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self.svd_solver in NATIVE_SOLVERS
        return tags


def _step(principal, solvers):
    def pick(s):
        return {**principal.pick(s), "_fit_svd_solver": solvers[s]}

    return FittedStep(principal.maps(), pick, principal.widths)


def _components_of(parts: Parts, solvers: Sequence[str], wanted: Sequence[Any]) -> Components:
    """Enough components of every part for all candidates."""
    if "full" in solvers or squares_vanish(parts.moments):
        return from_rows([parts.stacked(s) for s in range(len(parts.n_rows))], parts.n_rows)
    most = max(min(n, parts.n_features) for n in parts.n_rows)
    return from_moments(parts.moments, n_leading(wanted, most), centred=True)
