"""Preconditioners of smooth models from the variances of their features alone."""

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

# So many other entries of a sparse row, at most, are taken to go with each; and the share of
# negative ones, such as those of scaled numbers beside words, up to which any are.
MOST_TOGETHER = 30
MOST_NEGATIVE = 0.1


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
        mean, variance = (move(a, home) for a in sample.design.spread())  # (1 or S, p)
        check_squares(variance + mean**2, xp)
    curved = sample.loss.typical(sample.n_vectors, lambda: move(_mean_target(sample), home))
    fitted = penalty.used[:, :, 0, -1:]
    # Without an intercept it is the squares that count, not the variances.
    size = variance + (1.0 - fitted) * mean**2  # (C, S, p)
    others = _together(sample.design)
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


def _together(design):
    """How many other entries of a sparse row go with each, as words of a text do; 0 for others.

    Entries of either sign are none of these.
    """
    if not isinstance(design, Sparse) or design.n_entries == 0:
        return 0.0
    if float((design.matrix.data < 0).mean()) > MOST_NEGATIVE:
        return 0.0
    return max(0.0, min(MOST_TOGETHER, design.n_entries / design.shape[0] - 1))


def _usual(variances):
    """Medians (S,) of variances (S, p), in CPU memory, of features that vary."""
    varying = [row[row > 0] for row in to_host(variances)]
    return np.asarray([np.median(row) if len(row) else 0.0 for row in varying])


def _mean_target(sample):
    """Mean targets (S, 1); 1 where a sample shows none."""
    mean, xp = mean_targets(sample), sample.place.xp
    return xp.where(mean > 0, mean, xp.ones_like(mean))[:, None]
