"""Gaussian processes with scikit-learn's interface and kernels."""

from gpuml._settings.first_use import at_first_use
from gpuml.gaussian_process import kernels
from gpuml.gaussian_process._classifier import GaussianProcessClassifier
from gpuml.gaussian_process._regressor import GaussianProcessRegressor

__all__ = ["GaussianProcessClassifier", "GaussianProcessRegressor", "kernels"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.gaussian_process")
