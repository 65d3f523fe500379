"""Splits of a training set, as splits of all rows."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from gpuml._arrays import move, place_of
from gpuml.data import AnySplit, FoldLabels, LabelledSplit, Rows, Split, count_rows, row_indices
from gpuml.resampling.split import as_rows


def splits_inside(outer: AnySplit, inner: Sequence[AnySplit], n_rows: int) -> list[AnySplit]:
    """Splits of an outer training set, as numbers of all rows; then the outer split itself.

    Folds of a training part stay folds: each row has a label, of which one says that the row is
    in no inner part. So no split has index arrays, and all of them have atoms in common.

    Parameters
    ----------
    outer : split
    inner : sequence of splits
        Of the rows of its training part, numbered from 0.
    n_rows : int
        Number of all rows.

    Returns
    -------
    splits : list of splits
        One more than inner ones.
    """
    parts = [part for split in inner if isinstance(split, Split) for part in _parts(split)]
    if len(parts) == 2 * len(inner) and all(map(_is_runs, [outer.train, *parts])):
        return [*(_moved(split, outer.train, n_rows) for split in inner), outer]
    found = _labelled(outer, inner, n_rows)
    if found is not None:
        return found
    train = row_indices(outer.train)
    return [*(_moved(split, train, n_rows) for split in inner), outer]


def _parts(split):
    return split.train, split.test


def _is_runs(rows):
    return isinstance(rows, slice | tuple)


def _runs(rows: Any) -> tuple[slice, ...]:
    return (rows,) if isinstance(rows, slice) else rows


def _moved(split, train, n_rows):
    return Split(*(rows_within(train, part, n_rows) for part in _parts(split)))


def rows_within(rows: Rows, some: Rows, n_rows: int) -> Rows:
    """Some of the rows in `rows`, selected by position, as rows of all `n_rows`."""
    if not (_is_runs(rows) and _is_runs(some)):
        return as_rows(row_indices(rows)[row_indices(some)], n_rows)
    joined: list[slice] = []
    for run in _runs(some):
        first = 0  # position of the first row of each run among all rows
        for whole in _runs(rows):
            last = first + whole.stop - whole.start
            start, stop = max(run.start, first), min(run.stop, last)
            if start < stop:
                start, stop = whole.start + start - first, whole.start + stop - first
                if joined and joined[-1].stop == start:
                    joined[-1] = slice(joined[-1].start, stop)
                else:
                    joined.append(slice(start, stop))
            first = last
    return tuple(joined) if len(joined) != 1 else joined[0]


# ---------------------------------------------------------------- folds


def _labelled(outer, inner, n_rows) -> list[AnySplit] | None:
    """The splits as labels of all rows; None for splits that are no folds."""
    runs = _labels_of(inner, outer.n_train)
    complete = isinstance(outer, LabelledSplit) and outer.unused is None
    if runs is None or not (complete or _has_rows_once(outer.train, n_rows)):
        return None
    out: list[AnySplit] = []
    for labels, folds in runs:
        unused = len(labels.counts)
        spread = _spread(labels, outer.train, n_rows)
        out += [LabelledSplit(spread, fold, unused) for fold in folds]
    if complete or _has_rows_once(_all_of(outer), n_rows, n_rows):
        return [*out, LabelledSplit(spread, unused)]
    return [*out, outer]


def _labels_of(splits, n_rows) -> list[tuple[FoldLabels, list[int]]] | None:
    """Labels and held-out folds, for each run of splits."""
    if all(isinstance(split, LabelledSplit) for split in splits):
        runs = groupby(splits, lambda split: id(split.labels))
        members = [list(run) for _, run in runs]
        return [(run[0].labels, [split.fold for split in run]) for run in members]
    labels = fold_labels(splits, n_rows)
    return None if labels is None else [(labels, list(range(len(splits))))]


def fold_labels(splits: Sequence[AnySplit], n_rows: int) -> FoldLabels | None:
    """Which split holds out each row; None unless each trains on all others, in rising order."""
    if not all(isinstance(split, Split) for split in splits):
        return None
    counts = np.array([count_rows(split.test) for split in splits])
    n_train = np.array([count_rows(split.train) for split in splits])
    if counts.sum() != n_rows or (counts + n_train != n_rows).any():
        return None
    dtype = np.uint8 if len(splits) < 2**8 else np.int32
    folds, held_out = np.empty(n_rows, dtype=dtype), np.zeros(n_rows, dtype=bool)
    for fold, split in enumerate(splits):
        for run in _nonempty(split.test):
            folds[run], held_out[run] = fold, True
    # As many rows as there are and none left out, so no row is held out twice.
    others = (_trains_on_the_rest(split, fold, folds) for fold, split in enumerate(splits))
    return FoldLabels(folds, counts) if held_out.all() and all(others) else None


def _trains_on_the_rest(split, fold, folds):
    """Whether a split, whose sizes were checked, has rising rows and trains on the other folds."""
    if not (_rises(split.test) and _rises(split.train)):
        return False
    return all((folds[run] != fold).all() for run in _nonempty(split.train))


def _rises(rows):
    last = -1
    for run in _nonempty(rows):
        first, end, rises = _span(run)
        if first <= last or not rises:
            return False
        last = end
    return True


def _span(run):
    if isinstance(run, slice):
        return run.start, run.stop - 1, True
    return run[0], run[-1], bool((np.diff(run) > 0).all())


def _nonempty(rows):
    """Parts of rows as NumPy index, without empty ones."""
    return [run for run in (rows if isinstance(rows, tuple) else (rows,)) if count_rows(run)]


def _spread(labels: FoldLabels, rows: Rows, n_rows: int) -> FoldLabels:
    """Labels of some rows as labels of all rows; an extra fold has the other rows."""
    place, folds = place_of(labels.folds), labels.folds
    unused = len(labels.counts)
    out = place.xp.full((n_rows,), unused, dtype=folds.dtype, device=place.device)
    if _is_runs(rows):
        first = 0
        for run in _runs(rows):
            out[run] = folds[first : first + count_rows(run)]
            first += count_rows(run)
    else:
        out[move(rows, place)] = folds
    return FoldLabels(out, np.append(labels.counts, n_rows - folds.shape[0]))


def _all_of(split):
    return np.concatenate([row_indices(part) for part in _parts(split)])


def _has_rows_once(rows, n_rows, n_expected=None):
    """Whether no row occurs twice (and the number is right)."""
    marks = np.zeros(n_rows, dtype=bool)
    for run in _runs(rows) if _is_runs(rows) else (row_indices(rows),):
        marks[run] = True
    n_marked = np.count_nonzero(marks)
    return n_marked == count_rows(rows) and n_expected in (None, n_marked)
