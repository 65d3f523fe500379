"""What cuML's neighbours and support vectors agree with scikit-learn's in, and how far.

Data are those that ship with scikit-learn. Neighbours are found in float32 in any case.
"""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.special import gamma
from sklearn import neighbors, svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import StandardScaler

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml.neighbors import (
    KernelDensity,
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
)
from gpuml.svm import SVC, SVR

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::gpuml.exceptions.PrecisionWarning"),
]


def scaled(loader):
    X, y = loader(return_X_y=True)
    return StandardScaler().fit_transform(X), y


CANCER, MALIGNANT = scaled(load_breast_cancer)
WINE, CULTIVAR = scaled(load_wine)
DIABETES, PROGRESS = scaled(load_diabetes)
PROGRESS = (PROGRESS - PROGRESS.mean()) / PROGRESS.std()
DIGITS, NUMBERS = load_digits(return_X_y=True)
PIXELS = DIGITS / 16.0
IRIS = np.unique(load_iris().data, axis=0)  # no row twice


@pytest.fixture(autouse=True)
def always():
    pytest.importorskip("cupy")
    pytest.importorskip("cuml")
    with gpuml.config_context(device="cuda", fallback="error"):
        yield


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(params=["numpy", "cupy", "torch"])
def rows_of(request):
    """Makes rows of a library, those of a device on a GPU."""
    if request.param == "numpy":
        return np.asarray
    library = pytest.importorskip(request.param)
    if request.param == "cupy":
        return library.asarray
    return lambda x: library.asarray(x, device="cuda")


# ---------------------------------------------------------------- neighbours

METRICS = [
    "euclidean",
    "manhattan",
    "chebyshev",
    "canberra",
    "cosine",
    "correlation",
    "sqeuclidean",
]


@pytest.mark.parametrize("params", [*({"metric": m} for m in METRICS), {"p": 3}, {"p": 1}])
def test_neighbours(rows_of, params):
    model = NearestNeighbors(n_neighbors=6, **params).fit(rows_of(CANCER))
    oracle = neighbors.NearestNeighbors(n_neighbors=6, **params).fit(CANCER)
    for query in (None, CANCER[:100] + 0.01):
        found = model.kneighbors(None if query is None else rows_of(query))
        assert [place_of(part) for part in found] == [place_of(rows_of(CANCER))] * 2
        distances, indices = map(to_host, found)
        expected = oracle.kneighbors(query)
        np.testing.assert_allclose(distances, expected[0], rtol=1e-3, atol=1e-3)
        assert np.mean(indices == expected[1]) > 0.99
        assert indices.dtype == "int64"


def test_neighbours_on_a_sphere():
    rows = np.deg2rad(np.random.default_rng(0).uniform(-60, 60, size=(300, 2)))
    expected = neighbors.NearestNeighbors(metric="haversine").fit(rows).kneighbors(rows)
    distances, indices = NearestNeighbors(metric="haversine").fit(rows).kneighbors(rows)
    np.testing.assert_allclose(distances, expected[0], atol=1e-3)
    assert np.mean(indices == expected[1]) > 0.98


@pytest.mark.parametrize("columns", [2, 3])
def test_neighbours_of_few_columns(columns):
    rows = np.random.default_rng(0).random((5000, columns))
    for k in (5, 200):  # cuML's index of balls, and without it
        expected = neighbors.NearestNeighbors(n_neighbors=k).fit(rows).kneighbors(rows)
        distances, indices = NearestNeighbors(n_neighbors=k).fit(rows).kneighbors(rows)
        np.testing.assert_allclose(distances, expected[0], atol=1e-3)
        assert np.mean(indices == expected[1]) > 0.98


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
def test_graphs_of_neighbours(mode):
    found = NearestNeighbors().fit(CANCER).kneighbors_graph(CANCER[:50], mode=mode)
    expected = neighbors.NearestNeighbors().fit(CANCER).kneighbors_graph(CANCER[:50], mode=mode)
    assert sparse.issparse(found)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=5e-3)


@pytest.mark.parametrize("columns", [2, 30])  # cuML's index of balls, and without it
@pytest.mark.parametrize("own", [True, False])
def test_graphs_of_all_within_a_radius(columns, own):
    rows, X = CANCER[:, :columns], None if own else CANCER[:50, :columns]
    oracle = neighbors.NearestNeighbors().fit(rows)
    # One that is not so near to any distance that float32 would tell otherwise.
    distances = np.unique(pairwise_distances(rows))[1_000:10_000]
    gap = np.argmax(np.diff(distances))
    radius = float(distances[gap : gap + 2].mean())
    found = NearestNeighbors().fit(rows).radius_neighbors_graph(X, radius)
    expected = oracle.radius_neighbors_graph(X, radius)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


def test_samples_of_a_density():
    """They are rows of the fit, moved at random: less far than the kernel reaches."""
    model = KernelDensity(kernel="tophat", bandwidth=0.1).fit(IRIS)
    drawn = to_host(model.sample(500, random_state=0))
    assert drawn.shape == (500, IRIS.shape[1])
    assert neighbors.NearestNeighbors().fit(IRIS).kneighbors(drawn, 1)[0].max() < 0.1001
    np.testing.assert_array_equal(drawn, to_host(model.sample(500, random_state=0)))
    with pytest.raises(NotImplementedError):
        KernelDensity(kernel="linear").fit(IRIS).sample()


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_neighbours_of_sparse_rows(metric):
    rows = sparse.csr_matrix(DIGITS[:500])
    model = NearestNeighbors(metric=metric).fit(rows)
    expected = neighbors.NearestNeighbors(metric=metric).fit(rows).kneighbors(rows[:50])[0]
    np.testing.assert_allclose(model.kneighbors(rows[:50])[0], expected, rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_votes(rows_of, dtype, weights):
    X, y = rows_of(DIGITS.astype(dtype)), NUMBERS.astype(str)
    model = KNeighborsClassifier(weights=weights).fit(X[:1200], y[:1200])
    oracle = neighbors.KNeighborsClassifier(weights=weights).fit(DIGITS[:1200], y[:1200])
    assert np.mean(model.predict(X[1200:]) == oracle.predict(DIGITS[1200:])) > 0.995
    proba = model.predict_proba(X[1200:])
    assert str(proba.dtype).rpartition(".")[2] == dtype
    difference = np.abs(to_host(proba) - oracle.predict_proba(DIGITS[1200:]))
    assert np.mean(difference.max(axis=1) < 1e-3) > 0.99


def test_ties_of_votes_are_the_first_class():
    X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), ["b", "a", "b", "a"]
    oracle = neighbors.KNeighborsClassifier(2).fit(X, y)
    query = np.array([[0.5], [3.5], [2.1]])
    np.testing.assert_array_equal(
        KNeighborsClassifier(2).fit(X, y).predict(query), oracle.predict(query)
    )


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_means_of_neighbours(rows_of, dtype, weights):
    X = rows_of(DIABETES.astype(dtype))
    model = KNeighborsRegressor(weights=weights).fit(X[:300], PROGRESS[:300])
    oracle = neighbors.KNeighborsRegressor(weights=weights).fit(DIABETES[:300], PROGRESS[:300])
    found = to_host(model.predict(X[300:]))
    assert np.mean(np.abs(found - oracle.predict(DIABETES[300:])) < 1e-3) > 0.98


KERNELS = ["gaussian", "tophat", "epanechnikov", "exponential", "linear"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bandwidth", [1.5, "scott", "silverman"])
def test_densities(kernel, bandwidth):
    weight = np.linspace(1.0, 2.0, len(IRIS))
    model = KernelDensity(bandwidth=bandwidth, kernel=kernel).fit(IRIS, sample_weight=weight)
    oracle = neighbors.KernelDensity(bandwidth=bandwidth, kernel=kernel)
    oracle.fit(IRIS, sample_weight=weight)
    np.testing.assert_allclose(model.score_samples(IRIS), oracle.score_samples(IRIS), rtol=1e-6)
    assert model.score(IRIS) == pytest.approx(oracle.score(IRIS), rel=1e-6)
    assert model.bandwidth_ == pytest.approx(oracle.bandwidth_)


def cosine_densities(rows, weight, query, bandwidth):
    """Logarithms of the densities of ``kernel="cosine"``, by the integral that they are to have."""
    n_features = rows.shape[1]
    far = np.linalg.norm(query[:, None] - rows[None], axis=2) / bandwidth
    kernel = np.where(far < 1.0, np.cos(0.5 * np.pi * far), 0.0)
    radial = quad(lambda r: r ** (n_features - 1) * np.cos(0.5 * np.pi * r), 0.0, 1.0)[0]
    sphere = 2.0 * np.pi ** (n_features / 2) / gamma(n_features / 2)
    with np.errstate(divide="ignore"):
        return np.log(kernel @ weight / weight.sum() / (radial * sphere * bandwidth**n_features))


@pytest.mark.parametrize("n_features", [1, 2, 3, 4])
def test_densities_of_cosines(n_features):
    """scikit-learn's are densities for odd numbers of features only: see test_rows_b.py."""
    rows, weight = IRIS[:, :n_features], np.linspace(1.0, 2.0, len(IRIS))
    model = KernelDensity(bandwidth=1.5, kernel="cosine").fit(rows, sample_weight=weight)
    found = model.score_samples(rows)
    np.testing.assert_allclose(found, cosine_densities(rows, weight, rows, 1.5), rtol=1e-6)
    if n_features % 2:
        oracle = neighbors.KernelDensity(bandwidth=1.5, kernel="cosine")
        oracle.fit(rows, sample_weight=weight)
        np.testing.assert_allclose(found, oracle.score_samples(rows), rtol=1e-6)


@pytest.mark.parametrize("params", [{"metric": m} for m in ("manhattan", "chebyshev")])
def test_densities_of_other_metrics(params):
    found = KernelDensity(**params).fit(IRIS).score_samples(IRIS)
    oracle = neighbors.KernelDensity(**params).fit(IRIS)
    np.testing.assert_allclose(found, oracle.score_samples(IRIS), rtol=1e-6)


# ---------------------------------------------------------------- kernels

KERNEL_PARAMS = [
    {},
    {"kernel": "linear", "C": 0.1},
    {"kernel": "poly", "degree": 2, "coef0": 1.0},
    {"kernel": "sigmoid", "gamma": 0.01},
    {"gamma": "auto", "C": 10.0},
]


@pytest.mark.parametrize("params", [*KERNEL_PARAMS, {"class_weight": "balanced"}])
def test_support_vector_classes(rows_of, params):
    params = {"tol": 1e-5, **params}
    names = np.array(["benign", "malignant"])[MALIGNANT]
    model = SVC(**params).fit(rows_of(CANCER), names)
    oracle = svm.SVC(**params).fit(CANCER, names)
    found = to_host(model.decision_function(rows_of(CANCER)))
    np.testing.assert_allclose(found, oracle.decision_function(CANCER), atol=1e-3)
    assert np.mean(model.predict(rows_of(CANCER)) == oracle.predict(CANCER)) > 0.998
    _assert_same_support(model, oracle)


def _assert_same_support(model, oracle):
    np.testing.assert_allclose(to_host(model.n_support_), oracle.n_support_, atol=2)
    common = np.isin(to_host(model.support_), oracle.support_)
    assert common.mean() > 0.98
    np.testing.assert_allclose(to_host(model.intercept_), oracle.intercept_, atol=1e-3)
    if hasattr(oracle, "classes_"):
        of_second = to_host(model.dual_coef_)[0] > 0
        assert (np.diff(of_second.astype(int)) >= 0).all(), "vectors are not in order of classes"


def test_support_vectors_with_weights_and_sparse_rows():
    rows, weight = sparse.csr_matrix(CANCER), np.linspace(0.5, 2.0, len(CANCER))
    model = SVC(tol=1e-5).fit(rows, MALIGNANT, sample_weight=weight)
    oracle = svm.SVC(tol=1e-5).fit(CANCER, MALIGNANT, sample_weight=weight)
    expected = oracle.decision_function(CANCER)
    np.testing.assert_allclose(model.decision_function(rows), expected, atol=2e-3)
    np.testing.assert_allclose(model.as_sklearn().decision_function(rows), expected, atol=2e-3)


def test_precomputed_kernels():
    gram = CANCER @ CANCER.T
    model = SVC(kernel="precomputed", C=0.1, tol=1e-5).fit(gram, MALIGNANT)
    oracle = svm.SVC(kernel="precomputed", C=0.1, tol=1e-5).fit(gram, MALIGNANT)
    expected = oracle.decision_function(gram)
    np.testing.assert_allclose(model.decision_function(gram), expected, atol=2e-3)
    np.testing.assert_allclose(model.as_sklearn().decision_function(gram), expected, atol=2e-3)


def test_rows_without_variance():
    assert SVC().fit(np.ones((6, 2)), [0, 1] * 3).as_sklearn()._gamma == 1.0


@pytest.mark.parametrize("params", KERNEL_PARAMS)
def test_support_vector_regression(rows_of, params):
    params = {"tol": 1e-5, **params}
    model = SVR(**params).fit(rows_of(DIABETES), PROGRESS)
    oracle = svm.SVR(**params).fit(DIABETES, PROGRESS)
    found = to_host(model.predict(rows_of(DIABETES)))
    np.testing.assert_allclose(found, oracle.predict(DIABETES), atol=2e-3)
    _assert_same_support(model, oracle)


# ---------------------------------------------------------------- other machines

MODELS = [
    (KNeighborsClassifier(), CANCER, MALIGNANT, "predict_proba"),
    (KNeighborsRegressor(), DIABETES, PROGRESS, "predict"),
    (KernelDensity(), IRIS, None, "score_samples"),
    (SVC(), CANCER, MALIGNANT, "decision_function"),
    (SVR(), DIABETES, PROGRESS, "predict"),
]


@pytest.mark.parametrize(("model", "X", "y", "method"), MODELS)
def test_models_travel_and_come_back(model, X, y, method):
    expected = getattr(model.fit(X, y), method)(X)
    with gpuml.config_context(device="cpu"):
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_allclose(getattr(loaded, method)(X), expected, atol=1e-4)
    np.testing.assert_allclose(getattr(loaded, method)(X), expected, atol=1e-4)
    assert "_lifted" in vars(loaded)
