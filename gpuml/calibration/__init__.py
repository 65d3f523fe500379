"""Calibrated probabilities; all other names are scikit-learn's."""

from gpuml._settings.first_use import at_first_use
from gpuml.calibration._cross_validated import CalibratedClassifierCV

__all__ = ["CalibratedClassifierCV"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.calibration")
