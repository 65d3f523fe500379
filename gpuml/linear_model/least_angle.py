"""Least angle regression, and the lasso along its steps, from second moments of the rows."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import nnls
from sklearn import linear_model as sk
from sklearn.utils import check_random_state

from gpuml._arrays import as_array, is_foreign, move, place_of
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.data import Batch
from gpuml.linear_model._from_sums import Found, FromSums, Sums
from gpuml.linear_model._input import flat_batch
from gpuml.linear_model._paths import LarsPath, lars_path_of, on_one_path, squared_residuals


class _LeastAngle(FromSums):
    """Fitting of `Lars` and `LassoLars`: candidates that differ in `_nested` share a path."""

    method: str
    positive: bool
    precompute: Any
    jitter: Any
    random_state: Any
    fit_path: bool
    verbose: Any
    _nested: ClassVar[str]
    _of_sklearn: ClassVar[tuple[str, ...]] = ("active_", "coef_path_")
    _at_home = ("alphas_", "coef_path_")
    _instead = "precompute='auto' and no Xy"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, Xy=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets are fitted one by one.
        Xy : array-like of shape (n_features,) or (n_features, n_targets), default=None
            ``X.T @ y``. With it, scikit-learn does the work, with data in CPU memory.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, and for device data with parameters that
            need data in CPU memory. A failed fit leaves the estimator as it was.

        Warns
        -----
        ConvergenceWarning
            If features on the path are linearly dependent, or rounding error ends the path.
        """
        if Xy is not None:
            with unchanged_on_error(self):
                self._fit_by_sklearn("Xy", as_array(X), y, None, Xy=Xy)
            return self
        if self.jitter is not None and y is not None and self._needs_sklearn(as_array(X)) is None:
            y = self._jittered(as_array(y))
        return super().fit(X, y)

    def _jittered(self, y):
        y = y if is_foreign(y) else np.asarray(y)
        noise = check_random_state(self.random_state).uniform(high=self.jitter, size=y.shape[0])
        return y + move(noise, place_of(y))

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        if self.precompute is not None and not isinstance(self.precompute, bool | str):
            return "a precomputed Gram matrix"
        return super()._needs_sklearn(X, y)

    def multifit_obstacle(self, X: Any) -> str | None:
        """The reason why models are fitted one by one; None if they are not."""
        return super().multifit_obstacle(X) if self.jitter is None else f"jitter={self.jitter!r}"

    def _path(self, sums: Sums, target: int, params: Mapping[str, Any], last: Any) -> LarsPath:
        """The path of one target, as far as the last of nested candidates."""
        raise NotImplementedError

    def _read(self, path: LarsPath, value: Any) -> np.ndarray:
        """Coefficients of a nested candidate."""
        raise NotImplementedError

    def _last(self, values: Sequence[Any]) -> Any:
        """The value of `_nested` that comes last on the path."""
        raise NotImplementedError

    def _solve(self, sums, candidates, start=None):
        found: dict[int, Found] = {}
        for some in on_one_path(candidates, self._nested):
            last = self._last([candidates[i][self._nested] for i in some])
            paths = self._paths(sums, candidates[some[0]], last)
            for i in some:
                value = candidates[i][self._nested]
                coef = np.stack([self._read(path, value) for path in paths])
                own = paths if value == last else None
                found[i] = Found(coef, partial(self._steps, sums, candidates[i], own))
        return [found[i] for i in range(len(candidates))]

    def _paths(self, sums, params, last):
        return [self._path(sums, target, params, last) for target in range(len(sums.g))]

    def _steps(self, sums, params, paths):
        """Fitted attributes, from a path that ends at the model."""
        paths = paths or self._paths(sums, params, params[self._nested])
        values = {
            "alphas_": [path.alphas if self.fit_path else path.alphas[-1:] for path in paths],
            "n_iter_": [path.n_iter for path in paths],
        }
        if self.fit_path:
            values["active_"] = [path.active for path in paths]
            values["coef_path_"] = [path.coef for path in paths]
        return {name: each[0] for name, each in values.items()} if len(paths) == 1 else values


class Lars(_LeastAngle, sk.Lars):
    r"""Least angle regression.

    The model starts with the feature that correlates most with y. Its coefficients move along the
    direction that makes equal angles with all features of the model, until another feature has the
    same absolute correlation :math:`|x_j^\top r|` with the residuals r, and joins the model. After
    as many steps as features, the model is the least-squares solution.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Rows are read once, for their second
    moments; scikit-learn's `lars_path_gram` computes the steps in CPU memory. In a
    `gpuml.model_selection` search, one path per split gives all values of `n_nonzero_coefs`.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.
    verbose : bool or int, default=False
        From 2 on, `fit` prints each step.
    precompute : bool, "auto" or array of shape (n_features, n_features), default="auto"
        Moments are always used. If you pass an array, scikit-learn does the work in CPU memory.
    n_nonzero_coefs : int, default=500
        The most steps.
    eps : float, default=2.2e-16
        The least diagonal entry of the Cholesky factor.
    copy_X : bool, default=True
        Used only by scikit-learn's solvers; gpuml's never write to X.
    fit_path : bool, default=True
        Whether to set `coef_path_` and `active_`, and all of `alphas_`.
    jitter : float, default=None
        Upper bound of uniform noise that is added to y. Models are then fitted one by one.
    random_state : int, RandomState instance, default=None
        Seed of the noise.

    Attributes
    ----------
    alphas_ : array of shape (n_steps + 1,), or list of n_targets such arrays
        Largest :math:`|x_j^\top r| / n` of the residuals r after each step.
    active_ : list of ints, or list of n_targets such lists
        Features of the model, in the order in which they joined.
    coef_path_ : array of shape (n_features, n_steps + 1), or list of n_targets such arrays
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        This, `alphas_` and `coef_path_` are in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
    n_iter_ : int or list of n_targets ints
        Number of steps.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LassoLars : Lasso by the same algorithm; features may leave the model again.

    Notes
    -----
    scikit-learn does the work for data in CPU memory with fewer rows than features.

    References
    ----------
    B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle regression", Annals of Statistics
    32 (2004).

    Examples
    --------
    >>> from gpuml.linear_model import Lars
    >>> model = Lars(n_nonzero_coefs=1).fit([[-1, 1], [0, 0], [1, 1]], [-1.1111, 0, -1.1111])
    >>> model.coef_.round(4)
    array([ 0.    , -1.1111])
    """

    multifit_params = ("n_nonzero_coefs", "fit_intercept", "eps")
    _nested = "n_nonzero_coefs"

    def _path(self, sums, target, params, last):
        return lars_path_of(
            sums,
            target,
            method=self.method,
            max_iter=last,
            eps=params["eps"],
            verbose=max(0, self.verbose - 1),
        )

    def _read(self, path, value):
        return path.after(value)

    def _last(self, values):
        return max(values)


class LassoLars(_LeastAngle, sk.LassoLars):
    r"""Lasso, fitted by least angle regression.

    Minimises, over w of shape (n_features,) and b, for each target

    .. math:: \frac{1}{2 n} \sum_i (y_i - x_i^\top w - b)^2 + \alpha \, |w|_1 .

    As a function of :math:`\alpha`, w is linear between the steps at which a feature joins or
    leaves the model. So in a `gpuml.model_selection` search, one path per split gives all values of
    `alpha`, and rows are read once. For the device, see `Lars`.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        Strength of the penalty.
    fit_intercept : bool, default=True
    verbose : bool or int, default=False
    precompute : bool, "auto" or array of shape (n_features, n_features), default="auto"
        As for `Lars`.
    max_iter : int, default=500
        The most steps.
    eps : float, default=2.2e-16
    copy_X : bool, default=True
    fit_path : bool, default=True
        As for `Lars`.
    positive : bool, default=False
        Whether w must be non-negative.
    jitter : float, default=None
    random_state : int, RandomState instance, default=None
        As for `Lars`.

    Attributes
    ----------
    alphas_ : array of shape (n_steps + 1,), or list of n_targets such arrays
    active_ : list of ints, or list of n_targets such lists
    coef_path_ : array of shape (n_features, n_steps + 1), or list of n_targets such arrays
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape () or (n_targets,)
    n_iter_ : int or list of n_targets ints
        All as for `Lars`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    Lasso : The same models up to rounding, for one or few alphas, or with sample weights.

    References
    ----------
    B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle regression", Annals of Statistics
    32 (2004).

    Examples
    --------
    >>> from gpuml.linear_model import LassoLars
    >>> model = LassoLars(alpha=0.01).fit([[-1, 1], [0, 0], [1, 1]], [-1, 0, -1])
    >>> model.coef_.round(3)
    array([ 0.   , -0.955])
    """

    multifit_params = ("alpha", "fit_intercept", "max_iter", "eps", "positive")
    _nested = "alpha"

    def _path(self, sums, target, params, last):
        return lars_path_of(
            sums,
            target,
            method=self.method,
            max_iter=params["max_iter"],
            alpha_min=float(last),
            eps=params["eps"],
            positive=params["positive"],
            verbose=max(0, self.verbose - 1),
        )

    def _read(self, path, value):
        return path.at(value)

    def _last(self, values):
        return min(values)


class LassoLarsIC(FromSums, sk.LassoLarsIC):
    r"""Lasso by least angle regression, with `alpha` chosen by an information criterion.

    The candidates are the models w at the steps of the path, with d coefficients that are not 0.
    The chosen one minimises

    .. math:: n \log(2 \pi \sigma^2) + \frac{1}{\sigma^2} \sum_i (y_i - x_i^\top w - b)^2 + c \, d ,

    with c = 2 (AIC) or :math:`\log n` (BIC). The path, the sums of squares and the variance
    :math:`\sigma^2` of the noise come from second moments of the rows, which are read once. For the
    device, see `Lars`.

    Parameters
    ----------
    criterion : {"aic", "bic"}, default="aic"
    fit_intercept : bool, default=True
    verbose : bool or int, default=False
    precompute : bool, "auto" or array, default="auto"
        Moments are always used. If you pass an array, scikit-learn does the work in CPU memory.
    max_iter : int, default=500
        The most steps.
    eps : float, default=2.2e-16
    copy_X : bool, default=True
    positive : bool, default=False
        Whether w must be non-negative.
    noise_variance : float, default=None
        The variance of the noise. None estimates it from the residuals of least squares, with
        n - n_features - 1 degrees of freedom (n - n_features without an intercept).

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        This, `alphas_` and `criterion_` are in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape ()
    alpha_ : float
    alphas_, criterion_ : arrays of shape (n_steps + 1,)
    noise_variance_ : float
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LassoLarsCV : Chooses alpha by cross-validation.

    References
    ----------
    H. Zou, T. Hastie, R. Tibshirani, "On the degrees of freedom of the lasso", Annals of Statistics
    35 (2007).

    Examples
    --------
    >>> from gpuml.linear_model import LassoLarsIC
    >>> model = LassoLarsIC(criterion="bic").fit([[-2, 2], [-1, 1], [0, 0], [1, 1], [2, 2]],
    ...                                          [-2.2222, -1.1111, 0, -1.1111, -2.2222])
    >>> model.coef_.round(2)
    array([ 0.  , -1.11])
    """

    multifit_params = (
        *("criterion", "fit_intercept", "max_iter", "eps", "positive", "noise_variance"),
    )
    _at_home = ("alphas_", "criterion_")
    _instead = "precompute='auto'"

    def fit(self, X, y, copy_X=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        copy_X : bool, default=None
            Has no effect: X is never written to.

        Returns
        -------
        self : LassoLarsIC

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, and if there are too few rows to estimate
            the variance of the noise. A failed fit leaves the estimator as it was.
        """
        return super().fit(X, y)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return flat_batch(self, X, y, sample_weight)

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        if self.precompute is not None and not isinstance(self.precompute, bool | str):
            return "a precomputed Gram matrix"
        return super()._needs_sklearn(X, y)

    def _solve(self, sums, candidates, start=None):
        paths: dict[tuple, LarsPath] = {}
        found = []
        for each in candidates:
            options = {name: each[name] for name in ("max_iter", "eps", "positive")}
            key = tuple(options.values())
            if key not in paths:
                paths[key] = lars_path_of(
                    sums, 0, method="lasso", verbose=int(self.verbose), **options
                )
            found.append(self._chosen(sums, paths[key], each))
        return found

    def _chosen(self, sums, path, params):
        n_rows = float(sums.weight)
        variance = params["noise_variance"]
        if variance is None:
            variance = self._variance_of_noise(sums, params)
        factor = 2.0 if params["criterion"] == "aic" else np.log(n_rows)
        n_features = np.sum(np.abs(path.coef) > np.finfo(np.float64).eps, axis=0)
        squares = squared_residuals(sums, 0, path.coef)
        with np.errstate(divide="ignore", invalid="ignore"):  # a variance of 0, as in scikit-learn
            values = n_rows * np.log(2 * np.pi * variance) + squares / variance
        values = values + factor * n_features
        best = int(np.argmin(values))
        attributes = {
            "alphas_": path.alphas,
            "criterion_": values,
            "alpha_": path.alphas[best],
            "noise_variance_": variance,
            "n_iter_": path.n_iter,
        }
        return Found(path.coef[:, best], lambda: attributes)

    def _variance_of_noise(self, sums, params):
        free = round(float(sums.weight)) - len(sums.H) - bool(params["fit_intercept"])
        if free <= 0:
            raise ValueError(
                f"You are using {type(self).__name__} in the case where the number of samples is "
                "smaller than the number of features. In this setting, getting a good estimate for "
                "the variance of the noise is not possible. Provide an estimate of the noise "
                "variance in the constructor."
            )
        if params["positive"]:
            # Rows whose moments are those of all rows.
            values, vectors = np.linalg.eigh(sums.H)
            root = np.sqrt(np.maximum(values, 0.0))
            there = root > 1e-8 * root.max(initial=0.0)
            target = (vectors.T @ sums.g[0])[there] / root[there]
            coef = nnls(root[there, None] * vectors.T[there], target)[0]
        else:
            coef = np.linalg.lstsq(sums.H, sums.g[0])[0]
        return np.float64(squared_residuals(sums, 0, coef[:, None])[0]) / free
