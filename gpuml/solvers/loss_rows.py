"""Gradients and curvatures of many linear models from one reading of their common rows.

Models stand on a grid of candidates x splits, W of shape (C, S, k, q): k vectors of q = p + 1
numbers, the intercept last. All of them are rows of one matrix, so that margins and gradients of
all models are two matrix products per block of rows. A row that a split holds out weighs 0 there.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, is_numpy, itemsize, move, place_of
from gpuml._ops import along_rows, zeros
from gpuml._threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.data import Aligned, Holders, spaced
from gpuml.losses import Loss
from gpuml.solvers._blocks import free_memory, is_out_of_memory, quiet

# Workspace of one block: within the cache of a core, or of a GPU several times over.
CPU_BLOCK_BYTES = 2**20
GPU_BLOCK_BYTES = 2**29
SMALLEST_BLOCK_ROWS = 64
# Boundaries of the runs of blocks that threads get follow the data alone, so that sums are the same
# to the last bit for any number of threads.
RUNS = 16
# Samples of divided rows up to this size are brought to one holder.
GATHER_BYTES = 2**26
THREADED_FROM_PRODUCTS = 2e7


@dataclass(frozen=True)
class LossRows(Aligned):
    """Rows with their targets and the weight of each row in each split.

    Attributes
    ----------
    X : array (n, p)
    target : array (n,)
        As the loss wants it, at `place`.
    weights : array (S, n) or None
        Of the dtype of X or of small integers, at `place`; None weighs every row 1 in one split.
    loss : Loss
    n_vectors : int
        k: coefficient vectors of one model.
    place : Place
        Where to compute. X may lie elsewhere: its blocks are brought there one by one.
    frame : array (S, p' + 1, p + 1) or None
        Vectors of models, times it, are vectors for the rows: models are of affine images of the
        rows that differ from split to split, and the images are never formed.
    block_bytes : int, optional
        Bound on the workspace of a block.
    advance : callable, optional
        Called with the number of rows read.
    threads : int
        Threads of our own on a CPU, where BLAS is kept to one (see `solvers.logistic.solve`).
    first : int
        Number of the first row among all rows, where these are a piece of them.
    """

    X: Array
    target: Array
    weights: Array | None
    loss: Loss
    n_vectors: int
    place: Place
    frame: Array | None = None
    block_bytes: int | None = None
    advance: Callable[[int], None] | None = None
    threads: int = 1
    first: int = 0

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def n_splits(self) -> int:
        return 1 if self.weights is None else self.weights.shape[0]

    @property
    def itemsize(self) -> int:
        """Bytes of a number of X."""
        return itemsize(self.X.dtype)

    @cached_property
    def dtype(self) -> Any:
        """Float dtype of the rows in the library of `place`."""
        return getattr(self.place.xp, str(self.X.dtype).rpartition(".")[2])

    def of_rows(self, W: Array) -> Array:
        """Models (C, S, k, q) as models of the rows, where they are of images of them."""
        return W if self.frame is None else W @ self.frame

    def total_weights(self) -> Array:
        """Sum of the weights of each split, (S,) float64."""
        xp = self.place.xp
        if self.weights is None:
            return xp.full((1,), float(self.n_rows), dtype=xp.float64, device=self.place.device)
        return along_rows(xp.sum, self.weights, xp, dtype=xp.float64)

    def largest_weights(self) -> Array:
        """The largest weight of a row in each split, (S,) float64."""
        xp = self.place.xp
        if self.weights is None:
            return xp.ones((1,), dtype=xp.float64, device=self.place.device)
        if self.n_rows == 0:  # as a piece of a sample may be
            return zeros((self.n_splits,), like=self.weights, xp=xp)
        return xp.astype(along_rows(xp.max, self.weights, xp), xp.float64)

    def largest_values(self) -> Array:
        """The largest absolute value of X in the rows that a split gives weight, (S,) float64."""
        xp = self.place.xp
        like = self.target if self.weights is None else self.weights
        largest = zeros((self.n_splits,), like=like, xp=xp)
        for rows in self.blocks(1, slice(0, self.n_rows)):
            X = move(self.X[rows, ...], self.place)
            own = xp.astype(xp.max(xp.abs(X), axis=1), xp.float64)[None, :]
            if self.weights is not None:
                own = xp.where(self.weights[:, rows] > 0, own, xp.zeros_like(own))
            largest = xp.maximum(largest, xp.max(own, axis=1))
        return largest

    def every(self, step: int) -> "LossRows":
        """One row in `step`, brought to `place` in float64."""
        xp = self.place.xp
        rows = spaced(step // 2, step, self.first, self.n_rows)
        X = xp.astype(move(self.X[rows, ...], self.place), xp.float64)
        weights = None if self.weights is None else self.weights[:, rows]
        before = len(range(step // 2, self.first, step))
        return replace(
            self, X=X, target=self.target[rows], weights=weights, advance=None, first=before
        )

    def total(self, function: Callable[..., Array], *args: Any) -> Array:
        """``function(rows, *args)``, which is a sum over rows."""
        return function(self, *args)

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(rows, *args)``, whatever it is."""
        return function(self, *args)

    def with_smaller_blocks(self, n_models: int, error: BaseException) -> "LossRows":
        """The same rows, read in blocks of a quarter of the size; MemoryError for the smallest."""
        size = self._rows_per_block(n_models) // 4
        if size < SMALLEST_BLOCK_ROWS // 4:
            raise MemoryError(
                f"Not enough memory on {self.place} for blocks of {4 * size} rows x "
                f"{self.n_features} columns and their margins of {n_models} models. Free memory "
                "there, set a smaller gpuml.set_config(solver_bytes=...), or use "
                "gpuml.set_config(device='cpu')."
            ) from error
        free_memory(self.place)
        return replace(self, block_bytes=size * self._row_bytes(n_models))

    def blocks(self, n_models: int, rows: slice) -> Iterator[slice]:
        """Rows in pieces whose workspace for so many models stays in bounds."""
        size = self._rows_per_block(n_models)
        for start in range(rows.start, rows.stop, size):
            yield slice(start, min(start + size, rows.stop))

    def _rows_per_block(self, n_models):
        if self.block_bytes is not None:
            bound, smallest = self.block_bytes, 1
        else:
            on_cpu = self.place.kind == "numpy"
            bound = CPU_BLOCK_BYTES if on_cpu else GPU_BLOCK_BYTES
            smallest = SMALLEST_BLOCK_ROWS
        return max(smallest, bound // self._row_bytes(n_models))

    def _row_bytes(self, n_models):
        columns = self.n_features + 2 * self.n_vectors * n_models
        return columns * itemsize(self.X.dtype)


@dataclass(frozen=True)
class DividedLossRows:
    """As `LossRows`, of rows that are divided; the pieces of `holders` are `LossRows`.

    Attributes
    ----------
    holders : Holders
    n_rows, n_features, n_splits : int
    itemsize : int
        Bytes of a number of X.
    dtype : dtype
        Of X, in the library of `place`.
    loss, n_vectors, frame
        As for `LossRows`.
    place : Place
        Where sums come to.
    threads : int
        Of what is solved here; pieces have their own.
    """

    holders: Holders
    n_rows: int
    n_features: int
    n_splits: int
    itemsize: int
    dtype: Any
    loss: Loss
    n_vectors: int
    place: Place
    frame: Array | None = None
    threads: int = 1

    def total(self, function: Callable[..., Array], *args: Any) -> Array:
        """The sum of ``function(piece, *args)`` over the pieces."""
        return self.holders.total(function, *args)

    def total_weights(self) -> Array:
        """Sum of the weights of each split, (S,) float64."""
        return self.holders.total(LossRows.total_weights)

    def largest_weights(self) -> Array:
        """The largest weight of a row in each split, (S,) float64."""
        return self.holders.total(LossRows.largest_weights, combine=self.place.xp.maximum)

    def largest_values(self) -> Array:
        """The largest absolute value of X in the rows that a split gives weight, (S,) float64."""
        return self.holders.total(LossRows.largest_values, combine=self.place.xp.maximum)

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(rows, *args)``: where the rows are if one holder has them all, else here."""
        if len(self.holders) == 1:
            return self.holders.each(_asked, function, *args)[0]
        return function(self, *args)

    def every(self, step: int) -> "DividedLossRows":
        """One row in `step`, in float64: brought to one holder if they are few."""
        n_rows = len(range(step // 2, self.n_rows, step))
        holders = self.holders.map(LossRows.every, step)
        if 8 * n_rows * self.n_features <= GATHER_BYTES:
            build = partial(_joined, loss=self.loss, n_vectors=self.n_vectors, frame=self.frame)
            holders = holders.gathered(_columns_of, build)
        dtype = self.place.xp.float64
        return replace(self, holders=holders, n_rows=n_rows, itemsize=8, dtype=dtype)


AnyLossRows = LossRows | DividedLossRows


def own_threads(place: Place) -> int:
    """Threads of our own for work at a place, where BLAS is to be kept to one."""
    return blas_threads() if place.kind == "numpy" and may_limit_blas() else 1


def _asked(rows, function, *args):
    """What is asked of rows, in as many threads as there are where they are."""
    rows = replace(rows, threads=own_threads(rows.place))
    with one_blas_thread() if rows.place.kind == "numpy" else nullcontext():
        return function(rows, *args)


def _joined(columns, loss, n_vectors, frame):
    """Rows of the columns of several pieces."""
    X, target, weights = zip(*columns, strict=True)
    place = place_of(X[0])
    xp = place.xp
    return LossRows(
        X=xp.concat(X),
        target=xp.concat(target),
        weights=xp.concat(weights, axis=1),
        loss=loss,
        n_vectors=n_vectors,
        place=place,
        frame=None if frame is None else move(frame, place),
    )


def _columns_of(data):
    """X, target and weights, which other pieces may need where this one has none."""
    weights = data.weights
    if weights is None:
        xp = data.place.xp
        weights = xp.ones((1, data.n_rows), dtype=xp.uint8, device=data.place.device)
    return data.X, data.target, weights


def gradients(data: "AnyLossRows", W: Array) -> Array:
    """Sums over rows of weight x gradient of the loss, (C, S, k, q) float64, for models W."""
    return data.total(_gradients, W)


def _gradients(data, W):
    W = move(W, data.place)
    G = _row_gradients(data, data.of_rows(W))
    return G if data.frame is None else G @ data.place.xp.matrix_transpose(data.frame)


def _row_gradients(data, W):
    xp = data.place.xp
    n_candidates, n_splits, k, q = W.shape
    A = xp.reshape(xp.permute_dims(W, (2, 0, 1, 3)), (-1, q))
    coef, offset = xp.astype(A[:, :-1], data.dtype), xp.astype(A[:, -1:], data.dtype)
    shape = (k, n_candidates, n_splits)

    def add(total, rows):
        X = move(data.X[rows, ...], data.place)
        slope = _weighted_slope(data, X, rows, coef, offset, shape, xp)
        _add_products(total, slope, X, xp)
        if data.advance is not None:
            data.advance(rows.stop - rows.start)

    total = _sum_over_rows(data, n_candidates * n_splits, (A.shape[0], q), add)
    return xp.permute_dims(xp.reshape(total, (*shape, q)), (1, 2, 0, 3))


def margins(X: Array, coef: Array, offset: Array, xp: Any) -> Array:
    """``coef X' + offset`` (M, b); a product of NumPy takes the transposed X as it is."""
    z = coef @ X.T
    if is_numpy(z):
        z += offset
        return z
    return z + offset


def _weighted_slope(data, X, rows, coef, offset, shape, xp):
    """Weight x slope (M, b) of a block, all models as rows."""
    weights = None if data.weights is None else data.weights[:, rows]
    if type(X).__module__.startswith("cupy"):
        from gpuml.solvers._kernels import weighted_slope

        z = coef @ X.T
        return weighted_slope(data.loss.name, z, offset, data.target[rows], weights, shape)
    z = xp.reshape(margins(X, coef, offset, xp), (*shape, X.shape[0]))
    slope = data.loss.slope(z, data.target[rows], xp)
    if weights is None:
        return xp.reshape(slope, (-1, X.shape[0]))
    if is_numpy(slope):
        slope *= weights
    else:
        slope = slope * xp.astype(weights, slope.dtype, copy=False)
    return xp.reshape(slope, (-1, X.shape[0]))


def _add_products(total, slope, X, xp):
    """Add products of a block to float64 sums; within a block they are of the dtype of X."""
    total[:, :-1] += slope @ X
    total[:, -1] += along_rows(xp.sum, slope, xp)


def _sum_over_rows(data, n_models, shape, add):
    """Float64 sums of `shape` that `add(total, rows)` fills, in threads on a CPU.

    When memory runs out, everything is started again with smaller blocks.
    """
    while True:
        try:
            return _sum_once(data, n_models, shape, add)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            data = data.with_smaller_blocks(n_models, error)


def _sum_once(data, n_models, shape, add):
    like = data.target
    xp = data.place.xp

    def run(rows):
        total = zeros(shape, like=like, xp=xp)
        with quiet():
            for block in data.blocks(n_models, rows):
                add(total, block)
        return total

    if data.threads == 1 or data.n_rows * shape[0] * shape[1] < THREADED_FROM_PRODUCTS:
        return run(slice(0, data.n_rows))
    ends = np.linspace(0, data.n_rows, RUNS + 1).astype(int).tolist()
    total = zeros(shape, like=like, xp=xp)
    for part in ordered_map(run, [slice(a, b) for a, b in pairwise(ends)], data.threads):
        total += part
    return total
