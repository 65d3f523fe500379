"""Searches and cross-validation that fit and score all candidates on all folds together."""

from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.halving import HalvingGridSearchCV, HalvingRandomSearchCV
from gpuml.model_selection.hyperband import HyperbandSearchCV
from gpuml.model_selection.search import GridSearchCV, RandomizedSearchCV
from gpuml.model_selection.validation import cross_val_score, cross_validate

__all__ = [
    "GridSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
    "HyperbandSearchCV",
    "Plan",
    "RandomizedSearchCV",
    "cross_val_score",
    "cross_validate",
]
