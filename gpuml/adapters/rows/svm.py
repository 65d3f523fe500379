"""Rows of `gpuml.svm`."""

import warnings

import numpy as np
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import namespace, to_host
from gpuml.adapters._row import Row, UnsupportedHere, only, unset, when, when_set
from gpuml.adapters.conversions.svm import LINEAR_SVC as LINEAR_SVC_CONVERSION
from gpuml.adapters.conversions.svm import LINEAR_SVR as LINEAR_SVR_CONVERSION
from gpuml.adapters.conversions.svm import SVM

# Support vectors that a row at use is compared with on a CPU, where no one knows their number.
COMPARED = 100
# Passes over the rows that liblinear takes in the mean.
PASSES = 100
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
# Losses of LinearSVC and LinearSVR that liblinear has a solver for: by penalty, dual or primal.
SOLVERS: dict[str, dict[str, tuple[bool, ...]]] = {
    "hinge": {"l2": (True,)},
    "squared_hinge": {"l1": (False,), "l2": (False, True)},
    "epsilon_insensitive": {"l2": (True,)},
    "squared_epsilon_insensitive": {"l2": (False, True)},
}


# scikit-learn's to refuse, too.
ONE_TARGET = when(lambda p, d: d.n_outputs > 1, "several targets")


# ---------------------------------------------------------------- kernels


def _kernel_work(n_rows, n_features, params):
    return 8.0 * n_rows * n_rows


def _kernel_use_work(n_rows, n_features, params):
    return 8.0 * n_rows * n_features * COMPARED


def _kernel_checks(params, data):
    if params["kernel"] == "precomputed" and data.n_rows != data.n_features:
        raise ValueError(
            "Precomputed matrix must be a square matrix. Input is a "
            f"{data.n_rows}x{data.n_features} matrix."
        )
    if data.weight is None or not data.n_classes:
        return
    used = to_host(data.weight) > 0
    if len(np.unique(to_host(data.y)[used])) < 2:
        raise ValueError(
            "Invalid input - all samples with positive weights belong to the same class."
        )


def _svc_checks(params, data):
    if data.n_outputs == 1 and data.n_classes < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {data.n_classes} class"
        )
    _kernel_checks(params, data)


def _kernel_changes(params, data):
    return {"gamma": gamma_of(params, data)}


def gamma_of(params, data):
    """`gamma` as a number. cuML divides by the variance of X even if that is 0."""
    gamma = params["gamma"]
    if params["kernel"] == "precomputed":
        return 0.0
    if gamma == "auto":
        return 1.0 / data.n_features
    if gamma != "scale":
        return float(gamma)
    variance = _variance(data.X, data.n_rows * data.n_features)
    return 1.0 / (data.n_features * variance) if variance else 1.0


def _variance(X, n_cells):
    """Variance of all cells of dense or sparse X, in float64."""
    stored = X.data if hasattr(X, "indptr") else X
    xp = namespace(stored)
    mean = float(xp.sum(stored, dtype=xp.float64)) / n_cells
    squares = float(xp.sum((stored - mean) ** 2, dtype=xp.float64))
    return (squares + (n_cells - stored.size) * mean**2) / n_cells


def use_checks(model, method, X, arguments):
    """Refuse rows that cuML's model cannot read."""
    if hasattr(X, "indptr") and not model._sparse:
        raise UnsupportedHere("sparse rows for a model of dense ones")


KERNEL_REFUSES = (
    only("kernel", *KERNELS),
    # Iterations of libsvm change two coefficients, those of cuML many.
    only("max_iter", -1),
    ONE_TARGET,
)
KERNEL_LIGHT = ("fit_status_", "intercept_", "n_iter_", "shape_fit_")
KERNEL_NOTES = (
    "Float32 rows are computed with in float32, libsvm computes in float64 always.",
    "`shrinking` has no effect, and `n_iter_` counts iterations of another solver.",
)

SVC = Row(
    sk=svm.SVC,
    cuml="cuml.svm.SVC",
    work=_kernel_work,
    use_work=_kernel_use_work,
    methods=("predict", "decision_function"),
    refuses=(
        *KERNEL_REFUSES,
        only("probability", "deprecated", False),
        unset("break_ties"),
        when(lambda p, d: d.n_classes > 2, "SVC of more than two classes"),
    ),
    checks=_svc_checks,
    changes=_kernel_changes,
    use_checks=use_checks,
    sparse=True,
    light=KERNEL_LIGHT,
    convert=SVM,
    notes=KERNEL_NOTES,
)

SVR = Row(
    sk=svm.SVR,
    cuml="cuml.svm.SVR",
    work=_kernel_work,
    use_work=_kernel_use_work,
    methods=("predict",),
    refuses=KERNEL_REFUSES,
    checks=_kernel_checks,
    changes=_kernel_changes,
    use_checks=use_checks,
    sparse=True,
    light=KERNEL_LIGHT,
    convert=SVM,
    notes=KERNEL_NOTES,
)


# ---------------------------------------------------------------- linear ones


def _linear_work(n_rows, n_features, params):
    return 8.0 * n_rows * n_features * PASSES


def _no_such_solver(params):
    """Whether scikit-learn refuses a loss with this penalty and `dual`."""
    known = SOLVERS[params["loss"]].get(params.get("penalty", "l2"), ())
    return not known or (params["dual"] != "auto" and params["dual"] not in known)


def _linear_svc_checks(params, data):
    if data.n_outputs == 1 and data.n_classes < 2:
        raise ValueError(
            "This solver needs samples of at least 2 classes in the data, but the data contains "
            f"only one class: {data.classes[0]!r}"
        )


def _tolerance(params):
    # Of squared losses cuML compares `tol` with half the squared norm of the gradient; `tol` itself
    # ended fits 1 to 10 % above the least objective where liblinear's are at it.
    squared = params["loss"].startswith("squared_")
    return max(params["tol"] ** 2, 1e-16) if squared else params["tol"]


def _linear_svc_changes(params, data):
    # liblinear's intercept is one more coefficient, penalised like the others.
    return {"penalized_intercept": True, "tol": _tolerance(params)}


def _linear_svr_changes(params, data):
    # cuML takes the penalty from the loss; liblinear's is always the squared norm.
    return {"penalized_intercept": True, "penalty": "l2", "tol": _tolerance(params)}


def warn_unless_converged(model, params):
    """Give scikit-learn's warning of a fitted model, which cuML does not."""
    if model.n_iter_ >= params["max_iter"]:
        warnings.warn(
            "The solver failed to converge, increase the number of iterations.",
            ConvergenceWarning,
            stacklevel=2,
        )


LINEAR_REFUSES = (
    only("intercept_scaling", 1),
    when_set(_no_such_solver, "this penalty with this loss and dual"),
    ONE_TARGET,
)
LINEAR_LIGHT = ("coef_", "intercept_", "n_iter_")
LINEAR_NOTES = (
    "Solved by L-BFGS: `dual` and `random_state` have no effect, `tol` bounds its gradient,",
    "and `max_iter` and `n_iter_` count its iterations.",
)

LINEAR_SVC = Row(
    sk=svm.LinearSVC,
    cuml="cuml.svm.LinearSVC",
    work=_linear_work,
    methods=("predict", "decision_function"),
    refuses=(
        only("multi_class", "ovr"),
        *LINEAR_REFUSES,
        # It has no gradient where margins are 1, and most of them are: L-BFGS stops, as if it were
        # done, up to 90 % above the least objective.
        only("loss", "squared_hinge"),
    ),
    checks=_linear_svc_checks,
    changes=_linear_svc_changes,
    after_fit=warn_unless_converged,
    light=LINEAR_LIGHT,
    convert=LINEAR_SVC_CONVERSION,
    notes=(
        "Solved as `cuml.svm.LinearSVR` of targets that make its loss the squared hinge: cuML's",
        "own gradient of that is half of what it should be.",
        *LINEAR_NOTES,
    ),
)

LINEAR_SVR = Row(
    sk=svm.LinearSVR,
    cuml="cuml.svm.LinearSVR",
    work=_linear_work,
    methods=("predict",),
    refuses=LINEAR_REFUSES,
    changes=_linear_svr_changes,
    after_fit=warn_unless_converged,
    light=LINEAR_LIGHT,
    convert=LINEAR_SVR_CONVERSION,
    notes=(
        *LINEAR_NOTES,
        "`loss='epsilon_insensitive'` has no gradient where errors are epsilon: the objective ends",
        "some per mille above the least one, of rows that fit nearly without errors up to 3 %.",
    ),
)
