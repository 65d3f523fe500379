"""Splits of all rows become splits of every piece."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import place_of, to_host
from gpuml.data import (
    AnySplit,
    Batch,
    Elsewhere,
    FoldLabels,
    Folds,
    Partition,
    Rows,
    Split,
    count_rows,
    row_indices,
)
from gpuml.divided.splits import DealtSplit
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.split import dealt_folds, rows_by_class


def divided_folds(
    batch: Batch, sizes: Sequence[int], splits: Sequence[AnySplit | DealtSplit]
) -> Folds:
    """Divided rows with their splits; each piece becomes `Folds` of its own rows.

    Parameters
    ----------
    batch : Batch
        From `divided_batch`.
    sizes : sequence of ints
        Rows of each piece.
    splits : sequence of splits of all rows
        From `divided_splits`, or any that name rows by slices or indices.
    """
    holders = batch.holders
    if holders is None:
        raise ValueError("The rows of this batch are not divided.")
    partitions: tuple[Partition, ...]
    dealt = [split for split in splits if isinstance(split, DealtSplit)]
    if dealt:
        deal, held_out = dealt[0].deal, [split.fold for split in dealt]
        # Which rows a fold has, only the pieces know; how many it has is known here.
        partitions = (_hold_out(held_out, [slice(0, int(n)) for n in deal.counts]),)
        # Pieces need not be the shares whose labels were counted.
        counts = np.stack([to_host(each) for each in holders.each(_class_counts)])
        before = list(counts.cumsum(axis=0) - counts)
        holders = holders.map(_with_dealt_folds, deal.ends, held_out, each_with=before)
    else:
        plain = [split for split in splits if not isinstance(split, DealtSplit)]
        partitions = make_folds(batch, plain).partitions
        holders = holders.map(_with_partitions, each_with=_local_partitions(partitions, sizes))
    named = tuple(_named(part, i) for i, part in enumerate(partitions))
    elsewhere = tuple(
        Split(Elsewhere(split.n_train, ("train", s)), Elsewhere(split.n_test, ("test", s)))
        for s, split in enumerate(splits)
    )
    return Folds(replace(batch, holders=holders), elsewhere, KnownPartitions(named))


@dataclass(frozen=True)
class KnownPartitions:
    """Partitions that need not be found; to be called like a function that finds them."""

    partitions: tuple[Partition, ...]

    def __call__(self, batch: Batch, splits: tuple[AnySplit, ...]) -> tuple[Partition, ...]:
        """The partitions."""
        return self.partitions


def _named(part, index):
    atoms = tuple(
        Elsewhere(count_rows(atom), ("atom", index, a)) for a, atom in enumerate(part.atoms)
    )
    return replace(part, atoms=atoms)


# ---------------------------------------------------------------- splits that name rows


class _Local(NamedTuple):
    """A partition of the rows of a piece: runs of neighbours, or the atom of each row."""

    first_split: int
    runs: list[Rows] | None
    labels: np.ndarray | None
    train: np.ndarray
    test: np.ndarray


def _local_partitions(partitions: Sequence[Partition], sizes: Sequence[int]) -> list[list[_Local]]:
    """Partitions of all rows, as those of the rows of each piece."""
    ends = np.cumsum(sizes).tolist()
    bounds = list(zip([0, *ends[:-1]], ends, strict=True))
    by_partition = [_of_pieces(part, bounds) for part in partitions]
    return [list(parts) for parts in zip(*by_partition, strict=True)]


def _of_pieces(part, bounds):
    first_split, train, test = part.first_split, part.train, part.test
    if all(isinstance(atom, slice | tuple) for atom in part.atoms):
        runs = [[_overlap(atom, start, stop) for atom in part.atoms] for start, stop in bounds]
        return [_Local(first_split, own, None, train, test) for own in runs]
    # Each row is of one atom.
    labels = np.empty(bounds[-1][1], dtype=np.min_scalar_type(len(part.atoms)))
    for a, atom in enumerate(part.atoms):
        labels[row_indices(atom)] = a
    return [_Local(first_split, None, labels[start:stop], train, test) for start, stop in bounds]


def _overlap(atom, start, stop):
    """Those of a run, or of several, that are in a piece, in the numbers of the piece."""
    runs = (atom,) if isinstance(atom, slice) else atom
    cut = [(max(run.start, start) - start, min(run.stop, stop) - start) for run in runs]
    return _as_rows([slice(a, b) for a, b in cut if a < b])


def _as_rows(runs):
    if not runs:
        return slice(0, 0)
    return runs[0] if len(runs) == 1 else tuple(runs)


def _with_partitions(piece: Folds, local: Sequence[_Local]) -> Folds:
    """A piece with its splits."""
    splits: Any
    if all(map(_holds_out_atoms, local)):
        # Which rows an atom has is found when somebody asks for them.
        splits = tuple(split for part in local for split in _splits_by_label(part))
        return Folds(piece.batch, splits, PartitionsHere(local))
    partitions = tuple(_partition_here(part) for part in local)
    splits = tuple(PieceSplit(part, i) for part in partitions for i in range(part.n_splits))
    return Folds(piece.batch, splits, KnownPartitions(partitions))


@dataclass(frozen=True)
class PartitionsHere:
    """Partitions of the rows of a piece, as a function that finds them."""

    local: Sequence[_Local]

    def __call__(self, batch: Batch, splits: tuple[AnySplit, ...]) -> tuple[Partition, ...]:
        """The partitions."""
        return tuple(_partition_here(part) for part in self.local)


def _holds_out_atoms(local):
    """Whether rows have labels, and each split holds out those of one label."""
    train, test = local.train, local.test
    exact = (train + test == 1).all() and (test.sum(axis=1) == 1).all()
    return local.labels is not None and bool(exact)


def _splits_by_label(local):
    counts = np.bincount(local.labels, minlength=local.test.shape[1])
    by_fold = FoldLabels(local.labels, counts).splits()
    return [by_fold[fold] for fold in local.test.argmax(axis=1)]


def _partition_here(local):
    atoms = local.runs
    if atoms is None:
        atoms = [np.flatnonzero(local.labels == a) for a in range(local.train.shape[1])]
    return Partition(local.first_split, tuple(atoms), local.train, local.test)


@dataclass(frozen=True)
class PieceSplit:
    """A split of the rows of a piece, whose training and held-out rows are sets of atoms."""

    partition: Partition
    number: int

    @cached_property
    def train(self) -> Rows:
        return self._rows(self.partition.train)

    @cached_property
    def test(self) -> Rows:
        return self._rows(self.partition.test)

    @property
    def n_train(self) -> int:
        return count_rows(self.train)

    @property
    def n_test(self) -> int:
        return count_rows(self.test)

    def _rows(self, counts):
        """The rows in order, repeated as often as the splitter repeats them."""
        times = zip(self.partition.atoms, counts[self.number].tolist(), strict=True)
        repeated: Any = (atom for atom, count in times for _ in range(count))
        chosen = [atom for atom in repeated if count_rows(atom) > 0]
        if all(isinstance(atom, slice | tuple) for atom in chosen):
            runs = [r for atom in chosen for r in ((atom,) if isinstance(atom, slice) else atom)]
            return _as_rows(sorted(runs, key=lambda run: run.start))
        return np.sort(np.concatenate([row_indices(atom) for atom in chosen]))


# ---------------------------------------------------------------- splits that deal rows out


def _hold_out(held_out, folds):
    """A partition whose atoms are folds; each split holds out one."""
    test = np.eye(len(folds), dtype=int)[held_out]
    return Partition(0, tuple(folds), 1 - test, test)


def _class_counts(piece: Folds) -> np.ndarray:
    """Rows of each class in a piece."""
    batch = piece.batch
    return np.asarray([rows.shape[0] for rows in rows_by_class(batch.codes, batch.n_classes)])


def _with_dealt_folds(
    piece: Folds, ends: np.ndarray, held_out: Sequence[int], before: np.ndarray
) -> Folds:
    """A piece with its splits, by the fold of each of its rows."""
    codes = piece.batch.codes
    if place_of(codes).kind == "array_api_strict":
        codes = to_host(codes)  # the standard has no assignment to rows named by indices
    rows = rows_by_class(codes, len(ends))
    sizes = np.asarray([each.shape[0] for each in rows])
    ends_here = np.clip(ends - before[:, None], 0, sizes[:, None])
    counts = np.diff(ends_here, axis=1, prepend=0).sum(axis=0)
    by_fold = FoldLabels(dealt_folds(codes, rows, ends_here), counts).splits()
    partition = _hold_out(held_out, [split.test for split in by_fold])
    splits = tuple(by_fold[fold] for fold in held_out)
    return Folds(piece.batch, splits, KnownPartitions((partition,)))
