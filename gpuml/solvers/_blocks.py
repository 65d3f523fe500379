"""Reading rows block by block: bounded memory, threads on a CPU, smaller blocks if it runs out."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, free_memory, is_out_of_memory, move, namespace
from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.data import Batch, Rows, count_rows, cut, take

# A block of float64 workspace on a CPU stays in the cache of one core; on a GPU it is long
# enough to hide launches and short enough to leave memory alone.
CPU_BLOCK_BYTES = 2**20
GPU_BLOCK_BYTES = 2**28
# Threads get a run of blocks at a time, of about so many multiplications: long enough that adding
# up their totals costs little, and short enough that no thread waits for the last run of another.
# The boundaries follow the data alone, so sums are the same to the last bit for any number of
# threads.
CHUNK_PRODUCTS, CHUNK_ROWS = 5e7, 2**15
# With fewer multiplications, waking threads costs more than it saves.
THREADED_FROM_PRODUCTS = 2e8
# Each thread has its own sum matrix; above this size, BLAS threads are faster.
THREAD_TOTAL_BYTES = 2**25
SMALLEST_BLOCK_ROWS = 256


@dataclass(frozen=True)
class Blocks:
    """How to read the rows of a batch: where to, and in pieces of what size.

    Sums are matrices of `n_columns`, of which a block's workspace has `n_copied`, if not all.
    """

    batch: Batch
    n_columns: int
    block_bytes: int | None = None
    advance: Callable[[int], None] | None = None
    n_copied: int | None = None

    @property
    def place(self) -> Place:
        return self.batch.work

    @property
    def rows_per_block(self) -> int:
        row_bytes = 8 * (self.n_copied or self.n_columns)
        if self.block_bytes is not None:
            return max(1, self.block_bytes // row_bytes)
        if self.place.is_host:
            # At least twice as many rows as columns: fewer would spend the time on the total.
            return max(CPU_BLOCK_BYTES // row_bytes, 2 * self.n_columns, SMALLEST_BLOCK_ROWS)
        return max(GPU_BLOCK_BYTES // row_bytes, SMALLEST_BLOCK_ROWS)

    def read(self, rows: Rows) -> tuple[Array, Array, Array | None]:
        """One block of X, y and weight, on `place`."""
        batch = self.batch
        xp = namespace(batch.X)
        parts = [None if a is None else take(a, rows, xp) for a in (batch.X, batch.y, batch.weight)]
        X, y, weight = (move(a, self.place) for a in parts)
        return batch.rows(X), y, weight

    def done(self, n_rows: int) -> None:
        if self.advance is not None:
            self.advance(n_rows)


def sum_blocks(
    blocks: Blocks,
    atoms: tuple[Rows, ...],
    start: Callable[[], Any],
    add: Callable[..., Any],
    merge: Callable[[Any, Any], Any],
) -> list[Any]:
    """For each atom, ``add(... add(add(start(), a, *block 1), a, *block 2) ...)`` over its rows.

    Its number is a, and a block is X, y and weight (see `Blocks.read`). Threads do this on runs of
    blocks, and `merge` joins two such sums. When memory runs out, everything is started again with
    blocks of a quarter of the size.

    Raises
    ------
    MemoryError
        If not even the smallest block fits.
    """
    while True:
        try:
            return _sum_blocks(blocks, atoms, start, add, merge)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            columns = blocks.n_copied or blocks.n_columns
            smaller = blocks.rows_per_block // 4 * 8 * columns
            if blocks.rows_per_block // 4 < SMALLEST_BLOCK_ROWS:
                raise MemoryError(
                    f"Not enough memory on {blocks.place} for blocks of {blocks.rows_per_block} "
                    f"rows x {blocks.n_columns} columns and their {blocks.n_columns} x "
                    f"{blocks.n_columns} moments. Free memory there, set a smaller "
                    "gpuml.set_config(block_bytes=...), or use gpuml.set_config(device='cpu')."
                ) from error
            free_memory(blocks.place)
            blocks = replace(blocks, block_bytes=smaller)


def _sum_blocks(blocks, atoms, start, add, merge):
    n_rows = sum(count_rows(atom) for atom in atoms)
    threads = _thread_count(blocks, n_rows)
    if threads == 1:
        # BLAS has threads for totals that are too large for one thread each, and for those alone.
        few = blocks.place.is_host and 8 * blocks.n_columns**2 <= THREAD_TOTAL_BYTES
        with one_blas_thread() if few else nullcontext():
            return [_sum_rows(blocks, i, atom, start(), add) for i, atom in enumerate(atoms)]
    rows = _rows_of_chunks(blocks)
    chunks = [(i, chunk) for i, atom in enumerate(atoms) for chunk in cut(atom, rows)]
    totals = [start() for _ in atoms]
    with one_blas_thread():
        parts = ordered_map(lambda c: _sum_rows(blocks, c[0], c[1], start(), add), chunks, threads)
        for (i, _), part in zip(chunks, parts, strict=True):
            totals[i] = merge(totals[i], part)
    return totals


def _rows_of_chunks(blocks):
    """Rows of a run of blocks, many more than columns: a total has that many rows."""
    size, q = blocks.rows_per_block, blocks.n_columns
    n_rows = max(4 * q, min(CHUNK_PRODUCTS / q**2, CHUNK_ROWS))
    return size * math.ceil(n_rows / size)


def _sum_rows(blocks, atom, rows, total, add):
    with quiet():
        for piece in cut(rows, blocks.rows_per_block):
            total = add(total, atom, *blocks.read(piece))
            blocks.done(count_rows(piece))
    return total


def quiet():
    """No NumPy warnings here: sums over rows with nan or inf are looked at when they are done."""
    return np.errstate(over="ignore", invalid="ignore")


def _thread_count(blocks, n_rows):
    if blocks.place.kind != "numpy" or not may_limit_blas():
        return 1
    q = blocks.n_columns
    if n_rows * q * q < THREADED_FROM_PRODUCTS or 8 * q * q > THREAD_TOTAL_BYTES:
        return 1
    return blas_threads()
