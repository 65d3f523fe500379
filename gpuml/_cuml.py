"""The first import of cuML, which would change how the whole process allocates memory."""

import sys
from typing import Any


def import_cuml() -> Any:
    """cuML, with CuPy's allocator as it was before.

    cuML makes RMM the allocator of CuPy. Without a pool, RMM asks the driver for every array, which
    makes the work of others on CuPy arrays, ours too, take several times as long. An RMM that has
    a pool stays: it may have taken most of the memory, as on workers of a cluster.
    """
    if "cuml" in sys.modules:
        return sys.modules["cuml"]
    import cupy

    before = cupy.cuda.get_allocator()
    import cuml
    import rmm

    if isinstance(rmm.mr.get_current_device_resource(), rmm.mr.CudaMemoryResource):
        cupy.cuda.set_allocator(before)
    return cuml
