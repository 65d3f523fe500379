"""Ridge regression on the device of its data."""

from typing import Any, ClassVar

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import is_array, is_sparse, to_host
from gpuml._sklearn import StrOptions
from gpuml.data import Folds
from gpuml.linear_model._base import LinearPredictor, OnePass, describe_rows
from gpuml.linear_model._engines import CUML_SOLVERS, fit_cuml_ridge
from gpuml.linear_model._least_squares import solve_candidates
from gpuml.linear_model._models import Models, RegressionModels
from gpuml.solvers._result import Status
from gpuml.solvers.described import may_have_moments
from gpuml.solvers.sparse_rows import SparseBatch

NATIVE_SOLVERS = ("auto", "cholesky", "svd")
SKLEARN_SOLVERS = ("lsqr", "sparse_cg", "sag", "saga", "lbfgs")
# Those that take sparse rows too.
SPARSE_SOLVERS = ("auto", "cholesky")


class RidgeEstimator(OnePass):
    """Fitting of `Ridge` and `RidgeClassifier`, whose parameters these are."""

    alpha: Any
    max_iter: int | None
    _kind: ClassVar[type[Models]] = RegressionModels
    _own_solvers, _sklearn_solvers = NATIVE_SOLVERS, SKLEARN_SOLVERS
    _instead = "solver='auto', 'cholesky' or 'svd' and positive=False"

    # Hyper-parameters that may differ between candidates of one pass over the rows.
    multifit_params = ("alpha", "fit_intercept")

    def multifit_levels(self, n_columns: int, X: Any) -> str | None:
        """The reason why categories with so many columns cannot be kept apart, if any."""
        if self.solver == "svd":
            return "solver='svd' factors all columns; leave solver at the default"
        return None

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        alphas = penalties_of(self._values(candidates, "alpha"), folds.batch.y.shape[1])
        fit_intercept = self._values(candidates, "fit_intercept")
        return solve_candidates(
            described=describe_rows(self, folds, advance, careful=self.solver == "svd"),
            alphas=alphas,
            fit_intercept=fit_intercept,
            attributes=_ridge_attributes,
            max_iter=self.max_iter,
            flat_coef=True,
            kind=self._kind,
        )

    def _fitted_by_cuml(self, X, y, sample_weight):
        return fit_cuml_ridge(self, X, y, sample_weight)


class Ridge(LinearPredictor, RidgeEstimator, sk.Ridge):
    r"""Linear least squares with an l2 penalty.

    Minimises, over W of shape (n_targets, n_features) and b,

    .. math:: \sum_i w_i \, |y_i - W x_i - b|^2 + \sum_k \alpha_k |W_k|^2

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Second moments of the rows are summed
    in float64 for every dtype of X, so float32 data is not converted.

    Sparse matrices of SciPy and CuPy stay sparse: with few features, second moments come from
    sparse products; with many, or if moments are too ill-conditioned, conjugate gradients solve all
    models together.

    A search of `gpuml.model_selection` fits all values of `alpha` and `fit_intercept` on all splits
    from one pass over the rows (with conjugate gradients: from the same passes).

    Parameters
    ----------
    alpha : float >= 0 or array-like of shape (n_targets,), default=1.0
        Strength of the penalty, in units of ``sum w x^2``; an array has one value per target. 0 is
        least squares: if there are several solutions, you get the one with the least norm.
    fit_intercept : bool, default=True
        Whether to fit b, without a penalty. If False, b is 0.
    copy_X : bool, default=True
        Used only by scikit-learn's solvers; gpuml's never write to X.
    max_iter : int, default=None
        The most iterations of conjugate gradients, for sparse rows, and of the iterative solvers of
        scikit-learn and cuML. None sets no limit.
    tol : float, default=1e-4
        Only for iterative solvers of scikit-learn and cuML.
    solver : str, default="auto"
        - "auto", "cholesky": from second moments, in one pass over the rows. Where their condition
          number would cost more than 1e-7 (float64 data) or 1e-5 (float32 data) of the
          coefficients, the rows are factored instead (sparse rows: conjugate gradients); see
          `status_`.
        - "svd": always from factors of the rows; slower, for nearly dependent features.
        - "eig", "lsmr", "cuml-svd": cuML's solvers ("eig", "lsmr", "svd"), on a GPU.
        - "lsqr", "sparse_cg", "sag", "saga", "lbfgs": scikit-learn's, for data in CPU memory.
    positive : bool, default=False
        Whether W must be non-negative; scikit-learn's solver, for data in CPU memory.
    random_state : int, RandomState instance, default=None
        Only for "sag" and "saga".

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        W, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
        b; 0.0 without an intercept.
    n_iter_ : int or ndarray of shape (n_targets,)
        Iterations; 1 for direct solvers.
    solver_ : str
        The solver that did the work: "cholesky" and "svd" are gpuml's, and so is "sparse_cg" for
        sparse rows where `solver` was "auto" or "cholesky".
    status_ : gpuml.solvers.Status
        For gpuml's solvers: how the solve went. ``status_.advice`` says it in a sentence.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LinearRegression : Without a penalty.

    References
    ----------
    A. E. Hoerl, R. W. Kennard, "Ridge regression: biased estimation for nonorthogonal problems",
    Technometrics 12 (1970).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import Ridge
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 3.0]])
    >>> model = Ridge(alpha=0.5).fit(X, X @ [1.0, 2.0] + 3.0)
    >>> model.predict([[1.0, 1.0]]).round(1)
    array([6.1])
    """

    _numeric_strings = "fit"

    multifit_targets = True

    _parameter_constraints: ClassVar[dict] = {
        **sk.Ridge._parameter_constraints,
        "solver": [
            StrOptions({*NATIVE_SOLVERS, *SKLEARN_SOLVERS, *CUML_SOLVERS}),
        ],
    }

    _takes_sparse = True

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        ours = self.positive or self.solver in (*SPARSE_SOLVERS, *CUML_SOLVERS)
        if not ours and is_sparse(X):
            return f"sparse X, solver={self.solver!r}"
        return super()._needs_sklearn(X, y)

    def multifit_rows(self, folds: Folds) -> int | None:
        """Rows that `multifit` reads; None where conjugate gradients are to tell."""
        if isinstance(folds.batch, SparseBatch) and not may_have_moments(folds.batch):
            return None
        return super().multifit_rows(folds)


def _ridge_attributes(models: Models, candidate: int, split: int) -> dict[str, Any]:
    status = models.status_of(candidate, split)
    if status is Status.MOMENTS or models.n_iter is None:
        solver = "cholesky" if status is Status.MOMENTS else "svd"
        return {"n_iter_": 1, "solver_": solver, "status_": status}
    n_iter = models.iterations_of(candidate, split)
    n_iter = int(n_iter[0]) if models.flat else n_iter.astype(np.int32)
    return {"n_iter_": n_iter, "solver_": "sparse_cg", "status_": status}


def penalties_of(values: list, n_targets: int) -> np.ndarray:
    """Penalties of candidates, (C, 1) or (C, n_targets)."""
    if all(isinstance(value, float) for value in values):
        return _alphas(values, len(values))[:, None]
    each = [_alphas(alpha, n_targets) for alpha in values]
    width = max(len(alpha) for alpha in each)
    return np.stack([np.broadcast_to(alpha, (width,)) for alpha in each])


def _alphas(alpha: Any, n_targets: int) -> np.ndarray:
    """Penalties as a NumPy array of length 1 or n_targets."""
    alpha = np.asarray(to_host(alpha) if is_array(alpha) else alpha, dtype=float).ravel()
    if len(alpha) not in (1, n_targets):
        raise ValueError(
            "Number of targets and number of penalties do not correspond: "
            f"{alpha.size} != {n_targets}. alpha must be one number or one per target."
        )
    if not (alpha >= 0).all() or not np.isfinite(alpha).all():
        raise ValueError(f"alpha must be finite and >= 0, got {alpha}.")
    return alpha
