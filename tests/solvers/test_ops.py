"""Reductions along long rows, in parts."""

import numpy as np
import pytest

from gpuml import _ops
from gpuml._arrays import namespace


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


def _in_parts(reduce, x, xp, **options):
    return _ops._in_short_rows(reduce, x, xp, options)
