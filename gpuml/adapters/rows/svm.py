"""Rows of `gpuml.svm`: vectors in libsvm's order."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import svm

from gpuml._arrays import namespace, to_host
from gpuml.adapters import _conversion
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import Row, UnsupportedHere, only, unset, when

# Support vectors that a row at use is compared with on a CPU, where no one knows their number.
COMPARED = 100
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
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
    """A dense array unchanged, a sparse matrix with sorted indices."""
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
    "float32 rows are computed in float32; libsvm always computes in float64.",
    "`shrinking` has no effect, and `n_iter_` counts the iterations of another solver.",
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
