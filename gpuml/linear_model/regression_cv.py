"""Lasso and elastic net that choose their penalty by cross-validation, from one pass."""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import linear_model as sk
from sklearn.utils.validation import column_or_1d

from gpuml._arrays import as_array, move
from gpuml._inputs.validation import is_foreign
from gpuml._sklearn import _fit_context
from gpuml.data import Batch, Folds
from gpuml.linear_model._base import LinearPredictor, multifit_batch
from gpuml.linear_model._cross_validation import Choosing, numbers_in, undefined
from gpuml.linear_model._lasso import describe_sparse, largest_slope, solve_sparse
from gpuml.linear_model._models import RegressionModels
from gpuml.linear_model.elastic_net import needs_host
from gpuml.metrics.scorer import get_scorer
from gpuml.resampling.atoms import folds_of
from gpuml.resampling.scores import stack_scores
from gpuml.solvers.described import Described
from gpuml.solvers.lasso import Penalties

SMALLEST_ALPHA = float(np.finfo(np.float64).resolution)


class SparseCV(Choosing, LinearPredictor):
    """Fitting of `LassoCV` and `ElasticNetCV`, whose parameters these are."""

    _numeric_strings = "fit"

    cv: Any
    alphas: Any
    eps: float
    fit_intercept: bool

    def _needs_host(self, X: Any, y: Any = None) -> str | None:
        return needs_host(self, X)

    def _targets(self, y: Any) -> Any:
        return _one_target(self, y)

    def _batch(self, X: Any, y: Any, weight: Any) -> Batch:
        return multifit_batch(self, X, y, weight)

    def _described(self, folds: Folds) -> Described | None:
        return describe_sparse(self, folds)

    def _path(self, folds: Folds, penalties: Penalties, described: Any) -> RegressionModels:
        """Models of all candidates on all splits."""
        return solve_sparse(self, folds, penalties, described=described)

    def _choose(self, X, y, sample_weight):
        weight = None if isinstance(sample_weight, Real) else sample_weight
        y = self._targets(as_array(y))
        batch = self._batch(X, y, weight)
        ratios = numbers_in(
            getattr(self, "l1_ratio", 1.0), "l1_ratio", largest=1.0, name_of_one="l1_ratio"
        )
        folds = folds_of(self.cv, batch, X, y)
        described = self._described(folds)
        grid = self._grid(folds, described, ratios)  # (R, A)
        penalties = Penalties(
            alpha=grid.ravel(),
            l1_ratio=np.repeat(ratios, grid.shape[1]),
            fit_intercept=np.full(grid.size, bool(self.fit_intercept)),
        )
        # Divisions of zero by zero raise a clear error below.
        with np.errstate(invalid="ignore", divide="ignore"):
            stack = self._path(folds, penalties, described)
            scorer = {"score": get_scorer("neg_mean_squared_error")}
            table = stack_scores(stack, folds, scorer, weighted=True, score_model=undefined)
            scores = table["test"]["score"]
        errors = -scores.reshape(*grid.shape, folds.n_splits)
        unknown = np.flatnonzero(np.isnan(errors).all(axis=(0, 1)))
        if batch.weight is not None and len(unknown) > 0:
            # The means of all models would be nan, and the first of them would win.
            raise ValueError(
                f"Sample weights of the training or of the held-out part of split {unknown[0]} of "
                "cv sum to zero, so that its models cannot be fitted or scored. Shuffle the rows, "
                "or leave out those without weight."
            )
        mean = errors.mean(axis=-1)
        # As many as one may be nan; scikit-learn's choice is the first of the smallest.
        best = int(np.argmin(mean))
        ratio, alpha = np.unravel_index(best, mean.shape)
        fitted = stack.pick(best, None)
        if hasattr(self, "l1_ratio"):
            fitted["l1_ratio_"] = ratios[ratio]
        alphas = grid if isinstance(self.alphas, Integral) and len(ratios) > 1 else grid[0]
        return {
            **fitted,
            "alpha_": grid[ratio, alpha],
            "alphas_": move(np.ascontiguousarray(alphas), batch.home),
            "mse_path_": move(np.ascontiguousarray(np.squeeze(errors)), batch.home),
        }

    def _grid(self, folds, described, ratios):
        """Alphas (R, A) from large to small."""
        if not isinstance(self.alphas, Integral):
            alphas = np.sort(numbers_in(self.alphas, "alphas"))[::-1]
            return np.tile(alphas, (len(ratios), 1))
        if (ratios == 0).any():
            raise ValueError(
                "Automatic alpha grid generation is not supported for l1_ratio=0. Please supply a "
                "grid by providing your estimator with the appropriate `alphas=` argument. Without "
                "an l1 part, every alpha gives coefficients; RidgeCV chooses among them faster."
            )
        steepest = largest_slope(folds, described, bool(self.fit_intercept))
        return np.stack(
            [
                np.full(self.alphas, SMALLEST_ALPHA)
                if top <= SMALLEST_ALPHA
                else np.geomspace(top, top * self.eps, num=self.alphas)
                for top in steepest / ratios
            ]
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self._needs_host(None) is None
        return tags


class LassoCV(SparseCV, sk.LassoCV):
    r"""Lasso with `alpha` chosen by cross-validation.

    The chosen alpha has the smallest mean squared error on held-out rows, averaged over the splits;
    `Lasso` with this alpha is then fitted to all rows. One pass over the rows serves all alphas on
    all splits, their scores, and the final fit.

    Parameters
    ----------
    eps : float, default=1e-3
        Smallest alpha of the grid, divided by the largest.
    alphas : int or array-like, default=100
        The alphas to try. An integer is the size of a geometric grid, which begins at the smallest
        alpha for which all coefficients are zero.
    fit_intercept : bool, default=True
    precompute : "auto", bool or array, default="auto"
        Has no effect, except that for an array scikit-learn does the work, with data in CPU memory.
    max_iter : int, default=1000
    tol : float, default=1e-4
        As for `Lasso`.
    copy_X : bool, default=True
        Used only if scikit-learn does the work.
    cv : int, splitter or iterable of index pairs, default=None
        None is 5-fold without shuffling.
    verbose : bool or int, default=False
        Used only if scikit-learn does the work.
    n_jobs : int, default=None
        Used only if scikit-learn does the work.
    positive, random_state, selection
        As for `Lasso`.

    Attributes
    ----------
    alpha_ : float
    alphas_ : array of shape (n_alphas,)
        From large to small.
    mse_path_ : array of shape (n_alphas, n_splits)
        Held-out mean squared errors, weighted where the fit is. This and `alphas_` are float64, in
        the library and on the device of X.
    coef_ : array of shape (n_features,)
        In the library, on the device and of the dtype of X.
    intercept_ : float or array of shape ()
    dual_gap_ : float
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    ElasticNetCV : Chooses `l1_ratio` too.

    References
    ----------
    R. Tibshirani, "Regression shrinkage and selection via the lasso", J. R. Stat. Soc. B 58 (1996).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import LassoCV
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = LassoCV(alphas=[0.01, 0.1, 1.0]).fit(X, X @ [1.0, 2.0, 0.0])
    >>> float(model.alpha_)
    0.01
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, **params) -> Self:
        """Choose alpha and fit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of fits and of held-out errors; the mean over splits is not weighted.
        **params : dict
            For the splitter, where scikit-learn's metadata routing is enabled; then scikit-learn
            does the work.

        Returns
        -------
        self : LassoCV

        Raises
        ------
        ValueError
            For input that scikit-learn's LassoCV rejects, for parts of splits without weight, and
            for device data with parameters that need data in CPU memory. A failed fit leaves the
            estimator as it was.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was too small for `tol`.
        """
        return self._fit_choosing(super().fit, X, y, sample_weight, params)


class ElasticNetCV(SparseCV, sk.ElasticNetCV):
    r"""Elastic net with `alpha` and `l1_ratio` chosen by cross-validation.

    It works like `LassoCV`, and also tries every `l1_ratio`, each with its own grid of alphas.

    Parameters
    ----------
    l1_ratio : float or array-like of floats in [0, 1], default=0.5
        Share of the l1 penalty, or a list of shares to try. For 0, pass a list as `alphas`.
    eps : float, default=1e-3
    alphas : int or array-like, default=100
    fit_intercept : bool, default=True
    precompute : "auto", bool or array, default="auto"
    max_iter : int, default=1000
    tol : float, default=1e-4
    cv : int, splitter or iterable of index pairs, default=None
    copy_X : bool, default=True
    verbose : bool or int, default=0
    n_jobs : int, default=None
    positive : bool, default=False
    random_state : int, RandomState instance, default=None
    selection : {"cyclic", "random"}, default="cyclic"
        All as for `LassoCV`.

    Attributes
    ----------
    alpha_ : float
    l1_ratio_ : float
    alphas_ : array of shape (n_alphas,) or (n_l1_ratio, n_alphas)
        The alphas, from large to small: one row per l1_ratio, or a single row if you passed
        `alphas` as a list.
    mse_path_ : array of shape (n_alphas, n_splits) or (n_l1_ratio, n_alphas, n_splits)
        Held-out mean squared errors.
    coef_ : array of shape (n_features,)
        In the library, on the device and of the dtype of X.
    intercept_ : float or array of shape ()
    dual_gap_ : float
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    References
    ----------
    H. Zou, T. Hastie, "Regularization and variable selection via the elastic net", J. R. Stat. Soc.
    B 67 (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import ElasticNetCV
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = ElasticNetCV(l1_ratio=[0.5, 1.0], alphas=[0.01, 1.0])
    >>> float(model.fit(X, X @ [1.0, 2.0, 0.0]).l1_ratio_)
    1.0
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, **params) -> Self:
        """Choose alpha and l1_ratio, and fit; everything is as for `LassoCV.fit`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        **params : dict

        Returns
        -------
        self : ElasticNetCV
        """
        return self._fit_choosing(super().fit, X, y, sample_weight, params)


def _one_target(estimator: Any, y: Any) -> Any:
    # What is no array of targets at all, the checks of all input refuse later on.
    if y is None or sparse.issparse(y):
        return y
    y = y if is_foreign(y) else np.asarray(y)
    if y.ndim == 0:
        return y
    if y.ndim > 1 and y.shape[1] > 1:
        name = type(estimator).__name__
        raise ValueError(f"For multi-task outputs, use MultiTask{name}")
    if is_foreign(y):
        return y[:, 0] if y.ndim == 2 else y
    return column_or_1d(y, warn=True)
