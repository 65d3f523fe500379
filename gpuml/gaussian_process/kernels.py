"""scikit-learn's kernels, which say what a covariance is: `gpuml.gaussian_process` evaluates them."""

from gpuml._settings.first_use import at_first_use

__all__: list[str] = []

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.gaussian_process.kernels")
