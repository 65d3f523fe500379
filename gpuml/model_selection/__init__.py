"""Searches and cross-validation that fit and score all candidates on all folds together."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.search import GridSearchCV, RandomizedSearchCV
from gpuml.model_selection.validation import cross_val_score, cross_validate

if TYPE_CHECKING:
    from gpuml.model_selection.halving import HalvingGridSearchCV, HalvingRandomSearchCV
    from gpuml.model_selection.hyperband import HyperbandSearchCV

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

# Imported at their first use: scikit-learn's halving is experimental, and has to be switched on.
_LAZY = {
    "HalvingGridSearchCV": "gpuml.model_selection.halving",
    "HalvingRandomSearchCV": "gpuml.model_selection.halving",
    "HyperbandSearchCV": "gpuml.model_selection.hyperband",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
