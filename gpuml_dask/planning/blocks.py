"""Blocks of rows: their bounds, their workers, and the order in which their sums are added.

Bounds and order follow the data alone, never the number of workers or their names, so that a sum is
the same to the last bit on any cluster and after any loss.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

MIB = 1 << 20
SMALLEST_BLOCK, USUAL_BLOCK, LARGEST_BLOCK = 16 * MIB, 64 * MIB, 256 * MIB
# Enough blocks to balance eight to thirty-two devices; and as many as a scheduler of a thousand
# tasks per second handles in seconds.
ENOUGH_BLOCKS, MANY_BLOCKS = 256, 4096
# Sums that a node of a tree adds. A power of two, so that the sums are those of
# `gpuml.divided.tree`.
ARITY = 8


def block_size(n_bytes: int) -> int:
    """Bytes of a block for that many bytes of rows: 16 MiB to 256 MiB."""
    size = np.clip(n_bytes // ENOUGH_BLOCKS, SMALLEST_BLOCK, USUAL_BLOCK)
    return int(np.clip(n_bytes // MANY_BLOCKS, size, LARGEST_BLOCK))


def cut_rows(
    n_rows: int,
    row_bytes: int,
    chunk_bounds: Sequence[int] | np.ndarray | None = None,
    *,
    block_bytes: int | None = None,
    joined_bytes: int | None = None,
) -> np.ndarray:
    """Cut rows into blocks: their bounds, strictly increasing from 0 to `n_rows`.

    `chunk_bounds` are the rows at which chunks begin, and `n_rows`. Neighbours of less than half of
    `joined_bytes` (by default, of a block) are joined to that, and chunks above 256 MiB, or above a
    block if that is larger, are cut evenly; all other blocks are chunks. `block_bytes` is wanted in
    a block; without it, `block_size` follows the size of the data.

    >>> cut_rows(8_000_000, 400)[[0, 1, -1]]
    array([      0,   41884, 8000000])
    """
    if n_rows == 0:
        return np.zeros(1, dtype=np.int64)
    row_bytes = max(int(row_bytes), 1)
    wanted = max(1, block_bytes or block_size(n_rows * row_bytes))
    if chunk_bounds is None:
        n_blocks = max(1, min(n_rows, -(-n_rows * row_bytes // wanted)))
        return np.arange(n_blocks + 1, dtype=np.int64) * n_rows // n_blocks
    chunks = np.asarray(chunk_bounds, dtype=np.int64)
    if chunks[0] != 0 or chunks[-1] != n_rows or np.any(np.diff(chunks) < 0):
        raise ValueError(f"Bounds of chunks do not go from 0 to {n_rows}.")
    parts = _cut_large(np.unique(chunks), max(1, max(wanted, LARGEST_BLOCK) // row_bytes))
    # Small chunks are joined with those whose middle is in the same interval of the wanted length.
    joined = max(1, joined_bytes or wanted)
    stretch = (parts[:-1] + parts[1:]) * row_bytes // (2 * joined)
    large = np.diff(parts) * row_bytes * 2 >= joined
    begins = large | np.r_[True, large[:-1]] | (np.diff(stretch, prepend=-1) > 0)
    return np.append(parts[:-1][begins], n_rows)


def _cut_large(bounds, most_rows):
    """The bounds, with more of them where an interval has more rows than `most_rows`."""
    lengths = np.diff(bounds)
    cuts = -(-lengths // most_rows)
    owner = np.repeat(np.arange(len(lengths)), cuts)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    return np.append(bounds[owner] + nth * lengths[owner] // cuts[owner], bounds[-1])


def assign(
    block_sizes: Sequence[int], holders: Sequence[str | None], workers: Sequence[str]
) -> list[str]:
    """The worker of each block, if some worker or none has it already; see `balance`.

    >>> assign([9, 9, 9], ["b", None, "a"], ["a", "b", "c"])
    ['b', 'c', 'a']
    """
    index: dict[str | None, int] = {name: i for i, name in enumerate(workers)}
    held = np.array([index.get(holder, -1) for holder in holders], dtype=np.int64)
    return [workers[i] for i in balance(np.asarray(block_sizes), len(workers), held)]


def balance(
    block_bytes: np.ndarray, n_workers: int, holders: np.ndarray | None = None
) -> np.ndarray:
    """The index of a worker for each block, from the arguments alone.

    No worker gets more than the average and one (largest) block. A block stays with its holder (an
    index in `holders`, -1 for none) as long as that has no more; all others go, in order and
    neighbours together, to workers that have less than the average.
    """
    if n_workers < 1:
        raise ValueError("There is no worker to give blocks to.")
    sizes = np.asarray(block_bytes, dtype=np.float64)
    if len(sizes) == 0:
        return np.zeros(0, dtype=np.int64)
    average = sizes.sum() / n_workers
    if holders is None:
        owners = np.full(len(sizes), -1)
    else:
        owners = np.array(holders, dtype=np.int64)
        owners[_held_so_far(owners, sizes) > average + sizes.max()] = -1
    kept = owners >= 0
    loads = np.bincount(owners[kept], weights=sizes[kept], minlength=n_workers)
    room = np.cumsum(np.maximum(average - loads, 0.0))
    free = sizes[~kept]
    if len(free):
        middles = np.cumsum(free) - free / 2
        # Rounding may put the last middle slightly beyond all room.
        room *= free.sum() / room[-1] if room[-1] > 0 else 1.0
        owners[~kept] = np.minimum(np.searchsorted(room, middles), n_workers - 1)
    return owners


def _held_so_far(holders, sizes):
    """For each block, the bytes of it and of earlier blocks of the same holder."""
    order = np.argsort(holders, kind="stable")
    sums = np.cumsum(sizes[order])
    first = np.searchsorted(holders[order], holders[order])
    before = np.concatenate([[0.0], sums])[first]
    out = np.empty_like(sizes)
    out[order] = sums - before
    return out


def neighbours(items: Sequence[T]) -> list[Sequence[T]]:
    """The items of each node of a tree's next level, which adds neighbours in order."""
    return [items[i : i + ARITY] for i in range(0, len(items), ARITY)]
