"""Laws of moments, factors and kernels: what they describe, and that they add."""

from dataclasses import replace

import numpy as np
import pytest

from gpuml._arrays import HOST, place_of
from gpuml._arrays.ops import solve_shifted, solve_spd
from gpuml.data import Batch, cut, row_indices, take
from gpuml.solvers import _blocks
from gpuml.solvers._gpu_grams import GpuRows
from gpuml.solvers.factors import atom_factors, centred_rows
from gpuml.solvers.moments import atom_moments, normal_equations, to_origin


def make_batch(library, rng, n=300, p=5, t=2, dtype="float64", mean=0.0):
    X = rng.normal(mean, 1, size=(n, p)).astype(dtype)
    y, w = rng.normal(size=(n, t)).astype(dtype), rng.uniform(0, 2, size=n).astype(dtype)
    X_lib, y_lib, w_lib = (library.asarray(a) for a in (X, y, w))
    place = place_of(X_lib)
    return Batch(X_lib, y_lib, w_lib, place, place), X, y, w


def exact(X, y, w):
    Z = np.c_[X, y, np.ones(len(X))].astype("float64")
    return (Z * w[:, None].astype("float64")).T @ Z


ATOMS = (slice(0, 100), np.arange(299, 150, -2), np.arange(150, 300, 2), slice(100, 150))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mean", [0.0, 500.0])
def test_moments_are_what_they_say(library, rng, dtype, mean):
    batch, X, y, w = make_batch(library, rng, dtype=dtype, mean=mean)
    moments = atom_moments(batch, ATOMS)
    origin = library.to_numpy(to_origin(moments))
    for atom, found in zip(ATOMS, origin, strict=True):
        rows = row_indices(atom)
        np.testing.assert_allclose(found, exact(X[rows], y[rows], w[rows]), rtol=1e-11, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("far", [(), (0,), (0, 1, 2, 3, 4)], ids=["near", "one far", "far"])
def test_rows_that_are_not_copied_have_the_same_moments(library, rng, far, order, dtype):
    batch, X, y, _ = make_batch(library, rng, dtype=dtype)
    X[:, list(far)] += 500.0
    X[:50, 1] += 30.0  # of the first atom alone, whose shift is its own
    batch = replace(batch, X=library.asarray(np.asarray(X, order=order)), weight=None)
    moments, counts = atom_moments(batch, ATOMS), np.array([[1, 0, 2, 1], [0, 1, 0, 3]])
    assert not far or np.any(library.to_numpy(moments.shift))
    sums = [exact(X[rows], y[rows], np.ones(len(rows))) for rows in map(row_indices, ATOMS)]
    for found, expected in (
        (moments, np.stack(sums)),
        (moments.combine(counts), np.einsum("sa,aij->sij", counts, sums)),
    ):
        origin = library.to_numpy(to_origin(found))
        np.testing.assert_allclose(origin, expected, rtol=1e-11, atol=1e-7)


@pytest.mark.parametrize("wild", [1e20, 3.0])
def test_shifts_of_an_atom_follow_its_own_rows(wild):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.normal(size=(400, 1))
    atoms = (slice(0, 200), slice(200, 400))
    first = atom_moments(Batch(X, y, None, HOST, HOST), atoms)
    X[200:], y[200:] = wild, wild
    other = atom_moments(Batch(X, y, None, HOST, HOST), atoms)
    for name in ("gram", "shift"):
        np.testing.assert_array_equal(getattr(first, name)[0], getattr(other, name)[0])


def test_moments_of_two_halves_add_up_to_those_of_the_whole(library, rng):
    batch, *_ = make_batch(library, rng)
    halves = atom_moments(batch, (slice(0, 120), slice(120, 300)))
    whole = atom_moments(batch, (slice(0, 300),))
    expected = library.to_numpy(to_origin(whole))
    for count in (1, 2):
        summed = library.to_numpy(to_origin(halves.combine(np.full((1, 2), count))))
        np.testing.assert_allclose(summed, count * expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mean", [0.0, 500.0])
def test_products_of_two_targets_may_be_left_out(library, rng, mean, order, weighted):
    batch, _, y, _ = make_batch(library, rng, mean=mean, t=3)
    y = library.asarray(np.asarray(y, order=order))
    batch = replace(batch, y=y, weight=batch.weight if weighted else None)
    whole, apart = (
        library.to_numpy(to_origin(atom_moments(replace(batch, targets_apart=flag), ATOMS)))
        for flag in (False, True)
    )
    needed = np.ones(whole.shape[1:], dtype=bool)
    needed[5:8, 5:8] = np.eye(3)
    np.testing.assert_allclose(apart[:, needed], whole[:, needed], rtol=1e-12, atol=1e-10)


def test_sums_of_one_atom_each_are_the_atoms(library, rng):
    batch, *_ = make_batch(library, rng)
    moments = atom_moments(batch, ATOMS)
    assert moments.combine(np.eye(4)) is moments
    turned = moments.combine(np.eye(4)[[3, 2, 1, 0]])
    for name in ("gram", "shift"):
        found, own = (library.to_numpy(getattr(each, name)) for each in (turned, moments))
        np.testing.assert_allclose(found, own[::-1], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_factors_describe_the_same_normal_equations(library, rng, fit_intercept):
    batch, *_ = make_batch(library, rng, mean=3.0)
    counts = np.array([1, 0, 2, 1])
    normal = normal_equations(atom_moments(batch, ATOMS).combine(counts[None]), fit_intercept)
    factors = atom_factors(batch, ATOMS)
    rows = centred_rows(factors.stack(counts), fit_intercept)
    A, b = library.to_numpy(rows.A), library.to_numpy(rows.b)
    np.testing.assert_allclose(A.T @ A, library.to_numpy(normal.xx)[0], rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(A.T @ b, library.to_numpy(normal.xy)[0], rtol=1e-11, atol=1e-9)
    x_mean = library.to_numpy(normal.x_mean)[0]
    np.testing.assert_allclose(library.to_numpy(rows.x_mean), x_mean, rtol=1e-12, atol=1e-12)


def test_block_size_does_not_change_the_sums(library, rng):
    batch, *_ = make_batch(library, rng)
    whole = library.to_numpy(atom_moments(batch, ATOMS).gram)
    for block_bytes in (1, 500, 5000):
        blocks = library.to_numpy(atom_moments(batch, ATOMS, block_bytes=block_bytes).gram)
        np.testing.assert_allclose(blocks, whole, rtol=1e-12, atol=1e-10)


@pytest.mark.bits
def test_threads_do_not_change_a_bit(rng, monkeypatch):
    from gpuml.testing import array_libraries

    numpy_library = array_libraries()[0].values[0]
    batch, *_ = make_batch(numpy_library, rng, n=200_000, p=40)
    monkeypatch.setattr(_blocks, "blas_threads", lambda: 2)
    two = atom_moments(batch, (slice(0, 200_000),)).gram
    monkeypatch.setattr(_blocks, "blas_threads", lambda: 5)
    np.testing.assert_array_equal(two, atom_moments(batch, (slice(0, 200_000),)).gram)


def test_progress_counts_every_row(library, rng):
    batch, *_ = make_batch(library, rng)
    seen = []
    atom_moments(batch, ATOMS, block_bytes=2000, advance=seen.append)
    assert sum(seen) == sum(len(row_indices(atom)) for atom in ATOMS)
    # A GPU sums the rows that it has in one launch.
    at_once = GpuRows(batch.X, batch.y, batch.weight, batch.work).can_be_read
    assert len(seen) == 1 if at_once else len(seen) > len(ATOMS)


def test_solve_spd_tells_the_condition(library, rng):
    Q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    scales = 10.0 ** np.linspace(-5, 5, 6)
    B = rng.normal(size=(2, 6, 3))
    A = np.stack([(Q * np.array([1.0, 2, 3, 4, 5, low])) @ Q.T for low in (1.0, 1e-9)])
    scaled = A * scales[:, None] * scales
    A_lib, B_lib = library.asarray(scaled), library.asarray(B)
    X, condition = (library.to_numpy(a) for a in solve_spd(A_lib, B_lib, place_of(A_lib).xp))
    assert condition[0] < 100 < 1e7 < condition[1]
    expected = np.linalg.solve(A[0], B[0] / scales[:, None]) / scales[:, None]
    np.testing.assert_allclose(X[0], expected, rtol=1e-11)
    singular = library.asarray(np.zeros((1, 6, 6)))
    _, condition = solve_spd(singular, B_lib[:1, ...], place_of(A_lib).xp)
    assert not np.isfinite(library.to_numpy(condition)).any()


def test_rows_are_cut_and_taken(library):
    X = np.arange(40.0).reshape(20, 2)
    X_lib = library.asarray(X)
    xp = place_of(X_lib).xp
    for rows in (slice(3, 17), (slice(0, 4), slice(9, 20)), np.array([5, 1, 1, 19])):
        np.testing.assert_array_equal(library.to_numpy(take(X_lib, rows, xp)), X[row_indices(rows)])
        pieces = [row_indices(piece) for piece in cut(rows, 3)]
        assert max(map(len, pieces)) <= 3
        np.testing.assert_array_equal(np.concatenate(pieces), row_indices(rows))


@pytest.mark.parametrize("p", [5, 150])
def test_shifted_systems_are_those_solved_one_by_one(library, rng, p):
    Z = rng.normal(size=(3, 2 * p, p)) * np.logspace(-3, 3, p)
    M = np.swapaxes(Z, -1, -2) @ Z
    M[2, :, 1], M[2, 1, :] = M[2, :, 0], M[2, 0, :]  # singular
    shifts, B = np.array([0.0, 1e-3, 1.0, 1e3]), rng.normal(size=(3, p, 2))
    M_lib, B_lib = library.asarray(M), library.asarray(B)
    alone = [solve_spd(M + shift * np.eye(p), B, np) for shift in shifts]
    for enough in (0.0, 1e9):
        found = solve_shifted(M_lib, shifts, B_lib, place_of(M_lib).xp, enough)
        X, condition = (library.to_numpy(a) for a in found)
        assert (~(condition[:, 2] <= 1e12)).tolist() == [True, False, False, False]
        for i, (expected, exact) in enumerate(alone):
            fine = exact < 1e12
            np.testing.assert_allclose(X[i][fine], expected[fine], rtol=1e-6, atol=1e-12)
            assert (condition[i] > 0.2 * exact)[fine].all()
    # Where that of the smallest shift will do, it stands for all.
    _, condition = solve_shifted(M_lib[:2, ...], shifts, B_lib[:2, ...], place_of(M_lib).xp, 1e9)
    condition = library.to_numpy(condition)
    assert (condition >= [[0.2 * exact[i] for i in range(2)] for _, exact in alone]).all()


def test_conditions_fall_as_shifts_rise(rng):
    Z = rng.normal(size=(20, 30, 12)) * np.logspace(-4, 4, 12)
    M = np.swapaxes(Z, -1, -2) @ Z
    found = []
    for shift in (0.0, 1e-4, 1.0, 1e4):
        A = M + shift * np.eye(12)
        scale = 1 / np.sqrt(np.diagonal(A, axis1=-2, axis2=-1))
        found.append(np.linalg.cond(A * scale[:, :, None] * scale[:, None, :]))
    assert (np.diff(found, axis=0) <= 1e-6 * np.asarray(found[:-1])).all()
