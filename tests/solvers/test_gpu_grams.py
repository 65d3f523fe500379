"""Sums over rows by the kernels of a GPU are those of NumPy, for any rows, dtypes and atoms."""

import numpy as np
import pytest

from gpuml._arrays import place_of, to_host
from gpuml.data import Batch, row_indices
from gpuml.solvers import _gpu_grams
from gpuml.solvers._gpu_grams import GpuRows
from gpuml.solvers.moments import atom_moments
from gpuml.solvers.shifts import atom_shifts

pytestmark = pytest.mark.gpu

# Columns that fill strips and panels, nearly fill them, and have targets on both sides of an edge.
SHAPES = [
    *((353, 3, 1), (1000, 10, 1), (4000, 31, 1), (2000, 63, 2), (5000, 100, 1), (777, 127, 1)),
    *((3000, 120, 20), (2000, 128, 5), (2500, 250, 12), (900, 190, 30), (40, 1, 0), (300, 5, 25)),
]
DTYPES = [
    *(("float32", "float32", None), ("float64", "float32", "float64")),
    *(("float32", "float64", "float32"), ("float64", "float64", None)),
]
CASES = list(zip(SHAPES, 3 * DTYPES, strict=True))


def _rows(n, p, t, dtypes):
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(n)
    X, y, w = rng.normal(3.0, 1.0, (n, p)), rng.normal(-1.0, 2.0, (n, t)), rng.uniform(0, 2, n)
    X, y, w = (
        None if dtype is None else cupy.asarray(a.astype(dtype))
        for a, dtype in zip((X, y, w), dtypes, strict=True)
    )
    return GpuRows(X, y, w, place_of(X))


def _atoms(n):
    """Slices, every third row and several runs, and lists in both memories beside no rows."""
    cupy = pytest.importorskip("cupy")
    some = np.random.default_rng(0).permutation(n)
    return [
        (slice(0, n),),
        (slice(0, n // 3), slice(n // 3, n)),
        (slice(0, n, 3), (slice(1, n // 2), slice(n // 2 + 3, n))),
        (cupy.asarray(some[: n // 2]), some[n // 2 :], slice(0, 0)),
    ]


def _by_numpy(rows, atom, shift):
    own = row_indices(atom)
    Z = np.ones((len(own), rows.n_columns))
    Z[:, : len(shift)] = np.concatenate([to_host(rows.X)[own], to_host(rows.y)[own]], axis=1)
    Z[:, : len(shift)] -= shift
    w = np.ones(len(own)) if rows.weight is None else to_host(rows.weight)[own].astype(float)
    return Z, w


@pytest.mark.parametrize(("shape", "dtypes"), CASES)
def test_products_are_those_of_numpy(shape, dtypes):
    rows, n = _rows(*shape, dtypes), shape[0]
    assert rows.can_be_read
    for atoms in _atoms(n):
        batch = Batch(rows.X, rows.y, rows.weight, rows.place, rows.place)
        shifts = atom_shifts(batch, atoms)
        found = to_host(rows.grams(atoms, shifts))
        assert (found == found.swapaxes(1, 2)).all()
        assert (found == to_host(rows.grams(atoms, shifts))).all()
        for own, atom, shift in zip(found, atoms, to_host(shifts), strict=True):
            Z, w = _by_numpy(rows, atom, shift)
            expected = (Z * w[:, None]).T @ Z
            length = np.sqrt(expected.diagonal())
            np.testing.assert_array_less(
                np.abs(own - expected), 1e-13 * np.outer(length, length) + 1e-300
            )


@pytest.mark.parametrize(("shape", "dtypes"), CASES)
def test_sums_are_those_of_numpy(shape, dtypes):
    rows = _rows(*shape, dtypes)
    for atoms in _atoms(shape[0]):
        worth = range(2, 2 + len(atoms))
        found = to_host(rows.sums(atoms, worth))
        for own, atom, times in zip(found, atoms, worth, strict=True):
            Z, w = _by_numpy(rows, atom, np.zeros(rows.n_columns - 1))
            np.testing.assert_allclose(own, times * (w @ Z), rtol=1e-11)


@pytest.mark.parametrize("p", [10, 300])
def test_few_bytes_for_parts_cost_few_digits(p):
    rows = _rows(5000, p, 1, ("float32", "float32", None))
    batch = Batch(rows.X, rows.y, None, rows.place, rows.place)
    atoms = tuple(slice(start, start + 1000) for start in range(0, 5000, 1000))
    wanted = to_host(atom_moments(batch, atoms).gram)
    found = to_host(atom_moments(batch, atoms, block_bytes=2**16).gram)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max())


def test_parts_that_have_no_room_are_not_summed():
    rows = _rows(5000, 100, 1, ("float32", "float32", None))
    runs = tuple(slice(start, start + 10) for start in range(0, 5000, 20))
    assert rows.grams((runs,), rows.X[:1, :0], block_bytes=2**16) is None


def test_rows_of_another_order_are_not_read():
    rows = _rows(500, 10, 1, ("float32", "float32", None))
    other = GpuRows(rows.X.T.copy().T, rows.y, None, rows.place)
    assert not other.can_be_read
    whole = rows.X.astype("int64")
    assert not GpuRows(whole, rows.y, None, rows.place).can_be_read


def test_what_an_atom_comes_to_does_not_depend_on_others():
    rows = _rows(4000, 20, 1, ("float32", "float32", None))
    batch = Batch(rows.X, rows.y, None, rows.place, rows.place)
    atoms = (slice(0, 3000), slice(3000, 4000))
    wanted = to_host(atom_shifts(batch, atoms))[0]
    rows.X[3000:] = np.nan
    found = to_host(atom_moments(batch, atoms).gram)
    assert (to_host(atom_shifts(batch, atoms))[0] == wanted).all()
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).any()


def test_shared_memory_has_room_for_all_kinds():
    """Two blocks fit on a multiprocessor of 228 KB, each of which needs 1 KB of its own."""
    for strips in range(1, 9):
        for half in (0, 64) if strips == 8 else (0,):
            for x in ("float32", "float64"):
                own = _gpu_grams._shared_bytes(strips, half, (x, "float64", "float64"))
                assert 2 * (own + _gpu_grams.SHIFT_BYTES + 1024) <= 228 * 1024
