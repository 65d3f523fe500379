r"""Quadratic functions with an l1 penalty: many small models at once, to full precision.

Each model of a batch minimises

    v' H v / 2 - g' v + sum_j ( l1_j |v_j| + l2_j v_j^2 / 2 )

for a symmetric positive semidefinite H. Two methods share the work:

- **Pivoting** (`solvers.pivoting`) guesses the sign pattern of v, solves on it exactly, exchanges
  the coordinates that contradict their guess, and follows a path from a problem that the start
  solves where the guess is too far off. A handful of factorisations gives most models to rounding.
- **Descent** (here) takes over what pivoting gives up on, such as exactly tied columns: a Jacobi
  proximal step with exact line search, whose descent makes it converge from anywhere, and then a
  Newton step on the signs found, with another exact line search. The line search minimises the
  piecewise quadratic along a ray by sorting its kinks.

References
----------
J. J. Judice, F. M. Pires, "A block principal pivoting algorithm for large-scale strictly monotone
linear complementarity problems", Computers and Operations Research 21 (1994). M. R. Osborne,
B. Presnell, B. A. Turlach, "A new approach to variable selection in least squares problems", IMA
J. Numer. Anal. 20 (2000). H. Lee, A. Battle, R. Raina, A. Y. Ng, "Efficient sparse coding
algorithms", NIPS (2006).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, namespace, to_host
from gpuml._arrays.ops import EPS, constant
from gpuml.penalties import Penalty
from gpuml.solvers._patterns import Factors, Quadratic, solve_on, times
from gpuml.solvers.pivoting import follow_path

# Descent without progress in so many iterations has reached rounding.
PATIENCE = 5


def minimise_quadratic(
    H: Array,
    g: Array,
    l1: Any,
    l2: Any = 0.0,
    start: Array | None = None,
    *,
    tol: float = 1e-12,
    max_iter: int = 1000,
    factors: Factors | None = None,
) -> tuple[Array, Array, np.ndarray]:
    """Minimise ``v'Hv/2 - g'v + sum_j (l1_j |v_j| + l2_j v_j^2 / 2)`` for a batch of models.

    Parameters
    ----------
    H : array (B, p, p), float64
        Symmetric positive semidefinite, singular ones included. A coordinate with a zero diagonal
        gets v_j = 0.
    g : array (B, m, p), float64
        The m models of a row share one H; m is 1 where every model has its own.
    l1, l2 : number or array that broadcasts to (B, m, p)
        Weights of the penalty, not negative; 0 for coordinates without it.
    start : array (B, m, p), optional
        A guess; the closer its signs, the fewer iterations. Zero if not given.
    tol : float, default=1e-12
        A model is done when its violation of the optimality conditions is at most tol, or at most
        what rounding leaves.
    max_iter : int, default=1000
        Bound on the iterations of a model, each about one factorisation on the support; one step of
        descent follows where it cut the path short.

    Returns
    -------
    v : array (B, m, p)
    violation : array (B, m)
        Largest violation over coordinates, relative to the largest of g, both divided by
        ``sqrt(H_jj)`` so that the unit of a feature does not matter.
    n_iter : int ndarray (B, m), host
    """
    xp = namespace(H, g)
    problem, scale = _scaled(H, g, xp)
    problem = _penalised(problem, l1, l2, scale, xp)
    if factors is not None:
        problem = replace(problem, factors=factors)
    v, violated, n_iter = _minimise(
        problem, None if start is None else start * scale, tol, max_iter
    )
    return v / scale, violated, n_iter


def minimise_path(
    H: Array,
    g: Array,
    l1: np.ndarray,
    l2: np.ndarray,
    start: Array | None = None,
    *,
    tol: float = 1e-12,
    max_iter: int = 1000,
) -> tuple[Array, Array, np.ndarray]:
    """Minimise for several penalties, given from the strongest to the weakest.

    Parameters
    ----------
    H, g : arrays (B, p, p) and (B, m, p)
        As for `minimise_quadratic`.
    l1, l2 : ndarrays (C,), host
        Penalties of all coordinates.
    start : array (C, B, m, p), optional
        Without it, every penalty starts from the solution for the one before, or from zero where
        all are solved at once.
    tol, max_iter
        As for `minimise_quadratic`.

    Returns
    -------
    v : array (C, B, m, p)
    violation : array (C, B, m)
    n_iter : int ndarray (C, B, m), host
    """
    xp = namespace(H, g)
    problem, scale = _scaled(H, g, xp)
    if not is_numpy(g):
        return _minimise_at_once(problem, l1, l2, start, scale, tol, max_iter, xp)
    found = []
    v = None
    for i, (one, two) in enumerate(zip(l1.tolist(), l2.tolist(), strict=True)):
        each = _penalised(problem, one, two, scale, xp)
        v = v if start is None else start[i] * scale
        v, violated, n_iter = _minimise(each, v, tol, max_iter)
        found.append((v / scale, violated, n_iter))
    solutions, violations, counts = (np.stack(items) for items in zip(*found, strict=True))
    return solutions, violations, counts


def _minimise_at_once(problem, l1, l2, start, scale, tol, max_iter, xp):
    """On a device one step of all models takes little longer than one of a single model."""
    B, m, p = problem.g.shape
    C = len(l1)

    def spread(a):
        """(B, m, p) to (B, C m, p)."""
        return xp.reshape(xp.broadcast_to(a[:, None, ...], (B, C, m, p)), (B, C * m, p))

    one, two = (constant(np.repeat(x, m), like=scale, xp=xp)[None, :, None] for x in (l1, l2))
    many = replace(problem, g=spread(problem.g), dead=spread(problem.dead))
    many = _penalised(many, one, two, scale, xp)
    if start is not None:
        start = xp.reshape(xp.permute_dims(start * scale, (1, 0, 2, 3)), (B, C * m, p))
    v, violated, n_iter = _minimise(many, start, tol, max_iter)
    v = xp.permute_dims(xp.reshape(v / scale, (B, C, m, p)), (1, 0, 2, 3))
    violated = xp.permute_dims(xp.reshape(violated, (B, C, m)), (1, 0, 2))
    return v, violated, n_iter.reshape(B, C, m).transpose(1, 0, 2)


def _minimise(problem, v, tol, max_iter):
    xp = namespace(problem.g)
    zero = xp.zeros_like(problem.g)
    v = zero if v is None else xp.where(problem.dead, zero, v)
    v, n_iter = follow_path(problem, v, tol, max_iter, xp)
    v, n_iter = _descend(problem, v, n_iter, tol, max_iter, xp)
    return v, problem.relative_violation(v, xp), n_iter


def _scaled(H, g, xp):
    """The problem for ``v sqrt(H_jj)``, whose matrix has a unit diagonal; without a penalty."""
    diagonal = xp.linalg.diagonal(H)
    positive = diagonal > 0
    scale = xp.sqrt(xp.where(positive, diagonal, xp.ones_like(diagonal)))
    H = H / scale[..., :, None] / scale[..., None, :]
    scale = scale[:, None, :]
    zero = xp.zeros_like(g)
    dead = xp.broadcast_to(~positive[:, None, :], g.shape)
    return Quadratic(H, xp.where(dead, zero, g / scale), Penalty(zero, zero), dead), scale


def _penalised(problem, l1, l2, scale, xp):
    zero = xp.zeros_like(problem.g)
    # NumPy's own floats do not mix with arrays of every library.
    l1, l2 = (float(x) if isinstance(x, float) else x for x in (l1, l2))
    return replace(problem, penalty=Penalty(l1 / scale + zero, l2 / scale**2 + zero))


# ---------------------------------------------------------------- descent


@dataclass
class _Point:
    """Where a model is: v, the slope of its smooth part, and its value."""

    v: Array
    slope: Array
    value: Array


def _descend(problem, v, n_iter, tol, max_iter, xp):
    """Improve all models until each is optimal, out of iterations, or at the limit of rounding."""
    point = _point(problem, v, xp)
    best = np.full(v.shape[:-1], np.inf)
    stale = np.zeros(v.shape[:-1], dtype=int)
    # A path that max_iter cut short has hardly left its start: it is worth one step more.
    last_step = True
    while True:
        now = to_host(problem.relative_violation(point.v, xp, point.slope))
        stale = np.where(now < 0.5 * best, 0, stale + 1)
        best = np.minimum(best, now)
        limit = to_host(problem.limit(point.v, tol, xp))
        # Nothing is left to gain where violations are as small as rounding and fall no more.
        at_rounding = (now <= 1e-9) & (stale > PATIENCE)
        todo = (now > limit) & (last_step | (n_iter < max_iter)) & ~at_rounding
        if not todo.any():
            return point.v, n_iter
        n_iter = n_iter + (todo & (n_iter < max_iter))
        last_step = False
        mask = xp.asarray(todo, device=device_of(v))[..., None]
        point = _jacobi_step(problem, point, mask, xp)
        point = _newton_step(problem, point, todo, xp)


def _point(problem, v, xp):
    slope = times(problem, v) - problem.g
    value = xp.sum(0.5 * v * (slope - problem.g) + problem.penalty.l1 * xp.abs(v), axis=-1)
    return _Point(v, slope, value)


def _jacobi_step(problem, point, mask, xp):
    # With the curvature of the l2 part, which the slope has too.
    step = 1.0 / (1.0 + problem.penalty.l2)
    target = replace(problem.penalty, l2=0.0).prox(point.v - step * point.slope, step, xp)
    step = xp.where(mask & ~problem.dead, target - point.v, xp.zeros_like(point.v))
    return _point(problem, _along_ray(problem, point, step, xp), xp)


def _newton_step(problem, point, todo, xp):
    """From the signs of v, and of what wants to leave zero, the better of two candidates."""
    v, slope = point.v, point.slope
    leaves_zero = (v == 0) & (xp.abs(slope) > problem.penalty.l1) & ~problem.dead
    signs = xp.where(leaves_zero, -xp.sign(slope), xp.sign(v))
    rhs = -(slope + signs * problem.penalty.l1)
    step, _ = solve_on(problem, signs != 0, rhs, todo, xp)
    # A coordinate must leave zero on the side it was promised, or the step may ascend.
    step = xp.where((v == 0) & (step * signs < 0), xp.zeros_like(step), step)
    along = _point(problem, _along_ray(problem, point, step, xp), xp)
    full = v + step
    crossed = (full * signs < 0) & (problem.penalty.l1 > 0)
    full = _point(problem, xp.where(crossed, xp.zeros_like(full), full), xp)
    return _where(full.value < along.value, full, along, xp)


def _where(condition, a, b, xp):
    column = condition[..., None]
    return _Point(
        xp.where(column, a.v, b.v),
        xp.where(column, a.slope, b.slope),
        xp.where(condition, a.value, b.value),
    )


def _along_ray(problem, point, step, xp):
    """The best point ``v + t step``, t >= 0: exact, since the objective is piecewise quadratic."""
    v = point.v
    zero = xp.zeros_like(v)
    bend = xp.sum(step * times(problem, step), axis=-1)
    # Along directions that H does not see, rounding must not pass for a curvature that is tiny.
    bend = bend + EPS * xp.sum(xp.abs(step), axis=-1) ** 2
    side = xp.where(v == 0, xp.sign(step), xp.sign(v))
    slope = xp.sum(step * point.slope + problem.penalty.l1 * side * step, axis=-1)
    crosses = v * step < 0
    kink = xp.where(crosses, -v / xp.where(crosses, step, xp.ones_like(v)), xp.inf)
    jump = xp.where(crosses, 2 * problem.penalty.l1 * xp.abs(step), zero)
    order = xp.argsort(kink, axis=-1)
    kinks = xp.take_along_axis(kink, order, axis=-1)
    rises = xp.cumulative_sum(xp.take_along_axis(jump, order, axis=-1), axis=-1)
    finite = xp.isfinite(kinks)
    at = xp.where(finite, kinks, zero)
    # The derivative rises along the ray; its root lies after every kink where it is negative.
    passed = finite & (bend[..., None] * at + slope[..., None] + rises < 0)
    n_passed = xp.sum(xp.astype(passed, xp.int64), axis=-1)[..., None]
    rises = xp.concat([zero[..., :1], rises], axis=-1)
    kinks = xp.concat([kinks, xp.full_like(kinks[..., :1], xp.inf)], axis=-1)
    risen = xp.take_along_axis(rises, n_passed, axis=-1)
    next_kink = xp.take_along_axis(kinks, n_passed, axis=-1)
    falling = (slope < 0)[..., None]
    curved = (bend > 0)[..., None]
    root = -(slope[..., None] + risen) / xp.where(curved, bend[..., None], 1.0)
    root = xp.where(curved, root, xp.inf)
    t = xp.where(root < next_kink, root, next_kink)
    t = xp.where(falling & xp.isfinite(t), t, xp.zeros_like(t))
    # Coordinates that cross zero exactly there stay at zero.
    return xp.where(kink == t, zero, v + t * step)
