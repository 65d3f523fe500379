"""Ensembles of trees with scikit-learn's interface; on a GPU cuML does the work."""

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import ensemble as _rows

IsolationForest = build(_rows.ISOLATION_FOREST, __name__)
RandomForestClassifier = build(_rows.RANDOM_FOREST_CLASSIFIER, __name__)
RandomForestRegressor = build(_rows.RANDOM_FOREST_REGRESSOR, __name__)

__all__ = ["IsolationForest", "RandomForestClassifier", "RandomForestRegressor"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.ensemble")
