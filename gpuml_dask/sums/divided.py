"""Work on rows that are divided over workers: by tasks where there are CPUs, by NCCL between GPUs.

`run_divided` calls a function with `gpuml.divided.DividedRows`. On CPU workers it runs in this
process, and each sum that it asks for is a tree of tasks. On GPU workers it runs on one of them,
and sums go from GPU to GPU.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import dask
from dask.utils import parse_bytes
from distributed import Client, Future, KilledWorker, wait
from distributed.client import ClosedClientError

from gpuml import get_config
from gpuml.data import Holders
from gpuml.divided import DividedRows, Share
from gpuml_dask.errors import ClusterError
from gpuml_dask.planning.pieces import Chunks, assign, cut_rows
from gpuml_dask.rows.placement import Table
from gpuml_dask.rows.sending import check_client, patience, release
from gpuml_dask.searching.running import workers_of
from gpuml_dask.sums.collective import RankLost, collective_of
from gpuml_dask.sums.holders import Futures, Lost, TaskHolders, WorkersDied

# Bytes of a piece of rows: Dask's setting, for those who want other pieces than we would cut. Other
# pieces give other rounding.
PIECE_BYTES = "gpuml.piece-bytes"
# Of pieces on GPUs: they are read in blocks anyway, and every piece is a task.
GPU_PIECE = 2**30
TICK_SECONDS = 1.0
# Answers of the scheduler, and copies of finished results.
ANSWER_SECONDS = 30.0
MOST_GATHERS = 3
# Each time a worker died that had something nobody else had.
MOST_REPEATS = 20
# Below so many bytes a GPU is not worth the trip; as for gpuml on one device.
WORTH_A_GPU = 64 * 2**20


def run_divided(
    table: Table,
    function: Callable[..., Any],
    *args: Any,
    label: str,
    weight: str | None = None,
) -> Any:
    """``function(rows, *args)`` with the rows of a table, divided over the workers that have them.

    Parameters
    ----------
    table : Table
    function : callable
        Of a module, with the same result whenever it is called: it is called again if a worker is
        lost that had what nobody else had.
    *args : object
    label : str
        What tasks are called on the dashboard.
    weight : str, optional
        Name of the column of weights.

    Raises
    ------
    ClusterError
        If there are no workers, the client is closed, or what is lost cannot be made again.
    Exception
        What the function raises.
    """
    spread = _Spread(table, label, weight)
    try:
        return repeated(table, spread.call, function, args)
    except ClosedClientError as error:
        check_client(table.client)
        raise ClusterError(f"The client went away: {error}.") from error
    finally:
        spread.futures.release()


def repeated(table: Table, function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns, called again for as long as workers with rows are lost meanwhile."""
    for _ in range(MOST_REPEATS):
        try:
            return function(*args)
        except (Lost, RankLost):
            _revive(table)
    raise WorkersDied(
        f"Rows were lost with their workers {MOST_REPEATS} times. Look at the workers' logs: "
        "something ends them, or takes their memory."
    )


def _revive(table):
    """Make rows again, as soon as there is a worker."""
    workers_of(table.client, patience())
    table.revive()


@dataclass(frozen=True)
class _Spread:
    """A table, as pieces on workers."""

    table: Table
    label: str
    weight: str | None
    futures: Futures = field(default_factory=Futures)

    def call(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call a function with the rows, where sums of them come together."""
        gpus = self._gpus()
        bounds = self._bounds(GPU_PIECE if gpus else None)
        spans = list(pairwise(int(bound) for bound in bounds))
        sizes = tuple(stop - start for start, stop in spans)
        client = self.table.client
        settings = get_config()
        if gpus:
            settings["device"] = "cuda"
            by_worker = self._on_gpus(spans, gpus)
            shape = (sizes, self.table.shape[1], settings, self._names())
            run = collective_of(client).run
            return run(_with_rows, by_worker, shape, function, tuple(args))
        shares = self._shares(spans, range(len(spans)))
        holders = TaskHolders(
            client,
            shares,
            partial(fetch, client),
            self.label,
            make=partial(self._made_again, spans),
            futures=self.futures,
        )
        rows = DividedRows(holders, sizes, self.table.shape[1], settings, self._names())
        return function(rows, *args)

    def _bounds(self, usual_bytes):
        table = self.table
        row_bytes = max(1, table.shape[1] * table.dtype.itemsize)
        chunks = _bounds_of(table.sizes)
        size = piece_bytes() or usual_bytes
        return cut_rows(table.n_rows, row_bytes, chunks, piece_bytes=size)

    def _shares(self, spans, positions) -> list[Future]:
        """Shares of rows at some positions, where their rows are."""
        fields, columns = self._columns(spans, positions)
        return self._made(fields, columns, positions)

    def _on_gpus(self, spans, workers) -> dict[str, dict[int, Future]]:
        """Shares of each worker, by position: where rows are, and as even as that allows.

        Rows that move do so before the ranks begin, and as arrays, which go from GPU to GPU.
        """
        fields, columns = self._columns(spans, range(len(spans)))
        client = self.table.client
        fetch(client, columns[0], values=False)
        found = client.who_has(columns[0])
        holders = [next(iter(found.get(each.key, ())), None) for each in columns[0]]
        sizes: Any = [stop - start for start, stop in spans]
        owners = assign(Chunks(sizes, sizes, holders), list(workers))
        by_worker: dict[str, dict[int, Future]] = {}
        for owner, worker in enumerate(workers):
            mine = [i for i, each in enumerate(owners) if each == owner]
            if mine:
                own = [[column[i] for i in mine] for column in columns]
                made = self._made(fields, own, mine, workers=[worker], allow_other_workers=True)
                by_worker[worker] = dict(zip(mine, made, strict=True))
        fetch(client, [f for of_one in by_worker.values() for f in of_one.values()], values=False)
        return by_worker

    def _columns(self, spans, positions) -> tuple[list[str], list[list[Future]]]:
        """Rows of X, y and weights between bounds, and what a share calls them."""
        names = list(self.table.names)
        wanted = [name for name in ("X", "y", self.weight) if name in names]
        pieces = self.table.pieces([spans[i] for i in positions])
        columns = [[piece[names.index(name)] for piece in pieces] for name in wanted]
        # Those of the table too: each is one more reference to a chunk.
        for column in columns:
            self.futures.add(column)
        return ["weight" if name == self.weight else name for name in wanted], columns

    def _made(self, fields, columns, positions, **where) -> list[Future]:
        token = uuid4().hex
        keys = [f"share-{token}-{i}" for i in positions]
        client = self.table.client
        return self.futures.add(
            client.map(_share, *columns, key=keys, names=fields, pure=False, **where)
        )

    def _made_again(self, spans, lost) -> list[Future]:
        """Shares whose rows were lost; the rows are sent again first."""
        _revive(self.table)
        return self._shares(spans, lost) if lost else []

    def _names(self):
        """Names of features, if all are strings, as scikit-learn has them."""
        names = self.table.columns_names
        return names if names is not None and all(isinstance(n, str) for n in names) else None

    def _gpus(self) -> list[str]:
        """Workers with a GPU, if the rows are worth one."""
        setting = get_config()["device"]
        workers = self.table.client.scheduler_info(n_workers=-1)["workers"]
        gpus = sorted(a for a, w in workers.items() if w["resources"].get("GPU"))
        if setting == "cpu" or not gpus:
            return []
        n_bytes = self.table.n_rows * self.table.shape[1] * self.table.dtype.itemsize
        on_gpu = self.table["X"].rows.facts.on_gpu
        return gpus if on_gpu or setting == "cuda" or n_bytes >= WORTH_A_GPU else []


def piece_bytes() -> int | None:
    """Bytes of a piece that the user wants; None for what is usual."""
    wanted = dask.config.get(PIECE_BYTES, None)
    return None if wanted is None else parse_bytes(wanted)


def _bounds_of(sizes):
    bounds = [0]
    for size in sizes:
        bounds.append(bounds[-1] + size)
    return bounds


def _share(*columns, names):
    return Share(**dict(zip(names, columns, strict=True)))


def _with_rows(holders: Holders, shape, function, args):
    """On a worker: the rows of all ranks, and what is to be done with them."""
    return function(DividedRows(holders, *shape), *args)


def fetch(client: Client, futures: Sequence[Future], *, values: bool = True) -> list[Any]:
    """Results of tasks, waited for as long as the cluster is at work.

    Raises
    ------
    Lost
        If something that they need was lost with its worker.
    WorkersDied
        If workers died whenever they ran one of them.
    ClusterError
        If the client is closed, or nothing is computed for as long as `sending.patience` says.
    """
    try:
        _wait(client, futures)
        return _gathered(client, futures) if values else []
    except CancelledError as error:
        check_client(client)
        raise Lost(str(error)) from error
    except KilledWorker as error:
        raise WorkersDied(
            f"Workers died whenever they computed {error.task}. Look at the workers' logs: "
            "something ends them, or takes their memory."
        ) from error
    except BaseException:
        # The client keeps an error with its traceback, whose frames keep the futures.
        release(futures)
        raise


def _wait(client, futures):
    """Wait for tasks while the cluster is at work."""
    last_work = time.monotonic()
    while True:
        check_client(client)
        try:
            with client.as_current():  # it need not be the default client
                wait(futures, timeout=TICK_SECONDS)
            return
        except TimeoutError:
            pass
        if _is_at_work(client):
            last_work = time.monotonic()
        elif time.monotonic() - last_work > patience():
            raise ClusterError(
                f"Nothing was computed on the cluster for {patience():g} s while sums over "
                "rows were waited for. See that there are workers."
            )


def _is_at_work(client):
    try:
        scheduler: Any = client.scheduler
        found = client.sync(
            scheduler.processing, workers=None, callback_timeout=min(patience(), ANSWER_SECONDS)
        )
    except (TimeoutError, OSError, AttributeError):  # no scheduler; a client that closes meanwhile
        return False
    return any(found.values())


def _gathered(client, futures):
    """Results of tasks that are done; of those whose worker dies meanwhile, as soon as they are."""
    gather = partial(client.gather, list(futures), asynchronous=True)
    for _ in range(MOST_GATHERS):
        try:
            return client.sync(gather, callback_timeout=ANSWER_SECONDS)
        except TimeoutError:
            _wait(client, futures)
    raise ClusterError(
        f"Workers have sums over rows, and did not send them within {ANSWER_SECONDS:g} s. This "
        "process must be able to reach their addresses."
    )
