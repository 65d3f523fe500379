"""`gpuml.linalg.svd_compressed` against known spectra, and the laws it obeys."""

from contextlib import suppress

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import gpuml
from gpuml.encodings import pack
from gpuml.linalg import svd_compressed
from gpuml.solvers.compressed import TooSmall

K = 5
SPECTRA = {
    "geometric": 0.7 ** np.arange(40),
    "slow": (1.0 + np.arange(40)) ** -0.5,
    "clustered": np.repeat([10.0, 1.0, 0.1, 0.01], 10) * (1 + 1e-3 * np.arange(40)[::-1]),
    "flat": np.ones(40),
    "steep": 10.0 ** -np.arange(0, 12, 0.3),
    "rank 3": np.r_[3.0, 2.0, 1.0, np.zeros(37)],
}
SHAPES = {"tall": (300, 40), "wide": (40, 300), "square": (40, 40)}


def with_spectrum(values, shape, rng):
    """A matrix with known singular values, and its vectors."""
    n, p = shape
    u = np.linalg.qr(rng.normal(size=(n, len(values))))[0]
    v = np.linalg.qr(rng.normal(size=(p, len(values))))[0].T
    order = np.argsort(values)[::-1]
    return (u * values) @ v, u[:, order], values[order], v[order]


def cosines(a, b):
    """Of the angles between the subspaces that orthonormal rows span."""
    return np.linalg.svd(a @ b.T, compute_uv=False)


@pytest.fixture
def matrix(rng):
    """Rows with a decaying spectrum."""
    return with_spectrum(SPECTRA["geometric"], (300, 40), rng)[0]


# ---------------------------------------------------------------- what it finds


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", SPECTRA)
def test_singular_values_are_within_the_bound_of_the_method(name, shape, rng):
    a, _, values, _ = with_spectrum(SPECTRA[name], shape, rng)
    q, extra = 4, 10
    u, s, v = svd_compressed(a, K, q, extra, random_state=0)
    # Halko, Martinsson and Tropp (2011), Corollary 10.10, with their q: A (A'A)^q.
    power = 2 * q + 1
    rest = np.sum(values[K:] ** (2 * power)) ** 0.5
    bound = (
        (1 + (K / (extra - 1)) ** 0.5) * values[K] ** power
        + np.e * (K + extra) ** 0.5 / extra * rest
    ) ** (1 / power)
    error = np.linalg.norm(a - (u * s) @ v, 2)
    assert error <= bound * (1 + 1e-9) + 1e-13 * values[0]
    # Of all approximations of that rank the best one leaves the next singular value.
    assert error >= values[K] * (1 - 1e-9) - 1e-13 * values[0]
    assert (s <= values[:K] * (1 + 1e-12) + 1e-13 * values[0]).all()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", ["geometric", "steep", "rank 3"])
def test_where_the_spectrum_falls_results_are_those_of_a_whole_svd(name, shape, rng):
    a, left, values, right = with_spectrum(SPECTRA[name], shape, rng)
    u, s, v = svd_compressed(a, K, 6, random_state=0)
    np.testing.assert_allclose(s, values[:K], rtol=1e-7, atol=1e-13 * values[0])
    rank = int(np.count_nonzero(values[:K]))
    assert cosines(v[:rank], right[:rank]).min() > 1 - 1e-7
    assert cosines(u.T[:rank], left.T[:rank]).min() > 1 - 1e-7


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("n_power_iter", [0, 2])
def test_vectors_are_orthonormal(name, shape, rng, n_power_iter):
    a = with_spectrum(SPECTRA[name], shape, rng)[0]
    u, s, v = svd_compressed(a, K, n_power_iter, random_state=0)
    assert u.shape == (shape[0], K)
    assert s.shape == (K,)
    assert v.shape == (K, shape[1])
    np.testing.assert_allclose(u.T @ u, np.eye(K), atol=1e-9)
    np.testing.assert_allclose(v @ v.T, np.eye(K), atol=1e-9)
    assert (np.diff(s) <= 0).all()


def test_small_singular_values_are_found_however_large_the_first_one_is(rng):
    values = np.r_[1.0, 1e-4, 1e-8, 1e-10, 1e-11, np.zeros(35)]
    a = with_spectrum(values, (200, 40), rng)[0]
    for n_power_iter in (0, 2):
        s = svd_compressed(a, 5, n_power_iter, random_state=0).s
        np.testing.assert_allclose(s, values[:5], rtol=1e-3, atol=1e-15)


def test_power_iterations_and_more_vectors_reduce_the_error(rng):
    a = with_spectrum(SPECTRA["slow"], (300, 40), rng)[0]

    def error(**settings):
        u, s, v = svd_compressed(a, K, random_state=0, **settings)
        return np.linalg.norm(a - (u * s) @ v)

    by_steps = [error(n_power_iter=q, n_oversamples=2) for q in (0, 1, 3)]
    by_width = [error(n_power_iter=0, n_oversamples=s) for s in (0, 5, 20)]
    assert by_steps == sorted(by_steps, reverse=True)
    assert by_width == sorted(by_width, reverse=True)


def test_all_vectors_give_all_of_the_matrix(matrix):
    u, s, v = svd_compressed(matrix, 40, random_state=0)
    np.testing.assert_allclose((u * s) @ v, matrix, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("q", [0, 1, 2])
def test_a_step_is_worth_as_much_as_dasks(rng, q):
    da = pytest.importorskip("dask.array")
    a = with_spectrum(SPECTRA["slow"], (300, 40), rng)[0]

    def error(u, s, v):
        return np.linalg.norm(a - (u * s) @ v)

    ours = [error(*svd_compressed(a, K, q, random_state=seed)) for seed in range(20)]
    theirs = [
        error(*(np.asarray(x) for x in _theirs(da.from_array(a, chunks=(100, -1)), q, seed)))
        for seed in range(20)
    ]
    assert np.mean(ours) < np.mean(theirs) * 1.02


def _theirs(a, q, seed):
    import dask
    from dask.array.linalg import svd_compressed as theirs

    return dask.compute(*theirs(a, K, n_power_iter=q, seed=seed), scheduler="sync")


# ---------------------------------------------------------------- standardising


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("center", [False, True, "array"])
@pytest.mark.parametrize("scale", [None, "std", "array"])
def test_centring_and_scaling_are_those_of_the_matrix_itself(shape, center, scale, rng):
    a = rng.normal(size=shape) @ np.diag(0.99 ** np.arange(shape[1])) + 3.0
    a[:, 3] = 2.0
    mean, std = a.mean(axis=0), a.std(axis=0)
    std[3] = 1.0
    if center == "array":
        center = mean + rng.normal(size=shape[1])
    if scale == "array":
        scale = rng.uniform(1, 2, size=shape[1])
    middle = {False: 0.0, True: mean}[center] if isinstance(center, bool) else center
    by = 1.0 if scale is None else std if isinstance(scale, str) else scale
    expected = np.linalg.svd((a - middle) / by, compute_uv=False)[:K]
    s = svd_compressed(a, K, 12, 20, random_state=0, center=center, scale=scale).s
    np.testing.assert_allclose(s, expected, rtol=1e-6)


def test_means_far_from_zero_cost_no_digits(rng):
    a = with_spectrum(SPECTRA["geometric"], (300, 40), rng)[0]
    a -= a.mean(axis=0)
    expected = np.linalg.svd(a, compute_uv=False)[:K]
    s = svd_compressed(a + 1e6, K, 6, random_state=0, center=True).s
    np.testing.assert_allclose(s, expected, rtol=1e-8)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_genotypes_are_standardised_as_patterson_has_it(shape, rng):
    a = rng.binomial(2, rng.uniform(0.1, 0.9, size=shape[1]), size=shape).astype(np.uint8)
    mean = a.mean(axis=0)
    expected = (a - mean) / np.sqrt(mean / 2 * (1 - mean / 2))
    expected = np.linalg.svd(expected, compute_uv=False)[:K]
    for x in (a, pack(a)):
        s = svd_compressed(
            x, K, 15, 20, random_state=0, center=True, scale="patterson", dtype="float64"
        ).s
        np.testing.assert_allclose(s, expected, rtol=1e-6)


# ---------------------------------------------------------------- codes


@pytest.fixture
def genotypes(rng):
    """Genotypes of three populations, and the same with missing ones."""
    shares = rng.uniform(0.05, 0.95, size=(3, 60))
    a = rng.binomial(2, shares[np.arange(200) % 3]).astype(np.int8)
    missing = a.copy()
    missing[rng.random(a.shape) < 0.05] = -1
    return a, missing


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_codes_give_what_their_values_give(genotypes, bits, center, dtype):
    a, _ = genotypes
    codes = svd_compressed(pack(a, bits), 3, random_state=0, center=center, dtype=dtype)
    plain = svd_compressed(a.astype(dtype), 3, random_state=0, center=center, dtype=dtype)
    for ours, theirs in zip(codes, plain, strict=True):
        assert str(ours.dtype) == dtype
        rtol = 1e-9 if dtype == "float64" else 2e-4
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * abs(theirs).max())


@pytest.mark.parametrize("bits", [2, 8])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [None, "std", "patterson"])
def test_missing_codes_count_as_the_mean_of_their_column(genotypes, bits, center, scale):
    _, a = genotypes
    values = np.where(a < 0, np.nan, a.astype(float))
    mean = np.nanmean(values, axis=0)
    by = {"std": np.nanstd(values, axis=0), "patterson": np.sqrt(mean / 2 * (1 - mean / 2))}
    filled = np.where(np.isnan(values), mean, values)
    filled = (filled - (mean if center else 0.0)) / by.get(scale, 1.0)
    expected = np.linalg.svd(filled, compute_uv=False)[:3]
    found = svd_compressed(
        pack(a, bits), 3, 12, 20, random_state=0, center=center, scale=scale, dtype="float64"
    )
    np.testing.assert_allclose(found.s, expected, rtol=1e-7)
    np.testing.assert_allclose((found.u.T @ filled), found.s[:, None] * found.v, atol=1e-6)


# ---------------------------------------------------------------- where data is, and how it is read


def test_every_library_gets_its_own_arrays_back(library, matrix):
    settings = {"random_state": 0, "center": True, "scale": "std"}
    expected = svd_compressed(matrix, K, **settings)
    found = svd_compressed(library.asarray(matrix), K, **settings)
    for ours, theirs in zip(found, expected, strict=True):
        assert type(ours) is type(library.asarray(matrix))
        np.testing.assert_allclose(library.to_numpy(ours), theirs, atol=1e-9)


def test_packed_codes_on_every_library(library, genotypes):
    if not library.name.startswith(("numpy", "cupy")):
        pytest.skip("codes are NumPy's or CuPy's")
    _, a = genotypes
    packed = pack(a)
    found = svd_compressed(packed.of(library.asarray(packed.data)), 3, random_state=0, center=True)
    expected = svd_compressed(packed, 3, random_state=0, center=True, dtype="float64")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(library.to_numpy(ours), theirs, atol=1e-3 * abs(theirs).max())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("center", [False, True])
def test_blocks_make_no_difference(shape, center, rng):
    a = with_spectrum(SPECTRA["slow"], shape, rng)[0]
    whole = svd_compressed(a, K, random_state=0, center=center)
    with gpuml.config_context(block_bytes=2000):
        parts = svd_compressed(a, K, random_state=0, center=center)
    for ours, theirs in zip(parts, whole, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


@pytest.mark.bits
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_files_give_what_arrays_give(tmp_path, shape, rng):
    a = with_spectrum(SPECTRA["slow"], shape, rng)[0]
    np.save(tmp_path / "a.npy", a)
    with gpuml.config_context(block_bytes=2000):
        found = svd_compressed(np.load(tmp_path / "a.npy", mmap_mode="r"), K, random_state=0)
        expected = svd_compressed(a, K, random_state=0)
    for ours, theirs in zip(found, expected, strict=True):
        assert type(ours) is np.ndarray
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_zarr_arrays(tmp_path, shape, rng):
    zarr = pytest.importorskip("zarr")
    a = with_spectrum(SPECTRA["slow"], shape, rng)[0]
    stored = zarr.create_array(str(tmp_path / "a.zarr"), shape=shape, chunks=(17, 13), dtype="f8")
    stored[:] = a
    with gpuml.config_context(block_bytes=2000):
        found = svd_compressed(stored, K, random_state=0)
    expected = svd_compressed(a, K, random_state=0)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


class Rows:
    """Anything that has rows to give, and counts how many of them it gave."""

    def __init__(self, a):
        self.a, self.shape, self.dtype, self.given = a, a.shape, a.dtype, 0

    def __getitem__(self, rows):
        self.given += rows.stop - rows.start
        return self.a[rows]


@pytest.mark.parametrize("shape", [(50, 8), (8, 50), (2, 2)])
def test_a_matrix_of_zeros(library, shape):
    (u, s, v), error = svd_compressed(
        library.asarray(np.zeros(shape)), 2, random_state=0, return_error=True
    )
    u, s, v = map(library.to_numpy, (u, s, v))
    np.testing.assert_array_equal(s, 0.0)
    np.testing.assert_allclose(u.T @ u, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(v @ v.T, np.eye(2), atol=1e-12)
    assert error.frobenius == error.norm == 0
    np.testing.assert_array_equal(error.singular_values, 0.0)


@pytest.mark.pairwise
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    ("scale", "dtype", "words"),
    [
        *((1e200, "float64", "too large"), (1e-200, "float64", "too small")),
        *((1e-159, "float64", "too small"), (1e30, "float32", "too large")),
        (1e-30, "float32", "too small"),
    ],
)
def test_squares_that_no_number_holds_are_told(library, rng, shape, scale, dtype, words):
    a = (rng.normal(size=shape) * scale).astype(dtype)
    with pytest.raises(ValueError, match=words):
        svd_compressed(library.asarray(a), K, random_state=0)


@pytest.mark.parametrize("exponent", range(-25, -15))
def test_small_squares_of_float32_are_right_or_told(matrix, exponent):
    a = (matrix * 10.0**exponent).astype("float32")
    with suppress(TooSmall):
        found = svd_compressed(a, K, random_state=0)
        expected = svd_compressed(matrix, K, random_state=0)
        np.testing.assert_allclose(found.s / 10.0**exponent, expected.s, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-30, 1e-21, 1e-12, 1e12, 1e30])
def test_small_and_large_numbers_of_float32_are_for_float64(matrix, scale):
    found = svd_compressed((matrix * scale).astype("float32"), K, random_state=0, dtype="float64")
    expected = svd_compressed(matrix, K, random_state=0)
    np.testing.assert_allclose(found.s / scale, expected.s, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [1e-9, 0.1, 1e9])
def test_rounding_of_a_constant_is_not_taken_for_small_numbers(value, dtype):
    a = np.full((300, 40), value, dtype=dtype)
    s = svd_compressed(a, 2, random_state=0, center=True).s
    assert (s <= 1e-5 * value * a.size).all()
    packed = pack(np.ones((300, 40), dtype=int))
    s = svd_compressed(packed, 2, random_state=0, center=True, dtype=dtype).s
    assert (s <= 1e-2).all()


@pytest.mark.parametrize("center", ["mean", None, [1.0, 2.0], {}])
def test_centres_that_are_none(matrix, center):
    with pytest.raises(ValueError, match="center must"):
        svd_compressed(matrix, K, center=center)


@pytest.mark.parametrize("q", [0, 1, 3])
def test_a_power_step_reads_the_rows_once(matrix, q):
    rows = Rows(matrix)
    with gpuml.config_context(block_bytes=5000):
        s = svd_compressed(rows, K, q, random_state=0).s
    assert rows.given == 1 + (q + 1) * len(matrix)  # and one row, to see what rows are like
    expected = svd_compressed(matrix, K, q, random_state=0)
    np.testing.assert_allclose(s, expected.s, rtol=1e-10)


def test_the_user_s_blocks_may_be_packed(genotypes):
    _, a = genotypes
    packed = pack(a)
    found = svd_compressed(Rows(packed), 3, random_state=0)
    np.testing.assert_allclose(found.s, svd_compressed(packed, 3, random_state=0).s, rtol=1e-5)


def test_rows_that_come_in_another_shape_are_an_error(matrix):
    rows = Rows(matrix)
    rows.shape = (400, 40)
    with pytest.raises(ValueError, match="block of shape"):
        svd_compressed(rows, K)


# ---------------------------------------------------------------- random numbers and signs


@pytest.mark.bits
def test_the_same_seed_gives_the_same_bits(matrix):
    first = svd_compressed(matrix, K, random_state=3)
    again = svd_compressed(matrix, K, random_state=np.random.RandomState(3))
    other = svd_compressed(matrix, K, 0, random_state=4)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not (first.s == other.s).all()


def test_a_generator_gives_the_numbers(matrix):
    first, again = (
        svd_compressed(matrix, K, random_state=np.random.default_rng(3)) for _ in range(2)
    )
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


def test_signs_are_those_that_dask_chooses(matrix):
    u, s, v = svd_compressed(matrix, K, random_state=0)
    assert (v.sum(axis=1) >= 0).all()
    mine = svd_compressed(matrix, K, random_state=0, coerce_signs=False)
    np.testing.assert_allclose((u * s) @ v, (mine.u * mine.s) @ mine.v, atol=1e-12)


# ---------------------------------------------------------------- how good it is


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("q", [0, 2])
def test_the_error_is_no_larger_than_its_estimate(name, shape, rng, q):
    a, _, values, _ = with_spectrum(SPECTRA[name], shape, rng)
    (u, s, v), error = svd_compressed(a, K, q, random_state=0, return_error=True)
    noise = 1e-13 * values[0]
    nearest = np.abs(s[:, None] - values).min(axis=1)
    assert (nearest <= error.singular_values + noise).all()
    missed = a - (u * s) @ v
    true = np.linalg.norm(missed, 2)
    assert true <= error.norm + noise
    assert error.norm <= 60 * true + 100 * noise
    frobenius = np.linalg.norm(missed)
    assert frobenius / 2 - noise <= error.frobenius <= 2 * frobenius + 100 * noise


def test_errors_of_rounding_are_counted(rng):
    a = with_spectrum(SPECTRA["geometric"], (300, 40), rng)[0]
    exact = np.linalg.svd(a, compute_uv=False)[:K]
    (_, s, _), error = svd_compressed(a.astype("float32"), K, 20, random_state=0, return_error=True)
    assert (error.singular_values > 0).all()
    assert (np.abs(s - exact) <= error.singular_values).all()
    assert (error.singular_values < 1e-5).all()


def test_estimates_of_what_is_converged_are_small(rng):
    a = with_spectrum(0.5 ** np.arange(40), (300, 40), rng)[0]
    _, error = svd_compressed(a, K, 6, random_state=0, return_error=True)
    assert (error.singular_values < 1e-9).all()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"k": 0}, ValueError, "k must be at least 1"),
        ({"k": 41}, ValueError, "at most 40"),
        ({"k": 2.5}, TypeError, "k must be an integer"),
        ({"k": True}, TypeError, "k must be an integer"),
        ({"n_power_iter": -1}, ValueError, "n_power_iter"),
        ({"n_oversamples": -1}, ValueError, "n_oversamples"),
        ({"n_oversamples": "ten"}, TypeError, "n_oversamples"),
        ({"random_state": "seed"}, ValueError, "seed"),
        ({"center": np.zeros(3)}, ValueError, "center must have one number"),
        ({"center": "mean"}, ValueError, "could not convert|center"),
        ({"scale": "range"}, ValueError, "'patterson'"),
        ({"scale": np.zeros(40)}, ValueError, "zeros"),
        ({"scale": np.full(40, np.nan)}, ValueError, "NaN"),
        ({"scale": "patterson"}, ValueError, "alleles"),
        ({"dtype": "float16"}, ValueError, "dtype must be one of"),
        ({"a": np.zeros(5)}, ValueError, "2 dimensions"),
        ({"a": np.zeros((2, 3, 4))}, ValueError, "2 dimensions"),
        ({"a": np.zeros((0, 4))}, ValueError, "at least one row"),
        ({"a": np.array([["a", "b"], ["c", "d"]])}, TypeError, "real numbers"),
        ({"a": np.ones((4, 4), dtype=complex)}, TypeError, "real numbers"),
        ({"a": csr_matrix(np.eye(4))}, TypeError, "Sparse"),
        ({"a": "numbers.zarr"}, TypeError, "zarr.open_array"),
        ({"a": None}, (TypeError, ValueError), "2 dimensions|real numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(matrix, changes, kind, words):
    with pytest.raises(kind, match=words):
        svd_compressed(**{"a": matrix, "k": 2, **changes})


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_not_finite_is_refused(value, center, shape, rng):
    a = rng.normal(size=shape)
    a[-1, 2] = value
    with pytest.raises(ValueError, match="NaN, infinity|NaN or infinity"):
        svd_compressed(a, 2, center=center)


def test_dask_arrays_are_for_gpuml_dask(matrix):
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="gpuml_dask"):
        svd_compressed(da.from_array(matrix), 2)


def test_frames_and_lists_are_matrices(matrix):
    pd = pytest.importorskip("pandas")
    expected = svd_compressed(matrix, K, random_state=0)
    others = np.ma.array(matrix), np.asfortranarray(matrix), matrix.astype(">f8")
    for same in (pd.DataFrame(matrix), matrix.tolist(), *others):
        found = svd_compressed(same, K, random_state=0)
        np.testing.assert_allclose(found.s, expected.s, rtol=1e-12)
        assert type(found.u) is np.ndarray
