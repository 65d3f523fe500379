"""Products with packed codes in CPU memory, decoded in blocks that stay in cache.

Codes are decoded by tables of bytes and multiplied by BLAS.

Runs of rows go to threads. Runs, and blocks within them, are cut by the shape of the data alone and
added in their order, so that results do not depend on the number of threads.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.encodings._bits import (
    look_up,
    missing_bits,
    missing_code,
    missing_table,
    per_byte,
    value_table,
)
from gpuml.encodings._column_counts import count_run
from gpuml.encodings.packed import Packed

# Codes decoded at a time: in float32 they fill the second cache of a core, and there are enough
# rows of them that adding up (columns, l) totals is little beside the product.
BLOCK_CODES = 2**18
BLOCK_ROWS = 256
# Columns decoded at a time, if there are so many.
PANEL_COLUMNS = 2**12
# Codes, and at most so many rows, that a thread is given at once.
RUN_CODES = 2**24
RUN_ROWS = 2**16
# Runs of a matrix that would be one or two, so that all threads have work.
LEAST_RUNS = 16
# Below so many multiplications waking threads costs more than it saves.
THREADED_FROM_PRODUCTS = 1e7


@dataclass(frozen=True)
class Panel:
    """Neighbouring columns, and the bytes that hold them."""

    columns: slice
    bytes: slice


class Decoder:
    """Decodes blocks of rows into memory of its own, which the next block of the kind overwrites.

    Parameters
    ----------
    packed : Packed
    dtype : numpy.dtype
        float32 or float64.
    """

    def __init__(self, packed: Packed, dtype: np.dtype):
        self.packed = packed
        bits, missing = packed.bits, packed.missing
        self._values = value_table(bits, dtype.str, missing, 0.0)
        self._missing = missing_table(bits, dtype.str)
        self._dtype = dtype
        self._memory: dict[str, np.ndarray] = {}

    def values(self, rows: slice, panel: Panel) -> np.ndarray:
        """X0 of some rows and columns."""
        return self._decoded("values", self._values, self.packed.data[rows, panel.bytes], panel)

    def missing(self, rows: slice, panel: Panel) -> np.ndarray | None:
        """M of some rows and columns; None where nothing is missing."""
        data = self.packed.data[rows, panel.bytes]
        if not self.packed.missing or not missing_bits(data, self.packed.bits).any():
            return None
        return self._decoded("missing", self._missing, data, panel)

    def _decoded(self, name, table, data, panel):
        per = table.shape[1]
        out = self._of_size(name, data.size * per, self._dtype).reshape(*data.shape, per)
        if per == 1 and name == "values" and not self.packed.missing:
            np.copyto(out[:, :, 0], data)  # a cast is faster than a table
        elif per == 1:
            _decode_bytes(data, name, out[:, :, 0])
        else:
            look_up(data, table, out, self._of_size("index", data.size, np.intp))
        n_columns = panel.columns.stop - panel.columns.start
        return out.reshape(data.shape[0], -1)[:, :n_columns]

    def _of_size(self, name, size, dtype):
        memory = self._memory.get(name)
        if memory is None or memory.size < size:
            memory = self._memory[name] = np.empty(size, dtype=dtype)
        return memory[:size]


def _decode_bytes(data, name, out):
    absent = data == missing_code(8)
    if name == "missing":
        np.copyto(out, absent)
    else:
        np.copyto(out, data)
        np.copyto(out, 0, where=absent)


def forward(packed: Packed, W: np.ndarray, W_missing: np.ndarray | None = None) -> np.ndarray:
    """``X0 W + M W_missing`` (n, l) in the dtype of W."""
    W, W_missing = _in_order(W), _in_order(W_missing)
    Y = np.empty((packed.shape[0], W.shape[1]), dtype=W.dtype)
    panels = _panels(packed)

    def of_run(decoder, run):
        for rows in _blocks(packed, run):
            _multiply(decoder, rows, panels, W, W_missing, Y[rows])

    for _ in _threaded(packed, W, of_run, [(run,) for run in _runs(packed)]):
        pass
    return Y


def backward(
    packed: Packed, Y: np.ndarray, with_missing: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """``X0' Y`` and ``M' Y``, both float64 (p, l); None for the second if it is not asked for."""
    Y = _in_order(Y)
    totals = _Totals(packed.n_columns, Y.shape[1], with_missing, Y.dtype)

    def of_run(decoder, run, panel):
        part = _Totals(panel.columns.stop - panel.columns.start, Y.shape[1], with_missing, Y.dtype)
        for rows in _blocks(packed, run):
            part.add_product(decoder, rows, panel, decoder.values(rows, panel), Y[rows])
        return part

    jobs = list(product(_runs(packed), _panels(packed)))
    for (_, panel), part in zip(jobs, _threaded(packed, Y, of_run, jobs), strict=True):
        totals.add(part, panel.columns)
    return totals.values, totals.missing


def both(
    packed: Packed,
    W: np.ndarray,
    W_missing: np.ndarray | None = None,
    offset: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """``Y = X0 W + M W_missing - offset``, ``X0' Y`` and ``M' Y`` (None without W_missing)."""
    W, W_missing = _in_order(W), _in_order(W_missing)
    with_missing = W_missing is not None
    offset = None if offset is None else offset.astype(W.dtype)
    panels = _panels(packed)
    if len(panels) != 1:
        # Whole rows would leave the cache, and be as slow to read again as to decode again.
        Y = forward(packed, W, W_missing)
        if offset is not None:
            Y -= offset
        return Y, *backward(packed, Y, with_missing)
    Y = np.empty((packed.shape[0], W.shape[1]), dtype=W.dtype)
    totals = _Totals(packed.n_columns, W.shape[1], with_missing, W.dtype)

    def of_run(decoder, run):
        part = _Totals(packed.n_columns, W.shape[1], with_missing, W.dtype)
        for rows in _blocks(packed, run):
            values = _multiply(decoder, rows, panels, W, W_missing, Y[rows])
            if offset is not None:
                Y[rows] -= offset
            part.add_product(decoder, rows, panels[0], values, Y[rows])
        return part

    for part in _threaded(packed, W, of_run, [(run,) for run in _runs(packed)]):
        totals.add(part)
    return Y, totals.values, totals.missing


def counts(packed: Packed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each column, int64 (p,): codes that are present, their sum, and the sum of squares."""
    totals = np.zeros((3, packed.n_columns), dtype=np.int64)

    def of_run(decoder, run, panel):
        n_columns = panel.columns.stop - panel.columns.start
        data = packed.data[run, panel.bytes]
        return count_run(data, n_columns, packed.bits, packed.missing)

    jobs = list(product(_runs(packed), _panels(packed)))
    parts = _threaded(packed, np.empty((0, 1), np.float32), of_run, jobs)
    for (_, panel), part in zip(jobs, parts, strict=True):
        totals[:, panel.columns] += part
    return totals[0], totals[1], totals[2]


# ---------------------------------------------------------------- within a thread


def _multiply(decoder, rows, panels, W, W_missing, out):
    """``out = X0 W + M W_missing`` of some rows; gives X0 of the last panel, still decoded."""
    values = None
    for panel in panels:
        values = decoder.values(rows, panel)
        if panel is panels[0]:
            np.matmul(values, W[panel.columns], out=out)
        else:
            out += values @ W[panel.columns]
        absent = None if W_missing is None else decoder.missing(rows, panel)
        if absent is not None:
            out += absent @ W_missing[panel.columns]
    return values


class _Totals:
    """Sums of ``X0' Y`` and ``M' Y`` over blocks of rows, float64."""

    def __init__(self, n_columns, width, with_missing, dtype):
        self.values = np.zeros((n_columns, width))
        self.missing = np.zeros((n_columns, width)) if with_missing else None
        self._product = np.empty((n_columns, width), dtype=dtype)

    def add_product(self, decoder, rows, panel, values, Y):
        self.values += np.matmul(values.T, Y, out=self._product)
        absent = None if self.missing is None else decoder.missing(rows, panel)
        if absent is not None:
            self.missing += np.matmul(absent.T, Y, out=self._product)

    def add(self, part, columns=slice(None)):
        self.values[columns] += part.values
        if self.missing is not None:
            self.missing[columns] += part.missing


# ---------------------------------------------------------------- how the work is cut


def _runs(packed: Packed) -> list[slice]:
    n, p = packed.shape
    rows = min(RUN_ROWS, RUN_CODES // max(1, p), n // LEAST_RUNS)
    step = max(1, rows // BLOCK_ROWS) * BLOCK_ROWS
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _blocks(packed: Packed, run: slice) -> Iterator[slice]:
    step = max(BLOCK_ROWS, BLOCK_CODES // max(1, packed.n_columns))
    for start in range(run.start, run.stop, step):
        yield slice(start, min(start + step, run.stop))


def _panels(packed: Packed) -> list[Panel]:
    p, per = packed.n_columns, per_byte(packed.bits)
    starts = range(0, max(p, 1), PANEL_COLUMNS)
    stops = [min(start + PANEL_COLUMNS, p) for start in starts]
    return [
        Panel(slice(start, stop), slice(start // per, -(-stop // per)))
        for start, stop in zip(starts, stops, strict=True)
    ]


def _threaded(
    packed: Packed, factor: np.ndarray, function: Callable[..., Any], jobs: list[tuple]
) -> Iterator[Any]:
    """``function(decoder, *job)`` of each job, in order; a decoder is of one thread at a time."""
    worthwhile = packed.size * factor.shape[1] >= THREADED_FROM_PRODUCTS and len(jobs) > 1
    threads = blas_threads() if worthwhile and may_limit_blas() else 1
    idle = [Decoder(packed, factor.dtype) for _ in range(threads)]

    def with_decoder(job):
        decoder = idle.pop()
        try:
            return function(decoder, *job)
        finally:
            idle.append(decoder)

    with one_blas_thread() if threads > 1 else nullcontext():
        if threads == 1:
            yield from map(with_decoder, jobs)
        else:
            yield from ordered_map(with_decoder, jobs, threads)


def _in_order(matrix):
    return None if matrix is None else np.ascontiguousarray(matrix)
