"""Decompositions as graphs, or computed at once: by tasks, or by the ranks of GPU workers."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import dask
from distributed import Client, futures_of

from gpuml.solvers.compressed import MOST_ADDED
from gpuml_dask._dask import lowered
from gpuml_dask.client import current_client, the_client
from gpuml_dask.errors import ClusterError
from gpuml_dask.io import persisted
from gpuml_dask.linalg import ranks
from gpuml_dask.linalg.grids import stages_of
from gpuml_dask.linalg.matrix import Matrix
from gpuml_dask.linalg.stages import Job, Stages
from gpuml_dask.planning.plan import has_gpu, memory_of
from gpuml_dask.planning.worker_kinds import Kind, kinds_among
from gpuml_dask.sums.divided import fetch, repeated
from gpuml_dask.sums.holders import Futures
from gpuml_dask.waiting import workers_there

# Of the memory of workers that rows may take: results, blocks and other users need some.
SHARE_OF_MEMORY = 0.5


def lazily(matrix: Matrix, job: Job, return_error: bool) -> tuple:
    """u, s and v as graphs, and an estimate of errors if wanted."""
    return _by_tasks(stages_of(matrix, job), LAZILY, return_error)


def computed(matrix: Matrix, job: Job, client: Client | None, return_error: bool) -> tuple:
    """u, s and v whose chunks are computed, and an estimate of errors if wanted.

    Without a client, and without a current one, Dask's scheduler in this process computes them.
    """
    client = current_client() if client is None else client
    if client is None:
        return _by_tasks(stages_of(_read_again(matrix), job), HERE, return_error)
    with the_client(client) as connected, connected.as_current():
        there: Any = _There(connected, matrix)
        try:
            held = there.placed(matrix)
            return repeated(there, partial(_attempt, there, held, job, return_error))
        except BaseException:
            there.futures.release()
            raise


def _attempt(there, matrix, job, return_error):
    gpus = ranks.workers_for(there.client, matrix, job.device)
    if not gpus:
        return _by_tasks(stages_of(matrix, job), there, return_error)
    stages = Stages(matrix, job)
    found, standards, error = ranks.decomposed(there.client, matrix, job, gpus, return_error)
    stages.standards = stages.known("standard", standards)
    results = there.kept(stages.arrays(*stages.known("triplets", [found])))
    return (*results, error) if return_error else tuple(results)


def _by_tasks(stages: Stages, where: Any, return_error: bool) -> tuple:
    stages.standards = where.kept(stages.find_standards())
    (Q,) = where.kept([stages.start()])
    (total,) = where.kept([stages.visit(Q)])
    for _ in range(stages.job.plan.n_power_iter):
        Q, total = _next(stages, where, Q, total)
    (found,) = where.kept([stages.found(Q, total)])
    for n_added in range(where.most_added):
        if where.value(stages.resolved(found, n_added)):
            break
        Q, total = _next(stages, where, Q, total)
        (found,) = where.kept([stages.found(Q, total)])
    results = where.kept(stages.arrays(found))
    return (*results, where.value(stages.error(found))) if return_error else tuple(results)


def _next(stages, where, Q, total):
    Q = stages.turned(Q, total)
    return where.kept([Q, stages.visit(Q)])


def _read_again(matrix):
    """The same matrix, with reading and the steps after it fused for chunks that are read again."""
    if futures_of(matrix.array):
        return matrix  # an optimised graph leaves out chunks that are there, and we name them
    (array,) = map(lowered, dask.optimize(matrix.array))
    return replace(matrix, array=array)


class _Where(NamedTuple):
    """How collections are computed and kept, how the value of one is, and visits to be added."""

    kept: Callable[[Sequence[Any]], Sequence[Any]]
    value: Callable[[Any], Any]
    most_added: int


# Where nothing is computed, no visits can be added to those that were planned.
LAZILY = _Where(list, lambda collection: collection, 0)
HERE = _Where(lambda some: dask.persist(*some), lambda one: one.compute(), MOST_ADDED)


class _There:
    """A cluster with the chunks of a matrix, as `_Where`; `repeated` takes it for a table."""

    most_added = MOST_ADDED

    def __init__(self, client: Client, matrix: Matrix):
        self.client = client
        self._facts = workers_there(client)
        kind: Kind = "gpu" if matrix.on_gpu else "cpu"
        self._demand = kinds_among(self._facts).demand(kind)
        # An error keeps its frames, which keep futures.
        self.futures = Futures()
        self._theirs = set(map(id, futures_of(matrix.array)))
        self._chunks: list[Any] = []

    def placed(self, matrix: Matrix) -> Matrix:
        """The matrix with its chunks on the workers, if they fit there."""
        workers = list(self._facts.values())
        if matrix.on_gpu:
            workers = list(filter(has_gpu, workers)) or workers
        room = SHARE_OF_MEMORY * sum(map(memory_of, workers))
        if matrix.n_bytes > room and not ranks.is_held(matrix):
            return _read_again(matrix)
        with _quiet():
            array = persisted(self.client, matrix.array, self._facts)
        self._chunks = self._noted(array)
        return replace(matrix, array=array)

    def kept(self, collections: Sequence[Any]) -> Sequence[Any]:
        with _quiet():
            found = self.client.persist(list(collections), resources=self._demand or None)
        futures = [future for each in found for future in self._noted(each)]
        fetch(self.client, futures, values=False)
        for future in futures:
            if future.status == "error":
                future.result()
        return found

    def value(self, collection: Any) -> Any:
        made = self.client.compute([collection], resources=self._demand or None)
        return fetch(self.client, self.futures.add(list(made)))[0]

    def _noted(self, collection):
        """The futures of a collection, noted for release unless they are the user's."""
        futures = futures_of(collection)
        self.futures.add([future for future in futures if id(future) not in self._theirs])
        return futures

    def revive(self) -> bool:
        """Raise an error if the user's chunks are lost; Dask makes again whatever tasks made."""
        if any(future.cancelled() for future in self._chunks):
            raise ClusterError(
                "Chunks that a is made of were lost with their worker, and no task can make them "
                "again. Pass an array whose chunks are read or computed."
            )
        return False


@contextmanager
def _quiet():
    """Silence Dask's advice on large graphs: these hold arrays that earlier visits found."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        yield
