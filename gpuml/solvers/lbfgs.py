"""Limited-memory quasi-Newton steps for a grid of smooth convex problems at once.

All problems take their steps together, so that one reading of the rows serves all. A step is judged
by slopes along it alone: a convex function has gone down wherever its slope still points down, and
slopes keep their digits close to a minimum where differences of values have lost theirs [1]_. The
inverse of a problem's approximate Hessian, where one is known, takes the place of the
identity in the two-loop recursion [2]_. Vectors stay on the device; the recursion runs on the host,
on their inner products [3]_, so that a pass takes few calls there. On CuPy it runs on the GPU too.

References
----------
.. [1] W. W. Hager, H. Zhang, "A new conjugate gradient method with guaranteed descent and an
   efficient line search", SIAM Journal on Optimization 16 (2005).
.. [2] J. Nocedal, S. J. Wright, "Numerical Optimization", 2nd edition (2006), chapter 7.
.. [3] W. Chen, Z. Wang, J. Zhou, "Large-scale L-BFGS using MapReduce", NIPS (2014).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpuml._arrays import Array, device_of, namespace, place_of, to_host
from gpuml._arrays.ops import constant
from gpuml.solvers import _lbfgs_gpu
from gpuml.solvers._secants import Secants
from gpuml.solvers._step_rules import (
    ENOUGH,
    FORESEEN,
    GAIN,
    OVERSHOOT,
    PATIENCE,
    SURE_OVERSHOOT,
    is_noise,
    promised,
    shortened,
)

HOST_TABLES = (
    *("step", "slope", "stalled", "n_iter", "violation", "best", "waited", "done", "foreseen"),
)
EPS = float(np.finfo(np.float64).eps)


class Problem(Protocol):
    """A grid (C, S) of smooth convex problems in W (C, S, k, q)."""

    def gradient(self, W: Array, *, begins: bool = False) -> Array:
        """Gradients (C, S, k, q); where models begin, those of all candidates may be the same."""

    def precondition(self, G: Array) -> Array:
        """A fixed positive definite matrix for each problem, times G."""

    def select(self, candidates: np.ndarray) -> "Problem":
        """Some of the candidates."""


@dataclass(frozen=True)
class Solved:
    """The state of iterations at their end, on the device except for `n_iter`.

    Attributes
    ----------
    W : array (C, S, k, q)
    violation : ndarray (C, S)
        Largest absolute component of the gradient (or of the least subgradient).
    n_iter : int ndarray (C, S)
    stalled : bool ndarray (C, S)
        Whether steps had come down to rounding before the gradient was small enough.
    n_read : int ndarray (C, S), or None
        How often the rows were read after the first time; None for once in every iteration.
    """

    W: Array
    violation: np.ndarray
    n_iter: np.ndarray
    stalled: np.ndarray
    n_read: np.ndarray | None = None


def minimise(
    problem: Problem,
    start: Array,
    tol: float,
    max_iter: int,
    *,
    precision: float = EPS,
    drops_at_once: float = 1.0,
    looks: bool = False,
    refresh: Callable[[Any, Array, int, float], Any] | None = None,
) -> Solved:
    """Minimise until gradients are at most `tol`, and little is left to be gained.

    A model is done when no component of its gradient exceeds `tol` and the decrease that the next
    step promises, half its Newton decrement squared, is at most `ENOUGH` tol^2: where the
    curvature is small, gradients are long before the minimum. It then takes that step too if the
    last one went as foreseen, unless it `looks`. It costs no reading of the rows.

    Parameters
    ----------
    problem : Problem
    start : array (C, S, k, q)
    tol : float
        In units of the gradient.
    max_iter : int
        Bound on the passes over the rows, the first gradient not counted.
    precision : float
        Rounding of the rows. Where a step has to be shorter than its root, it is noise that points
        downwards.
    drops_at_once : float, default=1
        Converged candidates are dropped from the products when the rest are fewer than the
        candidates divided by this: 1 drops every one, 2 half of them at a time.
    looks : bool, default=False
        Whether no step is taken that is not looked at.
    refresh : callable ``(problem, W, n_iter, left) -> problem or None``, optional
        Asked before every pass for a problem with a better preconditioner at W. `left` is how many
        times more than enough a step promises, of the model that promises most.

    Returns
    -------
    Solved
    """
    found = _Found(start.shape[:2])
    kind: Any = _lbfgs_gpu.Iteration if place_of(start).kind == "cupy" else _Iteration
    now = kind(problem, start, tol, looks)
    alive = np.arange(start.shape[0])
    for n_iter in range(max_iter):
        going = now.going.any(axis=1)
        if not going.any():
            break
        if drops_at_once * going.sum() < len(going):
            found.put(alive[~going], now, np.flatnonzero(~going))
            kept = np.flatnonzero(going)
            now.select(now.problem.select(kept), kept)
            alive = alive[kept]
        better = None if refresh is None else refresh(now.problem, now.W, n_iter, now.left)
        if better is not None:
            now.restart(better)
        now.advance(precision)
    found.put(alive, now, np.arange(len(alive)))
    return found.solved(start)


class _Iteration:
    """What changes from pass to pass: vectors on the device, what is decided about them here."""

    def __init__(self, problem, W, tol, looks):
        xp = self.xp = namespace(W)
        self.problem, self.W, self.tol, self.looks = problem, W, tol, looks
        self.grid, self.shape = W.shape[:2], W.shape
        self.step = np.ones(self.grid)
        self.slope = np.zeros(self.grid)
        self.stalled = np.zeros(self.grid, dtype=bool)
        self.n_iter = np.zeros(self.grid, dtype=np.int32)
        G = problem.gradient(W, begins=True)
        self.secants = Secants(self._flat(G), xp)
        self.violation = self.best = to_host(xp.max(xp.abs(G), axis=(-2, -1)))
        self.waited = np.zeros(self.grid, dtype=int)
        self.direction = W
        self.done = np.zeros(self.grid, dtype=bool)
        self.foreseen = np.zeros(self.grid, dtype=bool)
        self.restart(problem)

    @property
    def going(self):
        """Problems (C, S) that are not done."""
        return ~(self.done | self.stalled)

    @property
    def left(self):
        """How many times more than enough the next step promises, of the model that has most."""
        return promised(self.slope, self.violation, self.going, self.tol)

    def closed(self):
        """W, with one step more for the problems whose last one went as foreseen."""
        last = self.done & self.foreseen & (self.step >= 1)
        if self.looks or not last.any():
            return self.W
        return self.W + self._table(last.astype(np.float64)) * self.direction

    def restart(self, problem):
        """Forget what an earlier preconditioner taught, and start from a better one.

        A step that is being shortened goes on being so: started anew at full length at every pass,
        it might never be kept.
        """
        self.problem = problem
        image = problem.precondition(self._deep(self.secants.gradient))
        self.secants.restart(self._flat(image))
        self._aim()

    def advance(self, precision):
        """One pass: try a step for every problem, keep it or shorten it."""
        xp = self.xp
        going = self.going
        self.n_iter[going] += 1
        step = np.where(going, self.step, 0.0)
        change = self.direction if (step == 1).all() else self._table(step) * self.direction
        trial = self.W + change
        G = self.problem.gradient(trial)
        image = self.problem.precondition(G)
        G, image, change, direction = map(self._flat, (G, image, change, self.direction))
        look = self.secants.look(G, image, change, direction, step)
        slope = look.slope
        kept = going & self._goes_down(slope, look.size)
        if kept.all():
            self.W = trial
        else:
            chosen = xp.asarray(kept, device=device_of(self.W))[..., None, None]
            self.W = xp.where(chosen, trial, self.W)
        self.secants.keep(kept, look)
        self.violation = np.where(kept, look.largest, self.violation)
        whole = (step == 1) & (np.abs(slope) <= FORESEEN * np.abs(self.slope))
        self.foreseen = np.where(going, kept & whole, self.foreseen)
        shorter = self.step * shortened(self.slope, slope)
        # Where even a step of rounding size goes up, there is nothing left to gain.
        self.stalled |= going & ~kept & is_noise(shorter, self.slope, slope, precision)
        self.stalled |= going & self._is_noise(precision)
        self.step = np.where(going, np.where(kept, 1.0, shorter), self.step)
        self._aim()

    def _is_noise(self, precision):
        """Whether gradients have not become smaller for long, and promise less than rounding."""
        better = self.violation < GAIN * self.best
        self.best = np.where(better, self.violation, self.best)
        self.waited = np.where(better, 0, self.waited + 1)
        return (self.waited >= PATIENCE) & (np.abs(self.slope) <= precision)

    def select(self, problem, index):
        """Continue with some of the candidates only."""
        chosen = self.xp.asarray(index, device=device_of(self.W))
        self.problem = problem
        for name in ("W", "direction"):
            setattr(self, name, self.xp.take(getattr(self, name), chosen, axis=0))
        for name in HOST_TABLES:
            setattr(self, name, getattr(self, name)[index])
        self.secants.select(index, chosen)
        self.grid, self.shape = self.W.shape[:2], self.W.shape

    def _goes_down(self, slope, size):
        """Whether steps went down: by their slope at the end, or the size of the gradient there."""
        first = np.abs(self.slope)
        with np.errstate(invalid="ignore"):
            smaller = (slope <= OVERSHOOT * first) & (size <= self.secants.size)
            return (slope <= SURE_OVERSHOOT * first) | smaller

    def _aim(self):
        """New directions, for problems that are going on and not shortening a step."""
        xp = self.xp
        weights, slope = self.secants.weights()
        fresh = (self.step >= 1) & self.going
        self.slope = np.where(fresh, slope, self.slope)
        # A sum that is no number promises nothing: that gradients are finite is checked elsewhere.
        with np.errstate(invalid="ignore"):
            more = np.abs(self.slope) > 2 * ENOUGH * self.tol**2
        self.done |= fresh & (self.violation <= self.tol) & ~more
        found = self._deep(self.secants.aim(weights, fresh))
        if fresh.all():
            self.direction = found
            return
        chosen = xp.asarray(fresh, device=device_of(self.W))[..., None, None]
        self.direction = xp.where(chosen, found, self.direction)

    def _flat(self, a):
        return self.xp.reshape(a, (*a.shape[:2], -1))

    def _deep(self, a):
        return self.xp.reshape(a, self.shape)

    def _table(self, values):
        return constant(values, like=self.W, xp=self.xp)[..., None, None]


class _Found:
    """Solutions of candidates, put aside as they converge."""

    def __init__(self, shape):
        self.W: dict[int, Array] = {}
        self.violation = np.zeros(shape)
        self.n_iter = np.zeros(shape, dtype=np.int32)
        self.stalled = np.zeros(shape, dtype=bool)

    def put(self, candidates, now, positions):
        """Store the current state of some positions as that of some candidates."""
        W = now.closed()
        for candidate, position in zip(candidates, positions, strict=True):
            self.W[int(candidate)] = W[int(position), ...]
        self.violation[candidates] = now.violation[positions]
        self.n_iter[candidates] = now.n_iter[positions]
        self.stalled[candidates] = now.stalled[positions]

    def solved(self, like):
        """All of them, as one record."""
        W = namespace(like).stack([self.W[i] for i in range(len(self.W))])
        return Solved(W, self.violation, self.n_iter, self.stalled)
