"""Limited-memory quasi-Newton steps for a grid of smooth convex problems at once.

All problems take their steps together, so that one reading of the rows serves all. A step is judged
by slopes along it alone: a convex function has gone down wherever its slope still points down, and
slopes keep their digits close to a minimum where differences of values have lost theirs [1]_. The
inverse of a problem's approximate second derivatives, where one is known, takes the place of the
identity in the two-loop recursion [2]_.

References
----------
.. [1] W. W. Hager, H. Zhang, "A new conjugate gradient method with guaranteed descent and an
   efficient line search", SIAM Journal on Optimization 16 (2005).
.. [2] J. Nocedal, S. J. Wright, "Numerical Optimization", 2nd edition (2006), chapter 7.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpuml._arrays import Array, namespace, to_host

MEMORY = 8
# A step that overshoots is kept while the slope at its end is at most this share of the first one.
OVERSHOOT = 0.5
SURE_OVERSHOOT = 0.05
EPS = float(np.finfo(np.float64).eps)


class Problem(Protocol):
    """A grid (C, S) of smooth convex problems in W (C, S, k, q)."""

    def gradient(self, W: Array) -> Array:
        """Gradients (C, S, k, q)."""

    def precondition(self, G: Array) -> Array:
        """A fixed positive definite matrix for each problem, times G."""

    def select(self, candidates: np.ndarray) -> "Problem":
        """Some of the candidates."""


@dataclass(frozen=True)
class Solved:
    """Where iterations ended, on the device but for `n_iter`.

    Attributes
    ----------
    W : array (C, S, k, q)
    violation : ndarray (C, S)
        Largest absolute component of the gradient (or of the least subgradient).
    n_iter : int ndarray (C, S)
    stalled : bool ndarray (C, S)
        Whether steps had come down to rounding before the gradient was small enough.
    """

    W: Array
    violation: np.ndarray
    n_iter: np.ndarray
    stalled: np.ndarray


@dataclass
class _State:
    """What changes from pass to pass, each with leading axes (C, S)."""

    W: Array
    G: Array
    direction: Array
    slope: Array
    step: Array
    done: Array
    stalled: Array
    n_iter: Array
    violation: Array
    pairs: list


def minimise(
    problem: Problem,
    start: Array,
    tol: float,
    max_iter: int,
    *,
    precision: float = EPS,
    check_every: int = 1,
    drops_at_once: float = 1.0,
    refresh: Callable[[Any, Array, int], Any] | None = None,
) -> Solved:
    """Minimise until the largest component of each gradient is at most `tol`.

    Parameters
    ----------
    problem : Problem
    start : array (C, S, k, q)
    tol : float
    max_iter : int
        Bound on the passes over the rows, the first gradient not counted.
    precision : float
        Rounding of the rows. Where a step has to be shorter than its root, it is noise that points
        downwards.
    check_every : int, default=1
        Passes between two looks of the host at what has converged.
    drops_at_once : float, default=1
        Converged candidates are dropped from the products when the rest are fewer than the
        candidates divided by this: 1 drops every one, 2 half of them at a time.
    refresh : callable ``(problem, W, n_iter) -> problem or None``, optional
        Asked before every pass for a problem with a better preconditioner at W.

    Returns
    -------
    Solved
    """
    xp = namespace(start)
    found = _Found(start.shape[:2])
    state = _first_state(problem, start, tol, xp)
    alive = np.arange(start.shape[0])
    for n_iter in range(max_iter + 1):
        if n_iter % check_every == 0 or n_iter == max_iter:
            going = ~np.all(to_host(state.done), axis=1)
            if n_iter == max_iter or not going.any():
                break
            if drops_at_once * going.sum() < len(going):
                found.put(alive[~going], state, np.flatnonzero(~going))
                kept = np.flatnonzero(going)
                problem, state, alive = problem.select(kept), _select(state, kept), alive[kept]
        better = None if refresh is None else refresh(problem, state.W, n_iter)
        if better is not None:
            problem = better
            state = _restart(problem, state, xp)
        _advance(problem, state, tol, precision**0.5, n_iter, xp)
    found.put(alive, state, np.arange(len(alive)))
    return found.solved(start)


def _first_state(problem, W, tol, xp):
    G = problem.gradient(W)
    violation = _largest(G, xp)
    direction = -problem.precondition(G)
    ones = xp.ones_like(violation)
    return _State(
        W=W,
        G=G,
        direction=direction,
        slope=_dot(G, direction, xp),
        step=ones,
        done=violation <= tol,
        stalled=ones < 0,
        n_iter=xp.astype(xp.zeros_like(ones), xp.int32),
        violation=violation,
        pairs=[],
    )


def _restart(problem, state, xp):
    """Forget what an earlier preconditioner taught, and start from a better one.

    A step that is being shortened goes on being so: started anew at full length at every pass, it
    might never be kept.
    """
    fresh = state.step >= 1
    direction = -problem.precondition(state.G)
    state.direction = xp.where(fresh[..., None, None], direction, state.direction)
    state.slope = _dot(state.G, state.direction, xp)
    state.pairs = []
    return state


def _advance(problem, state, tol, shortest, n_iter, xp):
    """One pass: try a step for every problem, keep it or shorten it."""
    moved = xp.where(state.done, xp.zeros_like(state.step), state.step)[..., None, None]
    trial = state.W + moved * state.direction
    G = problem.gradient(trial)
    slope = _dot(G, state.direction, xp)
    going = ~state.done
    kept = _is_kept(problem, state, G, slope, xp) & going
    state.n_iter = xp.where(going, xp.full_like(state.n_iter, n_iter + 1), state.n_iter)
    _remember(problem, state, trial - state.W, G - state.G, kept, xp)
    wide = kept[..., None, None]
    state.W = xp.where(wide, trial, state.W)
    state.G = xp.where(wide, G, state.G)
    state.violation = xp.where(kept, _largest(G, xp), state.violation)
    shorter = state.step * _shortened(state.slope, slope, xp)
    state.stalled = state.stalled | (going & ~kept & (shorter < shortest))
    state.done = state.done | (state.violation <= tol) | state.stalled
    direction = _direction(problem, state, xp)
    down = _dot(state.G, direction, xp)
    state.direction = xp.where(wide, direction, state.direction)
    state.slope = xp.where(kept, down, state.slope)
    state.step = xp.where(kept, xp.ones_like(state.step), shorter)


def _is_kept(problem, state, G, slope, xp):
    """Whether the function went down: by its slope, or by the size of its gradient."""
    first = xp.abs(state.slope)
    smaller = _dot(G, problem.precondition(G), xp) <= _dot(
        state.G, problem.precondition(state.G), xp
    )
    return (slope <= SURE_OVERSHOOT * first) | ((slope <= OVERSHOOT * first) & smaller)


def _shortened(first, slope, xp):
    """Where the secant of the slopes has its zero, kept away from both ends."""
    total = slope - first
    share = -first / xp.where(total > 0, total, xp.ones_like(total))
    share = xp.where(xp.isfinite(slope), share, xp.full_like(share, 0.1))
    share = xp.where(share < 0.1, xp.full_like(share, 0.1), share)
    return xp.where(share > 0.8, xp.full_like(share, 0.8), share)


def _remember(problem, state, S, Y, kept, xp):
    """Keep a pair of changes; for problems that took no step it is a pair of nothing."""
    product = _dot(S, Y, xp)
    image = problem.precondition(Y)
    size = _dot(Y, image, xp)
    good = kept & (product > EPS * size) & (size > 0)
    inverse = xp.where(good, 1.0 / xp.where(good, product, xp.ones_like(product)), 0.0 * product)
    scale = xp.where(good, product / xp.where(good, size, xp.ones_like(size)), -xp.ones_like(size))
    state.pairs.append((S, Y, inverse, scale))
    del state.pairs[:-MEMORY]


def _direction(problem, state, xp):
    """The two-loop recursion, with the preconditioner in the middle."""
    v = state.G
    factors = []
    for S, Y, inverse, _ in reversed(state.pairs):
        a = inverse * _dot(S, v, xp)
        v = v - a[..., None, None] * Y
        factors.append(a)
    v = problem.precondition(v)
    if state.pairs:
        v = v * _latest_scale(state.pairs, xp)[..., None, None]
    for (S, Y, inverse, _), a in zip(state.pairs, reversed(factors), strict=True):
        b = inverse * _dot(Y, v, xp)
        v = v + (a - b)[..., None, None] * S
    return -v


def _latest_scale(pairs, xp):
    """Of each problem, the scale that its latest pair of changes gave; 1 if there is none."""
    scale = xp.ones_like(pairs[0][3])
    for *_, found in pairs:
        scale = xp.where(found > 0, found, scale)
    return scale


def _dot(A, B, xp):
    return xp.sum(A * B, axis=(-2, -1))


def _largest(G, xp):
    return xp.max(xp.abs(G), axis=(-2, -1))


def _select(state, kept):
    def take(value):
        return _take(value, kept)

    pairs = [tuple(take(item) for item in pair) for pair in state.pairs]
    rest = {name: take(value) for name, value in vars(state).items() if name != "pairs"}
    return _State(**rest, pairs=pairs)


def _take(value, kept):
    xp = namespace(value)
    return xp.take(value, xp.asarray(kept, device=value.device), axis=0)


class _Found:
    """Solutions of candidates, put aside as they converge."""

    def __init__(self, shape):
        self.W: dict[int, Array] = {}
        self.violation = np.zeros(shape)
        self.n_iter = np.zeros(shape, dtype=np.int32)
        self.stalled = np.zeros(shape, dtype=bool)

    def put(self, candidates, state, positions):
        if len(candidates) == 0:
            return
        for candidate, position in zip(candidates, positions, strict=True):
            self.W[int(candidate)] = state.W[int(position), ...]
        self.violation[candidates] = to_host(state.violation)[positions]
        self.n_iter[candidates] = to_host(state.n_iter)[positions]
        self.stalled[candidates] = to_host(state.stalled)[positions]

    def solved(self, like):
        xp = namespace(like)
        W = xp.stack([self.W[i] for i in range(len(self.W))])
        return Solved(W, self.violation, self.n_iter, self.stalled)
