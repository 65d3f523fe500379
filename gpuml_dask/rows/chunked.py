"""Rows as chunks on workers: futures that are made on demand, and again if they are lost.

The original blocks, the same cut at other bounds, as arrays, and all in one are a `Layer` of
futures each, so that what was lost is made again from the layer before.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from threading import RLock
from typing import Any
from uuid import uuid4

import numpy as np
from distributed import Client, Future

from gpuml.data import NeedsAllRows
from gpuml_dask.errors import ClusterError
from gpuml_dask.rows import blocks
from gpuml_dask.rows.blocks import Facts
from gpuml_dask.rows.inputs import CollectionRows, LocalRows, TaskRows, twin
from gpuml_dask.rows.sending import Homes, send
from gpuml_dask.waiting import answers, release

# Dask resources of tasks.
Resources = dict[str, float] | None


class Layer:
    """Futures of all chunks at one stage, made on demand, and again if they are lost.

    ``make(indices of chunks, unique word)`` returns futures. A cancelled key stays cancelled while
    anything holds an old future of it, so that no key may be used again: keys contain the word.
    """

    def __init__(self, n_chunks: int, make: Callable[[list[int], str], Sequence[Future]]):
        self._make = make
        self._futures: list[Future | None] = [None] * n_chunks

    def futures(self, which: Sequence[int] | None = None) -> list[Future]:
        """The futures of some chunks, or of all."""
        which = range(len(self._futures)) if which is None else which
        missing = [i for i in which if self._futures[i] is None]
        if missing:
            for i, future in zip(missing, self._make(missing, uuid4().hex), strict=True):
                self._futures[i] = future
        return [made for i in which if (made := self._futures[i]) is not None]

    def drop_lost(self, states: Sequence[str] = ("cancelled",)) -> bool:
        """Drop futures in one of the states; returns whether there were any."""
        lost = [i for i, f in enumerate(self._futures) if f is not None and f.status in states]
        for i in lost:
            self._futures[i] = None
        return bool(lost)

    def forget(self) -> None:
        """Drop all futures, so that workers release the data."""
        release(future for future in self._futures if future is not None)
        self._futures = [None] * len(self._futures)


class Rows:
    """One of X, y and so on: its chunks on workers, shared by tables.

    All of `facts` is known. `name` is for the dashboard; `token` is equal only for equal rows;
    `homes` says where chunks of rows of this process go; `unread` says which chunks are computed
    again in each pass, and why (None where all are kept).
    """

    def __init__(
        self,
        client: Client,
        name: str,
        facts: Facts,
        token: str,
        make: Callable[[list[int], str], Sequence[Future]],
        resources: Resources,
        *,
        parent: Any = None,
        homes: Homes | None = None,
        unread: str | None = None,
    ):
        assert facts.sizes is not None  # unknown sizes were requested before
        assert facts.tail is not None
        self.client, self.name, self.facts, self.token = client, name, facts, token
        self.sizes, self.tail, self.dtype = facts.sizes, facts.tail, facts.dtype
        self.columns, self.homes, self.unread = facts.columns, homes, unread
        self._resources = resources
        self._lock = RLock()
        self._parent, self._n_users = parent, 0
        n_chunks = len(self.sizes)
        self._blocks = Layer(n_chunks, make)
        self._arrays = self._blocks if facts.are_arrays else Layer(n_chunks, self._convert)
        self._whole = Layer(1, self._join)
        self._layers = [self._blocks, self._arrays, self._whole]

    # ------------------------------------------------------------ who uses them

    @property
    def is_open(self) -> bool:
        return self._n_users > 0

    def acquire(self) -> None:
        with self._lock:
            self._n_users += 1
            if self._parent is not None and self._n_users == 1:
                self._parent.acquire()

    def release(self) -> None:
        """Remove a user; without any, all futures are dropped."""
        with self._lock:
            self._n_users -= 1
            if self._n_users > 0:
                return
            if self._parent is not None:
                self._parent.release()
            for layer in self._layers:
                layer.forget()

    # ------------------------------------------------------------ futures

    def blocks(self) -> list[Future]:
        """The original chunks: DataFrames stay DataFrames."""
        with self._lock:
            return self._blocks.futures()

    def arrays(self) -> list[Future]:
        with self._lock:
            return self._arrays.futures()

    def to_be_joined(self) -> list[Future]:
        """Chunks in the form of `whole`: DataFrames of DataFrames, arrays of all else."""
        return self.blocks() if self.columns is not None else self.arrays()

    def whole(self) -> Future:
        """All rows in one: a DataFrame of DataFrames, an array of all else."""
        self.check_kept()
        with self._lock:
            chunks = self.to_be_joined()
            return chunks[0] if len(chunks) == 1 else self._whole.futures()[0]

    def submit(self, function: Callable, *args: Any, key: Any) -> Future:
        """A pure task on chunks, on the workers with their kind of device."""
        return self.client.submit(function, *args, key=key, resources=self._resources)

    def map(self, function: Callable, *chunks: Any, keys: list, **settings: Any) -> list[Future]:
        """A task for each chunk, as `submit`; all of them are one message to the scheduler."""
        settings.update(key=keys, resources=self._resources, pure=False)
        return self.client.map(function, *chunks, **settings) if keys else []

    def revive(self) -> bool:
        """Make lost chunks again; returns whether any were lost."""
        with self._lock:
            revived = self._parent.revive() if self._parent is not None else False
            # Check all layers: `any` of a generator would stop at the first.
            lost = [layer.drop_lost() for layer in self._layers]
            if lost[0]:
                self._blocks.futures()
            return revived or any(lost)

    def cut(self, sizes: tuple[int, ...]) -> "Rows":
        """The same rows in chunks of other sizes, cut on the workers."""
        if sizes == self.sizes:
            return self
        self.check_kept()

        def make(missing: list[int], word: str) -> list[Future]:
            bounds = [0, *accumulate(sizes)]
            wanted = [(bounds[i], bounds[i + 1]) for i in missing]
            return cut_tasks(self, self.blocks(), wanted, f"cut-{self.name}-{word}")

        facts = replace(self.facts, sizes=sizes)
        return Rows(self.client, self.name, facts, self.token, make, self._resources, parent=self)

    def check_kept(self) -> None:
        if self.unread is not None:
            raise NeedsAllRows(
                f"All rows are needed in memory, but {self.unread}. Set more: "
                "dask.config.set({'gpuml.memory': '100GB'}), or persist() the collection."
            )

    def _convert(self, missing, word):
        chunks = self._blocks.futures()
        keys = [(f"array-of-{self.name}-{word}", i) for i in missing]
        return self.map(blocks.as_rows, [chunks[i] for i in missing], keys=keys, dtype=self.dtype)

    def _join(self, missing, word):
        return [self.submit(blocks.join, *self.to_be_joined(), key=f"whole-{self.name}-{word}")]


def cut_tasks(
    rows: Rows, chunks: Sequence[Future], wanted: Sequence[tuple[int, int]], name: str
) -> list[Future]:
    """Futures of rows between other bounds; an existing chunk if its bounds do not change."""
    bounds = [0, *accumulate(rows.sizes)]
    cuts: dict[int, Future] = {}
    left: dict[int, list[tuple[int, int, int]]] = {}
    for number, (start, stop) in enumerate(wanted):
        parts = _parts_between(bounds, start, stop)
        i, first, last = parts[0]
        if len(parts) == 1 and last - first == rows.sizes[i]:
            cuts[number] = twin(chunks[i])
        else:
            left[number] = parts
    if left:
        rows.check_kept()
    spans = [[(first, last, rows.sizes[i]) for i, first, last in each] for each in left.values()]
    members = [[chunks[i] for i, _, _ in parts] for parts in left.values()]
    made = rows.map(blocks.join_cuts, spans, members, keys=[(name, number) for number in left])
    cuts.update(zip(left, made, strict=True))
    return [cuts[number] for number in range(len(wanted))]


def _parts_between(bounds, start, stop):
    """(chunk, first, last) for the rows of each chunk that are in a range."""
    at = min(bisect_right(bounds, start), len(bounds) - 1) - 1
    some = range(at, max(at + 1, bisect_left(bounds, stop)))
    return [
        (i, max(start, bounds[i]) - bounds[i], min(stop, bounds[i + 1]) - bounds[i]) for i in some
    ]


# ---------------------------------------------------------------- rows of a source


def remote_rows(
    client: Client,
    name: str,
    source: CollectionRows | TaskRows,
    gpu: Callable[[], Resources],
    numeric: bool = False,
) -> Rows:
    """Rows on workers, or computed there, in their own chunks.

    `gpu` tells which resources tasks on GPU arrays need. With `numeric`, arrays of objects become
    float64, as scikit-learn converts X.
    """
    started = _Started(client, name, source, gpu() if source.facts.on_gpu else None)
    facts = started.facts
    if numeric and facts.columns is None and facts.dtype.kind == "O":
        facts = replace(facts, dtype=np.dtype(np.float64), are_arrays=False)
    return Rows(client, name, facts, source.token, started, gpu() if facts.on_gpu else None)


class _Started:
    def __init__(
        self, client: Client, name: str, source: CollectionRows | TaskRows, resources: Resources
    ):
        self._client, self._name, self._source = client, name, source
        self._resources = resources
        first = source.start(client, "", resources)
        try:
            self.facts, self._kept = self._ask(first)
        except BaseException:
            release(first)
            raise
        self._first: list[Future] | None = first

    def __call__(self, missing: list[int], word: str) -> list[Future]:
        """The function by which a `Layer` makes futures."""
        if self._first is None and self._source.is_lost:
            raise lost_chunks(self._name)
        started = self._first or self._source.start(self._client, word, self._resources)
        self._first = None  # otherwise workers would keep them after the layer has dropped them
        release(started[i] for i in set(range(len(started))) - set(self._kept))
        return [started[self._kept[i]] for i in missing]

    def _ask(self, futures):
        """Facts, from the workers if need be, and the numbers of blocks that have rows."""
        facts = self._source.facts
        if not facts.complete:
            facts = asked_facts(self._client, blocks.describe, futures, self._name)
        sizes = facts.sizes or ()
        kept = [i for i, size in enumerate(sizes) if size > 0]
        return replace(facts, sizes=tuple(sizes[i] for i in kept)), kept


def lost_chunks(name: str) -> ClusterError:
    return ClusterError(
        f"Chunks that {name} is made of were lost with their worker, and this process has no other "
        "copy. Pass data that tasks can read again, or local arrays."
    )


def asked_facts(client: Client, describe: Any, chunks: Sequence[Future], name: str) -> Facts:
    """The facts about rows, whose chunks workers describe one by one."""
    word = uuid4().hex
    keys = [(f"describe-{word}", i) for i in range(len(chunks))]
    asked = client.map(describe, chunks, key=keys, pure=False)
    found = answers(client, asked, f"the chunks of {name}")
    kept = [block for block in found if block.n_rows > 0] or list(found[:1])
    first = kept[0]
    for block in kept:
        if (block.tail, block.columns) != (first.tail, first.columns):
            raise ValueError(
                f"Chunks of {name} must have the same columns; got rows of shape {first.tail} "
                f"with names {first.columns}, and of shape {block.tail} with names {block.columns}."
            )
    dtype = np.result_type(*(block.dtype for block in kept))
    sizes = tuple(block.n_rows for block in found)
    are_arrays = all(block.are_arrays and block.dtype == dtype for block in kept)
    return replace(first, sizes=sizes, n_rows=sum(sizes), dtype=dtype, are_arrays=are_arrays)


def local_rows(
    client: Client,
    name: str,
    source: LocalRows,
    sizes: tuple[int, ...],
    homes: Homes,
    gpu: Callable[[], Resources],
) -> Rows:
    """Rows of this process in chunks, sent on demand."""
    bounds = [0, *accumulate(sizes)]

    def make(missing: list[int], word: str) -> list[Future]:
        chunks = {i: blocks.cut(source.block, bounds[i], bounds[i + 1]) for i in missing}
        return send(client, f"{name}-{word}", chunks, homes)

    def upload(missing: list[int], word: str) -> list[Future]:
        chunks, keys = sent.blocks(), [(f"{name}-to-gpu-{word}", i) for i in missing]
        return rows.map(blocks.upload, [chunks[i] for i in missing], keys=keys)

    facts = replace(source.facts, sizes=sizes)
    own = gpu() if facts.on_gpu else None
    if not source.is_uploaded:
        return Rows(client, name, facts, source.token, make, own, homes=homes)
    sent = Rows(client, name, replace(facts, on_gpu=False), source.token, make, None)
    rows = Rows(client, name, facts, source.token, upload, own, parent=sent, homes=homes)
    return rows
