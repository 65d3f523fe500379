"""Means of targets by level, as scikit-learn's `TargetEncoder` makes them of each training part.

A level is encoded by the mean of its targets, drawn to the mean of all by `smooth`; rows that a
model is fitted to by the targets of the other inner folds alone. All of that follows from how many
rows of each inner fold have a level, and from the sums and squares of their targets: encoders that
differ in `smooth` share them.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.preprocessing import TargetEncoder
from sklearn.utils.multiclass import type_of_target

from gpuml.compose._coding import levels_of
from gpuml.compose._layout import Branch, column_of
from gpuml.solvers.level_means import LevelSums


class Codes(np.ndarray):
    """Codes (n, d) of levels, with how many there are of each column."""

    n_levels: list[int]


def codes_of(branch: Branch, X: Any) -> Any:
    """Codes of the levels of X, where its first step only asks which rows have the same; else X."""
    first = branch.head[0] if branch.head else None
    if not isinstance(first, TargetEncoder) or not isinstance(first.categories, str):
        return X
    try:
        found = [levels_of(column_of(X, j)) for j in range(X.shape[1])]
    except ValueError:
        return X  # of several kinds: the encoder says so
    codes = np.stack([codes for codes, _ in found], axis=1).view(Codes)
    codes.n_levels = [len(levels) for _, levels in found]
    return codes


def is_shared(head: tuple[Any, ...]) -> bool:
    """Whether steps are one encoder whose sums others may share."""
    if len(head) != 1 or not isinstance(head[0], TargetEncoder):
        return False
    encoder = head[0]
    given = encoder.shuffle, encoder.random_state
    return isinstance(encoder.categories, str) and given == ("deprecated", "deprecated")


def level_sums(encoder: Any, codes: np.ndarray, y: np.ndarray, n_levels: list[int]) -> Any:
    """What encoders of any `smooth` need to know of a training part; None where theirs says no.

    Parameters
    ----------
    encoder : TargetEncoder
    codes : int array (m, d)
    y : array (m,)
    n_levels : list of d ints
    """
    kind = encoder.target_type
    if kind == "auto":
        kind = type_of_target(y)
    if kind not in ("binary", "multiclass", "continuous") or y.ndim != 1:
        return None
    values = y.astype(np.float64)[:, None] if kind == "continuous" else _indicators(y, kind)
    cv = check_cv(encoder.cv, y, classifier=kind != "continuous", shuffle=True)
    fold, seen = np.full(len(y), -1), np.zeros(len(y), dtype=int)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for number, (_, rows) in enumerate(cv.split(codes, y)):
            fold[rows] = number
            seen[rows] += 1
    if said or not (seen == 1).all():
        return None
    n_folds = int(fold.max()) + 1
    mean = values.mean(axis=0)
    about = (values - mean).T  # (c, m)
    powers = np.stack([about, about**2], axis=1)  # (c, 2, m)
    n_rows = np.bincount(fold, minlength=n_folds)
    of_fold = _sums(fold, n_folds, powers).transpose(2, 1, 0)  # (F, 2, c)
    counts, sums, squares = [], [], []
    for j, levels in enumerate(n_levels):
        slots, size = fold * levels + codes[:, j], n_folds * levels
        counts.append(np.bincount(slots, minlength=size).reshape(n_folds, levels))
        found = _sums(slots, size, powers).reshape(len(about), 2, n_folds, levels)
        sums.append(found[:, 0].transpose(1, 0, 2))
        squares.append(found[:, 1].transpose(1, 0, 2))
    return LevelSums(fold, mean, n_rows, of_fold, counts, sums, squares)


def _indicators(y, kind):
    """Targets (m, c) of each class, or of the second of two."""
    classes = np.unique(y)
    chosen = classes[1:] if kind == "binary" else classes
    return (y[:, None] == chosen).astype(np.float64)


def _sums(slots, size, powers):
    """Sums (c, 2, size) of numbers (c, 2, m) by slot."""
    return np.stack([np.stack([np.bincount(slots, w, size) for w in own]) for own in powers])


def encoded(encoder: Any, sums: LevelSums, codes: np.ndarray, train: np.ndarray) -> np.ndarray:
    """What an encoder makes of rows, (n, d c): of those of `train` across their inner folds.

    Parameters
    ----------
    encoder : TargetEncoder
    sums : LevelSums
        Of the rows `train`.
    codes : int array (n, d)
    train : int array (m,)
    """
    columns = []
    for j, (inner, whole) in enumerate(zip(*sums.encodings(encoder.smooth), strict=True)):
        own = codes[:, j]
        for c in range(len(whole)):
            column = whole[c, own]
            column[train] = inner[sums.fold, c, own[train]]
            columns.append(column)
    return np.stack(columns, axis=1)
