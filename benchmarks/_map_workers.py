"""Processes of the map: one for each library, which imports it once and then measures cell by cell.

The process that starts them loads no rows, uses no GPU and starts no threads.
"""

import gc
import multiprocessing
import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from importlib import import_module

import _harness as harness

# For workers to end by themselves; for a library to be imported.
END_SECONDS, START_SECONDS = 10, 120


def in_child(limit, function, *args):
    """What a function returns in a forked process, or why there is nothing after `limit` seconds.

    This process starts no threads and touches no rows, so that all contenders start alike.
    """
    forked = multiprocessing.get_context("fork")
    here, there = forked.Pipe(duplex=False)

    def work():
        os.setsid()  # so that its workers can be ended with it
        there.send(harness.attempt({}, lambda: function(*args)))

    process = forked.Process(target=work)
    process.start()
    there.close()
    try:
        if not here.poll(limit):
            return {"failed": too_long(limit)}
        found = here.recv()
        process.join(END_SECONDS)  # it ends workers of its own
        return found
    except EOFError:
        return {"failed": f"its process ended with {process.exitcode}"}
    finally:
        process.kill()
        process.join()
        # Workers outlive who was killed, or died, before they had an answer, and take its cores.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def in_time(limit, function, *args):
    """The same in this process, which goes on: what CUDA has loaded stays loaded."""
    try:
        with _alarm(limit):
            return harness.attempt({}, lambda: function(*args))
    except OutOfTime:
        if "joblib" in sys.modules:  # its processes would go on with what they were given
            executor = import_module("joblib.externals.loky").get_reusable_executor()
            executor.shutdown(wait=True, kill_workers=True)
        return {"failed": too_long(limit)}
    finally:
        free()


class OutOfTime(BaseException):
    """Time is up. No Exception: searches make scores of those."""


@contextmanager
def _alarm(limit):
    def up(*_):
        raise OutOfTime

    signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def too_long(limit):
    """Why there are no seconds."""
    return f"not run to the end: more than {limit:.3g} s"


def free():
    """Give memory of the GPU back, which other processes of the map need."""
    gc.collect()
    if "cupy" in sys.modules:
        cupy = sys.modules["cupy"]
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


class Worker:
    """A process that has prepared something, and then runs what it is asked to, under a limit.

    Parameters
    ----------
    run : function
        `in_child`, for each call in a process forked from this one, or `in_time`, for calls in
        this very process, which then is no fork: CUDA works in no fork of who has used it.
    prepare : function
        Called once with `args`; a failure is the answer to every call.
    """

    def __init__(self, run, prepare, *args):
        self._run, self._prepare, self._args = run, prepare, args
        self._process = None
        self._start()

    def _start(self):
        way = multiprocessing.get_context("fork" if self._run is in_child else "spawn")
        self._here, there = way.Pipe()
        options = {"target": _serve, "args": (there, self._run, self._prepare, self._args)}
        self._process = way.Process(**options)
        self._process.start()
        there.close()
        self._ready = None

    def ready(self):
        """Wait for what it prepares; whether that has worked, or else a record of why not."""
        if self._ready is None:
            try:
                known = self._here.poll(START_SECONDS)
                self._ready = self._here.recv() if known else {"failed": too_long(START_SECONDS)}
            except EOFError:
                self._ready = {"failed": f"its process ended with {self._process.exitcode}"}
        return self._ready

    def ask(self, limit, function, *args):
        """A record: what the function returns, or why there is nothing."""
        if self.ready():
            return self.ready()
        try:
            self._here.send((limit, function, args))
            if self._here.poll(limit + 2 * END_SECONDS):
                return self._here.recv()
            found = {"failed": too_long(limit)}
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join(END_SECONDS)
            found = {"failed": f"its process ended with {self._process.exitcode}"}
        self._kill()
        self._start()
        return found

    def end(self):
        """End the process."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._here.send(None)
        self._process.join(0 if self._ready is None else END_SECONDS)
        self._kill()

    def _kill(self):
        """End the process, and what it has started: its group is its own."""
        self._process.kill()
        self._process.join()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _serve(there, run, prepare, args):
    """The loop of a worker's process."""
    parent = os.getppid()
    os.setsid()
    there.send(harness.attempt({}, lambda: prepare(*args) or {}))
    while True:
        while not there.poll(1.0):
            if os.getppid() != parent:  # nobody will ever ask
                return
        try:
            asked = there.recv()
        except EOFError:
            return
        if asked is None:
            return
        limit, function, arguments = asked
        there.send(run(limit, function, *arguments))


def wait_for(workers):
    """Seconds until all are ready: they prepare side by side, and nothing is timed meanwhile."""
    start = time.monotonic()
    for worker in workers:
        worker.ready()
    return time.monotonic() - start
