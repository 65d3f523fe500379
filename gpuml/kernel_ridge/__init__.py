"""Kernel ridge regression with scikit-learn's interface; on a GPU cuML does the work."""

from gpuml.adapters import build
from gpuml.adapters.rows import kernel_ridge as _rows

KernelRidge = build(_rows.KERNEL_RIDGE, __name__)

__all__ = ["KernelRidge"]
