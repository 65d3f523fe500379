"""Sums over few rows on a device: those of all atoms in the same calls, not atom by atom."""

from itertools import pairwise

import numpy as np

from gpuml._arrays import Array, device_of, is_array, namespace, place_of
from gpuml.data import Batch, Rows, count_rows, row_indices, take

# Copies of the rows for all atoms, up to this size, take less time than a launch.
COPY_BYTES = 2**23


def are_few(batch: Batch, atoms: tuple[Rows, ...], block_bytes: int | None = None) -> bool:
    """Whether rows are so few that a copy of them for each atom costs less than calls for each."""
    if batch.work.is_host or len(atoms) == 1 or place_of(batch.X) != batch.work:
        return False
    q = batch.n_features + batch.y.shape[1] + 1
    size = 8 * len(atoms) * q * sum(count_rows(atom) for atom in atoms)
    return size <= min(COPY_BYTES, block_bytes or COPY_BYTES)


def sums(batch: Batch, atoms: tuple[Rows, ...]) -> Array:
    """Sums (A, q) of ``w [X, y, 1]`` over the rows of each atom."""
    Z, weight, whose = _rows_of(batch, atoms)
    return (whose if weight is None else whose * weight) @ Z


def grams(batch: Batch, atoms: tuple[Rows, ...], shifts: Array) -> Array:
    """Second moments (A, q, q) of the rows of each atom, about its shift (A, q - 1)."""
    Z, weight, whose = _rows_of(batch, atoms)
    xp, (n_rows, q) = namespace(Z), Z.shape
    shifts = xp.concat([shifts, xp.zeros_like(shifts[:, :1])], axis=1)
    Z = Z - whose.T @ shifts
    if weight is not None:
        Z = Z * xp.sqrt(weight)[:, None]
    # One product of matrices, (n, A q)' and (n, q): CuPy copies the transposed ones of a batch.
    own = xp.reshape(whose.T[:, :, None] * Z[:, None, :], (n_rows, -1))
    return xp.reshape(own.T @ Z, (len(atoms), q, q))


def _rows_of(batch, atoms):
    """Rows [X, y, 1] of all atoms (n, q), weights (n,) or None, and whose rows they are (A, n)."""
    xp = namespace(batch.X)
    rows = _joined(atoms, xp)

    def floats(a):
        return xp.astype(a, xp.float64, copy=False)

    def taken(a):
        return None if a is None else floats(take(a, rows, xp))

    whose = np.repeat(np.eye(len(atoms)), [count_rows(atom) for atom in atoms], axis=1)
    whose = xp.asarray(whose, device=device_of(batch.X))
    ones = xp.ones((whose.shape[1], 1), dtype=xp.float64, device=device_of(batch.X))
    X = floats(batch.rows(take(batch.X, rows, xp)))  # which X may only have the numbers of
    Z = xp.concat([X, taken(batch.y), ones], axis=1)
    return Z, taken(batch.weight), whose


def _joined(atoms, xp):
    """The rows of all atoms, one atom after the other."""
    if all(isinstance(atom, slice) for atom in atoms):
        if all(one.stop == other.start for one, other in pairwise(atoms)):
            return slice(atoms[0].start, atoms[-1].stop)
        return atoms
    if all(is_array(atom) for atom in atoms) and len({place_of(atom) for atom in atoms}) == 1:
        return namespace(*atoms).concat(atoms)
    return np.concatenate([row_indices(atom) for atom in atoms])
