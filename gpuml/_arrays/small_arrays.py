"""CuPy's pool in front of RMM, for work that makes thousands of small arrays.

RMM becomes CuPy's allocator on workers of Dask, and in every process that imports cuDF or cuML.
Without a pool it asks the driver for each array, which then waits for the GPU; with one it still
takes several times as long as CuPy's own pool. Solvers whose steps are short feel both. Within
`small_arrays` a pool of CuPy, which gets its blocks from RMM, serves what is small. What it has
left over goes back to RMM at the end.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# A kernel on a larger array takes longer than RMM. And of a block that is cut nothing goes back as
# long as a part is in use: of small blocks that does not matter.
SMALL_BYTES = 2**26


@contextmanager
def small_arrays() -> Iterator[None]:
    """A context in which small CuPy arrays of this thread come from a separate pool.

    Nothing changes where CuPy's memory does not come from RMM.
    """
    cupy, rmm = sys.modules.get("cupy"), sys.modules.get("rmm.allocators.cupy")
    if cupy is None or rmm is None or cupy.cuda.get_allocator() != rmm.rmm_cupy_allocator:
        yield
        return
    pool = _pool(rmm.rmm_cupy_allocator)
    try:
        with cupy.cuda.using_allocator(_small_from(pool, rmm.rmm_cupy_allocator)):
            yield
    finally:
        pool.free_all_blocks()


@cache
def _pool(upstream: Callable[[int], Any]) -> Any:
    """The pool of this process. It is never given up: arrays of it may outlive any task."""
    import cupy

    return cupy.cuda.MemoryPool(upstream)


def _small_from(pool, upstream):
    """An allocator that uses the pool for small arrays."""

    def allocate(n_bytes):
        source = pool.malloc if n_bytes <= SMALL_BYTES else upstream
        try:
            return source(n_bytes)
        except MemoryError:
            pool.free_all_blocks()
            return source(n_bytes)

    return allocate
