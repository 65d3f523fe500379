"""Losses with one kink for each row, several at a time, by an interior-point method.

Minimises ``sum u (y - A b)_+ + l (A b - y)_+`` over b, as quantile regression does. The dual asks
for weights d of the rows, and of the penalised coefficients, between bounds:

    maximise y'd  where  A'd = 0,  -l <= d <= u,

of which A are the rows, and below them a row e_j, with y = 0 and u = l, for each penalised
coefficient. d = 0 is inside the bounds, so primal and dual points are feasible from the start, and
predictor and corrector steps [1]_, [2]_ close the gap between them: some twenty products A' D A,
whatever the number of rows. Of the last step's weights the largest name the rows that the plane
goes through, which gives the vertex, with coefficients that are 0 exactly.

With ``|b|^2 / 2 - pull'b`` beside the loss, as of support vector machines, weights make
``y'd - |A'd + pull|^2 / 2`` large, without ``A'd = 0``, and no vertex is looked for.

References
----------
.. [1] R. Koenker, "Quantile regression", section 6.4 (2005).
.. [2] S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on
   Optimization 2 (1992).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS
from gpuml.solvers._kink_systems import Weighted, solver
from gpuml.solvers._vertices import largest_rows, vertex

# Of the objective, the gap at which steps end; and steps that are taken at most.
GAP, MOST_STEPS = 1e-11, 300
# And the gap that will do where rounding keeps it from falling further.
STUCK_GAP = 1e-10
# The share of the distance to the border that a step takes.
SHARE = 0.9995
# Of a typical residual, how far from 0 all begin.
MARGIN = 0.5
# Of the objective, by which the vertex may be above the last step.
ROUNDING = 1e-10


@dataclass(frozen=True)
class Fitted:
    """Coefficients (q,) in CPU memory, the objective, and the steps taken."""

    coef: np.ndarray
    objective: float
    n_steps: int
    converged: bool


@dataclass(frozen=True)
class Programs:
    """K programs, with common rows or each with its own.

    Attributes
    ----------
    X : array (m, q) or (K, m, q)
        Float64.
    y : array (K, m + r)
        0 for the penalised coefficients. With `repeats`, for m read ``m repeats`` from here on.
    lower, upper : arrays (K, m + r)
        Bounds of the rows' weights and, after them, of the r penalised coefficients; above 0.
    penalised : ndarray (r,) of int
        The coefficients j of the rows e_j.
    n_rows : ndarray (K,)
        How many of the m rows count; the others are 0.
    pull : array (K, q) or None
        With ``|b|^2 / 2 - pull'b`` beside the losses; None without.
    constant : array (K,), optional
        More of the objective, of both of which the gap is a share.
    repeats : int
        How often the rows are there, one time after the other, with y and bounds of each time.
    """

    X: Array
    y: Array
    lower: Array
    upper: Array
    penalised: np.ndarray
    n_rows: np.ndarray
    pull: Array | None = None
    constant: Array | None = None
    repeats: int = 1

    @classmethod
    def of(
        cls,
        X: Array,
        y: Array,
        weight: Array,
        quantiles: np.ndarray,
        penalties: np.ndarray,
        n_rows: np.ndarray | None = None,
    ) -> "Programs":
        """Of weights (K, m) above 0, and penalties (K, q) that are 0 in the same places."""
        xp, place = namespace(X), place_of(X)
        some = np.flatnonzero(penalties[0])
        bounds = move(penalties[:, some], place)
        high = move(quantiles, place)[:, None]
        lower = xp.concat([(1.0 - high) * weight, bounds], axis=1)
        upper = xp.concat([high * weight, bounds], axis=1)
        if n_rows is None:
            n_rows = np.full(len(quantiles), X.shape[-2])
        y = xp.concat([y, 0.0 * bounds], axis=1)
        return cls(X, y, lower, upper, some, n_rows)

    def take(self, keep: np.ndarray) -> "Programs":
        """Some of them."""
        y, lower, upper = (_some(a, keep) for a in (self.y, self.lower, self.upper))
        pull, constant = (None if a is None else _some(a, keep) for a in (self.pull, self.constant))
        return replace(
            self,
            X=self.X if self.X.ndim == 2 else _some(self.X, keep),
            y=y,
            lower=lower,
            upper=upper,
            n_rows=self.n_rows[keep],
            pull=pull,
            constant=constant,
        )

    @classmethod
    def beside(cls, each: Sequence["Programs"]) -> "Programs":
        """Several as one, of the same penalised coefficients, with nothing beside the losses."""
        if len(each) == 1:
            return each[0]
        m, first = max(one.X.shape[-2] for one in each), each[0]
        longer = [one.of_rows(m) for one in each]
        xp = namespace(first.y)
        X, y, lower, upper = (
            xp.concat([getattr(one, name) for one in longer])
            for name in ("X", "y", "lower", "upper")
        )
        n_rows = np.concatenate([one.n_rows for one in each])
        return cls(X, y, lower, upper, first.penalised, n_rows)

    def of_rows(self, m: int) -> "Programs":
        """The same programs with m own rows each; missing rows are 0."""
        xp, n_programs = namespace(self.y), len(self.n_rows)
        own, q = self.X.shape[-2:]
        X = xp.broadcast_to(self.X, (n_programs, own, q))
        if own == m:
            return replace(self, X=X)
        zero = xp.zeros_like(self.y[:, :1])
        some = xp.broadcast_to(zero, (n_programs, m - own))

        def wider(values: Array, more: Array) -> Array:
            return xp.concat([values[:, :own], more, values[:, own:]], axis=1)

        empty = xp.broadcast_to(zero[:, :, None], (n_programs, m - own, q))
        return replace(
            self,
            X=xp.concat([X, empty], axis=1),
            y=wider(self.y, some),
            lower=wider(self.lower, some + 1.0),
            upper=wider(self.upper, some + 1.0),
        )

    def times(self, coef: Array) -> Array:
        """``A coef`` (K, m + r) of coefficients (K, q)."""
        xp = namespace(coef)
        if self.X.ndim == 2:
            rows = coef @ xp.matrix_transpose(self.X)
        else:
            rows = (self.X @ coef[:, :, None])[:, :, 0]
        parts = [rows] * self.repeats
        if len(self.penalised):
            parts.append(xp.take(coef, self._numbers[0], axis=1))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)

    def turned(self, values: Array) -> Array:
        """``A' values`` (K, q)."""
        rows, others = self._apart(values)
        found = rows @ self.X if self.X.ndim == 2 else (rows[:, None, :] @ self.X)[:, 0, :]
        return found if others is None else found + self._of_coefficients(others)

    def squares(self, weight: Array) -> Weighted:
        """``A' diag(weight) A``, and the unit matrix where weights are tied to coefficients."""
        rows, others = self._apart(weight)
        own, n_free = self._ties, self.X.shape[-1] - len(self.penalised)
        own = own if others is None else own + self._of_coefficients(others)
        return Weighted(self.X, rows, own, n_free if self.pull is None else 0)

    @cached_property
    def _ties(self):
        """What each coefficient (K, q) is tied to 0 by, beside the losses."""
        xp, shape = namespace(self.y), (len(self.n_rows), self.X.shape[-1])
        value = 0.0 if self.pull is None else 1.0
        return xp.full(shape, value, dtype=xp.float64, device=place_of(self.y).device)

    @cached_property
    def _numbers(self):
        """The penalised coefficients, and which of them each coefficient is: r for none."""
        back = np.full(self.X.shape[-1], len(self.penalised))
        back[self.penalised] = np.arange(len(self.penalised))
        return tuple(move(a, place_of(self.y)) for a in (self.penalised, back))

    def _of_coefficients(self, others):
        """Values (K, r) of the penalised coefficients in their places, and 0 in others, (K, q)."""
        xp = namespace(others)
        padded = xp.concat([others, xp.zeros_like(self.y[:, :1])], axis=1)
        return xp.take(padded, self._numbers[1], axis=1)

    def _apart(self, values):
        """Sums over the times that rows are there (K, m), and the rest (K, r); None if r is 0."""
        m, rows, others = self.X.shape[-2], values, None
        if len(self.penalised):
            rows, others = values[:, : m * self.repeats], values[:, m * self.repeats :]
        if self.repeats > 1:
            rows = namespace(rows).reshape(rows, (rows.shape[0], self.repeats, m))
            rows = namespace(rows).sum(rows, axis=1)
        return rows, others

    def residuals(self, coef: Array) -> Array:
        return self.y - self.times(coef)

    def objective(self, coef: Array) -> Array:
        """(K,)"""
        xp, e = namespace(coef), self.residuals(coef)
        found = xp.sum(xp.maximum(self.upper * e, -self.lower * e), axis=1)
        if self.pull is not None:
            found = found + xp.sum((0.5 * coef - self.pull) * coef, axis=1)
        return found if self.constant is None else found + self.constant

    def left(self, coef: Array, d: Array) -> Array:
        """What weights d (K, m + r) lack to be those of coefficients (K, q), by coefficient."""
        found = self.turned(d)
        return found if self.pull is None else found + self.pull - coef

    def least_squares(self) -> Array:
        xp = namespace(self.y)
        sums = self.turned(self.y)
        sums = sums if self.pull is None else sums + self.pull
        return solver(self.squares(xp.ones_like(self.lower)))(sums)


@dataclass(frozen=True)
class _Point:
    """Where the steps of K programs are.

    Attributes
    ----------
    coef : array (K, q)
    room : array (2, K, m + r)
        Distances of weights from their bounds below and above.
    parts : array (2, K, m + r)
        Above 0; the second less the first are residuals.
    """

    coef: Array
    room: Array
    parts: Array

    @classmethod
    def begin(cls, programs: Programs, coef: Array | None) -> "_Point":
        coef = programs.least_squares() if coef is None else coef
        e = programs.residuals(coef)
        xp: Any = namespace(e)
        # A typical residual, whatever the largest are.
        size = xp.mean(xp.sqrt(xp.abs(e)), axis=1) ** 2
        least = EPS * xp.max(xp.abs(programs.y), axis=1)
        size = xp.maximum(xp.maximum(size, least), xp.full_like(size, 1e-300))[:, None]
        if programs.pull is not None:
            # All products of room and parts are alike: steps may be long.
            width = programs.lower + programs.upper
            level = 2.0 * size * xp.mean(width, axis=1, keepdims=True) / width
            both = xp.sqrt(e * e + level * level) + level
            parts = xp.stack([both - e, both + e]) / 2.0
            return cls(coef, width * (level / 2.0) / parts, parts)
        parts = xp.stack([_positive(-e), _positive(e)]) + MARGIN * size
        # Feasible for both programs.
        return cls(coef, xp.stack([programs.lower, programs.upper]), parts)

    @property
    def product(self) -> Array:
        return namespace(self.room).sum(self.room * self.parts, axis=(0, 2))

    def left(self, programs: Programs) -> Array:
        """What its weights lack to be those of its coefficients, (K, q)."""
        return programs.left(self.coef, self.room[0, ...] - programs.lower)

    @property
    def ratio(self) -> Array:
        """(2, K, m + r)"""
        return self.parts / self.room

    def take(self, keep: np.ndarray) -> "_Point":
        pairs = (_some(a, keep, axis=1) for a in (self.room, self.parts))
        return _Point(_some(self.coef, keep), *pairs)


def _share(ratio):
    """What weights change with residuals, (K, m + r)."""
    return 1.0 / (ratio[0, ...] + ratio[1, ...])


def solve_programs(
    programs: Programs, start: Array | None = None, enough: float = GAP
) -> list[Fitted]:
    """Solve each until the gap is `enough` of the objective; at `GAP` to the vertex.

    `start` (K, q) are coefficients to begin with, those of least squares if None.
    """
    with np.errstate(all="ignore"):
        return _solve(programs, start, enough)


def _solve(programs, start, enough):
    point = _Point.begin(programs, start)
    xp: Any = namespace(point.coef)
    open_ = np.arange(len(programs.n_rows))
    found: list[Any] = [None] * len(open_)
    scale = None if programs.constant is None else abs(to_host(programs.constant))
    for n_steps in range(MOST_STEPS + 1):
        product, left = point.product, point.left(programs)
        # Between the objectives of both programs.
        gap = product if programs.pull is None else product + xp.sum(left * left, axis=1) / 2
        looked_at = xp.stack([programs.objective(point.coef), gap, product])
        values, gaps, products = to_host(looked_at)
        size = values if scale is None else abs(values) + scale[open_]
        done = (gaps <= enough * size) | (values == 0.0)
        # If the gap is only rounding, further steps would end in nan.
        stuck = products <= EPS * gaps
        done |= stuck & (gaps <= STUCK_GAP * size)
        ended = done | stuck | (n_steps == MOST_STEPS)
        if ended.any():
            some = np.flatnonzero(ended)
            coef, values = _ends(programs, point, some, values[some], n_steps and enough <= GAP)
            for i, k in enumerate(some):
                found[open_[k]] = Fitted(coef[i], float(values[i]), n_steps, bool(done[k]))
            keep = np.flatnonzero(~ended)
            if not len(keep):
                break
            open_, point, programs = open_[keep], point.take(keep), programs.take(keep)
            product, left = _some(product, keep), _some(left, keep)
        point = _step(programs, point, product, left)
    return found


def _step(programs, point, product, left):
    """Towards the optimum and, where the border is near, towards the centre and to second order."""
    xp, room, parts, ratio = namespace(point.room), point.room, point.parts, point.ratio
    share, tied = _share(ratio), programs.pull is not None
    # What inverses round away, squares would never be rid of.
    solved = solver(programs.squares(share), by_factors=tied)

    def direction(pulled):
        """The step after which ``room parts`` has grown by ``room pulled`` (2, K, m + r)."""
        h = share * (pulled[0, ...] - pulled[1, ...])
        # And weights are those of b again, whatever rounding left of that.
        step = solved(left + programs.turned(h))
        ds = h - share * programs.times(step)
        change = xp.concat([ds[None, ...], -ds[None, ...]])
        return step, change, pulled - ratio * change

    step, change, dparts = direction(-parts)
    primal, dual = _lengths(point, change, dparts, tied)
    after = xp.sum((room + primal * change) * (parts + dual * dparts), axis=(0, 2))
    level = ((after / product) ** 3 * product / (2.0 * share.shape[1]))[:, None]
    second = direction((level - change * dparts) / room - parts)
    whole = (primal == 1.0) & (dual == 1.0)
    if not is_numpy(whole) or whole.any():  # a look would wait for a device
        first = step, change, dparts
        second = tuple(xp.where(whole, a, b) for a, b in zip(first, second, strict=True))
    step, change, dparts = second
    primal, dual = _lengths(point, change, dparts, tied)
    return _Point(point.coef + dual * step, room + primal * change, parts + dual * dparts)


def _lengths(point, change, dparts, tied):
    """How long a step keeps all above 0: (K, 1) of weights, and of residuals; alike where tied."""
    xp: Any = namespace(change)
    least = [xp.min(change / point.room, axis=(0, 2)), xp.min(dparts / point.parts, axis=(0, 2))]
    if tied:
        least = [xp.minimum(*least)]
    lengths = [SHARE / xp.where(each < -SHARE, -each, SHARE)[:, None] for each in least]
    return lengths[0], lengths[-1]


def _ends(programs, point, some, values, to_vertex):
    """Coefficients (n, q) of some programs, and objectives (n,), in CPU memory."""
    coef = to_host(_some(point.coef, some))
    if not to_vertex or programs.pull is not None:
        return coef, values
    ended = programs.take(some) if len(some) < len(programs.n_rows) else programs
    share = _share(_some(point.parts, some, axis=1) / _some(point.room, some, axis=1))
    largest = list(largest_rows(ended, share))
    near, known = np.array(coef), [vertex(rows) for rows in largest]
    for own, rows in zip(near, largest, strict=True):
        own[rows.zero] = 0.0
    vertices = [own if found is None else found for own, found in zip(near, known, strict=True)]
    found, size = (coef, values), np.abs(values)
    # Where several models are as good, the plane may be through other rows than the nearest.
    for there in (near, np.stack(vertices)):
        at_it = to_host(ended.objective(move(there, place_of(point.coef))))
        will_do = at_it <= values + ROUNDING * size
        found = np.where(will_do[:, None], there, found[0]), np.where(will_do, at_it, found[1])
    return found


def _positive(values: Array) -> Array:
    return namespace(values).where(values > 0, values, 0.0)


def _some(a: Array, keep: Sequence[int] | np.ndarray, axis: int = 0) -> Array:
    return namespace(a).take(a, move(np.asarray(keep), place_of(a)), axis=axis)
