"""Splits of rows, and the atoms that several splits treat alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuml._arrays import Array, namespace
from gpuml.data.rows import Rows, count_rows


@dataclass(frozen=True)
class Split:
    """Training and held-out rows of one split, in the splitter's order."""

    train: Rows
    test: Rows

    @property
    def n_train(self) -> int:
        return count_rows(self.train)

    @property
    def n_test(self) -> int:
        return count_rows(self.test)


@dataclass(frozen=True, eq=False)
class FoldLabels:
    """Folds of rows, each row in exactly one: labels (n,), and the rows of each fold."""

    folds: Array
    counts: np.ndarray

    @cached_property
    def _order(self):
        """All rows (n,), fold after fold."""
        return namespace(self.folds).argsort(self.folds, stable=True)

    def rows_of(self, fold: int) -> Array:
        """The rows of a fold in their order; one sort finds those of all folds."""
        stop = int(self.counts[: fold + 1].sum())
        return self._order[stop - int(self.counts[fold]) : stop]

    def splits(self) -> "list[LabelledSplit]":
        """Splits that hold out one fold each."""
        return [LabelledSplit(self, fold) for fold in range(len(self.counts))]


@dataclass(frozen=True)
class LabelledSplit:
    """A split that holds out one of the folds; its rows are looked up on demand.

    If the split has only some of the rows, the others are the fold `unused`.
    """

    labels: FoldLabels
    fold: int
    unused: int | None = None

    @property
    def trains(self) -> Array:
        """A mask of the training rows (n,)."""
        mask = self.labels.folds != self.fold
        return mask if self.unused is None else mask & (self.labels.folds != self.unused)

    @cached_property
    def train(self) -> Rows:
        mask = self.trains
        return namespace(mask).nonzero(mask)[0]

    @cached_property
    def test(self) -> Rows:
        return self.labels.rows_of(self.fold)

    @property
    def n_train(self) -> int:
        left_out = 0 if self.unused is None else int(self.labels.counts[self.unused])
        return int(self.labels.counts.sum()) - self.n_test - left_out

    @property
    def n_test(self) -> int:
        return int(self.labels.counts[self.fold])


AnySplit = Split | LabelledSplit


def shared_labels(splits: Sequence[AnySplit]) -> FoldLabels | None:
    """The labels that all splits of all rows share; None if they share none."""
    first = splits[0]
    if not isinstance(first, LabelledSplit):
        return None
    same = all(
        isinstance(s, LabelledSplit) and s.labels is first.labels and s.unused is None
        for s in splits
    )
    return first.labels if same else None


@dataclass(frozen=True)
class Partition:
    """Atoms of rows that a run of splits treats alike.

    Row ``i`` of `train` says how many times each atom is in the training part of split
    ``first_split + i`` (0 or 1, more where a splitter repeats rows); `test` says it of the
    held-out part. Sums over atoms are therefore sums over parts: ``train @ atom_sums``.
    """

    first_split: int
    atoms: tuple[Rows, ...]
    train: np.ndarray
    test: np.ndarray

    @property
    def n_splits(self) -> int:
        return self.train.shape[0]


@dataclass(frozen=True)
class Outside:
    """Splits inside the training sets of other splits, such as those of an inner search.

    First steps of a pipeline may be fitted to the outer training parts: inner splits are then of
    the rows that these steps have made.

    Attributes
    ----------
    n_steps : int
        How many first steps of a pipeline; 0 for none.
    owners : tuple of int
        For each split, that whose training part it is inside; itself for outer ones.
    """

    n_steps: int
    owners: tuple[int, ...]
