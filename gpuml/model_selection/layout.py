"""Rows in an order in which each fold is one run, so that no split has to be gathered.

A K-fold holds out every row exactly once. If the rows are ordered fold by fold, a held-out part is
a slice, and a training part is two: the folds behind the held-out one, and those before it. Laid
out as a ring, that is with the first folds once more behind the last, it is one slice:

    rows of fold         0 1 2 3 0 1     in memory, for four folds
    split 0 trains on      1 2 3
    split 1                  2 3 0
    split 2                    3 0 1
    split 3              0 1 2

The last two folds are never needed twice, so the ring of K folds takes ``2 - 2 / K`` times the
memory of the rows. Rows of a fold keep the order in which the splitter names them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gpuml._arrays import Array, Place, is_numpy, move, namespace
from gpuml.data import AnySplit, FoldLabels, Rows, Split, count_rows, row_indices, shared_labels


@dataclass(frozen=True)
class Layout:
    """An order of n rows in which the folds of k splits follow each other.

    Attributes
    ----------
    order : integer array (n,) or None
        Which row comes where, in CPU memory or on a device. None where the rows lie like this.
    bounds : list of int, k + 1 of them
        Fold i, which split i holds out, is the rows from ``bounds[i]`` to ``bounds[i + 1]``.
    """

    order: Array | None
    bounds: list[int]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.bounds[-1]

    @property
    def n_repeated(self) -> int:
        """Rows at the start that a ring repeats at its end."""
        return self.bounds[-3]

    @property
    def largest_part(self) -> int:
        """The number of rows of the largest training set."""
        return self.n_rows - min(stop - start for start, stop in pairwise(self.bounds))

    def at(self, place: Place) -> "Layout":
        """The same layout, with its order at another place."""
        return self if self.order is None else replace(self, order=move(self.order, place))

    def rows(self, *, ring: bool) -> Rows:
        """The rows to take, in this order: each once, or as a ring."""
        again = self.n_repeated if ring else 0
        if self.order is None:
            once = slice(0, self.n_rows)
            return (once, slice(0, again)) if again else once
        if not again:
            return self.order
        return namespace(self.order).concat([self.order, self.order[:again]])

    def splits(self, *, ring: bool) -> list[Split]:
        """The splits of rows that were taken in this order."""
        folds = list(pairwise(self.bounds))
        n, last = self.n_rows, len(folds) - 1
        out = []
        for i, (start, stop) in enumerate(folds):
            if i == last:
                train: Rows = slice(0, start)
            elif ring or start == 0:
                train = slice(stop, n + start)
            else:
                train = (slice(stop, n), slice(0, start))
            out.append(Split(train, slice(start, stop)))
        return out


def find_layout(splits: Sequence[AnySplit], n_rows: int) -> Layout | None:
    """The layout of splits that hold out every row once and train on all others.

    None for other splits, and for those that name training rows in an order of their own. Labels
    of folds are sorted where they are; index arrays, which splitters make in CPU memory, are looked
    at there.
    """
    if len(splits) < 2:
        return None
    labels = shared_labels(splits)
    if labels is not None:
        return _of_labels(labels, splits)
    plain = [split for split in splits if isinstance(split, Split)]
    return _of_rows(plain, n_rows) if len(plain) == len(splits) else None


def _of_labels(labels: FoldLabels, splits: Sequence) -> Layout | None:
    if [split.fold for split in splits] != list(range(len(labels.counts))):
        return None
    folds, xp = labels.folds, namespace(labels.folds)
    if is_numpy(folds) and len(splits) < 2**15:
        folds = folds.astype(np.int16)  # NumPy sorts it by counting
    order = xp.argsort(folds, stable=True)
    return Layout(_short(order) if is_numpy(order) else order, _bounds(labels.counts))


def _of_rows(splits: list[Split], n_rows: int) -> Layout | None:
    bounds = _bounds([split.n_test for split in splits])
    if bounds[-1] != n_rows or any(split.n_train + split.n_test != n_rows for split in splits):
        return None
    fold_of = np.full(n_rows, -1)
    for fold, split in enumerate(splits):
        for run in _runs(split.test):
            fold_of[run] = fold
    # As many rows as there are and none left out, so no row is held out twice.
    if (fold_of < 0).any():
        return None
    if not all(_trains_on_the_rest(split, fold, fold_of) for fold, split in enumerate(splits)):
        return None
    starts = [split.test.start for split in splits if isinstance(split.test, slice)]
    if starts == bounds[:-1]:
        return Layout(None, bounds)
    order = np.concatenate([row_indices(split.test) for split in splits])
    return Layout(_short(order), bounds)


def _trains_on_the_rest(split, fold, fold_of):
    """Whether a split, whose sizes were checked, trains on the other folds in rising order."""
    last = -1
    for run in _runs(split.train):
        first, end, rises = _span(run)
        if first <= last or not rises or (fold_of[run] == fold).any():
            return False
        last = end
    return True


def _span(run):
    if isinstance(run, slice):
        return run.start, run.stop - 1, True
    return run[0], run[-1], bool((np.diff(run) > 0).all())


def _runs(rows):
    """Parts of rows as NumPy index, without empty ones."""
    runs = rows if isinstance(rows, tuple) else (rows,)
    return [run for run in runs if count_rows(run)]


def _short(order):
    """The order as 32-bit integers if possible: half the bytes to move to a device."""
    return order.astype(np.int32) if len(order) < 2**31 else order


def _bounds(counts):
    return [0, *np.cumsum(counts).tolist()]
