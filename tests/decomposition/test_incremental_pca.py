"""Laws of IncrementalPCA, and agreement with scikit-learn, over array libraries."""

import pickle

import numpy as np
import pytest
import sklearn.decomposition as sk
from scipy import sparse

from gpuml.decomposition import PCA, IncrementalPCA
from gpuml.testing import RTOL

ATTRIBUTES = (
    *("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"),
    *("mean_", "var_", "noise_variance_"),
)


def rows(rng, n=100, p=6):
    return rng.normal(size=(n, p)) @ np.diag(np.linspace(4, 0.5, p)) @ rng.normal(size=(p, p)) + 3


def agree(library, ours, theirs, rtol=RTOL["float64"]):
    for name in ATTRIBUTES:
        expected = np.asarray(getattr(theirs, name))
        got = np.asarray(library.to_numpy(getattr(ours, name)))
        atol = rtol * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, err_msg=name)
    assert ours.n_components_ == theirs.n_components_
    assert ours.n_samples_seen_ == theirs.n_samples_seen_


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize("batch_size", [None, 17])
@pytest.mark.parametrize("whiten", [False, True])
def test_agrees_with_sklearn(library, rng, dtype, n_components, batch_size, whiten):
    X = rows(rng).astype(dtype)
    rtol = RTOL[dtype]
    options = {"batch_size": batch_size, "whiten": whiten}
    ours = IncrementalPCA(n_components, **options)
    Z = ours.fit_transform(library.asarray(X))
    theirs = sk.IncrementalPCA(n_components, **options).fit(X.astype("float64"))
    agree(library, ours, theirs, rtol)
    assert ours.batch_size_ == theirs.batch_size_
    assert type(Z) is type(library.asarray(X))
    for name in ("components_", "mean_", "var_", "singular_values_"):
        assert library.to_numpy(getattr(ours, name)).dtype == dtype
    expected = theirs.transform(X.astype("float64"))
    np.testing.assert_allclose(library.to_numpy(Z), expected, atol=20 * rtol)
    back = library.to_numpy(ours.inverse_transform(Z))
    np.testing.assert_allclose(back, theirs.inverse_transform(expected), atol=20 * rtol)
    covariance = theirs.get_covariance()
    np.testing.assert_allclose(
        library.to_numpy(ours.get_covariance()), covariance, atol=10 * rtol * covariance.max()
    )


def test_batches_by_hand_are_batches_of_fit(library, rng):
    X = rows(rng)
    whole = IncrementalPCA(3, batch_size=25).fit(library.asarray(X))
    model = IncrementalPCA(3)
    for start in range(0, 100, 25):
        model.partial_fit(library.asarray(X[start : start + 25]))
    for name in ATTRIBUTES:
        got, expected = (np.asarray(library.to_numpy(getattr(m, name))) for m in (model, whole))
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_all_components_are_those_of_pca(library, rng):
    X = rows(rng)
    ours = IncrementalPCA(batch_size=30).fit(library.asarray(X))
    pca = PCA().fit(library.asarray(X))
    for name in ("components_", "explained_variance_", "mean_"):
        got, expected = (library.to_numpy(getattr(m, name)) for m in (ours, pca))
        np.testing.assert_allclose(got, expected, atol=1e-9, err_msg=name)


def test_fit_starts_anew_and_partial_fit_goes_on(library, rng):
    X = library.asarray(rows(rng))
    model = IncrementalPCA(2).fit(X)
    assert model.fit(X).n_samples_seen_ == 100
    assert model.partial_fit(X).n_samples_seen_ == 200


@pytest.mark.parametrize("format", ["csr_array", "csc_matrix", "lil_array"])
def test_sparse_rows_are_made_dense_in_batches(rng, format):
    X = getattr(sparse, format)(sparse.random_array((60, 9), density=0.3, rng=rng))
    options = {"n_components": 3, "batch_size": 20}
    ours, theirs = IncrementalPCA(**options), sk.IncrementalPCA(**options)
    Z = ours.fit_transform(X)
    np.testing.assert_allclose(Z, theirs.fit_transform(X), atol=1e-9)
    np.testing.assert_allclose(Z, ours.transform(X.toarray()), atol=1e-9)
    with pytest.raises(TypeError, match="sparse"):
        ours.partial_fit(X)


def test_bad_input_changes_nothing(library, rng):
    X = rows(rng)
    model = IncrementalPCA(3).fit(library.asarray(X))
    before = dict(vars(model))
    broken = X.copy()
    broken[70, 2] = np.nan
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="NaN"):
            call(library.asarray(broken))
        with pytest.raises(ValueError, match="2D array"):
            call(library.asarray(X[:, 0]))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(library.asarray(X[:, :4]))
    assert vars(model) == before
    with pytest.raises(ValueError, match="n_features"):
        IncrementalPCA(7).fit(library.asarray(X))
    with pytest.raises(ValueError, match="first partial_fit"):
        IncrementalPCA(5).partial_fit(library.asarray(X[:4]))
    model.set_params(n_components=2)
    with pytest.raises(ValueError, match="has changed"):
        model.partial_fit(library.asarray(X))


def test_names_frames_and_pickles(rng):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows(rng, p=3), columns=["a", "b", "c"])
    model = IncrementalPCA(2).set_output(transform="pandas")
    Z = model.fit_transform(X)
    assert list(Z.columns) == ["incrementalpca0", "incrementalpca1"]
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(pickle.loads(pickle.dumps(model)).transform(X), Z)
