"""PCA and TruncatedSVD by visits of the rows."""

import numpy as np
import pytest
import sklearn.decomposition as sk
from scipy import sparse
from sklearn.base import clone

import gpuml
from gpuml.decomposition import PCA, TruncatedSVD
from gpuml.divided import DividedRows, InProcess, Share
from gpuml.divided.fitting import fit_divided
from gpuml.linalg import svd_compressed
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import Pipeline

FITTED = ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_")
SHAPES = {"tall": (200, 12), "wide": (12, 60)}


def pca(n_components=3, **settings):
    settings = {"iterated_power": 20, "random_state": 0, **settings}
    return PCA(n_components, svd_solver="compressed", **settings)


def truncated(n_components=3, **settings):
    settings = {"n_iter": 20, "random_state": 0, **settings}
    return TruncatedSVD(n_components, algorithm="compressed", **settings)


def rows(rng, shape):
    n, p = shape
    return rng.normal(size=(n, p)) * 0.8 ** np.arange(p) + rng.normal(size=p)


def agree(library, ours, theirs, names, rtol=1e-6):
    for name in names:
        found = library.to_numpy(getattr(ours, name))
        np.testing.assert_allclose(found, getattr(theirs, name), rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("whiten", [False, True])
def test_pca_agrees_with_an_exact_one(library, rng, shape, dtype, whiten):
    X = rows(rng, shape).astype(dtype)
    ours = pca(whiten=whiten)
    images = ours.fit_transform(library.asarray(X))
    theirs = sk.PCA(3, svd_solver="full", whiten=whiten).fit(X.astype("float64"))
    rtol = {"float32": 2e-4, "float64": 1e-6}[dtype]
    agree(library, ours, theirs, (*FITTED, "mean_", "noise_variance_"), rtol)
    np.testing.assert_allclose(library.to_numpy(images), theirs.transform(X), atol=5 * rtol)
    assert str(images.dtype).endswith(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_truncated_svd_agrees_with_an_exact_one(library, rng, shape, dtype):
    X = rows(rng, shape).astype(dtype)
    ours = truncated()
    images = ours.fit_transform(library.asarray(X))
    theirs = sk.TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X.astype("float64"))
    rtol = {"float32": 2e-4, "float64": 1e-6}[dtype]
    agree(library, ours, theirs, FITTED, rtol)
    np.testing.assert_allclose(library.to_numpy(images), theirs.transform(X), atol=5 * rtol)


def test_pca_is_svd_compressed_of_centred_rows(rng):
    X = rows(rng, (100, 30))
    model = pca(iterated_power=2, n_oversamples=4).fit(X)
    found = svd_compressed(X, 3, 2, 4, random_state=0, center=True)
    np.testing.assert_allclose(model.singular_values_, found.s, rtol=1e-9)
    cosines = np.abs(np.sum(model.components_ * found.v, axis=1))
    np.testing.assert_allclose(cosines, 1.0, atol=1e-9)


@pytest.mark.parametrize("make", [pca, truncated])
def test_a_rank_below_the_components_leaves_zeros(rng, make):
    X = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 8))
    model = make(4).fit(X)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(model.singular_values_[2:], 0.0, atol=1e-10)


@pytest.mark.parametrize("make", [pca, truncated])
@pytest.mark.parametrize("shape", [(50, 8), (8, 50), (2, 2)])
def test_rows_without_variance_have_components_all_the_same(library, make, shape):
    X = np.ones(shape) if make is pca else np.zeros(shape)
    model = make(2).fit(library.asarray(X))
    components = library.to_numpy(model.components_)
    np.testing.assert_allclose(components @ components.T, np.eye(2), atol=1e-9)
    for name in ("singular_values_", "explained_variance_"):
        np.testing.assert_array_equal(library.to_numpy(getattr(model, name)), 0.0)
    assert np.isnan(library.to_numpy(model.explained_variance_ratio_)).all()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_variances_do_not_drown_in_a_large_mean(rng, shape):
    X = rows(rng, shape) + 1e7
    ours = truncated(2).fit(X)
    images = ours.transform(X)
    np.testing.assert_allclose(ours.explained_variance_, images.var(axis=0), rtol=1e-5)


@pytest.mark.parametrize("make", [pca, truncated])
def test_blocks_make_no_difference(rng, make):
    X = rows(rng, (300, 12))
    expected = make().fit(X)
    with gpuml.config_context(block_bytes=5000):
        found = make().fit(X)
    for name in FITTED:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8)


@pytest.mark.parametrize("make", [pca, truncated])
@pytest.mark.parametrize("cuts", [[120], [1, 2, 199], [50, 100, 150]])
def test_divided_rows_give_the_same(rng, make, cuts):
    X = rows(rng, (200, 12))
    expected = make().fit(X)
    pieces = np.split(X, cuts)
    divided = DividedRows(
        InProcess([Share(piece) for piece in pieces]), tuple(map(len, pieces)), 12, {}
    )
    found = fit_divided(make(), divided)
    for name in FITTED:
        np.testing.assert_allclose(found[name], getattr(expected, name), rtol=1e-8, atol=1e-10)
    assert found["n_features_in_"] == 12


@pytest.mark.bits
@pytest.mark.parametrize("make", [pca, truncated])
def test_the_same_seed_gives_the_same_bits(rng, make):
    X = rows(rng, (200, 12))
    first, again = (make().fit(X).components_ for _ in range(2))
    assert (first == again).all()


@pytest.mark.parametrize("make", [pca, truncated])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_as_scikit_learn_does(library, rng, make, value):
    X = rows(rng, (50, 12))
    X[7, 3] = value
    model = make()
    with pytest.raises(ValueError, match="Input X contains"):
        model.fit(library.asarray(X))
    assert not hasattr(model, "components_")


@pytest.mark.parametrize("make", [pca, truncated])
def test_divided_rows_that_are_not_finite_are_refused(rng, make):
    X = rows(rng, (50, 12))
    X[7, 3] = np.nan
    divided = DividedRows(InProcess([Share(X[:20]), Share(X[20:])]), (20, 30), 12, {})
    with pytest.raises(ValueError, match="NaN"):
        fit_divided(make(), divided)


@pytest.mark.parametrize("n_components", [0, 13, "mle", 0.5])
def test_numbers_of_components_that_cannot_be(rng, n_components):
    with pytest.raises(ValueError, match="n_components"):
        pca(n_components).fit(rows(rng, (200, 12)))


@pytest.mark.parametrize("make", [pca, truncated])
def test_sparse_rows_are_refused(rng, make):
    with pytest.raises(TypeError, match="parse"):
        make().fit(sparse.random_array((50, 12), density=0.5, rng=rng).tocsr())


@pytest.mark.parametrize("make", [pca, truncated])
def test_a_search_fits_it_one_by_one(rng, make):
    from gpuml.linear_model import Ridge

    X = rows(rng, (100, 12))
    y = X @ rng.normal(size=12)
    grid = {"step__n_components": [2, 4], "ridge__alpha": [0.1, 1.0]}
    pipeline = Pipeline([("step", make()), ("ridge", Ridge())])
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    fitted = clone(pipeline).set_params(**search.best_params_).fit(X, y)
    np.testing.assert_allclose(search.predict(X), fitted.predict(X), rtol=1e-8)


@pytest.mark.parametrize("make", [pca, truncated])
def test_squares_that_vanish_are_told(rng, make):
    with pytest.raises(ValueError, match="too small"):
        make().fit(rows(rng, (50, 12)) * 1e-200)
