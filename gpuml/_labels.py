"""Labels of classes as small integers, where the labels are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, move, namespace, place_of, to_host

# Integers that span no more than this are counted instead of sorted.
COUNTED_SPAN = 65_536
# On a GPU equal labels are counted at as many places, which are added up then: threads that add to
# one number wait for each other.
SPREAD_BINS = 2**13


@dataclass(frozen=True)
class Encoded:
    """Labels of n rows as codes of k sorted classes.

    Attributes
    ----------
    codes : int array (n,)
        In the library and on the device of the labels.
    classes : array (k,)
        As the labels were: of their library, dtype and device.
    counts : int ndarray (k,)
        Rows of each class.
    """

    codes: Array
    classes: Array
    counts: np.ndarray

    @property
    def n_classes(self) -> int:
        return len(self.counts)

    @property
    def host_classes(self) -> np.ndarray:
        """The classes as a NumPy array."""
        return to_host(self.classes)


def encode(y: Array) -> Encoded:
    """Codes 0..k-1 of 1-D labels, in the order of the sorted classes."""
    xp = namespace(y)
    if xp.isdtype(y.dtype, "bool") if not is_numpy(y) else y.dtype.kind == "b":
        found = encode(xp.astype(y, xp.int8))
        return Encoded(found.codes, xp.astype(found.classes, xp.bool), found.counts)
    if _are_integers(y, xp) and y.shape[0] > 0:
        # Numbers come to the host together: each copy waits for the device.
        low, high = to_host(xp.stack([xp.min(y), xp.max(y)])).tolist()
        if high - low < COUNTED_SPAN and (is_numpy(y) or place_of(y).kind in ("cupy", "torch")):
            return _counted(y, low, high, xp)
    if is_numpy(y):
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        return Encoded(codes.reshape(-1), classes, counts)
    found, (_, counts) = xp.unique_inverse(y), xp.unique_counts(y)  # torch has no unique_all
    return Encoded(xp.reshape(found.inverse_indices, (-1,)), found.values, to_host(counts))


def _are_integers(y, xp):
    return y.dtype.kind in "iu" if is_numpy(y) else xp.isdtype(y.dtype, "integral")


def _counted(y, low, high, xp):
    span = high - low + 1
    # Of small integers NumPy and CuPy count without a copy that is eight times as long.
    offsets = y if low == 0 else xp.astype(y, xp.int64, copy=False) - low
    per_value = _counts(offsets, span, xp)
    present = np.flatnonzero(per_value)
    values = xp.astype(move(present + low, place_of(y)), y.dtype)
    if len(present) == span:
        codes = offsets
    else:
        rank = np.zeros(span, dtype=np.int32)
        rank[present] = np.arange(len(present))
        codes = xp.take(move(rank, place_of(y)), xp.astype(offsets, xp.int64, copy=False), axis=0)
    return Encoded(codes, values, per_value[present])


def _counts(offsets, span, xp):
    """How many there are of each of 0, 1, ..., on the host."""
    offsets = xp.astype(offsets, xp.int64, copy=False)
    n_places = SPREAD_BINS // span
    if n_places < 2 or place_of(offsets).is_host:
        return to_host(xp.bincount(offsets, minlength=span))
    position = xp.arange(offsets.shape[0], dtype=xp.int64, device=device_of(offsets))
    spread = xp.bincount(offsets + span * (position % n_places), minlength=span * n_places)
    return to_host(xp.sum(xp.reshape(spread, (n_places, span)), axis=0))


def is_labels(y: Any) -> bool:
    """Whether an array holds what can be labels without doubt: integers, bools or strings."""
    if is_numpy(y):
        return y.dtype.kind in "iubU"
    return namespace(y).isdtype(y.dtype, ("bool", "integral"))
