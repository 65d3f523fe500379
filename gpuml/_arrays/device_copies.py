"""Copies on devices of arrays in CPU memory, kept while those live.

dask-ml's searches cut a fold once, in CPU memory, and hand the same NumPy array to the fit of
every candidate. Such an array should go to the device once.

A copy is never stale. NumPy cannot tell whether memory was written to: a read-only flag binds one
array object, not the memory, and may be lifted again. So the content is read before each use, and
a copy counts only if the SHA-256 of the bytes is what it was when the copy was made. That costs a
pass over CPU memory, done by several threads, and saves the trip over the link, which devices
share. (Who writes to an array *while* it is fitted has lost anyway.)

An entry belongs to the memory of a NumPy array, not to one array object, so that views such as
``y[:, None]``, made anew for each fit, find it again. It goes when the owner of that memory dies.
"""

import hashlib
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, free_bytes, is_numpy, move, synchronize
from gpuml._settings.config import current_settings

CHUNK_BYTES = 4 * 2**20
MAX_THREADS = 12
# What is smaller goes to the device faster than anything is looked up.
KEPT_FROM_BYTES = 2**14
# Share of the free GPU memory that copies may take where the settings leave it open.
SHARE = 1 / 4


_fits_to_come: ContextVar[bool] = ContextVar("gpuml_fits_to_come", default=False)


@contextmanager
def several_fits():
    """The block fits the same NumPy arrays several times, so copies of them are worth keeping."""
    token = _fits_to_come.set(True)
    try:
        yield
    finally:
        _fits_to_come.reset(token)


def is_on() -> bool:
    """Whether copies are kept here at all.

    By default only where the same NumPy arrays are known to be fitted several times: in a block of
    `several_fits`, and where dask-ml is loaded. For a single fit the memory and the pass over the
    bytes would be spent for nothing.
    """
    size = current_settings().copy_bytes
    if size is None:
        return _fits_to_come.get() or "dask_ml" in sys.modules
    return size > 0


class DeviceCopies:
    """Copies of NumPy arrays in places that NumPy cannot read; safe to use in several threads.

    Those not used for longest go when the copies in a place would take more bytes than
    `gpuml.set_config` allows (``copy_bytes``).
    """

    def __init__(self):
        # The callback of a weak reference may come at any moment, also while this thread is in the
        # middle of a method. So it takes no lock: each change of the dict is a single operation,
        # and sums and choices are made over a list of what was in it.
        self._slots: dict[Hashable, _Slot] = {}
        self._growing = threading.Lock()
        self._clock = itertools.count()

    def moved(self, x: Array | None, place: Place) -> Array | None:
        """As `gpuml._arrays.move`, but may return a kept copy; do not write to the result."""
        if x is None or not is_on() or place.is_host or not _can_be_kept(x):
            return move(x, place)
        if x.nbytes > self._limit(place):
            return move(x, place)
        slot = self._slot_of(x, place)
        # Threads that want the same array wait for one copy of it.
        with slot.lock:
            slot.last_use = next(self._clock)
            digest = content_digest(x)
            if slot.copy is None or slot.digest != digest:
                self._fill(slot, x)
                slot.digest = digest
            return slot.copy

    def held_bytes(self, place: Place) -> int:
        """Bytes that copies in a place take."""
        return sum(slot.nbytes for slot in self._in(place))

    def drop(self, place: Place) -> bool:
        """Forget all copies in a place; whether there were any."""
        slots = self._in(place)
        for slot in slots:
            self._forget(slot.key, slot.owner)
        return bool(slots)

    def _in(self, place):
        return [slot for slot in list(self._slots.values()) if slot.place == place]

    def _limit(self, place):
        settings = current_settings()
        if settings.copy_bytes is not None:
            return settings.copy_bytes
        if settings.cache_bytes is not None:
            return settings.cache_bytes
        return int(SHARE * (free_bytes(place) + self.held_bytes(place)))

    def _slot_of(self, x, place):
        owner = _owner(x)
        # Other entries of the same memory have another start address.
        address = x.__array_interface__["data"][0]
        key = (id(owner), address, x.shape, x.strides, x.dtype.str, str(place))
        with self._growing:
            slot = self._slots.get(key)
            if slot is None or slot.owner() is not owner:
                # The callback knows the key and not the slot: a cycle would keep the copy.
                reference = weakref.ref(owner, lambda dead: self._forget(key, dead))
                slot = _Slot(key, reference, x.nbytes, place, next(self._clock))
                self._slots[key] = slot
            return slot

    def _make_room(self, wanted):
        with self._growing:
            # Threads register their slots before they fill them, so that planned copies count. A
            # slot that others evict meanwhile is used once, and not kept.
            limit = self._limit(wanted.place)
            others = [slot for slot in self._in(wanted.place) if slot is not wanted]
            others.sort(key=lambda slot: slot.last_use)
            held = wanted.nbytes + sum(slot.nbytes for slot in others)
            for slot in others:
                if held <= limit:
                    return
                self._forget(slot.key, slot.owner)
                held -= slot.nbytes

    def _fill(self, slot, x):
        slot.copy = None  # its memory is free for the new one
        self._make_room(slot)
        try:
            slot.copy = move(x, slot.place)
            synchronize(slot.place)  # others may read it on other streams
        except BaseException:
            self._forget(slot.key, slot.owner)
            raise

    def _forget(self, key, owner):
        # Not a newer entry for another array with the same address.
        slot = self._slots.get(key)
        if slot is not None and slot.owner is owner:
            self._slots.pop(key, None)


class _Slot:
    """A place for the copy of one NumPy array."""

    def __init__(self, key: Hashable, owner: weakref.ref, nbytes: int, place: Place, now: int):
        self.key = key
        self.owner = owner
        self.nbytes = nbytes
        self.place = place
        self.last_use = now
        self.lock = threading.Lock()
        self.digest = b""
        self.copy: Any = None


def content_digest(x: np.ndarray) -> bytes:
    """SHA-256 of the bytes of a contiguous array, in chunks that several threads read."""
    source = x.reshape(-1, order="A").view(np.uint8)
    chunks = [source[i : i + CHUNK_BYTES] for i in range(0, source.size, CHUNK_BYTES)]
    n_threads = min(MAX_THREADS, os.cpu_count() or 1, len(chunks))
    if n_threads <= 1:
        return _sha(b"".join(map(_sha, chunks)))
    with ThreadPoolExecutor(n_threads) as pool:
        return _sha(b"".join(pool.map(_sha, chunks)))


def _sha(data):
    return hashlib.sha256(data, usedforsecurity=False).digest()


def _can_be_kept(x):
    if not is_numpy(x) or x.dtype.kind not in "fiub":
        return False
    return x.nbytes >= KEPT_FROM_BYTES and (x.flags.c_contiguous or x.flags.f_contiguous)


def _owner(x):
    """The array at the root of a view: it lives as long as the memory is read through it."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


# One for the process, as devices are.
device_copies = DeviceCopies()
