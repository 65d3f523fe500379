"""Estimators of rows on workers: the same as on one device, however rows are divided."""

import inspect
import pickle
from itertools import product

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import gpuml.cluster
import gpuml.decomposition
import gpuml.discriminant_analysis
import gpuml.impute
import gpuml.linear_model
import gpuml.mixture
import gpuml.naive_bayes
import gpuml.preprocessing
import gpuml_dask
from gpuml.exceptions import GatheredWarning
from gpuml_dask.clustering import KMeans
from gpuml_dask.decomposition import PCA, IncrementalPCA, TruncatedSVD
from gpuml_dask.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from gpuml_dask.impute import SimpleImputer
from gpuml_dask.linear_model import (
    ElasticNet,
    GammaRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from gpuml_dask.mixture import GaussianMixture
from gpuml_dask.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from gpuml_dask.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from gpuml_dask.svm import LinearSVC, LinearSVR

# Of some settings sums over rows are not enough; see test_more_features_than_rows_go_to_one_worker.
pytestmark = pytest.mark.filterwarnings("ignore:All .* rows go to one worker")

REGRESSORS = [
    LinearRegression(),
    Ridge(alpha=0.5),
    Ridge(alpha=[0.5], fit_intercept=False),
    Ridge(solver="svd"),
    Ridge(solver="lsqr", tol=1e-12),  # not from sums: gathered on a worker
    Lasso(alpha=0.3),
    ElasticNet(alpha=0.3),
    PoissonRegressor(alpha=0.01, tol=1e-10),
    PoissonRegressor(solver="newton-cholesky", fit_intercept=False, tol=1e-10),
    GammaRegressor(alpha=0.01, l1_ratio=0.5, tol=1e-10),
    TweedieRegressor(power=1.5, alpha=0.01, tol=1e-10),
    LinearSVR(loss="squared_epsilon_insensitive", epsilon=2.0, tol=1e-10),
    LinearSVR(C=0.1),  # not from sums: gathered on a worker
]
CLASSIFIERS = [
    LogisticRegression(C=2.0),
    LogisticRegression(class_weight="balanced"),
    LogisticRegression(class_weight={"b": 3.0}, fit_intercept=False),
    LogisticRegression(solver="newton-cholesky"),
    LogisticRegression(solver="saga", l1_ratio=0.5, max_iter=500),
    LinearSVC(C=0.1, class_weight="balanced", tol=1e-10),
]
DENSITIES = [
    GaussianNB(),
    GaussianNB(priors=[0.2, 0.3, 0.5], var_smoothing=1e-3),
    MultinomialNB(alpha=0.5),
    ComplementNB(norm=True),
    BernoulliNB(binarize=3.0),
    CategoricalNB(min_categories=9),
    CategoricalNB(),
    QuadraticDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.1, store_covariance=True),
    QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto"),  # on one worker
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.2),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),  # gathered on a worker
]
TRANSFORMERS = [
    PCA(2),
    PCA(0.8, whiten=True),
    PCA(2, svd_solver="arpack", random_state=0),
    PCA(2, svd_solver="compressed", random_state=0),
    IncrementalPCA(2, batch_size=47),
    IncrementalPCA(3),
    TruncatedSVD(2),
    TruncatedSVD(2, algorithm="compressed", random_state=0),
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler((-1, 2)),
    MinMaxScaler(clip=True),  # not from extrema alone: gathered on a worker
    MaxAbsScaler(),
    RobustScaler(quantile_range=(5.0, 90.0)),
    OrdinalEncoder(),
    SimpleImputer(),
]
N = 600


@pytest.fixture(scope="module")
def regression():
    X, y = make_regression(N, 6, noise=5, random_state=0)
    return X + 3.0, y


@pytest.fixture(scope="module")
def classes():
    X, y = make_classification(N, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=1)
    return X, np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(2).random(N)


def in_chunks(x, sizes):
    rest = (x.shape[1],) if x.ndim == 2 else ()
    return da.from_array(x, chunks=(sizes, *rest))


# For every model chunks of many pieces and of a single row, whose sums are merged; for two of each
# kind each of these apart.
EVERYTHING = ((1, 200, 399), "2 kB")
PARTS = [((200, 150, 250), None), ((1, 599), None), ((600,), "2 kB"), ((100,) * 6, "2 kB")]


def divided(models):
    """Models, and chunks with the size of pieces to fit them in."""
    cases = [*product(models, [EVERYTHING]), *product(models[:2], PARTS)]
    return pytest.mark.parametrize(("model", "parts"), cases, ids=str)


def alone(model):
    """gpuml's estimator with the same parameters."""
    name = type(model).__module__.rpartition(".")[2]
    module = getattr(gpuml, {"clustering": "cluster"}.get(name, name))
    return getattr(module, type(model).__name__)(**clone(model).get_params())


def assert_same(model, other, tol=1e-9):
    """Fitted attributes of two models agree."""
    mine, theirs = ({n: v for n, v in vars(m).items() if n.endswith("_")} for m in (model, other))
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        if name in ("n_iter_", "status_", "dual_gap_"):
            continue
        if isinstance(value, list):
            assert len(mine[name]) == len(value), name
            for one, other_one in zip(mine[name], value, strict=True):
                np.testing.assert_allclose(one, other_one, rtol=tol, atol=tol, err_msg=name)
        elif isinstance(value, str) or np.asarray(value).dtype.kind in "OU":
            assert np.array_equal(mine[name], value), name
        else:
            np.testing.assert_allclose(mine[name], value, rtol=tol, atol=tol, err_msg=name)


@pytest.mark.some
@divided(REGRESSORS)
def test_regressors_are_those_of_one_device(client, model, parts, regression, weights):
    (X, y), (sizes, piece) = regression, parts
    model = clone(model)
    if hasattr(model, "_get_loss"):
        y = np.abs(y) / 100 + 0.1
    with dask.config.set({"gpuml.piece-bytes": piece}):
        model.fit(in_chunks(X, sizes), in_chunks(y, sizes), sample_weight=in_chunks(weights, sizes))
    other = alone(model).fit(X, y, sample_weight=weights)
    assert_same(model, other, 1e-6 if model.get_params().get("solver") == "lsqr" else 1e-9)
    assert type(model.coef_) is np.ndarray


@pytest.mark.some
@divided(CLASSIFIERS)
def test_classifiers_are_those_of_one_device(client, model, parts, classes, weights):
    (X, y), (sizes, piece) = classes, parts
    model = clone(model)
    with dask.config.set({"gpuml.piece-bytes": piece}):
        model.fit(in_chunks(X, sizes), in_chunks(y, sizes), sample_weight=weights)
    other = alone(model).fit(X, y, sample_weight=weights)
    assert_same(model, other)
    methods = ("predict", "predict_proba", "predict_log_proba", "decision_function")
    for method in (name for name in methods if hasattr(model, name)):
        found = getattr(model, method)(in_chunks(X, sizes))
        assert isinstance(found, da.Array)
        here = getattr(model, method)(X)
        if method == "predict":
            assert np.array_equal(found.compute(), here)
        else:  # products of blocks of other lengths round otherwise
            np.testing.assert_allclose(found.compute(), here, rtol=1e-10)
    scores = model.score(in_chunks(X, sizes), in_chunks(y, sizes)), model.score(X, y)
    assert scores[0] == pytest.approx(scores[1], rel=1e-12)


@pytest.mark.some
@divided(DENSITIES)
def test_densities_are_those_of_one_device(client, model, parts, classes, weights):
    (X, y), (sizes, piece) = classes, parts
    X = np.floor(np.abs(3 * X))
    model, weighted = clone(model), {}
    if "sample_weight" in inspect.signature(model.fit).parameters:
        weighted = {"sample_weight": weights}
    with dask.config.set({"gpuml.piece-bytes": piece}):
        there = {name: in_chunks(w, sizes) for name, w in weighted.items()}
        model.fit(in_chunks(X, sizes), in_chunks(y, sizes), **there)
    other = alone(model).fit(X, y, **weighted)
    assert_same(model, other)
    for method in ("predict_proba", "predict_log_proba"):
        found = getattr(model, method)(in_chunks(X, sizes))
        assert isinstance(found, da.Array)
        np.testing.assert_allclose(found.compute(), getattr(other, method)(X), atol=1e-8)
    labels = model.predict(in_chunks(X, sizes)).compute()
    assert np.array_equal(labels, other.predict(X))
    score = model.score(in_chunks(X, sizes), in_chunks(y, sizes))
    assert score == pytest.approx(other.score(X, y), rel=1e-12)


MEANS = [
    KMeans(4, random_state=0),
    KMeans(3, init="random", n_init=3, random_state=1, tol=0.0),
    KMeans(2, init=[[0.0] * 6, [1.0] * 6], n_init=1),
    KMeans(3, algorithm="elkan", random_state=0),  # on one worker
]


@pytest.mark.some
@divided(MEANS)
def test_clusters_are_those_of_one_device(client, model, parts, regression, weights):
    (X, _), (sizes, piece) = regression, parts
    model = clone(model)
    with dask.config.set({"gpuml.piece-bytes": piece}):
        model.fit(in_chunks(X, sizes), sample_weight=in_chunks(weights, sizes))
    other = alone(model).fit(X, sample_weight=weights)
    assert_same(model, other, 1e-8)
    assert model.n_iter_ == other.n_iter_
    rows = in_chunks(X, sizes)
    assert np.array_equal(model.predict(rows).compute(), other.predict(X))
    assert model.score(rows) == pytest.approx(other.score(X), rel=1e-10)
    weighted = model.score(rows, sample_weight=in_chunks(weights, sizes))
    assert weighted == pytest.approx(other.score(X, sample_weight=weights), rel=1e-10)


MIXTURES = [
    GaussianMixture(3, random_state=0),
    GaussianMixture(2, covariance_type="tied", init_params="k-means++", n_init=2, random_state=1),
    GaussianMixture(3, covariance_type="diag", init_params="random", random_state=2),
    GaussianMixture(2, covariance_type="spherical", init_params="random_from_data", random_state=3),
    GaussianMixture(2, covariance_type="diag", means_init=[[-0.5] * 6, [0.5] * 6], random_state=0),
]


@pytest.mark.some
@divided(MIXTURES)
def test_mixtures_are_those_of_one_device(client, model, parts, regression):
    (X, _), (sizes, piece) = regression, parts
    model = clone(model)
    with dask.config.set({"gpuml.piece-bytes": piece}):
        model.fit(in_chunks(X, sizes))
    other = alone(model).fit(X)
    assert_same(model, other, 1e-8)
    assert (model.n_iter_, model.converged_) == (other.n_iter_, other.converged_)
    rows = in_chunks(X, sizes)
    for method in ("predict", "predict_proba", "score_samples"):
        found = getattr(model, method)(rows)
        assert isinstance(found, da.Array)
        np.testing.assert_allclose(found.compute(), getattr(other, method)(X), atol=1e-8)
    for method in ("score", "bic", "aic"):
        assert getattr(model, method)(rows) == pytest.approx(getattr(other, method)(X), rel=1e-10)


def test_mixtures_that_go_on_do_so_here(client, regression):
    X, _ = regression
    model = GaussianMixture(2, warm_start=True, random_state=0).fit(X)
    with pytest.raises(ValueError, match="means_init=model.means_"):
        model.fit(in_chunks(X, (300, 300)))


def test_clusters_without_rows_get_far_ones(client, regression):
    X, _ = regression
    far = np.concatenate([X[:3], np.full((2, 6), 1e3)])  # nothing is near to two of them
    model = KMeans(5, init=far, n_init=1).fit(in_chunks(X, (200, 1, 399)))
    other = gpuml.cluster.KMeans(5, init=far, n_init=1).fit(X)
    assert_same(model, other, 1e-8)


@pytest.mark.some
@divided(TRANSFORMERS)
def test_transformers_are_those_of_one_device(client, model, parts, regression):
    (X, _), (sizes, piece) = regression, parts
    model = clone(model)
    with dask.config.set({"gpuml.piece-bytes": piece}):
        images = model.fit_transform(in_chunks(X, sizes))
    other = alone(model).fit(X)
    assert_same(model, other)
    assert isinstance(images, da.Array)
    np.testing.assert_allclose(images.compute(), other.transform(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [str, object])
@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler])
def test_scalers_take_numbers_that_are_text_as_on_one_device(client, scaler, kind, regression):
    X = regression[0].astype(str).astype(kind)
    model, other = scaler().fit(in_chunks(X, (300, 300))), alone(scaler()).fit(X)
    assert_same(model, other)
    np.testing.assert_allclose(model.transform(X), other.transform(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sizes", [(200, 150, 250), (1, 599), (594, 6)])
def test_batches_are_those_of_one_device_wherever_chunks_end(client, regression, sizes):
    X, _ = regression
    model = IncrementalPCA(3, batch_size=99).fit(in_chunks(X, sizes))
    assert_same(model, gpuml.decomposition.IncrementalPCA(3, batch_size=99).fit(X))


def test_batches_of_sparse_rows_are_made_dense_one_at_a_time(client, regression):
    X = sparse.csr_matrix(np.where(regression[0] > 0, regression[0], 0.0))
    rows = in_chunks(X.toarray(), (200, 150, 250)).map_blocks(sparse.csr_matrix)
    model = IncrementalPCA(3, batch_size=99)
    assert_same(model.fit(rows), gpuml.decomposition.IncrementalPCA(3, batch_size=99).fit(X))
    with pytest.raises(TypeError, match=r"partial_fit does not support sparse input"):
        model.partial_fit(rows)


def test_chunks_update_components(client, regression):
    X, _ = regression
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = IncrementalPCA(2).partial_fit(dd.from_pandas(frame[:400], npartitions=2))
    assert list(model.feature_names_in_) == list("abcdef")
    model.partial_fit(dd.from_pandas(frame[400:], npartitions=1))
    other = gpuml.decomposition.IncrementalPCA(2)
    for some in (frame[:200], frame[200:400], frame[400:]):
        other.partial_fit(some)
    assert_same(model, other)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(in_chunks(X[:, :3], (600,)))
    assert vars(model).keys() == before.keys()
    assert model.n_samples_seen_ == 600


def test_a_doubled_row_is_a_doubled_weight(client, regression):
    X, y = regression
    twice = np.concatenate([X, X[:100]]), np.concatenate([y, y[:100]])
    weight = np.where(np.arange(N) < 100, 2.0, 1.0)
    one = Ridge().fit(*(in_chunks(a, (300, 400)) for a in twice))
    other = Ridge().fit(in_chunks(X, (200, 400)), y, sample_weight=weight)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-10)
    scaled = StandardScaler().fit(in_chunks(twice[0], (300, 400)))
    weighted = StandardScaler().fit(in_chunks(X, (200, 400)), sample_weight=weight)
    np.testing.assert_allclose(scaled.mean_, weighted.mean_, rtol=1e-10)
    np.testing.assert_allclose(scaled.var_, weighted.var_, rtol=1e-10)
    labels, doubled = y > 0, np.concatenate([y, y[:100]]) > 0
    counted = GaussianNB().fit(in_chunks(twice[0], (300, 400)), doubled)
    weighted = GaussianNB(var_smoothing=1e-9).fit(in_chunks(X, (200, 400)), labels, weight)
    np.testing.assert_allclose(counted.theta_, weighted.theta_, rtol=1e-10)
    starts = X[[0, 200, 400]]
    clusters = KMeans(3, init=starts, n_init=1).fit(in_chunks(twice[0], (300, 400)))
    weighted = KMeans(3, init=starts, n_init=1).fit(in_chunks(X, (200, 400)), None, weight)
    np.testing.assert_allclose(
        clusters.cluster_centers_, weighted.cluster_centers_, rtol=1e-8, atol=1e-8
    )


@pytest.mark.bits
def test_bits_do_not_depend_on_who_has_what(client, regression):
    X, y = regression
    with dask.config.set({"gpuml.piece-bytes": "2 kB"}):
        fits = [Ridge().fit(in_chunks(X, sizes), y).coef_ for sizes in [(600,), (300, 300)] * 2]
    # Pieces follow the chunks, so the same chunks give the same bits.
    assert np.array_equal(fits[0], fits[2])
    assert np.array_equal(fits[1], fits[3])


def test_frames_have_names(client, regression):
    X, y = regression
    frame = pd.DataFrame(X, columns=list("abcdef"))
    rows = dd.from_pandas(frame, npartitions=3)
    target = dd.from_pandas(pd.Series(y, name="y"), npartitions=3)
    model = Ridge().fit(rows, target)
    other = gpuml.linear_model.Ridge().fit(frame, y)
    assert_same(model, other)
    assert list(model.feature_names_in_) == list("abcdef")
    np.testing.assert_allclose(model.predict(rows).compute(), other.predict(frame), rtol=1e-9)


def test_chunks_of_unknown_size_and_futures(client, regression):
    X, y = regression
    unknown = da.from_array(X, chunks=(200, 3))
    unknown = unknown[unknown[:, 0] > -100]
    other = gpuml.linear_model.Ridge().fit(X, y)
    assert_same(Ridge().fit(unknown, da.from_array(y, chunks=150)), other)
    chunks = [client.submit(np.array, X[a:b]) for a, b in ((0, 100), (100, 600))]
    targets = [client.submit(np.array, y[a:b]) for a, b in ((0, 100), (100, 600))]
    assert_same(Ridge().fit(chunks, targets), other)
    with gpuml_dask.place(X, y, client=client) as table:
        assert_same(Ridge().fit(table.X, table.y), other)


@pytest.mark.parametrize(
    "model", [*REGRESSORS, *CLASSIFIERS, *DENSITIES, *MEANS, *TRANSFORMERS], ids=str
)
def test_signatures_are_those_of_one_device(model):
    other = alone(model)
    for method in ("fit", "predict", "score", "transform", "fit_transform", "predict_proba"):
        if hasattr(other, method):
            mine, theirs = (inspect.signature(getattr(m, method)) for m in (model, other))
            assert list(mine.parameters) == list(theirs.parameters)


def test_rows_of_this_process_need_no_cluster(regression, classes):
    X, y = regression
    assert_same(Ridge().fit(X, y), gpuml.linear_model.Ridge().fit(X, y))
    assert_same(PCA(2).fit(X), gpuml.decomposition.PCA(2).fit(X))
    model = LogisticRegression().fit(*classes)
    assert model.predict(classes[0]).shape == (N,)


def test_models_are_cloned_and_pickled_without_a_client(client, regression):
    X, y = regression
    model = Ridge(alpha=2.0).fit(da.from_array(X, chunks=(200, -1)), y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")


def test_without_a_client_it_says_so(regression):
    X, y = regression
    with pytest.raises(gpuml_dask.errors.ClusterError, match="There is no Dask client"):
        Ridge().fit(da.from_array(X, chunks=(200, -1)), y)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda X, y: (X.map_blocks(_with_nan), y), "Input X contains NaN"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X[:, 0], y), "Expected 2D array"),
    ],
    ids=["nan", "lengths", "no y", "one axis"],
)
def test_bad_rows_are_refused_and_nothing_is_lost(client, change, error, regression):
    X, y = regression
    model = Ridge().fit(X, y)
    before = model.coef_
    with pytest.raises(ValueError, match=error):
        model.fit(*change(da.from_array(X, chunks=(200, -1)), da.from_array(y, chunks=200)))
    assert model.coef_ is before


def _with_nan(block):
    block = block.copy()
    block[0, 0] = np.nan
    return block


def test_one_class_is_refused(client, classes):
    X, _ = classes
    with pytest.raises(ValueError, match="at least 2 classes"):
        LogisticRegression().fit(da.from_array(X, chunks=(200, -1)), np.zeros(N, dtype=int))


def test_bad_parameters_are_refused_at_once(regression):
    X, y = regression
    with pytest.raises(ValueError, match="'alpha' parameter of Ridge must be"):
        Ridge(alpha="much").fit(da.from_array(X, chunks=(200, -1)), y)


def test_warnings_come_here(client, classes):
    X, y = classes
    with pytest.warns(ConvergenceWarning):
        LogisticRegression(max_iter=1, tol=1e-12).fit(da.from_array(X, chunks=(200, -1)), y)


def test_predictions_before_a_fit_are_refused(client, regression):
    with pytest.raises(NotFittedError):
        Ridge().predict(da.from_array(regression[0], chunks=(200, -1)))


def test_more_features_than_rows_go_to_one_worker(client):
    X, y = make_regression(20, 40, random_state=0)
    with pytest.warns(GatheredWarning, match="All 20 rows go to one .*: 40 features of 20") as told:
        model = Ridge().fit(da.from_array(X, chunks=(7, 9)), da.from_array(y, chunks=7))
    assert [each.filename for each in told] == [__file__]
    assert_same(model, gpuml.linear_model.Ridge().fit(X, y))
