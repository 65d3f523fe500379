"""Means of targets by level, as scikit-learn's `TargetEncoder` makes them of each training part.

A level is encoded by the mean of its targets, drawn to the mean of all by `smooth`; rows that a
model is fitted to by the targets of the other inner folds alone. All of that follows from how many
rows of each inner fold have a level, and from the sums and squares of their targets: encoders that
differ in `smooth` share them.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.preprocessing import TargetEncoder
from sklearn.utils.multiclass import type_of_target

from gpuml._arrays import Array, Place, is_numpy, move, namespace, place_of, to_host
from gpuml.compose._coding import levels_of
from gpuml.compose._layout import Branch, column_at, column_of
from gpuml.designs import Coded
from gpuml.solvers.level_means import LevelSums


class Codes(np.ndarray):
    """Codes (n, d) of levels, with how many there are of each column."""

    n_levels: list[int]


def codes_of(branch: Branch, X: Any) -> Any:
    """Codes of the levels of X if its first step only compares levels; else X."""
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


def codes_at(branch: Branch, X: Any, place: Place) -> tuple[list[Array], list[int]]:
    """Codes (n,) of the levels of each column on a device, and how many there are."""
    found = [levels_of(column_at(X, j, place), place) for j in branch.columns]
    return [codes for codes, _ in found], [len(levels) for _, levels in found]


def is_shared(head: tuple[Any, ...]) -> bool:
    """Whether steps are one encoder whose sums others may share."""
    if len(head) != 1 or not isinstance(head[0], TargetEncoder):
        return False
    encoder = head[0]
    given = encoder.shuffle, encoder.random_state
    return isinstance(encoder.categories, str) and given == ("deprecated", "deprecated")


def kind_of_target(encoder: Any, y: np.ndarray) -> str:
    """What targets are to an encoder."""
    return type_of_target(y) if encoder.target_type == "auto" else encoder.target_type


def level_sums(encoder: Any, codes: Sequence[Array], y: np.ndarray, n_levels: list[int]) -> Any:
    """The sums that encoders with any `smooth` need of a training set; None for unusual targets.

    Parameters
    ----------
    encoder : TargetEncoder
    codes : sequence of d int arrays (m,)
    y : array (m,)
    n_levels : list of d ints
    """
    kind = kind_of_target(encoder, y)
    if kind not in ("binary", "multiclass", "continuous") or y.ndim != 1:
        return None
    values = y.astype(np.float64)[:, None] if kind == "continuous" else _indicators(y, kind)
    cv = check_cv(encoder.cv, y, classifier=kind != "continuous", shuffle=True)
    fold, seen = np.full(len(y), -1), np.zeros(len(y), dtype=int)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for number, (_, rows) in enumerate(cv.split(np.zeros((len(y), 1)), y)):
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
    place = place_of(codes[0])
    there, powers = move(fold, place), move(powers, place)
    for own, levels in zip(codes, n_levels, strict=True):
        slots, size = there * levels + own, n_folds * levels
        ones = namespace(powers).ones_like(powers[:1, :1, :])
        counts.append(np.rint(_sums(slots, size, ones)).astype(int).reshape(n_folds, levels))
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
    """Sums (c, 2, size) of numbers (c, 2, m) by slot, in CPU memory."""
    if is_numpy(slots):
        return np.stack([np.stack([np.bincount(slots, w, size) for w in own]) for own in powers])
    xp, (c, k, m) = namespace(powers), powers.shape
    found = Coded((slots,), (size,), xp.float64).sums(xp.reshape(powers, (c * k, m)))
    return to_host(found).reshape(c, k, size)


def encoded(
    encoder: Any, sums: LevelSums, codes: Sequence[Array], train: np.ndarray
) -> list[Array]:
    """An encoder's output, columns (n,); rows in `train` are cross-fitted over inner folds.

    Parameters
    ----------
    encoder : TargetEncoder
    sums : LevelSums
        Of the rows `train`.
    codes : sequence of d int arrays (n,)
    train : int array (m,)
    """
    n_folds, place = len(sums.n_rows), place_of(codes[0])
    fold = np.full(codes[0].shape[0], n_folds)  # the last table is that of other rows
    fold[train] = sums.fold
    fold, xp = move(fold, place), place.xp
    columns = []
    for own, inner, whole in zip(codes, *sums.encodings(encoder.smooth), strict=True):
        tables = np.concatenate([inner, whole[None]])  # (F + 1, c, L)
        slots = fold * tables.shape[2] + own
        for c in range(len(whole)):
            table = move(np.ascontiguousarray(tables[:, c]).ravel(), place)
            columns.append(xp.take(table, slots, axis=0))
    return columns


def learned_of(encoder: Any, sums: LevelSums, y: np.ndarray) -> dict[str, Any]:
    """Fitted attributes of an encoder, without those that a few rows determine."""
    whole = sums.whole(encoder.smooth)
    is_one = kind_of_target(encoder, y) != "multiclass"
    return {
        "encodings_": [each for own in whole for each in own],
        "target_mean_": sums.mean[0] if is_one else sums.mean,
    }
