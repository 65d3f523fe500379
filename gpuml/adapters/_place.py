"""Where work is done: on the GPU of the data, on one that is worth the trip, on the CPU."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuml._arrays import HOST, Place, is_array, is_cupyx_sparse, place_of, places


def home_of(X: Any) -> Place:
    """Where rows are: library and device of an array, a GPU for cupyx matrices, else CPU memory."""
    if is_array(X):
        return place_of(X)
    return place_of(X.data) if is_cupyx_sparse(X) else HOST


def is_gpu(place: Place) -> bool:
    """Whether cuML can read memory of this place directly."""
    return place.kind == "cupy" or (place.kind == "torch" and not place.is_host)


def has_cuml() -> bool:
    """Whether cuML is installed; it is imported at its first use only, which takes seconds."""
    return importlib.util.find_spec("cuml") is not None


def gpu_for(home: Place, work_bytes: Callable[[], float], setting: str) -> Place | None:
    """The GPU to work on rows of a place, as CuPy's; None is the CPU.

    Parameters
    ----------
    home : Place
        Where the rows are.
    work_bytes : callable () -> float
        Bytes that a CPU would read; asked for only where it matters.
    setting : {"auto", "cpu", "cuda"}

    Raises
    ------
    RuntimeError
        If a GPU is asked for and there is none, or rows are on another one than the current.
    """
    if is_gpu(home):
        return current_gpu(home)
    if not home.is_host or home.kind == "array_api_strict" or setting == "cpu":
        return None
    if setting == "auto" and not (places.has_gpu() and has_cuml()):
        return None
    work = work_bytes() if setting == "auto" else 0
    place = places.compute_place(np.empty(0), int(work), setting)
    return None if place.is_host else place


def current_gpu(home: Place) -> Place:
    """CuPy's place on the GPU of a place; cuML works on the process's current one only."""
    place = places.gpu_place()
    index = getattr(home.device, "id", getattr(home.device, "index", None)) or 0
    if index != place.device.id:
        raise RuntimeError(
            f"X is on GPU {index}, but the current one is {place.device.id}, and cuML works on "
            f"that only. Use cupy.cuda.Device({index}).use(), or move X."
        )
    return place


def size_of(X: Any) -> tuple[int, int]:
    """Rows and columns of what was passed as X, before it was checked; of texts, their length."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return (shape[0] if len(shape) else 0), (shape[1] if len(shape) > 1 else 1)
    if not hasattr(X, "__len__") or len(X) == 0:
        return 0, 0
    if not hasattr(X, "__getitem__"):
        return len(X), 1
    first = X[:100] if isinstance(X[0], str) else X[:1]
    return len(X), sum(len(row) if hasattr(row, "__len__") else 1 for row in first) // len(first)
