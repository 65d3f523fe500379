"""scikit-learn-intelex as the engine of adapters on a CPU; a fake where it is not installed."""

import importlib
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn import cluster, neighbors
from sklearn.base import clone
from sklearn.datasets import load_iris

import gpuml
from gpuml._arrays import place_of
from gpuml.adapters import all_rows
from gpuml.adapters._intelex_rows import ROWS
from gpuml.cluster import DBSCAN
from gpuml.ensemble import RandomForestClassifier, RandomForestRegressor
from gpuml.exceptions import FallbackError, FallbackWarning
from gpuml.manifold import TSNE
from gpuml.model_selection import GridSearchCV
from gpuml.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from gpuml.svm import SVC, SVR
from tests.adapters import fake_sklearnex

X, Y = load_iris(return_X_y=True)
X = X + np.random.default_rng(0).normal(size=X.shape) * 1e-3  # no two rows are equally far
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
NUMBERS = X @ np.array([1.0, -2.0, 0.5, 3.0])

INTELEX, SKLEARN = "scikit-learn-intelex", "scikit-learn"


@pytest.fixture
def asked(intelex):
    """The engine is asked for, however few the rows."""
    with gpuml.config_context(cpu_engine="intelex"):
        yield intelex


# ---------------------------------------------------------------- who does the work


def test_engine_says_who_did_each_call(asked):
    model = KNeighborsClassifier()
    assert not hasattr(model, "engine_")
    model.fit(X, NAMES)
    assert model.engine_ == {"fit": INTELEX}
    oracle = neighbors.KNeighborsClassifier().fit(X, NAMES)
    np.testing.assert_array_equal(model.predict(X), oracle.predict(X))
    assert model.engine_ == {"fit": INTELEX, "predict": INTELEX}
    with pytest.warns(FallbackWarning, match="scikit-learn-intelex has no radius_neighbors"):
        near = NearestNeighbors(radius=0.5).fit(X).radius_neighbors(X[:2], return_distance=False)
    assert len(near) == 2
    with gpuml.config_context(cpu_engine="sklearn"):
        model.predict(X)
        assert model.engine_ == {"fit": INTELEX, "predict": SKLEARN}
        assert model.fit(X, NAMES).engine_ == {"fit": SKLEARN}
    assert all(who == "onedal" for _, _, who in asked.Asks.calls)


def test_copies_and_loaded_models_say_who_has_them(asked):
    model = KNeighborsClassifier().fit(X, NAMES)
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.engine_ == {"fit": SKLEARN}
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert "_fitted" not in vars(loaded)
    assert not hasattr(clone(model), "engine_")


def test_auto_takes_it_where_it_pays_and_results_are_scikit_learns(intelex):
    assert KNeighborsClassifier().fit(X, Y).engine_ == {"fit": SKLEARN}
    rows = np.random.default_rng(0).normal(size=(3_000, 4))
    y = (rows[:, 0] > 0).astype(int)
    assert KNeighborsClassifier().fit(rows, y).engine_ == {"fit": INTELEX}
    assert RandomForestClassifier(500, max_depth=1).fit(rows, y).engine_ == {"fit": SKLEARN}
    with gpuml.config_context(cpu_engine="sklearn"):
        assert KNeighborsClassifier().fit(rows, y).engine_ == {"fit": SKLEARN}


def test_without_it_auto_is_scikit_learn_and_asking_is_an_error(monkeypatch):
    fake_sklearnex.uninstall(monkeypatch)
    rows = np.random.default_rng(0).normal(size=(3_000, 4))
    assert NearestNeighbors().fit(rows).engine_ == {"fit": SKLEARN}
    with (
        gpuml.config_context(cpu_engine="intelex"),
        pytest.raises(RuntimeError, match=r"Install gpuml\[intel\]"),
    ):
        NearestNeighbors().fit(rows)


def test_the_setting_is_checked():
    with pytest.raises(ValueError, match="cpu_engine must be one of"):
        gpuml.set_config(cpu_engine="daal")


# ---------------------------------------------------------------- refusals


def test_what_it_refuses_is_said_and_done_by_scikit_learn(asked):
    model, oracle = DBSCAN(algorithm="kd_tree"), cluster.DBSCAN(algorithm="kd_tree").fit(X)
    words = "DBSCAN.fit runs scikit-learn on the CPU: scikit-learn-intelex says: 'kd_tree'"
    with pytest.warns(FallbackWarning, match=words):
        model.fit(X)
    assert model.engine_ == {"fit": SKLEARN}
    assert "_fitted" not in vars(model)
    np.testing.assert_array_equal(model.labels_, oracle.labels_)
    with gpuml.config_context(fallback="error"), pytest.raises(FallbackError, match="kd_tree"):
        model.fit(X)
    with gpuml.config_context(fallback="silent"), warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X)


@pytest.mark.parametrize("fallback", ["warn", "error"])
def test_auto_leaves_what_it_refuses_to_scikit_learn_without_a_word(intelex, fallback):
    rows = np.random.default_rng(0).normal(size=(3_000, 4))
    numbers = rows @ np.array([1.0, -2.0, 0.5, 3.0])
    with gpuml.config_context(fallback=fallback), warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = KNeighborsRegressor(algorithm="ball_tree").fit(rows, numbers)
        assert tree.engine_ == {"fit": SKLEARN}
        model = KNeighborsRegressor().fit(rows, numbers)
        assert model.engine_ == {"fit": INTELEX}
        three = model.predict(rows[:3])
        assert model.engine_["predict"] == SKLEARN
        assert model.predict(rows).shape == (3_000,)
        assert model.engine_["predict"] == INTELEX
        near = NearestNeighbors(radius=0.1).fit(rows)
        near.radius_neighbors(rows[:2])
        assert near.engine_ == {"fit": INTELEX, "radius_neighbors": SKLEARN}
    oracle = neighbors.KNeighborsRegressor().fit(rows, numbers)
    np.testing.assert_array_equal(three, oracle.predict(rows[:3]))


def test_what_a_call_refuses_is_that_call_alone(asked):
    model = KNeighborsRegressor().fit(X, NUMBERS)
    oracle = neighbors.KNeighborsRegressor().fit(X, NUMBERS)
    with pytest.warns(FallbackWarning, match="Three rows are not supported"):
        three = model.predict(X[:3])
    assert model.engine_["predict"] == SKLEARN
    np.testing.assert_array_equal(three, oracle.predict(X[:3]))
    np.testing.assert_array_equal(model.predict(X), oracle.predict(X))
    assert model.engine_["predict"] == INTELEX


def test_rows_refuse_before_it_is_asked(asked):
    with pytest.warns(FallbackWarning, match="scikit-learn-intelex has no criterion='entropy'"):
        RandomForestClassifier(2, criterion="entropy").fit(X, Y)
    assert asked.Asks.calls == []


# ---------------------------------------------------------------- all rows

# class -> (model, y)
MODELS = {
    "DBSCAN": (DBSCAN(eps=0.4), None),
    "KNeighborsClassifier": (KNeighborsClassifier(), NAMES),
    "KNeighborsClassifier, weighted": (
        KNeighborsClassifier(3, weights="distance", algorithm="brute"),
        NAMES,
    ),
    "KNeighborsRegressor": (KNeighborsRegressor(weights="distance"), NUMBERS),
    "KNeighborsRegressor, manhattan": (KNeighborsRegressor(p=1, algorithm="brute"), NUMBERS),
    "NearestNeighbors": (NearestNeighbors(), None),
    "RandomForestClassifier": (RandomForestClassifier(20, random_state=0), NAMES),
    "RandomForestRegressor": (RandomForestRegressor(20, random_state=0), NUMBERS),
    "SVC": (SVC(tol=1e-6), NAMES),
    "SVC of two": (SVC(tol=1e-6, class_weight="balanced"), NAMES == "setosa"),
    "SVR": (SVR(tol=1e-6), NUMBERS),
    "TSNE": (TSNE(perplexity=10, max_iter=300, random_state=0), None),
}
# Their models are others than scikit-learn's.
OTHERS = ("RandomForest", "TSNE")


def test_the_table_has_rows_of_adapters_only():
    of_adapters = {row.sk for row in all_rows().values()}
    assert set(ROWS) <= of_adapters
    assert {sk.__name__ for sk in ROWS} == {name.partition(",")[0].split()[0] for name in MODELS}
    for row in ROWS.values():
        assert all(callable(getattr(row.sk, name, None)) for name in row.methods)


@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_each_row_around_a_fake(asked, name, dtype):
    _check_row(name, dtype)


@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_each_row(name, dtype):
    pytest.importorskip("sklearnex", reason="scikit-learn-intelex is not installed")
    with gpuml.config_context(cpu_engine="intelex"):
        _check_row(name, dtype)


def _check_row(name, dtype):
    """Results agree with scikit-learn's, and those of the model as scikit-learn's with its own."""
    model, y = MODELS[name]
    rows, target = X.astype(dtype), () if y is None else (y,)
    model = clone(model).fit(rows, *target)
    assert model.engine_ == {"fit": INTELEX}
    oracle = model._row.sk(**model.get_params()).fit(rows, *target)
    twin = model.as_sklearn()
    assert type(twin) is model._row.sk
    exact = not name.startswith(OTHERS)
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-4}
    for method in ROWS[model._row.sk].methods:
        ours, theirs, own = (getattr(each, method)(rows) for each in (model, oracle, twin))
        for here, there, lowered in zip(*map(_arrays, (ours, theirs, own)), strict=True):
            # As of cuML: floats are of the dtype of the rows.
            assert here.dtype in (there.dtype, np.dtype(dtype)), method
            assert here.shape == there.shape, method
            if here.dtype.kind in "US":
                np.testing.assert_array_equal(here, lowered, method)
            else:
                np.testing.assert_allclose(here, lowered, err_msg=method, **tolerance)
            if exact and here.dtype.kind in "US":
                np.testing.assert_array_equal(here, there, method)
            elif exact:
                np.testing.assert_allclose(here, there, err_msg=method, **tolerance)
    for attribute in ("labels_", "cluster_centers_", "core_sample_indices_", "support_"):
        if exact and hasattr(oracle, attribute):
            ours, theirs = getattr(model, attribute), getattr(oracle, attribute)
            assert ours.dtype == theirs.dtype, attribute
            np.testing.assert_allclose(ours, theirs, err_msg=attribute, **tolerance)
    if hasattr(model, "score") and y is not None:
        assert model.score(rows, y) == pytest.approx(oracle.score(rows, y), abs=0.03)
    for method in ROWS[model._row.sk].methods:
        assert model.engine_[method] == INTELEX
    assert model.n_features_in_ == 4


def _arrays(result):
    if hasattr(result, "toarray"):
        return [result.toarray()]
    return list(result) if isinstance(result, tuple) else [np.asarray(result)]


def test_embeddings_agree_in_neighbourhoods():
    pytest.importorskip("sklearnex", reason="scikit-learn-intelex is not installed")
    from sklearn.manifold import trustworthiness

    with gpuml.config_context(cpu_engine="intelex"):
        image = TSNE(perplexity=10, random_state=0).fit_transform(X)
    assert image.dtype == np.float32
    assert trustworthiness(X, image) > 0.95


def test_a_search_asks_it(asked):
    grid = {"n_neighbors": [1, 4, 9], "weights": ["uniform", "distance"]}
    search = GridSearchCV(KNeighborsClassifier(), grid, cv=3).fit(X, NAMES)
    assert ("KNeighborsClassifier", "kneighbors", "onedal") in asked.Asks.calls
    assert search.best_estimator_.engine_["fit"] == INTELEX
    with gpuml.config_context(cpu_engine="sklearn"):
        other = GridSearchCV(KNeighborsClassifier(), grid, cv=3).fit(X, NAMES)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], rtol=1e-12
    )


def test_other_parameters_after_the_fit_are_a_model_of_its_own(asked):
    model = KNeighborsClassifier(1).fit(X, NAMES)
    model.set_params(n_neighbors=7)
    oracle = neighbors.KNeighborsClassifier(7).fit(X, NAMES)
    np.testing.assert_array_equal(model.predict_proba(X), oracle.predict_proba(X))
    assert model.engine_["predict_proba"] == INTELEX


def test_rows_of_a_gpu_are_worked_on_there(fake, asked):
    model = RandomForestClassifier(3, random_state=0).fit(X, Y)
    assert model.engine_ == {"fit": INTELEX}
    labels = model.predict(fake.on_device(X))
    assert place_of(labels) == fake.device_place()
    assert model.engine_["predict"] == "cuML"
    assert type(model.predict(X)) is np.ndarray
    assert model.engine_["predict"] == INTELEX


LEAK = """
import numpy as np, sklearn
from sklearn import cluster, ensemble, manifold, neighbors, svm
modules = (cluster, ensemble, manifold, neighbors, svm)
before = [dict(vars(module)) for module in modules]
import gpuml
from gpuml.neighbors import KNeighborsClassifier
X = np.random.default_rng(0).normal(size=(50, 3))
with gpuml.config_context(cpu_engine="intelex"):
    model = KNeighborsClassifier().fit(X, X[:, 0] > 0)
assert model.engine_ == {"fit": "scikit-learn-intelex"}
for module, names in zip(modules, before):
    for name, value in names.items():
        assert getattr(module, name) is value, name
import sklearnex
assert not sklearnex.sklearn_is_patched()
"""


def test_scikit_learn_is_not_patched():
    pytest.importorskip("sklearnex", reason="scikit-learn-intelex is not installed")
    subprocess.run([sys.executable, "-c", LEAK], check=True, timeout=120)


@pytest.mark.parametrize("sk", ROWS, ids=lambda sk: sk.__name__)
def test_its_class_asks_as_the_rows_expect(sk):
    pytest.importorskip("sklearnex", reason="scikit-learn-intelex is not installed")
    module, _, name = ROWS[sk].intelex.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    assert issubclass(kind, sk)
    assert hasattr(kind, "_onedal_cpu_supported") or name == "TSNE"
