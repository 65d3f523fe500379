"""From splits to atoms: rows that every split of a run treats alike."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from gpuml._arrays import (
    HOST,
    Array,
    is_foreign,
    is_numpy,
    move,
    namespace,
    nbytes,
    place_of,
    to_host,
)
from gpuml.data import AnySplit, Batch, FoldLabels, Folds, LabelledSplit, Partition, Rows
from gpuml.resampling.split import as_rows, check_splitter, split_rows

# Reading an atom costs a few calls whatever its length, and its moments take memory; beyond these
# bounds, rows are rather read once more for the next run of splits.
MAX_ATOMS = 1024
FEW_ATOMS = 32
MIN_MOMENT_BYTES = 2**26
# Splits of different repeats intersect, so one pass less costs many more atoms. At most so many
# pay: a pass has calls of its own, and reads these bytes in the time of one atom.
PASS_ATOMS = 16
ATOM_BYTES = {"cpu": 2**19, "gpu": 2**26}
# Libraries whose arrays are counted and sorted on their device.
COUNTING = ("cupy", "torch")


def folds_of(cv: Any, batch: Batch, X: Any, y: Any, *, classifier: bool = False) -> Folds:
    """The splits of a `cv` parameter.

    Raises
    ------
    ValueError
        If there are none, or one without rows to train on or rows to score.
    """
    splitter = check_splitter(cv, y, classifier=classifier)
    folds = make_folds(batch, split_rows(splitter, X, y, batch.n_rows))
    refuse_no_splits(folds)
    for index, split in enumerate(folds.splits):
        for part, size in (("training", split.n_train), ("held-out", split.n_test)):
            if size == 0:
                raise ValueError(
                    f"Found array with 0 sample(s), the {part} part of split {index} of cv, while "
                    "a minimum of 1 is required."
                )
    return folds


def refuse_no_splits(folds: Folds) -> None:
    """Raise scikit-learn's ValueError if there are no splits."""
    if folds.n_splits == 0:
        raise ValueError("No fits were performed, since the splitter of cv gave no splits.")


def make_folds(batch: Batch, splits: Iterable[AnySplit]) -> Folds:
    """Splits of a batch; atoms are found on first use.

    Labels of folds go to where the rows are, so that the rows of a fold are looked up there.
    """
    return Folds(batch, tuple(_labels_at(splits, _counting_place(batch))), _divide_rows)


def _counting_place(batch):
    """Where the rows are, if labels can be counted and sorted there; else CPU memory."""
    place = HOST if batch.is_divided else place_of(batch.X)
    return place if place.kind in COUNTING else HOST


def _labels_at(splits, place):
    """The same splits, labels of folds at a place that can look rows up."""
    for labels, run in _runs_of_labels(splits):
        if labels is None or place_of(labels.folds) == place:
            yield from run
        else:
            there = FoldLabels(move(labels.folds, place), labels.counts)
            yield from (replace(split, labels=there) for split in run)


def _runs_of_labels(
    splits: Iterable[AnySplit],
) -> Iterator[tuple[FoldLabels | None, list[Any]]]:
    """Neighbouring splits with labels in common; others one by one."""
    for _, run in groupby(splits, lambda s: id(s.labels if isinstance(s, LabelledSplit) else s)):
        members = list(run)
        first = members[0]
        yield (first.labels if isinstance(first, LabelledSplit) else None), members


# ---------------------------------------------------------------- atoms


@dataclass(frozen=True)
class _Coded:
    """Splits with a code for each row (n,): rows of a code are treated alike.

    `train` and `test` (S, k) say how often rows of each code are in each part.
    """

    codes: Array
    train: np.ndarray
    test: np.ndarray

    @property
    def n_codes(self) -> int:
        return self.train.shape[1]


def _divide_rows(batch, splits):
    q = batch.n_features + batch.y.shape[1] + 1
    budget = max(MIN_MOMENT_BYTES, nbytes(batch.X) // 4)
    most = min(MAX_ATOMS, max(FEW_ATOMS, batch.n_rows // (2 * q)), budget // (8 * q * q))
    most = max(most, 3)
    cuts = _run_bounds(splits, batch.n_rows)
    if cuts is not None and len(cuts) - 1 <= most:
        return (_of_runs(splits, cuts),)
    worth = PASS_ATOMS + nbytes(batch.X) // ATOM_BYTES["cpu" if batch.work.is_host else "gpu"]
    return tuple(_partitions(splits, _counting_place(batch), batch.n_rows, most, worth))


def _partitions(splits, place, n_rows, most, worth):
    """Greedy: splits join the current partition unless that would make too many atoms.

    At most `most`, and at most `worth` more of them than both have by themselves.
    """
    first, current = 0, None
    for labels, run in _runs_of_labels(splits):
        if labels is None:
            found = (_counted(split, place, n_rows) for split in run)
        else:
            found = _labelled(labels, run, place, most)
        for coded in found:
            if current is None:
                current = coded
                continue
            both = _crossed(current, coded)
            if both.n_codes <= min(most, current.n_codes + coded.n_codes + worth):
                current = both
                continue
            yield _partition(current, first)
            first, current = first + len(current.train), coded
    yield _partition(current, first)


def _labelled(labels, run, place, most):
    """Splits that hold out folds of labels, no more of them at once than atoms allow."""
    n_folds = len(labels.counts)
    # Rows that all train on are an atom more, and so are those that are in neither part.
    spare = 1 + any(split.unused is not None for split in run)
    step = len(run) if n_folds <= most else most - spare
    for start in range(0, len(run), step):
        some = run[start : start + step]
        held_out, unused = ([getattr(split, n) for split in some] for n in ("fold", "unused"))
        codes, number = labels.folds, np.arange(n_folds)
        if n_folds > most:
            # Folds that are in all of these training parts are one atom.
            own = np.unique([fold for fold in held_out + unused if fold is not None])
            number = np.zeros(n_folds, dtype=np.int64)
            number[own] = np.arange(1, len(own) + 1)
            numbers = place.xp.astype(codes, place.xp.int64, copy=False)
            codes = place.xp.take(move(number, place), numbers, axis=0)
        test = np.eye(int(number.max()) + 1, dtype=int)[number[held_out]]
        train = 1 - test
        for row, fold in zip(train, unused, strict=True):
            if fold is not None:
                row[number[fold]] = 0
        yield _Coded(codes, train, test)


def _counted(split, place, n_rows):
    """Codes of a split given by row numbers; without repeats, `place` gets one byte per row."""
    side = _sides(split, n_rows)
    if side is not None:
        _, train, test = np.eye(3, dtype=int)[:, None, :]
        if split.n_train + split.n_test == n_rows:
            return _Coded(move(side - np.uint8(1), place), train[:, 1:], test[:, 1:])
        return _compact(_Coded(move(side, place), train, test))
    train, test = (_counts(rows, place, n_rows) for rows in (split.train, split.test))
    base = int(place.xp.max(test)) + 1
    numbers = np.arange((int(place.xp.max(train)) + 1) * base)
    return _compact(
        _Coded(train * base + test, (numbers // base)[None, :], (numbers % base)[None, :])
    )


def _sides(split, n_rows):
    """0, 1, 2 for rows of no part, to train on, held out; None if some row is named twice.

    None as well where the rows are named on a device: they are counted there.
    """
    if is_foreign(split.train) or is_foreign(split.test):
        return None
    side = np.zeros(n_rows, dtype=np.uint8)
    for number, part in enumerate((split.train, split.test), start=1):
        for rows in part if isinstance(part, tuple) else (part,):
            side[rows] = number
    return side if np.count_nonzero(side) == split.n_train + split.n_test else None


def _counts(rows, place, n_rows):
    """How often each row occurs."""
    if not isinstance(rows, slice | tuple):
        return place.xp.bincount(move(rows, place), minlength=n_rows)
    counts = np.zeros(n_rows, dtype=np.int64)
    for run in (rows,) if isinstance(rows, slice) else rows:
        counts[run] += 1
    return move(counts, place)


def _crossed(one, other):
    """Codes of pairs of codes: rows share one only where both treat them alike."""
    xp = namespace(one.codes)
    n_pairs = one.n_codes * other.n_codes
    wide = xp.int16 if n_pairs < 2**15 else xp.int64
    pairs = xp.astype(one.codes, wide) * other.n_codes + xp.astype(other.codes, wide, copy=False)
    codes, used = _renumbered(pairs, n_pairs)
    left, right = used // other.n_codes, used % other.n_codes
    train = np.concatenate([one.train[:, left], other.train[:, right]])
    test = np.concatenate([one.test[:, left], other.test[:, right]])
    return _Coded(codes, train, test)


def _compact(coded):
    """The same with codes 0, 1, ... that all have rows."""
    codes, used = _renumbered(coded.codes, coded.n_codes)
    return _Coded(codes, coded.train[:, used], coded.test[:, used])


def _renumbered(codes, n_codes):
    """Codes that leave none out, and what the number of each was."""
    xp = namespace(codes)
    has_rows = to_host(xp.bincount(codes, minlength=n_codes)) > 0
    if not has_rows.all():
        number = move(np.cumsum(has_rows) - 1, place_of(codes))
        codes = xp.take(number, xp.astype(codes, xp.int64, copy=False), axis=0)
    return codes, np.flatnonzero(has_rows)


def _partition(coded, first):
    """Rows of each code, in their order."""
    coded = _compact(coded)
    codes, xp = coded.codes, namespace(coded.codes)
    ends = np.cumsum(to_host(xp.bincount(codes, minlength=coded.n_codes))).tolist()
    if is_numpy(codes) and coded.n_codes < 2**15:
        codes = codes.astype(np.int16, copy=False)  # which NumPy sorts by counting
    order = xp.argsort(codes, stable=True)
    atoms = [order[start:stop] for start, stop in pairwise([0, *ends])]
    if is_numpy(order):
        atoms = [as_rows(atom, len(order)) for atom in atoms]
    return Partition(first, tuple(atoms), coded.train, coded.test)


# ---------------------------------------------------------------- neighbouring rows


def _run_bounds(splits, n_rows):
    """Sorted ends of all runs, or None where some part is not made of runs."""
    cuts = {0, n_rows}
    for split in splits:
        if isinstance(split, LabelledSplit):
            return None
        for part in (split.train, split.test):
            if not isinstance(part, slice | tuple):
                return None
            for run in (part,) if isinstance(part, slice) else part:
                cuts.update((run.start, run.stop))
    return sorted(cuts)


def _of_runs(splits, cuts):
    """Atoms that are the runs between the cuts."""
    number = {cut: i for i, cut in enumerate(cuts)}
    shape = len(splits), len(cuts) - 1
    train, test = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for s, split in enumerate(splits):
        for counts, rows in ((train[s], split.train), (test[s], split.test)):
            for run in (rows,) if isinstance(rows, slice) else rows:
                counts[number[run.start] : number[run.stop]] += 1
    atoms: list[Rows] = [slice(a, b) for a, b in pairwise(cuts)]
    return Partition(0, tuple(atoms), train, test)
