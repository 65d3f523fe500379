"""Dask DataFrames with categories go into searches over tables, whatever is known of these."""

import importlib

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from dask.sizeof import sizeof
from sklearn import impute as sk_impute
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.preprocessing import KBinsDiscretizer

import gpuml
from gpuml.compose import ColumnTransformer
from gpuml.data import NeedsAllRows
from gpuml.divided import HOST, Share
from gpuml.exceptions import GatheredWarning
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LogisticRegression, PoissonRegressor, Ridge
from gpuml.model_selection import GridSearchCV as SearchHere
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.one_by_one import Task
from gpuml.neighbors import KNeighborsClassifier
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from gpuml.protocol import Group
from gpuml_dask import impute as there_impute
from gpuml_dask.model_selection import GridSearchCV
from gpuml_dask.predict import predict, transform
from gpuml_dask.rows.placement import place
from gpuml_dask.searching.by_rows import plan_for

dd = pytest.importorskip("dask.dataframe")
N = 120


def frame():
    """Numbers with holes, categories of which none is in all partitions, and text."""
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.normal(size=N), "z": random.normal(size=N)})
    X.loc[::7, "z"] = np.nan
    X["kind"] = pd.Categorical(np.sort(np.asarray(list("abcd"))[random.integers(0, 4, N)]))
    X["name"] = np.asarray(["u", "v", np.nan], dtype=object)[random.integers(0, 3, N)]
    return X, X["x"] + (X["kind"] == "a").astype(float) + random.normal(size=N)


def search_of(kind, package="gpuml", **options):
    names = f"{package}.impute", f"{package}.preprocessing"
    impute, preprocessing = map(importlib.import_module, names)
    numbers = make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
    levels = preprocessing.OneHotEncoder(handle_unknown="ignore")
    columns = ColumnTransformer([("n", numbers, ["x", "z"]), ("l", levels, ["kind", "name"])])
    pipe = make_pipeline(columns, Ridge())
    grid = {
        "ridge__alpha": [0.1, 1.0],
        "columntransformer__n__simpleimputer__strategy": ["mean", "median"],
    }
    return kind(pipe, grid, cv=3, **options)


def own_categories(part):
    return part.assign(kind=part["kind"].astype(object).astype("category"))


FRAMES = {
    "known": lambda X: X,
    "unknown": lambda X: X.assign(kind=X["kind"].cat.as_unknown()),
    "others in each partition": lambda X: X.map_partitions(own_categories),
    "categories of strings": lambda X: X.assign(name=X["name"].astype("category")),
    "empty partitions": lambda X: dd.concat([X[X["x"] > 1e9], X]),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_searches_over_frames_with_categories(kind, client):
    X, y = frame()
    lazy = FRAMES[kind](dd.from_pandas(X, npartitions=3))
    here = search_of(SearchHere).fit(X, y)
    there = search_of(GridSearchCV, client=client).fit(lazy, dd.from_pandas(y, npartitions=3))
    assert "all candidates together" in str(there.plan_)
    found, expected = (each.cv_results_["mean_test_score"] for each in (there, here))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    best = clone(here.best_estimator_).fit(X, y)
    np.testing.assert_allclose(predict(there.best_estimator_, lazy).compute(), best.predict(X))
    images = transform(there.best_estimator_[0], lazy).compute()
    np.testing.assert_allclose(images, best[0].transform(X), atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "plan"), [(SearchHere, None), (GridSearchCV, None), (GridSearchCV, "rows")]
)
def test_steps_of_gpuml_dask_are_searched_as_those_of_gpuml(client, monkeypatch, kind, plan):
    X, y = frame()
    if kind is GridSearchCV:
        X, y = (dd.from_pandas(each, npartitions=3) for each in (X, y))
    n_rows, fit = [], sk_impute.SimpleImputer.fit

    def counted(self, X, y=None):
        n_rows.append(len(X))
        return fit(self, X)

    monkeypatch.setattr(sk_impute.SimpleImputer, "fit", counted)
    with dask.config.set({"gpuml.plan": plan}):
        found, expected = (search_of(kind, each).fit(X, y) for each in ("gpuml_dask", "gpuml"))
    assert "all candidates together" in str(expected.plan_)
    assert str(found.plan_) == str(expected.plan_)
    scores = (each.cv_results_["mean_test_score"] for each in (found, expected))
    np.testing.assert_array_equal(*scores)
    # Refits, where they are in this process, read the few rows that say all else.
    assert n_rows[::2] == n_rows[1::2]
    assert max(n_rows, default=0) < N / 2
    assert type(found.best_estimator_[0].named_transformers_["n"][0]) is there_impute.SimpleImputer


# ---------------------------------------------------------------- divided over the workers

PIECES = {"gpuml.plan": "rows", "gpuml.piece-bytes": "1 kB"}


@pytest.fixture
def by_rows():
    with dask.config.set(PIECES):
        yield


def check_alike(found, expected, rtol):
    for key, values in expected.cv_results_.items():
        if "_test_" in key:
            np.testing.assert_allclose(found.cv_results_[key], values, rtol=rtol, atol=rtol)
    assert found.best_params_ == expected.best_params_
    coefs = [each.best_estimator_[-1].coef_ for each in (found, expected)]
    np.testing.assert_allclose(*coefs, rtol=1e-5, atol=1e-6)
    names = [each.best_estimator_[0].get_feature_names_out() for each in (found, expected)]
    np.testing.assert_array_equal(*names)
    assert "all candidates together, rows divided" in str(found.plan_)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_with_categories_are_divided(kind, client, by_rows):
    X, y = frame()
    lazy = FRAMES[kind](dd.from_pandas(X, npartitions=3))
    there = search_of(GridSearchCV, client=client).fit(lazy, dd.from_pandas(y, npartitions=3))
    check_alike(there, search_of(SearchHere).fit(X, y), 1e-9)
    whole = [each.predict(X) for each in (there, search_of(SearchHere).fit(X, y))]
    np.testing.assert_allclose(*whole, rtol=1e-9)


def wide_frame():
    """As `frame`, with nullable columns, bools, rare names, and a column without any value."""
    X, y = frame()
    random = np.random.default_rng(1)
    X["whole"] = pd.array(random.integers(0, 9, N), dtype="Int64")
    X.loc[::5, "whole"] = pd.NA
    X["flag"] = random.random(N) < 0.5
    X["nothing"] = np.nan
    X["street"] = np.asarray([f"s{n}" for n in (40 * random.random(N) ** 3).astype(int)])
    return X, y


NUMBERS, NAMES = ["x", "z", "whole"], ["kind", "name"]
ANY = OneHotEncoder(handle_unknown="ignore")
RARE = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=4)
CODES = OrdinalEncoder(
    handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
)


def filled(step, **options):
    return make_pipeline(SimpleImputer(**options), step)


STEPS = {
    "means": [("n", filled(StandardScaler()), NUMBERS), ("l", ANY, NAMES)],
    "medians": [
        ("n", filled(StandardScaler(), strategy="median"), NUMBERS),
        ("l", RARE, ["street", "kind"]),
    ],
    "most frequent": [
        ("n", SimpleImputer(strategy="constant", add_indicator=True), ["x", "z"]),
        ("l", filled(ANY, strategy="most_frequent"), NAMES),
    ],
    "most frequent of numbers": [
        ("n", filled(StandardScaler(), strategy="most_frequent"), NUMBERS),
        ("l", ANY, ["kind"]),
    ],
    "codes": [("n", "passthrough", ["x", "flag"]), ("l", CODES, [*NAMES, "street"])],
    "a column of holes": [
        ("n", SimpleImputer(keep_empty_features=True), ["x", "nothing"]),
        ("l", ANY, ["street"]),
    ],
}
MODELS = {
    "ridge": (Ridge(), {"alpha": [0.1, 1.0]}, 1e-8),
    "logistic": (LogisticRegression(tol=1e-8), {"C": [0.1, 1.0]}, 1e-6),
    "Poisson": (PoissonRegressor(tol=1e-8), {"alpha": [0.1, 1.0]}, 1e-6),
}


def target_of(name, y):
    if name == "logistic":
        return pd.Series(np.where(y > 0, "yes", "no"))
    return pd.Series(np.random.default_rng(2).poisson(np.exp(y / 4))) if name == "Poisson" else y


def searches(name, steps, client, **options):
    model, grid, _ = MODELS[name]
    pipe = make_pipeline(ColumnTransformer(steps), model)
    grid = {f"{pipe.steps[-1][0]}__{key}": values for key, values in grid.items()}
    return SearchHere(pipe, grid, **options), GridSearchCV(pipe, grid, client=client, **options)


@pytest.mark.pairwise
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_divided_frames_give_the_table_of_one_process(client, by_rows, steps, name):
    X, y = wide_frame()
    y = target_of(name, y)
    here, there = searches(name, steps, client, cv=3)
    here.fit(X, y)
    # Sorted categories: each partition lacks some.
    there.fit(dd.from_pandas(X, npartitions=4), dd.from_pandas(y, npartitions=4))
    check_alike(there, here, MODELS[name][2])


@pytest.mark.parametrize("name", ["ridge", "logistic"])
@pytest.mark.parametrize("cv", ["groups", "stratified", "shuffled"])
def test_divided_frames_with_weights_and_splits(client, by_rows, name, cv):
    X, y = wide_frame()
    y = target_of(name, y)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, N)
    splitter = {
        "groups": GroupKFold(3),
        "stratified": StratifiedKFold(3) if name == "logistic" else KFold(3),
        "shuffled": KFold(3, shuffle=True, random_state=0),
    }[cv]
    here, there = searches(name, STEPS["most frequent"], client, cv=splitter)
    last = here.estimator.steps[-1][0]
    params = {f"{last}__sample_weight": weight}
    if cv == "groups":
        params["groups"] = np.arange(N) % 7
    here.fit(X, y, **params)
    lazy = {key: da.from_array(value, chunks=50) for key, value in params.items()}
    there.fit(dd.from_pandas(X, npartitions=4), dd.from_pandas(y, npartitions=4), **lazy)
    check_alike(there, here, MODELS[name][2])


@pytest.mark.parametrize("form", ["pandas", "delayed", "placed", "array"])
def test_whoever_holds_the_rows(client, by_rows, form):
    X, y = wide_frame()
    steps, given = STEPS["means"], X
    if form == "array":
        X = given = X[["x", "z"]].to_numpy()
        steps = [("n", SimpleImputer(add_indicator=True), [0, 1])]
        given = da.from_array(X, chunks=(50, 2))
    here, there = searches("ridge", steps, client)
    here.fit(X, y)
    if form == "delayed":
        given = [dask.delayed(X.iloc[a : a + 40]) for a in range(0, N, 40)]
    if form == "placed":
        with place(X, y, client=client, chunks=50) as table:
            there.fit(table.X, table.y)
    else:
        there.fit(given, y)
    check_alike(there, here, 1e-8)


def test_levels_that_training_parts_lack_are_refused_as_in_one_process(client, by_rows):
    X, y = frame()
    steps = [("l", OneHotEncoder(), ["kind"])]
    here, there = searches("ridge", steps, client, error_score="raise")
    lazy = dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=3)
    for search, rows in ((here, (X, y)), (there, lazy)):
        # Of sorted categories, a training part without the first rows has not all.
        with pytest.raises(ValueError, match=r"unknown categories|lacks categories"):
            search.fit(*rows)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([("n", KBinsDiscretizer(quantile_method="linear"), ["x"])], "KBinsDiscretizer of columns"),
        ([("n", filled(MinMaxScaler()), ["z"])], "MinMaxScaler is fitted to rows"),
        ([("l", ANY, ["no such"])], "not columns of the dataframe"),
    ],
)
def test_the_plan_says_why_rows_are_whole(client, by_rows, capsys, steps, says):
    X, y = frame()
    here, there = searches("ridge", [*steps, ("m", ANY, ["name"])], client, cv=3, verbose=2)
    lazy = dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=3)
    if "no such" in str(steps):
        with pytest.raises(ValueError, match="not columns of the dataframe"):
            there.fit(*lazy)
    else:
        there.fit(*lazy)
        here.set_params(verbose=0).fit(X, y)
        found, expected = (each.cv_results_["mean_test_score"] for each in (there, here))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert "all candidates together" in str(there.plan_)
    printed = capsys.readouterr().out
    assert "all of them on each worker that works" in printed
    assert says in printed


def test_large_tables_are_divided_by_themselves(client, monkeypatch, capsys):
    monkeypatch.setattr("gpuml_dask.planning.plan.DIVIDED_FROM_BYTES", 1000)
    X, y = wide_frame()
    lazy = dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=3)
    _, there = searches("ridge", STEPS["means"], client, verbose=2)
    assert "rows divided" in str(there.explain(*lazy))
    assert there.explain(*lazy).steps[0].reasons == ()
    there.fit(*lazy)
    assert "divided over the workers (rows of 64 MiB or more)" in capsys.readouterr().out
    assert "rows divided" in str(there.plan_)


def test_large_rows_that_have_to_come_together_are_told(client, monkeypatch):
    monkeypatch.setattr("gpuml_dask.planning.plan.DIVIDED_FROM_BYTES", 1000)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 4)), rng.integers(0, 2, N)
    lazy = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    grid = {"n_neighbors": [1, 3, 5]}
    search = GridSearchCV(KNeighborsClassifier(), grid, client=client, cv=3)
    with pytest.warns(GatheredWarning, match=r"\(3 of 3\): .*KNeighborsClassifier") as told:
        search.fit(*lazy)
    assert [each.filename for each in told] == [__file__]
    here = SearchHere(KNeighborsClassifier(), grid, cv=3).fit(X, y)
    for model in (search, search.fit(X, y)):  # rows of this process are sent, silently
        found, expected = (m.cv_results_["mean_test_score"] for m in (model, here))
        np.testing.assert_array_equal(found, expected)
    with dask.config.set({"gpuml.plan": "whole"}):
        search.fit(*lazy)


def test_too_many_levels_are_left_to_one_worker(client, by_rows):
    X, y = frame()
    X = pd.concat([X] * 25, ignore_index=True).assign(number=np.resize(np.arange(1500.0), 25 * N))
    y = pd.concat([y] * 25, ignore_index=True)
    here, there = searches("ridge", [("l", ANY, ["number"])], client, cv=KFold(2))
    here.fit(X, y)
    with pytest.warns(GatheredWarning, match=r"\(2 of 2\).*Column 'number' has more than 1,024"):
        there.fit(dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=3))
    assert "rows whole: Column 'number' has more than 1,024 values" in str(there.plan_)
    found, expected = (each.cv_results_["mean_test_score"] for each in (there, here))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_setting_that_needs_all_rows_says_so_of_its_group_alone(client, by_rows):
    X, y = frame()
    _, there = searches("ridge", [("n", SimpleImputer(), ["x", "z"]), ("l", ANY, NAMES)], client)
    fills = [SimpleImputer(), filled(MinMaxScaler())]
    there.set_params(param_grid={"columntransformer__n": fills})
    says = (
        r"all of them .* each worker that fits some of the candidates \(1 of 2\).*: MinMaxScaler is"
    )
    with pytest.warns(GatheredWarning, match=says) as told:
        there.fit(dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=3))
    assert [each.filename for each in told] == [__file__]
    here = SearchHere(there.estimator, there.param_grid).fit(X, y)
    found, expected = (each.cv_results_["mean_test_score"] for each in (there, here))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    divided, whole = there.plan_.steps
    assert divided.why == "all candidates together, rows divided"
    assert "rows whole: MinMaxScaler is fitted to rows in memory" in whole.why


def test_a_candidate_that_is_fitted_alone_says_that_it_needs_all_rows(client, by_rows):
    X, y = wide_frame()
    _, there = searches("ridge", STEPS["means"], client)
    there.set_params(param_grid={"ridge__solver": ["auto", "sag"]})
    with pytest.warns(GatheredWarning, match=r"\(1 of 2\).*solver='sag' cannot be batched"):
        there.fit(dd.from_pandas(X, npartitions=3), y)


@pytest.mark.parametrize("index", ["floats", "dates"])
def test_whatever_the_index_is(client, by_rows, index):
    X, y = frame()
    dates = pd.date_range("2020", periods=N)
    X.index = y.index = dates if index == "dates" else np.arange(N) / 7 - 5.0
    here, there = searches("ridge", STEPS["means"][1:], client)
    here.fit(X, y)
    check_alike(there.fit(X, y), here, 1e-8)
    there.fit(dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=3))
    check_alike(there, here, 1e-8)


def test_chunks_that_are_computed_again_are_no_tables(client):
    X, y = frame()
    lazy = dd.from_pandas(X[["x", "z"]], npartitions=3), dd.from_pandas(y, npartitions=3)
    _, there = searches("ridge", [("n", SimpleImputer(), ["x", "z"])], client)
    with (
        dask.config.set({"gpuml.memory": 0}),
        pytest.raises(NeedsAllRows, match=r"gpuml\.memory.*persist\(\)"),
    ):
        there.fit(*lazy)


def test_gpus_read_tables_in_one_place():
    X, y = frame()
    here, _ = searches("ridge", [("l", ANY, NAMES)], None)
    job = Job(here.estimator, X, y, [], Task(None, {}, {}, False, np.nan, 0))
    groups = [Group({}, [{}], [0])]
    worker = {"memory_limit": 0, "host": "a", "name": 0}
    gpu = {"a": {**worker, "resources": {"GPU": 1}, "gpu": {}}}
    with gpuml.config_context(device="cuda"):
        plan = plan_for(job, groups, 0, gpu)
    assert plan.mode == "whole"
    assert "where all its rows are" in plan.why


def test_dask_knows_the_bytes_of_tables():
    X, y = frame()
    layout = ColumnTransformer([("n", SimpleImputer(), ["x", "z"]), ("l", ANY, NAMES)])
    table = layout.table_layout(X).read(X, HOST)
    n_bytes = N * (2 * 8 + 1 + 2)  # numbers, holes of one column, and codes
    assert n_bytes < sizeof(table) < n_bytes + 1000
    assert sizeof(Share(table, y.to_numpy())) > n_bytes + 8 * N
