"""A device that is made of threads: late, and as unforgiving as a real one.

Copies read their bytes when they are done, not when they are asked for, so that whoever writes to
them before has written to what arrives. Events are those of CUDA: to wait for one is to wait for
what was recorded last; one that was never recorded is done.
"""

import queue
import threading
import time
from contextlib import contextmanager

import numpy as np


class FakeEvent:
    def __init__(self):
        self.reached = threading.Event()
        self.reached.set()

    @property
    def done(self):
        return self.reached.is_set()

    def synchronize(self):
        assert self.reached.wait(20), "nobody will ever get there"


class FakeStream:
    """Work in order, each a little late."""

    def __init__(self, delay):
        self._delay, self._work = delay, queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while (work := self._work.get()) is not None:
            time.sleep(self._delay)
            work()

    def put(self, work):
        self._work.put(work)

    def record(self, event):
        event.reached = threading.Event()
        self.put(event.reached.set)

    def wait_event(self, event):
        self.put(event.reached.wait)

    def synchronize(self):
        event = FakeEvent()
        self.record(event)
        event.synchronize()

    def end(self):
        self._work.put(None)
        self.thread.join(20)
        assert not self.thread.is_alive()


class FakeLink:
    """What gpuml._arrays.staging calls a link, to bytes that are a NumPy array.

    Attributes
    ----------
    memory : ndarray of uint8
        Of the device; addresses count from its first byte.
    written : ndarray of int
        How often each of them was copied to.
    own : FakeStream
        The stream of whoever uses the blocks.
    fails : callable
        Called before each copy is queued.
    """

    def __init__(self, n_bytes, delay=0.0):
        self.memory = np.zeros(n_bytes, np.uint8)
        self.written = np.zeros(n_bytes, np.int64)
        self._stream, self.own = FakeStream(delay), FakeStream(delay)
        self.fails = lambda address: None
        self.pinned_bytes = self.n_copies = 0
        self.threads = set()

    def here(self):
        return _nothing()

    def pinned(self, n_bytes):
        self.pinned_bytes += n_bytes
        return np.zeros(n_bytes, np.uint8)

    def event(self):
        return FakeEvent()

    def copy(self, staged, address):
        self.fails(address)
        self.n_copies += 1
        self.threads.add(threading.current_thread().name)

        def arrive():
            self.memory[address : address + staged.size] = staged
            self.written[address : address + staged.size] += 1

        self._stream.put(arrive)

    def record(self, event):
        self._stream.record(event)

    def synchronize(self):
        self._stream.synchronize()

    def after(self, event):
        self._stream.wait_event(event)

    def mark(self):
        event = FakeEvent()
        self.own.record(event)
        return event

    def hold(self, event):
        self.own.wait_event(event)

    def end(self):
        self._stream.end()
        self.own.end()


@contextmanager
def _nothing():
    yield
