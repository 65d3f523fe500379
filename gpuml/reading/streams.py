"""Blocks of rows at the place of the work, the next ones on their way meanwhile."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuml._arrays import Place, move
from gpuml._arrays.threads import ordered_map
from gpuml.encodings import Packed
from gpuml.reading.buffers import Blocks, CudaMemory
from gpuml.reading.sources import Source

# Bytes of a block as it is stored. What a block is widened to, it is widened to by parts.
HOST_BLOCK_BYTES = 2**26
GPU_BLOCK_BYTES = 2**28
RESIDENT_BLOCK_BYTES = 2**30


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
        yield from Blocks(source, parts, CudaMemory(place))
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
    """A block of a file, in memory: pages of a memory map are read when they are touched."""
    block = source.slice_of(part)
    if isinstance(block, Packed):
        return block.of(_in_memory(block.data))
    return _in_memory(block)


def _in_memory(x):
    # In the order that it has: for another one BLAS may round otherwise than for arrays in memory.
    return np.array(x, order="K", copy=True) if isinstance(x, np.ndarray) else x
