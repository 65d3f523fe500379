"""Principal components of genotypes as population genetics has them, against scikit-allel's.

The genotypes were simulated by msprime and written by bed-reader: data/make_three_populations.py.
"""

from pathlib import Path

import numpy as np
import pytest

from gpuml.decomposition import PCA
from gpuml.encodings import open_bed, pack
from gpuml.linalg import svd_compressed

PATH = Path(__file__).parent / "data" / "three_populations.bed"
N_SAMPLES, N_VARIANTS = 130, 1200
MISSING = -127
# Three populations differ in two directions.
K = 2
# Enough for what is compared with a whole decomposition: the third value is 0.66 of the second.
CONVERGED = {"n_power_iter": 20, "random_state": 0}


@pytest.fixture(scope="module")
def genotypes():
    """Samples by variants, int8: counts of A1, read from the bytes as PLINK's page says."""
    data = np.fromfile(PATH, dtype=np.uint8)[3:].reshape(N_VARIANTS, -1)
    low, high = np.moveaxis(np.unpackbits(data, axis=1, bitorder="little").reshape(-1, 2), 1, 0)
    counts = np.array([2, MISSING, 1, 0], dtype=np.int8)[2 * high + low]
    return counts.reshape(N_VARIANTS, -1)[:, :N_SAMPLES].T


@pytest.fixture(scope="module")
def populations():
    """The population of each sample."""
    return np.loadtxt(PATH.with_suffix(".fam"), dtype=str, usecols=0)


@pytest.fixture(scope="module")
def filled(genotypes):
    """float64, missing genotypes as the mean of their variant."""
    values = np.where(genotypes == MISSING, np.nan, genotypes.astype(float))
    return np.where(np.isnan(values), np.nanmean(values, axis=0), values)


@pytest.fixture(scope="module")
def standardised(filled):
    """As Patterson, Price and Reich (2006) have it."""
    share = filled.mean(axis=0) / 2
    return (filled - 2 * share) / np.sqrt(share * (1 - share))


@pytest.fixture(scope="module")
def expected(standardised):
    """The whole decomposition."""
    return np.linalg.svd(standardised, full_matrices=False)


def matrices(genotypes):
    """The same genotypes in every form that takes missing ones."""
    return {"bed": open_bed(PATH), "codes": pack(genotypes), "4 bits": pack(genotypes, bits=4)}


def patterson(a, k=K, **settings):
    return svd_compressed(a, k, center=True, scale="patterson", **{**CONVERGED, **settings})


def assert_same_up_to_sign(ours, theirs, atol):
    """Columns."""
    signs = np.sign(np.sum(ours * theirs, axis=0))
    np.testing.assert_allclose(ours * signs, theirs, atol=atol * np.abs(theirs).max())


def shares_between(coordinates, populations):
    """Of the variance of each column, what lies between the populations."""
    within = sum(
        np.sum(populations == name) * coordinates[populations == name].var(axis=0)
        for name in np.unique(populations)
    )
    return 1 - within / (len(populations) * coordinates.var(axis=0))


@pytest.mark.parametrize("kind", ["bed", "codes", "4 bits"])
@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-6), (None, 1e-4)])
def test_components_are_those_of_a_whole_decomposition(genotypes, expected, kind, dtype, atol):
    u, s, v = patterson(matrices(genotypes)[kind], dtype=dtype)
    np.testing.assert_allclose(s, expected[1][:K], rtol=atol)
    assert_same_up_to_sign(u * s, expected[0][:, :K] * expected[1][:K], atol)
    assert_same_up_to_sign(v.T, expected[2][:K].T, atol)
    # Sines of the angles between the spaces of samples.
    outside = u - expected[0][:, :K] @ (expected[0][:, :K].T @ u)
    assert np.linalg.norm(outside, 2) < atol


@pytest.mark.parametrize("kind", ["bed", "codes"])
def test_two_steps_are_enough_to_see_populations(genotypes, populations, kind):
    u, s, _ = patterson(matrices(genotypes)[kind], k=3, n_power_iter=2)
    coordinates = u * s
    shares = shares_between(coordinates, populations)
    assert (shares[:2] > 0.9).all()
    assert shares[2] < 0.1
    # C split off first, and A and B from each other later.
    means = {name: coordinates[populations == name].mean(axis=0) for name in "ABC"}
    assert abs(means["A"][0] - means["B"][0]) < 0.1 * abs(means["A"][0] - means["C"][0])
    assert abs(means["A"][1] - means["B"][1]) > 5 * coordinates[populations == "A", 1].std()
    nearest = [min(means, key=lambda name: np.sum((x - means[name])[:2] ** 2)) for x in coordinates]
    assert nearest == populations.tolist()


def test_errors_that_are_estimated_hold(genotypes, expected):
    for steps in (0, 2):
        result, error = patterson(pack(genotypes), 6, n_power_iter=steps, return_error=True)
        nearest = np.abs(result.s[:, None] - expected[1]).min(axis=1)
        assert (nearest <= error.singular_values).all()
        approximation = (result.u * result.s) @ result.v
        whole = (expected[0] * expected[1]) @ expected[2]
        assert np.linalg.norm(whole - approximation, 2) <= error.norm


@pytest.mark.parametrize("chunks", [(-1, 400), (50, 300), (33, -1)], ids=str)
def test_workers_find_the_same_in_the_file(chunks):
    da = pytest.importorskip("dask.array", reason="needs gpuml[dask]")
    linalg = pytest.importorskip("gpuml_dask.linalg", reason="needs gpuml[dask]")
    bed = open_bed(PATH)
    x = da.from_array(bed, chunks=chunks, asarray=False)
    found = linalg.svd_compressed(x, K, n_power_iter=2, seed=0, center=True, scale="patterson")
    expected = patterson(bed, n_power_iter=2)
    for ours, theirs in zip(found, expected, strict=True):
        ours = ours.compute(scheduler="sync")
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())


def test_pca_of_standardised_genotypes_has_the_same_coordinates(standardised, expected):
    pca = PCA(K, svd_solver="compressed", random_state=0, iterated_power=20)
    found = pca.fit_transform(standardised)
    assert_same_up_to_sign(found, expected[0][:, :K] * expected[1][:K], 1e-6)
    ratio = expected[1][:K] ** 2 / np.sum(expected[1] ** 2)
    np.testing.assert_allclose(pca.explained_variance_ratio_, ratio, rtol=1e-6)


def test_every_library_finds_the_same_populations(library, genotypes, populations):
    if not library.name.startswith(("numpy", "cupy")):
        pytest.skip("codes are NumPy's or CuPy's")
    packed = pack(genotypes)
    u, s, _ = patterson(packed.of(library.asarray(packed.data)), n_power_iter=2)
    coordinates = library.to_numpy(u) * library.to_numpy(s)
    assert (shares_between(coordinates, populations) > 0.9).all()


# ---------------------------------------------------------------- against others


def test_bed_reader_reads_the_same_genotypes(genotypes, populations):
    bed_reader = pytest.importorskip("bed_reader", reason="needs bed-reader")
    with bed_reader.open_bed(PATH) as bed:
        np.testing.assert_array_equal(bed.read(dtype="int8"), genotypes)
    ours = open_bed(PATH)
    assert ours.samples["fid"].tolist() == populations.tolist()
    assert ours.variants["sid"].tolist() == [f"v{i}" for i in range(N_VARIANTS)]
    values = ours[:].decode(float)
    np.testing.assert_array_equal(np.where(np.isnan(values), MISSING, values), genotypes)


@pytest.mark.parametrize("kind", ["bed", "codes"])
def test_coordinates_are_those_of_scikit_allel(genotypes, filled, kind):
    allel = pytest.importorskip("allel", reason="needs scikit-allel")
    # It has variants as rows, and takes no missing genotypes.
    theirs, model = allel.pca(filled.T.copy(), n_components=K, scaler="patterson")
    u, s, v = patterson(matrices(genotypes)[kind], dtype="float64")
    assert_same_up_to_sign(u * s, theirs, 1e-6)
    assert_same_up_to_sign(v.T, model.components_.T, 1e-6)
    np.testing.assert_allclose(s**2 / N_SAMPLES, model.explained_variance_, rtol=1e-6)
