"""Work on rows that are divided over workers: by tasks where there are CPUs, by NCCL between GPUs.

`Spread.run` calls a function with `gpuml.divided.DividedRows`. On CPU workers it runs in this
process, and each sum that it asks for is a tree of tasks. On GPU workers it runs on one of them,
and sums go from GPU to GPU.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise
from typing import Any
from uuid import uuid4

import dask
from dask.utils import parse_bytes
from distributed import Client, Future

from gpuml import get_config
from gpuml.data import Holders
from gpuml.divided import DividedRows, Share
from gpuml_dask._annotations import submit_near
from gpuml_dask.errors import SEE_LOGS
from gpuml_dask.planning.blocks import assign, cut_rows
from gpuml_dask.planning.plan import has_gpu
from gpuml_dask.planning.worker_kinds import kinds_among
from gpuml_dask.rows.blocks import same
from gpuml_dask.rows.placement import Table
from gpuml_dask.rows.unread import Chunk, Unread
from gpuml_dask.sums.collective import RankLost, collective_of, in_order
from gpuml_dask.sums.holders import Futures, Lost, TaskHolders, WorkersDied, fetch
from gpuml_dask.waiting import ask, in_touch, workers_there

# Dask's setting: bytes of a block of rows, in place of the usual ones. Other blocks give other
# rounding.
BLOCK_BYTES = "gpuml.piece-bytes"
# Of blocks on GPUs, which are read bit by bit anyway. Large chunks stay as they are: joined, they
# would be copied, and those of other workers moved.
GPU_BLOCK, GPU_JOINED = 2**30, 2**28
# Each time a worker died that had something nobody else had.
MOST_REPEATS = 20
# Below so many bytes a GPU is not worth the trip; as for gpuml on one device.
WORTH_A_GPU = 64 * 2**20


def repeated(table: Table, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function, and call it again whenever workers with rows were lost meanwhile."""
    for _ in range(MOST_REPEATS):
        try:
            return function(*args)
        except (Lost, RankLost, CancelledError):
            _revive(table)
    raise WorkersDied(f"Rows were lost with their workers {MOST_REPEATS} times. {SEE_LOGS}")


def _revive(table):
    """Make rows again, as soon as there is a worker."""
    workers_there(table.client)
    table.revive()


class Spread:
    """The rows of a table as pieces on workers, for one run.

    `label` names tasks on the dashboard, `weight` the column of weights. With `as_tables`, shares
    are what steps read as tables. After the run, `workers` are the addresses of those that had
    rows.
    """

    def __init__(
        self, table: Table, label: str, weight: str | None = None, *, as_tables: bool = False
    ):
        self.table, self.label, self.weight = table, label, weight
        self.header = table.X.header if as_tables else None
        self._demand: dict[str, float] = {}
        self.futures = Futures()
        self.workers: list[str] = []

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(rows, *args)`` with the rows, divided over the workers that have them.

        The function, of a module, must give the same result whenever it is called: it is called
        again if a worker is lost with rows that no other worker has.
        """
        try:
            with in_touch(self.table.client):
                return repeated(self.table, self._call, function, args)
        finally:
            self.futures.release()

    def _call(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        facts = workers_there(self.table.client)
        n_bytes = self.table.n_rows * self.table.shape[1] * self.table.dtype.itemsize
        gpus = gpus_for(facts, get_config()["device"], n_bytes, on_gpu=self._on_gpu)
        bounds = self._bounds(on_gpus=bool(gpus))
        spans = list(pairwise(int(bound) for bound in bounds))
        sizes = tuple(stop - start for start, stop in spans)
        client, settings, names = self.table.client, get_config(), self.table.columns_names
        # As scikit-learn has them: if all are strings.
        names = names if names and all(isinstance(name, str) for name in names) else None
        shape = (sizes, self.table.shape[1], settings, names, self.header)
        if gpus:
            settings["device"] = "cuda"
            fields, pieces = self._on_gpus(spans, gpus)
            self.workers = list(pieces)
            rest, build = (shape, function, tuple(args)), partial(_share, names=fields)
            return collective_of(client).run(_with_rows, pieces, *rest, build=build)
        if not self._on_gpu:
            # Work on rows in CPU memory is for CPU workers, where some declare to be that.
            self._demand = kinds_among(facts).demand("cpu")
        shares = self._shares(spans, range(len(spans)))
        holders = TaskHolders(
            client,
            shares,
            self.label,
            resources=self._demand,
            make=partial(self._made_again, spans),
            futures=self.futures,
        )
        result = function(DividedRows(holders, *shape), *args)
        with suppress(CancelledError):  # the result is there, also if workers were lost since
            found = ask(client, client.who_has, futures=holders.pieces)
            self.workers = sorted({address for each in found.values() for address in each})
        return result

    def _bounds(self, on_gpus):
        table = self.table
        row_bytes = max(1, table.shape[1] * table.dtype.itemsize)
        chunks = [0, *accumulate(table.sizes)]
        if table["X"].rows.unread is not None:
            return chunks
        size, joined = block_bytes(), None
        if on_gpus and size is None:
            size, joined = GPU_BLOCK, GPU_JOINED
        return cut_rows(table.n_rows, row_bytes, chunks, block_bytes=size, joined_bytes=joined)

    def _on_gpus(self, spans, workers) -> tuple[list[str], dict[str, dict[int, list[Future]]]]:
        """Names of the columns of a share, and the pieces of each worker by position.

        Pieces go to where their rows are, as evenly as that allows. Rows that move do so before the
        ranks begin, and as arrays, which go from GPU to GPU.
        """
        fields, columns = self._columns(spans, range(len(spans)))
        pieces = [list(piece) for piece in zip(*columns, strict=True)]
        sizes = [stop - start for start, stop in spans]
        owners, held_by = owners_of(self.table.client, pieces, sizes, workers)
        word = uuid4().hex
        homes = {
            (f"move-{word}", i, j): owner
            for i, (piece, owner) in enumerate(zip(pieces, owners, strict=True))
            for j, column in enumerate(piece)
            if owner not in held_by[column.key]
        }
        if homes:
            client = self.table.client
            tasks = {(name, i, j): (same, pieces[i][j]) for name, i, j in homes}
            moved = self.futures.add(submit_near(client, tasks, homes))
            for (_, i, j), future in zip(homes, moved, strict=True):
                pieces[i][j] = future
            fetch(client, moved, values=False)
        return fields, by_worker(pieces, owners, workers)

    def _columns(self, spans, positions) -> tuple[list[str], list[list[Future]]]:
        """Rows of X, y and weights between bounds, and what a share calls them."""
        names = list(self.table.names)
        wanted = [name for name in ("X", "y", self.weight) if name in names]
        bounds = [spans[i] for i in positions]
        pieces = self.table.pieces(bounds, frames=self.header is not None)
        columns = [[piece[names.index(name)] for piece in pieces] for name in wanted]
        # Those of the table too: each is one more reference to a chunk.
        for column in columns:
            self.futures.add(column)
        return ["weight" if name == self.weight else name for name in wanted], columns

    def _shares(self, spans, positions) -> list[Future]:
        """Shares of rows at some positions, where their rows are."""
        fields, columns = self._columns(spans, positions)
        token, demand = uuid4().hex, self._demand or None
        keys = [f"share-{token}-{i}" for i in positions]
        submit = partial(self.table.client.map, key=keys, pure=False, resources=demand)
        return self.futures.add(submit(_share, *columns, names=fields))

    def _made_again(self, spans, lost) -> list[Future]:
        """Shares whose rows were lost; the rows are sent again first."""
        _revive(self.table)
        return self._shares(spans, lost) if lost else []

    @property
    def _on_gpu(self) -> bool:
        """Whether the rows are in the memory of GPUs."""
        return self.table["X"].rows.facts.on_gpu


def block_bytes() -> int | None:
    """Bytes of a block that the user wants; None for what is usual."""
    wanted = dask.config.get(BLOCK_BYTES)
    return None if wanted is None else parse_bytes(wanted)


def gpus_for(
    facts: Mapping[str, Mapping[str, Any]], setting: str, n_bytes: int, *, on_gpu: bool
) -> list[str]:
    """Workers with a GPU, in the order of their ranks; none where rows are not worth a GPU."""
    worth_it = on_gpu or setting == "cuda" or n_bytes >= WORTH_A_GPU
    if setting == "cpu" or not worth_it:
        return []
    return in_order((a for a, worker in facts.items() if has_gpu(worker)), facts)


def owners_of(
    client: Client, pieces: Sequence[list[Future]], sizes: Sequence[int], workers: Sequence[str]
) -> tuple[list[str], dict[Any, tuple[str, ...]]]:
    """The worker for each piece, and the workers that have each of its futures.

    A piece goes to a worker that has the first of its futures, as evenly as that allows.
    """
    held_by = holders_of(client, [future for piece in pieces for future in piece])
    holders = [next(iter(held_by[piece[0].key]), None) for piece in pieces]
    return assign(sizes, holders, workers), held_by


def holders_of(client: Client, futures: Sequence[Future]) -> dict[Any, tuple[str, ...]]:
    """Workers that have each of some futures, once all of them are computed."""
    try:
        found = ask(client, client.who_has, futures=futures)
        if not all(found.get(each.key) for each in futures):
            fetch(client, futures, values=False)
            found = ask(client, client.who_has, futures=futures)
    except CancelledError as error:
        raise Lost(str(error)) from error
    return {each.key: tuple(found.get(each.key, ())) for each in futures}


def by_worker(
    pieces: Sequence[list[Future]], owners: Sequence[str], workers: Sequence[str]
) -> dict[str, dict[int, list[Future]]]:
    """Pieces by position, for each of the workers that own any."""
    found: dict[str, dict[int, list[Future]]] = {worker: {} for worker in workers}
    for position, (piece, owner) in enumerate(zip(pieces, owners, strict=True)):
        found[owner][position] = piece
    return {worker: own for worker, own in found.items() if own}


def _share(*columns, names):
    given = dict(zip(names, columns, strict=True))
    if isinstance(given["X"], Chunk):
        return Unread(given["X"], Share, (given.get("y"), given.get("weight")))
    return Share(**given)


def _with_rows(holders: Holders, shape, function, args):
    return function(DividedRows(holders, *shape), *args)
