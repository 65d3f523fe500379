"""Huber regression, with the scale of the residuals: Newton steps on rows that are no outliers.

The objective is convex in coefficients and scale together [1]_, and quadratic over linear in the
scale while the outliers stay the same, so that few steps are needed; outliers have no curvature.

References
----------
.. [1] A. B. Owen, "A robust hybrid of lasso and ridge regression", Contemporary Mathematics 443
   (2007).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS
from gpuml.data.rows import cut
from gpuml.solvers.weighted_sums import block_numbers, weighted_grams

# The least scale, of the largest target; and of the scale, what a step leaves at least.
LEAST_SCALE, LEAST_SHARE = 10 * EPS, 0.1
# Cubes of the scale of smaller targets are no numbers: they count as 0.
LEAST_TARGET = 1e-80
# Of the objective, below which what a step promises is rounding; and halvings of a step.
PROMISE, MOST_HALVINGS = 1e-15, 30
# Of Newton's matrix, by curvatures of all rows; each is tried where the one before it fails, of
# which few halves are tried.
FEW_HALVINGS = 6
DAMPINGS = (1e-14, 1e-9, 1e-6, 1e-3, 1.0)
# The logarithm of the ratio of two scales whose models are near each other.
NEXT_SCALE = math.log(10)
# The share of the rows that may become outliers, or inliers, for second moments to be
# corrected by these rows.
FEW = 0.25
# The share of the rows that may be read one by one until all are read again; and the rounding of a
# residual, of the length of its row times that of the coefficients.
FOLLOWED, ROUNDING = 0.2, 4 * EPS
# Numbers of rows that come to the coefficients where many steps are taken.
FEW_NUMBERS = 2**20
# Sums of which taking rows away has left less than this share are summed anew.
DIGITS_LEFT = 1e-3


@dataclass(frozen=True)
class Robust:
    """Coefficients (q,) in CPU memory, scale, steps, and whether the gradient became small."""

    coef: np.ndarray
    scale: float
    n_steps: int
    converged: bool


class HuberRows:
    """Rows X (m, q), targets (m,) and weights (m,) of several fits, one after the other.

    All rows are read at some coefficients, the reference. Elsewhere a residual is another one by no
    more than the length of its row times the way there: most rows are outliers, or are not, as they
    were. The sums of these follow from their second moments, and only the others are read.
    """

    def __init__(self, X: Array, y: Array, weight: Array):
        self.X, self.y, self.weight = X, y, weight
        xp = namespace(X)
        self.total = float(xp.sum(weight))
        # Rounding of the targets has a scale, and residuals of a perfect fit are no more than that.
        largest = float(xp.max(xp.abs(y)))
        self.least = LEAST_SCALE * (largest if largest > LEAST_TARGET else 1.0)
        self.length = xp.sqrt(xp.vecdot(X, X))
        self._reference: _Reference | None = None
        self._followed = 0  # rows that were read since all were
        self._sums: _Sums | None = None
        self._gram: tuple[Array, np.ndarray, np.ndarray] | None = None

    def at_hand(self) -> "HuberRows":
        """These, in CPU memory if they are few."""
        if math.prod(self.X.shape) > FEW_NUMBERS:
            return self
        return HuberRows(*(np.asarray(to_host(a)) for a in (self.X, self.y, self.weight)))

    def sums(self, coef: np.ndarray, beyond: float) -> "_Sums":
        """Sums at some coefficients, where residuals beyond a bound are those of outliers."""
        known = self._sums
        if known is None or known.beyond != beyond or not np.array_equal(known.coef, coef):
            known = self._sums = self._moved(coef, beyond) or self._summed(coef, beyond)
        return known

    def _summed(self, coef: np.ndarray, beyond: float) -> "_Sums":
        """Of all rows, which become the reference."""
        xp = namespace(self.X)
        b, (m, q) = move(coef, place_of(self.X)), self.X.shape
        total, parts = np.zeros(2 * q + 3), []
        for some in cut(slice(0, m), max(1, block_numbers(self.X) // q)):
            X, weight = self.X[some, :], self.weight[some]
            r = self.y[some] - X @ b
            size = xp.abs(r)
            near = xp.astype(size <= beyond, xp.float64) * weight
            far, near_r = weight - near, near * r
            sign = 2.0 * xp.astype(r > 0, xp.float64) - 1.0
            pulls = xp.reshape(xp.stack([near_r, far * sign]) @ X, (-1,))
            rest = xp.stack([xp.sum(near_r * r), xp.sum(far), xp.sum(far * size)])
            total += to_host(xp.concat([pulls, rest]))
            parts.append((r, near))
        r, near = (a[0] if len(a) == 1 else xp.concat(a) for a in zip(*parts, strict=True))
        near_pull, far_pull = total[: 2 * q].reshape(2, q)
        rest = map(float, total[2 * q :])
        found = _Sums(coef, beyond, self.gram(near), near_pull, far_pull, *rest)
        self._reference, self._followed = _Reference(found, r, xp.abs(r)), 0
        return found

    def _moved(self, coef: np.ndarray, beyond: float) -> "_Sums | None":
        """From those of the reference; None where all rows are to be read."""
        if self._reference is None:
            return None
        here, xp = self._reference, namespace(self.X)
        way = coef - here.sums.coef
        off = np.linalg.norm(way) + ROUNDING * np.linalg.norm(coef)
        low, high = sorted((beyond, here.sums.beyond))
        doubt = xp.abs(here.size - (low + high) / 2) <= (high - low) / 2 + float(off) * self.length
        rows = xp.nonzero(doubt)[0]
        self._followed += rows.shape[0]
        if not self._followed <= FOLLOWED * self.X.shape[0]:
            return None
        X = xp.take(self.X, rows, axis=0)
        r, before, weight = (xp.take(a, rows) for a in (self.y, here.residual, self.weight))
        r = r - X @ move(coef, place_of(X))
        inside, side = _sides(r, beyond, xp)
        was_inside, was_side = _sides(before, here.sums.beyond, xp)
        more, turned = weight * (inside - was_inside), weight * (side - was_side)
        pulls = xp.reshape(xp.stack([more * r, turned]) @ X, (-1,))
        rest = xp.stack([xp.sum(more * r * r), xp.sum(more), xp.sum(turned * r)])
        gram = xp.reshape(X.T @ (more[:, None] * X), (-1,))
        found = here.sums.moved(coef, beyond, to_host(xp.concat([pulls, rest, gram])))
        exact = found.far_size >= DIGITS_LEFT * here.sums.far_size
        return found if exact and _has_digits(found.gram, here.sums.gram) else None

    def gram(self, weight: Array) -> np.ndarray:
        """``X' diag(weight) X`` (q, q), in CPU memory."""
        xp, gram = namespace(self.X), None
        if self._gram is not None:
            before, gram, whole = self._gram
            more = weight - before
            rows = xp.nonzero(more)[0]
            if rows.shape[0] > FEW * more.shape[0]:
                gram = None
            elif rows.shape[0]:
                X = xp.take(self.X, rows, axis=0)
                gram = gram + to_host(X.T @ (xp.take(more, rows)[:, None] * X))
                gram = gram if _has_digits(gram, whole) else None
        if gram is None:
            gram = whole = np.array(to_host(weighted_grams(self.X, weight[None, :])[0, ...]))
        self._gram = weight, gram, whole
        return gram


def _has_digits(gram: np.ndarray, whole: np.ndarray) -> bool:
    """Whether products that were added and taken away again have left digits of the rest."""
    return bool((np.diagonal(gram) >= DIGITS_LEFT * np.diagonal(whole)).all())


def _sides(r, beyond, xp):
    """Which residuals are inside, as 1 and 0, and the signs of the others, with 0 for these."""
    inside = xp.astype(xp.abs(r) <= beyond, xp.float64)
    return inside, (1.0 - inside) * xp.sign(r)


def fit_huber(
    rows: HuberRows,
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
    problem = _Problem(rows, epsilon, penalty)
    point = problem.at(start.coef, start.scale) if start is not None else problem.begin()
    if point.sums.far >= rows.total:  # of a start that all rows are far from, no step would lead on
        point = problem.begin()
    for n_steps in range(max_iter + 1):
        flat = bool(np.abs(point.gradient).max() <= tol)
        if n_steps == 0 and flat and start is not None and start.n_steps == 0:
            return point.result(0, True)  # the model that the caller began with
        if point.scale <= rows.least or n_steps == max_iter:
            return point.result(n_steps, flat or point.scale <= rows.least)
        step = problem.step(point)
        there = problem.along(point, step)
        if there is None:
            # Rows that the coefficients go through leave the scale no curvature. Many short steps
            # over few rows cost a device more than their way to the coefficients.
            problem = _Problem(rows.at_hand(), epsilon, penalty)
            break
        promise, gained, point = -float(point.gradient @ step), point.value - there.value, there
        if promise <= PROMISE * abs(point.value) or gained <= 0:
            return point.result(n_steps + 1, True)
    return problem.by_scale(point, n_steps, max_iter)


@dataclass(frozen=True)
class _Sums:
    """Of rows near the model, with weights `near`, and of outliers.

    ``gram = X' diag(near) X``, ``near_pull = X' (near r)``, ``far_pull = X' (far sign(r))``,
    ``squares = sum near r^2``, ``far = sum far``, ``far_size = sum far |r|``.
    """

    coef: np.ndarray
    beyond: float
    gram: np.ndarray
    near_pull: np.ndarray
    far_pull: np.ndarray
    squares: float
    far: float
    far_size: float

    def moved(self, coef: np.ndarray, beyond: float, change: np.ndarray) -> "_Sums":
        """Those at other coefficients, where some rows are on another side.

        The change is of both pulls, squares, weights near the model, sizes and `gram`.
        """
        q, way = len(coef), coef - self.coef
        turned = self.gram @ way
        near_pull, far_pull = change[: 2 * q].reshape(2, q)
        squares, more, far_size = map(float, change[2 * q : 2 * q + 3])
        return _Sums(
            coef,
            beyond,
            self.gram + change[2 * q + 3 :].reshape(q, q),
            self.near_pull - turned + near_pull,
            self.far_pull + far_pull,
            self.squares + float(way @ (turned - 2.0 * self.near_pull)) + squares,
            self.far - more,
            self.far_size - float(self.far_pull @ way) + far_size,
        )


@dataclass(frozen=True)
class _Reference:
    """Sums of all rows, and the residuals (m,) there with their sizes."""

    sums: _Sums
    residual: Array
    size: Array


@dataclass(frozen=True)
class _Point:
    """Coefficients and scale; the objective and its gradient (q + 1,) there."""

    coef: np.ndarray
    scale: float
    value: float
    gradient: np.ndarray
    sums: _Sums

    def result(self, n_steps: int, converged: bool) -> Robust:
        return Robust(self.coef, self.scale, n_steps, converged)


def cholesky(matrix: np.ndarray):
    """The Cholesky factor of a matrix, with enough added to the diagonal that it exists."""
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

    def __init__(self, rows: HuberRows, epsilon: float, penalty: np.ndarray):
        self.rows, self.epsilon, self.penalty = rows, epsilon, penalty

    def begin(self) -> _Point:
        """Least squares."""
        rows = self.rows
        X, y, weight, xp = rows.X, rows.y, rows.weight, namespace(rows.X)
        factor = cholesky(rows.gram(weight) + np.diag(self.penalty))
        coef = linalg.cho_solve(factor, to_host(X.T @ (weight * y)))
        r = y - X @ move(coef, place_of(X))
        return self.at(coef, max((float(xp.sum(weight * r * r)) / rows.total) ** 0.5, rows.least))

    def at(self, coef: np.ndarray, scale: float) -> _Point:
        epsilon, sums = self.epsilon, self.rows.sums(coef, self.epsilon * scale)
        inside = self.rows.total - epsilon**2 * sums.far
        value = inside * scale + sums.squares / scale + 2 * epsilon * sums.far_size
        pull = sums.near_pull / scale + epsilon * sums.far_pull
        gradient = np.append(2.0 * (self.penalty * coef - pull), inside - sums.squares / scale**2)
        return _Point(coef, scale, value + self.penalty @ coef**2, gradient, sums)

    def step(self, point: _Point) -> np.ndarray:
        """Newton's step, of coefficients and scale."""
        q, scale, sums = len(point.coef), point.scale, point.sums
        H = np.empty((q + 1, q + 1))
        H[:-1, :-1] = sums.gram / scale + np.diag(self.penalty)
        H[-1, :-1] = H[:-1, -1] = sums.near_pull / scale**2
        H[-1, -1] = sums.squares / scale**3
        step = -linalg.cho_solve(cholesky(2.0 * H), point.gradient)
        if step[-1] < (LEAST_SHARE - 1.0) * scale:
            # Most of the way down, and there the coefficients that go with it.
            step[-1] = (LEAST_SHARE - 1.0) * scale
            pulled = point.gradient[:-1] + 2.0 * H[:-1, -1] * step[-1]
            step[:-1] = -linalg.cho_solve(cholesky(2.0 * H[:-1, :-1]), pulled)
        return step

    def along(self, point: _Point, step: np.ndarray, most: int = MOST_HALVINGS) -> _Point | None:
        """The first of the step and its halves that keeps some of its promise."""
        promise = -float(point.gradient @ step)
        for halvings in range(most):
            length = 0.5**halvings
            scale = max(point.scale + length * float(step[-1]), self.rows.least)
            there = self.at(point.coef + length * step[:-1], scale)
            kept = there.value <= point.value - 1e-4 * length * promise
            if kept or abs(promise) <= PROMISE * abs(point.value):
                return there
        return None

    def down(self, here: _Point, sizes: np.ndarray, first: int) -> tuple[_Point | None, float, int]:
        """A step of the coefficients alone, what it promised, and which of `DAMPINGS` it took.

        Where few rows are near the model, directions that these do not hold have no curvature, and
        Newton's step goes too far to be of use at any share of it. `sizes` (q,) are the curvatures
        if all rows were near.
        """
        H = here.sums.gram / here.scale + np.diag(self.penalty)
        for number in range(first, len(DAMPINGS)):
            damped = H + np.diag(DAMPINGS[number] * sizes / here.scale)
            step = -linalg.cho_solve(cholesky(2.0 * damped), here.gradient[:-1])
            most = MOST_HALVINGS if number == len(DAMPINGS) - 1 else FEW_HALVINGS
            there = self.along(here, np.append(step, 0.0), most)
            if there is not None:
                break
        return there, -float(here.gradient[:-1] @ step), number

    def by_scale(self, point: _Point, n_steps: int, max_iter: int) -> Robust:
        """The scale at which the best coefficients for it leave it no slope; it has one root."""
        steps = [n_steps]
        found = [point]
        X, weight = self.rows.X, self.rows.weight
        sizes = to_host(weight @ (X * X))

        def slope(logarithm):
            here = self.at(found[-1].coef, float(np.exp(logarithm)))
            number = 0
            for _ in range(max_iter):
                there, promise, number = self.down(here, sizes, max(0, number - 1))
                steps.append(1)
                if there is None or promise <= PROMISE * abs(here.value):
                    break
                gained, here = here.value - there.value, there
                if gained <= 0:  # what the step promises is lost in the rounding of the objective
                    break
            found.append(here)
            return here.gradient[-1]

        # From one scale to the next few rows become outliers, and Newton's steps stay short.
        least = np.log(self.rows.least)
        at = max(np.log(max(point.scale, self.rows.least)) + 1.0, least + NEXT_SCALE)
        slopes = {at: slope(at)}
        up = slopes[at] < 0  # no scale is too large for a slope that goes up
        while (slopes[at] < 0) == up and (up or at > least):
            at = at + NEXT_SCALE if up else max(at - NEXT_SCALE, least)
            slopes[at] = slope(at)
        if (slopes[at] < 0) != up:
            # Known slopes are not asked for again: another start may give one another sign.
            ends = list(slopes)[-2:]
            root = optimize.brentq(
                lambda t: slopes[t] if t in slopes else slope(t), *ends, xtol=1e-10, maxiter=200
            )
            slope(root)
        return found[-1].result(sum(steps), True)
