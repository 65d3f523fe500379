"""Where scikit-learn does the work that a GPU was meant to do: what is said, and what comes back."""

import pickle
import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn import cluster, covariance, ensemble, neighbors
from sklearn.base import clone
from sklearn.datasets import load_iris

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml.adapters import Conversion, Row, build
from gpuml.adapters.rows.cluster import KMEANS
from gpuml.cluster import KMeans
from gpuml.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor
from gpuml.exceptions import FallbackError, FallbackWarning, PrecisionWarning
from gpuml.neighbors import KernelDensity, KNeighborsClassifier, KNeighborsRegressor
from gpuml.svm import SVC, SVR

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]

WITH_NAN = X.copy()
WITH_NAN[0] = np.nan


def forest(**params):
    return RandomForestClassifier(**{"n_estimators": 5, "random_state": 0, **params})


def one_pass(n, p, params):
    return 8.0 * n * p


OAS = build(Row(sk=covariance.OAS, cuml=None, work=one_pass), __name__)
LocalOutlierFactor = build(Row(sk=neighbors.LocalOutlierFactor, cuml=None, work=one_pass), __name__)

REFUSED = [
    (forest(ccp_alpha=0.1), X, "cuML has no ccp_alpha=0.1"),
    (forest(min_weight_fraction_leaf=0.1), X, "cuML has no min_weight_fraction_leaf=0.1"),
    (forest(criterion="log_loss"), X, "cuML has no criterion='log_loss'"),
    (forest(class_weight="balanced_subsample"), X, "cuML has no class_weight='balanced_subsample'"),
    (forest(max_samples=np.int64(50)), X, "cuML has no integer max_samples"),
    (forest(), WITH_NAN, "cuML has no nan in X"),
    (forest(), sparse.csr_matrix(X), "cuML has no sparse X"),
    (KMeans(3, algorithm="elkan", random_state=0), X, "cuML says: `algorithm='elkan'`"),
    (OAS(), X, "cuML has no OAS"),
]


@pytest.mark.parametrize(("model", "rows", "reason"), REFUSED, ids=lambda value: str(value)[:40])
def test_each_refusal(fake, model, rows, reason):
    oracle = model._row.sk(**model.get_params()).fit(rows, Y)
    with gpuml.config_context(device="cuda", fallback="error"):
        with pytest.raises(FallbackError) as caught:
            model.fit(rows, Y)
        assert reason in str(caught.value)
        assert not hasattr(model, "n_features_in_")
    with gpuml.config_context(device="cuda", fallback="warn"):
        with pytest.warns(FallbackWarning) as warned:
            model.fit(rows, Y)
        assert [reason in str(one.message) for one in warned] == [True]
    with gpuml.config_context(device="cuda", fallback="silent"), warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(rows, Y)
    for name in ("classes_", "cluster_centers_", "covariance_", "n_features_in_"):
        if hasattr(oracle, name):
            np.testing.assert_array_equal(getattr(model, name), getattr(oracle, name))


def test_the_warning_says_what_to_know(fake):
    with pytest.warns(FallbackWarning) as warned:
        forest(ccp_alpha=0.1).fit(fake.on_device(X), Y)
    assert warned[0].filename == __file__
    text = str(warned[0].message)
    assert text.startswith(
        "RandomForestClassifier.fit runs scikit-learn on the CPU: cuML has no ccp_alpha=0.1."
    )
    assert "Data came from" in text
    assert "config_context(fallback='silent')" in text


def test_several_targets(fake):
    with pytest.warns(FallbackWarning, match="several targets"):
        model = forest().fit(fake.on_device(X), np.stack([Y, Y], axis=1))
    assert [place_of(column) for column in model.predict_proba(fake.on_device(X))] == [
        fake.device_place(),
        fake.device_place(),
    ]
    with pytest.warns(FallbackWarning, match="several targets"):
        RandomForestRegressor(2).fit(fake.on_device(X), fake.on_device(X))


def test_no_warning_where_the_host_was_chosen():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forest(ccp_alpha=0.1).fit(X, Y)
        OAS().fit(X)


def test_host_rows_fall_back_to_a_plain_model(fake):
    with gpuml.config_context(device="cuda", fallback="silent"):
        model = forest(ccp_alpha=0.01).fit(X, Y)
    assert "_fitted" not in vars(model)


# ---------------------------------------------------------------- guests


@pytest.fixture
def silent(fake):
    with gpuml.config_context(fallback="silent"):
        yield fake


def test_a_guest_gives_results_where_the_rows_are(silent):
    rows = silent.on_device(X.astype("float32"))
    model = forest(ccp_alpha=0.01).fit(rows, silent.on_device(Y))
    oracle = ensemble.RandomForestClassifier(5, random_state=0, ccp_alpha=0.01)
    oracle.fit(X.astype("float32"), Y)
    proba = model.predict_proba(rows)
    assert place_of(proba) == silent.device_place()
    assert str(proba.dtype).endswith("float32")
    np.testing.assert_allclose(to_host(proba), oracle.predict_proba(X), rtol=1e-6)
    assert place_of(model.feature_importances_) == silent.device_place()
    assert place_of(model.classes_) == silent.device_place()
    assert model.n_features_in_ == 4
    assert type(model.predict(X)) is np.ndarray
    assert model.score(rows, silent.on_device(Y)) == pytest.approx(oracle.score(X, Y))


def test_labels_of_a_guest_keep_their_dtype(silent):
    rows = silent.on_device(X.astype("float32"))
    for params in ({"ccp_alpha": 0.01}, {}):
        model = forest(**params).fit(rows, silent.on_device(Y.astype("float64")))
        for labels in (model.predict(rows), model.classes_):
            assert str(labels.dtype).endswith("float64")


def test_a_guest_travels_as_a_plain_model(silent):
    model = forest(ccp_alpha=0.01).fit(silent.on_device(X), NAMES)
    loaded = pickle.loads(pickle.dumps(model))
    assert "_fitted" not in vars(loaded)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.classes_, sorted(set(NAMES)))


LATER = [KNeighborsClassifier(), KNeighborsRegressor(), SVC(), SVR(), KernelDensity()]
LATER += [forest(), KMeans(3, random_state=0), IsolationForest(random_state=0)]


@pytest.mark.parametrize("model", LATER, ids=lambda model: type(model).__name__)
def test_a_loaded_guest_knows_nothing_of_an_earlier_fit(model):
    strict = pytest.importorskip("array_api_strict")
    model = clone(model).fit(X[:, :3], Y)
    rows, labels = X[30:110] * 2.0, Y[30:110]
    model.fit(strict.asarray(rows), labels)
    ask = "score_samples" if isinstance(model, KernelDensity) else "predict"
    wanted = getattr(clone(model).fit(rows, labels), ask)(rows)
    loaded = pickle.loads(pickle.dumps(model))
    for each in (loaded, copy(loaded), loaded.as_sklearn(), model.as_sklearn()):
        np.testing.assert_allclose(getattr(each, ask)(rows), wanted)


def test_a_guest_grows_with_warm_start(silent):
    model = forest(warm_start=True).fit(silent.on_device(X), Y)
    first = model.estimators_[0]
    model.set_params(n_estimators=8).fit(silent.on_device(X), Y)
    assert len(model.estimators_) == 8
    assert model.estimators_[0] is first


def test_rows_of_torch_on_the_host_need_no_gpu():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KMeans(3, n_init=1, random_state=0).fit(torch.asarray(X))
    assert isinstance(model.cluster_centers_, torch.Tensor)
    assert isinstance(model.predict(torch.asarray(X)), torch.Tensor)
    assert isinstance(model.predict(X), np.ndarray)


def test_targets_and_weights_may_be_elsewhere(silent):
    y, weight = silent.on_device(Y), silent.on_device(np.ones(150))
    plain = forest().fit(X, y, sample_weight=weight)
    assert type(plain.predict(X)) is np.ndarray
    guest = forest(ccp_alpha=0.01).fit(silent.on_device(X), Y, sample_weight=np.ones(150))
    assert place_of(guest.predict(silent.on_device(X))) == silent.device_place()


def test_methods_that_are_there_under_conditions(silent):
    rows = silent.on_device(X)
    model = LocalOutlierFactor(novelty=True).fit(rows)
    assert place_of(model.decision_function(rows)) == silent.device_place()
    assert not hasattr(LocalOutlierFactor(novelty=True), "fit_predict")
    assert place_of(LocalOutlierFactor().fit_predict(rows)) == silent.device_place()


# ---------------------------------------------------------------- methods


def test_methods_that_cuml_lacks_run_on_the_twin(fake):
    rows = fake.on_device(X)
    model = forest().fit(rows, NAMES)
    with pytest.warns(FallbackWarning, match=r"RandomForestClassifier.apply .* no apply"):
        leaves = model.apply(rows)
    assert place_of(leaves) == fake.device_place()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        np.testing.assert_array_equal(
            to_host(leaves), model.as_sklearn().apply(X.astype("float32"))
        )
        model.apply(rows)
    with gpuml.config_context(fallback="error"), pytest.raises(FallbackError, match="apply"):
        model.apply(rows)


@pytest.mark.parametrize("rows", [WITH_NAN, sparse.csr_matrix(X)], ids=["nan", "sparse"])
def test_rows_that_cuml_does_not_take_at_use(fake, rows):
    model = forest().fit(fake.on_device(X), NAMES)
    with pytest.warns(FallbackWarning, match=r"predict .* cuML has no (nan in X|sparse X)"):
        labels = model.predict(rows)
    np.testing.assert_array_equal(labels, model.as_sklearn().predict(rows))


def test_models_that_cannot_be_lifted_stay_on_the_host(fake):
    conversion = Conversion(lift=None)
    row = Row(
        sk=cluster.KMeans,
        cuml=KMEANS.cuml,
        work=one_pass,
        methods=KMEANS.methods,
        convert=conversion,
    )
    model = build(row, __name__)(3, n_init=1).fit(X)
    with pytest.warns(FallbackWarning, match="way to take over"):
        labels = model.predict(fake.on_device(X))
    assert place_of(labels) == fake.device_place()
    np.testing.assert_array_equal(to_host(labels), model.labels_)


def test_models_that_cannot_be_lowered_do_not_travel(fake, monkeypatch):
    def as_sklearn(self):
        raise fake.UnsupportedOnCPU("three classes")

    monkeypatch.setattr(fake.RandomForestClassifier, "as_sklearn", as_sklearn)
    model = forest().fit(fake.on_device(X), Y)
    with pytest.raises(pickle.PicklingError, match="three classes"):
        pickle.dumps(model)
    with pytest.raises(AttributeError, match="three classes"):
        model.estimators_  # noqa: B018
    with (
        pytest.warns(FallbackWarning, match="no apply"),
        pytest.raises(RuntimeError, match="three classes"),
    ):
        model.apply(X)
    assert place_of(model.predict(fake.on_device(X))) == fake.device_place()


def test_float64_rows_in_float32_are_said_once(fake):
    row = replace(KMEANS, float32_only=True)
    model = build(row, __name__)(3, n_init=1)
    with pytest.warns(PrecisionWarning):
        model.fit(fake.on_device(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(fake.on_device(X))


def test_without_cuml_rows_of_a_gpu_are_copied(fake, monkeypatch):
    monkeypatch.setattr("gpuml.adapters._inputs.has_cuml", lambda: False)
    with pytest.warns(FallbackWarning, match="cuML is not installed"):
        model = forest().fit(fake.on_device(X), Y)
    assert place_of(model.predict(fake.on_device(X))) == fake.device_place()


def test_the_setting(fake):
    assert gpuml.get_config()["fallback"] == "warn"
    with pytest.raises(ValueError, match="fallback must be one of"):
        gpuml.set_config(fallback="never")


def test_an_error_of_arguments_names_the_method():
    with pytest.raises(TypeError, match=r"KNeighborsClassifier\.fit\(\) .*argument 'weights'"):
        KNeighborsClassifier().fit([[0.0]], [0], weights=[1.0])
