"""Splits as rows and as sums of atoms."""

import numpy as np
import pytest
from sklearn import model_selection as sk

from gpuml._arrays import HOST
from gpuml.data import Batch, LabelledSplit, row_indices
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.split import as_rows, check_splitter, split_rows

N = 101
SPLITTERS = {
    "folds": sk.KFold(5),
    "uneven folds": sk.KFold(7),
    "shuffled": sk.KFold(5, shuffle=True, random_state=0),
    "repeated": sk.RepeatedKFold(n_splits=5, n_repeats=6, random_state=0),
    "shuffle split": sk.ShuffleSplit(12, random_state=0),
    "leave one out": sk.LeaveOneOut(),
    "time series": sk.TimeSeriesSplit(4, gap=3, max_train_size=20),
    "groups": sk.GroupKFold(4),
    "stratified": sk.StratifiedKFold(3),
    "stratified shuffled": sk.StratifiedKFold(3, shuffle=True, random_state=1),
    "stratified repeated": sk.RepeatedStratifiedKFold(n_splits=4, n_repeats=5, random_state=2),
    "many shuffled": sk.KFold(N - 1, shuffle=True, random_state=3),
    "bootstrap": [
        (np.random.default_rng(i).integers(0, N, N), np.arange(i, 10)) for i in range(20)
    ],
    "nothing held out": [(np.arange(N), np.arange(0))],
}


def index_pairs(cv):
    if isinstance(cv, list):
        return cv
    y = np.arange(N) % 3
    params = {"groups": np.arange(N) // 9} if isinstance(cv, sk.GroupKFold) else {}
    return list(cv.split(np.zeros((N, 1)), y, **params))


def splits_of(cv, dtype=int):
    params = {"groups": np.arange(N) // 9} if isinstance(cv, sk.GroupKFold) else {}
    y = (np.arange(N) % 3).astype(dtype)
    return split_rows(sk.check_cv(cv), np.zeros((N, 1)), y, N, **params)


@pytest.mark.parametrize("dtype", [int, np.float32])
@pytest.mark.parametrize("name", SPLITTERS)
def test_rows_are_those_of_the_splitter(name, dtype):
    for split, (train, test) in zip(
        splits_of(SPLITTERS[name], dtype), index_pairs(SPLITTERS[name]), strict=True
    ):
        np.testing.assert_array_equal(row_indices(split.train), train)
        np.testing.assert_array_equal(row_indices(split.test), test)


@pytest.mark.each
def test_labels_that_are_floats_are_dealt_without_index_arrays(library):
    """As integers are; numbers that are no integers are for the splitter to refuse."""
    labels = np.arange(N) % 3
    for y in (labels.astype("float32"), labels.astype(float)):
        y = library.asarray(y)
        cv = check_splitter(3, y, classifier=True)
        assert isinstance(cv, sk.StratifiedKFold)
        assert all(isinstance(each, LabelledSplit) for each in split_rows(cv, None, y, N))
    no_labels = library.asarray(labels + 0.5)
    assert isinstance(check_splitter(3, no_labels, classifier=True), sk.KFold)
    with pytest.raises(ValueError, match="Supported target types"):
        split_rows(sk.StratifiedKFold(3), np.zeros((N, 1)), no_labels, N)


@pytest.mark.each
def test_groups_may_be_where_the_rows_are(library):
    """Splitters read them in CPU memory."""
    X, groups = np.zeros((N, 1)), np.arange(N) // 9
    for cv in (sk.GroupKFold(4), sk.LeaveOneGroupOut(), sk.GroupShuffleSplit(3, random_state=0)):
        found = split_rows(cv, library.asarray(X), None, N, groups=library.asarray(groups))
        for split, (train, test) in zip(found, cv.split(X, groups=groups), strict=True):
            np.testing.assert_array_equal(row_indices(split.train), train)
            np.testing.assert_array_equal(row_indices(split.test), test)


@pytest.mark.parametrize("n_features", [1, 30])
@pytest.mark.parametrize("name", SPLITTERS)
def test_parts_are_sums_of_atoms(name, n_features):
    batch = Batch(np.zeros((N, n_features)), np.zeros((N, 1)), None, HOST, HOST)
    splits = splits_of(SPLITTERS[name])
    folds = make_folds(batch, splits)
    assert sum(part.n_splits for part in folds.partitions) == len(splits)
    for part in folds.partitions:
        every_row = np.concatenate([row_indices(atom) for atom in part.atoms])
        np.testing.assert_array_equal(np.sort(every_row), np.arange(N))
        for i in range(part.n_splits):
            split = splits[part.first_split + i]
            for rows, counts in ((split.train, part.train[i]), (split.test, part.test[i])):
                summed = np.zeros(N, dtype=int)
                for atom, count in zip(part.atoms, counts, strict=True):
                    summed[row_indices(atom)] += count
                np.testing.assert_array_equal(summed, np.bincount(row_indices(rows), minlength=N))


def test_neighbouring_folds_need_no_index_arrays():
    batch = Batch(np.zeros((N, 3)), np.zeros((N, 1)), None, HOST, HOST)
    (part,) = make_folds(batch, splits_of(sk.KFold(5))).partitions
    assert all(isinstance(atom, slice) for atom in part.atoms)
    assert len(part.atoms) == 5


def test_masks_negative_indices_and_errors():
    assert as_rows(np.array([True, True, False]), 3) == slice(0, 2)
    assert as_rows([-2, -1], 5) == slice(3, 5)
    np.testing.assert_array_equal(as_rows(np.array([0, 2, 4, 6, 8]), 9), [0, 2, 4, 6, 8])
    for mask in (np.ones(3, bool), np.ones((5, 1), bool)):
        with pytest.raises(IndexError, match="each of the 5 rows of X, got shape"):
            as_rows(mask, 5)
    with pytest.raises(IndexError, match="outside the 5 rows"):
        as_rows([5], 5)
    with pytest.raises(ValueError, match="integer index arrays"):
        as_rows([0.5], 5)
