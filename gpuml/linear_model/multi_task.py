"""Lasso and elastic net for several targets that share their nonzero features."""

from typing import Any, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn import linear_model as sk

from gpuml._sklearn import _fit_context
from gpuml.data import Batch, Folds
from gpuml.linear_model._base import describe_rows
from gpuml.linear_model._from_sums import Found, FromSums, Sums, obstacle_of_rows
from gpuml.linear_model._input import multifit_batch
from gpuml.linear_model._models import RegressionModels
from gpuml.linear_model._paths import on_one_path
from gpuml.linear_model.elastic_net import SparseCoefficients
from gpuml.linear_model.regression_cv import SparseCV
from gpuml.solvers.described import Described, training_parts
from gpuml.solvers.lasso import Penalties


class _MultiTask(SparseCoefficients, FromSums):
    """Fitting of `MultiTaskElasticNet` and `MultiTaskLasso`, which differ only in parameters."""

    _numeric_strings = "fit"

    l1_ratio: float
    max_iter: int
    tol: float
    selection: str
    _flat_coef = False
    _instead = "selection='cyclic'"

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        random = "selection='random'" if self.selection == "random" else None
        return random or super()._needs_sklearn(X, y)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        batch = multifit_batch(self, X, y, sample_weight)
        if batch.y_is_flat:
            raise ValueError("For mono-task outputs, use ElasticNet")
        return batch

    def _solve(self, sums, candidates, start=None):
        X, Y = rows_like(sums)
        found: dict[int, Found] = {}
        for some in on_one_path(candidates, "alpha"):
            alphas = np.asarray([candidates[i]["alpha"] for i in some], dtype=float)
            order = np.argsort(-alphas, kind="stable")
            # The weights of these rows sum to 1, but the path divides by the number of rows.
            _, coef, gaps, n_iter = sk.enet_path(
                X,
                Y,
                l1_ratio=candidates[some[0]].get("l1_ratio", self.l1_ratio),
                alphas=alphas[order] / len(X),
                precompute=False,
                coef_init=start,
                check_input=False,
                return_n_iter=True,
                tol=self.tol,
                max_iter=self.max_iter,
            )
            scale = float(np.sum(sums.y_square) * sums.weight)
            for k, place in enumerate(order):
                attributes = {
                    "n_iter_": n_iter[k],
                    "dual_gap_": float(gaps[k]) * len(X),
                    "eps_": self.tol * scale,
                }
                found[some[place]] = Found(coef[:, :, k], attributes.copy)
        return [found[i] for i in range(len(candidates))]


def rows_like(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
    """Rows (p + 1, p) and targets (p + 1, t), in Fortran order, with the moments of training rows.

    On them, coordinate descent takes the same steps as on the training rows, to the same duality
    gap.
    """
    H, g = sums.H, sums.g
    constant = np.diagonal(H) == 0
    p = len(H)
    X, Y = np.zeros((p + 1, p), order="F"), np.zeros((p + 1, len(g)), order="F")
    try:
        L = np.linalg.cholesky(H + np.diag(constant.astype(float)))
        X[:p] = L.T * ~constant
        Y[:p] = solve_triangular(L, g.T, lower=True)
    except np.linalg.LinAlgError:  # features that depend on others
        values, vectors = np.linalg.eigh(H)
        there = values > 8 * np.finfo(float).eps * p * values.max(initial=0.0)
        root = np.sqrt(np.where(there, values, 0.0))
        X[:p] = root[:, None] * vectors.T
        Y[:p] = np.where(there, 1.0 / np.where(there, root, 1.0), 0.0)[:, None] * (vectors.T @ g.T)
    # The part of the targets that no feature explains adds to their sum of squares only.
    Y[p, 0] = np.sqrt(max(float(np.sum(sums.y_square) - np.sum(Y**2)), 0.0))
    return X, Y


class MultiTaskElasticNet(_MultiTask, sk.MultiTaskElasticNet):
    r"""Elastic net for several targets that share their nonzero features.

    Minimises, over W of shape (n_targets, n_features) and b, with columns :math:`W_j` of W,

    .. math:: \frac{1}{2 \sum_i v_i} \sum_i v_i \, |y_i - W x_i - b|^2
              + \alpha \rho \sum_j |W_j|_2 + \frac{\alpha (1 - \rho)}{2} |W|_F^2

    with weights v (1 if not given), :math:`\alpha` = `alpha` and :math:`\rho` = `l1_ratio`.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Rows are read once, for their second
    moments. scikit-learn's `enet_path` then runs block coordinate descent, in CPU memory, on
    n_features + 1 rows with the same moments; it takes the same steps as on all rows. In a
    `gpuml.model_selection` search, all values of `alpha`, `l1_ratio` and `fit_intercept` are fitted
    on all splits from the same pass, from large alphas to small.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        Strength of the penalty.
    l1_ratio : float in [0, 1], default=0.5
        Share of the penalty that is not squared, which sets coefficients to zero.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    copy_X : bool, default=True
        Used only by scikit-learn's solvers; gpuml's never write to X.
    max_iter : int, default=1000
        The most sweeps over the features.
    tol : float, default=1e-4
        A model has converged if its duality gap is at most tol times the mean square of the
        centred y, summed over targets.
    warm_start : bool, default=False
        Whether to start from the `coef_` of the last fit.
    random_state : int, RandomState instance, default=None
        Seed of the order of features with ``selection="random"``; otherwise unused.
    selection : {"cyclic", "random"}, default="cyclic"
        "random" runs scikit-learn's fit, for data in CPU memory.

    Attributes
    ----------
    coef_ : array of shape (n_targets, n_features)
        W, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape (n_targets,)
        b; 0.0 without an intercept.
    sparse_coef_ : scipy.sparse array of shape (n_targets, n_features)
        `coef_` in CPU memory.
    n_iter_ : int
        Number of sweeps.
    dual_gap_ : float
        Duality gap of the objective.
    eps_ : float
        `tol` times the weighted sum of squares of the centred y.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    ElasticNet : Fits each target independently.

    Notes
    -----
    scikit-learn does the work for sparse data, and for data in CPU memory with fewer rows than
    features.

    References
    ----------
    G. Obozinski, B. Taskar, M. I. Jordan, "Joint covariate selection and joint subspace selection
    for multiple classification problems", Statistics and Computing 20 (2010).

    Examples
    --------
    >>> from gpuml.linear_model import MultiTaskElasticNet
    >>> model = MultiTaskElasticNet(alpha=0.1)
    >>> model.fit([[0, 0], [1, 1], [2, 2]], [[0, 0], [1, 1], [2, 2]]).intercept_.round(4)
    array([0.0872, 0.0872])
    """

    multifit_params = ("alpha", "l1_ratio", "fit_intercept")


class MultiTaskLasso(_MultiTask, sk.MultiTaskLasso):
    r"""Lasso for several targets that share their nonzero features.

    Minimises, over W of shape (n_targets, n_features) and b, with columns :math:`W_j` of W,

    .. math:: \frac{1}{2 \sum_i v_i} \sum_i v_i \, |y_i - W x_i - b|^2
              + \alpha \sum_j |W_j|_2

    with weights v (1 if not given). For solver and device, see `MultiTaskElasticNet`.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        Strength of the penalty.
    fit_intercept : bool, default=True
    copy_X : bool, default=True
    max_iter : int, default=1000
    tol : float, default=1e-4
    warm_start : bool, default=False
    random_state : int, RandomState instance, default=None
    selection : {"cyclic", "random"}, default="cyclic"
        All as for `MultiTaskElasticNet`.

    Attributes
    ----------
    coef_ : array of shape (n_targets, n_features)
        W, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape (n_targets,)
    sparse_coef_ : scipy.sparse array of shape (n_targets, n_features)
    n_iter_ : int
    dual_gap_ : float
    eps_ : float
        All as for `MultiTaskElasticNet`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    References
    ----------
    G. Obozinski, B. Taskar, M. I. Jordan, "Joint covariate selection and joint subspace selection
    for multiple classification problems", Statistics and Computing 20 (2010).

    Examples
    --------
    >>> from gpuml.linear_model import MultiTaskLasso
    >>> model = MultiTaskLasso(alpha=0.1)
    >>> model.fit([[0, 1], [1, 2], [2, 4]], [[0, 0], [1, 1], [2, 3]]).coef_.round(4)
    array([[0.    , 0.6081],
           [0.    , 0.9459]])
    """

    multifit_params = ("alpha", "fit_intercept")


class _MultiTaskCV(SparseCV):
    """Fitting of `MultiTaskLassoCV` and `MultiTaskElasticNetCV`."""

    max_iter: int
    tol: float
    selection: str

    def _needs_host(self, X: Any, y: Any = None) -> str | None:
        random = "selection='random'" if self.selection == "random" else None
        return random or obstacle_of_rows(X)

    def _targets(self, y: Any) -> Any:
        return y

    def _batch(self, X: Any, y: Any, weight: Any) -> Batch:
        batch = super()._batch(X, y, weight)
        if batch.y_is_flat:
            name = type(self).__name__.removeprefix("MultiTask")
            raise ValueError(f"For mono-task outputs, use {name}")
        return batch

    def _described(self, folds: Folds) -> Described:
        return describe_rows(self, folds, by_features=True)

    def _choose(self, X, y, sample_weight):
        found = super()._choose(X, y, sample_weight)
        return {name: value for name, value in found.items() if name != "eps_"}

    def _path(self, folds: Folds, penalties: Penalties, described: Any) -> RegressionModels:
        names = ("alpha", "l1_ratio", "fit_intercept")
        rows = zip(*(getattr(penalties, name) for name in names), strict=True)
        final = MultiTaskElasticNet(max_iter=self.max_iter, tol=self.tol)
        params = [dict(zip(names, row, strict=True)) for row in rows]
        return final._models(described, params, training_parts(folds))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, **params) -> Self:
        """Choose the penalty and fit; everything else is as for `LassoCV.fit`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), default=None
        **params : dict

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, and for device data with parameters that
            need data in CPU memory. A failed fit leaves the estimator as it was.
        """
        return self._fit_choosing(super().fit, X, y, sample_weight, params)


class MultiTaskLassoCV(_MultiTaskCV, sk.MultiTaskLassoCV):
    r"""`MultiTaskLasso` with `alpha` chosen by cross-validation.

    The chosen alpha has the smallest mean squared error on held-out rows, averaged over splits and
    targets; it is then fitted to all rows. All alphas are fitted on all splits and scored from one
    pass over the rows.

    Parameters
    ----------
    eps : float, default=1e-3
        Ratio of the smallest to the largest alpha of a grid.
    alphas : int or array-like, default=100
        The alphas to compare. An int is the size of a geometric grid, whose largest alpha is the
        smallest that sets all coefficients to zero.
    fit_intercept : bool, default=True
    max_iter : int, default=1000
    tol : float, default=1e-4
        As for `MultiTaskLasso`.
    copy_X : bool, default=True
        Used only if scikit-learn does the work.
    cv : int, splitter or iterable of index pairs, default=None
        None is 5-fold without shuffling.
    verbose : bool or int, default=False
        Used only if scikit-learn does the work.
    n_jobs : int, default=None
        Used only if scikit-learn does the work.
    random_state, selection
        As for `MultiTaskLasso`.

    Attributes
    ----------
    alpha_ : float
    alphas_ : array of shape (n_alphas,)
        From large to small.
    mse_path_ : array of shape (n_alphas, n_splits)
        Mean squared errors on held-out rows, weighted if the fit is. This and `alphas_` are
        float64, in the library and on the device of X.
    coef_ : array of shape (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    dual_gap_ : float
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    References
    ----------
    G. Obozinski, B. Taskar, M. I. Jordan, "Joint covariate selection and joint subspace selection
    for multiple classification problems", Statistics and Computing 20 (2010).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import MultiTaskLassoCV
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = X @ [[1.0, 2.0], [2.0, 1.0], [0.0, 0.0]]
    >>> float(MultiTaskLassoCV(alphas=[0.01, 0.1, 1.0]).fit(X, Y).alpha_)
    0.01
    """


class MultiTaskElasticNetCV(_MultiTaskCV, sk.MultiTaskElasticNetCV):
    r"""`MultiTaskElasticNet` with `alpha` and `l1_ratio` chosen by cross-validation.

    As `MultiTaskLassoCV`, for every `l1_ratio` too; each has its own grid of alphas.

    Parameters
    ----------
    l1_ratio : float or array-like of floats in [0, 1], default=0.5
        The shares to compare; see `MultiTaskElasticNet`. 0 needs a list of `alphas`.
    eps : float, default=1e-3
    alphas : int or array-like, default=100
    fit_intercept : bool, default=True
    max_iter : int, default=1000
    tol : float, default=1e-4
    cv : int, splitter or iterable of index pairs, default=None
    copy_X : bool, default=True
    verbose : bool or int, default=0
    n_jobs : int, default=None
    random_state : int, RandomState instance, default=None
    selection : {"cyclic", "random"}, default="cyclic"
        All as for `MultiTaskLassoCV`.

    Attributes
    ----------
    alpha_ : float
    l1_ratio_ : float
    alphas_ : array of shape (n_alphas,) or (n_l1_ratio, n_alphas)
        From large to small. If `alphas` is a list, all l1_ratios share one row.
    mse_path_ : array of shape (n_alphas, n_splits) or (n_l1_ratio, n_alphas, n_splits)
        Mean squared errors on held-out rows.
    coef_ : array of shape (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    dual_gap_ : float
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    References
    ----------
    G. Obozinski, B. Taskar, M. I. Jordan, "Joint covariate selection and joint subspace selection
    for multiple classification problems", Statistics and Computing 20 (2010).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import MultiTaskElasticNetCV
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = X @ [[1.0, 2.0], [2.0, 1.0], [0.0, 0.0]]
    >>> float(MultiTaskElasticNetCV(l1_ratio=[0.5, 1.0], alphas=[0.01, 1.0]).fit(X, Y).l1_ratio_)
    1.0
    """
