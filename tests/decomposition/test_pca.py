"""Laws of PCA, and agreement with scikit-learn, over array libraries."""

import pickle

import numpy as np
import pytest
import sklearn.decomposition as sk
from scipy import sparse
from sklearn.base import clone

import gpuml
from gpuml._arrays import HOST
from gpuml.decomposition import PCA
from gpuml.decomposition._principal import _inverted, choose_solver
from gpuml.testing import LAW_RTOL, RTOL

EXACT = ("auto", "full", "covariance_eigh")
ATTRIBUTES = (
    *("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"),
    *("mean_", "noise_variance_"),
)


def rows(rng, n=120, p=8, mean=2.0):
    return (
        rng.normal(size=(n, p)) @ np.diag(np.linspace(3, 0.5, p)) @ rng.normal(size=(p, p)) + mean
    )


def agree(library, ours, theirs, rtol=RTOL["float64"]):
    for name in ATTRIBUTES:
        expected = np.asarray(getattr(theirs, name))
        got = np.asarray(library.to_numpy(getattr(ours, name)))
        atol = rtol * max(1.0, np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, err_msg=name)
    assert ours.n_components_ == theirs.n_components_
    assert ours.n_samples_ == theirs.n_samples_


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", EXACT)
@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("n_components", [None, 3, 0.9, "mle"])
def test_agrees_with_sklearn(library, rng, dtype, solver, whiten, n_components):
    X = rows(rng).astype(dtype)
    rtol = RTOL[dtype]
    ours = PCA(n_components, svd_solver=solver, whiten=whiten)
    Z = ours.fit_transform(library.asarray(X))
    theirs = sk.PCA(n_components, svd_solver="full", whiten=whiten).fit(X.astype("float64"))
    agree(library, ours, theirs, rtol)
    assert type(Z) is type(library.asarray(X))
    for array in (Z, ours.components_, ours.mean_, ours.singular_values_):
        assert library.to_numpy(array).dtype == dtype
    expected = theirs.transform(X.astype("float64"))
    np.testing.assert_allclose(library.to_numpy(Z), expected, atol=20 * rtol)
    np.testing.assert_allclose(
        library.to_numpy(ours.transform(library.asarray(X))), library.to_numpy(Z), atol=rtol
    )
    back = library.to_numpy(ours.inverse_transform(Z))
    np.testing.assert_allclose(back, theirs.inverse_transform(expected), atol=20 * rtol)


@pytest.mark.parametrize("solver", EXACT)
@pytest.mark.parametrize("whiten", [False, True])
def test_the_generative_model_is_that_of_sklearn(library, rng, solver, whiten):
    X = rows(rng)
    for k in (3, 8):
        ours = PCA(k, svd_solver=solver, whiten=whiten).fit(library.asarray(X))
        theirs = sk.PCA(k, svd_solver="full", whiten=whiten).fit(X)
        for name in ("get_covariance", "get_precision"):
            got, expected = library.to_numpy(getattr(ours, name)()), getattr(theirs, name)()
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
        samples = library.to_numpy(ours.score_samples(library.asarray(X)))
        np.testing.assert_allclose(samples, theirs.score_samples(X), rtol=1e-6)
        score = ours.score(library.asarray(X))
        assert isinstance(score, float)
        assert score == pytest.approx(theirs.score(X))


def test_covariance_times_precision_is_one(rng):
    model = PCA(3).fit(rows(rng))
    np.testing.assert_allclose(model.get_covariance() @ model.get_precision(), np.eye(8), atol=1e-9)


@pytest.mark.pairwise
@pytest.mark.parametrize("shape", [(30, 60), (60, 60), (61, 60), (2, 5), (50, 1)])
@pytest.mark.parametrize("solver", ["full", "covariance_eigh"])
def test_any_shape(library, rng, shape, solver):
    X = rng.normal(3, 1, size=shape)
    ours = PCA(svd_solver=solver).fit(library.asarray(X))
    theirs = sk.PCA(svd_solver="full").fit(X)
    # The last component of wide data is of variance 0: which one it is, is up to rounding.
    kept = min(shape[0] - 1, shape[1])
    for name in ("explained_variance_", "explained_variance_ratio_", "components_"):
        got = library.to_numpy(getattr(ours, name))
        assert got.shape == getattr(theirs, name).shape
        np.testing.assert_allclose(got[:kept], getattr(theirs, name)[:kept], atol=1e-8)


def test_components_are_orthonormal_and_uncorrelated(library, rng):
    X = rows(rng)
    for solver in EXACT:
        model = PCA(5, svd_solver=solver)
        Z = library.to_numpy(model.fit_transform(library.asarray(X)))
        V = library.to_numpy(model.components_)
        np.testing.assert_allclose(V @ V.T, np.eye(5), atol=LAW_RTOL["float64"])
        variance = library.to_numpy(model.explained_variance_)
        np.testing.assert_allclose(np.cov(Z.T), np.diag(variance), atol=1e-9 * variance[0])
        np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("shape", [(400, 40), (40, 400)])
def test_randomized_is_exact_where_the_spectrum_falls(library, rng, shape):
    n, p = shape
    X = (rng.normal(size=(n, 4)) * [8, 5, 3, 2]) @ rng.normal(size=(4, p)) + 5
    X = X + 1e-4 * rng.normal(size=shape)
    model = PCA(4, svd_solver="randomized", random_state=0).fit(library.asarray(X))
    agree(library, model, sk.PCA(4, svd_solver="full").fit(X))


def test_randomized_draws_the_numbers_of_sklearn(rng):
    X = rng.normal(size=(150, 60)) + 3
    options = {"svd_solver": "randomized", "random_state": 3, "iterated_power": 20}
    ours, theirs = PCA(5, **options).fit(X), sk.PCA(5, **options).fit(X)
    # No gap in this spectrum: components of another start would differ.
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-4)
    one, two = (
        PCA(5, svd_solver="randomized", random_state=0, iterated_power=0).fit(X) for _ in range(2)
    )
    np.testing.assert_array_equal(one.components_, two.components_)


def ill_conditioned(rng, condition=1e8, n=300, p=10):
    left = rng.normal(size=(n, p))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    right = np.linalg.qr(rng.normal(size=(p, p)))[0].T
    singular = np.geomspace(1, 1 / condition, p)
    largest = np.abs(right).argmax(axis=1)
    right = right * np.sign(right[np.arange(p), largest])[:, None]
    return left * singular @ right, singular, right


@pytest.mark.parametrize("solver", ["full", "covariance_eigh"])
def test_at_condition_1e8_as_accurate_as_sklearn(library, rng, solver):
    # Rounding of one matrix is a matter of luck, and of the CPU: the worst of several is not.
    problems = [ill_conditioned(rng) for _ in range(5)]

    def worst(pca, asarray, to_numpy):
        errors = []
        for X, singular, right in problems:
            model = pca(svd_solver=solver).fit(asarray(X))
            ratio = singular**2 / np.sum(singular**2)
            of_ratio = np.abs(to_numpy(model.explained_variance_ratio_) - ratio) / ratio
            of_vectors = np.abs(to_numpy(model.components_) - right).max(axis=1)
            errors.append((of_ratio, of_vectors))
        return np.max(errors, axis=0)

    ours = worst(PCA, library.asarray, library.to_numpy)
    theirs = worst(sk.PCA, np.asarray, np.asarray)
    # What rounding of a covariance matrix alone may do to an eigenvector, whoever finds it: eps over
    # the distance to its neighbours. Those of the last ones are all rounding.
    squares = np.geomspace(1, 1e-16, 10)
    gaps = np.abs(np.diff(squares))
    rounding = np.finfo(float).eps / np.minimum(np.r_[1, gaps], np.r_[gaps, 1])
    bounds = (0.0, 10 * rounding if solver == "covariance_eigh" else 0.0)
    for own, other, bound in zip(ours, theirs, bounds, strict=True):
        near = own <= np.maximum(10 * other + 1e-13, bound)
        assert near.all() or own.max() <= 10 * other.max()
    if solver == "full":
        assert ours[0].max() <= 1e-6
        X = problems[0][0]
        model = PCA(svd_solver="full", whiten=True)
        Z = library.to_numpy(model.fit_transform(library.asarray(X)))
        np.testing.assert_allclose(Z.std(axis=0, ddof=1), 1, rtol=1e-6)


def test_rows_that_come_to_the_work_block_by_block(library, rng):
    X = rows(rng)
    for solver in (*EXACT, "randomized"):
        model = PCA(3, svd_solver=solver, random_state=0, iterated_power=30)
        whole = clone(model).fit(library.asarray(X))
        with gpuml.config_context(block_bytes=8 * 9 * 11):
            cut = clone(model).fit(library.asarray(X))
        np.testing.assert_allclose(
            library.to_numpy(cut.components_), library.to_numpy(whole.components_), atol=1e-9
        )


def test_a_constant_column_has_no_share(library, rng):
    X = rows(rng)
    X[:, 3] = 1e3
    for solver in EXACT:
        model = PCA(svd_solver=solver).fit(library.asarray(X))
        np.testing.assert_allclose(library.to_numpy(model.components_)[:-1, 3], 0, atol=1e-9)
        variance = library.to_numpy(model.explained_variance_)
        assert variance[-1] <= 1e-14 * variance[0]


@pytest.mark.pairwise
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("solver", [*EXACT, "randomized"])
def test_what_is_not_finite_is_refused_and_nothing_changes(library, rng, bad, solver):
    X = rows(rng)
    model = PCA(2, svd_solver=solver).fit(library.asarray(X))
    before = dict(vars(model))
    X[5, 1] = bad
    if bad == 1e200 and solver in ("full", "auto"):
        pytest.skip("an SVD does not square")
    with pytest.raises(ValueError, match="NaN|infinity|overflow"):
        model.fit(library.asarray(X))
    assert vars(model) == before
    if not np.isfinite(bad):
        with pytest.raises(ValueError, match="NaN|infinity"):
            model.transform(library.asarray(X))


@pytest.mark.parametrize("solver", [*EXACT, "randomized"])
@pytest.mark.parametrize("n_components", [9, 100])
def test_too_many_components(library, rng, solver, n_components):
    with pytest.raises(ValueError, match="must be between"):
        PCA(n_components, svd_solver=solver).fit(library.asarray(rows(rng)))


def test_numbers_of_numpy_count_as_numbers(rng):
    X = rows(rng)
    kept = PCA(0.9).fit(X).n_components_
    assert 1 < kept < 8
    assert PCA(np.float64(0.9)).fit(X).n_components_ == kept
    assert PCA(np.int32(3)).fit(X).n_components_ == 3


def test_other_bad_input(library, rng):
    X = rows(rng)
    model = PCA(2).fit(library.asarray(X))
    with pytest.raises(ValueError, match="1 sample"):
        PCA(svd_solver="compressed").fit(library.asarray(X[:1]))
    with pytest.raises(ValueError, match="2D array"):
        PCA().fit(library.asarray(X[:, 0]))
    with pytest.raises(ValueError, match="features"):
        model.transform(library.asarray(X[:, :3]))
    with pytest.raises(ValueError, match="columns"):
        model.inverse_transform(library.asarray(X))
    with pytest.raises(ValueError, match="mle"):
        PCA("mle").fit(library.asarray(X[:5]))
    with pytest.raises(ValueError, match="string"):
        PCA("mle", svd_solver="randomized").fit(library.asarray(X))


def test_arpack_is_sklearns_for_host_data_only(rng):
    import array_api_strict

    X = rows(rng)
    ours, theirs = (cls(3, svd_solver="arpack", random_state=0).fit(X) for cls in (PCA, sk.PCA))
    np.testing.assert_array_equal(ours.components_, theirs.components_)
    with pytest.raises(ValueError, match="arpack"):
        PCA(3, svd_solver="arpack").fit(array_api_strict.asarray(X))


@pytest.mark.parametrize("solver", ["jacobi", "cuml-full"])
def test_solvers_of_cuml_say_what_they_need_without_a_gpu(rng, solver):
    from gpuml._arrays import has_gpu

    if has_gpu():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="GPU"):
        PCA(2, svd_solver=solver).fit(rows(rng))
    with pytest.raises(TypeError, match="sparse"):
        PCA(2, svd_solver=solver).fit(sparse.random_array((20, 5), density=0.5, rng=rng).tocsr())


@pytest.mark.gpu
@pytest.mark.parametrize("solver", ["jacobi", "cuml-full"])
def test_solvers_of_cuml_agree(rng, solver):
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("cuml")
    X = rows(rng)
    model = PCA(3, svd_solver=solver).fit(cupy.asarray(X))
    expected = sk.PCA(3, svd_solver="full").fit(X)
    for name in ATTRIBUTES:
        got = cupy.asnumpy(getattr(model, name))
        np.testing.assert_allclose(got, getattr(expected, name), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("format", ["csr_array", "csc_matrix"])
@pytest.mark.parametrize("solver", ["auto", "covariance_eigh"])
def test_sparse_host_rows_are_sklearns(rng, format, solver):
    X = getattr(sparse, format)(sparse.random_array((60, 9), density=0.3, rng=rng))
    ours, theirs = (cls(3, svd_solver=solver, random_state=0) for cls in (PCA, sk.PCA))
    np.testing.assert_allclose(ours.fit_transform(X), theirs.fit_transform(X))
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X))
    np.testing.assert_allclose(ours.transform(X.toarray()), theirs.transform(X), atol=1e-12)
    with pytest.raises(TypeError, match="sparse"):
        PCA(svd_solver="full").fit(X)


@pytest.mark.gpu
@pytest.mark.parametrize("solver", ["auto", "covariance_eigh", "randomized"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sparse_gpu_rows_stay_there(rng, solver, dtype):
    cupyx = pytest.importorskip("cupyx.scipy.sparse")
    cupy = pytest.importorskip("cupy")
    X = sparse.random_array((200, 30), density=0.2, rng=rng).tocsr().astype(dtype)
    model = PCA(3, svd_solver=solver, random_state=0, iterated_power=30)
    Z = model.fit_transform(cupyx.csr_matrix(sparse.csr_matrix(X)))
    expected = sk.PCA(3, svd_solver="full").fit(X.toarray().astype("float64"))
    assert isinstance(Z, cupy.ndarray)
    assert Z.dtype == dtype
    for name in ATTRIBUTES:
        got = cupy.asnumpy(getattr(model, name))
        np.testing.assert_allclose(got, getattr(expected, name), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(cupy.asnumpy(Z), expected.transform(X.toarray()), atol=1e-3)


def test_numerics_of_sparse_gpu_rows_on_the_host(rng):
    from gpuml.decomposition._fitting import SparseBatch

    X = sparse.random_array((90, 12), density=0.3, rng=rng).tocsr()
    theirs = sk.PCA(4, svd_solver="full").fit(X.toarray())
    for solver in ("auto", "randomized"):
        model = PCA(4, svd_solver=solver, random_state=0, iterated_power=60)
        vars(model).update(model.fit_batch(SparseBatch(X, HOST)))
        for name in ATTRIBUTES:
            got, expected = getattr(model, name), getattr(theirs, name)
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6, err_msg=name)
    with pytest.raises(TypeError, match="sparse"):
        PCA(svd_solver="full").fit_batch(SparseBatch(X, HOST))


def test_the_rule_of_auto():
    assert choose_solver(1_000_000, 500, 10) == "covariance_eigh"
    assert choose_solver(50_000, 5_000, 10) == "covariance_eigh"
    assert choose_solver(60_000, 6_000, 10) == "randomized"
    assert choose_solver(60_000, 6_000, 0.9) == "full"
    assert choose_solver(100, 80, 10) == "full"
    assert choose_solver(900, 50_000, 10) == "full"
    assert choose_solver(5_000, 4_000, 10) == "randomized"
    assert choose_solver(5_000, 4_000, 3_900) == "full"
    assert choose_solver(5_000, 4_000, None) == "full"
    assert choose_solver(5_000, 4_000, "mle") == "full"


def test_names_frames_copies_and_pickles(rng):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows(rng, p=3), columns=["a", "b", "c"])
    model = PCA(2).set_output(transform="pandas")
    Z = model.fit_transform(X)
    assert list(Z.columns) == ["pca0", "pca1"]
    assert list(model.get_feature_names_out()) == ["pca0", "pca1"]
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    arpack = PCA(2, svd_solver="arpack").set_output(transform="pandas").fit_transform(X)
    assert list(arpack.columns) == ["pca0", "pca1"]
    np.testing.assert_allclose(pickle.loads(pickle.dumps(model)).transform(X), Z)
    assert not hasattr(clone(model), "components_")


def test_rows_are_not_written_to(rng):
    X = rows(rng)
    before = X.copy()
    for solver in (*EXACT, "randomized"):
        PCA(2, svd_solver=solver, copy=False).fit_transform(X)
        np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("solver", ["full", "covariance_eigh"])
@pytest.mark.parametrize("scale", [1e-155, 1e-200, 1e-300])
def test_values_whose_squares_vanish(library, rng, solver, scale):
    X = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 5)) + 0.5
    expected = PCA(3, svd_solver=solver).fit(X)
    found = PCA(3, svd_solver=solver).fit(library.asarray(X * scale))
    singular, components = map(library.to_numpy, (found.singular_values_, found.components_))
    np.testing.assert_allclose(singular / scale, expected.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(components, expected.components_, atol=1e-9)


def test_scores_without_variance_and_components_are_those_of_sklearn():
    X = np.ones((20, 4))
    ours = PCA(0).fit(X)
    assert np.isnan(ours.score(X))
    assert np.isnan(ours.score_samples(X)).all()
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = sk.PCA(0).fit(X).get_precision()
    np.testing.assert_array_equal(ours.get_precision(), expected)


def test_a_singular_covariance_has_an_inverse_with_a_warning(library):
    """In every library, whether or not its inverse raises."""
    eye = library.asarray(np.eye(3))
    with pytest.warns(RuntimeWarning, match="singular"):
        inverse = library.to_numpy(_inverted(library.asarray(np.diag([4.0, 0.0, 1.0])), eye))
    np.testing.assert_allclose(np.diag(inverse)[[0, 2]], [0.25, 1.0])
    assert 1e14 < inverse[1, 1] < np.inf
    constant = library.asarray(np.zeros((5, 2)))
    with pytest.raises(np.linalg.LinAlgError, match="is 0"):
        PCA().fit(constant).get_precision()


@pytest.mark.parametrize("mean", [0.0, 3.0, 1e3])
@pytest.mark.parametrize("size", [1.0, 1e-25, 1e17])
def test_float32_rows_have_components_that_their_digits_allow(rng, mean, size):
    """Whatever their mean and scale, next to those of the same rows in float64."""
    rows = rng.normal(size=(3000, 8)) * np.logspace(0, -1.5, 8) + mean
    rows = np.asarray(rows * size, dtype=np.float32)
    exact = sk.PCA(svd_solver="full").fit(rows / np.float64(size))
    found = PCA(svd_solver="covariance_eigh").fit(rows)
    variance = (found.singular_values_ / np.float64(size)) ** 2 / (len(rows) - 1)
    np.testing.assert_allclose(variance, exact.explained_variance_, rtol=2e-5)
    turned = np.abs(np.sum(found.components_ * exact.components_, axis=1))
    np.testing.assert_allclose(turned, 1.0, rtol=1e-6)


@pytest.mark.parametrize("wanted", ["mle", 0.5, 2, np.int32(2), None], ids=repr)
def test_numbers_of_components_are_of_scikit_learns_type(wanted, library, rng):
    X = rng.normal(size=(60, 5))
    found = PCA(wanted).fit(library.asarray(X)).n_components_
    expected = sk.PCA(wanted).fit(X).n_components_
    assert type(found) is type(expected)
    assert found == expected


def test_equal_variances_have_no_number_of_greatest_likelihood():
    X = np.concatenate([np.eye(4), -np.eye(4)])
    with pytest.raises(ValueError, match="variances that differ"):
        PCA("mle").fit(X)
