"""Blocks of rows go straight to workers, and small answers come back, within bounded waits."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Client, Future, wait
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from gpuml_dask.errors import NO_ANSWER, ClusterError
from gpuml_dask.rows.abandoned import key_of, see_to_rows_of

# How long a cluster may have no workers, or do nothing at all while something is waited for, until
# we give up; seconds, or "2 minutes".
PATIENCE = "gpuml.patience"
DEFAULT_PATIENCE = "60s"
TICK_S = 2.0
# Answers of the scheduler, and copies of finished results.
ANSWER_SECONDS = 30.0
N_TRIES = 5
# The scheduler is asked once before that, and once after.
GONE_S = 0.05
# A worker that takes rows more slowly than this is taken for stuck.
SLOWEST_BYTES_PER_S = 10_000_000


def patience() -> float:
    """Seconds that a cluster may stand still: Dask's setting ``gpuml.patience``."""
    return parse_timedelta(dask.config.get(PATIENCE, DEFAULT_PATIENCE))


def check_client(client: Client) -> None:
    """Complain of a client that cannot be waited for.

    Raises
    ------
    ClusterError
        If it is closed, or was called from its own event loop.
    TypeError
        If it is no client.
    """
    if not hasattr(client, "scatter"):  # a cluster, an address
        raise TypeError(
            f"client must be a distributed.Client, got {type(client).__name__}. What is put on "
            "workers goes with the client, so open one, client = Client(address or cluster), and "
            "keep it open."
        )
    if client.asynchronous:
        raise ClusterError(
            "An asynchronous client cannot be waited for in its own event loop. Call from a "
            "thread: await asyncio.to_thread(search.fit, X, y)."
        )
    if client.status in ("closed", "closing"):
        raise ClusterError("The Dask client is closed. Pass a client that is connected.")


@contextmanager
def in_touch(client: Client) -> Iterator[None]:
    """Turn whatever a client raises that closes, or loses its scheduler, into a ClusterError."""
    try:
        yield
    except ClusterError:
        raise
    except Exception as error:
        check_client(client)
        if isinstance(error, (ClosedClientError, CommClosedError)) or client.status != "running":
            raise ClusterError(
                f"The client or its scheduler went away: {error}. Open a client of a scheduler "
                "that runs, Client(...), and call again."
            ) from error
        raise


def gpu_resources(client: Client) -> dict[str, float] | None:
    """What tasks on GPU arrays must ask for, where some workers say that they have a GPU."""
    workers = _workers(client).values()
    return {"GPU": 1} if any(worker["resources"].get("GPU") for worker in workers) else None


def _workers(client):
    try:
        return client.scheduler_info(n_workers=-1)["workers"]
    except (*NO_ANSWER, KeyError) as error:
        raise ClusterError(f"The scheduler does not answer: {error}.") from error


class Homes:
    """Which worker each chunk of a table is sent to: even in bytes.

    Parameters
    ----------
    client : Client
    n_bytes : sequence of int
        Size of each chunk.
    on_gpu : bool
        Whether only workers with a GPU will do, where some say that they have one.
    """

    def __init__(self, client: Client, n_bytes: Sequence[int], on_gpu: bool):
        self._client, self._n_bytes, self._on_gpu = client, n_bytes, on_gpu
        self._homes: dict[int, str] = {}

    def find(self, chunks: Sequence[int], avoid: set[str]) -> dict[int, str]:
        """Addresses of running workers, the same as before where they still run."""
        running = self._running(avoid)
        homes = {i: home for i, home in self._homes.items() if home in running}
        load = dict.fromkeys(sorted(running), 0)
        for i, home in homes.items():
            load[home] += self._n_bytes[i]
        for i in chunks:
            if i not in homes:
                homes[i] = min(load, key=load.__getitem__)
                load[homes[i]] += self._n_bytes[i]
        self._homes = homes
        return {i: homes[i] for i in chunks}

    def bytes_of(self, chunks: Sequence[int]) -> int:
        """Bytes of some chunks."""
        return sum(self._n_bytes[i] for i in chunks)

    def _running(self, avoid):
        check_client(self._client)
        deadline = time.monotonic() + patience()
        while True:
            workers = {a: w for a, w in _workers(self._client).items() if w["status"] == "running"}
            with_gpu = {a for a, w in workers.items() if w["resources"].get("GPU")}
            found = with_gpu if self._on_gpu and with_gpu else set(workers)
            if found:
                return found - avoid or found
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"The cluster had no running worker for {patience():g} s. Start workers, or "
                    f"allow more time: dask.config.set({{'{PATIENCE}': '10 minutes'}})."
                )
            time.sleep(0.1)


def send(client: Client, name: str, chunks: Mapping[int, Any], homes: Homes) -> list[Future]:
    """Send chunks from this process to workers, past the scheduler.

    Parameters
    ----------
    client : Client
    name : str
        For keys; unlike any other.
    chunks : dict of int to block
        By numbers in `homes`.
    homes : Homes

    Returns
    -------
    futures : list of Future
        In the order of the chunks.

    Raises
    ------
    ClusterError
        If there are no workers, or none takes the data.
    """
    sent: dict[int, Future] = {}
    try:
        _send_all(client, name, chunks, homes, sent)
    except BaseException:
        release(sent.values())  # the traceback has them
        raise
    return [sent[i] for i in chunks]


def _send_all(client, name, chunks, homes, sent):
    """Send chunks; `sent` gets the futures as they come."""
    avoid: set[str] = set()
    n_late: Counter = Counter()
    for _ in range(N_TRIES):
        places = homes.find([i for i in chunks if i not in sent], avoid)
        by_home = defaultdict(list)
        for i, home in places.items():
            by_home[home].append(i)
        for home, members in by_home.items():
            try:
                limit = patience() + homes.bytes_of(members) / SLOWEST_BYTES_PER_S
                keys = {i: key_of(client, name, i, n_late[i]) for i in members}
                futures = _send_to(client, home, {keys[i]: chunks[i] for i in members}, limit)
                sent.update((i, futures[keys[i]]) for i in members)
            except (*NO_ANSWER, KeyError) as error:
                # The worker died meanwhile (KeyError: before the scheduler heard of the data), or
                # pauses for want of memory, or is stuck (TimeoutError), or the client closes.
                check_client(client)
                n_late.update(members if isinstance(error, TimeoutError) else ())
                avoid.add(home)
                reason = error
        if len(sent) == len(chunks):
            return
    raise ClusterError(
        f"No worker took the rows that were sent from this process ({reason!r}). Rows go straight "
        "to workers, so this process must be able to reach their addresses, and they must have "
        "memory left."
    ) from reason


def _send_to(client, home, data, limit):
    """Futures by key of what a worker was sent."""

    async def scatter():
        with suppress(Exception):  # a scheduler that takes no code; a lost one will be noticed
            await see_to_rows_of(client)
        # The keys are ours: hashing gigabytes to make some would take longer than sending. A worker
        # that has just gone is not waited for; others are there.
        sending = asyncio.ensure_future(
            client.scatter(
                data, workers=[home], direct=True, hash=False, timeout=GONE_S, asynchronous=True
            )
        )
        # What is given up as too slow may fail later, which is nobody's concern then.
        sending.add_done_callback(lambda task: task.cancelled() or task.exception())
        # Ctrl-C cancels what is waited for. A worker that has rows of which the scheduler was not
        # told would keep them for good.
        return await asyncio.shield(sending)

    return client.sync(scatter, callback_timeout=limit)


def release(futures: Iterable[Future]) -> None:
    """Let go of futures of our own, now.

    Dropping them is not enough where a task raised: the client has its error, whose traceback has
    the frames in which it was raised, and those have the futures.
    """
    for future in futures:
        future.release()


def answers(client: Client, futures: Sequence[Future]) -> list[Any]:
    """Small results of tasks, waited for as long as the cluster is at work; releases the futures.

    Raises
    ------
    ClusterError
        If nothing is computed anywhere for as long as `patience` says, if the client is closed,
        or if what the tasks rest on is lost.
    Exception
        What a task raised.
    """
    check_client(client)
    last_work = time.monotonic()
    try:
        while not _are_done(client, futures):
            check_client(client)
            if is_at_work(client):
                last_work = time.monotonic()
            elif time.monotonic() - last_work > patience():
                raise ClusterError(
                    f"Nothing was computed on the cluster for {patience():g} s while "
                    "the chunks of X and y were waited for. See that there are workers, with the "
                    "resources that the chunks ask for."
                )
        return client.gather(list(futures))
    except CancelledError as error:
        check_client(client)
        raise ClusterError(
            f"Chunks of the data were lost with their worker, or the scheduler was restarted "
            f"({error}). Make them again and call again."
        ) from error
    finally:
        release(futures)


def is_at_work(client: Client) -> bool:
    """Whether any worker computes something, as far as the scheduler says in time."""
    try:
        scheduler: Any = client.scheduler
        found = client.sync(
            scheduler.processing, workers=None, callback_timeout=min(patience(), ANSWER_SECONDS)
        )
    except NO_ANSWER:
        return False
    return any(found.values())


def _are_done(client, futures):
    try:
        with client.as_current():
            wait(futures, timeout=TICK_S)
    except TimeoutError:
        return False
    return True
