"""Kernel ridge: a kernel that users give stays as it is, and rows of integers become floats."""

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import namespace
from gpuml.adapters._row import Conversion
from gpuml.adapters.conversions import interop


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model as cuML translates the twin, which does not write into a precomputed kernel."""
    given = twin.kernel == "precomputed"
    return interop.make(_of_given_kernel(cuml_class) if given else cuml_class, twin, changes)


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


def lift(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model with the attributes of the twin.

    scikit-learn keeps rows of integers as integers, and cuML reads the rows that it predicts as
    what the kept rows are: 0.7 as 0.
    """
    rows = twin.X_fit_
    if isinstance(rows, np.ndarray) and rows.dtype not in (np.float32, np.float64):
        twin = copy.copy(twin)
        twin.X_fit_ = rows.astype(np.float64)
    return interop.lift(cuml_class, twin, changes)


KERNEL_RIDGE = Conversion(make, interop.lower, lift)
