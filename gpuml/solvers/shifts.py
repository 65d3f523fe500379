"""Shifts of sums of squares: points near the means of atoms, from some of their rows."""

from typing import Any

import numpy as np

from gpuml._arrays import Array, is_numpy, move, namespace
from gpuml._arrays.ops import column_sums, constant
from gpuml.data import Batch, Rows, atoms_here, count_rows, every, row_indices, take
from gpuml.solvers import _few_rows
from gpuml.solvers._blocks import quiet
from gpuml.solvers._gpu_grams import GpuRows

# So many evenly spaced rows, fewer of many columns, determine the shifts of all atoms, and at least
# so many each atom's. A shift need only be near the mean.
SHIFT_ROWS, SHIFT_NUMBERS = 1024, 2**13
FEWEST_SHIFT_ROWS = 64


def mean_shift(weights: Array, shifts: Array, xp: Any) -> Array:
    """Means (S, q - 1) of the shifts (A, q - 1) of atoms, by their weights (S, A) in each sum."""
    total = xp.sum(weights, axis=1)[:, None]
    return (weights / xp.where(total > 0, total, xp.ones_like(total))) @ shifts


def atom_shifts(batch: Batch, atoms: tuple[Rows, ...], *, or_zero: bool = False) -> Array:
    """Mean of some evenly spaced rows of [X, y] of each atom, (A, p + t) float64, at `work`.

    With `or_zero`, of NumPy rows without weights: 0 where an atom's features, or targets, vary by
    more than their means. Sums of squares about 0 are at most twice those about the mean there.
    """
    sums, p = batch.total(_sampled_sums, atoms, or_zero), batch.n_features
    n, xp, weight = p + batch.y.shape[1], namespace(sums), sums[:, -1:]
    with quiet():
        shifts = sums[:, :n] / xp.where(weight > 0, weight, xp.ones_like(weight))
        if or_zero:
            # The mean square is the variance and the square of the mean.
            small = 2.0 * weight * shifts**2 <= sums[:, n:-1]
            for some in (slice(0, p), slice(p, n)):
                shifts[small[:, some].all(axis=1), some] = 0.0
    return shifts


def _sampled_sums(folds, atoms, squares):
    """Sums (A, q) of ``w [X, y, 1]`` over the rows of each atom, as some of them have it.

    With `squares`, of NumPy rows without weights, those of ``[X, y]^2`` too, before the last one.
    """
    batch, atoms = folds.batch, atoms_here(folds, atoms)
    on_gpu = GpuRows(batch.X, batch.y, batch.weight, batch.work)
    by_kernels = type(batch) is Batch and on_gpu.can_be_read
    if not by_kernels and _few_rows.are_few(batch, atoms):
        with quiet():
            return _few_rows.sums(batch, atoms)
    xp, w = namespace(batch.X), batch.weight
    n_some = min(SHIFT_ROWS, SHIFT_NUMBERS // (batch.n_features + batch.y.shape[1]))
    size = max(FEWEST_SHIFT_ROWS, n_some // len(atoms))
    steps = [max(1, count_rows(atom) // size) for atom in atoms]
    some = [every(atom, step) for atom, step in zip(atoms, steps, strict=True)]
    if by_kernels:
        return on_gpu.sums(some, steps)
    with quiet():
        if is_numpy(batch.X) and w is None:
            total = _sums_of_each(batch, [row_indices(rows) for rows in some], squares)
            return move(np.asarray(steps)[:, None] * total, batch.work)
        sums = []
        for rows in some:
            X, y = batch.rows(take(batch.X, rows, xp)), take(batch.y, rows, xp)
            if w is None:
                n_rows = constant([X.shape[0]], like=X, xp=xp)
                sums.append(xp.concat([column_sums(X, xp), column_sums(y, xp), n_rows]))
            else:
                # Rows of weight 0 may hold anything, and the shift must not follow them.
                own = xp.astype(take(w, rows, xp), xp.float64)
                parts = [own @ xp.astype(a, xp.float64, copy=False) for a in (X, y)]
                sums.append(xp.concat([*parts, xp.sum(own)[None]]))
        total = xp.stack(sums)
        return move(constant(steps, like=total, xp=xp)[:, None] * total, batch.work)


def _sums_of_each(batch, rows, squares):
    """Sums of ``[X, y, 1]``, and of squares, over some sets of rows, which are read together."""
    sizes = np.asarray([len(own) for own in rows])
    starts, some = (np.cumsum(sizes) - sizes)[sizes > 0], np.concatenate(rows)
    # `take` would copy all rows that are in another order.
    values = [batch.rows(batch.X[some, ...]), batch.y[some, :]]
    values += [a * a for a in values] if squares else []
    sums = [np.add.reduceat(a, starts, axis=0, dtype=np.float64) for a in values]
    total = np.zeros((len(rows), sum(a.shape[1] for a in sums) + 1))
    total[sizes > 0, :-1], total[:, -1] = np.concatenate(sums, axis=1), sizes
    return total


def shifts_of_sums(batch: Batch, atoms: tuple[Rows, ...], single: bool = False) -> Array:
    """The shifts (A, q - 1) about which products are summed; those of float32 sums are float32.

    NumPy rows whose features have the shift 0 are multiplied as they are, without a copy.
    """
    is_plain = type(batch) is Batch and batch.work.is_host and batch.weight is None
    or_zero = is_plain and is_numpy(batch.X) and (single or batch.X.dtype == np.float64)
    shifts = atom_shifts(batch, atoms, or_zero=or_zero)
    return shifts.astype(np.float32).astype(np.float64) if single else shifts
