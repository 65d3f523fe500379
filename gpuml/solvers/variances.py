"""Preconditioners of smooth models from the variances of their features alone."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml._arrays.ops import constant
from gpuml.designs import Sparse
from gpuml.penalties import Penalty
from gpuml.solvers._blocks import quiet
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import check_squares, mean_targets

# Steps of the power method, rows per feature for them, and what their result is multiplied by: they
# end below the largest curvature.
STEPS, ROWS_PER_FEATURE, ABOVE = 5, 4, 1.5
# The second step already tells levels of a table, of which a row has one, from words of a text. The
# last has to be above the largest curvature of as many independent features by this factor.
LEAST_TOGETHER, FAR_ABOVE = 2.0, 1.25


@dataclass(frozen=True)
class Diagonal:
    """Variances of features plus penalty, inverted, for coefficients of centred features.

    Attributes
    ----------
    inverse : array (C, S, 1, q)
    centre : array (C, S or 1, 1, q)
        Means of the features, and 0; all 0 for models without an intercept.
    """

    inverse: Array
    centre: Array

    def __call__(self, G: Array) -> Array:
        """Products with gradients (C, S, k, q)."""
        xp = namespace(G)
        V = (G - G[..., -1:] * self.centre) * self.inverse
        intercept = V[..., -1:] - xp.sum(V * self.centre, axis=-1, keepdims=True)
        return xp.concat([V[..., :-1], intercept], axis=-1)

    def select(self, index: Array) -> Self:
        """Some of the candidates."""
        xp = namespace(index)
        return type(self)(*(xp.take(a, index, axis=0) for a in (self.inverse, self.centre)))


def diagonal_inverse(sample: LossRows, penalty: Penalty, n_rows: int) -> Diagonal:
    """Preconditioner from the variances of the features alone.

    Parameters
    ----------
    sample : LossRows
        Some of the rows.
    penalty : Penalty
        Of coefficients (C, S, k, q).
    n_rows : int
        How many rows there are in all.

    Returns
    -------
    Diagonal
        Where the penalty is.
    """
    home = place_of(penalty.l2)
    xp = home.xp
    with quiet():
        spread = sample.design.spread()
        mean, variance = (move(a, home) for a in spread)  # (1 or S, p)
        check_squares(variance + mean**2, xp)
        fitted = penalty.used[:, :, 0, -1:]
        others = _together(sample.design, spread, centred=bool(xp.min(fitted) > 0))
    curved = sample.loss.typical(sample.n_vectors, lambda: move(_mean_target(sample), home))
    # Without an intercept it is the squares that count, not the variances.
    size = variance + (1.0 - fitted) * mean**2  # (C, S, p)
    if n_rows < sample.design.shape[1] and others == 0:
        # Steps that do not leave the space of the rows: outside of it the curvature is the
        # penalty's alone, which no variance shows.
        size = xp.zeros_like(size) + xp.sum(size, axis=-1, keepdims=True) / n_rows
    l2 = penalty.l2[:, :, 0, :-1]
    h = l2 + curved * size
    if others > 0:
        # Along what features share, the curvature is that of each so many times. Rare ones get
        # roots, between that and their own.
        usual = constant(_usual(variance), like=h, xp=xp)[:, None]
        h = xp.maximum(h, others * xp.sqrt(h * (l2 + curved * usual)))
    h = xp.where(h > 0, h, xp.ones_like(h))
    last = fitted / (curved + penalty.l2[:, :, 0, -1:]) * xp.ones_like(h[..., :1])
    inverse = xp.concat([1.0 / h, last], axis=-1)
    centre = fitted * mean
    centre = xp.concat([centre, xp.zeros_like(centre[..., :1])], axis=-1)
    return Diagonal(inverse[:, :, None, :], centre[:, :, None, :])


def _together(design, spread, *, centred):
    """How many times their own is the curvature along what sparse features share; 0 for little.

    Steps of the power method lead there from all features at once.
    """
    if not isinstance(design, Sparse) or design.n_entries == 0:
        return 0.0
    xp, (n, p) = design.place.xp, design.shape
    every = n // (ROWS_PER_FEATURE * p)
    # Variances are of the same rows: one that has a rare level must not stand for many.
    rows = design.sample(slice(0, n, every)) if every > 1 else design
    mean, variance = (a[0, :] for a in (rows.spread() if every > 1 else spread))
    size = variance if centred else variance + mean**2
    inverse = xp.where(size > 0, 1.0 / xp.where(size > 0, size, 1.0), 0.0)
    # Of independent features: V. A. Marchenko, L. A. Pastur, Mat. Sb. 72 (1967).
    little = FAR_ABOVE * (1.0 + math.sqrt(p / rows.shape[0])) ** 2
    v, z, found = xp.sqrt(inverse), None, 0.0
    for step in range(STEPS):
        if z is not None:
            v = rows.rmatvec(z[:, None])[0, :] * inverse
            v = v / xp.max(xp.abs(v))
        z = rows.matvec(v[None, :])[:, 0]
        z = z - xp.mean(z) if centred else z
        found = float(xp.mean(z**2) / xp.sum(v**2 * size))
        if step > 0 and not found > LEAST_TOGETHER:
            return 0.0
    return ABOVE * found if found > little else 0.0


def _usual(variances):
    """Medians (S,) of variances (S, p), in CPU memory, of features that vary."""
    varying = [row[row > 0] for row in to_host(variances)]
    return np.asarray([np.median(row) if len(row) else 0.0 for row in varying])


def _mean_target(sample):
    """Mean targets (S, 1); 1 where a sample shows none."""
    mean, xp = mean_targets(sample), sample.place.xp
    return xp.where(mean > 0, mean, xp.ones_like(mean))[:, None]
