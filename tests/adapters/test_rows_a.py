"""Rows of clusters, covariances, kernel ridge and isolation forests, around a fake cuML."""

import pickle
import re
from numbers import Real

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import cosine_distances, rbf_kernel

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml.adapters import Data
from gpuml.adapters.rows import cluster as cluster_rows
from gpuml.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering, SpectralClustering
from gpuml.covariance import (
    EllipticEnvelope,
    GraphicalLasso,
    GraphicalLassoCV,
    MinCovDet,
)
from gpuml.ensemble import IsolationForest
from gpuml.exceptions import FallbackError, FallbackWarning

pytestmark = pytest.mark.filterwarnings("ignore::gpuml.exceptions.PrecisionWarning")

X = load_iris().data
Y = X[:, 0] - X[:, 1]
KERNEL = rbf_kernel(X)
WITH_ZEROS = np.vstack([np.zeros((1, 4)), X])
WITH_NAN = np.where(X > 7, np.nan, X)
LOPSIDED = KERNEL + np.triu(np.ones((150, 150)))


def single(**params):
    return AgglomerativeClustering(**{"linkage": "single", **params})


def hdbscan(**params):
    return HDBSCAN(**{"copy": True, **params})


def spectral(**params):
    return SpectralClustering(
        **{
            "n_clusters": 2,
            "n_init": 1,
            "n_neighbors": 60,
            "affinity": "nearest_neighbors",
            "random_state": 0,
            **params,
        }
    )


def isolation(**params):
    return IsolationForest(**{"n_estimators": 5, "random_state": 0, **params})


WEIGHTS = {"sample_weight": np.ones(150)}
REFUSED = [
    (DBSCAN(metric="l1"), X, {}, "metric='l1'"),
    (DBSCAN(algorithm="ball_tree"), X, {}, "algorithm='ball_tree'"),
    (DBSCAN(metric_params={"p": 3}), X, {}, "metric_params"),
    (DBSCAN(metric="cosine"), WITH_ZEROS, {}, "metric='cosine' of rows of zeros"),
    (DBSCAN(), sparse.csr_matrix(X), {}, "sparse X"),
    (hdbscan(metric="l1"), X, {}, "metric='l1'"),
    (hdbscan(metric_params={"p": 3}), X, {}, "metric_params"),
    (hdbscan(store_centers="both"), X, {}, "store_centers='both'"),
    (hdbscan(alpha=1.5), X, {}, "alpha=1.5"),
    (hdbscan(min_samples=4), X, {}, "min_samples below 5 or above 1024"),
    (hdbscan(min_cluster_size=1025), X, {}, "min_samples below 5 or above 1024"),
    (hdbscan(), WITH_NAN, {}, "nan in X"),
    (hdbscan(), sparse.csr_matrix(X), {}, "sparse X"),
    (AgglomerativeClustering(), X, {}, "linkage='ward'"),
    (single(metric="l1"), X, {}, "metric='l1'"),
    (single(metric="manhattan"), X, {}, "metric='manhattan'"),
    (single(metric="cityblock"), X, {}, "metric='cityblock'"),
    (single(metric="cosine"), X, {}, "metric='cosine'"),
    (single(connectivity=np.ones((150, 150))), X, {}, "connectivity"),
    (single(memory="."), X, {}, "memory"),
    (single(n_clusters=None, distance_threshold=0), X, {}, "distance_threshold=0"),
    (single(compute_distances=True), X, {}, "compute_distances=True"),
    (SpectralClustering(), X, {}, "affinity='rbf'"),
    (spectral(assign_labels="discretize"), X, {}, "assign_labels='discretize'"),
    (spectral(eigen_solver="arpack"), X, {}, "eigen_solver='arpack'"),
    (spectral(), sparse.csr_matrix(X), {}, "sparse X"),
    (spectral(n_components=60), X, {}, "so many components or neighbours of so few rows"),
    (spectral(n_clusters=60), X, {}, "so many components or neighbours of so few rows"),
    (
        spectral(n_clusters=9, n_components=1, n_neighbors=2),
        X[:8],
        {},
        "so many components or neighbours",
    ),
    (spectral(n_neighbors=150), X, {}, "so many components or neighbours of so few rows"),
    (spectral(affinity="precomputed"), LOPSIDED, {}, "affinity that is not symmetric"),
    (
        spectral(affinity="precomputed"),
        sparse.csr_matrix(LOPSIDED),
        {},
        "affinity that is not symmetric",
    ),
    (isolation(warm_start=True), X, {}, "warm_start=True"),
    (isolation(max_features=0), X, {}, "max_features below 1"),
    (isolation(), X, WEIGHTS, "sample_weight"),
    (isolation(), WITH_NAN, {}, "nan in X"),
    (EllipticEnvelope(), X, {}, "EllipticEnvelope"),
    (GraphicalLasso(), X, {}, "GraphicalLasso"),
    (GraphicalLassoCV(), X, {}, "GraphicalLassoCV"),
    (MinCovDet(), X, {}, "MinCovDet"),
]
NOT_REFUSED = [
    (DBSCAN(), X),
    (DBSCAN(metric="cosine", eps=0.01), X),
    (DBSCAN(metric="precomputed", eps=0.01), cosine_distances(X)),
    (DBSCAN(metric_params={}, algorithm="brute"), X),
    (hdbscan(), X),
    (hdbscan(min_samples=5, max_cluster_size=60, cluster_selection_method="leaf"), X),
    (single(), X),
    (single(metric="l2", n_clusters=3, compute_full_tree=False), X),
    (spectral(), X),
    (spectral(gamma=3.0, degree=2), X),
    (spectral(affinity="precomputed"), KERNEL),
    (isolation(), X),
    (isolation(max_samples=0.5, max_features=2, contamination=0.1), X),
]


@pytest.fixture
def always(fake):
    """Host rows go to the device, and what cuML does not do raises."""
    with gpuml.config_context(device="cuda", fallback="error"):
        yield fake


def case_names(value):
    if isinstance(value, np.ndarray):
        return ""
    # Addresses of functions differ from process to process.
    return re.sub(r"\s+|at 0x[0-9a-f]+", "", str(value))[:45]


@pytest.mark.parametrize(("model", "rows", "given", "reason"), REFUSED, ids=case_names)
def test_refused(always, model, rows, given, reason):
    with pytest.raises(FallbackError, match=re.escape(f"cuML has no {reason}")):
        model.fit(rows, **given)
    assert not hasattr(model, "n_features_in_")


def test_more_rows_than_pairs_can_be_counted():
    row, many = cluster_rows.AGGLOMERATIVE_CLUSTERING, np.zeros((46_341, 1))
    assert "46,340" in row.refuses_data(single().get_params(), Data(many))
    assert row.refuses_data(single().get_params(), Data(many[1:])) is None
    assert 46_340**2 < 2**31 <= 46_341**2


def test_every_refusal_is_tested():
    for model in {type(model): model for model, *_ in REFUSED}.values():
        texts = [reason for other, *_, reason in REFUSED if type(other) is type(model)]
        for refusal in model._row.refuses:
            said = refusal.reason or f"{refusal.parameter}="
            assert "46,340" in said or any(said[:30] in text for text in texts), said


@pytest.mark.parametrize(("model", "rows"), NOT_REFUSED, ids=case_names)
def test_done_by_cuml(always, model, rows):
    """Also: attributes are those of scikit-learn, before and after a pickle; X stays as it is."""
    before = rows.copy()
    device_rows = always.on_device(rows)
    model.fit(device_rows)
    assert vars(model)["_fitted"].engine is not None
    np.testing.assert_array_equal(to_host(device_rows), before)

    oracle = model._row.sk(**model.get_params()).fit(rows)
    loaded = pickle.loads(pickle.dumps(model))
    for name in (n for n in vars(oracle) if n.endswith("_") and not n.startswith("_")):
        if name in model._row.absent:
            continue
        _assert_alike(name, getattr(model, name), getattr(oracle, name))
        _assert_alike(name, getattr(loaded, name), getattr(oracle, name))
    for name in model._row.absent:
        with pytest.raises(AttributeError, match="after a fit on a GPU"):
            getattr(model, name)


def _assert_alike(name, ours, theirs):
    if isinstance(theirs, Real):
        assert type(ours) in (int, float, type(theirs)), name
        assert ours == pytest.approx(theirs), name
        return
    if not isinstance(theirs, np.ndarray):
        assert type(ours) is type(theirs), name
        return
    np.testing.assert_allclose(to_host(ours), theirs, rtol=1e-9, atol=1e-12, err_msg=name)
    assert str(ours.dtype).rpartition(".")[2] == theirs.dtype.name, name


WRONG = [
    (DBSCAN(metric="precomputed"), X, {}),
    (DBSCAN(metric="precomputed"), -KERNEL, {}),
    (hdbscan(), X[:1], {}),
    (hdbscan(), X[:3], {}),
    (hdbscan(min_samples=7), X[:6], {}),
    (single(), X[:1], {}),
    (single(n_clusters=None), X, {}),
    (single(n_clusters=151), X, {}),
    (spectral(), X[:1], {}),
    (spectral(affinity="precomputed"), X, {}),
    (isolation(max_features=5), X, {}),
]


@pytest.mark.parametrize(("model", "rows", "given"), WRONG, ids=case_names)
def test_errors_are_those_of_scikit_learn(always, model, rows, given):
    with pytest.raises(ValueError) as theirs:  # noqa: PT011
        model._row.sk(**model.get_params()).fit(rows, **given)
    with pytest.raises(type(theirs.value), match=re.escape(str(theirs.value))):
        model.fit(rows, **given)
    assert "_fitted" not in vars(model)


def test_no_row_for_a_tree_is_an_error(always):
    with pytest.raises(ValueError, match="max_samples=0.001 of 150 rows is no row"):
        isolation(max_samples=0.001).fit(X)


# ---------------------------------------------------------------- changed parameters


@pytest.mark.parametrize("eps", [0.1, 0.5, 0.7, 1.0, 3, np.inf, 1e-60])
def test_distances_of_eps_are_within_eps(eps):
    """What cuML compares with is a float32, and for float64 distances no less than eps."""
    assert _changes_of(eps, "float32") == {"eps": float(np.float32(eps))}
    (wide,) = _changes_of(eps, "float64").values()
    assert_is_next_float32(wide, eps)


@pytest.mark.parametrize("eps", [0.1, 0.5, 0.7, 1.0, 2, 1e-60])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cosines_are_distances_of_unit_rows(eps, dtype):
    changes = _changes_of(eps, dtype, "cosine")
    assert changes["metric"] == "euclidean"
    assert_is_next_float32(changes["eps"], np.sqrt(2 * eps))


def assert_is_next_float32(given, eps):
    assert given >= eps
    assert given == float(np.float32(given))
    assert given == pytest.approx(eps, rel=2e-7, abs=1e-44)


def _changes_of(eps, dtype, metric="euclidean"):
    params = {"eps": eps, "metric": metric}
    return cluster_rows.DBSCAN.changes(params, Data(X.astype(dtype)))


def test_ties_at_eps(always):
    line = np.arange(5)[:, None] * np.array([[0.7]])
    distances = np.round(np.abs(line - line.T), 1)
    model = DBSCAN(eps=0.7, min_samples=2, metric="precomputed").fit(distances)
    assert model.labels_.tolist() == [0, 0, 0, 0, 0]


# ---------------------------------------------------------------- conversions


def test_hdbscan_counts_neighbours_as_scikit_learn(always):
    for params in ({}, {"min_samples": 6}, {"min_cluster_size": np.int64(8)}):
        model = hdbscan(**params).fit(X)
        oracle = model._row.sk(**model.get_params()).fit(X)
        asked = vars(model)["_fitted"].engine.model.model.min_samples
        assert asked == (oracle.min_samples or oracle.min_cluster_size)
        np.testing.assert_array_equal(model.labels_, oracle.labels_)
        with gpuml.config_context(fallback="silent"):
            labels = model.dbscan_clustering(0.4)
        np.testing.assert_array_equal(labels, oracle.dbscan_clustering(0.4))


def test_converted_clusters_have_what_scikit_learns_have(always):
    for model in (hdbscan(), single()):
        converted = vars(model.fit(X).as_sklearn())
        oracle = vars(model._row.sk(**model.get_params()).fit(X))
        # `_raw_data` is X, and nothing reads it.
        assert oracle.keys() - converted.keys() <= {"_raw_data"}
        assert converted.keys() <= oracle.keys()


def test_isolation_forests_are_used(always):
    rows = always.on_device(X)
    model = isolation(contamination=0.1).fit(rows)
    oracle = model._row.sk(**model.get_params()).fit(X)
    for name in ("predict", "decision_function", "score_samples"):
        result = getattr(model, name)(rows)
        assert place_of(result) == always.device_place()
        np.testing.assert_allclose(to_host(result), getattr(oracle, name)(X), rtol=1e-12)
    labels = isolation(contamination=0.1).fit_predict(rows)
    assert place_of(labels) == always.device_place()
    np.testing.assert_array_equal(to_host(labels), oracle.predict(X))


def test_isolation_forests_of_the_host_stay_there(fake):
    model = isolation().fit(X)
    with pytest.warns(FallbackWarning, match="way to take over a IsolationForest"):
        labels = model.predict(fake.on_device(X))
    np.testing.assert_array_equal(to_host(labels), model.predict(X))


# ---------------------------------------------------------------- work


@pytest.mark.parametrize(
    ("params", "rows_of_trees"),
    [
        ({}, 256),
        ({"max_samples": 1000}, 1000),
        ({"max_samples": 20_000}, 10_000),
        ({"max_samples": 0.1}, 1000),
    ],
)
def test_work_of_isolation_forests(params, rows_of_trees):
    model = isolation(**params)
    work = model._row.work(10_000, 3, model.get_params())
    assert work == 8 * 3 * (10_000 + 5 * rows_of_trees)
    scored = isolation(contamination=0.2, **params)
    assert model._row.work(10_000, 3, scored.get_params()) > work
