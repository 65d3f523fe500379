"""The one door to array libraries.

Arithmetic is done on NumPy, CuPy, torch and array-api-strict arrays. Everything else that holds
numbers is turned into one of them by `as_array`.
"""

from gpuml._arrays.moves import (
    aligned,
    as_array,
    itemsize,
    move,
    nbytes,
    to_host,
    transfer_observers,
)
from gpuml._arrays.places import (
    HOST,
    WORTH_MOVING_BYTES,
    Array,
    NoDeviceError,
    Place,
    compute_place,
    device_of,
    fits,
    free_bytes,
    free_memory,
    gpu_place,
    has_gpu,
    is_array,
    is_cupyx_sparse,
    is_foreign,
    is_numpy,
    is_out_of_memory,
    is_sparse,
    namespace,
    place_of,
    synchronize,
)

__all__ = [
    "HOST",
    "WORTH_MOVING_BYTES",
    "Array",
    "NoDeviceError",
    "Place",
    "aligned",
    "as_array",
    "compute_place",
    "device_of",
    "fits",
    "free_bytes",
    "free_memory",
    "gpu_place",
    "has_gpu",
    "is_array",
    "is_cupyx_sparse",
    "is_foreign",
    "is_numpy",
    "is_out_of_memory",
    "is_sparse",
    "itemsize",
    "move",
    "namespace",
    "nbytes",
    "place_of",
    "synchronize",
    "to_host",
    "transfer_observers",
]
