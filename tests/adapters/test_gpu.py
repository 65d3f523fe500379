"""What only a GPU with cuML can show of the adapters: cuML itself, memory, streams."""

import pickle

import numpy as np
import pytest
from sklearn import cluster, ensemble
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import gpuml
from gpuml._arrays import move, place_of, to_host
from gpuml.cluster import KMeans
from gpuml.ensemble import RandomForestClassifier, RandomForestRegressor
from gpuml.testing import count_transfers

pytestmark = pytest.mark.gpu

BLOBS = make_blobs(3000, n_features=8, centers=5, random_state=0)[0]
DIGITS, LABELS = load_digits(return_X_y=True)


@pytest.fixture(autouse=True)
def cuml():
    pytest.importorskip("cupy")
    return pytest.importorskip("cuml")


@pytest.fixture(params=["numpy", "cupy", "torch"])
def rows_of(request):
    """Makes rows of a library, those of a device on a GPU."""
    if request.param == "numpy":
        return np.asarray
    library = pytest.importorskip(request.param)
    if request.param == "cupy":
        return library.asarray
    return lambda x: library.asarray(x, device="cuda")


@pytest.fixture
def always():
    with gpuml.config_context(device="cuda", fallback="error"):
        yield


# Products of float32 rows are rounded to ten bits (TF32): distances are right to 1 in 1,000, means
# of the rows of a cluster, which are sums, to float32.
DISTANCES = {"float32": 5e-3, "float64": 1e-6}
ROUNDING = {"float32": 2.0, "float64": 1e-6}  # rows have squared lengths of up to 800
MEANS = {"float32": 1e-4, "float64": 1e-10}
# Not a sum of such distances: it is computed of labels and centres, by differences.
INERTIA = {"float32": 1e-5, "float64": 1e-10}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kmeans_agrees(always, rows_of, dtype):
    rows = BLOBS.astype(dtype)
    X = rows_of(rows)
    model = KMeans(5, n_init=5, random_state=0).fit(X)
    oracle = cluster.KMeans(5, n_init=5, random_state=0).fit(rows)
    centres, labels = to_host(model.cluster_centers_), to_host(model.labels_)
    assert adjusted_rand_score(labels, oracle.labels_) > 0.999
    np.testing.assert_allclose(
        centres[np.argsort(centres[:, 0])],
        oracle.cluster_centers_[np.argsort(oracle.cluster_centers_[:, 0])],
        rtol=10 * MEANS[dtype],
        atol=10 * MEANS[dtype],
    )
    distances = ((BLOBS[:, None] - centres[None].astype(float)) ** 2).sum(axis=2)
    inertia = distances[np.arange(len(BLOBS)), labels].sum()
    assert inertia == pytest.approx(oracle.inertia_, rel=1e-4)
    assert model.inertia_ == pytest.approx(inertia, rel=INERTIA[dtype])
    # Labels are looked for anew, of rows that are not centred: a few on borders may be others.
    assert model.score(X) == pytest.approx(-inertia, rel=max(INERTIA[dtype], MEANS[dtype]))
    np.testing.assert_allclose(
        to_host(model.transform(X)) ** 2, distances, rtol=DISTANCES[dtype], atol=ROUNDING[dtype]
    )
    for result in (model.cluster_centers_, model.transform(X), model.predict(X), model.labels_):
        assert place_of(result) == place_of(X)
    for name in ("cluster_centers_", "labels_", "inertia_", "n_iter_", "n_features_in_"):
        ours, theirs = getattr(model, name), getattr(oracle, name)
        if isinstance(theirs, np.ndarray):
            assert str(ours.dtype).rpartition(".")[2] == theirs.dtype.name, name
            assert tuple(ours.shape) == theirs.shape, name
        else:
            assert type(ours) is type(theirs), name


def test_kmeans_says_the_cost_of_weighted_rows(always, rows_of):
    weight = np.random.default_rng(0).random(len(BLOBS))
    X = rows_of(BLOBS)
    model = KMeans(5, n_init=2, random_state=0).fit(X, sample_weight=rows_of(weight))
    centres, labels = to_host(model.cluster_centers_), to_host(model.labels_)
    expected = ((BLOBS - centres[labels]) ** 2).sum(axis=1) @ weight
    assert model.inertia_ == pytest.approx(expected, rel=1e-10)
    assert model.score(X, sample_weight=rows_of(weight)) == pytest.approx(-expected, rel=1e-10)


def test_kmeans_of_rows_by_columns(always):
    """Rows whose columns are each in one piece are clustered like others."""
    cupy = pytest.importorskip("cupy")
    params = {"n_clusters": 5, "init": BLOBS[:5], "n_init": 1, "max_iter": 3}
    ours = KMeans(**params).fit(cupy.asfortranarray(cupy.asarray(BLOBS)))
    theirs = KMeans(**params).fit(cupy.asarray(BLOBS))
    np.testing.assert_array_equal(to_host(ours.labels_), to_host(theirs.labels_))
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e-3])
@pytest.mark.parametrize("tol", [0.0, 1e-6, 1e-3, 0.1])
def test_kmeans_from_given_centres_is_scikit_learns(always, rows_of, tol, scale):
    """The same seeds, and one run: the same iterations, if perhaps a few more.

    Of float64 rows: these centres share a blob, and many of its rows are as far from one as from
    the other if distances are rounded to TF32.
    """
    rows = scale * BLOBS
    ours = KMeans(5, init=rows[:5], tol=tol).fit(rows_of(rows))
    theirs = cluster.KMeans(5, init=rows[:5], tol=tol).fit(rows)
    assert theirs.n_iter_ - 1 <= ours.n_iter_ <= 20
    assert ours.inertia_ <= theirs.inertia_ * (1 + 1e-9)
    theirs = cluster.KMeans(5, init=rows[:5], tol=0.0, max_iter=ours.n_iter_).fit(rows)
    centres = to_host(ours.cluster_centers_)
    np.testing.assert_allclose(centres, theirs.cluster_centers_, rtol=1e-8, atol=1e-8 * scale)
    np.testing.assert_array_equal(to_host(ours.labels_), theirs.labels_)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-8)


def test_kmeans_of_rows_far_from_zero(always, rows_of):
    """They are centred before distances are computed, as scikit-learn does."""
    rows = (BLOBS + 1e4).astype("float32")
    model = KMeans(5, n_init=5, random_state=0).fit(rows_of(rows))
    oracle = cluster.KMeans(5, n_init=5, random_state=0).fit(rows)
    assert adjusted_rand_score(to_host(model.labels_), oracle.labels_) > 0.999


def test_kmeans_of_rows_that_are_all_the_same(always, rows_of):
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        model = KMeans(3, random_state=0).fit(rows_of(np.ones((50, 2))))
    np.testing.assert_array_equal(to_host(model.predict(rows_of(np.ones((4, 2))))), [0] * 4)
    assert model.inertia_ == 0.0


def test_kmeans_stops_after_the_iterations_that_were_allowed(always):
    assert KMeans(5, init=BLOBS[:5], max_iter=2, tol=0.0).fit(BLOBS).n_iter_ == 2


def test_kmeans_of_the_host_without_tolerance_goes_on(always):
    with gpuml.config_context(device="cpu"):
        model = KMeans(5, n_init=1, tol=0.0, random_state=0).fit(BLOBS)
        expected = model.predict(BLOBS)
    np.testing.assert_array_equal(model.predict(BLOBS), expected)
    assert "_lifted" in vars(model)


def test_forests_agree(always, rows_of):
    X, y = rows_of(DIGITS), LABELS
    model = RandomForestClassifier(random_state=0, oob_score=True).fit(X[:1200], y[:1200])
    oracle = ensemble.RandomForestClassifier(random_state=0).fit(DIGITS[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) >= oracle.score(DIGITS[1200:], y[1200:]) - 0.03
    assert model.oob_score_ > 0.9
    proba = model.predict_proba(X[1200:])
    assert place_of(proba) == place_of(X)
    np.testing.assert_allclose(to_host(proba).sum(axis=1), 1.0, rtol=1e-5)
    importances = to_host(model.feature_importances_)
    assert importances.sum() == pytest.approx(1.0, rel=1e-3)
    assert np.corrcoef(importances, oracle.feature_importances_)[0, 1] > 0.9
    assert model.n_classes_ == 10
    assert len(model.estimators_) == 100


def test_regression_forests_agree(always, rows_of):
    y = BLOBS @ np.arange(1.0, 9.0)
    model = RandomForestRegressor(50, random_state=0).fit(rows_of(BLOBS), y)
    oracle = ensemble.RandomForestRegressor(50, random_state=0).fit(BLOBS, y)
    assert model.score(rows_of(BLOBS), rows_of(y)) >= oracle.score(BLOBS, y) - 0.05
    assert model.predict(rows_of(BLOBS)).shape == (3000,)


def test_seeds(always):
    def predicted(seed):
        return (
            RandomForestClassifier(5, random_state=seed).fit(DIGITS, LABELS).predict_proba(DIGITS)
        )

    np.testing.assert_array_equal(predicted(0), predicted(0))
    assert (predicted(0) != predicted(1)).any()
    assert (predicted(None) != predicted(None)).any()


MODELS = [
    lambda: KMeans(5, random_state=0).fit(DIGITS),
    lambda: RandomForestClassifier(20, random_state=0).fit(DIGITS, LABELS.astype(str)),
    lambda: RandomForestRegressor(20, random_state=0).fit(DIGITS, LABELS),
]


@pytest.mark.parametrize("make", MODELS)
def test_models_travel_and_come_back(always, make):
    model = make()
    expected = model.predict(DIGITS)
    with gpuml.config_context(device="cpu"):
        loaded = pickle.loads(pickle.dumps(model))
        assert "_fitted" not in vars(loaded)
        _assert_close(loaded.predict(DIGITS), expected)
        _assert_close(model.as_sklearn().predict(DIGITS), expected)
    _assert_close(loaded.predict(DIGITS), expected)
    assert "_lifted" in vars(loaded)


def _assert_close(got, expected):
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    else:
        assert np.mean(got == expected) > 0.999  # ties of float32 sums


def test_tensors_of_a_gpu_are_cupys_memory():
    cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    place = place_of(cupy.empty(0))
    for tensor in (torch.rand(5, 4, device="cuda"), torch.rand(5, 4, device="cuda").T):
        array = move(tensor, place)
        assert array.data.ptr == tensor.data_ptr()
        np.testing.assert_array_equal(array.get(), tensor.cpu().numpy())


# Of its own, however many rows there are, cuML reads a few numbers and some KiB from the device.
OWN = 32 * 1024


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_rows_of_a_gpu_stay_there(library):
    xp = pytest.importorskip(library)
    rows = np.tile(BLOBS, (40, 1))
    X = xp.asarray(rows) if library == "cupy" else xp.asarray(rows, device="cuda")
    model = KMeans(5, n_init=1, random_state=0).fit(X)
    for method in (model.predict, model.transform):
        assert 4 * len(rows) > 10 * OWN  # bytes of labels, the least that depends on rows
        method(X)  # kernels are loaded
        with count_transfers(max_to_device=OWN, max_to_host=OWN):
            method(X)


def test_work_of_other_streams_is_waited_for():
    import cupy

    model = KMeans(5, n_init=1, random_state=0).fit(cupy.asarray(BLOBS))
    expected = model.predict(cupy.asarray(BLOBS))
    big = cupy.random.random((4000, 4000))
    for _ in range(5):
        with cupy.cuda.Stream(non_blocking=True):
            for _ in range(10):
                big @ big
            X = cupy.asarray(BLOBS) + 0.0
            labels = model.predict(X)
            assert bool((labels == expected).all())


def test_the_process_keeps_its_settings(always, cuml):
    with cuml.using_output_type("numpy"):
        model = KMeans(5, random_state=0).fit(BLOBS)
        assert type(model.labels_) is np.ndarray
        assert type(cuml.KMeans(n_clusters=2).fit_predict(BLOBS)) is np.ndarray
