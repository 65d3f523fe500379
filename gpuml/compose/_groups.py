"""Levels that are rare in every training part, as the few groups that splits tell apart.

An encoder with `min_frequency` or `max_categories` gives levels that are rare in a training part
one column together. Levels that are rare in all of them, whichever candidate asks, differ in one
thing alone: which training parts have seen them. Those that the same parts have seen are one level
of the table: a column of a hundred thousand names is as many as are common in some part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from gpuml._arrays import namespace, to_host
from gpuml.compose._coding import counts_of_codes
from gpuml.compose._layout import Branch, Layout, groups_levels
from gpuml.compose._levels import rare_levels, with_constant
from gpuml.data import Folds, take
from gpuml.resampling.keys import value_key
from gpuml.solvers.table_rows import Table, TableBatch, renumbered

# Columns with fewer levels are not grouped.
FEW_LEVELS = 128


def with_groups(folds: Folds, layout: Layout, branches: Sequence[Branch]) -> Folds:
    """Folds whose table has groups of rare levels.

    Parameters
    ----------
    folds : Folds
        Of a `TableBatch`.
    layout : Layout
    branches : sequence of Branch
        Of all candidates.
    """
    leaves = {leaf.key: leaf for branch in branches for leaf in branch.leaves}
    asked: dict[int, list[Branch]] = {}
    for leaf in leaves.values():
        for j in leaf.columns if leaf.kind == "levels" else ():
            asked.setdefault(layout.coded.index(j), []).append(leaf)
    table = cast(TableBatch, folds.batch).table
    chosen = {
        number: own
        for number, own in asked.items()
        if len(table.levels[number]) > FEW_LEVELS
        and all(map(groups_levels, own))
        and len({value_key(leaf.head[:-1]) for leaf in own}) == 1
    }
    if chosen:
        key = "groups", frozenset((n, *(leaf.key for leaf in own)) for n, own in chosen.items())
        if key not in folds.known:
            folds.known[key] = _grouped(folds, chosen)
            if folds.batch.is_divided:
                grouped = folds.known[key]
                return replace(grouped, batch=replace(grouped.batch, n_readings=1))
        folds = folds.known[key]
    return folds


@dataclass(frozen=True)
class Groups:
    """Levels of a column and groups of them: values (G,), and how many each stands for.

    `places` (L,) has the number of the group of each level.
    """

    places: np.ndarray
    values: np.ndarray
    merged: np.ndarray


def _grouped(folds, chosen):
    batch = folds.batch
    counts = level_counts(folds, sorted(chosen))
    found = {
        number: groups
        for number, leaves in chosen.items()
        if (groups := _groups_of(batch.table.levels[number], leaves, counts[number])) is not None
    }
    batch = replace(batch, table=_with_groups(batch.table, found))
    if folds.batch.is_divided:
        of_all = {number: (folds.batch.table.levels[number], counts[number][0]) for number in found}
        holders = batch.holders.map(_piece_with_groups, found)
        batch = replace(batch, holders=holders, ungrouped=of_all)
    return replace(folds, batch=batch, known={})


def level_counts(folds: Folds, numbers: Sequence[int]) -> dict[int, np.ndarray]:
    """How many rows (S + 1, L) of all rows, and of each training part, have each level of columns.

    Parameters
    ----------
    folds : Folds
        Of a `TableBatch`.
    numbers : sequence of int
        Of columns with codes.
    """
    levels = cast(TableBatch, folds.batch).table.levels
    sizes = [len(levels[number]) for number in numbers]
    found = to_host(folds.total(_counts_here, numbers, sizes))
    ends = np.cumsum(sizes)[:-1]
    return dict(zip(numbers, np.split(found.astype(np.int64), ends, axis=1), strict=True))


def _counts_here(folds, numbers, sizes):
    """The same (S + 1, sum of L) of some rows."""
    table, parts = folds.batch.table, []
    every = folds.batch.X[:, 0]
    for split in (None, *folds.splits):
        rows = every if split is None else take(every, split.train, namespace(every))
        xp = namespace(rows)
        found = [
            counts_of_codes(take(table.codes[number], rows, xp), n_levels)
            for number, n_levels in zip(numbers, sizes, strict=True)
        ]
        parts.append(np.concatenate(found))
    return np.stack(parts)


def _groups_of(values, leaves, counts):
    """The groups of a column; None if there are as many as levels."""
    encoders, steps = [leaf.head[-1] for leaf in leaves], np.arange(len(values))
    for imputer in leaves[0].head[:-1]:
        values, places = with_constant(imputer, values)
        counts = np.stack([np.bincount(places, own, len(values)) for own in counts])
        steps = places[steps]
    common = np.zeros(len(values), dtype=bool)
    for own, n_rows in zip(counts, counts.sum(axis=1), strict=True):
        seen = np.flatnonzero(own)
        for encoder in encoders:
            common[seen[~rare_levels(encoder, own[seen], n_rows)]] = True
    rare = np.flatnonzero(~common)
    patterns, first, group, sizes = np.unique(
        np.packbits(counts[:, rare] > 0, axis=0).T,
        axis=0,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    n_common = int(common.sum())
    if n_common + len(patterns) >= len(values):
        return None
    place = np.empty(len(values), dtype=np.int64)
    place[common] = np.arange(n_common)
    place[rare] = n_common + group.ravel()
    merged = np.concatenate([np.zeros(n_common, dtype=np.int64), sizes])
    return Groups(place[steps], np.concatenate([values[common], values[rare[first]]]), merged)


def _with_groups(table: Table, found: Mapping[int, Groups]) -> Table:
    """A table whose levels are groups of levels."""
    for number, groups in found.items():
        codes = renumbered(groups.places, table.codes[number], len(groups.merged))
        table = replace(
            table,
            codes=_put(table.codes, number, codes),
            levels=_put(table.levels, number, groups.values),
            merged=_put(table.merged or (None,) * len(table.codes), number, groups.merged),
        )
    return table


def _piece_with_groups(folds: Folds, found: Mapping[int, Groups]) -> Folds:
    batch = cast(TableBatch, folds.batch)
    return replace(folds, batch=replace(batch, table=_with_groups(batch.table, found)), known={})


def _put(items, number, item):
    return (*items[:number], item, *items[number + 1 :])
