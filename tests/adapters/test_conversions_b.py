"""Neighbours, support vectors and embeddings around a fake engine, and on other machines."""

import pickle
import types

import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.datasets import load_iris

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml.adapters._umap_learn import UMAP as HostUMAP
from gpuml.adapters._umap_models import same_rows
from gpuml.adapters.rows import neighbors as neighbor_rows
from gpuml.adapters.rows import svm as svm_rows
from gpuml.adapters.rows.svm import in_libsvm_order
from gpuml.exceptions import FallbackError
from gpuml.manifold import TSNE, UMAP, SpectralEmbedding
from gpuml.neighbors import (
    KernelDensity,
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
)
from gpuml.svm import SVC, SVR
from tests.adapters.fake_models_b import fake_b  # noqa: F401  (a fixture)

# Said of float64 rows once a class and process; tests of it are those of the core.
pytestmark = pytest.mark.filterwarnings("ignore::gpuml.exceptions.PrecisionWarning")

X, Y = load_iris(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=1e-6, size=X.shape)  # no two rows are equal
TWO = (Y > 0).astype(int)
CSR = sparse.csr_matrix(X)


def named(value):
    return type(value).__name__ if hasattr(value, "get_params") else ""


# ---------------------------------------------------------------- conversions


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(("kind", "y"), [(svm.SVC, TWO), (svm.SVR, Y), (svm.SVC, 1 - TWO)])
def test_support_vectors_come_in_libsvms_order(as_rows, kind, y):
    oracle = kind(C=0.5).fit(as_rows(X), y)
    fitted = {k: v for k, v in vars(oracle).items() if k not in oracle.get_params()}
    shuffled = dict(fitted)
    order = np.random.default_rng(0).permutation(len(oracle.support_))
    for name in ("support_", "support_vectors_"):
        shuffled[name] = fitted[name][order]
    for name in ("dual_coef_", "_dual_coef_"):
        # By way of a dense array: SciPy would leave the stored values in the order of before.
        row = fitted[name].toarray() if sparse.issparse(fitted[name]) else fitted[name]
        shuffled[name] = as_rows(row[:, order])
    shuffled["_n_support"] = np.array([len(order), 0], dtype=np.int32)
    found = in_libsvm_order(shuffled)
    model = kind(C=0.5)
    vars(model).update(found)
    assert vars(model).keys() == vars(oracle).keys()
    for name in ("support_", "support_vectors_", "dual_coef_", "n_support_"):
        ours, theirs = getattr(model, name), getattr(oracle, name)
        if sparse.issparse(theirs):
            ours, theirs = ours.toarray(), theirs.toarray()
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
        assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(model.predict(as_rows(X)), oracle.predict(as_rows(X)))


def test_rows_of_the_fit_are_recognised(fake):
    for known in (X, X.astype("f4")):
        assert same_rows(X, known)
        assert not same_rows(X + 1, known)
    other = X.copy()
    other[-1, -1] += 1
    assert not same_rows(other, X)
    assert not same_rows(X[:5], X)
    assert same_rows(CSR, CSR.copy())
    assert not same_rows(CSR, CSR * 2)
    assert not same_rows(CSR, X)
    assert same_rows(fake.on_device(X), X), "known rows may be on the host"


# ---------------------------------------------------------------- around a fake engine


@pytest.fixture
def device(fake_b):  # noqa: F811
    with gpuml.config_context(device="cuda", fallback="error"):
        yield fake_b


def engine(model):
    return vars(model)["_fitted"].engine.model


def test_neighbours(device):
    model = NearestNeighbors(n_neighbors=3).fit(X)
    oracle = model._row.sk(n_neighbors=3).fit(X)
    for arguments in ({}, {"X": X[:5]}, {"X": X[:5], "n_neighbors": 2}):
        distances, indices = model.kneighbors(**arguments)
        expected = oracle.kneighbors(**arguments)
        np.testing.assert_allclose(distances, expected[0])
        np.testing.assert_array_equal(indices, expected[1])
        assert indices.dtype == "int64"
    assert model.kneighbors(X[:5], return_distance=False).shape == (5, 3)
    graph = model.kneighbors_graph(X[:5], mode="distance")
    np.testing.assert_allclose(
        graph.toarray(), oracle.kneighbors_graph(X[:5], mode="distance").toarray()
    )
    found = model.kneighbors(device.on_device(X[:5]))
    assert [place_of(part) for part in found] == [device.device_place()] * 2
    with pytest.raises(FallbackError, match="radius_neighbors"):
        model.radius_neighbors(X[:5])
    with gpuml.config_context(fallback="silent"):
        near = model.radius_neighbors(X[:5], radius=0.5, return_distance=False)
    for ours, theirs in zip(near, oracle.radius_neighbors(X[:5], 0.5, False), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (model.n_samples_fit_, model.effective_metric_) == (150, "euclidean")


def test_lowered_neighbours_have_scikit_learns_attributes(device):
    model = KNeighborsClassifier(p=3).fit(X, TWO.astype(str))
    oracle = model._row.sk(p=3).fit(X, TWO.astype(str))
    theirs = model.as_sklearn()
    assert theirs.effective_metric_params_ == oracle.effective_metric_params_
    assert theirs._y.dtype == oracle._y.dtype
    np.testing.assert_array_equal(theirs.predict(X), oracle.predict(X))


def test_targets_in_columns_are_not_lifted(device):
    model = KNeighborsRegressor()
    with gpuml.config_context(device="cpu"):
        model.fit(X, np.stack([Y, Y], axis=1))
    with pytest.raises(FallbackError, match=r"targets in columns|several targets"):
        model.predict(device.on_device(X))


MODELS = [
    (KNeighborsClassifier(), Y + 3, "predict_proba"),
    (KNeighborsRegressor(weights="distance"), Y, "predict"),
    (KernelDensity(bandwidth="scott"), None, "score_samples"),
    (SVC(), TWO.astype(str), "decision_function"),
    (SVR(), Y, "predict"),
]


@pytest.mark.parametrize(("model", "y", "method"), MODELS, ids=named)
def test_models_are_scikit_learns_here_there_and_back(device, model, y, method):
    oracle = model._row.sk(**model.get_params()).fit(X, y)
    expected = getattr(oracle, method)(X)
    model.fit(device.on_device(X), y)
    found = getattr(model, method)(device.on_device(X))
    assert place_of(found) == device.device_place()
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-6)
    for name in model._row.light:
        assert hasattr(model, name)
    with gpuml.config_context(device="cpu"):
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_allclose(getattr(loaded, method)(X), expected, rtol=1e-6)
        if hasattr(oracle, "classes_"):
            np.testing.assert_array_equal(loaded.predict(X), oracle.predict(X))
    np.testing.assert_allclose(getattr(loaded, method)(X), expected, rtol=1e-6)
    assert "_lifted" in vars(loaded)


def test_parameters_that_only_cuml_has(device):
    assert engine(SVC().fit(np.ones((150, 4)), TWO)).model.gamma == 1.0


def test_tsne_reports_scikit_learns_rate(device):
    model = TSNE(max_iter=250, random_state=0)
    embedding = model.fit_transform(X)
    assert embedding.shape == (150, 2)
    assert model.learning_rate_ == 50
    assert engine(model).model.learning_rate == 200
    assert model.as_sklearn().learning_rate_ == 50
    assert model.as_sklearn().learning_rate == "auto"
    assert list(model.get_feature_names_out()) == ["tsne0", "tsne1"]


def test_spectral_embedding(device):
    model = SpectralEmbedding(n_neighbors=60, random_state=0).fit(X)
    assert model.embedding_.shape == (150, 2)
    assert model.n_neighbors_ == 60
    with pytest.raises(AttributeError, match="cuML does not keep it"):
        model.affinity_matrix_  # noqa: B018


def test_umap_on_a_gpu_needs_no_umap_learn(device, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "umap", None)
    model = UMAP(n_epochs=np.int64(20), random_state=0)
    np.testing.assert_allclose(model.fit_transform(X, Y), X[:, :2].astype("f4"))
    assert engine(model)._supervised
    assert engine(model).params["n_epochs"] == 20
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    np.testing.assert_allclose(model.transform(X[:5]), X[:5, :2] + 1, rtol=1e-6)
    assert list(model.get_feature_names_out()) == ["umap0", "umap1"]
    loaded = pickle.loads(pickle.dumps(model))
    assert "_fitted" not in vars(loaded)
    np.testing.assert_allclose(loaded.embedding_, X[:, :2], rtol=1e-6)
    assert sparse.issparse(loaded.graph_)
    assert loaded.graph_.format == "csr"
    np.testing.assert_allclose(loaded.transform(X[:5]), X[:5, :2] + 1, rtol=1e-6)
    with gpuml.config_context(device="cpu"), pytest.raises(ImportError, match="umap-learn"):
        loaded.transform(X[:5])


def test_umap_refuses_rows_that_are_not_finite_at_use(device):
    model = UMAP().fit(X)
    with pytest.raises(FallbackError, match="rows that are not finite"):
        model.transform(X, ensure_all_finite=False)


# ---------------------------------------------------------------- what the core is to call


def fitted(**attributes):
    return types.SimpleNamespace(**attributes)


def test_checks_of_neighbours_at_use():
    model = fitted(n_neighbors=5, n_samples_fit_=5, _fit_X=X[:5])
    neighbor_rows.use_checks(model, "kneighbors", X, {})
    oracle = NearestNeighbors._row.sk(n_neighbors=5).fit(X[:5])
    for rows, arguments in ((None, {}), (X, {"n_neighbors": 6})):
        with pytest.raises(ValueError, match="n_neighbors") as ours:
            neighbor_rows.use_checks(model, "kneighbors", rows, arguments)
        with pytest.raises(ValueError, match="n_neighbors") as theirs:
            oracle.kneighbors(rows, **arguments)
        assert str(ours.value) == str(theirs.value)
    with pytest.raises(neighbor_rows.UnsupportedHere):
        neighbor_rows.use_checks(model, "kneighbors", CSR, {})


def test_checks_of_kernels_at_use():
    svm_rows.use_checks(fitted(_sparse=True), "predict", CSR, {})
    svm_rows.use_checks(fitted(_sparse=False), "predict", X, {})
    with pytest.raises(svm_rows.UnsupportedHere):
        svm_rows.use_checks(fitted(_sparse=False), "predict", CSR, {})


# ---------------------------------------------------------------- UMAP by umap-learn


class NotAnArray:
    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


@pytest.mark.parametrize("given", [list, NotAnArray, np.asarray])
def test_targets_of_umap_may_be_anything_that_numpy_reads(device, given):
    model = UMAP().fit(X, given(Y.tolist()))
    assert engine(model)._supervised
    with pytest.raises(FallbackError, match="several targets"):
        UMAP().fit(X, given(X.tolist()))


def test_umap_has_umap_learns_signatures():
    import inspect

    umap = pytest.importorskip("umap")
    for name in ("__init__", "fit", "fit_transform", "transform", "inverse_transform", "update"):
        theirs = inspect.signature(getattr(umap.UMAP, name))
        for kind in (UMAP, HostUMAP):
            assert inspect.signature(getattr(kind, name)) == theirs, name


@pytest.mark.filterwarnings("ignore")
def test_umap_on_the_host_is_umap_learns():
    umap = pytest.importorskip("umap")
    params = {"random_state": 0, "n_epochs": 10}
    model, oracle = UMAP(tqdm_kwds={}, **params).fit(X), umap.UMAP(**params).fit(X)
    np.testing.assert_array_equal(model.embedding_, oracle.embedding_)
    np.testing.assert_array_equal(model.transform(X[:9] + 1), oracle.transform(X[:9] + 1))
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    assert model.get_params()["tqdm_kwds"] == {}, "umap-learn changes its parameters"
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.transform(X[:9] + 1), oracle.transform(X[:9] + 1))
    assert loaded.inverse_transform(loaded.embedding_[:3]).shape == (3, 4)
    assert loaded.update(X[:9] + 1).embedding_.shape == (159, 2)


@pytest.mark.filterwarnings("ignore")
def test_umap_of_a_gpu_goes_on_with_umap_learn(device, monkeypatch):
    """A lowered model embeds new rows, with few rows and with an index made for many."""
    pytest.importorskip("umap")
    model = UMAP(random_state=0, n_epochs=10).fit(X)
    with gpuml.config_context(device="cpu"):
        for small in (200, 100):
            monkeypatch.setattr("gpuml.adapters.rows.manifold.SMALL", small)
            loaded = pickle.loads(pickle.dumps(model))
            np.testing.assert_array_equal(loaded.transform(X), loaded.embedding_)
            embedded = loaded.transform(X[:9] + 1e-4)
            assert np.abs(embedded - X[:9, :2]).max() < 2.0
            assert hasattr(loaded, "_knn_search_index") == (small == 100)
            vars(model)["_fitted"]._twin = None


def test_umap_as_an_object_of_umap_learn():
    umap = pytest.importorskip("umap")
    params = {"n_neighbors": 5, "n_epochs": 10, "random_state": 0}
    unfitted = gpuml.as_sklearn(UMAP(**params))
    assert type(unfitted) is umap.UMAP
    assert unfitted.n_neighbors == 5
    model = UMAP(**params).fit(X)
    found = gpuml.as_sklearn(model)
    assert type(found) is umap.UMAP
    np.testing.assert_array_equal(found.embedding_, model.embedding_)
    np.testing.assert_allclose(found.transform(X), model.transform(X), atol=1e-6)
