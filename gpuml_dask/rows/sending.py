"""Blocks of rows go straight to workers, within bounded waits.

They pass the scheduler only if the client cannot reach the workers, or is not to.
"""

import asyncio
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from distributed import Client, Future

from gpuml_dask.errors import NO_ANSWER, ClusterError
from gpuml_dask.planning.blocks import assign
from gpuml_dask.planning.plan import has_gpu
from gpuml_dask.rows.abandoned import key_of, see_to_rows_of
from gpuml_dask.waiting import (
    check_client,
    facts_of,
    logger,
    patience,
    release,
    said_if_slow,
    workers_there,
)

N_TRIES = 5
# So long after a connection broke, the scheduler knows of a worker that died.
NOTICED_S = 1.0
# The scheduler is asked once before that, and once after.
GONE_S = 0.05
# A worker that takes rows more slowly than this is taken for stuck.
SLOWEST_BYTES_PER_S = 10_000_000

_cannot_reach_workers: weakref.WeakSet[Client] = weakref.WeakSet()


def gpu_resources(client: Client) -> dict[str, float] | None:
    """Dask resources of tasks on GPU arrays, if some workers declare a GPU."""
    return {"GPU": 1} if any(map(has_gpu, workers_there(client).values())) else None


class Homes:
    """Which worker each chunk of a table is sent to: even in `n_bytes` of each chunk.

    With `on_gpu`, chunks go to workers that declare a GPU, where there are any.
    """

    def __init__(self, client: Client, n_bytes: Sequence[int], on_gpu: bool):
        self._client, self.n_bytes, self._on_gpu = client, n_bytes, on_gpu
        self._homes: Sequence[str | None] = [None] * len(n_bytes)

    def find(self, chunks: Sequence[int], avoid: set[str]) -> dict[int, str]:
        """Addresses of running workers, the same as before where they still run."""
        running = self._running(avoid)
        known = [home if home in running else None for home in self._homes]
        found = assign(self.n_bytes, known, sorted(running))
        # A chunk that was sent stays where it is, also where `assign` would even out the workers.
        homes = [old or new for old, new in zip(known, found, strict=True)]
        self._homes = homes
        return {i: homes[i] for i in chunks}

    def _running(self, avoid):
        check_client(self._client)
        workers = workers_there(self._client, running=True)
        with_gpu = {address for address, worker in workers.items() if has_gpu(worker)}
        found = with_gpu if self._on_gpu and with_gpu else set(workers)
        return found - avoid or found


def send(client: Client, name: str, chunks: Mapping[int, Any], homes: Homes) -> list[Future]:
    """Send chunks from this process to workers, past the scheduler where that is possible.

    `name` is for keys, and unlike any other; chunks have their numbers in `homes`. Futures come in
    the order of the chunks. A `ClusterError` is raised if no worker takes them.
    """
    sent: dict[int, Future] = {}
    try:
        _send_all(client, name, chunks, homes, sent)
    except BaseException:
        release(sent.values())  # the traceback has them
        raise
    return [sent[i] for i in chunks]


def _send_all(client, name, chunks, homes, sent):
    avoid: set[str] = set()
    n_late: Counter = Counter()
    for _ in range(N_TRIES):
        places = homes.find([i for i in chunks if i not in sent], avoid)
        by_home = defaultdict(list)
        for i, home in places.items():
            by_home[home].append(i)
        for home, members in by_home.items():
            try:
                n_bytes = sum(homes.n_bytes[i] for i in members)
                keys = {i: key_of(client, name, i, n_late[i]) for i in members}
                futures = _send_to(client, home, {keys[i]: chunks[i] for i in members}, n_bytes)
                sent.update((i, futures[keys[i]]) for i in members)
            except (*NO_ANSWER, KeyError) as error:
                # The worker died meanwhile (KeyError: before the scheduler heard of the data), or
                # pauses for want of memory, or is stuck (TimeoutError), or the client closes.
                check_client(client)
                n_late.update(members if isinstance(error, TimeoutError) else ())
                if not _is_out_of_reach(client, home, error):
                    avoid.add(home)
                reason = error
        if len(sent) == len(chunks):
            return
    raise ClusterError(
        f"No worker took the rows that were sent from this process ({reason!r}). Check that "
        "workers run and have free memory."
    ) from reason


def _is_out_of_reach(client, home, error):
    """Whether a worker runs to which this process has no connection; then none is tried again."""
    is_stuck = isinstance(error, TimeoutError)  # but connected
    if is_stuck or not isinstance(error, OSError) or not _goes_straight(client):
        return False
    time.sleep(NOTICED_S)
    if facts_of(client).get(home, {}).get("status") != "running":
        return False
    _cannot_reach_workers.add(client)
    logger.warning(
        "gpuml_dask cannot reach worker %s from this process (%s). Rows go through the scheduler "
        "instead, which takes longer and needs its memory. To skip the attempt, use "
        "Client(..., direct_to_workers=False).",
        *(home, error),
    )
    return True


def _goes_straight(client):
    """Whether rows of a client go to workers past the scheduler."""
    refused = getattr(client, "direct_to_workers", None) is False
    return not refused and client not in _cannot_reach_workers


def _send_to(client, home, data, n_bytes):
    direct, seconds = _goes_straight(client), n_bytes / SLOWEST_BYTES_PER_S
    # Of rows on their way, used in the event loop only: a caller that gave up (Ctrl-C, too slow)
    # may not even know that they were sent.
    arrived: list[Future] = []
    refused = threading.Event()

    def came(sending):
        # What fails after it was given up is nobody's concern.
        if not sending.cancelled() and sending.exception() is None:
            arrived.extend(sending.result().values())
        if refused.is_set():
            release(arrived)

    async def scatter():
        with suppress(Exception):  # a scheduler that takes no code; a lost one will be noticed
            await see_to_rows_of(client, home)
        # The keys are given: hashing gigabytes to make some would take longer than sending. A
        # worker that has just gone is not waited for; there are others.
        sending = asyncio.ensure_future(
            client.scatter(
                data, workers=[home], direct=direct, hash=False, timeout=GONE_S, asynchronous=True
            )
        )
        sending.add_done_callback(came)
        # Ctrl-C cancels what is waited for. A worker that has rows of which the scheduler was not
        # told would keep them for good.
        return await asyncio.shield(sending)

    try:
        with said_if_slow(f"worker {home} to take rows", seconds):
            return client.sync(scatter, callback_timeout=patience() + seconds)
    except BaseException:
        refused.set()
        client.loop.add_callback(release, arrived)
        raise
