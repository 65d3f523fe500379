"""Gradients and curvatures of many linear models from one reading of their common rows.

Models stand on a grid of candidates x splits, W of shape (C, S, k, q): k vectors of q = p + 1
numbers, the intercept last. All of them are rows of one matrix, so that margins and gradients of
all models are two matrix products per block of rows. A row that a split holds out weighs 0 there.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, is_numpy, is_out_of_memory, move, place_of
from gpuml._arrays.ops import along_rows, zeros
from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.data import Aligned, Holders, spaced
from gpuml.designs import Block, Dense, Design
from gpuml.losses import Loss
from gpuml.solvers._blocks import quiet
from gpuml.solvers._kernels import has_kernel, weighted_slope

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
    design : Design
        The rows.
    target : array (n,)
        As the loss wants it, at the place of the design.
    weights : array (S, n) or None
        Of the dtype of X or of small integers, at that place; None weighs every row 1 in one split.
    loss : Loss
    n_vectors : int
        k: coefficient vectors of one model.
    frame : array (S, p' + 1, p + 1) or None
        Vectors of models, times it, are vectors for the rows: models are of affine images of the
        rows that differ from split to split, and the images are never formed.
    advance : callable, optional
        Called with the number of rows read.
    threads : int
        Threads of our own on a CPU, where BLAS is kept to one (see `solvers.loss_models.solve`).
    first : int
        Number of the first row among all rows, where these are a piece of them.
    """

    design: Design
    target: Array
    weights: Array | None
    loss: Loss
    n_vectors: int
    frame: Array | None = None
    advance: Callable[[int], None] | None = None
    threads: int = 1
    first: int = 0

    @property
    def place(self) -> Place:
        """Where to compute."""
        return self.design.place

    @property
    def n_rows(self) -> int:
        return self.design.shape[0]

    @property
    def n_features(self) -> int:
        return self.design.shape[1]

    @property
    def n_splits(self) -> int:
        return 1 if self.weights is None else self.weights.shape[0]

    @property
    def itemsize(self) -> int:
        """Bytes of a number of X."""
        return self.design.itemsize

    @property
    def dtype(self) -> Any:
        """Float dtype of the rows in the library of `place`."""
        return self.design.dtype

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
        for block in self.design.blocks(1):
            own = xp.max(xp.abs(block.dense()), axis=1)[None, :]
            if self.weights is not None:
                own = xp.where(self.weights[:, block.rows] > 0, own, xp.zeros_like(own))
            largest = xp.maximum(largest, xp.max(own, axis=1))
        return largest

    def every(self, step: int) -> "LossRows":
        """One row in `step`, brought to `place` in float64."""
        rows = spaced(step // 2, step, self.first, self.n_rows)
        return replace(
            self,
            design=self.design.sample(rows),
            target=self.target[rows],
            weights=None if self.weights is None else self.weights[:, rows],
            advance=None,
            first=len(range(step // 2, self.first, step)),
        )

    def total(self, function: Callable[..., Array], *args: Any) -> Array:
        """``function(rows, *args)``, which is a sum over rows."""
        return function(self, *args)

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(rows, *args)``, whatever it is."""
        return function(self, *args)


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
        design=Dense(xp.concat(X), place),
        target=xp.concat(target),
        weights=xp.concat(weights, axis=1),
        loss=loss,
        n_vectors=n_vectors,
        frame=None if frame is None else move(frame, place),
    )


def _columns_of(data):
    """X, target and weights, which other pieces may need where this one has none."""
    weights = data.weights
    if weights is None:
        xp = data.place.xp
        weights = xp.ones((1, data.n_rows), dtype=xp.uint8, device=data.place.device)
    return data.design.block(slice(0, data.n_rows)).dense(), data.target, weights


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

    def add(total, block):
        slope = _weighted_slope(data, block, coef, offset, shape, xp)
        total[:, :-1] += block.products(slope)
        total[:, -1] += along_rows(xp.sum, slope, xp)
        if data.advance is not None:
            data.advance(block.rows.stop - block.rows.start)

    total = sum_over_rows(data, A.shape, add)
    return xp.permute_dims(xp.reshape(total, (*shape, q)), (1, 2, 0, 3))


def _weighted_slope(data, block, coef, offset, shape, xp):
    """Weight x slope (M, b) of a block, all models as rows."""
    rows = block.rows
    weights = None if data.weights is None else data.weights[:, rows]
    z, target = block.margins(coef), data.target[rows]
    if data.place.kind == "cupy" and has_kernel(data.loss):
        return weighted_slope(data.loss, z, offset, target, weights, shape)
    if is_numpy(z):
        z += offset
    else:
        z = z + offset
    slope = data.loss.slope(xp.reshape(z, (*shape, z.shape[-1])), target, xp)
    if weights is not None and is_numpy(slope):
        slope *= weights
    elif weights is not None:
        slope = slope * xp.astype(weights, slope.dtype, copy=False)
    return xp.reshape(slope, (-1, slope.shape[-1]))


def sum_over_rows(
    data: LossRows, shape: tuple[int, ...], add: Callable[[Array, Block], None]
) -> Array:
    """Float64 sums of a shape, which begins with as many as blocks are to have room for margins.

    ``add(total, block)`` fills them, in threads on a CPU. When memory runs out, everything is
    started again with smaller blocks.
    """
    design = data.design
    while True:
        try:
            return _sum_once(data, design, shape, add)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            design = design.with_smaller_blocks(shape[0], error)


def _sum_once(data, design, shape, add):
    like = data.target
    xp = data.place.xp

    def run(rows):
        total = zeros(shape, like=like, xp=xp)
        with quiet():
            for block in design.blocks(shape[0], rows):
                add(total, block)
        return total

    few = data.n_rows * math.prod(shape) < THREADED_FROM_PRODUCTS
    if data.threads == 1 or few or not design.side_by_side:
        return run(slice(0, data.n_rows))
    ends = np.linspace(0, data.n_rows, RUNS + 1).astype(int).tolist()
    total = zeros(shape, like=like, xp=xp)
    for part in ordered_map(run, [slice(a, b) for a, b in pairwise(ends)], data.threads):
        total += part
    return total
