"""Columns with too many levels for sums over pairs: their levels are kept apart from the rest.

One column for each level that a training part has, and nothing else done to them: then a level that
a part lacks has the coefficient 0 under a penalty, whether there is a column for it or not. So no
map is needed, which differs between splits, and no sums over pairs of such columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.impute import SimpleImputer

from gpuml._arrays import to_host
from gpuml.compose._coding import is_nan
from gpuml.compose._layout import (
    Branch,
    Layout,
    count_all_levels,
    lay_out,
    makes_levels,
)
from gpuml.compose._levels import unknown_levels, with_constant
from gpuml.data import Folds, row_indices, take
from gpuml.extending import MultifitEstimator
from gpuml.resampling.keys import value_key
from gpuml.solvers.affine import Parts
from gpuml.solvers.table_rows import MOST_LEVELS, TableBatch, renumbered

PAY = f"sums over pairs pay off up to {MOST_LEVELS:,}"


def columns_apart(n_levels: Mapping[int, int]) -> tuple[int, ...]:
    """The columns of most levels, by number, as many as leave few levels to the others.

    >>> columns_apart({0: 1000, 1: 20, 2: 5000})
    (2,)
    """
    left, found = sum(n_levels.values()), []
    for number in sorted(n_levels, key=lambda number: -n_levels[number]):
        if left <= MOST_LEVELS:
            break
        found.append(number)
        left -= n_levels[number]
    return tuple(sorted(found))


def levels_obstacle(
    transformer: Any, X: Any, behind: Sequence[Any], model: MultifitEstimator
) -> str | None:
    """Why a model behind a `ColumnTransformer` cannot have its columns of many levels, if it has.

    Parameters
    ----------
    transformer : ColumnTransformer
    X : array or DataFrame
    behind : sequence of AffineStep
        Steps between the two.
    model : MultifitEstimator
    """
    branch = lay_out(transformer, X).branch
    n_levels = count_all_levels(branch, X)
    chosen = columns_apart(n_levels)
    if not chosen:
        return None
    why = not_apart(branch, chosen)
    if why is None and behind:
        why = f"leave out {type(behind[0]).__name__} after them"
    why = why or model.multifit_levels(len(chosen), X)
    if why is None:
        return None
    name, n_all = type(transformer).__name__, sum(n_levels.values())
    return f"the categories of {name} have {n_all:,} levels, and {PAY}; {why}"


def not_apart(branch: Branch, columns: Sequence[int]) -> str | None:
    """Why levels of some columns of X cannot be kept apart, and what to change, if so."""
    for j in columns:
        readers = [found for found in _readers(branch, j, "") if found[0].kind != "numbers"]
        if len(readers) > 1:
            return "give them to one encoder only"
        for leaf, why in readers:
            found = why or _not_plain(leaf)
            if found is not None:
                return found
    return None


def _readers(branch: Branch, j: int, why: str) -> Iterator[tuple[Branch, str]]:
    """Leaves that read a column, and what is done to their output."""
    if branch.kind != "beside":
        yield from [(branch, why)] if j in branch.columns else []
        return
    why = why or _behind(branch)
    for part, weight in branch.parts:
        yield from _readers(part, j, why or ("" if weight == 1 else "leave out their weight"))


def _behind(branch):
    names = [type(step).__name__ for step in branch.tail]
    return f"leave out {names[0]} after them" if names else ""


def _not_plain(leaf):
    """What of a branch is more than a column for each level."""
    less = "give their encoder min_frequency or max_categories"
    if leaf.kind != "levels" or not makes_levels(leaf.head[-1]):
        return less
    encoder = leaf.head[-1]
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        return "give their encoder a larger min_frequency, or a smaller max_categories"
    if encoder.drop is not None:
        return f"leave out drop={encoder.drop!r}, or {less}"
    return _behind(leaf) or None


def with_levels_apart(folds: Folds, layout: Layout, branches: Sequence[Branch]) -> Folds:
    """Folds in whose table no more levels than pay stand together.

    Parameters
    ----------
    folds : Folds
        Of a `TableBatch`.
    layout : Layout
    branches : sequence of Branch
        Of all candidates.

    Raises
    ------
    ValueError
        If what candidates do to columns of many levels is more than to give each a column.
    """
    table = cast(TableBatch, folds.batch).table
    chosen = columns_apart({number: len(own) for number, own in enumerate(table.levels)})
    if not chosen:
        return folds
    columns = [layout.coded[number] for number in chosen]
    why = next(filter(None, (not_apart(branch, columns) for branch in branches)), None)
    fills = {value_key(own): own for own in (_fills(branch, columns) for branch in branches)}
    if why is None and len(fills) > 1:
        why = "search over the imputers of this column in a separate call"
    if why is not None:
        n_levels = sum(map(len, table.levels))
        raise ValueError(f"{n_levels:,} levels are common in some training set, and {PAY}; {why}")
    key = ("apart", *fills)
    if key not in folds.known:
        for number, steps in zip(chosen, *fills.values(), strict=True):
            table = _filled(
                table, number, [_constant(fill, table, number, folds) for fill in steps]
            )
        batch: Any = folds.batch
        batch = replace(batch, table=replace(table, apart=chosen))
        folds.known[key] = replace(folds, batch=batch, known={})
    return folds.known[key]


def _fills(branch, columns):
    """What fills holes of each of some columns that one leaf reads as levels."""
    leaves = [leaf for j in columns for leaf, _ in _readers(branch, j, "") if leaf.kind == "levels"]
    return [leaf.head[:-1] for leaf in leaves]


def _constant(imputer, table, number, folds):
    """An imputer that fills holes by the level that most rows of every training part have."""
    if imputer.strategy == "constant":
        return imputer
    codes, values = to_host(table.codes[number]), table.levels[number]
    known = np.flatnonzero([not is_nan(value) for value in values])
    every = to_host(folds.batch.X[:, 0])
    parts = [every, *(every[row_indices(split.train)] for split in folds.splits)]
    counts = [np.bincount(codes[rows], minlength=len(values))[known] for rows in parts]
    found = {int(np.argmax(own)) for own in counts}
    if len(found) > 1:
        raise ValueError(
            f"of {len(values):,} levels, the most frequent one differs between training sets; "
            "fill missing values with strategy='constant'"
        )
    return SimpleImputer(strategy="constant", fill_value=values[known[found.pop()]])


def _filled(table, number, fills):
    """A table in which holes of a column with codes have the level that fills them."""
    codes, values = table.codes[number], table.levels[number]
    for imputer in fills:
        values, places = with_constant(imputer, values)
        codes = renumbered(places, codes, len(values))
    return replace(
        table,
        codes=(*table.codes[:number], codes, *table.codes[number + 1 :]),
        levels=(*table.levels[:number], values, *table.levels[number + 1 :]),
    )


def places_apart(
    encoder: Any, number: int, parts: Parts, reasons: dict[int, str]
) -> list[np.ndarray]:
    """Where the columns of an encoder are among the levels apart, counted from the end.

    An int array (k_s,) for each part: levels that a part lacks have no column.
    """
    table = cast(TableBatch, parts.batch).table
    n_levels, codes, xp = len(table.levels[number]), table.codes[number], table.place.xp
    first = table.first_apart(number) - table.n_apart
    found = []
    for s in range(len(parts.n_rows)):
        rows = take(parts.batch.X[:, 0], parts.rows(s), xp)
        seen = np.sort(to_host(xp.unique_values(take(codes, rows, xp)))).astype(np.intp)
        if len(seen) < n_levels:
            reasons.update(unknown_levels(encoder, s))
        found.append(first + seen)
    return found
