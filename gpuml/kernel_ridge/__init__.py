"""Kernel ridge regression with scikit-learn's interface."""

from gpuml.kernel_ridge._estimator import KernelRidge

__all__ = ["KernelRidge"]
