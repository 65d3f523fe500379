"""Models that several candidates have in common: what is read once for them is theirs."""

import numpy as np
import pytest

from gpuml._arrays import HOST
from gpuml.designs import Dense
from gpuml.losses import BINOMIAL, tweedie
from gpuml.penalties import Penalty
from gpuml.solvers._alike import different, merged
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import Objective, inverse_curvature


@pytest.fixture
def models(rng):
    """Four candidates on three splits; the third has the models of the first."""
    W = rng.normal(size=(4, 3, 1, 6))
    W[2] = W[0]
    return W


def test_different_models_and_who_has_them(models):
    own, index = different(models)
    np.testing.assert_array_equal(own[index], models)
    assert len(own) == 3
    assert different(own) == (own, None)


@pytest.mark.parametrize("loss", [BINOMIAL, tweedie(1.5, "log")], ids=lambda loss: loss.name)
def test_what_is_read_once_is_theirs(models, loss, rng):
    target = rng.integers(0, 2, 200).astype(float)
    weights = rng.integers(0, 3, (3, 200)).astype(float)
    data = LossRows(Dense(rng.normal(size=(200, 5)), HOST), target, weights, loss, 1)
    l2 = np.broadcast_to(10.0 ** np.arange(-2.0, 2.0)[:, None, None, None], (4, 3, 1, 6))
    penalty = Penalty(np.zeros_like(l2), l2, np.ones((4, 1, 1, 6)))
    total = data.total_weights
    together = Objective(data, total, penalty).gradient(models, begins=True)
    inverse = inverse_curvature(data, models, penalty, total, shared=False).matrices
    for c, own in enumerate(models[:, None]):
        alone = Penalty(*(a[c : c + 1] for a in (penalty.l1, penalty.l2, penalty.used)))
        gradient = Objective(data, total, alone).gradient(own)
        np.testing.assert_allclose(together[c], gradient[0], rtol=1e-10, atol=1e-13)
        found = inverse_curvature(data, own, alone, total, shared=False).matrices
        np.testing.assert_allclose(inverse[c], found[0], rtol=1e-8, atol=1e-11)


def test_only_models_that_are_nearly_the_same_are_merged(rng):
    mean, variance = rng.normal(size=(1, 5)), rng.lognormal(size=(1, 5))
    first = rng.normal(size=(3, 1, 6))
    others = [1.001 * first, 1.5 * first, first + 9.0 * np.eye(6)[5], 0 * first]
    W = np.stack([first, *others])
    index = [0, 0, 2, 3, 4]
    for order in (slice(None), slice(None, None, -1)):
        found = merged(W[order], mean, variance)
        same = [any(np.array_equal(one, W[i]) for i in (0, 1)) for one in found]
        assert same == [i == 0 for i in index[order]]
        kept = [c for c, i in enumerate(index[order]) if i > 0]
        np.testing.assert_array_equal(found[kept], W[order][kept])
        assert len(different(found)[0]) == 4
    assert different(merged(replace_one(W), mean, variance))[1] is None


def replace_one(W):
    """Models of which the first two differ in one split."""
    W = W.copy()
    W[1, 2] *= 2.0
    return W
