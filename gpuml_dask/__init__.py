"""gpuml's searches and estimators on a Dask cluster, with GPU or CPU workers."""

from gpuml_dask import _dask as _dask  # settings have their defaults from then on
from gpuml_dask import errors
from gpuml_dask.cluster import local_client, make_cluster
from gpuml_dask.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
)
from gpuml_dask.rows.placement import place

__all__ = [
    "GridSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
    "HyperbandSearchCV",
    "RandomizedSearchCV",
    "errors",
    "local_client",
    "make_cluster",
    "place",
]
