"""Buffers between GPUs of several processes, by NCCL through CuPy's binding.

Everything goes through a stream of its own: a rank that waits for the next command has a kernel
waiting on its GPU, which must not hold up copies that Dask makes for other workers. Transfers begin
after the work queued on the stream of the caller, and buffers are kept until they are done. The
host never blocks in CUDA, but looks again and again, and so notices when it is told to stop waiting
for a rank that is gone.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpuml.data import Array, Place, place_of
from gpuml_dask.sums._frames import FramedTransport
from gpuml_dask.sums._messages import Message, RankLost, is_device_array

# A wait begins with looking all the time, because the next command of a solver comes soon, and
# goes on with naps, because the process has other threads.
EAGER_SECONDS = 2e-3
NAP_SECONDS = 5e-5
# How long an end of the communicator waits for calls and transfers under way.
GRACE_SECONDS = 2.0

# Buffers of transfers that did not end when they were told to: their memory is never used again.
_never_freed: list[Any] = []


class NcclTransport(FramedTransport):
    """Messages between GPUs, one in each process."""

    @staticmethod
    def invite() -> Any:
        """What all ranks need to know to find each other; called by rank 0."""
        from cupy.cuda import nccl

        return nccl.get_unique_id()

    @staticmethod
    def here() -> Place:
        """CuPy on the current device."""
        import cupy

        return place_of(cupy.empty(0))

    @classmethod
    def join(cls, invitation: Any, rank: int, size: int) -> "NcclTransport":
        """Become a rank; waits for the others, for as long as it takes."""
        transport = cls(NcclLink(invitation, rank, size))
        # NCCL connects at the first transfers, which then takes a while.
        transport.broadcast(Message(b"hello") if rank == 0 else None)
        transport.collect()
        if rank > 0:
            transport.send(Message(b"here"))
            transport.wait()
        return transport

    def wait(self) -> None:
        self._link.wait()


class NcclLink:
    """Transfers of buffers between GPUs; see `gpuml_dask.sums._frames.FramedTransport`."""

    def __init__(self, invitation: Any, rank: int, size: int):
        import cupy
        from cupy.cuda import nccl

        self.rank, self.size = rank, size
        self.place = NcclTransport.here()
        self._cupy, self._nccl = cupy, nccl
        with self._as_rank_lost():
            self._communicator = nccl.NcclCommunicator(size, invitation, rank)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._before = cupy.cuda.Event(disable_timing=True)
        self._done = cupy.cuda.Event(disable_timing=True)
        self._staging = _page_locked(cupy, 2**16)
        self._kept: list[Array] = []
        self._calling, self._ending = threading.Lock(), threading.Lock()
        self._aborted = False

    def carries(self, x: Any) -> bool:
        return is_device_array(x)

    def empty(self, n_bytes: int) -> Array:
        return self._cupy.empty(n_bytes, dtype=np.uint8)

    def view(self, buffer: Array, offset: int, shape: tuple, dtype: str) -> Array:
        """Part of a buffer as an array."""
        return self._cupy.ndarray(shape, dtype=dtype, memptr=buffer.data + offset)

    def write(self, buffer: Array, data: bytes) -> None:
        """Copy bytes in CPU memory to the front of a buffer."""
        buffer[: len(data)].set(np.frombuffer(data, dtype=np.uint8))

    def read(self, buffer: Array) -> bytes:
        """Copy a buffer to CPU memory when all transfers are done."""
        if buffer.size > self._staging.size:
            self._staging = _page_locked(self._cupy, buffer.size)
        host = self._staging[: buffer.size]
        buffer.get(stream=self._stream, out=host, blocking=False)
        self.wait()
        return host.tobytes()

    def broadcast(self, buffers: Sequence[Array]) -> None:
        with self._group(buffers) as (nccl, stream):
            for x in buffers:
                pointer = x.data.ptr
                self._communicator.broadcast(pointer, pointer, x.size, nccl.NCCL_UINT8, 0, stream)

    def send(self, target: int, buffers: Sequence[Array]) -> None:
        with self._group(buffers) as (nccl, stream):
            for x in buffers:
                self._communicator.send(x.data.ptr, x.size, nccl.NCCL_UINT8, target, stream)

    def receive(self, buffers: Mapping[int, Sequence[Array]]) -> None:
        """From ranks: some buffers of each."""
        with self._group([x for of_one in buffers.values() for x in of_one]) as (nccl, stream):
            for peer, of_one in buffers.items():
                for x in of_one:
                    self._communicator.recv(x.data.ptr, x.size, nccl.NCCL_UINT8, peer, stream)

    @contextmanager
    def _group(self, buffers) -> Iterator[tuple[Any, int]]:
        """Transfers that NCCL does as one, after the work queued on the current stream."""
        with self._calling:
            self._raise_if_ended()
            self._kept.extend(buffers)
            self._before.record()
            self._stream.wait_event(self._before)
            with self._as_rank_lost():
                self._nccl.groupStart()
                try:
                    yield self._nccl, self._stream.ptr
                finally:
                    self._nccl.groupEnd()

    @contextmanager
    def _as_rank_lost(self):
        try:
            yield
        except self._nccl.NcclError as error:
            raise RankLost(f"NCCL failed on rank {self.rank} of {self.size}: {error}") from error

    def wait(self) -> None:
        """Return when all transfers are done."""
        self._done.record(self._stream)
        if not _wait_until(self._is_done, EAGER_SECONDS, 0.0):
            _wait_until(self._is_done_or_failed, None, NAP_SECONDS)
        self._raise_if_ended()
        self._kept.clear()

    def _is_done(self):
        return self._done.done or self._aborted

    def _is_done_or_failed(self):
        if self._is_done():
            return True
        with self._calling, self._as_rank_lost():
            if not self._aborted:
                self._communicator.check_async_error()
        return False

    def _raise_if_ended(self):
        if not self._aborted:
            return
        # NCCL may still write to the buffers until the end has reached the GPU.
        self._done.record(self._stream)
        if not _wait_until(lambda: self._done.done, GRACE_SECONDS, NAP_SECONDS):
            _never_freed.append(list(self._kept))
        self._kept.clear()
        raise RankLost(f"The communicator was ended on rank {self.rank} of {self.size}.")

    def abort(self) -> None:
        """End the communicator, from any thread; also the way to end one that is idle.

        ``ncclCommDestroy`` would wait for the other ranks, which may be gone.
        """
        if not self._ending.acquire(blocking=False):
            return  # done already, or being done
        self._aborted = True
        # A call under way ends soon, unless it waits for a rank that is gone: then only this helps.
        entered = self._calling.acquire(timeout=GRACE_SECONDS)
        try:
            with self._cupy.cuda.Device(self.place.device.id):
                self._communicator.abort()
        finally:
            if entered:
                self._calling.release()


def _page_locked(cupy, n_bytes):
    memory = cupy.cuda.alloc_pinned_memory(n_bytes)
    return np.frombuffer(memory, dtype=np.uint8, count=n_bytes)


def _wait_until(done: Callable[[], bool], seconds: float | None, nap: float) -> bool:
    """Whether something came true within some time; looks again after each nap."""
    start = time.perf_counter()
    while not done():
        if seconds is not None and time.perf_counter() - start > seconds:
            return False
        time.sleep(nap)  # lets other threads run, also where it is zero
    return True
