"""Pageable CPU memory to the GPU at close to the speed of the link.

A plain copy of pageable memory is staged by the driver in one thread (7.6 GB/s measured on an
H200 machine whose link does 55 GB/s). Here several threads copy into page-locked pieces, which go
over the link one after the other while the next ones are filled. Pieces are kept for the next
time: to lock pages takes longer than to send them.

What follows knows a device as a *link*, so that it can be tested without one:

- ``pinned(n_bytes)``: page-locked bytes, as a NumPy array;
- ``event()``: something to wait for, with ``synchronize()`` and ``done``; done if never recorded;
- ``copy(staged, address)``: queue a copy to the device, after all copies before;
- ``record(event)``: let an event be done when all copies queued before are;
- ``synchronize()``: wait for all copies;
- ``here()``: a context in which a thread may use it.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np

PIECE_BYTES = 2**23
# For each device, in all threads of the process.
MOST_PINNED_BYTES = 2**28
MAX_THREADS = 8
# Smaller arrays are not worth waking threads for, and of small ones every thread gets some pieces.
STAGED_FROM_BYTES = 2**24
LEAST_PIECE_BYTES = 2**20
# One thread for so many bytes: at first, each thread locks pages, which takes milliseconds.
THREAD_BYTES = 2**22
PIECES_PER_THREAD = 4


def n_threads() -> int:
    """Threads that copy: half the cores this process may use, since others have work to do."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    return max(1, min(MAX_THREADS, cores // 2))


# ---------------------------------------------------------------- pieces of an array


class Run(NamedTuple):
    """Elements that lie one behind the other on the device, and from which byte on."""

    part: np.ndarray
    start: int


def runs(x: np.ndarray, most_bytes: int) -> Iterator[Run]:
    """Runs of an array in C order, each of at most `most_bytes`.

    Nothing is copied: of arrays that are not contiguous, runs are whole rows. A single row may be
    longer than `most_bytes`; then its elements are cut.
    """
    if x.size == 0:
        return
    if x.flags.c_contiguous:
        flat = x.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, most_bytes):
            yield Run(flat[start : start + most_bytes], start)
        return
    row_bytes = x.nbytes // x.shape[0]
    if row_bytes > most_bytes:
        yield from _runs_of_long_rows(x, row_bytes, most_bytes)
        return
    step = most_bytes // row_bytes
    for first in range(0, x.shape[0], step):
        yield Run(x[first : first + step], first * row_bytes)


def _runs_of_long_rows(x, row_bytes, most_bytes):
    most_bytes = max(most_bytes, x.itemsize)
    for number, row in enumerate(x):
        # One dimension that is not contiguous is cut like rows of one element.
        yield from (Run(part, number * row_bytes + at) for part, at in runs(row, most_bytes))


def piece_bytes(n_bytes: int, threads: int) -> int:
    """Bytes of a piece, so that each thread has some of them, to send one and fill the next."""
    wanted = -(-n_bytes // (threads * PIECES_PER_THREAD))
    return min(PIECE_BYTES, max(LEAST_PIECE_BYTES, wanted))


# ---------------------------------------------------------------- page-locked memory


class Piece:
    """Page-locked bytes, and the event of the last copy from them."""

    def __init__(self, link: Any, n_bytes: int):
        self.bytes = link.pinned(n_bytes)
        self.sent = link.event()

    def filled(self, part: np.ndarray) -> np.ndarray:
        """Copy elements into it, in their order; returns the bytes. The GIL is free meanwhile."""
        staged = self.bytes[: part.nbytes]
        np.copyto(staged.view(part.dtype).reshape(part.shape), part)
        return staged


class Pieces:
    """A limited number of page-locked buffers, reused by all callers."""

    def __init__(self, n_bytes: int, most: int):
        self.n_bytes, self._most, self._made = n_bytes, most, 0
        self._free: deque[Piece] = deque()
        self._changed = threading.Condition()

    def take(self, link: Any) -> Piece:
        """A free buffer; waits for one if all are in use."""
        piece = self._oldest_or_none()
        if piece is None:
            return self._new(link)
        piece.sent.synchronize()
        return piece

    def _oldest_or_none(self):
        with self._changed:
            while True:
                # Those given back first are done first. Memory is cheaper than waiting for them.
                may_grow = self._made < self._most
                if self._free and (self._free[0].sent.done or not may_grow):
                    return self._free.popleft()
                if may_grow:
                    self._made += 1
                    return None
                self._changed.wait()

    def _new(self, link):
        try:
            return Piece(link, self.n_bytes)
        except BaseException:
            with self._changed:
                self._made -= 1
                self._changed.notify()
            raise

    def give_back(self, piece: Piece) -> None:
        """The copy from it may still be under way, if its event was recorded."""
        with self._changed:
            self._free.append(piece)
            self._changed.notify()


# ---------------------------------------------------------------- threads that copy


class Ticket:
    """An array on its way: when all its copies are queued, and an event of their end."""

    def __init__(self, link: Any, n_runs: int):
        self._link, self._left = link, n_runs
        self._error: BaseException | None = None
        self._lock, self._queued = threading.Lock(), threading.Event()
        self.arrived = link.event()
        if n_runs == 0:
            self._queued.set()

    def one_is_queued(self) -> None:
        """Of its runs; after the last of them the event is recorded."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._link.record(self.arrived)
                self._queued.set()

    def fail(self, error: BaseException) -> None:
        """Pass an error to the waiting caller."""
        self._error = error
        self._queued.set()

    def wait(self) -> None:
        """Until all copies are queued; raises what a copying thread raised."""
        self._queued.wait()
        if self._error is not None:
            raise self._error


class Stager:
    """Copies arrays over a link, one after the other, by threads that end with `close`."""

    def __init__(self, link: Any, pieces: Pieces, threads: int):
        self._link, self._pieces, self._most = link, pieces, threads
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()

    def copy(self, x: np.ndarray, address: int) -> Ticket:
        """Start to copy an array to an address of the device, in the order of its elements."""
        x = np.asarray(x)  # slices of memory maps take longer than those of plain arrays
        jobs = list(runs(x, min(piece_bytes(x.nbytes, self._most), self._pieces.n_bytes)))
        ticket = Ticket(self._link, len(jobs))
        for part, start in jobs:
            self._jobs.put((ticket, part, address + start))
        while len(self._threads) < min(self._most, len(jobs), -(-x.nbytes // THREAD_BYTES)):
            thread = threading.Thread(target=self._work, name="gpuml-staging", daemon=True)
            self._threads.append(thread)
            thread.start()
        return ticket

    def _work(self):
        with self._link.here():
            while (job := self._jobs.get()) is not None:
                ticket, part, address = job
                if self._stopped.is_set():
                    continue
                try:
                    self._send(part, address)
                    ticket.one_is_queued()
                except BaseException as error:  # for the thread that waits
                    ticket.fail(error)

    def _send(self, part, address):
        piece = self._pieces.take(self._link)
        try:
            self._link.copy(piece.filled(part), address)
            self._link.record(piece.sent)
        finally:
            self._pieces.give_back(piece)

    def close(self) -> None:
        """Forget what is not queued yet, end the threads, and wait for the copies."""
        self._stopped.set()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._link.synchronize()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_):
        self.close()


# ---------------------------------------------------------------- CuPy


class CudaLink:
    """The link to a CuPy device, with its own stream."""

    def __init__(self, device: Any):
        import cupy

        self._cupy, self._device_id = cupy, device.id
        with self.here():
            self.stream = cupy.cuda.Stream(non_blocking=True)

    def here(self) -> Any:
        # A new object: a CuPy device remembers the one before it, and threads would mix those up.
        return self._cupy.cuda.Device(self._device_id)

    def pinned(self, n_bytes: int) -> np.ndarray:
        memory = self._cupy.cuda.alloc_pinned_memory(n_bytes)
        return np.frombuffer(memory, dtype=np.uint8, count=n_bytes)

    def event(self) -> Any:
        # Threads that wait sleep: those that copy need the cores.
        with self.here():
            return self._cupy.cuda.Event(block=True, disable_timing=True)

    def copy(self, staged: np.ndarray, address: int) -> None:
        runtime = self._cupy.cuda.runtime
        runtime.memcpyAsync(
            address,
            staged.ctypes.data,
            staged.size,
            runtime.memcpyHostToDevice,
            self.stream.ptr,
        )

    def record(self, event: Any) -> None:
        event.record(self.stream)

    def synchronize(self) -> None:
        self.stream.synchronize()

    def after(self, event: Any) -> None:
        """Let copies that are queued from now on wait for an event of another stream."""
        self.stream.wait_event(event)

    def mark(self) -> Any:
        """An event of the work that is queued on the caller's own stream now."""
        with self.here():
            event = self._cupy.cuda.Event(block=True, disable_timing=True)
            event.record(self._cupy.cuda.get_current_stream())
            return event

    def hold(self, event: Any) -> None:
        """Let work that the caller queues on its own stream from now on wait for an event."""
        with self.here():
            self._cupy.cuda.get_current_stream().wait_event(event)


@cache
def _pieces_of(device_id: int) -> Pieces:
    return Pieces(PIECE_BYTES, MOST_PINNED_BYTES // PIECE_BYTES)


def cuda_stager(device: Any) -> tuple[Stager, CudaLink]:
    """Threads that copy to a CuPy device, and the link that they use."""
    link = CudaLink(device)
    return Stager(link, _pieces_of(device.id), n_threads()), link


def upload(x: np.ndarray) -> Any:
    """Copy a NumPy array to the current CuPy device; its order (C or Fortran) stays."""
    import cupy

    if x.nbytes < STAGED_FROM_BYTES or not (x.flags.c_contiguous or x.flags.f_contiguous):
        return cupy.asarray(x)
    order = "C" if x.flags.c_contiguous else "F"
    out = cupy.empty(x.shape, dtype=x.dtype, order=order)
    copy_staged(x if order == "C" else x.T, out)
    return out


def copy_staged(x: np.ndarray, out: Any, *, stager: Callable = cuda_stager) -> None:
    """Copy an array into contiguous memory of a CuPy device, in the order of its elements (C)."""
    threads, link = stager(out.device)
    # The memory may still be in use by work queued on the caller's stream.
    link.after(link.mark())
    with threads:
        threads.copy(x, out.data.ptr).wait()
