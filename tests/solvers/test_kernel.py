"""Laws of inner products of few rows."""

import numpy as np
import pytest

from gpuml.data import resident
from gpuml.solvers import kernel


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_wild_values_that_a_split_holds_out_are_found_in_any_run_of_features(
    rng, monkeypatch, fit_intercept
):
    X, y = rng.normal(size=(12, 50)), rng.normal(size=12)
    X[0, 37] = 1e9
    counts = np.ones((3, 12))
    counts[0, :4], counts[1, 4:8], counts[2, 8:] = 0, 0, 0
    rows = kernel.row_kernel(resident(X, y[:, None], None, "cpu"))
    whole = kernel.far_splits(rows, counts, fit_intercept)
    np.testing.assert_array_equal(whole, [True, False, False])
    # Features by sevens.
    monkeypatch.setattr(kernel, "CACHE_BYTES", 8 * 12 * 7)
    means = []
    run_of = kernel._means
    monkeypatch.setattr(kernel, "_means", lambda *a: means.append(run_of(*a)) or means[-1])
    np.testing.assert_array_equal(kernel.far_splits(rows, counts, fit_intercept), whole)
    share = counts / counts.sum(axis=1)[:, None]
    np.testing.assert_allclose(means[0][0], share @ rows.X, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(means[0][1], share @ rows.X**2, rtol=1e-12, atol=1e-9)
