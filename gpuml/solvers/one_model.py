"""One smooth model of rows in CPU memory: quasi-Newton steps that take few calls of Python.

Steps, and when they end, are those of `solvers.lbfgs`, for one vector of NumPy. Variances of the
features begin; a Hessian takes their place as soon as passes have taken as long as it does, if
those that are still to go, at their rate, would too. Of few rows every step is Newton's, as in
`solvers.few_rows`.
"""

import math
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gpuml._arrays import Array
from gpuml.designs import Dense, Sparse
from gpuml.penalties import Penalty
from gpuml.solvers import few_rows
from gpuml.solvers._blocks import quiet
from gpuml.solvers._inverses import same_for_all
from gpuml.solvers._step_rules import (
    ENOUGH,
    FORESEEN,
    GAIN,
    OVERSHOOT,
    PATIENCE,
    SURE_OVERSHOOT,
    is_noise,
)
from gpuml.solvers.lbfgs import EPS, Solved
from gpuml.solvers.loss_rows import THREADED_FROM_PRODUCTS, LossRows
from gpuml.solvers.newton import (
    CPU_COPY_BYTES,
    RIDGE,
    Objective,
    check_squares,
    mean_second_derivatives,
)
from gpuml.solvers.refresh import (
    CPU_COSTS,
    KNOWN,
    MATRICES_AT_ONCE,
    MOST_LEFT,
    SAMPLE_ROWS,
    rate_of,
)
from gpuml.solvers.variances import diagonal_inverse

# Rows of a sample to begin with are at most this part of all.
WORTH_SAMPLING = 16
# Pairs of steps and changes of gradients that are kept.
MEMORY = 10
# The overhead of Python per pass of one model, in multiplications.
PASS_HERE = 1e6
# What a byte of the rows takes in a pass, from memory and from the cache, and factoring a matrix,
# in units of the cube of its order.
FROM_MEMORY, FROM_CACHE, CACHE_BYTES = 4.0, 0.5, 2**24
ONE_FACTOR = 0.5
# The first Hessian is of this part of the rows, the next ones of twice as many.
FIRST_PART = 4
MOST_PART = 3
# By how many passes a Hessian has to be better.
BETTER = 2
# Passes after which a rate is known well enough to tell that `max_iter` is going to stop them.
RELIABLE = 10
LEAST_RATE = 0.01
# A Hessian may take so many times as long as those passes: else a model had better not converge.
WORTH_CONVERGING = 32
# What the diagonal of a singular Hessian, which is 1, is made larger by at first.
LEAST_JITTER = 1e-8
# Entries of each column, on average, that variances are taken from.
ENTRIES_OF_VARIANCES = 1024


def is_one(data: LossRows, shape: tuple[int, ...]) -> bool:
    """Whether models (C, S, k, q) are one, and rows in CPU memory, dense or sparse, and many."""
    design = data.design
    if shape[0] * shape[1] > 1 or not isinstance(design, (Dense, Sparse)):
        return False
    return design.place.kind == "numpy" and design.shape[0] > design.shape[1]


def minimise(
    data: LossRows,
    penalty: Penalty,
    start: Array,
    tol: float,
    max_iter: int,
    precision: float,
    memory: int,
    *,
    newton: bool = False,
) -> Solved:
    """Minimise until gradients are at most `tol`, and little is left to be gained.

    Parameters
    ----------
    data : LossRows
    penalty : Penalty
        Of coefficients (1, 1, k, q), without an l1 part.
    start : array (1, 1, k, q)
    tol, max_iter, precision
        As of `lbfgs.minimise`.
    memory : int
        Bytes that Hessians take at most.
    newton : bool, default=False
        Whether every step is Newton's, however many rows there are.
    """
    with quiet():
        return _Steps(data, penalty, start, memory, newton).minimise(
            start, tol, max_iter, precision
        )


class _Steps:
    """The objective, the secants of its gradient, and what multiplies gradients between them."""

    def __init__(self, data: LossRows, penalty: Penalty, start: Array, memory: int, newton: bool):
        self.data, self.penalty, self.shape, self.memory = data, penalty, start.shape, memory
        self.objective = Objective(data, data.total_weights, penalty)
        self.total = float(self.objective.total[0])
        self.factor: Any = None
        self.pairs: list[tuple[np.ndarray, np.ndarray, float]] = []
        self.lefts: list[float] = []  # logarithms, before each pass since a Hessian
        self.fitting = 1.0  # what the last step says of the size of the preconditioner
        n_rows, order = data.n_rows, start[0, 0].size
        rows = max(SAMPLE_ROWS * order, n_rows // FIRST_PART)
        self.exact: bool = newton or few_rows.are_few(data, start.shape)
        self.at_once = 8 * data.design.shape[0] * order <= CPU_COPY_BYTES
        self.inverse: Any = None
        if not self.exact:
            part = data.design.n_entries // (ENTRIES_OF_VARIANCES * data.n_features)
            sample = data.every(part) if part > 1 else data
            self.inverse = diagonal_inverse(sample, penalty, n_rows)
        self.n_rows = n_rows if self.exact or MOST_PART * rows > n_rows else rows

    def minimise(self, start, tol, max_iter, precision):
        """See the function of this name."""
        w, n_iter, step, waited = start.reshape(-1), 0, 1.0, 0
        g = self.gradient(w)
        violation = best = _largest(g)
        direction, slope = self.aim(w, g)
        foreseen = stalled = False
        while True:
            done = violation <= tol and not abs(slope) > 2 * ENOUGH * tol**2
            if (done and step == 1) or stalled or n_iter >= max_iter:
                break
            left = abs(slope) / (2 * ENOUGH * tol**2)
            self.lefts.append(math.log(min(max(1.0, left), MOST_LEFT)))
            if step == 1 and self.pays(max_iter - n_iter):
                self.take_hessian(w)
                self.lefts = []  # also if there is none: it is not to be tried at once again
                direction, slope = self.aim(w, g)
                continue
            n_iter += 1
            trial = w + step * direction
            g_trial = self.gradient(trial)
            behind = float(g_trial @ direction)
            if not self.goes_down(behind, slope, g, g_trial):
                step *= _shortened(slope, behind)
                stalled = bool(is_noise(np.asarray(step), np.asarray(slope), behind, precision))
                foreseen = False
                continue
            foreseen = step == 1 and abs(behind) <= FORESEEN * abs(slope)
            self.learn(trial - w, g_trial - g)
            w, g, step, violation = trial, g_trial, 1.0, _largest(g_trial)
            direction, slope = self.aim(w, g)
            waited = 0 if violation < GAIN * best else waited + 1
            best = min(best, violation) if waited == 0 else best
            stalled = waited >= PATIENCE and abs(slope) <= precision
        if done and foreseen and not self.data.loss.jumps:
            w = w + direction
        found = (np.full((1, 1), value) for value in (violation, np.int32(n_iter), stalled))
        return Solved(w.reshape(self.shape), *found)

    def gradient(self, w):
        """The gradient of the objective."""
        W, data = w.reshape(self.shape), self.data
        if data.design.n_entries * self.shape[2] >= THREADED_FROM_PRODUCTS:
            return self.objective.gradient(W).reshape(-1)
        sums = np.zeros(self.shape[2:])
        coef, level = (
            a.astype(data.design.dtype, copy=False) for a in (W[0, 0, :, :-1], W[0, 0, :, -1:])
        )
        for block in data.design.blocks(self.shape[2]):
            z = block.margins(coef)
            z += level
            slope = data.loss.slope(z, data.target[block.rows], np)
            if data.weights is not None:
                slope *= data.weights[0, block.rows]
            sums[:, :-1] += block.products(slope)
            sums[:, -1] += slope.sum(axis=1)
        if data.advance is not None:
            data.advance(data.n_rows)
        penalty = self.penalty
        return ((sums / self.total + penalty.l2 * W) * penalty.used).reshape(-1)

    def precondition(self, g):
        """An approximate Newton step, upwards."""
        if self.factor is None:
            v = self.inverse(g.reshape(self.shape)).reshape(-1)
        else:
            factor, scale = self.factor
            v = lapack.dpotrs(factor, g * scale, lower=0)[0] * scale
        if not self.data.loss.coupled:
            return v
        v = v.reshape(self.shape[2:])
        return (v - v.mean(axis=0)).reshape(-1)

    def aim(self, w, g):
        """The direction at w, and the slope along it."""
        if self.exact:
            self.take_hessian(w)
        d, weights = g, []
        for s, y, per in reversed(self.pairs):
            weights.append(per * (s @ d))
            d = d - weights[-1] * y
        d = self.fitting * self.precondition(d)
        for (s, y, per), weight in zip(self.pairs, reversed(weights), strict=True):
            d = d + (weight - per * (y @ d)) * s
        return -d, -float(g @ d)

    def learn(self, s, y):
        """Keep a step and the change of the gradient along it."""
        product = float(s @ y)
        if product > 0 and not self.exact:
            self.pairs = [*self.pairs[1 - MEMORY :], (s, y, 1.0 / product)]
            size = float(y @ self.precondition(y))
            self.fitting = product / size if product > EPS * size > 0 else 1.0

    def goes_down(self, behind, slope, g, g_trial):
        """As steps of `lbfgs`: by the slope at the end, or the size of the gradient there."""
        first = abs(slope)
        if behind <= SURE_OVERSHOOT * first:
            return True
        if self.exact or not behind <= OVERSHOOT * first:
            return False
        return bool(g_trial @ self.precondition(g_trial) <= g @ self.precondition(g))

    def pays(self, most):
        """Whether passes have taken as long as a Hessian would, and are to at the present rate.

        Or that rate would take more passes than the `most` that there may be.
        """
        order, since = float(self.shape[2] * self.shape[3]), len(self.lefts) - 1
        if self.exact or since < KNOWN or 8 * MATRICES_AT_ONCE * order**2 > self.memory:
            return False
        if self.lefts[-1] <= 0 or (self.data.loss.expected and self.factor is not None):
            return False  # of expected curvatures, steps have taught more than they tell once more
        left = self.lefts[-1]
        n_passes = left / max(rate_of(self.lefts), LEAST_RATE)
        hessian = self.n_rows * order**2 + ONE_FACTOR * order**3 + CPU_COSTS.one_matrix
        one_pass = self.pass_cost()
        if since >= RELIABLE and left / max((self.lefts[0] - left) / since, LEAST_RATE) > most:
            return hessian < WORTH_CONVERGING * most * one_pass
        # Before passes have taken as long as a Hessian does, it is of a point far from the minimum.
        return min(since, n_passes - BETTER) * one_pass > hessian

    def pass_cost(self):
        """The cost of a pass, in multiplications of a large float64 product."""
        design = self.data.design
        entry = 4.0 * design.entry_cost * self.shape[2]
        if isinstance(design, Dense):
            # Products with one vector wait for the rows.
            rows = design.itemsize * design.n_entries
            entry += design.itemsize * (FROM_MEMORY if rows > CACHE_BYTES else FROM_CACHE)
        return entry * design.n_entries + PASS_HERE

    def take_hessian(self, w):
        """Compute a Hessian at w from the next sample of rows, and forget what steps taught."""
        data, coupled, W = self.data, self.data.loss.coupled, w.reshape(self.shape)
        rows = data if self.n_rows == data.n_rows else data.every(data.n_rows // self.n_rows)
        self.n_rows = min(2 * self.n_rows, data.n_rows)
        if self.exact and self.at_once and not coupled:
            H = self.hessian_of_all(W)
        else:
            H = mean_second_derivatives(rows, W, rows.total_weights, shared=False)[0, 0]
        k, q = self.shape[2:]
        used, l2 = (np.tile(a[0, 0, 0], k) for a in (self.penalty.used, self.penalty.l2))
        diagonal = np.diagonal(H) * used + l2
        known = diagonal > 0
        scale = used / np.sqrt(np.where(known, diagonal, 1.0))
        if coupled:
            H = H + same_for_all(diagonal[None, None], k, q, np)[0, 0]
        H = H * scale[:, None] * scale
        own = H.ravel()[:: k * q + 1]
        own += l2 * scale**2 + np.where(known, RIDGE, 1.0)
        jitter, info = 0.0, 1
        while info != 0:
            factor, info = lapack.dpotrf(H, lower=0)
            if info != 0 and jitter > 1:
                return
            jitter = max(10 * jitter, LEAST_JITTER)
            own += jitter if info != 0 else 0.0
        self.factor, self.pairs, self.fitting = (factor, scale), [], 1.0

    def hessian_of_all(self, W):
        """The Hessian (q, q) of all rows, if they are few and there is one vector."""
        data, coef = self.data, W[0, 0]
        X = data.design.block(slice(0, data.n_rows)).dense()
        z = coef[:, :-1] @ X.T + coef[:, -1:]
        c = data.loss.curvature(z, data.target, np)[0]
        if data.weights is not None:
            c = c * data.weights[0]
        q = coef.shape[1]
        H = np.empty((q, q))
        scaled = X * np.sqrt(c)[:, None]
        H[:-1, :-1] = scaled.T @ scaled
        H[-1, :-1] = H[:-1, -1] = c @ X
        H[-1, -1] = c.sum()
        H /= self.total
        check_squares(H, np)
        return H


def _largest(g):
    return float(np.abs(g).max())


def _shortened(first, slope):
    total = slope - first
    share = -first / total if total > 0 else 0.8
    return min(max(share if math.isfinite(slope) else 0.1, 0.1), 0.8)
