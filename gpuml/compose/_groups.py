"""Levels that are rare in every training part, as the few groups that splits tell apart.

An encoder with `min_frequency` or `max_categories` gives levels that are rare in a training part
one column together. Levels that are rare in all of them, whichever candidate asks, differ in one
thing alone: which training parts have seen them. Those that the same parts have seen are one level
of the table: a column of a hundred thousand names is as many as are common in some part.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from gpuml._arrays import move, to_host
from gpuml.compose._layout import Branch, Layout, groups_levels, words_of
from gpuml.compose._levels import rare_levels, with_constant
from gpuml.data import Folds, row_indices
from gpuml.solvers.table_rows import Table, TableBatch, narrow

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
        and len({tuple(map(words_of, leaf.head[:-1])) for leaf in own}) == 1
    }
    if chosen:
        key = "groups", frozenset((n, *(leaf.key for leaf in own)) for n, own in chosen.items())
        if key not in folds.known:
            folds.known[key] = _grouped(folds, chosen)
        folds = folds.known[key]
    return folds


def _grouped(folds, chosen):
    table = cast(TableBatch, folds.batch).table
    for number, leaves in chosen.items():
        table = _with_column(table, number, leaves, folds)
    return replace(folds, batch=replace(folds.batch, table=table), known={})


def _with_column(table: Table, number: int, leaves: Sequence[Branch], folds: Folds) -> Table:
    codes, values = to_host(table.codes[number]), table.levels[number]
    encoders = [leaf.head[-1] for leaf in leaves]
    for imputer in leaves[0].head[:-1]:
        values, places = with_constant(imputer, values)
        codes = places[codes]
    every = to_host(folds.batch.X[:, 0])
    given = [every, *(every[row_indices(split.train)] for split in folds.splits)]
    counts = np.stack([np.bincount(codes[rows], minlength=len(values)) for rows in given])
    common = np.zeros(len(values), dtype=bool)
    for own, rows in zip(counts, given, strict=True):
        seen = np.flatnonzero(own)
        for encoder in encoders:
            common[seen[~rare_levels(encoder, own[seen], len(rows))]] = True
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
        return table
    place = np.empty(len(values), dtype=np.int64)
    place[common] = np.arange(n_common)
    place[rare] = n_common + group.ravel()
    merged = np.concatenate([np.zeros(n_common, dtype=np.int64), sizes])
    own_codes = move(narrow(place[codes], len(merged)), table.place)
    own_values = np.concatenate([values[common], values[rare[first]]])
    return replace(
        table,
        codes=_put(table.codes, number, own_codes),
        levels=_put(table.levels, number, own_values),
        merged=_put(table.merged or (None,) * len(table.codes), number, merged),
    )


def _put(items, number, item):
    return (*items[:number], item, *items[number + 1 :])
