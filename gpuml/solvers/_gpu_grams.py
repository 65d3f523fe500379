"""Sums over rows of a GPU by the kernels of `_gram_source`: all atoms in the same launch.

The parts of a sum are added up in their order, so that the same rows give the same bits, whatever
the GPU is busy with.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, gpus, move, place_of
from gpuml._arrays.gpus import C_NAMES, FLOATS
from gpuml.data import Rows
from gpuml.solvers._gram_source import SOURCE

# Matrices of more columns than a panel are computed in panels, and in halves of these.
PANEL, STRIP = 128, 16
THREADS = 128
# Sums are divided into so many blocks, which fill any GPU, but not for fewer rows than these.
MOST_BLOCKS, LEAST_ROWS = 1056, 64
PART_BYTES = 2**28
# A block for each part, and a lane of a warp for each column behind the features.
MOST_SEGMENTS, MOST_BEHIND = 2**15, 32
# Shared memory of the shifts of a panel and a half.
SHIFT_BYTES = 8 * (PANEL + PANEL // 2)
# Of the first GPUs whose tensor cores multiply float64.
LEAST_CAPABILITY = 80
_FIELDS = ("atom", "first", "step", "count", "listed", "rows", "part")


@cache
def _kernels(
    device: int, strips: int, half: int, dtypes: tuple[str, str, str | None]
) -> dict[str, Any]:
    """The kernels of a GPU for rows, targets and weights of some dtypes, by name."""
    import cupy

    sizes = _sizes(strips, half, dtypes)
    source = "".join(f"#define {name} {value}\n" for name, value in sizes.items()) + SOURCE
    types = ", ".join(C_NAMES[dtype or "float32"] for dtype in dtypes)
    names = [f"{name}<{types}>" for name in ("sums", "products")]
    module = cupy.RawModule(code=source, options=("--std=c++14",), name_expressions=names)
    found = {name.partition("<")[0]: module.get_function(name) for name in names}
    found["products"].max_dynamic_shared_size_bytes = _shared_bytes(strips, half, dtypes)
    return {**found, "add_parts": module.get_function("add_parts")}


def _sizes(strips, half, dtypes):
    """How many columns and rows a block works on, and how many times that is on its way."""
    return {
        "STRIPS": strips,
        "HALF": half,
        "DEPTH": _depth(strips),
        "STAGES": 2 if dtypes[0] == "float64" else 3,
        "WEIGHTED": int(dtypes[2] is not None),
        "THREADS": THREADS,
    }


def _depth(strips):
    """Rows of few columns that a block converts at a time are as many numbers."""
    return 16 if strips > 4 else 32 if strips > 2 else 64


def _shared_bytes(strips, half, dtypes):
    sizes = _sizes(strips, half, dtypes)
    columns = 32 * ((strips + 1) // 2) + half
    x, y, weight = (np.dtype(dtype or "float32").itemsize for dtype in dtypes)
    stage = columns * x + 32 * y + weight
    return sizes["DEPTH"] * (2 * 8 * (columns + 4) + sizes["STAGES"] * stage)


class GpuRows:
    """Rows [X, y] of a GPU, and their weights (n,) or None, as the kernels read them.

    Parameters
    ----------
    X, y : array (n, p), (n, t)
    weight : array (n,) or None
    place : Place
        Where sums are to be.
    """

    def __init__(self, X: Array, y: Array, weight: Array | None, place: Place):
        self.X, self.y, self.weight, self.place = X, y, weight, place

    @property
    def can_be_read(self) -> bool:
        """Whether the kernels read these rows: of floats, each in one line of the memory."""
        place = self.place
        if place.kind != "cupy" or place_of(self.X) != place:
            return False
        arrays = [a for a in (self.X, self.y, self.weight) if a is not None]
        return (
            all(a.dtype.name in FLOATS for a in arrays)
            and all(map(_is_in_lines, arrays))
            and self.y.shape[1] < MOST_BEHIND
            and self._suits(place.device.id)
        )

    def _suits(self, device):
        own = _shared_bytes(*self.kind) + SHIFT_BYTES
        has_cores = gpus.capability(device) >= LEAST_CAPABILITY
        return has_cores and own <= gpus.properties(device)["sharedMemPerBlockOptin"]

    @property
    def n_columns(self) -> int:
        """Columns of [X, y, 1]."""
        return self.X.shape[1] + self.y.shape[1] + 1

    @property
    def kind(self) -> tuple[int, int, tuple[str, str, str | None]]:
        """Which kernels read the rows: strips of a panel, columns of a half, and dtypes."""
        weight = None if self.weight is None else self.weight.dtype.name
        strips, half = -(-self.n_columns // STRIP), 0
        if self.n_columns > PANEL:
            strips, half = PANEL // STRIP, PANEL // 2
        return strips, half, (self.X.dtype.name, self.y.dtype.name, weight)

    def given(self, segments: np.ndarray, listed: list[Array]) -> tuple[Any, ...]:
        """What both kernels are given, and what keeps it alive."""
        import cupy

        def lines(a):
            return a, np.int64(a.strides[0] // a.itemsize)

        weight = np.uintp(0) if self.weight is None else self.weight
        numbers = [cupy.asarray(move(rows, self.place), dtype=np.int64) for rows in listed]
        return (
            *lines(self.X),
            *lines(self.y),
            weight,
            cupy.concatenate(numbers) if numbers else np.uintp(0),
            np.int32(self.X.shape[1]),
            np.int32(self.n_columns),
            cupy.asarray(segments),
            np.int32(len(segments)),
        )

    def sums(self, atoms: Sequence[Rows], worth: Sequence[int]) -> Array:
        """Sums (A, q) of ``w [X, y, 1]`` over few rows of each atom, each worth so many."""
        import cupy

        segments, listed = _segments(atoms)
        segments[:, _FIELDS.index("rows")] = np.asarray(worth)[segments[:, 0]]
        total = cupy.empty((len(atoms), self.n_columns))
        kernel, grid = (
            _kernels(self.place.device.id, *self.kind)["sums"],
            (len(atoms), -(-self.n_columns // THREADS)),
        )
        kernel(grid, (THREADS,), (*self.given(segments, listed), total))
        return total

    def grams(
        self, atoms: Sequence[Rows], shifts: Array, block_bytes: int | None = None
    ) -> Array | None:
        """Second moments (A, q, q) of ``[X - c, y - d, 1]``, about the atoms' shifts (A, q - 1).

        None if parts of sums are more than `block_bytes`.
        """
        import cupy

        segments, listed = _segments(atoms)
        n_atoms, q, kind = len(atoms), self.n_columns, self.kind
        n_blocks, most = (-(-q // PANEL)) ** 2, (block_bytes or PART_BYTES) // (8 * q * q)
        ends = _divide(segments, n_atoms, min(MOST_BLOCKS // n_blocks, most), _depth(kind[0]))
        n_parts = int(ends[-1])
        are_whole = n_parts == n_atoms and bool((np.diff(ends) == 1).all())
        if len(segments) > MOST_SEGMENTS or (n_parts > max(most, 1) and not are_whole):
            return None
        total = cupy.empty((n_atoms, q, q))
        parts = total if are_whole else cupy.empty((n_parts, q, q))
        kernels = _kernels(self.place.device.id, *kind)
        if n_parts:
            given = (*self.given(segments, listed), cupy.ascontiguousarray(shifts), parts)
            shared = _shared_bytes(*kind)
            kernels["products"]((n_blocks, n_parts), (THREADS,), given, shared_mem=shared)
        given = (parts, cupy.asarray(ends), np.int32(q), total)
        kernels["add_parts"]((-(-q * q // THREADS), n_atoms), (THREADS,), given)
        return total


def _is_in_lines(a):
    """Whether what a row has is side by side in memory; a single column has any stride."""
    return a.size == 0 or a.strides[-1] == a.itemsize or (a.ndim == 2 and a.shape[1] == 1)


def _segments(atoms):
    """Which rows atoms have: segments without their parts, and the row numbers that these list."""
    segments, listed, n_listed = [], [], 0
    for number, atom in enumerate(atoms):
        for run in atom if isinstance(atom, tuple) else (atom,):
            if isinstance(run, slice):
                here = range(run.start, run.stop, run.step or 1)
                segments.append((number, here.start, here.step, len(here), 0, 0, 0))
            else:
                segments.append((number, n_listed, 1, len(run), 1, 0, 0))
                listed.append(run)
                n_listed += len(run)
    found = np.array(segments, dtype=np.int64).reshape(-1, len(_FIELDS))
    return found[found[:, _FIELDS.index("count")] > 0], listed


def _divide(segments, n_atoms, wanted, depth):
    """Divide segments into about so many parts, and say where the parts of each atom end."""
    atom, count, rows, part = (
        segments[:, _FIELDS.index(name)] for name in ("atom", "count", "rows", "part")
    )
    size = max(LEAST_ROWS, -(-int(count.sum()) // max(1, wanted - len(segments))))
    rows[...] = -(-size // depth) * depth
    n_parts = -(-count // rows)
    part[...] = np.cumsum(n_parts) - n_parts
    of_atoms = np.bincount(atom, n_parts, n_atoms)
    return np.concatenate([[0], np.cumsum(of_atoms)]).astype(np.int64)
