"""Work on rows that are divided over workers: by tasks where there are CPUs, by NCCL between GPUs.

`run_divided` calls a function with `gpuml.divided.DividedRows`. On CPU workers it runs in this
process, and each sum that it asks for is a tree of tasks. On GPU workers it runs on one of them,
and sums go from GPU to GPU.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import dask
from dask.utils import parse_bytes
from distributed import Client, Future, wait

from gpuml import get_config
from gpuml.data import Holders
from gpuml.divided import DividedRows, Share
from gpuml_dask.errors import ClusterError
from gpuml_dask.planning.pieces import Chunks, assign, cut_rows
from gpuml_dask.rows.placement import Table
from gpuml_dask.rows.sending import check_client, patience
from gpuml_dask.sums.collective import RankLost, collective_of
from gpuml_dask.sums.holders import TaskHolders

# Bytes of a piece of rows: Dask's setting, for those who want other pieces than we would cut. Other
# pieces give other rounding.
PIECE_BYTES = "gpuml.piece-bytes"
TICK_SECONDS = 1.0
# Each time a worker died that had something nobody else had.
MOST_REPEATS = 20
# Below so many bytes a GPU is not worth the trip; as for gpuml on one device.
WORTH_A_GPU = 64 * 2**20


class Lost(Exception):
    """Something that pieces are made of was lost with its worker, and can be made again."""


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
    return repeated(table, _Spread(table, label, weight).call, function, args)


def repeated(table: Table, function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns, called again for as long as workers with rows are lost meanwhile."""
    for _ in range(MOST_REPEATS):
        try:
            return function(*args)
        except (Lost, RankLost):
            check_client(table.client)
            table.revive()
    raise ClusterError(
        f"Rows were lost with their workers {MOST_REPEATS} times. Look at the workers' logs: "
        "something ends them, or takes their memory."
    )


@dataclass(frozen=True)
class _Spread:
    """A table, as pieces on workers."""

    table: Table
    label: str
    weight: str | None

    def call(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call a function with the rows, where sums of them come together."""
        bounds = self._bounds()
        spans = list(pairwise(int(bound) for bound in bounds))
        sizes = tuple(stop - start for start, stop in spans)
        shares = self._shares(spans)
        client = self.table.client
        gpus = self._gpus()
        settings = get_config()
        if gpus:
            settings["device"] = "cuda"
            by_worker = _homes(client, shares, gpus, sizes)
            shape = (sizes, self.table.shape[1], settings, self._names())
            run = collective_of(client).run
            return run(_with_rows, by_worker, shape, function, tuple(args))
        holders = TaskHolders(client, shares, partial(fetch, client), self.label)
        rows = DividedRows(holders, sizes, self.table.shape[1], settings, self._names())
        return function(rows, *args)

    def _bounds(self):
        table = self.table
        row_bytes = max(1, table.shape[1] * table.dtype.itemsize)
        chunks = _bounds_of(table.sizes)
        wanted = dask.config.get(PIECE_BYTES, None)
        size = None if wanted is None else parse_bytes(wanted)
        return cut_rows(table.n_rows, row_bytes, chunks, piece_bytes=size)

    def _shares(self, bounds) -> list[Future]:
        """Shares of rows, where their rows are."""
        table = self.table
        names = list(table.names)
        wanted = [name for name in ("X", "y", self.weight) if name in names]
        pieces = table.pieces(bounds)
        columns = [[piece[names.index(name)] for piece in pieces] for name in wanted]
        token = uuid4().hex
        keys = [f"share-{token}-{i}" for i in range(len(pieces))]
        fields = ["weight" if name == self.weight else name for name in wanted]
        return table.client.map(_share, *columns, key=keys, names=fields, pure=False)

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
        on_gpu = self.table["X"].rows.on_gpu
        return gpus if on_gpu or setting == "cuda" or n_bytes >= WORTH_A_GPU else []


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


def _homes(
    client: Client, shares: Sequence[Future], workers: Sequence[str], sizes: Sequence[int]
) -> Mapping[str, Mapping[int, Future]]:
    """Pieces of each worker: where they are already, and as even as that allows."""
    fetch(client, shares, values=False)
    found = client.who_has(shares)
    holders = [next(iter(found.get(share.key, ())), None) for share in shares]
    owners = assign(Chunks(list(sizes), list(sizes), holders), list(workers))
    by_worker: dict[str, dict[int, Future]] = {}
    for position, owner in enumerate(owners):
        by_worker.setdefault(workers[int(owner)], {})[position] = shares[position]
    return by_worker


def fetch(client: Client, futures: Sequence[Future], *, values: bool = True) -> list[Any]:
    """Results of tasks, waited for as long as the cluster is at work.

    Raises
    ------
    Lost
        If something that they need was lost with its worker.
    ClusterError
        If the client is closed, or nothing is computed for as long as `sending.patience` says.
    """
    last_work = time.monotonic()
    try:
        while True:
            check_client(client)
            try:
                wait(futures, timeout=TICK_SECONDS)
                return client.gather(list(futures)) if values else []
            except TimeoutError:
                pass
            if any(client.processing().values()):
                last_work = time.monotonic()
            elif time.monotonic() - last_work > patience():
                raise ClusterError(
                    f"Nothing was computed on the cluster for {patience():g} s while sums over "
                    "rows were waited for. See that there are workers."
                )
    except CancelledError as error:
        check_client(client)
        raise Lost(str(error)) from error
    except BaseException:
        # The client keeps an error with its traceback, whose frames keep the futures.
        for future in futures:
            future.release()
        raise
