"""Memory for the work of cuML, from a pool of the CUDA driver.

RMM's own default asks the driver for each array and gives it back, and each time the GPU waits:
fits of forests did for a third of their time. Within `pooled_memory` RMM takes memory from a pool
that keeps some of it for the next array. An RMM that somebody has given a pool of another kind, as
workers of a cluster have, stays as it is.

New memory of the driver mostly holds zeros, that of a pool what was there before. So models have to
be seen to be right with it: cuML's spectral embedding failed in one of some thousand fits.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# The largest memory that an idle pool keeps; and its share of all GPU memory.
KEPT_BYTES, KEPT_SHARE = 2**30, 1 / 16


@contextmanager
def pooled_memory() -> Iterator[None]:
    """Within it RMM's memory of the current GPU comes from a pool, in all threads.

    Nothing happens where neither cuML nor cuDF was imported.
    """
    if "rmm" not in sys.modules:
        yield
        return
    import cupy

    turn = _turn_of(cupy.cuda.Device().id)
    turn.begin()
    try:
        yield
    finally:
        turn.end()


@cache
def _turn_of(device):
    return _Turn(device)


class _Turn:
    """The time in which the pool of a GPU is RMM's resource: from the first user to the last."""

    def __init__(self, device: int):
        self.device, self.lock = device, threading.Lock()
        self.n_users = 0
        self.before: object | None = None
        self.pool = _pool(device)

    def begin(self) -> None:
        from rmm import mr

        with self.lock:
            self.n_users += 1
            if self.n_users == 1 and self.pool is not None:
                resource = mr.get_per_device_resource(self.device)
                # A derived resource counts or watches allocations.
                if type(resource) is mr.CudaMemoryResource:
                    self.before = resource
                    mr.set_per_device_resource(self.device, self.pool)

    def end(self) -> None:
        from rmm import mr

        with self.lock:
            self.n_users -= 1
            if self.n_users == 0 and self.before is not None:
                before, self.before = self.before, None
                # Unless another resource was set meanwhile.
                if mr.get_per_device_resource(self.device) is self.pool:
                    mr.set_per_device_resource(self.device, before)


def _pool(device) -> Any:
    """A permanent pool of the driver, because arrays may outlive fits; None if unsupported."""
    import cupy
    from rmm import mr

    kept = min(KEPT_BYTES, int(cupy.cuda.Device(device).mem_info[1] * KEPT_SHARE))
    try:
        return mr.CudaAsyncMemoryResource(release_threshold=kept)
    except RuntimeError:  # neither older drivers nor all virtual GPUs have pools
        return None
