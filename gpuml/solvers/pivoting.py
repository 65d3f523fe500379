"""Block pivoting along a path: l1-penalised quadratic problems solved by guessing signs.

With a sign pattern s in {-1, 0, 1}^p the optimality conditions are a linear system on the support,

    (H + l2)_AA u_A = (g - l1 s)_A ,    u = 0 elsewhere ,

and u is optimal if its signs are s and ``|H u - g| <= l1`` off the support. Coordinates that
contradict their guess are exchanged all at once [1]_; where the number of contradictions stops
falling, the guess was too far off.

Then a path helps [2]_. The start v solves the problem with ``g0 = g + what is missing at v``, and
problems with ``g0 + t (g - g0)`` lead from there to g. v is linear in t while its signs stay, so a
model that is stuck walks to the first t where a sign must change, and changes that one alone; then
it leaps again, a longer way after each success, and after more walks the more leaps in a row have
failed. An easy problem is one leap.

References
----------
.. [1] L. F. Portugal, J. J. Judice, L. N. Vicente, "A comparison of block pivoting and
   interior-point algorithms for linear least squares problems with nonnegative variables",
   Mathematics of Computation 63 (1994).
.. [2] M. R. Osborne, B. Presnell, B. A. Turlach, "A new approach to variable selection in least
   squares problems", IMA J. Numer. Anal. 20 (2000).
"""

from dataclasses import dataclass

import numpy as np

from gpuml._arrays import Array, device_of, to_host
from gpuml._arrays.ops import EPS
from gpuml.solvers._patterns import Quadratic, solve_on, times

# Exchanges in a row that may leave as many contradictions as before.
PATIENCE = 3
# How much farther than the last step a model leaps after it.
LONGER = 4.0
# Walks after a leap that failed: one, and twice as many after each further one, up to this.
MOST_WALKS = 64
# So many walks in a row without progress mean that columns are tied.
MOST_IDLE = 20
IDLE = 1e-12


@dataclass
class _Paths:
    """Where each model is on its path; arrays of the library have axes (B, m, p).

    `t`, `step`, `walks`, `failed`, `idle`, `best` and `patience` are host arrays (B, m): a few
    numbers per model, which the host needs to decide what comes next. `walks` is how many come
    before the next leap, `failed` how many leaps in a row did. `base` holds the signs that are
    right at t and just after, `signs` those that are tried.
    """

    v: Array
    g0: Array
    base: Array
    signs: Array
    t: np.ndarray
    step: np.ndarray
    walks: np.ndarray
    failed: np.ndarray
    idle: np.ndarray
    best: np.ndarray
    patience: np.ndarray


def follow_path(
    problem: Quadratic, v: Array, tol: float, max_iter: int, xp
) -> tuple[Array, np.ndarray]:
    """Solve as many models as pivoting can; the others come back where their path ended.

    Parameters
    ----------
    problem : Quadratic
    v : array (B, m, p)
        The start.
    tol : float
        Relative violation that counts as none.
    max_iter : int

    Returns
    -------
    v : array (B, m, p)
    n_iter : int ndarray (B, m), host
    """
    limit = to_host(problem.limit(v, tol, xp))
    todo = to_host(problem.relative_violation(v, xp)) > limit
    n_iter = np.zeros(todo.shape, dtype=int)
    paths = _begin(problem, v, xp)
    while (todo := todo & (n_iter < max_iter)).any():
        n_iter = n_iter + todo
        g = _between(paths.g0, problem.g, np.where(paths.walks > 0, 1.0, paths.t + paths.step), xp)
        rhs = g - problem.penalty.l1 * paths.signs
        u, solved = solve_on(problem, paths.signs != 0, rhs, todo, xp)
        leaping, walking = todo & (paths.walks == 0), todo & (paths.walks > 0)
        if leaping.any():
            _leap(problem, paths, u, solved, g, leaping, tol, xp)
        if walking.any():
            todo = todo & ~_walk(problem, paths, u, solved, g, walking, xp)
        todo = todo & (paths.t < 1) & (paths.idle < MOST_IDLE)
    return paths.v, n_iter


def _begin(problem, v, xp):
    image = times(problem, v)
    g0 = image - _wanted_slope(problem, v, image - problem.g, xp)
    shape = v.shape[:-1]
    base = xp.sign(v)
    return _Paths(
        v=v,
        g0=g0,
        base=base,
        signs=_next_signs(problem, v, base, g0, np.ones(shape), xp),
        t=np.zeros(shape),
        step=np.ones(shape),
        walks=np.zeros(shape, dtype=int),
        failed=np.zeros(shape, dtype=int),
        idle=np.zeros(shape, dtype=int),
        best=np.full(shape, np.inf),
        patience=np.full(shape, PATIENCE),
    )


def _leap(problem, paths, u, solved, g, todo, tol, xp):
    """Accept u if nothing contradicts it; else exchange, or walk if exchanges do not help."""
    u, exchanged, contradictions = _check(problem, u, g, paths.signs, tol, xp)
    count = to_host(xp.where(solved, contradictions, xp.full_like(contradictions, -1)))
    good = todo & (count == 0)
    fewer = todo & (count > 0) & (count < paths.best)
    paths.patience = np.where(fewer, PATIENCE, paths.patience - (todo & ~good))
    paths.best = np.where(fewer, count, paths.best)
    stuck = todo & ~good & ((count < 0) | (paths.patience < 0))
    paths.t = np.where(good, np.minimum(paths.t + paths.step, 1.0), paths.t)
    paths.step = np.where(good, np.minimum(paths.step * LONGER, 1 - paths.t), paths.step)
    paths.failed = np.where(good, np.maximum(paths.failed - 1, 0), paths.failed + stuck)
    to_walk = np.minimum(2.0 ** (paths.failed - 1), MOST_WALKS).astype(int)
    paths.walks = np.where(stuck, to_walk, paths.walks)
    paths.idle = np.where(good, 0, paths.idle)
    column = _column(good, u, xp)
    paths.v = xp.where(column, u, paths.v)
    paths.base = xp.where(column, xp.sign(u), paths.base)
    paths.signs = xp.where(_column(todo, u, xp), exchanged, paths.signs)
    paths.signs = xp.where(_column(stuck, u, xp), paths.base, paths.signs)
    _aim(problem, paths, good, xp)


def _walk(problem, paths, u, solved, g, todo, xp):
    """Go along the line to u up to the first contradiction, and exchange it; True where lost."""
    solved = to_host(solved)
    slope = times(problem, paths.v) - _between(paths.g0, problem.g, paths.t, xp)
    share, exchanged = _first_exchange(problem, paths.v, u, slope, times(problem, u) - g, paths, xp)
    part = to_host(share)
    moved = todo & solved
    way = part * (1 - paths.t)
    paths.t = np.where(moved, np.where(part >= 1, 1.0, paths.t + way), paths.t)
    paths.step = np.where(moved, np.minimum(LONGER * way + IDLE, 1 - paths.t), paths.step)
    paths.idle = np.where(moved & (way <= IDLE), paths.idle + 1, np.where(moved, 0, paths.idle))
    # What got nowhere does not count.
    paths.walks = paths.walks - (moved & (way > IDLE))
    column = _column(moved, u, xp)
    walked = paths.v + share[..., None] * (u - paths.v)
    walked = xp.where(exchanged == 0, xp.zeros_like(u), walked)
    paths.v = xp.where(column, walked, paths.v)
    paths.base = xp.where(column, exchanged, paths.base)
    paths.signs = xp.where(column, exchanged, paths.signs)
    _aim(problem, paths, moved & (paths.walks == 0), xp)
    return todo & ~solved


def _first_exchange(problem, v, u, slope, slope_u, paths, xp):
    """The share of the way from v to u that keeps all signs, and the signs after it."""
    signs, l1 = paths.signs, problem.penalty.l1
    far = xp.full_like(v, xp.inf)
    crosses = (signs != 0) & (u * signs < 0) & (l1 > 0)
    gap = xp.where(crosses, v - u, xp.ones_like(v))
    out = xp.where(crosses, v / gap, far)
    change = slope_u - slope
    side = xp.sign(slope_u)
    steep = (signs == 0) & (xp.abs(slope_u) > l1) & ~problem.dead & (change * side > 0)
    change = xp.where(steep, change, xp.ones_like(v))
    enter = xp.where(steep, (side * l1 - slope) / change, far)
    share = xp.where(crosses, out, enter)
    share = xp.where(share > 0, share, xp.zeros_like(share))
    first = xp.min(share, axis=-1)
    arrives = first >= 1
    # Of several at one place, one is exchanged.
    p = v.shape[-1]
    which = xp.argmin(share, axis=-1)[..., None] == xp.arange(p, device=device_of(v))
    which = which & ~arrives[..., None]
    exchanged = xp.where(which & crosses, xp.zeros_like(v), signs)
    exchanged = xp.where(which & steep, -side, exchanged)
    return xp.where(arrives, xp.ones_like(first), first), exchanged


def _aim(problem, paths, which, xp):
    """Set out on a new leap where `which` says so."""
    if which.any():
        fresh = _next_signs(problem, paths.v, paths.base, paths.g0, paths.t + paths.step, xp)
        paths.signs = xp.where(_column(which, fresh, xp), fresh, paths.signs)
        paths.best = np.where(which, np.inf, paths.best)
        paths.patience = np.where(which, PATIENCE, paths.patience)


def _wanted_slope(problem, v, slope, xp):
    """A slope for which v would be optimal, near the one at v."""
    # Slopes that are too steep are shrunk together, as a larger l1 would do. Cutting each at its
    # own l1 would let all of them leave zero at one moment of the path, and most only to return.
    penalised = problem.penalty.l1 > 0
    steep = xp.abs(slope) / xp.where(penalised, problem.penalty.l1, xp.ones_like(slope))
    steepest = xp.max(xp.where(penalised & (v == 0), steep, xp.zeros_like(v)), axis=-1)[..., None]
    shrunk = slope / xp.where(steepest > 1, steepest, xp.ones_like(steepest))
    return xp.where(
        v == 0, xp.where(penalised, shrunk, xp.zeros_like(v)), -xp.sign(v) * problem.penalty.l1
    )


def _between(g0, g, t, xp):
    t = xp.asarray(t, device=device_of(g))[..., None]
    return g0 + t * (g - g0)


def _next_signs(problem, v, base, g0, t, xp):
    """The signs at v, and those of coordinates that would leave zero if g moved on to t."""
    slope = times(problem, v) - _between(g0, problem.g, t, xp)
    leaves = (base == 0) & (xp.abs(slope) > problem.penalty.l1) & ~problem.dead
    return xp.where(leaves, -xp.sign(slope), base)


def _check(problem, u, g, signs, tol, xp):
    """Clean u, the pattern after exchanges, and the number of contradictions (B, m)."""
    zero = xp.zeros_like(u)
    size = problem.size(xp)[..., None]
    slack = size * tol + 4 * EPS * (size + xp.sum(xp.abs(u), axis=-1)[..., None])
    wrong = (signs != 0) & (u * signs < 0) & (problem.penalty.l1 > 0)
    # A coefficient of the size of rounding has no sign: zero is as good.
    tiny = wrong & (xp.abs(u) <= slack)
    u = xp.where(tiny, zero, u)
    slope = times(problem, u) - g
    leaves = (signs == 0) & (xp.abs(slope) > problem.penalty.l1 + slack) & ~problem.dead
    out = wrong & ~tiny
    exchanged = xp.where(out, zero, xp.where(leaves, -xp.sign(slope), signs))
    return u, exchanged, xp.sum(xp.astype(out | leaves, xp.int64), axis=-1)


def _column(mask, like, xp):
    return xp.asarray(mask, device=device_of(like))[..., None]
