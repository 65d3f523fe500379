"""Where arrays are: which library, which device, and how much room there is.

No array library but NumPy is imported here before somebody hands in one of its arrays or the GPU
is asked for.
"""

import importlib
import importlib.util
import os
import sys
from functools import cache, lru_cache
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from scipy import sparse

Array = Any

# Below this many bytes a GPU does not repay the import of CuPy, the trip and the kernel launches.
WORTH_MOVING_BYTES = 64 * 2**20


UNKNOWN_FREE_BYTES = 4 * 2**30

_OF_NUMPY = (np.ndarray, np.generic)


class Place(NamedTuple):
    """An array library and one of its devices."""

    xp: Any
    device: Any

    @property
    def is_host(self) -> bool:
        """Whether plain NumPy can read memory of this place without a copy between devices."""
        return self.xp is HOST.xp or _is_host_device(self.device)

    @property
    def kind(self) -> str:
        """Name of the array library: "numpy", "cupy", "torch" or "array_api_strict"."""
        return _library_name(self.xp.__name__)

    def __hash__(self):
        # Devices of CuPy know when they are equal, but have no hash.
        return hash((self.xp.__name__, str(self.device)))

    def __str__(self):
        if self.kind == "cupy":
            return f"cupy:cuda:{self.device.id}"
        return f"{self.kind}:{self.device}"


HOST = Place(array_api_compat.array_namespace(np.empty(0)), "cpu")


@cache  # called some thousand times in a search
def _library_name(module_name):
    parts = module_name.split(".")
    return parts[1] if parts[0] == "array_api_compat" else parts[0]


def _is_host_device(device):
    if type(device).__module__.startswith("cupy"):
        return False
    name = getattr(device, "type", None) or str(device)
    return name == "cpu" or "CPU_DEVICE" in name


def library_of(x: Any) -> str | None:
    """The library of an array; None for what is no array."""
    kind: Any = type(x)
    return _library_of_type(kind)


@lru_cache(maxsize=1024)
def _library_of_type(kind: Any) -> str | None:
    # Called at every step, for a few types: what `array_api_compat` finds out each time takes as
    # long as a small kernel.
    if issubclass(kind, _OF_NUMPY):
        return "numpy"
    for library, array in (("cupy", "ndarray"), ("torch", "Tensor")):
        of_library = getattr(sys.modules.get(library), array, None)
        if of_library is not None and issubclass(kind, of_library):
            return library
    # It has its own dtypes and devices.
    is_strict = kind.__module__.startswith("array_api_strict") and kind.__name__ == "Array"
    return "array_api_strict" if is_strict else None


def is_array(x: Any) -> bool:
    """Whether gpuml computes with `x` directly."""
    if type(x) is np.ndarray and x.dtype.kind != "V":
        return True
    library = library_of(x)
    # JAX has NumPy arrays without numbers.
    return array_api_compat.is_numpy_array(x) if library == "numpy" else library is not None


def is_numpy(x: Any) -> bool:
    """Whether `x` is a NumPy array."""
    return isinstance(x, _OF_NUMPY)


def is_cupy(x: Any) -> bool:
    """Whether `x` is a CuPy array."""
    return library_of(x) == "cupy"


def is_foreign(x: Any) -> bool:
    """Whether `x` is an array that gpuml works on and that is not NumPy's."""
    return library_of(x) not in (None, "numpy")


def is_cupyx_sparse(x: Any) -> bool:
    """Whether `x` is a sparse matrix on a GPU."""
    return type(x).__module__.startswith("cupyx.scipy.sparse")


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse matrix, in CPU memory or on a GPU, or pandas' sparse columns only."""
    return is_host_sparse(x) or is_cupyx_sparse(x)


def is_host_sparse(x: Any) -> bool:
    """Whether scikit-learn's validation makes a sparse matrix of `x`.

    It does of a DataFrame of pandas if all of its columns are sparse.
    """
    if sparse.issparse(x) or not hasattr(x, "iloc") or not hasattr(x, "columns"):
        return sparse.issparse(x)
    return len(x.columns) > 0 and all(type(each).__name__ == "SparseDtype" for each in x.dtypes)


def namespace(*arrays: Any) -> Any:
    """The array-API namespace of `arrays`; None and Python numbers are passed over."""
    if len(arrays) == 1:
        # A fast path for frequent calls.
        library = library_of(arrays[0])
        if library == "numpy":
            return HOST.xp
        if library in ("cupy", "torch"):
            return _compatible(library)
    if arrays and all(map(is_numpy, arrays)):
        return HOST.xp
    return array_api_compat.array_namespace(*[x for x in arrays if is_array(x)])


@cache
def _compatible(library):
    return importlib.import_module(f"array_api_compat.{library}")


def device_of(x: Array) -> Any:
    """The device of an array."""
    if is_numpy(x):
        return HOST.device
    return x.device if library_of(x) in ("cupy", "torch") else array_api_compat.device(x)


def place_of(x: Array) -> Place:
    """Library and device of an array."""
    library = library_of(x)
    if library == "numpy":
        return HOST
    if library in ("cupy", "torch"):
        return Place(_compatible(library), x.device)
    return Place(namespace(x), device_of(x))


class NoDeviceError(RuntimeError):
    """A GPU is required, and there is none."""


def compute_place(x: Array, work_bytes: int, setting: str) -> Place:
    """Where rows `x` are to be worked on.

    Parameters
    ----------
    x : array
        The rows.
    work_bytes : int
        Bytes that the job reads, all its passes counted.
    setting : {"auto", "cpu", "cuda"}
        The configured device.

    Raises
    ------
    NoDeviceError
        A RuntimeError: if a GPU is asked for and there is none.
    """
    home = place_of(x)
    if not home.is_host or home.kind == "array_api_strict" or setting == "cpu":
        return home
    if setting == "auto" and (work_bytes < WORTH_MOVING_BYTES or not has_gpu()):
        return home
    if not has_gpu():
        raise NoDeviceError(
            "device='cuda' needs a GPU, but CuPy is not installed or sees no GPU. Install "
            "gpuml[gpu-cu13] (or gpu-cu12) on a machine with an NVIDIA driver, or use "
            "gpuml.set_config(device='auto')."
        )
    return gpu_place()


@cache
def has_gpu() -> bool:
    """Whether CuPy is installed and sees a GPU (CuPy also imports without one)."""
    return importlib.util.find_spec("cupy") is not None and import_cupy().is_available()


def gpu_place() -> Place:
    """CuPy on its current device."""
    return Place(_compatible("cupy"), import_cupy().cuda.Device())


def fits(size: int, place: Place) -> bool:
    """Whether `size` bytes leave room to work in GPU memory (CPU memory always does)."""
    if place.kind != "cupy":
        return True
    free, total = _gpu_memory(place)
    return size < free - total // 8


def free_bytes(place: Place) -> int:
    """Free bytes of memory at a place; an estimate if the library does not tell."""
    if place.kind == "cupy":
        return _gpu_memory(place)[0]
    if place.kind == "torch" and not place.is_host:
        return int(sys.modules["torch"].cuda.mem_get_info(place.device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return UNKNOWN_FREE_BYTES


def _gpu_memory(place):
    cupy = import_cupy()
    free, total = cupy.cuda.Device(place.device.id).mem_info
    return free + cupy.get_default_memory_pool().free_bytes(), total


def import_cupy():
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "CUDA arrays need CuPy. Install gpuml[gpu-cu13] or gpuml[gpu-cu12]."
        ) from error
    return cupy


def synchronize(place: Place) -> None:
    """Wait until the work queued on a GPU is done; nothing to wait for elsewhere."""
    if place.kind == "cupy":
        import_cupy().cuda.get_current_stream().synchronize()
    elif place.kind == "torch" and not place.is_host:
        sys.modules["torch"].cuda.synchronize()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of any library says that memory ran out."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def is_singular(error: BaseException) -> bool:
    """Whether an exception of any library says that a matrix has no inverse, or no factor."""
    return type(error).__name__ in ("LinAlgError", "_LinAlgError")


def free_memory(place: Place) -> None:
    """Give the unused blocks of a GPU memory pool back."""
    if place.kind == "cupy":
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
    elif place.kind == "torch" and not place.is_host:
        import torch

        torch.cuda.empty_cache()
