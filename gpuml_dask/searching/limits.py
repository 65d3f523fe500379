"""Limits of fits: workers tell of tasks that run for too long, and restart themselves.

No thread can be stopped from outside, so a fit ends with its process. The clock is the worker's,
and begins when a task has its rows and its turn on the evaluator. It is the client that decides: it
cancels the task, and a worker restarts when it runs a task for longer than it may that nobody waits
for any more, also where the search was ended by an error or by Ctrl-C.
"""

import asyncio
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from distributed import Client, get_worker
from distributed.core import Status

from gpuml_dask.client import in_task
from gpuml_dask.errors import NO_ANSWER, ClusterError
from gpuml_dask.waiting import ask, logger

# Of Dask's events; all searches share it, since the scheduler keeps topics for good.
TOPIC = "gpuml-fit-timeout"
# Longer pauses between two looks at the clock are those of a process, or machine, that was stopped.
PAUSE_SECONDS = 1.0
LONGEST_TICK, SHORTEST_TICK = 1.0, 0.05
# A task that still runs is told of again: the message may be lost with a connection.
AGAIN_SECONDS = 10.0
# For the scheduler to take its tasks off a worker that restarts.
SECONDS_TO_LEAVE = 10.0

NO_NANNY = (
    "fit_timeout= ends a fit by restarting its worker, and workers {} have no nanny that would "
    "start them again. Use workers that have one: Client(processes=True), "
    "gpuml_dask.local_client(), 'dask worker' without --no-nanny; or leave fit_timeout= out."
)
IN_A_TASK = (
    "fit_timeout= ends a fit by restarting its worker, and this search runs in a task of a worker, "
    "which would end with it. Call fit in a process of its own, or leave fit_timeout= out."
)


def check_fit_timeout(seconds: Any) -> None:
    """Raise ValueError for what is neither None nor a positive number of seconds."""
    number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if seconds is not None and not (number and float(seconds) > 0):
        raise ValueError(
            f"fit_timeout must be a positive number of seconds, or None, got {seconds!r}."
        )


def check_restartable(workers: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ClusterError where workers can't be restarted, or this process is one of them."""
    bare = sorted(address for address, facts in workers.items() if not facts["nanny"])
    if bare:
        raise ClusterError(NO_NANNY.format(bare))
    if in_task():
        raise ClusterError(IN_A_TASK)


# ---------------------------------------------------------------- on workers


@contextmanager
def limited(fit_timeout: float | None, n_fits: int = 1) -> Iterator[None]:
    """Tell clients if a ``with`` block of this task takes longer than `n_fits` fits may."""
    if fit_timeout is None:
        yield
        return
    worker, over = get_worker(), threading.Event()
    what = worker, worker.get_current_task(), n_fits * fit_timeout, over
    threading.Thread(target=_watch, args=what, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(worker, key, limit, over):
    tick = max(SHORTEST_TICK, min(LONGEST_TICK, limit / 4))
    ran, told, before = 0.0, -AGAIN_SECONDS, time.monotonic()
    while not over.wait(tick):
        now = time.monotonic()
        ran += min(now - before, tick + PAUSE_SECONDS)
        before = now
        if ran <= limit:
            continue
        with suppress(RuntimeError):  # the worker closes
            task = worker.state.tasks.get(key)
            if task is None or task.state == "cancelled":  # nobody waits for it
                worker.loop.add_callback(_restart, worker, key, ran)
                return
            if ran - told >= AGAIN_SECONDS:
                told = ran
                event = {"key": key, "seconds": ran, "worker": worker.address}
                worker.log_event(TOPIC, {**event, "restarts": worker.nanny is not None})


async def _restart(worker, key, seconds):
    """End this process, for its nanny to start another; nobody is blamed for its tasks."""
    if worker.nanny is None:
        return
    logger.warning("%s is restarted: %s ran for %.0f s.", worker.address, key, seconds)
    # A worker that is told, by a heartbeat, that it was removed would take its nanny with it.
    worker.status = Status.closing
    with suppress(Exception):
        # Otherwise Dask counts a death for each task that waits here, as if it were the culprit.
        left = worker.scheduler.unregister(
            address=worker.address,
            expected=True,
            close=False,
            stimulus_id=f"{TOPIC}-{time.time()}",
        )
        await asyncio.wait_for(left, SECONDS_TO_LEAVE)
    os._exit(1)  # all else would wait for the thread


# ---------------------------------------------------------------- on the client


@dataclass(frozen=True)
class Overrun:
    """A task that has run for longer than it may.

    `restarts`: its worker restarts as soon as nothing waits for the task.
    """

    key: Any
    seconds: float
    worker: str
    restarts: bool


def overruns(client: Client) -> list[Overrun]:
    """Overruns that workers have reported, of all searches; none while the scheduler is silent."""
    scheduler: Any = client.scheduler
    try:
        events = ask(client, scheduler.events, topic=TOPIC)
    except NO_ANSWER:
        return []
    found = [Overrun(**event) for _, event in events]
    # A message makes lists of tuples.
    return [replace(e, key=tuple(e.key)) if isinstance(e.key, list) else e for e in found]


def check_restarts(late: Collection[Overrun]) -> None:
    """Raise ClusterError where a worker has no nanny, as may be of one that joined later."""
    bare = sorted({each.worker for each in late if not each.restarts})
    if bare:
        raise ClusterError(NO_NANNY.format(bare))
