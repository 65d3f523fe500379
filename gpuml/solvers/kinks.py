"""Newton's method for models of few rows whose loss is a square beyond a kink, each to its end.

Between kinks these objectives are quadratic, so a Newton step that stays among the same rows ends
at the minimum. Steps that go too far end where the objective is least along them, which keeps them
from going back and forth between two sets of rows, and finds the minimum after finitely many of
them [1]_. But where there are coefficients for all rows, objectives are tiny and steep: followed
so, steps take up one row after the other. Whole ones end at the minimum of a set of rows each time,
and soon at that of the right set. Few rows change sides in a step, and only these change the
Hessian. Models of a split are found in turn, strong penalties first: the next one begins where the
last one ends.

References
----------
.. [1] S. S. Keerthi, D. DeCoste, "A modified finite Newton method for fast solution of large scale
   linear SVMs", Journal of Machine Learning Research 6 (2005).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from gpuml._arrays.threads import ordered_map
from gpuml.designs import Dense, Mapped
from gpuml.losses import Loss
from gpuml.penalties import Penalty
from gpuml.solvers._blocks import quiet
from gpuml.solvers._step_rules import ENOUGH, GAIN, PATIENCE, SURE_OVERSHOOT
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.loss_rows import LossRows

# Rows that stay in the cache, and the order of systems that take no longer than a pass over them.
MOST_BYTES, MOST_FEATURES = 2**22, 256
# The search along a step that goes too far ends where this part of the slope at its start is left.
SLOPE_LEFT, MOST_TRIALS = 1e-3, 40
# So many of the first steps are whole where there are coefficients for all rows.
WHOLE_STEPS = 10
EPS = float(np.finfo(np.float64).eps)
# Part of the mean curvature of all rows that every feature has: a kink may leave some without any.
LEAST_CURVATURE = 1e-12


def are_few(data: LossRows, n_features: int | None = None) -> bool:
    """Whether the rows are few enough, and dense ones in CPU memory.

    Of rows with so many features, if they had others than they have.
    """
    design = data.design
    if not (data.loss.jumps and data.n_vectors == 1 and data.place.kind == "numpy"):
        return False
    if not isinstance(design.stored, Dense) or not isinstance(design, Dense | Mapped):
        return False
    widths = (data.n_features, design.shape[1]) if n_features is None else (n_features,)
    few = 8 * data.n_rows * (max(widths) + 1) <= MOST_BYTES
    return few and data.target.ndim == 1 and widths[-1] <= MOST_FEATURES


def minimise(
    data: LossRows,
    total: np.ndarray,
    penalty: Penalty,
    start: np.ndarray,
    tol: float,
    max_iter: int,
) -> Solved:
    """Minimise until gradients are at most `tol`, and little is left to be gained.

    Parameters are those of `few_rows.minimise`.
    """
    shape = (*start.shape[:2], start.shape[3])
    l2, used = (np.broadcast_to(a[:, :, 0, :], shape) for a in (penalty.l2, penalty.used))
    strong_first = np.argsort(-l2.max(axis=(1, 2)), kind="stable")
    W, violation = np.empty(start.shape), np.empty(shape[:2])
    n_iter = np.zeros(shape[:2], dtype=np.int32)
    stalled = np.zeros(shape[:2], dtype=bool)

    def fit(split):
        with quiet():
            rows = _Rows.of(data, total, split)
            begin = start[strong_first[0], split, 0, :]
            for c in strong_first:
                model = _Model(rows, l2[c, split, :], used[c, split, :])
                found = begin, *_ = model.minimise(begin, tol, max_iter)
                W[c, split, 0, :], violation[c, split], n_iter[c, split], stalled[c, split] = found

    for _ in ordered_map(fit, range(shape[1]), data.threads):
        pass
    if data.advance is not None:
        data.advance(data.n_rows * int(n_iter.max(initial=0)))
    return Solved(W, violation, n_iter, stalled)


@dataclass(frozen=True)
class _Rows:
    """Images [x, 1] (n, q) of the rows in a split, their targets and weights that sum to 1."""

    loss: Loss
    Z: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    mean_square: float

    @classmethod
    def of(cls, data: LossRows, total: np.ndarray, split: int) -> "_Rows":
        X = np.asarray(data.design.stored.block(slice(0, data.n_rows)).dense(), dtype=np.float64)
        weight = np.full(data.n_rows, 1.0 / total[min(split, len(total) - 1)])
        if data.weights is not None:
            weight = weight * data.weights[min(split, len(data.weights) - 1)]
        own = np.flatnonzero(weight)
        X, target, weight = X[own, :], data.target[own], weight[own]
        one = np.ones((len(X), 1))
        if isinstance(data.design, Mapped):
            # Images of rows less their mean keep their digits where it is far from 0.
            shift = weight @ X
            maps = data.design.maps_about(shift)
            Z = np.hstack([X - shift, one]) @ maps[min(split, len(maps) - 1)].T
        else:
            Z = np.hstack([X, one])
        Z = np.ascontiguousarray(Z)
        return cls(data.loss, Z, target, weight, float(weight @ (Z**2).mean(axis=1)))

    def slopes(self, z: np.ndarray) -> np.ndarray:
        """Derivatives of the loss by margins (n,), by weight."""
        return self.loss.slope(z[None, :].copy(), self.target, np)[0] * self.weight

    def curvatures(self, z: np.ndarray) -> np.ndarray:
        """Curvatures of the loss (n,), by weight."""
        return self.loss.curvature(z[None, :].copy(), self.target, np)[0] * self.weight


@dataclass(frozen=True)
class _Model:
    """What is minimised over some rows; l2 and used (q,)."""

    rows: _Rows
    l2: np.ndarray
    used: np.ndarray

    def minimise(
        self, w: np.ndarray, tol: float, max_iter: int
    ) -> tuple[np.ndarray, float, int, bool]:
        """The minimum (q,), the largest component of the gradient there, and the steps to it.

        And whether these had come down to rounding before the gradient was small enough.
        """
        w = w * self.used
        z, g = self._at(w)
        size = best = float(np.abs(g).max())
        enough, waited = 2 * ENOUGH * tol**2, 0
        least = self.l2[self.used > 0].min(initial=np.inf)
        n_rows, q = self.rows.Z.shape
        n_whole = WHOLE_STEPS if n_rows <= q else 0
        H = before = np.zeros(0)
        for n_iter in range(max_iter):
            # Whatever the Hessian adds to the penalty, its step gains no more.
            if size <= tol and g @ g <= enough * least:
                return w, size, n_iter, False
            curvature = self.rows.curvatures(z)
            H = self._updated(H, before, curvature) if n_iter else _gram(self.rows.Z, curvature)
            before = curvature
            step = self._step(H, g)
            slope = float(g @ step)
            is_done = size <= tol and -slope <= enough
            if is_done or (waited >= PATIENCE and -slope <= EPS):
                return w, size, n_iter, not is_done
            w = w + (step if n_iter < n_whole else self._length(w, z, step, slope) * step)
            z, g = self._at(w)
            size = float(np.abs(g).max())
            best, waited = min(best, size), 0 if size < GAIN * best else waited + 1
        return w, size, max_iter, False

    def _at(self, w):
        """Margins (n,) and the gradient (q,)."""
        z = self.rows.Z @ w
        return z, (self.rows.slopes(z) @ self.rows.Z + self.l2 * w) * self.used

    def _updated(self, H, before, curvature):
        """The Hessian of the loss where some rows have another curvature."""
        changed = np.flatnonzero(curvature != before)
        if 2 * len(changed) > np.count_nonzero(curvature):
            return _gram(self.rows.Z, curvature)
        Z = self.rows.Z[changed, :]
        return H + (Z.T * (curvature - before)[changed]) @ Z

    def _step(self, H, g):
        """Newton's step (q,)."""
        diagonal = self.l2 + LEAST_CURVATURE * self.rows.mean_square
        own = np.flatnonzero(self.used)
        step = np.zeros_like(g)
        while True:
            system = H[np.ix_(own, own)] if len(own) < len(g) else H.copy()
            system[np.diag_indices_from(system)] += diagonal[own]
            _, found, failed = lapack.dposv(system, g[own], lower=1, overwrite_a=1)
            if not failed:
                step[own] = -found
                return step
            diagonal = 100.0 * diagonal + LEAST_CURVATURE * H.diagonal().max()

    def _length(self, w, z, step, first):
        """How far the objective falls along a step, in its units."""
        along = self.rows.Z @ step
        linear, square = float(self.l2 @ (w * step)), float(self.l2 @ step**2)
        low, at_low, high, at_high, t, last = 0.0, first, 0.0, 0.0, 1.0, 0.0
        for _ in range(MOST_TRIALS):
            slope = float(self.rows.slopes(z + t * along) @ along) + linear + t * square
            if abs(slope) <= (SURE_OVERSHOOT if t == 1.0 else SLOPE_LEFT) * abs(first):
                break
            # The zero of the secant; of an end that stays, half of the slope counts (Illinois).
            if slope < 0:
                low, at_low = t, slope
                at_high = 0.5 * at_high if last < 0 else at_high
            else:
                high, at_high = t, slope
                at_low = 0.5 * at_low if last > 0 else at_low
            t, last = low + (high - low) * at_low / (at_low - at_high) if high else 2.0 * t, slope
        return t


def _gram(Z: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """``sum c z z'`` (q, q) over the rows that have some curvature."""
    own = np.flatnonzero(curvature)
    Z = Z[own, :] * np.sqrt(curvature[own])[:, None]
    return Z.T @ Z
