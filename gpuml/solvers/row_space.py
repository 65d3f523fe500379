"""Losses with l2 penalties of fewer rows than features, in the space of the rows.

Whatever rows weigh in a split, coefficients at the minimum are sums of rows: where ``X = Z Q`` with
orthonormal rows of Q, they are ``v Q``, and v is the minimum of the same loss and penalty of the
rows Z, which have no more columns than there are rows. X is read for its inner products
``X X' = U diag(d) U'``, which give ``Z = U diag(d)^1/2`` for all candidates and splits, and once
more for the coefficients. Columns of Z are orthogonal, so that variances alone make good steps.
Steps that take Hessians do without that: ``X X' = L L'`` gives them ``Z = L``, sooner.
Of several minima of models without a penalty and an intercept, that one has the least norm.

Squares cost digits where values of d differ much. Directions without rows are left out; where
others are so small that they would not be accurate, there is no such space, and X is read instead.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gpuml._arrays import Array, is_numpy, namespace, place_of, to_host
from gpuml._arrays.ops import all_finite
from gpuml._arrays.threads import threads_for_order
from gpuml.designs import Dense
from gpuml.penalties import Penalty
from gpuml.solvers import few_rows, kinks
from gpuml.solvers._blocks import quiet
from gpuml.solvers.loss_rows import LossRows

# Values of d from this share of the largest are accurate enough; others have to be 0: what the
# rows have in those directions is at most this share of them.
LEAST_SHARE = 1e-8
ROUNDING = 1e-11

# Passes over X that models are expected to take, under losses of bounded curvature and others.
EXPECTED_PASSES = 10
EXPECTED_UNBOUNDED = 40
# The cost of reading X, in products with vectors; of the eigendecomposition, in inverses; and how
# many of its small steps take as long as a pass.
READING = 4
SPECTRUM = 2.0
STEPS_OF_SPECTRUM = 30


def has_none(data: LossRows, penalty: Penalty, memory: int) -> bool:
    """Whether rows are no array of more features than rows where work is done, or none that fits.

    Rows of float32 are copied in float64.
    """
    design = data.design
    if not isinstance(design, Dense) or design.shape[0] >= design.shape[1]:
        return True
    if place_of(design.X) != data.place:
        return True
    return design.itemsize < 8 and 8 * design.n_entries > memory


def passes_before(data: LossRows, shape: tuple[int, ...], costs: Any, *, newton: bool) -> int:
    """The number of passes over X after which models (C, S, k, q) continue in the row space.

    At once, where that costs no more than the passes which are expected, or a few steps end at the
    minimum there; else where as many have been taken as it costs, since those who took so many are
    going to take more.

    Parameters
    ----------
    data : LossRows
    shape : tuple of int
    costs : Costs
        As of `solvers.loss_models`.
    newton : bool
        Whether every pass takes Hessians.
    """
    design: Any = data.design
    if design.known or ends_there(data, shape):
        return 0
    n_rows, p = (float(size) for size in design.shape)
    n_candidates, n_splits, k, _ = shape
    n_models = n_candidates * n_splits
    n_vectors = n_models * k + READING
    saved = 4.0 * n_rows * (p - n_rows) * n_vectors
    if few_rows.are_few(data, shape, data.n_rows):
        saved += costs.one_pass / 2  # Newton's method takes half of the steps
    if newton:
        saved += n_models * (n_rows * p**2 + costs.one_inverse * p**3)
    made = n_rows**2 * p / 2 + 2.0 * n_rows * p * n_vectors
    made += SPECTRUM * costs.one_inverse * n_rows**3 + n_rows * costs.one_pass / STEPS_OF_SPECTRUM
    expected = EXPECTED_UNBOUNDED if data.loss.bound is None else EXPECTED_PASSES
    n_first = int(made / saved)
    return n_first if n_first > expected else 0


def ends_there(data: LossRows, shape: tuple[int, ...]) -> bool:
    """Whether models (C, S, k, q) of a loss whose curvature jumps take Newton's steps there."""
    few = few_rows.are_few(data, shape, data.n_rows)
    return data.loss.jumps and (few or kinks.are_few(data, data.n_rows))


def words(n_first: int) -> str:
    """How a plan describes models that change to the row space after some passes over X.

    >>> words(0), words(12)
    ('in the space of the rows', 'in the space of the rows after 12 passes')
    """
    return "in the space of the rows" + (f" after {n_first} passes" if n_first else "")


@dataclass(frozen=True)
class RowSpace:
    """Rows ``X = Z Q`` with ``Q = turn X``.

    Attributes
    ----------
    X : array (n, p), float64
    Z : array (n, r), float64
    turn : array (r, n), float64
    """

    X: Array
    Z: Array
    turn: Array

    @classmethod
    def of(cls, data: LossRows, *, orthogonal: bool) -> "RowSpace | None":
        """The space of the rows, where squares are accurate enough for it; found once for all.

        `orthogonal` says that columns of Z have to be.
        """
        design: Any = data.design
        X, known = design.block(slice(0, data.n_rows)).dense(), design.known
        if orthogonal not in known:
            known[orthogonal] = _turned(X, orthogonal)
        return None if known[orthogonal] is None else cls(X, *known[orthogonal])

    def rows(self, data: LossRows) -> LossRows:
        """The rows Z in the place of X."""
        design = Dense(self.Z, data.place, block_bytes=data.design.block_bytes)
        return replace(data, design=design, advance=None)

    def penalty(self, penalty: Penalty) -> Penalty:
        """The penalty of v: that of all coefficients of a model is the same."""
        return Penalty(*(self._ends(a) for a in (penalty.l1, penalty.l2, penalty.used)))

    def _ends(self, values):
        """The first r values of (..., q), and the last."""
        xp, r = namespace(values), self.Z.shape[1]
        return xp.concat([values[..., :r], values[..., -1:]], axis=-1)

    def inward(self, W: Array) -> Array:
        """Models (C, S, k, p + 1) as models (C, S, k, r + 1) of the rows Z."""
        if not bool(namespace(W).any(W[..., :-1] != 0)):
            return self._ends(W)
        return _times(W, self.X.T, self.turn.T)

    def outward(self, V: Array) -> Array:
        """Models (C, S, k, r + 1) of the rows Z as models (C, S, k, p + 1)."""
        return _times(V, self.turn, self.X)


def _turned(X, orthogonal):
    """Z and `turn`; None where squares are not accurate enough."""
    xp = namespace(X)
    with quiet():
        K = X @ X.T
    if not all_finite(K, xp):
        return None
    with threads_for_order(K.shape[0]):
        factors = None if orthogonal else triangular(K)
        if factors is not None:
            return factors
        d, U = xp.linalg.eigh(K)
    values = to_host(d)
    largest = float(values[-1])
    empty = int((values <= LEAST_SHARE * largest).sum())
    if empty:
        left = U[:, :empty].T @ X
        if float(xp.max(xp.sum(left**2, axis=1))) > ROUNDING**2 * largest:
            return None
    if empty == len(values):
        return None
    root, U = xp.sqrt(d[empty:]), U[:, empty:]
    return U * root, (U / root).T


def triangular(K: Array) -> tuple[np.ndarray, np.ndarray] | None:
    """The factor L of ``K = L L'``, and its inverse.

    None for K that is nearly singular, or not in CPU memory.
    """
    if not is_numpy(K):
        return None
    L, failed = lapack.dpotrf(K, lower=1, clean=1)
    if failed:
        return None
    inverse, failed = lapack.dtrtri(L, lower=1)
    # Of K and of its inverse, the traces: no less than the condition.
    if failed or not float(np.trace(K)) * float(np.sum(inverse**2)) <= 1.0 / LEAST_SHARE:
        return None
    return L, inverse


def _times(W, one, other):
    """Models ``[w one other, b]`` of models [w, b], all of them in one product of matrices."""
    xp, grid = namespace(W), W.shape[:-1]
    flat = xp.reshape(W[..., :-1], (-1, one.shape[0])) @ one @ other
    return xp.concat([xp.reshape(flat, (*grid, -1)), W[..., -1:]], axis=-1)
