"""Models of the rows near a plane, and of sums of the others, are models of all rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from gpuml.solvers import _kink_systems, quantiles
from gpuml.testing import array_libraries

LEVELS = np.array([0.02, 0.5, 0.8])
ALPHAS = np.array([0.0, 0.02])
N_ROWS, N_FEATURES = 2_000, 3


def plain(rng, X):
    return X, X.sum(axis=1) + rng.standard_t(2, N_ROWS)


def in_order(rng, X):
    X, y = plain(rng, X)
    order = np.argsort(y)
    return X[order], y[order]


def rare_level(rng, X):
    X[:, 0] = rng.random(N_ROWS) < 10 / N_ROWS
    return X, X @ [50.0, 1.0, 0.0] + rng.normal(size=N_ROWS)


def wild(rng, X):
    X *= np.exp(rng.normal(size=(N_ROWS, 1)))
    return X, X.sum(axis=1) + rng.standard_cauchy(N_ROWS) * X[:, 0]


def rounded(rng, X):
    return np.round(X), np.round(plain(rng, X)[1])


def heap(rng, X):
    X, y = plain(rng, X)
    return X, np.where(rng.random(N_ROWS) < 0.7, 0.0, y)


@pytest.mark.pairwise
@pytest.mark.parametrize("kind", [plain, in_order, rare_level, wild, rounded, heap])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("library", array_libraries())
def test_far_rows_matter_by_their_side_only(kind, is_weighted, library, rng, monkeypatch):
    X, y = kind(rng, rng.normal(size=(N_ROWS, N_FEATURES)))
    X = np.concatenate([(X - X.mean(axis=0)) / X.std(axis=0), np.ones((N_ROWS, 1))], axis=1)
    weight = rng.integers(1, 4, N_ROWS) * 1.0 if is_weighted else np.ones(N_ROWS)
    levels, alphas = (a.ravel() for a in np.meshgrid(LEVELS, ALPHAS))
    penalties = alphas[:, None] * weight.sum() * [*[1.0] * N_FEATURES, 0.0]
    rows = [library.asarray(a) for a in (X, y, weight)]
    n_seen = []
    solve = quantiles.solve_programs
    monkeypatch.setattr(
        quantiles,
        "solve_programs",
        lambda programs, *more, **options: (
            n_seen.append(programs.X.shape[-2]) or solve(programs, *more, **options)
        ),
    )
    rows = quantiles.Rows(*rows, levels, penalties)
    (found,) = quantiles.fit_quantiles([rows])
    assert n_seen[0] < N_ROWS / 3
    monkeypatch.setattr(quantiles, "BAND", np.inf)
    (expected,) = quantiles.fit_quantiles([rows])
    assert n_seen[-1] == N_ROWS
    for one, other, level, penalty in zip(found, expected, levels, penalties, strict=True):
        assert one.converged
        np.testing.assert_allclose(one.objective, other.objective, rtol=1e-10)
        r = y - X @ one.coef
        value = weight @ np.maximum(level * r, (level - 1.0) * r) + penalty @ np.abs(one.coef)
        np.testing.assert_allclose(one.objective, value, rtol=1e-10)


@pytest.mark.parametrize("library", array_libraries())
def test_parts_side_by_side_have_the_models_that_each_has_alone(library, rng):
    X, y = plain(rng, rng.normal(size=(N_ROWS, N_FEATURES)))
    levels, parts = np.array([0.1, 0.6]), []
    for some in (slice(0, N_ROWS), slice(0, 1500), slice(700, 1000)):  # the last without a sample
        each = (library.asarray(a[some]) for a in (X, y, np.ones(N_ROWS)))
        parts.append(quantiles.Rows(*each, levels, np.full((2, N_FEATURES), 5.0)))
    together = quantiles.fit_quantiles(parts)
    alone = [quantiles.fit_quantiles([part])[0] for part in parts]
    # One that begins near its models has the same.
    begun = replace(parts[0], start=np.stack([one.coef for one in alone[1]]))
    together += quantiles.fit_quantiles([begun])
    for found, expected in zip(together, [*alone, alone[0]], strict=True):
        for one, other in zip(found, expected, strict=True):
            assert one.converged
            np.testing.assert_allclose(one.coef, other.coef, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("library", array_libraries())
def test_more_features_than_rows(library, rng, monkeypatch):
    n_rows, n_features = 40, 200
    X = np.concatenate([rng.normal(size=(n_rows, n_features)), np.ones((n_rows, 1))], axis=1)
    y = X[:, :5] @ [3.0, -2.0, 1.0, 1.0, 1.0] + 0.3 * rng.standard_t(2, n_rows)
    levels, alphas = (a.ravel() for a in np.meshgrid([0.23, 0.5], [0.3, 0.05, 0.001]))
    penalties = alphas[:, None] * n_rows * [*[1.0] * n_features, 0.0]

    def fitted():
        parts = []
        for m in (n_rows, 30):  # side by side on devices, with rows of their own
            each = (library.asarray(a[:m]) for a in (X, y, np.ones(n_rows)))
            parts.append(quantiles.Rows(*each, levels, penalties))
        return quantiles.fit_quantiles(parts)

    found = fitted()
    monkeypatch.setattr(_kink_systems, "MANY", np.inf)
    for own, expected, m in zip(found, fitted(), (n_rows, 30), strict=True):
        for one, other, level, penalty in zip(own, expected, levels, penalties, strict=True):
            assert one.converged
            np.testing.assert_array_equal(one.coef == 0.0, other.coef == 0.0)
            if level != 0.5:  # of an even number of rows many models may be as good
                np.testing.assert_allclose(one.coef, other.coef, rtol=1e-7, atol=1e-9)
                on_plane = np.abs(y[:m] - X[:m] @ one.coef) <= 1e-9
                assert np.count_nonzero(one.coef) == np.count_nonzero(on_plane)
            program = linprog(
                np.concatenate([penalty, penalty, np.full(m, level), np.full(m, 1.0 - level)]),
                A_eq=np.concatenate([X[:m], -X[:m], np.eye(m), -np.eye(m)], axis=1),
                b_eq=y[:m],
            )
            np.testing.assert_allclose(one.objective, program.fun, rtol=1e-9, atol=1e-12)
