"""scikit-learn's searches and gpuml's on joblib's dask backend."""

import os

import joblib
import numpy as np
import pytest
import sklearn
from distributed.comm.tcp import TCP
from sklearn import model_selection as sk
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.tree import DecisionTreeRegressor

import gpuml
from gpuml.decomposition import PCA
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV, RandomizedSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml_dask.settings import PLUGIN, share_settings

pytestmark = pytest.mark.exhaustive

RTOL = 1e-10
ALPHAS = list(np.logspace(-2, 3, 10))
N_WORKERS = 4


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(300, 8))
    return X, X @ rng.normal(size=8) + rng.normal(size=300)


@pytest.fixture
def many_rows(rng):
    X = rng.normal(size=(20_000, 40))
    return X, X @ rng.normal(size=40) + rng.normal(size=20_000)


@pytest.fixture
def sent(monkeypatch):
    """Bytes that client and scheduler send; both are in this process."""
    counted = [0]
    write = TCP.write

    async def counting(self, *args, **kwargs):
        size = await write(self, *args, **kwargs)
        counted[0] += size
        return size

    monkeypatch.setattr(TCP, "write", counting)
    return counted


def assert_same_table(found, expected):
    assert found.cv_results_["params"] == expected.cv_results_["params"]
    names = [name for name in expected.cv_results_ if "_score" in name and "time" not in name]
    for name in names:
        np.testing.assert_allclose(
            found.cv_results_[name], expected.cv_results_[name], rtol=RTOL, err_msg=name
        )


# ---------------------------------------------------------------- the same results

SEARCHES = {
    "Ridge": (Ridge(), {"alpha": ALPHAS}),
    "LogisticRegression": (LogisticRegression(), {"C": [0.1, 1.0, 10.0]}),
    "Pipeline": (
        make_pipeline(StandardScaler(), PCA(), Ridge()),
        {"pca__n_components": [2, 5], "ridge__alpha": [0.1, 10.0]},
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("Search", [sk.GridSearchCV, GridSearchCV], ids=["sklearn", "gpuml"])
def test_a_grid_search_gives_the_table_of_a_serial_one(client, rows, Search, name):
    estimator, grid = SEARCHES[name]
    X, y = rows
    y = (y > 0).astype(int) if name == "LogisticRegression" else y
    expected = Search(estimator, grid, return_train_score=True).fit(X, y)
    with joblib.parallel_config("dask"):
        found = Search(estimator, grid, return_train_score=True, n_jobs=-1).fit(X, y)
    assert_same_table(found, expected)
    assert found.best_params_ == expected.best_params_
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=RTOL)


@pytest.mark.parametrize(
    "Search", [sk.RandomizedSearchCV, RandomizedSearchCV], ids=["sklearn", "gpuml"]
)
def test_a_randomised_search_draws_the_same_candidates(client, rows, Search):
    options = {"n_iter": 6, "random_state": 0}
    expected = Search(Ridge(), {"alpha": ALPHAS}, **options).fit(*rows)
    with joblib.parallel_backend("dask"):
        found = Search(Ridge(), {"alpha": ALPHAS}, n_jobs=-1, **options).fit(*rows)
    assert_same_table(found, expected)


@pytest.mark.parametrize("estimator", [DecisionTreeRegressor(random_state=0), Ridge(solver="lsqr")])
def test_estimators_without_multifit_in_our_search(client, rows, rng, estimator):
    tree = isinstance(estimator, DecisionTreeRegressor)
    grid = {"min_samples_leaf": [1, 2, 4]} if tree else {"alpha": ALPHAS[:3]}
    weight = rng.uniform(size=300)
    expected = GridSearchCV(estimator, grid).fit(*rows, sample_weight=weight)
    with joblib.parallel_config("dask"):
        found = GridSearchCV(estimator, grid, n_jobs=-1).fit(*rows, sample_weight=weight)
    assert "one by one" in str(found.plan_)
    assert_same_table(found, expected)


def test_cross_validation(client, rows):
    model = make_pipeline(StandardScaler(), Ridge())
    scores = sk.cross_val_score(model, *rows)
    table = sk.cross_validate(model, *rows, return_train_score=True)
    with joblib.parallel_config("dask"):
        found = sk.cross_val_score(model, *rows, n_jobs=-1)
        found_table = sk.cross_validate(model, *rows, return_train_score=True, n_jobs=-1)
    np.testing.assert_allclose(found, scores, rtol=RTOL)
    for name in ("test_score", "train_score"):
        np.testing.assert_allclose(found_table[name], table[name], rtol=RTOL)


def test_a_search_of_ours_inside_a_cross_validation(client, rows):
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS})
    expected = sk.cross_val_score(search, *rows)
    with joblib.parallel_config("dask"):
        found = sk.cross_val_score(search, *rows, n_jobs=-1)
    np.testing.assert_allclose(found, expected, rtol=RTOL)


# ---------------------------------------------------------------- what goes over the wire

# A future of X is at most: sent by the client, passed on by the scheduler. Workers then hand it to
# each other. The rest is indices of splits, models and the protocol.
TWICE_AND_A_BIT = 2.8
MUST_HAVE_PASSED = 0.9


def received(client):
    """Bytes that each worker got from others so far."""
    return client.run(
        lambda dask_worker: sum(entry["total"] for entry in dask_worker.transfer_incoming_log)
    )


@pytest.mark.usefixtures("copies_stay")
@pytest.mark.parametrize("scatter", [False, True], ids=["as it comes", "scatter=[X, y]"])
def test_sklearn_sends_the_rows_once_and_not_with_each_task(client, many_rows, sent, scatter):
    X, y = many_rows
    options = {"scatter": [X, y]} if scatter else {}
    before = received(client)
    with joblib.parallel_config("dask", **options):
        found = sk.GridSearchCV(Ridge(), {"alpha": ALPHAS}, n_jobs=-1).fit(X, y)
    assert found.cv_results_["mean_fit_time"].shape == (10,)  # 50 fits
    assert MUST_HAVE_PASSED * X.nbytes < sent[0] < TWICE_AND_A_BIT * X.nbytes
    assert all(got - before[worker] < 1.5 * X.nbytes for worker, got in received(client).items())


@pytest.mark.parametrize("weighted", [False, True])
def test_our_search_sends_the_rows_once_and_not_with_each_task(
    client, many_rows, sent, rng, weighted
):
    X, y = many_rows
    params = {"sample_weight": rng.uniform(size=len(y))} if weighted else {}
    grid = {"min_samples_leaf": list(range(10, 20))}
    with joblib.parallel_config("dask"):
        GridSearchCV(DecisionTreeRegressor(max_depth=1), grid, n_jobs=-1, refit=False).fit(
            X, y, **params
        )
    assert MUST_HAVE_PASSED * X.nbytes < sent[0] < TWICE_AND_A_BIT * X.nbytes


def test_our_search_over_models_that_are_fitted_together_sends_nothing(client, many_rows, sent):
    with joblib.parallel_config("dask"):
        found = GridSearchCV(Ridge(), {"alpha": ALPHAS}, n_jobs=-1).fit(*many_rows)
    assert "all candidates together" in str(found.plan_)
    assert sent[0] < many_rows[0].nbytes / 10


# ---------------------------------------------------------------- settings


class Spy(RegressorMixin, BaseEstimator):
    """Scores with what the settings on its worker say."""

    def __init__(self, which=0):
        self.which = which

    def fit(self, X, y):
        settings = gpuml.get_config()
        self.seen_ = [settings["block_bytes"] or 0, int(sklearn.get_config()["assume_finite"])]
        self.is_elsewhere_ = os.getpid()
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y):
        return float(self.seen_[self.which])


@pytest.fixture
def shared(client):
    """A client whose workers get their own settings back after the test."""
    yield client
    client.unregister_worker_plugin(PLUGIN)


def test_settings_reach_the_fits_of_our_search(client, rows):
    search = GridSearchCV(Spy(), {"which": [0, 1]}, n_jobs=-1, refit=False)
    with (
        joblib.parallel_config("dask"),
        gpuml.config_context(block_bytes=12_345),
        sklearn.config_context(assume_finite=True),
    ):
        search.fit(*rows)
    assert list(search.cv_results_["mean_test_score"]) == [12_345, 1]


def test_settings_reach_the_fits_of_sklearn_where_they_are_shared(shared, rows):
    share_settings(shared, block_bytes=12_345)
    with joblib.parallel_config("dask"), sklearn.config_context(assume_finite=True):
        found = sk.GridSearchCV(Spy(), {"which": [0, 1]}, n_jobs=-1, refit=False).fit(*rows)
        models = sk.cross_validate(Spy(), *rows, n_jobs=-1, return_estimator=True)["estimator"]
    assert list(found.cv_results_["mean_test_score"]) == [12_345, 1]
    assert os.getpid() not in {model.is_elsewhere_ for model in models}


def test_shared_settings_are_those_here_with_changes_and_are_put_back(client):
    def block_bytes():
        return set(client.run(lambda: gpuml.get_config()["block_bytes"]).values())

    with gpuml.config_context(block_bytes=111):
        share_settings(client)
        assert block_bytes() == {111}
        share_settings(block_bytes=222)  # of the current client
        assert block_bytes() == {222}
        assert gpuml.get_config()["block_bytes"] == 111
    client.unregister_worker_plugin(PLUGIN)
    assert block_bytes() == {None}
    with pytest.raises(TypeError, match="Unknown setting"):
        share_settings(client, colour="blue")


# ---------------------------------------------------------------- devices


def test_rows_stay_in_host_memory_for_workers_with_devices_of_their_own(client, rows, monkeypatch):
    from gpuml.model_selection import residence

    monkeypatch.setattr(residence, "compute_place", lambda *_: pytest.fail("asked for a device"))
    with joblib.parallel_config("dask"):
        found = GridSearchCV(Ridge(solver="lsqr"), {"alpha": ALPHAS[:2]}, n_jobs=-1).fit(*rows)
    assert "numpy" in str(found.plan_)
    for backend in ("loky", "threading"):
        with joblib.parallel_config(backend):
            assert not residence._fits_are_sent_away()
    assert not residence._fits_are_sent_away()


def _device_of_fit(X, y):
    import cupy

    from gpuml.testing import count_transfers

    with count_transfers() as counted:
        Ridge().fit(X, y)
    return cupy.cuda.Device().pci_bus_id, counted.to_device


@pytest.mark.gpu
def test_each_worker_has_its_own_gpu(many_rows):
    LocalCUDACluster = pytest.importorskip("dask_cuda").LocalCUDACluster
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    from distributed import Client

    n_gpus = cupy.cuda.runtime.getDeviceCount()
    with LocalCUDACluster(dashboard_address=":0") as cluster, Client(cluster) as client:
        share_settings(client, device="cuda")
        found = client.run(_device_of_fit, *many_rows)
    assert len({bus for bus, _ in found.values()}) == n_gpus
    assert all(size >= many_rows[0].nbytes for _, size in found.values())
