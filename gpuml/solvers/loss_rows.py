"""Gradients and curvatures of many linear models, from one pass over their common rows.

Models stand on a grid of candidates x splits, W of shape (C, S, k, q): k vectors of q = p + 1
numbers, the intercept last. All of them are rows of one matrix, so that margins and gradients of
all models are two matrix products per block of rows. A row that a split holds out weighs 0 there.
"""

import operator
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, is_numpy, is_out_of_memory, move, place_of
from gpuml._arrays.ops import along_rows, zeros
from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.data import Absent, Aligned, spaced, without_features
from gpuml.designs import Block, Dense, Design, Divided, Mapped
from gpuml.losses import Loss
from gpuml.solvers._blocks import quiet
from gpuml.solvers._kernels import add_sums, has_kernel, vectors_of, weighted_slope

# Boundaries of the runs of blocks that threads get follow the data alone, so that sums are the same
# to the last bit for any number of threads.
RUNS = 16
# Samples of divided rows up to this size are brought to one shard.
GATHER_BYTES = 2**26
THREADED_FROM_PRODUCTS = 2e7


@dataclass(frozen=True)
class LossRows(Aligned):
    """Rows with their targets and the weight of each row in each split.

    Attributes
    ----------
    design : Design
        The rows. Those of a `Divided` one are elsewhere: `target` and `weights` are `Absent` then,
        and its shards are `LossRows`.
    target : array (n,) or (C, 1, n)
        As the loss wants it, at the place of the design; (C, 1, n) where candidates have targets of
        their own.
    weights : array (S, n) or None
        Of the dtype of X or of small integers, at that place; None weighs every row 1 in one split.
    loss : Loss
    n_vectors : int
        k: coefficient vectors of one model.
    advance : callable, optional
        Called with the number of rows read.
    threads : int
        Threads of our own on a CPU, where BLAS is kept to one (see `solvers.loss_models.solve`).
    first : int
        Number of the first row among all rows, where these are a shard of them.
    """

    design: Design
    target: Any
    weights: Any
    loss: Loss
    n_vectors: int
    advance: Callable[[int], None] | None = None
    threads: int = 1
    first: int = 0

    @property
    def place(self) -> Place:
        """Where to compute, and where sums come to."""
        return self.design.place

    @property
    def n_rows(self) -> int:
        return self.design.shape[0]

    @property
    def n_features(self) -> int:
        """Columns that are read."""
        return self.design.stored.shape[1]

    @property
    def n_splits(self) -> int:
        return 1 if self.weights is None else self.weights.shape[0]

    def total(
        self,
        function: Callable[..., Array],
        *args: Any,
        combine: Callable[[Any, Any], Any] = operator.add,
    ) -> Array:
        """``function(rows, *args)``, which is a sum over rows, or something else to combine."""
        design = self.design.stored
        if isinstance(design, Divided):
            return design.shards.total(function, *args, combine=combine)
        return function(self, *args)

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(rows, *args)``: where the rows are if they are in one shard, else here."""
        design = self.design.stored
        if isinstance(design, Divided) and len(design.shards) == 1:
            return design.shards.each(_asked, function, *args)[0]
        return function(self, *args)

    def every(self, step: int) -> "LossRows":
        """One row in `step`, in float64: at `place`, or in one shard if they are few."""
        if isinstance(self.design.stored, Divided):
            return self._every_of_shards(self.design.stored, step)
        rows = spaced(step // 2, step, self.first, self.n_rows)
        return replace(
            self,
            design=self.design.sample(rows),
            target=self.target[..., rows],
            weights=None if self.weights is None else self.weights[:, rows],
            advance=None,
            first=len(range(step // 2, self.first, step)),
        )

    def _every_of_shards(self, design, step):
        n_rows = len(range(step // 2, self.n_rows, step))
        shards = design.shards.map(LossRows.every, step)
        if 8 * n_rows * self.n_features <= GATHER_BYTES:
            nowhere: Any = ()  # holders of shards know a client, which cannot be pickled
            like = replace(self, design=_read_from(self.design, replace(design, shards=nowhere)))
            shards = shards.gathered(_columns_of, partial(_joined, like=like))
        X = Absent((n_rows, self.n_features), np.dtype(float))
        weights = replace(self.weights, shape=(self.n_splits, n_rows))
        sample = replace(design, shards=shards, X=X)
        return replace(self, design=_read_from(self.design, sample), weights=weights)

    def of(self, candidates: Any) -> "LossRows":
        """The rows with the targets of some candidates, by a slice or their numbers."""
        if self.target.ndim == 1:
            return self
        if isinstance(candidates, slice):
            return replace(self, target=self.target[candidates, ...])
        index = move(candidates, place_of(self.target))
        return replace(self, target=self.place.xp.take(self.target, index, axis=0))

    @cached_property
    def total_weights(self) -> Array:
        """Sum of the weights of each split, (S,) float64: solvers and preconditioners need it."""
        return self.total(_total_weights)

    def largest_weights(self) -> Array:
        """The largest weight of a row in each split, (S,) float64."""
        return self.total(_largest_weights, combine=self.place.xp.maximum)

    def largest_values(self) -> Array:
        """The largest absolute value of X in the rows that a split gives weight, (S,) float64."""
        return self.total(_largest_values, combine=self.place.xp.maximum)


@without_features
def _total_weights(rows):
    xp = rows.place.xp
    if rows.weights is None:
        return xp.full((1,), float(rows.n_rows), dtype=xp.float64, device=rows.place.device)
    return along_rows(xp.sum, rows.weights, xp, dtype=xp.float64)


@without_features
def _largest_weights(rows):
    xp = rows.place.xp
    if rows.weights is None:
        return xp.ones((1,), dtype=xp.float64, device=rows.place.device)
    if rows.n_rows == 0:  # as a shard of a sample may be
        return zeros((rows.n_splits,), like=rows.weights, xp=xp)
    return xp.astype(along_rows(xp.max, rows.weights, xp), xp.float64)


def _largest_values(rows):
    xp = rows.place.xp
    like = rows.target if rows.weights is None else rows.weights
    largest = zeros((rows.n_splits,), like=like, xp=xp)
    for block in rows.design.stored.blocks(1):
        own = xp.max(xp.abs(block.dense()), axis=1)[None, :]
        if rows.weights is not None:
            own = xp.where(rows.weights[:, block.rows] > 0, own, xp.zeros_like(own))
        largest = xp.maximum(largest, xp.max(own, axis=1))
    return largest


def own_threads(place: Place) -> int:
    """Threads of our own for work at a place, where BLAS is to be kept to one."""
    return blas_threads() if place.kind == "numpy" and may_limit_blas() else 1


def _asked(rows, function, *args):
    """A function of the rows, in parallel threads where the rows are."""
    rows = replace(rows, threads=own_threads(rows.place))
    with one_blas_thread() if rows.place.kind == "numpy" else nullcontext():
        return function(rows, *args)


def _read_from(design, stored):
    """A design with other rows to read."""
    return replace(design, design=stored) if isinstance(design, Mapped) else stored


def _joined(columns, like):
    """Rows of the columns of several shards; all else is as of the rows of all shards."""
    X, target, weights = zip(*columns, strict=True)
    place = place_of(X[0])
    xp = place.xp
    design = _read_from(like.design, Dense(xp.concat(X), place))
    if isinstance(design, Mapped):
        design = replace(design, maps=move(design.maps, place))
    weights = xp.concat(weights, axis=1)
    return replace(like, design=design, target=xp.concat(target, axis=-1), weights=weights)


def _columns_of(data):
    """X, target and weights, because other shards may need weights if this one has none."""
    weights = data.weights
    if weights is None:
        xp = data.place.xp
        weights = xp.ones((1, data.n_rows), dtype=xp.uint8, device=data.place.device)
    return data.design.stored.block(slice(0, data.n_rows)).dense(), data.target, weights


def gradients(data: LossRows, W: Array) -> Array:
    """Sums over rows of weight x gradient of the loss, (C, S, k, q) float64, for models W."""
    return data.total(_gradients, W)


def _gradients(data, W):
    design, W = data.design, move(W, data.place)
    rows = data if design.stored is design else replace(data, design=design.stored)
    by_kernel = data.place.kind == "cupy" and has_kernel(data.loss)
    compute = _gradients_by_kernel if by_kernel else _row_gradients
    return design.from_stored(compute(rows, design.to_stored(W)))


def _gradients_by_kernel(data, W):
    """As `_row_gradients`, on CuPy, in four launches a block."""
    coef, offset = vectors_of(W, data.design.dtype)

    def add(total, block):
        weights = None if data.weights is None else data.weights[:, block.rows]
        z, target = block.margins(coef), data.target[..., block.rows]
        slope, sums = weighted_slope(data.loss, z, offset, target, weights, W.shape[:3])
        add_sums(total, block.products(slope), sums)
        if data.advance is not None:
            data.advance(block.rows.stop - block.rows.start)

    return sum_over_rows(data, (coef.shape[0], W.shape[-1]), add).reshape(W.shape)


def _row_gradients(data, W):
    xp = data.place.xp
    n_candidates, n_splits, k, q = W.shape
    A = xp.reshape(xp.permute_dims(W, (2, 0, 1, 3)), (-1, q))
    coef, offset = (xp.astype(a, data.design.dtype) for a in (A[:, :-1], A[:, -1:]))
    shape = (k, n_candidates, n_splits)
    some = _OfSplits(coef, offset, shape)

    def add(total, block):
        weights = None if data.weights is None else data.weights[:, block.rows]
        training = _training(data, weights)
        if training is None:
            slope = _weighted_slope(data, block, coef, offset, shape, weights, xp)
            # By views: `total[...] += x` would copy each sum to itself once more.
            coefs, levels = total[:, :-1], total[:, -1]
            coefs += block.products(slope)
            levels += along_rows(xp.sum, slope, xp)
        elif training.any():
            index, own_coef, own_offset = some.of(training)
            own = (k, n_candidates, int(training.sum()))
            own_weights: Any = weights
            own_weights = own_weights[training]
            slope = _weighted_slope(data, block, own_coef, own_offset, own, own_weights, xp)
            total[index, :-1] += block.products(slope)
            total[index, -1] += along_rows(xp.sum, slope, xp)
        if data.advance is not None:
            data.advance(block.rows.stop - block.rows.start)

    total = sum_over_rows(data, A.shape, add)
    if is_numpy(total):
        total = np.ascontiguousarray(total)
    return xp.permute_dims(xp.reshape(total, (*shape, q)), (1, 2, 0, 3))


@dataclass
class _OfSplits:
    """Vectors of all models (k C S, p); those of some splits are extracted once."""

    coef: np.ndarray
    offset: np.ndarray
    shape: tuple[int, int, int]
    known: dict[bytes, Any] = field(default_factory=dict)

    def of(self, splits):
        """Where the models of some splits are, and their vectors and levels."""
        key = splits.tobytes()
        if key not in self.known:
            index = np.flatnonzero(np.broadcast_to(splits, self.shape))
            self.known[key] = index, self.coef[index], self.offset[index]
        return self.known[key]


def _training(data, weights):
    """Which splits train on rows of a block; None for all, and where looking takes longer."""
    if weights is None or not is_numpy(weights) or weights.shape[0] == 1 or data.target.ndim > 1:
        return None
    training = weights.any(axis=1)
    return None if training.all() else training


def _weighted_slope(data, block, coef, offset, shape, weights, xp):
    """Weight x slope (M, b) of a block, all models as rows."""
    rows = block.rows
    z, target = block.margins(coef), data.target[..., rows]
    if is_numpy(z):
        z += offset
    else:
        z = z + offset
    slope = data.loss.slope(xp.reshape(z, (*shape, z.shape[-1])), target, xp)
    if weights is not None and is_numpy(slope):
        if weights.dtype.itemsize > 1 or not (weights == 1).all():  # masks: a product saved
            _weigh(slope, weights)
    elif weights is not None:
        slope = slope * xp.astype(weights, slope.dtype, copy=False)
    return xp.reshape(slope, (-1, slope.shape[-1]))


def _weigh(slope, weights):
    """Multiply slopes (k, C, S, b) by weights (S, b) in place."""
    if slope.strides[-1] == slope.itemsize or slope.size == 0:
        slope *= weights
        return
    # Row by row, as margins of sparse rows and of codes come: no loops of S numbers.
    by_row = slope.reshape(-1, slope.shape[-1]).T
    by_row *= np.tile(weights.T, (1, slope.shape[0] * slope.shape[1]))


def mean_losses(data: LossRows, W: Array) -> Array:
    """Weighted means (C, S), float64, of the losses of models W over the training parts."""
    return data.total(_sums_of_losses, W) / data.total_weights


def _sums_of_losses(data, W):
    xp, W = data.place.xp, data.design.to_stored(move(W, data.place))
    n_candidates, n_splits, k, q = W.shape
    A = xp.reshape(xp.permute_dims(W, (2, 0, 1, 3)), (-1, q))
    total = zeros((n_candidates, n_splits), like=data.target, xp=xp)
    for block in data.design.stored.blocks(A.shape[0]):
        z = block.in_float64().margins(A[:, :-1]) + A[:, -1:]
        z = xp.reshape(z, (k, n_candidates, n_splits, z.shape[-1]))
        losses = data.loss.value(z, data.target[..., block.rows], xp)
        if data.weights is not None:
            losses = losses * xp.astype(data.weights[:, block.rows], xp.float64)
        total = total + xp.sum(losses, axis=-1)
    return total


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
    def run(rows):
        total = design.zeros(shape)
        with quiet():
            for block in design.blocks(shape[0], rows):
                add(total, block)
        return total

    few = design.n_entries * shape[0] < THREADED_FROM_PRODUCTS
    n_runs = 1 if data.threads == 1 or few else design.n_runs(RUNS)
    if n_runs == 1:
        return run(slice(0, data.n_rows))
    ends = np.linspace(0, data.n_rows, n_runs + 1).astype(int).tolist()
    total = design.zeros(shape)
    for part in ordered_map(run, [slice(a, b) for a, b in pairwise(ends)], data.threads):
        total += part
    return total
