"""Huber regression, with the scale of the residuals: Newton steps on rows that are no outliers.

The objective is convex in coefficients and scale together [1]_, and quadratic over linear in the
scale while the outliers stay the same, so that few steps are needed; outliers have no curvature.

References
----------
.. [1] A. B. Owen, "A robust hybrid of lasso and ridge regression", Contemporary Mathematics 443
   (2007).
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS
from gpuml.solvers.pinball import weighted_grams

# The least scale, of the largest target; and of the scale, what a step leaves at least.
LEAST_SCALE, LEAST_SHARE = 10 * EPS, 0.1
# Of the objective, below which what a step promises is rounding; and halvings of a step.
PROMISE, MOST_HALVINGS = 1e-15, 30


@dataclass(frozen=True)
class Robust:
    """Coefficients (q,) in CPU memory, scale, steps, and whether the gradient became small."""

    coef: np.ndarray
    scale: float
    n_steps: int
    converged: bool


def fit_huber(
    X: Array,
    y: Array,
    weight: Array,
    epsilon: float,
    penalty: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    start: Robust | None = None,
) -> Robust:
    """Minimise ``sum w (s + h(r / s) s) + sum penalty b^2``, r = y - X b, over b and s > 0.

    With ``h(z) = z^2`` up to epsilon, and its tangent beyond. Steps end where one promises nothing
    but rounding; at `max_iter` gradients of at most `tol` are good enough.
    """
    problem = _Problem(X, y, weight, epsilon, penalty)
    point = problem.at(start.coef, start.scale) if start is not None else problem.begin()
    for n_steps in range(max_iter + 1):
        flat = bool(np.abs(point.gradient).max() <= tol)
        if n_steps == 0 and flat and start is not None and start.n_steps == 0:
            return point.result(0, True)  # the model that the caller began with
        if point.scale <= problem.least or n_steps == max_iter:
            return point.result(n_steps, flat or point.scale <= problem.least)
        step = problem.step(point)
        there = problem.along(point, step)
        if there is None:
            break  # rows that the coefficients go through leave the scale no curvature
        promise, point = -float(point.gradient @ step), there
        if promise <= PROMISE * abs(point.value):
            return point.result(n_steps + 1, True)
    return problem.by_scale(point, n_steps, max_iter)


@dataclass(frozen=True)
class _Point:
    """Coefficients and scale; the objective and its gradient (q + 1,) there."""

    coef: np.ndarray
    scale: float
    value: float
    gradient: np.ndarray
    near: Array
    r: Array
    squares: float

    def result(self, n_steps: int, converged: bool) -> Robust:
        return Robust(self.coef, self.scale, n_steps, converged)


def weighted_gram(X: Array, weight: Array) -> np.ndarray:
    """``X' diag(weight) X``, in CPU memory."""
    return np.array(to_host(weighted_grams(X, weight[None, :])[0, ...]))


def cholesky(matrix: np.ndarray):
    """Cholesky factor of a matrix, with what it takes more on the diagonal to have one."""
    size = np.diagonal(matrix).copy()
    size = np.where(size > 0, size, 1.0)
    more = 0.0
    while True:
        try:
            return linalg.cho_factor(matrix + np.diag(more * size), check_finite=False)
        except linalg.LinAlgError:
            more = max(10.0 * more, EPS * len(size))
            if more > 1.0:
                raise


class _Problem:
    """The objective of some rows."""

    def __init__(self, X, y, weight, epsilon, penalty):
        self.X, self.y, self.weight = X, y, weight
        self.epsilon, self.penalty = epsilon, penalty
        xp = namespace(X)
        self.total = float(xp.sum(weight))
        # Rounding of the targets has a scale, and residuals of a perfect fit are no more than that.
        self.least = max(LEAST_SCALE * float(xp.max(xp.abs(y))), 1e-300)

    def begin(self) -> _Point:
        """Least squares."""
        X, y, weight, xp = self.X, self.y, self.weight, namespace(self.X)
        factor = cholesky(weighted_gram(X, weight) + np.diag(self.penalty))
        coef = linalg.cho_solve(factor, to_host(X.T @ (weight * y)))
        r = y - X @ move(coef, place_of(X))
        return self.at(coef, max((float(xp.sum(weight * r * r)) / self.total) ** 0.5, self.least))

    def at(self, coef: np.ndarray, scale: float) -> _Point:
        X, epsilon, xp = self.X, self.epsilon, namespace(self.X)
        r = self.y - X @ move(coef, place_of(X))
        size = xp.abs(r)
        near = xp.astype(size <= epsilon * scale, xp.float64) * self.weight
        far = self.weight - near
        squares, inside = float(xp.sum(near * r * r)), self.total - epsilon**2 * float(xp.sum(far))
        value = inside * scale + squares / scale + 2 * epsilon * float(xp.sum(far * size))
        sign = 2.0 * xp.astype(r > 0, xp.float64) - 1.0
        pull = to_host(X.T @ (near * r / scale + epsilon * far * sign))
        gradient = np.append(2.0 * (self.penalty * coef - pull), inside - squares / scale**2)
        return _Point(coef, scale, value + self.penalty @ coef**2, gradient, near, r, squares)

    def step(self, point: _Point) -> np.ndarray:
        """Newton's step, of coefficients and scale."""
        q, scale = len(point.coef), point.scale
        H = np.empty((q + 1, q + 1))
        H[:-1, :-1] = weighted_gram(self.X, point.near) / scale + np.diag(self.penalty)
        H[-1, :-1] = H[:-1, -1] = to_host(self.X.T @ (point.near * point.r)) / scale**2
        H[-1, -1] = point.squares / scale**3
        step = -linalg.cho_solve(cholesky(2.0 * H), point.gradient)
        if step[-1] < (LEAST_SHARE - 1.0) * scale:
            # Most of the way down, and there the coefficients that go with it.
            step[-1] = (LEAST_SHARE - 1.0) * scale
            pulled = point.gradient[:-1] + 2.0 * H[:-1, -1] * step[-1]
            step[:-1] = -linalg.cho_solve(cholesky(2.0 * H[:-1, :-1]), pulled)
        return step

    def along(self, point: _Point, step: np.ndarray) -> _Point | None:
        """The first of the step and its halves that keeps some of its promise."""
        promise = -float(point.gradient @ step)
        for halvings in range(MOST_HALVINGS):
            length = 0.5**halvings
            scale = max(point.scale + length * float(step[-1]), self.least)
            there = self.at(point.coef + length * step[:-1], scale)
            kept = there.value <= point.value - 1e-4 * length * promise
            if kept or abs(promise) <= PROMISE * abs(point.value):
                return there
        return None

    def by_scale(self, point: _Point, n_steps: int, max_iter: int) -> Robust:
        """The scale at which the best coefficients for it leave it no slope; it has one root."""
        steps = [n_steps]
        found = [point]

        def slope(logarithm):
            here = self.at(found[-1].coef, float(np.exp(logarithm)))
            for _ in range(max_iter):
                H = weighted_gram(self.X, here.near) / here.scale + np.diag(self.penalty)
                step = -linalg.cho_solve(cholesky(2.0 * H), here.gradient[:-1])
                promise = -float(here.gradient[:-1] @ step)
                there = self.along(here, np.append(step, 0.0))
                steps.append(1)
                if there is None or promise <= PROMISE * abs(here.value):
                    break
                here = there
            found.append(here)
            return here.gradient[-1]

        low, high = np.log(self.least), np.log(max(point.scale, 10 * self.least)) + 1.0
        if slope(high) <= 0:
            return found[-1].result(sum(steps), False)
        if slope(low) < 0:
            slope(optimize.brentq(slope, low, high, xtol=1e-12, maxiter=200))
        return found[-1].result(sum(steps), True)
