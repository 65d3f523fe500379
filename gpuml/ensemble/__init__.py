"""Ensembles: forests (by cuML on a GPU), bagging, stacking, voting, and ensemble selection."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import ensemble as _rows
from gpuml.ensemble._bagging import BaggingClassifier, BaggingRegressor
from gpuml.ensemble._stacking import StackingClassifier, StackingRegressor
from gpuml.ensemble._voting import VotingClassifier, VotingRegressor
from gpuml.ensemble.selection import EnsembleSelection, select_ensemble

if TYPE_CHECKING:  # the classes that `build` makes, with signatures for editors and type checkers
    from sklearn import ensemble as sk

    from gpuml.adapters import Adapter

    class IsolationForest(Adapter, sk.IsolationForest): ...

    class RandomForestClassifier(Adapter, sk.RandomForestClassifier): ...

    class RandomForestRegressor(Adapter, sk.RandomForestRegressor): ...
else:
    IsolationForest = build(_rows.ISOLATION_FOREST, __name__)
    RandomForestClassifier = build(_rows.RANDOM_FOREST_CLASSIFIER, __name__)
    RandomForestRegressor = build(_rows.RANDOM_FOREST_REGRESSOR, __name__)

__all__ = [
    "BaggingClassifier",
    "BaggingRegressor",
    "EnsembleSelection",
    "IsolationForest",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "StackingClassifier",
    "StackingRegressor",
    "VotingClassifier",
    "VotingRegressor",
    "select_ensemble",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.ensemble")
