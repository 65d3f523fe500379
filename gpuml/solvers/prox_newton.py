"""Losses with l1 penalties: proximal Newton steps, or proximal gradients.

A proximal Newton step [1]_ minimises the second-order model of the loss plus the penalty itself,
which `solvers.prox` does for all models of a batch. On a CPU, where there are many coefficients,
that minimum is approached only as far as the step needs [3]_, by coordinate descent. How
Hessians are taken is as for smooth penalties. Where coefficients are too many for Hessians,
accelerated proximal gradient steps with restarts [2]_ take their place.

References
----------
.. [1] J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite
   functions", SIAM Journal on Optimization 24 (2014).
.. [2] B. O'Donoghue, E. Candes, "Adaptive restart for accelerated gradient schemes", Foundations of
   Computational Mathematics 15 (2015).
.. [3] R. H. Byrd, J. Nocedal, F. Oztoprak, "An inexact successive quadratic approximation method
   for L-1 regularized optimization", Mathematical Programming 157 (2016).
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import all_true, clipped
from gpuml.solvers._blocks import quiet
from gpuml.solvers._patterns import Factors
from gpuml.solvers._step_rules import is_noise
from gpuml.solvers._sweeps import FEW, approach
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import Objective, check_squares, mean_second_derivatives
from gpuml.solvers.prox import minimise_quadratic

# A step is kept if the slope at its end is at most this share of that at its start.
OVERSHOOT = 0.1
# Keeps directions that neither rows nor penalty determine from blowing up.
RIDGE = 1e-10
# With at most so many coefficients, a step on a CPU also goes to the minimum, or so near to it; for
# many models together. They are few if each has at least so many coefficients for each of them.
FEW_COEFFICIENTS, FOR_EACH_MODEL, THERE = 128, 4, 1e-4
# Those of `FEW` coefficients are few if they have no more than this altogether, and always if
# vectors are coupled: along what changes nothing, to go from sign to sign takes long.
FEW_NUMBERS = 1000
# A step that goes there in part stops at this share of the violation at its start.
APPROACH = 0.1
APPROACH_SWEEPS = 100
POWER_STEPS = 20
# Added to the estimate of the largest curvature, which power steps approach from below.
SAFETY = 1.05


@dataclass(frozen=True)
class SparseProblem(Objective):
    """The objective of a grid of models, with l1 penalties, and its Hessians somewhere.

    `H` (C, S or 1, k q, k q) are those of the mean loss; None before the first. `factors` are what
    steps have found out about them.
    """

    H: Array | None = None
    factors: Factors = field(default_factory=Factors)

    def at(self, rows: LossRows, W: Array, *, shared: bool) -> "SparseProblem":
        """The problem with Hessians at W from some rows, split by split or shared."""
        xp = namespace(W)
        H = move(rows.ask(_second_derivatives, W, shared), place_of(W))
        used = xp.tile(self.penalty.used[:, :, 0, :], (1, 1, W.shape[2]))
        if not all_true(used == 1.0, xp):
            H = H * used[..., :, None] * used[..., None, :]
        flat = xp.reshape(H, (*H.shape[:-2], -1))
        flat[..., :: H.shape[-1] + 1] *= 1.0 + RIDGE
        H = xp.reshape(flat, H.shape)
        return replace(self, H=H, factors=Factors())

    def _selected(self, index, xp):
        return {"H": xp.take(self.H, index, axis=0), "factors": Factors()}

    def violation(self, W: Array, G: Array) -> Array:
        """Largest component (C, S) of the least subgradient."""
        xp = namespace(W)
        return xp.max(self.penalty.violation(W, G, xp), axis=(-2, -1))

    def newton_direction(self, W: Array, G: Array, allowed: Array) -> Array:
        """To the minimum of the second-order model plus penalty, or near enough to it.

        `allowed` (C, S) is a violation there that does not matter.
        """
        xp = namespace(W)
        n_candidates, n_splits, k, q = W.shape
        if self.H is None:
            raise ValueError("There are no Hessians yet: call `at` first.")
        own = self.H.shape[1] == n_splits and n_splits > 1
        batch = (n_candidates * n_splits, 1, k * q) if own else (n_candidates, n_splits, k * q)

        def flat(a):
            return xp.reshape(xp.broadcast_to(a, W.shape), batch)

        H = xp.reshape(self.H, (batch[0], k * q, k * q))
        w = flat(W)
        g = w @ H - flat(G - self.penalty.l2 * W)
        l1, l2 = flat(self.penalty.l1), flat(self.penalty.l2)
        few = k * q <= FEW_COEFFICIENTS
        few_models = n_candidates * n_splits <= max(1, k * q // FOR_EACH_MODEL)
        numbers = k * q * n_candidates * n_splits
        few_models |= k * q <= FEW and (self.data.loss.coupled or numbers <= FEW_NUMBERS)
        if is_numpy(H) and (few_models or not few):
            v = w.copy()
            allowed = allowed * (THERE if few else 1.0)
            for (b, m), enough in np.ndenumerate(allowed.reshape(batch[:2])):
                vectors = g[b, m], l1[b, m], l2[b, m], w[b, m]
                v[b, m] = approach(H[b], *vectors, allowed=enough, max_sweeps=APPROACH_SWEEPS)
        else:
            v, *_ = minimise_quadratic(H, g, l1, l2, w, tol=1e-13, factors=self.factors)
        return xp.reshape(v, W.shape) - W

    def slope(self, W: Array, G: Array, direction: Array, *, behind: bool = False) -> Array:
        """Derivative (C, S) of the whole objective along a direction: ahead of W, or behind it."""
        xp = namespace(W)
        kinks = self.penalty.along(W, direction, xp, behind=behind)
        return xp.sum(G * direction + kinks, axis=(-2, -1))


def _second_derivatives(rows, W, shared):
    return mean_second_derivatives(rows, W, rows.total_weights, shared=shared)


def minimise(
    problem: SparseProblem, start: Array, tol: float, max_iter: int, precision: float, refresh: Any
) -> Solved:
    """Proximal Newton steps until the least subgradient of each model is at most `tol`."""
    xp = namespace(start)
    W = start
    G = problem.gradient(W, begins=True)
    violation = problem.violation(W, G)
    step = xp.ones_like(violation)
    direction = first = None
    stalled = step < 0
    n_iter = np.zeros(start.shape[:2], dtype=np.int32)
    for done_iter in range(max_iter):
        going = ~((violation <= tol) | stalled)
        host_going = to_host(going)
        if not host_going.any():
            break
        n_iter[host_going] = done_iter + 1
        left = float(np.max(to_host(violation)[host_going])) / tol
        fresh = going & (step >= 1)
        if direction is None or to_host(fresh).any():  # else all steps are shorter ones
            problem = refresh(problem, W, done_iter, left * left) or problem
            enough = xp.where(fresh, APPROACH * violation, xp.full_like(violation, xp.inf))
            ahead = problem.newton_direction(W, G, enough)
            wide = fresh[..., None, None]
            direction = ahead if direction is None else xp.where(wide, ahead, direction)
            first = problem.slope(W, G, direction)
        moved = xp.where(going, step, xp.zeros_like(step))[..., None, None]
        trial = W + moved * direction
        trial_G = problem.gradient(trial)
        slope = problem.slope(trial, trial_G, direction, behind=True)
        kept = going & (slope <= OVERSHOOT * xp.abs(first))
        wide = kept[..., None, None]
        W, G = xp.where(wide, trial, W), xp.where(wide, trial_G, G)
        violation = xp.where(kept, problem.violation(W, G), violation)
        shorter = step * _share(first, slope, xp)
        stalled = stalled | (going & ~kept & is_noise(shorter, first, slope, precision, xp))
        step = xp.where(kept, xp.ones_like(step), shorter)
    return Solved(W, to_host(violation), n_iter, to_host(stalled))


def _share(first, slope, xp):
    """Where the secant of the slopes has its zero, kept away from both ends."""
    total = slope - first
    share = -first / xp.where(total > 0, total, xp.ones_like(total))
    share = xp.where(xp.isfinite(slope), share, xp.full_like(share, 0.1))
    return clipped(share, 0.1, 0.8)


def minimise_by_gradients(
    problem: SparseProblem, start: Array, tol: float, max_iter: int
) -> Solved:
    """Accelerated proximal gradient steps; models restart where acceleration leads uphill."""
    xp = namespace(start)
    step = 1 / (_largest_curvature(problem) + problem.penalty.l2)
    kinks = replace(problem.penalty, l2=0.0)  # the gradient has the rest
    W, V = start, start
    momentum = xp.ones_like(problem.penalty.l1[:, :, 0, 0])
    n_iter = np.zeros(start.shape[:2], dtype=np.int32)
    violation = xp.full_like(momentum, float("inf"))
    for done_iter in range(max_iter + 1):
        G = problem.gradient(V)
        # Where the extrapolated point is the last one, this is the violation there.
        seen = problem.violation(V, G)
        arrived = (seen <= tol) & (violation > tol)
        W = xp.where(arrived[..., None, None], V, W)
        violation = xp.where(violation <= tol, violation, seen)
        going = violation > tol
        host_going = to_host(going)
        if not host_going.any() or done_iter == max_iter:
            break
        n_iter[host_going] = done_iter + 1
        moved = kinks.prox(V - step * G, step, xp)
        uphill = xp.sum((V - moved) * (moved - W), axis=(-2, -1)) > 0
        after = (1 + xp.sqrt(1 + 4 * momentum**2)) / 2
        push = xp.where(uphill, xp.zeros_like(after), (momentum - 1) / after)
        momentum = xp.where(uphill, xp.ones_like(after), after)
        wide = going[..., None, None]
        V = xp.where(wide, moved + push[..., None, None] * (moved - W), W)
        W = xp.where(wide, moved, W)
    return Solved(W, to_host(violation), n_iter, to_host(violation < 0))


def _largest_curvature(problem):
    """Bound (C, S, 1, 1) on the Hessian of the mean loss, by power steps."""
    data, xp = problem.data, problem.data.place.xp
    V = xp.ones_like(problem.penalty.l1[:1, :, 0, :])[0, ...] * xp.ones_like(problem.total[:, None])
    V = V[: data.design.n_maps, :]
    V = V / V.shape[-1] ** 0.5  # (S or 1, q)
    size = xp.zeros_like(V[:, 0])
    for _ in range(POWER_STEPS):
        with quiet():
            image = data.total(_gram_product, V)
        check_squares(image, xp)
        size = xp.sqrt(xp.sum(image * image, axis=-1))
        V = image / xp.where(size > 0, size, xp.ones_like(size))[:, None]
    share = data.largest_weights() / problem.total
    bound = xp.max(share * xp.ones_like(size)) * size
    return SAFETY * data.loss.bound * bound[None, :, None, None]


def _gram_product(data, V):
    """``[X, 1]' [X, 1] v`` over all rows, or their images, for each vector of V (S, q)."""
    xp, design = data.place.xp, data.design
    V = design.to_stored(move(V, data.place)[None, :, None, :])[0, :, 0, :]
    out = xp.zeros_like(V)
    for block in design.stored.blocks(V.shape[0]):
        block = block.in_float64()
        z = block.margins(V[:, :-1]) + V[:, -1:]
        out = out + xp.concat([block.products(z), xp.sum(z, axis=-1, keepdims=True)], axis=-1)
    return design.from_stored(out[None, :, None, :])[0, :, 0, :]
