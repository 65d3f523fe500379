"""One model for each column of the target, fitted together."""

from gpuml._settings.first_use import at_first_use
from gpuml.multioutput._columns import MultiOutputClassifier, MultiOutputRegressor

__all__ = ["MultiOutputClassifier", "MultiOutputRegressor"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.multioutput")
