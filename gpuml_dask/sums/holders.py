"""Pieces of rows that are Dask futures: `gpuml.data.Holders` whose sums are a tree of tasks.

Functions travel to the workers that have the pieces, and sums come back. The scheduler makes again
what a lost worker had. If it cannot, because a piece depends on rows that were sent, those pieces
and the sum are requested again here.
"""

import operator
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dask.sizeof import sizeof
from dask.tokenize import tokenize
from dask.utils import funcname
from distributed import Client, Future, KilledWorker

from gpuml.data import Absent, Batch, Folds
from gpuml.divided import HOST, Place, Share, moved, tree
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.table_rows import Table, TableBatch
from gpuml_dask.errors import SEE_LOGS, ClusterError
from gpuml_dask.planning.blocks import neighbours
from gpuml_dask.rows.unread import Unread
from gpuml_dask.waiting import check_client, gathered, in_touch, release, wait_until_done

# Times that workers may die while they work on one sum, which is more than Dask's number for tasks.
MOST_LOSSES = 6

# Arguments of more bytes are a task of their own. Dask's `map` makes one, too, but without a
# priority, at which its scheduler fails (2026.8), and of one name, whatever the arguments are.
LARGE = 100_000

# Makes the pieces at some positions again, when they were lost.
Make = Callable[[Sequence[int]], list[Future]]


class Lost(Exception):
    """Something that pieces are made of was lost with its worker, and can be made again."""


class WorkersDied(ClusterError):
    """Workers died whenever they did something: it may be what ends them."""


def fetch(client: Client, futures: Sequence[Future], *, values: bool = True) -> list[Any]:
    """Results of tasks, waited for as long as the cluster is at work.

    `Lost` is raised if something that they need was lost with its worker, `WorkersDied` if workers
    died whenever they ran one of them.
    """
    try:
        if values:
            return gathered(client, futures, "sums over rows")
        wait_until_done(client, futures, "rows on workers")
        return []
    except CancelledError as error:
        check_client(client)
        raise Lost(str(error)) from error
    except KilledWorker as error:
        raise WorkersDied(
            f"Workers died whenever they computed {error.task}. {SEE_LOGS}"
        ) from error
    except BaseException:
        # The client keeps an error with its traceback, whose frames keep the futures.
        release(futures)
        raise


class Futures:
    """All futures of some work, to be released when it is over, however it ends.

    Errors keep frames, and frames keep futures, so that dropping them is not enough.
    """

    def __init__(self) -> None:
        # By identity: futures of one key are equal.
        self._alive: weakref.WeakValueDictionary[int, Future] = weakref.WeakValueDictionary()

    def add(self, futures: list[Future]) -> list[Future]:
        self._alive.update((id(future), future) for future in futures)
        return futures

    def release(self) -> None:
        release(list(self._alive.values()))


@dataclass(frozen=True)
class TaskHolders:
    """Pieces that are futures, in the order of the rows; lost ones are replaced.

    `label` names tasks on the dashboard, `resources` are Dask's. `make` makes pieces again that
    were lost with rows that were sent; without it, their loss is an error. `futures` notes whatever
    is made, for release.
    """

    client: Client
    pieces: list[Future]
    label: str
    resources: dict[str, float] = field(default_factory=dict)
    place: Place = HOST
    make: Make | None = None
    futures: Futures = field(default_factory=Futures)

    def __len__(self) -> int:
        return len(self.pieces)

    def map(
        self, function: Callable[..., Any], *args: Any, each_with: Sequence[Any] | None = None
    ) -> "TaskHolders":
        # Only how pieces are made is kept, not the pieces that they are made of: workers may forget
        # those.
        bare = replace(self, pieces=[])
        submit = partial(bare._submit, _result, function, args, each_with)
        make = None if self.make is None else partial(_made_again, self.make, submit)
        return replace(self, pieces=submit(self.pieces, range(len(self))), make=make)

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        return self._answers(partial(self._host_results, function, args))

    def total(
        self,
        function: Callable[..., Any],
        *args: Any,
        combine: Callable[[Any, Any], Any] = operator.add,
    ) -> Any:
        return self._answers(lambda: self._combined(self._host_results(function, args), combine))[0]

    def gathered(
        self, function: Callable[..., Any], build: Callable[[list[Any]], Any]
    ) -> "TaskHolders":

        def gather() -> list[Future]:
            key = f"gather-{self.label}-{tokenize(object())}"
            parts = self._host_results(function, ())
            with in_touch(self.client):
                made = self.client.submit(build, parts, key=key, pure=False)
            return self.futures.add([made])

        def make(lost: Sequence[int]) -> list[Future]:
            self._make_lost()
            return gather()

        return replace(self, pieces=gather(), make=None if self.make is None else make)

    def _answers(self, ask: Callable[[], list[Future]]) -> list[Any]:
        """Results of tasks, which are submitted again where pieces were lost."""
        for _ in range(MOST_LOSSES):
            try:
                with in_touch(self.client):
                    return fetch(self.client, ask())
            except Lost:
                if self.make is None:
                    raise
                self._make_lost()
        raise WorkersDied(
            f"Workers died {MOST_LOSSES} times while one sum over the rows was computed "
            f"({self.label}). {SEE_LOGS}"
        )

    def _make_lost(self):
        lost = [i for i, future in enumerate(self.pieces) if future.cancelled()]
        # Also without any: rows are then seen to, and what was asked is asked again.
        assert self.make is not None
        made = self.make(lost)
        pieces = dict(zip(lost, made, strict=True))
        self.pieces[:] = [pieces.get(i, future) for i, future in enumerate(self.pieces)]

    def _host_results(self, function, args):
        return self._submit(_host_result, function, args, None, self.pieces, range(len(self)))

    def _combined(self, left, combine):
        while len(left) > 1:
            groups = neighbours(left)
            keys = [f"sum-{self.label}-{tokenize(g[0].key, len(left))}" for g in groups]
            made = self.client.map(_combined, groups, key=keys, combine=combine, pure=False)
            left = self.futures.add(made)
        return left

    def _submit(self, task, function, args, each_with, pieces, positions):
        if not pieces:
            return []
        verb = funcname(function).strip("_").replace("_", "-")
        name = f"{verb}-of-{self.label}".replace(" ", "-")
        own = [()] * len(pieces) if each_with is None else [(each_with[i],) for i in positions]
        # Never the same key twice: one that was cancelled stays so.
        token = tokenize(object())
        keys = [f"{name}-{token}-{i}" for i in positions]
        how: dict[str, Any] = {"key": keys, "pure": False, "resources": self.resources or None}
        # So that the caller of sums tells the cluster's errors from those of a candidate.
        with in_touch(self.client):
            if sizeof(args) > LARGE:
                sent = self.client.submit(tuple, args, key=f"for-{name}-{token}", pure=False)
                (args,) = self.futures.add([sent])
            made = self.client.map(task, pieces, own, function=function, args=args, **how)
        return self.futures.add(made)


def _made_again(make: Make, submit: Callable[..., list[Future]], lost: Sequence[int]):
    return submit(make(lost), lost)


def _result(piece, own, *, function, args):
    if isinstance(piece, Unread):
        return piece.then(function, *args, *own)
    return function(piece, *args, *own)


def _host_result(piece, own, *, function, args):
    if isinstance(piece, Unread):
        return moved(piece.call(function, *args, *own), HOST)
    return moved(function(piece, *args, *own), HOST)


def _combined(group, *, combine):
    return tree(group, combine)


# ---------------------------------------------------------------- sizes


def _bytes_of(values) -> int:
    return 64 + sum(sizeof(value) for value in values if value is not None)


# The scheduler leaves tasks where their data is only if it knows how much data that is.
sizeof.register(Batch, lambda batch: _bytes_of((batch.X, batch.y, batch.weight, batch.codes)))
sizeof.register(TableBatch, lambda b: _bytes_of((b.table, b.X, b.y, b.weight, b.codes)))
sizeof.register(Table, lambda table: _bytes_of((table.numbers, table.holes, *table.codes)))
sizeof.register(Folds, lambda folds: sizeof(folds.batch))
sizeof.register(
    LossRows, lambda r: r.n_rows * r.design.row_bytes + _bytes_of((r.target, r.weights))
)
sizeof.register(Share, _bytes_of)
sizeof.register(Unread, Unread.n_bytes)
sizeof.register(Absent, lambda absent: 64)
