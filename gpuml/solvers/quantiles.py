"""Quantile regression to the optimum, of many quantiles and penalties at once.

Rows far from the plane matter only by their side of it. So models of a sample of the rows tell,
of the rest, which rows are near; the others are summed into two rows, one above the planes and one
below, and a program of what is left is solved [1]_. Where all rows turn out to be on the side that
they were taken to be on, its optimum is that of all rows; others join, and it is solved again.

References
----------
.. [1] S. Portnoy, R. Koenker, "The Gaussian hare and the Laplacian tortoise", Statistical Science
   12 (1997).
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from gpuml._arrays import Array, free_bytes, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS
from gpuml.solvers.pinball import GAP, Fitted, Programs, solve_programs
from gpuml.solvers.weighted_sums import BLOCK_NUMBERS, DEVICE_NUMBERS

# The sample has one in so many rows; and the gap at which its model is good enough.
FEWER, NEARLY = 4, 1e-5
# Rows near the plane, over the root of features times rows times `FEWER`: two and a half standard
# deviations of what a model of the sample is off, above and below, whatever the distribution.
BAND = 2.5
# Rows that give the width of the band; and rounds after which no row is left out.
SAMPLE, MOST_ROUNDS = 2**12, 8
# Free bytes of GPU memory for each number of the rows of programs, while these are put together.
BYTES_PER_NUMBER = 64
# Of a residual, what is rounding.
ROUNDING = 64 * EPS


@dataclass(frozen=True)
class Rows:
    """Rows for which models of K quantiles are needed.

    Attributes
    ----------
    X : array (m, q)
        Float64, as are all others.
    y, weight : arrays (m,)
        No weight is 0.
    quantiles : ndarray (K,)
    penalties : ndarray (K, q)
    start : ndarray (K, q) or None
        Coefficients near those that are sought; None for those of a sample.
    """

    X: Array
    y: Array
    weight: Array
    quantiles: np.ndarray
    penalties: np.ndarray
    start: np.ndarray | None = None

    def every_row(self) -> Programs:
        """Programs of all of them."""
        xp, place = namespace(self.X), place_of(self.X)
        one = xp.ones_like(move(self.quantiles, place))[:, None]
        return Programs.of(self.X, one * self.y, one * self.weight, self.quantiles, self.penalties)

    def asked(self, programs: Programs, start: Array | None, enough: float) -> "Asked":
        """Programs for these models."""
        return Asked(programs, start, enough, (self.penalties[0] > 0).tobytes())

    def models(self, some: Any) -> "Rows":
        """The same rows for some of the models."""
        start = None if self.start is None else self.start[some]
        quantiles, penalties = self.quantiles[some], self.penalties[some]
        return replace(self, quantiles=quantiles, penalties=penalties, start=start)


@dataclass(frozen=True)
class Asked:
    """Programs with initial coefficients (K, q) or None, and the gap to reach."""

    programs: Programs
    start: Array | None
    enough: float
    pattern: bytes

    @property
    def key(self) -> Any:
        """Equal for what can be solved side by side."""
        return self.enough, self.pattern


# Yields programs and receives their solutions, until it has the models.
Solving = Generator[Asked, list[Fitted], list[Fitted]]


def fit_quantiles(parts: Sequence[Rows]) -> list[list[Fitted]]:
    """Minimise ``sum w pinball(y - X b) + sum penalty |b|`` over b (q,), for all models of parts.

    On a device, where all that is small takes as long as what is large, models of all parts take
    their steps together.
    """
    found: list[Any] = [None] * len(parts)
    numbers = _numbers_at_once(parts[0].X) // len(parts)
    solving = [_of_all_models(rows, numbers) for rows in parts]
    answers: dict[int, Any] = dict.fromkeys(range(len(parts)))
    while answers:
        asked: dict[int, Asked] = {}
        for i, answer in answers.items():
            try:
                asked[i] = solving[i].send(answer)
            except StopIteration as ended:
                found[i] = ended.value
        answers = {}
        for some in _side_by_side(asked):
            solved = iter(_solved([asked[i] for i in some]))
            answers |= {i: list(islice(solved, len(asked[i].programs.n_rows))) for i in some}
    return found


def _side_by_side(asked):
    """Numbers of programs to solve together: of one kind, as many as memory allows."""
    by_key: dict[Any, list[list[int]]] = {}
    for i, one in asked.items():
        groups = by_key.setdefault(one.key, [[]])
        if not _fit_at_once([asked[j] for j in groups[-1]] + [one]):
            groups.append([])
        groups[-1].append(i)
    return [some for groups in by_key.values() for some in groups if some]


def _fit_at_once(some):
    X = some[0].programs.X
    if len(some) == 1 or is_numpy(X):
        return len(some) == 1
    n_programs = sum(len(one.programs.n_rows) for one in some)
    m = max(one.programs.X.shape[-2] for one in some)
    return n_programs * m * X.shape[-1] <= _numbers_at_once(X)


def _solved(some):
    if len(some) == 1:
        return solve_programs(some[0].programs, some[0].start, some[0].enough)
    starts = [one.programs.least_squares() if one.start is None else one.start for one in some]
    programs = Programs.beside([one.programs for one in some])
    return solve_programs(programs, namespace(*starts).concat(starts), some[0].enough)


def _of_all_models(rows: Rows, numbers: int) -> Solving:
    # Programs that are solved side by side have penalties in the same places.
    patterns, which = np.unique(rows.penalties > 0, axis=0, return_inverse=True)
    found: list[Any] = [None] * len(rows.quantiles)
    for pattern in range(len(patterns)):
        some = np.flatnonzero(which.reshape(-1) == pattern)
        solved = yield from _fit(rows.models(some), GAP, numbers)
        for k, model in zip(some, solved, strict=True):
            found[k] = model
    return found


def _fit(rows: Rows, enough: float, numbers: int) -> Solving:
    (m, q), n_models = rows.X.shape, len(rows.quantiles)
    found: list[Fitted] = []
    n_near = int(min(m, BAND * np.sqrt(FEWER * q * m)))
    start = None
    if 3 * n_near < m:
        start = rows.start
        if start is None:
            start = yield from _of_a_sample(rows, numbers)
    of_one = q * m if start is None else max(q * n_near, m)
    step = max(1, numbers // of_one)
    step = math.ceil(n_models / math.ceil(n_models / step))
    for first in range(0, n_models, step):
        some = slice(first, first + step)
        own = rows.models(some)
        if start is None:
            found += yield own.asked(own.every_row(), None, enough)
        else:
            nearby = _Nearby(own)
            found += yield from nearby.fit(move(start[some], place_of(rows.X)), n_near, enough)
    return found


def _numbers_at_once(X):
    """How many numbers the rows of all programs may have at once."""
    if is_numpy(X):
        return BLOCK_NUMBERS
    return max(DEVICE_NUMBERS, free_bytes(place_of(X)) // BYTES_PER_NUMBER)


def _of_a_sample(rows: Rows, numbers: int) -> Generator[Asked, list[Fitted], np.ndarray]:
    """Coefficients (K, q), nearly, of one row of each few."""
    xp, place = namespace(rows.X), place_of(rows.X)
    n_few = rows.X.shape[0] // FEWER
    drawn = np.random.default_rng(0).integers(0, FEWER, n_few) + FEWER * np.arange(n_few)
    some = move(drawn, place)
    X, y, few = (xp.take(a, some, axis=0) for a in (rows.X, rows.y, rows.weight))
    share = float(xp.sum(few) / xp.sum(rows.weight))
    sample = Rows(X, y, few, rows.quantiles, share * rows.penalties)
    found = yield from _fit(sample, NEARLY, numbers)
    return np.stack([each.coef for each in found])


class _Nearby:
    """Models of all rows, most of which are on a known side of the plane."""

    def __init__(self, rows: Rows):
        self.rows = rows
        self.X, self.y, self.weight = rows.X, rows.y, rows.weight
        self.xp: Any = namespace(rows.X)

    def fit(self, coef: Array, n_near: int, enough: float) -> Solving:
        """Start with coefficients (K, q), and with so many rows near each plane."""
        xp, open_ = self.xp, np.arange(len(self.rows.quantiles))
        found: list[Any] = [None] * len(open_)
        r = self._residuals(coef)
        near = xp.abs(r) <= self._width(r, n_near)
        side = r > 0
        for number in range(MOST_ROUNDS + 1):
            solved = yield self.rows.asked(self._programs(near, side, open_), coef, enough)
            there = np.stack([each.coef for each in solved])
            coef = move(there, place_of(self.X))
            r = self._residuals(coef)
            wrong = ~near & (xp.abs(r) > self._rounding(coef)) & (side != (r > 0))
            n_wrong = _counts(wrong)
            # A model of a sample need not be the best, and the next level looks again.
            right = (n_wrong == 0) | (enough > GAP)
            for k in np.flatnonzero(right):
                found[open_[k]] = solved[k]
            keep = np.flatnonzero(~right)
            if not len(keep):
                break
            many = n_wrong[keep] > n_near // 8
            open_, index = open_[keep], move(keep, place_of(self.X))
            coef, r, near, side, wrong = (
                xp.take(a, index, axis=0) for a in (coef, r, near, side, wrong)
            )
            n_near = 2 * n_near if many.any() else n_near
            again = move(many | (number + 1 == MOST_ROUNDS), place_of(self.X))[:, None]
            wide = self._width(r, n_near if number + 1 < MOST_ROUNDS else self.X.shape[0])
            near = xp.where(again, xp.abs(r) <= wide, near | wrong)
            side = xp.where(again, r > 0, side)
        return found

    def _residuals(self, coef):
        """Of all rows, (K, m)."""
        return self.y - coef @ self.xp.matrix_transpose(self.X)

    def _rounding(self, coef):
        """What residuals of rows on the plane may be, (K, 1)."""
        xp = self.xp
        size = xp.max(xp.abs(self.y)) + xp.max(xp.abs(self.X)) * xp.sum(xp.abs(coef), axis=1)
        return ROUNDING * size[:, None]

    def _width(self, r, n_near):
        """The width (K, 1) of the band with about so many rows."""
        xp, m = self.xp, r.shape[1]
        if n_near >= m:
            return xp.full_like(r[:, :1], xp.inf)
        few = xp.sort(xp.abs(r[:, :: max(1, m // SAMPLE)]), axis=1)
        last = min(few.shape[1] - 1, int(np.ceil(n_near / m * few.shape[1])))
        return few[:, last : last + 1]

    def _programs(self, near, side, models):
        """Programs of the rows nearby, after the sums of those above and of those below."""
        xp, place, n_models = self.xp, place_of(self.X), len(models)
        n_near = _counts(near)
        rows = xp.nonzero(near)[1]
        first = np.concatenate([[0], np.cumsum(n_near)[:-1]])
        numbers = np.arange(int(n_near.max()))
        counts = numbers < n_near[:, None]
        index = np.where(counts, first[:, None] + numbers, 0)
        rows = xp.take(rows, move(index.reshape(-1), place), axis=0)
        X, y, weight = (
            xp.reshape(xp.take(a, rows, axis=0), (n_models, len(numbers), *a.shape[1:]))
            for a in (self.X, self.y, self.weight)
        )
        if not counts.all():
            is_there = move(counts, place)
            X = xp.where(is_there[:, :, None], X, 0.0)
            y, weight = xp.where(is_there, y, 0.0), xp.where(is_there, weight, 1.0)
        far = [self._sum(~near & of_side) for of_side in (side, ~side)]
        X, y, weight = (
            xp.concat([*(each[i] for each in far), a], axis=1) for i, a in enumerate((X, y, weight))
        )
        n_rows = n_near + len(far)
        own = self.rows.models(models)
        return Programs.of(X, y, weight, own.quantiles, own.penalties, n_rows)

    def _sum(self, some):
        """A row (K, 1, q), target and weight (K, 1) that replace the rows on one side."""
        xp = self.xp
        own = xp.where(some, self.weight, 0.0)
        weight = xp.sum(own, axis=1, keepdims=True)
        is_one = weight > 0
        total = xp.where(is_one, weight, 1.0)
        X = ((own @ self.X) / total)[:, None, :]
        y = xp.sum(own * self.y, axis=1, keepdims=True) / total
        return X, y, total


def _counts(flags: Array) -> np.ndarray:
    """How many of each row are true, in CPU memory."""
    xp = namespace(flags)
    return np.asarray(to_host(xp.sum(xp.astype(flags, xp.int64), axis=1)))
