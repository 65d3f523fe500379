"""Updates of second moments when rows are added and removed.

Sums over an atom add: they are those of the rows there were, less those that went, more those that
came. An atom of before may be a part of one of after.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from gpuml._arrays import namespace, place_of, to_host
from gpuml.data import Batch, Folds, Partition, Rows, row_indices
from gpuml.solvers.moments import Moments, atom_moments

# If sums of squares shrink by more, they have lost digits, and rows are read again. The comparison
# is with their largest size since the last reading, over any number of steps.
MOST_SHRUNK = 2.0**-10


def carried(before: Folds, after: Folds, kept: np.ndarray) -> dict[str, Any]:
    """The entries of ``after.known`` that follow from ``before.known`` and the changed rows.

    Parameters
    ----------
    before, after : Folds
        The same splits. Only rows that came or went are read.
    kept : int array
        The first rows of `after`: their numbers in `before`.

    Returns
    -------
    known : dict
        Nothing of rows that are divided, sparse or codes, where splits have become other runs of
        atoms, or where sums would lose digits.
    """
    old, new = before.batch, after.batch
    alike = type(old) is Batch and type(new) is Batch and not old.is_divided
    if not alike or "moments" not in before.known or not _are_same_columns(old, new):
        return {}
    if [p.first_split for p in before.partitions] != [p.first_split for p in after.partitions]:
        return {}
    found = []
    read = before.known["moments"]
    peaks = before.known.get("largest squares") or [_squares_about_mean(m.gram) for m in read]
    for one, other, moments, peak in zip(
        before.partitions, after.partitions, read, peaks, strict=True
    ):
        updated = _updated(before, after, one, other, kept, moments, peak)
        if updated is None:
            return {}
        found.append(updated)
    moments, peaks = zip(*found, strict=True)
    return {"moments": moments, "largest squares": peaks, "factors": {}}


def _are_same_columns(old, new):
    if (old.n_features, old.y.shape[1]) != (new.n_features, new.y.shape[1]):
        return False
    if old.labels is None or new.labels is None:
        return old.labels is new.labels
    return np.array_equal(old.labels, new.labels)


def _updated(before, after, one: Partition, other: Partition, kept, moments: Moments, peak):
    """Moments of the atoms of `other`, and the largest sums of squares that led to them."""
    n_old, n_new = before.batch.n_rows, after.batch.n_rows
    old_atoms, new_atoms = _atoms_of(one, n_old), _atoms_of(other, n_new)
    pairs = np.unique(np.stack([old_atoms[kept], new_atoms[: len(kept)]]), axis=1)
    pairs = pairs[:, pairs[0] >= 0]
    if (pairs[1] < 0).any() or len(np.unique(pairs[0])) < pairs.shape[1]:
        return None  # rows of an atom are treated in different ways now
    # Atoms without remaining rows are ignored.
    came = np.arange(n_new) >= len(kept)
    went = np.ones(n_old, dtype=bool)
    went[kept] = False
    went &= np.isin(old_atoms, pairs[0])
    becomes = np.full(len(one.atoms), -1)
    becomes[pairs[0]] = pairs[1]
    parts, counts = [moments], [_one_hot(becomes, len(other.atoms))]
    for folds, atoms, marks, sign, names in (
        (after, new_atoms, came, 1.0, np.arange(len(other.atoms))),
        (before, old_atoms, went, -1.0, becomes),
    ):
        numbers = np.unique(atoms[marks & (atoms >= 0)])
        if len(numbers):
            rows: tuple[Rows, ...] = tuple(np.flatnonzero(marks & (atoms == k)) for k in numbers)
            found = atom_moments(folds.batch, rows).to(place_of(moments.gram))
            parts.append(found)
            counts.append(sign * _one_hot(names[numbers], len(other.atoms)))
    xp = namespace(moments.gram)
    together = replace(
        moments,
        gram=xp.concat([part.gram for part in parts]),
        shift=xp.concat([part.shift for part in parts]),
    )
    total = together.combine(np.concatenate(counts, axis=1))
    squares = _squares_about_mean(total.gram)
    peak = np.maximum(_one_hot(becomes, len(squares)) @ peak, squares)
    return None if (squares < MOST_SHRUNK * peak).any() else (total, peak)


def _squares_about_mean(gram):
    """Sums of squares (A, q) of the columns of atoms about their means; the last is the weight."""
    gram = to_host(gram)
    squares, sums, weight = np.diagonal(gram, axis1=1, axis2=2), gram[:, :-1, -1], gram[:, -1:, -1]
    about_mean = squares[:, :-1] - sums**2 / np.where(weight > 0, weight, 1.0)
    return np.concatenate([np.maximum(about_mean, 0.0), weight], axis=1)


def _atoms_of(partition, n_rows):
    """The atom of each row; -1 of rows in none."""
    out = np.full(n_rows, -1)
    for number, atom in enumerate(partition.atoms):
        out[row_indices(atom)] = number
    return out


def _one_hot(rows, n_rows):
    """(n_rows, A): a 1 in the row of each column, if it has one."""
    return (np.arange(n_rows)[:, None] == rows[None, :]).astype(float)
