"""Bytes that cross between CPU memory and devices, counted; `gpuml.testing` is the public face.

There are two sources of figures. On a GPU, CUPTI (the tracing interface of the CUDA driver) sees
every copy that anyone in the process makes. Elsewhere, and where CUPTI does not work, the moves
that gpuml itself makes are counted. A counter reads one source only, so no copy counts twice.
"""

import threading
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

import numpy as np

from gpuml._arrays import moves, places

# CUPTI's numbers for the directions of a copy. A CUDA array ("A", texture memory) lies on the
# device; copies within and between devices cross nothing that a budget is about.
CUPTI_DIRECTIONS = {1: "to_device", 2: "to_host", 3: "to_device", 4: "to_host"}
WORDS = {"to_device": "to the device", "to_host": "to CPU memory"}
# One buffer holds about five thousand copies; CUPTI requests as many buffers as it needs.
CUPTI_BUFFER_BYTES = 2**20


class TransferBudgetExceeded(RuntimeError):
    """A ``with`` block moved more bytes between CPU memory and a device than its limit."""


@dataclass(frozen=True)
class Figures:
    """Bytes and numbers of copies, in both directions."""

    to_device: int = 0
    to_host: int = 0
    n_to_device: int = 0
    n_to_host: int = 0

    def plus(self, direction: str, size: int) -> "Figures":
        """These figures and one more copy of `size` bytes."""
        count = f"n_{direction}"
        bytes_and_copies = {
            direction: getattr(self, direction) + size,
            count: getattr(self, count) + 1,
        }
        return replace(self, **bytes_and_copies)

    def since(self, start: "Figures") -> "Figures":
        """The counts that were added since `start`."""
        return Figures(**{name: value - getattr(start, name) for name, value in vars(self).items()})

    def __str__(self):
        up = f"{format_bytes(self.to_device)} up in {_copies(self.n_to_device)}"
        return f"{up}, {format_bytes(self.to_host)} down in {_copies(self.n_to_host)}"


class _Tally:
    """Figures that several threads add to."""

    def __init__(self):
        self._lock = threading.Lock()
        self._figures = Figures()

    def add(self, direction, size):
        with self._lock:
            self._figures = self._figures.plus(direction, size)

    def read(self):
        with self._lock:
            return self._figures


class _OwnMoves:
    """Counts what goes through `gpuml._arrays.move`."""

    counts_everyone = False

    def __init__(self):
        self._tally = _Tally()
        self.read = self._tally.read

    def start(self):
        moves.transfer_observers.append(self._tally.add)

    def stop(self):
        moves.transfer_observers.remove(self._tally.add)


class _Cupti:
    """Counts every copy of the process, as the driver reports it.

    Records arrive late and in batches, so a reading waits for the devices and then flushes.
    """

    counts_everyone = True

    def __init__(self, cupti):
        self._cupti = cupti
        self._copies = int(cupti.ActivityKind.MEMCPY)
        self._flush_all_records = int(cupti.ActivityFlag.FLUSH_FORCED)
        self._tally = _Tally()
        # A flush beside another returns before records that the other one took have come.
        self._reading = threading.Lock()
        # Held here as well, because CUPTI calls them for the rest of the process.
        self._callbacks = (self._buffer_wanted, self._records_came)
        cupti.activity_register_callbacks(*self._callbacks)

    def start(self):
        # Copies that are still under way belong to what came before.
        _synchronize_devices()
        self._cupti.activity_enable(self._copies)
        try:
            self._check_that_it_sees()
        except Exception:
            self.stop()
            raise

    def stop(self):
        self._cupti.activity_disable(self._copies)

    def read(self):
        _synchronize_devices()
        with self._reading:
            self._cupti.activity_flush_all(self._flush_all_records)
            return self._tally.read()

    def _check_that_it_sees(self):
        # A counter that reads zero whatever happens would let every budget pass: CUPTI is mute in
        # some sandboxes, and after another profiler of the process took its callbacks over.
        import cupy

        probe = np.zeros(1)
        before = self.read()
        copy = cupy.asarray(probe)
        seen = self.read().since(before)
        if seen.to_device < copy.nbytes:
            raise RuntimeError("it did not report a copy made to test it")

    def _buffer_wanted(self):
        no_limit_on_records = 0
        return CUPTI_BUFFER_BYTES, no_limit_on_records

    def _records_came(self, records):
        # Called on any thread; an exception here would end in the driver.
        for record in records:
            if record.kind == self._copies and record.copy_kind in CUPTI_DIRECTIONS:
                self._tally.add(CUPTI_DIRECTIONS[record.copy_kind], record.bytes)


def _synchronize_devices():
    import cupy

    for device in _devices_in_use(cupy):
        with cupy.cuda.Device(device):
            cupy.cuda.runtime.deviceSynchronize()


def _devices_in_use(cupy):
    n_devices = cupy.cuda.runtime.getDeviceCount()
    if n_devices == 1:
        return [0]
    # To synchronise a device that the process never used would put a context of some hundred
    # megabytes on it. cuda.bindings is there: cupti-python needs it.
    from cuda.bindings import driver

    states = [driver.cuDevicePrimaryCtxGetState(driver.CUdevice(n)) for n in range(n_devices)]
    return [n for n, (_error, _flags, is_active) in enumerate(states) if is_active]


# ---------------------------------------------------------------- choosing and sharing a source

# Guards the number of counters per source. Never taken in a CUPTI callback: a flush waits for
# those while it holds this lock.
_sources_lock = threading.Lock()
_users: Counter = Counter()
_own_moves = _OwnMoves()


def open_source():
    """The best source of figures that works here, started; hand it to `close_source` once."""
    with _sources_lock:
        source = _started_cupti() if places.has_gpu() else None
        if source is None:
            source = _started(_own_moves)
        _users[source] += 1
        return source


def close_source(source):
    """Give a source back; the last to do so stops it."""
    with _sources_lock:
        _users[source] -= 1
        if not _users[source]:
            source.stop()


def _started(source):
    if not _users[source]:
        source.start()
    return source


def _started_cupti():
    # Whatever is wrong with CUPTI (not installed, its library not found, no permission, another
    # profiler), code under test must still run; the warning says what the figures then mean.
    try:
        return _started(_cupti_source())
    except Exception as error:
        _warn_once(
            f"CUPTI does not work here ({error}), so count_transfers counts only the moves that "
            "gpuml itself makes. To count every copy of the process: pip install cupti-python "
            "(with CUDA 13; that of CUDA 12 cannot be installed beside RAPIDS)"
        )
        return None


@cache
def _cupti_source():
    from cupti import cupti

    return _Cupti(cupti)


@cache
def _warn_once(message):
    warnings.warn(message, RuntimeWarning, stacklevel=5)


# ---------------------------------------------------------------- the counter


class TransferCounter:
    """Bytes and copies to and from devices inside a ``with`` block; see `count_transfers`."""

    def __init__(self, max_to_device=None, max_to_host=None):
        self._budgets = {"to_device": max_to_device, "to_host": max_to_host}
        for direction, budget in self._budgets.items():
            if budget is not None and not budget >= 0:
                raise ValueError(
                    f"max_{direction} must be None or a number of bytes >= 0, got {budget!r}."
                )
        self._source = None
        self._start = self._figures = Figures()
        self._counts_everyone = False

    @property
    def figures(self) -> Figures:
        """All four figures, read at once: until now in an open block, at its end afterwards."""
        source = self._source
        return self._figures if source is None else source.read().since(self._start)

    @property
    def to_device(self) -> int:
        """Bytes copied from CPU memory to a device."""
        return self.figures.to_device

    @property
    def to_host(self) -> int:
        """Bytes copied from a device to CPU memory."""
        return self.figures.to_host

    @property
    def n_to_device(self) -> int:
        """Number of copies from CPU memory to a device."""
        return self.figures.n_to_device

    @property
    def n_to_host(self) -> int:
        """Number of copies from a device to CPU memory."""
        return self.figures.n_to_host

    @property
    def counts_everyone(self) -> bool:
        """Whether the copies of every library count, not only those that gpuml makes."""
        return self._counts_everyone

    def __enter__(self) -> Self:
        if self._source is not None:
            raise RuntimeError("This counter is counting already; make one per `with` block.")
        source = open_source()
        try:
            self._start = source.read()
        except BaseException:
            close_source(source)
            raise
        self._source = source
        self._counts_everyone = source.counts_everyone
        return self

    def __exit__(self, kind, error, trace):
        try:
            self._figures = self.figures
        except Exception:
            # A broken CUDA context cannot be read; what broke it is the news.
            if error is None:
                raise
        finally:
            source, self._source = self._source, None
            self._close(source, error)
        if error is None:
            self._check_budgets()

    def _close(self, source, error):
        try:
            close_source(source)
        except Exception:
            if error is None:
                raise

    def _check_budgets(self):
        over = [
            f"{WORDS[direction]}, {format_bytes(getattr(self._figures, direction))} with a "
            f"budget of {format_bytes(budget)} (max_{direction}={budget})"
            for direction, budget in self._budgets.items()
            if budget is not None and getattr(self._figures, direction) > budget
        ]
        if over:
            raise TransferBudgetExceeded(
                f"The block copied more than it may: {'; '.join(over)}. In total it copied "
                f"{self._figures}. Keep the data where it is used, or raise the budget."
            )

    def __str__(self):
        return str(self.figures)

    def __repr__(self):
        return f"<TransferCounter: {self.figures}>"


def format_bytes(size: float) -> str:
    """A number of bytes for people: "96 B", "3.2 MiB".

    Examples
    --------
    >>> format_bytes(8_000_000)
    '7.6 MiB'
    """
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def _copies(count):
    return f"{count} copy" if count == 1 else f"{count} copies"
