"""Bad input on a cluster: the error that the same input gives on one device, and nothing left.

The fixture `client` looks for tasks and data that a failed call has left behind.
"""

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from distributed import Client
from scipy import sparse
from scipy.stats import uniform
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import gpuml
from gpuml import decomposition as one_device_decomposition
from gpuml import linear_model as one_device
from gpuml import model_selection as one_device_search
from gpuml import preprocessing as one_device_step
from gpuml.exceptions import GatheredWarning
from gpuml_dask import (
    GridSearchCV,
    HalvingGridSearchCV,
    HyperbandSearchCV,
    decomposition,
    linear_model,
    make_cluster,
    place,
    predict,
    preprocessing,
)
from gpuml_dask.errors import ClusterError
from gpuml_dask.rows.placement import Table
from gpuml_dask.settings import share_settings

N, P = 40, 3
GRID = {"alpha": [0.1, 1.0]}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=N)


def with_one(x, value):
    """A copy with one bad value, near the end, where only one chunk has it."""
    x = np.array(x, dtype=object if isinstance(value, str | None) else None)
    x[(-2,) * x.ndim] = value
    return x


def in_chunks(x):
    """The same on workers; frames as frames, and what dask has no chunks for as one task."""
    if isinstance(x, pd.DataFrame | pd.Series):
        return dd.from_pandas(x, npartitions=3)
    if isinstance(x, np.ndarray) and x.ndim and x.size:
        return da.from_array(x, chunks=(13, 2, *x.shape[2:])[: x.ndim])
    return delayed(x)


def outcome(function, *args, **kwargs):
    """The error that a call raises; None if it raises none."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return error


BAD_X = {
    "nan": lambda X: with_one(X, np.nan),
    "inf": lambda X: with_one(X, np.inf),
    "text in objects": lambda X: with_one(X, "a"),
    "none in objects": lambda X: with_one(X, None),
    "complex": lambda X: X.astype(complex),
    "one axis": lambda X: X[:, 0],
    "three axes": lambda X: X[:, :, None],
    "no rows": lambda X: X[:0],
    "no features": lambda X: X[:, :0],
    "fewer rows than y": lambda X: X[:30],
    "a column of text": lambda X: pd.DataFrame({"a": X[:, 0], "b": ["u"] * N}),
    "names that are not all strings": lambda X: pd.DataFrame(X, columns=[1, "a", "b"]),
}
BAD_Y = {
    "nan": lambda y: with_one(y, np.nan),
    "inf": lambda y: with_one(y, np.inf),
    "text": lambda y: np.array(["a"] * N),
    "text in objects": lambda y: with_one(y, "a"),
    "complex": lambda y: y.astype(complex),
    "three axes": lambda y: y[:, None, None],
    "fewer than rows": lambda y: y[:30],
    "none at all": lambda y: None,
}
BAD_WEIGHT = {
    "nan": with_one(np.ones(N), np.nan),
    "negative": with_one(np.ones(N), -1.0),
    "zero": np.zeros(N),
    "text": np.array(["a"] * N),
    "two columns": np.ones((N, 2)),
    "fewer than rows": np.ones(30),
    "a number that is none": np.nan,
}
INPUTS = [
    *((f"X: {name}", bad, None, None) for name, bad in BAD_X.items()),
    *((f"y: {name}", None, bad, None) for name, bad in BAD_Y.items()),
    *((f"weight: {name}", None, None, bad) for name, bad in BAD_WEIGHT.items()),
]


def assert_same_outcome(found, expected):
    assert expected is not None, "the input is fine"
    assert type(found) is type(expected), f"{found!r}; on one device {expected!r}"
    assert str(found)


@pytest.mark.some
@pytest.mark.parametrize(
    ("bad_X", "bad_y", "weight"), [case[1:] for case in INPUTS], ids=[case[0] for case in INPUTS]
)
def test_what_one_device_refuses_is_refused(client, rows, bad_X, bad_y, weight):
    X, y = rows
    X, y = (bad_X or (lambda X: X))(X), (bad_y or (lambda y: y))(y)
    there = None if y is None else in_chunks(y)
    expected = outcome(one_device.Ridge().fit, X, y, weight)
    model = linear_model.Ridge()
    model.kept_ = kept = object()
    on_workers = weight if weight is None or np.ndim(weight) == 0 else in_chunks(weight)
    for target in (y, there):
        assert_same_outcome(outcome(model.fit, in_chunks(X), target, on_workers), expected)
    assert vars(model) == {**vars(linear_model.Ridge()), "kept_": kept}
    if weight is not None:
        return
    theirs = one_device_search.GridSearchCV(one_device.Ridge(), GRID, cv=3)
    search = GridSearchCV(one_device.Ridge(), GRID, cv=3)
    search.kept_ = kept
    assert_same_outcome(outcome(search.fit, in_chunks(X), there), outcome(theirs.fit, X, y))
    assert vars(search) == {**vars(GridSearchCV(search.estimator, GRID, cv=3)), "kept_": kept}


SETTINGS = {
    "one fold": {"cv": 1},
    "more folds than rows": {"cv": 1000},
    "no splitter": {"cv": "x"},
    "rows that are not there": {"cv": [([0, 1], [2, 300])]},
    "groups that were not given": {"cv": GroupKFold(3)},
    "a scorer of no name": {"scoring": "nope"},
    "a scorer of text": {"scoring": lambda model, X, y: "a"},
    "no metric to refit by": {"scoring": ["r2", "max_error"]},
    "refit by no candidate": {"refit": lambda results: 100},
    "no error score": {"error_score": "x"},
    "no jobs": {"n_jobs": 0},
    "no values": {"param_grid": {"alpha": []}},
    "no such parameter": {"param_grid": {"beta": [1]}},
    "only bad values": {"param_grid": {"alpha": [-1.0]}},
    "a fraction of a candidate": {"param_grid": {"alpha": 1.0}},
}


@pytest.mark.some
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_are_refused_as_on_one_device(client, rows, settings):
    settings = {"param_grid": GRID, **settings}
    theirs = one_device_search.GridSearchCV(one_device.Ridge(), **settings)
    expected = outcome(theirs.fit, *rows)
    found = outcome(GridSearchCV(one_device.Ridge(), **settings).fit, *map(in_chunks, rows))
    assert_same_outcome(found, expected)


@pytest.mark.parametrize(
    "search",
    [
        HalvingGridSearchCV(one_device.Ridge(), GRID, factor=0),
        HalvingGridSearchCV(one_device.Ridge(), GRID, resource="nope"),
        HyperbandSearchCV(SGDClassifier(), GRID, max_iter=0),
        HyperbandSearchCV(SGDClassifier(), GRID, max_iter=3, chunk_size=0),
    ],
)
def test_adaptive_searches_refuse_bad_settings(client, rows, search):
    X, y = rows
    with pytest.raises(ValueError, match=r"factor|resource|max_iter|chunk_size"):
        search.fit(in_chunks(X), in_chunks((y > 0).astype(int)))


# ---------------------------------------------------------------- predictions and scores

BAD_TARGETS = {
    "nan": with_one(np.ones(N), np.nan),
    "text": np.array(["a", "b"] * (N // 2)),
    "fractions": np.linspace(0, 1, N),
    "fewer than rows": np.ones(30),
    "none": None,
    "a number": np.asarray(3.0),
}


def test_scores_refuse_bad_targets(client, rows):
    X, y = rows
    regressor, classifier = one_device.Ridge().fit(X, y), one_device.LogisticRegression()
    classifier.fit(X, (y > 0).astype(int))
    for name, bad in BAD_TARGETS.items():
        for model in (classifier,) if name == "fractions" else (regressor, classifier):
            for there in (bad,) if bad is None else (bad, in_chunks(bad)):
                found = outcome(predict.score, model, in_chunks(X), there)
                assert isinstance(found, ValueError), (name, model)


def test_scores_refuse_bad_weights(client, rows):
    X, y = rows
    model = one_device.Ridge().fit(X, y)
    for name, weight in BAD_WEIGHT.items():
        if name != "negative":
            found = outcome(predict.score, model, in_chunks(X), y, weight)
            assert isinstance(found, ValueError), name


def test_predictions_refuse_what_is_no_rows(client, rows):
    model = one_device.Ridge().fit(*rows)
    with pytest.raises(TypeError, match="Bag has no rows"):
        predict.predict(model, db.from_sequence([1, 2]))
    with pytest.raises(ValueError, match="Expected 2D array, got 0D"):
        predict.predict(model, da.ones(3).sum())
    with pytest.raises(ValueError, match="5 features"):
        predict.predict(model, da.ones((4, 5)))
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        predict.predict(model, delayed(np.ones(3))).compute()


# ---------------------------------------------------------------- futures, handles and delayed rows


def test_futures_delayed_rows_and_handles_are_predicted_and_scored(client, rows):
    X, y = rows
    model = linear_model.Ridge().fit(X, y)
    search = GridSearchCV(one_device.Ridge(), GRID).fit(X, y)
    expected = one_device.Ridge().fit(X, y)
    halves = [slice(0, 20), slice(20, None)]
    with place(X, y, chunks=15) as table:
        kinds = {
            "handles": (table.X, table.y),
            "delayed": (delayed(X), delayed(y)),
            "futures": tuple([client.submit(x.__getitem__, h) for h in halves] for x in (X, y)),
            "a future of y": (in_chunks(X), client.submit(np.copy, y)),
            "y alone": (X, [delayed(y[half]) for half in halves]),
        }
        for name, (there, targets) in kinds.items():
            score = expected.score(X, y)
            assert model.score(there, targets) == pytest.approx(score), name
            assert search.score(there, targets) == pytest.approx(search.score(X, y)), name
            found = np.asarray(model.predict(there))
            np.testing.assert_allclose(found, expected.predict(X), err_msg=name)
            np.testing.assert_allclose(np.asarray(search.predict(there)), search.predict(X))
            fitted = linear_model.Ridge().fit(there, targets)
            np.testing.assert_allclose(fitted.coef_, expected.coef_, err_msg=name)


def test_frames_of_tasks_keep_their_names(client, rows):
    X, y = pd.DataFrame(rows[0], columns=list("abc")), rows[1]
    model = one_device.Ridge().fit(X, y)
    np.testing.assert_allclose(predict.predict(model, delayed(X)).compute(), model.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        predict.predict(model, delayed(X[["b", "a", "c"]])).compute()


def test_a_scalar_weight_counts(client, rows):
    X, y = rows
    expected = one_device.Ridge(alpha=5.0).fit(X, y, 2.0)
    found = linear_model.Ridge(alpha=5.0).fit(in_chunks(X), y, 2.0)
    np.testing.assert_allclose(found.coef_, expected.coef_)


@pytest.mark.parametrize("dtype", [str, bytes])
def test_numbers_that_are_text_are_those_of_one_device(client, rows, dtype):
    X, y = rows
    X = X.astype(dtype)
    expected = one_device.Ridge().fit(X, y)
    found = linear_model.Ridge().fit(in_chunks(X), in_chunks(y))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-10)


@pytest.mark.parametrize(("weight", "plan"), [(2.5, "rows"), (2.5, "whole"), (3, "rows")])
def test_searches_take_a_scalar_weight(client, rows, weight, plan):
    X, y = rows
    expected = one_device_search.GridSearchCV(one_device.Ridge(), {"alpha": [1.0, 9.0]})
    expected.fit(X, y, sample_weight=weight)
    with dask.config.set({"gpuml.plan": plan}):
        for given in (X, in_chunks(X)):
            search = GridSearchCV(one_device.Ridge(), {"alpha": [1.0, 9.0]})
            found = search.fit(given, y, sample_weight=weight).cv_results_["mean_test_score"]
            np.testing.assert_allclose(found, expected.cv_results_["mean_test_score"])


ODD_ROWS = {
    "one axis": (lambda X: X[:, 0], "Expected 2D array, got 1D array"),
    "names of two types": (lambda X: named(X, ["a", *range(X.shape[1] - 1)]), "have string names"),
    "twice a name": (lambda X: named(X, ["a"] * X.shape[1]), "nique column names"),
}


def named(X, names):
    return pd.DataFrame(X, columns=names)


@pytest.mark.parametrize(("odd", "error"), ODD_ROWS.values(), ids=ODD_ROWS)
def test_searches_that_would_divide_rows_refuse_what_fits_refuse(client, rows, odd, error):
    X, y = rows
    X = odd(X)
    with dask.config.set({"gpuml.plan": "rows"}):
        for given in (X, in_chunks(X)):
            with pytest.raises(ValueError, match=rf"(?s)fits failed.*{error}"):
                GridSearchCV(one_device.Ridge(), {"alpha": [1.0, 9.0]}).fit(given, y)


def test_what_sums_do_not_take_is_fitted_in_one_place(client, rows):
    X, y = rows
    missing = with_one(X, np.nan)
    with pytest.warns(
        GatheredWarning, match="StandardScaler: Sums over rows do not support missing"
    ):
        scaler = preprocessing.StandardScaler().fit(in_chunks(missing))
    np.testing.assert_allclose(scaler.mean_, one_device_step.StandardScaler().fit(missing).mean_)
    rare = sparse.csr_matrix(X)
    with pytest.warns(GatheredWarning, match="Ridge: Sparse rows"):
        found = linear_model.Ridge().fit([delayed(rare[:20]), delayed(rare[20:])], y)
    np.testing.assert_allclose(found.coef_, one_device.Ridge().fit(rare, y).coef_)


@pytest.mark.parametrize(
    ("value", "weight", "error"),
    [
        (np.inf, None, "infinity"),
        (-np.inf, "ones", "infinity"),
        (np.nan, "nan", "sample_weight contains NaN"),
        (np.nan, "zeros", "non-zero"),
        (0.0, "nan", "sample_weight contains NaN"),
    ],
)
def test_refused_rows_stay_where_they_are(client, rows, monkeypatch, value, weight, error):
    X, _ = rows
    weights = {"ones": np.ones(N), "zeros": np.zeros(N), "nan": with_one(np.ones(N), np.nan)}
    missing = with_one(X, np.nan)
    missing[0, 0] = value
    gathered = count_gathered(monkeypatch)
    scaler = preprocessing.StandardScaler()
    with pytest.raises(ValueError, match=error):
        scaler.fit(in_chunks(missing), sample_weight=weights.get(weight))
    assert gathered == []
    assert not hasattr(scaler, "mean_")
    with pytest.warns(GatheredWarning, match="go to one worker"):
        scaler.fit(in_chunks(with_one(X, np.nan)))
    assert gathered == ["X"]


def count_gathered(monkeypatch):
    """Names of columns whose rows are brought together from now on."""
    gathered, gather = [], Table.whole

    def noting(table, name):
        gathered.append(name)
        return gather(table, name)

    monkeypatch.setattr(Table, "whole", noting)
    return gathered


def test_groups_go_with_labels_on_workers(client, rows):
    X, y = rows
    labels, groups = (y > 0).astype(int), np.arange(N) % 4
    options = {"param_grid": {"C": [0.1, 1.0]}, "cv": GroupKFold(3)}
    expected = one_device_search.GridSearchCV(SVC(), **options).fit(X, labels, groups=groups)
    found = GridSearchCV(SVC(), **options)
    found.fit(in_chunks(X), in_chunks(labels), groups=in_chunks(groups))
    name = "mean_test_score"
    np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])


def test_parameters_of_fit_that_are_no_column(client, rows):
    X, y = rows
    labels = (y > 0).astype(int)
    draws = {"alpha": uniform(1e-4, 1e-2)}
    search = HyperbandSearchCV(SGDClassifier(), draws, max_iter=3, random_state=0)
    expected = search.fit(X, labels, classes=[0, 1]).cv_results_["test_score"]
    for classes in (
        client.submit(np.unique, labels),
        da.unique(in_chunks(labels)),
        delayed([0, 1]),
    ):
        found = search.fit(in_chunks(X).rechunk((N, P)), labels, classes=classes).cv_results_
        np.testing.assert_array_equal(found["test_score"], expected)


# ---------------------------------------------------------------- rows, clients and clusters


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda c: place(None, client=c), ValueError),
        (lambda c: place(da.ones(3).sum(), client=c), ValueError),
        (lambda c: place(db.from_sequence([1, 2]), client=c), TypeError),
        (lambda c: place([delayed(np.ones((2, 2))), np.ones((2, 2))], client=c), ValueError),
        (lambda c: place(c.submit(int), client=c), ValueError),
        (lambda c: place([c.submit(np.ones, (2, k)) for k in (2, 3)], client=c), ValueError),
        (lambda c: place(delayed(divmod)(1, 0), client=c), ZeroDivisionError),
        (lambda c: place(np.ones((4, 2)), columns={"X": np.ones(4)}, client=c), ValueError),
        (lambda c: place(np.ones((4, 2)), columns={"w": np.ones(3)}, client=c), ValueError),
        (lambda c: place(np.ones((4, 2)), chunks=1.5, client=c), ValueError),
        (lambda c: place(np.ones((4, 2)), chunks=[2, 3], client=c), ValueError),
        (lambda c: place(np.ones((4, 2)), client="tcp://nowhere:1"), TypeError),
        (lambda c: place(np.ones((4, 2)), client=c.cluster), TypeError),
        (lambda c: share_settings("tcp://nowhere:1"), TypeError),
        (lambda c: GridSearchCV(SVC(), {"C": [1]}, client=3).fit([[1]], [1]), TypeError),
        (lambda c: GridSearchCV(SVC(), {"C": [1]}, client=len).fit([[1]], [1]), TypeError),
        (lambda c: GridSearchCV(SVC(), {"C": [1]}, client=np.ones(2)).fit([[1]], [1]), TypeError),
        (lambda c: GridSearchCV(SVC(), {"C": [1]}, scheduler="nope").fit([[1]], [1]), ValueError),
        (lambda c: make_cluster(-1, device="cpu"), ValueError),
        (lambda c: make_cluster("2", device="cpu"), TypeError),
        (lambda c: make_cluster(1.5, device="cpu"), TypeError),
        (lambda c: make_cluster(1, threads_per_worker=0, device="cpu"), ValueError),
        (lambda c: make_cluster(1, device="tpu"), ValueError),
    ],
)
def test_refusals_at_the_door(client, function, error):
    with pytest.raises(error):
        function(client)


@pytest.mark.parametrize("connect", [lambda c: c.cluster, lambda c: c.scheduler.address])
def test_what_is_placed_needs_a_client_that_stays(client, connect):
    with pytest.raises(TypeError, match=r"client = Client\(.*keep it open"):
        place(np.ones((4, 2)), client=connect(client))


def test_what_is_gone_is_an_error_of_the_cluster(client, cluster4, rows):
    X, y = rows
    with place(X, client=client) as table:
        handle = table.X
    cancelled = client.submit(np.copy, X, pure=False)
    cancelled.cancel()
    closed = Client(cluster4, set_as_default=False)
    closed.close()
    model = one_device.Ridge().fit(X, y)
    for function in (
        lambda: place(handle, client=client),
        lambda: linear_model.Ridge().fit(handle, y),
        lambda: predict.predict(model, handle),
        lambda: linear_model.Ridge().fit(cancelled, y),
        lambda: place(X, client=closed),
        lambda: share_settings(closed),
        lambda: GridSearchCV(one_device.Ridge(), GRID, client=closed).fit(X, y),
    ):
        with pytest.raises(ClusterError):
            function()


@pytest.mark.parametrize("name", ["THREADS", "distributed", "Sync"])
def test_schedulers_have_the_names_that_dask_gives_them(client, rows, name):
    search = GridSearchCV(one_device.Ridge(), GRID, scheduler=name).fit(*rows)
    assert list(search.dask_graph_)[-1] == "table of scores"
    assert ("worker" in search.cv_results_) == (name == "distributed")


LAZY = [
    (one_device.LogisticRegression(), {"C": [1.0]}, "predict"),
    (one_device.LogisticRegression(), {"C": [1.0]}, "predict_proba"),
    (one_device.LogisticRegression(), {"C": [1.0]}, "predict_log_proba"),
    (one_device.LogisticRegression(), {"C": [1.0]}, "decision_function"),
    (one_device_decomposition.PCA(), {"n_components": [2]}, "transform"),
    (one_device_decomposition.PCA(), {"n_components": [2]}, "score_samples"),
    (KernelDensity(), {"bandwidth": [1.0]}, "score_samples"),
    (one_device_decomposition.PCA(), {"n_components": [P]}, "inverse_transform"),
    (make_pipeline(StandardScaler(), PCA()), {"pca__n_components": [P]}, "inverse_transform"),
]


@pytest.mark.some
@pytest.mark.parametrize(("estimator", "grid", "method"), LAZY)
def test_what_a_search_says_of_rows_is_lazy(client, rows, estimator, grid, method):
    X, y = rows
    search = GridSearchCV(estimator, grid, cv=2).fit(X, y > 0)
    expected = getattr(search, method)(X)
    for there in (in_chunks(X), delayed(X), in_chunks(pd.DataFrame(X))):
        with raising_scheduler():
            found = getattr(search, method)(there)
        assert isinstance(found, da.Array)
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-10, atol=1e-12)
    if method == "predict":
        with pytest.raises(AttributeError):
            search.inverse_transform(in_chunks(X))


def raising_scheduler():
    """Until the end of a ``with`` block nothing may be computed."""

    def compute(*args, **kwargs):
        raise AssertionError("It was computed.")

    return dask.config.set(scheduler=compute)


@pytest.mark.parametrize(
    "step",
    [preprocessing.StandardScaler(), decomposition.PCA(2), decomposition.TruncatedSVD(2)],
)
def test_steps_are_undone_lazily(client, rows, step):
    X, _ = rows
    images = step.fit(in_chunks(X)).transform(X)
    with raising_scheduler():
        found = step.inverse_transform(in_chunks(images))
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), step.inverse_transform(images))


def test_rows_in_files_are_read_by_one_process(client, tmp_path):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(60, 3)))
    rows = gpuml.read_array(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    grid = {"alpha": [0.1, 1.0]}
    with pytest.raises(TypeError, match=r"read by one process.*dask\.dataframe\.read_parquet"):
        GridSearchCV(one_device.Ridge(), grid, client=client).fit(rows, "2")
    here = GridSearchCV(one_device.Ridge(), grid, scheduler="sync").fit(rows, "2")
    expected = one_device_search.GridSearchCV(one_device.Ridge(), grid).fit(rows, "2")
    assert here.best_score_ == expected.best_score_


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_labels_that_are_missing_are_named(client, missing):
    X, y = np.random.default_rng(0).normal(size=(12, 2)), [*("ab" * 5), missing, "a"]
    lazy = da.from_array(X, chunks=(6, -1))
    search = GridSearchCV(one_device.LogisticRegression(), {"C": [1.0]}, cv=2, client=client)
    series = dd.from_pandas(pd.Series(y, dtype=object), npartitions=2)
    for labels in (y, series, da.from_array(np.asarray(y, dtype=object), chunks=6)):
        with pytest.raises(ValueError, match=r"1 of 12 labels are missing, .*notna\(y\)"):
            search.fit(lazy, labels)
