"""Imputation of missing values with scikit-learn's names, on the device of the data."""

from gpuml._settings.first_use import at_first_use
from gpuml.preprocessing.imputer import SimpleImputer
from gpuml.preprocessing.indicator import MissingIndicator

__all__ = ["MissingIndicator", "SimpleImputer"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.impute")
