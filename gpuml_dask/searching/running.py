"""Units of work as Dask tasks, run to the end whatever dies meanwhile.

Dask runs a task again when its worker dies. What is left to do here:

* Data that the client has sent is lost with the last worker that had it, and every task that
  depends on it is cancelled. It is sent again, and those units are submitted again, under new keys:
  a key that was cancelled stays so.
* A unit whose workers have died several times may be the culprit, or have stood next to it. So it
  is a suspect, and runs again when nothing else does. If its worker dies again, each of its single
  fits is a suspect; and a single fit that ends its worker when it runs alone is guilty. Deaths are
  counted here too, because the scheduler forgets about tasks that were cancelled.
* A unit whose fits take longer than they may (`fit_timeout`) is cancelled, and its worker restarts;
  its single fits run again, and one that still takes longer is given up.
* A task that units need may end its workers too. Where it does so for a unit that runs alone, that
  is a `ClusterError` that names the task: nobody's score is at stake.
"""

import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import Client, Future, KilledWorker

from gpuml_dask.errors import NO_ANSWER, SEE_LOGS, ClusterError
from gpuml_dask.searching.limits import Overrun, check_restarts, overruns
from gpuml_dask.waiting import ANSWER_SECONDS, TICK_SECONDS, Wait, ask, threads_of, workers_there

# Deaths of workers that may be chance; the scheduler's own number is the same.
MOST_DEATHS = 3
# So many with a unit that runs alone are not chance. The first may be due to the culprit before it:
# a worker that ran that one when it was taken back dies a moment later, with what it got since.
MOST_DEATHS_ALONE = 2
# Each time a worker died that had rows, or the scheduler was started anew; not by our restarts.
MOST_LOSSES = 100
# Work for a kind of workers that has gone is given to others after the patience.
SECONDS_FOR_OTHERS = 5.0


@dataclass(frozen=True)
class Killed:
    """The outcome of a unit whose workers died whenever it ran."""

    reason: str


@dataclass(frozen=True)
class Late:
    """The outcome of a unit that took longer than allowed.

    It ran for `seconds`. `again`: its parts run again, each by itself.
    """

    seconds: float
    fit_timeout: float
    again: bool


class Runner:
    """Runs units on a cluster, in tasks that `_submit` makes.

    A unit is a piece of work that gives the same result whenever and wherever it runs. Its `title`
    and `label` name it on Dask's dashboard: units with one title are shown together. A candidate of
    its `candidates` that was found guilty is not run again. ``singles()`` is the same work in its
    smallest parts; none if it is one.

    `inputs` are what all units take: ``arguments()`` are futures by name, ``revive()`` makes again
    what was lost, and ``keep_on(workers)`` lets workers keep what they make of them to the end.
    """

    def __init__(self, client: Client, inputs: Any, *, fit_timeout: float | None = None):
        self.client = client
        self.fit_timeout: Any = fit_timeout
        self._inputs = inputs
        self._token = uuid.uuid4().hex
        self._running: dict[Any, tuple[Any, Future]] = {}
        self._alone: Any = None
        self._suspects: deque = deque()
        self._later: list[tuple[Sequence[Any], Sequence[str]]] = []
        self._guilty: set[int] = set()
        self._submitted: dict[Any, Any] = {}
        self._workers: set[str] = set()
        self._n_threads = 0
        self._looked = float("-inf")
        self._counted: set[str] = set()
        self._deaths: Counter = Counter()
        self._n_losses = 0
        self._n_late = 0
        self._wait = Wait(client, "fits", SECONDS_FOR_OTHERS)
        self._finished: queue.SimpleQueue = queue.SimpleQueue()
        # Raised where no frame has futures: the client has the exception, which has the frames, so
        # that they would never be let go.
        self._error: BaseException | None = None

    def run(
        self,
        units: Sequence[Any],
        *,
        workers: Sequence[str] = (),
        more: Callable[[int, int], Sequence[Any]] | None = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Run units and yield each with its result as they come; `add` may be called meanwhile.

        ``more(number of threads, number of units that run or wait)`` is called for others from time
        to time: workers come and go. `workers` are the preferred ones. The result is that of the
        function, a `Killed` or a `Late`; the unit may be a part of another one, if that one's
        workers died or it took too long. Errors of the function are raised here, and those of tasks
        that make its arguments.
        """
        try:
            self.add(units, workers=workers)
            while self._running or self._later or self._suspects:
                if not self._running and self._later:
                    later, self._later = self._later, []
                    for waiting, homes in later:
                        self._add(waiting, homes)
                elif not self._running:
                    yield from self._next_suspect()
                else:
                    yield from self._next_results()
                if self._error is not None:
                    raise self._error
                if more is not None:
                    self.add(more(self._n_threads, len(self._running)))
        finally:
            self._stop()

    def add(self, units: Sequence[Any], *, workers: Sequence[str] = ()) -> None:
        """Submit units, as soon as no suspect runs alone."""
        if any(unit is self._alone for unit, _ in self._running.values()):
            self._later.append((units, workers))
        else:
            self._add(units, workers)

    def _add(self, units, workers=()):
        if not units:
            return
        # Dask groups tasks by the part of the key before the token.
        numbered = enumerate(units, len(self._submitted) + 1)
        keys = [(f"{u.title}-{self._token}", f"{u.label} #{number}") for number, u in numbered]
        futures = self._submit(units, keys, workers)
        self._wait.moved()
        for unit, future in zip(units, futures, strict=True):
            self._running[future.key] = unit, future
            self._submitted[future.key] = unit
        self._wait_on(futures)

    def _submit(self, units: Sequence, keys: Sequence, workers: Sequence[str]) -> list[Future]:
        """Futures of units, with these keys; see `PlacedRunner`."""
        raise NotImplementedError

    # ------------------------------------------------------------ results

    def _next_results(self):
        """Results that have arrived since the last call; waits for a tick at most."""
        if time.monotonic() - self._looked >= TICK_SECONDS:
            self._look_at_workers()
            yield from self._judge()
            yield from self._stop_late()
        futures = self._arrived()
        if not futures:
            self._wait.look(self._running)
            return
        finished = [future for future in futures if future.status == "finished"]
        for future, value in self._gathered(finished):
            unit, _ = self._running.pop(future.key)
            yield unit, value
        failed = [future for future in futures if future.status == "error"]
        for future in failed:
            unit, _ = self._running.pop(future.key)
            yield from self._failed(unit, future)
        known = {id(future) for future in (*finished, *failed)}
        yield from self._repeat([future for future in futures if id(future) not in known])
        self._wait.moved()

    def _arrived(self):
        found = []
        with suppress(queue.Empty):
            found.append(self._finished.get(timeout=TICK_SECONDS))
            while True:
                found.append(self._finished.get_nowait())
        return [future for future in found if future.key in self._running]

    def _gathered(self, futures):
        """Values of finished futures, without those that were lost on the way."""
        if not futures:
            return []
        gather = partial(self.client.gather, futures, errors="skip", asynchronous=True)
        try:
            values = ask(self.client, gather)
            if len(values) == len(futures):
                return list(zip(futures, values, strict=True))
        except (TimeoutError, OSError):
            self._look_at_workers()
        self._wait_on(futures)
        return []

    def _wait_on(self, futures):
        # `Future.add_done_callback` starts a thread that outlives the client.
        loop: Any = self.client.loop
        for future in futures:
            loop.add_callback(_put_when_done, future, self._finished)

    def _failed(self, unit, future):
        error = future.exception(timeout=ANSWER_SECONDS)
        if not isinstance(error, KilledWorker):
            self._error = error.with_traceback(future.traceback(timeout=ANSWER_SECONDS))
        elif error.task in self._submitted:
            yield from self._blame(unit)
        elif unit is not self._alone:
            self._suspects.append(unit)  # what it needs may have stood next to a culprit
        else:
            self._error = ClusterError(
                f"Workers died whenever they computed {error.task!r}, which fits need: a task that "
                f"makes rows, or brings them together. {SEE_LOGS}"
            )

    # ------------------------------------------------------------ who kills workers

    def _blame(self, unit):
        """Suspect a unit whose workers died too often, or its parts if it ran alone."""
        if unit is not self._alone:
            self._suspects.append(unit)
        elif parts := unit.singles():
            self._suspects.extend(parts)
        else:
            self._guilty.update(unit.candidates)
            yield unit, Killed("workers died whenever they ran it, when it ran alone too")

    def _next_suspect(self):
        unit = self._suspects.popleft()
        guilty = self._guilty.intersection(unit.candidates)
        if guilty and (parts := unit.singles()):
            self._suspects.extendleft(reversed(parts))
        elif guilty:
            yield unit, Killed("workers died whenever they ran it on another split")
        else:
            # A death with others that were not looked for yet must not count as one alone.
            self._count_deaths()
            self._alone, self._deaths[id(unit)] = unit, MOST_DEATHS + 1 - MOST_DEATHS_ALONE
            self._inputs.revive()
            self._add([unit])

    def _judge(self):
        """Cancel and blame units whose workers have died too often."""
        for key, (unit, future) in list(self._running.items()):
            if self._deaths[id(unit)] > MOST_DEATHS:
                del self._running[key]
                self._cancel([future])
                yield from self._blame(unit)

    def _look_at_workers(self):
        """Wait until there are workers, and count how many have died with each unit."""
        try:
            threads = threads_of(self.client)
        except NO_ANSWER:
            threads = {}
        if not threads:
            there = workers_there(self.client)
            threads = {address: worker["nthreads"] for address, worker in there.items()}
        self._looked, self._n_threads = time.monotonic(), sum(threads.values())
        if threads.keys() != self._workers:
            self._workers = set(threads)
            self._inputs.keep_on(threads)
            self._count_deaths()

    def _count_deaths(self):
        with suppress(TimeoutError, OSError):
            scheduler: Any = self.client.scheduler
            for _, event in ask(self.client, scheduler.events, topic="all"):
                if event.get("action") == "remove-worker" and not event["expected"]:
                    self._count(event)

    def _count(self, event):
        if event["stimulus_id"] not in self._counted:
            self._counted.add(event["stimulus_id"])
            units = (self._submitted.get(key) for key in event["processing-tasks"])
            self._deaths.update(id(unit) for unit in units if unit is not None)

    # ------------------------------------------------------------ what takes too long

    def _stop_late(self):
        """Release units whose fits take longer than they may; their workers restart by then."""
        late: dict[Any, Overrun] = {}
        for each in () if self.fit_timeout is None else overruns(self.client):
            waiting = [k for k in self._waiting_for(each.key) if not self._running[k][1].done()]
            late.update(dict.fromkeys(waiting, each))
        check_restarts(late.values())
        stopped = [(*self._running.pop(key), each.seconds) for key, each in late.items()]
        self._cancel([future for _, future, _ in stopped])
        self._n_late += len(stopped)
        for unit, _, seconds in stopped:
            parts = unit.singles()
            self.add(parts)
            yield unit, Late(seconds, self.fit_timeout, again=bool(parts))

    def _waiting_for(self, key):
        """Keys of units that run, or wait, for a task."""
        return [key] if key in self._running else []

    # ------------------------------------------------------------ what was lost

    def _repeat(self, futures):
        """Submit again what was cancelled because something that it needs was lost."""
        if not futures:
            return
        self._look_at_workers()
        lost = [future for future in futures if future.status in ("cancelled", "lost")]
        self._wait_on([future for future in futures if future not in lost])
        yield from self._judge()
        units = [self._running.pop(f.key)[0] for f in lost if f.key in self._running]
        self._n_losses += bool(units)
        if self._n_losses > MOST_LOSSES + self._n_late:
            raise ClusterError(
                f"What the search needs on the workers was lost {MOST_LOSSES} times. {SEE_LOGS}"
            )
        self._inputs.revive()
        self._add(units)

    def _stop(self):
        """Release all tasks and inputs; running tasks are told to stop."""
        left = [future for _, future in self._running.values()]
        self._running.clear()
        self._later.clear()
        self._finished = queue.SimpleQueue()
        self._inputs = None
        self._cancel(left)

    def _cancel(self, futures):
        if futures and self.client.status == "running":
            with suppress(Exception):
                ask(self.client, self.client.cancel, futures=futures, asynchronous=True)


async def _put_when_done(future: Future, finished: queue.SimpleQueue) -> None:
    """Put a future into a queue when its task has ended, in whatever way."""
    with suppress(Exception):
        await future.exception()
    finished.put(future)
