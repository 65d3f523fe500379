"""Ridge regression through inner products of rows, for more features than rows.

With rows ``A = sqrt(w) (X - mean)`` and targets b, ``W' = A' d`` where ``(A A' + alpha I) d = b``.
The inner products of all rows about one shift are formed once; a split takes those of its rows, and
its mean is removed algebraically. That costs digits where the shift is far
from the mean of the split next to the spread of its rows, because of wild values that it holds out:
such a split gets inner products about a shift of its own.
"""

from dataclasses import dataclass

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, move, namespace, to_host
from gpuml._arrays.ops import constant
from gpuml.data import Batch
from gpuml.solvers._blocks import quiet

# How much larger than the variance of a feature the square of its distance from the shift may be:
# it takes so much of the precision of squares.
MOST_LOST = 1e3
# Squares of so many bytes of rows stay in a cache.
CACHE_BYTES = 2**19
# A variance of less than this share of that square is rounding.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Kernel:
    """Rows less a shift, X (n, p) and y (n, t), with ``K = X X'`` (n, n) and weights (n,).

    `at_mean` says whether the shift is the mean of all rows.
    """

    X: Array
    y: Array
    K: Array
    weight: Array | None
    shift: Array
    at_mean: bool


@dataclass(frozen=True)
class Dual:
    """Centred and weighted systems of each split: K (S, m, m), b (S, m, t), root weights (S, m).

    `rows` (S, m), in CPU memory, says which rows they are of: those that a split trains on, and a
    few of weight zero where another trains on more. None for all n rows in their order.
    """

    K: Array
    b: Array
    root: Array
    x_mean: Array
    y_mean: Array
    rows: np.ndarray | None


def row_kernel(batch: Batch, counts: np.ndarray | None = None, *, at_mean: bool = True) -> Kernel:
    """Inner products of all rows; X is taken to the place of work whole, for it has few rows.

    The shift is the mean of the rows, each as often as `counts` (n,) says, or zero.
    """
    place = batch.work
    xp = place.xp
    X, y = (xp.astype(move(a, place), xp.float64, copy=False) for a in (batch.X, batch.y))
    weight = batch.weight
    if weight is not None:
        weight = xp.astype(move(weight, place), xp.float64)
    times = xp.ones_like(X[:, 0]) if counts is None else constant(counts, like=X, xp=xp)
    times = times if weight is None else times * weight
    total = xp.sum(times)
    share = (times if at_mean else 0 * times) / xp.where(total > 0, total, xp.ones_like(total))
    with quiet():
        shift_x, shift_y = share @ X, share @ y
        X, y = X - shift_x, y - shift_y
        shift = xp.concat([shift_x, shift_y])
        return Kernel(X, y, X @ X.T, weight, shift, at_mean and counts is None)


def far_splits(kernel: Kernel, row_counts: np.ndarray, fit_intercept: bool) -> np.ndarray:
    """Splits (S,), bools on the host, next to whose training rows the shift is too far away."""
    if fit_intercept and kernel.at_mean and (row_counts == 1).all():
        return np.zeros(len(row_counts), dtype=bool)  # the shift is their mean
    xp = namespace(kernel.K)
    p = kernel.X.shape[1]
    weight = constant(row_counts, like=kernel.K, xp=xp)
    weight = weight if kernel.weight is None else weight * kernel.weight
    total = xp.sum(weight, axis=1)[:, None]
    share = weight / xp.where(total > 0, total, xp.ones_like(total))
    far = xp.zeros_like(total[:, 0], dtype=xp.bool)
    for values, shift in ((kernel.X, kernel.shift[:p]), (kernel.y, kernel.shift[p:])):
        mean, squares = _means(share, values, xp)
        if fit_intercept:
            distance, spread = mean**2, squares - mean**2
        else:
            distance, spread = shift**2 + 0 * mean, squares + (2 * mean + shift) * shift
        # Of features that are constant in a training part, or seem so that far away.
        most = xp.max(spread, axis=1, keepdims=True)
        spread = xp.where(spread > ROUNDING * distance, spread, most)
        far = far | xp.any(distance > MOST_LOST * spread, axis=1)
    return to_host(far)


def _means(share, values, xp):
    """Means (S, p) of values (n, p) and of their squares; NumPy squares what a cache holds."""
    n, p = values.shape
    step = max(1, CACHE_BYTES // (8 * n)) if is_numpy(values) else max(1, p)
    runs = [values[:, start : start + step] for start in range(0, max(1, p), step)]
    found = [(share @ run, share @ run**2) for run in runs]
    mean, squares = zip(*found, strict=True)
    return xp.concat(mean, axis=1), xp.concat(squares, axis=1)


def centred_kernel(kernel: Kernel, row_counts: np.ndarray, fit_intercept: bool) -> Dual:
    """The dual system of each split; row_counts (S, n) says how often each row is in training."""
    xp = namespace(kernel.K)
    p = kernel.X.shape[1]
    weight = constant(row_counts, like=kernel.K, xp=xp)
    if kernel.weight is not None:
        weight = weight * kernel.weight
    rows = _training_rows(row_counts)
    K, y, index = kernel.K[None, ...], kernel.y[None, ...], None
    if rows is not None:
        index = [xp.asarray(some, device=device_of(weight)) for some in rows]
        K = xp.stack([xp.take(xp.take(kernel.K, i, axis=0), i, axis=1) for i in index])
        y = xp.stack([xp.take(kernel.y, i, axis=0) for i in index])
    if fit_intercept:
        share = weight / xp.sum(weight, axis=1)[:, None]  # (S, n), sums to one
        x_mean, y_mean = share @ kernel.X, share @ kernel.y
        cross = share @ kernel.K  # (S, n): inner products with the mean
        square = xp.sum(cross * share, axis=1)
        cross = _taken(cross, index, xp)
        K = K - cross[:, :, None] - cross[:, None, :] + square[:, None, None]
        y = y - y_mean[:, None, :]
    else:
        # Without an intercept, remove the shift again: K of X + shift.
        along = _taken((kernel.X @ kernel.shift[:p])[None, :], index, xp)
        K = K + along[:, :, None] + along[:, None, :] + xp.sum(kernel.shift[:p] ** 2)
        y = y + kernel.shift[p:]
        x_mean = xp.zeros_like(weight[:, :1]) * kernel.shift[None, :p]
        y_mean = xp.zeros_like(weight[:, :1]) * kernel.shift[None, p:]
    weight = _taken(weight, index, xp)
    root = xp.sqrt(weight)
    if fit_intercept:
        x_mean, y_mean = x_mean + kernel.shift[:p], y_mean + kernel.shift[p:]
    return Dual(
        K=K * root[:, :, None] * root[:, None, :],
        b=y * root[:, :, None],
        root=root,
        x_mean=x_mean,
        y_mean=y_mean,
        rows=rows,
    )


def known_nulls(dual: Dual, fit_intercept: bool) -> np.ndarray:
    """How many eigenvalues (S,) of each system are 0: those of rows without weight, of the mean."""
    xp = namespace(dual.root)
    unread = xp.sum(xp.astype(dual.root == 0, xp.int64), axis=1)
    return to_host(unread) + int(fit_intercept)


def _training_rows(row_counts):
    """Rows (S, m) of each split, each filled up with some that it does not train on; or None."""
    used = row_counts > 0
    m = int(used.sum(axis=1).max())
    if m == row_counts.shape[1]:
        return None
    return np.sort(np.argsort(~used, axis=1, kind="stable")[:, :m], axis=1)


def _taken(values, index, xp):
    """Of values (S, n), or (1, n) of all splits, those at the rows of each split (S, m)."""
    if index is None:
        return values
    last = values.shape[0] - 1
    return xp.stack([xp.take(values[min(s, last), :], i, axis=0) for s, i in enumerate(index)])


def coefficients(kernel: Kernel, dual: Dual, solution: Array) -> Array:
    """Coefficients (U, S, t, p) of dual solutions (U, S, m, t)."""
    xp = namespace(kernel.K)
    n, p = kernel.X.shape
    U, S, _, t = solution.shape
    weighted = xp.matrix_transpose(solution * dual.root[None, :, :, None])  # (U, S, t, m)
    if dual.rows is not None:
        weighted = xp.stack(
            [_at_rows(weighted[:, s, ...], rows, n, xp) for s, rows in enumerate(dual.rows)], axis=1
        )
    flat = xp.reshape(weighted, (U * S * t, n))
    # With an intercept the shift and the mean drop out, since the weighted solution sums to zero;
    # subtracting that sum's part keeps this true after rounding.
    total = xp.sum(flat, axis=1)[:, None]
    mean = xp.reshape(
        xp.broadcast_to((dual.x_mean - kernel.shift[:p])[None, :, None, :], (U, S, t, p)),
        (U * S * t, p),
    )
    return xp.reshape(flat @ kernel.X - total * mean, (U, S, t, p))


def _at_rows(values, rows, n, xp):
    """Values (..., m) of some rows among zeros (..., n) of the others."""
    place = np.full(n, len(rows))
    place[rows] = np.arange(len(rows))
    with_zero = xp.concat([values, xp.zeros_like(values[..., :1])], axis=-1)
    return xp.take(with_zero, xp.asarray(place, device=device_of(values)), axis=-1)
