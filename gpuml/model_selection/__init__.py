"""Searches and cross-validation that fit and score all candidates on all folds together."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.search import GridSearchCV, RandomizedSearchCV

if TYPE_CHECKING:
    from gpuml.model_selection.apart import train_test_split
    from gpuml.model_selection.bootstrap import bootstrap_score
    from gpuml.model_selection.choice import OneStandardError
    from gpuml.model_selection.conformal import ConformalRegressor
    from gpuml.model_selection.curves import learning_curve, validation_curve
    from gpuml.model_selection.displays import LearningCurveDisplay, ValidationCurveDisplay
    from gpuml.model_selection.explain import Explanation
    from gpuml.model_selection.halving import HalvingGridSearchCV, HalvingRandomSearchCV
    from gpuml.model_selection.hyperband import HyperbandSearchCV
    from gpuml.model_selection.permutations import permutation_test_score
    from gpuml.model_selection.predictions import cross_val_predict
    from gpuml.model_selection.results import compare_candidates
    from gpuml.model_selection.session import Session
    from gpuml.model_selection.thresholds import (
        FixedThresholdClassifier,
        TunedThresholdClassifierCV,
    )
    from gpuml.model_selection.validation import cross_val_score, cross_validate

__all__ = [
    "ConformalRegressor",
    "Explanation",
    "FixedThresholdClassifier",
    "GridSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
    "HyperbandSearchCV",
    "LearningCurveDisplay",
    "OneStandardError",
    "Plan",
    "RandomizedSearchCV",
    "Session",
    "TunedThresholdClassifierCV",
    "ValidationCurveDisplay",
    "bootstrap_score",
    "compare_candidates",
    "cross_val_predict",
    "cross_val_score",
    "cross_validate",
    "learning_curve",
    "permutation_test_score",
    "train_test_split",
    "validation_curve",
]

# Names that a grid search does not need. scikit-learn's halving is experimental: a user has to
# enable it.
_LATER = {
    "ConformalRegressor": "gpuml.model_selection.conformal",
    "Explanation": "gpuml.model_selection.explain",
    "FixedThresholdClassifier": "gpuml.model_selection.thresholds",
    "HalvingGridSearchCV": "gpuml.model_selection.halving",
    "HalvingRandomSearchCV": "gpuml.model_selection.halving",
    "HyperbandSearchCV": "gpuml.model_selection.hyperband",
    "Session": "gpuml.model_selection.session",
    "bootstrap_score": "gpuml.model_selection.bootstrap",
    "LearningCurveDisplay": "gpuml.model_selection.displays",
    "OneStandardError": "gpuml.model_selection.choice",
    "ValidationCurveDisplay": "gpuml.model_selection.displays",
    "compare_candidates": "gpuml.model_selection.results",
    "TunedThresholdClassifierCV": "gpuml.model_selection.thresholds",
    "cross_val_predict": "gpuml.model_selection.predictions",
    "cross_val_score": "gpuml.model_selection.validation",
    "cross_validate": "gpuml.model_selection.validation",
    "learning_curve": "gpuml.model_selection.curves",
    "permutation_test_score": "gpuml.model_selection.permutations",
    "train_test_split": "gpuml.model_selection.apart",
    "validation_curve": "gpuml.model_selection.curves",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER, mirrors="sklearn.model_selection")
