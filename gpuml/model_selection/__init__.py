"""Searches and cross-validation that fit and score all candidates on all folds together."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.search import GridSearchCV, RandomizedSearchCV

if TYPE_CHECKING:
    from gpuml.model_selection.explain import Explanation
    from gpuml.model_selection.halving import HalvingGridSearchCV, HalvingRandomSearchCV
    from gpuml.model_selection.hyperband import HyperbandSearchCV
    from gpuml.model_selection.validation import cross_val_score, cross_validate

__all__ = [
    "Explanation",
    "GridSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
    "HyperbandSearchCV",
    "Plan",
    "RandomizedSearchCV",
    "cross_val_score",
    "cross_validate",
]

# What a grid needs not. scikit-learn's halving is experimental, and has to be switched on.
_LATER = {
    "Explanation": "gpuml.model_selection.explain",
    "HalvingGridSearchCV": "gpuml.model_selection.halving",
    "HalvingRandomSearchCV": "gpuml.model_selection.halving",
    "HyperbandSearchCV": "gpuml.model_selection.hyperband",
    "cross_val_score": "gpuml.model_selection.validation",
    "cross_validate": "gpuml.model_selection.validation",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER, mirrors="sklearn.model_selection")
