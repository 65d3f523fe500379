"""Targets of several kinds, made from a linear predictor of unit scale, the margin."""

import numpy as np


def counts(random, margin):
    return random.poisson(np.exp(margin)).astype(float)


def costs(random, margin):
    return random.gamma(2.0, np.exp(margin) / 2.0) + 1e-3


def claims(random, margin):
    """Sums of as many costs as there are claims: many are 0."""
    return random.poisson(np.exp(margin)) * random.gamma(2.0, 0.5, size=len(margin))


def outlying(random, margin):
    return 3.0 * margin + random.standard_t(2, size=len(margin))


def several(random, margin):
    """Five targets, of which four have something of the margin."""
    return margin[:, None] * np.arange(5) + random.normal(size=(len(margin), 5))


def noisy(random, margin):
    return margin + random.normal(size=len(margin))


def two_classes(random, margin):
    return (margin + 0.5 * random.normal(size=len(margin)) > 0).astype(int)


def three_classes(random, margin):
    return (margin > -0.5).astype(int) + (margin > 0.5)
