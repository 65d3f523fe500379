"""Discriminant analysis with scikit-learn's names, on the device of the data."""

from gpuml.discriminant_analysis.linear import LinearDiscriminantAnalysis
from gpuml.discriminant_analysis.quadratic import QuadraticDiscriminantAnalysis

__all__ = ["LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"]
