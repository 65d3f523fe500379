r"""Ridge regression with several columns of categories of many levels each.

The objective is that of `solvers.levels_apart`, with a coefficient for each level of every such
column. The levels of the largest column and all other coefficients are eliminated exactly; the
levels g of the others are found by conjugate gradients on what is left,

.. math:: (D + N - M \Lambda^{-1} M' - C A^{-1} C')\, g = r ,

where D has the numbers of rows of each level plus :math:`\alpha`, N those of pairs of levels of two
of these columns, M of pairs with the largest, whose diagonal block is :math:`\Lambda`, and C and A
are sums by level and second moments of the features, less what the largest column takes of them.
Products need sums over rows alone, which are taken once; D less the diagonal of the second term is
the preconditioner. This is how models of crossed effects are fitted [1]_.

References
----------
.. [1] T. Tjur, "Analysis of Variance Models in Orthogonal Designs" (1984); K. Gao, A. B. Owen,
   "Estimation and Inference for Very Large Linear Mixed Effects Models" (2020).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy import sparse

from gpuml._arrays import move, to_host
from gpuml._arrays.grams import full_symmetric
from gpuml._arrays.ops import EPS
from gpuml.data import take
from gpuml.designs import Coded
from gpuml.solvers._result import LinearModels, Status
from gpuml.solvers.affine import Affine, transformed
from gpuml.solvers.described import Described, Training
from gpuml.solvers.sums_by_level import add_shares, level_sums
from gpuml.solvers.table_rows import TableBatch

# Stop when the residual has shrunk to this share; and the largest number of steps.
TOL, MOST_STEPS = 1e-12, 2000


@dataclass(frozen=True)
class Crossed:
    """What one training part knows of its levels, about shifts of the features and targets.

    Attributes
    ----------
    gram : array (q, q)
        Moments of ``[x, y, 1]``, of the images of x where there are some.
    shift : array (q - 1,)
    largest, others : arrays (L, q), (K, q)
        Sums by level of the largest column, and of all others.
    pairs, among : sparse matrices (K, L), (K, K)
        Rows of each pair of levels of two columns.
    """

    gram: np.ndarray
    shift: np.ndarray
    largest: np.ndarray
    others: np.ndarray
    pairs: sparse.csr_array
    among: sparse.csr_array

    def without_shift(self) -> "Crossed":
        """The same about 0."""
        change = np.eye(len(self.gram))
        change[-1, :-1] = self.shift
        gram = change.T @ self.gram @ change
        sums = self.largest @ change, self.others @ change
        return Crossed(gram, np.zeros_like(self.shift), *sums, self.pairs, self.among)


def solve_crossed(
    described: Described, part: Training, alphas: np.ndarray, fit_intercept: bool
) -> LinearModels:
    """Models of every alpha (U,) on the parts of one partition; levels behind all other columns.

    Raises
    ------
    ValueError
        For alphas so small that levels take all digits, or too many steps.
    """
    batch = cast(TableBatch, described.folds.batch)
    sizes = cast(Coded, batch.apart).n_levels
    largest = int(np.argmax(sizes))
    order = [largest, *(number for number in range(len(sizes)) if number != largest)]
    # Where the levels of each column are among those of `order`.
    firsts = np.cumsum([0, *(sizes[number] for number in order)])
    place = {number: slice(firsts[i], firsts[i + 1]) for i, number in enumerate(order)}
    back = np.concatenate([np.arange(firsts[-1])[place[n]] for n in range(len(sizes))])
    moments = described.sums(part.index, part.counts)
    frame = described.folds.frame
    maps = None if frame is None else frame.of(part.splits)
    images = moments if maps is None else transformed(moments, maps)
    atoms = _pairs_of_atoms(described, part.index, order)
    shape = moments.gram.shape[0], moments.gram.shape[-1] - 1
    shifts = np.broadcast_to(moments.shift, shape)
    found = []
    for s, counts in enumerate(part.counts):
        each = [_sums(described, part.index, number, counts, shifts[s]) for number in order]
        if maps is not None:
            each = [_image(sums, maps, s, moments.n_features) for sums in each]
        pairs, among = (_added(own, counts) for own in atoms)
        shift = np.broadcast_to(images.shift, (shape[0], images.gram.shape[-1] - 1))[s]
        own = Crossed(images.gram[s], shift, each[0], np.concatenate(each[1:]), pairs, among)
        own = own if fit_intercept else own.without_shift()
        found.append(_of_part(own, images, alphas, fit_intercept, described.precision))
    coef, intercept, levels = (np.stack(each, axis=1) for each in zip(*found, strict=True))
    status = np.full(coef.shape[:2], int(Status.MOMENTS))
    return LinearModels(np.concatenate([coef, levels[..., back]], axis=-1), intercept, status)


def _of_part(crossed, images, alphas, fit_intercept, precision):
    """Coefficients (U, t, p), intercepts (U, t) and levels (U, t, L + K) of one part."""
    p, q = images.n_features, len(crossed.gram)
    near = np.r_[:p, q - 1] if fit_intercept else np.arange(p)
    y = np.arange(p, q - 1)
    taken = np.zeros((len(alphas), q, q))
    add_shares(taken, crossed.largest, alphas)
    left = crossed.gram - full_symmetric(taken, np)
    damped = left[:, near[:, None], near]
    damped += alphas[:, None, None] * np.diag((near < p).astype(float))
    _check(alphas, crossed.gram[-1, -1], left[:, -1, -1], damped, precision)
    system = _Left(crossed, np.repeat(alphas, len(y)), near, np.linalg.inv(damped))
    right = system.solved(left[:, near[:, None], y])
    every = np.tile(np.eye(len(y)), len(alphas))  # the targets of each alpha
    rhs = crossed.others[:, y] @ every - crossed.pairs @ (
        system.weight * (crossed.largest[:, y] @ every)
    )
    g = _conjugate_gradients(system, rhs - system.sums(right), system.diagonal())
    found = right - system.solved(system.by_alpha(system.sums_of(g)))
    rest = crossed.largest[:, y] @ every - crossed.largest[:, near] @ found
    rest = system.weight * (rest - crossed.pairs.T @ g)
    shape = len(alphas), len(y), -1
    levels = np.concatenate([rest, g]).T.reshape(shape)
    found = found.T.reshape(shape)
    coef = found[..., :p]
    if not fit_intercept:
        return coef, np.zeros(coef.shape[:2]), levels
    return coef, found[..., -1] + crossed.shift[y] - coef @ crossed.shift[:p], levels


@dataclass(frozen=True)
class _Left:
    """What elimination leaves of the levels of the other columns, of m alphas and targets.

    Attributes
    ----------
    crossed : Crossed
    alphas : array (m,)
    near : int array (r,)
        Columns of features, and the last one if there is an intercept.
    inverse : array (U, r, r)
        Of their moments less what the largest column takes, for each alpha.
    """

    crossed: Crossed
    alphas: np.ndarray
    near: np.ndarray
    inverse: np.ndarray

    @cached_property
    def weight(self) -> np.ndarray:
        """The inverse (L, m) of the diagonal block of the largest column."""
        return 1.0 / (self.crossed.largest[:, -1:] + self.alphas)

    @cached_property
    def _near(self):
        """Sums by level of the columns that are not eliminated last."""
        return self.crossed.largest[:, self.near], self.crossed.others[:, self.near]

    def by_alpha(self, c: np.ndarray) -> np.ndarray:
        """Columns (r, m) as (U, r, t)."""
        return c.reshape(len(c), len(self.inverse), -1).transpose(1, 0, 2)

    def solved(self, c: np.ndarray) -> np.ndarray:
        """Solutions (r, m) for the features, of right-hand sides (U, r, t)."""
        return (self.inverse @ c).transpose(1, 0, 2).reshape(c.shape[1], -1)

    def sums(self, x: np.ndarray) -> np.ndarray:
        """Products (K, m) of the remaining sums by level with (r, m)."""
        largest, others = self._near
        return others @ x - self.crossed.pairs @ (self.weight * (largest @ x))

    def sums_of(self, g: np.ndarray) -> np.ndarray:
        """Products (r, m) of their transpose with (K, m)."""
        largest, others = self._near
        return others.T @ g - largest.T @ (self.weight * (self.crossed.pairs.T @ g))

    def diagonal(self) -> np.ndarray:
        """The diagonal of the matrix (K, m), without the share of features."""
        own = self.crossed.others[:, -1:] + self.alphas
        return own - self.crossed.pairs.power(2) @ self.weight

    def __call__(self, g: np.ndarray) -> np.ndarray:
        """Products (K, m)."""
        largest, others = self._near
        shared = self.weight * (self.crossed.pairs.T @ g)
        x = self.solved(self.by_alpha(others.T @ g - largest.T @ shared))
        shared -= self.weight * (largest @ x)
        counts = self.crossed.others[:, -1:] + self.alphas
        return counts * g + self.crossed.among @ g - self.crossed.pairs @ shared - others @ x


def _conjugate_gradients(system: _Left, rhs: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """Solutions (K, m) of several systems at once."""
    x, residual = np.zeros_like(rhs), rhs
    z = residual / diagonal
    direction, length = z, np.sum(residual * z, axis=0)
    goal = TOL**2 * length
    for _ in range(MOST_STEPS):
        if (length <= goal).all():
            return x
        image = system(direction)
        curvature = np.sum(direction * image, axis=0)
        step = np.where(length > goal, length / np.where(curvature > 0, curvature, 1.0), 0.0)
        x, residual = x + step * direction, residual - step * image
        z = residual / diagonal
        before, length = length, np.sum(residual * z, axis=0)
        direction = z + direction * (length / np.where(before > 0, before, 1.0))
    alpha = float(system.alphas[length > goal].min())
    raise ValueError(
        f"With alpha={alpha:g} the levels of several columns are so closely related that "
        f"{MOST_STEPS:,} steps do not separate them. Search larger values, or group rare levels "
        "(min_frequency)."
    )


def _check(alphas, n_rows, left, damped, precision):
    """Refuse alphas beside which rounding is all that is left."""
    lost = 8 * EPS * n_rows / np.maximum(left, np.finfo(float).tiny)
    bad = ~(np.maximum(lost, EPS * np.linalg.cond(damped)) <= precision)
    if bad.any():
        raise ValueError(
            f"alpha={alphas[bad].min():g} is too small for so many levels: digits are lost. "
            "Search larger values, or group rare levels (min_frequency)."
        )


# ---------------------------------------------------------------- sums over rows


def _sums(described, index, number, counts, shift):
    """Sums (L, q) by level of one column, of one part."""
    found = [own.of(counts, shift) for own in level_sums(described, index, number)]
    return found[0] if len(found) == 1 else np.concatenate(found)


def _image(sums: np.ndarray, maps: Affine, s: int, p: int) -> np.ndarray:
    """Sums of the images of rows about the image of their shift."""
    matrix = to_host(maps.matrix)[s]
    return np.concatenate([sums[:, :p] @ matrix, sums[:, p:]], axis=1)


def _added(atoms: Sequence[sparse.csr_array], counts: np.ndarray) -> sparse.csr_array:
    """Sums over atoms, weighted by their counts."""
    total = sparse.csr_array(atoms[0].shape)
    for atom, count in zip(atoms, counts, strict=True):
        if count:
            total = total + (atom if count == 1 else count * atom)
    return total


def _pairs_of_atoms(described, index, order):
    """Weights of pairs of levels of each atom: with the largest column, and among the others."""
    folds, batch = described.folds, cast(TableBatch, described.folds.batch)
    key = "pairs", index
    if key not in folds.known:
        found = [_pairs(batch, atom, order) for atom in folds.partitions[index].atoms]
        folds.known[key] = tuple(zip(*found, strict=True))
    return folds.known[key]


def _pairs(batch, atom, order):
    xp, apart = batch.work.xp, batch.table.design_apart()
    numbers = take(batch.X, atom, xp)[:, 0]
    codes = [to_host(take(apart.codes[n], numbers, xp)).astype(np.int64) for n in order]
    sizes = [apart.n_levels[n] for n in order]
    weight = np.ones(len(codes[0]))
    if batch.weight is not None:
        weight = to_host(move(take(batch.weight, atom, xp), batch.work)).astype(np.float64)
    firsts = np.cumsum([0, *sizes[1:]])
    numbered = [own + first for own, first in zip(codes[1:], firsts, strict=False)]
    pairs = _counted(numbered, [codes[0]] * len(numbered), weight, (firsts[-1], sizes[0]))
    two = [(a, b) for a in numbered for b in numbered if a is not b]
    ends = [a for a, _ in two], [b for _, b in two]
    return pairs, _counted(*ends, weight, (firsts[-1], firsts[-1]))


def _counted(rows, columns, weight, shape):
    """Sums of weights by pairs of numbers (m,), several of each row of the table."""
    if not rows:
        return sparse.csr_array(shape)
    values = np.tile(weight, len(rows))
    pairs = np.concatenate(rows), np.concatenate(columns)
    return sparse.coo_array((values, pairs), shape=shape).tocsr()
