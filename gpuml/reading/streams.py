"""Blocks of rows at the place of the work, the next ones on their way meanwhile."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuml._arrays import HOST, Place, is_array, move, place_of, synchronize
from gpuml._threads import ordered_map
from gpuml.encodings import Packed
from gpuml.reading.files import has_direct_reads, read_directly, stretch_of
from gpuml.reading.sources import Source

# Bytes of a block as it is stored. What a block is widened to, it is widened to by parts.
HOST_BLOCK_BYTES = 2**26
GPU_BLOCK_BYTES = 2**28
RESIDENT_BLOCK_BYTES = 2**30
# One block is worked on, one is there, and one is on its way.
N_BUFFERS = 3


def parts_of(source: Source, place: Place, block_bytes: int | None) -> list[slice]:
    """Slices of a source that are blocks: whole chunks where it has some.

    They depend on the matrix and on the kind of the place alone.
    """
    usual = HOST_BLOCK_BYTES if place.is_host else GPU_BLOCK_BYTES
    if source.place is not None and not source.place.is_host:
        usual = RESIDENT_BLOCK_BYTES
    rows = max(1, (block_bytes or usual) // max(source.row_bytes, 1))
    if source.chunk > 1:
        rows = max(rows // source.chunk, 1) * source.chunk
    return [
        slice(first, min(first + rows, source.length)) for first in range(0, source.length, rows)
    ]


def blocks(source: Source, parts: list[slice], place: Place) -> Iterator[tuple[slice, Any]]:
    """Blocks at a place, in order. Each is to be done with before the next one is asked for."""
    is_of_host = source.place is None or source.place.is_host
    if place.kind == "cupy" and is_of_host:
        yield from _on_gpu(source, parts, place)
    elif source.place is None:
        read = ordered_map(lambda part: at_place(_read(source, part), place), parts, 1)
        yield from zip(parts, read, strict=True)
    else:
        for part in parts:
            yield part, at_place(source.slice_of(part), place)


def at_place(block: Any, place: Place) -> Any:
    """A block of any kind, at a place."""
    if isinstance(block, Packed):
        return block.of(move(block.data, place))
    return move(block, place)


def _read(source, part):
    """A block of a file, in memory: pages of a memory map are read by whoever touches them."""
    block = source.slice_of(part)
    if isinstance(block, Packed):
        return block.of(_in_memory(block.data))
    return _in_memory(block)


def _in_memory(x):
    return np.array(x, order="C", copy=True) if isinstance(x, np.ndarray) else x


# ---------------------------------------------------------------- to a GPU


def _on_gpu(source, parts, place):
    """Blocks of host memory or files, copied by another thread into buffers that are used again."""
    import cupy

    device = cupy.cuda.Device(place.device.id)
    free: queue.Queue = queue.Queue()
    ready: queue.Queue = queue.Queue()
    stopped = threading.Event()
    for _ in range(min(N_BUFFERS, len(parts))):
        free.put(None)

    def fill():
        try:
            with device:
                for part in parts:
                    buffer = free.get()
                    if stopped.is_set():
                        return
                    ready.put((part, *_filled(source, part, buffer, cupy), None))
        except BaseException as error:  # for the thread that waits
            ready.put((None, None, None, error))

    reader = threading.Thread(target=fill, name="gpuml-blocks", daemon=True)
    reader.start()
    try:
        for _ in parts:
            part, block, buffer, error = ready.get()
            if error is not None:
                raise error
            yield part, block
            synchronize(place)  # whoever copies next into the buffer does so on another stream
            free.put(buffer)
    finally:
        stopped.set()
        free.put(None)
        reader.join()


def _filled(source, part, buffer, cupy):
    """A block on the current device, and the buffer that it lies in."""
    from gpuml._staging import copy_staged

    block = source.slice_of(part)
    data = block.data if isinstance(block, Packed) else block
    if is_array(data) and not place_of(data).is_host:
        return block, buffer  # what was read went to a GPU by itself
    stretch = stretch_of(data) if has_direct_reads() else None
    if stretch is None:
        data = np.ascontiguousarray(move(data, HOST))
    if buffer is None or buffer.size < data.nbytes:
        buffer = cupy.empty(data.nbytes, dtype=cupy.uint8)
        cupy.cuda.get_current_stream().synchronize()  # work on memory that was freed before
    bytes_there = buffer[: data.nbytes]
    there = bytes_there.view(data.dtype).reshape(data.shape)
    if stretch is None:
        copy_staged(data, there)
    else:
        read_directly(stretch, bytes_there)
    return (block.of(there) if isinstance(block, Packed) else there), buffer
