"""Components from moments, rows, random blocks and batches: exact answers, and one another."""

import numpy as np
import pytest
from scipy import sparse

import gpuml.solvers._subspace as subspace
import gpuml.solvers.randomized as randomized
from gpuml._arrays import namespace, place_of
from gpuml.data import Batch
from gpuml.solvers._blocks import Blocks
from gpuml.solvers.components import (
    from_moments,
    from_products,
    from_rows,
    leading_eigh,
    with_signs,
)
from gpuml.solvers.factors import Stacked, atom_factors
from gpuml.solvers.incremental import extend
from gpuml.solvers.moments import atom_moments
from gpuml.solvers.randomized import (
    DenseRows,
    SparseRows,
    dense_sums,
    randomized_svd,
    sparse_products,
    sparse_sums,
)


def known(rng, n, p, singular, mean=0.0):
    """Rows whose centred singular values and right singular vectors are known."""
    r = len(singular)
    left = rng.normal(size=(n, r))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    right = np.linalg.qr(rng.normal(size=(p, r)))[0].T
    return left * singular @ right + mean, signed(right)


def signed(vectors):
    largest = np.abs(vectors).argmax(axis=1)
    return vectors * np.sign(vectors[np.arange(len(vectors)), largest])[:, None]


def batch_of(library, X):
    X = library.asarray(X)
    place = place_of(X)
    y = place.xp.zeros((X.shape[0], 0), dtype=X.dtype, device=place.device)
    return Batch(X, y, None, place, place)


def whole(batch):
    return (slice(0, batch.n_rows),)


@pytest.mark.each
@pytest.mark.parametrize("shape", [(200, 12), (15, 12), (12, 15), (8, 40)])
def test_known_components_are_found(library, rng, shape):
    n, p = shape
    singular = np.array([9.0, 5.0, 2.0, 1.0])
    X, right = known(rng, n, p, singular, mean=3.0)
    batch = batch_of(library, X)
    factors = atom_factors(batch, whole(batch))
    for found in (
        from_moments(atom_moments(batch, whole(batch)), 4, centred=True),
        from_rows([factors.stack(np.ones(1))], (n,), n),
    ):
        vectors, values, total, mean = map(
            library.to_numpy, (found.vectors, found.singular, found.total, found.mean)
        )
        np.testing.assert_allclose(values[0, :4], singular, rtol=1e-9)
        np.testing.assert_allclose(vectors[0, :4], right, atol=1e-9)
        np.testing.assert_allclose(total, [np.sum(singular**2)], rtol=1e-9)
        np.testing.assert_allclose(mean[0], X.mean(axis=0), rtol=1e-9)


def test_without_the_mean_removed_they_are_singular_vectors_of_the_rows(library, rng):
    X = rng.normal(2, 1, size=(60, 7))
    batch = batch_of(library, X)
    found = from_moments(atom_moments(batch, whole(batch)), 3, centred=False)
    _, singular, right = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(library.to_numpy(found.singular)[0], singular[:3], rtol=1e-9)
    np.testing.assert_allclose(library.to_numpy(found.vectors)[0], signed(right[:3]), atol=1e-9)
    np.testing.assert_array_equal(library.to_numpy(found.mean), np.zeros((1, 7)))


def test_rows_keep_the_digits_that_moments_lose(library, rng):
    singular = 10.0 ** -np.arange(0, 10, 3)
    X, right = known(rng, 100, 6, singular)
    batch = batch_of(library, X)
    factors = atom_factors(batch, whole(batch))
    found = from_rows([factors.stack(np.ones(1))], (100,), 100)
    np.testing.assert_allclose(library.to_numpy(found.singular)[0, :4], singular, rtol=1e-6)
    np.testing.assert_allclose(library.to_numpy(found.vectors)[0, :4], right, atol=1e-6)


def test_parts_with_fewer_rows_end_in_zeros(library, rng):
    X = rng.normal(size=(9, 6))
    ones = np.ones((9, 1))
    Z = library.asarray(np.hstack([X, ones]))
    xp = namespace(Z)
    shift = xp.zeros((6,), dtype=xp.float64, device=place_of(Z).device)
    found = from_rows([Stacked(rows, shift, 6) for rows in (Z, Z[:4, :])], (9, 4), 9)
    vectors, singular = library.to_numpy(found.vectors), library.to_numpy(found.singular)
    for s, n in enumerate((9, 4)):
        expected = np.linalg.svd(X[:n] - X[:n].mean(axis=0), full_matrices=False)[1]
        np.testing.assert_allclose(singular[s, : len(expected)], expected, atol=1e-9)
    np.testing.assert_array_equal(vectors[1, 4:], 0)
    np.testing.assert_array_equal(singular[1, 4:], 0)


@pytest.mark.parametrize("shape", [(20, 60), (60, 24)])
@pytest.mark.parametrize("lowest", [0.5, 1e-7])
def test_a_few_components_are_the_first_of_all(library, rng, shape, lowest):
    # As digits are kept where products of rows would lose them, so are those of few components.
    n, p = shape
    X, _ = known(rng, n, p, np.r_[np.linspace(1, 0.6, 3), np.geomspace(lowest, lowest / 10, 9)])
    batch = batch_of(library, X)
    stacked = [atom_factors(batch, whole(batch)).stack(np.ones(1))]
    few, every = (from_rows(stacked, (n,), count) for count in (4, min(n, p)))
    for name in ("singular", "vectors"):
        some, all_of_them = (library.to_numpy(getattr(found, name)) for found in (few, every))
        assert some.shape[1] == 4
        np.testing.assert_allclose(some, all_of_them[:, :4], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(library.to_numpy(few.singular)[0, 3], lowest, rtol=1e-6)
    np.testing.assert_allclose(*(library.to_numpy(f.total) for f in (few, every)), rtol=1e-12)


def test_a_row_that_counts_twice_is_described_once(rng):
    X = rng.normal(size=(3, 8))
    Z = np.hstack([X, np.ones((3, 1))]) * np.sqrt(2)
    found = from_rows([Stacked(Z, np.zeros(8), 8)], (6,), 8)
    expected = np.linalg.svd(np.repeat(X - X.mean(axis=0), 2, axis=0), full_matrices=False)[1]
    np.testing.assert_allclose(found.singular[0], expected, atol=1e-9)
    assert found.vectors.shape == (1, 6, 8)


@pytest.mark.parametrize("n_leading", [1, 4, 30, 60])
def test_some_eigenpairs_are_the_first_of_all(library, rng, n_leading):
    A = np.stack([(a := rng.normal(size=(80, 60))).T @ a for _ in range(2)])
    values, vectors = leading_eigh(library.asarray(A), n_leading, namespace(library.asarray(A)))
    values, vectors = library.to_numpy(values), library.to_numpy(vectors)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[:, ::-1][:, :n_leading], rtol=1e-9)
    np.testing.assert_allclose(A @ vectors.mT, vectors.mT * values[:, None, :], atol=1e-9 * A.max())


# ---------------------------------------------------------------- iteration


def spectrum(kind, p):
    return {
        "gap": np.r_[np.linspace(20, 10, 5), np.ones(p - 5)],
        "decay": 1.0 / np.arange(1, p + 1),
        "steep": 10.0 ** -np.minimum(np.arange(p), 30.0),
        "low rank": np.r_[3.0, 2.0, np.zeros(p - 2)],
        "huge": 1e200 * np.r_[5.0, 4, 3, 2.5, 2.2, np.ones(p - 5)],
        "zero": np.zeros(p),
    }[kind]


@pytest.mark.parametrize("kind", ["gap", "decay", "steep", "low rank", "huge", "zero"])
def test_iteration_finds_what_a_full_decomposition_finds(library, rng, kind):
    p, k = 120, 5
    turns = [np.linalg.qr(rng.normal(size=(p, p)))[0] for _ in range(2)]
    values = spectrum(kind, p)
    A = np.stack([(Q * values) @ Q.T for Q in turns])
    A = (A + A.mT) / 2
    matrices = library.asarray(A)
    found = subspace.leading_by_iteration(matrices, k, namespace(matrices))
    assert found is not None
    got, vectors = map(library.to_numpy, found)
    scale = values[0] or 1.0
    np.testing.assert_allclose(got / scale, np.tile(values[:k] / scale, (2, 1)), atol=1e-12)
    residual = A @ vectors.mT - vectors.mT * got[:, None, :]
    assert np.abs(residual / scale).max() <= 1e-12
    gram = vectors @ vectors.mT
    np.testing.assert_allclose(gram, np.tile(np.eye(k), (2, 1, 1)), atol=1e-12)


def test_iteration_gives_up_where_there_is_no_gap_and_all_are_found(library, rng):
    p, k = 300, 4
    Q = np.linalg.qr(rng.normal(size=(p, p)))[0]
    values = 1 + 1e-4 * np.linspace(1, 0, p)
    A = library.asarray(((Q * values) @ Q.T)[None])
    xp = namespace(A)
    assert subspace.leading_by_iteration(A, k, xp) is None
    got, vectors = leading_eigh(A, k, xp)
    np.testing.assert_allclose(library.to_numpy(got)[0], values[:k], rtol=1e-12)
    np.testing.assert_allclose(
        np.abs(library.to_numpy(vectors)[0] @ Q)[:, :k], np.eye(k), atol=1e-6
    )


def test_iteration_costs_few_products_where_there_is_a_gap(rng, monkeypatch):
    degrees = []
    filtered = subspace._filtered

    def counted(A, V, bound, degree, xp):
        degrees.append(degree)
        return filtered(A, V, bound, degree, xp)

    monkeypatch.setattr(subspace, "_filtered", counted)
    Q = np.linalg.qr(rng.normal(size=(200, 200)))[0]
    A = ((Q * spectrum("gap", 200)) @ Q.T)[None]
    assert subspace.leading_by_iteration(A, 5, namespace(A)) is not None
    assert sum(degrees) <= 30


def test_the_largest_entry_is_positive_and_the_first_of_equals_decides(library):
    vectors = np.array([[[-1.0, 1.0, 0.5], [0.5, -2.0, 1.0], [0.0, 0.0, 0.0]]])
    got = library.to_numpy(
        with_signs(library.asarray(vectors), namespace(library.asarray(vectors)))
    )
    np.testing.assert_array_equal(got[0, 0], [1.0, -1.0, -0.5])
    np.testing.assert_array_equal(got[0, 1], [-0.5, 2.0, -1.0])


# ---------------------------------------------------------------- random blocks


@pytest.mark.parametrize("shape", [(90, 20), (20, 90)])
@pytest.mark.parametrize("block_bytes", [None, 8 * 40 * 7])
def test_random_blocks_find_known_components(library, rng, shape, block_bytes):
    singular = np.array([9.0, 5.0, 2.0, 0.01, 0.001])
    X, right = known(rng, *shape, singular, mean=4.0)
    batch = batch_of(library, X)
    sums = dense_sums(batch, block_bytes)
    rows = DenseRows(batch, sums.mean, sums.mean, block_bytes)
    got = randomized_svd(rows, 3, 5, "auto", np.random.RandomState(0))
    values, vectors, images = map(library.to_numpy, got)
    np.testing.assert_allclose(values, singular[:3], rtol=1e-9)
    np.testing.assert_allclose(vectors, right[:3], atol=1e-9)
    np.testing.assert_allclose(images, (X - X.mean(axis=0)) @ right[:3].T, atol=1e-8)
    np.testing.assert_allclose(library.to_numpy(sums.mean), X.mean(axis=0))
    np.testing.assert_allclose(float(sums.total), np.sum(singular**2))


@pytest.mark.parametrize("shape", [(90, 20), (20, 90)])
def test_few_rows_are_read_once_for_all_products(library, rng, shape, monkeypatch):
    X, _ = known(rng, *shape, np.array([9.0, 5.0, 2.0, 0.01, 0.001]), mean=4.0)
    batch, read, seen, found = batch_of(library, X), Blocks.read, [], []
    monkeypatch.setattr(Blocks, "read", lambda *args: seen.append(1) or read(*args))
    sums = dense_sums(batch)
    for bound in (randomized.HELD_BYTES, 0):
        monkeypatch.setattr(randomized, "HELD_BYTES", bound)
        seen.clear()
        rows = DenseRows(batch, sums.mean, sums.mean)
        found.append(randomized_svd(rows, 3, 5, "auto", np.random.RandomState(0)))
        assert len(seen) == 1 or not bound
    for once, again in zip(*found, strict=True):
        np.testing.assert_array_equal(library.to_numpy(once), library.to_numpy(again))


@pytest.mark.parametrize("shape", [(90, 20), (20, 90)])
def test_sparse_rows_are_as_dense_ones(rng, shape):
    X = sparse.random_array(shape, density=0.2, format="csr", rng=rng)
    dense = X.toarray()
    sums = sparse_sums(X)
    centred = dense - dense.mean(axis=0)
    np.testing.assert_allclose(sums.mean, dense.mean(axis=0))
    np.testing.assert_allclose(sums.total, np.sum(centred**2))
    np.testing.assert_allclose(sparse_products(X, sums.mean), centred.T @ centred, atol=1e-12)
    rows = SparseRows(X, sums.mean, sums.mean)
    Q, P = rng.normal(size=(shape[1], 3)), rng.normal(size=(shape[0], 3))
    np.testing.assert_allclose(rows.times(Q), centred @ Q, atol=1e-12)
    np.testing.assert_allclose(rows.transposed_times(P), centred.T @ P, atol=1e-12)
    singular, vectors, _ = randomized_svd(rows, 20, 10, 7, np.random.RandomState(0))
    exact = from_products((centred.T @ centred)[None], sums.mean[None], 20)
    np.testing.assert_allclose(singular, exact.singular[0], atol=1e-6)
    np.testing.assert_allclose(vectors[:5], exact.vectors[0, :5], atol=1e-6)


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("sizes", [(40,), (10, 30), (5, 1, 20, 14)])
def test_batches_are_as_all_rows_where_nothing_is_dropped(library, rng, sizes):
    X = rng.normal(3, 1, size=(40, 5))
    seen, start = None, 0
    for size in sizes:
        seen = extend(seen, library.asarray(X[start : start + size]))
        start += size
    expected = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    assert seen.n_rows == 40
    np.testing.assert_allclose(library.to_numpy(seen.mean), X.mean(axis=0))
    np.testing.assert_allclose(library.to_numpy(seen.variance), X.var(axis=0))
    np.testing.assert_allclose(library.to_numpy(seen.singular), expected[1])
    np.testing.assert_allclose(library.to_numpy(seen.vectors), signed(expected[2]), atol=1e-9)
