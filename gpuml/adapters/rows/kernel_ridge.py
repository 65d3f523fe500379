"""Row of `gpuml.kernel_ridge`."""

import copy
from functools import cache
from typing import Any

import numpy as np
from sklearn import kernel_ridge

from gpuml._arrays import is_array, namespace, to_host
from gpuml.adapters import _conversion
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import Row, when, when_set


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


@cache
def _of_given_kernel(cuml_class: Any) -> Any:
    # cuML adds the penalty to the diagonal, and multiplies by weights, where the kernel is: in
    # the memory of the user, and of what it keeps as `X_fit_`.
    class OfGivenKernel(cuml_class):
        def fit(self, X, **rest):
            super().fit(namespace(X).asarray(X, copy=True), **rest)
            self.X_fit_[...] = X
            return self

    return OfGivenKernel


def _derived(cuml_class, twin):
    return _of_given_kernel(cuml_class) if twin.kernel == "precomputed" else cuml_class


def _lift(cuml_class, twin, changes):
    """A model with the attributes of the twin.

    scikit-learn keeps rows of integers as integers, and cuML reads the rows that it predicts as
    what the kept rows are: 0.7 as 0.
    """
    rows = twin.X_fit_
    if isinstance(rows, np.ndarray) and rows.dtype not in (np.float32, np.float64):
        twin = copy.copy(twin)
        twin.X_fit_ = rows.astype(np.float64)
    return _conversion.lift(cuml_class, twin, changes)


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
    convert=Conversion(derived=_derived, lift=_lift),
    notes=("Of float32 rows the system of equations is solved in float64.",),
)
