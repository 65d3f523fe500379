"""A cache of transformed rows, with a limit in bytes for each place.

The least recently used rows go first. Arrays on a device move to page-locked CPU memory, and return
on demand; rows in CPU memory, and rows that are no plain array, are dropped.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    free_bytes,
    is_array,
    move,
    nbytes,
    place_of,
    transfer_observers,
)

# The denominator of the share of free memory that the cache uses without a limit: the rows of a
# fold and the fits need the rest.
SHARE = 4


@dataclass
class _Kept:
    """Rows, with the place and size of their memory."""

    rows: Any
    place: Place
    size: int


@dataclass(frozen=True)
class _Parked:
    """An array of a device, in CPU memory."""

    host: Array
    place: Place


class PrefixCache:
    """Rows by key, least recently used first to go.

    Parameters
    ----------
    limit : int or None, default=None
        Bytes to keep on each device and in CPU memory. None is a quarter of the memory that is free
        there when the first rows are put. Rows larger than the limit are not kept at all.
    """

    def __init__(self, limit: int | None = None):
        self._limit = limit
        self._limits: dict[str, int] = {}  # by name: devices of CuPy cannot be hashed
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def used(self, place: Place) -> int:
        """Bytes kept at a place."""
        return sum(kept.size for kept in self._kept.values() if kept.place == place)

    def get(self, key: Hashable) -> Any | None:
        """The rows of a key, back on their device; None if they are not kept."""
        if key not in self._kept:
            return None
        kept = self._kept[key]
        if not isinstance(kept.rows, _Parked):
            self._kept.move_to_end(key)
            return kept.rows
        self.discard(key)
        try:
            rows = _bring_back(kept.rows)
        except (MemoryError, RuntimeError):  # the device has no room now
            return None
        self.put(key, rows)
        return rows

    def put(self, key: Hashable, rows: Any) -> None:
        """Keep rows, and drop others if the limit is exceeded."""
        self.discard(key)
        self._add(key, _Kept(rows, _memory_of(rows), rows_nbytes(rows)))

    def discard(self, key: Hashable) -> None:
        """Drop the rows of a key, if there are any."""
        self._kept.pop(key, None)

    def _add(self, key, kept):
        limit = self._limit_of(kept.place)
        if kept.size > limit:
            return
        while self.used(kept.place) + kept.size > limit:
            self._evict(next(k for k, other in self._kept.items() if other.place == kept.place))
        self._kept[key] = kept

    def _evict(self, key):
        kept = self._kept.pop(key)
        if kept.place == HOST or not is_array(kept.rows) or kept.size > self._limit_of(HOST):
            return
        try:
            parked = _park(kept.rows)
        except (MemoryError, RuntimeError):  # the system has no more page-locked memory
            return
        self._add(key, _Kept(parked, HOST, kept.size))

    def _limit_of(self, place):
        name = str(place)
        if name not in self._limits:
            self._limits[name] = self._limit or free_bytes(place) // SHARE
        return self._limits[name]


def rows_nbytes(rows: Any) -> int:
    """Bytes of rows: arrays, sparse matrices and tables; 0 if unknown."""
    if is_array(rows):
        return nbytes(rows)
    parts = _parts(rows)
    if parts:
        return sum(nbytes(part) for part in parts)
    if hasattr(rows, "memory_usage"):  # pandas, cuDF; counts pointers for strings
        return int(np.sum(rows.memory_usage()))
    if hasattr(rows, "estimated_size"):  # polars
        return int(rows.estimated_size())
    return int(getattr(rows, "nbytes", 0))


def _memory_of(rows):
    """The place whose memory rows take."""
    part = rows if is_array(rows) else next(iter(_parts(rows)), None)
    place = HOST if part is None else place_of(part)
    return HOST if place.is_host else place


def _parts(rows):
    """The arrays of a sparse matrix; none for other objects."""
    names = ("data", "indices", "indptr", "row", "col", "offsets")
    if not hasattr(rows, "nnz"):
        return []
    return [part for name in names if is_array(part := getattr(rows, name, None))]


# ---------------------------------------------------------------- to CPU memory and back


def _park(x: Array) -> _Parked:
    """An array of a device in CPU memory, page-locked if the library supports it."""
    place = place_of(x)
    if place.kind == "cupy":
        _report("to_host", nbytes(x))
        host = _page_locked(x)
        with x.device:
            x.get(out=host)
        return _Parked(host, place)
    if place.kind == "torch":
        import torch

        _report("to_host", nbytes(x))
        host = torch.empty_like(x, device="cpu", pin_memory=x.device.type == "cuda")
        return _Parked(host.copy_(x), place)
    return _Parked(move(x, HOST), place)


def _bring_back(parked: _Parked) -> Array:
    """The array on its device, with its former memory order."""
    host, place = parked.host, parked.place
    if place.kind == "cupy":
        import cupy

        _report("to_device", host.nbytes)
        with cupy.cuda.Device(place.device.id):
            out = cupy.empty(host.shape, host.dtype, order=_order(host))
            out.set(host)
            # The buffer in CPU memory returns to its pool when this function ends.
            cupy.cuda.get_current_stream().synchronize()
        return out
    if place.kind == "torch":
        _report("to_device", nbytes(host))
        return host.to(place.device)
    return move(host, place)


def _page_locked(x):
    """A page-locked NumPy array with the shape, dtype and order of a CuPy array."""
    import cupy

    memory = cupy.cuda.alloc_pinned_memory(max(1, x.nbytes))
    flat = np.frombuffer(memory, dtype=x.dtype, count=x.size)
    return flat.reshape(x.shape, order=_order(x))


def _order(x):
    return "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"


def _report(direction, size):
    for observer in transfer_observers:
        observer(direction, size)
