"""Bayesian ridge regression from second moments of the rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import Array, as_array, is_foreign, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS
from gpuml.data import Batch
from gpuml.linear_model._from_sums import Found, FromSums
from gpuml.linear_model._input import flat_batch
from gpuml.solvers.described import Described, Training
from gpuml.solvers.moments import normal_equations, to_origin


class BayesianRidge(FromSums, sk.BayesianRidge):
    r"""Bayesian ridge regression: penalty and noise maximise the marginal likelihood.

    With precisions :math:`\alpha` of the noise and :math:`\lambda` of the coefficients, which have
    Gamma priors, the coefficients are those of ridge regression with the penalty
    :math:`\lambda / \alpha`,

    .. math:: w = \Big( \tfrac{\lambda}{\alpha} I + \sum_i s_i x_i x_i^\top \Big)^{-1}
              \sum_i s_i x_i y_i ,

    for centred rows with weights s (1 if not given). MacKay's formulas update both precisions until
    w no longer changes.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Rows are read once, for their second
    moments; the updates take place in CPU memory, in the coordinates of the moments' eigenvectors.
    In a `gpuml.model_selection` search, all candidates share the eigenvectors of each split.

    Parameters
    ----------
    max_iter : int, default=300
        The most updates.
    tol : float, default=1e-3
        Updates end when the absolute changes of all coefficients sum to less than `tol`.
    alpha_1, alpha_2 : float >= 0, default=1e-6
        Shape and rate of the prior of :math:`\alpha`.
    lambda_1, lambda_2 : float >= 0, default=1e-6
        Shape and rate of the prior of :math:`\lambda`.
    alpha_init : float, default=None
        Initial value of :math:`\alpha`; None means the inverse of the variance of y.
    lambda_init : float, default=None
        Initial value of :math:`\lambda`; None means 1.
    compute_score : bool, default=False
        Whether to set `scores_`.
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
    alpha_, lambda_ : float
        The precisions of the noise and of the coefficients.
    sigma_ : array of shape (n_features, n_features)
        Covariance of the coefficients, on the device of `coef_`.
    scores_ : ndarray of shape (n_iter_ + 1,)
        With `compute_score`, the log marginal likelihood at each update and at the end; otherwise
        an empty list.
    n_iter_ : int
        Number of updates.
    X_offset_, X_scale_ : arrays of shape (n_features,)
        Means of the features (zeros without an intercept), and ones; on the device of `coef_`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    RidgeCV : Chooses the penalty by cross-validation.

    Notes
    -----
    scikit-learn does the work for data in CPU memory with fewer rows than features.

    References
    ----------
    D. J. C. MacKay, "Bayesian interpolation", Neural Computation 4 (1992).

    Examples
    --------
    >>> from gpuml.linear_model import BayesianRidge
    >>> model = BayesianRidge().fit([[0, 0], [1, 1], [2, 2], [3, 3]], [0, 1, 2, 3])
    >>> model.predict([[1, 1]]).round(3)
    array([1.])
    """

    _numeric_strings = "fit"

    multifit_params = (
        *("alpha_1", "alpha_2", "alpha_init", "compute_score", "fit_intercept", "lambda_1"),
        *("lambda_2", "lambda_init", "max_iter", "tol"),
    )
    _of_sklearn: ClassVar[tuple[str, ...]] = ("scores_",)
    _at_home = ("sigma_", "X_offset_", "X_scale_")

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
        return (mean, deviations(self, X, mean)) if return_std else mean

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return flat_batch(self, X, y, sample_weight)

    def _sums(self, described, parts, fit_intercept):
        return Spectrum.of(described, parts, fit_intercept)

    def _solve(self, sums, candidates, start=None):
        return [_found(sums, sums.posterior(each), each) for each in candidates]


def _found(spectrum, one, params):
    def attributes():
        return {
            "sigma_": spectrum.covariance(one),
            "X_offset_": spectrum.x_mean,
            "X_scale_": np.ones_like(spectrum.x_mean),
            "alpha_": one.alpha,
            "lambda_": np.float64(one.lambda_),
            "n_iter_": one.n_iter,
            "scores_": np.asarray(one.scores) if params["compute_score"] else [],
        }

    return Found(one.coef, attributes)


def deviations(estimator: Any, X: Any, mean: Array, features: np.ndarray | None = None) -> Array:
    """Standard deviations (n,) of new targets at rows X, on the device of their means.

    `features` are the columns of X that `sigma_` covers; None means all.
    """
    place = place_of(mean)
    xp: Any = place.xp
    X = xp.astype(move(as_array(X), place) if is_foreign(X) else xp.asarray(X), mean.dtype)
    sigma, offset = (
        xp.astype(move(as_array(a), place), mean.dtype)
        for a in (estimator.sigma_, estimator.X_offset_)
    )
    X = X - offset
    if features is not None:
        X = xp.take(X, xp.asarray(features, device=place.device), axis=1)
    return xp.sqrt(xp.sum((X @ sigma) * X, axis=1) + 1.0 / float(estimator.alpha_))


@dataclass(frozen=True)
class Posterior:
    """Coefficients (p,), precisions, number of updates, and log marginal likelihoods."""

    coef: np.ndarray
    alpha: float
    lambda_: float
    n_iter: int
    scores: list[float]


@dataclass(frozen=True)
class Spectrum:
    """Second moments of a training part in the coordinates of their eigenvectors, in CPU memory.

    Attributes
    ----------
    values : ndarray (p,)
    vectors : ndarray (p, p)
    xy : ndarray (p,)
        Sums of y times the rows, in these coordinates.
    yy, weight, variance : float
        Sum of squares of y, sum of weights, and variance of y.
    x_mean : ndarray (p,)
    y_mean : float
    """

    values: np.ndarray
    vectors: np.ndarray
    xy: np.ndarray
    yy: float
    weight: float
    variance: float
    x_mean: np.ndarray
    y_mean: float

    @classmethod
    def of(cls, described: Described, parts: Training, fit_intercept: bool) -> "list[Spectrum]":
        """The spectra of some training parts."""
        moments = described.combined(parts)
        xp: Any = namespace(moments.gram)
        p = moments.n_features
        normal = normal_equations(moments, fit_intercept)
        values, vectors = xp.linalg.eigh(normal.xx)
        weight, y_sum = moments.gram[:, -1, -1], moments.gram[:, p, -1]
        about_mean = moments.gram[:, p, p] - y_sum**2 / weight
        yy = about_mean if fit_intercept else to_origin(moments)[:, p, p]
        # What rounding leaves where rows do not vary would count as determined by the rows.
        varies = values > p * EPS * values[..., -1:]
        xy = xp.where(varies, (xp.matrix_transpose(vectors) @ normal.xy)[..., 0], 0.0)
        columns = {
            "values": xp.where(varies, values, 0.0),
            "vectors": vectors,
            "xy": xy,
            "yy": yy,
            "weight": weight,
            "variance": about_mean / weight,
            "x_mean": normal.x_mean,
            "y_mean": normal.y_mean[:, 0],
        }
        here = {name: to_host(a) for name, a in columns.items()}
        return [cls(**{name: a[s] for name, a in here.items()}) for s in range(len(here["yy"]))]

    def posterior(self, params: dict[str, Any]) -> Posterior:
        """Update the precisions until the coefficients no longer change."""
        alpha, lambda_ = params["alpha_init"], params["lambda_init"]
        alpha = 1.0 / (self.variance + EPS) if alpha is None else float(alpha)
        lambda_ = 1.0 if lambda_ is None else float(lambda_)
        scores: list[float] = []
        old = None
        n_iter = 0
        while n_iter < params["max_iter"]:
            n_iter += 1
            rotated, error = self._mean(alpha, lambda_)
            if params["compute_score"]:
                scores.append(self._score(alpha, lambda_, rotated, error, params))
            coef = self.vectors @ rotated
            shares = alpha * self.values
            gamma = float(np.sum(shares / (lambda_ + shares)))
            lambda_ = (gamma + 2 * params["lambda_1"]) / (
                float(rotated @ rotated) + 2 * params["lambda_2"]
            )
            alpha = (self.weight - gamma + 2 * params["alpha_1"]) / (error + 2 * params["alpha_2"])
            if old is not None and np.abs(old - coef).sum() < params["tol"]:
                break
            old = coef
        rotated, error = self._mean(alpha, lambda_)
        if params["compute_score"]:
            scores.append(self._score(alpha, lambda_, rotated, error, params))
        return Posterior(self.vectors @ rotated, alpha, lambda_, n_iter, scores)

    def covariance(self, found: Posterior) -> np.ndarray:
        """Covariance (p, p) of the coefficients."""
        scale = 1.0 / (found.alpha * self.values + found.lambda_)
        return (self.vectors * scale) @ self.vectors.T

    def _mean(self, alpha, lambda_):
        """Coefficients in the coordinates of the eigenvectors, and the sum of squared errors."""
        rotated = self.xy / (self.values + (lambda_ / alpha if alpha else np.inf))
        error = self.yy - 2.0 * float(rotated @ self.xy) + float(self.values @ rotated**2)
        return rotated, max(error, EPS * self.yy)

    def _score(self, alpha, lambda_, rotated, error, params):
        total = params["lambda_1"] * np.log(lambda_) - params["lambda_2"] * lambda_
        total += params["alpha_1"] * np.log(alpha) - params["alpha_2"] * alpha
        of_posterior = len(rotated) * np.log(lambda_) + self.weight * np.log(alpha)
        of_posterior -= alpha * error + lambda_ * float(rotated @ rotated)
        of_posterior -= float(np.sum(np.log(lambda_ + alpha * self.values)))
        return float(total + 0.5 * (of_posterior - self.weight * np.log(2 * np.pi)))
