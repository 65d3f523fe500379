"""Sparse models one by one, coordinate by coordinate: where pivoting would take many steps.

With more features than rows, a guess of signs is seldom right, and a path from zero has as many
corners as features come and go. Coordinate descent on the few coordinates that matter finds the
signs; systems on them then give the solution to rounding. Where less will do, as for a step of
Newton's method that is not the last, the descent alone is a small part of that. NumPy only: each
step is one coordinate of one model, which a device would be slow at.

References
----------
J. Friedman, T. Hastie, R. Tibshirani, "Regularization paths for generalized linear models via
coordinate descent", Journal of Statistical Software 33 (2010).
"""

import numpy as np

from gpuml._arrays.ops import EPS
from gpuml.penalties import Penalty
from gpuml.solvers._coordinates import descend_gram
from gpuml.solvers._patterns import Quadratic, solve_one

# Sweeps change no sign any more where they change coefficients by less than this share.
SWEPT = 1e-10
# Sweeps between two looks at the signs and at the coordinates that are left out.
SWEEPS = 10
# Multiplications, of about half a second; whoever is not done by then is left to the path.
MOST_WORK = 1_000_000_000
# At least so many coordinates may join at a time.
FIRST_ACTIVE = 64


def _slack(model, v, tol):
    """What rounding and `tol` leave of a violation of one model (p,)."""
    size = np.abs(model.g).max()
    return size * tol + 4 * EPS * (size + np.abs(v).sum())


def solve_by_sweeps(
    problem: Quadratic, v: np.ndarray, todo: np.ndarray, tol: float, max_sweeps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Solve those models that coordinate descent can; the others keep their start.

    Parameters
    ----------
    problem : Quadratic
        Of NumPy arrays, with a unit diagonal.
    v : ndarray (B, m, p)
        The start.
    todo : bool ndarray (B, m)
        Which models to try.
    tol : float
        Relative violation that counts as none.
    max_sweeps : int
        Bound on the sweeps of a model.

    Returns
    -------
    v : ndarray (B, m, p)
    n_sweeps : int ndarray (B, m)
        0 where the start was kept.
    """
    v = v.copy()
    n_sweeps = np.zeros(todo.shape, dtype=int)
    for i, j in np.argwhere(todo):
        penalty = Penalty(problem.penalty.l1[i, j], problem.penalty.l2[i, j])
        model = Quadratic(problem.H[i], problem.g[i, j], penalty, problem.dead[i, j])
        found, count = _solve(model, v[i, j], tol, max_sweeps)
        if found is not None:
            v[i, j], n_sweeps[i, j] = found, count
    return v, n_sweeps


def approach(
    H: np.ndarray,
    g: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    start: np.ndarray,
    *,
    allowed: float,
    max_sweeps: int,
) -> np.ndarray:
    """Go towards the minimum over v of ``v'Hv/2 - g'v + sum_j (l1_j |v_j| + l2_j v_j^2 / 2)``.

    Parameters
    ----------
    H : ndarray (p, p), float64
        Symmetric positive semidefinite. A coordinate with a zero diagonal stays where it is.
    g, l1, l2, start : ndarrays (p,), float64
        Those without an l1 part are few, or all.
    allowed : float
        When to stop: where no condition of optimality is violated by more.
    max_sweeps : int
        Bound on the sweeps.

    Returns
    -------
    v : ndarray (p,)
    """
    v = start.copy()
    live = np.diagonal(H) + l2 > 0
    penalised, free = live & (l1 > 0), np.flatnonzero(live & (l1 == 0))
    inverse = None
    for _ in range(0, max_sweeps, SWEEPS):
        some = np.flatnonzero(v)
        slope = v[some] @ H[some] + l2 * v - g
        wrong = Penalty(l1, l2).violation(v, slope, np) * live
        if wrong.max() <= allowed:
            break
        if not penalised.any():
            v[free], _ = solve_one(H, free, l2[free], g[free])
            break
        if inverse is None:
            # Intercepts of several classes have a direction that changes nothing.
            square = H[np.ix_(free, free)] + np.diag(l2[free])
            inverse = np.linalg.pinv(square, 1e-8, hermitian=True)
        missing = np.flatnonzero(penalised & (v == 0) & (wrong > allowed))
        active = _with_worst(np.flatnonzero(penalised & (v != 0)), missing, wrong)
        # Coordinates without an l1 part follow the others, whose problem is left.
        cross = H[np.ix_(free, active)]
        if len(active):
            Q = H[np.ix_(active, active)] - cross.T @ inverse @ cross
            vectors = g[active] - cross.T @ (inverse @ g[free]), *(x[active] for x in (v, l1, l2))
            v[active] = descend_gram(Q, *vectors, tol=SWEPT, max_iter=SWEEPS)
        v[free] = inverse @ (g[free] - cross @ v[active])
    return v


def _solve(model, v, tol, max_sweeps):
    """The solution, or None; and the sweeps."""
    # A coordinate without an l1 part has no sign to be found.
    if not (model.penalty.l1[~model.dead] > 0).all():
        return None, 0
    v = v.copy()
    n_sweeps = work = 0
    while n_sweeps < max_sweeps and work < MOST_WORK:
        active = _joined(model, v, tol)
        count = min(SWEEPS, max_sweeps - n_sweeps)
        v[active] = _swept(model, v, active, count)
        n_sweeps += count
        work += count * len(active) ** 2
        v, solved = _on_signs(model, v, MOST_WORK - work)
        work += solved
        if _is_solved(model, v, tol):
            return v, n_sweeps
    return None, n_sweeps


def _swept(model, v, active, count):
    """Coefficients of the active coordinates after some sweeps over them."""
    H = np.ascontiguousarray(model.H[np.ix_(active, active)])
    vectors = (x[active] for x in (model.g, v, model.penalty.l1, model.penalty.l2))
    return descend_gram(H, *vectors, tol=SWEPT, max_iter=count)


def _on_signs(model, v, most):
    """From v towards the solution on its signs; coordinates that cross zero on the way stay there.

    Each step goes down, as the objective is quadratic where no sign changes. Besides v comes the
    number of multiplications, which stop at `most`.
    """
    work = 0
    v = v.copy()
    while work < most:
        some = np.flatnonzero(v)
        work += len(some) ** 3 // 3
        here, signs = v[some], np.sign(v[some])
        slope = model.g[some] - model.H[some] @ v - model.penalty.l2[some] * here
        # Where columns are tied the step is a long one, to where one of them is at zero.
        step, _ = solve_one(
            model.H, some, model.penalty.l2[some], slope - model.penalty.l1[some] * signs
        )
        if not np.isfinite(step).all():
            break
        crosses = (here + step) * signs <= 0
        if not crosses.any():
            v[some] = here + step
            break
        shares = np.where(crosses, -here / np.where(crosses, step, 1.0), np.inf)
        v[some] = here + shares.min() * step
        v[some[np.argmin(shares)]] = 0.0
    return v, work


def _excess(model, v):
    """How far coordinates at zero are from being content there (p,); -inf elsewhere."""
    some = np.flatnonzero(v)
    excess = np.abs(model.g - v[some] @ model.H[some]) - model.penalty.l1
    excess[(v != 0) | model.dead] = -np.inf
    return excess


def _joined(model, v, tol):
    """Coordinates that are not zero, and the worst of those that want to leave it."""
    excess = _excess(model, v)
    missing = np.flatnonzero(excess > _slack(model, v, tol))
    return _with_worst(np.flatnonzero(v), missing, excess)


def _with_worst(active, missing, excess):
    """Active coordinates, and those of the missing ones whose excess is largest."""
    room = max(len(active), FIRST_ACTIVE)
    return np.union1d(active, missing[np.argsort(-excess[missing], kind="stable")[:room]])


def _is_solved(model, v, tol):
    some = np.flatnonzero(v)
    slope = model.g - v[some] @ model.H[some] - model.penalty.l2 * v
    wrong = np.abs(slope[some] - np.sign(v[some]) * model.penalty.l1[some])
    slack = _slack(model, v, tol)
    return bool((wrong <= slack).all() and (_excess(model, v) <= slack).all())
