"""Dask collections as input of single-process code: gathered, with a warning."""

import math
import warnings
from typing import Any

import numpy as np

from gpuml._arrays.frames import refuse_lazy
from gpuml.exceptions import GatheredWarning, level_of_user

INSTEAD = (
    "gpuml_dask leaves it divided: import the same class, if there is one, from "
    "gpuml_dask.linear_model, gpuml_dask.svm, gpuml_dask.naive_bayes, "
    "gpuml_dask.discriminant_analysis, gpuml_dask.decomposition, gpuml_dask.preprocessing or "
    "gpuml_dask.impute, KMeans from gpuml_dask.clustering, GaussianMixture from "
    "gpuml_dask.mixture, a search over any estimator from gpuml_dask.model_selection, "
    "predict, transform and score of any fitted model from gpuml_dask.predict. To gather it "
    "without this warning, pass what its compute() returns."
)


def is_divided(x: Any) -> bool:
    """Whether `x` is a collection of Dask: an array, DataFrame, delayed object, one of xarray's."""
    # Checked on the type: a delayed object has every attribute.
    return hasattr(type(x), "__dask_graph__") and x.__dask_graph__() is not None


def gathered(x: Any) -> Any:
    """The content of a Dask collection, in the memory of this process; other objects unchanged.

    Warns
    -----
    GatheredWarning
        Before anything is computed, where the size is known then.

    Raises
    ------
    TypeError
        For a LazyFrame of polars.
    """
    if not is_divided(x):
        refuse_lazy(x)
        return x
    size = _bytes_of(x)
    if size is not None:
        _warn(x, size)
    found = x.compute()
    if size is None:
        _warn(x, _bytes_of(found))
    return found


def _warn(x, size):
    amount = "" if size is None else f" of {size:,} bytes"
    kind = f"{type(x).__module__.partition('.')[0]} {type(x).__name__}"
    warnings.warn(
        f"A {kind}{amount} is gathered into the memory of this process, where gpuml works. "
        f"{INSTEAD}",
        GatheredWarning,
        stacklevel=level_of_user(),
    )


def _bytes_of(x):
    """Bytes of an array or a DataFrame; None if unknown."""
    if hasattr(x, "memory_usage") and not is_divided(x):
        return int(np.sum(x.memory_usage()))
    try:
        size = x.nbytes
    except (AttributeError, NotImplementedError):  # Dask would have to compute it
        return None
    known = isinstance(size, int | float | np.number) and math.isfinite(size)
    return int(size) if known else None
