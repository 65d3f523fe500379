"""Rows of `gpuml.svm`: vectors in libsvm's order, machines with liblinear's objective."""

import copy
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight

from gpuml._arrays import namespace, to_host
from gpuml.adapters import _conversion
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import Row, UnsupportedHere, only, unset, when, when_set

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


# Targets that stand for the two classes are this far from 0, by dtype: so far that no score is
# beyond them, and so near that scores minus targets are exact enough. Others are tried in turn.
FAR = {"float32": (2.0**6, 2.0**10), "float64": (2.0**20,)}

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


def _lower(model, twin):
    return in_libsvm_order(_conversion.lower(model, twin))


def in_libsvm_order(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Fitted attributes of SVC or SVR with support vectors by class, then by row.

    cuML has them in an order of its own, and counts all of them for the first class. Where there
    are classes, vectors of the first one have negative coefficients.

    Parameters
    ----------
    fitted : mapping of str to object
        As cuML's conversion gives them; not changed.

    Returns
    -------
    fitted : dict of str to object
    """
    out = dict(fitted)
    signs = _values(out["dual_coef_"]) > 0
    of_second = signs if "class_weight_" in out else np.zeros_like(signs)
    order = np.lexsort((out["support_"], of_second))
    out["support_"] = out["support_"][order]
    for name in ("dual_coef_", "_dual_coef_"):
        # SciPy leaves the stored values of a sparse row as they were, and their indices in
        # disorder; scikit-learn hands libsvm the values alone.
        out[name] = _sorted(out[name][:, order])
    if out["support_vectors_"].shape[0]:  # there are none of precomputed kernels
        out["support_vectors_"] = _sorted(out["support_vectors_"][order])
    n_second = np.count_nonzero(of_second)
    out["_n_support"] = np.array([len(order) - n_second, n_second], dtype=np.int32)
    if "class_weight_" in out:
        out["class_weight_"] = np.asarray(out["class_weight_"], dtype=np.float64)
    return out


def _sorted(x):
    """A dense array as it is, a sparse matrix with its indices in order."""
    return x.sorted_indices() if sparse.issparse(x) else x


def _values(row):
    """The only row of an array or a sparse matrix."""
    return np.ravel(row.toarray() if hasattr(row, "toarray") else row)


SVM = Conversion(lower=_lower)
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


@cache
def _with_even_weights(cuml_class: Any) -> Any:
    # cuML divides its loss by the sum of the weights, but the gradient of the loss by the number of
    # rows: its line search ends anywhere between the two optima, unless both are the same.
    class LinearSVR(cuml_class):
        def fit(self, X, y, sample_weight=None):
            if sample_weight is None:
                return super().fit(X, y)
            weight, mean = _even(sample_weight, X.dtype)
            given = self.C
            self.set_params(C=given * mean)
            try:
                return super().fit(X, y, sample_weight=weight)
            finally:
                self.set_params(C=given)

    return LinearSVR


def _even(weight, dtype):
    """Weights whose mean is 1, and their mean, which C is to be multiplied by."""
    xp = namespace(weight)
    mean = float(xp.mean(xp.astype(weight, xp.float64, copy=False)))
    if not 0.0 < mean < np.inf:  # cuML would take a C of 1
        raise UnsupportedHere("weights whose mean is 0 or not finite")
    return xp.astype(weight / mean, dtype, copy=False), mean


@cache
def _solved_as_regression(cuml_class: Any) -> Any:
    # cuML's gradient of the squared hinge is half of the derivative of its loss: a line search by
    # the one along the other ends about where C is half as large, and nowhere exactly. What it has
    # right is the squared error beyond epsilon. With targets of -m and m and an epsilon of m - 1
    # that error is max(0, 1 - margin), unless a margin is above 2 m - 1.
    class LinearSVC(cuml_class):
        def fit(self, X, y, sample_weight=None):
            xp = namespace(X)
            n_classes = int(xp.max(y)) + 1
            wanted = (1,) if n_classes == 2 else range(n_classes)
            pairs = machine_weights(self.class_weight, y, sample_weight)
            models = [self._machine(X, y == code, pairs[code], sample_weight) for code in wanted]
            self.coef_ = xp.stack([xp.reshape(m.coef_, (-1,)) for m in models])
            self.intercept_ = 0.0
            if self.fit_intercept:
                self.intercept_ = xp.concat([xp.reshape(m.intercept_, (1,)) for m in models])
            self.n_iter_ = max(int(m.n_iter_) for m in models)
            self.classes_ = np.arange(n_classes)
            self.n_features_in_ = X.shape[1]
            return self

        def _machine(self, X, is_member, pair, sample_weight):
            xp, weight = namespace(X), weight_of(is_member, pair, sample_weight)
            sign = 2 * xp.astype(is_member, X.dtype) - 1
            for far in FAR[str(X.dtype).rpartition(".")[2]]:
                model = self._regression(far - 1).fit(X, far * sign, sample_weight=weight)
                scores = X @ xp.reshape(model.coef_, (-1,)) + model.intercept_
                if float(xp.max(sign * scores)) <= 2 * far - 1:
                    return model
            raise UnsupportedHere("classes that are so far apart")

        def _regression(self, epsilon):
            regression = import_module("cuml.svm").LinearSVR
            return _with_even_weights(regression)(
                epsilon=epsilon,
                penalty=self.penalty,
                loss="squared_epsilon_insensitive",
                C=self.C,
                fit_intercept=self.fit_intercept,
                penalized_intercept=True,
                tol=self.tol,
                max_iter=self.max_iter,
            )

    return LinearSVC


def machine_weights(class_weight: Any, codes: Any, sample_weight: Any) -> Any:
    """Weights of the rows in a class, and of all others, in the machine of each class.

    liblinear weighs the class that a machine is of, and leaves the others as they are, unless there
    are two.

    Parameters
    ----------
    class_weight : mapping of int to float, "balanced" or None
        By code.
    codes : array (n,)
    sample_weight : array (n,) or None

    Returns
    -------
    weights : array (k, 2)
    """
    if class_weight is None:  # the rows need not come to CPU memory for it
        return np.ones((int(namespace(codes).max(codes)) + 1, 2))
    known = to_host(codes).astype(np.int64)
    given = None if sample_weight is None else to_host(sample_weight)
    of_class = compute_class_weight(
        class_weight, classes=np.unique(known), y=known, sample_weight=given
    )
    rest = of_class[::-1] if len(of_class) == 2 else np.ones(len(of_class))
    return np.stack([of_class, rest], axis=1)


def weight_of(is_member: Any, pair: Any, weight: Any) -> Any:
    """Weights of rows for the machine of one class; None if nothing is weighted."""
    inside, outside = pair
    if inside == outside == 1.0:
        return weight
    xp = namespace(is_member)
    factor = float(outside) + float(inside - outside) * xp.astype(is_member, xp.float64)
    return factor if weight is None else factor * xp.astype(weight, xp.float64, copy=False)


def _lift_linear(cuml_class, twin, changes):
    """A model with the attributes of the twin, whose coefficients `sparsify` may have changed."""
    if sparse.issparse(getattr(twin, "coef_", None)):
        twin = copy.copy(twin)
        twin.coef_ = twin.coef_.toarray()
    return _conversion.lift(cuml_class, twin, changes)


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
    convert=Conversion(
        derived=lambda cuml_class, twin: _solved_as_regression(cuml_class), lift=_lift_linear
    ),
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
    convert=Conversion(derived=lambda cuml_class, twin: _with_even_weights(cuml_class)),
    notes=(
        *LINEAR_NOTES,
        "`loss='epsilon_insensitive'` has no gradient where errors are epsilon: the objective ends",
        "some per mille above the least one, of rows that fit nearly without errors up to 3 %.",
    ),
)
