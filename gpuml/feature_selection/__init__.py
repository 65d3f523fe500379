"""Selection of features with scikit-learn's names, on the device of the data."""

from gpuml.feature_selection.elimination import RFE, RFECV
from gpuml.feature_selection.from_model import SelectFromModel
from gpuml.feature_selection.sequential import SequentialFeatureSelector
from gpuml.feature_selection.subsets import BestSubsets, best_subset

__all__ = [
    "RFE",
    "RFECV",
    "BestSubsets",
    "SelectFromModel",
    "SequentialFeatureSelector",
    "best_subset",
]
