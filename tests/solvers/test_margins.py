"""Machines of losses with kinks: optimal by their duality gap, whatever rows are left out."""

import numpy as np
import pytest

from gpuml.solvers import margins
from gpuml.solvers.margins import fit_path, fit_paths, hinge, tube


def problem(rng, kind, n=6000, p=5):
    A = np.column_stack([rng.normal(size=(n, p)), np.ones(n)])
    y = A @ rng.normal(size=p + 1) + rng.standard_t(3, n)
    if kind == "hinge":
        return A, lambda C: hinge(y > 0, np.full(n, C))
    return A, lambda C: tube(y, np.full(n, C), 0.4)


def objective(A, kinks, coef):
    e = kinks.residuals(A, coef)
    return coef @ coef / 2 + np.sum(np.maximum(kinks.upper * e, -kinks.lower * e))


def gap(A, kinks, coef):
    """Of the objective, the share by which a point of the dual may be below it.

    Weights of rows off their targets are at their bounds; the others make up for what is left.
    """
    e = kinks.residuals(A, coef)
    value = objective(A, kinks, coef)
    on = np.abs(e) < 1e-6 * np.abs(kinks.y).max()
    d = np.where(on, 0.0, np.where(e > 0, kinks.upper, -kinks.lower))
    free = np.concatenate([A[some] for some in on])
    left = coef - A.T @ d.sum(axis=0)
    d[on] = np.clip(np.linalg.lstsq(free.T, left)[0], -kinks.lower[on], kinks.upper[on])
    dual = np.sum(kinks.y * d) - np.sum((A.T @ d.sum(axis=0)) ** 2) / 2
    return (value - dual) / value


@pytest.mark.parametrize("kind", ["hinge", "tube"])
def test_models_of_a_path_are_optimal(kind, rng, monkeypatch):
    A, of = problem(rng, kind)
    taken = []
    solve = margins._solve
    monkeypatch.setattr(margins, "_solve", lambda A, *rest: taken.append(len(A)) or solve(A, *rest))
    strengths = [1e3, 10.0, 0.1, 1e-4]
    found = fit_path(A, [of(C) for C in strengths])
    assert min(taken[1:]) < len(A) / 2  # rows were left out
    for C, each in zip(strengths, found, strict=True):
        assert each.converged
        assert abs(gap(A, of(C), each.coef)) < 1e-9
        (alone,) = fit_path(A, [of(C)])
        np.testing.assert_allclose(each.coef, alone.coef, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["hinge", "tube"])
def test_a_model_begins_at_the_best_multiple_of_the_last(kind, rng):
    A, of = problem(rng, kind, 400)
    coef, kinks = rng.normal(size=A.shape[1]), of(0.01)

    def value(times):
        e = kinks.residuals(A, times * coef)
        sums = kinks.upper * np.maximum(e, 0) + kinks.lower * np.maximum(-e, 0)
        return times**2 * (coef @ coef) / 2 + sums.sum()

    best = kinks.multiple(A, coef) @ coef / (coef @ coef)
    others = [value(best * other) for other in (1e-3, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 1e3)]
    assert value(best) <= min(others)
    assert not kinks.multiple(A, 0 * coef).any()


def test_models_of_few_rows_are_solved_at_once(rng, monkeypatch):
    A, of = problem(rng, "hinge", 400)
    taken, solve = [], margins._solve
    monkeypatch.setattr(
        margins, "_solve", lambda A, some: taken.append(len(some)) or solve(A, some)
    )
    paths = [[of(1.0), of(0.1)], [of(10.0)]]
    found = fit_paths(A[:, :-1], 1.0, paths)
    assert taken == [3]
    for path, own in zip(paths, found, strict=True):
        for kinks, each in zip(path, own, strict=True):
            assert each.n_steps <= 16
            assert abs(gap(A, kinks, each.coef)) < 1e-9


def test_tubes_of_no_width_are_beside_others(rng):
    A, _ = problem(rng, "tube", 400)
    y = A @ rng.normal(size=A.shape[1]) + rng.normal(size=400)
    line, wide = (tube(y, np.ones(400), epsilon) for epsilon in (0.0, 0.1))
    together = fit_path(A, [line, wide])
    for kinks, each in zip((line, wide), together, strict=True):
        (alone,) = fit_path(A, [kinks])
        assert abs(gap(A, kinks, each.coef)) < 1e-9
        np.testing.assert_allclose(each.coef, alone.coef, rtol=1e-6)
    assert line.y.shape == (1, 400)  # rows are there once


@pytest.mark.parametrize("kind", ["hinge", "tube"])
def test_fewer_rows_than_columns(kind, rng):
    A, of = problem(rng, kind, 20, 50)
    ((found,),) = fit_paths(A, 0.0, [[of(1.0)]])
    assert abs(gap(A, of(1.0), found.coef)) < 1e-9


WIDE = {
    "as drawn": lambda X, rng: X,
    "far from 0": lambda X, rng: X + 10.0,
    "alike": lambda X, rng: X + 30.0 * rng.normal(size=(len(X), 2)) @ rng.normal(size=(2, 200)),
    "repeated": lambda X, rng: np.vstack([X[::2], X[::2]]),
    "of few directions": lambda X, rng: X[:, :5] @ X[:5],
}


@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize("rows", WIDE)
@pytest.mark.parametrize("epsilon", [None, 0.0, 0.1])
def test_paths_of_fewer_rows_than_columns_are_optimal(epsilon, rows, constant, rng, monkeypatch):
    """By sides of rows, and in their space."""
    X = WIDE[rows](rng.normal(size=(60, 200)), rng)
    y, price = X[:, 0] + 0.3 * rng.normal(size=60), np.ones(60)
    strengths = [1e2, 1.0, 1e-2, 1e-5]
    models = [
        hinge(y > 0, C * price) if epsilon is None else tube(y, C * price, epsilon)
        for C in strengths
    ]
    A = np.column_stack([X, np.full(60, constant)]) if constant else X
    values = []
    for by_sides in (margins.solve_path, lambda K, models: [None] * len(models)):
        monkeypatch.setattr(margins, "solve_path", by_sides)
        (found,) = fit_paths(X, constant, [models])
        assert all(each.converged for each in found)
        values.append([objective(A, k, f.coef) for k, f in zip(models, found, strict=True)])
    by_sides, in_space = np.asarray(values)
    assert (by_sides <= in_space * (1 + 1e-9)).all()
    np.testing.assert_allclose(by_sides, in_space, rtol=1e-7)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_rows_that_can_all_be_on_their_targets_take_few_systems(epsilon, rng):
    X = rng.normal(size=(60, 400))
    y, price = X[:, 0] + 0.3 * rng.normal(size=60), np.ones(60)
    found = fit_paths(X, 1.0, [[tube(y, price, epsilon)], [hinge(y > 0, price)]])
    assert max(each.n_steps for (each,) in found) <= 3


def test_wrong_sides_are_found(rng, monkeypatch):
    """A path that jumps: what was left out comes back."""
    A, of = problem(rng, "hinge")
    monkeypatch.setattr(margins, "FEWEST", 100)
    monkeypatch.setattr(margins, "ONE_IN", 1000)
    monkeypatch.setattr(margins, "PER_COEFFICIENT", 1)
    strengths = [1e2, 1e-5, 1e2]
    for C, each in zip(strengths, fit_path(A, [of(C) for C in strengths]), strict=True):
        assert abs(gap(A, of(C), each.coef)) < 1e-9


@pytest.mark.parametrize("seed", [1, 4, 6])
def test_steps_end_where_rounding_keeps_the_gap_open(seed):
    # Features of many sizes: what links both programs is rounding, however long the steps go on.
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(24, 60)) @ rng.normal(size=(60, 60)) + 10 * rng.normal(size=60)
    A *= 10.0 ** rng.integers(-4, 5, 60)
    y = rng.normal(size=24)
    ((found,),) = fit_paths(A, 0.0, [[tube(y, np.full(24, 10.0), 0.1)]])
    assert found.converged
    assert found.n_steps < 25
    assert np.abs(y - A @ found.coef).max() <= 0.1 + 1e-6  # so many features can do that
