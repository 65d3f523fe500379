"""One model for each column of the target: fitted together, or one after the other in a chain."""

from gpuml._settings.first_use import at_first_use
from gpuml.multioutput._chains import ClassifierChain, RegressorChain
from gpuml.multioutput._columns import MultiOutputClassifier, MultiOutputRegressor

__all__ = ["ClassifierChain", "MultiOutputClassifier", "MultiOutputRegressor", "RegressorChain"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.multioutput")
