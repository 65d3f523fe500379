"""scikit-learn's kernels: descriptions of covariances that gpuml's processes evaluate."""

from gpuml._settings.first_use import at_first_use

__all__: list[str] = []

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.gaussian_process.kernels")
