"""Rows of a collection that workers do not keep: each pass over them computes their chunks again.

A `Chunk` is a chunk's own part of the graph, computed by whoever needs its rows. An `Unread` stands
where a share of the rows would, and for what is made of it; what is small of that is kept.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import cloudpickle
import dask
import numpy as np
from dask.core import flatten, get_dependencies
from dask.sizeof import sizeof
from distributed import Client, Future, futures_of

from gpuml.data import reads_features
from gpuml.divided import Rest
from gpuml_dask._dask import graph_of
from gpuml_dask.planning.plan import byte_text
from gpuml_dask.rows import blocks
from gpuml_dask.rows.chunked import Rows, asked_facts, lost_chunks
from gpuml_dask.rows.inputs import CollectionRows
from gpuml_dask.waiting import release

# What more chunks than this are made of is computed once, and kept: a mean of all rows, say. What
# fewer need is computed for each: rows that were cut at other bounds.
MOST_READERS = 4


@dataclass(frozen=True)
class Chunk:
    """A chunk of rows, computed when it is needed.

    `packed` holds its part of the graph, its key there, and keys that the graph needs and lacks;
    `values` are those of these keys. `shape` and `dtype` are None where only the rows tell.
    """

    packed: bytes
    values: Sequence[Any]
    shape: tuple[int, ...] | None = None
    dtype: Any = None

    def block(self) -> Any:
        graph, key, needs = cloudpickle.loads(self.packed)
        for need, value in zip(needs, self.values, strict=True):
            graph[need] = (partial(blocks.same, value),)  # whatever Dask would take the value for
        return dask.get(graph, key)

    def described(self) -> blocks.Facts:
        return blocks.describe(self.block())

    def rows(self) -> Any:
        found = blocks.as_rows(self.block(), self.dtype)
        blocks.check_size(found, len(self))
        return found

    def without_values(self) -> np.ndarray:
        """An array like the chunk that takes no memory."""
        return np.broadcast_to(np.zeros((), dtype=self.dtype), self.shape or ())

    def __len__(self) -> int:
        return 0 if self.shape is None else self.shape[0]


class Unread:
    """What a function makes of a chunk's share of the rows, once a sum of it is computed.

    ``make(x, *args)`` makes it of X, or of what `before` stands for.
    """

    def __init__(
        self, chunk: Chunk, make: Callable[..., Any], args: Any, before: "Unread | None" = None
    ):
        self.chunk, self.make, self.args, self.before = chunk, make, args, before
        self._rest: Rest | None = None

    def then(self, function: Callable[..., Any], *args: Any) -> "Unread":
        return Unread(self.chunk, function, args, self)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of a function of it; rows are computed if it reads them."""
        if not reads_features(function):
            return function(self._value(self.chunk.without_values(), keep=False), *args)
        X = self.chunk.rows() if self._needs_rows() else None
        return function(self._value(X, keep=True), *args)

    def __getstate__(self):
        # What a worker keeps is its own.
        return {**vars(self), "_rest": None}

    def n_bytes(self) -> int:
        """Bytes that travel with it, approximately."""
        before = sizeof(self.args) if self.before is None else self.before.n_bytes()
        return before + len(self.chunk.packed)

    def _needs_rows(self):
        if self._rest is not None:
            return self._rest.has_hole
        return self.before is None or self.before._needs_rows()

    def _value(self, X, keep):
        rest = self._rest
        if rest is not None:
            return rest.filled(X)
        if self.before is None:
            return self.make(X, *self.args)
        found = self.make(self.before._value(X, keep), *self.args)
        if keep and X is not None:
            rest = Rest.of(found, X)
            if rest.is_small:
                self._rest = rest.alone()
        return found


def digest(block: Any) -> str:
    """A hash of a block, which may be a chunk that is computed for it."""
    return blocks.digest(block.rows() if isinstance(block, Chunk) else block)


# ---------------------------------------------------------------- rows of a collection


def is_kept(source: CollectionRows) -> bool:
    """Whether nothing is computed again: the chunks are on workers."""
    keys = {future.key for future in futures_of(source.collection)}
    return keys.issuperset(flatten(source.collection.__dask_keys__()))


def unread_rows(client: Client, name: str, source: CollectionRows, memory: float) -> Rows | None:
    """Rows of a collection whose first chunks stay on workers, and others are computed anew.

    `memory` are the bytes of chunks that may stay. None if all of them may, or if chunks are no
    matrices of numbers in CPU memory.
    """
    facts = source.facts
    if not is_matrix(facts) or memory == np.inf:
        return None
    if facts.complete and _n_stay(facts, memory) == len(facts.sizes or ()):
        return None
    chunks = _Chunks(client, name, source)
    if not facts.complete:
        first = chunks(range(len(chunks)), uuid4().hex)
        facts = asked_facts(client, Chunk.described, first, name)
        release(first)
        if not is_matrix(facts):
            return None
    sizes = facts.sizes or ()
    dtype = np.dtype(np.float64) if facts.dtype.kind == "O" else facts.dtype
    there = [i for i, size in enumerate(sizes) if size > 0]
    facts = replace(facts, sizes=tuple(sizes[i] for i in there), dtype=dtype, are_arrays=True)
    n_stay = _n_stay(facts, memory)
    if n_stay == len(there):
        return None
    shapes = {i: (sizes[i], *(facts.tail or ())) for i in there}

    def make(missing: list[int], word: str) -> list[Future]:
        made = chunks([there[i] for i in missing], word, shapes, dtype)
        stay = [k for k, i in enumerate(missing) if i < n_stay]
        keys = [(f"rows-of-{name}-{word}", missing[k]) for k in stay]
        kept = client.map(Chunk.rows, [made[k] for k in stay], key=keys, pure=False) if stay else []
        for k, future in zip(stay, kept, strict=True):
            made[k] = future
        return made

    n_unread = len(there) - n_stay
    n_bytes = sum(int(np.prod(shapes[i])) for i in there[n_stay:]) * dtype.itemsize
    why = (
        f"{n_unread} of {len(there)} chunks of {name} ({byte_text(n_bytes)}) are computed again in "
        f"each pass, beyond the {byte_text(memory)} of Dask's setting gpuml.memory"
    )
    return Rows(client, name, facts, source.token, make, None, parent=chunks, unread=why)


def is_matrix(facts: blocks.Facts) -> bool:
    """Whether rows are numbers in CPU memory, as far as is known."""
    if facts.columns is None:
        plain = facts.are_arrays or not facts.complete
    else:
        plain = facts.dtype is None or facts.dtype.kind != "O"
    return plain and not facts.on_gpu and (facts.tail is None or len(facts.tail) == 1)


def _n_stay(facts, memory):
    ends = np.cumsum(facts.sizes or ()) * int(np.prod(facts.tail or (1,))) * facts.dtype.itemsize
    return int(np.searchsorted(ends, memory, side="right"))


class _Chunks:
    """Makes futures of the `Chunk`s of a collection; a parent of `Rows` that holds what they share.

    What many chunks need is computed once. What users have on workers stays there.
    """

    def __init__(self, client: Client, name: str, source: CollectionRows):
        self._client, self._name = client, name
        graph, keys = graph_of(source.collection)
        self._theirs = {future.key: future for future in futures_of(source.collection)}
        parts = [_reached(graph, key, self._theirs) for key in keys]
        readers = Counter(name for part in parts for name in part)
        most = min(MOST_READERS, max(1, len(keys) - 1))
        shared = {name for name, n in readers.items() if n > most} - set(keys)
        outer = shared | set(self._theirs)
        self._needs: list[list[Any]] = []
        self._packed: list[bytes] = []
        for key in keys:
            reached = _reached(graph, key, outer)
            needs = [name for name in reached if name in outer]
            own = {name: graph[name] for name in reached if name not in outer}
            self._needs.append(needs)
            self._packed.append(cloudpickle.dumps((own, key, needs)))
        wanted = dict.fromkeys(need for needs in self._needs for need in needs)
        made = [need for need in wanted if need not in self._theirs]
        futures = client.get(graph, made, sync=False) if made else []
        self._made = dict(zip(made, futures, strict=True))

    def __len__(self) -> int:
        return len(self._packed)

    def __call__(
        self, which: Sequence[int], word: str, shapes: Any = None, dtype: Any = None
    ) -> list[Future]:
        known = {**self._made, **self._theirs}
        if any(future.cancelled() for future in known.values()):
            raise lost_chunks(self._name)
        return self._client.map(
            Chunk,
            [self._packed[i] for i in which],
            [[known[need] for need in self._needs[i]] for i in which],
            [None if shapes is None else shapes[i] for i in which],
            key=[(f"chunk-of-{self._name}-{word}", i) for i in which],
            dtype=dtype,
            pure=False,
        )

    def acquire(self) -> None:
        """Do nothing: what was made is there."""

    def release(self) -> None:
        """Release what was made."""
        release(self._made.values())

    def revive(self) -> bool:
        """Do nothing: Dask computes lost results again."""
        return False


def _reached(graph, key, outer):
    """A key of a graph and all that it depends on, down to keys in `outer`."""
    reached, left = {key: None}, [key]
    while left:
        name = left.pop()
        if name in outer:
            continue
        for need in get_dependencies(graph, name):
            if need not in reached:
                reached[need] = None
                left.append(need)
    return list(reached)
