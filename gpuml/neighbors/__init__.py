"""Nearest neighbours with scikit-learn's interface; cuML does the work on a GPU."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import neighbors as _rows

if TYPE_CHECKING:  # the classes that `build` makes, with signatures for editors and type checkers
    from sklearn import neighbors as sk

    from gpuml.adapters import Adapter

    class KernelDensity(Adapter, sk.KernelDensity): ...

    class KNeighborsClassifier(Adapter, sk.KNeighborsClassifier): ...

    class KNeighborsRegressor(Adapter, sk.KNeighborsRegressor): ...

    class NearestNeighbors(Adapter, sk.NearestNeighbors): ...
else:
    KernelDensity = build(_rows.KERNEL_DENSITY, __name__)
    KNeighborsClassifier = build(_rows.KNEIGHBORS_CLASSIFIER, __name__)
    KNeighborsRegressor = build(_rows.KNEIGHBORS_REGRESSOR, __name__)
    NearestNeighbors = build(_rows.NEAREST_NEIGHBORS, __name__)

__all__ = ["KNeighborsClassifier", "KNeighborsRegressor", "KernelDensity", "NearestNeighbors"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.neighbors")
