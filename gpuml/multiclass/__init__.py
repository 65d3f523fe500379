"""One binary classifier for each class, pair of classes, or bit of a code, fitted together."""

from gpuml._settings.first_use import at_first_use
from gpuml.multiclass._columns import OneVsRestClassifier, OutputCodeClassifier
from gpuml.multiclass._pairs import OneVsOneClassifier

__all__ = ["OneVsOneClassifier", "OneVsRestClassifier", "OutputCodeClassifier"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.multiclass")
