"""Odd rows on workers: the outcome that scikit-learn has for the same rows in memory.

The fixture `client` looks for tasks and data that a call has left behind.
"""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from distributed import Client
from scipy import sparse
from sklearn import linear_model as sk
from sklearn.exceptions import DataConversionWarning
from sklearn.svm import SVC

from gpuml import linear_model as one_device
from gpuml.exceptions import GatheredWarning
from gpuml_dask import (
    GridSearchCV,
    HalvingGridSearchCV,
    linear_model,
    place,
    predict,
    preprocessing,
)
from gpuml_dask.errors import ClusterError
from gpuml_dask.rows import blocks

N, P = 60, 4
pytestmark = pytest.mark.exhaustive

NAMES = list("abcd")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    return X, X @ [1.0, 2.0, 3.0, -1.0] + rng.normal(size=N)


def in_chunks(x, *sizes):
    if isinstance(x, pd.DataFrame | pd.Series):
        return dd.from_pandas(x, npartitions=3)
    return da.from_array(x, chunks=(sizes or 20, *x.shape[1:]))


# ---------------------------------------------------------------- columns that are no numbers

DAYS = pd.date_range("2020", periods=N)
DATES = {
    "dates": DAYS,
    "dates of a zone": DAYS.tz_localize("UTC"),
    "times": pd.to_timedelta(np.arange(N), unit="s"),
    "dates of Arrow": pd.Series(DAYS).astype(
        pd.ArrowDtype(pytest.importorskip("pyarrow").date32())
    ),
}


@pytest.mark.parametrize("dates", DATES.values(), ids=DATES)
def test_dates_are_no_numbers(client, rows, dates):
    X, y = pd.DataFrame(rows[0], columns=NAMES), rows[1]
    X["d"] = dates
    with pytest.raises(TypeError):
        sk.Ridge().fit(X, y)
    for there in (in_chunks(X), delayed(X)):
        for model in (linear_model.Ridge(), preprocessing.StandardScaler()):
            with pytest.raises(TypeError, match="Column 'd' holds dates or times"):
                model.fit(there, in_chunks(y))
    with pytest.raises(TypeError, match="'d' holds dates"):  # rows here, targets there
        linear_model.Ridge().fit(X, in_chunks(y))


def test_known_dates_are_refused_before_anything_is_computed(client, rows):
    def never(frame):
        raise AssertionError("computed")

    X = pd.DataFrame({"a": DAYS, "b": DAYS, "c": 1.0})
    lazy = in_chunks(X).map_partitions(never, meta=X[:0])
    with pytest.raises(TypeError, match="Columns 'a', 'b' hold dates or times"):
        linear_model.Ridge().fit(lazy, in_chunks(rows[1]))


def test_complex_columns_are_refused(client, rows):
    X = pd.DataFrame(rows[0], columns=NAMES).assign(c=rows[0][:, 0] + 1j)
    with pytest.raises(ValueError, match="Complex data not supported"):
        linear_model.Ridge().fit(in_chunks(X), in_chunks(rows[1]))
    with pytest.raises(ValueError, match="Complex data not supported"):
        linear_model.Ridge().fit(delayed(X), in_chunks(rows[1]))


def test_dates_of_arrow_are_dates():
    arrow = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"when": pd.Series(DAYS).astype(pd.ArrowDtype(arrow.timestamp("s")))})
    with pytest.raises(TypeError, match="Column 'when' holds"):
        blocks.as_rows(frame)


def test_columns_of_polars_are_checked():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": [1.0, 2.0], "when": DAYS[:2].to_pydatetime().tolist()})
    with pytest.raises(TypeError, match="Column 'when' holds"):
        blocks.as_rows(frame)
    blocks.check_columns(frame[["a"]])


def test_many_columns_are_not_all_named():
    frame = pd.DataFrame(dict.fromkeys("abcdefgh", DAYS))
    with pytest.raises(TypeError, match="'e' and 3 more hold"):
        blocks.check_columns(frame)


# ---------------------------------------------------------------- targets in frames

WORDS = np.array(["yes", "no"])
FRAMES_OF_LABELS = {
    "text": lambda y: WORDS[y],
    "objects": lambda y: WORDS[y].astype(object),
    "categories": lambda y: pd.Categorical(WORDS[y]),
    "integers": lambda y: y * 7 - 3,
    "booleans": lambda y: y > 0,
    "categories of integers": lambda y: pd.Categorical(y),
    "nullable integers": lambda y: pd.array(y, dtype="Int64"),
    "nullable booleans": lambda y: pd.array(y > 0, dtype="boolean"),
    "nullable floats": lambda y: pd.array(y, dtype="Float32"),
    "integers of Arrow": lambda y: pd.array(y, dtype="int8[pyarrow]"),
}


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("labels", FRAMES_OF_LABELS.values(), ids=FRAMES_OF_LABELS)
def test_labels_in_a_frame_of_one_column_stay_what_they_are(client, rows, labels):
    X, y = rows[0], pd.DataFrame({"label": labels((rows[1] > 0).astype(int))})
    expected = sk.LogisticRegression(tol=1e-10, max_iter=1000).fit(X, y)
    for there in (in_chunks(y), y):
        model = linear_model.LogisticRegression(tol=1e-10).fit(in_chunks(X), there)
        assert list(model.classes_) == list(expected.classes_)
        assert model.classes_.dtype.kind in (expected.classes_.dtype.kind, "O")
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5)
        np.testing.assert_array_equal(model.predict(in_chunks(X)).compute(), expected.predict(X))
        assert model.score(in_chunks(X), there) == expected.score(X, y)


@pytest.mark.parametrize("labels", FRAMES_OF_LABELS.values(), ids=FRAMES_OF_LABELS)
def test_labels_in_a_series_have_the_dtype_that_they_have_on_one_device(client, rows, labels):
    X, y = rows[0], pd.Series(labels((rows[1] > 0).astype(int)))
    expected = one_device.LogisticRegression().fit(X, y)
    for there in (in_chunks(y), y):
        model = linear_model.LogisticRegression().fit(in_chunks(X), there)
        assert list(model.classes_) == list(expected.classes_)
        assert model.classes_.dtype == expected.classes_.dtype


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("kind", [GridSearchCV, HalvingGridSearchCV])
def test_searches_take_labels_in_a_frame(client, rows, kind):
    X = rows[0]
    y = pd.DataFrame({"label": WORDS[(rows[1] > 0).astype(int)]})
    options = {"random_state": 0} if kind is HalvingGridSearchCV else {}
    for estimator in (one_device.LogisticRegression(), SVC()):
        search = kind(estimator, {"C": [0.1, 1.0]}, cv=3, **options)
        found = search.fit(in_chunks(X), in_chunks(y)).cv_results_["mean_test_score"]
        again = search.fit(in_chunks(X), in_chunks(y["label"])).cv_results_["mean_test_score"]
        np.testing.assert_allclose(found, again)


def test_labels_in_a_column_are_told_of(client, rows):
    X, y = rows[0], (rows[1] > 0).astype(int)[:, None]
    for there in (in_chunks(y), y, in_chunks(pd.DataFrame(y))):
        with pytest.warns(DataConversionWarning, match="column-vector") as told:
            linear_model.LogisticRegression().fit(in_chunks(X), there)
        assert [warning.filename for warning in told] == [__file__]
        whole = linear_model.LogisticRegression(solver="newton-cg")
        with pytest.warns((GatheredWarning, DataConversionWarning)) as told:
            whole.fit(in_chunks(X), there)
        assert [each.category for each in told] == [GatheredWarning, DataConversionWarning]
    linear_model.Ridge().fit(in_chunks(X), in_chunks(y))  # warnings are errors here


def test_targets_in_a_frame_keep_their_axes(client, rows):
    X, y = rows
    for targets in (y, np.column_stack([y, -y]), np.round(y).astype(int), y.astype(object)):
        frame = pd.DataFrame(targets)
        expected = sk.Ridge().fit(X, frame)
        found = linear_model.Ridge().fit(in_chunks(X), in_chunks(frame))
        assert found.coef_.shape == expected.coef_.shape
        np.testing.assert_allclose(found.coef_, expected.coef_)


# ---------------------------------------------------------------- lists


@pytest.mark.parametrize("part", [da.ones((5, P), chunks=2), np.ones((5, P)), None])
def test_a_list_holds_tasks_alone(client, rows, part):
    lists = [client.submit(np.ones, (5, P)), part]
    if not isinstance(part, np.ndarray | None):
        lists = [part, part]
    for fit in (
        lambda: linear_model.Ridge().fit(lists, in_chunks(rows[1])),
        lambda: linear_model.Ridge().fit(in_chunks(rows[0]), lists),
        lambda: GridSearchCV(sk.Ridge(), {"alpha": [1.0]}).fit(lists, in_chunks(rows[1])),
        lambda: place(lists),
    ):
        with pytest.raises(ValueError, match=r"is a list with parts of type .*concatenate"):
            fit()


# ---------------------------------------------------------------- one fit after another


@pytest.mark.parametrize("kind", [linear_model.Ridge, preprocessing.StandardScaler])
def test_names_of_an_earlier_fit_are_forgotten(client, rows, kind):
    X, y = rows
    frame = pd.DataFrame(X, columns=NAMES)
    model = kind().fit(in_chunks(frame), in_chunks(y))
    assert list(model.feature_names_in_) == NAMES
    model.fit(in_chunks(X[:, :2]), in_chunks(y))
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    use = model.predict if hasattr(model, "predict") else model.transform
    assert len(use(X[:, :2])) == N  # warnings are errors here


def test_futures_of_a_closed_client_are_refused_at_once(client, rows):
    model = one_device.Ridge().fit(*rows)
    with Client(client.scheduler.address, set_as_default=False) as other:
        lost = other.submit(np.copy, rows[0])
        lost.result()
    with pytest.raises(ClusterError, match="whose client is closed"):
        predict.predict(model, [lost])


def test_placing_without_a_client_says_how_to_get_one(rows):
    with pytest.raises(ValueError, match=r"local_client\(\)"):
        place(*rows)


# ---------------------------------------------------------------- partitions


def with_gaps(x):
    """The same rows, with chunks of none at the ends and in between."""
    x = in_chunks(x, 1, 2, 50, 7)
    return da.concatenate([x[:0], x[:30], x[:0], x[30:], x[:0]])


PARTITIONS = {
    "chunks without rows": with_gaps,
    "sizes that nobody knows": lambda x: in_chunks(x)[da.ones(N, dtype=bool, chunks=20)],
    "a row in each": lambda x: in_chunks(x, *[1] * N),
    "future lists": lambda x: [delayed(x[:7].tolist()), delayed(x[7:])],
    "sparse": lambda x: in_chunks(x).map_blocks(sparse.csr_matrix) if x.ndim == 2 else in_chunks(x),
}


@pytest.mark.filterwarnings("ignore:All .* rows go to one worker")  # sparse ones
@pytest.mark.parametrize("part", PARTITIONS.values(), ids=PARTITIONS)
def test_classes_are_found_however_rows_are_divided(client, rows, part):
    X, order = rows[0], np.argsort(rows[1])
    X, y = X[order], np.sort(np.digitize(rows[1], [-1.0, 1.0]) * 5 - 7)  # one class in a chunk
    expected = sk.LogisticRegression(tol=1e-10, max_iter=1000).fit(X, y)
    model = linear_model.LogisticRegression(tol=1e-10).fit(part(X), part(y))
    np.testing.assert_array_equal(model.classes_, expected.classes_)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=1e-6)
    weights = np.arange(N) % 3
    expected = sk.Ridge().fit(X, rows[1], weights)
    found = linear_model.Ridge().fit(part(X), part(rows[1]), in_chunks(weights, 7, 53))
    np.testing.assert_allclose(found.coef_, expected.coef_)


@pytest.mark.parametrize("n_more", [-5, 5])
def test_chunks_of_other_sizes_than_they_say_are_refused(client, rng, n_more):
    """Too many rows would be cut off, of X and not of y."""
    a = da.from_array(rng.normal(size=(40, 3)), chunks=(10, 3))
    y = da.from_array(rng.normal(size=40), chunks=10)
    X = a.map_blocks(lambda block: np.resize(block, (len(block) + n_more, 3)), dtype=float)
    with pytest.raises(ValueError, match=f"A chunk has {10 + n_more} rows"):
        linear_model.Ridge().fit(X, y)
