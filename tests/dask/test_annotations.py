"""Searches that say which workers do their work, with which priority and resources."""

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, get_worker
from sklearn.base import BaseEstimator, RegressorMixin

from gpuml.linear_model import Ridge
from gpuml_dask.errors import ClusterError
from gpuml_dask.model_selection import GridSearchCV, HalvingGridSearchCV, HyperbandSearchCV

GRID = {"alpha": [0.1, 1.0, 10.0]}
ROWS = {"gpuml.plan": "rows", "gpuml.piece-bytes": "2 kB"}


class Told(RegressorMixin, BaseEstimator):
    """The mean of y plus alpha; notes where it is fitted, and what Dask was told of the task."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        worker = get_worker()
        self.worker_ = worker.address
        self.told_ = dict(worker.state.tasks[worker.get_current_task()].annotations or {})
        self.mean_ = y.mean() + self.alpha
        return self

    partial_fit = fit

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(400, 5))
    return X, X @ rng.normal(size=5) + rng.normal(size=400)


def on_workers(X, y):
    return da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)


def workers_of(search):
    return {each for text in search.cv_results_["worker"] for each in text.split(", ")}


@pytest.mark.parametrize("lazy", [False, True], ids=["here", "on workers"])
@pytest.mark.parametrize("way", ["at once", "one by one", "rows divided"])
def test_the_work_is_done_by_the_workers_that_are_asked_for(client, rows, way, lazy):
    estimator = Told() if way == "one by one" else Ridge()
    two = sorted(client.scheduler_info(n_workers=-1)["workers"])[1:3]
    given = on_workers(*rows) if lazy else rows
    with dask.config.set(ROWS if way == "rows divided" else {}):
        whole = GridSearchCV(estimator, GRID, client=client).fit(*given)
        search = GridSearchCV(estimator, GRID, client=client, workers=two).fit(*given)
    assert workers_of(search) <= set(two)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"]
    )
    if way == "one by one":
        assert search.best_estimator_.worker_ in two
        assert search.best_estimator_.told_["workers"] == tuple(two)


def test_workers_have_names_too(client, rows):
    facts = client.scheduler_info(n_workers=-1)["workers"]
    address = max(facts)
    search = GridSearchCV(Told(), GRID, client=client, workers=[facts[address]["name"]]).fit(*rows)
    assert workers_of(search) == {address} == {search.best_estimator_.worker_}


def test_annotations_of_dask_do_the_same(client, rows):
    (address, *_) = client.scheduler_info(n_workers=-1)["workers"]
    with dask.annotate(workers=[address]):
        search = GridSearchCV(Told(), GRID, client=client).fit(*rows)
    assert workers_of(search) == {address}


def test_other_searches_take_them_too(client, rows):
    address = min(client.scheduler_info(n_workers=-1)["workers"])
    settings = {"client": client, "workers": address, "random_state": 0}
    search = HalvingGridSearchCV(Told(), GRID, **settings).fit(*rows)
    assert workers_of(search) == {address}
    draws = {"alpha": [0.1, 1.0, 10.0]}
    search = HyperbandSearchCV(Told(), draws, max_iter=3, **settings).fit(*rows)
    assert search.best_estimator_.worker_ == address


def test_workers_that_are_not_there_are_named(client, rows):
    search = GridSearchCV(Told(), GRID, client=client, workers=["tcp://127.0.0.1:1"])
    with (
        dask.config.set({"gpuml.patience": "1s"}),
        pytest.raises(ClusterError, match=r"(?s)among \['tcp://127.0.0.1:1'\].*there are \['tcp"),
    ):
        search.fit(*rows)


def test_the_priority_is_that_of_all_tasks(client, rows):
    search = GridSearchCV(Told(), GRID, client=client, priority=7).fit(*rows)
    assert search.best_estimator_.told_["priority"] == 7


def test_resources_that_no_worker_has_are_named(client, rows):
    search = GridSearchCV(Told(), GRID, client=client, resources={"licence": 1})
    with (
        dask.config.set({"gpuml.patience": "1s"}),
        pytest.raises(ClusterError, match=r"resources \{'licence': 1"),
    ):
        search.fit(*rows)


@pytest.mark.exhaustive
def test_resources_that_workers_have(rows, tmp_path):
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            resources={"licence": 1},
            dashboard_address=":0",
            local_directory=str(tmp_path),
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        search = GridSearchCV(Told(), GRID, client=client, resources={"licence": 1}).fit(*rows)
        assert search.best_estimator_.told_["resources"] == {"licence": 1}


@pytest.mark.parametrize("asked", [{"workers": "a"}, {"priority": 1}, {"resources": {"GPU": 1}}])
def test_without_a_cluster_there_is_nobody_to_ask(rows, asked):
    with pytest.raises(ValueError, match="need a cluster"):
        GridSearchCV(Ridge(), GRID, scheduler="sync", **asked).fit(*rows)
