"""What adapters do around cuML, which is a fake here: dispatch, attributes, copies, pickles."""

import copy
import pickle
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import sklearn
from sklearn import cluster, ensemble
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml.adapters import _engine
from gpuml.cluster import KMeans
from gpuml.ensemble import RandomForestClassifier, RandomForestRegressor
from gpuml.model_selection.residence import computes_on_gpu, reads_host_only
from tests.adapters import fake_cuml

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


@pytest.fixture
def device(fake):
    """Host rows go to the device, however few they are."""
    with gpuml.config_context(device="cuda", fallback="error"):
        yield fake


def kmeans(**params):
    return KMeans(3, n_init=2, random_state=0, **params)


def forest(**params):
    return RandomForestClassifier(**{"n_estimators": 5, "random_state": 0, **params})


def is_engine(model):
    return vars(model)["_fitted"].engine is not None


# ---------------------------------------------------------------- where work is done


def test_small_host_rows_stay_on_the_host(fake):
    model = kmeans().fit(X)
    assert "_fitted" not in vars(model)
    assert fake.KMeans.calls == []
    np.testing.assert_array_equal(
        model.cluster_centers_, cluster.KMeans(3, n_init=2, random_state=0).fit(X).cluster_centers_
    )


def test_work_decides_where_host_rows_go(fake):
    model = RandomForestRegressor(n_estimators=60_000)
    rows = np.zeros((150, 1))
    with gpuml.config_context(device="cpu"):
        assert model._place_of_fit(rows) is None
    assert model._place_of_fit(rows) == fake.device_place()
    assert model.set_params(n_estimators=5)._place_of_fit(rows) is None


def test_rows_of_the_device_are_worked_on_there(fake):
    model = kmeans().fit(fake.on_device(X))
    labels = model.predict(fake.on_device(X))
    assert fake.KMeans.calls == ["fit", "predict"]
    assert place_of(labels) == fake.device_place()
    assert place_of(model.cluster_centers_) == fake.device_place()


def test_host_rows_come_back_to_the_host(device):
    model = kmeans().fit(X)
    assert device.KMeans.calls == ["fit"]
    assert type(model.predict(X)) is np.ndarray
    assert type(model.cluster_centers_) is np.ndarray


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_floats_are_of_the_dtype_of_the_rows(device, dtype):
    rows = X.astype(dtype)
    expected = "float64" if dtype == "int64" else dtype
    model = kmeans().fit(rows)
    assert model.transform(rows).dtype == expected
    assert model.cluster_centers_.dtype == expected
    assert model.labels_.dtype == "int32"


def test_the_device_of_rows_at_use_counts(device):
    model = kmeans().fit(X)
    assert type(model.transform(X)) is np.ndarray
    assert place_of(model.transform(device.on_device(X))) == device.device_place()


def test_host_rows_never_leave_where_the_setting_forbids_it(device):
    model = kmeans().fit(X)
    expected = model.predict(X)
    with gpuml.config_context(device="cpu"):
        np.testing.assert_array_equal(model.predict(X), expected)
    assert device.KMeans.calls == ["fit", "predict"]


# ---------------------------------------------------------------- results


@pytest.mark.parametrize("labels", [Y, Y + 7, NAMES, Y > 0, Y.astype(float)])
def test_labels_come_back_as_they_were(device, labels):
    model = forest().fit(X, labels)
    oracle = ensemble.RandomForestClassifier(5, random_state=0).fit(X, labels)
    assert is_engine(model)
    np.testing.assert_array_equal(model.classes_, oracle.classes_)
    assert model.predict(X).dtype == oracle.predict(X).dtype
    assert model.score(X, labels) > 0.9
    assert model.predict_proba(X).shape == (150, len(oracle.classes_))


def test_labels_of_device_rows(device):
    rows = device.on_device(X)
    numbers = forest().fit(rows, device.on_device(Y + 7))
    assert place_of(numbers.predict(rows)) == device.device_place()
    assert set(to_host(numbers.predict(rows)).tolist()) == {7, 8, 9}
    assert numbers.score(rows, device.on_device(Y + 7)) > 0.9
    strings = forest().fit(rows, NAMES)
    assert set(strings.predict(rows)) == set(NAMES)
    assert strings.score(rows, NAMES) > 0.9


def test_class_weights_are_given_by_code(device):
    model = forest(class_weight={"setosa": 5.0}).fit(X, NAMES)
    assert vars(model)["_fitted"].engine.model.model.class_weight == {0: 5.0, 1: 1.0, 2: 1.0}
    assert model.class_weight == {"setosa": 5.0}


def test_regression(device):
    rows, y = make_regression(100, 5, random_state=0)
    model = RandomForestRegressor(10, random_state=0).fit(rows, y, sample_weight=np.ones(100))
    assert is_engine(model)
    assert model.score(rows, y) == pytest.approx(
        sklearn.metrics.r2_score(y, model.predict(rows)), rel=1e-12
    )


def test_numpy_numbers_as_parameters_are_made_plain(device):
    # The fake's `from_sklearn` asserts it.
    model = forest(n_estimators=np.int64(5), min_samples_leaf=np.int64(5)).fit(X, Y)
    assert is_engine(model)


def test_fit_predict_and_fit_transform(device):
    model = kmeans()
    np.testing.assert_array_equal(model.fit_predict(X), model.labels_)
    distances = kmeans().fit_transform(X)
    np.testing.assert_allclose(distances, kmeans().fit(X).transform(X))
    assert device.KMeans.calls == ["fit", "fit", "transform", "fit", "transform"]


@pytest.mark.parametrize("n_init", ["auto", 3])
def test_given_centres_mean_one_run(device, n_init):
    for start in (X[:3], X[:3].tolist(), device.on_device(X[:3])):
        with pytest.warns(RuntimeWarning, match="of n_init=3") if n_init == 3 else nullcontext():
            model = KMeans(3, init=start, n_init=n_init).fit(X)
        assert vars(model)["_fitted"].engine.model.model.n_init == 1
    assert KMeans(3, init="random").fit(X)._fitted.engine.model.model.n_init == 10


def test_score_of_a_clusterer_is_its_own(device):
    model = kmeans().fit(X)
    assert model.score(X) == pytest.approx(-model.inertia_)
    assert type(model.score(X)) is float


def test_frames_in_and_out(device):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = kmeans().set_output(transform="pandas").fit(frame)
    out = model.transform(frame)
    assert list(out.columns) == ["kmeans0", "kmeans1", "kmeans2"]
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])
    out = kmeans().set_output(transform="pandas").fit(X).transform(device.on_device(X))
    assert isinstance(out, pandas.DataFrame)


# ---------------------------------------------------------------- attributes


def test_all_attributes_of_scikit_learn_are_there(device):
    model, oracle = kmeans().fit(X), cluster.KMeans(3, n_init=2, random_state=0).fit(X)
    for name in [name for name in vars(oracle) if name.endswith("_") or name in dir(model)]:
        assert type(getattr(model, name)) is type(getattr(oracle, name)), name
    assert model.get_feature_names_out().tolist() == oracle.get_feature_names_out().tolist()


def test_reading_attributes_and_predicting_leave_the_object_as_it_is(device):
    model = forest().fit(X, Y)
    before = dict(vars(model))
    assert len(model) == 5
    assert model.estimators_[0].predict(X).shape == (150,)
    model.predict(X)
    assert vars(model) == before
    assert set(before) >= {"_fitted", "n_features_in_"}


def test_absent_attributes_say_why(device):
    model = forest().fit(X, Y)
    with pytest.raises(AttributeError, match="does not record which rows"):
        model.estimators_samples_  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        model.nothing  # noqa: B018
    assert not hasattr(model, "_nothing")
    assert not hasattr(kmeans(), "labels_")


def test_an_unfitted_model_is_not_fitted(device):
    with pytest.raises(NotFittedError):
        kmeans().predict(X)
    with pytest.raises(NotFittedError):
        kmeans().predict(device.on_device(X))


def test_features_are_checked(device):
    model = kmeans().fit(X)
    with pytest.raises(ValueError, match="X has 3 features, but KMeans is expecting 4"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(device.on_device(np.full((2, 4), np.nan)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_the_device_that_are_not_finite_are_refused(device, dtype, value):
    """Where the fit itself finds out, too."""
    rows = X.astype(dtype)
    model = kmeans().fit(device.on_device(rows))
    before = dict(vars(model))
    rows[7, 2] = value
    what = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=f"Input X contains {what}(.|\n)*KMeans") as raised:
        model.fit(device.on_device(rows))
    assert raised.value.__suppress_context__
    assert vars(model) == before


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [list, np.asarray, fake_cuml.on_device])
def test_centres_that_are_not_finite_are_refused(device, kind, value):
    start = X[:3].copy()
    start[1, 2] = value
    start = start.tolist() if kind is list else kind(start)
    with pytest.raises(ValueError, match="Input init contains NaN or infinity"):
        KMeans(3, init=start, n_init=1).fit(device.on_device(X))
    assert device.KMeans.calls == []


def test_rows_whose_squares_overflow_are_finite(device):
    with warnings.catch_warnings(action="ignore"):
        assert is_engine(kmeans().fit(device.on_device(1e200 * X)))


def test_bad_parameters_are_refused_as_by_scikit_learn(device):
    with pytest.raises(sklearn.utils._param_validation.InvalidParameterError):
        kmeans(max_iter="many").fit(X)
    with gpuml.config_context(device="auto"), pytest.raises(ValueError, match="n_estimators"):
        forest(n_estimators="many").fit(X, Y)
    with pytest.raises(ValueError, match=r"n_samples=2 should be >= n_clusters=3"):
        kmeans().fit(X[:2])
    with pytest.raises(ValueError, match="bootstrap"):
        forest(max_samples=0.5, bootstrap=False).fit(X, Y)
    kmeans(max_iter=3).fit(X)
    for bad in ({"max_iter": 3.0}, {"max_iter": np.float64(3)}, {"copy_x": "perhaps"}):
        with pytest.raises(sklearn.utils._param_validation.InvalidParameterError):
            kmeans(**bad).fit(X)
    with sklearn.config_context(skip_parameter_validation=True):
        kmeans(copy_x="perhaps").fit(X)


@pytest.mark.parametrize("make", [kmeans, forest])
def test_only_who_asks_for_it_pays_for_a_model_of_the_host(device, make):
    """scikit-learn asks at each use whether the features had names."""
    model = make().fit(X, Y)
    for method in model._row.methods:
        with np.errstate(divide="ignore"):  # logarithms of 0
            getattr(model, method)(X)
    model.score(X, Y)
    assert not hasattr(model, "feature_names_in_")
    assert vars(model)["_fitted"]._twin is None
    model.fit(X, Y)
    assert vars(model)["_fitted"]._twin is None


# ---------------------------------------------------------------- nothing is stale


def test_parameters_set_after_the_fit_count(device):
    model = forest().fit(X, Y)
    engine = vars(model)["_fitted"].engine
    model.set_params(random_state=1, n_jobs=2).predict(X)
    assert vars(model)["_fitted"].engine is engine, "these are of no use to a fitted model"
    model.set_params(max_depth=1).predict(X)
    assert vars(model)["_fitted"].engine.model.model.max_depth == 1


def test_attributes_set_by_users_count(device):
    model = kmeans().fit(X)
    model.cluster_centers_ = model.cluster_centers_[::-1].copy()
    mirrored = kmeans().fit(X).predict(X)
    np.testing.assert_array_equal(model.predict(X), 2 - mirrored)
    assert "_fitted" not in vars(model)


def test_a_refit_replaces_all(device):
    model = forest().fit(X, NAMES)
    importances = model.feature_importances_
    model.fit(device.on_device(X[:, :2]), Y)
    assert model.feature_importances_.shape == (2,) != importances.shape
    assert model.n_features_in_ == 2
    with gpuml.config_context(device="cpu"):
        model.fit(X[:, :3], Y)
    assert "_fitted" not in vars(model)
    assert model.feature_importances_.shape == (3,)
    model.fit(X, Y)
    assert is_engine(model)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


def test_a_failed_refit_leaves_the_model_as_it_was(device):
    model = kmeans().fit(X)
    before = dict(vars(model))
    for bad in (np.full((5, 4), np.nan), X[:2]):
        with pytest.raises(ValueError, match=r"NaN|n_samples=2"):
            model.fit(bad)
        assert vars(model) == before


def test_out_of_memory_is_no_reason_to_go_elsewhere(device, monkeypatch):
    tried = []

    def fit(self, X, y=None, sample_weight=None):
        tried.append(1)
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(device.KMeans, "fit", fit)
    with pytest.raises(MemoryError, match="device='cpu'"):
        kmeans().fit(X)
    assert len(tried) == 2


# ---------------------------------------------------------------- other machines, and copies


@pytest.mark.parametrize("make", [lambda: kmeans().fit(X), lambda: forest().fit(X, NAMES)])
def test_a_pickle_is_that_of_a_model_of_the_host(device, make):
    model = make()
    text = pickle.dumps(model)
    for module in (b"cuml", b"array_api_strict", b"adapters._fitted"):
        assert module not in text
    with gpuml.config_context(device="cpu"):
        loaded = pickle.loads(text)
        assert "_fitted" not in vars(loaded)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_what_only_the_engine_has_travels_beside_the_model(device):
    model = forest().fit(X, Y)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    assert "feature_importances_" not in vars(loaded.as_sklearn())
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)


def test_a_model_of_the_host_is_lifted_for_rows_of_the_device(device):
    with gpuml.config_context(device="cpu"):
        model = forest().fit(X, NAMES)
        expected = model.predict(X)
    rows = device.on_device(X)
    np.testing.assert_array_equal(model.predict(rows), expected)
    model.predict_proba(rows)
    assert device.RandomForestClassifier.calls == ["predict", "predict_proba"]
    lifted = model._lifted[1]
    model.predict(rows)
    assert model._lifted[1] is lifted
    model.estimators_ = model.estimators_[:1]
    model.predict(rows)
    assert model._lifted[1] is not lifted
    assert "_lifted" not in model.__getstate__()
    lifted = model._lifted[1]
    other = copy.deepcopy(model)
    np.testing.assert_array_equal(other.predict(rows), model.predict(rows))
    assert other._lifted[1] is lifted


def test_as_sklearn(device):
    model = forest().fit(X, NAMES)
    theirs = model.as_sklearn()
    assert type(theirs) is ensemble.RandomForestClassifier
    np.testing.assert_array_equal(theirs.predict(X), model.predict(X))
    assert theirs.get_params() == model.get_params()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_fitted_where_the_model_is(device, copied):
    model = forest().fit(X, NAMES)
    other = copied(model)
    assert vars(other)["_fitted"].engine is vars(model)["_fitted"].engine
    expected = model.predict(X)
    np.testing.assert_array_equal(other.predict(X), expected)
    other.fit(X[:, :2], Y)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.n_features_in_ == 4


def test_requests_for_metadata_are_those_of_scikit_learn(device):
    with sklearn.config_context(enable_metadata_routing=True):
        model = forest().set_fit_request(sample_weight=True)
        assert model.get_metadata_routing().fit.requests == {"sample_weight": True}


def test_clones_are_unfitted(device):
    model = clone(KMeans(3, init=X[:3]).fit(X))
    assert "_fitted" not in vars(model)
    assert is_engine(model.fit(X))


def test_in_a_pipeline(device):
    model = make_pipeline(kmeans(), forest()).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.9
    assert model[:-1].transform(device.on_device(X)).shape == (150, 3)


# ---------------------------------------------------------------- what searches ask


def test_searches_know_what_computes_on_a_gpu(fake):
    assert computes_on_gpu(kmeans())
    assert not computes_on_gpu(forest(warm_start=True))
    assert not computes_on_gpu(make_pipeline(kmeans(), forest(ccp_alpha=0.1)))
    assert not reads_host_only(kmeans())


def test_without_cuml_nothing_computes_on_a_gpu(monkeypatch):
    monkeypatch.setattr("gpuml.adapters._base.has_cuml", lambda: False)
    assert not computes_on_gpu(kmeans())


def test_some_models_work_with_a_pool_of_memory(device, monkeypatch):
    entered = []

    @contextmanager
    def pool():
        entered.append(1)
        yield

    monkeypatch.setattr(_engine, "pooled_memory", pool)
    for model, pooled in ((kmeans(), True), (forest(), True)):
        entered.clear()
        model.fit(X, Y).predict(X)
        assert len(entered) == (2 if pooled else 0)
