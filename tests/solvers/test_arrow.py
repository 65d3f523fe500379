"""Hessians of models with many levels: by Schur complements as by whole matrices."""

import numpy as np
import pytest

from gpuml._arrays import HOST
from gpuml.designs import Beside, Coded, Columns, Dense, Mapped
from gpuml.losses import BINOMIAL
from gpuml.penalties import Penalty
from gpuml.solvers.loss_models import SmoothProblem
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import mean_second_derivatives

N, LEVELS = 200, 30


def rows(rng, n_splits, *, weighted):
    """Images of numbers and a few levels, with many levels beside them."""
    few = Coded((rng.integers(0, 3, N),), (3,), np.float64)
    near = Columns((Dense(rng.normal(size=(N, 2)), HOST), few))
    maps = rng.normal(size=(n_splits, 5, 6))
    maps[:, -1] = [0, 0, 0, 0, 0, 1]
    apart = Coded((rng.integers(0, LEVELS, N),), (LEVELS,), np.float64)
    weights = rng.integers(0, 3, (n_splits, N)).astype(float) if weighted else np.ones((1, N))
    return LossRows(
        Beside(Mapped(near, maps), apart), (rng.random(N) < 0.4) * 1.0, weights, BINOMIAL, 1
    )


def problem(rng, n_candidates, n_splits):
    data = rows(rng, n_splits, weighted=n_splits > 1)
    shape = (n_candidates, n_splits, 1, 4 + LEVELS + 1)
    l2 = np.broadcast_to(rng.random((n_candidates, n_splits, 1, 1)) + 0.1, shape).copy()
    l2[..., -1] = 0.0
    penalty = Penalty(np.zeros(shape), l2, np.ones((n_candidates, 1, 1, shape[-1])))
    return SmoothProblem(data, data.total_weights, penalty, None), shape


@pytest.mark.parametrize("alike", [False, True])
def test_products_are_solutions_of_the_system(rng, alike):
    own, shape = problem(rng, 3, 1)
    W = 0.3 * rng.normal(size=shape)
    W = np.broadcast_to(W[:1], shape) if alike else W
    design = own.data.design
    X = design.block(slice(0, N))
    dense = LossRows(Dense(X.dense(), HOST), own.data.target, own.data.weights, BINOMIAL, 1)
    H = mean_second_derivatives(dense, W, own.total, shared=False)
    H = H + own.penalty.l2[:, :, 0, :, None] * np.eye(shape[-1])
    G = rng.normal(size=shape)
    found = own.at(own.data, W, shared=True).precondition(G)
    expected = np.linalg.solve(H, G[:, :, 0, :, None])[..., 0]
    np.testing.assert_allclose(found[:, :, 0, :], expected, rtol=1e-6, atol=1e-8)


def test_they_are_positive_definite_and_leave_unseen_levels_at_0(rng):
    own, shape = problem(rng, 2, 3)
    (codes,) = own.data.design.apart.codes
    own.data.weights[1, codes == 4] = 0.0
    better = own.at(own.data, 0.3 * rng.normal(size=shape), shared=True)
    G = rng.normal(size=shape)
    G[:, 1, :, 4 + 4] = 0.0
    steps = better.precondition(G)
    assert (steps[:, 1, 0, 4 + 4] == 0).all()
    assert ((steps * G).sum(axis=-1) > 0).all()
    some = better.select(np.asarray([1])).precondition(G[1:])
    np.testing.assert_allclose(some, steps[1:])
