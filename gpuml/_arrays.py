"""The one door to array libraries: which library, which device, and the only mover of data.

Arithmetic is done on NumPy, CuPy, torch and array-api-strict arrays. Everything else that holds
numbers is turned into one of them by `as_array`. No array library but NumPy is imported here
before somebody hands in one of its arrays or the GPU is asked for.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from scipy import sparse

from gpuml._frames import from_cudf, is_cudf, is_lazy
from gpuml._gathered import gathered, is_divided

Array = Any

# Below this many bytes a GPU does not repay the import of CuPy, the trip and the kernel launches.
WORTH_MOVING_BYTES = 64 * 2**20
UNKNOWN_FREE_BYTES = 4 * 2**30
# The number that DLPack gives to memory of NVIDIA GPUs.
DLPACK_CUDA = 2


class Place(NamedTuple):
    """An array library and one of its devices."""

    xp: Any
    device: Any

    @property
    def is_host(self) -> bool:
        """Whether plain NumPy can read memory of this place without a copy between devices."""
        return _is_host_device(self.device)

    @property
    def kind(self) -> str:
        """Name of the array library: "numpy", "cupy", "torch" or "array_api_strict"."""
        return _library_name(self.xp.__name__)

    def __str__(self):
        if self.kind == "cupy":
            return f"cupy:cuda:{self.device.id}"
        return f"{self.kind}:{self.device}"


HOST = Place(array_api_compat.array_namespace(np.empty(0)), "cpu")


def _library_name(module_name):
    parts = module_name.split(".")
    return parts[1] if parts[0] == "array_api_compat" else parts[0]


def _is_host_device(device):
    name = getattr(device, "type", None) or str(device)
    return name == "cpu" or "CPU_DEVICE" in name


def _library_of(x: Any) -> str | None:
    """The library of an array; None for what is no array."""
    kind: Any = type(x)
    return _library_of_type(kind)


@lru_cache(maxsize=1024)
def _library_of_type(kind: Any) -> str | None:
    # Asked for at every step, of a few types: what `array_api_compat` finds out each time takes as
    # long as a small kernel.
    if issubclass(kind, np.ndarray | np.generic):
        return "numpy"
    for library, array in (("cupy", "ndarray"), ("torch", "Tensor")):
        of_library = getattr(sys.modules.get(library), array, None)
        if of_library is not None and issubclass(kind, of_library):
            return library
    # It has dtypes and devices of its own besides.
    is_strict = kind.__module__.startswith("array_api_strict") and kind.__name__ == "Array"
    return "array_api_strict" if is_strict else None


def is_array(x: Any) -> bool:
    """Whether gpuml does arithmetic on `x` as it is."""
    library = _library_of(x)
    # JAX has NumPy arrays without numbers.
    return array_api_compat.is_numpy_array(x) if library == "numpy" else library is not None


def is_numpy(x: Any) -> bool:
    """Whether `x` is a NumPy array."""
    return isinstance(x, np.ndarray | np.generic)


def is_foreign(x: Any) -> bool:
    """Whether `x` is an array that gpuml works on and that is not NumPy's."""
    return _library_of(x) not in (None, "numpy")


def is_cupyx_sparse(x: Any) -> bool:
    """Whether `x` is a sparse matrix on a GPU."""
    return type(x).__module__.startswith("cupyx.scipy.sparse")


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse matrix, on the host or a GPU."""
    return sparse.issparse(x) or is_cupyx_sparse(x)


def namespace(*arrays: Any) -> Any:
    """The array-API namespace of `arrays`; None and Python numbers are passed over."""
    if len(arrays) == 1:
        # Asked for so often that the general way takes its time.
        if type(arrays[0]) is np.ndarray:
            return HOST.xp
        library = _library_of(arrays[0])
        if library in ("cupy", "torch"):
            return _compatible(library)
    return array_api_compat.array_namespace(*[x for x in arrays if is_array(x)])


@cache
def _compatible(library):
    return importlib.import_module(f"array_api_compat.{library}")


def device_of(x: Array) -> Any:
    """The device of an array."""
    return array_api_compat.device(x)


def place_of(x: Array) -> Place:
    """Library and device of an array."""
    return Place(namespace(x), device_of(x))


def as_array(x: Any) -> Any:
    """Turn what only *holds* an array into an array, without a copy where the protocol allows it.

    Arrays come back as they are, but for four things that no arithmetic here is written for: half
    precision becomes float32, which holds it exactly (NumPy's float16 is left to scikit-learn);
    other byte orders become the machine's; elements that no number of the machine starts at are
    copied to where they do (see `aligned`); tensors with a gradient are cut off from it. What
    scikit-learn's own validation reads (lists, pandas, polars, Arrow, scipy.sparse) comes back as
    it is too. CUDA data of other libraries becomes CuPy, and so do cuDF DataFrames. Collections of
    Dask are computed, with a warning.

    Raises
    ------
    TypeError
        np.matrix, sparse tensors of torch, polars LazyFrames.
    ValueError
        Masked arrays with masked elements.
    """
    if x is None:
        return x
    if is_array(x):
        return _plain(x)
    if is_divided(x):
        return as_array(gathered(x))
    if is_cudf(x):
        return from_cudf(x)
    if is_lazy(x):
        raise TypeError("A polars LazyFrame holds no rows yet. Pass its collect() instead.")
    if _is_half(x) and hasattr(x, "astype"):  # JAX: no protocol takes its bfloat16 to CuPy
        x = x.astype("float32")
    if hasattr(x, "__cuda_array_interface__"):
        return _plain(_cupy().asarray(x))
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        on_gpu = x.__dlpack_device__()[0] == DLPACK_CUDA
        return _plain(_cupy().from_dlpack(x) if on_gpu else np.from_dlpack(x))
    return x


def _plain(x):
    """An array that is, or would be, what arithmetic is written for."""
    if type(x) is np.ndarray and x.dtype.kind in "fiub" and x.dtype.isnative:
        return aligned(x)  # asked for so often that the rest takes its time
    if is_numpy(x):
        return _plain_numpy(x)
    library = _library_of(x)
    if library == "torch":
        return _plain_torch(x)
    if library == "cupy" and (x.dtype.kind in "iub" or x.dtype.name in ("float32", "float64")):
        return x
    return x.astype("float32") if _is_half(x) else x


def _plain_numpy(x):
    if isinstance(x, np.matrix):
        raise TypeError(
            "np.matrix is not supported. Please convert to a numpy array with np.asarray."
        )
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise ValueError(
            "Masked elements would count as if they were not masked. Fill them with nan "
            "(X.astype(float).filled(np.nan)) and impute, or drop their rows."
        )
    if not x.dtype.isnative and x.dtype.kind in "fiub":
        return x.astype(x.dtype.newbyteorder("="))
    return x.astype(np.float32) if x.dtype != np.float16 and _is_half(x) else aligned(x)


def aligned(x: Any) -> Any:
    """The same array, unless its elements start where no number of the machine does: then a copy.

    Of NumPy arrays, which start at any byte if they came over a network or out of a file of
    records. BLAS reads no such array: NumPy copies it for each product, and always to C order, for
    which BLAS may round otherwise than for the order that the array has. Here it is copied once,
    in its own order, so that results are the same wherever rows were.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml._arrays import aligned
    >>> x = np.frombuffer(bytes(17), dtype=np.float64, offset=1)
    >>> x.flags.aligned, aligned(x).flags.aligned
    (False, True)
    """
    if not isinstance(x, np.ndarray) or x.flags.aligned:
        return x
    return np.array(x, order="K", copy=True)


def _plain_torch(x):
    torch = sys.modules["torch"]
    if x.layout is not torch.strided:
        raise TypeError(
            "Sparse data was passed, but dense data is required. Use '.to_dense()' to convert to a "
            "dense tensor."
        )
    # The same object wherever possible: whoever may write in place finds out by asking for that.
    x = x.detach() if x.requires_grad else x
    return x.float() if _is_half(x) else x


def _is_half(x):
    """Whether elements are floats of 16 bits or fewer."""
    name = str(getattr(x, "dtype", "")).rpartition(".")[2]
    return name.startswith(("float16", "bfloat16", "float8", "float4"))


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
    RuntimeError
        If a GPU is asked for and there is none.
    """
    home = place_of(x)
    if not home.is_host or home.kind == "array_api_strict" or setting == "cpu":
        return home
    if setting == "auto" and (work_bytes < WORTH_MOVING_BYTES or not has_gpu()):
        return home
    if not has_gpu():
        raise RuntimeError(
            "device='cuda' was asked for, but CuPy is not installed or sees no GPU. Install "
            "gpuml[gpu-cu13] (or gpu-cu12) on a machine with an NVIDIA driver, or use "
            "gpuml.set_config(device='auto')."
        )
    return gpu_place()


@cache
def has_gpu() -> bool:
    """Whether CuPy is installed and sees a GPU (CuPy also imports without one)."""
    return importlib.util.find_spec("cupy") is not None and _cupy().is_available()


def gpu_place() -> Place:
    """CuPy on its current device."""
    return Place(_compatible("cupy"), _cupy().cuda.Device())


def fits(size: int, place: Place) -> bool:
    """Whether `size` bytes leave room to work in GPU memory (CPU memory always does)."""
    if place.kind != "cupy":
        return True
    free, total = _gpu_memory(place)
    return size < free - total // 8


def free_bytes(place: Place) -> int:
    """Bytes of memory that are free at a place; a guess where nobody tells."""
    if place.kind == "cupy":
        return _gpu_memory(place)[0]
    if place.kind == "torch" and not place.is_host:
        return int(sys.modules["torch"].cuda.mem_get_info(place.device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return UNKNOWN_FREE_BYTES


def _gpu_memory(place):
    cupy = _cupy()
    free, total = cupy.cuda.Device(place.device.id).mem_info
    return free + cupy.get_default_memory_pool().free_bytes(), total


def _cupy():
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "CUDA arrays need CuPy. Install gpuml[gpu-cu13] or gpuml[gpu-cu12]."
        ) from error
    return cupy


# ---------------------------------------------------------------- moving

# Called with ("to_device" | "to_host", bytes) at every move between host and device; see
# gpuml.testing.count_transfers, which is the only one to put anything here.
transfer_observers: list[Callable[[str, int], None]] = []


def move(x: Array, place: Place) -> Array:
    """`x` as an array of `place`; the same object if it is there already (and is `aligned`)."""
    if x is None:
        return None
    here = place_of(x)
    if here == place:
        return aligned(x)
    if here.is_host != place.is_host:
        _report("to_device" if here.is_host else "to_host", nbytes(x))
    if here.xp is place.xp:
        return array_api_compat.to_device(x, place.device)
    if here.kind == "numpy" and place.kind == "cupy":
        return _upload(x, place)
    if here.kind == "cupy" and place.kind == "torch" and not place.is_host:
        return place.xp.from_dlpack(x)
    if here.kind == "torch" and place.kind == "cupy" and not here.is_host:
        return _of_torch(x, place)
    return place.xp.asarray(_numpy_view(x), device=place.device)


def to_host(x: Array) -> np.ndarray:
    """`x` as a NumPy array; without a copy if it is in CPU memory already."""
    return move(x, HOST)


def nbytes(x: Array) -> int:
    """Bytes that the elements of an array take."""
    return int(np.prod(x.shape)) * itemsize(x.dtype)


def itemsize(dtype: Any) -> int:
    """Bytes of one element of a dtype of any library."""
    size = getattr(dtype, "itemsize", None)
    return size if size is not None else np.dtype(str(dtype).rpartition(".")[2]).itemsize


def _report(direction, size):
    for observer in transfer_observers:
        observer(direction, size)


def _numpy_view(x):
    here = place_of(x)
    if here.kind == "numpy":
        return x
    if here.kind == "cupy":
        return _cupy().asnumpy(x)
    if here.kind == "torch":
        return x.detach().cpu().numpy()
    # array-api-strict lets NumPy read its first device only.
    return np.asarray(x if here.is_host else x.to_device(here.xp.Device("CPU_DEVICE")))


def _upload(x, place):
    from gpuml._staging import upload

    with _cupy().cuda.Device(place.device.id):
        return upload(x)


def _of_torch(x, place):
    """A tensor of a GPU as CuPy's array of the same memory, or a copy on another GPU."""
    with _cupy().cuda.Device(x.device.index):
        array = _cupy().from_dlpack(x.detach())
    if x.device.index == place.device.id:
        return array
    return array_api_compat.to_device(array, place.device)


def synchronize(place: Place) -> None:
    """Wait until the work queued on a GPU is done; nothing to wait for elsewhere."""
    if place.kind == "cupy":
        _cupy().cuda.get_current_stream().synchronize()
    elif place.kind == "torch" and not place.is_host:
        sys.modules["torch"].cuda.synchronize()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of any library says that memory ran out."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def free_memory(place: Place) -> None:
    """Give the unused blocks of a GPU memory pool back."""
    if place.kind == "cupy":
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
    elif place.kind == "torch" and not place.is_host:
        import torch

        torch.cuda.empty_cache()
