"""The client to use: the given one, or the current one."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import dask
from distributed import Client, get_client, get_worker, worker_client
from distributed.deploy import Cluster

from gpuml_dask.errors import ClusterError
from gpuml_dask.on_start import import_on_workers
from gpuml_dask.waiting import in_touch, interruptible, workers_as_text

HOW_TO_CONNECT = (
    "Start one with gpuml_dask.local_client(), connect to a running scheduler with "
    "distributed.Client('tcp://host:8786'), or give client=: a Client, a cluster, or the address "
    "of a scheduler."
)
# Names by which dask-ml's searches select the current client, or this machine alone.
CURRENT = ("distributed", "dask.distributed")
LOCAL_SCHEDULERS = (
    *("sync", "synchronous", "single-threaded", "threads", "threading"),
    *("processes", "multiprocessing"),
)


@contextmanager
def the_client(client: Any = None) -> Iterator[Client]:
    """The client to use, synchronous and connected, for a ``with`` statement.

    None is the default client, or in a task the client of its worker. For an asynchronous client,
    an address or a cluster, a synchronous client is opened, which lives as long as the ``with``
    block. In a task, its worker runs others for as long. A `ClusterError` is raised if there is no
    client, it is closed, now or in the ``with`` block, or no scheduler answers; a RuntimeError if
    the client is asynchronous and this is called from its own event loop, which would wait for
    itself.
    """
    client = current_client() if client is None else client
    if client is None:
        raise ClusterError(f"There is no Dask client. {HOW_TO_CONNECT}")
    if not isinstance(client, Client | Cluster | str):
        raise TypeError(
            f"client must be a Client, a cluster or an address, got {type(client).__name__}. "
            + HOW_TO_CONNECT
        )
    if isinstance(client, Client) and client.status in ("closed", "closing"):
        raise ClusterError(f"The client is closed. {HOW_TO_CONNECT}")
    with (
        thread_lent(),
        interruptible(),
        nullcontext(client)
        if isinstance(client, Client) and not client.asynchronous
        else _opened(client) as ours,
        in_touch(ours),
        dask.annotate(**workers_as_text(ours)),
    ):
        import_on_workers(ours)
        yield ours


def thread_lent() -> AbstractContextManager[Any]:
    """Let a worker do other work while a task on it waits for tasks of its own, if this is one.

    Otherwise such tasks, if there are as many as threads, would wait for each other for ever.
    """
    return worker_client() if in_task() else nullcontext()


def in_task() -> bool:
    try:
        get_worker()
    except ValueError:
        return False
    return True


def current_client() -> Client | None:
    """The current client, or the worker's in a task; None if there is none."""
    try:
        return get_client()
    except ValueError:
        return None


def _opened(client):
    """A new synchronous client for the scheduler that `client` names."""
    address, security = client, None
    if not isinstance(client, str):
        if client.asynchronous:
            _refuse_its_own_loop(client.loop)
        address, security = address_of(client), client.security
    if not address or "Not Connected" in address:
        raise ClusterError(f"There is no scheduler yet, or no longer. {HOW_TO_CONNECT}")
    try:
        return Client(address, security=security, set_as_default=False)
    except OSError as error:
        raise ClusterError(f"No scheduler answers at {address}. {HOW_TO_CONNECT}") from error


def address_of(client: Client | Cluster) -> str | None:
    """The address of the scheduler; None where a client has none."""
    if isinstance(client, Cluster):
        return client.scheduler_address
    return None if client.scheduler is None else client.scheduler.address


def _refuse_its_own_loop(loop):
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if getattr(loop, "asyncio_loop", None) is running:
        raise RuntimeError(
            "A blocking call was made from the event loop of its own asynchronous client. Make it "
            "in a thread: 'await asyncio.to_thread(search.fit, X, y)'."
        )


@contextmanager
def client_for(client: Any, scheduler: Any) -> Iterator[Client | None]:
    """The client for a search; None for a search in this process.

    `scheduler` is a client, an address, a cluster, or the name of one of Dask's local schedulers;
    it counts if `client` is None. Without both it is the current client, if there is one.
    """
    chosen = scheduler if client is None else client
    named = isinstance(chosen, str) and ":" not in chosen
    name = chosen.lower() if named else None
    if chosen is None or name in CURRENT:
        chosen, named = current_client(), False
    # Such as `dask.threaded.get`.
    is_function = callable(chosen) and not isinstance(chosen, type | Cluster)
    if chosen is None or name in LOCAL_SCHEDULERS or (client is None and is_function):
        yield None
    elif named:
        raise ValueError(
            f"client= (or scheduler=) must be a Client, a cluster, the address of a scheduler such "
            f"as 'tcp://host:8786', or one of {LOCAL_SCHEDULERS}; got {chosen!r}."
        )
    else:
        with the_client(chosen) as found:
            yield found
