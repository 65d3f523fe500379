"""The first imports of cuML and cuDF, which would change how the process allocates memory.

Both make RMM the allocator of CuPy. Without a pool, RMM asks the driver for every array, which
makes the work of others on CuPy arrays, ours too, take several times as long. An RMM that has a
pool stays: it may have taken most of the memory, as on workers of a cluster.
"""

import sys
from importlib import import_module
from typing import Any


def import_cuml() -> Any:
    """cuML, with CuPy's allocator as it was before."""
    return _imported("cuml")


def import_cudf() -> Any:
    """cuDF, with CuPy's allocator as it was before."""
    return _imported("cudf")


def _imported(name):
    if sys.modules.get(name) is not None:
        return sys.modules[name]
    import cupy

    before = cupy.cuda.get_allocator()
    module = import_module(name)
    import rmm

    if isinstance(rmm.mr.get_current_device_resource(), rmm.mr.CudaMemoryResource):
        cupy.cuda.set_allocator(before)
    return module
