"""GPU workers of a cluster that sum over their rows together, without Dask between the steps.

An iterative solver needs a sum over all rows at each step, and a Dask task takes longer than the
sum. So one task per worker does a whole fit: that of rank 0 drives the solver, the others serve it,
and between them goes NCCL. A group of workers keeps its communicator until the client is closed, or
until one of them joins another group.

Two runs that got some workers each would wait for each other forever. So runs queue on the
scheduler. Runs of clients that have left are dropped, and those that a client has ended when it
begins its next: the message that ends a run may be lost. Dask's `MultiLock` would keep them.

When a worker dies, the client, which looks at the workers while it waits, cancels the tasks of the
others; each of them watches whether it was cancelled and ends its part of the communicator, from a
thread of its own. The same happens when the client is gone, since Dask then cancels its tasks.
"""

import contextlib
import pickle
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import Client, Future, KilledWorker, get_worker
from distributed.core import Status

from gpuml.data import aligned
from gpuml.divided import small_arrays
from gpuml_dask._annotations import submit_near
from gpuml_dask.errors import ClusterError
from gpuml_dask.sums._messages import Alone, RankLost, Transport
from gpuml_dask.sums._nccl import NcclTransport
from gpuml_dask.sums._ranks import Driver, serve
from gpuml_dask.waiting import Report, Wait, ask, check_client, release, threads_of

__all__ = ["Collective", "RankLost", "collective_of"]

# How often the client looks whether all workers are there, and a task whether it was cancelled.
LOOK_SECONDS = 0.25
# How long tasks of a run that is over may take to end.
END_SECONDS = 10.0
# How often a run that waits for its workers asks whether they are free.
TURN_SECONDS = 0.05
# Ahead of ordinary tasks: ranks wait for each other.
PRIORITY = 10

_collectives: dict[str, "Collective"] = {}


def collective_of(client: Client) -> "Collective":
    """The collective of GPU workers of a client, which is kept until the client is closed."""
    for key, known in list(_collectives.items()):
        if known.client.status == "closed":
            del _collectives[key]
    if client.id not in _collectives:
        _collectives[client.id] = Collective(client)
    return _collectives[client.id]


class Collective:
    """Workers that work on their rows together, one rank each.

    `transport` is a `Transport` class with the static methods ``invite()`` and ``here()`` and the
    class method ``join(invitation, rank, size)``. The default needs a GPU in each worker.
    """

    def __init__(self, client: Client, transport: Any = NcclTransport):
        self.client = client
        self._transport = transport
        # Memberships in communicators, by the workers in the order of their ranks.
        self._members: dict[tuple[str, ...], list[Future]] = {}
        # Runs that are over, until the scheduler has answered a later run that it was told so.
        self._over: set[str] = set()

    def run(
        self,
        function: Callable[..., Any],
        pieces_by_worker: Mapping[str, Mapping[int, Any]],
        *args: Any,
        build: Callable[..., Any] | None = None,
    ) -> Any:
        """Call ``function(holders, *args)`` on one of the workers, while the others serve it.

        Runs of the same workers, also those of other clients, take turns. The function is given
        `gpuml.data.Holders` of the pieces, which are good until it returns.

        `pieces_by_worker` has for the address of each worker, in the order of the ranks, its pieces
        (futures, or lists of futures for `build`), by position among all pieces. Pieces that are on
        another worker are copied there. `build` makes a piece of the results of a list of futures,
        on the worker.

        `RankLost` is raised if a worker that takes part is gone or goes, or one of the pieces is
        lost; the next run makes a new communicator. Otherwise whatever the function raises, or
        functions that it passes on raise on any worker.
        """
        workers = list(pieces_by_worker)
        with self._turn(workers):
            self._look(workers)
            members = self._joined(workers)
            label = f"{getattr(function, '__name__', 'run')}-{uuid.uuid4().hex}"
            calls: dict[str, tuple] = {}
            for rank, (worker, member) in enumerate(zip(workers, members, strict=True)):
                own = sorted(pieces_by_worker[worker].items())
                part = _Part(rank, [position for position, _ in own], self._transport, build)
                held = [piece for _, piece in own]
                if rank == 0:
                    # A partial: what a user passes on is no part of the graph.
                    drive = partial(_drive, function=function, args=args)
                    calls[f"drive-{label}"] = (drive, part, member, held)
                else:
                    calls[f"serve-rank-{rank}-{label}"] = (_serve, part, member, held)
            tasks = self._submit(calls, workers)
            return self._outcome(tasks, workers, [m for m in members if m is not None])

    def close(self) -> None:
        """End all communicators; the next run makes a new one."""
        for workers in list(self._members):
            self._close(workers)

    def _close(self, workers):
        """End the communicators that any of some workers is in."""
        for group in list(self._members):  # other threads add and end those of other workers
            if not set(group).isdisjoint(workers):
                release(self._members.pop(group))

    # ------------------------------------------------------------ who takes part

    @contextlib.contextmanager
    def _turn(self, workers: Sequence[str]) -> Iterator[None]:
        """Wait until no earlier run has any of some workers, and keep later ones off them."""
        report, began, run = Report("the GPUs of the cluster"), time.monotonic(), uuid.uuid4().hex
        at_scheduler = partial(ask, self.client, self.client.run_on_scheduler, run=run)
        may_begin, leave = _turns()
        begin = partial(at_scheduler, function=may_begin, owner=self.client.id, workers={*workers})
        try:
            while not self._begins(begin):
                check_client(self.client)
                waited = time.monotonic() - began
                report.say({"Another fit works with the rows divided over them.": waited})
                time.sleep(TURN_SECONDS)
            yield
        finally:
            self._over.add(run)  # also after an answer: a message of its wait may be on its way
            with contextlib.suppress(Exception):  # the client's next run drops it, or its end does
                at_scheduler(function=leave)

    def _begins(self, begin: Callable[..., bool]) -> bool:
        """Whether a run may begin; the scheduler drops those of this client that are over."""
        over = tuple(self._over)
        may = begin(over=over)
        self._over.difference_update(over)
        return may

    def _joined(self, workers) -> Sequence[Future | None]:
        """The membership of each worker, in an existing communicator or a new one."""
        if len(workers) == 1:
            return [None]
        members = self._members.get(tuple(workers))
        if members is None or not all(member.status == "finished" for member in members):
            self._close(workers)
            members = self._members[tuple(workers)] = self._join(workers)
        return members

    def _join(self, workers):
        token = uuid.uuid4().hex
        invite = {f"invite-ranks-{token}": (self._transport.invite,)}
        invitation = self._outcome(self._submit(invite, workers[:1]), workers[:1])
        join = partial(_join, self._transport, invitation, size=len(workers))
        calls = {f"join-rank-{rank}-{token}": (join, rank) for rank in range(len(workers))}
        members = self._submit(calls, workers)
        try:
            self._wait(members, workers)
            for member in members:
                if member.status != "finished":
                    _raise_error_of(member)
        except Exception:
            self._give_up(members, workers)
            raise
        return members

    # ------------------------------------------------------------ tasks and their ends

    def _submit(self, calls: Mapping[Any, tuple], workers: Sequence[str]) -> list[Future]:
        homes = dict(zip(calls, workers, strict=True))
        return submit_near(self.client, calls, homes, priority=PRIORITY, strictly=True)

    def _outcome(self, tasks, workers, members=()):
        """The result of the first of several tasks, once all have ended; releases the tasks."""
        first, others = tasks[0], tasks[1:]
        try:
            self._wait([first], workers, [*others, *members])
            if first.status == "error":
                _raise_error_of(first)
            result = first.result(timeout=END_SECONDS)
        except Exception as error:
            if isinstance(error, RankLost) or not _all_ended_well(others):
                self._give_up(tasks, workers)
            raise
        else:
            if not _all_ended_well(others):
                self._give_up(others, workers)
        finally:
            # Each wait that takes longer than a look leaves an error in a cycle with a future.
            release(tasks)
        return result

    def _wait(self, tasks, workers, others=()):
        """Wait for some tasks as long as nothing happens to any worker or to other tasks."""
        waiting = Wait(self.client, "ranks on the workers")
        while pending := [task for task in tasks if task.status == "pending"]:
            # Comes back when the task has ended, with or without an error of its own.
            with contextlib.suppress(Exception):
                pending[0].exception(timeout=LOOK_SECONDS)
            if pending[0].status == "pending":
                self._look(workers)
                waiting.look(task.key for task in (*pending, *others))
            for task in others:
                if task.status == "error":
                    _raise_error_of(task)
            for task in (*tasks, *others):
                if task.status in ("cancelled", "lost"):
                    raise RankLost(f"The task {task.key} is {task.status}.")

    def _look(self, workers):
        if self.client.status in ("closing", "closed"):
            raise ClusterError("The client was closed during a collective run.")
        missing = sorted(set(workers) - threads_of(self.client).keys())
        if missing:
            raise RankLost(f"Workers were lost during a collective run: {', '.join(missing)}.")

    def _give_up(self, tasks, workers):
        """Make all ranks end: tasks that are cancelled end their part of the communicator."""
        release(tasks)  # nobody else has them, so Dask cancels them
        self._close(workers)


def _turns() -> tuple[Callable[..., bool], Callable[..., None]]:
    # Functions of a function travel by value: schedulers need not have this package.
    def may_begin(run, owner, workers, over, dask_scheduler):
        """Whether no run that came earlier has any of the workers; it queues from now on."""
        runs = dask_scheduler.extensions.setdefault("gpuml runs", {})
        for ended in over:
            runs.pop(ended, None)
        runs.setdefault(run, (owner, workers))
        for other, (client, theirs) in list(runs.items()):
            if other == run:
                break
            if client not in dask_scheduler.clients:
                del runs[other]
            elif not workers.isdisjoint(theirs):
                return False
        return True

    def leave(run, dask_scheduler):
        """Let the runs begin that wait for this one."""
        dask_scheduler.extensions.get("gpuml runs", {}).pop(run, None)

    return may_begin, leave


def in_order(addresses: Iterable[str], known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Workers by host, name and address, so that ranks do not depend on the order of arrival."""
    return sorted(addresses, key=lambda a: (known[a]["host"], str(known[a]["name"]), a))


def _raise_error_of(task):
    error = task.exception(timeout=END_SECONDS)
    if isinstance(error, KilledWorker):
        raise RankLost(f"The task {task.key} was lost: {error}") from error
    # A copy: Dask keeps the original, and what is raised keeps everybody's futures.
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    raise copy.with_traceback(task.traceback(timeout=END_SECONDS))


def _all_ended_well(tasks):
    deadline = time.monotonic() + END_SECONDS
    try:
        return all(
            t.exception(timeout=max(0.1, deadline - time.monotonic())) is None for t in tasks
        )
    except Exception:  # took too long, or is lost
        return False


# ---------------------------------------------------------------- on the workers


class Member:
    """The rank of a worker, as a result that Dask holds there and lets go with the client."""

    def __init__(self, transport: Transport | None):
        self.transport = transport
        if transport is not None:
            weakref.finalize(self, _close_aside, transport).atexit = False

    def __reduce__(self):
        # Taken to another worker, or to disk, it is a rank no more.
        return Member, (None,)


def _close_aside(transport):
    # Dask releases results on its event loop, which may not wait for a GPU.
    threading.Thread(target=transport.close, name="close-rank", daemon=True).start()


def _join(transport: Any, invitation: Any, rank: int, size: int) -> Member:
    """Become a rank. In a thread, because nothing can end a wait for ranks that never come."""
    cancelled = _cancellation()
    joined: list[Transport | Exception] = []
    given_up = threading.Event()

    def join():
        try:
            joined.append(transport.join(invitation, rank, size))
        except Exception as error:
            joined.append(error)
        if given_up.is_set() and not isinstance(joined[0], Exception):
            joined[0].close()

    thread = threading.Thread(target=join, name=f"join-rank-{rank}", daemon=True)
    thread.start()
    while not cancelled():
        thread.join(LOOK_SECONDS)
        if joined:
            if isinstance(joined[0], Exception):
                raise joined[0]
            return Member(joined[0])
    given_up.set()
    raise RankLost(f"Rank {rank} of {size} was told to stop waiting for the others.")


@dataclass(frozen=True)
class _Part:
    """What a worker needs to know of a run."""

    rank: int
    positions: Sequence[int]
    transports: Any
    build: Any

    def own(self, held: list[Any]) -> dict[int, Any]:
        """The pieces of this rank by their positions; of arrays it does not matter who had them."""
        pieces = [aligned(x) if self.build is None else self.build(*x) for x in held]
        return dict(zip(self.positions, pieces, strict=True))

    def transport(self, member: Member | None) -> Transport:
        if member is None:
            return Alone(self.transports.here())
        if member.transport is None:
            raise RankLost(f"Rank {self.rank} is not on this worker any more.")
        return member.transport


def _drive(part, member, held, function, args):
    with (
        small_arrays(),
        _watched(part.transport(member)) as transport,
        Driver(transport, part.own(held)) as driver,
    ):
        return function(driver, *args)


def _serve(part, member, held):
    with small_arrays(), _watched(part.transport(member)) as transport:
        serve(transport, part.own(held))


@contextlib.contextmanager
def _watched(transport: Transport) -> Iterator[Transport]:
    """Ends the communicator when the task that this is in is cancelled."""
    cancelled, over = _cancellation(), threading.Event()

    def watch():
        while not over.wait(LOOK_SECONDS):
            if cancelled():
                transport.abort()
                return

    thread = threading.Thread(target=watch, name="watch-rank", daemon=True)
    thread.start()
    try:
        yield transport
    finally:
        over.set()
        thread.join(END_SECONDS)


def _cancellation() -> Callable[[], bool]:
    """A function that tells whether the current task was cancelled, to be called in any thread."""
    worker = get_worker()
    key = worker.get_current_task()

    def cancelled() -> bool:
        task = worker.state.tasks.get(key)
        gone = task is None or task.state in ("cancelled", "resumed", "released", "forgotten")
        return gone or worker.status in (Status.closing, Status.closed, Status.failed)

    return cancelled
