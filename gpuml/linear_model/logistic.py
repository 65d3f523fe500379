"""Logistic regression on the device of its data."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import is_array, is_sparse, to_host
from gpuml._sklearn import StrOptions, _check_solver
from gpuml.data import Batch, Folds
from gpuml.exceptions import level_of_user
from gpuml.linear_model._class_models import (
    class_attributes,
    class_family,
    class_loss,
    columns_together,
)
from gpuml.linear_model._classifier import ProbabilityClassifier, Sparsified
from gpuml.linear_model._engines import fit_cuml_logistic
from gpuml.linear_model._glm import LossEstimator
from gpuml.linear_model._input import class_batch
from gpuml.linear_model._losses import Family, Strength
from gpuml.linear_model._models import ClassModels
from gpuml.losses import Loss

NATIVE_SOLVERS = ("lbfgs", "newton-cholesky", "saga")
SKLEARN_SOLVERS = ("liblinear", "newton-cg", "sag")


class LogisticRegression(Sparsified, ProbabilityClassifier, LossEstimator, sk.LogisticRegression):
    r"""Logistic regression with l2, l1, elastic-net or no penalty.

    For two classes it minimises, over w of shape (n_features,) and b,

    .. math::
        \frac{1}{\sum_i s_i} \left( \sum_i s_i \log(1 + e^{-y_i (w \cdot x_i + b)})
        + \frac{1}{C} \left( \frac{1 - \rho}{2} |w|_2^2 + \rho |w|_1 \right) \right),

    with y = -1, 1, weights s (sample and class weights multiplied) and \rho = `l1_ratio`; for more
    classes the multinomial loss ``-log softmax(W x_i + b)[y_i]`` takes the place of the logarithm.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Float32 rows stay float32; sums over
    them and coefficients are float64 until the end. Sparse matrices of SciPy and CuPy are
    multiplied and never made dense.

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
        subgradient) of the objective above is larger, and, without an l1 part, the next step
        promises to lower the objective by no more than ``10 tol^2``.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
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
        - "liblinear", "newton-cg", "sag": scikit-learn's, for data in CPU memory.
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
        Set only if all columns of X have string names.

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
        "solver": [StrOptions({*NATIVE_SOLVERS, *SKLEARN_SOLVERS, "qn"})],
    }

    # Hyper-parameters that may differ between candidates of the same passes over the rows.
    multifit_params = ("C", "l1_ratio", "fit_intercept")
    _own_solvers, _sklearn_solvers = NATIVE_SOLVERS, SKLEARN_SOLVERS
    _instead = "solver='lbfgs', 'newton-cholesky' or 'saga'"
    _kind = ClassModels

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return self.multifit_joined(self.multifit_piece(X, y, sample_weight))

    def multifit_piece(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As `multifit_batch`, of some of the rows, with the classes that they have."""
        return class_batch(self, X, y, sample_weight)

    def multifit_joined(self, batch: Batch) -> Batch:
        """A piece whose classes are those of all rows."""
        if batch.n_classes < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data "
                f"contains only one class: {to_host(batch.classes)[0]!r}"
            )
        return batch

    @property
    def multifit_targets(self) -> bool:  # type: ignore[override]
        """Whether binary models of many targets are fitted at once: if classes weigh alike."""
        return self.class_weight is None

    def multifit_columns(self, X: Any, Y: Any, sample_weight: Any = None) -> list[dict[str, Any]]:
        """Fitted attributes of a binary model of each column of codes (n, t), 0 and 1."""
        return columns_together(self, X, Y, sample_weight)

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        if getattr(self, "_skl_callbacks", None):
            return "callbacks, which follow every step of one model,"
        if is_sparse(X) and self.solver == "qn":
            return "sparse X, solver='qn'"
        return super()._needs_sklearn(X, y)

    def _fitted_by_cuml(self, X, y, sample_weight):
        return fit_cuml_logistic(self, X, y, sample_weight)

    def _family(self, folds: Folds) -> Family:
        return class_family(self.class_weight, folds)

    def _loss_of(self, y: Any) -> tuple[Loss, int]:
        return class_loss(len(np.unique(to_host(y)) if is_array(y) else set(y)))

    def _attributes(self, models, candidate, split):
        return class_attributes(models, candidate, split)

    def _strengths(self, candidates: Sequence[Mapping[str, Any]]) -> list[Strength]:
        return [self._strength(each, warn=i == 0) for i, each in enumerate(candidates)]

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


def warn_of_parameters(estimator: Any, name: str | None) -> None:
    """Warn where scikit-learn does: of what is deprecated, or contradicts itself.

    Parameters
    ----------
    estimator : LogisticRegression
    name : {"l1", "l2", "elasticnet"} or None
        The penalty that its parameters amount to.
    """
    if estimator.penalty == "deprecated":
        if estimator.l1_ratio is None:
            warn("'l1_ratio=None' was deprecated in version 1.8; use 0 <= l1_ratio <= 1.")
    else:
        warn(
            "'penalty' was deprecated in version 1.8 of scikit-learn and will be removed in "
            "1.10. Use l1_ratio (0 for 'l2', 1 for 'l1') and C=np.inf (for None)."
        )
    between = estimator.l1_ratio is not None and 0 < estimator.l1_ratio < 1
    if name not in ("elasticnet",) and between:
        warn(
            f"l1_ratio parameter is only used when penalty is 'elasticnet'. Got (penalty={name})",
            UserWarning,
        )
    if (estimator.penalty == "l2" and estimator.l1_ratio != 0) or (
        estimator.penalty == "l1" and estimator.l1_ratio != 1
    ):
        warn(
            f"Inconsistent values: penalty={estimator.penalty} with l1_ratio={estimator.l1_ratio}. "
            "penalty is deprecated. Please use l1_ratio only.",
            UserWarning,
        )
    if estimator.penalty is None and estimator.C != 1.0:
        warn("Setting penalty=None will ignore the C and l1_ratio parameters", UserWarning)
    if estimator.n_jobs is not None:
        warn(
            "'n_jobs' has no effect since 1.8 and will be removed in 1.10. You provided "
            f"'n_jobs={estimator.n_jobs}', please leave it unspecified."
        )


def warn(text: str, category: type[Warning] = FutureWarning) -> None:
    """Warn at the line of the user's call of `fit`."""
    warnings.warn(text, category, stacklevel=level_of_user())
