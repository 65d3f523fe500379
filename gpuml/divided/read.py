"""Holders whose pieces are read on demand, ahead of their use."""

import operator
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Place, is_array, nbytes
from gpuml._arrays.threads import one_blas_thread, ordered_map
from gpuml._persistence.stored import mapped
from gpuml.data import reads_features
from gpuml.divided.batch import Share
from gpuml.divided.holders import InProcess, moved, tree

# The result for a piece is kept if it takes at most this part of the piece.
SMALL_PART = 4
# The part of the memory for kept pieces that is reserved for results.
LEFT_PART = 4


class Room:
    """A budget of memory in bytes, shared by threads."""

    def __init__(self, size: int):
        self.size = self.free = size
        self._lock = threading.Lock()

    def take(self, size: int, *, leave: int = 0) -> bool:
        """Reserve so many bytes, if they and `leave` are free."""
        with self._lock:
            if self.free < size + leave:
                return False
            self.free -= size
            return True

    def give(self, size: int) -> None:
        """Give back what was taken."""
        with self._lock:
            self.free += size


class Kept:
    """What is kept of some pieces, by their numbers; the memory goes back with it.

    `wants` says whether any of it is small enough to be kept.
    """

    def __init__(self, room: Room):
        self._room, self._taken, self.wants = room, 0, True
        self._of: dict[int, Any] = {}

    def __contains__(self, i: int) -> bool:
        return i in self._of

    def __getitem__(self, i: int) -> Any:
        return self._of[i]

    def offer(self, i: int, value: Any, size: int, *, leave: int = 0) -> None:
        """Keep a value if there is room."""
        if i not in self._of and self._room.take(size, leave=leave):
            self._taken += size
            self._of[i] = value

    def __del__(self):
        self._room.give(self._taken)


class Readings:
    """Counts the pieces that were read, whether from files or, again, from memory."""

    n_pieces = 0


@dataclass(frozen=True)
class Pieces:
    """Rows X of a table between bounds, with y and weights that are in memory.

    Attributes
    ----------
    decoded : callable
        What is read of spans of rows in ascending order, one after the other.
    filled : callable
        The array X of what was read.
    fillers : int
        Threads that make arrays of what was read.
    spans : sequence of slice
        The rows of each piece.
    y, weight : array or None
        Of all rows.
    kept : Kept
        Blocks that stay in memory.
    room : Room
        For what else may be kept.
    readings : Readings
        Is told of each reading.
    """

    decoded: Callable[[Sequence[slice]], Generator[Any]]
    filled: Callable[[Any], np.ndarray]
    fillers: int
    spans: Sequence[slice]
    y: Any
    weight: Any
    n_features: int
    dtype: Any
    kept: Kept
    room: Room
    readings: Readings

    def read(self, wanted: Sequence[int]) -> Generator[Share]:
        """Shares of some pieces, in ascending order; the next ones are read meanwhile."""
        self.readings.n_pieces += len(wanted)
        there = [i for i in wanted if i not in self.kept]
        with closing(self._blocks(there)) as blocks:
            for i in wanted:
                if i in self.kept:
                    X = self.kept[i]
                else:
                    X = next(blocks)
                    self.kept.offer(i, X, X.nbytes, leave=self.room.size // LEFT_PART)
                yield Share(X, self._of(self.y, i), self._of(self.weight, i))

    def _blocks(self, wanted: Sequence[int]) -> Generator[np.ndarray]:
        """Rows of some pieces: a thread decodes them, and others make arrays of them."""
        spans = [self.spans[i] for i in wanted]
        with (
            closing(self.decoded(spans)) as decoded,
            closing(ordered_map(lambda _: next(decoded), spans, 1)) as ahead,
            closing(ordered_map(self.filled, ahead, self.fillers)) as blocks,
        ):
            yield from blocks

    def without_features(self, i: int) -> Share:
        """A share without values of X, which take no memory."""
        n = self.spans[i].stop - self.spans[i].start
        X = np.broadcast_to(np.zeros((), dtype=self.dtype), (n, self.n_features))
        return Share(X, self._of(self.y, i), self._of(self.weight, i))

    def _of(self, column, i):
        return None if column is None else column[self.spans[i], ...]


@dataclass(frozen=True)
class Made:
    """What makes pieces from those of other holders, and what is kept of these."""

    before: "Read"
    make: Callable[[Any, int], Any]
    kept: Kept


@dataclass(frozen=True)
class Read:
    """Holders whose pieces are read at each call; see `gpuml.data.Holders`.

    What a `map` makes of pieces is made again at each call, unless it is small: then it is kept,
    and pieces are not read for it any more.

    Attributes
    ----------
    pieces : Pieces
    place : Place
        Where results come to.
    threads : int
        How many pieces are worked on at once.
    made : Made or None
        How these are made; None for those that are read.
    light : Read or None
        The same pieces without values of X; None if these are.
    """

    pieces: Pieces
    place: Place
    threads: int
    made: Made | None = None
    light: "Read | None" = None

    def __len__(self) -> int:
        return len(self.pieces.spans)

    def map(
        self, function: Callable[..., Any], *args: Any, each_with: Sequence[Any] | None = None
    ) -> "Read":
        """The results of a function for every piece, computed on demand."""

        def make(piece, i):
            return function(piece, *args, *(() if each_with is None else (each_with[i],)))

        def after(holders, light):
            made = Made(holders, make, Kept(self.pieces.room))
            return replace(holders, made=made, light=light)

        return after(self, None if self.light is None else after(self.light, None))

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Results of a function of every piece."""
        with self._alone(), closing(self._results(function, args)) as results:
            return list(results)

    def total(
        self,
        function: Callable[..., Any],
        *args: Any,
        combine: Callable[[Any, Any], Any] = operator.add,
    ) -> Any:
        """Results of a function of every piece, combined as they arrive."""
        with self._alone(), closing(self._results(function, args)) as results:
            return tree(results, combine)

    def gathered(
        self, function: Callable[..., Any], build: Callable[[list[Any]], Any]
    ) -> InProcess:
        """What is built of the results of a function of every piece, as the only piece."""
        return InProcess([build(self.each(function))], self.place)

    def _alone(self):
        return one_blas_thread() if self.threads > 1 else nullcontext()

    def _results(self, function: Callable[..., Any], args: Sequence[Any]) -> Generator[Any]:
        """Results in the order of the pieces."""
        light = not reads_features(function)
        states = self.light if light and self.light is not None else self
        wanted = [i for i in range(len(self)) if not states._is_kept(i)]

        def result(item):
            i, share = item
            return moved(function(states._piece(i, share), *args), self.place)

        with closing(states._shares(wanted)) as shares:
            items = ((i, None if states._is_kept(i) else next(shares)) for i in range(len(self)))
            if self.threads == 1:
                yield from map(result, items)
                return
            # Settings of the caller hold in the threads.
            runs = ((copy_context(), item) for item in items)
            found = ordered_map(lambda run: run[0].run(result, run[1]), runs, self.threads)
            with closing(found):
                yield from found

    def _shares(self, wanted: Sequence[int]) -> Generator[Share]:
        if self.light is None:
            return (self.pieces.without_features(i) for i in wanted)
        return self.pieces.read(wanted)

    def _is_kept(self, i: int) -> bool:
        """Whether a piece is there without its rows being read."""
        if self.made is None:
            return False
        kept = self.made.kept
        return (i in kept and not kept[i].has_hole) or self.made.before._is_kept(i)

    def _piece(self, i: int, share: Share | None) -> Any:
        if self.made is None:
            return share
        kept = self.made.kept
        if i in kept:
            return kept[i].filled(None if share is None else share.X)
        found = self.made.make(self.made.before._piece(i, share), i)
        if share is not None and kept.wants:
            rest = Rest.of(found, share.X)
            # Those of the other pieces are no smaller.
            kept.wants = rest.is_small
            if kept.wants:
                kept.offer(i, rest.alone(), rest.n_bytes)
        return found


def read(pieces: Pieces, place: Place, threads: int) -> Read:
    """Holders of pieces of a table."""
    return Read(pieces, place, threads, light=Read(pieces, place, threads))


class _Hole:
    """Stands where the rows X of a piece were."""


@dataclass(frozen=True)
class Rest:
    """The result for a piece, without the rows, which are read again."""

    value: Any
    n_bytes: int
    has_hole: bool
    is_small: bool

    @classmethod
    def of(cls, value: Any, X: np.ndarray) -> "Rest":
        """What remains of a value without X."""
        sizes, holes = [0], [False]

        def own(x):
            if not isinstance(x, np.ndarray):
                if is_array(x) and not isinstance(x, np.generic):
                    sizes.append(nbytes(x))
                return x
            if _is_same(x, X):
                holes.append(True)
                return _Hole()
            if not _takes_none(x):
                sizes.append(x.nbytes)
            return x.view()

        rest = mapped(value, own)
        return cls(rest, sum(sizes), any(holes), sum(sizes) <= X.nbytes // SMALL_PART)

    def alone(self) -> "Rest":
        """A copy with its own arrays, so that it does not keep larger ones alive."""
        return replace(self, value=mapped(self.value, _own))

    def filled(self, X: np.ndarray | None) -> Any:
        """The value with X in it: new records each time, which keep what they look up."""

        def leaf(x):
            if isinstance(x, _Hole):
                return X
            return x.view() if isinstance(x, np.ndarray) else x

        return mapped(self.value, leaf)


def _own(x):
    is_part = isinstance(x, np.ndarray) and x.base is not None and not _takes_none(x)
    return x.copy() if is_part else x


def _is_same(x, X):
    """Whether an array is X, or a view of all of it."""
    alike = x.shape == X.shape and x.strides == X.strides and x.dtype == X.dtype
    return alike and x.__array_interface__["data"] == X.__array_interface__["data"]


def _takes_none(x):
    """Whether an array repeats one value."""
    return x.ndim > 0 and not any(x.strides)
