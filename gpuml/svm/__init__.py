"""Support vector machines with scikit-learn's interface; cuML fits those with kernels on a GPU."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import svm as _rows
from gpuml.svm.linear_svc import LinearSVC
from gpuml.svm.linear_svr import LinearSVR

if TYPE_CHECKING:  # the classes that `build` makes, with signatures for editors and type checkers
    from sklearn import svm as sk

    from gpuml.adapters import Adapter

    class SVC(Adapter, sk.SVC): ...

    class SVR(Adapter, sk.SVR): ...
else:
    SVC = build(_rows.SVC, __name__)
    SVR = build(_rows.SVR, __name__)

__all__ = ["SVC", "SVR", "LinearSVC", "LinearSVR"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.svm")
