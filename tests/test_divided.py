"""Divided rows: they are checked where they are, and their splits are those of all rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from gpuml import get_config
from gpuml._arrays import HOST, place_of, to_host
from gpuml.data import NeedsAllRows, row_indices, split_weights, take
from gpuml.divided import (
    DealtSplit,
    InProcess,
    Share,
    divided_batch,
    divided_folds,
    divided_splits,
    moved,
    tree,
)
from gpuml.linear_model import LogisticRegression, Ridge, RidgeClassifier
from gpuml.resampling.split import split_rows

N_ROWS = 60
# One piece, several, and one of every row.
CUTS = [(60,), (20, 1, 29, 10), (1,) * 60]


class Bootstrap:
    """Draws rows with replacement; what it never drew is held out, but for some rows of no part."""

    def split(self, X, y=None, groups=None):
        rng = np.random.default_rng(0)
        for _ in range(3):
            train = rng.integers(0, len(X), len(X))
            yield train, np.setdiff1d(np.arange(len(X)), train)[::2]

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


SPLITTERS = [
    KFold(3),
    KFold(4, shuffle=True, random_state=0),
    RepeatedKFold(n_splits=3, n_repeats=4, random_state=0),
    ShuffleSplit(5, test_size=0.2, train_size=0.3, random_state=0),
    ShuffleSplit(1, random_state=0),
    TimeSeriesSplit(3),
    LeaveOneOut(),
    GroupKFold(3),
    StratifiedKFold(3),
    StratifiedKFold(3, shuffle=True, random_state=0),
    StratifiedShuffleSplit(3, random_state=0),
    Bootstrap(),
]


@pytest.fixture
def rows(rng):
    return rng.normal(size=(N_ROWS, 3)), rng.integers(0, 3, N_ROWS)


def pieces_of(sizes, *columns):
    ends = np.cumsum(sizes).tolist()
    bounds = zip([0, *ends[:-1]], ends, strict=True)
    return [tuple(c if c is None else c[a:b, ...] for c in columns) for a, b in bounds]


def shares_of(sizes, X, y=None, weight=None, place=HOST):
    return InProcess([Share(*piece) for piece in pieces_of(sizes, X, y, weight)], place)


def batch_of(estimator, sizes, *columns, **options):
    return divided_batch(estimator, shares_of(sizes, *columns, **options), sizes, get_config())


# ---------------------------------------------------------------- holders


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 100])
@pytest.mark.parametrize("arity", [2, 4, 8])
def test_a_tree_of_groups_of_a_power_of_two_is_the_same_tree(n, arity):
    def combine(a, b):
        return f"({a}{b})"

    leaves = [f"<{i}>" for i in range(n)]
    level = leaves
    while len(level) > 1:
        level = [tree(level[i : i + arity], combine) for i in range(0, len(level), arity)]
    assert level == [tree(leaves, combine)]
    assert tree(leaves, combine).replace("(", "").replace(")", "") == "".join(leaves)


def test_results_come_to_the_place_of_the_holders(library, rng):
    x = rng.normal(size=(4, 2))
    own = place_of(library.asarray(x))
    result = {"a": [library.asarray(x), (None, 2)], "b": Share(library.asarray(x), "y")}
    result |= {"record": _Record(library.asarray(x)), "sum": _One((library.asarray(x),))}
    for place in (HOST, own):
        there = moved(result, place)
        assert place_of(there["a"][0]) == place
        assert place_of(there["b"].X) == place
        assert place_of(there["record"].x) == place
        assert type(there["sum"]) is _One
        assert place_of(there["sum"][0]) == place
        assert there["a"][1] == (None, 2)
        assert there["b"].y == "y"
    np.testing.assert_array_equal(moved(result, HOST)["b"].X, x)
    (total,) = InProcess([library.asarray(x), library.asarray(x)], own).total(_twice)
    assert place_of(total) == own
    np.testing.assert_array_equal(library.to_numpy(total), 4 * x)
    words = np.asarray(["a", "b"])
    assert moved(words, own) is words


def _twice(piece):
    return _One((2 * piece,))


@dataclass(frozen=True)
class _Record:
    x: Any


class _One(tuple):
    def __add__(self, other):
        return _One(a + b for a, b in zip(self, other, strict=True))


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("sizes", CUTS)
def test_a_batch_knows_shapes_and_classes_but_no_rows(rows, rng, sizes):
    X, y = rows
    batch = batch_of(RidgeClassifier(), sizes, X, np.asarray(list("abc"))[y], rng.random(N_ROWS))
    assert batch.X.shape == (N_ROWS, 3)
    assert batch.y.shape == (N_ROWS, 3)  # indicators of classes
    assert batch.weight.shape == (N_ROWS,)
    assert batch.classes.tolist() == ["a", "b", "c"]
    assert [piece.batch.first for piece in batch.holders.pieces] == np.cumsum(
        [0, *sizes[:-1]]
    ).tolist()
    codes = np.concatenate([piece.batch.codes for piece in batch.holders.pieces])
    np.testing.assert_array_equal(codes, y)


def test_the_estimator_notes_features_and_nothing_of_them_is_left_of_an_error(rows):
    import pandas as pd

    X, y = rows
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = Ridge()
    shares = [Share(frame.iloc[:20], y[:20]), Share(frame.iloc[20:], y[20:])]
    divided_batch(model, InProcess(shares), (20, 40), get_config())
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    shares[1] = Share(frame.iloc[20:][["b", "a", "c"]], y[20:])
    fresh = Ridge()
    with pytest.raises(ValueError, match="names of features"):
        divided_batch(fresh, InProcess(shares), (20, 40), get_config())
    assert not hasattr(fresh, "feature_names_in_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y, w: (X[:, :2], y, w), "numbers of features"),
        (lambda X, y, w: (X.astype("f4"), y, w), "dtypes of X"),
        (lambda X, y, w: (X, np.c_[y, y], w), "numbers of targets"),
        (lambda X, y, w: (X, y[:, None], w), "numbers of axes of y"),
        (lambda X, y, w: (X, y, None), "others have none"),
        (lambda X, y, w: (X[:-1], y[:-1], w[:-1]), "rows, not"),
        (lambda X, y, w: (X, y[:-1], w), "inconsistent numbers of samples"),
        (lambda X, y, w: (X, y, w[:-1]), "sample_weight"),
        (lambda X, y, w: (X, y, 0 * w[:-1]), "sample_weight"),
        (lambda X, y, w: (X, y, -w), "[Nn]egative"),
        (lambda X, y, w: (X, y * np.nan, w), "NaN"),
        (lambda X, y, w: (X, y, w * np.inf), "infinity"),
        (lambda X, y, w: (X, None, w), "requires y"),
    ],
)
def test_pieces_have_to_fit_together(rows, rng, change, message):
    X, y = rows
    first, second = pieces_of((30, 30), X, y.astype(float), rng.random(N_ROWS) + 0.1)
    for pieces in ([first, change(*second)], [change(*first), second]):
        shares = InProcess([Share(*piece) for piece in pieces])
        with pytest.raises(ValueError, match=message):
            divided_batch(Ridge(), shares, (30, 30), get_config())


def test_weights_may_be_zero_in_some_pieces_but_not_in_all(rows):
    X, y = rows
    weight = np.r_[np.zeros(30), np.ones(30)]
    batch = batch_of(Ridge(), (10, 20, 30), X, y, weight)
    there = [piece.batch.weight for piece in batch.holders.pieces]
    np.testing.assert_array_equal(np.concatenate(there), weight)
    with pytest.raises(ValueError, match="at least one non-zero"):
        batch_of(Ridge(), (10, 20, 30), X, y, 0 * weight)


def test_one_class_in_all_pieces_is_refused_and_in_one_is_not(rows):
    X, y = rows
    batch_of(LogisticRegression(), (30, 30), X, np.r_[np.zeros(30, int), np.ones(30, int)])
    with pytest.raises(ValueError, match="only one class"):
        batch_of(LogisticRegression(), (30, 30), X, 0 * y)


def test_labels_of_all_pieces_are_of_one_kind(rows):
    X, y = rows
    shares = InProcess([Share(X[:30], y[:30]), Share(X[30:], np.asarray(list("abc"))[y[30:]])])
    with pytest.raises(ValueError, match="strings"):
        divided_batch(LogisticRegression(), shares, (30, 30), get_config())


def test_an_estimator_that_cannot_take_pieces_says_so(rows):
    with pytest.raises(NeedsAllRows, match="object needs the rows in one place"):
        batch_of(object(), (30, 30), *rows)


# ---------------------------------------------------------------- splits


def global_rows(folds, sizes, part, split):
    """Rows of a part in the numbers of all rows, in order, as the pieces name them."""
    starts = np.cumsum([0, *sizes[:-1]])
    return np.concatenate(
        [
            np.sort(start + row_indices(getattr(piece.splits[split], part)))
            for start, piece in zip(starts, folds.batch.holders.pieces, strict=True)
        ]
    )


@pytest.mark.parametrize("sizes", CUTS, ids=len)
@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda cv: type(cv).__name__)
def test_splits_of_pieces_are_those_of_all_rows(rows, rng, splitter, sizes):
    X, y = rows
    params = {"groups": rng.integers(0, 5, N_ROWS)} if isinstance(splitter, GroupKFold) else {}
    shares = shares_of(sizes, X, y)
    splits = divided_splits(splitter, shares, sizes, classifier=True, **params)
    batch = divided_batch(LogisticRegression(), shares, sizes, get_config())
    folds = divided_folds(batch, sizes, splits)
    expected = list(splitter.split(X, y, **params))
    assert len(folds.splits) == len(expected)
    for s, (train, test) in enumerate(expected):
        assert (folds.splits[s].n_train, folds.splits[s].n_test) == (len(train), len(test))
        np.testing.assert_array_equal(global_rows(folds, sizes, "train", s), np.sort(train))
        np.testing.assert_array_equal(global_rows(folds, sizes, "test", s), np.sort(test))


@pytest.mark.each
@pytest.mark.parametrize("sizes", CUTS, ids=len)
@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda cv: type(cv).__name__)
def test_atoms_of_pieces_add_up_to_parts(rows, rng, splitter, sizes):
    X, y = rows
    params = {"groups": rng.integers(0, 5, N_ROWS)} if isinstance(splitter, GroupKFold) else {}
    shares = shares_of(sizes, X, y)
    splits = divided_splits(splitter, shares, sizes, classifier=True, **params)
    batch = divided_batch(LogisticRegression(), shares, sizes, get_config())
    folds = divided_folds(batch, sizes, splits)
    expected = list(splitter.split(X, y, **params))
    for piece, (own,) in zip(
        folds.batch.holders.pieces, pieces_of(sizes, np.arange(N_ROWS)), strict=True
    ):
        weights = split_weights(piece)
        for part in piece.partitions:
            sums = np.stack([take(own, atom, np).sum() for atom in part.atoms])
            for i in range(part.n_splits):
                train, test = expected[part.first_split + i]
                assert part.train[i] @ sums == train[np.isin(train, own)].sum()
                assert part.test[i] @ sums == test[np.isin(test, own)].sum()
                if weights is not None:
                    times = weights[part.first_split + i]
                    np.testing.assert_array_equal(
                        np.repeat(own, times), np.sort(train[np.isin(train, own)])
                    )
    for part in folds.partitions:
        assert sum(atom.n_rows for atom in part.atoms) == N_ROWS


@pytest.mark.pairwise
@pytest.mark.parametrize("sizes", CUTS, ids=len)
@pytest.mark.parametrize("kind", [int, bool, str])
def test_rows_are_dealt_out_as_scikit_learn_does_it(library, rng, sizes, kind):
    y = rng.permutation(np.repeat([2, 0, 7], [31, 19, 10]))
    y = y > 0 if kind is bool else y.astype(kind)
    X = rng.normal(size=(N_ROWS, 2))
    numbers = kind is not str
    theirs = library.asarray(y) if numbers else y
    shares = shares_of(sizes, library.asarray(X), theirs, place=place_of(library.asarray(X)))
    splits = divided_splits(StratifiedKFold(4), shares, sizes, classifier=True)
    assert all(isinstance(split, DealtSplit) for split in splits)
    batch = divided_batch(LogisticRegression(), shares, sizes, get_config())
    folds = divided_folds(batch, sizes, splits)
    for s, (train, test) in enumerate(StratifiedKFold(4).split(X, y)):
        np.testing.assert_array_equal(global_rows(folds, sizes, "test", s), test)
        np.testing.assert_array_equal(global_rows(folds, sizes, "train", s), train)


def test_some_of_the_dealt_splits_are_splits_too(rows):
    X, y = rows
    sizes = (25, 35)
    shares = shares_of(sizes, X, y)
    splits = divided_splits(StratifiedKFold(4), shares, sizes, classifier=True)
    batch = divided_batch(LogisticRegression(), shares, sizes, get_config())
    folds = divided_folds(batch, sizes, [splits[2], splits[0]])
    expected = list(StratifiedKFold(4).split(X, y))
    for s, chosen in enumerate((2, 0)):
        np.testing.assert_array_equal(global_rows(folds, sizes, "test", s), expected[chosen][1])
    (part,) = folds.partitions
    np.testing.assert_array_equal(part.test, [[0, 0, 1, 0], [1, 0, 0, 0]])


def test_rare_classes_are_left_to_scikit_learn(rows):
    X, _ = rows
    y = np.repeat([0, 1, 2], [30, 28, 2])
    with pytest.warns(UserWarning, match="least populated class"):
        splits = divided_splits(
            StratifiedKFold(3), shares_of((30, 30), X, y), (30, 30), classifier=True
        )
    with pytest.warns(UserWarning, match="least populated class"):
        expected = split_rows(StratifiedKFold(3), X, y, N_ROWS)
    for ours, theirs in zip(splits, expected, strict=True):
        np.testing.assert_array_equal(row_indices(ours.test), row_indices(theirs.test))


def test_labels_stay_where_nobody_looks_at_them(rows):
    class NoLabels(InProcess):
        def each(self, function, *args):
            raise AssertionError("nobody has to look at the rows")

    X, y = rows
    shares = NoLabels(shares_of((30, 30), X, y).pieces)
    for splitter in (KFold(3), KFold(3, shuffle=True), ShuffleSplit(2), TimeSeriesSplit(2)):
        divided_splits(splitter, shares, (30, 30), classifier=True)


def test_labels_of_a_device_come_to_the_host_for_a_splitter_that_reads_them(library, rows):
    X, y = rows
    shares = shares_of((30, 30), library.asarray(X), library.asarray(y))
    splitter = StratifiedShuffleSplit(2, random_state=0)
    splits = divided_splits(splitter, shares, (30, 30), classifier=True)
    for split, (_, test) in zip(splits, splitter.split(X, y), strict=True):
        np.testing.assert_array_equal(np.sort(to_host(row_indices(split.test))), np.sort(test))
