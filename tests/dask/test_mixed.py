"""Clusters with workers for GPUs and workers for the host's work: who does what.

The kinds are names here: no worker has a GPU.
"""

import logging
import os
import signal
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, Nanny, Scheduler, SpecCluster, get_worker
from scipy.stats import uniform
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.preprocessing import StandardScaler as HostScaler
from sklearn.svm import SVC

import gpuml
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV as OneDevice
from gpuml.preprocessing import StandardScaler
from gpuml_dask.model_selection import GridSearchCV, HalvingGridSearchCV, HyperbandSearchCV
from gpuml_dask.planning.worker_kinds import SHARE, Kinds, Placing, need_of, placing_of
from tests.dask.conftest import THREADS

N_ROWS = 90
KINDS = {"gpu-0": {"GPU": 1}, "gpu-1": {"GPU": 1}, "cpu-0": {"CPU": 1}, "cpu-1": {"CPU": 1}}
WORDS = np.array(
    ["a", "ridge", "of", "cold", "rain", "on", "red", "hills", "in", "an", "old", "wood"]
)


class Noting(TransformerMixin, BaseEstimator):
    """A user's transformer, which notes in a file who fits it."""

    def __init__(self, path, factor=1.0, kills=False, fails=False, seconds=0.0):
        self.path, self.factor, self.kills, self.fails = path, factor, kills, fails
        self.seconds = seconds

    def fit(self, X, y=None):
        note(self.path)
        time.sleep(self.seconds)
        if self.fails:
            raise ValueError("this is how it fails")
        if self.kills and not Path(f"{self.path}.killed").exists():
            Path(f"{self.path}.killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        self.n_features_in_ = 1
        return self

    def transform(self, X):
        return X * self.factor


class Deadly(TransformerMixin, BaseEstimator):
    """A user's transformer that ends its process."""

    def __init__(self, kills=True):
        self.kills = kills

    def fit(self, X, y=None):
        if self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        return self

    def transform(self, X):
        return X


class OnGpu(ClassifierMixin, BaseEstimator):
    """A user's estimator that says that it computes on a GPU."""

    def __init__(self, device="cuda"):
        self.device = device

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def note(path):
    with suppress(ValueError), open(path, "a") as file:
        file.write(f"{get_worker().name}\n")  # ValueError: here is no worker


def start_cluster(kinds, folder):
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": ":0", "host": "127.0.0.1"}}
    return SpecCluster(
        workers={
            name: {
                "cls": Nanny,
                "options": {
                    "host": "127.0.0.1",
                    "nthreads": 1,
                    "resources": resources,
                    "env": dict.fromkeys(THREADS, "1"),
                    "local_directory": folder,
                    "memory_limit": None,
                },
            }
            for name, resources in kinds.items()
        },
        scheduler=scheduler,
        silence_logs=logging.ERROR,
    )


@pytest.fixture(scope="module")
def mixed_cluster(importable, tmp_path_factory):
    with start_cluster(KINDS, str(tmp_path_factory.mktemp("dask"))) as cluster:
        yield cluster


@pytest.fixture
def mixed(mixed_cluster):
    with Client(mixed_cluster) as client:
        client.wait_for_workers(len(KINDS), timeout=60)
        yield client


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4))
    y = X @ rng.normal(size=4) + rng.normal(size=N_ROWS)
    return X, y, (y > 0).astype(int)


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(1)
    y = np.arange(N_ROWS) % 2
    return [" ".join(rng.choice(WORDS[3 * each : 3 * each + 8], size=6)) for each in y], y


def names_of(client, addresses):
    """Kinds of the workers with some addresses."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    listed = {address for each in addresses for address in each.split(", ")}
    return {workers[address]["id"].partition("-")[0] for address in listed}


def noted(path):
    return {line.partition("-")[0] for line in Path(path).read_text().split()}


def assert_same_tables(search, one):
    for name, values in one.cv_results_.items():
        if "score" in name and "time" not in name:
            np.testing.assert_array_equal(search.cv_results_[name], values, err_msg=name)


# ---------------------------------------------------------------- who needs what


@pytest.mark.parametrize(
    ("estimator", "need"),
    [
        (Ridge(), "gpu"),
        (SVC(), "cpu"),
        (Noting(""), "cpu"),
        (OnGpu(), "gpu"),
        (OnGpu("cpu"), "cpu"),
        (BaggingRegressor(Ridge()), "gpu"),
        (BaggingRegressor(), "cpu"),
        ("passthrough", "any"),
        (None, "any"),
    ],
)
def test_estimators_say_what_they_need(estimator, need):
    assert need_of(estimator) == need


def test_an_estimator_in_a_list_of_its_own_is_asked_once():
    estimator = BaggingRegressor()
    estimator.estimator = [("itself", estimator)]
    assert need_of(estimator) == "cpu"


def test_nothing_of_gpuml_needs_a_gpu_that_is_switched_off():
    with gpuml.config_context(device="cpu"):
        assert need_of(Ridge()) == "cpu"
        assert need_of(OnGpu()) == "gpu"


@pytest.mark.parametrize(
    ("steps", "placing"),
    [
        ([HostScaler(), Ridge()], Placing("gpu", ("0",))),
        ([HostScaler(), "passthrough", Noting(""), Ridge()], Placing("gpu", ("0", "2"))),
        ([StandardScaler(), Ridge()], Placing("gpu")),
        ([HostScaler(), StandardScaler(), Noting(""), Ridge()], Placing("gpu", ("0",))),
        ([StandardScaler(), SVC()], Placing("cpu")),
        ([HostScaler(), SVC()], Placing("cpu")),
        ([HostScaler(), OnGpu()], Placing("gpu", ("0",))),
        (["passthrough"], Placing()),
    ],
)
def test_pipelines_are_placed_step_by_step(steps, placing):
    pipeline = Pipeline([(str(i), step) for i, step in enumerate(steps)])
    assert placing_of(pipeline) == placing


@pytest.mark.parametrize(
    ("workers", "gpu", "cpu"),
    [
        ([{}, {}], {}, {}),
        ([{"CPU": 4}, {"CPU": 4}], {}, {}),
        ([{"GPU": 1}, {"GPU": 1}], {}, {}),
        ([{"GPU": 1}, {"CPU": 4}], {"GPU": SHARE}, {"CPU": SHARE}),
        ([{"GPU": 1}, {}], {"GPU": SHARE}, {}),
        ([{"GPU": 1, "CPU": 4}, {"GPU": 1}], {}, {}),
        ([], {}, {}),
    ],
)
def test_no_task_asks_for_what_nobody_or_everybody_has(workers, gpu, cpu):
    kinds = Kinds({str(i): resources for i, resources in enumerate(workers)})
    assert (kinds.demand("gpu"), kinds.demand("cpu"), kinds.demand(None)) == (gpu, cpu, {})


# ---------------------------------------------------------------- rows that are divided


@pytest.mark.some
@pytest.mark.parametrize("device", ["auto", "cpu"])
@pytest.mark.parametrize("kind", [np.asarray, lambda x: da.from_array(x, chunks=20)])
def test_sums_over_rows_of_the_host_are_for_cpu_workers(mixed, rows, kind, device):
    X, y, _ = rows
    X, y = kind(X), kind(y)
    settings = dask.config.set({"gpuml.plan": "rows", "gpuml.piece-bytes": 640})
    with settings, gpuml.config_context(device=device):
        search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3, client=mixed).fit(X, y)
    names = {w["name"]: a for a, w in mixed.scheduler_info(n_workers=-1)["workers"].items()}
    for workers in search.cv_results_["worker"]:
        assert set(workers.split(", ")) <= {names["cpu-0"], names["cpu-1"]}


# ---------------------------------------------------------------- whole units


def test_host_estimators_go_to_cpu_workers(mixed, rows):
    X, _, y = rows
    grid = {"C": np.logspace(-2, 2, 5)}
    search = GridSearchCV(SVC(), grid, client=mixed).fit(X, y)
    assert names_of(mixed, search.cv_results_["worker"]) == {"cpu"}
    assert_same_tables(search, OneDevice(SVC(), grid).fit(X, y))


@pytest.mark.parametrize("grid", [{"alpha": [0.1, 1.0]}, {"solver": ["lsqr"], "alpha": [0.1, 1.0]}])
def test_device_estimators_go_to_gpu_workers(mixed, rows, grid):
    X, y, _ = rows
    search = GridSearchCV(Ridge(), grid, client=mixed).fit(X, y)
    assert names_of(mixed, search.cv_results_["worker"]) == {"gpu"}
    assert_same_tables(search, OneDevice(Ridge(), grid).fit(X, y))


def test_candidates_of_both_kinds_part(mixed, rows):
    X, _, y = rows
    models = [OnGpu(), SVC(), LogisticRegression(), SGDClassifier(random_state=0)]
    pipeline = Pipeline([("scale", "passthrough"), ("model", SVC())])
    search = GridSearchCV(pipeline, {"model": models}, client=mixed, refit=False).fit(X, y)
    found = [names_of(mixed, [worker]) for worker in search.cv_results_["worker"]]
    assert found == [{"gpu"}, {"cpu"}, {"gpu"}, {"cpu"}]


def test_rounds_of_halving_are_placed_too(mixed, rows):
    X, _, y = rows
    search = HalvingGridSearchCV(SVC(), {"C": [0.1, 1.0, 10.0]}, client=mixed, random_state=0)
    assert names_of(mixed, search.fit(X, y).cv_results_["worker"]) == {"cpu"}


# ---------------------------------------------------------------- models that learn call by call


class Learner(RegressorMixin, BaseEstimator):
    """A user's model that adds up what it sees, and notes in a file who teaches and scores it."""

    def __init__(self, path, factor=1.0, seconds=0.0):
        self.path, self.factor, self.seconds = path, factor, seconds

    def partial_fit(self, X, y):
        note(self.path)
        time.sleep(self.seconds)
        self.sum_ = 0.9 * getattr(self, "sum_", 0.0) + y.sum()
        return self

    fit = partial_fit

    def score(self, X, y):
        note(self.path)
        return self.factor + 1e-3 * np.sin(self.sum_)


class LearnerOnGpu(Learner):
    """The same, which says that it computes on a GPU."""

    def __init__(self, path, factor=1.0, seconds=0.0, device="cuda"):
        super().__init__(path, factor, seconds)
        self.device = device


class Holder(RegressorMixin, BaseEstimator):
    """A model around another, whose kind is that of the other."""

    def __init__(self, inner, factor=1.0):
        self.inner, self.factor = inner, factor

    def partial_fit(self, X, y):
        self.model_ = getattr(self, "model_", self.inner).partial_fit(X, y)
        return self

    fit = partial_fit

    def score(self, X, y):
        return self.model_.score(X, y)


def hyperband(model, client):
    settings = {"max_iter": 9, "random_state": 0, "chunk_size": 20}
    return HyperbandSearchCV(model, {"factor": uniform(0, 1)}, client=client, **settings)


@pytest.mark.parametrize(
    ("learner", "kind"), [(Learner, "cpu"), (LearnerOnGpu, "gpu")], ids=["cpu", "gpu"]
)
@pytest.mark.parametrize("in_chunks", [False, True])
def test_models_learn_on_workers_of_their_kind(mixed, rows, tmp_path, learner, kind, in_chunks):
    X, y, _ = rows
    path = str(tmp_path / "notes")
    there = (da.from_array(x, chunks=(20, *x.shape[1:])) for x in (X, y)) if in_chunks else (X, y)
    search = hyperband(learner(path), mixed).fit(*there)
    assert noted(path) == {kind}
    assert len(Path(path).read_text().split()) >= search.metadata_["partial_fit_calls"]


def test_kinds_of_models_may_differ_in_one_search(mixed, rows, tmp_path):
    X, y, _ = rows
    paths = {"gpu": str(tmp_path / "gpu"), "cpu": str(tmp_path / "cpu")}
    inner = [Learner(paths["cpu"]), LearnerOnGpu(paths["gpu"])]
    search = hyperband(Holder(inner[0]), mixed)
    search.set_params(parameters={**search.parameters, "inner": inner}).fit(X, y)
    assert {kind: noted(path) for kind, path in paths.items()} == {"gpu": {"gpu"}, "cpu": {"cpu"}}


# ---------------------------------------------------------------- pipelines in two parts


def noting_pipeline(path):
    return Pipeline([("note", Noting(path)), ("ridge", Ridge())])


def test_first_steps_are_done_by_cpu_workers_once(mixed, rows, tmp_path):
    X, y, _ = rows
    path = str(tmp_path / "notes")
    grid = {"note__factor": [1.0, 2.0], "ridge__alpha": [0.1, 1.0, 10.0]}
    search = GridSearchCV(noting_pipeline(path), grid, client=mixed).fit(X, y)
    assert noted(path) == {"cpu"}
    assert len(Path(path).read_text().split()) == 2 * 5 + 1  # factors on folds, and the refit
    assert names_of(mixed, search.cv_results_["worker"]) == {"gpu"}
    assert search.best_estimator_["note"].n_features_in_ == 1


TEXT_PIPELINES = {
    "count": (
        make_pipeline(CountVectorizer(), LogisticRegression()),
        {"countvectorizer__binary": [True, False], "logisticregression__C": [0.1, 1.0]},
    ),
    "hashing": (
        make_pipeline(HashingVectorizer(n_features=32), LogisticRegression()),
        {"hashingvectorizer__norm": ["l1", "l2"], "logisticregression__C": [0.1, 1.0]},
    ),
    "one candidate": (
        make_pipeline(HashingVectorizer(n_features=32), LogisticRegression()),
        {"logisticregression__C": [1.0]},
    ),
}
NUMBER_PIPELINES = {
    "function": (
        make_pipeline(FunctionTransformer(np.exp), Ridge()),
        {"functiontransformer__func": [np.exp, np.square], "ridge__alpha": [0.1, 1.0]},
    ),
    "affine tail": (
        make_pipeline(HostScaler(), StandardScaler(), Ridge()),
        {"standardscaler-2__with_std": [True, False], "ridge__alpha": [0.1, 1.0]},
    ),
    "steps replaced": (
        make_pipeline(FunctionTransformer(np.exp), Ridge()),
        {"functiontransformer": [HostScaler(), "passthrough"], "ridge__alpha": [0.1, 1.0]},
    ),
    "invalid value": (
        make_pipeline(HostScaler(), Ridge()),
        {"ridge__alpha": [-1.0, 1.0]},
    ),
}


def assert_as_on_one_device(pipeline, grid, X, y, client, fit_params=None, **options):
    searches = []
    for kind, more in ((GridSearchCV, {"client": client}), (OneDevice, {})):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitFailedWarning)
            warnings.filterwarnings("ignore", "One or more of the (test|train) scores")
            search = kind(pipeline, grid, cv=3, **options, **more).fit(X, y, **(fit_params or {}))
        searches.append(search)
    search, one = searches
    assert_same_tables(search, one)
    assert search.best_params_ == one.best_params_
    if options.get("scoring") is not None:
        assert search.score(X, y) == one.score(X, y)
    np.testing.assert_array_equal(search.predict(X), one.predict(X))
    return search


@pytest.mark.parametrize("name", TEXT_PIPELINES)
def test_texts_give_the_scores_of_one_device(mixed, texts, name):
    pipeline, grid = TEXT_PIPELINES[name]
    search = assert_as_on_one_device(pipeline, grid, *texts, mixed)
    assert names_of(mixed, search.cv_results_["worker"]) == {"gpu"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NUMBER_PIPELINES)
@pytest.mark.parametrize("return_train_score", [True, False])
def test_numbers_give_the_scores_of_one_device(mixed, rows, name, return_train_score):
    X, y, _ = rows
    pipeline, grid = NUMBER_PIPELINES[name]
    assert_as_on_one_device(pipeline, grid, X, y, mixed, return_train_score=return_train_score)


def test_weights_reach_the_step_that_they_are_for(mixed, rows):
    X, y, _ = rows
    pipeline, grid = NUMBER_PIPELINES["function"]
    weights = {"ridge__sample_weight": np.arange(1.0, N_ROWS + 1)}
    assert_as_on_one_device(pipeline, grid, X, y, mixed, weights)
    weights = {"standardscaler__sample_weight": np.arange(1.0, N_ROWS + 1)}
    pipeline = make_pipeline(HostScaler(), Ridge())
    assert_as_on_one_device(pipeline, {"ridge__alpha": [0.1, 1.0]}, X, y, mixed, weights)


def spread_of_predictions(model, X, y):
    """A user's score, which looks at X: 90 rows have four columns."""
    assert X.shape[1] == 4
    return float(np.std(model.predict(X)))


@pytest.mark.parametrize(
    "options",
    [
        {"scoring": spread_of_predictions},
        {"scoring": ["r2", "neg_mean_absolute_error"], "refit": "r2"},
    ],
)
def test_all_scorers_see_what_they_see_on_one_device(mixed, rows, options):
    X, y, _ = rows
    assert_as_on_one_device(*NUMBER_PIPELINES["function"], X, y, mixed, **options)


def test_a_first_step_that_fails_fails_its_candidates(mixed, rows, tmp_path):
    X, y, _ = rows
    grid = {"note__fails": [True, False], "ridge__alpha": [0.1, 1.0]}
    pipeline = noting_pipeline(str(tmp_path / "notes"))
    with pytest.warns(FitFailedWarning, match="this is how it fails"):
        search = GridSearchCV(pipeline, grid, client=mixed, error_score=-7.0).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_array_equal(scores[:2], -7.0)
    assert (scores[2:] > 0).all()
    with pytest.raises(ValueError, match="this is how it fails"):
        GridSearchCV(pipeline, grid, client=mixed, error_score="raise").fit(X, y)


# ---------------------------------------------------------------- what dies


@pytest.fixture
def mortal(importable, tmp_path):
    """A client of a cluster that tests may hurt."""
    kinds = {"gpu-0": {"GPU": 1}, "cpu-0": {"CPU": 1}}
    with start_cluster(kinds, str(tmp_path)) as cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


def test_first_steps_are_done_again_when_their_worker_dies(mortal, rows, tmp_path):
    X, y, _ = rows
    path = str(tmp_path / "notes")
    grid = {"note__kills": [True], "ridge__alpha": [0.1, 1.0]}
    search = GridSearchCV(noting_pipeline(path), grid, client=mortal).fit(X, y)
    assert Path(f"{path}.killed").exists()
    assert noted(path) == {"cpu"}
    plain = make_pipeline(HostScaler(with_mean=False, with_std=False), Ridge())
    one = OneDevice(plain, {"ridge__alpha": [0.1, 1.0]}).fit(X, y)
    assert_same_tables(search, one)


def test_first_steps_that_end_every_worker_are_found_guilty(mortal, rows):
    X, y, _ = rows
    pipeline = Pipeline([("first", Deadly()), ("ridge", Ridge())])
    grid = {"first__kills": [False, True]}
    with pytest.warns(FitFailedWarning, match="ends the process"):
        search = GridSearchCV(pipeline, grid, cv=2, client=mortal, error_score=-7.0).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > 0
    assert scores[1] == -7.0


@pytest.mark.exhaustive
def test_others_do_the_work_of_a_kind_that_does_not_come_back(mortal, rows, tmp_path):
    X, y, _ = rows
    path = tmp_path / "notes"
    stopper = threading.Thread(target=stop_when_noted, args=[mortal.cluster, path])
    stopper.start()
    grid = {"note__seconds": [0.5], "ridge__alpha": [0.1, 1.0]}
    with dask.config.set({"gpuml.patience": "2s"}):
        search = GridSearchCV(noting_pipeline(str(path)), grid, client=mortal).fit(X, y)
    stopper.join()
    assert noted(path) == {"cpu", "gpu"}
    assert (search.cv_results_["mean_test_score"] > 0).all()


@pytest.mark.exhaustive
def test_others_teach_for_a_kind_that_does_not_come_back(mortal, rows, tmp_path):
    X, y, _ = rows
    path = tmp_path / "notes"
    stopper = threading.Thread(target=stop_when_noted, args=[mortal.cluster, path])
    expected = hyperband(Learner(str(tmp_path / "others")), None).set_params(scheduler="sync")
    expected.fit(X, y)
    stopper.start()
    with dask.config.set({"gpuml.patience": "2s"}):
        search = hyperband(Learner(str(path), seconds=0.05), mortal).fit(X, y)
    stopper.join()
    assert noted(path) == {"cpu", "gpu"}
    np.testing.assert_array_equal(
        search.cv_results_["test_score"], expected.cv_results_["test_score"]
    )


def stop_when_noted(cluster, path):
    """Stop the CPU worker as soon as it has begun, and its nanny."""
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    cluster.sync(cluster.workers["cpu-0"].close)
