"""Hessians of many linear models, inverted: Newton steps, or a preconditioner for others.

The loss of a row has the Hessian ``c [x, 1][x, 1]'`` where it has one margin z = w . [x, 1]
and curvature c. Where it has k margins that are coupled, with curvatures c_j, they are
``(c_j [j = l] - c_j c_l) [x, 1][x, 1]'``.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, move, namespace, place_of
from gpuml._arrays.grams import add_gram, full_symmetric, own_products, subtract_gram
from gpuml._arrays.ops import all_finite, any_true, zeros
from gpuml._arrays.threads import ordered_map
from gpuml.data import cut, without_features
from gpuml.designs import Mapped
from gpuml.designs.base import SMALLEST_BLOCK_ROWS
from gpuml.penalties import Penalty
from gpuml.solvers import _block_hessians
from gpuml.solvers._alike import different
from gpuml.solvers._blocks import quiet
from gpuml.solvers._inverses import inverse_spd, same_for_all, scaled
from gpuml.solvers._kernels import penalised, unit_diagonals
from gpuml.solvers.loss_rows import THREADED_FROM_PRODUCTS, LossRows, gradients

# Keeps directions that neither rows nor penalty determine from blowing up.
RIDGE = 1e-10
# Means of columns, over their deviations, whose squares leave few digits to the deviations.
FAR = 1e5
# Workspace for weighted copies of rows.
CPU_COPY_BYTES = 2**22
GPU_COPY_BYTES = 2**29


@dataclass(frozen=True)
class Objective:
    """Mean loss plus penalty of a grid (C, S) of models.

    Attributes
    ----------
    data : LossRows
    total : array (S,)
        Sums of the weights.
    penalty : Penalty
        Of coefficients (C, S, k, q).

    The sums and penalties are where the models are, which need not be where rows are read.
    """

    data: LossRows
    total: Array
    penalty: Penalty

    def gradient(self, W: Array, *, begins: bool = False) -> Array:
        """Gradients (C, S, k, q) at models W, without the l1 part.

        Where models begin, several candidates may have the same: one is read for all of them then.
        """
        own, index = different(W) if begins and self.data.target.ndim == 1 else (W, None)
        sums = move(gradients(self.data, own), place_of(W))
        sums = sums if index is None else namespace(W).take(sums, index, axis=0)
        total, l2, used = self.total[:, None, None], self.penalty.l2, self.penalty.used
        if place_of(W).kind == "cupy":
            return penalised(sums, total, l2, W, used)
        return (sums / total + l2 * W) * used

    def select(self, candidates: np.ndarray) -> Self:
        """The problem of some candidates."""
        xp = namespace(self.total)
        index = xp.asarray(candidates, device=device_of(self.total))
        return replace(
            self,
            data=self.data.of(index),
            penalty=self.penalty.select(index, xp),
            **self._selected(index, xp),
        )

    def _selected(self, index, xp):
        """What else there is of each candidate, of some of them."""
        return {}


@dataclass(frozen=True)
class Inverse:
    """Inverse Hessians (C, S or 1, k q, k q), to multiply gradients with."""

    matrices: Array

    def __call__(self, G: Array) -> Array:
        """Products with gradients (C, S, k, q)."""
        xp = namespace(G)
        flat = xp.reshape(G, (*G.shape[:2], -1))
        if self.matrices.shape[1] == G.shape[1]:
            return xp.reshape((self.matrices @ flat[..., None])[..., 0], G.shape)
        return xp.reshape(flat @ self.matrices[:, 0, ...], G.shape)

    def select(self, index: Array) -> "Inverse":
        """Some of the candidates."""
        return Inverse(namespace(index).take(self.matrices, index, axis=0))


def check_squares(sums: Array, xp: Any) -> None:
    """Raise OverflowError if sums of squares of X are not finite: models would stay at their start.

    Those of splits too that do not train on the rows in question, as Hessians are shared.
    """
    if not all_finite(sums, xp):
        raise OverflowError(
            "Squares of the values of X overflow float64. Scale the features (StandardScaler, or "
            "divide by a power of ten)."
        )


def mean_targets(data: LossRows) -> Array:
    """The mean target (S,) of the rows in the training part of each split."""
    return data.total(_sums_of_target) / data.total_weights


@without_features
def _sums_of_target(sample):
    xp = sample.place.xp
    target = xp.astype(sample.target, xp.float64)
    if sample.weights is None:
        return xp.sum(target)[None]
    return xp.astype(sample.weights, xp.float64) @ target


def inverse_curvature(
    data: LossRows, W: Array, penalty: Penalty, total: Array, *, shared: bool
) -> Inverse:
    """Inverse Hessians of (sum of weighted losses) / total + penalty.

    Parameters
    ----------
    data : LossRows
        All rows, or a sample of them.
    W : array (C, S, k, q)
        Where to take derivatives.
    penalty : Penalty
        Of coefficients (C, S, k, q), without an l1 part.
    total : array (S,)
        Sums of the weights of `data`.
    shared : bool
        Whether the splits of a candidate share one matrix, at the mean of their W and weights.
    """
    if shared:
        l2 = namespace(penalty.l2).mean(penalty.l2, axis=1, keepdims=True)
        penalty = replace(penalty, l2=l2)
    k, q = W.shape[-2:]
    # No name refers to the Hessians, so that their memory is free before there are inverses.
    return Inverse(inverted(_of_each(data, W, total, shared), penalty, k, q, data))


def _of_each(data, W, total, shared):
    """Hessians of all candidates; those of equal ones are summed once."""
    own, index = different(W) if data.target.ndim == 1 else (W, None)
    H = mean_second_derivatives(data, own, total, shared=shared)
    return H if index is None else namespace(H).take(H, move(index, place_of(H)), axis=0)


def mean_second_derivatives(data: LossRows, W: Array, total: Array, *, shared: bool) -> Array:
    """Hessians of (sum of weighted losses) / total, (C, S or 1, k q, k q).

    Parameters are those of `inverse_curvature`.
    """
    with quiet():
        H = data.total(_mean_second_derivatives, W, total, shared)
    check_squares(H, data.place.xp)
    return H


def _mean_second_derivatives(data, W, total, shared):
    W, total = move(W, data.place), move(total, data.place)
    xp, design = data.place.xp, data.design
    images = design.by_split(data.n_splits if shared else 1)
    if images:
        return _split_by_split(data, images, W, xp) / total[None, :, None, None]
    W = design.to_stored(W)
    if shared and W.shape[1] > 1:
        mean = xp.mean(xp.astype(data.weights, xp.float64) / total[:, None], axis=0)
        data = replace(data, weights=mean[None, :])
        W = xp.mean(W, axis=1, keepdims=True)
        total = xp.ones_like(total[:1])
    H = second_derivatives(replace(data, design=design.stored), W)
    shift = _far_means(H[0, 0, ...], design.stored, xp) if isinstance(design, Mapped) else None
    if shift is not None:
        design = replace(design, maps=design.maps_about(shift))
        H = second_derivatives(replace(data, design=design.stored), W, shift)
    if is_numpy(H):
        H /= total[None, :, None, None]  # without a copy of all of them
    else:
        H = H / total[None, :, None, None]
    return design.hessians_from_stored(H)


def _far_means(H, design, xp):
    """Means (p,) of columns of numbers whose means are far from 0, as a Hessian shows; 0 elsewhere.

    None if there are none.
    """
    p = design.shape[1]
    level = xp.where(H[p, p] > 0, H[p, p], xp.ones_like(H[p, p]))  # a shard may have no weight
    mean = H[:p, p] / level
    far = are_far(mean, xp.linalg.diagonal(H)[:p] / level)
    if not any_true(far, xp):
        return None
    _, shift = design.sample(slice(0, 0)).less(xp.where(far, mean, xp.zeros_like(mean)))
    return shift if any_true(shift != 0, xp) else None


def are_far(means: Array, squares: Array) -> Array:
    """Whether means are far from 0 beside deviations, from means of values and of their squares.

    Sums of squares of such columns have no accurate digits for what scalers leave of them.
    """
    return squares - means**2 < squares / FAR**2


def _split_by_split(data, images, W, xp):
    """Hessians (C, S, k q', k q') of models of the images of each split."""
    found = []
    for s, design in enumerate(images):
        weights = None if data.weights is None else data.weights[s : s + 1, :]
        own = replace(data, weights=weights, design=design)
        found.append(second_derivatives(own, W[:, s : s + 1, ...]))
    return found[0] if len(found) == 1 else xp.concat(found, axis=1)


def second_derivatives(data: LossRows, W: Array, shift: Array | None = None) -> Array:
    """Sums over rows of weight x Hessian of the loss, (C, S, k q, k q) float64.

    They are those of models of rows less a shift (p,), which is 0 except for numbers.
    """
    xp = data.place.xp
    if shift is not None:
        W = xp.concat([W[..., :-1], W[..., -1:] + W[..., :-1] @ shift[:, None]], axis=-1)
    if data.design.has_fast_gram:
        return _block_hessians.hessians(data, W, shift)
    n_candidates, n_splits, k, q = W.shape
    grid = (n_candidates, n_splits)
    A = xp.reshape(xp.permute_dims(W, (2, 0, 1, 3)), (-1, q))
    total = zeros((n_candidates * n_splits, k * q, k * q), like=data.target, xp=xp)
    for rows in _blocks(data, n_candidates * n_splits, k * q):
        X = data.design.block(rows).dense()
        X = X if shift is None else X - shift
        ones = xp.ones((X.shape[0], 1), dtype=xp.float64, device=device_of(X))
        X = xp.concat([X, ones], axis=1)
        z = xp.reshape(A @ X.T, (k, *grid, X.shape[0]))
        c = data.loss.curvature(z, data.target[..., rows], xp)  # (k, C, S, b)
        if data.weights is None:
            w = xp.ones_like(c[0, ...])
        else:
            weights = xp.astype(data.weights[:, rows], xp.float64)
            w = xp.broadcast_to(weights[None, ...], c.shape[1:])
        c, w = (xp.reshape(a, (*a.shape[: a.ndim - 3], -1, X.shape[0])) for a in (c, w))
        if is_numpy(X):
            add = _add_coupled if data.loss.coupled else _add_gram
            _add_each(total, w, c, X, add, data.threads)
        elif data.loss.coupled:
            total = total + _coupled(w, c, X, xp)
        else:
            total = total + grams(w * c[0, ...], X, xp)
    return xp.reshape(full_symmetric(total, xp), (*grid, k * q, k * q))


def _add_each(total, w, c, X, add, threads):
    """Add the Hessians of a block, on NumPy; one triangle of each matrix only."""

    def add_one(m):
        add(total[m], w[m], c[:, m], X)

    if threads == 1 or total.size * X.shape[0] < THREADED_FROM_PRODUCTS:
        for m in range(total.shape[0]):
            add_one(m)
    else:
        deque(ordered_map(add_one, range(total.shape[0]), threads), maxlen=0)


def _add_gram(total, w, c, X):
    """As `grams`, for one model."""
    add_gram(total, X * np.sqrt(w * c[0])[:, None])


def _add_coupled(total, w, c, X):
    """As `_coupled`, for one model with curvatures c (k, b)."""
    (k, n_rows), q = c.shape, X.shape[1]
    each = np.ascontiguousarray((np.sqrt(w) * c).T)  # so that U is in the order of its rows
    subtract_gram(total, (each[:, :, None] * X[:, None, :]).reshape(n_rows, k * q))
    for j in range(k):
        own = slice(j * q, (j + 1) * q)
        total[own, own] += own_products(X * np.sqrt(w * c[j])[:, None])


def _blocks(data, n_models, order):
    """Blocks of rows small enough for weighted copies as wide as a model's coefficients."""
    bound = CPU_COPY_BYTES if data.place.kind == "numpy" else GPU_COPY_BYTES
    columns = order + data.n_features + 2 * data.n_vectors * n_models
    size = max(SMALLEST_BLOCK_ROWS, bound // (8 * columns))
    return cut(slice(0, data.n_rows), size)


def grams(h, X, xp):
    """``X' diag(h_m) X`` for each row m of h (M, b)."""
    (n_models, n_rows), q = h.shape, X.shape[1]
    step = max(1, GPU_COPY_BYTES // (8 * n_rows * q))
    parts = []
    for m in range(0, n_models, step):
        some = h[m : min(m + step, n_models), :]
        # One product of matrices: CuPy copies the transposed ones of a batch.
        scaled = xp.reshape(X[:, None, :] * some.T[:, :, None], (n_rows, -1))
        parts.append(xp.reshape(scaled.T @ X, (-1, q, q)))
    return parts[0] if len(parts) == 1 else xp.concat(parts)


def _coupled(w, c, X, xp):
    """Hessians (M, k q, k q) where vectors are coupled: w (M, b), c (k, M, b)."""
    (k, n_models, _), q = c.shape, X.shape[1]
    out = []
    for m in range(n_models):
        root = xp.sqrt(w[m, :])
        U = xp.reshape((root * c[:, m, :]).T[:, :, None] * X[:, None, :], (X.shape[0], k * q))
        own = grams(w[m, :] * c[:, m, :], X, xp)  # (k, q, q)
        out.append(_block_diagonal(own, xp) - U.T @ U)
    return xp.stack(out)


def _block_diagonal(blocks, xp):
    k, q, _ = blocks.shape
    eye = xp.eye(k, dtype=blocks.dtype, device=device_of(blocks))
    spread = eye[:, None, :, None] * blocks[:, :, None, :]
    return xp.reshape(spread, (k * q, k * q))


def inverted(H: Array, penalty: Penalty, k: int, q: int, data: LossRows) -> Array:
    """Inverse of Hessians plus penalty; 0 for intercepts that are not fitted."""
    xp = data.place.xp
    eye = xp.eye(k * q, dtype=xp.float64, device=device_of(H))
    H, scale = unit_diagonal(H, penalty, (k, q), eye, coupled=data.loss.coupled)
    return scaled(inverse_spd(H, RIDGE, data.threads), scale)


def unit_diagonal(
    H: Array, penalty: Penalty, shape: tuple[int, int], eye: Array, *, coupled: bool
) -> tuple[Array, Array]:
    """Hessians (C, S, k q, k q) plus penalty, scaled to a unit diagonal, and the scale (C, S, k q).

    The scale is 0 for coordinates that are not used; their diagonal is 1 too. `shape` is (k, q),
    `eye` the unit matrix.
    """
    xp, (k, q) = namespace(H), shape
    used, l2 = (a[:, :, 0, :] for a in (penalty.used, penalty.l2))
    if k > 1:
        used, l2 = (xp.tile(a, (1, 1, k)) for a in (used, l2))
    if place_of(H).kind == "cupy":
        alike: Any = 0.0
        if coupled:
            alike = same_for_all(xp.linalg.diagonal(H) * used + l2, k, q, xp)
        return unit_diagonals(H, used, l2, RIDGE, eye, alike)
    diagonal = xp.linalg.diagonal(H) * used + l2
    known = diagonal > 0
    scale = used / xp.sqrt(xp.where(known, diagonal, xp.ones_like(diagonal)))
    more = l2 * scale**2 + xp.where(known, RIDGE, xp.ones_like(diagonal))
    if coupled:
        H = H + same_for_all(diagonal, k, q, xp)
    H = scaled(H, scale)
    if not is_numpy(H):
        return H + more[..., None] * eye, scale
    np.einsum("...jj->...j", H)[...] += more
    return H, scale
