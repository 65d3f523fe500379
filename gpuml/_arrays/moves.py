"""What holds numbers becomes an array; arrays go to a place: the only mover of data."""

import math
import sys
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np

from gpuml._arrays.frames import from_cudf, is_cudf, refuse_lazy
from gpuml._arrays.gathered import gathered, is_divided
from gpuml._arrays.places import (
    HOST,
    Array,
    Place,
    import_cupy,
    is_array,
    is_numpy,
    library_of,
    place_of,
)

# The number that DLPack gives to memory of NVIDIA GPUs.
DLPACK_CUDA = 2


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
    refuse_lazy(x)
    if _is_half(x) and hasattr(x, "astype"):  # JAX: no protocol takes its bfloat16 to CuPy
        x = x.astype("float32")
    if hasattr(x, "__cuda_array_interface__"):
        return _plain(import_cupy().asarray(x))
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        on_gpu = x.__dlpack_device__()[0] == DLPACK_CUDA
        return _plain(import_cupy().from_dlpack(x) if on_gpu else np.from_dlpack(x))
    return x


def _plain(x):
    """An array that is, or would be, what arithmetic is written for."""
    if type(x) is np.ndarray and x.dtype.kind in "fiub" and x.dtype.isnative:
        return aligned(x)  # a fast path for the most frequent case
    if is_numpy(x):
        return _plain_numpy(x)
    library = library_of(x)
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
    # The same object if possible: a caller that writes in place requests a copy.
    x = x.detach() if x.requires_grad else x
    return x.float() if _is_half(x) else x


def _is_half(x):
    """Whether elements are floats of 16 bits or fewer."""
    name = str(getattr(x, "dtype", "")).rpartition(".")[2]
    return name.startswith(("float16", "bfloat16", "float8", "float4"))


# Called with ("to_device" | "to_host", bytes) at every move between CPU and GPU memory; see
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
    return math.prod(x.shape) * itemsize(x.dtype)


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
        return import_cupy().asnumpy(x)
    if here.kind == "torch":
        return x.detach().cpu().numpy()
    # array-api-strict lets NumPy read its first device only.
    return np.asarray(x if here.is_host else x.to_device(here.xp.Device("CPU_DEVICE")))


def _upload(x, place):
    from gpuml._arrays.staging import upload

    with import_cupy().cuda.Device(place.device.id):
        return upload(x)


def _of_torch(x, place):
    """A tensor of a GPU as CuPy's array of the same memory, or a copy on another GPU."""
    with import_cupy().cuda.Device(x.device.index):
        array = import_cupy().from_dlpack(x.detach())
    if x.device.index == place.device.id:
        return array
    return array_api_compat.to_device(array, place.device)
