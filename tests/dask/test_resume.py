"""Searches whose own process is killed, and that go on from their checkpoints in another."""

import json
import time
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import Client
from distributed.utils import get_mp_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import KFold

from gpuml.linear_model import Lasso, Ridge
from gpuml_dask.model_selection import GridSearchCV
from tests.dask.idle import wait_until_idle
from tests.dask.often import seeds

SECONDS = 60


class Counted(RegressorMixin, BaseEstimator):
    """The mean of y times `a`; notes every fit in a file."""

    def __init__(self, a=1.0, log=None, seconds=0.05):
        self.a, self.log, self.seconds = a, log, seconds

    def fit(self, X, y):
        time.sleep(self.seconds)
        note(self.log, f"{self.a}")
        self.mean_ = self.a * y.mean()
        return self

    def predict(self, X):
        return self.mean_ + X[:, 0]


class CountedRidge(Ridge):
    """Ridge that notes every group that is fitted, and takes its time."""

    def __init__(self, alpha=1.0, *, fit_intercept=True, tol=1e-4, log=None, seconds=0.05):
        super().__init__(alpha, fit_intercept=fit_intercept, tol=tol)
        self.log, self.seconds = log, seconds

    def multifit(self, folds, candidates, advance=None):
        note(self.log, f"{self.tol}")
        time.sleep(self.seconds)
        return super().multifit(folds, candidates, advance)


def note(log, text):
    if log is not None:
        with open(log, "a") as file:
            file.write(f"{text}\n")


TOLS = [1e-4, 1e-5, 1e-6, 1e-7]
SEARCHES = {
    "one by one": (Counted, {"a": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]}, "whole"),
    "groups": (CountedRidge, {"alpha": [0.1, 1.0], "tol": TOLS}, "whole"),
    "groups by rows": (CountedRidge, {"alpha": [0.1, 1.0], "tol": TOLS}, "rows"),
}
N_SPLITS = 3


def make_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    return X, X @ rng.normal(size=5) + rng.normal(size=600)


def make_search(name, client, folder, seconds=0.15):
    kind, grid, _ = SEARCHES[name]
    log = None if folder is None else str(Path(folder) / "log")
    kept = None if folder is None else str(Path(folder) / "kept")
    estimator = kind(log=log, seconds=seconds)
    # A refit may fit its group again.
    return GridSearchCV(estimator, grid, cv=N_SPLITS, refit=False, client=client, checkpoint=kept)


def settings(name):
    return dask.config.set({"gpuml.plan": SEARCHES[name][2], "gpuml.piece-bytes": "4 kB"})


def drive(name, address, folder):
    """What the process does that is killed."""
    with Client(address, set_as_default=False) as client, settings(name):
        note(f"{folder}/began", "now")
        make_search(name, client, folder).fit(*make_rows())
        note(f"{folder}/ended", "now")


def start_driver(name, client, folder):
    """A process that drives a search, forked from one that has imported what it needs."""
    driver = get_mp_context().Process(
        target=drive, args=(name, client.scheduler.address, str(folder)), daemon=True
    )
    driver.start()
    deadline = time.monotonic() + SECONDS
    while not (folder / "began").exists():
        assert time.monotonic() < deadline
        assert driver.is_alive()
        time.sleep(0.01)
    return driver


def work_in(folder):
    """Units of work that are finished in a checkpoint."""
    return len(list((folder / "kept" / "round-1").glob("*.unit.json")))


def lines_of(folder):
    log = folder / "log"
    return log.read_text().split("\n")[:-1] if log.exists() else []


def assert_same_scores(found, expected):
    for name, values in expected.cv_results_.items():
        if name.startswith("split"):
            assert np.array_equal(found.cv_results_[name], values), name


def check_killed_driver(client, folder, name, seed):
    X, y = make_rows()
    with settings(name):
        expected = make_search(name, client, None).fit(X, y)
    driver = start_driver(name, client, folder)
    try:
        time.sleep(np.random.default_rng(seed).uniform(0.0, 1.0))
    finally:
        driver.kill()
        driver.join()
    wait_until_idle(client)
    (folder / "log").write_text("")
    n_finished = work_in(folder)
    with settings(name):
        found = make_search(name, client, folder).fit(X, y)
    assert_same_scores(found, expected)
    kind, grid, _ = SEARCHES[name]
    n_units = len(TOLS) if kind is CountedRidge else N_SPLITS * len(grid["a"])
    assert len(lines_of(folder)) == n_units - n_finished
    assert not (folder / "ended").exists() or n_finished == n_units
    return n_finished


@pytest.mark.some
@pytest.mark.parametrize("name", SEARCHES)
def test_a_killed_driver_leaves_what_is_finished(client, tmp_path, name):
    check_killed_driver(client, tmp_path, name, seed=4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("seed", seeds(4))
def test_a_killed_driver_leaves_what_is_finished_at_any_moment(client, tmp_path, name, seed):
    check_killed_driver(client, tmp_path, name, 100 + seed)


def scorer_of_mine(estimator, X, y):
    return -float(np.abs(estimator.predict(X) - y).mean())


CHANGES = {
    "other candidates": lambda search, X, y: (search.set_params(param_grid={"alpha": [7.0]}), X, y),
    "another data set": lambda search, X, y: (search, X, y + (np.arange(len(y)) == 3)),
    "another estimator": lambda search, X, y: (search.set_params(estimator=Lasso()), X, y),
    "other splits": lambda search, X, y: (search.set_params(cv=KFold(3, shuffle=True)), X, y),
    "another scoring": lambda search, X, y: (search.set_params(scoring=scorer_of_mine), X, y),
}


@pytest.mark.parametrize("plan", ["whole", "rows"])
def test_a_changed_search_is_refused_by_name(client, tmp_path, plan):
    X, y = make_rows()

    def search():
        return GridSearchCV(
            Ridge(), {"alpha": [0.1, 1.0]}, cv=3, client=client, checkpoint=str(tmp_path)
        )

    with dask.config.set({"gpuml.plan": plan, "gpuml.piece-bytes": "4 kB"}):
        search().fit(X, y)
        for words, change in CHANGES.items():
            changed, A, b = change(search(), X, y)
            with pytest.raises(ValueError, match=f"made for {words}.") as error:
                changed.fit(A, b)
            assert not any(other in str(error.value) for other in CHANGES if other != words)
            assert not hasattr(changed, "cv_results_")
        again = search().fit(X, y)
    assert "6 fits in 0 passes" in str(again.plan_)


@pytest.mark.parametrize("plan", ["whole", "rows"])
def test_a_torn_file_is_named_and_work_goes_on_when_it_is_gone(client, tmp_path, plan):
    X, y = make_rows()
    search = GridSearchCV(
        Ridge(), {"alpha": [0.1, 1.0]}, cv=3, client=client, checkpoint=str(tmp_path)
    )
    with dask.config.set({"gpuml.plan": plan, "gpuml.piece-bytes": "4 kB"}):
        scores = search.fit(X, y).cv_results_["mean_test_score"]
        (path,) = (tmp_path / "round-1").glob("*.unit.json")
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(ValueError, match=f"{path} was truncated"):
            search.fit(X, y)
        path.unlink()
        assert np.array_equal(search.fit(X, y).cv_results_["mean_test_score"], scores)
    assert json.loads(path.read_bytes().split(b"\n")[0])["format"] == "gpuml checkpoint"


def test_groups_by_rows_are_stored_one_by_one(client, tmp_path, monkeypatch):
    """A driver that dies in the second group has the first."""
    X, y = make_rows()
    seen = []

    def multifit(self, folds, candidates, advance=None):
        seen.append(work_in(tmp_path))
        return Ridge.multifit(self, folds, candidates, advance)

    monkeypatch.setattr(CountedRidge, "multifit", multifit)
    with settings("groups by rows"):
        make_search("groups by rows", client, tmp_path).fit(X, y)
    assert seen == [0, 1, 2, 3]
