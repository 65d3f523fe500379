"""Splits that hold out every row once, in any form, are labels of folds."""

import numpy as np
import pytest
import sklearn.model_selection as sk

from gpuml.data import FoldLabels, Split, row_indices
from gpuml.model_selection.inside import fold_labels
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


@pytest.mark.parametrize("name", KFOLDS)
def test_folds_are_labels(name):
    splits = [Split(split.train, split.test) for split in splits_of(KFOLDS[name])]
    folds = fold_labels(splits, N).folds
    for fold, split in enumerate(splits):
        np.testing.assert_array_equal(np.flatnonzero(folds == fold), row_indices(split.test))


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
    "held-out rows in another order": [(FIRST, LAST[::-1]), (LAST, FIRST)],
    "a row held out twice": [(FIRST, LAST), (LAST, np.r_[FIRST[:-1], 1])],
    "runs that overlap": [
        (np.r_[0:10, 5:10], np.arange(15, 30)),
        (np.arange(15, 30), np.arange(15)),
    ],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_splits_are_no_labels(name):
    cv = sk.check_cv(OTHERS[name])
    n = 30 if isinstance(OTHERS[name], list) else N
    assert fold_labels(list(split_rows(cv, np.zeros((n, 1)), None, n)), n) is None


def test_splits_of_different_kinds_are_no_labels():
    folds = np.arange(N) % 2
    labelled = FoldLabels(folds, np.bincount(folds)).splits()
    plain = [Split(split.train, split.test) for split in labelled]
    assert fold_labels([labelled[0], plain[1]], N) is None
    np.testing.assert_array_equal(fold_labels(plain, N).folds, folds)
