"""Blocks of CPU memory and files in buffers of a GPU, each filled while others are worked on.

No thread of the CPU waits for what the GPU can wait for by itself. A block is handed out when its
copies are queued, and work on it waits for their end; copies into a buffer wait for the work that
was queued on the block before. So copies of one block follow those of the last without a gap.
"""

import queue
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import HOST, is_array, move, place_of
from gpuml.encodings import Packed
from gpuml.reading.files import has_direct_reads, read_directly, stretch_of
from gpuml.reading.sources import Source

# One block is worked on, one is there, and one is on its way.
N_BUFFERS = 3


class Buffer:
    """GPU memory, and the event after which it may be written to again."""

    def __init__(self):
        self.memory: Any = None
        self.released: Any = None


class Arrival(NamedTuple):
    """A block, or why there is none; `ticket` is None where it is there already."""

    part: slice | None
    block: Any
    buffer: Buffer | None
    ticket: Any
    error: BaseException | None = None


class CudaMemory:
    """GPU memory of a place, and how CPU memory gets there."""

    def __init__(self, place: Any):
        import cupy

        from gpuml._arrays.staging import cuda_stager

        self._cupy = cupy
        self.stager, self.link = cuda_stager(cupy.cuda.Device(place.device.id))

    def empty(self, n_bytes: int) -> Any:
        """Bytes on the current device."""
        return self._cupy.empty(n_bytes, dtype=self._cupy.uint8)

    def address(self, memory: Any) -> int:
        """Where they are."""
        return memory.data.ptr

    def finish(self) -> None:
        """Wait for what the caller queued: rows may have been made on the GPU."""
        self._cupy.cuda.get_current_stream().synchronize()


class Blocks:
    """Blocks of a source on a device, in order, from a thread that ends with `close`.

    Parameters
    ----------
    source : Source
    parts : list of slice
    memory : CudaMemory
    """

    def __init__(self, source: Source, parts: list[slice], memory: Any):
        self._source, self._parts, self._memory = source, parts, memory
        self._free: queue.SimpleQueue = queue.SimpleQueue()
        self._ready: queue.SimpleQueue = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._buffers = [Buffer() for _ in range(min(N_BUFFERS, len(parts)))]
        for buffer in self._buffers:
            self._free.put(buffer)
        self._reader = threading.Thread(target=self._read_all, name="gpuml-blocks", daemon=True)

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        link = self._memory.link
        self._reader.start()
        try:
            for _ in self._parts:
                arrival = self._ready.get()
                if arrival.error is not None:
                    raise arrival.error
                if arrival.ticket is not None:
                    arrival.ticket.wait()
                    link.hold(arrival.ticket.arrived)
                yield arrival.part, arrival.block
                arrival.buffer.released = link.mark()
                self._free.put(arrival.buffer)
        finally:
            self._close()

    def _close(self):
        self._stopped.set()
        self._free.put(None)
        self._reader.join()
        self._memory.stager.close()
        # Buffers are about to go back to a pool, which knows nothing of the streams that use them.
        self._memory.link.mark().synchronize()

    # ------------------------------------------------------------ in the thread

    def _read_all(self):
        try:
            with self._memory.link.here():
                for part in self._parts:
                    buffer = self._free.get()
                    if self._stopped.is_set():
                        return
                    self._ready.put(self._sent(part, buffer))
        except BaseException as error:  # for the thread that waits
            self._ready.put(Arrival(None, None, None, None, error))

    def _sent(self, part, buffer):
        block = self._source.slice_of(part)
        data = block.data if isinstance(block, Packed) else block
        if is_array(data) and not place_of(data).is_host:
            self._memory.finish()
            return Arrival(part, block, buffer, None)  # what was read went to a GPU by itself
        data = move(data, HOST)
        there, address = self._room(data, buffer)
        ticket = None
        stretch = stretch_of(data) if has_direct_reads() else None
        if stretch is None:
            self._memory.link.after(buffer.released)
            ticket = self._memory.stager.copy(data, address)
        else:
            buffer.released.synchronize()
            read_directly(stretch, buffer.memory[: data.nbytes])
        there = block.of(there) if isinstance(block, Packed) else there
        return Arrival(part, there, buffer, ticket)

    def _room(self, data: np.ndarray, buffer: Buffer):
        """An array of a buffer for some data, and its address."""
        if buffer.memory is None or buffer.memory.size < data.nbytes:
            if buffer.memory is not None:
                buffer.released.synchronize()
            buffer.memory = None  # before more is asked for
            buffer.memory = self._memory.empty(data.nbytes)
            # Work may still be queued on memory that was freed before.
            buffer.released = self._memory.link.mark()
        there = buffer.memory[: data.nbytes].view(data.dtype).reshape(data.shape)
        return there, self._memory.address(buffer.memory)
