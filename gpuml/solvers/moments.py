"""Weighted second moments of rows: everything that least squares needs to know about them.

For rows z = [x - c, y - d, 1] with a fixed shift (c, d), the matrix ``M = sum_i w_i z_i z_i'`` is
summed in float64 over blocks of rows. Such sums add: moments of a training part are the sum of the
moments of its atoms, and moments of rows on several devices are the sum of theirs. The shift, close
to the mean, keeps the later removal of the mean from cancelling digits [1]_. Each atom has its own
shift, so that what a training part comes to depends on its own rows alone: a wild value in a row
that it holds out would move a shift that all share, and cost digits of every row.

References
----------
.. [1] T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance:
   analysis and recommendations", The American Statistician 37 (1983).
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, device_of, is_numpy, move, namespace
from gpuml._arrays.grams import (
    add_gram,
    add_gram_apart,
    add_gram_of_rows,
    add_single_gram,
    design,
    full_symmetric,
)
from gpuml._arrays.ops import CACHE_BYTES, EPS, constant, zeros
from gpuml.data import Batch, Rows, atoms_here, count_rows, cut, take
from gpuml.designs import Columns, Dense
from gpuml.solvers import _few_rows
from gpuml.solvers._blocks import Blocks, quiet, sum_blocks
from gpuml.solvers._gpu_grams import GpuRows
from gpuml.solvers.numbered_rows import NumberedBatch
from gpuml.solvers.shifts import mean_shift, shifts_of_sums

# Smaller sums of squares have lost digits to underflow, or are zero.
LEAST_SQUARE = 1e-290


@dataclass(frozen=True)
class Moments:
    """Second moments (..., q, q) of ``[X - c, y - d, 1]``, q = p + t + 1, and the shift (c, d).

    Each has its own shift (..., q - 1), or one (q - 1,) is common to all. Of images of rows,
    `noise` (..., q - 1) is the part of sums of squares about the mean that is rounding of the rows.
    """

    gram: Array
    shift: Array
    n_features: int
    noise: Array | None = None

    def to(self, place: Place) -> "Moments":
        """The same moments at a place."""
        gram, shift, noise = (move(a, place) for a in (self.gram, self.shift, self.noise))
        return replace(self, gram=gram, shift=shift, noise=noise)

    def of_features(self, features: np.ndarray) -> "Moments":
        """Those of some features (k,) and all targets, of moments in CPU memory without noise."""
        kept = np.concatenate([features, np.arange(self.n_features, self.gram.shape[-1])])
        gram = self.gram[..., kept[:, None], kept]
        return Moments(gram, self.shift[..., kept[:-1]], len(features))

    def combine(self, counts: np.ndarray) -> "Moments":
        """Sums of atoms: (S, A) counts and gram (A, q, q) give gram (S, q, q).

        Where atoms have shifts of their own, that of a sum is their weighted mean.
        """
        if len(counts) == self.gram.shape[0] and self.shift.ndim == 2 and _are_atoms(counts):
            return self
        xp = namespace(self.gram)
        n_atoms, q = self.gram.shape[:2]
        counts = constant(counts, like=self.gram, xp=xp)
        flat = counts @ xp.reshape(self.gram, (n_atoms, q * q))
        total = replace(self, gram=xp.reshape(flat, (counts.shape[0], q, q)))
        if self.shift.ndim == 1:
            return total
        if n_atoms == 1:
            return replace(total, shift=xp.broadcast_to(self.shift, (counts.shape[0], q - 1)))
        shift = mean_shift(counts * self.gram[:, -1, -1], self.shift, xp)
        # With e = c_a - c, z becomes z + [e, 0], so that M_a grows by u [e, 0]' + [e, 0] u', where
        # u is the last column of M_a, which are sums of z, and w [e, 0] / 2. As many sums at once
        # as stay in the cache of a CPU, and only the rows and columns whose shifts differ.
        gram, n_sums = total.gram, counts.shape[0]
        moved: Any = slice(0, q)
        if is_numpy(gram):
            differ = (self.shift != self.shift[0]).any(axis=0)
            if not differ.all():
                shift[:, ~differ] = self.shift[0, ~differ]
                n_sums = n_sums if differ.any() else 0
            moved = moved if 2 * np.count_nonzero(differ) > q else np.flatnonzero(differ)
        own, mean = (xp.concat([a, xp.zeros_like(a[:, :1])], axis=1) for a in (self.shift, shift))
        step = max(1, CACHE_BYTES // (16 * n_atoms * q)) if is_numpy(gram) else n_sums
        for some in cut(slice(0, n_sums), step):
            apart = own[None, :, moved] - mean[some, None, moved]  # (S, A, m)
            sums = counts[some, :, None] * self.gram[None, :, :, -1]  # (S, A, q)
            weights = 0.5 * counts[some, :] * self.gram[None, :, -1, -1]
            sums[:, :, moved] += weights[:, :, None] * apart
            grown = xp.matrix_transpose(sums) @ apart  # (S, q, m)
            gram[some, :, moved] += grown
            gram[some, moved, :] += xp.matrix_transpose(grown)
        return replace(total, shift=shift)


@dataclass(frozen=True)
class Normal:
    """Normal equations of least squares with leading axes (...).

    ``xx = sum w (x - mx)(x - mx)'`` (..., p, p), ``xy = sum w (x - mx)(y - my)'`` (..., p, t), and
    the means `x_mean` (..., p), `y_mean` (..., t), zero where no intercept is fitted.
    `noise` (..., p) is the part of the diagonal of xx that rounding alone can have made.
    """

    xx: Array
    xy: Array
    x_mean: Array
    y_mean: Array
    noise: Array


def _are_atoms(counts):
    """Whether sums are of one atom each, in order: held-out parts, or all rows of a fit."""
    return bool((counts == np.eye(len(counts))).all())


def atom_moments(
    batch: Batch,
    atoms: tuple[Rows, ...],
    *,
    block_bytes: int | None = None,
    advance: Callable[[int], None] | None = None,
    single: bool = False,
    lengths: bool = False,
) -> Moments:
    """Moments of each atom of rows, in one pass.

    Parameters
    ----------
    batch : Batch
        They may lie elsewhere than ``batch.work``: blocks are then moved there one by one, and
        the whole never has to fit.
        Those of sparse rows are about zero: a shift would make the rows dense.
    atoms : tuple of A sets of rows
    block_bytes : int, optional
        Bound on the float64 workspace of a block.
    advance : callable, optional
        Called with the number of rows done since the last call.
    single : bool, default=False
        Whether products within blocks of rows are float32. Sums of blocks are not. Of NumPy rows
        without weights.
    lengths : bool, default=False
        Whether the last target is ``|x - c|^2`` with the atom's own shift, in addition to those
        there are: for `fourth_powers`. Of dense rows.

    Returns
    -------
    Moments
        With gram of shape (A, q, q).
    """
    if isinstance(batch, NumberedBatch) and not batch.is_divided:
        return _numbered_moments(batch, atoms, advance)
    # How far others are with their shards is not known here.
    advance = None if batch.is_divided else advance
    if batch.is_divided and not lengths:
        return batch.total(_own_moments, atoms, block_bytes, combine=_merged)
    shifts = shifts_of_sums(batch, atoms, single)
    if lengths:
        xp = namespace(shifts)
        shifts = xp.concat([shifts, xp.zeros_like(shifts[:, :1])], axis=1)
    gram = batch.total(_grams, atoms, shifts, block_bytes, advance, single, lengths)
    return Moments(gram, shifts, batch.n_features)


def _own_moments(folds, atoms, block_bytes):
    """Moments of a shard's atoms with their own shifts, which need no earlier pass."""
    atoms = atoms_here(folds, atoms)
    if isinstance(folds.batch, NumberedBatch):
        return _numbered_moments(folds.batch, atoms, None)
    shifts = shifts_of_sums(folds.batch, atoms)
    gram = _grams(folds, atoms, shifts, block_bytes, None, False, False)
    return Moments(gram, shifts, folds.batch.n_features)


def _merged(one, two):
    """Moments of the rows of both, atom by atom, about the mean of their shifts [1]_."""
    xp = namespace(one.gram)
    weights = xp.stack([one.gram[:, -1, -1], two.gram[:, -1, -1]])  # (2, A)
    total = xp.sum(weights, axis=0)
    part = weights / xp.where(total > 0, total, xp.ones_like(total))
    shift = part[0, :, None] * one.shift + part[1, :, None] * two.shift
    return replace(one, gram=_about(one, shift, xp) + _about(two, shift, xp), shift=shift)


def _about(moments, shift, xp):
    """Second moments (A, q, q) about other shifts (A, q - 1).

    With e = c - d, z becomes z + [e, 0], and M becomes ``M + u [e, 0]' + [e, 0] u'``, where u is
    the last column of M, which are sums of z, and half its weight times [e, 0].
    """
    away = moments.shift - shift
    away = xp.concat([away, xp.zeros_like(away[:, :1])], axis=1)
    sums = moments.gram[:, :, -1] + 0.5 * moments.gram[:, -1, -1][:, None] * away
    outer = sums[:, :, None] * away[:, None, :]
    return moments.gram + outer + xp.matrix_transpose(outer)


def _grams(folds, atoms, shifts, block_bytes, advance, single, lengths):
    """Second moments (A, q, q) of atoms, each about its shift (A, q - 1)."""
    batch, atoms = folds.batch, atoms_here(folds, atoms)
    shifts = move(shifts, batch.work)
    q, apart = shifts.shape[1] + 1, batch.targets_apart and not lengths
    n_copied = batch.n_features + 1 if apart else None
    blocks = Blocks(batch, q, block_bytes=block_bytes, advance=advance, n_copied=n_copied)
    rows = GpuRows(batch.X, batch.y, batch.weight, batch.work)
    if not lengths and type(batch) is Batch and rows.can_be_read:
        found = rows.grams(atoms, shifts, block_bytes)
        if found is not None:
            blocks.done(sum(count_rows(atom) for atom in atoms))
            return found
    if not lengths and _few_rows.are_few(batch, atoms, block_bytes):
        blocks.done(sum(count_rows(atom) for atom in atoms))
        with quiet():
            return _few_rows.grams(batch, atoms, shifts)

    xp = batch.work.xp
    as_they_are = [False] * len(atoms)
    if is_numpy(shifts) and batch.weight is None and not lengths:
        as_they_are = (~shifts[:, : batch.n_features].any(axis=1)).tolist()

    def add(total, atom, X, y, weight):
        shift = shifts[atom, :]
        if apart:
            return add_gram_apart(total, X, y, weight, shift, xp)
        if as_they_are[atom] and (single or X.dtype == np.float64):
            return add_gram_of_rows(total, X, y, shift)
        if single:
            return add_single_gram(total, X, y, shift)
        y = _with_lengths(X, y, shift) if lengths else y
        rows = GpuRows(X, y, weight, batch.work)
        found = None
        if rows.can_be_read:
            found = rows.grams((slice(0, X.shape[0]),), shift[None, :], block_bytes)
        if found is not None:
            return total + found[0, :, :]
        return add_gram(total, design(X, y, weight, shift, xp))

    def start():
        return zeros((q, q), like=shifts, xp=xp)

    grams = sum_blocks(blocks, atoms, start, add, operator.add)
    return full_symmetric(xp.stack(grams), xp)


def _with_lengths(X, y, shift):
    """Targets, and squared distances of rows from the shift."""
    xp, p = namespace(X), X.shape[1]
    away = xp.astype(X, xp.float64) - shift[:p]
    squares = xp.vecdot(away, away, axis=-1)
    return xp.concat([xp.astype(y, xp.float64), squares[:, None]], axis=1)


def without_lengths(moments: Moments) -> Moments:
    """The moments of the other columns."""
    xp = namespace(moments.gram)
    n = moments.shift.shape[-1] - 1
    rows = xp.concat([moments.gram[..., :n, :], moments.gram[..., -1:, :]], axis=-2)
    gram = xp.concat([rows[..., :n], rows[..., -1:]], axis=-1)
    return replace(moments, gram=gram, shift=moments.shift[..., :n])


def fourth_powers(lengths: Moments, counts: np.ndarray, location: Array) -> Array:
    """Sums (S,) of ``|x - l|^4`` over parts (S, A) of atoms whose moments have lengths.

    With z = x - c and e = c - l of an atom, ``|x - l|^2 = |z|^2 + 2 e'z + |e|^2`` is a linear
    function u of ``[z, |z|^2, 1]``, and the sum of its squares is ``u' M u``.
    """
    xp, p = namespace(lengths.gram), lengths.n_features
    away = lengths.shift[None, :, :p] - location[:, None, :]  # (S, A, p)
    one = xp.ones_like(away[..., :1])
    zero = xp.zeros(
        (*away.shape[:2], lengths.gram.shape[-1] - p - 2), dtype=one.dtype, device=device_of(one)
    )
    square = xp.sum(away**2, axis=-1)[..., None]
    u = xp.concat([2.0 * away, zero, one, square], axis=-1)  # (S, A, q)
    image = xp.permute_dims(xp.permute_dims(u, (1, 0, 2)) @ lengths.gram, (1, 0, 2))
    counts = constant(counts, like=u, xp=xp)
    return xp.sum(counts * xp.sum(image * u, axis=-1), axis=1)


def _numbered_moments(batch, atoms, advance):
    xp, p = batch.work.xp, batch.n_features
    shifts, grams = batch.shifts(atoms), []
    q = p + batch.y.shape[1] + 1
    for a, atom in enumerate(atoms):
        shift = shifts if shifts.ndim == 1 else shifts[a, :]
        total = zeros((q, q), like=batch.y, xp=xp)
        for rows in cut(atom, batch.rows_at_once):
            y = xp.astype(take(batch.y, rows, xp), xp.float64, copy=False) - shift[p:]
            rest = xp.concat(
                [y, xp.ones((y.shape[0], 1), dtype=y.dtype, device=device_of(y))], axis=1
            )
            weight = rest[:, -1] if batch.weight is None else take(batch.weight, rows, xp)
            X = batch.about(take(batch.X, rows, xp), shift[:p])
            total = total + Columns((X, Dense(rest, batch.work))).gram(weight[None, :])[0, ...]
            if advance is not None:
                advance(count_rows(rows))
        grams.append(total)
    return Moments(xp.stack(grams), shifts, p)


def cancelled(moments: Moments, normal: Normal, alphas: np.ndarray) -> Array:
    """By what (U, S) errors of solutions for each alpha grow where moments are about zero.

    Centring them cancels digits of features whose mean is far from zero, unless the penalty makes
    up for that.
    """
    xp = namespace(moments.gram)
    size = moments.gram[:, -1:, -1] * normal.x_mean**2
    left = xp.linalg.diagonal(normal.xx) + constant(alphas, like=size, xp=xp)[:, None, None]
    lost = xp.max(size / xp.where(left > 0, left, xp.ones_like(left)), axis=-1)
    return xp.where(lost > 1, lost, xp.ones_like(lost))


def normal_equations(moments: Moments, fit_intercept: bool) -> Normal:
    """Centre moments at their own mean, or move them to the origin where no intercept is fitted."""
    xp = namespace(moments.gram)
    gram, p = moments.gram, moments.n_features
    if fit_intercept:
        weight = gram[..., -1, -1]
        sums = gram[..., :-1, -1]
        means = sums / weight[..., None]
        centred = sums[..., :, None] * -means[..., None, :]
        centred += gram[..., :-1, :-1]
        mean = moments.shift + means
        noise = _noise(weight, sums[..., :p], means[..., :p], mean[..., :p])
    else:
        centred = to_origin(moments)[..., :-1, :-1]
        mean = xp.zeros_like(gram[..., 0, :-1])
        noise = xp.zeros_like(gram[..., 0, :p])
    if moments.noise is not None:
        noise = noise + moments.noise[..., :p]
    return Normal(
        xx=centred[..., :p, :p],
        xy=centred[..., :p, p:],
        x_mean=mean[..., :p],
        y_mean=mean[..., p:],
        noise=noise,
    )


def rounding(moments: Moments) -> Array:
    """Bounds (..., p) on what of the sums of squares about the mean is rounding.

    That is of rows, and of products with the moments.
    """
    xp = namespace(moments.gram)
    gram, p = moments.gram, moments.n_features
    weight, sums = gram[..., -1, -1], gram[..., :p, -1]
    means = sums / weight[..., None]
    noise = _noise(weight, sums, means, moments.shift[..., :p] + means)
    noise = noise + EPS * xp.abs(xp.linalg.diagonal(gram)[..., :p] - sums * means)
    return noise if moments.noise is None else noise + moments.noise[..., :p]


def _noise(weight, sums, means, mean):
    """Of a constant column: its values differ from their computed mean by rounding only."""
    return weight[..., None] * (8 * EPS * mean) ** 2 + 8 * EPS * sums * means


def squares_vanish(moments: Moments) -> bool:
    """Whether no feature has squares, about the shift, that float64 has numbers for.

    So it is for very small values, of which the rows themselves have to be asked; and if all
    features are constant.
    """
    xp = namespace(moments.gram)
    squares = xp.linalg.diagonal(moments.gram)[..., : moments.n_features]
    return bool(xp.max(squares) < LEAST_SQUARE)


def to_origin(moments: Moments) -> Array:
    """Second moments ``(..., q, q)`` of [X, y, 1] without the shift."""
    xp = namespace(moments.gram)
    q = moments.gram.shape[-1]
    move = xp.eye(q, dtype=xp.float64, device=moments.gram.device)
    # Row i of `move` gives unshifted variable i: z_i + shift_i * 1.
    column = xp.concat([moments.shift, xp.ones_like(moments.shift[..., :1])], axis=-1)[..., None]
    move = xp.broadcast_to(move[:, :-1], (*column.shape[:-2], q, q - 1))
    move = xp.concat([move, column], axis=-1)
    return move @ moments.gram @ xp.matrix_transpose(move)
