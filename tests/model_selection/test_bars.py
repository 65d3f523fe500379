"""`set_config(progress=True)`: a search draws a bar whichever way its candidates go."""

import pickle
import threading

import joblib
import pytest
from scipy.stats import loguniform
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge as HostRidge
from sklearn.linear_model import SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuml
from gpuml._settings import progress as _progress
from gpuml._settings.progress import Ticks
from gpuml.linear_model import Ridge
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HyperbandSearchCV,
    cross_validate,
)

ALPHAS = [0.1, 1.0, 10.0]
BEHIND = make_pipeline(StandardScaler(), HostRidge()), {"ridge__alpha": ALPHAS}
# What is searched over, its class, and how many steps of a bar are seen if each fit is one.
WAYS = {
    "all at once": (GridSearchCV, Ridge(), {"alpha": ALPHAS}, None),
    "one by one": (GridSearchCV, HostRidge(), {"alpha": ALPHAS}, 15),
    "shared steps": (GridSearchCV, *BEHIND, 15),
    "together on each fold": (
        GridSearchCV,
        make_pipeline(StandardScaler(), Ridge()),
        {"ridge__alpha": ALPHAS},
        15,
    ),
    "growing": (GridSearchCV, RandomForestRegressor(random_state=0), {"n_estimators": [1, 2]}, 10),
    "two ways": (
        GridSearchCV,
        Ridge(),
        [{"alpha": ALPHAS}, {"solver": ["sag"], "alpha": [1.0, 2.0]}],
        None,
    ),
    "halving": (HalvingGridSearchCV, HostRidge(), {"alpha": ALPHAS}, None),
}


class Bar:
    """Notes what it is told, and by whom."""

    def __init__(self, total):
        self.total, self.steps, self.is_open = total, [], True

    def advance(self, n=1):
        assert self.is_open
        self.steps.append(n)

    def stop(self):
        self.is_open = False


@pytest.fixture
def bars(monkeypatch):
    drawn = []

    def started(total, description):
        assert not any(bar.is_open for bar in drawn)
        drawn.append(Bar(total))
        return drawn[-1]

    monkeypatch.setattr(_progress, "_started_bar", started)
    with gpuml.config_context(progress=True):
        yield drawn


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 3))
    return X, X @ [1.0, 2.0, 3.0]


def are_full(bars):
    return bars and all(sum(bar.steps) == bar.total and not bar.is_open for bar in bars)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_a_search_draws_a_bar(way, bars, rows):
    search, estimator, grid, n_fits = WAYS[way]
    search(estimator, grid).fit(*rows)
    assert are_full(bars)
    if n_fits is not None:
        assert [bar.steps for bar in bars] == [[1] * n_fits]


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("estimator", [HostRidge(), BEHIND[0]], ids=["one by one", "shared steps"])
def test_fits_of_workers_count(backend, estimator, bars, rows):
    grid = {"alpha": ALPHAS} if isinstance(estimator, HostRidge) else BEHIND[1]
    with joblib.parallel_config(backend=backend):
        GridSearchCV(estimator, grid, n_jobs=2).fit(*rows)
    assert are_full(bars)
    # At least each split is seen by itself.
    assert len(bars[0].steps) >= 5


def test_a_fit_that_fails_counts_and_an_error_closes_the_bar(bars, rows):
    grid = {"alpha": [-1.0, 1.0]}
    with pytest.warns(match="fits failed|non-finite"):
        GridSearchCV(HostRidge(), grid, refit=False).fit(*rows)
    assert are_full(bars)
    with pytest.raises(ValueError, match="alpha"):
        GridSearchCV(HostRidge(), grid, error_score="raise").fit(*rows)
    assert not bars[-1].is_open


def test_cross_validation_and_hyperband_draw_theirs(bars, rows):
    cross_validate(HostRidge(), *rows)
    assert are_full(bars)
    draws = {"alpha": loguniform(1e-6, 1e-3)}
    for resource in ("partial_fit", "n_samples"):
        search = HyperbandSearchCV(SGDRegressor(random_state=0), draws, 9, resource=resource)
        search.set_params(random_state=0).fit(*rows)
        assert are_full(bars)
    assert len(bars) == 3


def test_nobody_asks_nobody_draws(bars, rows):
    with gpuml.config_context(progress=False):
        GridSearchCV(HostRidge(), {"alpha": ALPHAS}).fit(*rows)
    assert bars == []


def test_steps_are_counted_once_wherever_they_are_made():
    told = []
    ticks = Ticks(told.append)
    elsewhere = pickle.loads(pickle.dumps(ticks))
    threads = [threading.Thread(target=lambda: [ticks() for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elsewhere()
    assert sum(told) == 2000
    ticks.up_to(1999)
    assert sum(told) == 2000
    ticks.up_to(2003)
    ticks()
    assert sum(told) == 2004
