r"""Paths of sparse models on a CPU, each from the one before: a working set of coordinates.

For penalties from strong to weak, a path has the minima over v (p,) of

    v' H v / 2 - g' v + l1 |v|_1 + l2 |v|^2 / 2 .

Few coordinates are not zero, and those that are going to be are mostly among those whose slope is
near l1 already (the sequential strong rule [1]_). These are worked on, with a matrix of their own:

- next to the model before, the solution on its signs, then on those that this one contradicts [2]_,
  until none is left: two or three systems, of sets that change little (`solvers._bordered`);
- where that does not end, sweeps of compiled coordinate descent, and the solution on the signs
  that they find, towards which no coordinate is led through zero [3]_.

Then slopes of all p coordinates say who has to join. A source (`solvers._path_sources`) has H, or
makes slopes and parts of H of rows.

References
----------
.. [1] R. Tibshirani, J. Bien, J. Friedman, T. Hastie, N. Simon, J. Taylor, R. J. Tibshirani,
   "Strong rules for discarding predictors in lasso-type problems", J. R. Stat. Soc. B 74 (2012).
.. [2] M. Hintermueller, K. Ito, K. Kunisch, "The primal-dual active set strategy as a semismooth
   Newton method", SIAM J. Optim. 13 (2002).
.. [3] H. Lee, A. Battle, R. Raina, A. Y. Ng, "Efficient sparse coding algorithms", NIPS (2006).
"""

import math
from dataclasses import replace

import numpy as np

from gpuml._arrays.ops import EPS
from gpuml.penalties import Penalty
from gpuml.solvers._bordered import Bordered
from gpuml.solvers._coordinates import sweep_gram
from gpuml.solvers._path_sources import Source
from gpuml.solvers._result import Path

# With so many coordinates or fewer all are active, and sweeps alone solve well-behaved problems.
ALL_AT_ONCE = 256
# Sweeps until then, or that take so many products, and after how many models that take more of them
# sweeps are left; and sweeps between two systems.
FIRST_SWEEPS, FIRST_PRODUCTS, MOST_LATE, SWEEPS = 40, 300_000, 3, 20
# Relative change of coefficients in a sweep that counts as none.
SWEPT = 1e-14
# So many coordinates, or such a share of those that are not zero, join at a time: all slopes cost
# less than products with many that stay at zero. And none whose slope is a smaller share of l1.
FEW_JOIN, SHARE_JOIN, LEAST_SHARE = 64, 0.5, 0.85
# Where room is short, coordinates leave that are at zero and have slopes below such a share of l1,
# if they are a large share of all. And room for coordinates that will join.
IDLE_BELOW, IDLE_SHARE, ROOM = 0.92, 0.1, 32
# Where sweeps leave no more of a violation, they go first, and where the last penalty is further
# away than such a share of its l1. Else signs are guessed for penalties with such steps from that
# one to this, with so many systems in a row that have no fewer contradictions than one before.
SWEEPS_SOLVE, FAR, NEXT, PATIENT = 1e-2, 0.3, 0.7, 3
# A penalty that is that far is reached through others if so many iterations do not lead there, and
# if many more are allowed.
AT_ONCE, LEAST_ITER = 150, 600
# How often a penalty halfway there is put in between where signs do not settle, if those on either
# side are further apart than such a share.
MOST_SPLITS, LEAST_SPLIT = 8, 0.9999
# A system pays if so many signs will change, or such a share of them.
FEW_SIGNS, SHARE_OF_SIGNS = 4, 0.03
# Rounding: shares by which slopes exceed l1, and slopes along columns that depend on each other.
TIED, FLAT = 1e-10, 1e-9
# Sweeps start after so many systems, then after twice as many, and so on.
FEW_STEPS = 3
# Share of the violation outside the working set that may be left in it.
ENOUGH = 0.1
# Violations so small, and how often one may be looked at without being halved: what is left is
# rounding, or that of columns which are tied but for rounding.
PATIENCE = (1e-9, 5), (1e-5, 30)
# The same for all coordinates, whatever the violation, if none joins.
MOST_IDLE = 3


def follow(
    source: Source,
    l1: np.ndarray,
    l2: np.ndarray,
    start: np.ndarray | None = None,
    *,
    tol: float,
    max_iter: int,
) -> Path:
    """Models of penalties l1 (C,) > 0 and l2 (C,), from the strongest to the weakest.

    Parameters
    ----------
    source : Source
    l1, l2 : ndarrays (C,)
    start : ndarray (C, p), optional
        Coefficients to start from; else each model starts from the one before, the first from zero.
    tol : float
        A model is done when its violation of the optimality conditions is at most tol, or at most
        what rounding leaves.
    max_iter : int
        Bound on the iterations of a model.
    """
    work = _Working(source, tol, max_iter)
    path = work.sketch(l1, l2, start)
    before, left = -1, np.flatnonzero(path.violation > work.allowed(path.v)).tolist()
    if not left:
        return path
    for i in left:
        if start is not None:
            work.begin(start[i])
        elif i != before + 1:
            work.begin(path.v[i - 1])
        n_iter = path.n_iter[i] + work.solve(float(l1[i]), float(l2[i]))
        path.n_iter[i] = min(n_iter, max_iter)
        path.v[i], path.slopes[i] = work.whole(), work.slopes
        before = i
    return replace(path, violation=work.violation(path.v, path.slopes, l1, l2))


class _Working:
    """The working set: its `columns` (k,), their coefficients and part of H, and all slopes (p,).

    What is kept of the columns has room for more of them, where it is zero.
    """

    def __init__(self, source, tol, max_iter):
        self.source, self.tol, self.max_iter = source, tol, max_iter
        self._most = max_iter  # iterations, for now
        self.live = source.scale > 0
        # Coordinates that H does not see may have any slope: they stay at zero.
        self.scale = np.where(self.live, source.scale, np.inf)
        self.largest = np.abs(source.g / self.scale).max(initial=0.0) or 1.0
        # A length that y, which is unknown here, hardly exceeds.
        self._length = 100 * self.largest
        self.columns = np.empty(0, dtype=int)
        self._is_in = ~self.live
        self._H, self._g, self._v = np.zeros((0, 0)), np.empty(0), np.empty(0)
        self._systems = Bordered(source.roots)
        self.slopes = source.g
        self._last = None  # the l1 of the model that is there
        self._sweeps_leave = 0.0  # of a violation

    @property
    def v(self):
        """Coefficients (k,) of the working set."""
        return self._v[: len(self.columns)]

    def whole(self):
        """All coefficients (p,)."""
        v = np.zeros_like(self.source.g)
        v[self.columns] = self.v
        return v

    def violation(self, v, slopes, l1, l2):
        """Of models (C, p), the largest violation (C,) of a condition, in its unit."""
        l1, l2 = np.asarray(l1)[..., None], np.asarray(l2)[..., None]
        found = Penalty(l1, l2).violation(v, l2 * v - slopes, np)
        return (found / self.scale).max(axis=-1, initial=0.0) / self.largest

    def allowed(self, v):
        """The violation (C,) of models (C, p) that counts as none."""
        size = (np.abs(v) * np.where(self.live, self.scale, 0.0)).sum(axis=-1)
        return np.maximum(self.tol, 4 * EPS * (1 + size / self.largest))

    def sketch(self, l1, l2, start):
        """Where each model starts; of few coordinates, where some sweeps have led it."""
        shape = len(l1), len(self.source.g)
        v = np.zeros(shape) if start is None else start.copy()
        v[:, ~self.live] = 0.0
        n_iter = np.zeros(len(l1), dtype=int)
        if shape[1] > ALL_AT_ONCE:
            return Path(v, np.zeros(shape), n_iter, np.full(len(l1), np.inf))
        self._join(np.flatnonzero(self.live))
        if start is not None:
            slopes = self.source.all_slopes(v)
            return Path(v, slopes, n_iter, self.violation(v, slopes, l1, l2))
        first = max(FIRST_SWEEPS, FIRST_PRODUCTS // shape[1] ** 2)
        most, late = min(self.max_iter, first), 0
        now = self._v
        for i, (one, two) in enumerate(zip(l1.tolist(), l2.tolist(), strict=True)):
            now, n_iter[i] = self._swept(now, one, two, most)
            v[i, self.columns] = now
            late = late + 1 if n_iter[i] == most else 0
            if late == MOST_LATE:
                break
        slopes = self.source.all_slopes(v)
        return Path(v, slopes, n_iter, self.violation(v, slopes, l1, l2))

    def _swept(self, v, l1, l2, most):
        return sweep_gram(self._H, self._g, v, l1, l2, tol=SWEPT, max_iter=most, size=self._length)

    def begin(self, v):
        """Start from coefficients (p,)."""
        self._join(np.flatnonzero((v != 0) & ~self._is_in))
        self._v[: len(self.columns)] = v[self.columns]
        self.slopes, self._last = self.source.slopes(self.v), None

    def solve(self, l1, l2):
        """From the model that is there to that of another penalty; iterations that it took."""
        last = max(l1, self._last or np.abs(self.slopes).max(initial=0.0))
        stops = math.ceil(math.log(l1 / last) / math.log(FAR))
        may_stop = stops > 1 and self.max_iter >= LEAST_ITER
        before = self.whole(), self.slopes, self._last
        self._most = AT_ONCE if may_stop else self.max_iter
        n_iter = self._solve(l1, l2, 0)
        if n_iter < AT_ONCE or not may_stop:
            return n_iter
        # Too far: with most signs wrong, sweeps may take thousands.
        v, self.slopes, self._last = before
        self._keep(np.flatnonzero(v[self.columns]))
        self._v, self._most = v[self.columns], self.max_iter
        for ahead in (l1 * (last / l1) ** (np.arange(stops)[::-1] / stops)).tolist():
            n_iter = self._solve(ahead, l2, n_iter)
        return n_iter

    def _solve(self, l1, l2, n_iter):
        idle = 0
        while n_iter < self._most and idle < MOST_IDLE:
            found = self._conditions(l1, l2)
            if found.max(initial=0.0) <= self._allowed_here():
                break
            new = self._missing(l1)
            idle = 0 if len(new) else idle + 1
            self._join(new, l1)
            # While others have far to go, these need not arrive.
            n_iter = self._settle(l1, l2, n_iter, ENOUGH * found[new].max(initial=0.0))
            self.slopes, self._last = self.source.slopes(self.v), l1
        return n_iter

    def _conditions(self, l1, l2):
        """By how much each coordinate (p,) violates its condition, in its unit."""
        found = np.abs(self.slopes) - l1
        some, v = self.columns, self.v
        found[some] = self._here(v, self.slopes[some], l1, l2)
        return found / self.scale / self.largest

    def _here(self, v, slopes, l1, l2):
        """The same (k,) of the working set, not in its unit."""
        left = slopes - l2 * v
        return np.where(v == 0, np.abs(left) - l1, np.abs(left - np.sign(v) * l1))

    def _allowed_here(self):
        size = np.abs(self.v) @ self.scale[self.columns]
        return max(self.tol, 4 * EPS * (1 + size / self.largest))

    def _missing(self, l1):
        """Coordinates that should join: their slopes are near l1, or may soon be."""
        slopes = np.abs(self.slopes)
        before = self._last or slopes.max(initial=0.0)
        slopes[self._is_in] = 0.0
        near = np.flatnonzero(slopes >= max(2 * l1 - before, LEAST_SHARE * l1))
        room = max(FEW_JOIN, int(SHARE_JOIN * np.count_nonzero(self.v)))
        if len(near) > room:
            near = near[np.argpartition(-slopes[near], room)[:room]]
        return near

    def _join(self, new, l1=0.0):
        k = len(self.columns) + len(new)
        if k > len(self._g):
            idle = (self.v == 0) & (np.abs(self.slopes[self.columns]) < IDLE_BELOW * l1)
            if idle.sum() > IDLE_SHARE * len(idle):
                self._keep(np.flatnonzero(~idle))
                k = len(self.columns) + len(new)
            self._grow(k if len(self.scale) <= ALL_AT_ONCE else k + ROOM)
        if len(new) == 0:
            return
        before = len(self.columns)
        self.columns = np.concatenate([self.columns, new])
        self._is_in[new] = True
        rows = self.source.join(new)  # (m, k)
        self._H[before:k, :k] = rows
        self._H[:before, before:k] = rows[:, :before].T
        self._g[before:k] = self.source.g[new]

    def _grow(self, room):
        k = len(self.columns)
        H, g, v = np.zeros((room, room)), np.zeros(room), np.zeros(room)
        H[:k, :k], g[:k], v[:k] = self._H[:k, :k], self._g[:k], self._v[:k]
        self._H, self._g, self._v = H, g, v

    def _keep(self, kept):
        self._is_in[self.columns] = False
        self.columns = self.columns[kept]
        self._is_in[self.columns] = True
        self._H = self._H.take(kept, axis=0).take(kept, axis=1)
        self._g, self._v = self._g[kept], self._v[kept]
        self.source.keep(kept)
        self._systems.forget()

    def _settle(self, l1, l2, n_iter, enough):
        """Solve on the working set, or get as near as is enough; all iterations so far."""
        k = len(self.columns)
        H, scale = self._H[:k, :k], self.scale[self.columns] * self.largest
        slopes = self.slopes[self.columns]
        is_next = self._last is not None and FAR * self._last <= l1 < self._last
        if is_next and self._sweeps_leave > SWEEPS_SOLVE:
            n_iter, slopes = self._guess(H, l1, l2, n_iter, slopes, self._last)
        # How many signs are going to change, for all that is known.
        unsettled = np.count_nonzero((self.v == 0) & (np.abs(slopes) > l1))
        n_steps, most_steps = 0, FEW_STEPS
        barred, may_guess = np.zeros(k, dtype=bool), self._last == l1
        best, idle, is_solved = np.inf, 0, True
        swept_from = 0.0
        while n_iter < self._most:
            found = self._here(self.v, slopes, l1, l2) / scale
            worst, allowed = found.max(initial=0.0), max(enough, self._allowed_here())
            best, idle = (worst, 0) if worst < 0.5 * best else (best, idle + is_solved)
            if worst <= allowed or any(best <= b and idle > most for b, most in PATIENCE):
                break
            if swept_from > 0:
                self._sweeps_leave, swept_from = worst / swept_from, 0.0
            few = unsettled <= max(FEW_SIGNS, SHARE_OF_SIGNS * np.count_nonzero(self.v))
            if few and may_guess:
                n_iter, slopes = self._guess(H, l1, l2, n_iter, slopes, l1)
                may_guess = False
            elif few and n_steps < most_steps:
                wants = np.where(barred | (found <= allowed), 0.0, np.sign(slopes))
                crossed, slopes, is_solved = self._step(H, slopes, wants, l1, l2)
                # Coordinates at zero stay there until there is a solution on the signs.
                barred = (barred | crossed) & crossed.any()
                n_iter, n_steps = n_iter + 1, n_steps + is_solved
            else:
                most, signs = min(SWEEPS, self._most - n_iter), np.sign(self.v)
                swept_from = worst
                self._v, count = self._swept(self._v, l1, l2, most)
                unsettled = np.count_nonzero(np.sign(self.v) != signs)
                n_iter, barred = n_iter + count, np.zeros(k, dtype=bool)
                n_steps, most_steps = 0, 2 * most_steps if n_steps else most_steps
                slopes, may_guess = self._g[:k] - H @ self.v, True
        return n_iter

    def _guess(self, H, l1, l2, n_iter, slopes, last):
        """From penalty to penalty along guessed signs, as far as they lead.

        Next to the penalty before, that takes a few systems; where it does not end, one between
        the two is nearer. A model is left for another only where that is a solution; iterations so
        far, and slopes (k,), are returned.
        """
        g, here, splits = self._g[: len(slopes)], last, MOST_SPLITS
        stops = max(1, math.ceil(math.log(l1 / last) / math.log(NEXT)))
        ahead = (l1 * (last / l1) ** (np.arange(stops) / stops)).tolist()
        while ahead and n_iter < self._most:
            found, n_iter = self._exchange(H, g, ahead[-1], l2, n_iter)
            if found is not None:
                (self.v[:], slopes), here = found, ahead.pop()
            elif splits == 0 or not here * LEAST_SPLIT > ahead[-1]:
                break
            else:
                splits -= 1
                ahead.append(math.sqrt(here * ahead[-1]))
        return n_iter, slopes

    def _exchange(self, H, g, l1, l2, n_iter):
        """The solution (k,) next to the one that is there, and its slopes, or None; iterations.

        Contradictions are exchanged: who has the wrong sign goes, whose slope is too large comes.
        """
        signs = np.sign(self.v)
        least, patience = len(g) + 1, PATIENT
        while patience >= 0 and n_iter < self._most:
            mask = signs != 0
            v, dependent = self._systems.solve(H, l2, mask, np.where(mask, g - l1 * signs, 0.0))
            n_iter += 1
            if dependent is not None:
                # Others can do what these do.
                signs[dependent], patience = 0.0, patience - 1
                continue
            bend = g - H @ v
            goes = mask & (v * signs <= 0)
            comes = ~mask & (np.abs(bend) > (1 + TIED) * l1)
            wrong = int(np.count_nonzero(goes | comes))
            if wrong == 0:
                return (v, bend), n_iter
            least, patience = (wrong, PATIENT) if wrong < least else (least, patience - 1)
            if l2 == 0:
                self._make_room(H, mask, goes, comes, v, bend)
            signs = np.where(goes, 0.0, np.where(comes, np.sign(bend), signs))
        return None, n_iter

    def _make_room(self, H, mask, goes, comes, v, bend):
        """Let no more come than there can be without dependence, the steepest first.

        Where as many as that are there already, and none goes, one takes the place of that which
        it brings to zero first.
        """
        room = self.source.rank - np.count_nonzero(mask & ~goes)
        if np.count_nonzero(comes) <= room:
            return
        found = np.flatnonzero(comes)
        found = found[np.argsort(-np.abs(bend[found]))]
        comes[found[max(room, 1) :]] = False
        if room < 1:
            j = found[0]
            step, dependent = self._systems.solve(H, 0.0, mask, np.where(mask, H[j], 0.0))
            if dependent is None:
                step *= np.sign(bend[j])
                shares = np.where(v * step > 0, v / np.where(step == 0, 1.0, step), np.inf)
                goes[np.argmin(shares)] = np.isfinite(shares.min())

    def _step(self, H, slopes, wants, l1, l2):
        """Towards the solution on the signs of v, and on those that others want to have.

        Who would cross zero on the way stays there. The objective goes down, as it is quadratic
        where no sign changes. Who crossed (k,), new slopes (k,), and whether there was a solution,
        are returned.
        """
        v = self.v  # a view: what is done to it stays
        signs = np.where(v == 0, wants, np.sign(v))
        mask = signs != 0
        side = np.where(mask, slopes - l2 * v - l1 * signs, 0.0)
        step, dependent = self._systems.solve(H, l2, mask, side)
        if dependent is None:
            crosses = mask & ((v + step) * signs <= 0)
            if not crosses.any():
                v += step
                return crosses, self._g[: len(v)] - H @ v, True
            # All the way, if that goes down, or else to where the first one is at zero.
            clipped = np.where(crosses, -v, step)
            bend = H @ clipped
            goes_down = clipped @ (0.5 * (bend + l2 * clipped) - side) < 0
        else:
            # Drop columns that depend on others: those whose share others can take over...
            crosses, clipped = np.zeros(len(v), dtype=bool), np.zeros(len(v))
            for unseen, j in zip(step, dependent.tolist(), strict=True):
                change = clipped - (v[j] + clipped[j]) * unseen
                is_flat = abs(side @ unseen) <= FLAT * (np.abs(side) @ np.abs(unseen))
                if is_flat and ((v + change) * signs >= 0).all():
                    clipped, crosses[j] = change, True
            goes_down, bend = bool(crosses.any()), H @ clipped
            if not goes_down:
                # ... or else the first that comes to zero where the objective does not rise.
                step = step[0]
                if step @ side < 0 or not (step * signs < 0).any():
                    step = -step
                crosses = mask & (step * signs < 0)
        if not goes_down:
            shares = np.where(crosses, -v / np.where(step == 0, 1.0, step), np.inf)
            crosses = shares == shares.min()
            clipped = shares.min() * step
            bend = H @ clipped
        v += clipped
        v[crosses] = 0.0
        return crosses, slopes - bend, dependent is None
