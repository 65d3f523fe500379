"""Reductions along long rows, in parts."""

import numpy as np
import pytest

from gpuml._arrays import namespace
from gpuml._arrays import ops as _ops


@pytest.mark.parametrize("n_columns", [8, 9, 15, 16, 31])
def test_reductions_in_parts_are_reductions(library, rng, monkeypatch, n_columns):
    monkeypatch.setattr(_ops, "SHORT_ROW", 4)
    numbers = rng.normal(size=(3, n_columns))
    x = library.asarray(numbers)
    xp = namespace(x)
    for in_parts in (_ops.along_rows, _in_parts):
        np.testing.assert_allclose(
            library.to_numpy(in_parts(xp.sum, x, xp, dtype=xp.float64)), numbers.sum(axis=1)
        )
        np.testing.assert_array_equal(
            library.to_numpy(in_parts(xp.max, x, xp)), numbers.max(axis=1)
        )


@pytest.mark.parametrize("n_rows", [1, 50, 2047, 2048, 5000])
def test_sums_of_columns(library, rng, n_rows):
    numbers = rng.normal(1.0, size=(n_rows, 3)).astype("float32")
    none = library.asarray(numbers[:, :0])
    assert _ops.column_sums(none, namespace(none)).shape == (0,)
    x = library.asarray(numbers)
    for sums in (_ops.column_sums, lambda x, xp: _ops._sums_of_blocks(x, min(n_rows, 16), xp)):
        found = library.to_numpy(sums(x, namespace(x)))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, numbers.astype("float64").sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_seen(library, dtype, bad):
    numbers = np.full((40, 30), np.finfo(dtype).max, dtype=dtype)  # their sum overflows
    assert _finite(library.asarray(numbers))
    assert _finite(library.asarray(numbers[:, ::2]))
    numbers[17, 8] = bad
    assert not _finite(library.asarray(numbers))
    assert not _finite(library.asarray(numbers[:, ::2]))


@pytest.mark.parametrize("shape", [(0,), (3,), (40, 30)])
def test_flags_that_are_all_or_any_true(library, shape):
    for values in (np.zeros(shape, bool), np.ones(shape, bool), np.arange(np.prod(shape)) % 2 == 1):
        flags = library.asarray(values.reshape(shape))
        xp = namespace(flags)
        assert _ops.all_true(flags, xp) is bool(values.all())
        assert _ops.any_true(flags, xp) is bool(values.any())


def _finite(x):
    return _ops.all_finite(x, namespace(x))


def _in_parts(reduce, x, xp, **options):
    return _ops._in_short_rows(reduce, x, xp, options)
