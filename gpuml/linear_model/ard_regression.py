"""Bayesian regression with a precision for each coefficient, from second moments of the rows."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import pinvh
from sklearn import linear_model as sk

from gpuml._arrays import is_numpy, namespace, to_host
from gpuml._arrays.ops import EPS
from gpuml.data import Batch
from gpuml.linear_model._from_sums import Found, FromSums, Sums
from gpuml.linear_model._input import flat_batch
from gpuml.linear_model.bayesian_ridge import deviations


@dataclass(frozen=True)
class _Sums(Sums):
    """Sums, with the variance of y about its mean, whether there is an intercept or not."""

    y_variance: float


class ARDRegression(FromSums, sk.ARDRegression):
    r"""Automatic relevance determination: each coefficient has a precision of its own.

    With precisions :math:`\alpha` of the noise and :math:`\lambda_j` of the coefficients, which
    have Gamma priors, the coefficients are

    .. math:: w = \alpha \Sigma \sum_i x_i y_i , \quad
              \Sigma = \Big( \operatorname{diag}(\lambda) + \alpha \sum_i x_i x_i^\top \Big)^{-1}

    for centred rows. MacKay's formulas update the precisions until w no longer changes; features
    whose precision reaches a threshold leave the model.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Rows are read once, for their second
    moments; the updates take place on the same device. In a `gpuml.model_selection` search, all
    candidates share the moments of each split.

    Parameters
    ----------
    max_iter : int, default=300
        The most updates.
    tol : float, default=1e-3
        Updates end when the absolute changes of all coefficients sum to less than `tol`.
    alpha_1, alpha_2 : float >= 0, default=1e-6
        Shape and rate of the prior of :math:`\alpha`.
    lambda_1, lambda_2 : float >= 0, default=1e-6
        Shape and rate of the priors of :math:`\lambda_j`.
    compute_score : bool, default=False
        Whether to set `scores_`.
    threshold_lambda : float, default=10000
        Features with at least this precision leave the model; their coefficient is 0.
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.
    copy_X : bool, default=True
        Has no effect: X is never written to.
    verbose : bool, default=False
        Has no effect.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        w, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape ()
        b; 0.0 without an intercept.
    alpha_ : float
        Precision of the noise.
    lambda_ : array of shape (n_features,)
        Precisions of the coefficients, on the device of `coef_`.
    sigma_ : array of shape (n_kept_features, n_kept_features)
        Covariance of the coefficients of the remaining features, on the device of `coef_`.
    scores_ : list of floats
        With `compute_score`, the objective after each update; otherwise empty.
    n_iter_ : int
        Number of updates.
    X_offset_, X_scale_ : arrays of shape (n_features,)
        Means of the features (zeros without an intercept), and ones; on the device of `coef_`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    BayesianRidge : One precision for all coefficients.

    Notes
    -----
    scikit-learn does the work for data in CPU memory with fewer rows than features.

    References
    ----------
    D. J. C. MacKay, "Bayesian nonlinear modeling for the prediction competition", ASHRAE
    Transactions 100 (1994).

    Examples
    --------
    >>> from gpuml.linear_model import ARDRegression
    >>> model = ARDRegression().fit([[0, 0], [1, 1], [2, 2]], [0, 1, 2])
    >>> model.predict([[1, 1]]).round(3)
    array([1.])
    """

    _numeric_strings = "fit"

    multifit_params = (
        *("alpha_1", "alpha_2", "compute_score", "fit_intercept", "lambda_1", "lambda_2"),
        *("max_iter", "threshold_lambda", "tol"),
    )
    _at_home: ClassVar[tuple[str, ...]] = ("lambda_", "sigma_", "X_offset_", "X_scale_")
    _in_cpu_memory = False

    def fit(self, X, y) -> Self:  # type: ignore[override]
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : ARDRegression

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        """
        return super().fit(X, y)

    def predict(self, X, return_std=False):
        """Predict targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return the standard deviations of the predictive distribution too.

        Returns
        -------
        y_mean : array of shape (n_samples,)
            In the library and on the device of X.
        y_std : array of shape (n_samples,)
            Only with `return_std`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        mean = super().predict(X)
        if not return_std:
            return mean
        kept = np.flatnonzero(to_host(self.lambda_) < self.threshold_lambda)
        return mean, deviations(self, X, mean, kept)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return flat_batch(self, X, y, sample_weight)

    def _sums(self, described, parts, fit_intercept):
        sums = super()._sums(described, parts, fit_intercept)
        centred = sums if fit_intercept else super()._sums(described, parts, True)
        return [
            _Sums(**vars(one), y_variance=float(other.y_square[0]))
            for one, other in zip(sums, centred, strict=True)
        ]

    def _solve(self, sums, candidates, start=None):
        n, p = float(sums.weight), sums.x_mean.shape[0]
        if n < 2:
            raise ValueError(
                f"Found array with 1 sample(s) (shape=(1, {p})) while a minimum of 2 is "
                f"required by {type(self).__name__}."
            )
        gram, xy, yy = sums.H * n, sums.g[0, :] * n, float(sums.y_square[0]) * n
        return [self._updated(sums, gram, xy, yy, each) for each in candidates]

    def _updated(self, sums, gram, xy, yy, params):
        """Update the precisions until the coefficients no longer change."""
        xp: Any = namespace(gram)
        n, p = float(sums.weight), gram.shape[0]
        alpha, lambda_ = 1.0 / (sums.y_variance + EPS), xp.ones_like(xy)
        kept = xp.arange(p, device=gram.device)
        scores, old, n_iter = [], None, 0
        while n_iter < params["max_iter"]:
            n_iter += 1
            sigma, coef = _posterior(gram, xy, alpha, lambda_, kept, xp)
            error = yy - 2.0 * float(coef @ xy) + float(coef @ (gram @ coef))
            error = max(error, EPS * yy)
            some = xp.take(lambda_, kept)
            gamma = 1.0 - some * xp.linalg.diagonal(sigma)
            some = (gamma + 2.0 * params["lambda_1"]) / (
                xp.take(coef, kept) ** 2 + 2.0 * params["lambda_2"]
            )
            lambda_ = _put(lambda_, kept, some, xp)
            alpha = (n - float(xp.sum(gamma)) + 2.0 * params["alpha_1"]) / (
                error + 2.0 * params["alpha_2"]
            )
            is_kept = lambda_ < params["threshold_lambda"]
            coef, kept = xp.where(is_kept, coef, 0.0), xp.nonzero(is_kept)[0]
            if params["compute_score"]:
                scores.append(_score(n, alpha, lambda_, coef, sigma, error, params, xp))
            if old is not None and float(xp.sum(xp.abs(old - coef))) < params["tol"]:
                break
            old = coef
            if kept.shape[0] == 0:
                break
        if kept.shape[0] > 0:
            sigma, coef = _posterior(gram, xy, alpha, lambda_, kept, xp)
        else:
            sigma = sigma[:0, :0]
        attributes = {
            "alpha_": np.float64(alpha),
            "lambda_": lambda_,
            "sigma_": sigma,
            "scores_": scores,
            "n_iter_": n_iter,
            "X_offset_": sums.x_mean,
            "X_scale_": xp.ones_like(sums.x_mean),
        }
        return Found(coef, lambda: attributes)


def _posterior(gram, xy, alpha, lambda_, kept, xp):
    """Covariance (k, k) of the coefficients of kept features, and all coefficients (p,)."""
    some = xp.take(xp.take(gram, kept, axis=0), kept, axis=1)
    precision = alpha * some + xp.take(lambda_, kept) * xp.eye(
        kept.shape[0], dtype=xp.float64, device=gram.device
    )
    sigma = pinvh(precision) if is_numpy(precision) else xp.linalg.pinv(precision)
    return sigma, _put(xp.zeros_like(xy), kept, alpha * (sigma @ xp.take(xy, kept)), xp)


def _put(values, places, some, xp):
    """A copy of values (p,) in which `some` (k,) replace those at `places`."""
    if is_numpy(values):
        values = values.copy()
        values[places] = some
        return values
    is_there = xp.arange(values.shape[0], device=values.device)[:, None] == places[None, :]
    spread = xp.astype(is_there, xp.float64) @ some
    return xp.where(xp.any(is_there, axis=1), spread, values)


def _score(n, alpha, lambda_, coef, sigma, error, params, xp):
    total = float(xp.sum(params["lambda_1"] * xp.log(lambda_) - params["lambda_2"] * lambda_))
    total += params["alpha_1"] * float(np.log(alpha)) - params["alpha_2"] * alpha
    sign, logdet = xp.linalg.slogdet(sigma)
    of_posterior = float(logdet) if float(sign) > 0 else -np.inf
    of_posterior += n * float(np.log(alpha)) + float(xp.sum(xp.log(lambda_)))
    of_posterior -= alpha * error + float(xp.sum(lambda_ * coef**2))
    return total + 0.5 * of_posterior
