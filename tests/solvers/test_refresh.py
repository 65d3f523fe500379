"""Laws of when Hessians are computed again, from how many rows, and for which models."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Theirs

from gpuml._arrays import HOST
from gpuml.designs import Dense
from gpuml.losses import BINOMIAL
from gpuml.penalties import Penalty
from gpuml.solvers import loss_models
from gpuml.solvers import refresh as refreshing
from gpuml.solvers.loss_models import Options, solve
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import Objective
from gpuml.solvers.refresh import GPU_COSTS, KNOWN, Refresh
from gpuml.solvers.variances import diagonal_inverse

MANY_PASSES = 40


def hessians_taken(X, lefts, **options):
    """Of how many rows, and whether splits share them, by pass: of 2 candidates and 3 splits.

    `lefts` are the ratios of what the next step promises to what is enough, before each pass.
    """
    (n_rows, p), taken = X.shape, {}
    data = LossRows(Dense(X, HOST), np.zeros(n_rows), np.ones((3, n_rows)), BINOMIAL, 1)

    class Taking:
        def __init__(self):
            self.data = data

        def at(self, rows, W, *, shared):
            taken[n_iter] = rows.n_rows, shared

    refresh = Refresh(data, (2, 3, 1, p + 1), 2**30, **options)
    for n_iter, left in enumerate(lefts):
        refresh(Taking(), np.zeros((2, 3, 1, p + 1)), n_iter, left)
    return taken


@pytest.mark.parametrize("n_rows", [30, 31, 32, 200])
def test_splits_share_no_hessians_where_rows_are_no_more_than_coefficients(n_rows, rng):
    taken = hessians_taken(rng.normal(size=(n_rows, 30)), [1e6] * MANY_PASSES).values()
    assert taken
    assert any(shared for _, shared in taken) == (n_rows > 31)
    assert all(rows == n_rows for rows, _ in taken)


def test_hessians_are_not_taken_where_few_passes_are_left(rng):
    X = rng.normal(size=(400, 200))
    assert hessians_taken(X, [1e6] * 10, max_iter=100)
    assert not hessians_taken(X, [1e6] * 10, max_iter=10)


def test_hessians_of_a_rough_minimum_cost_less_than_the_passes_that_are_left(rng):
    X = rng.normal(size=(2000, 200))
    assert hessians_taken(X, [1e6] * 20, max_iter=20)
    assert not hessians_taken(X, [1e6] * 20, max_iter=20, rough=True)


@pytest.mark.parametrize("falls", [0.0, 0.1, 8.0])
def test_hessians_are_taken_again_where_passes_come_no_nearer(falls, rng):
    X = rng.normal(size=(4000, 40))
    lefts = 1e8 * np.exp(-falls * np.arange(MANY_PASSES))
    first, *again = hessians_taken(X, lefts, max_iter=100)
    assert (first + KNOWN in again) == (falls < 1)
    assert len(again) <= MANY_PASSES // KNOWN


def test_hessians_are_not_taken_again_for_the_last_passes(rng):
    """However many passes there were since the last ones."""
    X = rng.normal(size=(4000, 40))
    n_iter = np.arange(MANY_PASSES)
    lefts = np.maximum(np.exp(1.5 * (MANY_PASSES - n_iter)), 1.0)
    _, *again = hessians_taken(X, lefts, max_iter=100)
    assert all(MANY_PASSES - n > KNOWN for n in again)


def test_shared_hessians_of_all_of_few_rows_are_not_taken_twice(rng):
    few, many = (rng.normal(size=(n_rows, 20)) for n_rows in (200, 2000))
    found = [
        [shared for _, shared in hessians_taken(X, [1e8] * MANY_PASSES).values()]
        for X in (few, many)
    ]
    assert found[0][:3] == [True, False, False]
    assert found[1][:3] == [True, True, True]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("costs", ["of a CPU", "of a GPU"])
def test_classes_that_are_nearly_separable_end_as_near_the_minimum_as_theirs(
    costs, rng, monkeypatch
):
    if costs == "of a GPU":
        monkeypatch.setattr(refreshing, "CPU_COSTS", GPU_COSTS)
    n_rows, p, Cs = 1500, 400, np.logspace(-4, 4, 10)
    X = rng.normal(size=(n_rows, p)) @ (np.eye(p) + 0.9 / p**0.5 * rng.normal(size=(p, p)))
    y = (X @ rng.normal(size=p) / 10 + rng.logistic(size=n_rows) > 0).astype(float)
    trains = (np.arange(n_rows) % 5 != np.arange(5)[:, None]).astype(float)
    l2 = np.append(np.ones(p), 0.0) / (Cs[:, None, None, None] * trains.sum(axis=1)[:, None, None])
    penalty = Penalty(np.zeros_like(l2), l2, np.ones((len(Cs), 1, 1, p + 1)))
    data = LossRows(Dense(X, HOST), y, trains, BINOMIAL, 1)
    W = solve(data, penalty, np.zeros((len(Cs), 5, 1, p + 1)), Options(), rarest=500).W
    X, y = X[trains[0] > 0], y[trains[0] > 0]
    for C, w in zip(Cs[-3:], W[-3:, 0, 0], strict=True):
        model = Theirs(C=C).fit(X, y)
        theirs = np.append(model.coef_, model.intercept_)
        assert objective(w, X, y, C) <= objective(theirs, X, y, C) + 1e-9


def objective(w, X, y, C):
    z = X @ w[:-1] + w[-1]
    return np.mean(np.logaddexp(0, z) - y * z) + np.sum(w[:-1] ** 2) / (2 * C * len(y))


@pytest.mark.parametrize("rarest", [0, 1])
def test_variances_are_not_read_where_hessians_come_before_the_first_pass(rarest, rng, monkeypatch):
    read = []
    monkeypatch.setattr(
        loss_models, "diagonal_inverse", lambda *args: read.append(1) or diagonal_inverse(*args)
    )
    X = rng.normal(size=(40_000, 30))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(float)
    data = LossRows(Dense(X, HOST), y, np.ones((3, len(X))), BINOMIAL, 1)
    shape = (4, 3, 1, 31)
    used = np.ones((4, 1, 1, 31))
    l2 = np.asarray([1e-4, 1e-3, 1e-2, 1e-1])[:, None, None, None] * np.ones(shape)
    penalty = Penalty(np.zeros(shape), l2, used)
    solved = solve(data, penalty, np.zeros(shape), Options(tol=1e-8), rarest=rarest)
    # Where models may be at their minimum from the first, Hessians wait for what variances say.
    assert bool(read) == (rarest == 0)
    gradient = Objective(data, data.total_weights, penalty).gradient(solved.W)
    assert np.abs(gradient).max() <= 1e-8
