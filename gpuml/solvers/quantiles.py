"""Quantile regression to the optimum of its linear program.

The dual asks for weights d of the rows, and of the penalised coefficients, between bounds:

    maximise y'd  where  A'd = 0,  -l <= d <= u,

of which A are the rows, and below them a row e_j, with y = 0 and u = l, for each penalised
coefficient. d = 0 is inside the bounds, so primal and dual points are feasible from the start, and
predictor and corrector steps [1]_, [2]_ close the gap between them: some twenty products A' D A,
whatever the number of rows. Of the last step's weights the largest name the rows that the plane
goes through, which gives the vertex, with coefficients that are 0 exactly.

References
----------
.. [1] R. Koenker, "Quantile regression", section 6.4 (2005).
.. [2] S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on
   Optimization 2 (1992).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS

# Of the objective, the gap at which steps end; and steps that are taken at most.
GAP, MOST_STEPS = 1e-11, 100
# Of the way to the border, what a step takes.
SHARE = 0.9995
# Of the objective, by which the vertex may be above the last step.
ROUNDING = 1e-10
# Rows of a block of X that is multiplied by weights.
BLOCK_NUMBERS = 2**18


@dataclass(frozen=True)
class Fitted:
    """Coefficients (q,) in CPU memory, the objective, and the steps taken."""

    coef: np.ndarray
    objective: float
    n_steps: int
    converged: bool


def fit_quantile(X: Array, y: Array, weight: Array, quantile: float, penalty: np.ndarray) -> Fitted:
    """Minimise ``sum w pinball(y - X b) + sum penalty |b|`` over b (q,).

    Rows (m, q), targets (m,) and weights (m,) are float64, and no weight is 0.
    """
    program = _Program.of(X, y, weight, quantile, penalty)
    coef = program.least_squares()
    e = program.residuals(coef)
    xp = program.xp
    # Feasible for both programs: s and t are distances from the bounds, v - z are the residuals.
    s, t = program.lower, program.upper
    margin = 0.1 * max(float(xp.mean(xp.abs(e))), EPS * float(xp.max(xp.abs(program.y))), 1e-300)
    z, v = _positive(-e) + margin, _positive(e) + margin
    best = program.objective(e)
    share, n_steps, converged = None, 0, False
    while n_steps < MOST_STEPS:
        gap = float(s @ z + t @ v)
        if gap <= GAP * best or best == 0.0:
            converged = True
            break
        n_steps += 1
        share = 1.0 / (z / s + v / t)
        factor = cholesky(program.gram(share))
        step = program.direction(factor, share, s, t, z, v, -s * z, -t * v)
        primal, dual = _length(s, step[1], t), _length(z, step[2], None, v, step[3])
        if min(primal, dual) < 1.0:
            # Towards the centre, as far as this step would close the gap, and to second order.
            _, ds, dz, dv = step
            left = float((s + primal * ds) @ (z + dual * dz) + (t - primal * ds) @ (v + dual * dv))
            level = (left / gap) ** 3 * gap / (2.0 * len(program))
            step = program.direction(
                factor, share, s, t, z, v, level - s * z - ds * dz, level - t * v + ds * dv
            )
            primal, dual = _length(s, step[1], t), _length(z, step[2], None, v, step[3])
        coef = coef + dual * step[0]
        s, t = s + primal * step[1], t - primal * step[1]
        z, v = z + dual * step[2], v + dual * step[3]
        best = program.objective(program.residuals(coef))
    vertex = None if share is None else program.vertex(share)
    if vertex is not None:
        there = program.objective(program.residuals(vertex))
        if there <= best + ROUNDING * abs(best):
            coef, best = vertex, there
    return Fitted(coef, best, n_steps, converged)


class _Program:
    """The rows and, below them, the penalised coefficients."""

    def __init__(self, X, penalised, y, lower, upper):
        self.X, self.penalised = X, penalised
        self.y, self.lower, self.upper = y, lower, upper
        self.xp: Any = namespace(X)

    @classmethod
    def of(
        cls, X: Array, y: Array, weight: Array, quantile: float, penalty: np.ndarray
    ) -> "_Program":
        penalised = np.flatnonzero(penalty)
        xp: Any = namespace(X)
        bounds = move(penalty[penalised], place_of(X))
        y = xp.concat([y, xp.zeros_like(bounds)])
        lower = xp.concat([(1.0 - quantile) * weight, bounds])
        return cls(X, penalised, y, lower, xp.concat([quantile * weight, bounds]))

    def __len__(self):
        return int(self.y.shape[0])

    def times(self, coef: np.ndarray) -> Array:
        """``A coef``."""
        place = place_of(self.X)
        return self.xp.concat([self.X @ move(coef, place), move(coef[self.penalised], place)])

    def turned(self, values: Array) -> np.ndarray:
        """``A' values``, in CPU memory."""
        m = self.X.shape[0]
        found = np.array(to_host(self.X.T @ values[:m]))
        found[self.penalised] += to_host(values[m:])
        return found

    def gram(self, weight: Array | None) -> np.ndarray:
        """``A' diag(weight) A``, in CPU memory."""
        m = self.X.shape[0]
        found = weighted_gram(self.X, None if weight is None else weight[:m])
        found[self.penalised, self.penalised] += 1.0 if weight is None else to_host(weight[m:])
        return found

    def residuals(self, coef: np.ndarray) -> Array:
        return self.y - self.times(coef)

    def objective(self, e: Array) -> float:
        return float(self.lower @ _positive(-e) + self.upper @ _positive(e))

    def least_squares(self) -> np.ndarray:
        return linalg.cho_solve(cholesky(self.gram(None)), self.turned(self.y))

    def direction(self, factor, share, s, t, z, v, of_s, of_t):
        """The step after which ``s z`` and ``t v`` have grown by `of_s` and `of_t`."""
        h = share * (of_s / s - of_t / t)
        step = linalg.cho_solve(factor, self.turned(h))
        ds = h - share * self.times(step)
        return step, ds, (of_s - z * ds) / s, (of_t + v * ds) / t

    def vertex(self, share: Array) -> np.ndarray | None:
        """The plane through as many rows as there are coefficients: those of largest weights."""
        q = self.X.shape[1]
        share = to_host(share)
        some = np.argsort(-share)[: 4 * q]
        A = self._rows_of(some)
        root = np.sqrt(share[some] / share[some[0]])
        _, R, order = linalg.qr((root[:, None] * A).T, mode="economic", pivoting=True)
        diagonal = np.abs(np.diagonal(R))
        if len(diagonal) < q or diagonal[-1] <= EPS * diagonal[0]:
            return None
        basis = order[:q]
        y = to_host(self.y[move(some[basis], place_of(self.y))])
        try:
            found = np.linalg.solve(A[basis], y)
        except np.linalg.LinAlgError:
            return None
        beside = some[basis] - self.X.shape[0]
        found[self.penalised[beside[beside >= 0]]] = 0.0  # which the equations say but for rounding
        return found if np.isfinite(found).all() else None

    def _rows_of(self, some):
        m, q = self.X.shape
        A = np.zeros((len(some), q))
        real = some < m
        index = move(some[real], place_of(self.X))
        A[real] = to_host(self.xp.take(self.X, index, axis=0))
        A[np.flatnonzero(~real), self.penalised[some[~real] - m]] = 1.0
        return A


def _positive(values: Array) -> Array:
    return namespace(values).where(values > 0, values, 0.0)


def _length(a, da, b=None, other=None, dother=None):
    """How long a step keeps numbers above 0: a + da, and b - da or other + dother."""
    xp = namespace(a)
    least = xp.min(xp.where(da < 0, -a / xp.where(da < 0, da, -1.0), xp.inf))
    if b is not None:
        other, dother = b, -da
    second = xp.min(xp.where(dother < 0, -other / xp.where(dother < 0, dother, -1.0), xp.inf))
    return min(1.0, SHARE * min(float(least), float(second)))


def weighted_gram(X: Array, weight: Array | None) -> np.ndarray:
    """``X' diag(weight) X``, in CPU memory, block by block."""
    (m, q), total = X.shape, None
    size = max(1, BLOCK_NUMBERS // q)
    for first in range(0, m, size):
        some = slice(first, min(first + size, m))
        block = X[some, :]
        turned = block.T if weight is None else block.T * weight[some]
        total = turned @ block if total is None else total + turned @ block
    return np.array(to_host(total))


def cholesky(matrix: np.ndarray):
    """Cholesky factor of a matrix, with what it takes more on the diagonal to have one."""
    size = np.diagonal(matrix).copy()
    size = np.where(size > 0, size, 1.0)
    more = 0.0
    while True:
        try:
            return linalg.cho_factor(matrix + np.diag(more * size), check_finite=False)
        except linalg.LinAlgError:
            more = max(10.0 * more, EPS * len(size))
            if more > 1.0:
                raise
