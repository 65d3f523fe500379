"""Pieces of rows that are Dask futures: `gpuml.data.Holders` whose sums are a tree of tasks.

Who asks works in this process; what is asked travels to the workers that have the pieces, and sums
come back. Tasks are pure, so the scheduler makes again what a lost worker had.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dask.sizeof import sizeof
from dask.tokenize import tokenize
from dask.utils import funcname
from distributed import Client, Future

from gpuml.data import Absent, Batch, Folds
from gpuml.divided import HOST, Place, Share, moved, tree
from gpuml.solvers.loss_rows import LossRows

# Results that a task combines. A power of two: then the sums are those of `gpuml.divided.tree`.
ARITY = 8


@dataclass(frozen=True)
class TaskHolders:
    """Pieces that are futures.

    Attributes
    ----------
    client : Client
    pieces : sequence of Futures
        In the order of the rows.
    fetch : callable ``(list of Futures) -> list``
        Waits for results in bounded time.
    label : str
        What tasks are called on the dashboard.
    resources : dict
        Dask resources that tasks need.
    place : Place
        Where results come to: the memory of this process.
    """

    client: Client
    pieces: Sequence[Future]
    fetch: Callable[[list[Future]], list[Any]]
    label: str
    resources: dict[str, float] = field(default_factory=dict)
    place: Place = HOST

    def __len__(self) -> int:
        return len(self.pieces)

    def map(
        self, function: Callable[..., Any], *args: Any, each_with: Sequence[Any] | None = None
    ) -> "TaskHolders":
        """What a function makes of every piece, where that is."""
        return replace(self, pieces=self._submit(_result, function, args, each_with))

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Results of a function of every piece, on the host."""
        return self.fetch(self._submit(_host_result, function, args, None))

    def total(
        self,
        function: Callable[..., Any],
        *args: Any,
        combine: Callable[[Any, Any], Any] = operator.add,
    ) -> Any:
        """Results of a function of every piece, combined by a tree of tasks, on the host."""
        left = self._submit(_host_result, function, args, None)
        while len(left) > 1:
            groups = [left[i : i + ARITY] for i in range(0, len(left), ARITY)]
            name = f"sum-{self.label}"
            keys = [f"{name}-{tokenize(group[0].key, len(left))}" for group in groups]
            left = self.client.map(_combined, groups, key=keys, combine=combine, pure=False)
        return self.fetch(left)[0]

    def _submit(self, task, function, args, each_with):
        name = f"{funcname(function).strip('_').replace('_', ' ')} of {self.label}"
        name = name.replace(" ", "-")
        own = [()] * len(self) if each_with is None else [(item,) for item in each_with]
        token = tokenize(object())
        keys = [f"{name}-{token}-{i}" for i in range(len(self))]
        options = {"resources": self.resources} if self.resources else {}
        return self.client.map(
            task,
            self.pieces,
            own,
            key=keys,
            function=function,
            args=args,
            pure=False,
            **options,
        )


def _result(piece, own, *, function, args):
    return function(piece, *args, *own)


def _host_result(piece, own, *, function, args):
    return moved(function(piece, *args, *own), HOST)


def _combined(group, *, combine):
    return tree(group, combine)


# ---------------------------------------------------------------- sizes


def _bytes_of(values) -> int:
    return 64 + sum(sizeof(value) for value in values if value is not None)


# The scheduler leaves tasks where their data is only if it knows how much data that is.
@sizeof.register(Batch)
def _size_of_batch(batch):
    return _bytes_of((batch.X, batch.y, batch.weight, batch.codes))


@sizeof.register(Folds)
def _size_of_folds(folds):
    return sizeof(folds.batch)


@sizeof.register(LossRows)
def _size_of_loss_rows(rows):
    return _bytes_of((rows.X, rows.target, rows.weights))


@sizeof.register(Share)
def _size_of_share(share):
    return _bytes_of(share)


@sizeof.register(Absent)
def _size_of_absent(absent):
    return 64
