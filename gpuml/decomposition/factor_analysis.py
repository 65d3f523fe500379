"""Factor analysis from the covariance of the rows."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.decomposition import FactorAnalysis as SklearnFactorAnalysis
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import as_array, is_foreign, move, namespace, place_of
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import check_rows
from gpuml._sklearn import check_same_namespace
from gpuml.decomposition._density import DensityEstimator
from gpuml.decomposition._factors import Factors, fitted_factors
from gpuml.decomposition._projection import in_kind
from gpuml.solvers.covariances import Sample


class FactorAnalysis(DensityEstimator, SklearnFactorAnalysis):
    r"""Factor analysis: a normal density with few factors, and noise of its own in each feature.

    The model of a row is :math:`x = W^\top z + m + e`, with standard normal factors z and normal
    noise e of variance :math:`\psi_j` in feature j. So rows have the covariance

    .. math:: W^\top W + \mathrm{diag}(\psi) .

    Expectation-maximisation (EM) steps increase the likelihood of the rows until it changes little.

    NumPy, pandas, polars and lists go to the device of ``gpuml.set_config(device=...)``;
    CuPy, torch and other device arrays stay on theirs. Rows are read once, for their covariance,
    which is all that the steps need; if there are more features than rows, the rows are kept
    instead. In a `gpuml.model_selection` search, one pass over the rows serves all candidates on
    all folds, and held-out rows are scored from their second moments.

    Parameters
    ----------
    n_components : int, default=None
        Number of factors; None is the number of features.
    tol : float, default=1e-2
        The steps end when the log-likelihood of all rows grows by less.
    copy : bool, default=True
        Has no effect: X is never written to.
    max_iter : int, default=1000
        The most steps.
    noise_variance_init : array-like of shape (n_features,), default=None
        Initial value of :math:`\psi`; None is 1.
    svd_method : {"lapack", "randomized"}, default="randomized"
        Whether each step uses exact eigenvectors, or those that subspace iteration finds with a
        random block of ``n_components + 10`` vectors. The latter are also exact if the block has as
        many vectors as there are features, or rows.
    iterated_power : int, default=3
        Number of iterations of "randomized".
    rotation : {"varimax", "quartimax"}, default=None
        Rotation of the factors after the last step; None is none.
    random_state : int, RandomState instance or None, default=0
        Seed of "randomized"; the same seed draws the same numbers as in scikit-learn. Searches fit
        candidates one by one unless it is a number.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        W. The entry of largest absolute value in each row is positive. This and the arrays below
        are in the library, on the device and of the dtype of X.
    noise_variance_ : array of shape (n_features,)
        :math:`\psi`.
    mean_ : array of shape (n_features,)
        m.
    loglike_ : list of float
        Log-likelihood of all rows before each step.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PCA : All features have the same noise.

    References
    ----------
    D. Barber, "Bayesian reasoning and machine learning", chapter 21 (2012). H. F. Kaiser, "The
    varimax criterion for analytic rotation in factor analysis", Psychometrika 23 (1958).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.decomposition import FactorAnalysis
    >>> model = FactorAnalysis(n_components=1).fit(load_iris().data)
    >>> model.components_.round(1)
    array([[ 0.7, -0.2,  1.8,  0.7]])
    """

    _numeric_strings = "fit"
    _reads_few_rows = True

    multifit_params = (
        *("iterated_power", "max_iter", "n_components", "noise_variance_init", "random_state"),
        *("rotation", "svd_method", "tol"),
    )
    multifit_score = "log_likelihood"

    def _density(self, sample: Sample, params: Mapping[str, Any]) -> Factors:
        return fitted_factors(sample, params)

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why candidates are fitted one by one."""
        if self.svd_method == "randomized" and not isinstance(self.random_state, Integral):
            return f"random_state={self.random_state!r}"
        return super().multifit_obstacle(X)

    def transform(self, X):
        """Compute the expected factors of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            In the library and on the device of X.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="components_", method="transform")
        foreign = is_foreign(X)
        X = check_rows(self, X, reset=False)
        place = place_of(X)
        mean, turn = (
            place.xp.astype(move(a, place), X.dtype, copy=False)
            for a in (self.mean_, self._model().map)
        )
        image = (X - mean) @ turn
        return as_asked(self, image) if foreign else image

    def get_covariance(self):
        """Covariance ``components_' components_ + diag(noise_variance_)`` of the density.

        Returns
        -------
        cov : array of shape (n_features, n_features)
            Where the components are.
        """
        check_is_fitted(self)
        return in_kind(self._model().covariance, self.components_.dtype)

    def get_precision(self):
        """Inverse of `get_covariance`.

        Returns
        -------
        precision : array of shape (n_features, n_features)
            Where the components are.
        """
        check_is_fitted(self)
        return in_kind(self._model().precision, self.components_.dtype)

    def score_samples(self, X):
        """Logarithm of the density of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ll : array of shape (n_samples,)
            In the library and on the device of X.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        return self._model().log_density(X)

    def score(self, X, y=None):
        """Mean logarithm of the density over rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        ll : float
        """
        check_is_fitted(self)
        sample = self._sample(X)
        return np.float64(float(self._model(place_of(sample.mean)).log_likelihood(sample)))

    def _model(self, place: Any = None) -> Factors:
        """The fitted density, in float64."""
        arrays = (as_array(a) for a in (self.components_, self.noise_variance_, self.mean_))
        here = [a if place is None else move(a, place) for a in arrays]
        doubles = (namespace(a).astype(a, namespace(a).float64, copy=False) for a in here)
        components, noise, mean = doubles
        return Factors(components, noise, mean, [])
