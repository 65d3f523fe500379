"""gpuml's estimators inside dask-ml's own searches and wrappers."""

import re
import threading
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn import model_selection as sk
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import make_pipeline as sk_pipeline

import gpuml
from gpuml._arrays import HOST, move, place_of
from gpuml._arrays import device_copies as _device_copies
from gpuml.data import resident_batches
from gpuml.decomposition import PCA
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml_dask.settings import PLUGIN

MISSING = "dask-ml is not installed (pip install gpuml[dask-ml])"
dm = pytest.importorskip("dask_ml.model_selection", reason=MISSING)
ParallelPostFit = pytest.importorskip("dask_ml.wrappers").ParallelPostFit

# dask-ml is dormant: what it calls may be deprecated any day, and no fault of ours.
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:dask_ml"),
]

RTOL = 1e-10
# By default dask-ml weights the scores of folds by their rows; scikit-learn does not.
OPTIONS = {"iid": False, "return_train_score": True}

STEPS = (StandardScaler(), PCA(), Ridge())
PIPELINE_GRID = {"pca__n_components": [2, 5], "ridge__alpha": [0.1, 1.0, 10.0]}
SEARCHES = {
    "Ridge": (Ridge(), {"alpha": [0.01, 1.0, 100.0], "fit_intercept": [True, False]}),
    "LogisticRegression": (LogisticRegression(), {"C": [0.1, 1.0, 10.0]}),
    "Pipeline": (make_pipeline(*STEPS), PIPELINE_GRID),
    "Pipeline of scikit-learn": (sk_pipeline(*STEPS), PIPELINE_GRID),
    "PCA": (PCA(), {"n_components": [1, 2, 4]}),
}


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(310, 8))
    return X, X @ rng.normal(size=8) + rng.normal(size=310)


@pytest.fixture(params=["threads", "distributed"])
def scheduler(request):
    """Runs a test on threads of this process, and on the cluster."""
    if request.param == "distributed":
        return request.getfixturevalue("client")
    return "threads"


def target_of(name, y):
    if name == "PCA":
        return None
    return (y > 0).astype(int) if name == "LogisticRegression" else y


def chunked(x, size=100):
    return None if x is None else da.from_array(x, chunks=(size, *x.shape[1:]))


def assert_same_table(found, expected):
    for name in expected:
        if "_score" in name and "time" not in name:
            np.testing.assert_allclose(found[name], expected[name], rtol=RTOL, err_msg=name)


# ---------------------------------------------------------------- searches


@pytest.mark.parametrize("kind", ["numpy", "dask"])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_grid_search_of_dask_ml_gives_the_table_of_sklearn(rows, scheduler, name, kind):
    estimator, grid = SEARCHES[name]
    X, y = rows[0], target_of(name, rows[1])
    expected = sk.GridSearchCV(estimator, grid, cv=3, return_train_score=True).fit(X, y)
    given = (X, y) if kind == "numpy" else (chunked(X), chunked(y))
    search = dm.GridSearchCV(estimator, grid, cv=3, scheduler=scheduler, **OPTIONS)
    found = search.fit(*given)
    assert_same_table(found.cv_results_, expected.cv_results_)
    assert found.best_params_ == expected.best_params_
    assert found.best_score_ == pytest.approx(expected.best_score_, rel=RTOL)
    use = "transform" if name == "PCA" else "predict"
    np.testing.assert_allclose(
        getattr(found, use)(X), getattr(expected.best_estimator_, use)(X), rtol=1e-8, atol=1e-12
    )


def test_a_randomised_search_of_dask_ml(rows, scheduler):
    options = {"n_iter": 5, "random_state": 0, "cv": sk.KFold(3)}
    grid = {"alpha": list(np.logspace(-2, 2, 30))}
    found = dm.RandomizedSearchCV(Ridge(), grid, scheduler=scheduler, **OPTIONS, **options)
    found.fit(*rows)
    drawn = [params["alpha"] for params in found.cv_results_["params"]]
    assert len(set(drawn)) == 5
    again = sk.GridSearchCV(Ridge(), {"alpha": drawn}, cv=sk.KFold(3)).fit(*rows)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"], rtol=RTOL
    )


def test_sample_weights_go_with_the_rows(rows, rng, scheduler):
    weight = rng.uniform(size=310)
    options = {"param_grid": {"alpha": [1.0, 100.0]}, "cv": sk.KFold(3)}
    found = dm.GridSearchCV(Ridge(), scheduler=scheduler, **options, **OPTIONS)
    found.fit(*rows, sample_weight=weight)
    # Of fits only, not of scores.
    X, y = rows
    for s, (train, test) in enumerate(sk.KFold(3).split(X)):
        model = Ridge(alpha=100.0).fit(X[train], y[train], sample_weight=weight[train])
        score = found.cv_results_[f"split{s}_test_score"][1]
        assert score == pytest.approx(model.score(X[test], y[test]), rel=RTOL)


def test_a_candidate_that_fails_gets_the_error_score(rows):
    # A number: with nan, dask-ml 2025.1 raises IndexError at the end.
    search = dm.GridSearchCV(
        Ridge(), {"alpha": [1.0, -1.0]}, cv=sk.KFold(3), error_score=-9.0, iid=False
    )
    with pytest.warns(FitFailedWarning, match="alpha"):
        search.fit(*rows)
    assert list(search.cv_results_["mean_test_score"] == -9.0) == [False, True]


# ---------------------------------------------------------------- ParallelPostFit


@pytest.mark.parametrize("model", [Ridge(), sk_pipeline(StandardScaler(), Ridge())])
def test_blocks_are_predicted_where_they_are(rows, scheduler, model):
    X, y = rows
    wrapped = ParallelPostFit(clone(model)).fit(X, y)
    lazy = wrapped.predict(chunked(X))
    assert lazy.chunks == ((100, 100, 100, 10),)
    expected = clone(model).fit(X, y)
    np.testing.assert_allclose(computed(lazy, scheduler), expected.predict(X), rtol=RTOL)
    np.testing.assert_allclose(wrapped.predict(X), expected.predict(X), rtol=RTOL)
    assert wrapped.score(X, y) == pytest.approx(expected.score(X, y), rel=RTOL)


def test_blocks_are_classified_where_they_are(rows, scheduler):
    X, y = rows[0], target_of("LogisticRegression", rows[1])
    wrapped, expected = ParallelPostFit(LogisticRegression()).fit(X, y), LogisticRegression()
    expected.fit(X, y)
    lazy = wrapped.predict_proba(chunked(X))
    assert lazy.shape == (310, 2)
    np.testing.assert_allclose(computed(lazy, scheduler), expected.predict_proba(X), rtol=RTOL)
    labels = computed(wrapped.predict(chunked(X)), scheduler)
    np.testing.assert_array_equal(labels, expected.predict(X))


def test_blocks_are_transformed_where_they_are(rows, scheduler):
    X = rows[0]
    wrapped = ParallelPostFit(PCA(2)).fit(X)
    found = computed(wrapped.transform(chunked(X)), scheduler)
    np.testing.assert_allclose(found, PCA(2).fit(X).transform(X), rtol=1e-8, atol=1e-12)


def computed(lazy, scheduler):
    return lazy.compute(scheduler=scheduler)


# ---------------------------------------------------------------- one trip per fold


@pytest.fixture
def device(monkeypatch):
    """Host rows are worked on at a device that NumPy cannot read; sizes of moves are noted."""
    strict = pytest.importorskip("array_api_strict")
    place = place_of(strict.asarray([0.0], device=strict.Device("device1")))
    sizes, adding = [], threading.Lock()

    def counting(x, place):
        if not isinstance(x, np.ndarray) or place.is_host:
            return move(x, place)
        with adding:
            sizes.append(x.size)
        return move(x.copy(), place)  # array-api-strict would share its memory

    def compute_place(x, work_bytes, setting):
        return place if place_of(x) == HOST else place_of(x)

    monkeypatch.setattr(_device_copies, "move", counting)
    monkeypatch.setattr(resident_batches, "compute_place", compute_place)
    yield sizes
    _device_copies.device_copies.drop(place)


@pytest.mark.parametrize("cached", [True, False], ids=["copies kept", "none kept"])
def test_a_fold_goes_to_the_device_once_for_all_candidates(rng, device, cached):
    X, y = rng.normal(size=(900, 20)), rng.normal(size=900)
    grid, cv = {"alpha": list(np.logspace(-2, 2, 10))}, sk.KFold(3)
    search = dm.GridSearchCV(Ridge(), grid, cv=cv, scheduler="threads", **OPTIONS)
    if not cached:
        gpuml.set_config(copy_bytes=0)
    try:
        with dask.config.set(num_workers=3):
            search.fit(X, y)
    finally:
        gpuml.set_config(copy_bytes=None)
    # dask-ml may cut a fold once in each of several threads that want it first.
    n_trips = device.count(600 * 20)
    assert (3 <= n_trips <= 9) if cached else n_trips == 30
    expected = sk.GridSearchCV(Ridge(), grid, cv=cv, return_train_score=True).fit(X, y)
    assert_same_table(search.cv_results_, expected.cv_results_)


def test_copies_go_with_the_folds(rng, device):
    X, y = rng.normal(size=(900, 20)), rng.normal(size=900)
    search = dm.GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=sk.KFold(3), scheduler="sync")
    search.fit(X, y)
    place = next(iter(_device_copies.device_copies._slots.values())).place
    # What is left is of the rows that the user has still: the refit was on them.
    assert _device_copies.device_copies.held_bytes(place) == X.nbytes
    del X, y, search  # a fitted search of dask-ml holds its graph, and so the rows
    assert _device_copies.device_copies.held_bytes(place) == 0


@pytest.mark.gpu
def test_a_search_of_dask_ml_takes_each_fold_to_the_gpu_once(rng):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    from gpuml.testing import count_transfers

    X, y = rng.normal(size=(200_000, 50)), rng.normal(size=200_000)
    search = dm.GridSearchCV(
        Ridge(), {"alpha": list(np.logspace(-2, 2, 10))}, cv=sk.KFold(3), scheduler="sync"
    )
    with gpuml.config_context(device="cuda"), count_transfers() as counted:
        search.fit(X, y)
    # Three training parts of two thirds, and all rows for the refit.
    assert 3 * X.nbytes <= counted.to_device < 1.1 * 3 * X.nbytes


# ---------------------------------------------------------------- the page


def test_the_examples_of_the_page_run(rows, client):
    page = (Path(__file__).parents[2] / "docs" / "dask-ml.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"client": client, "X": rows[0], "y": rows[1]}
    try:
        for block in blocks:
            if "tcp://" not in block:  # no such scheduler here
                exec(block, names)
    finally:
        client.unregister_worker_plugin(PLUGIN)
    np.testing.assert_array_equal(names["predictions"].compute(), names["model"].predict(rows[0]))
    assert names["first"].best_score_ > 0.5
    assert names["search"].best_params_["ridge__alpha"] in (0.1, 1.0, 10.0)
