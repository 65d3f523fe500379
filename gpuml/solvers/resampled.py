"""Second moments of many resamples of the rows, drawn with replacement: one product for all.

A row is in resample b so many times as a Poisson variable of mean 1 says, whatever the others are:
for many rows that is the bootstrap [1]_, and counts of a row follow from its number alone. They are
made of a hash of seed, row and resample, so that every array library and every block of rows gives
the same ones, and none is kept. Moments of all resamples are counts (B, n) times the products of
pairs of columns (n, q (q + 1) / 2).

References
----------
.. [1] N. Chamandy, O. Muralidharan, A. Najmi, S. Naidu, "Estimating uncertainty for massive data
   streams", Google (2012).
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, device_of, move, to_host
from gpuml._arrays.grams import design
from gpuml.data import Batch, Elsewhere, Folds, NeedsAllRows, Partition, cut, take
from gpuml.solvers.moments import Moments
from gpuml.solvers.shifts import atom_shifts

# Workspace of a block of rows: their pairs of columns, and counts.
BLOCK_BYTES = {"cpu": 2**26, "gpu": 2**31}
# Multipliers and shifts of the hash (splitmix64), as int64, which all libraries have.
GOLDEN, FIRST, SECOND = (
    int(np.uint64(x).astype(np.int64))
    for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
# Numbers of so many bits, of which a hash holds some, and counts by number: as often as a Poisson
# variable has them, to 1 in 100,000.
BITS, LANES = 16, 4
# Bits of the keys of permutations for a sign and which it is, of so many that are drawn at once.
KEY_BITS = 4
ORDERS_AT_ONCE = 2 ** (KEY_BITS - 1)
COUNTS = np.searchsorted(
    np.cumsum([math.exp(-1) / math.factorial(k) for k in range(9)]),
    (np.arange(2**BITS) + 0.5) / 2**BITS,
).astype(np.int8)


def counts_of(rows: slice, resamples: slice, seed: int, place: Place) -> Array:
    """How often each resample has each of some rows, (B, m) int8 at a place."""
    xp = place.xp
    first = resamples.start // LANES
    z = _hashes(rows, slice(first, -(-resamples.stop // LANES)), seed, place)
    lanes = xp.stack([_shifted(z, BITS * k, xp) & (2**BITS - 1) for k in range(LANES)], axis=1)
    counts = xp.take(move(COUNTS, place), xp.reshape(lanes, (-1,)), axis=0)
    counts = xp.reshape(counts, (-1, z.shape[1]))
    return counts[resamples.start - LANES * first : resamples.stop - LANES * first, :]


def permuted_rows(
    n_rows: int, numbers: range, seed: int, place: Place, groups: Array | None = None
) -> Array:
    """The rows in the orders of `ORDERS_AT_ONCE` permutations or fewer, (m, n_rows) int64.

    They are sorted by hashes: the same orders in every array library. `groups` (n_rows,) are
    integers there, within which rows stay.
    """
    if len(numbers) > ORDERS_AT_ONCE:
        raise ValueError(f"At most {ORDERS_AT_ONCE} orders are drawn at once, not {len(numbers)}.")
    xp, low = place.xp, (1 << n_rows.bit_length()) - 1
    orders = _sorted_hashes(n_rows, numbers, seed, place, low) & low
    if groups is None:
        return orders
    back = xp.argsort(xp.argsort(groups, stable=True))
    found = []
    for i in range(orders.shape[0]):
        order = orders[i, :]
        order = xp.take(order, xp.argsort(xp.take(groups, order), stable=True))
        found.append(xp.take(order, back))
    return xp.stack(found)


def _sorted_hashes(n_rows, numbers, seed, place, low):
    """Sorted keys (m, n): a hash, and in the bits of `low` the row, so that no index is sorted."""
    xp, rows = place.xp, slice(0, n_rows)
    if place.kind != "cupy":
        hashes = _hashes(rows, slice(numbers.start, numbers.stop), seed, place)
        keys = _shifted(hashes, KEY_BITS, xp) & ~low
        return xp.sort(keys | xp.arange(n_rows, dtype=xp.int64, device=place.device), axis=1)
    # A GPU sorts all of them at once, by their places in the first bits.
    keys = _hashes_of_cupy(rows, slice(numbers.start, numbers.stop), seed, low)
    keys.ravel().sort()
    return keys


def _hashes(rows, numbers, seed, place):
    """Hashes (B, m) int64 of a seed, numbers and rows; those of one number differ."""
    xp = place.xp
    if place.kind == "cupy":
        return _hashes_of_cupy(rows, numbers, seed)
    options = {"dtype": xp.int64, "device": place.device}
    row = xp.arange(rows.start, rows.stop, **options)
    number = xp.arange(numbers.start, numbers.stop, **options)
    z = _mixed(row * GOLDEN + seed, xp)[None, :] ^ _mixed(number * SECOND + GOLDEN, xp)[:, None]
    return _mixed(z, xp)


def _hashes_of_cupy(rows, numbers, seed, low=0):
    """The same in one launch; with `low`, keys of permutations."""
    import cupy

    size = rows.stop - rows.start
    hashes = cupy.empty((numbers.stop - numbers.start, size), dtype=cupy.int64)
    return _hashing_kernel()(rows.start, numbers.start, size, seed, low, hashes)


@cache
def _hashing_kernel():
    import cupy

    unsigned = "unsigned long long"
    golden, first, second = (f"({unsigned}){x}LL" for x in (GOLDEN, FIRST, SECOND))
    return cupy.ElementwiseKernel(
        "int64 first, int64 number, int64 n_rows, int64 seed, int64 low",
        "int64 hash",
        f"""
        const long long row = first + i % n_rows, place = i / n_rows;
        const {unsigned} own = mixed(row * {golden} + seed);
        const {unsigned} z = mixed(own ^ mixed((number + place) * {second} + {golden}));
        hash = low ? ((z >> {KEY_BITS}) & ~low) | row | (place << {64 - KEY_BITS}) : z;
        """,
        "gpuml_hashes",
        preamble=f"""
        __device__ {unsigned} mixed({unsigned} z) {{
            z = (z ^ (z >> 30)) * {first};
            z = (z ^ (z >> 27)) * {second};
            return z ^ (z >> 31);
        }}
        """,
    )


def _mixed(z, xp):
    for shift, factor in ((30, FIRST), (27, SECOND)):
        z = (z ^ _shifted(z, shift, xp)) * factor
    return z ^ _shifted(z, 31, xp)


def _shifted(z, bits, xp):
    """Shifted right, with zeros from the left: int64 has its sign there."""
    if bits == 0:
        return z
    return xp.bitwise_right_shift(z, xp.asarray(bits, dtype=z.dtype, device=device_of(z))) & (
        2 ** (64 - bits) - 1
    )


@dataclass(frozen=True)
class Resample:
    """A split that trains on a resample and holds out the rows that are not in it: their numbers.

    Which rows these are nobody asks who knows the sums over them.
    """

    n_train: int
    n_test: int


class _Unmade(Elsewhere):
    """Rows of a resample, which are not made: how many they are."""

    def __init__(self, n_rows: int):
        object.__setattr__(self, "n_rows", n_rows)

    @property
    def name(self):
        """Raise NeedsAllRows: no holder has a name for resampled rows."""
        raise NeedsAllRows("Of resamples that moments do not solve, the rows are needed.")


def resampled(batch: Batch, numbers: slice, seed: int) -> Folds:
    """Folds of resamples whose moments are known, in one pass over the rows for all of them.

    What asks for the rows of one raises NeedsAllRows.
    """
    moments, sizes = _moments(batch, numbers, seed)
    number = len(sizes) // 2
    splits: Any = tuple(map(Resample, sizes[:number], sizes[number:]))
    atoms = tuple(map(_Unmade, sizes))
    own = np.eye(2 * number)
    partition = Partition(0, atoms, own[:number], own[number:])

    def divide(batch, splits):
        return (partition,)

    return Folds(batch, splits, divide, known={"moments": (moments,), "factors": {}})


def _moments(batch, numbers, seed):
    """Moments of training parts, then of held-out ones, and how many rows each has."""
    xp, place, n = batch.work.xp, batch.work, batch.n_rows
    number = numbers.stop - numbers.start
    shift = atom_shifts(batch, (slice(0, n),))[0, :]
    q = shift.shape[0] + 1
    i, j = (move(index, place) for index in np.triu_indices(q))
    size = BLOCK_BYTES["cpu" if place.is_host else "gpu"]
    total: Any = 0.0
    drawn: Any = 0
    for rows in cut(slice(0, n), max(64, size // (8 * (i.shape[0] + 4 * number)))):
        X, y, weight = (
            None if a is None else move(take(a, rows, xp), place)
            for a in (batch.X, batch.y, batch.weight)
        )
        # Rows times the root of their weights.
        z = design(X, y, weight, shift, xp)
        pairs = xp.take(z, i, axis=1) * xp.take(z, j, axis=1)
        counts = counts_of(rows, numbers, seed, place)
        both = xp.concat([counts, xp.astype(counts == 0, xp.int8)])
        drawn = drawn + xp.sum(both, axis=1, dtype=xp.int64)
        total = total + xp.astype(both, xp.float64) @ pairs  # (2 B, q (q + 1) / 2)
    where = np.empty((q, q), dtype=np.int64)
    where[np.triu_indices(q)] = np.arange(i.shape[0])
    where = np.triu(where) + np.triu(where, 1).T
    gram = xp.take(total, move(where.reshape(-1), place), axis=1)
    moments = Moments(xp.reshape(gram, (2 * number, q, q)), shift, batch.n_features)
    return moments, to_host(drawn).tolist()
