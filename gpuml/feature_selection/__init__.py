"""Selection of features with scikit-learn's names, on the device of the data."""

from gpuml._settings.first_use import at_first_use
from gpuml.feature_selection.elimination import RFE, RFECV
from gpuml.feature_selection.from_model import SelectFromModel
from gpuml.feature_selection.scores import chi2, f_classif, f_regression, r_regression
from gpuml.feature_selection.sequential import SequentialFeatureSelector
from gpuml.feature_selection.subsets import BestSubsets, best_subset
from gpuml.feature_selection.univariate import (
    GenericUnivariateSelect,
    SelectFdr,
    SelectFpr,
    SelectFwe,
    SelectKBest,
    SelectPercentile,
)
from gpuml.feature_selection.variance import VarianceThreshold

__all__ = [
    "RFE",
    "RFECV",
    "BestSubsets",
    "GenericUnivariateSelect",
    "SelectFdr",
    "SelectFpr",
    "SelectFromModel",
    "SelectFwe",
    "SelectKBest",
    "SelectPercentile",
    "SequentialFeatureSelector",
    "VarianceThreshold",
    "best_subset",
    "chi2",
    "f_classif",
    "f_regression",
    "r_regression",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.feature_selection")
