"""cuML against scikit-learn on a GPU: clusters, kernel ridge, isolation forests.

Tolerances are for float64 rows unless said; what cuML computes in float32 has those of float32.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.cluster._hdbscan._tree import tree_to_labels
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import cosine_distances
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering, SpectralClustering
from gpuml.ensemble import IsolationForest
from gpuml.exceptions import FallbackError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::gpuml.exceptions.PrecisionWarning"),
]

DIGITS, LABELS = load_digits(return_X_y=True)
SCALED = StandardScaler().fit_transform(DIGITS)
CANCER = StandardScaler().fit_transform(load_breast_cancer().data)
WINE = StandardScaler().fit_transform(load_wine().data)
DIABETES, PROGRESS = load_diabetes(return_X_y=True)


@pytest.fixture(autouse=True)
def always():
    """All is done by cuML, host rows too."""
    pytest.importorskip("cupy")
    pytest.importorskip("cuml")
    with gpuml.config_context(device="cuda", fallback="error"):
        yield


@pytest.fixture(params=["numpy", "cupy", "torch"])
def rows_of(request):
    """Makes rows of a library, those of a device on a GPU."""
    if request.param == "numpy":
        return np.asarray
    library = pytest.importorskip(request.param)
    if request.param == "cupy":
        return library.asarray
    return lambda x: library.asarray(x, device="cuda")


def fitted(model, *args, **given):
    """scikit-learn's model with the same parameters."""
    return model._row.sk(**model.get_params()).fit(*args, **given)


def assert_same_kinds(model, oracle, X):
    """Fitted attributes have scikit-learn's names, shapes, dtypes, and the place of the rows."""
    for name in (n for n in vars(oracle) if n.endswith("_") and not n.startswith("_")):
        if name in model._row.absent:
            continue
        ours, theirs = getattr(model, name), getattr(oracle, name)
        if not isinstance(theirs, np.ndarray):
            continue
        assert tuple(ours.shape) == theirs.shape, name
        if name != "feature_names_in_":
            assert str(ours.dtype).rpartition(".")[2] == theirs.dtype.name, name
            assert place_of(ours) == place_of(X), name


def assert_close(ours, theirs, **tolerances):
    np.testing.assert_allclose(to_host(ours), theirs, **tolerances)


# ---------------------------------------------------------------- DBSCAN

DENSITIES = [
    (DBSCAN(eps=4.0), SCALED),
    (DBSCAN(eps=2.0), CANCER),
    (DBSCAN(eps=2.0, min_samples=3, metric="l2", algorithm="brute"), WINE),
    (DBSCAN(eps=0.1, metric="cosine"), SCALED),
    (DBSCAN(eps=0.05, metric="cosine"), DIGITS),
    (DBSCAN(eps=0.1, metric="precomputed"), cosine_distances(SCALED)),
]


@pytest.mark.parametrize(("model", "X"), DENSITIES, ids=lambda v: str(v)[:40])
def test_dbscan(rows_of, model, X):
    oracle = fitted(model, X)
    assert oracle.labels_.max() > 1
    assert 0 < len(oracle.core_sample_indices_) < len(X) - 1
    rows = rows_of(X.copy())
    labels = to_host(model.fit_predict(rows))
    np.testing.assert_array_equal(to_host(rows), X)
    core = oracle.core_sample_indices_
    np.testing.assert_array_equal(to_host(model.core_sample_indices_), core)
    assert_close(model.components_, X[core], rtol=1e-12)
    # Clusters are numbered by their first core points in both; points on an edge between two may
    # go to either.
    np.testing.assert_array_equal(labels[core], oracle.labels_[core])
    np.testing.assert_array_equal(labels < 0, oracle.labels_ < 0)
    assert np.mean(labels == oracle.labels_) > 0.99
    assert_same_kinds(model, oracle, rows)


def test_dbscan_of_weights(rows_of):
    weight = np.random.default_rng(0).integers(-1, 4, len(SCALED)).astype(float)
    model = DBSCAN(eps=4.0).fit(rows_of(SCALED), sample_weight=rows_of(weight))
    oracle = fitted(model, SCALED, sample_weight=weight)
    assert len(oracle.core_sample_indices_) != len(fitted(model, SCALED).core_sample_indices_)
    assert_close(model.core_sample_indices_, oracle.core_sample_indices_)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_dbscan_of_distances_that_are_eps(metric):
    """They are more than the float32 next to 0.7, with which cuML would compare them."""
    line = np.array([[0.0], [0.7]])
    rows = np.abs(line - line.T) if metric == "precomputed" else line
    model = DBSCAN(eps=0.7, min_samples=2, metric=metric)
    assert model.fit(rows).labels_.tolist() == fitted(model, rows).labels_.tolist() == [0, 0]


def test_dbscan_without_core_points_and_with_core_points_only():
    none = DBSCAN(eps=1e-3).fit(WINE)
    assert none.core_sample_indices_.shape == (0,)
    assert none.components_.shape == (0, 13)
    every = DBSCAN(eps=1e3).fit(WINE)
    assert every.core_sample_indices_.tolist() == list(range(178))


# ---------------------------------------------------------------- HDBSCAN


# Rows whose minimal spanning tree joins near neighbours only, so that it is cuML's, too.
OF_NEAR_NEIGHBOURS = [(WINE, None), (WINE, 8), (WINE, 12), (SCALED, 12)]
# Rows whose minimal spanning tree needs a few other edges.
OF_FAR_NEIGHBOURS = [(SCALED, None), (SCALED, 8)]


def distances_of_joins(model):
    """Those of a spanning tree: the same for all minimal ones, others for other densities."""
    return np.sort(model._single_linkage_tree_["value"])


def assert_same_clusters(model, labels, probabilities):
    ours = to_host(model.labels_)
    assert adjusted_rand_score(ours, labels) > 0.95
    assert np.mean((ours < 0) == (labels < 0)) > 0.97
    assert np.mean(np.abs(to_host(model.probabilities_) - probabilities) < 1e-2) > 0.9


@pytest.mark.parametrize(("X", "min_samples"), OF_NEAR_NEIGHBOURS, ids=lambda v: str(v)[:6])
def test_hdbscan(rows_of, X, min_samples):
    model = HDBSCAN(copy=True, min_samples=min_samples).fit(rows_of(X))
    oracle = fitted(model, X)
    joins = distances_of_joins(model.as_sklearn())
    assert_close(joins, distances_of_joins(oracle), rtol=1e-3)
    assert_same_clusters(model, oracle.labels_, oracle.probabilities_)
    assert_same_kinds(model, oracle, rows_of(X))


@pytest.mark.parametrize(("X", "min_samples"), OF_FAR_NEIGHBOURS, ids=lambda v: str(v)[:6])
def test_hdbscan_of_a_tree_of_near_neighbours(rows_of, X, min_samples):
    """The tree is nearly minimal, and clusters are those that scikit-learn finds in such a tree.

    They may be others than those of the minimal tree: of these rows, two selections of clusters are
    worth nearly the same.
    """
    model = HDBSCAN(copy=True, min_samples=min_samples).fit(rows_of(X))
    oracle = fitted(model, X)
    ours, theirs = distances_of_joins(model.as_sklearn()), distances_of_joins(oracle)
    # One by one in order, nothing is less than in a minimal tree.
    assert (ours > theirs * (1 - 1e-5)).all()
    assert np.mean(ours < theirs * (1 + 1e-3)) > 0.9
    assert_close(ours, theirs, rtol=0.05)
    assert_same_clusters(model, *tree_to_labels(model.as_sklearn()._single_linkage_tree_, 5))
    assert_same_kinds(model, oracle, rows_of(X))


@pytest.mark.parametrize(
    "params",
    [
        {"cluster_selection_method": "leaf"},
        {"max_cluster_size": 60},
        {"cluster_selection_epsilon": 2.0},
        {"allow_single_cluster": True},
    ],
    ids=str,
)
def test_hdbscan_selects_alike(params):
    model = HDBSCAN(copy=True, **params).fit(WINE)
    assert adjusted_rand_score(model.labels_, fitted(model, WINE).labels_) > 0.95


def test_hdbscan_is_cut_after_a_trip_to_the_host():
    model = HDBSCAN(copy=True).fit(WINE)
    with gpuml.config_context(fallback="silent"):
        labels = model.dbscan_clustering(2.5)
    assert adjusted_rand_score(labels, fitted(model, WINE).dbscan_clustering(2.5)) > 0.99


# ---------------------------------------------------------------- agglomerative, spectral


@pytest.mark.parametrize("metric", ["euclidean", "l2"])
@pytest.mark.parametrize("n_clusters", [2, 10])
def test_single_linkage(rows_of, metric, n_clusters):
    rows = rows_of(CANCER)
    model = AgglomerativeClustering(n_clusters, linkage="single", metric=metric).fit(rows)
    oracle = fitted(model, CANCER)
    assert adjusted_rand_score(to_host(model.labels_), oracle.labels_) > 0.99
    children = to_host(model.children_)
    # Every node but the root is the child of one node, made after it.
    assert sorted(children.ravel().tolist()) == list(range(2 * len(CANCER) - 2))
    assert (children.max(axis=1) < len(CANCER) + np.arange(len(children))).all()
    assert (model.n_clusters_, model.n_leaves_) == (n_clusters, len(CANCER))
    assert model.n_connected_components_ == oracle.n_connected_components_
    assert_same_kinds(model, oracle, rows)


@pytest.mark.parametrize("metric", ["l1", "manhattan", "cityblock", "cosine"])
def test_single_linkage_by_other_metrics_is_scikit_learns(rows_of, metric):
    rows = rows_of(CANCER)
    model = AgglomerativeClustering(5, linkage="single", metric=metric)
    with pytest.raises(FallbackError, match=f"metric='{metric}'"):
        model.fit(rows)
    with gpuml.config_context(fallback="silent"):
        labels = model.fit_predict(rows)
    np.testing.assert_array_equal(to_host(labels), fitted(model, CANCER).labels_)
    assert place_of(labels) == place_of(rows)


def test_spectral_clusters(rows_of):
    rows = rows_of(DIGITS)
    model = SpectralClustering(10, affinity="nearest_neighbors", random_state=0).fit(rows)
    oracle = fitted(model, DIGITS)
    labels = to_host(model.labels_)
    assert adjusted_rand_score(labels, LABELS) > adjusted_rand_score(oracle.labels_, LABELS) - 0.1
    assert adjusted_rand_score(labels, oracle.labels_) > 0.7
    assert_same_kinds(model, oracle, rows)


@pytest.mark.parametrize("kind", ["dense", "sparse", "sparse on the GPU"])
def test_spectral_clusters_of_a_given_affinity(kind):
    graph = kneighbors_graph(DIGITS, 10, include_self=True)
    affinity = 0.5 * (graph + graph.T)
    given = affinity.toarray() if kind == "dense" else sparse.csr_matrix(affinity)
    if kind == "sparse on the GPU":
        given = pytest.importorskip("cupyx").scipy.sparse.csr_matrix(given)
    model = SpectralClustering(10, affinity="precomputed", random_state=0).fit(given)
    oracle = fitted(model, affinity)
    assert adjusted_rand_score(to_host(model.labels_), oracle.labels_) > 0.7


# ---------------------------------------------------------------- isolation forests


@pytest.mark.parametrize("params", [{}, {"max_features": 0.5}, {"bootstrap": True}], ids=str)
def test_isolation_forests(rows_of, params):
    rows = rows_of(CANCER)
    model = IsolationForest(n_estimators=300, random_state=0, contamination=0.1, **params).fit(rows)
    oracle = fitted(model, CANCER)
    ours, theirs = to_host(model.score_samples(rows)), oracle.score_samples(CANCER)
    assert spearmanr(ours, theirs).statistic > 0.97
    assert np.abs(ours - theirs).max() < 0.05
    assert model.offset_ == pytest.approx(oracle.offset_, abs=0.02)
    assert model.max_samples_ == oracle.max_samples_
    labels = model.predict(rows)
    assert place_of(labels) == place_of(rows)
    assert np.mean(to_host(labels) == oracle.predict(CANCER)) > 0.95
    assert np.mean(to_host(labels) < 0) == pytest.approx(0.1, abs=0.01)
    assert_same_kinds(model, oracle, rows)
    np.testing.assert_array_equal(to_host(model.decision_function(rows)) < 0, to_host(labels) < 0)


def test_isolation_forests_travel():
    model = IsolationForest(n_estimators=50, random_state=0).fit(CANCER)
    converted = model.as_sklearn()
    assert_close(model.score_samples(CANCER), converted.score_samples(CANCER), atol=1e-3)
    labels = IsolationForest(n_estimators=50, random_state=0).fit_predict(CANCER)
    np.testing.assert_array_equal(labels, model.predict(CANCER))
