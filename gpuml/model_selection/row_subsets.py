"""Splits of a subset of the rows: early rounds of a search read only the rows that they use."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import resample

from gpuml._arrays import namespace
from gpuml.data import AnySplit, Batch, Split, count_rows, row_indices, take
from gpuml.resampling.split import as_rows

# Extracting rows costs a copy; it pays if each pass then reads at most half as many.
LARGEST_SHARE = 0.5


def subsampled(
    splits: Sequence[AnySplit], fraction: float, n_rows: int, random_state: Any
) -> list[Split]:
    """Splits with a fraction of the rows of both parts, drawn as scikit-learn's halving does."""

    def some(rows):
        indices = row_indices(rows)
        n_samples = int(fraction * len(indices))
        drawn = resample(indices, replace=False, random_state=random_state, n_samples=n_samples)
        return as_rows(drawn, n_rows)

    return [Split(some(split.train), some(split.test)) for split in splits]


def used_rows(batch: Batch, splits: Sequence[AnySplit]) -> tuple[Batch, Sequence[AnySplit]]:
    """The rows that splits use, if these are few, and the splits as numbers of these rows.

    Otherwise both unchanged: if most rows are used, if splits are labels of all rows, or if the
    rows are not in this process.
    """
    plain = [split for split in splits if isinstance(split, Split)]
    if len(plain) < len(splits) or batch.is_divided:
        return batch, splits
    used = _mask(plain, batch.n_rows)
    if used is None:
        return batch, splits
    rows = np.flatnonzero(used)
    number = np.cumsum(used) - 1

    def renumbered(part):
        return as_rows(number[row_indices(part)], len(rows))

    return (
        _rows_of_batch(batch, as_rows(rows, batch.n_rows)),
        [Split(renumbered(split.train), renumbered(split.test)) for split in plain],
    )


def _mask(splits, n_rows):
    """A mask of the rows that splits use; None as soon as these are the majority."""
    parts = [part for split in splits for part in (split.train, split.test)]
    most = LARGEST_SHARE * n_rows
    # Runs contain each row once, so their rows can be counted without marking them.
    if any(isinstance(part, slice | tuple) and count_rows(part) > most for part in parts):
        return None
    used = np.zeros(n_rows, dtype=bool)
    for part in parts:
        for run in part if isinstance(part, tuple) else (part,):
            used[run] = True
        if np.count_nonzero(used) > most:
            return None
    return used


def _rows_of_batch(batch, rows):
    def some(column):
        return None if column is None else take(column, rows, namespace(column))

    columns = {name: some(getattr(batch, name)) for name in ("X", "y", "weight", "codes")}
    return replace(batch, **columns)
