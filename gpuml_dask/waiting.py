"""Waiting for a cluster: time limits, and progress reports where there is no limit.

A wait for work that no worker does ends after `patience` with a `ClusterError`. Work that a worker
does, or that comes after other work there, may take any time. If a worker is silent, paused or busy
with something else, the logger ``gpuml_dask`` reports it after some seconds.
"""

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import dask
from dask.utils import parse_timedelta
from distributed import Client, Future, wait
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from gpuml_dask._annotations import allowed, asked_workers
from gpuml_dask.errors import NO_ANSWER, ClusterError, NoAnswer

logger = logging.getLogger("gpuml_dask")

# How long a cluster may have no workers, or do nothing while a result is expected, before the wait
# ends with an error; seconds, or "2 minutes".
PATIENCE = "gpuml.patience"
# The interval between checks of a future, and of the cluster while none finishes.
TICK_SECONDS = 1.0
LOOK_SECONDS = 2.0
# The first report of a wait comes after so long, the next after twice, four times as long.
SAY_SECONDS = 10.0
# The limit for answers of the scheduler, and for copies of finished results.
ANSWER_SECONDS = 30.0
MOST_GATHERS = 3
# The delay of an interrupt that is raised again.
AGAIN_SECONDS = 0.05


def patience() -> float:
    """Seconds that a cluster may be idle: Dask's setting ``gpuml.patience``."""
    return parse_timedelta(dask.config.get(PATIENCE))


def check_client(client: Client) -> None:
    """Raise an error for a client that cannot be waited for."""
    if not hasattr(client, "scatter"):  # a cluster, an address
        raise TypeError(
            f"client must be a distributed.Client, got {type(client).__name__}. Data "
            "on workers is released with its client, so open one, "
            "client = Client(address or cluster), and keep it open."
        )
    if client.asynchronous:
        raise ClusterError(
            "An asynchronous client cannot be waited for in its own event loop. Call from a "
            "thread: await asyncio.to_thread(search.fit, X, y)."
        )
    if client.status in ("closed", "closing"):
        raise ClusterError(
            "The Dask client is closed, or has lost its scheduler for good. Open another, "
            "Client(...), give it as client=, and call again."
        )


@contextmanager
def in_touch(client: Client) -> Iterator[None]:
    """Turn all errors of a client that closes, or loses its scheduler, into a ClusterError."""
    try:
        yield
    except ClusterError:
        raise
    except Exception as error:
        check_client(client)
        if isinstance(error, (ClosedClientError, CommClosedError)) or client.status != "running":
            raise ClusterError(
                f"The client or its scheduler went away: {error}. Connect to a running "
                "scheduler, Client(...), and call again."
            ) from error
        raise


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise a KeyboardInterrupt again that Python has dropped.

    Futures tell their client when they are deleted, and nothing can be raised from there.
    """
    if threading.current_thread() is not threading.main_thread():  # no interrupts come there
        yield
        return
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            threading.Timer(AGAIN_SECONDS, _interrupt_main).start()
        else:
            before(dropped)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt_main():
    """Send SIGINT to the main thread, which ends what it waits for."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:  # Windows
        signal.raise_signal(signal.SIGINT)


# ---------------------------------------------------------------- what is said


class Report:
    """Reports why a wait continues: after a while, then less and less often."""

    def __init__(self, what: str):
        self._what = what
        self._next: dict[str, float] = {}

    def say(self, reasons: Mapping[str, float]) -> None:
        """Report reasons, each of which has lasted for so many seconds."""
        for reason, seconds in reasons.items():
            if seconds >= self._next.get(reason, SAY_SECONDS):
                text = "gpuml_dask has been waiting for %s for %.0f s. %s"
                logger.warning(text, self._what, seconds, reason)
                self._next[reason] = 2 * seconds


@contextmanager
def said_if_slow(what: str, usual: float) -> Iterator[None]:
    """Report a wait if the ``with`` block takes much longer than usual seconds."""
    seconds = usual + SAY_SECONDS
    text = "gpuml_dask has been waiting for %s for %.0f s. It is slow, or it hangs."
    timer = threading.Timer(seconds, logger.warning, (text, what, seconds))
    timer.daemon = True
    try:
        timer.start()  # Ctrl-C may interrupt this
        yield
    finally:
        timer.cancel()


def workers_there(
    client: Client, *, running: bool = False, n_wanted: int = 1
) -> dict[str, dict[str, Any]]:
    """The scheduler's description of each worker, by address, as soon as there is one.

    With `running`, workers do not count that are paused, or leave. `n_wanted` is the number of
    tasks to come: a cluster that adapts starts workers for as many. A `ClusterError` is raised if
    there is no scheduler or no worker for as long as `patience` says.
    """
    limit, began, report = patience(), time.monotonic(), Report("a worker")
    wanted: list[Future] = []
    try:
        while True:
            facts, trouble = _look_at_workers(client)
            there = {a: f for a, f in facts.items() if not running or f["status"] == "running"}
            if there:
                return there
            check_client(client)
            waited = time.monotonic() - began
            if waited > limit:
                raise ClusterError(
                    f"{trouble} for {limit:g} seconds. Check that the cluster has workers "
                    "(cluster.scale(...), or their logs), and call again; or allow more time: "
                    f"dask.config.set({{'{PATIENCE}': '10 minutes'}})."
                )
            if not wanted and client.status == "running" and not facts:
                # Adaptive clusters start workers for tasks only.
                word = uuid4().hex
                keys = [(f"first worker-{word}", i) for i in range(n_wanted)]
                wanted = client.map(int, range(n_wanted), key=keys, pure=False)
            report.say({f"{trouble}. It may take {limit:g} s ({PATIENCE}).": waited})
            time.sleep(TICK_SECONDS / 10)
    finally:
        release(wanted)


def facts_of(client: Client) -> dict[str, dict[str, Any]]:
    """The scheduler's description of each worker, by address; empty without an answer."""
    return _look_at_workers(client)[0]


def workers_as_text(client: Client) -> dict[str, Any]:
    """Annotations that name workers by texts, also where names are numbers.

    Dask closes the connection of a client that names a missing worker by a number. It takes unknown
    texts for hosts, so the addresses of now stand beside.
    """
    asked = asked_workers()
    if all(isinstance(each, str) for each in asked):
        return {}
    return {"workers": [*facts_of(client), *map(str, asked)]}


def _look_at_workers(client):
    """The scheduler's description of each worker, and what is wrong if none runs."""
    if client.status != "running":
        return {}, "There was no connection to the scheduler"
    try:
        scheduler: Any = client.scheduler
        facts = ask(client, scheduler.identity, n_workers=-1)["workers"]
    except (*NO_ANSWER, KeyError):
        return {}, "The scheduler gave no answer"
    known, facts = sorted(facts), allowed(facts)
    states = sorted({fact["status"] for fact in facts.values()})
    all_of = f" (all {len(facts)} are {' or '.join(states)})" if facts else ""
    if known and not facts:
        all_of = f" among {sorted(map(str, asked_workers()))}, which you chose; there are {known}"
    return facts, f"There was no running worker{all_of}"


def threads_of(client: Client) -> dict[str, int]:
    """Threads of all workers that tasks of this thread may use, by address."""
    if asked_workers():
        return {address: fact["nthreads"] for address, fact in facts_of(client).items()}
    scheduler: Any = client.scheduler
    return ask(client, scheduler.ncores)


def ask(client: Client, question: Callable[..., Any], **settings: Any) -> Any:
    """The result of a coroutine of the client, or of its scheduler; `NoAnswer` if it takes long."""
    began = time.monotonic()
    try:
        return client.sync(partial(question, **settings), callback_timeout=ANSWER_SECONDS)
    except TimeoutError as error:
        if time.monotonic() - began < ANSWER_SECONDS:
            raise  # raised by the coroutine itself
        raise NoAnswer(
            f"The cluster did not answer for {ANSWER_SECONDS:g} s. Check that its scheduler "
            "and its workers run, and that they can reach each other."
        ) from error


# ---------------------------------------------------------------- tasks


class Wait:
    """A wait for tasks, as long as workers run them or what they depend on.

    `what` names the tasks in messages. Without any work on them it ends after `patience`, and
    `more` seconds.
    """

    def __init__(self, client: Client, what: str, more: float = 0.0):
        self._client, self._what, self._limit = client, what, patience() + more
        self._report = Report(what)
        self.moved()

    def moved(self) -> None:
        self._at_work = self._looked = time.monotonic()
        self._since: dict[str, float] = {}

    def look(self, keys: Iterable[Any]) -> None:
        """Check the cluster, unless it was checked just now, and report what is unusual."""
        check_client(self._client)
        now = time.monotonic()
        if now - self._looked < min(LOOK_SECONDS, self._limit / 2):
            return
        self._looked = now
        try:
            question = _question(list(keys), list(asked_workers()))
            found = ask(self._client, self._client.run_on_scheduler, **question)
        except NO_ANSWER:
            found = {"at work": False, "reasons": {"The scheduler does not answer.": 0.0}}
        if found["at work"]:
            self._at_work = now
        self._since = {reason: self._since.get(reason, now) for reason in found["reasons"]}
        seconds = {r: max(s, now - self._since[r]) for r, s in found["reasons"].items()}
        self._report.say(seconds)
        if now - self._at_work > self._limit:
            reasons = " ".join(seconds) or "No worker has them."
            raise ClusterError(
                f"Nothing was computed on the cluster for {self._limit:g} s while gpuml_dask "
                f"waited for {self._what}. {reasons} Check that there are workers with the "
                "resources that tasks require."
            )


def _question(keys, asked):
    # Nested functions travel by value: schedulers need not have this package.
    def look(keys, asked, silent_after, dask_scheduler):
        """Whether any worker runs tasks, or what they need, and which workers keep them waiting."""
        from time import time

        needed, todo = set(), [t for k in keys if (t := dask_scheduler.tasks.get(k)) is not None]
        while todo:
            task = todo.pop()
            if task not in needed and task.state not in ("memory", "erred", "forgotten"):
                needed.add(task)
                todo.extend(task.dependencies)
        reasons: dict[str, float] = {}
        is_at_work = False
        by_worker: dict = {}
        # Dask takes names for addresses, and a worker that its nanny starts again has another one.
        there = dask_scheduler.workers
        named = {a for a, w in there.items() if not {a, w.host, str(w.name)}.isdisjoint(asked)}
        known = {*there, *(worker.host for worker in there.values())}
        for task in needed:
            limits = {*(task.worker_restrictions or ()), *(task.host_restrictions or ())}
            if named and limits and limits.isdisjoint(known):
                dask_scheduler.set_restrictions({task.key: named})
            if task.state == "processing":
                by_worker.setdefault(task.processing_on, []).append(task)
            elif task.state == "no-worker":
                asked = {**task.resource_restrictions} if task.resource_restrictions else {}
                why = f"require the resources {asked}" if asked else f"are for {sorted(limits)}"
                why = why if asked or limits else "find none that runs"
                reasons[f"No worker may take tasks that {why}."] = 0.0
            elif task.state == "queued":
                is_at_work |= any(
                    len(w.processing) > len(w.long_running) for w in dask_scheduler.running
                )
        for address in named:
            again = dask_scheduler.bulk_schedule_unrunnable_after_adding_worker(there[address])
            dask_scheduler.transitions(again, "gpuml_dask-named-workers")
        for worker, tasks in by_worker.items():
            runs = {task for task in tasks if task in worker.executing}
            others = set(worker.executing) - needed - worker.long_running
            silent = time() - worker.last_seen
            name = f"Worker {worker.address}"
            held = {
                name
                for task in tasks
                for name, amount in (task.resource_restrictions or {}).items()
                if amount
                > worker.resources.get(name, 0.0)
                - sum((t.resource_restrictions or {}).get(name, 0.0) for t in worker.long_running)
            }
            if silent > silent_after:
                ttl = dask_scheduler.worker_ttl
                then = f"after {ttl:g} s" if ttl else "never"
                reasons[
                    f"{name}, which runs tasks that gpuml needs, is silent. Dask declares it "
                    f"dead {then} (distributed.scheduler.worker-ttl)."
                ] = silent
            if runs:
                is_at_work = True
            elif worker.status.name == "paused":
                reasons[f"{name} is paused, because its memory is full."] = 0.0
            elif held:
                reasons[
                    f"On worker {worker.address} the resources {sorted(held)} are held by tasks "
                    "that are waiting themselves."
                ] = 0.0
            else:
                is_at_work = True
                if len(others) >= worker.nthreads:
                    reasons[f"{name} is busy with other tasks."] = 0.0
        return {"at work": is_at_work, "reasons": reasons}

    return {"function": look, "keys": keys, "asked": asked, "silent_after": SAY_SECONDS}


def wait_until_done(
    client: Client, futures: Sequence[Future], what: str, *, limit: float | None = None
) -> None:
    """Wait until tasks finish or fail, or for `limit` seconds; see `Wait`.

    A CancelledError is raised if something that they need was lost with its worker.
    """
    waiting, began = Wait(client, what), time.monotonic()
    keys = [future.key for future in futures]
    while limit is None or time.monotonic() - began < limit:
        check_client(client)
        try:
            with client.as_current():  # it need not be the default client
                wait(futures, timeout=TICK_SECONDS)
            return
        except TimeoutError:
            waiting.look(keys)


def gathered(client: Client, futures: Sequence[Future], what: str) -> list[Any]:
    """Results of tasks: waits as `wait_until_done`, then copies them here within a time limit."""
    for _ in range(MOST_GATHERS):
        wait_until_done(client, futures, what)
        try:
            return ask(client, client.gather, futures=list(futures), asynchronous=True)
        except NoAnswer as error:
            reason = error  # a worker with results dies, or hangs
    raise reason


def answers(client: Client, futures: Sequence[Future], what: str) -> list[Any]:
    """Small results of tasks on rows, as `gathered`; releases the futures."""
    try:
        return gathered(client, futures, what)
    except CancelledError as error:
        check_client(client)
        raise ClusterError(
            f"Chunks of the data were lost with their worker, or the scheduler was restarted "
            f"({error}). Compute them again, and call again."
        ) from error
    finally:
        release(futures)


def release(futures: Iterable[Future]) -> None:
    """Release futures of this package now.

    Dropping them is not enough: where a task raised, the client has its error, whose traceback has
    frames, and those have the futures.
    """
    for future in futures:
        future.release()
