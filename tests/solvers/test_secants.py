"""Law of what L-BFGS remembers: the products that it keeps are those of its vectors."""

import numpy as np
import pytest

from gpuml.solvers._secants import MEMORY, Secants

GRID, N = (3, 2), 12


class Quadratics:
    """A grid of quadratic problems, preconditioned by matrices P."""

    def __init__(self, random):
        self.H, self.P = (self._positive(random) for _ in range(2))
        self.chosen = np.arange(GRID[0])

    @staticmethod
    def _positive(random):
        A = random.normal(size=(*GRID, N, N))
        return A @ np.swapaxes(A, -1, -2) / N + np.eye(N)

    def gradient(self, W):
        return (self.H[self.chosen] @ W[..., None])[..., 0]

    def image(self, G):
        return (self.P[self.chosen] @ G[..., None])[..., 0]


def check(secants, changes):
    """Products with the gradient and its changes, which are kept here, are as when formed anew."""
    m = len(secants.order)
    vectors = np.stack([secants.gradient, *(changes[slot] for slot in range(m))], axis=-1)
    basis = secants.basis[:, :, : 1 + 2 * m, :]
    found = secants.products[..., : 1 + 2 * m, : 1 + m]
    scale = np.max(np.abs(found), axis=(-2, -1), keepdims=True)
    assert np.max(np.abs(found - basis @ vectors) / scale) < 1e-11


@pytest.mark.parametrize("shortened", [0.0, 0.3])
def test_products_are_those_of_the_vectors(shortened):
    random = np.random.default_rng(0)
    problems = Quadratics(random)
    W = random.normal(size=(*GRID, N))
    secants = Secants(problems.gradient(W), np)
    secants.restart(problems.image(secants.gradient))
    step, changes = np.ones(GRID), {}
    direction = np.zeros_like(W)
    for i in range(3 * MEMORY):
        if i == MEMORY + 3:  # another preconditioner
            problems.P = Quadratics(random).P
            secants.restart(problems.image(secants.gradient))
        if i == MEMORY + 5:  # a candidate is done
            index = np.array([0, 2])
            problems.chosen = index
            secants.select(index, index)
            W, step, direction = W[index], step[index], direction[index]
            changes = {slot: change[index] for slot, change in changes.items()}
        weights, _ = secants.weights()
        fresh = step == 1
        direction = np.where(fresh[..., None], secants.aim(weights, fresh), direction)
        change = step[..., None] * direction
        G = problems.gradient(W + change)
        look = secants.look(G, problems.image(G), change, direction, step)
        kept = random.random(step.shape) >= shortened
        secants.keep(kept, look)
        changes[secants.order[-1]] = np.where(kept[..., None], look.gradient_change, 0.0)
        W = np.where(kept[..., None], W + change, W)
        step = np.where(kept, 1.0, step / 2)
        check(secants, changes)
