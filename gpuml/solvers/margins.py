"""Support vector machines of losses with kinks, many of the same rows, to the optimum.

Each minimises, over b (q,), of rows A, targets y and prices u, l of what is above and below them,

    |b|^2 / 2 + sum u (y - A b)_+ + l (A b - y)_+.

Where b is nearly known, most rows are surely on one side of their target: together they are one
linear term [1]_. An interior-point method on the rows that are near theirs gives b. If all others
are on the side that was taken for theirs, it is the optimum of all rows; those that are not join. A
sample of the rows begins, and models follow one after the other, each from the best multiple of
the last one. Of few rows all models are solved at once. Of fewer rows than columns, b are sums of
rows, and models are found in their space, by sides of rows (`solvers.sides`) if these tell them.

References
----------
.. [1] S. Portnoy, R. Koenker, "The Gaussian hare and the Laplacian tortoise", Statistical
   Science 12 (1997).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, move, namespace, place_of, to_host
from gpuml.solvers.pinball import Programs, solve_programs
from gpuml.solvers.sides import solve_path

# Minimum rows, rows per coefficient, and one in so many rows, that may change sides between models.
FEWEST, PER_COEFFICIENT, ONE_IN = 2000, 20, 20
# The first sample has one in so many rows. Its model is wrong by about the root of coefficients per
# row, and this many times that share of the rows may change sides.
SAMPLE, NEAR = 8, 3.0
# Of the objective, the gap at which steps end: its root is how far b may be off.
GAP = 1e-14
# Share of the rows from which on it is no gain to leave out the others.
MOST = 0.5
# Of fewer rows than that, models are solved at once, of so many numbers each time.
TOGETHER = 2**16
# Times that others are left out, before none are.
MOST_TURNS = 6
# Multiples of the last model that the next one may begin at are 2 to the power of up to this, and
# how often the range of powers is halved.
POWERS, HALVINGS = 8.0, 14


@dataclass(frozen=True)
class Kinks:
    """Targets, and prices of what is above and below them: arrays (J, m) of rows, J times each."""

    y: Array
    lower: Array
    upper: Array

    def residuals(self, A: Array, coef: np.ndarray) -> Array:
        """``y - A b``, (J, m)."""
        return self.y - A @ move(coef, place_of(A))

    def multiple(self, A: Array, coef: np.ndarray) -> np.ndarray:
        """The multiple of a model with the least objective: stronger penalties shrink models.

        The slope along it rises from one multiple to the next.
        """
        xp, z = namespace(A), A @ move(coef, place_of(A))
        above, below, square = self.upper * z, -self.lower * z, float(coef @ coef)
        low, high = -POWERS, POWERS
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            e = self.y - 2.0**middle * z
            slope = 2.0**middle * square - float(xp.sum(xp.where(e > 0, above, below)))
            low, high = (middle, high) if slope < 0 else (low, middle)
        return 2.0**high * coef

    def twice(self) -> "Kinks":
        """The same with rows (1, m) there once for each side of their targets."""
        xp = namespace(self.y)
        nothing = xp.zeros_like(self.y)
        pairs = (self.y, self.y), (nothing, self.lower), (self.upper, nothing)
        return Kinks(*(xp.concat(pair) for pair in pairs))

    def some(self, index: Array, times: float = 1.0) -> "Kinks":
        """Kinks for some rows, with prices multiplied by `times`."""
        xp = namespace(index)
        y, lower, upper = (xp.take(a, index, axis=1) for a in (self.y, self.lower, self.upper))
        return Kinks(y, times * lower, times * upper)


@dataclass(frozen=True)
class Found:
    """Coefficients (q,) in CPU memory, interior-point steps, and whether they converged."""

    coef: np.ndarray
    n_steps: int
    converged: bool


def hinge(is_member: Array, weight: Array) -> Kinks:
    """``sum w max(0, 1 - y a.b)``, with y = 1 for members (m,) and -1 for all other rows."""
    xp = namespace(weight)
    one, nothing = xp.ones_like(weight), xp.zeros_like(weight)
    sides = ((one, -one), (nothing, weight), (weight, nothing))
    return Kinks(*(xp.where(is_member, a, b)[None, :] for a, b in sides))


def tube(y: Array, weight: Array, epsilon: float) -> Kinks:
    """``sum w max(0, |y - a.b| - epsilon)``: rows are there once for each side of the tube."""
    xp = namespace(weight)
    if epsilon == 0:
        return Kinks(y[None, :], weight[None, :], weight[None, :])
    nothing = xp.zeros_like(weight)
    sides = ((y - epsilon, y + epsilon), (nothing, weight), (weight, nothing))
    return Kinks(*(xp.stack(pair) for pair in sides))


def fit_paths(X: Array, constant: float, paths: Sequence[Sequence[Kinks]]) -> list[list[Found]]:
    """Models of rows [X, constant] (m, q), float64; without the last column if that is 0.

    Those of each path are in an order in which each is near to the one before.
    """
    n_rows, p = X.shape
    rows = _Rows(X, constant)
    if n_rows < p + (constant != 0):
        return [rows.fit_path(path) for path in paths]
    if not _are_few(rows.A):
        return [fit_path(rows.A, path) for path in paths]
    found = iter(fit_path(rows.A, [kinks for path in paths for kinks in path]))
    return [[next(found) for _ in path] for path in paths]


@dataclass(frozen=True)
class _Rows:
    """Rows [X, constant], and models of them where they are fewer than columns."""

    X: Array
    constant: float

    @cached_property
    def A(self) -> Array:
        """The rows (m, q)."""
        if not self.constant:
            return self.X
        xp = namespace(self.X)
        column = xp.full_like(self.X[:, :1], self.constant)
        return xp.concat([self.X, column], axis=1)

    @cached_property
    def K(self) -> np.ndarray | None:
        """Their inner products, in CPU memory; None for rows elsewhere, or if they overflow."""
        if not is_numpy(self.X):
            return None
        with np.errstate(all="ignore"):
            K = self.X @ self.X.T + self.constant**2
        return K if np.isfinite(K).all() else None

    @cached_property
    def turned(self) -> tuple[Array, Array]:
        """Orthonormal directions (q, m) of the rows, and the rows in these (m, m)."""
        turn, R = namespace(self.X).linalg.qr(self.A.T)
        return turn, R.T

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Sums (k, q) of rows, of weights (k, m), in CPU memory."""
        coef = weights @ self.X
        if not self.constant:
            return coef
        return np.column_stack([coef, self.constant * weights.sum(axis=1)])

    def _refined(self, found, models):
        """Coefficients (k, q) that put rows on their targets as well as the rows themselves can."""
        coef = self.sums(np.stack([each.weights for each in found]))
        p = self.X.shape[1]
        z = coef[:, :p] @ self.X.T + self.constant * coef[:, p:].sum(axis=1, keepdims=True)
        left = zip(found, models, z, strict=True)
        return coef + self.sums(np.stack([f.correction(kinks.y - own) for f, kinks, own in left]))

    def fit_path(self, models: Sequence[Kinks]) -> list[Found]:
        """See `fit_paths`."""
        known = [None] * len(models) if self.K is None else solve_path(self.K, models)
        some = [each for each in known if each is not None]
        left = [kinks for kinks, each in zip(models, known, strict=True) if each is None]
        by_sides, others = [], []
        if some:
            own = [kinks for kinks, each in zip(models, known, strict=True) if each is not None]
            pairs = zip(self._refined(some, own), some, strict=True)
            by_sides = [Found(coef, each.n_steps, True) for coef, each in pairs]
        if left:
            turn, Z = self.turned
            for each in fit_path(Z, left):
                coef = np.array(to_host(turn @ move(each.coef, place_of(turn))))
                others.append(replace(each, coef=coef))
        found, rest = iter(by_sides), iter(others)
        return [next(rest if each is None else found) for each in known]


def fit_path(A: Array, models: Sequence[Kinks]) -> list[Found]:
    """Models of no fewer rows A (m, q), float64, than columns; see `fit_paths`."""
    found: list[Found] = []
    if _are_few(A):
        times = max((each.y.shape[0] for each in models), default=1)
        models = [each if each.y.shape[0] == times else each.twice() for each in models]
        step = max(1, TOGETHER // (times * max(1, A.shape[0])))
        for first in range(0, len(models), step):
            found += _solve(A, models[first : first + step])
    else:
        for kinks in models:
            found.append(_fit(A, kinks, found[-1].coef if found else None))
    return found


def _fit(A, kinks, near):
    """One model; `near` are the coefficients of one that may be close to it, or None."""
    m, q = A.shape
    xp, n_steps = namespace(A), 0
    few = fewest = _fewest(m, q)
    if near is None:
        few = max(fewest, int(NEAR * m * (q * SAMPLE / m) ** 0.5))
    if few > MOST * m:
        return _solve(A, [kinks])[0]
    if near is None:
        some = xp.arange(SAMPLE // 2, m, SAMPLE, device=device_of(A))
        sample = _fit(xp.take(A, some, axis=0), kinks.some(some, SAMPLE), None)
        near, n_steps = sample.coef, sample.n_steps
    else:
        near = kinks.multiple(A, near)
    e = kinks.residuals(A, near)
    wrong: Any = False
    for turn in range(MOST_TURNS):
        inside = _nearest(e, few, xp) | wrong
        some = xp.nonzero(inside)[0]
        if some.shape[0] > MOST * m:
            break
        d = xp.where(e > 0, kinks.upper, -kinks.lower) * xp.astype(~inside, xp.float64)
        pull, constant = A.T @ xp.sum(d, axis=0), xp.sum(d * kinks.y)
        (found,) = _solve(xp.take(A, some, axis=0), [kinks.some(some)], pull, constant)
        n_steps += found.n_steps
        after = kinks.residuals(A, found.coef)
        wrong = xp.any((after > 0) != (e > 0), axis=0) & ~inside
        n_wrong = int(xp.sum(xp.astype(wrong, xp.int64)))
        if not n_wrong:
            return replace(found, n_steps=n_steps)
        # Models with few wrong rows are near the end; more wrong rows need a wider band.
        e, few = after, max(fewest, (2 + turn) * n_wrong)
    (found,) = _solve(A, [kinks])
    return replace(found, n_steps=n_steps + found.n_steps)


def _are_few(A):
    """Whether rows are so few that all models are solved at once."""
    return A.shape[0] * MOST < _fewest(*A.shape)


def _fewest(m, q):
    """The least number of rows that may change sides."""
    return max(FEWEST, PER_COEFFICIENT * q, m // ONE_IN)


def _nearest(e, few, xp):
    """The rows (m,) that are nearest to one of their targets."""
    distance = xp.min(xp.abs(e), axis=0)
    few = min(few, distance.shape[0] - 1)
    if is_numpy(distance):
        return distance <= np.partition(distance, few)[few]
    return distance <= xp.sort(distance)[few]


def _solve(A, models, pull=None, constant=0.0):
    """Of all rows that are given; the others of a single model count by `pull` and `constant`."""
    xp, (times, m), n_models = namespace(A), models[0].y.shape, len(models)
    y, lower, upper = (
        xp.stack([xp.reshape(getattr(each, name), (-1,)) for each in models])
        for name in ("y", "lower", "upper")
    )
    pull = xp.zeros_like(A[0, :]) if pull is None else pull
    pull = xp.zeros((n_models, 1), dtype=xp.float64, device=device_of(A)) + pull
    program = Programs(
        A,
        *(y, lower, upper),
        penalised=np.arange(0),
        n_rows=np.full(n_models, times * m),
        pull=pull,
        constant=xp.zeros_like(pull[:, 0]) + constant,
        repeats=times,
    )
    return [Found(e.coef, e.n_steps, e.converged) for e in solve_programs(program, enough=GAP)]
