"""When to recompute Hessians of many models, from how many rows, and for which models."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array
from gpuml.designs import Beside
from gpuml.solvers._alike import are_alike
from gpuml.solvers.loss_rows import LossRows

# A sample has so many rows per coefficient of a model, of coupled vectors fewer where that were a
# large part of the rows.
SAMPLE_ROWS = 32
SAMPLE_ROWS_OF_COUPLED = 8
SAMPLE_PART = 8
SMALLEST_SAMPLE = 1024
# Below this ratio of rows to sample the sample is not worth its own passes.
WORTH_SAMPLING = 3
# On a device, a pass over all rows must take this many times its fixed cost.
WORTH_PASSES = 4.0
# Copies of Hessians while they are inverted, and of sums by level while they are made.
MATRICES_AT_ONCE = 4
SUMS_AT_ONCE = 3
# Passes with the same Hessians after which their rate is known, and before which it is not.
KNOWN = 3
# More than that is no number to tell a rate from.
MOST_LEFT = 1e300
# The logarithm of the factor by which a pass lowers at most what is left, with the best Hessians.
FASTEST = 3.5
# Passes from which on each earns more than it costs, by its number divided by this.
LINGERING = 5
# Passes that Hessians of a sample save in any case, and the logarithm of the factor by which models
# are to come nearer to their minimum with the first ones.
SAVED_PASSES = 3
WAY_TO_GO = 7.0
# Hessians may cost so many times the passes that are left at most, whatever they would save.
WORTH_LEFT = 5.0
# By what Hessians of codes are to be cheaper than of dense rows, to be taken from the first on.
CHEAP = 4.0
# How often Hessians are shared between splits before each model has its own.
SHARED_TIMES = 4
# Of fewer rows per coefficient than this, all of them are shared once only: splits differ too much.
WORTH_SHARING = 16


@dataclass(frozen=True)
class Costs:
    """Costs on a device, in multiplications of a large float64 product.

    Attributes
    ----------
    one_pass, one_refresh, one_matrix : float
        What a pass, taking Hessians, and each of them take however small they are.
    one_inverse : float
        What inverting a matrix takes, in units of the cube of its order.
    float32 : float
        What one multiplication in float32 takes.
    """

    one_pass: float
    one_refresh: float
    one_matrix: float
    one_inverse: float
    float32: float


# Measured on two cores of an AMD EPYC and on an H200.
CPU_COSTS = Costs(one_pass=5e6, one_refresh=1e6, one_matrix=2e5, one_inverse=4.0, float32=0.5)
GPU_COSTS = Costs(one_pass=1e10, one_refresh=0.0, one_matrix=4e9, one_inverse=25.0, float32=1.0)


def rate_of(lefts: list[float]) -> float:
    """By how much each of the last passes lowered the logarithm of what is left.

    There are `KNOWN` of them at least, and what was left before each of them, and is now.
    """
    since = len(lefts) - 1
    start = min(since // 2, since - KNOWN + 1)
    return (lefts[start] - lefts[-1]) / (since - start)


def has_cheap_squares(data: LossRows) -> bool:
    """Whether Hessians take much less than products of all columns of a row."""
    return CHEAP * data.design.stored.gram_cost < data.n_features**2


def starts_take_longest(data: LossRows, shape: tuple[int, ...]) -> bool:
    """Whether a pass of models (C, S, k, q) on a device takes longer to start than to compute.

    Then passes over a sample take nearly as long as those over all rows, and their Hessians more.
    """
    n_models = shape[0] * shape[1] * shape[2]
    longest = WORTH_PASSES * GPU_COSTS.one_pass
    return not data.place.is_host and _products(data, GPU_COSTS, n_models) <= longest


def _products(data, costs, n_models):
    """The cost of margins and gradients of all rows."""
    design = data.design.stored
    unit = design.entry_cost * (1.0 if design.itemsize > 4 else costs.float32)
    return 4.0 * unit * design.n_entries * n_models


def sample_size(data: LossRows) -> int:
    """Rows of a sample that shows where minima are, and the Hessians there."""
    q, k = data.n_features + 1, data.n_vectors if data.loss.coupled else 1
    fewest = max(SAMPLE_ROWS, SAMPLE_ROWS_OF_COUPLED * k) * q
    return max(SMALLEST_SAMPLE, fewest, min(SAMPLE_ROWS * k * q, data.n_rows // SAMPLE_PART))


def passes_of_hessians(data: LossRows, shape: tuple[int, ...]) -> float:
    """How many passes of models (C, S, k, q) take as long as Hessians of all rows for each."""
    costs = Refresh(data, shape, 0)
    return costs.cost_alone(shape[0], False) / costs.pass_cost(shape[0])


class Refresh:
    """When to recompute Hessians, from how many rows, and for which models.

    First from a sample of rows, as large as makes the Hessians and the passes with them cheapest,
    and for all splits of a candidate together. Later, as soon as the passes that are left, at the
    rate of those before, take longer than better Hessians and the passes with those: from more
    rows, or from all rows for each model by itself.
    """

    def __init__(
        self,
        data: LossRows,
        shape: tuple[int, ...],
        memory: int,
        max_iter: float = math.inf,
        *,
        proximal: bool = False,
        rough: bool = False,
    ):
        _, self.n_splits, k, q = shape
        self.data, self.max_iter = data, max_iter
        # Where a minimum is not needed, Hessians cost no more than the passes that are left.
        self.worth_left = 1.0 if rough else WORTH_LEFT
        # Hessians of which a block is diagonal are of all rows, and shared.
        self.beside = isinstance(data.design, Beside)
        n_apart = data.design.apart.shape[1] if isinstance(data.design, Beside) else 0
        self.order = k * (q - n_apart)
        size = MATRICES_AT_ONCE * self.order**2 + SUMS_AT_ONCE * n_apart * self.order
        self.most_matrices = memory // (8 * size)
        self.square = float(self.order) ** 2
        self.cheap = has_cheap_squares(data)
        # Splits with coordinates of their own each need a copy of what they would share.
        self.copies = data.design.n_maps
        if self.cheap:
            n_near = data.n_features - n_apart
            self.square = float(k) ** 2 * (data.design.stored.gram_cost + n_near)
        elif not data.design.by_split(self.n_splits):
            self.square = float(k * (data.n_features + 1)) ** 2
        self.most_matrices //= self.copies
        self.costs = CPU_COSTS if data.place.is_host else GPU_COSTS
        # Proximal steps need Hessians from the first step; a CPU does not invert them.
        self.at_once = proximal
        self.inverse = 0.0 if proximal and data.place.is_host else self.costs.one_inverse
        # Of no more rows than coefficients each has directions to itself, which are flat in a split
        # that holds it out: there Hessians of all splits together lead astray.
        few = self.n_splits > 1 and data.n_rows <= data.n_features + 1
        self.shares = proximal or self.beside or not few
        # Of a level that few rows have a sample knows nothing.
        self.fewest_rows = data.n_rows if self.beside else min(data.n_rows, sample_size(data))
        self.earned = 0.0
        self.times = 0
        self.last_rows = 0
        self.lefts: list[float] = []  # before each pass since the last Hessians

    def __call__(self, problem: Any, W: Array, n_iter: int, left: float) -> Any:
        """The problem with new Hessians at W, or None to keep the old ones.

        Of the model that is farthest from its end, ``left`` is how many times more than enough the
        next step promises.
        """
        # The curvature from steps is better than recomputed expected curvatures, and what begins
        # with Hessians has them before its first pass.
        if self.times and (self.data.loss.expected or n_iter == 0):
            return None
        self.lefts.append(math.log(min(max(left, 1.0), MOST_LEFT)))
        return self._refreshed(problem, W, n_iter)

    def at_start(self, problem: Any, W: Array) -> Any:
        """The problem with Hessians at W if they come before the first pass anyway, or None."""
        better = self._refreshed(problem, W, 0)
        if better is None:
            self.earned = 0.0
        return better

    def _refreshed(self, problem, W, n_iter):
        n_candidates = W.shape[0]
        self._earn(n_candidates, n_iter)
        alike = self.cheap and self.times == 0 and are_alike(W)
        if n_candidates > self.most_matrices:
            return None
        if self.times:
            chosen = self._choose_again(n_candidates, n_iter)
        else:
            chosen = self._choose(n_candidates, alike)
        if chosen is None:
            return None
        n_rows, alone = chosen
        self.times, self.last_rows, self.lefts, self.earned = self.times + 1, n_rows, [], 0.0
        step = self.data.n_rows // n_rows
        rows = problem.data if step == 1 else problem.data.every(step)
        return problem.at(rows, W, shared=not alone)

    def _earn(self, n_candidates, n_iter):
        """Add to what Hessians may cost: a model that took many passes will take as many more."""
        one_pass = self.pass_cost(n_candidates)
        self.earned += one_pass * max(1.0, n_iter / LINGERING)
        self.earned = min(self.earned, self.worth_left * one_pass * (self.max_iter - n_iter))

    def _choose(self, n_candidates, alike):
        """Number of rows, and whether each model gets its own; None for not now.

        `alike` says that the models of all candidates are the same so far.
        """
        one_pass = self.pass_cost(n_candidates)
        saved = self.earned + SAVED_PASSES * one_pass
        worth = saved if self.cheap else self.earned
        each = (self.cheap or not self.shares) and self._has_room(n_candidates)
        if self.beside:
            cost = self._cost_shared(n_candidates, alike)
            return (self.data.n_rows, False) if saved >= cost else None
        if each and worth >= self.cost_alone(n_candidates, alike):
            return self.data.n_rows, True
        if not self.shares:
            return None
        pays = self.at_once or saved >= self._cost(n_candidates, self.fewest_rows)
        return (self._first_rows(n_candidates), self.n_splits == 1) if pays else None

    def _choose_again(self, n_candidates, n_iter):
        """As `_choose`, where there have been Hessians."""
        if len(self.lefts) < KNOWN:
            return None
        one_pass, left = self.pass_cost(n_candidates), self.lefts[-1]
        passes = self._passes_left(n_iter)
        best, chosen = passes * one_pass, None
        for cost, rate, choice in self._choices(n_candidates):
            cost += (1 + left / rate) * one_pass
            if cost < best:
                best, chosen = cost, choice
        # The rate of a few passes may deceive: many are worth Hessians anyway, except that only
        # proximal steps need better ones for the last few.
        ends = passes <= KNOWN and not self.at_once
        earned = not ends and self.earned >= self.cost_alone(n_candidates, False)
        if chosen is None and earned and self._has_room(n_candidates):
            return self.data.n_rows, True
        return chosen

    def _passes_left(self, n_iter):
        """How many more passes with the same Hessians are worth, at the rate of the last ones.

        If models would not get to their minimum, that is worth more than the passes until then.
        """
        left, rate = self.lefts[-1], rate_of(self.lefts)
        most = self.worth_left * (self.max_iter - n_iter)
        return left / rate if rate * most > left else most

    def _choices(self, n_candidates):
        """Costs of better Hessians, the rates of passes with them, and what `_choose` returns."""
        n_rows = self.data.n_rows
        if self._has_room(n_candidates):
            yield self.cost_alone(n_candidates, False), FASTEST, (n_rows, True)
        many = self.last_rows < n_rows or n_rows >= WORTH_SHARING * self.order
        if self.shares and many and self.times < SHARED_TIMES:
            for size in self._sizes()[self.times - 1 :]:
                rate = min(-2.0 * math.log(self._left_by(size)), FASTEST)
                yield self._cost(n_candidates, size), rate, (int(size), False)

    def _sizes(self):
        """Numbers of rows of samples."""
        return np.minimum(self.fewest_rows * 2.0 ** np.arange(32), self.data.n_rows)

    def _left_by(self, size):
        """The part of the distance to the minimum that a pass with Hessians of a sample leaves."""
        return np.minimum(np.sqrt(self.order / size), 0.9)

    def _has_room(self, n_candidates):
        """Whether there is memory for a matrix of each model, which it may have."""
        fit = n_candidates * self.n_splits <= self.most_matrices * self.copies
        return fit and not self.beside

    def _cost_shared(self, n_candidates, alike):
        """The cost of Hessians of all rows, one per candidate; equal ones share sums."""
        if not alike:
            return self._cost(n_candidates, self.data.n_rows)
        return self._cost(1, self.data.n_rows, self.copies * n_candidates)

    def cost_alone(self, n_candidates, alike):
        """The cost of Hessians of all rows, one per model; equal candidates share them."""
        n_matrices = self.n_splits if alike else n_candidates * self.n_splits
        copies = n_candidates if alike else 1
        return self._cost(n_matrices, self.data.n_rows, copies)

    def _first_rows(self, n_candidates):
        """Number of rows whose Hessians, with the passes that they need, cost the least.

        Hessians of h rows differ from those of all by about sqrt(order / h), and each pass leaves
        about that part of the distance to the minimum.
        """
        one_pass, sizes = self.pass_cost(n_candidates), self._sizes()
        left = self._left_by(sizes)
        costs = [self._cost(n_candidates, size) for size in sizes]
        return int(sizes[np.argmin(costs - one_pass * WAY_TO_GO / np.log(left))])

    def pass_cost(self, n_candidates):
        models = n_candidates * self.n_splits * self.data.n_vectors
        return _products(self.data, self.costs, models) + self.costs.one_pass

    def _cost(self, n_matrices, n_rows, copies=None):
        copies = self.copies if copies is None else copies  # to invert of each
        inverse = self.inverse * float(self.order) ** 3 * copies
        each = n_rows * self.square + inverse + self.costs.one_matrix
        return self.costs.one_refresh + n_matrices * each
