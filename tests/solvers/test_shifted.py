"""One form of a matrix serves all shifts of it."""

import numpy as np
import pytest

from gpuml.data import resident, whole
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.solvers import ridge
from gpuml.solvers.described import describe
from gpuml.solvers.shifted import inverses_applied, solve_by_tridiagonal


@pytest.mark.parametrize("n_shifts", [1, 3, 12])
@pytest.mark.parametrize("p", [1, 2, 3, 60])
def test_systems_of_all_shifts_are_solved(rng, p, n_shifts):
    rows = rng.normal(size=(2, p + 2, p))
    M, B = np.swapaxes(rows, 1, 2) @ rows, rng.normal(size=(2, p, 3))
    shifts = np.logspace(-2, 2, n_shifts)
    systems = M + shifts[:, None, None, None] * np.eye(p)
    expected = np.linalg.solve(systems, np.broadcast_to(B, (n_shifts, *B.shape)))
    found, smallest, largest = solve_by_tridiagonal(M, shifts, B)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    values = np.linalg.eigvalsh(systems)
    np.testing.assert_allclose(smallest, values[..., 0], rtol=1e-9, atol=1e-11)
    assert (largest >= values[..., -1] * (1 - 1e-9)).all()
    assert (largest <= 3 * values[..., -1]).all()
    condition = (largest / smallest).max()
    for enough, is_known in ((1.01 * condition, True), (0.99 * condition, False)):
        _, bound, _ = solve_by_tridiagonal(M, shifts, B, enough)
        assert (bound <= values[..., 0] * (1 + 1e-9)).all()
        assert ((largest / bound).max() <= enough) == is_known
    products, diagonals = inverses_applied(M[0], shifts, B[0], np)
    inverses = np.linalg.inv(systems[:, 0])
    np.testing.assert_allclose(products, inverses @ B[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(diagonals, np.diagonal(inverses, axis1=1, axis2=2), rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e7])
@pytest.mark.parametrize(("order", "form"), [(6, "_solve_eigen"), (24, "_solve_tridiagonal")])
def test_many_penalties_have_the_scores_that_each_has_alone(rng, monkeypatch, order, form, scale):
    """By one form of each matrix; with units that differ, as each by itself."""
    calls = []
    solve = getattr(ridge, form)
    monkeypatch.setattr(ridge, form, lambda *a: calls.append(1) or solve(*a))
    X = rng.normal(size=(80, order)) * np.asarray([scale] + [1] * (order - 1))
    X[:, 1] = X[:, 2] + 1e-5 * X[:, 1]  # the smallest penalties are solved with more care
    y = X[:, 2] + rng.normal(size=80)
    alphas = np.logspace(-9, 3, 12)
    together = GridSearchCV(Ridge(), {"alpha": alphas}, cv=3, refit=False).fit(X, y)
    assert len(calls) == (scale == 1.0)
    for alpha, found in zip(alphas, together.cv_results_["mean_test_score"], strict=True):
        alone = GridSearchCV(Ridge(), {"alpha": [alpha]}, cv=3, refit=False).fit(X, y)
        np.testing.assert_allclose(found, alone.cv_results_["mean_test_score"][0], rtol=1e-9)


@pytest.mark.parametrize("shape", [(20, 5), (5, 20)])
def test_rows_are_described_once(rng, shape):
    folds = whole(resident(rng.normal(size=shape), rng.normal(size=shape[0]), None, "cpu"))
    first, again = describe(folds), describe(folds)
    assert (first.n_passes, again.n_passes) == (1, 0)
    assert (first.kernel, first.moments) == (again.kernel, again.moments)
