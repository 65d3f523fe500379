"""`train_test_split` of rows in Dask's collections."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split as split_here

import gpuml_dask.model_selection
from gpuml.exceptions import GatheredWarning
from gpuml.model_selection import train_test_split

dd = pytest.importorskip("dask.dataframe")
N = 200
FRAME = pd.DataFrame({"a": np.arange(N), "b": 2.0 * np.arange(N)})


def never(part):
    raise AssertionError("A partition was computed.")


def test_dataframes_are_split_lazily():
    X = dd.from_pandas(FRAME, npartitions=4)
    parts = train_test_split(X.map_partitions(never, meta=FRAME), X["a"], random_state=0)
    assert all(part.npartitions == 4 for part in parts)


@pytest.mark.parametrize(
    ("sizes", "share"), [({}, 0.25), ({"test_size": 0.1}, 0.1), ({"train_size": 0.6}, 0.4)]
)
def test_parts_of_dataframes_are_all_rows(sizes, share):
    X = dd.from_pandas(FRAME, npartitions=4)
    lazy = train_test_split(X, X["b"], random_state=0, **sizes)
    train, test, y_train, y_test = (part.compute() for part in lazy)
    assert sorted([*train["a"], *test["a"]]) == [*range(N)]
    assert abs(len(test) / N - share) < 0.1
    np.testing.assert_array_equal(y_train, train["b"])
    np.testing.assert_array_equal(y_test, test["b"])
    assert list(train["a"]) != sorted(train["a"])
    again, other = (
        train_test_split(X, random_state=seed, **sizes)[1]["a"].compute() for seed in (0, 1)
    )
    assert list(again) == list(test["a"]) != list(other)


def test_dask_arrays_are_split_as_arrays_here():
    X, y = FRAME.to_numpy(), np.arange(N) % 2
    lazy = train_test_split(*(da.from_array(x, chunks=30) for x in (X, y)), random_state=0)
    for found, expected in zip(lazy, split_here(X, y, random_state=0), strict=True):
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), expected)
    labels = da.from_array(y, chunks=30)
    with pytest.warns(GatheredWarning):
        found = train_test_split(X, random_state=0, stratify=labels)[1]
    np.testing.assert_array_equal(found, split_here(X, random_state=0, stratify=y)[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"test_size": 20}, "Write test_size=0.25"),
        ({"test_size": 0.5, "train_size": 0.1}, "do not add up to 1. Pass one of them"),
        ({"shuffle": False}, "shuffle=False is not supported for Dask DataFrames"),
        ({"stratify": FRAME["a"] % 2}, "stratify is not supported for Dask DataFrames"),
    ],
)
def test_what_dataframes_are_not_split_by(options, words):
    with pytest.raises(ValueError, match=words):
        train_test_split(dd.from_pandas(FRAME, npartitions=4), **options)


def test_dataframes_are_split_with_what_has_the_same_partitions():
    X = dd.from_pandas(FRAME, npartitions=4)
    with pytest.raises(ValueError, match="the same partitions: 4, 3 partitions"):
        train_test_split(X, dd.from_pandas(FRAME["a"], npartitions=3))
    with pytest.raises(TypeError, match="got Array too. Keep the target in a column of X"):
        train_test_split(X, da.arange(N, chunks=50))


def test_the_module_path_of_dask_ml_has_it():
    assert gpuml_dask.model_selection.train_test_split is train_test_split
