"""Row of `gpuml.kernel_ridge`."""

import numpy as np
from sklearn import kernel_ridge

from gpuml._arrays import is_array, to_host
from gpuml.adapters._row import Row, when, when_set
from gpuml.adapters.conversions.kernel_ridge import KERNEL_RIDGE as CONVERSION


def _work(n_rows, n_features, params):
    return 8.0 * n_rows * n_rows


def _penalties(params):
    alpha = params["alpha"]
    return np.atleast_1d(to_host(alpha) if is_array(alpha) else np.asarray(alpha))


def _checks(params, data):
    if params["kernel"] == "precomputed" and data.n_rows != data.n_features:
        raise ValueError(
            "Precomputed metric requires shape (n_queries, n_indexed). Got "
            f"({data.n_rows}, {data.n_features}) for {data.n_rows} indexed."
        )


def _are_penalties_of_other_targets(params, data):
    penalties = _penalties(params)
    one = (penalties == penalties[0]).all()
    return not one and penalties.size != data.n_outputs


def _changes(params, data):
    # Equal penalties are one for scikit-learn, however many they are; cuML takes one for each
    # target, and leaves the coefficients of targets without one as they are in memory.
    penalties = _penalties(params)
    return {"alpha": penalties[0].item() if (penalties == penalties[0]).all() else penalties}


KERNEL_RIDGE = Row(
    sk=kernel_ridge.KernelRidge,
    cuml="cuml.kernel_ridge.KernelRidge",
    work=_work,
    methods=("predict",),
    refuses=(
        when_set(lambda p: callable(p["kernel"]), "callable kernel"),
        when(_are_penalties_of_other_targets, "another number of penalties than of targets"),
    ),
    checks=_checks,
    flat_y=False,
    changes=_changes,
    light=("dual_coef_", "X_fit_"),
    convert=CONVERSION,
    notes=("Of float32 rows the system of equations is solved in float64.",),
)
