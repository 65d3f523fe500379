"""One binary classifier for each class, or for each bit of a code, fitted together."""

from gpuml._settings.first_use import at_first_use
from gpuml.multiclass._columns import OneVsRestClassifier, OutputCodeClassifier

__all__ = ["OneVsRestClassifier", "OutputCodeClassifier"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.multiclass")
