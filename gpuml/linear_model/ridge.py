"""Ridge regression on the device of its data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import linear_model as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import as_array, is_array, is_sparse, to_host
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import StrOptions, _fit_context
from gpuml.data import Batch, Folds, whole
from gpuml.linear_model._base import LinearPredictor, OnePass, describe_rows, multifit_batch
from gpuml.linear_model._engines import (
    CUML_SOLVERS,
    HOST_SOLVERS,
    RIDGE_INSTEAD,
    fit_cuml_ridge,
    fit_on_host,
    needs_host,
)
from gpuml.linear_model._least_squares import solve_candidates
from gpuml.linear_model._models import Models
from gpuml.linear_model._sparse_input import (
    refuse_device_sparse,
    sparse_fit_batch,
    sparse_response,
)
from gpuml.solvers._result import Status
from gpuml.solvers.described import may_have_moments
from gpuml.solvers.sparse_rows import SparseBatch

NATIVE_SOLVERS = ("auto", "cholesky", "svd")
# Those that take sparse rows too.
SPARSE_SOLVERS = ("auto", "cholesky")


class Ridge(LinearPredictor, OnePass, sk.Ridge):
    r"""Linear least squares with an l2 penalty.

    Minimises, over W of shape (n_targets, n_features) and b,

    .. math:: \sum_i w_i \, |y_i - W x_i - b|^2 + \sum_k \alpha_k |W_k|^2

    NumPy, pandas, polars and lists are worked on where ``gpuml.set_config(device=...)`` says;
    CuPy, torch and other device arrays where they are. Second moments of the rows are summed in
    float64 whatever the dtype of X, so float32 data needs no widening in memory.

    Sparse matrices of SciPy and CuPy are multiplied and never made dense: with few features, second
    moments come from sparse products; with many, or where moments are too ill-conditioned,
    conjugate gradients solve all models together.

    In a `gpuml.model_selection` search, all values of `alpha` and `fit_intercept` are fitted on
    all splits from one pass over the rows (from common passes, by conjugate gradients).

    Parameters
    ----------
    alpha : float >= 0 or array-like of shape (n_targets,), default=1.0
        Strength of the penalty, in units of ``sum w x^2``. 0 gives least squares; of several
        solutions the one of minimum norm.
    fit_intercept : bool, default=True
        Whether b is fitted (it is not penalised) or 0.
    copy_X : bool, default=True
        Only for scikit-learn's solvers; ours never write to X.
    max_iter : int, default=None
        Bound on our conjugate gradients for sparse rows, and for iterative solvers of scikit-learn
        and cuML. None is as many as it takes.
    tol : float, default=1e-4
        Only for iterative solvers of scikit-learn and cuML.
    solver : str, default="auto"
        - "auto", "cholesky": from second moments, in one pass over the rows. Where their condition
          number would cost more than 1e-7 (float64 data) or 1e-5 (float32 data) of the
          coefficients, the rows are factored instead (sparse rows: conjugate gradients); see
          `status_`.
        - "svd": always from factors of the rows; slower, for nearly dependent features.
        - "eig", "lsmr", "cuml-svd": cuML's solvers ("eig", "lsmr", "svd"), on a GPU.
        - "lsqr", "sparse_cg", "sag", "saga", "lbfgs": scikit-learn's, for host data.
    positive : bool, default=False
        Whether W must be non-negative; scikit-learn's solver, for host data.
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
        The solver that did the work: "cholesky" and "svd" are ours, and so is "sparse_cg" for
        sparse rows where `solver` was "auto" or "cholesky".
    status_ : gpuml.solvers.Status
        How the solve went, for our solvers; ``status_.advice`` says it in a sentence.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

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

    _parameter_constraints: ClassVar[dict] = {
        **sk.Ridge._parameter_constraints,
        "solver": [
            StrOptions({*NATIVE_SOLVERS, *HOST_SOLVERS, *CUML_SOLVERS}),
        ],
    }

    # Hyper-parameters that may differ between candidates of one pass over the rows.
    multifit_params = ("alpha", "fit_intercept")

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights w.

        Returns
        -------
        self : Ridge

        Raises
        ------
        ValueError
            For input that scikit-learn's Ridge rejects, and for device data with a solver that
            needs host data. A failed fit leaves the estimator as it was.
        MemoryError
            If a device has no room for even small blocks of rows.
        """
        with unchanged_on_error(self):
            X = as_array(X)
            if self.solver in CUML_SOLVERS and not self.positive:
                self.__dict__.update(fit_cuml_ridge(self, X, y, sample_weight))
                return self
            reason = _why_on_host(self, X)
            if reason is not None:
                refuse_device_sparse(self, X, reason, RIDGE_INSTEAD)
                fit_on_host(self, sk.Ridge, reason, X, y, sample_weight)
                self.__dict__.pop("status_", None)  # of a fit by us
                return self
            batch: Batch
            if is_sparse(X):
                batch = sparse_fit_batch(self, X, y, sample_weight)
            else:
                batch = multifit_batch(self, X, y, sample_weight, numeric_strings=True)
            self.__dict__.update(self.multifit(whole(batch), [{}]).pick(0, 0))
        return self

    def predict(self, X):
        """Predict targets ``X coef_' + intercept_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_targets)
            In the library and on the device of X.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than the X of `fit`, or holds nan or inf.
        """
        if not is_sparse(X):
            return super().predict(X)
        check_is_fitted(self)
        return sparse_response(self, X, self.coef_, self.intercept_)

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why our own solver does not do the work; then models are fitted one by one."""
        native = self.solver in NATIVE_SOLVERS
        return _why_on_host(self, X) if native else f"solver={self.solver!r}"

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and bring them to where they are worked on."""
        if is_sparse(X):
            return sparse_fit_batch(self, X, y, sample_weight)
        return multifit_batch(self, X, y, sample_weight)

    def multifit_piece(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As `multifit_batch`, of some of the rows, which are dense."""
        return multifit_batch(self, X, y, sample_weight)

    def multifit_rows(self, folds: Folds) -> Any:
        """Rows that `multifit` reads; None where conjugate gradients are to tell."""
        if isinstance(folds.batch, SparseBatch) and not may_have_moments(folds.batch):
            return None
        return super().multifit_rows(folds)

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> Any:
        """Fit every candidate on the training part of every split, in one pass over the rows.

        Parameters
        ----------
        folds : Folds
        candidates : sequence of dicts
            Values of `multifit_params`; what one leaves out is as on this estimator.
        advance : callable, optional
            Called with the number of rows read since the last call.

        Returns
        -------
        RegressionModels
        """
        n_targets = folds.batch.y.shape[1]
        each = [_alphas(c.get("alpha", self.alpha), n_targets) for c in candidates]
        width = max(len(alpha) for alpha in each)
        alphas = np.stack([np.broadcast_to(alpha, (width,)) for alpha in each])
        fit_intercept = [c.get("fit_intercept", self.fit_intercept) for c in candidates]
        return solve_candidates(
            described=describe_rows(self, folds, advance, careful=self.solver == "svd"),
            alphas=alphas,
            fit_intercept=fit_intercept,
            attributes=_ridge_attributes,
            max_iter=self.max_iter,
            flat_coef=True,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self.solver in NATIVE_SOLVERS and not self.positive
        return tags


def _why_on_host(estimator: Ridge, X: Any) -> str | None:
    """Why scikit-learn's own solver has to do this fit, or None where ours can."""
    if not is_sparse(X):
        return needs_host(estimator, X)
    if estimator.positive:
        return "sparse X and positive=True"
    return None if estimator.solver in SPARSE_SOLVERS else f"sparse X, solver={estimator.solver!r}"


def _ridge_attributes(models: Models, candidate: int, split: int) -> dict[str, Any]:
    status = models.status_of(candidate, split)
    if status is Status.MOMENTS or models.n_iter is None:
        solver = "cholesky" if status is Status.MOMENTS else "svd"
        return {"n_iter_": 1, "solver_": solver, "status_": status}
    n_iter = models.iterations_of(candidate, split)
    n_iter = int(n_iter[0]) if models.flat else n_iter.astype(np.int32)
    return {"n_iter_": n_iter, "solver_": "sparse_cg", "status_": status}


def _alphas(alpha: Any, n_targets: int) -> np.ndarray:
    """Penalties as a host array of length 1 or n_targets."""
    alpha = np.asarray(to_host(alpha) if is_array(alpha) else alpha, dtype=float).ravel()
    if len(alpha) not in (1, n_targets):
        raise ValueError(
            "Number of targets and number of penalties do not correspond: "
            f"{alpha.size} != {n_targets}. alpha must be one number or one per target."
        )
    if not (alpha >= 0).all() or not np.isfinite(alpha).all():
        raise ValueError(f"alpha must be finite and >= 0, got {alpha}.")
    return alpha
