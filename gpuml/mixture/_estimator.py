"""A Gaussian mixture, which searches fit for all candidates on all splits together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn import mixture as sk
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_array, is_sparse, move, namespace, place_of, to_host
from gpuml._arrays.small_arrays import small_arrays
from gpuml._inputs.validation import check_rows, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._settings.config import current_settings
from gpuml._sklearn import _fit_context, check_same_namespace
from gpuml.data import Batch, Folds, resident_rows, whole
from gpuml.decomposition._projection import all_at_home
from gpuml.extending import MultifitEstimator
from gpuml.mixture._models import (
    Mixture,
    MixtureStack,
    Silent,
    fitted,
    rows_of,
)
from gpuml.resampling.stand_ins import refuse
from gpuml.solvers.gaussians import log_densities, log_joints

PARAMS = (
    *("covariance_type", "init_params", "max_iter", "means_init", "n_components", "n_init"),
    *("precisions_init", "random_state", "reg_covar", "tol", "warm_start", "weights_init"),
)
# Typical number of EM steps in a run.
TYPICAL_STEPS = 20
ARRAYS = ("weights_", "means_", "precisions_cholesky_")


class GaussianMixture(Travels, MultifitEstimator, sk.GaussianMixture):
    r"""Gaussian mixture model.

    Rows x have the density

    .. math:: \sum_{k=1}^K w_k \, N(x; \mu_k, \Sigma_k) , \qquad \sum_k w_k = 1 .

    The EM algorithm increases the mean log density of the rows until it changes by less than `tol`.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Sums over rows are float64. In a
    `gpuml.model_selection` search, all candidates with the same `covariance_type` share their
    passes over each training set, including all initialisations: each pass multiplies the rows with
    all components. Candidates with the same integer `random_state` share initialisations. The same
    seed draws the same numbers as in scikit-learn.

    Parameters
    ----------
    n_components : int, default=1
        Number K of components.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        "full": each component has its own covariance matrix. "tied": all share one. "diag": each
        has a variance per feature. "spherical": each has one variance.
    tol : float, default=1e-3
        EM stops when the mean log density changes by less than this.
    reg_covar : float, default=1e-6
        Added to the variances, so that covariances stay positive definite.
    max_iter : int, default=100
        The most EM steps.
    n_init : int, default=1
        Number of initialisations; the one that ends with the highest mean log density is kept.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, default="kmeans"
        How to choose the initial components: clusters of k-means, rows chosen by k-means++, random
        responsibilities ("random"), or random rows. Unlike in scikit-learn, all of them work on
        CuPy and torch arrays.
    weights_init : array-like of shape (n_components,), default=None
        Initial weights, instead of those of `init_params`.
    means_init : array-like of shape (n_components, n_features), default=None
        Initial means, instead of those of `init_params`.
    precisions_init : array-like of the shape of `covariances_`, default=None
        Inverses of the initial covariances, instead of those of `init_params`.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisations, and of `sample`.
    warm_start : bool, default=False
        Whether `fit` starts from the components of the last fit.
    verbose : int, default=0
        Whether `fit` prints its steps; searches then fit candidates one by one.
    verbose_interval : int, default=10
        Number of steps between printed lines.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
        Weights of the components. All arrays are in the library, on the device and of the dtype of
        X.
    means_ : array of shape (n_components, n_features)
        Means of the components.
    covariances_ : array
        Of shape (n_components, n_features, n_features) for "full", (n_features, n_features) for
        "tied", (n_components, n_features) for "diag" and (n_components,) for "spherical".
    precisions_ : array
        Inverses of the covariances, of the same shape.
    precisions_cholesky_ : array
        Upper triangular matrices U with the precisions ``U U'``; for "diag" and "spherical", the
        square roots of the precisions.
    converged_ : bool
        Whether the best run converged.
    n_iter_ : int
        Number of steps of the best run.
    lower_bound_ : float
        The mean log density before the last step.
    lower_bounds_ : list of float
        The mean log density before each step.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    gpuml.cluster.KMeans : Clusters of equal spherical shape.
    gpuml.inspection.ClusterCurveDisplay : AIC and BIC over the number of components.

    Notes
    -----
    Products of pairs of features lose digits if a component is small compared with its distance
    from the mean of the rows. gpuml detects such components, and computes with differences to their
    means instead.

    References
    ----------
    A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM
    algorithm", Journal of the Royal Statistical Society B 39 (1977).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.mixture import GaussianMixture
    >>> from gpuml.model_selection import GridSearchCV
    >>> grid = {"n_components": [1, 2, 3], "covariance_type": ["full", "diag"]}
    >>> search = GridSearchCV(GaussianMixture(random_state=0), grid).fit(load_iris().data)
    >>> search.best_params_
    {'covariance_type': 'full', 'n_components': 3}
    """

    multifit_params = PARAMS
    multifit_divided = True
    multifit_score = "log_likelihood"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, or if the covariance of a component is not
            positive definite. A failed fit leaves the estimator as it was.
        """
        with unchanged_on_error(self), small_arrays():
            batch = self.multifit_batch(X)
            _check_enough(batch.n_rows, self.n_components)
            rows = rows_of(whole(batch), 0, "train")
            goes_on = self.warm_start and hasattr(self, "converged_")
            [found] = fitted(
                rows,
                [self._params({})],
                randoms=[check_random_state(self.random_state)],
                last=self._mixture(batch) if goes_on else None,
                told=_Printed(self) if self.verbose else None,
            )
            self.__dict__.update(all_at_home(found.attributes(), batch))
        return self

    def fit_predict(self, X, y=None):
        """Fit the mixture and return the most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X.
        """
        return self.fit(X).predict(X)

    def _params(self, changed: Mapping[str, Any]) -> dict[str, Any]:
        return {name: changed.get(name, getattr(self, name)) for name in PARAMS}

    def _mixture(self, batch: Batch) -> Mixture:
        """The fitted mixture, on the compute device of a batch."""
        xp = batch.work.xp
        weights, means, covariances = (
            xp.astype(move(as_array(a), batch.work), xp.float64)
            for a in (self.weights_, self.means_, self.covariances_)
        )
        kind, (k, p) = self.covariance_type, (means.shape[0], batch.n_features)
        needed = {"full": (k, p, p), "tied": (p, p), "diag": (k, p), "spherical": (k,)}[kind]
        if means.shape[1] != p or tuple(covariances.shape) != needed:
            raise ValueError(
                f"warm_start=True starts from means_ of shape {tuple(means.shape)} and "
                f"covariances_ of shape {tuple(covariances.shape)}, but X has {p} features and "
                f"covariance_type is {kind!r}. Use warm_start=False, or a clone of the estimator."
            )
        bounds = [self.lower_bound_]
        return Mixture(kind, weights, means, covariances, self.converged_, bounds)

    # ------------------------------------------------------------ searches

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why candidates are fitted one by one; None if they can be fitted together."""
        if self.verbose:
            return f"verbose={self.verbose!r}"
        return "sparse X" if is_sparse(as_array(X)) else None

    def multifit_batch(self, X: Any, y: Any = None, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        X = check_rows(self, X, reset=True, dtype=["float64", "float32"])
        return resident_rows(X, current_settings().device)

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """Approximate flops of products of rows and components; the number of passes is unknown."""
        width = n_features**2 if self.covariance_type == "full" else 2 * n_features
        flops = 4.0 * n_rows * width * self.n_components
        return None, n_models * self.n_init * TYPICAL_STEPS * flops

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> MixtureStack:
        """Fit every candidate on the training part of every split; see `MultifitEstimator`."""
        for each in candidates:
            clone(self).set_params(**each)._validate_params()
        params = [self._params(each) for each in candidates]
        most = max(each["n_components"] for each in params)
        few = {s: split.n_train for s, split in enumerate(folds.splits)}
        few = {s: n for s, n in few.items() if n < max(most, 2)}
        refuse({s: _too_few(n, most) for s, n in few.items()}, folds.n_splits)
        fits = []
        for s, split in enumerate(folds.splits):
            fits.append(fitted(rows_of(folds, s, "train"), params))
            if advance is not None:
                advance(split.n_train)
        return MixtureStack(folds, params, fits)

    # ------------------------------------------------------------ densities and labels of rows

    def _joints(self, X: Any, method: str) -> tuple[Array, Any]:
        """Joint log densities of rows and components, float64 (n, k), and the dtype of results."""
        check_is_fitted(self)
        X = as_array(X)
        if is_array(X):
            check_same_namespace(X, self, attribute="means_", method=method)
        X = check_rows(self, X, reset=False)
        xp, place = namespace(X), place_of(X)
        weights, means, factors = (
            xp.astype(move(as_array(getattr(self, name)), place), xp.float64) for name in ARRAYS
        )
        return log_joints(X, weights, means, factors, self.covariance_type), X.dtype

    def score_samples(self, X):
        """Log density of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_prob : array of shape (n_samples,)
            In the library, on the device and of the dtype of X.
        """
        joints, dtype = self._joints(X, "score_samples")
        return namespace(joints).astype(log_densities(joints), dtype, copy=False)

    def score(self, X, y=None):
        """Mean log density of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        log_likelihood : float
        """
        joints, _ = self._joints(X, "score")
        return float(namespace(joints).mean(log_densities(joints)))

    def predict(self, X):
        """The most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X.
        """
        joints, _ = self._joints(X, "predict")
        return namespace(joints).argmax(joints, axis=1)

    def predict_proba(self, X):
        """Probability of each component for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        resp : array of shape (n_samples, n_components)
            In the library, on the device and of the dtype of X; rows sum to 1.
        """
        joints, dtype = self._joints(X, "predict_proba")
        xp = namespace(joints)
        return xp.astype(xp.exp(joints - log_densities(joints)[:, None]), dtype, copy=False)

    def sample(self, n_samples=1):
        """Draw rows from the mixture, with random numbers from NumPy.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.

        Returns
        -------
        X : array of shape (n_samples, n_features)
            In the library and on the device of `means_`, as float64.
        y : array of shape (n_samples,)
            The component of each row.
        """
        check_is_fitted(self)
        twin = sk.GaussianMixture(**self.get_params(deep=False))
        for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
            setattr(twin, name, to_host(as_array(getattr(self, name))))
        X, y = twin.sample(n_samples)
        place = place_of(as_array(self.means_))
        return move(np.asarray(X, dtype=np.float64), place), move(np.asarray(y), place)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


class _Printed(Silent):
    """Prints the same lines during a fit as scikit-learn's class."""

    def __init__(self, model: GaussianMixture):
        self._model: Any = model

    def begins(self, run: int) -> None:
        self._model._print_verbose_msg_init_beg(run)

    def steps(self, n_iter: int, bound: float, change: float) -> None:
        self._model._print_verbose_msg_iter_end(n_iter, change)

    def ends(self, bound: float, converged: bool) -> None:
        self._model._print_verbose_msg_init_end(bound, converged)


def _too_few(n_rows: int, n_components: int) -> str:
    if n_rows < 2:
        return (
            f"Found array with {n_rows} sample(s) while a minimum of 2 is required by "
            "GaussianMixture."
        )
    return (
        f"Expected n_samples >= n_components but got n_components = {n_components}, "
        f"n_samples = {n_rows}"
    )


def _check_enough(n_rows: int, n_components: int) -> None:
    if n_rows < max(2, n_components):
        raise ValueError(_too_few(n_rows, n_components))
