"""The output of imputers and encoders for the levels of a column, for each training set.

A column of codes is a vector of length L with a 1 for its level. To fill what is missing, to give
each level a column of its own, or to count rare ones together are matrices (L, k) that follow from
how often each level occurs in the training part.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import OrdinalEncoder

from gpuml.compose._coding import is_nan, sorted_set
from gpuml.solvers.table_rows import Table


@dataclass(frozen=True)
class Levels:
    """Levels of a column as the steps so far left them.

    Attributes
    ----------
    values : array (L,)
        In the order of scikit-learn's encoders.
    counts : int array (S, L)
        Rows of each training part that have each.
    maps : list of S arrays (L0, L)
        From the levels of the table to these; None for levels as they are in the table.
    merged : int array (L,) or None
        Of how many rare levels each is a group, and 0 for a level by itself; None for no groups.
    """

    values: np.ndarray
    counts: np.ndarray
    maps: list[Any]
    merged: np.ndarray | None = None


def levels_of_table(table: Table, number: int, counts: np.ndarray) -> Levels:
    """The levels of a column of the table."""
    values = table.levels[number]
    merged = table.merged[number] if table.merged else None
    return Levels(values, counts, [None] * len(counts), merged)


def _after(before, step):
    """Two maps, one after the other; the first may be none."""
    return step if before is None else before @ step


def filled(imputer: Any, levels: Levels, reasons: dict[int, str]) -> Levels:
    """Levels without missing ones; `reasons` get the parts that have no value to fill them with."""
    missing = np.asarray([is_nan(value) for value in levels.values], dtype=bool)
    if not missing.any():
        return levels
    known = levels.values[~missing]
    if len(known) == 0:
        return _of_no_values(imputer, levels)
    for s in np.flatnonzero(levels.counts[:, ~missing].sum(axis=1) == 0):
        reasons[int(s)] = "a column has no values to impute with"
    if imputer.strategy == "constant":
        values, numbers = with_constant(imputer, levels.values)
        targets = [int(numbers[missing][0])] * len(levels.counts)
    else:
        values = known
        targets = most_frequent(levels).tolist()
    place = {value: number for number, value in enumerate(values.tolist())}
    steps = []
    for target in targets:
        step = np.zeros((len(levels.values), len(values)))
        for number, value in enumerate(levels.values.tolist()):
            step[number, target if missing[number] else place[value]] = 1.0
        steps.append(step)
    counts = np.stack([n @ step for n, step in zip(levels.counts, steps, strict=True)])
    maps = [_after(before, step) for before, step in zip(levels.maps, steps, strict=True)]
    return Levels(values, counts, maps)


def _of_no_values(imputer, levels):
    """Levels of a column of holes alone: what an imputer fills them with, or none."""
    fill = [_constant(imputer, levels.values)] if imputer.keep_empty_features else []
    if not fill:
        warn_of_skipped(imputer.strategy)
    step = np.ones((len(levels.values), len(fill)))
    counts = levels.counts @ step.astype(np.int64)
    return Levels(np.asarray(fill, dtype=object), counts, [step] * len(counts))


def _constant(imputer, known):
    """What an imputer puts beside some levels, or in place of none."""
    if imputer.strategy == "constant" and imputer.fill_value is not None:
        return imputer.fill_value
    return 0 if known.dtype.kind in "biuf" else "missing_value"


def warn_of_skipped(strategy: str, columns: Sequence[int] = ()) -> None:
    """Warn, as an imputer does, of columns that it leaves out."""
    words = f": {list(columns)}" if columns else ""
    warnings.warn(
        f"Skipping features without any observed values{words}. At least one non-missing value is "
        f"needed for imputation with strategy='{strategy}', and a training set has none.",
        UserWarning,
        stacklevel=2,
    )


def most_frequent(levels: Levels) -> np.ndarray:
    """Which level (S,) most rows of each part have, the smallest of several; missing come last."""
    known = [not is_nan(value) for value in levels.values]
    return levels.counts[:, known].argmax(axis=1)


def with_constant(imputer: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Levels with a constant for missing values, and the positions of `values` among them."""
    missing = np.asarray([is_nan(value) for value in values], dtype=bool)
    if not missing.any():
        return values, np.arange(len(values))
    known = values[~missing]
    fill = _constant(imputer, known)
    found = sorted_set([*known.tolist(), fill])
    place = {value: number for number, value in enumerate(found)}
    given = zip(values.tolist(), missing, strict=True)
    numbers = np.asarray([place[fill if gone else value] for value, gone in given], dtype=np.int64)
    return np.asarray(found, dtype=values.dtype), numbers


def one_hot(
    encoder: Any, levels: Levels, n_rows: Sequence[int], reasons: dict[int, str]
) -> list[np.ndarray]:
    """Matrices (L0, k_s) to the columns that an encoder makes of each training part."""
    found = []
    for s, counts in enumerate(levels.counts):
        seen = np.flatnonzero(counts > 0)
        if len(seen) < len(counts):
            reasons.update(unknown_levels(encoder, s))
        step = np.zeros((len(counts), 0))
        if len(seen):
            groups = None if levels.merged is None else levels.merged[seen] > 0
            rare = rare_levels(encoder, counts[seen], n_rows[s], groups)
            step = _columns(encoder, rare, seen, len(counts))
        found.append(_after(levels.maps[s], step))
    return found


def unknown_levels(encoder: Any, split: int) -> dict[int, str]:
    """Why an encoder refuses levels that a training part lacks, if it does; it may warn of them."""
    if isinstance(encoder, OrdinalEncoder):
        takes = encoder.handle_unknown == "use_encoded_value" and not is_nan(encoder.unknown_value)
        setting = "handle_unknown='use_encoded_value', unknown_value=-1"
    else:
        takes, setting = encoder.handle_unknown != "error", "handle_unknown='ignore'"
        if takes and encoder.drop is not None:
            warnings.warn(
                "Found unknown categories in rows outside of a training set. They are encoded as "
                f"zeros, as is the category that drop={encoder.drop!r} drops, or as infrequent.",
                UserWarning,
                stacklevel=2,
            )
    if takes:
        return {}
    name = type(encoder).__name__
    return {split: f"its training set lacks categories of other rows; set {name}({setting})"}


def _columns(encoder, rare, seen, n_levels):
    """The matrix (L, k) of one training part, of whose levels `seen` these are rare."""
    # Columns are the common levels in order, then one for all rare levels.
    column = np.cumsum(~rare) - 1
    n_common = int((~rare).sum())
    column[rare] = n_common
    n_columns = n_common + bool(rare.any())
    step = np.zeros((n_levels, n_columns))
    step[seen, column] = 1.0
    if encoder.handle_unknown == "infrequent_if_exist" and rare.any():
        unseen = np.setdiff1d(np.arange(n_levels), seen)
        step[unseen, n_common] = 1.0
    first = encoder.drop == "first" or (encoder.drop == "if_binary" and n_columns == 2)
    return step[:, 1:] if first else step


def rare_levels(
    encoder: Any, counts: np.ndarray, n_rows: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """Which levels (L,) of a training part share a column, as scikit-learn chooses them.

    Parameters
    ----------
    encoder : OneHotEncoder
    counts : int array (L,)
        Of levels that the part has.
    n_rows : int
    groups : bool array (L,), optional
        Which are groups of levels that are rare whatever the counts of others are.
    """
    least, most = encoder.min_frequency, encoder.max_categories
    rare = np.zeros(len(counts), dtype=bool) if groups is None else groups.copy()
    if groups is not None:
        counts = np.where(groups, -1, counts)  # below all others, however many they are
    if least is not None:
        whole = isinstance(least, int | np.integer)
        rare |= counts < (least if whole else n_rows * least)
    # As in scikit-learn, the column of rare levels counts even if there are none so far.
    if most is not None and most < len(counts) - rare.sum() + 1:
        if most == 1:
            rare = np.ones(len(counts), dtype=bool)
        else:
            rare[np.argsort(counts, kind="stable")[: 1 - most]] = True
    return rare


def ordinal(encoder: Any, levels: Levels, reasons: dict[int, str]) -> list[np.ndarray]:
    """Matrices (L0, 1) to the numbers that an encoder gives the levels of each training part."""
    found = []
    for s, counts in enumerate(levels.counts):
        seen = counts > 0
        number = np.cumsum(seen) - 1.0
        missing = np.asarray([is_nan(value) for value in levels.values], dtype=bool)
        if not seen.all():
            reasons.update(refused := unknown_levels(encoder, s))
            number[~seen] = np.nan if refused else encoder.unknown_value
        if (missing & seen).any():
            if is_nan(encoder.encoded_missing_value):
                reasons[s] = "an encoder leaves values missing"
            number[missing & seen] = encoder.encoded_missing_value
        found.append(_after(levels.maps[s], number[:, None]))
    return found
