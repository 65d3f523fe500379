"""Transformers of rows with scikit-learn's names, on the device of their data."""

from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    # At its first use: `sklearn.impute` imports neighbours, discriminants and covariances.
    if name != "SimpleImputer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpuml.preprocessing.imputer import SimpleImputer

    return SimpleImputer


def __dir__() -> list[str]:
    return sorted({*globals(), "SimpleImputer"})
