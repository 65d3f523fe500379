"""Approximate inverse Hessians of models with a coefficient for each of many levels of one column.

Levels exclude each other: in ``[[A, B], [B', D]]``, with the Hessian A of all other coefficients,
D is diagonal. So the system is solved by the Schur complement ``A - B D^-1 B'``, which is as large
as A, and products with B, which holds sums by level.
"""

from dataclasses import dataclass, replace

from gpuml._arrays import Array, device_of, namespace
from gpuml._arrays.ops import zeros
from gpuml.data import cut
from gpuml.designs import Beside, Columns, Dense
from gpuml.penalties import Penalty
from gpuml.solvers._alike import are_alike
from gpuml.solvers._blocks import quiet
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import Inverse, inverted

# Rows whose curvatures are held at once, or as many as there are levels.
CPU_BLOCK_ROWS, GPU_BLOCK_ROWS = 2**14, 2**20


@dataclass(frozen=True)
class Arrow:
    """Inverse Hessians, to multiply gradients with; those of splits differ in their maps alone.

    Attributes
    ----------
    design : Beside
    inverse : Inverse
        Of the Schur complements (C, S, q', q').
    sums : array (C or 1, L, q)
        B', for the columns that are read.
    levels : array (C, L)
        The diagonal of D.
    seen : array (S, L)
        1 for levels that a split has rows of; the others stay at 0.
    """

    design: Beside
    inverse: Inverse
    sums: Array
    levels: Array
    seen: Array

    def __call__(self, G: Array) -> Array:
        """Products with gradients (C, S, 1, q)."""
        xp, near = namespace(G), self.design.near
        own = self.design.of_apart(G)[:, :, 0, :]  # (C, S, L)
        levels = self.levels[:, None, :]
        shares = (own / levels) @ self.sums  # (C, S, q)
        x = self.inverse(self.design.of_near(G) - near.from_stored(shares[:, :, None, :]))
        stored = near.to_stored(x)[:, :, 0, :]
        y = (own - stored @ xp.matrix_transpose(self.sums)) / levels * self.seen
        return xp.concat([x[..., :-1], y[:, :, None, :], x[..., -1:]], axis=-1)

    def select(self, index: Array) -> "Arrow":
        """Some of the candidates."""
        xp = namespace(index)
        sums = self.sums
        sums = sums if sums.shape[0] == 1 else xp.take(sums, index, axis=0)
        levels = xp.take(self.levels, index, axis=0)
        return replace(self, inverse=self.inverse.select(index), sums=sums, levels=levels)


def is_arrow(data: LossRows, shape: tuple[int, ...]) -> bool:
    """Whether Hessians of models (C, S, k, q) are of this kind."""
    design = data.design
    return isinstance(design, Beside) and len(design.apart.codes) == 1 and shape[2] == 1


def inverse_at(data: LossRows, W: Array, penalty: Penalty) -> Arrow:
    """Inverse Hessians of all rows, at the mean of the models W (C, S, 1, q) of each candidate."""
    with quiet():
        return _arrow_at(data, W, penalty)


def _arrow_at(data, W, penalty):
    xp, design, total = data.place.xp, data.design, data.total_weights
    alike = are_alike(W)
    models = xp.mean(design.to_stored(W[:1, ...] if alike else W)[:, :, 0, :], axis=1)  # (C, Q)
    squares, sums, levels = _sums(data, design, models, total)
    apart = penalty.l2[:, :, 0, :]
    apart = xp.mean(apart[..., -1 - design.apart.shape[1] : -1], axis=1)  # (C, L)
    levels = levels + apart
    left = []
    for c in range(levels.shape[0]):
        i = min(c, sums.shape[0] - 1)  # models that are alike share them
        B, D = sums[i, ...], levels[c, ...]
        left.append(squares[i, ...] - B.T @ (B / D[:, None]))
    left = design.near.hessians_from_stored(xp.stack(left)[:, None, ...])
    own = Penalty(*(design.of_near(a) for a in (penalty.l1, penalty.l2, penalty.used)))
    inverse = Inverse(inverted(left, own, 1, left.shape[-1], data))
    weights = data.weights
    if weights is None:
        weights = xp.ones((1, data.n_rows), dtype=xp.float64, device=device_of(levels))
    seen = xp.astype(design.apart.sums(weights) > 0, xp.float64)
    return Arrow(design, inverse, sums, levels, seen)


def _sums(data, design, models, total):
    """Sums of curvatures times products: (C, q, q), by level (C, L, q) and (C, L)."""
    xp, n_models = data.place.xp, models.shape[0]
    near, q = design.near.stored, design.near.stored.shape[1] + 1
    n_levels = design.apart.shape[1]
    like = models
    squares = zeros((n_models, q, q), like=like, xp=xp)
    sums = zeros((n_models, n_levels, q), like=like, xp=xp)
    most = CPU_BLOCK_ROWS if data.place.is_host else GPU_BLOCK_ROWS
    for rows in cut(slice(0, data.n_rows), max(most, n_levels)):
        X, levels = near.sample(rows), design.apart.sample(rows)
        z = Columns((X, levels)).matvec(models[:, :-1]).T + models[:, -1:]  # (C, b)
        c = data.loss.curvature(z[None, :, None, :], data.target[rows], xp)[0, :, 0, :]
        if data.weights is None:
            w = 1.0 / total[0]
        else:
            w = xp.mean(xp.astype(data.weights[:, rows], xp.float64) / total[:, None], axis=0)
        ones = xp.ones((z.shape[1], 1), dtype=xp.float64, device=device_of(z))
        wide = Columns((X, Dense(ones, data.place)))
        h = c * w
        squares += wide.gram(h)
        parts = [*X.parts, wide.parts[-1]]
        sums += xp.concat([levels.cross(part, h) for part in parts], axis=2)
    return squares, sums, sums[..., -1]
