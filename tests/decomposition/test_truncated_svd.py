"""Laws of TruncatedSVD, and agreement with scikit-learn, over array libraries."""

import pickle

import numpy as np
import pytest
import sklearn.decomposition as sk
from scipy import sparse
from sklearn.linear_model import LinearRegression as SklearnLinear
from sklearn.model_selection import GridSearchCV as SklearnSearch
from sklearn.pipeline import Pipeline

import gpuml.decomposition.truncated_svd as module
from gpuml import get_config
from gpuml._arrays import HOST
from gpuml.decomposition import PCA, TruncatedSVD
from gpuml.decomposition._fitting import SparseBatch
from gpuml.divided import DividedRows, InProcess, Share
from gpuml.divided.fitting import fit_divided
from gpuml.linear_model import LinearRegression
from gpuml.model_selection import GridSearchCV
from gpuml.testing import RTOL

ATTRIBUTES = (
    *("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"),
)


def rows(rng, n=90, p=9):
    # A falling spectrum: all ways lead to the same components.
    return (rng.normal(size=(n, p)) * 0.3 ** np.arange(p)) @ rng.normal(size=(p, p)) + 1


def agree(to_numpy, ours, theirs, rtol=RTOL["float64"]):
    for name in ATTRIBUTES:
        expected = getattr(theirs, name)
        np.testing.assert_allclose(
            to_numpy(getattr(ours, name)), expected, rtol=rtol, atol=rtol, err_msg=name
        )


@pytest.fixture(params=["moments", "random blocks"])
def route(request, monkeypatch):
    """Both ways for "randomized", whatever the number of features."""
    if request.param == "random blocks":
        monkeypatch.setattr(module, "SMALL_SIDE", 0)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("algorithm", ["randomized", "arpack"])
@pytest.mark.parametrize("shape", [(90, 9), (12, 40)])
def test_agrees_with_sklearn(library, rng, route, dtype, algorithm, shape):
    X = rows(rng, *shape).astype(dtype)
    rtol = RTOL[dtype]
    ours = TruncatedSVD(3, algorithm=algorithm, random_state=0, n_iter=10)
    Z = ours.fit_transform(library.asarray(X))
    theirs = sk.TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X.astype("float64"))
    agree(library.to_numpy, ours, theirs, rtol)
    assert type(Z) is type(library.asarray(X))
    for array in (Z, ours.components_, ours.singular_values_, ours.explained_variance_):
        assert library.to_numpy(array).dtype == dtype
    expected = theirs.transform(X.astype("float64"))
    np.testing.assert_allclose(library.to_numpy(Z), expected, atol=20 * rtol)
    again = library.to_numpy(ours.transform(library.asarray(X)))
    np.testing.assert_allclose(again, expected, atol=20 * rtol)
    back = library.to_numpy(ours.inverse_transform(Z))
    np.testing.assert_allclose(back, theirs.inverse_transform(expected), atol=20 * rtol)


def test_the_same_seed_gives_what_sklearn_gives(rng, route):
    X = rows(rng)
    ours, theirs = (cls(4, random_state=5).fit(X) for cls in (TruncatedSVD, sk.TruncatedSVD))
    agree(np.asarray, ours, theirs)


def test_attributes_are_those_of_the_projected_rows(library, rng, route):
    X = rows(rng)
    model = TruncatedSVD(4, random_state=0)
    Z = library.to_numpy(model.fit_transform(library.asarray(X)))
    to_numpy = library.to_numpy
    np.testing.assert_allclose(to_numpy(model.singular_values_), np.linalg.norm(Z, axis=0))
    np.testing.assert_allclose(to_numpy(model.explained_variance_), Z.var(axis=0), rtol=1e-6)
    ratio = Z.var(axis=0) / X.var(axis=0).sum()
    np.testing.assert_allclose(to_numpy(model.explained_variance_ratio_), ratio, rtol=1e-6)


def test_centred_rows_have_the_components_of_pca(library, rng):
    X = rows(rng)
    X = X - X.mean(axis=0)
    svd, pca = TruncatedSVD(4).fit(library.asarray(X)), PCA(4).fit(library.asarray(X))
    for name in ("components_", "singular_values_", "explained_variance_ratio_"):
        got, expected = (library.to_numpy(getattr(model, name)) for model in (svd, pca))
        np.testing.assert_allclose(got, expected, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("algorithm", ["randomized", "arpack"])
def test_sparse_host_rows_are_sklearns(rng, algorithm):
    X = sparse.random_array((60, 9), density=0.3, rng=rng).tocsr()
    options = {"algorithm": algorithm, "random_state": 0}
    ours, theirs = TruncatedSVD(3, **options), sk.TruncatedSVD(3, **options)
    np.testing.assert_allclose(ours.fit_transform(X), theirs.fit_transform(X))
    np.testing.assert_allclose(ours.fit(X).transform(X), theirs.transform(X))
    agree(np.asarray, ours, theirs)


@pytest.mark.parametrize("algorithm", ["randomized", "arpack"])
def test_numerics_of_sparse_gpu_rows_on_the_host(rng, algorithm):
    X = sparse.random_array((90, 12), density=0.3, rng=rng).tocsr()
    model = TruncatedSVD(3, algorithm=algorithm, random_state=0, n_iter=40)
    vars(model).update(model.fit_batch(SparseBatch(X, HOST)))
    agree(np.asarray, model, sk.TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X))


@pytest.mark.gpu
@pytest.mark.parametrize("algorithm", ["randomized", "arpack"])
def test_sparse_gpu_rows_stay_there(rng, algorithm):
    cupyx = pytest.importorskip("cupyx.scipy.sparse")
    cupy = pytest.importorskip("cupy")
    X = sparse.csr_matrix(sparse.random_array((200, 30), density=0.2, rng=rng))
    model = TruncatedSVD(3, algorithm=algorithm, random_state=0, n_iter=40)
    Z = model.fit_transform(cupyx.csr_matrix(X))
    theirs = sk.TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X)
    agree(cupy.asnumpy, model, theirs)
    np.testing.assert_allclose(cupy.asnumpy(Z), theirs.transform(X), atol=1e-6)


@pytest.mark.parametrize("algorithm", ["randomized", "arpack"])
def test_bad_input(library, rng, route, algorithm):
    X = rows(rng)
    model = TruncatedSVD(2, algorithm=algorithm).fit(library.asarray(X))
    before = dict(vars(model))
    for bad in (np.nan, np.inf):
        X[3, 3] = bad
        with pytest.raises(ValueError, match="NaN|infinity"):
            model.fit(library.asarray(X))
    X[3, 3] = 0
    with pytest.raises(ValueError, match="feature"):
        model.fit(library.asarray(X[:, :1]))
    assert vars(model) == before
    with pytest.raises(ValueError, match=r"n_components|`k`"):
        TruncatedSVD(10, algorithm=algorithm).fit(library.asarray(X))


def test_more_components_than_rows(library, rng, route):
    X = rows(rng, 4, 9)
    model = TruncatedSVD(6, random_state=0)
    assert model.fit_transform(library.asarray(X)).shape == (4, 4)


def test_names_frames_and_pickles(rng):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows(rng, p=3), columns=["a", "b", "c"])
    for algorithm in ("randomized", "arpack"):
        model = TruncatedSVD(2, algorithm=algorithm).set_output(transform="pandas")
        Z = model.fit_transform(X)
        assert list(Z.columns) == ["truncatedsvd0", "truncatedsvd1"]
        assert list(model.feature_names_in_) == ["a", "b", "c"]
        np.testing.assert_allclose(pickle.loads(pickle.dumps(model)).transform(X), Z)


# ---------------------------------------------------------------- large means, small values

MEANS = (0.0, 1e3, 1e6, 1e8)


def around(rng, mean, dtype="float64"):
    """Rows about a mean of which float32 has every value that it is asked for."""
    spread = rng.normal(size=(500, 6)) * [40.0, 30.0, 20.0, 15.0, 10.0, 5.0]
    return (spread + mean * np.asarray([1.0, 0.5, 2.0, 1.0, 1.0, 0.3])).astype(dtype)


def agree_with_svd(found, X, dtype):
    """Attributes are those of an SVD of the rows."""
    X = X.astype("float64")
    _, singular, right = np.linalg.svd(X, full_matrices=False)
    count = len(found["singular_values_"])
    right = right[:count] * np.sign(np.sum(right[:count] * found["components_"], axis=1))[:, None]
    variance = np.var((X - X.mean(axis=0)) @ right.T, axis=0)
    rtol = RTOL[dtype]
    np.testing.assert_allclose(found["singular_values_"], singular[:count], rtol=rtol)
    np.testing.assert_allclose(found["components_"], right, atol=rtol)
    np.testing.assert_allclose(found["explained_variance_"], variance, rtol=rtol)
    total = np.sum(np.var(X - X.mean(axis=0), axis=0))
    np.testing.assert_allclose(found["explained_variance_ratio_"], variance / total, rtol=rtol)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mean", MEANS)
def test_a_large_mean_takes_no_digits(library, rng, route, mean, dtype):
    X = around(rng, mean, dtype)
    model = TruncatedSVD(4, n_iter=20, random_state=0).fit(library.asarray(X))
    agree_with_svd({name: library.to_numpy(getattr(model, name)) for name in ATTRIBUTES}, X, dtype)


def divided(X):
    pieces = np.array_split(X, 5)
    shares = InProcess([Share(piece) for piece in pieces])
    return DividedRows(shares, tuple(map(len, pieces)), X.shape[1], get_config())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("algorithm", ["randomized", "arpack", "compressed"])
def test_a_large_mean_takes_no_digits_of_divided_rows(rng, algorithm, mean, dtype):
    X = around(rng, mean, dtype)
    model = TruncatedSVD(4, algorithm=algorithm, n_iter=20, random_state=0)
    agree_with_svd(fit_divided(model, divided(X)), X, dtype)


@pytest.mark.parametrize("mean", MEANS)
def test_scores_of_a_search_are_those_of_rows_with_a_large_mean(rng, mean):
    X = around(rng, mean)
    y = (X - X.mean(axis=0)) @ rng.normal(size=6)

    def search(step, search_class, last):
        steps = Pipeline([("svd", step), ("model", last)])
        found = search_class(steps, {"svd__n_components": [2, 3, 4]}, cv=3).fit(X, y)
        return found.cv_results_["mean_test_score"]

    expected = search(sk.TruncatedSVD(algorithm="arpack"), SklearnSearch, SklearnLinear())
    found = search(TruncatedSVD(), GridSearchCV, LinearRegression())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-155, 1e-200, 1e-300])
def test_values_whose_squares_vanish(library, rng, scale):
    X = rows(rng)
    _, singular, right = np.linalg.svd(X, full_matrices=False)
    model = TruncatedSVD(4).fit(library.asarray(X * scale))
    fitted = {name: library.to_numpy(getattr(model, name)) for name in ATTRIBUTES}
    for found in (fitted, fit_divided(TruncatedSVD(4), divided(X * scale))):
        np.testing.assert_allclose(found["singular_values_"] / scale, singular[:4], rtol=1e-9)
        np.testing.assert_allclose(np.abs(found["components_"]), np.abs(right[:4]), atol=1e-9)
