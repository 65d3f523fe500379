"""Logistic regression on the device of its data."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import linear_model as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import as_array, free_bytes, is_sparse, move, namespace, to_host
from gpuml._arrays.small_arrays import small_arrays
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import check_classify, is_foreign, unchanged_on_error
from gpuml._settings.config import current_settings
from gpuml._sklearn import StrOptions, _check_solver, _fit_context, check_same_namespace
from gpuml.data import Batch, Folds, resident_classes, whole
from gpuml.extending import MultifitEstimator
from gpuml.linear_model._base import work_of_steps
from gpuml.linear_model._class_models import class_attributes, class_family
from gpuml.linear_model._classifier import LinearClassifier, softmax, two_class_probability
from gpuml.linear_model._engines import fit_cuml_logistic, fit_on_host
from gpuml.linear_model._logistic_parameters import warn_if_stopped, warn_of_parameters
from gpuml.linear_model._losses import Problem, Strength
from gpuml.linear_model._models import ClassModels
from gpuml.linear_model._sparse_input import (
    refuse_device_sparse,
    sparse_classes_batch,
    sparse_response,
)
from gpuml.solvers.loss_models import Options
from gpuml.solvers.sparse_rows import SparseBatch

NATIVE_SOLVERS = ("lbfgs", "newton-cholesky", "saga")
HOST_SOLVERS = ("liblinear", "newton-cg", "sag")


class LogisticRegression(LinearClassifier, MultifitEstimator, sk.LogisticRegression):
    r"""Logistic regression with l2, l1, elastic-net or no penalty.

    For two classes it minimises, over w of shape (n_features,) and b,

    .. math::
        \frac{1}{\sum_i s_i} \left( \sum_i s_i \log(1 + e^{-y_i (w \cdot x_i + b)})
        + \frac{1}{C} \left( \frac{1 - \rho}{2} |w|_2^2 + \rho |w|_1 \right) \right),

    with y = -1, 1, weights s (sample and class weights multiplied) and \rho = `l1_ratio`; for more
    classes the multinomial loss ``-log softmax(W x_i + b)[y_i]`` takes the place of the logarithm.

    NumPy, pandas, polars and lists are worked on where ``gpuml.set_config(device=...)`` says;
    CuPy, torch and other device arrays where they are. Float32 rows stay float32; sums over them
    and coefficients are float64 until the end. Sparse matrices of SciPy and CuPy are multiplied and
    never made dense.

    In a `gpuml.model_selection` search, all values of `C`, `l1_ratio` and `fit_intercept` are
    fitted on all splits in the same passes over the rows.

    Parameters
    ----------
    penalty : {"l1", "l2", "elasticnet"} or None, default="deprecated"
        Deprecated in scikit-learn 1.8; use `l1_ratio` and ``C=np.inf``.
    C : float > 0, default=1.0
        Inverse of the strength of the penalty, in units of one row; inf for none.
    l1_ratio : float in [0, 1], default=0.0
        Share of the l1 part; other than 0 only with ``solver="saga"``.
    dual : bool, default=False
        Only for "liblinear".
    tol : float, default=1e-4
        Iterations end when no component of the gradient (with an l1 part: of the least
        subgradient) of the objective above is larger.
    fit_intercept : bool, default=True
        Whether b is fitted (it is not penalised) or 0.
    intercept_scaling : float, default=1
        Only for "liblinear".
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" is ``sum s / (n_classes * sum of s in the class)``.
    random_state : int, RandomState instance or None, default=None
        Only for scikit-learn's solvers.
    solver : str, default="lbfgs"
        - "lbfgs": quasi-Newton steps, preconditioned by the Hessian of a sample of rows
          wherever those are worth their cost.
        - "newton-cholesky": Newton steps with the Hessian of all rows; for few features.
        - "saga": the name under which scikit-learn takes any penalty. The minimum is the same, but
          found by proximal Newton steps, without randomness; `tol` is as above.
        - "qn": cuML's, on a GPU.
        - "liblinear", "newton-cg", "sag": scikit-learn's, for host data.
    max_iter : int, default=100
        Bound on the passes over all rows.
    verbose : int, default=0
        Only for scikit-learn's solvers.
    warm_start : bool, default=False
        Whether to begin at the coefficients of the last fit.
    n_jobs : int or None, default=None
        Without effect; deprecated in scikit-learn.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Sorted labels, in the library of y.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        In the library, on the device and of the dtype of X.
    intercept_ : array of shape (1,) or (n_classes,)
    n_iter_ : int array of shape (1,)
        Passes over all rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    RidgeClassifier : Least squares on labels, from one pass.

    References
    ----------
    D. C. Liu, J. Nocedal, "On the limited memory BFGS method for large scale optimization",
    Mathematical Programming 45 (1989). R. H. Byrd et al., "On the use of stochastic Hessian
    information in optimization methods for machine learning", SIAM J. Optim. 21 (2011).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(C=10).fit(X, y)
    >>> model.predict(X[:2])
    array([0, 0])
    >>> round(model.score(X, y), 2)
    0.98
    """

    _parameter_constraints: ClassVar[dict] = {
        **sk.LogisticRegression._parameter_constraints,
        "solver": [StrOptions({*NATIVE_SOLVERS, *HOST_SOLVERS, "qn"})],
    }

    # Hyper-parameters that may differ between candidates of the same passes over the rows.
    multifit_params = ("C", "l1_ratio", "fit_intercept")
    # `multifit` fits models of what affine steps before them make of the rows.
    multifit_in_frames = True
    multifit_divided = True

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: integers, strings, bools, or floats without a fraction.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : LogisticRegression

        Raises
        ------
        ValueError
            For input that scikit-learn's LogisticRegression rejects, and for device data with a
            solver that needs host data. A failed fit leaves the estimator as it was.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` passes were not enough.
        """
        with unchanged_on_error(self), small_arrays():
            X = as_array(X)
            reason = needs_host(self, X)
            if reason == CALLBACKS and not is_foreign(X):
                with naming_columns(self, X):
                    return super().fit(X, y, sample_weight)
            if reason is not None:
                refuse_device_sparse(self, X, reason, INSTEAD)
                fit_on_host(self, sk.LogisticRegression, reason, X, y, sample_weight, INSTEAD)
                return self
            strength = self._strength({}, warn=True)
            if self.solver == "qn":
                self.__dict__.update(fit_cuml_logistic(self, X, y, sample_weight))
                return self
            folds = whole(self.multifit_batch(X, y, sample_weight))
            start = self._start(folds.batch) if self.warm_start else None
            self.__dict__.update(self._models(folds, [strength], start).pick(0, 0))
        return self

    def decision_function(self, X):
        """Decision values ``X coef_' + intercept_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            In the library and on the device of X. Of two classes the second is predicted where
            they are positive.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than the X of `fit`, or holds nan or inf.
        """
        if not is_sparse(X):
            return super().decision_function(X)
        check_is_fitted(self)
        scores = sparse_response(self, X, self.coef_, self.intercept_)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X):
        """Probabilities of the classes, in the order of `classes_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_classes)
            In the library and on the device of X; rows sum to 1.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="predict_proba")
        scores = self.decision_function(X)
        xp = namespace(scores)
        return two_class_probability(scores, xp) if scores.ndim == 1 else softmax(scores, xp)

    def predict_log_proba(self, X):
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        log_probability : array of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="predict_log_proba")
        probability = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return namespace(probability).log(probability)

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why our own solver does not do the work; then models are fitted one by one."""
        if self.warm_start:
            return "warm_start=True"
        return needs_host(self, X) if self.solver in NATIVE_SOLVERS else f"solver={self.solver!r}"

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and bring them to where they are worked on."""
        if is_sparse(X):
            batch = sparse_classes_batch(self, X, y, sample_weight)
            _demand_two_classes(to_host(batch.classes))
            return batch
        X, labels, weight = check_classify(self, X, y, sample_weight)
        _demand_two_classes(labels.host_classes)
        return resident_classes(X, labels, weight, current_settings().device)

    def multifit_piece(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As `multifit_batch`, of some of the rows, with the classes that they have."""
        X, labels, weight = check_classify(self, X, y, sample_weight)
        return resident_classes(X, labels, weight, current_settings().device)

    def multifit_joined(self, batch: Batch) -> Batch:
        """A piece whose classes are those of all rows."""
        _demand_two_classes(to_host(batch.classes))
        return batch

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """Margins and gradients of all models in every step, of which some ten are needed."""
        return work_of_steps(n_rows, n_features, n_models)

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> Any:
        """Fit every candidate on the training part of every split, in the same passes.

        Parameters
        ----------
        folds : Folds
        candidates : sequence of dicts
            Values of `multifit_params`; what one leaves out is as on this estimator.
        advance : callable, optional
            Called with the number of rows read since the last call.

        Returns
        -------
        ClassModels

        Raises
        ------
        ValueError
            If a training part lacks a class: such models know other classes than the rest.
        """
        strengths = [self._strength(each, warn=i == 0) for i, each in enumerate(candidates)]
        return self._models(folds, strengths, None, advance)

    def _models(self, folds, strengths, start, advance=None):
        """All models, with a warning of those that stopped early."""
        family = partial(class_family, self.class_weight)
        problem = Problem(family, self._options(folds), ClassModels, class_attributes)
        return problem.models(folds, strengths, start, advance, partial(warn_if_stopped, self))

    def _strength(self, candidate: Mapping[str, Any], *, warn: bool = False) -> Strength:
        """Penalties of a candidate, by scikit-learn's rules for its two ways of naming them."""
        params = {name: candidate.get(name, getattr(self, name)) for name in self.multifit_params}
        C, ratio = float(params["C"]), params["l1_ratio"]
        name: str | None = self.penalty
        if name == "deprecated":
            ratio = 0.0 if ratio is None else float(ratio)
            name = {0.0: "l2", 1.0: "l1"}.get(ratio, "elasticnet")
            name = None if np.isinf(C) else name
        if warn:
            warn_of_parameters(self, name)
        _check_solver("saga" if self.solver == "qn" else self.solver, name, self.dual)
        if name == "elasticnet" and ratio is None:
            raise ValueError("l1_ratio must be specified when penalty is elasticnet.")
        share = {"l2": 0.0, "l1": 1.0, None: 0.0}.get(name, ratio)
        inverse = 0.0 if name is None else 1.0 / C
        return Strength((1.0 - share) * inverse, share * inverse, bool(params["fit_intercept"]))

    def _options(self, folds: Folds) -> Options:
        settings = current_settings()
        memory = settings.solver_bytes or free_bytes(folds.batch.work) // 4
        return Options(
            tol=self.tol,
            max_iter=self.max_iter,
            newton=self.solver == "newton-cholesky",
            memory=memory,
            block_bytes=settings.block_bytes,
        )

    def _start(self, batch: Batch) -> Any:
        """Coefficients (1, 1, k, q) of the last fit, or None."""
        if getattr(self, "coef_", None) is None:
            return None
        k = 1 if batch.n_classes == 2 else batch.n_classes
        coef, intercept = (move(as_array(a), batch.work) for a in (self.coef_, self.intercept_))
        n_features = batch.n_columns if isinstance(batch, SparseBatch) else batch.n_features
        if tuple(coef.shape) != (k, n_features):
            raise ValueError(
                f"Initialization coef is of shape {tuple(coef.shape)}, expected shape "
                f"{(k, n_features)}: warm_start needs the features and classes of the last fit."
            )
        xp = batch.work.xp
        if isinstance(batch, SparseBatch) and batch.columns is not None:
            coef = xp.take(coef, batch.columns, axis=1)
        W = xp.concat([coef, xp.reshape(intercept, (-1, 1))], axis=1)
        return xp.astype(W, xp.float64)[None, None, ...]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self.solver in NATIVE_SOLVERS
        return tags


CALLBACKS = "callbacks, which follow every step of one model,"
INSTEAD = "solver='lbfgs', 'newton-cholesky' or 'saga'"


def _demand_two_classes(classes: np.ndarray) -> None:
    if len(classes) < 2:
        raise ValueError(
            "This solver needs samples of at least 2 classes in the data, but the data "
            f"contains only one class: {classes[0]!r}"
        )


def needs_host(estimator: Any, X: Any) -> str | None:
    """Why scikit-learn's own solver has to do this fit, or None where ours can."""
    if getattr(estimator, "_skl_callbacks", None):
        return CALLBACKS
    if is_sparse(X) and estimator.solver == "qn":
        return "sparse X, solver='qn'"
    return f"solver={estimator.solver!r}" if estimator.solver in HOST_SOLVERS else None
