"""Support vector machines with scikit-learn's interface; on a GPU cuML does the work."""

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import svm as _rows

LinearSVC = build(_rows.LINEAR_SVC, __name__)
LinearSVR = build(_rows.LINEAR_SVR, __name__)
SVC = build(_rows.SVC, __name__)
SVR = build(_rows.SVR, __name__)

__all__ = ["SVC", "SVR", "LinearSVC", "LinearSVR"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.svm")
