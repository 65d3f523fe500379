"""From splitters to rows, and from rows to atoms that every split treats alike."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import check_consistent_length

from gpuml._arrays import (
    Array,
    as_array,
    is_array,
    is_foreign,
    namespace,
    nbytes,
    place_of,
    to_host,
)
from gpuml._arrays.labels import encode, is_labels
from gpuml.data import (
    AnySplit,
    Batch,
    FoldLabels,
    Folds,
    LabelledSplit,
    Partition,
    Rows,
    Split,
    count_rows,
    row_indices,
    shared_labels,
)

# Index arrays with at most so many gaps are kept as runs of neighbouring rows.
MAX_RUNS = 4
# Reading an atom costs a few calls whatever its length, and its moments take memory; beyond these
# bounds, rows are rather read once more for the next run of splits.
MAX_ATOMS = 1024
FEW_ATOMS = 32
MIN_MOMENT_BYTES = 2**26


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
    if _are_labels(y):
        # Integers are labels whatever their values.
        return check_cv(cv, np.asarray([0, 1]), classifier=True)
    return check_cv(cv, to_host(y) if is_foreign(y) else y, classifier=True)


def _are_labels(y):
    """Whether y holds labels without doubt; it may stand for an array that is elsewhere."""
    if is_array(y):
        return y.ndim == 1 and is_labels(y)
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    return kind in ("i", "u", "b", "U") and getattr(y, "ndim", 0) == 1


def folds_of(cv: Any, batch: Batch, X: Any, y: Any, *, classifier: bool = False) -> Folds:
    """The splits that a `cv` parameter asks for.

    Raises
    ------
    ValueError
        If there are none, or one without rows to train on or rows to score.
    """
    splitter = check_splitter(cv, y, classifier=classifier)
    folds = make_folds(batch, split_rows(splitter, X, y, batch.n_rows))
    if folds.n_splits == 0:
        raise ValueError("No fits were performed, since the splitter of cv gave no splits.")
    for index, split in enumerate(folds.splits):
        for part, size in (("training", split.n_train), ("held-out", split.n_test)):
            if size == 0:
                raise ValueError(
                    f"Found array with 0 sample(s), the {part} part of split {index} of cv, while "
                    "a minimum of 1 is required."
                )
    return folds


def split_rows(cv: Any, X: Any, y: Any, n_rows: int, **params: Any) -> Sequence[AnySplit]:
    """Splits of a scikit-learn splitter.

    Parameters
    ----------
    cv : splitter
        With ``split(X, y, **params)``.
    X, y : array-like
    n_rows : int
    **params
        Such as groups.

    Returns
    -------
    splits : sequence of splits
        Without any index array where the splitter takes neighbouring rows.
    """
    if type(cv) is KFold and not cv.shuffle and n_rows >= cv.n_splits:
        check_consistent_length(range(n_rows), *params.values())
        return _neighbouring_folds(cv.n_splits, n_rows)
    given = [value is not None for value in params.values()]
    if type(cv) is StratifiedKFold and not cv.shuffle and not any(given):
        labels = _stratified_labels(cv.n_splits, y)
        if labels is not None:
            return labels.splits()
    if looks_at_labels(cv):
        y = to_host(y) if is_foreign(y) else y
    return [
        Split(as_rows(train, n_rows), as_rows(test, n_rows))
        for train, test in cv.split(X, y, **params)
    ]


def as_rows(indices: Any, n_rows: int) -> Rows:
    """Rows that a splitter named by indices or a mask: as runs of neighbours if there are few."""
    indices = to_host(indices) if is_foreign(indices) else np.asarray(indices)
    if indices.dtype == bool:
        indices = np.flatnonzero(indices)
    if indices.size == 0:
        return slice(0, 0)
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise ValueError(
            "A split must be a pair of 1-D integer index arrays (or masks), got an array of dtype "
            f"{indices.dtype} and shape {indices.shape}."
        )
    if indices.min() < -n_rows or indices.max() >= n_rows:
        raise IndexError(f"A split names rows outside the {n_rows} rows of X.")
    indices = np.where(indices < 0, indices + n_rows, indices) if indices.min() < 0 else indices
    gaps = np.flatnonzero(np.diff(indices) != 1)
    if len(gaps) >= MAX_RUNS:
        return indices
    starts = [0, *(gaps + 1).tolist()]
    stops = [*(gaps + 1).tolist(), len(indices)]
    runs = tuple(
        slice(int(indices[i]), int(indices[j - 1]) + 1) for i, j in zip(starts, stops, strict=True)
    )
    return runs[0] if len(runs) == 1 else runs


def make_folds(batch: Batch, splits: Iterable[AnySplit]) -> Folds:
    """Cut the rows into atoms, in as few partitions as keep the number of atoms small."""
    return Folds(batch, tuple(splits), _divide_rows)


def _divide_rows(batch, splits):
    q = batch.n_features + batch.y.shape[1] + 1
    budget = max(MIN_MOMENT_BYTES, nbytes(batch.X) // 4)
    most = min(MAX_ATOMS, max(FEW_ATOMS, batch.n_rows // (2 * q)), budget // (8 * q * q))
    labels = shared_labels(splits)
    if labels is not None and len(labels.counts) <= max(most, 3):
        labelled = [split for split in splits if isinstance(split, LabelledSplit)]
        # One split may stand for another: all folds are atoms, whatever split holds them out.
        own = {split.fold: split for split in [*labels.splits(), *labelled]}
        held_out = np.eye(len(own), dtype=int)[[split.fold for split in labelled]]
        return (Partition(0, tuple(each.test for each in own.values()), 1 - held_out, held_out),)
    plain = [Split(*map(_on_host, (split.train, split.test))) for split in splits]
    return tuple(_partitions(plain, batch.n_rows, most))


def _on_host(rows):
    return rows if isinstance(rows, slice | tuple) else row_indices(rows)


def _neighbouring_folds(n_splits, n_rows):
    sizes = np.full(n_splits, n_rows // n_splits)
    sizes[: n_rows % n_splits] += 1
    ends = np.cumsum(sizes).tolist()
    splits = []
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        runs = tuple(s for s in (slice(0, start), slice(stop, n_rows)) if s.stop > s.start)
        splits.append(Split(runs[0] if len(runs) == 1 else runs, slice(start, stop)))
    return splits


def _stratified_labels(n_splits: int, y: Any) -> FoldLabels | None:
    """Folds that scikit-learn's StratifiedKFold gives without shuffling, made where the labels are.

    Rows of each class are dealt out in their order. None where scikit-learn has something to say:
    about rare classes, or labels that may be none.
    """
    y = as_array(y)
    y = y if is_array(y) else np.asarray(y)
    if y.ndim != 1 or not is_labels(y):
        return None
    if place_of(y).kind == "array_api_strict":
        y = to_host(y)  # the standard has no assignment to rows named by indices
    found = encode(y)
    if found.n_classes == 0 or found.counts.min() < n_splits:
        return None
    rows_of_class = rows_by_class(found.codes, found.n_classes)
    # Classes take turns in the order in which they first appear.
    order = np.argsort([int(rows[0]) for rows in rows_of_class])
    dealt = np.empty((found.n_classes, n_splits), dtype=np.int64)
    dealt[order] = dealt_rows(found.counts[order], n_splits)
    folds = dealt_folds(found.codes, rows_of_class, dealt.cumsum(axis=1))
    return FoldLabels(folds, dealt.sum(axis=0))


def rows_by_class(codes: Array, n_classes: int) -> list[Array]:
    """Rows of each class, in their order."""
    return [namespace(codes).nonzero(codes == c)[0] for c in range(n_classes)]


def dealt_folds(codes: Array, rows_of_class: Sequence[Array], ends: np.ndarray) -> Array:
    """The fold of each row; rows of class c up to number ``ends[c, f]`` are in the folds up to f.

    Not of arrays whose library has no assignment to rows named by indices.
    """
    xp = namespace(codes)
    folds = xp.zeros_like(codes, dtype=xp.int32)
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


def _partitions(splits, n_rows, most):
    """Greedy: a split joins the current partition unless that would make too many atoms."""
    first = 0
    while first < len(splits):
        cuts = _run_bounds(splits[first:], n_rows)
        if cuts is not None and len(cuts) - 1 <= max(most, 3):
            # Neighbouring rows everywhere: atoms are the runs between the cuts.
            atoms: list[Rows] = [slice(a, b) for a, b in pairwise(cuts)]
            yield _partition(splits[first:], first, atoms, np.asarray(cuts[:-1]))
            return
        labels, last = _divide(np.zeros(n_rows, dtype=np.int64), splits[first]), first + 1
        while last < len(splits):
            finer = _divide(labels, splits[last])
            if finer.max() >= max(most, 3):
                break
            labels, last = finer, last + 1
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
        atoms = [as_rows(rows, n_rows) for rows in np.split(order, starts[1:])]
        yield _partition(splits[first:last], first, atoms, order[starts])
        first = last


def _run_bounds(splits, n_rows):
    """Sorted ends of all runs, or None where some part is not made of runs."""
    cuts = {0, n_rows}
    for split in splits:
        for part in (split.train, split.test):
            if isinstance(part, np.ndarray):
                return None
            for run in (part,) if isinstance(part, slice) else part:
                cuts.update((run.start, run.stop))
    return sorted(cuts)


def _divide(labels, split):
    """Finer labels 0, 1, ...: rows keep a common one only where the split treats them alike."""
    train, test = _counts(split.train, len(labels)), _counts(split.test, len(labels))
    base = int(test.max()) + 1
    codes = (labels * (int(train.max()) + 1) + train) * base + test
    used = np.bincount(codes) > 0
    return (np.cumsum(used) - 1)[codes]


def _counts(rows, n_rows):
    """How often each row occurs."""
    counts = np.zeros(n_rows, dtype=np.int64)
    if isinstance(rows, np.ndarray):
        return np.bincount(rows, minlength=n_rows)
    for run in (rows,) if isinstance(rows, slice) else rows:
        counts[run] += 1
    return counts


def _partition(splits, first, atoms, a_row_of_each):
    """Counts of each atom in each part, read off one of its rows."""
    n_rows = sum(count_rows(atom) for atom in atoms)
    train, test = (
        np.stack([_counts_at(getattr(split, part), a_row_of_each, n_rows) for split in splits])
        for part in ("train", "test")
    )
    return Partition(first, tuple(atoms), train, test)


def _counts_at(rows, places, n_rows):
    if isinstance(rows, np.ndarray):
        return np.bincount(rows, minlength=n_rows)[places]
    runs = (rows,) if isinstance(rows, slice) else rows
    return sum(((places >= run.start) & (places < run.stop)).astype(np.int64) for run in runs)


def looks_at_labels(cv: Any) -> bool:
    """Whether a splitter may read y: stratified ones do, and those we do not know."""
    theirs = type(cv).__module__.startswith("sklearn.model_selection")
    return not theirs or "Stratified" in type(cv).__name__
