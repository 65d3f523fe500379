"""Support vectors in libsvm's order, which scikit-learn's attributes are described by."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuml.adapters._row import Conversion
from gpuml.adapters.conversions.interop import INTEROP


def _lower(model: Any, twin: Any) -> Mapping[str, Any]:
    return in_libsvm_order(INTEROP.lower(model, twin))


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
        out[name] = out[name][:, order]
    if out["support_vectors_"].shape[0]:  # there are none of precomputed kernels
        out["support_vectors_"] = out["support_vectors_"][order]
    n_second = np.count_nonzero(of_second)
    out["_n_support"] = np.array([len(order) - n_second, n_second], dtype=np.int32)
    if "class_weight_" in out:
        out["class_weight_"] = np.asarray(out["class_weight_"], dtype=np.float64)
    return out


def _values(row):
    """The only row of an array or a sparse matrix."""
    return np.ravel(row.toarray() if hasattr(row, "toarray") else row)


SVM = Conversion(INTEROP.make, _lower, INTEROP.lift)
