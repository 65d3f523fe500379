"""Weights of terms: laws, and agreement with scikit-learn, over array libraries."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn.feature_extraction.text as sk
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuml.feature_extraction._tfidf import normalised
from gpuml.feature_extraction.text import TfidfTransformer

CASES = [
    {"norm": norm, "use_idf": use_idf, "smooth_idf": smooth, "sublinear_tf": sublinear}
    for norm in ("l1", "l2", None)
    for use_idf, smooth in ((True, True), (True, False), (False, True))
    for sublinear in (False, True)
]


def counts(rng, dtype=np.float64):
    X = rng.poisson(0.5, size=(25, 12))
    X[3] = 0
    X[0] = 1  # each term is somewhere
    return X.astype(dtype)


def as_numpy(Z, library):
    return library.to_numpy(Z.toarray() if hasattr(Z, "toarray") else Z)


@pytest.mark.each
@pytest.mark.parametrize("params", CASES)
def test_dense_counts_agree_with_sklearn(library, rng, params):
    X = counts(rng)
    X_lib = library.asarray(X)
    ours, other = TfidfTransformer(**params).fit(X_lib), sk.TfidfTransformer(**params).fit(X)
    found = ours.transform(X_lib)
    if library.name.startswith("numpy"):
        assert sparse.issparse(found)
    elif library.name != "cupy":
        assert type(found) is type(X_lib)
    expected = other.transform(X).toarray()
    np.testing.assert_allclose(as_numpy(found, library), expected, rtol=1e-10, atol=1e-14)
    assert hasattr(ours, "idf_") == params["use_idf"]
    if params["use_idf"]:
        assert type(ours.idf_) is type(X_lib)
        np.testing.assert_allclose(library.to_numpy(ours.idf_), other.idf_, rtol=1e-12)
    np.testing.assert_array_equal(library.to_numpy(X_lib), X)


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("params", CASES)
def test_sparse_counts_agree_with_sklearn(rng, params, form):
    X = form(counts(rng))
    before = X.toarray()
    found = TfidfTransformer(**params).fit_transform(X)
    expected = sk.TfidfTransformer(**params).fit_transform(X)
    assert type(found) is type(expected)
    np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(X.toarray(), before)
    found.indices[:] = 0
    np.testing.assert_array_equal(X.toarray(), before)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, bool])
def test_dtypes(library, rng, dtype):
    X = counts(rng, dtype)
    model = TfidfTransformer().fit(library.asarray(X))
    wanted = np.float32 if dtype is np.float32 else np.float64
    found = as_numpy(model.transform(library.asarray(X)), library)
    assert found.dtype == library.to_numpy(model.idf_).dtype == wanted
    expected = sk.TfidfTransformer().fit_transform(X.astype(np.float64)).toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-6 if wanted is np.float32 else 1e-12)
    csr = TfidfTransformer().fit_transform(sparse.csr_matrix(X))
    assert csr.dtype == wanted
    np.testing.assert_allclose(csr.toarray(), expected, rtol=1e-6)


def test_an_explicit_zero_counts_as_in_sklearn(rng):
    X = sparse.csr_matrix(counts(rng))
    X.data[::3] = 0.0
    found, expected = (c().fit(X) for c in (TfidfTransformer, sk.TfidfTransformer))
    np.testing.assert_allclose(found.idf_, expected.idf_, rtol=1e-12)
    found, expected = (m.transform(X).toarray() for m in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_order_of_documents_does_not_matter(library, rng):
    X = counts(rng)
    one = TfidfTransformer().fit(library.asarray(X)).idf_
    two = TfidfTransformer().fit(library.asarray(X[::-1].copy())).idf_
    np.testing.assert_array_equal(library.to_numpy(one), library.to_numpy(two))


def test_the_model_may_be_elsewhere_than_the_rows(library, rng):
    X = counts(rng)
    expected = sk.TfidfTransformer().fit_transform(X).toarray()
    there = TfidfTransformer().fit(library.asarray(X))
    np.testing.assert_allclose(there.transform(sparse.csr_matrix(X)).toarray(), expected)
    here = TfidfTransformer().fit(sparse.csr_matrix(X)).transform(library.asarray(X))
    np.testing.assert_allclose(as_numpy(here, library), expected, rtol=1e-12)


def test_a_second_fit_without_weights_forgets_them(rng):
    X = counts(rng)
    model = TfidfTransformer().fit(X).set_params(use_idf=False).fit(X)
    assert not hasattr(model, "idf_")


def test_normalised_rows(rng):
    X = sparse.csr_matrix(counts(rng) - 1.0)
    for norm, order in (("l1", 1), ("l2", 2)):
        norms = np.linalg.norm(normalised(X, norm).toarray(), ord=order, axis=1)
        np.testing.assert_allclose(norms[np.diff(X.indptr) > 0], 1.0, rtol=1e-12)


def test_bad_input_changes_nothing(library, rng):
    X = counts(rng)
    holed = X.copy()
    holed[2, 2] = np.nan
    model = TfidfTransformer().fit(library.asarray(X))
    before = dict(vars(model))
    for bad, message in [(holed, "NaN"), (X[:, 0], "2D array"), (X[:0], "0 sample")]:
        with pytest.raises(ValueError, match=message):
            model.fit(library.asarray(bad))
        with pytest.raises(ValueError, match=message):
            model.transform(library.asarray(bad))
    with pytest.raises(ValueError, match="features"):
        model.transform(library.asarray(X[:, :3]))
    with pytest.raises(ValueError, match="norm"):
        TfidfTransformer(norm="max").fit(library.asarray(X))
    assert all(vars(model)[name] is before[name] for name in before)
    with pytest.raises(NotFittedError):
        TfidfTransformer().transform(library.asarray(X))


def test_names_clones_and_pickles(rng):
    frame = pd.DataFrame(counts(rng), columns=list("abcdefghijkl"))
    model = TfidfTransformer(norm="l1").fit(frame)
    assert list(model.get_feature_names_out()) == list("abcdefghijkl")
    assert clone(model).get_params() == model.get_params()
    for back in (pickle.loads(pickle.dumps(model)), model.as_sklearn()):
        found = back.transform(frame)
        np.testing.assert_allclose(found.toarray(), model.transform(frame).toarray(), rtol=1e-12)
    assert not hasattr(model, "set_output")  # as in scikit-learn


@pytest.mark.gpu
@pytest.mark.parametrize("params", CASES)
def test_cupyx_counts_are_as_scipys(rng, params):
    pytest.importorskip("cupy")
    from cupyx.scipy import sparse as cupyx_sparse

    X = sparse.csr_matrix(counts(rng))
    on_gpu = cupyx_sparse.csr_matrix(X)
    model = TfidfTransformer(**params).fit(on_gpu)
    found = model.transform(on_gpu)
    assert cupyx_sparse.isspmatrix_csr(found)
    expected = sk.TfidfTransformer(**params).fit_transform(X).toarray()
    np.testing.assert_allclose(found.get().toarray(), expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(model.transform(X).toarray(), expected, rtol=1e-10, atol=1e-14)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([TfidfTransformer(), TfidfTransformer(sublinear_tf=True, norm="l1")])
def test_check_estimator(estimator, check):
    check(estimator)
