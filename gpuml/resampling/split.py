"""From splitters to the rows of their splits."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.model_selection import (
    KFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import check_consistent_length, check_random_state

from gpuml._arrays import (
    Array,
    as_array,
    device_of,
    is_array,
    is_foreign,
    is_numpy,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.labels import are_labels, encode
from gpuml._inputs.nulls import refuse_missing_labels
from gpuml.data import (
    AnySplit,
    FoldLabels,
    Rows,
    Split,
)

# Index arrays with at most so many gaps become runs of consecutive rows.
MAX_RUNS = 4
FIRST_ROWS = 1000


def check_splitter(cv: Any, y: Any, *, classifier: bool) -> Any:
    """The splitter that scikit-learn takes for `cv`, without a copy of labels to CPU memory.

    Parameters
    ----------
    cv : int, splitter, iterable or None
    y : array-like
    classifier : bool
        Whether None and numbers ask for stratified folds where y holds labels.
    """
    if not classifier:
        return check_cv(cv)
    refuse_missing_labels(y)
    if _are_labels(y):
        # Integers are labels whatever their values.
        return check_cv(cv, np.asarray([0, 1]), classifier=True)
    return check_cv(cv, to_host(y) if is_foreign(y) else y, classifier=True)


def _are_labels(y):
    """Whether y certainly holds labels; it may stand for an array elsewhere."""
    if is_array(y):
        return y.ndim == 1 and are_labels(y)
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    return kind in ("i", "u", "b", "U") and getattr(y, "ndim", 0) == 1


def split_rows(cv: Any, X: Any, y: Any, n_rows: int, **params: Any) -> Sequence[AnySplit]:
    """Splits of a scikit-learn splitter.

    Parameters
    ----------
    cv : splitter
        With ``split(X, y, **params)``.
    X, y : array-like
    n_rows : int
    **params
        Such as groups, which splitters get in CPU memory.

    Returns
    -------
    splits : sequence of splits
        Without any index array where the splitter takes neighbouring rows.
    """
    params = {name: to_host(v) if is_foreign(v) else v for name, v in params.items()}
    given = any(value is not None for value in params.values())
    if type(cv) is KFold and not cv.shuffle and n_rows >= cv.n_splits:
        if given:
            check_consistent_length(range(n_rows), *params.values())
            cv.split(X, y, **params)  # only warns of what it ignores
        return _neighbouring_folds(cv.n_splits, n_rows)
    labels = None if given else _labels_of(cv, y, n_rows)
    if labels is not None:
        return [split for each in labels for split in each.splits()]
    if looks_at_labels(cv):
        y = to_host(y) if is_foreign(y) else y
    return [
        Split(as_rows(train, n_rows), as_rows(test, n_rows))
        for train, test in cv.split(X, y, **params)
    ]


def check_splits(splits: Sequence[AnySplit]) -> None:
    """Raise a ValueError if there are none, or one without rows to train on or rows to score."""
    if not splits:
        raise ValueError("No fits were performed, since the splitter of cv gave no splits.")
    for index, split in enumerate(splits):
        for part, size in (("training", split.n_train), ("held-out", split.n_test)):
            if size == 0:
                raise ValueError(
                    f"Found array with 0 sample(s), the {part} part of split {index} of cv, while "
                    "a minimum of 1 is required."
                )


def as_rows(indices: Any, n_rows: int) -> Rows:
    """Rows that a splitter named by indices or a mask: as runs of neighbours if there are few."""
    indices = to_host(indices) if is_foreign(indices) else np.asarray(indices)
    if indices.dtype == bool:
        if indices.shape != (n_rows,):
            raise IndexError(
                f"A split that is a mask must have one value for each of the {n_rows} rows of X, "
                f"got shape {indices.shape}."
            )
        indices = np.flatnonzero(indices)
    if indices.size == 0:
        return slice(0, 0)
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise ValueError(
            "A split must be a pair of 1-D integer index arrays (or masks), got an array of dtype "
            f"{indices.dtype} and shape {indices.shape}."
        )
    least = indices.min()
    if least < -n_rows or indices.max() >= n_rows:
        raise IndexError(f"A split names rows outside the {n_rows} rows of X.")
    indices = np.where(indices < 0, indices + n_rows, indices) if least < 0 else indices
    for some in (indices[:FIRST_ROWS], indices):  # most that are no runs show it at once
        gaps = np.flatnonzero(np.diff(some) != 1)
        if len(gaps) >= MAX_RUNS:
            return indices
    starts = [0, *(gaps + 1).tolist()]
    stops = [*(gaps + 1).tolist(), len(indices)]
    runs = tuple(
        slice(int(indices[i]), int(indices[j - 1]) + 1) for i, j in zip(starts, stops, strict=True)
    )
    return runs[0] if len(runs) == 1 else runs


def _neighbouring_folds(n_splits, n_rows):
    ends = np.cumsum(_fold_sizes(n_splits, n_rows)).tolist()
    splits = []
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        runs = tuple(s for s in (slice(0, start), slice(stop, n_rows)) if s.stop > s.start)
        splits.append(Split(runs[0] if len(runs) == 1 else runs, slice(start, stop)))
    return splits


def _labels_of(cv: Any, y: Any, n_rows: int) -> list[FoldLabels] | None:
    """Labels of folds of each repeat, with scikit-learn's draws; None for splitters without.

    So no split has index arrays, and of each fold the rows are looked up where they are.
    """
    repeats = [cv]
    if type(cv) in (RepeatedKFold, RepeatedStratifiedKFold):
        random = check_random_state(cv.random_state)
        shuffled = {"shuffle": True, "random_state": random, **cv.cvargs}
        repeats = [cv.cv(**shuffled) for _ in range(cv.n_repeats)]
    n_splits = getattr(repeats[0], "n_splits", n_rows + 1)
    if type(repeats[0]) is StratifiedKFold:
        deal = _stratified_deal(n_splits, y)
        return None if deal is None else [_dealt_labels(*deal, each) for each in repeats]
    if type(repeats[0]) is KFold and repeats[0].shuffle and n_splits <= n_rows:
        return [_shuffled_labels(each, n_rows) for each in repeats]
    return None


def _shuffled_labels(cv, n_rows):
    rows = np.arange(n_rows)
    check_random_state(cv.random_state).shuffle(rows)
    counts = _fold_sizes(cv.n_splits, n_rows)
    folds = np.empty(n_rows, dtype=_dtype_of(cv))
    folds[rows] = np.arange(cv.n_splits, dtype=folds.dtype).repeat(counts)
    return FoldLabels(folds, counts)


def _dtype_of(cv):
    """Of numbers of folds: of those that all array libraries have."""
    return np.uint8 if cv.n_splits < 2**8 else np.int32


def _fold_sizes(n_splits, n_rows):
    sizes = np.full(n_splits, n_rows // n_splits)
    sizes[: n_rows % n_splits] += 1
    return sizes


def _stratified_deal(n_splits: int, y: Any) -> tuple[Array, list[Array], np.ndarray] | None:
    """Codes of labels, rows of each class in the order in which they appear, how many go to a fold.

    None where scikit-learn has something to say: about rare classes, or labels that may be none.
    """
    y = as_array(y)
    y = y if is_array(y) else np.asarray(y)
    if y.ndim != 1 or not are_labels(y):
        return None
    if place_of(y).kind == "array_api_strict":
        y = to_host(y)  # the standard has no assignment to rows named by indices
    found = encode(y)
    if found.n_classes == 0 or found.counts.min() < n_splits:
        return None
    rows_of_class = rows_by_class(found.codes, found.n_classes, found.counts)
    first = namespace(found.codes).stack([rows[0, ...] for rows in rows_of_class])
    order = np.argsort(to_host(first))
    return found.codes, [rows_of_class[c] for c in order], dealt_rows(found.counts[order], n_splits)


def _dealt_labels(codes, rows_of_class, dealt, cv):
    """Rows of each class go to folds in their order, or shuffled as scikit-learn does."""
    counts = dealt.sum(axis=0)
    if not cv.shuffle:
        return FoldLabels(dealt_folds(codes, rows_of_class, dealt.cumsum(axis=1)), counts)
    random = check_random_state(cv.random_state)
    folds = np.empty(codes.shape[0], dtype=_dtype_of(cv))
    for rows, per_fold in zip(rows_of_class, dealt, strict=True):
        of_class = np.arange(cv.n_splits).repeat(per_fold)
        random.shuffle(of_class)
        folds[to_host(rows)] = of_class
    return FoldLabels(folds, counts)


def rows_by_class(codes: Array, n_classes: int, counts: np.ndarray | None = None) -> list[Array]:
    """Rows of each class, in their order; `counts` says how many there are, if that is known."""
    xp = namespace(codes)
    if is_numpy(codes):
        return [np.flatnonzero(codes == c) for c in range(n_classes)]
    # Sorted at once: finding those of one class waits for the device.
    if counts is None:
        every = xp.arange(n_classes, dtype=codes.dtype, device=device_of(codes))
        own = xp.astype(codes[None, :] == every[:, None], xp.int64)
        counts = to_host(xp.sum(own, axis=1))
    order = xp.argsort(codes, stable=True)
    ends = np.cumsum(counts).tolist()
    return [order[start:stop] for start, stop in pairwise([0, *ends])]


def dealt_folds(codes: Array, rows_of_class: Sequence[Array], ends: np.ndarray) -> Array:
    """The fold of each row; rows of class c up to number ``ends[c, f]`` are in the folds up to f.

    Not of arrays whose library has no assignment to rows named by indices.
    """
    xp = namespace(codes)
    folds = xp.zeros_like(codes, dtype=xp.int32)
    if not is_numpy(codes):
        n_rows, n_splits = codes.shape[0], ends.shape[1]
        before = np.cumsum(ends[:, -1]) - ends[:, -1]
        bounds = move((ends + before[:, None]).reshape(-1), place_of(codes))
        number = xp.arange(n_rows, dtype=bounds.dtype, device=device_of(codes))
        dealt = xp.searchsorted(bounds, number, side="right") % n_splits
        folds[xp.concat(rows_of_class)] = xp.astype(dealt, xp.int32)
        return folds
    for rows, ends_of_class in zip(rows_of_class, ends.tolist(), strict=True):
        for fold, (start, stop) in enumerate(pairwise(ends_of_class), 1):
            folds[rows[start:stop]] = fold
    return folds


def dealt_rows(counts: np.ndarray, n_splits: int) -> np.ndarray:
    """How many rows of each class each fold gets where sorted rows are dealt out one by one."""
    ends = np.cumsum(counts)
    fold = np.arange(n_splits)

    def dealt_before(end):
        return (end - fold + n_splits - 1) // n_splits

    return np.stack(
        [dealt_before(b) - dealt_before(a) for a, b in zip(ends - counts, ends, strict=True)]
    )


def looks_at_labels(cv: Any) -> bool:
    """Whether a splitter may read y: stratified ones do, and those we do not know."""
    return not is_theirs(cv) or "Stratified" in type(cv).__name__


def is_theirs(cv: Any) -> bool:
    """Whether a splitter is one of scikit-learn's, which ask of X how many rows it has."""
    return type(cv).__module__.startswith("sklearn.model_selection")
