"""Searches over the workers of a Dask cluster, under the module path that dask-ml has."""

from gpuml.model_selection.apart import train_test_split
from gpuml_dask.searching.adaptive import (
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    HyperbandSearchCV,
)
from gpuml_dask.searching.search import GridSearchCV, RandomizedSearchCV

__all__ = [
    "GridSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
    "HyperbandSearchCV",
    "RandomizedSearchCV",
    "train_test_split",
]
