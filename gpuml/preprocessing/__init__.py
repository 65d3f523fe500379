"""Transformers of rows with scikit-learn's names, on the device of their data."""

from gpuml.preprocessing.extrema import MaxAbsScaler, MinMaxScaler
from gpuml.preprocessing.imputer import SimpleImputer
from gpuml.preprocessing.normalizer import Normalizer
from gpuml.preprocessing.one_hot import OneHotEncoder
from gpuml.preprocessing.polynomial import PolynomialFeatures
from gpuml.preprocessing.standard import StandardScaler

__all__ = [
    "MaxAbsScaler",
    "MinMaxScaler",
    "Normalizer",
    "OneHotEncoder",
    "PolynomialFeatures",
    "SimpleImputer",
    "StandardScaler",
]
