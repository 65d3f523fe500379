"""What single rows say of rows of data, targets, weights and results, around a fake engine."""

import sys
import types
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn import decomposition
from sklearn.datasets import load_iris
from sklearn.exceptions import DataConversionWarning

import gpuml
from gpuml._arrays import HOST, place_of, to_host
from gpuml.adapters import Row, build
from gpuml.adapters._outputs import Kind, in_kind
from gpuml.adapters._row import UnsupportedHere
from gpuml.adapters.rows.svm import SVC as SVC_ROW
from gpuml.cluster import DBSCAN, HDBSCAN, KMeans
from gpuml.ensemble import IsolationForest, RandomForestRegressor
from gpuml.exceptions import FallbackError, FallbackWarning
from gpuml.manifold import TSNE, UMAP
from gpuml.neighbors import KernelDensity, KNeighborsClassifier, KNeighborsRegressor
from gpuml.neighbors import NearestNeighbors as Neighbors
from gpuml.svm import SVC, SVR
from tests.adapters.fake_cuml import Model
from tests.adapters.fake_models_b import fake_b  # noqa: F401  (a fixture)

X, Y = load_iris(return_X_y=True)
CSR = sparse.csr_matrix(X)
COLUMN = X[:, :1]
WITH_INF = np.where(X > 7, np.inf, X)
WITH_BOTH = np.where(X < 0.2, np.nan, WITH_INF)

pytestmark = pytest.mark.filterwarnings("ignore::gpuml.exceptions.PrecisionWarning")


@pytest.fixture
def device(fake_b):  # noqa: F811
    """Host rows go to the device, however few they are."""
    with gpuml.config_context(device="cuda"):
        yield fake_b


def twin_of(model):
    return model._row.sk(**model.get_params())


def is_engine(model):
    record = vars(model).get("_fitted")
    return record is not None and record.engine is not None


# ---------------------------------------------------------------- inf


OF_INF = [IsolationForest(n_estimators=5, random_state=0), HDBSCAN(copy=True)]


@pytest.mark.parametrize("model", OF_INF)
@pytest.mark.parametrize("rows", [WITH_INF, WITH_BOTH])
@pytest.mark.parametrize("foreign", [False, True])
def test_inf_falls_back_where_scikit_learn_takes_it(device, model, rows, foreign):
    expected = twin_of(model).fit_predict(rows)
    given = device.on_device(rows) if foreign else rows
    with pytest.warns(FallbackWarning, match="cuML has no inf in X"):
        labels = model.fit_predict(given)
    np.testing.assert_array_equal(to_host(labels), expected)
    with gpuml.config_context(fallback="error"), pytest.raises(FallbackError, match="inf in X"):
        model.fit(given)


def test_inf_at_use(device):
    model = IsolationForest(n_estimators=5, random_state=0).fit(X)
    with pytest.warns(FallbackWarning, match="cuML has no inf in X"):
        scores = model.score_samples(WITH_INF)
    np.testing.assert_allclose(scores, twin_of(model).fit(X).score_samples(WITH_INF), rtol=1e-12)


@pytest.mark.parametrize("model", [KMeans(2), RandomForestRegressor()])
def test_inf_is_an_error_elsewhere(device, model):
    for rows in (WITH_INF, device.on_device(WITH_INF)):
        with pytest.raises(ValueError, match="infinity"):
            model.fit(rows, Y)


# ---------------------------------------------------------------- targets in a column


@pytest.mark.parametrize("model", [SVR(), RandomForestRegressor(n_estimators=2)])
@pytest.mark.parametrize("foreign", [False, True])
def test_other_regressors_flatten_columns_with_a_warning(device, model, foreign):
    place = device.on_device if foreign else np.asarray
    with pytest.warns(DataConversionWarning, match="column-vector") as warned:
        model.fit(place(X), place(COLUMN))
    assert warned[0].filename == __file__
    assert is_engine(model)
    assert model.predict(place(X)).shape == (150,)


@pytest.mark.parametrize("foreign", [False, True])
def test_classifiers_flatten_columns_with_a_warning(device, foreign):
    place = device.on_device if foreign else np.asarray
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = KNeighborsClassifier().fit(place(X), place(Y[:, None]))
    assert is_engine(model)
    np.testing.assert_array_equal(
        to_host(model.predict(place(X))), twin_of(model).fit(X, Y).predict(X)
    )


def test_columns_as_targets_of_sparse_rows(device):
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = SVR().fit(CSR, COLUMN)
    assert model.predict(CSR).shape == (150,)
    with pytest.raises(ValueError, match="requires y to be passed"):
        SVR().fit(CSR, None)


@pytest.mark.parametrize("rows", [X, CSR])
@pytest.mark.parametrize(
    ("y", "reason"), [(COLUMN, "target in a column"), (X[:, :2], "several targets")]
)
def test_neighbours_keep_columns(device, rows, y, reason):
    with pytest.warns(FallbackWarning, match=f"cuML has no {reason}"):
        model = KNeighborsRegressor().fit(rows, y)
    with gpuml.config_context(fallback="silent"):
        assert model.predict(rows).shape == y.shape


# ---------------------------------------------------------------- negative weights


WEIGHT = np.where(np.arange(150) % 7 == 0, -2.0, 1.0)


@pytest.mark.parametrize("foreign", [False, True])
def test_dbscan_takes_negative_weights(device, foreign):
    place = device.on_device if foreign else np.asarray
    oracle = DBSCAN()._row.sk().fit(X, sample_weight=WEIGHT)
    assert (oracle.labels_ != DBSCAN()._row.sk().fit(X).labels_).any()
    model = DBSCAN().fit(place(X), sample_weight=place(WEIGHT))
    assert is_engine(model)
    np.testing.assert_array_equal(to_host(model.labels_), oracle.labels_)


@pytest.mark.parametrize("foreign", [False, True])
def test_negative_weights_fall_back_elsewhere(device, foreign):
    place = device.on_device if foreign else np.asarray
    model = RandomForestRegressor(n_estimators=2, bootstrap=False, random_state=0)
    with pytest.warns(FallbackWarning, match="cuML has no negative sample_weight"):
        model.fit(place(X), place(COLUMN[:, 0]), sample_weight=place(WEIGHT))
    oracle = twin_of(model).fit(X, COLUMN[:, 0], sample_weight=WEIGHT)
    np.testing.assert_allclose(to_host(model.predict(place(X))), oracle.predict(X), rtol=1e-12)


def test_what_scikit_learn_says_of_weights(device):
    with gpuml.config_context(fallback="silent"), pytest.raises(ValueError, match="Negative"):
        KernelDensity().fit(X, sample_weight=WEIGHT)
    with pytest.raises(ValueError, match="at least one non-zero"):
        DBSCAN().fit(X, sample_weight=np.zeros(150))


# ---------------------------------------------------------------- checks at use, and after a fit


@pytest.mark.parametrize("model", [Neighbors(), KNeighborsClassifier(), KNeighborsRegressor()])
def test_more_neighbours_than_rows(device, model):
    model.fit(X[:10], Y[:10] + np.arange(10) % 2)
    for arguments in ({"X": X, "n_neighbors": 11}, {"n_neighbors": 10}):
        for method in (model.kneighbors, model.kneighbors_graph):
            with pytest.raises(ValueError, match="n_samples_fit = 10"):
                method(**arguments)


@pytest.mark.parametrize(("seen", "rows"), [(X, CSR), (CSR, X)])
def test_sparse_rows_for_models_of_dense_ones(device, seen, rows):
    model = KNeighborsClassifier(algorithm="brute").fit(seen, Y)
    assert is_engine(model)
    with pytest.warns(FallbackWarning, match=r"\.predict runs scikit-learn on the CPU"):
        labels = model.predict(rows)
    np.testing.assert_array_equal(labels, model.predict(seen))


def test_sparse_rows_for_svc_of_dense_ones(device):
    model = SVC().fit(X, Y == 0)
    silent = gpuml.config_context(fallback="silent")
    with silent, pytest.raises(ValueError, match="trained on dense data"):
        model.predict(CSR)


def test_predictions_of_the_rows_of_the_fit(device):
    model = KNeighborsClassifier().fit(X, Y)
    oracle = twin_of(model).fit(X, Y)
    with pytest.warns(FallbackWarning, match="cuML has no predict of the rows of the fit"):
        labels = model.predict(None)
    np.testing.assert_array_equal(labels, oracle.predict(None))


def test_what_is_called_after_a_fit(device):
    seen = []
    row = replace(SVC_ROW, after_fit=lambda model, params: seen.append((model, params)))
    model = build(row, __name__)(C=np.float64(2)).fit(X, Y == 0)
    assert [m for m, _ in seen] == [vars(model)["_fitted"].engine.model]
    assert type(seen[0][1]["C"]) is float


# ---------------------------------------------------------------- inverse_transform


class FakeSVD(Model):
    sk = decomposition.TruncatedSVD
    public = ("fit_transform", "inverse_transform", "transform")


def refuse_one(model, method, X, arguments):
    if method == "inverse_transform" and X.shape[0] == 1:
        raise UnsupportedHere("single rows")


@pytest.fixture
def svd(device, monkeypatch):
    module = types.ModuleType("cuml.decomposition")
    module.TruncatedSVD = FakeSVD
    monkeypatch.setitem(sys.modules, "cuml.decomposition", module)
    row = Row(
        sk=decomposition.TruncatedSVD,
        cuml="cuml.decomposition.TruncatedSVD",
        work=lambda n, p, params: 8.0 * n * p,
        methods=("transform", "inverse_transform"),
        use_checks=refuse_one,
    )
    return build(row, __name__)(2, random_state=0).fit(X)


def test_inverse_transforms_are_given_other_columns(device, svd):
    images = svd.transform(X)
    expected = images @ svd.components_
    FakeSVD.calls.clear()
    for place in (np.asarray, device.on_device):
        rows = svd.inverse_transform(place(images))
        assert place_of(rows) == place_of(place(images))
        np.testing.assert_allclose(to_host(rows), expected, rtol=1e-12)
        with pytest.raises(ValueError, match="NaN"):
            svd.inverse_transform(place(np.full((2, 2), np.nan)))
        with pytest.raises(ValueError, match="X has 4 columns"):
            svd.inverse_transform(place(X))
    assert FakeSVD.calls == ["inverse_transform", "inverse_transform"]
    assert svd.inverse_transform(images.astype("float32")).dtype == "float32"
    with pytest.warns(FallbackWarning, match="cuML has no single rows"):
        np.testing.assert_allclose(svd.inverse_transform(images[:1]), expected[:1], rtol=1e-12)


def test_inverse_transforms_of_umap(device):
    model = UMAP().fit(X)
    rows = model.inverse_transform(model.embedding_[:3])
    assert rows.shape == (3, 4)
    # As umap-learn has it, whatever the rows of the fit are.
    assert rows.dtype == model.embedding_.dtype == model.transform(X).dtype == "float32"
    with gpuml.config_context(fallback="error"):
        other = UMAP(metric="canberra").fit(X)
        with pytest.raises(FallbackError, match="inverse_transform of this metric"):
            other.inverse_transform(X[:, :2])
        vars(model)["_fitted"].engine.model._sigmas = None
        with pytest.raises(FallbackError, match="inverse_transform of a model of sparse rows"):
            model.inverse_transform(X[:, :2])


# ---------------------------------------------------------------- dtypes


@pytest.mark.parametrize("floats", ["float32", "float64"])
def test_dtypes_of_results(floats):
    kind = Kind(HOST, floats)
    pair = (np.zeros(3, "float32"), np.zeros(3, "int32"))
    assert [a.dtype.name for a in in_kind(pair, kind, "int64")] == [floats, "int64"]
    assert [a.dtype.name for a in in_kind(pair, kind, "float32")] == ["float32", "int32"]
    graph = sparse.csr_matrix(np.eye(3, dtype="float32"))
    assert in_kind(graph, kind).dtype == floats
    assert in_kind(graph, kind, "float32") is graph
    assert in_kind(graph.astype(int), kind).dtype == int


@pytest.mark.parametrize("floats", ["float32", "float64"])
def test_graphs_of_neighbours_are_of_the_dtype_of_rows(device, floats):
    rows = X.astype(floats)
    model = Neighbors().fit(rows)
    assert is_engine(model)
    assert model.kneighbors_graph(rows, mode="distance").dtype == floats


@pytest.mark.parametrize("device_of_fit", ["cpu", "cuda"])
def test_embeddings_of_tsne_are_float32(device, device_of_fit):
    model = TSNE(perplexity=5, max_iter=250, init="random")
    with gpuml.config_context(device=device_of_fit):
        for rows in (X[:40], X[:40].astype("float32")):
            assert model.fit_transform(rows).dtype == "float32"
            assert model.embedding_.dtype == "float32"


class OnlyArray:
    """What NumPy makes an array of, and whose own functions it must not call."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def __array_function__(self, func, types, args, kwargs):
        raise TypeError(f"no {func.__name__}")


def test_targets_and_parameters_that_are_only_made_arrays_of(device):
    """As scikit-learn's own checks have them."""
    umap = UMAP(n_neighbors=5, init="random").fit(X, OnlyArray(Y))
    assert is_engine(umap)
    assert is_engine(UMAP(n_neighbors=5, init="random").fit(X, Y.tolist()))
    params = {**umap.get_params(), "init": OnlyArray(X[:, :2])}
    assert umap._row.refuses_parameters(params) is None
    assert umap._row.refuses_parameters({**params, "metric": OnlyArray(X)}) is not None
