"""Pieces of rows: where they are cut, who holds which, and in which order their sums are added.

Bounds and order follow the data alone, never the number of workers or who is there, so that a sum
is the same to the last bit on any cluster and after any loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

MIB = 1 << 20
SMALLEST_PIECE, USUAL_PIECE, LARGEST_PIECE = 16 * MIB, 64 * MIB, 256 * MIB
# As many pieces as leave eight to thirty-two devices well balanced; as many as a scheduler of a
# thousand tasks per second handles in seconds.
ENOUGH_PIECES, MANY_PIECES = 256, 4096


@dataclass(frozen=True)
class Chunks:
    """Chunks of rows as a user's collection has them, in order.

    Attributes
    ----------
    n_rows, n_bytes : int arrays (c,)
    holders : sequence of str or None, length c
        The worker that has each; None where nobody has (yet). Empty for nobody at all.
    """

    n_rows: np.ndarray
    n_bytes: np.ndarray
    holders: Sequence[str | None] = ()

    def __post_init__(self):
        object.__setattr__(self, "n_rows", np.asarray(self.n_rows, dtype=np.int64))
        object.__setattr__(self, "n_bytes", np.asarray(self.n_bytes, dtype=np.int64))
        lengths = {len(self.n_rows), len(self.n_bytes), len(self.holders) or len(self.n_rows)}
        if len(lengths) > 1:
            raise ValueError(f"Rows, bytes and holders of chunks differ in number: {lengths}.")

    @cached_property
    def bounds(self) -> np.ndarray:
        """Rows at which chunks begin, and the number of rows (c + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_rows)])

    def holder_indices(self, workers: Sequence[str]) -> np.ndarray:
        """Index of the holder of each chunk among some workers, -1 for none of them (c,)."""
        if not self.holders:
            return np.full(len(self.n_rows), -1)
        index: dict[str | None, int] = {name: i for i, name in enumerate(workers)}
        found = (index.get(holder, -1) for holder in self.holders)
        return np.fromiter(found, dtype=np.int64, count=len(self.holders))


def piece_size(n_bytes: int) -> int:
    """Bytes of a piece for that many bytes of rows: 16 MiB to 256 MiB."""
    size = np.clip(n_bytes // ENOUGH_PIECES, SMALLEST_PIECE, USUAL_PIECE)
    return int(np.clip(n_bytes // MANY_PIECES, size, LARGEST_PIECE))


def cut_rows(
    n_rows: int,
    row_bytes: int,
    chunk_bounds: Sequence[int] | np.ndarray | None = None,
    *,
    piece_bytes: int | None = None,
    joined_bytes: int | None = None,
) -> np.ndarray:
    """Cut rows into pieces.

    Parameters
    ----------
    n_rows, row_bytes : int
    chunk_bounds : int array (c + 1,), default=None
        Rows at which chunks begin, and `n_rows`. Neighbours of less than half of `joined_bytes`
        are joined to that, and chunks above 256 MiB, or above a piece if that is larger, are cut
        evenly; all other pieces are chunks.
    piece_bytes : int, default=None
        Bytes wanted in a piece; None follows the size of the data, see `piece_size`.
    joined_bytes : int, default=None
        Bytes of what is joined of small chunks; None is a piece.

    Returns
    -------
    bounds : int array (n_pieces + 1,)
        Strictly increasing, from 0 to `n_rows`.

    Examples
    --------
    >>> from gpuml_dask.planning.pieces import cut_rows
    >>> cut_rows(8_000_000, 400)[[0, 1, -1]]
    array([      0,   41884, 8000000])
    """
    if n_rows == 0:
        return np.zeros(1, dtype=np.int64)
    row_bytes = max(int(row_bytes), 1)
    wanted = max(1, piece_bytes or piece_size(n_rows * row_bytes))
    if chunk_bounds is None:
        n_pieces = max(1, min(n_rows, -(-n_rows * row_bytes // wanted)))
        return np.arange(n_pieces + 1, dtype=np.int64) * n_rows // n_pieces
    chunks = np.asarray(chunk_bounds, dtype=np.int64)
    if chunks[0] != 0 or chunks[-1] != n_rows or np.any(np.diff(chunks) < 0):
        raise ValueError(f"Bounds of chunks do not go from 0 to {n_rows}.")
    parts = _cut_large(np.unique(chunks), max(1, max(wanted, LARGEST_PIECE) // row_bytes))
    # Small parts are joined with those whose middle is in the same stretch of the wanted length.
    joined = max(1, joined_bytes or wanted)
    stretch = (parts[:-1] + parts[1:]) * row_bytes // (2 * joined)
    large = np.diff(parts) * row_bytes * 2 >= joined
    begins = large | np.r_[True, large[:-1]] | (np.diff(stretch, prepend=-1) > 0)
    return np.append(parts[:-1][begins], n_rows)


def _cut_large(bounds, most_rows):
    """The same bounds, and more where stretches have more rows than `most_rows`."""
    lengths = np.diff(bounds)
    cuts = -(-lengths // most_rows)
    owner = np.repeat(np.arange(len(lengths)), cuts)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    return np.append(bounds[owner] + nth * lengths[owner] // cuts[owner], bounds[-1])


@dataclass(frozen=True)
class Overlaps:
    """Stretches of rows that are in one piece and one chunk.

    Attributes
    ----------
    n_pieces : int
    piece, holder : int arrays (o,)
        The piece of each, and the index of the worker that has it, -1 for none.
    n_bytes : float array (o,)
    """

    n_pieces: int
    piece: np.ndarray
    holder: np.ndarray
    n_bytes: np.ndarray

    def seen_by(self, members: np.ndarray, n_workers: int) -> "Overlaps":
        """The same, with holders as places in a team; -1 for those who are not in it."""
        place = np.full(n_workers + 1, -1)
        place[members] = np.arange(len(members))
        return replace(self, holder=place[self.holder])

    def held(self, n_workers: int) -> np.ndarray:
        """Bytes that each worker has (n_workers,)."""
        has = self.holder >= 0
        return np.bincount(self.holder[has], weights=self.n_bytes[has], minlength=n_workers)

    def main_holders(self) -> np.ndarray:
        """The worker with most bytes of each piece, the first of several; -1 for nobody."""
        holders = np.full(self.n_pieces, -1)
        has = self.holder >= 0
        width = int(self.holder.max(initial=0)) + 1
        key, where = np.unique(self.piece[has] * width + self.holder[has], return_inverse=True)
        sums = np.bincount(where, weights=self.n_bytes[has], minlength=len(key))
        order = np.lexsort((-key, sums))  # the last that is written to a place stays
        holders[key[order] // width] = key[order] % width
        return holders

    def bytes_to_move(self, owners: np.ndarray) -> int:
        """Bytes that are not where their piece is wanted."""
        return round(self.n_bytes[self.holder != owners[self.piece]].sum())


def overlaps(bounds: np.ndarray, chunks: Chunks, workers: Sequence[str]) -> Overlaps:
    """What pieces have in common with chunks. Rows of a chunk have the same size."""
    cuts = np.union1d(bounds, chunks.bounds)
    piece = np.searchsorted(bounds, cuts[:-1], side="right") - 1
    chunk = np.searchsorted(chunks.bounds, cuts[:-1], side="right") - 1
    row_bytes = chunks.n_bytes / np.maximum(chunks.n_rows, 1)
    holder = chunks.holder_indices(workers)[chunk]
    return Overlaps(len(bounds) - 1, piece, holder, np.diff(cuts) * row_bytes[chunk])


def assign(pieces: Chunks, workers: Sequence[str]) -> np.ndarray:
    """Say which worker gets which piece; see `balance`.

    Parameters
    ----------
    pieces : Chunks
        Pieces, and who has them.
    workers : sequence of str

    Returns
    -------
    owners : int array (n_pieces,)
        An index of a worker for each piece.

    Examples
    --------
    >>> from gpuml_dask.planning.pieces import Chunks, assign
    >>> assign(Chunks([9, 9, 9], [72, 72, 72], ["b", None, "a"]), ["a", "b", "c"])
    array([1, 2, 0])
    """
    return balance(pieces.n_bytes, len(workers), pieces.holder_indices(workers))


def balance(
    piece_bytes: np.ndarray, n_workers: int, holders: np.ndarray | None = None
) -> np.ndarray:
    """Say which worker gets which piece: an index of a worker for each piece.

    No worker gets more than the average and one (largest) piece. A piece stays with its holder as
    long as that has no more; all others go, in order and neighbours together, to those who have
    less than the average.

    Parameters
    ----------
    piece_bytes : array (n_pieces,)
    n_workers : int
    holders : int array (n_pieces,), default=None
        Index of the worker that has each piece, -1 for nobody.

    Returns
    -------
    owners : int array (n_pieces,)
        The same for the same arguments, whatever the machine.
    """
    if n_workers < 1:
        raise ValueError("There is no worker to give pieces to.")
    sizes = np.asarray(piece_bytes, dtype=np.float64)
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
        # Rounding may leave the last middle a bit past all room.
        room *= free.sum() / room[-1] if room[-1] > 0 else 1.0
        owners[~kept] = np.minimum(np.searchsorted(room, middles), n_workers - 1)
    return owners


def _held_so_far(holders, sizes):
    """For each piece the bytes of it and of all pieces before it that its holder has."""
    order = np.argsort(holders, kind="stable")
    sums = np.cumsum(sizes[order])
    first = np.searchsorted(holders[order], holders[order])
    before = np.concatenate([[0.0], sums])[first]
    out = np.empty_like(sizes)
    out[order] = sums - before
    return out


@dataclass(frozen=True)
class Tree:
    """The order in which sums of pieces are added: neighbours first, `arity` at a time.

    Attributes
    ----------
    n_leaves, arity : int
    levels : tuple of tuples of range
        Of each level the nodes of the level below (first of all the pieces) that a node adds, in
        order. The last level has one node. Empty for one piece.
    """

    n_leaves: int
    arity: int
    levels: tuple[tuple[range, ...], ...]

    @property
    def depth(self) -> int:
        """Number of levels: the logarithm of the number of pieces to the base `arity`."""
        return len(self.levels)

    @property
    def n_nodes(self) -> int:
        """Number of sums, the pieces' own not counted."""
        return sum(map(len, self.levels))


def reduction_tree(n_pieces: int, arity: int = 8) -> Tree:
    """The tree by which that many pieces are added.

    Examples
    --------
    >>> from gpuml_dask.planning.pieces import reduction_tree
    >>> [reduction_tree(n).depth for n in (1, 8, 64, 512, 4096)]
    [0, 1, 2, 3, 4]
    """
    if n_pieces < 1 or arity < 2:
        raise ValueError(f"A tree needs a piece and an arity of 2, not {n_pieces} and {arity}.")
    levels, n = [], n_pieces
    while n > 1:
        level = tuple(range(i, min(i + arity, n)) for i in range(0, n, arity))
        levels.append(level)
        n = len(level)
    return Tree(n_pieces, arity, tuple(levels))
