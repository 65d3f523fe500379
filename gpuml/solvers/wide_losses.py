"""Losses with l1 penalties of more features than rows, on a CPU: Newton steps on working sets.

Hessians of all coefficients would be more numbers than the rows, and most are never needed: few
coefficients are not zero. Models of a split follow each other from the strongest penalty to the
weakest. A step takes the Hessian, at the model itself, of the coordinates that are not zero and of
those that violate their condition most [1]_; slopes of all coordinates say who is missing.

References
----------
.. [1] G.-X. Yuan, C.-H. Ho, C.-J. Lin, "An improved GLMNET for l1-regularized logistic
   regression", Journal of Machine Learning Research 13 (2012).
"""

import numpy as np

from gpuml._arrays import is_numpy
from gpuml._arrays.ops import EPS
from gpuml.designs import Dense
from gpuml.penalties import Penalty
from gpuml.solvers._blocks import quiet
from gpuml.solvers._sweeps import approach
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import check_squares

# With at most so many features, Hessians of all features serve many models.
FEW_FEATURES = 256
# So many coordinates, or such a share of the non-zero ones, join at a step.
FEW_JOIN, SHARE_JOIN = 64, 0.5
# Share of the violation at its start that a step may leave, and the sweeps that it may take.
APPROACH, SWEEPS = 0.03, 200
# The share of the l1 part beyond which a violation does not identify active coefficients.
SHARE_OF_L1 = 0.02
# Least share of what a step promises to gain, and how often it is halved for that.
GAIN, HALVINGS = 1e-4, 30
# Share of an objective that is rounding.
NOISE = 16 * EPS
# Keeps directions that neither rows nor penalty determine from blowing up.
RIDGE = 1e-10


def is_wide(data: LossRows, penalty: Penalty) -> bool:
    """Whether rows are here, dense, on a CPU and fewer than their features, all with an l1 part."""
    design = data.design
    is_here = isinstance(design, Dense) and data.place.is_host and is_numpy(data.target)
    one_vector = data.n_vectors == 1 and not data.loss.coupled and data.target.ndim == 1
    if not is_here or not one_vector or data.n_features <= max(FEW_FEATURES, data.n_rows):
        return False
    return bool((np.asarray(penalty.l1)[..., :-1] > 0).all())


def minimise(
    data: LossRows, penalty: Penalty, start: np.ndarray, tol: float, max_iter: int
) -> Solved:
    """Models (C, S, 1, q), until least subgradients are at most `tol`, or a small part of l1."""
    W = start.copy()
    violation = np.zeros(start.shape[:2])
    n_iter = np.zeros(start.shape[:2], dtype=np.int32)
    stalled = np.zeros(start.shape[:2], dtype=bool)
    X = data.design.block(slice(0, data.n_rows)).dense().astype(np.float64, copy=False)
    X = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    l1, l2, used = (
        np.broadcast_to(np.asarray(a), start.shape)[:, :, 0, :]
        for a in (penalty.l1, penalty.l2, penalty.used)
    )
    for s in range(start.shape[1]):
        weights = np.ones(len(X)) if data.weights is None else data.weights[s].astype(np.float64)
        some = np.flatnonzero(weights)
        Z = X if len(some) == len(X) else X[some]
        model = _Rows(data, Z, data.target[some], weights[some] / weights.sum())
        before = None
        for c in np.argsort(-l1[:, s].max(axis=-1), kind="stable").tolist():
            own = Penalty(l1[c, s], l2[c, s], used[c, s])
            # A start that says something is one of the caller's.
            begin = W[c, s, 0] if before is None or start[c, s, 0, :-1].any() else before
            with quiet():
                found = model.solve(own, begin * own.used, tol, max_iter)
            W[c, s, 0], violation[c, s], n_iter[c, s], stalled[c, s] = found
            before = W[c, s, 0]
    return Solved(W, violation, n_iter, stalled)


class _Rows:
    """Training rows [X, 1] (n, q) of a split, with weights (n,) that sum to one."""

    def __init__(self, data, X, target, weights):
        self.loss, self.advance = data.loss, data.advance
        self.X, self.target, self.weights = X, target, weights

    def _value(self, z, W, penalty):
        losses = self.loss.value(z[None, :], self.target, np)
        return float(losses @ self.weights) + float(penalty.value(W, np))

    def solve(self, penalty, W, tol, max_iter):
        """Coefficients (q,), their violation, passes, and whether steps came down to rounding."""
        X, live = self.X, penalty.used > 0
        least = penalty.l1[penalty.l1 > 0].min(initial=np.inf)
        tol = min(tol, SHARE_OF_L1 * least)
        W = W.copy()
        z = self._margins(W, np.flatnonzero(W))
        value = self._value(z, W, penalty)
        for done in range(max_iter + 1):
            slope = self.loss.slope(z[None, :].copy(), self.target, np)[0] * self.weights
            G = slope @ X + penalty.l2 * W
            check_squares(G, np)
            wrong = penalty.violation(W, G, np) * live
            violation = float(wrong.max())
            if self.advance is not None:
                self.advance(len(X))
            if violation <= tol or done == max_iter:
                return W, violation, done, False
            columns = self._working(W, wrong, live, penalty, tol)
            own = Penalty(*(a[columns] for a in (penalty.l1, penalty.l2, penalty.used)))
            w, g = W[columns], G[columns]
            curvature = self.loss.curvature(z[None, :].copy(), self.target, np)[0] * self.weights
            some = X.take(columns, axis=1)
            scaled = some * np.sqrt(curvature)[:, None]
            H = scaled.T @ scaled
            check_squares(H, np)
            H[np.diag_indices(len(H))] *= 1 + RIDGE
            side = H @ w - g + own.l2 * w
            allowed = max(APPROACH * violation, 0.3 * tol)
            v = approach(H, side, own.l1, own.l2, w, allowed=allowed, max_sweeps=SWEEPS)
            direction = v - w
            image, gain = some @ direction, float(g @ direction + own.l1 @ (np.abs(v) - np.abs(w)))
            step = 1.0
            for _ in range(HALVINGS):
                trial = W.copy()
                trial[columns] = v if step == 1.0 else w + step * direction
                new = self._value(z + step * image, trial, penalty)
                if new <= value + GAIN * step * gain + NOISE * abs(value):
                    break
                step *= 0.5
            else:
                return W, violation, done + 1, True
            W, z, value = trial, z + step * image, new
        raise AssertionError("the last pass returns")

    def _margins(self, W, some):
        return self.X.take(some, axis=1) @ W[some]

    def _working(self, W, wrong, live, penalty, tol):
        """Coordinates (m,) that are not zero or not penalised, and the worst of the others."""
        is_in = live & ((W != 0) | (penalty.l1 == 0))
        missing = np.flatnonzero(~is_in & (wrong > 0.3 * tol))
        room = max(FEW_JOIN, int(SHARE_JOIN * np.count_nonzero(is_in)))
        if len(missing) > room:
            missing = missing[np.argpartition(-wrong[missing], room)[:room]]
        is_in[missing] = True
        return np.flatnonzero(is_in)
