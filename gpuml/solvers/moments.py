"""Weighted second moments of rows: everything that least squares needs to know about them.

For rows z = [x - c, y - d, 1] with a fixed shift (c, d), the matrix ``M = sum_i w_i z_i z_i'`` is
summed in float64 over blocks of rows. Such sums add: moments of a training part are the sum of the
moments of its atoms, and moments of rows on several devices are the sum of theirs. The shift, close
to the mean, keeps the later removal of the mean from cancelling digits [1]_.

References
----------
.. [1] T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance:
   analysis and recommendations", The American Statistician 37 (1983).
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpuml._arrays import Array, move, namespace
from gpuml._ops import add_gram, constant, design, full_symmetric, zeros
from gpuml.data import Batch, Rows, rows_here, spaced_rows
from gpuml.solvers._blocks import Blocks, quiet, sum_blocks

# So many rows, evenly spaced, give the shift. It need only be near the mean.
SHIFT_ROWS = 4096
# Sums of squares below this have lost digits to what float64 has no numbers for, or are zero.
LEAST_SQUARE = 1e-290


@dataclass(frozen=True)
class Moments:
    """Second moments (..., q, q) of ``[X - c, y - d, 1]``, q = p + t + 1, and the shift (c, d).

    The shift (q - 1,) is common to all, or, of images under maps that differ, (..., q - 1).
    """

    gram: Array
    shift: Array
    n_features: int

    def __add__(self, other: "Moments") -> "Moments":
        """Moments of the rows of both; the shifts must be the same."""
        return replace(self, gram=self.gram + other.gram)

    def combine(self, counts: np.ndarray) -> "Moments":
        """Sums of atoms: (S, A) counts and gram (A, q, q) give gram (S, q, q)."""
        xp = namespace(self.gram)
        q = self.gram.shape[-1]
        counts = constant(counts, like=self.gram, xp=xp)
        flat = counts @ xp.reshape(self.gram, (self.gram.shape[0], q * q))
        return replace(self, gram=xp.reshape(flat, (counts.shape[0], q, q)))


@dataclass(frozen=True)
class Normal:
    """Normal equations of least squares with leading axes (...).

    ``xx = sum w (x - mx)(x - mx)'`` (..., p, p), ``xy = sum w (x - mx)(y - my)'`` (..., p, t), and
    the means `x_mean` (..., p), `y_mean` (..., t), zero where no intercept is fitted.
    `noise` (..., p) is the part of the diagonal of xx that rounding alone can have made.
    """

    xx: Array
    xy: Array
    x_mean: Array
    y_mean: Array
    noise: Array


def row_shift(batch: Batch) -> Array:
    """Mean of some evenly spaced rows of [X, y], float64, shape (p + t,), at the place of work."""
    rows = spaced_rows(batch, 0, max(1, batch.n_rows // SHIFT_ROWS))
    xp = namespace(rows[0])
    X, y, w = (None if a is None else xp.astype(a, xp.float64) for a in rows)
    with quiet():
        if w is None:
            parts = [xp.mean(X, axis=0), xp.mean(y, axis=0)]
        else:
            # Rows of weight 0 may hold anything, and the shift must not follow them.
            total = xp.sum(w)
            share = w / xp.where(total > 0, total, xp.ones_like(total))
            parts = [share @ X, share @ y]
    return move(xp.concat(parts), batch.work)


def atom_moments(
    batch: Batch,
    atoms: tuple[Rows, ...],
    *,
    block_bytes: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> Moments:
    """Moments of each atom of rows, in one pass.

    Parameters
    ----------
    batch : Batch
        They may lie elsewhere than ``batch.work``: blocks are then moved there one by one, and
        the whole never has to fit.
    atoms : tuple of A sets of rows
    block_bytes : int, optional
        Bound on the float64 workspace of a block.
    advance : callable, optional
        Called with the number of rows done since the last call.

    Returns
    -------
    Moments
        With gram of shape (A, q, q).
    """
    shift = row_shift(batch)
    if batch.holders is not None:
        gram = batch.holders.total(_grams_of_piece, atoms, shift, block_bytes)
    else:
        gram = _grams(batch, atoms, shift, block_bytes, advance)
    return Moments(gram, shift, batch.n_features)


def _grams_of_piece(folds, atoms, shift, block_bytes):
    atoms = tuple(rows_here(folds, atom) for atom in atoms)
    return _grams(folds.batch, atoms, move(shift, folds.batch.work), block_bytes, None)


def _grams(batch, atoms, shift, block_bytes, advance):
    """Second moments (A, q, q) of atoms about a shift."""
    q = shift.shape[0] + 1
    blocks = Blocks(batch, n_columns=q, block_bytes=block_bytes, advance=advance)

    def add(total, X, y, weight):
        return add_gram(total, design(X, y, weight, shift, batch.work.xp))

    def start():
        return zeros((q, q), like=shift, xp=batch.work.xp)

    grams = sum_blocks(blocks, atoms, start, add, operator.add)
    return full_symmetric(batch.work.xp.stack(grams), batch.work.xp)


def normal_equations(moments: Moments, fit_intercept: bool) -> Normal:
    """Centre moments at their own mean, or move them to the origin where no intercept is fitted."""
    xp = namespace(moments.gram)
    gram, p = moments.gram, moments.n_features
    eps = xp.finfo(xp.float64).eps
    if fit_intercept:
        weight = gram[..., -1, -1]
        sums = gram[..., :-1, -1]
        means = sums / weight[..., None]
        centred = gram[..., :-1, :-1] - sums[..., :, None] * means[..., None, :]
        mean = moments.shift + means
        # A constant column differs from its computed mean by rounding only.
        noise = weight[..., None] * (8 * eps * mean[..., :p]) ** 2
        noise = noise + 8 * eps * sums[..., :p] * means[..., :p]
    else:
        centred = to_origin(moments)[..., :-1, :-1]
        mean = xp.zeros_like(gram[..., 0, :-1])
        noise = xp.zeros_like(gram[..., 0, :p])
    return Normal(
        xx=centred[..., :p, :p],
        xy=centred[..., :p, p:],
        x_mean=mean[..., :p],
        y_mean=mean[..., p:],
        noise=noise,
    )


def squares_vanish(moments: Moments) -> bool:
    """Whether no feature has squares, about the shift, that float64 has numbers for.

    So it is for very small values, of which the rows themselves have to be asked; and if all
    features are constant.
    """
    xp = namespace(moments.gram)
    squares = xp.linalg.diagonal(moments.gram)[..., : moments.n_features]
    return bool(xp.max(squares) < LEAST_SQUARE)


def to_origin(moments: Moments) -> Array:
    """Second moments ``(..., q, q)`` of [X, y, 1] without the shift."""
    xp = namespace(moments.gram)
    q = moments.gram.shape[-1]
    move = xp.eye(q, dtype=xp.float64, device=moments.gram.device)
    # Row i of `move` gives unshifted variable i: z_i + shift_i * 1.
    column = xp.concat([moments.shift, xp.ones_like(moments.shift[..., :1])], axis=-1)[..., None]
    move = xp.broadcast_to(move[:, :-1], (*column.shape[:-2], q, q - 1))
    move = xp.concat([move, column], axis=-1)
    return move @ moments.gram @ xp.matrix_transpose(move)
