"""Discriminant analysis with scikit-learn's names, on the device of the data."""

from gpuml._settings.first_use import at_first_use
from gpuml.discriminant_analysis.linear import LinearDiscriminantAnalysis
from gpuml.discriminant_analysis.quadratic import QuadraticDiscriminantAnalysis

__all__ = ["LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.discriminant_analysis")
