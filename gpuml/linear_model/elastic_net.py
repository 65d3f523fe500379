"""Lasso and elastic net on the device of the data."""

from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn import linear_model as sk

from gpuml._arrays import is_array, is_numpy, is_sparse, to_host
from gpuml.linear_model._base import LinearPredictor, OnePass
from gpuml.linear_model._lasso import penalties_of, solve_sparse
from gpuml.solvers.working_set import is_wide


class SparseCoefficients:
    """Shared parts of models with many zero coefficients: warm starts and `sparse_coef_`."""

    # scikit-learn's constraints let None pass for `max_iter`, and its solver fails on it.
    _parameter_constraints: ClassVar[dict] = {
        **sk.ElasticNet._parameter_constraints,
        "max_iter": sk.ElasticNetCV._parameter_constraints["max_iter"],
    }

    coef_: Any

    def _start(self, batch):
        if getattr(self, "coef_", None) is None:
            return None
        coef = to_host(self.coef_) if is_array(self.coef_) else self.coef_
        coef = np.atleast_2d(np.asarray(coef, dtype=np.float64))
        if coef.shape != (batch.y.shape[1], batch.n_features):
            raise ValueError(
                f"warm_start=True starts from coef_ of shape {self.coef_.shape}, but X has "
                f"{batch.n_features} features and y has {batch.y.shape[1]} targets. Use "
                "warm_start=False, or a clone of the estimator."
            )
        return coef

    @property
    def sparse_coef_(self):
        """`coef_` as a scipy.sparse array of shape (n_targets, n_features), in CPU memory."""
        # Users may set `coef_` by hand, to a list too.
        if is_numpy(self.coef_) or not is_array(self.coef_):
            return super().sparse_coef_  # type: ignore[misc]
        return sparse.csr_array(np.atleast_2d(to_host(self.coef_)))


class _SparseRegressor(SparseCoefficients, LinearPredictor, OnePass, sk.ElasticNet):
    """Fitting of `ElasticNet` and `Lasso`, which differ only in their parameters."""

    _numeric_strings = "fit"

    def fit(self, X, y, sample_weight=None, check_input=True) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Each target is fitted independently.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights; only their proportions matter.
        check_input : bool, default=True
            Has no effect: rows are always checked.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, and for device data with parameters that
            need data in CPU memory. A failed fit leaves the estimator as it was.
        MemoryError
            If GPU memory has no room for even small blocks of rows, or if X has more than 4096
            features and that many have nonzero coefficients.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was too small for `tol`.
        """
        return super().fit(X, y, sample_weight)

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        return needs_host(self, X)

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        return solve_sparse(self, folds, penalties_of(self, candidates), advance, start)

    def multifit_rows(self, folds):
        """The number of rows that `multifit` reads; None if it depends on the data."""
        return None if is_wide(folds.batch) else super().multifit_rows(folds)


class ElasticNet(_SparseRegressor):
    r"""Linear least squares with an l1 and an l2 penalty.

    Minimises, over w of shape (n_features,) and b, for each target

    .. math:: \frac{1}{2 \sum_i v_i} \sum_i v_i \, (y_i - x_i' w - b)^2
              + \alpha \rho \, |w|_1 + \frac{\alpha (1 - \rho)}{2} |w|_2^2

    with weights v (1 if not given), :math:`\alpha` = `alpha` and :math:`\rho` = `l1_ratio`.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Second moments of the rows are summed
    in float64 whatever the dtype of X, and the problem is solved from them to rounding error. On a
    CPU, the solver follows the path of penalties with scikit-learn's compiled coordinate descent,
    and solves a linear system for given signs of w; elsewhere it pivots on the signs. With many
    features (more than 4096, or more than both the rows and 1024; on a CPU 256 instead of 1024),
    only moments of the features that matter are computed. On a CPU, each split then has a copy of
    its training rows in float64; elsewhere, a few more passes over the rows find these features.

    In a `gpuml.model_selection` search, all values of `alpha`, `l1_ratio` and `fit_intercept` are
    fitted on all splits from the same pass.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        Strength of the penalty; 0 is least squares.
    l1_ratio : float in [0, 1], default=0.5
        Share of the l1 part: 1 is the lasso, 0 is ridge regression.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    precompute : bool or array of shape (n_features, n_features), default=False
        False and True do the same: moments are always used. If you pass an array, scikit-learn does
        the work, with data in CPU memory.
    max_iter : int, default=1000
        The most iterations: linear systems in the features with nonzero coefficients and, on a CPU,
        sweeps over single coefficients. A few may be enough where scikit-learn, with sweeps alone,
        takes hundreds; a small `max_iter` that was enough gives no warning.
    copy_X : bool, default=True
        Used only by scikit-learn's solvers; gpuml's never write to X.
    tol : float, default=1e-4
        A model has converged if its duality gap is at most tol times the mean square of the
        centred y. The solver itself stops at rounding error.
    warm_start : bool, default=False
        Whether to start from the `coef_` of the last fit. The result is the same.
    positive : bool, default=False
        Whether w must be non-negative. If so, scikit-learn does the work, with data in CPU memory.
    random_state : int, RandomState instance, default=None
        Seed of the order of features with ``selection="random"``; otherwise unused.
    selection : {"cyclic", "random"}, default="cyclic"
        "random" runs scikit-learn's coordinate descent, for data in CPU memory.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        w, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
        b; 0.0 without an intercept.
    sparse_coef_ : scipy.sparse array of shape (n_targets, n_features)
        `coef_` in CPU memory.
    n_iter_ : int or list of n_targets ints
        Number of iterations; 0 if the start was the solution.
    dual_gap_ : float or array of shape (n_targets,)
        Duality gap of the objective.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    Lasso : With the l1 penalty only.
    ElasticNetCV : Chooses `alpha` and `l1_ratio` by cross-validation.

    References
    ----------
    H. Zou, T. Hastie, "Regularization and variable selection via the elastic net", J. R. Stat. Soc.
    B 67 (2005). J. Friedman, T. Hastie, R. Tibshirani, "Regularization paths for generalized linear
    models via coordinate descent", J. Stat. Softw. 33 (2010). L. F. Portugal, J. J. Judice, L. N.
    Vicente, "A comparison of block pivoting and interior-point algorithms for linear least squares
    problems with nonnegative variables", Mathematics of Computation 63 (1994).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import ElasticNet
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 3.0], [3.0, 1.0]])
    >>> model = ElasticNet(alpha=0.1).fit(X, X @ [1.0, 2.0] + 3.0)
    >>> model.coef_.round(3), round(float(model.intercept_), 3)
    (array([0.975, 1.891]), 3.173)
    """

    # Hyper-parameters that may differ between candidates of one pass over the rows.
    multifit_params = ("alpha", "l1_ratio", "fit_intercept")
    multifit_targets = True


class Lasso(_SparseRegressor, sk.Lasso):
    r"""Linear least squares with an l1 penalty, which sets coefficients to zero.

    Minimises, over w of shape (n_features,) and b, for each target

    .. math:: \frac{1}{2 \sum_i v_i} \sum_i v_i \, (y_i - x_i' w - b)^2 + \alpha \, |w|_1

    with weights v (1 by default). For solver and device, see `ElasticNet`. In a
    `gpuml.model_selection` search, all values of `alpha` and `fit_intercept` are fitted on all
    splits in one pass over the rows.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        Strength of the penalty; 0 is least squares.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    precompute : bool or array of shape (n_features, n_features), default=False
        If you pass an array, scikit-learn does the work, with data in CPU memory.
    copy_X : bool, default=True
        Used only if scikit-learn does the work.
    max_iter : int, default=1000
        The most iterations; see `ElasticNet`. One may be enough.
    tol : float, default=1e-4
        A model has converged if its duality gap is at most `tol` times the mean square of the
        centred y. The solver itself stops at rounding error.
    warm_start : bool, default=False
        Whether to start from the `coef_` of the last fit.
    positive : bool, default=False
        Whether w must be non-negative. If so, scikit-learn does the work, with data in CPU memory.
    random_state : int, RandomState instance, default=None
        Seed of the order of features with ``selection="random"``; otherwise unused.
    selection : {"cyclic", "random"}, default="cyclic"
        "random" runs scikit-learn's coordinate descent, for data in CPU memory.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        w, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
        b; 0.0 without an intercept.
    sparse_coef_ : scipy.sparse array of shape (n_targets, n_features)
        `coef_` in CPU memory.
    n_iter_ : int or list of n_targets ints
        Number of iterations; 0 if the start was the solution.
    dual_gap_ : float or array of shape (n_targets,)
        Duality gap of the objective.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    ElasticNet : Adds an l2 penalty, for correlated features.
    LassoCV : Chooses `alpha` by cross-validation.

    References
    ----------
    R. Tibshirani, "Regression shrinkage and selection via the lasso", J. R. Stat. Soc. B 58 (1996).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import Lasso
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 3.0], [3.0, 1.0]])
    >>> model = Lasso(alpha=0.5).fit(X, X @ [1.0, 2.0] + 3.0)
    >>> model.coef_.round(3), round(float(model.intercept_), 3)
    (array([0.743, 1.714]), 3.743)
    """

    # Hyper-parameters that may differ between candidates of one pass over the rows.
    multifit_params = ("alpha", "fit_intercept")


def needs_host(estimator: Any, X: Any, y: Any = None) -> str | None:
    """The reason why scikit-learn's solver must do this fit; None if gpuml's can."""
    if is_sparse(X):
        return "sparse X"
    if estimator.positive:
        return "positive=True"
    if estimator.selection == "random":
        return "selection='random'"
    # LassoCV and ElasticNetCV have "auto" too, which is False here.
    return None if isinstance(estimator.precompute, bool | str) else "a precomputed Gram matrix"
