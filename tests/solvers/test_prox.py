"""Optimality of l1-penalised quadratic problems, over array libraries."""

import numpy as np
import pytest

from gpuml.penalties import Penalty
from gpuml.solvers import _patterns
from gpuml.solvers._patterns import Factor, Factors
from gpuml.solvers.prox import minimise_path, minimise_quadratic


def batch(rng, n=60, p=12, B=2, m=3, mix=0.0):
    """Gram matrices (B, p, p) and sides (B, m, p) of random regressions."""
    X = rng.normal(size=(B, n, p)) * (1 - mix) + mix * rng.normal(size=(B, n, 1))
    y = X @ rng.normal(size=(B, p, m)) + rng.normal(size=(B, n, m))
    return np.swapaxes(X, 1, 2) @ X, np.swapaxes(np.swapaxes(X, 1, 2) @ y, 1, 2)


def relative_violation(H, g, l1, l2, v):
    scale = np.sqrt(np.where(np.diagonal(H, axis1=1, axis2=2) > 0, 1, np.inf))[:, None, :]
    scale = scale * np.sqrt(np.maximum(np.diagonal(H, axis1=1, axis2=2), 1e-300))[:, None, :]
    slope = v @ H + l2 * v - g
    found = Penalty(l1 + np.zeros_like(v), l2).violation(v, slope, np) / scale
    return found.max(-1) / np.abs(g / scale).max(-1)


def solve(library, H, g, l1, l2=0.0, start=None, **options):
    arrays = [a if a is None or np.ndim(a) == 0 else library.asarray(a) for a in (H, g, l1, l2)]
    start = None if start is None else library.asarray(start)
    v, violated, n_iter = minimise_quadratic(*arrays, start, **options)
    return library.to_numpy(v), library.to_numpy(violated), n_iter


@pytest.mark.pairwise
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.9])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("mix", [0.0, 0.9])
def test_optimality_conditions_hold_to_rounding(library, rng, share, ratio, mix):
    H, g = batch(rng, mix=mix)
    alpha = share * np.abs(g).max(axis=-1, keepdims=True) + np.zeros_like(g)
    v, violated, n_iter = solve(library, H, g, alpha * ratio, alpha * (1 - ratio))
    found = relative_violation(H, g, alpha * ratio, alpha * (1 - ratio), v)
    np.testing.assert_array_less(found, 1e-12)
    np.testing.assert_allclose(violated, found, atol=1e-13)
    assert n_iter.shape == (2, 3)
    if ratio == 1 and share == 0.9:
        assert (v == 0).any()


@pytest.mark.parametrize("share", [1e-3, 0.1])
def test_more_coordinates_than_rank(library, rng, share):
    H, g = batch(rng, n=20, p=50, m=1)
    l1 = share * np.abs(g).max()
    v, _, _ = solve(library, H, g, l1)
    np.testing.assert_array_less(relative_violation(H, g, l1, 0.0, v), 1e-11)
    assert ((v != 0).sum(-1) <= 20).all()


def test_a_path_of_many_corners_is_walked(library, rng):
    H, g = batch(rng, n=60, p=150, B=1, m=2)
    l1 = 1e-3 * np.abs(g).max()
    v, _, n_iter = solve(library, H, g, l1, max_iter=150)
    np.testing.assert_array_less(relative_violation(H, g, l1, 0.0, v), 1e-11)
    assert n_iter.max() < 150


def test_tied_columns(library, rng):
    H, g = batch(rng)
    H, g = np.tile(H, (1, 2, 2)), np.tile(g, (1, 1, 2))
    v, _, _ = solve(library, H, g, 1.0)
    np.testing.assert_array_less(relative_violation(H, g, 1.0, 0.0, v), 1e-11)
    single, _, _ = solve(library, H[:, :12, :12], g[..., :12], 1.0)
    np.testing.assert_allclose(v[..., :12] + v[..., 12:], single, atol=1e-9)


def test_coordinates_without_penalty_and_without_curvature(library, rng):
    H, g = batch(rng)
    H[:, 5, :] = H[:, :, 5] = g[..., 5] = 0
    l1 = np.full(g.shape, 3.0)
    l1[..., :2] = 0
    v, _, _ = solve(library, H, g, l1)
    assert (v[..., 5] == 0).all()
    assert (v[..., :2] != 0).all()
    np.testing.assert_array_less(relative_violation(H, g, l1, 0.0, v), 1e-12)


def test_large_penalty_gives_zero_without_iterations(library, rng):
    H, g = batch(rng)
    l1 = np.abs(g).max(axis=-1, keepdims=True) * 1.0001 + np.zeros_like(g)
    v, violated, n_iter = solve(library, H, g, l1)
    assert not v.any()
    assert not violated.any()
    assert not n_iter.any()


def test_units_of_coordinates_do_not_matter(library, rng):
    H, g = batch(rng)
    s = 10.0 ** np.linspace(-6, 6, 12)
    v, _, _ = solve(library, H, g, np.ones(g.shape))
    scaled, _, _ = solve(library, H * s * s[:, None], g * s, np.ones(g.shape) * s)
    np.testing.assert_allclose(scaled * s, v, rtol=1e-9, atol=1e-12)


def test_a_good_start_saves_iterations(library, rng):
    H, g = batch(rng, p=30, mix=0.5)
    cold, _, many = solve(library, H, g, 0.5)
    warm, _, few = solve(library, H, g, 0.5, start=cold)
    assert (few <= 1).all()
    assert many.min() > 1
    np.testing.assert_allclose(warm, cold, atol=1e-12)
    bad, _, _ = solve(library, H, g, 0.5, start=rng.normal(size=g.shape))
    np.testing.assert_allclose(bad, cold, atol=1e-9)


def test_what_is_known_of_a_matrix_is_not_found_again(rng, monkeypatch):
    H, g = batch(rng, p=30, mix=0.5)
    factors, made, of = Factors(), [], Factor.of.__func__

    def counted(cls, *args):
        made.append(args)
        return of(cls, *args)

    monkeypatch.setattr(Factor, "of", classmethod(counted))
    expected = minimise_quadratic(H, g, 0.5)[0]
    n_alone = len(made)
    first, second = (minimise_quadratic(H, g, 0.5, factors=factors)[0] for _ in range(2))
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, expected)
    assert 0 < len(made) - n_alone <= n_alone
    # Another target has other supports, of the same matrix.
    other = minimise_quadratic(H, g[:, ::-1], 0.5, factors=factors)[0]
    np.testing.assert_allclose(other, expected[:, ::-1], rtol=1e-9, atol=1e-12)
    # What is kept is bounded: with no room for two, what was known is given up.
    monkeypatch.setattr(_patterns, "FACTOR_BYTES", 0)
    np.testing.assert_array_equal(minimise_quadratic(H, g, 0.5, factors=Factors())[0], expected)


def test_too_few_iterations_are_told(library, rng):
    H, g = batch(rng, p=30, mix=0.5)
    _, violated, n_iter = solve(library, H, g, 0.1, max_iter=1)
    assert violated.max() > 1e-6
    assert n_iter.max() == 1


def test_a_path_is_its_models(library, rng):
    H, g = batch(rng)
    l1, l2 = np.geomspace(100, 0.1, 5), np.linspace(5, 1, 5)
    path, violated, n_iter = minimise_path(library.asarray(H), library.asarray(g), l1, l2)
    path = library.to_numpy(path)
    assert path.shape == (5, 2, 3, 12)
    assert violated.shape == n_iter.shape == (5, 2, 3)
    for i in range(5):
        alone, _, _ = solve(library, H, g, float(l1[i]), float(l2[i]))
        np.testing.assert_allclose(path[i], alone, atol=1e-10)


def test_descent_solves_what_pivoting_leaves(library, rng, monkeypatch):
    import gpuml.solvers.prox as module

    def give_up(problem, v, tol, max_iter, xp):
        return v, np.zeros(v.shape[:-1], dtype=int)

    H, g = batch(rng, mix=0.5)
    expected, _, _ = solve(library, H, g, 1.0)
    monkeypatch.setattr(module, "follow_path", give_up)
    v, violated, _ = solve(library, H, g, 1.0)
    np.testing.assert_array_less(violated, 1e-9)
    np.testing.assert_allclose(v, expected, atol=1e-7)


def test_prox_minimises_its_objective(rng):
    z, grid = rng.normal(size=7), np.linspace(-5, 5, 200_001)
    for l1, l2, step in [(0.3, 0.0, 1.0), (0.5, 2.0, 0.7)]:
        found = Penalty(l1, l2).prox(z, step, np)
        for zi, vi in zip(z, found, strict=True):
            objective = (grid - zi) ** 2 / (2 * step) + Penalty(l1, l2).value(grid[:, None], np)
            assert abs(grid[objective.argmin()] - vi) < 1e-4
    some = Penalty(1.0, 0.0, used=np.array([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(some.prox(np.array([-2.0, 0.5, 2.0]), 1.0, np), [-1, 0, 0])


def test_optimality_is_that_no_direction_leads_down(rng):
    """Where nothing is violated, the objective rises along every direction, and ahead of v only."""
    penalty = Penalty(np.array([0.5, 0.0, 2.0]), np.array([1.0, 0.5, 0.0]))
    z = np.array([2.0, -1.0, 0.7])
    v = penalty.prox(z, 1.0, np)
    slope = v - z + penalty.l2 * v
    np.testing.assert_allclose(penalty.violation(v, slope, np), 0, atol=1e-15)
    for direction in rng.normal(size=(20, 3)):
        ahead, behind = (
            (slope * direction + penalty.along(v, direction, np, behind=side)).sum()
            for side in (False, True)
        )
        assert ahead >= -1e-15
        assert ahead >= behind
    assert penalty.violation(v + 0.1, slope + 0.2, np).max() > 0.1
