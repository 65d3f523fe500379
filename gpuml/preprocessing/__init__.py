"""Transformers of rows with scikit-learn's names, on the device of their data."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.preprocessing.binarizer import Binarizer
from gpuml.preprocessing.bins import KBinsDiscretizer
from gpuml.preprocessing.extrema import MaxAbsScaler, MinMaxScaler
from gpuml.preprocessing.function import FunctionTransformer
from gpuml.preprocessing.labels import LabelBinarizer, LabelEncoder
from gpuml.preprocessing.normalizer import Normalizer
from gpuml.preprocessing.one_hot import OneHotEncoder
from gpuml.preprocessing.ordinal import OrdinalEncoder
from gpuml.preprocessing.polynomial import PolynomialFeatures
from gpuml.preprocessing.power import PowerTransformer
from gpuml.preprocessing.quantile import QuantileTransformer
from gpuml.preprocessing.robust import RobustScaler
from gpuml.preprocessing.splines import SplineTransformer
from gpuml.preprocessing.standard import StandardScaler
from gpuml.preprocessing.target import TargetEncoder

if TYPE_CHECKING:
    from gpuml.preprocessing.imputer import SimpleImputer
    from gpuml.preprocessing.indicator import MissingIndicator

__all__ = [
    "Binarizer",
    "FunctionTransformer",
    "KBinsDiscretizer",
    "LabelBinarizer",
    "LabelEncoder",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MissingIndicator",
    "Normalizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PolynomialFeatures",
    "PowerTransformer",
    "QuantileTransformer",
    "RobustScaler",
    "SimpleImputer",
    "SplineTransformer",
    "StandardScaler",
    "TargetEncoder",
]

# `sklearn.impute` imports neighbours, discriminants and covariances.
_LATER = {
    "MissingIndicator": "gpuml.preprocessing.indicator",
    "SimpleImputer": "gpuml.preprocessing.imputer",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER, mirrors="sklearn.preprocessing")
