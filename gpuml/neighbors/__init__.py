"""Nearest neighbours with scikit-learn's interface; on a GPU cuML does the work."""

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import neighbors as _rows

KernelDensity = build(_rows.KERNEL_DENSITY, __name__)
KNeighborsClassifier = build(_rows.KNEIGHBORS_CLASSIFIER, __name__)
KNeighborsRegressor = build(_rows.KNEIGHBORS_REGRESSOR, __name__)
NearestNeighbors = build(_rows.NEAREST_NEIGHBORS, __name__)

__all__ = ["KNeighborsClassifier", "KNeighborsRegressor", "KernelDensity", "NearestNeighbors"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.neighbors")
