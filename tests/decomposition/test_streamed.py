"""PCA and TruncatedSVD of what is read block by block: files, packed codes, users' objects."""

import pickle
import tracemalloc

import numpy as np
import pytest
import sklearn.decomposition as sk
from sklearn.exceptions import NotFittedError

import gpuml
from gpuml.decomposition import PCA, IncrementalPCA, TruncatedSVD
from gpuml.encodings import open_bed, pack
from gpuml.reading import sources

SHAPES = {"tall": (400, 30), "wide": (30, 400)}
CHUNKS = {"of rows": (7, None), "of columns": (None, 7), "of both": (17, 13)}
FITTED = ("explained_variance_", "explained_variance_ratio_", "singular_values_")
# Products of integers of 8 bits, and of codes, are float32.
RTOL = {1: 2e-5, 2: 1e-6, 4: 1e-6, 8: 1e-6}
K = 4


def pca(**settings):
    settings = {"iterated_power": 12, "random_state": 0, **settings}
    return PCA(K, svd_solver="compressed", **settings)


def truncated(**settings):
    settings = {"n_iter": 12, "random_state": 0, **settings}
    return TruncatedSVD(K, algorithm="compressed", **settings)


def decaying(rng, shape, dtype="f8"):
    """Rows whose singular values fall by a half from one to the next, in numbers of a dtype."""
    n, p = shape
    r = min(n, p)
    left, right = (np.linalg.qr(rng.normal(size=(size, r)))[0] for size in (n, p))
    X = (left * 0.5 ** np.arange(r)) @ right.T
    X *= 100 / np.abs(X).max()
    X += 110 if np.dtype(dtype).kind == "u" else 5
    return np.round(X).astype(dtype) if np.dtype(dtype).kind in "iu" else X.astype(dtype)


class Rows:
    """Anything that has rows to give."""

    def __init__(self, a):
        self.a, self.shape, self.dtype = a, a.shape, a.dtype

    def __getitem__(self, rows):
        return self.a[rows]


def zarr_of(X, folder, chunks=None):
    """Stored in three by three chunks of which the last ones are smaller, or in given ones."""
    zarr = pytest.importorskip("zarr")
    chunks = chunks or tuple(size // 3 + 1 for size in X.shape)
    chunks = tuple(size or whole for size, whole in zip(chunks, X.shape, strict=True))
    path = str(folder / "X.zarr")
    zarr.create_array(path, shape=X.shape, chunks=chunks, dtype=X.dtype)[:] = X
    return zarr.open_array(path, mode="r")


def mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


MAKERS = {"zarr": zarr_of, "memmap": mapped, "rows": lambda X, folder: Rows(X)}
kinds = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
models = pytest.mark.parametrize("model", [pca, truncated])


@pytest.fixture(autouse=True)
def small_blocks():
    with gpuml.config_context(block_bytes=2000):
        yield


def agree(ours, theirs, rtol, names=FITTED):
    assert ours.components_.dtype == np.float64
    cosines = np.sum(ours.components_ * theirs.components_, axis=1)
    np.testing.assert_allclose(cosines, 1.0, atol=rtol)
    np.testing.assert_allclose(ours.components_ @ ours.components_.T, np.eye(K), atol=1e-9)
    for name in names:
        found, wanted = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(found, wanted, rtol=10 * rtol, err_msg=name)


# ---------------------------------------------------------------- agreement with scikit-learn


@pytest.mark.each
@kinds
@shapes
@pytest.mark.parametrize(  # whitening is of results, which have one dtype
    ("dtype", "whiten"),
    [
        *[("f8", False), ("f8", True), ("i1", True), ("u1", False), ("i2", True), ("i4", False)],
        *[(">f8", True), (">i2", False)],
    ],
)
def test_pca_agrees_with_scikit_learn_s(tmp_path, rng, make, shape, dtype, whiten):
    X = decaying(rng, shape, dtype)
    stored = make(X, tmp_path)
    rtol = RTOL[X.dtype.itemsize]
    theirs = sk.PCA(K, svd_solver="full", whiten=whiten).fit(X)
    ours = pca(whiten=whiten).fit(stored)
    agree(ours, theirs, rtol)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-3)
    names = ("n_samples_", "n_features_in_", "n_components_")
    assert all(getattr(ours, name) == getattr(theirs, name) for name in names)
    expected = theirs.transform(X)
    tol = 1e4 * rtol * (1.0 if whiten else abs(expected).max() / 100)
    for found in (ours.transform(stored), pca(whiten=whiten).fit_transform(stored)):
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, expected, atol=tol)


@pytest.mark.pairwise
@kinds
@shapes
@pytest.mark.parametrize("dtype", ["f8", "i1", "i2"])
def test_truncated_svd_agrees_with_scikit_learn_s(tmp_path, rng, make, shape, dtype):
    X = decaying(rng, shape, dtype)
    stored = make(X, tmp_path)
    rtol = RTOL[X.dtype.itemsize]
    theirs = sk.TruncatedSVD(K, algorithm="arpack", random_state=0).fit(X.astype(float))
    signs = np.sign(theirs.components_[np.arange(K), abs(theirs.components_).argmax(axis=1)])
    theirs.components_ *= signs[:, None]
    ours = truncated().fit(stored)
    agree(ours, theirs, rtol)
    expected = theirs.transform(X)
    for found in (ours.transform(stored), truncated().fit_transform(stored)):
        np.testing.assert_allclose(found, expected, atol=1e2 * rtol * abs(expected).max())


@pytest.mark.exhaustive
@pytest.mark.each
@models
@shapes
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_chunks_make_no_difference(tmp_path, rng, monkeypatch, model, shape, chunks):
    monkeypatch.setattr(sources, "LARGE_BLOCK_BYTES", 2000)
    X = decaying(rng, shape)
    stored = zarr_of(X, tmp_path, chunks)
    found, expected = model().fit(stored), model().fit(X)
    agree(found, expected, 1e-9)
    np.testing.assert_allclose(found.transform(stored), expected.transform(X), atol=1e-8)


@models
@kinds
def test_float32_stays_float32(tmp_path, rng, model, make):
    X = decaying(rng, (400, 30), "f4")
    stored = make(X, tmp_path)
    fitted, expected = model().fit(stored), model().fit(X)
    for found, wanted in [
        (fitted.components_, expected.components_),
        (fitted.singular_values_, expected.singular_values_),
        (fitted.transform(stored), expected.transform(X)),
    ]:
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.pairwise
@shapes
@kinds
@pytest.mark.parametrize("whiten", [False, True])
def test_scores(tmp_path, rng, shape, make, whiten):
    X = decaying(rng, shape)
    stored = make(X, tmp_path)
    theirs = sk.PCA(K, svd_solver="full", whiten=whiten).fit(X)
    ours = pca(whiten=whiten).fit(stored)
    scores = ours.score_samples(stored)
    np.testing.assert_allclose(scores, theirs.score_samples(X), rtol=1e-6)
    assert ours.score(stored) == pytest.approx(theirs.score(X))


def test_scores_of_all_components_and_of_none_left_out(tmp_path, rng):
    X = decaying(rng, (60, 6)) + rng.normal(size=(60, 6))
    theirs = sk.PCA(svd_solver="full").fit(X)
    ours = PCA(6, svd_solver="compressed", random_state=0).fit(Rows(X))
    np.testing.assert_allclose(ours.score_samples(Rows(X)), theirs.score_samples(X), rtol=1e-8)
    flat = np.outer(X[:, 0], X[0])
    degenerate = PCA(2, svd_solver="compressed", random_state=0).fit(Rows(flat))
    degenerate.noise_variance_ = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        degenerate.score(Rows(flat))


# ---------------------------------------------------------------- codes


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def genotypes(request, rng):
    """Codes 0, 1, 2 and -1 for missing, and what they count as."""
    n, p = request.param
    shares = rng.uniform(0.05, 0.95, size=(5, p))
    codes = rng.binomial(2, shares[np.arange(n) % 5]).astype(np.int8)
    codes[rng.random(codes.shape) < 0.05] = -1
    values = np.where(codes < 0, np.nan, codes)
    return codes, np.where(codes < 0, np.nanmean(values, axis=0), values)


def bed_of(codes, folder):
    """The same codes in a file of PLINK, whose numbers for 0, 1, 2 and missing are 3, 2, 0 and 1."""
    n, p = codes.shape
    theirs = np.array([3, 2, 0, 1], dtype=np.uint8)[codes].T
    theirs = np.pad(theirs, ((0, 0), (0, -n % 4))).reshape(p, -1, 4)
    data = (theirs << np.arange(0, 8, 2, dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    (folder / "a.bed").write_bytes(bytes([0x6C, 0x1B, 1]) + data.tobytes())
    (folder / "a.fam").write_text("f i 0 0 0 -9\n" * n)
    (folder / "a.bim").write_text("1 r 0 1 A C\n" * p)
    return open_bed(folder / "a.bed")


CODES = {
    "Packed": lambda codes, folder: pack(codes),
    "BedFile": bed_of,
    "by rows": lambda codes, folder: Rows(pack(codes)),
}
codes_of = pytest.mark.parametrize("make", CODES.values(), ids=CODES)


@pytest.mark.each
@codes_of
def test_missing_codes_are_the_mean_of_their_feature(tmp_path, genotypes, make):
    codes, values = genotypes
    stored = make(codes, tmp_path)
    for model in (pca(iterated_power=40), truncated().set_params(n_iter=40)):
        found, expected = model.fit(stored), type(model)(**model.get_params()).fit(values)
        for name in ("components_", *FITTED):
            np.testing.assert_allclose(
                getattr(found, name), getattr(expected, name), rtol=2e-3, atol=2e-3, err_msg=name
            )
        np.testing.assert_allclose(found.transform(stored), found.transform(values), atol=1e-8)
        again = pickle.loads(pickle.dumps(found))
        np.testing.assert_array_equal(again.transform(stored), found.transform(stored))
        if hasattr(model, "score"):
            np.testing.assert_allclose(
                model.score_samples(stored), model.score_samples(values), rtol=1e-8
            )


@codes_of
def test_features_that_are_all_missing_are_zeros(tmp_path, genotypes, make):
    codes, _ = genotypes
    codes[:, 3] = -1
    found = pca().fit(make(codes, tmp_path))
    assert found.mean_[3] == 0
    assert np.abs(found.components_[:, 3]).max() < 1e-6


def test_missing_values_that_nothing_is_known_of(rng):
    codes = rng.integers(0, 3, size=(50, 12))
    model = truncated().fit(pack(codes))
    codes[7, 3] = -1
    with pytest.raises(ValueError, match="NaN"):
        model.transform(pack(codes))
    assert np.isfinite(truncated().fit(pack(codes)).transform(pack(codes))).all()
    # Means of an earlier fit are not those of a later one.
    model.fit(pack(codes)).fit(np.abs(codes))
    with pytest.raises(ValueError, match="NaN"):
        model.transform(pack(codes))


def test_codes_give_what_arrays_give_where_none_is_missing(rng):
    codes = rng.binomial(2, rng.uniform(0.1, 0.9, size=(5, 30))[np.arange(400) % 5])
    found, expected = pca().fit(pack(codes)), sk.PCA(K, svd_solver="full").fit(codes)
    agree(found, expected, 2e-5)


# ---------------------------------------------------------------- integers in memory


@pytest.mark.pairwise
@models
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "bool"])
def test_integers_of_every_library(library, rng, model, dtype):
    X = decaying(rng, (100, 12)) > 5 if dtype == "bool" else decaying(rng, (100, 12), "u1") // 2
    X = X.astype(dtype)
    ours = model()
    images = ours.fit_transform(library.asarray(X))
    expected = model().fit(X.astype("float64"))
    tol = 2e-4 if X.itemsize == 1 else 1e-8
    for name in ("components_", *FITTED):
        found = library.to_numpy(getattr(ours, name))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, getattr(expected, name), rtol=tol, atol=tol, err_msg=name)
    wanted = expected.transform(X.astype("float64"))
    scale = np.abs(wanted).max()
    for found in (images, ours.transform(library.asarray(X))):
        assert type(found) is type(library.asarray(X))
        assert str(found.dtype).endswith("float64")
        np.testing.assert_allclose(library.to_numpy(found), wanted, atol=10 * tol * scale)


# ---------------------------------------------------------------- memory


def peak(function, *args):
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.each
@models
@pytest.mark.parametrize("make", [zarr_of, mapped])
@pytest.mark.parametrize("dtype", ["f4", "i1"])
@pytest.mark.parametrize("shape", [(10_000, 400), (400, 10_000)], ids=["tall", "wide"])
def test_memory_is_that_of_blocks(tmp_path, rng, model, make, dtype, shape):
    X = rng.integers(-100, 100, size=shape).astype(dtype)
    stored = make(X, tmp_path) if make is mapped else make(X, tmp_path, (400, 400))
    as_doubles = 8 * X.size
    with gpuml.config_context(block_bytes=2**18):
        fitted = model(**{"iterated_power" if model is pca else "n_iter": 1})
        methods = [fitted.fit, fitted.transform, fitted.fit_transform]
        if shape[0] > shape[1] and hasattr(fitted, "score"):
            methods.append(fitted.score)
        for method in methods:
            # Thin matrices have 20 columns of the shorter side's 400, and there are a few.
            assert peak(method, stored) < 0.55 * as_doubles, method.__name__


# ---------------------------------------------------------------- what is wrong


@pytest.mark.pairwise
@models
@kinds
@shapes
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(tmp_path, rng, model, make, shape, value):
    X = decaying(rng, shape)
    fitted = model().fit(X)
    components = fitted.components_
    X[7, 23] = value
    stored = make(X, tmp_path)
    what = "NaN" if np.isnan(value) else "infinity"
    for method in (fitted.fit, fitted.fit_transform, fitted.transform):
        with pytest.raises(ValueError, match=f"Input X contains {what}"):
            method(stored)
    with pytest.raises(ValueError, match="Column 23 has such values"):
        fitted.fit(stored)
    if hasattr(fitted, "score"):
        with pytest.raises(ValueError, match=f"Input X contains {what}"):
            fitted.score(stored)
    assert fitted.components_ is components


@models
@kinds
def test_squares_that_overflow_are_told(tmp_path, rng, model, make):
    with pytest.raises(ValueError, match="overflow"):
        model().fit(make(decaying(rng, (50, 12)) * 1e200, tmp_path))


@models
@kinds
def test_features_are_checked(tmp_path, rng, model, make):
    X = decaying(rng, (50, 12))
    fitted = model().fit(make(X, tmp_path))
    assert fitted.n_features_in_ == 12
    for method in (fitted.transform, getattr(fitted, "score", fitted.transform)):
        with pytest.raises(ValueError, match="X has 11 features, but"):
            method(Rows(X[:, 1:]))
    with pytest.raises(NotFittedError):
        model().transform(Rows(X))


@kinds
def test_sizes_that_cannot_be(tmp_path, rng, make):
    X = decaying(rng, (50, 12))
    with pytest.raises(ValueError, match="minimum of 2"):
        pca().fit(make(X[:1], tmp_path))
    with pytest.raises(ValueError, match="minimum of 2"):
        truncated().fit(Rows(X[:, :1]))
    with pytest.raises(ValueError, match="n_components=13"):
        pca().set_params(n_components=13).fit(Rows(X))


def test_names_of_columns_go_when_a_file_is_fitted(rng):
    pd = pytest.importorskip("pandas")
    X = decaying(rng, (50, 12))
    model = pca().fit(pd.DataFrame(X, columns=[f"c{j}" for j in range(12)]))
    with pytest.warns(UserWarning, match="feature names"):
        model.transform(Rows(X))
    assert not hasattr(model.fit(Rows(X)), "feature_names_in_")
    frame = model.set_output(transform="pandas").transform(Rows(X))
    assert list(frame.columns) == ["pca0", "pca1", "pca2", "pca3"]


# ---------------------------------------------------------------- other solvers


@pytest.mark.parametrize(
    "model", [PCA(K, svd_solver="full"), TruncatedSVD(K), IncrementalPCA(K)], ids=lambda m: str(m)
)
def test_other_solvers_bring_files_to_memory_and_transform_block_by_block(tmp_path, rng, model):
    X = decaying(rng, (400, 30))
    stored = zarr_of(X, tmp_path)
    expected = model.fit_transform(X)
    np.testing.assert_allclose(model.fit(stored).transform(stored), expected, atol=1e-8)
    with pytest.raises(ValueError, match="svd_solver='compressed'"):
        model.fit(Rows(X))


@pytest.mark.parametrize("solver", ["full", "compressed"])
def test_three_axes_are_refused(tmp_path, rng, solver):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(str(tmp_path / "X"), shape=(4, 4, 4), dtype="f8")
    with pytest.raises(ValueError, match="dim 3"):
        PCA(2, svd_solver=solver).fit(stored)
