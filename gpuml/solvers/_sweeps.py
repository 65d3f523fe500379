"""Sparse models one by one, by coordinate descent up to a given accuracy.

A step of Newton's method that is not the last needs its minimum only roughly, and coordinate
descent on the few coordinates that matter is a small part of what the minimum to rounding would
take. NumPy only: each step is one coordinate of one model, which a device would be slow at.

References
----------
J. Friedman, T. Hastie, R. Tibshirani, "Regularization paths for generalized linear models via
coordinate descent", Journal of Statistical Software 33 (2010).
"""

import numpy as np
from scipy.linalg import lapack

from gpuml.penalties import Penalty
from gpuml.solvers._coordinates import descend_gram
from gpuml.solvers._patterns import Factor

# Sweeps that change coefficients by a smaller share no longer change signs.
SWEPT = 1e-10
# Sweeps before the first check of the signs and of the inactive coordinates; then twice as many
# each time, since what does not end soon is ill-conditioned.
SWEEPS = 10
# At least so many coordinates join at a time.
FIRST_ACTIVE = 64
# Of at most so many coordinates, the minimum on some signs takes no longer than sweeps do, and so
# many turns are taken in which coordinates leave.
FEW, TURNS = 64, 12
# Products use copied rows of a matrix if these are at most one in this many.
FEW_ROWS = 8


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
    n_sweeps, done = min(SWEEPS, max_sweeps), 0
    while done < max_sweeps:
        some = np.flatnonzero(v)
        few = FEW_ROWS * len(some) < len(v)  # else to copy them takes longer than all products
        slope = (v[some] @ H[some] if few else v @ H) + l2 * v - g
        wrong = Penalty(l1, l2).violation(v, slope, np) * live
        if wrong.max() <= allowed:
            break
        if not penalised.any():
            v[free], _ = Factor.of(H, free, l2[free]).solved(g[free])
            break
        if inverse is None:
            # Intercepts of several classes have a direction that changes nothing.
            square = _taken(H, free, free)
            square.flat[:: len(free) + 1] += l2[free]
            alone = len(free) == 1
            inverse = 1.0 / square if alone else np.linalg.pinv(square, 1e-8, hermitian=True)
        active, missing = penalised & (v != 0), penalised & (v == 0) & (wrong > allowed)
        active = _with_worst(active, missing, wrong)
        # Coordinates without an l1 part follow the others, whose problem is left.
        cross = _taken(H, free, active)
        if len(active):
            Q = _taken(H, active, active) - cross.T @ inverse @ cross
            side = g[active] - cross.T @ (inverse @ g[free])
            penalty = l1[active], l2[active]
            found, is_minimum = v[active], False
            if len(v) <= FEW:  # near the minimum the signs are right, or nearly so
                signs = np.where(found == 0, -np.sign(slope[active]), np.sign(found))
                found, is_minimum = _on_signs(Q, side, *penalty, found, signs, TURNS)
            if not is_minimum:
                found = descend_gram(Q, side, found, *penalty, tol=SWEPT, max_iter=n_sweeps)
                found, _ = _on_signs(Q, side, *penalty, found, np.sign(found), 1)
            v[active] = found
        v[free] = inverse @ (g[free] - cross @ v[active])
        done += n_sweeps
        n_sweeps = min(2 * n_sweeps, max_sweeps - done)
    return v


def _with_worst(active, missing, excess):
    """Where coordinates are active, or missing with an excess that is among the largest."""
    room, left = max(int(active.sum()), FIRST_ACTIVE), np.flatnonzero(missing)
    if len(left) > room:
        left = left[np.argsort(-excess[left], kind="stable")[:room]]
    active[left] = True
    return np.flatnonzero(active)


def _taken(H, rows, columns):
    return H[rows[:, None], columns]


def _on_signs(H, g, l1, l2, v, signs, n_turns):
    """Towards the minimum on these signs, which those of v agree with; and whether it was reached.

    Where the way there would change a sign, it ends, and that coordinate is 0 from there on.
    """
    v = v.copy()
    for turn in range(n_turns):
        some = np.flatnonzero(signs)
        if not len(some):
            return v, True
        matrix = H.copy() if len(some) == len(v) else _taken(H, some, some)
        matrix.flat[:: len(some) + 1] += l2[some]
        _, exact, failed = lapack.dposv(matrix.T, g[some] - l1[some] * signs[some], overwrite_a=1)
        if failed:  # of singular ones, sweeps have the last word
            return v, False
        begun, wrong = v[some], exact * signs[some] <= 0
        if not wrong.any():
            v[some] = exact
            return v, True
        if turn + 1 < n_turns:
            change = np.where(begun == exact, 1.0, begun - exact)
            part = np.where(wrong, begun / change, np.inf)
            first = part == part.min()
            v[some] = np.where(first, 0.0, begun + part.min() * (exact - begun))
            signs = signs.copy()
            signs[some[first]] = 0.0
    return v, False
