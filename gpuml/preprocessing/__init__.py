"""Transformers of rows with scikit-learn's names, on the device of their data."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.preprocessing.extrema import MaxAbsScaler, MinMaxScaler
from gpuml.preprocessing.normalizer import Normalizer
from gpuml.preprocessing.one_hot import OneHotEncoder
from gpuml.preprocessing.polynomial import PolynomialFeatures
from gpuml.preprocessing.standard import StandardScaler

if TYPE_CHECKING:
    from gpuml.preprocessing.imputer import SimpleImputer

__all__ = [
    "MaxAbsScaler",
    "MinMaxScaler",
    "Normalizer",
    "OneHotEncoder",
    "PolynomialFeatures",
    "SimpleImputer",
    "StandardScaler",
]

# `sklearn.impute` imports neighbours, discriminants and covariances.
_LATER = {"SimpleImputer": "gpuml.preprocessing.imputer"}
__getattr__, __dir__ = at_first_use(__name__, _LATER)
