"""Imputation of missing values with scikit-learn's names, on the device of the data."""

from gpuml.preprocessing.imputer import SimpleImputer
from gpuml.preprocessing.indicator import MissingIndicator

__all__ = ["MissingIndicator", "SimpleImputer"]
