"""Random projections: scikit-learn's matrix, and products where X is."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.random_projection as sk
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import DataDimensionalityWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuml import config_context
from gpuml.model_selection import RandomizedSearchCV
from gpuml.naive_bayes import GaussianNB
from gpuml.pipeline import make_pipeline
from gpuml.random_projection import (
    GaussianRandomProjection,
    SparseRandomProjection,
    johnson_lindenstrauss_min_dim,
)

N, P, K = 30, 80, 7
CASES = [
    (GaussianRandomProjection, {}),
    (GaussianRandomProjection, {"compute_inverse_components": True}),
    (SparseRandomProjection, {}),
    (SparseRandomProjection, {"density": 0.5, "compute_inverse_components": True}),
    (SparseRandomProjection, {"density": 1.0}),
    (SparseRandomProjection, {"dense_output": True}),
]


def theirs(cls):
    return getattr(sk, cls.__name__)


def dense(C):
    return C.toarray() if sparse.issparse(C) else C


@pytest.mark.each
@pytest.mark.parametrize(("cls", "params"), CASES)
def test_agrees_with_sklearn(library, rng, cls, params):
    X = rng.normal(size=(N, P))
    X_lib = library.asarray(X)
    params = {"n_components": K, "random_state": 3, **params}
    other = theirs(cls)(**params).fit(X)
    ours = cls(**params).fit(X_lib)
    assert ours.n_components_ == other.n_components_ == K
    found = ours.transform(X_lib)
    assert type(found) is type(X_lib)
    np.testing.assert_allclose(library.to_numpy(found), other.transform(X), rtol=1e-10, atol=1e-12)
    back = ours.inverse_transform(found)
    assert type(back) is type(X_lib)
    expected = other.inverse_transform(other.transform(X))
    np.testing.assert_allclose(library.to_numpy(back), expected, rtol=1e-9, atol=1e-10)
    if library.name.startswith("numpy"):
        np.testing.assert_array_equal(dense(ours.components_), dense(other.components_))
    elif library.name != "cupy":
        np.testing.assert_array_equal(library.to_numpy(ours.components_), dense(other.components_))
    np.testing.assert_array_equal(library.to_numpy(X_lib), X)


@pytest.mark.parametrize(("cls", "params"), CASES)
def test_float32_stays_float32(library, rng, cls, params):
    X = rng.normal(size=(N, P)).astype(np.float32)
    model = cls(n_components=K, random_state=0, **params).fit(library.asarray(X))
    found = library.to_numpy(model.transform(library.asarray(X)))
    assert found.dtype == np.float32
    exact = theirs(cls)(n_components=K, random_state=0, **params).fit_transform(X.astype(float))
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


def test_integers_are_numbers(library, rng):
    X = rng.integers(9, size=(N, P))
    model = GaussianRandomProjection(n_components=K, random_state=0).fit(library.asarray(X))
    found = library.to_numpy(model.transform(library.asarray(X)))
    expected = sk.GaussianRandomProjection(n_components=K, random_state=0).fit_transform(X)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(("cls", "params"), CASES)
def test_the_model_may_be_elsewhere_than_the_rows(library, rng, cls, params):
    X = rng.normal(size=(N, P))
    params = {"n_components": K, "random_state": 3, **params}
    expected = theirs(cls)(**params).fit_transform(X)
    there = cls(**params).fit(library.asarray(X))
    np.testing.assert_allclose(there.transform(X), expected, rtol=1e-10, atol=1e-12)
    here = cls(**params).fit(X).transform(library.asarray(X))
    np.testing.assert_allclose(library.to_numpy(here), expected, rtol=1e-10, atol=1e-12)
    found, wanted = there.transform(sparse.csr_matrix(X)), theirs(cls)(**params).fit(X)
    wanted = wanted.transform(sparse.csr_matrix(X))
    assert sparse.issparse(found) == sparse.issparse(wanted)
    np.testing.assert_allclose(dense(found), dense(wanted), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("cls", "params"), CASES)
def test_sparse_rows_are_as_in_sklearn(rng, cls, params):
    X = sparse.random(N, P, 0.2, format="csr", random_state=0)
    ours = cls(n_components=K, random_state=0, **params).fit_transform(X)
    other = theirs(cls)(n_components=K, random_state=0, **params).fit_transform(X)
    assert type(ours) is type(other)
    np.testing.assert_array_equal(dense(ours), dense(other))


def test_the_number_of_components_may_follow_from_the_rows(library, rng):
    X = library.asarray(rng.normal(size=(10, 400)))
    model = GaussianRandomProjection(eps=0.4, random_state=0).fit(X)
    wanted = johnson_lindenstrauss_min_dim(10, eps=0.4)
    assert model.n_components_ == wanted == model.transform(X).shape[1]
    assert len(model.get_feature_names_out()) == wanted
    with pytest.raises(ValueError, match="larger than the original space"):
        GaussianRandomProjection(eps=0.1).fit(X)
    with pytest.warns(DataDimensionalityWarning, match="higher than the number of features"):
        GaussianRandomProjection(n_components=401).fit(X)


@pytest.mark.parametrize("cls", [GaussianRandomProjection, SparseRandomProjection])
def test_frames_and_names(library, rng, cls):
    X = rng.normal(size=(N, P))
    model = cls(n_components=2, random_state=0).set_output(transform="pandas")
    frame = model.fit_transform(library.asarray(X))
    assert list(frame.columns) == [f"{cls.__name__.lower()}{i}" for i in range(2)]
    named = pd.DataFrame(X, columns=[f"c{i}" for i in range(P)])
    model.fit(named)
    assert model.feature_names_in_[0] == "c0"
    model.fit(library.asarray(X))
    assert hasattr(model, "feature_names_in_") is False


@pytest.mark.parametrize("cls", [GaussianRandomProjection, SparseRandomProjection])
def test_bad_input_changes_nothing(library, rng, cls):
    X = rng.normal(size=(N, P))
    holed = X.copy()
    holed[2, 2] = np.inf
    model = cls(n_components=K).fit(library.asarray(X))
    before = dict(vars(model))
    for bad, message in [(holed, "infinity"), (X[:, 0], "2D array"), (X[:0], "0 sample")]:
        with pytest.raises(ValueError, match=message):
            model.fit(library.asarray(bad))
        with pytest.raises(ValueError, match=message):
            model.transform(library.asarray(bad))
    with pytest.raises(ValueError, match="features"):
        model.transform(library.asarray(X[:, :3]))
    with pytest.raises(ValueError, match="columns|mismatch"):
        model.inverse_transform(library.asarray(X[:, :3]))
    assert all(vars(model)[name] is before[name] for name in before)
    with pytest.raises(NotFittedError):
        cls().transform(library.asarray(X))


def test_clones_and_pickles(library, rng):
    X = library.asarray(rng.normal(size=(N, P)))
    model = SparseRandomProjection(n_components=K, random_state=1).fit(X)
    assert clone(model).get_params() == model.get_params()
    expected = library.to_numpy(model.transform(X))
    twin = model.as_sklearn()
    assert type(twin) is sk.SparseRandomProjection
    np.testing.assert_allclose(twin.transform(library.to_numpy(X)), expected, rtol=1e-12)
    if library.name != "array_api_strict":  # its devices cannot be pickled
        found = pickle.loads(pickle.dumps(model)).transform(X)
        np.testing.assert_array_equal(library.to_numpy(found), library.to_numpy(model.transform(X)))


def test_memory_order_does_not_matter(rng):
    X = rng.normal(size=(N, P))
    model = GaussianRandomProjection(n_components=K, random_state=1).fit(X)
    expected = model.transform(X)
    found = model.fit(np.asfortranarray(X)).transform(np.asfortranarray(X))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_pipeline_of_it_is_searched(library, rng):
    X, y = rng.normal(size=(60, 20)), np.arange(60) % 2
    X[:, 0] += 3 * y
    space = {"gaussianrandomprojection__n_components": [2, 10]}
    step = GaussianRandomProjection(random_state=0)
    search = RandomizedSearchCV(
        make_pipeline(step, GaussianNB()), space, n_iter=2, cv=3, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(library.asarray(X), library.asarray(y))
    assert (
        search.best_params_
        == search.__class__(
            make_pipeline(step, GaussianNB()), space, n_iter=2, cv=3, random_state=0
        )
        .fit(X, y)
        .best_params_
    )
    assert type(search.predict(library.asarray(X))) is type(library.asarray(y))


@pytest.mark.gpu
@pytest.mark.parametrize(("cls", "params"), CASES)
def test_cupyx_rows_are_as_scipys(cls, params):
    cupy = pytest.importorskip("cupy")
    from cupyx.scipy import sparse as cupyx_sparse

    X = sparse.random(N, P, 0.2, format="csr", random_state=0)
    on_gpu = cupyx_sparse.csr_matrix(X)
    model = cls(n_components=K, random_state=0, **params).fit(on_gpu)
    expected = theirs(cls)(n_components=K, random_state=0, **params).fit_transform(X)
    found = model.transform(on_gpu)
    assert cupyx_sparse.issparse(found) == sparse.issparse(expected)
    np.testing.assert_allclose(dense(found.get()), dense(expected), rtol=1e-10, atol=1e-12)
    rows = model.transform(cupy.asarray(X.toarray()))
    assert isinstance(rows, cupy.ndarray)
    np.testing.assert_allclose(rows.get(), dense(expected), rtol=1e-10, atol=1e-12)
    assert isinstance(model.inverse_transform(rows), cupy.ndarray)
    with config_context(device="cuda"):
        host = model.transform(X.toarray())
    assert isinstance(host, np.ndarray)
    np.testing.assert_allclose(host, dense(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [GaussianRandomProjection(n_components=2), SparseRandomProjection(n_components=2)]
)
def test_check_estimator(estimator, check):
    check(estimator)
