"""Fitted attributes of steps in the pass: fill values of imputers, and what needs rows.

So a refit reads few rows: one for each level, and of columns with holes one that has a hole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from sklearn.impute import SimpleImputer

from gpuml._arrays import Array, namespace
from gpuml._sklearn import _num_samples
from gpuml.compose._coding import is_nan
from gpuml.compose._fits import Learned, is_known, rows_of_levels, rows_with_holes
from gpuml.compose._layout import Branch, Layout, kind_of
from gpuml.compose._levels import Levels, filled, levels_of_table, most_frequent
from gpuml.compose._made import made_key
from gpuml.compose._target_codes import is_shared, kind_of_target
from gpuml.data import Folds, take
from gpuml.pipeline._from_rows import targets
from gpuml.solvers.affine import Parts
from gpuml.solvers.medians import part_medians
from gpuml.solvers.modes import part_modes
from gpuml.solvers.table_rows import Table, TableBatch


@dataclass(frozen=True)
class Fit:
    """The input of fits of branches, and their results so far."""

    parts: Parts
    layout: Layout
    pieces: dict[Any, Any] = field(default_factory=dict)
    statistics: dict[Any, float] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The columns of all rows."""
        return cast(TableBatch, self.parts.batch).table


def numbers_of_rows(parts: Parts, s: int) -> Any:
    """Row numbers of a part, at the place of the rows."""
    numbers = parts.batch.X[:, 0]
    return take(numbers, parts.rows(s), namespace(numbers))


def sums_of(parts: Parts, columns: np.ndarray) -> np.ndarray:
    """Sums (S, m) of columns of the design over the rows of each part."""
    gram = parts.moments.gram
    return gram[:, columns, -1] + gram[:, -1:, -1] * parts.moments.shift[:, columns]


def counts_of(fit: Fit, number: int) -> np.ndarray:
    """How many rows of each part have each level of a column with codes, (S, L); none apart."""
    table = fit.table
    own = np.arange(table.n_columns)[table.of_levels[number]]
    return np.rint(sums_of(fit.parts, own)).astype(np.int64)


def n_holes_of(fit: Fit, column: int, s: int) -> float:
    """How many rows of a part have a hole in a column of numbers."""
    hole = fit.table.hole_of(column)
    return 0.0 if hole is None else float(np.rint(sums_of(fit.parts, np.asarray([hole]))[s, 0]))


def fill_of(imputer: Any, fit: Fit, s: int, j: int) -> float:
    """What an imputer puts into the holes of a column of numbers."""
    parts, table = fit.parts, fit.table
    if imputer.strategy == "constant":
        return 0.0 if imputer.fill_value is None else float(imputer.fill_value)
    n_rows, n_holes = parts.n_rows[s], n_holes_of(fit, j, s)
    if n_holes > n_rows - 1:
        return 0.0
    if imputer.strategy == "mean":
        total = sums_of(parts, np.asarray([j]))[s, 0] - n_holes * table.typical[j]
        return total / (n_rows - n_holes)
    if parts.batch.is_divided:
        part = -1 if parts.splits is None else parts.splits.start + s
        return float(cast(TableBatch, parts.batch).statistics[imputer.strategy, j][part])
    key = (imputer.strategy, j, s)
    if key not in fit.statistics:
        find = table.median if imputer.strategy == "median" else table.most_frequent
        fit.statistics[key] = find(j, numbers_of_rows(parts, s))
    return fit.statistics[key]


def with_statistics(folds: Folds, layout: Layout, branches: Sequence[Branch]) -> Folds:
    """Folds of divided rows that have what imputers of some branches put into holes, but for means.

    Parameters
    ----------
    folds : Folds
        Of a `TableBatch`.
    layout : Layout
    branches : sequence of Branch
        Of all candidates.
    """
    leaves = [leaf for branch in branches for leaf in branch.leaves if leaf.kind == "numbers"]
    asked = {
        (leaf.head[0].strategy, layout.numbers.index(j))
        for leaf in leaves
        for j in leaf.columns
        if leaf.head
    }
    known = folds.known.setdefault("statistics", {})
    batch: Any = folds.batch
    n_readings = batch.n_readings
    for strategy, find in (("median", part_medians), ("most_frequent", part_modes)):
        columns = sorted(j for own, j in asked - known.keys() if own == strategy)
        if columns:
            found, n_read = find(folds, columns)
            known.update(zip([(strategy, j) for j in columns], found.T, strict=True))
            n_readings += n_read
    return replace(folds, batch=replace(batch, statistics=known, n_readings=n_readings))


def learned(
    branch: Branch, picks: Sequence[Callable[[int], dict[str, Any]]], fit: Fit, s: int
) -> Learned | None:
    """Fitted attributes of a branch's steps for one part; None if they need the rows.

    Parameters
    ----------
    branch : Branch
    picks : sequence of callables
        Attributes of the steps of its tail.
    fit : Fit
    s : int
    """
    steps = (*branch.head, *branch.tail)
    if len(picks) < len(branch.tail) or not all(map(is_known, steps)):
        return None
    if fit.parts.batch.is_divided:
        return _of_stand_in(branch, picks, fit, s)
    table, rows = fit.table, numbers_of_rows(fit.parts, s)

    def some(column: Array) -> Array:
        return column if rows.shape[0] == column.shape[0] else take(column, rows, namespace(column))

    if branch.kind == "numbers":
        numbers = [fit.layout.numbers.index(j) for j in branch.columns]
        flags = [np.flatnonzero(table.with_holes == j) for j in numbers]
        own = rows_with_holes([some(table.holes[:, int(h[0])]) for h in flags if len(h)])
        known = [(True, _of_numbers(imputer, numbers, fit, s)) for imputer in branch.head]
    elif branch.kind == "levels" and _knows_levels(branch.head[-1]):
        numbers = [fit.layout.coded.index(j) for j in branch.columns]
        sizes = [len(table.levels[number]) for number in numbers]
        own = rows_of_levels([some(table.codes[number]) for number in numbers], sizes)
        *fills, _ = branch.head
        if any(fill.strategy != "constant" for fill in fills) and set(numbers) & set(table.apart):
            return None
        known = [*((True, _of_levels(fill, numbers, fit, s)) for fill in fills), (True, {})]
    elif branch.kind == "made" and is_shared(branch.head):
        return _of_targets(branch, picks, fit, s, some)
    else:
        return None
    return Learned(own, (*known, *((False, pick(s)) for pick in picks)))


def _of_stand_in(branch, picks, fit, s):
    """Fitted attributes where few rows stand for all: they have each level, and holes."""
    if branch.kind not in ("numbers", "levels"):
        return None
    of_numbers = branch.kind == "numbers"
    order, of_imputer = (
        (fit.layout.numbers, _of_numbers) if of_numbers else (fit.layout.coded, _of_levels)
    )
    numbers = [order.index(j) for j in branch.columns]
    known = [
        (True, of_imputer(step, numbers, fit, s) if kind_of(step) is SimpleImputer else {})
        for step in branch.head
    ]
    own = np.arange(_num_samples(cast(TableBatch, fit.parts.batch).source))
    attributes = (*known, *((False, pick(s)) for pick in picks))
    if of_numbers:
        return Learned(own, attributes)
    piece, n_rows = fit.pieces[branch.key], fit.parts.n_rows[s]
    n_entries = np.sum(sums_of(fit.parts, piece.columns)[s] @ (piece.matrices[s] != 0)) / n_rows
    counted = None
    if not _knows_levels(branch.head[-1]):
        counted = n_rows, [_counts_of_all(branch, number, fit, s) for number in numbers]
    return Learned(own, attributes, counted=counted, n_entries=float(n_entries))


def _counts_of_all(branch, number, fit, s):
    """How many rows have each level of a column, as the imputers before an encoder leave them."""
    batch = cast(TableBatch, fit.parts.batch)
    values, counts = (batch.ungrouped or {}).get(number, (batch.table.levels[number], None))
    counts = counts_of(fit, number)[s] if counts is None else counts
    levels = Levels(values, counts[None, :], [None])
    for imputer in branch.head[:-1]:
        levels = filled(imputer, levels, {})
    return levels.counts[0][levels.counts[0] > 0].astype(np.int64)


def _of_targets(branch, picks, fit, s, some):
    """Fitted attributes of a target encoder, from one row per level and one per class."""
    batch = cast(TableBatch, fit.parts.batch)
    made = batch.made[made_key(branch)]
    part = len(made.numbers) - 1 if fit.parts.splits is None else fit.parts.splits.start + s
    if part not in made.learned:
        return None
    codes, n_levels = made.coded
    columns, sizes = [some(own) for own in codes], list(n_levels)
    if batch.classes is not None:
        columns.append(some(batch.codes))
        sizes.append(batch.classes.shape[0])
    rows, y = rows_of_levels(columns, sizes), targets(batch, fit.parts.rows(s))
    kind = kind_of_target(branch.head[0], y)
    if batch.classes is None and kind != "continuous":
        rows = np.union1d(rows, np.unique(y, return_index=True)[1])
    own = [(False, pick(s)) for pick in picks]
    return Learned(rows, ((True, made.learned[part]()), *own), y[rows], kind)


def _knows_levels(encoder):
    """Whether an encoder learns the same of one row for each level as of all rows."""
    return encoder.min_frequency is None and encoder.max_categories is None


def _of_numbers(imputer, numbers, fit, s):
    if imputer.strategy == "constant":
        return {}
    return {"statistics_": [fill_of(imputer, fit, s, j) for j in numbers]}


def _of_levels(imputer, numbers, fit, s):
    if imputer.strategy == "constant":
        return {}
    table = fit.table
    each = [levels_of_table(table, number, counts_of(fit, number)) for number in numbers]
    empty = [all(map(is_nan, levels.values)) for levels in each]
    found = [
        np.nan if skip else levels.values[most_frequent(levels)[s]]
        for levels, skip in zip(each, empty, strict=True)
    ]
    return {"statistics_": found}
