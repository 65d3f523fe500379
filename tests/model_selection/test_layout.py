"""Rows laid out fold by fold: the same folds, as slices."""

from itertools import pairwise

import numpy as np
import pytest
import sklearn.model_selection as sk

from gpuml.data import FoldLabels, Split, row_indices
from gpuml.model_selection.layout import find_layout
from gpuml.resampling.split import split_rows

N = 60
Y = np.arange(N) % 7 % 3
GROUPS = np.arange(N) * 7 // N

KFOLDS = {
    "neighbours": sk.KFold(4),
    "two folds": sk.KFold(2),
    "shuffled": sk.KFold(4, shuffle=True, random_state=0),
    "shuffled, two folds": sk.KFold(2, shuffle=True, random_state=0),
    "stratified": sk.StratifiedKFold(4),
    "stratified, shuffled": sk.StratifiedKFold(5, shuffle=True, random_state=1),
    "groups": sk.GroupKFold(3),
    "groups, stratified": sk.StratifiedGroupKFold(3),
    "leave one group out": sk.LeaveOneGroupOut(),
    "leave one out": sk.LeaveOneOut(),
    "predefined": sk.PredefinedSplit(np.arange(N) % 3),
    "folds of neighbours in another order": sk.PredefinedSplit(2 - np.arange(N) // 20),
}


def splits_of(cv):
    params = {"groups": GROUPS} if "Group" in type(cv).__name__ else {}
    return list(split_rows(cv, np.zeros((N, 1)), Y, N, **params))


@pytest.mark.parametrize("ring", [True, False])
@pytest.mark.parametrize("name", KFOLDS)
def test_every_fold_is_a_slice_of_the_same_rows(name, ring):
    splits = splits_of(KFOLDS[name])
    layout = find_layout(splits, N)
    rows = row_indices(layout.rows(ring=ring))
    assert len(rows) == N + (layout.n_repeated if ring else 0)
    np.testing.assert_array_equal(np.sort(rows[:N]), np.arange(N))
    for i, (split, laid_out) in enumerate(zip(splits, layout.splits(ring=ring), strict=True)):
        assert isinstance(laid_out.test, slice)
        assert isinstance(laid_out.train, slice) or not ring
        np.testing.assert_array_equal(rows[laid_out.test], row_indices(split.test))
        train = rows[row_indices(laid_out.train)]
        np.testing.assert_array_equal(np.sort(train), row_indices(split.train))
        # Fold after fold, from the one behind the held-out one; the last split from the start.
        n = len(splits)
        others = [(i + 1 + j) % n for j in range(n - 1)]
        expected = [row_indices(splits[j].test) for j in others]
        np.testing.assert_array_equal(train, np.concatenate(expected))


def test_rows_that_lie_fold_by_fold_are_not_moved():
    layout = find_layout(splits_of(sk.KFold(4)), N)
    assert layout.order is None
    assert layout.rows(ring=False) == slice(0, N)
    assert layout.rows(ring=True) == (slice(0, N), slice(0, N // 2))


def test_two_folds_need_no_row_twice():
    layout = find_layout(splits_of(sk.KFold(2)), N)
    assert layout.n_repeated == 0
    assert layout.splits(ring=True) == layout.splits(ring=False)


def test_sizes():
    layout = find_layout(splits_of(sk.PredefinedSplit(np.minimum(np.arange(N) // 5, 3))), N)
    assert layout.n_rows == N
    assert layout.largest_part == N - 5
    assert layout.n_repeated == 10


def test_labels_are_sorted_where_they_are(library):
    folds = np.random.default_rng(0).permutation(np.arange(N) % 3)
    labels = FoldLabels(library.asarray(folds), np.bincount(folds))
    layout = find_layout(labels.splits(), N)
    assert type(layout.order) is type(labels.folds)
    np.testing.assert_array_equal(library.to_numpy(layout.order), np.argsort(folds, kind="stable"))
    assert layout.bounds == [0, 20, 40, 60]
    assert find_layout(labels.splits()[::-1], N) is None
    assert find_layout(labels.splits()[:2], N) is None


FIRST, LAST = np.arange(0, 30, 2), np.arange(1, 30, 2)
OTHERS = {
    "shuffle split": sk.ShuffleSplit(2, test_size=0.5, random_state=0),
    "repeated": sk.RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "time series": sk.TimeSeriesSplit(4),
    "rows held out by no split": sk.PredefinedSplit(np.arange(N) % 3 - 1),
    "one split": [(FIRST, LAST)],
    "training rows in another order": [(FIRST[::-1], LAST), (LAST, FIRST)],
    "a training row twice": [(np.r_[FIRST[:-1], 0], LAST), (LAST, FIRST)],
    "training on held-out rows": [(LAST, LAST), (FIRST, FIRST)],
    "a row held out twice": [(FIRST, LAST), (LAST, np.r_[FIRST[:-1], 1])],
    "runs that overlap": [
        (np.r_[0:10, 5:10], np.arange(15, 30)),
        (np.arange(15, 30), np.arange(15)),
    ],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_splits_have_no_layout(name):
    cv = sk.check_cv(OTHERS[name])
    n = 30 if isinstance(OTHERS[name], list) else N
    assert find_layout(list(split_rows(cv, np.zeros((n, 1)), None, n)), n) is None


def test_splits_of_different_kinds_have_no_layout():
    folds = np.arange(N) % 2
    labelled = FoldLabels(folds, np.bincount(folds)).splits()
    plain = [Split(split.train, split.test) for split in labelled]
    assert find_layout([labelled[0], plain[1]], N) is None
    bounds = find_layout(plain, N).bounds
    assert [b - a for a, b in pairwise(bounds)] == [30, 30]
