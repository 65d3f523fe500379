"""Least angle regression and matching pursuit, with the end of the path by cross-validation."""

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from scipy.interpolate import interp1d
from sklearn import linear_model as sk

from gpuml._arrays import move
from gpuml._arrays.threads import threads_for_order
from gpuml._sklearn import _fit_context
from gpuml.linear_model._base import LinearPredictor, describe_rows
from gpuml.linear_model._cross_validation import Choosing
from gpuml.linear_model._from_sums import FromSums, as_models, obstacle_of_rows
from gpuml.linear_model._input import flat_batch
from gpuml.linear_model._paths import lars_path_of, pursuit_of
from gpuml.linear_model.least_angle import LassoLars
from gpuml.linear_model.matching_pursuit import OrthogonalMatchingPursuit
from gpuml.metrics.scorer import get_scorer
from gpuml.resampling.atoms import folds_of
from gpuml.resampling.scores import stack_scores
from gpuml.solvers.described import all_rows, training_parts


class _PathCV(Choosing, LinearPredictor):
    """Shared fitting: paths of all splits and their held-out errors, from one pass."""

    cv: Any
    fit_intercept: bool

    def _needs_host(self, X: Any, y: Any = None) -> str | None:
        return obstacle_of_rows(X)

    def _final(self, **params: Any) -> FromSums:
        """The estimator that fits the chosen model, with these parameters."""
        raise NotImplementedError

    def _coefficients(self, parts: list) -> tuple[np.ndarray | None, np.ndarray]:
        """Alphas (A,), or None if models have none, and models (A, S, p) of all splits."""
        raise NotImplementedError

    def _attributes(
        self, alphas: np.ndarray | None, errors: np.ndarray, batch: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fitted attributes, and parameters of the chosen model, from held-out errors (A, S)."""
        raise NotImplementedError

    def _choose(self, X, y, sample_weight):
        batch = flat_batch(self, X, y, None)
        folds = folds_of(self.cv, batch, X, y)
        described = describe_rows(self, folds, by_features=True)
        flag, sums_of = bool(self.fit_intercept), self._final()._sums
        trained = training_parts(folds)
        with threads_for_order(described.n_features):
            parts = [one for part in trained for one in sums_of(described, part, flag)]
            alphas, coef = self._coefficients(parts)
        levels = [one.y_mean - coef[:, [s]] @ one.x_mean for s, one in enumerate(parts)]
        stack = as_models(
            described,
            coef[:, :, None, :],
            np.stack(levels, axis=1),
            [flag] * len(coef),
            refit=_is_none,
            attributes=_is_none,
        )
        scorer = {"score": get_scorer("neg_mean_squared_error")}
        errors = -stack_scores(stack, folds, scorer, weighted=False)["test"]["score"]
        found, params = self._attributes(alphas, errors, batch)
        final = self._final(**params)
        one = final._models(described, final._params([{}]), [all_rows(folds)], of_all_rows=True)
        return {**one.pick(0, 0), **found}


def _is_none(*_):
    raise AssertionError("Models of a path are scored, and not picked.")


class _LarsCV(_PathCV):
    """Fitting of `LarsCV` and `LassoLarsCV`."""

    method: str
    positive: bool
    max_iter: int
    max_n_alphas: int
    eps: float
    verbose: Any
    precompute: Any
    _kind: ClassVar[type[LassoLars]]

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, **params) -> Self:
        """Choose alpha and fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **params : dict
            Parameters for the splitter, if scikit-learn's metadata routing is enabled. scikit-learn
            then does the work.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        """
        return self._fit_choosing(super().fit, X, y, None, params)

    def _final(self, **params):
        names = ("fit_intercept", "max_iter", "eps", "positive", "verbose")
        return self._kind(**{name: getattr(self, name) for name in names}, **params)

    def _coefficients(self, parts):
        if not isinstance(self.precompute, bool | str | None):
            shape = np.shape(self.precompute)
            if shape != parts[0].H.shape:
                raise ValueError(
                    "The shapes of the inputs Gram and Xy do not match: precompute has shape "
                    f"{shape}, and X makes it {parts[0].H.shape}. Use precompute='auto'."
                )
            warnings.warn(
                f'Parameter "precompute" cannot be an array in {type(self).__name__}. '
                'Automatically switch to "auto" instead.',
                stacklevel=2,
            )
        options = {name: getattr(self, name) for name in ("method", "max_iter", "eps", "positive")}
        verbose = max(0, self.verbose - 1)
        paths = [lars_path_of(one, 0, verbose=verbose, **options) for one in parts]
        alphas = np.unique(np.concatenate([path.alphas for path in paths]))
        alphas = alphas[:: int(max(1, int(len(alphas) / float(self.max_n_alphas))))]
        return alphas, np.stack([_between(path, alphas) for path in paths], axis=1)

    def _attributes(self, alphas, errors, batch):
        known = np.isfinite(errors).all(axis=-1)
        alphas, errors = alphas[known], errors[known]
        alpha = alphas[np.argmin(errors.mean(axis=-1))]
        found = {
            "alpha_": alpha,
            "cv_alphas_": move(alphas, batch.home),
            "mse_path_": move(np.ascontiguousarray(errors), batch.home),
        }
        return found, {"alpha": alpha}


def _between(path, alphas):
    """Models (A, p) of a path at some alphas: linear between steps, constant beyond them."""
    knots, coef = path.alphas[::-1], path.coef.T[::-1]
    if knots[0] != 0:
        knots, coef = np.r_[0.0, knots], np.concatenate([coef[:1], coef])
    if knots[-1] != alphas[-1]:
        knots, coef = np.r_[knots, alphas[-1]], np.concatenate([coef, coef[-1:]])
    if len(knots) == 1:  # no step was taken
        return np.repeat(coef, len(alphas), axis=0)
    return interp1d(knots, coef, axis=0)(alphas)


class _Lar(LassoLars):
    """Least angle regression down to an alpha."""

    method = "lar"


class LarsCV(_LarsCV, sk.LarsCV):
    r"""Least angle regression, with `alpha` chosen by cross-validation.

    The path of each training set gives the coefficients for every alpha. The chosen alpha has the
    smallest mean squared error on held-out rows, averaged over the splits, among all alphas at
    which some path has a step. Paths and errors are computed from second moments of the rows, which
    are read once. For the device, see `Lars`.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.
    verbose : bool or int, default=False
        From 2 on, `fit` prints each step.
    max_iter : int, default=500
        The most steps of each path.
    precompute : bool or "auto", default="auto"
        Has no effect: moments are always used.
    cv : int, splitter or iterable of index pairs, default=None
        None is 5-fold without shuffling.
    max_n_alphas : int, default=1000
        The most alphas to compare.
    n_jobs : int, default=None
        Used only if scikit-learn does the work.
    eps : float, default=2.2e-16
        The least diagonal entry of the Cholesky factor.
    copy_X : bool, default=True
        Used only if scikit-learn does the work.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    cv_alphas_ : array of shape (n_cv_alphas,)
        The compared alphas, from small to large.
    mse_path_ : array of shape (n_cv_alphas, n_splits)
        Mean squared errors on held-out rows. This and `cv_alphas_` are float64, in the library and
        on the device of X.
    coef_ : array of shape (n_features,)
    intercept_ : float or array of shape ()
    alphas_ : array of shape (n_steps + 1,)
    active_ : list of ints
    coef_path_ : array of shape (n_features, n_steps + 1)
    n_iter_ : int
        This and the five attributes above are as for `Lars`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    Notes
    -----
    scikit-learn does the work for data in CPU memory with fewer rows than features.

    References
    ----------
    B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle regression", Annals of Statistics
    32 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import LarsCV
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(100, 5))
    >>> model = LarsCV().fit(X, X @ [0.0, 2.0, 0.0, 0.0, -3.0] + random.normal(size=100))
    >>> bool(abs(model.coef_[1] - 2.0) < 0.2)
    True
    """

    _kind = _Lar


class LassoLarsCV(_LarsCV, sk.LassoLarsCV):
    r"""Lasso by least angle regression, with `alpha` chosen by cross-validation.

    As `LarsCV`, with paths on which features may leave the model again. The compared alphas are not
    a grid, but those at which a feature joins or leaves the model of a split.

    Parameters
    ----------
    fit_intercept : bool, default=True
    verbose : bool or int, default=False
    max_iter : int, default=500
    precompute : bool or "auto", default="auto"
    cv : int, splitter or iterable of index pairs, default=None
    max_n_alphas : int, default=1000
    n_jobs : int, default=None
    eps : float, default=2.2e-16
    copy_X : bool, default=True
        All as for `LarsCV`.
    positive : bool, default=False
        Whether coefficients must be non-negative.

    Attributes
    ----------
    alpha_ : float
    cv_alphas_ : array of shape (n_cv_alphas,)
    mse_path_ : array of shape (n_cv_alphas, n_splits)
    coef_ : array of shape (n_features,)
    intercept_ : float or array of shape ()
    alphas_ : array of shape (n_steps + 1,)
    active_ : list of ints
    coef_path_ : array of shape (n_features, n_steps + 1)
    n_iter_ : int
        All as for `LarsCV`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LassoCV : Compares a grid of alphas, and takes sample weights.

    References
    ----------
    B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle regression", Annals of Statistics
    32 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import LassoLarsCV
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(100, 5))
    >>> model = LassoLarsCV().fit(X, X @ [0.0, 2.0, 0.0, 0.0, -3.0] + random.normal(size=100))
    >>> bool(abs(model.coef_[1] - 2.0) < 0.2)
    True
    """

    _kind = LassoLars


class OrthogonalMatchingPursuitCV(_PathCV, sk.OrthogonalMatchingPursuitCV):
    r"""Orthogonal matching pursuit, with the number of features chosen by cross-validation.

    The path of each training set has a model for every number of features. The number with the
    smallest mean squared error on held-out rows, averaged over the splits, is then fitted to all
    rows. Paths and errors are computed from second moments of the rows, which are read once. For
    the device, see `OrthogonalMatchingPursuit`.

    Parameters
    ----------
    copy : bool, default=True
        Has no effect: X is never written to.
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.
    max_iter : int, default=None
        Largest number of features to try. None means a tenth of the features, but at least 5 (or
        all, if there are fewer).
    cv : int, splitter or iterable of index pairs, default=None
        None is 5-fold without shuffling.
    n_jobs : int, default=None
        Used only if scikit-learn does the work.
    verbose : bool or int, default=False
        Used only if scikit-learn does the work.

    Attributes
    ----------
    n_nonzero_coefs_ : int
        The chosen number of features.
    n_iter_ : int
        Number of features in the model.
    coef_ : array of shape (n_features,)
        In the library, on the device and of the dtype of X.
    intercept_ : float or array of shape ()
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    References
    ----------
    R. Rubinstein, M. Zibulevsky, M. Elad, "Efficient implementation of the K-SVD algorithm using
    batch orthogonal matching pursuit", Technion CS (2008).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import OrthogonalMatchingPursuitCV
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(100, 5))
    >>> y = X @ [0.0, 2.0, 0.0, 0.0, -3.0] + random.normal(size=100)
    >>> int(OrthogonalMatchingPursuitCV().fit(X, y).n_nonzero_coefs_)
    2
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, **fit_params) -> Self:
        """Choose the number of features and fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With at least two features.
        y : array-like of shape (n_samples,)
        **fit_params : dict
            Parameters for the splitter, if scikit-learn's metadata routing is enabled. scikit-learn
            then does the work.

        Returns
        -------
        self : OrthogonalMatchingPursuitCV

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        """
        return self._fit_choosing(super().fit, X, y, None, fit_params)

    def _final(self, **params):
        return OrthogonalMatchingPursuit(fit_intercept=self.fit_intercept, **params)

    def _coefficients(self, parts):
        p = len(parts[0].H)
        if p < 2:
            raise ValueError(
                "Found array with 1 feature(s) while a minimum of 2 is required by "
                f"{type(self).__name__}."
            )
        size = self.max_iter or min(max(int(0.1 * p), 5), p)
        paths = [pursuit_of(one, 0, n_nonzero_coefs=size) for one in parts]
        least = min(path.shape[1] for path in paths)
        # If a split has no feature to start with, all are compared at their start, with none.
        steps = slice(1 if least > 1 else 0, least)
        return None, np.stack([path[:, steps].T for path in paths], axis=1)

    def _attributes(self, alphas, errors, batch):
        best = np.argmin(errors.mean(axis=-1)) + 1
        return {"n_nonzero_coefs_": best}, {"n_nonzero_coefs": int(best)}
