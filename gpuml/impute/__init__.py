"""Imputation of missing values with scikit-learn's names, on the device of the data."""

from gpuml.preprocessing.imputer import SimpleImputer

__all__ = ["SimpleImputer"]
