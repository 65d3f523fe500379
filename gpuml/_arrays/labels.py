"""Labels of classes as small integers, where the labels are."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import all_true

# Integers that span no more than this are counted instead of sorted.
COUNTED_SPAN = 65_536
# On a GPU equal labels are counted at as many places, which are added up then: threads that add to
# one number wait for each other.
SPREAD_BINS = 2**13
# How many labels are tried first.
FEW_LABELS = 2**7


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
    counted = _counted(y, xp)
    if counted is not None:
        found = encode(counted)
        return Encoded(found.codes, xp.astype(found.classes, y.dtype), found.counts)
    if _are_integers(y, xp) and y.shape[0] > 0:
        few = _counts_if_few(y)
        if few is not None:
            return _coded(y, 0, few, y, xp)
        # Numbers come to CPU memory together: each copy waits for the device.
        low, high = to_host(xp.stack([xp.min(y), xp.max(y)])).tolist()
        if high - low < COUNTED_SPAN and (is_numpy(y) or place_of(y).kind in ("cupy", "torch")):
            # Of small integers NumPy counts without a copy that is eight times as long.
            offsets = y if low == 0 else xp.astype(y, xp.int64, copy=False) - low
            return _coded(offsets, low, _counts(offsets, high - low + 1, xp), y, xp)
    if is_numpy(y):
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        return Encoded(codes.reshape(-1), classes, counts)
    found, (_, counts) = xp.unique_inverse(y), xp.unique_counts(y)  # torch has no unique_all
    return Encoded(xp.reshape(found.inverse_indices, (-1,)), found.values, to_host(counts))


def _counted(y, xp):
    """Integers that are counted instead of labels of another dtype; None if these are counted."""
    if _is_dtype(y, xp, "b", "bool"):
        return xp.astype(y, xp.int8)
    if _is_dtype(y, xp, "f", "real floating"):
        return _whole(y, xp)
    # torch can hold these, and little more.
    unsigned = place_of(y).kind == "torch" and xp.isdtype(y.dtype, "unsigned integer")
    return xp.astype(y, xp.int64) if unsigned and y.dtype != xp.uint8 else None


def _whole(y, xp):
    """Floats as the integers that they are; None if any is none."""
    with np.errstate(invalid="ignore"):  # of NaN and infinity, which equal no integer
        integers = xp.astype(y, xp.int64)
        return integers if all_true(xp.astype(integers, y.dtype) == y, xp) else None


def _are_integers(y, xp):
    return _is_dtype(y, xp, "iu", "integral")


def _is_dtype(y, xp, kinds, name):
    return y.dtype.kind in kinds if is_numpy(y) else xp.isdtype(y.dtype, name)


def _coded(offsets, low, per_value, y, xp):
    """Codes of labels that are `low` and more, and the counts of all such labels in turn."""
    present = np.flatnonzero(per_value)
    values, counts = xp.astype(move(present + low, place_of(y)), y.dtype), per_value[present]
    first, last = present[[0, -1]].tolist()
    if len(present) == last - first + 1:
        return Encoded(offsets if first == 0 else offsets - first, values, counts)
    rank = np.zeros(last + 1, dtype=np.int32)
    rank[present] = np.arange(len(present))
    index = xp.astype(offsets, xp.int64, copy=False)
    return Encoded(xp.take(move(rank, place_of(y)), index, axis=0), values, counts)


def _counts(offsets, span, xp):
    """How many there are of each of 0, 1, ..., in CPU memory."""
    if place_of(offsets).kind == "cupy":
        return _counts_of_cupy(offsets, span)[:-1]
    offsets = xp.astype(offsets, xp.int64, copy=False)
    n_places = SPREAD_BINS // span
    if n_places < 2 or place_of(offsets).is_host:
        return to_host(xp.bincount(offsets, minlength=span))
    position = xp.arange(offsets.shape[0], dtype=xp.int64, device=device_of(offsets))
    spread = xp.bincount(offsets + span * (position % n_places), minlength=span * n_places)
    return to_host(xp.sum(xp.reshape(spread, (n_places, span)), axis=0))


def _counts_if_few(y):
    """How many there are of 0, 1, ...; None where a label is none of these, or is not CuPy's.

    Most labels are, and then nobody has to wait for the smallest and the largest of them.
    """
    if place_of(y).kind != "cupy":
        return None
    counts = _counts_of_cupy(y, FEW_LABELS)
    return None if counts[-1] else counts[:-1]


def _counts_of_cupy(labels, span):
    """How many there are of each of 0, ..., span - 1, and of all others.

    `cupy.bincount` waits for the device three times.
    """
    import cupy

    n_places = max(1, SPREAD_BINS // span)
    spread = cupy.zeros((n_places, span + 1), dtype=cupy.uint64)
    _counting_kernel()(labels, span, n_places, spread)
    return cupy.sum(spread, axis=0).get().astype(np.int64)


@cache
def _counting_kernel():
    import cupy

    return cupy.ElementwiseKernel(
        "I label, int64 span, int64 n_places",
        "raw uint64 counts",
        """
        const long long value = (long long)label;
        const long long bin = value >= 0 && value < span ? value : span;
        atomicAdd(&counts[bin + (span + 1) * (i % n_places)], 1ULL);
        """,
        "gpuml_counts",
    )


def are_labels(y: Array) -> bool:
    """Whether an array (n,) holds what can be labels: floats too, if all of them are integers."""
    if is_labels(y):
        return True
    xp = namespace(y)
    return _is_dtype(y, xp, "f", "real floating") and _whole(y, xp) is not None


def is_labels(y: Any) -> bool:
    """Whether an array holds what can be labels without doubt: integers, bools or strings."""
    if is_numpy(y):
        return y.dtype.kind in "iubU"
    return namespace(y).isdtype(y.dtype, ("bool", "integral"))
