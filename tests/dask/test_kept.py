"""What workers keep of a search while it lasts, whatever Dask does with copies of its keys."""

import gc
import os
import pickle
from weakref import ref

import numpy as np
import pytest
from sklearn.base import clone

from gpuml.linear_model import Ridge
from gpuml_dask import GridSearchCV, HalvingGridSearchCV
from gpuml_dask.searching import tasks
from gpuml_dask.searching.evaluator import ClusterEvaluator

ALPHAS = np.logspace(-3, 3, 9).tolist()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    return X, X @ rng.normal(size=5) + rng.normal(size=300)


class CountsLooks(Ridge):
    """Ridge that counts, in its process, how often rows are checked and brought to a device."""

    def multifit_batch(self, X, y, sample_weight=None):
        os.looks_of_a_test = getattr(os, "looks_of_a_test", 0) + 1
        return super().multifit_batch(X, y, sample_weight)


@pytest.mark.parametrize(
    ("search", "n_rounds"),
    [(GridSearchCV(CountsLooks(), {"alpha": ALPHAS}, cv=3), 1),
     (HalvingGridSearchCV(CountsLooks(), {"alpha": ALPHAS}, cv=3, random_state=0), 3)],
    ids=["grid and refit", "rounds"],
)  # fmt: skip
def test_rows_are_read_once_though_copies_are_dropped(client, rows, monkeypatch, search, n_rounds):
    dropped = []
    theirs = ClusterEvaluator.evaluate

    def evaluate(self, candidates):
        results = theirs(self, candidates)
        ran = {result["worker"] for result in results}
        dropped.append(drop_copies(client, self._inputs.arguments()["spec"], ran))
        return results

    monkeypatch.setattr(ClusterEvaluator, "evaluate", evaluate)
    search = clone(search).set_params(client=client).fit(*rows)
    assert dropped == [True] * n_rounds
    looks = client.run(lambda: vars(os).pop("looks_of_a_test", 0))
    assert sum(looks.values()) == len(set(search.cv_results_["worker"]))


def drop_copies(client, future, workers):
    """Take copies off workers, as Dask does by and by where there are others; whether they go."""
    client.replicate([future])
    return client.run_on_scheduler(_drop, key=future.key, workers=workers)


def _drop(dask_scheduler, key, workers):
    having = {worker.address for worker in dask_scheduler.tasks[key].who_has}
    for worker in workers:
        dask_scheduler.request_remove_replicas(worker, [key], stimulus_id="a test")
    return workers < having


# ---------------------------------------------------------------- who keeps what, and how long


class Made:
    """In place of an evaluator."""


@pytest.fixture
def spec(monkeypatch):
    """A spec as a worker has it, of a search that makes nothing but `Made`."""
    monkeypatch.setattr(tasks.Spec, "_make", lambda self, rows: Made())
    return tasks.Spec(Ridge(), [], None, {}, {}, [], "a spec", "a search")


@pytest.mark.parametrize("first", ["keeper", "unit"])
def test_a_keeper_has_what_units_make_whoever_comes_first(spec, first):
    copy = pickle.loads(pickle.dumps(spec))
    keeper = tasks.keep("a spec") if first == "keeper" else None
    made = spec.kept({})
    keeper = keeper or tasks.keep("a spec")
    assert tasks.keep("a spec") is keeper
    del spec
    assert copy.kept({}) is made is keeper.kept
    assert tasks.keep("another").kept is None


def test_all_goes_with_the_keeper_and_the_spec(spec):
    keeper = tasks.keep("a spec")
    spec.kept({})
    moved = pickle.loads(pickle.dumps(keeper))
    assert moved.kept is None
    del keeper, spec
    gc.collect()
    assert not list(tasks._made.values())
    assert not list(tasks._keepers.values())
    assert not list(tasks._of_search.values())


def test_a_spec_that_somebody_holds_keeps_nothing_beside_a_keeper(spec):
    """As Dask's log does: of an error while a worker that dies reads the spec, with its traceback."""
    spec.kept({})
    keeper = tasks.keep("a spec")
    made = ref(spec.kept({}))
    assert keeper.kept is made()
    del keeper
    gc.collect()
    assert made() is None
