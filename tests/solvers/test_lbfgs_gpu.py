"""Steps of one kernel on a GPU are those of NumPy."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gpuml._arrays import HOST, gpu_place, move, namespace
from gpuml.solvers.lbfgs import minimise

pytestmark = pytest.mark.gpu
GRID, SHAPE = (5, 3), (2, 40)


@dataclass(frozen=True)
class Bowls:
    """``sum_i log cosh(x_i w - b_i) / n + l2 |w|^2 / 2``, of a target b for each candidate."""

    X: Any
    targets: Any
    l2: Any
    scale: Any

    def gradient(self, W, *, begins=False):
        xp = namespace(W)
        w = xp.reshape(W, (*W.shape[:2], -1))
        slope = xp.tanh(w @ self.X.T - self.targets[:, None, :])
        return xp.reshape(slope @ self.X / self.X.shape[0], W.shape) + self.l2 * W

    def precondition(self, G):
        return G * self.scale

    def select(self, candidates):
        xp = namespace(self.l2)
        index = xp.asarray(candidates)
        return replace(self, targets=self.targets[index], l2=self.l2[index])


def problem(seed, spread):
    rng = np.random.default_rng(seed)
    n = SHAPE[0] * SHAPE[1]
    X = rng.normal(size=(300, n)) * np.logspace(0, spread, n)
    targets = 2 * rng.normal(size=(GRID[0], 300))
    l2 = 10.0 ** rng.uniform(-4, 0, size=(*GRID, 1, 1))
    return Bowls(X, targets, l2, 10.0 ** rng.uniform(0, spread, size=(1, 1, *SHAPE)))


def at(place, bowls):
    return Bowls(*(move(a, place) for a in (bowls.X, bowls.targets, bowls.l2, bowls.scale)))


@pytest.mark.parametrize("drops_at_once", [1.0, 2.0])
@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_steps_are_those_of_numpy(seed, spread, drops_at_once):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    bowls, start = problem(seed, spread), np.zeros((*GRID, *SHAPE))

    def refreshed(now, W, n_iter, left):
        return replace(now, scale=0.5 * now.scale) if n_iter == 7 else None

    expected, found = (
        minimise(
            at(place, bowls),
            move(start, place),
            1e-5,
            30,
            drops_at_once=drops_at_once,
            refresh=refreshed,
        )
        for place in (HOST, gpu_place())
    )
    np.testing.assert_array_equal(found.n_iter, expected.n_iter)
    np.testing.assert_array_equal(found.stalled, expected.stalled)
    np.testing.assert_allclose(found.violation, expected.violation, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.W.get(), expected.W, rtol=1e-7, atol=1e-9)
    assert start.max() == 0  # where it began is as it was


def test_trials_that_are_no_numbers_are_shortened():
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    bowls = problem(2, 0.1)
    wild = replace(bowls, X=bowls.X * 1e3, scale=1e200 * bowls.scale)
    found = minimise(at(gpu_place(), wild), cupy.zeros((*GRID, *SHAPE)), 1e-9, 40)
    assert found.stalled.any() or (found.n_iter == 40).all()
    assert bool(cupy.isfinite(found.W).all())
