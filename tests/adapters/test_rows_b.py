"""Rows of neighbours, support vectors and embeddings: what is refused, and what is changed."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

import gpuml
from gpuml.adapters import Data, all_rows
from gpuml.adapters.rows import manifold as manifold_rows
from gpuml.adapters.rows import neighbors as neighbor_rows
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
from tests.adapters.test_agreement_b import cosine_densities

# Said of float64 rows once a class and process; tests of it are those of the core.
pytestmark = pytest.mark.filterwarnings("ignore::gpuml.exceptions.PrecisionWarning")

X, Y = load_iris(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=1e-6, size=X.shape)  # no two rows are equal
TWO = (Y > 0).astype(int)
CSR = sparse.csr_matrix(X)
MODULES = ("manifold", "neighbors", "svm")
GRAPH = sparse.csr_matrix(X @ X.T)


def callable_kernel(a, b):
    return a @ b.T


# (estimator, X, y, end of "cuML has no ..."): every Refusal of every row is here.
REFUSED = [
    *(
        (kind(**params), rows, Y, reason)
        for kind in (NearestNeighbors, KNeighborsClassifier, KNeighborsRegressor)
        for params, rows, reason in [
            ({"metric": "braycurtis"}, X, "metric='braycurtis'"),
            ({"metric": callable_kernel}, X, "metric=<function"),
            ({"metric_params": {"w": np.ones(4)}}, X, "metric_params"),
            ({"p": 0.5}, X, "p below 1"),
            ({"algorithm": "kd_tree", "metric": "cosine"}, X, "tree of this metric"),
            ({"metric": "chebyshev"}, CSR, "this metric of sparse rows"),
            ({"p": 3}, CSR, "this metric of sparse rows"),
            ({"metric": "haversine"}, X, "haversine metric but of two features"),
        ]
    ),
    (NearestNeighbors(n_neighbors=None), X, None, "n_neighbors=None"),
    (KNeighborsClassifier(weights=np.exp), X, Y, "weights=<ufunc 'exp'>"),
    (KNeighborsRegressor(weights=np.exp), X, Y, "weights=<ufunc 'exp'>"),
    (KNeighborsClassifier(), X, np.stack([Y, Y], axis=1), "several targets"),
    (KNeighborsRegressor(), X, X, "several targets"),
    *((model, X, np.stack([Y, Y], axis=1), "several targets") for model in (SVC(), SVR())),
    (KernelDensity(metric="hamming"), X, None, "metric='hamming'"),
    (KernelDensity(metric="minkowski", metric_params={"p": 0.5}), X, None, "such metric_params"),
    (KernelDensity(metric_params={"p": 3}), X, None, "such metric_params"),
    (SVC(), X, Y, "SVC of more than two classes"),
    (SVC(kernel=callable_kernel), X, TWO, "kernel=<function"),
    (SVC(max_iter=5), X, TWO, "max_iter=5"),
    (SVC(probability=True), X, TWO, "probability=True"),
    (SVC(break_ties=True), X, TWO, "break_ties=True"),
    (SVR(kernel=callable_kernel), X, Y, "kernel=<function"),
    (SVR(max_iter=5), X, Y, "max_iter=5"),
    (TSNE(3, max_iter=250), X, None, "n_components=3"),
    (TSNE(init=X[:, :2].astype("f4"), max_iter=250), X, None, "init="),
    (TSNE(metric="canberra", max_iter=250), X, None, "metric='canberra'"),
    (TSNE(metric="euclidean", metric_params={"p": 2}), X, None, "such metric_params"),
    (TSNE(perplexity=400), np.ones((1100, 2)), None, "perplexity above 340"),
    (TSNE(max_iter=250), X[:, :1], None, "embedding of a single feature"),
    (TSNE(max_iter=250), CSR, None, "init='pca' of sparse rows"),
    (TSNE(init="random", metric="chebyshev"), CSR, None, "metric of sparse rows"),
    (SpectralEmbedding(affinity="rbf"), X, None, "affinity='rbf'"),
    (SpectralEmbedding(eigen_solver="lobpcg"), X, None, "eigen_solver='lobpcg'"),
    (SpectralEmbedding(eigen_tol=0.1), X, None, "eigen_tol=0.1"),
    (SpectralEmbedding(), CSR, None, "neighbours of sparse rows"),
    (SpectralEmbedding(), X[:, :1], None, "embedding of a single feature"),
    (SpectralEmbedding(3), X[:4], None, "embedding of so few rows"),
    (SpectralEmbedding(n_neighbors=200), X, None, "more neighbours than rows"),
    (UMAP(metric="jaccard"), X, None, "metric='jaccard'"),
    (UMAP(init="pca"), X, None, "init='pca'"),
    (UMAP(target_metric="l1"), X, None, "target_metric='l1'"),
    (UMAP(output_metric="haversine"), X, None, "output_metric='haversine'"),
    (UMAP(transform_mode="graph"), X, None, "transform_mode='graph'"),
    (UMAP(transform_seed=1), X, None, "transform_seed=1"),
    (UMAP(unique=True), X, None, "unique=True"),
    (UMAP(densmap=True), X, None, "densmap=True"),
    (UMAP(output_dens=True), X, None, "output_dens=True"),
    (UMAP(disconnection_distance=1.0), X, None, "disconnection_distance=1.0"),
    (UMAP(metric_kwds={"p": 3}), X, None, "such metric_kwds"),
    (UMAP(output_metric_kwds={"p": 3}), X, None, "output_metric_kwds"),
    (UMAP(target_metric_kwds={"p": 3}), X, None, "target_metric_kwds"),
    (UMAP(n_epochs=0), X, None, "such n_epochs"),
    (UMAP(n_epochs=[5, 10]), X, None, "such n_epochs"),
    (UMAP(precomputed_knn=(X, X, None)), X, None, "precomputed_knn"),
    (UMAP(), X[:15], None, "fewer rows than n_neighbors"),
    (UMAP(), X, X, "several targets"),
]


def named(value):
    return type(value).__name__ if hasattr(value, "get_params") else ""


@pytest.mark.parametrize(("model", "rows", "y", "reason"), REFUSED, ids=named)
def test_each_refusal(fake_b, model, rows, y, reason):  # noqa: F811
    with (
        gpuml.config_context(device="cuda", fallback="error"),
        pytest.raises(FallbackError) as caught,
    ):
        model.fit(rows, y)
    assert f"cuML has no {reason}" in str(caught.value)
    assert not hasattr(model, "n_features_in_")


def test_further_arguments_of_umap(fake_b):  # noqa: F811
    with gpuml.config_context(device="cuda", fallback="error"):
        for arguments in ({"ensure_all_finite": "allow-nan"}, {"other": 1}):
            with pytest.raises(FallbackError, match="further arguments of fit"):
                UMAP().fit(X, **arguments)
        UMAP().fit(X, ensure_all_finite=True)


def test_all_refusals_are_tested():
    """Each test of a row, of parameters or of data, holds in one of the cases at least."""
    for row in [row for path, row in all_rows().items() if path.split(".")[1] in MODULES]:
        cases = [
            (
                model.get_params(deep=False),
                Data(rows, y, None, {}, classes(y), sparse.issparse(rows)),
            )
            for model, rows, y, _ in REFUSED
            if type(model)._row is row
        ]
        if row is manifold_rows.UMAP:
            cases.append((UMAP().get_params(), Data(X, rest={"ensure_all_finite": False})))
        if row in (neighbor_rows.KNEIGHBORS_CLASSIFIER, neighbor_rows.KNEIGHBORS_REGRESSOR):
            cases.append(({**KNeighborsClassifier().get_params(), "n_neighbors": None}, Data(X)))
        for refusal in row.refuses:
            name = refusal.parameter or refusal.reason
            assert any(refusal.of(*case) for case in cases), (row.name, name)


def classes(y):
    return None if y is None or y.ndim > 1 else np.unique(y)


ACCEPTED = [
    (NearestNeighbors(metric="minkowski", p=3), X, None),
    (NearestNeighbors(metric="haversine"), X[:, :2], None),
    (NearestNeighbors(metric="minkowski", p=1), CSR, None),
    (KNeighborsClassifier(weights="distance", algorithm="ball_tree"), X, Y),
    (KNeighborsRegressor(metric="cosine", weights=None), X, Y),
    (KernelDensity(metric="minkowski", metric_params={"p": 3}, atol=0.1), X, None),
    (SVC(kernel="poly", class_weight="balanced", probability=False), X, TWO),
    (SVC(), CSR, TWO),
    (SVR(kernel="precomputed"), X @ X.T, Y),
    (TSNE(metric="minkowski", metric_params={"p": 3}, method="exact"), X, None),
    (TSNE(init="random"), CSR, None),
    (SpectralEmbedding(gamma=2.0, eigen_solver="arpack"), X, None),
    (SpectralEmbedding(affinity="precomputed"), GRAPH, None),
    (UMAP(init=X[:, :2], metric="minkowski", metric_kwds={"p": 3}, n_epochs=20), X, Y),
    (UMAP(n_epochs=np.int64(20), tqdm_kwds={"desc": "a"}, low_memory=False), X, None),
]


@pytest.mark.parametrize(("model", "rows", "y"), ACCEPTED, ids=named)
def test_what_is_accepted(model, rows, y):
    params = model._plain_params()
    data = Data(rows, y, None, {}, classes(y), sparse.issparse(rows))
    assert model._row.refuses_parameters(params) is None
    assert model._row.refuses_data(params, data) is None
    assert model._row.sparse or not data.sparse


# ---------------------------------------------------------------- scikit-learn's errors

WRONG = [
    (SVC(), X, np.zeros(150, dtype=int), {}),
    (SVC(kernel="precomputed"), X, TWO, {}),
    (SVC(), X, TWO, {"sample_weight": 1.0 - TWO}),
    (SVR(kernel="precomputed"), X, Y, {}),
    (TSNE(perplexity=150), X, None, {}),
]


@pytest.mark.parametrize(("model", "rows", "y", "arguments"), WRONG, ids=named)
def test_errors_are_scikit_learns(fake_b, model, rows, y, arguments):  # noqa: F811
    def message(estimator):
        with pytest.raises(ValueError, match=r"\w") as caught:
            estimator.fit(rows, y, **arguments)
        return str(caught.value)

    with gpuml.config_context(device="cuda", fallback="error"):
        assert message(model) == message(model._row.sk(**model.get_params()))


def test_umap_checks_its_parameters(fake_b):  # noqa: F811
    with gpuml.config_context(device="cuda", fallback="error"):
        with pytest.raises(ValueError, match="min_dist must be less than or equal to spread"):
            UMAP(min_dist=2.0).fit(X)
        with pytest.raises(ValueError, match="n_neighbors"):
            UMAP(n_neighbors=1).fit(X)


# ---------------------------------------------------------------- parameters that change


def changed(model, rows=X, y=None):
    data = Data(rows, y, None, {}, classes(y), sparse.issparse(rows))
    return dict(model._row.changes(model.get_params(deep=False), data))


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.5])
@pytest.mark.parametrize("rows", [X, X.astype("f4"), CSR, np.ones((150, 4))])
@pytest.mark.parametrize("kind", [SVC, SVR])
def test_gamma_is_scikit_learns(kind, gamma, rows):
    oracle = kind._row.sk(gamma=gamma).fit(rows, TWO)
    assert changed(kind(gamma=gamma), rows, TWO) == {
        "gamma": pytest.approx(oracle._gamma, rel=1e-6)
    }


def test_precomputed_kernels_have_no_gamma():
    assert changed(SVC(kernel="precomputed"), np.zeros((150, 150)), TWO) == {"gamma": 0.0}


# ---------------------------------------------------------------- what is right where they differ


@pytest.mark.parametrize(("n_features", "scikit_learns"), [(1, 1.0), (2, 0.3634), (3, 1.0)])
def test_cosine_densities_integrate_to_one(n_features, scikit_learns):
    """scikit-learn leaves out the last term of the integral, where the number is even.

    cuML does not: test_agreement_b.py compares it with `cosine_densities`.
    """
    rng = np.random.default_rng(0)
    rows, weight = rng.random((5, n_features)), rng.uniform(1.0, 2.0, 5)
    steps = np.arange(-0.55, 1.6, 0.04)
    grid = np.stack(np.meshgrid(*[steps] * n_features), axis=-1).reshape(-1, n_features)
    cell = 0.04**n_features
    ours = np.exp(cosine_densities(rows, weight, grid, 0.5))
    assert ours.sum() * cell == pytest.approx(1.0, rel=1e-2)
    oracle = KernelDensity._row.sk(bandwidth=0.5, kernel="cosine").fit(rows, sample_weight=weight)
    theirs = np.exp(oracle.score_samples(grid))
    assert theirs.sum() * cell == pytest.approx(scikit_learns, rel=1e-2)


def test_scikit_learns_cosine_densities_of_four_features_are_nan():
    assert np.isnan(KernelDensity._row.sk(kernel="cosine").fit(X).score_samples(X)).all()


def test_tsne_is_told_all_that_it_would_choose():
    fitted = TSNE(max_iter=250).fit(X)
    assert changed(TSNE()) == {
        "learning_rate": 4 * fitted.learning_rate_,
        "learning_rate_method": "none",
        "n_neighbors": 92,
    }
    many = np.zeros((60_000, 1))
    assert changed(TSNE(learning_rate=100.0), many)["learning_rate"] == 400
    assert changed(TSNE(), many)["learning_rate"] == pytest.approx(5000)
    assert changed(TSNE(perplexity=50), many)["n_neighbors"] == 152
    assert changed(TSNE(perplexity=50), X)["n_neighbors"] == 150
    assert changed(TSNE(method="exact"), many)["n_neighbors"] == 1023


def test_umap_looks_for_neighbours_as_the_metric_allows():
    assert changed(UMAP()) == {"build_algo": "auto"}
    assert changed(UMAP(metric="canberra")) == {"build_algo": "brute_force_knn"}


def test_no_other_parameter_changes():
    for kind in (NearestNeighbors, KNeighborsClassifier, KNeighborsRegressor, KernelDensity):
        assert changed(kind()) == {}
    assert changed(SpectralEmbedding()) == {}
