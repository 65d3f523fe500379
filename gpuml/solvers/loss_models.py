"""Models of many candidates on many splits under a loss, all in the same passes over the rows.

Of each model the objective is ``sum_i w_i loss(y_i, W x_i + b) / sum_i w_i`` plus the penalties
``l2/2 |W|^2 + l1 |W|_1``.
Rows are read in two stages: an evenly spaced sample brings every model close to its minimum and
shows the Hessians there; passes over all rows do the rest, preconditioned by them. How
many rows Hessians are taken from, and when they are taken again, follows from what that
costs in units of passes: not much more than the passes since the last time did.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gpuml._arrays import (
    HOST,
    Array,
    free_memory,
    is_numpy,
    is_out_of_memory,
    move,
    namespace,
    place_of,
)
from gpuml._arrays.ops import any_true
from gpuml._arrays.threads import one_blas_thread
from gpuml.designs import Beside, Divided
from gpuml.penalties import Penalty
from gpuml.solvers import arrow, few_rows, kinks, one_model, row_space, wide_losses
from gpuml.solvers._alike import merged
from gpuml.solvers._result import joined, moved
from gpuml.solvers.lbfgs import Solved, minimise
from gpuml.solvers.loss_rows import LossRows, own_threads
from gpuml.solvers.newton import (
    Inverse,
    Objective,
    inverse_curvature,
)
from gpuml.solvers.prox_newton import SparseProblem, minimise_by_gradients
from gpuml.solvers.prox_newton import minimise as minimise_sparse
from gpuml.solvers.refresh import (
    CPU_COSTS,
    GPU_COSTS,
    MATRICES_AT_ONCE,
    SMALLEST_SAMPLE,
    WORTH_SAMPLING,
    Refresh,
    has_cheap_squares,
    passes_of_hessians,
    sample_size,
    starts_take_longest,
)
from gpuml.solvers.variances import Diagonal, diagonal_inverse

# Rows of the rarest class that a sample has.
SAMPLE_OF_CLASS = 10
SAMPLE_NOISE = 0.2
SAMPLE_MAX_ITER = 20
# Of losses whose curvature jumps, models that take more steps than this, or than take as long as so
# many Hessians, are found along a path of penalties: from this part of the curvature of all
# features, weaker by this factor each time, with this part left of the gradient that each begins
# with.
FEW_STEPS, FEW_HESSIANS = 40, 4
STRONG, WEAKER, ROUGH = 0.1, 10.0, 1e-2
# Coefficients of a model from which models with l1 penalties do without Hessians.
MOST_COEFFICIENTS = 2048
# Coefficients of all models up to which their vectors are in CPU memory: on a GPU each of dozens of
# operations of a pass on them is a launch, however few they are, where no kernel does them at once.
FEW_COEFFICIENTS = 2**14
# Copies of coefficients while steps are taken.
VECTORS_PER_MODEL = 48
# Bytes of the rows that variances are taken from.
VARIANCE_BYTES = 2**23


@dataclass(frozen=True)
class SmoothProblem(Objective):
    """The smooth part of the objective of a grid of models, and a preconditioner for it."""

    inverse: Inverse | Diagonal | arrow.Arrow | None = None

    def precondition(self, G: Array) -> Array:
        """Approximate Newton steps; those of coupled vectors sum to 0, which no loss notices."""
        assert self.inverse is not None  # it is there before the first step
        V = self.inverse(G)
        if not self.data.loss.coupled:
            return V
        return V - namespace(G).mean(V, axis=2, keepdims=True)

    def at(self, rows: LossRows, W: Array, *, shared: bool) -> "SmoothProblem":
        """The problem with Hessians at W from some rows, split by split or shared."""
        if arrow.is_arrow(rows, W.shape):  # these are shared, and where the rows are
            return replace(self, inverse=arrow.inverse_at(rows, W, self.penalty))
        inverse = rows.ask(_inverse_at, W, self.penalty, shared)
        return replace(self, inverse=moved(inverse, place_of(W)))

    def with_variances(self) -> "SmoothProblem":
        """The problem with a preconditioner from the variances of the features alone."""
        data, design = self.data, self.data.design
        entries = design.stored.n_entries // max(1, data.n_rows)  # of a row
        if has_cheap_squares(data):
            entries = data.n_features  # Hessians are taken at once: it need not be good
        few = max(SMALLEST_SAMPLE, VARIANCE_BYTES // (8 * (entries + 1)))
        # Of a level that few rows have a sample knows nothing.
        every = isinstance(design, Beside)
        sample = data if every else data.every(max(1, data.n_rows // few))
        return replace(self, inverse=sample.ask(diagonal_inverse, self.penalty, data.n_rows))

    def _selected(self, index, xp):
        return {"inverse": None if self.inverse is None else self.inverse.select(index)}


@dataclass(frozen=True)
class Options:
    """How to solve.

    Attributes
    ----------
    tol : float
        Bound on the largest component of the gradient, or of the least subgradient.
    max_iter : int
        Bound on the passes over all rows.
    newton : bool
        Whether every step is a Newton step of its model, from Hessians of all rows.
    memory : int
        Bytes for the models that are fitted at once.
    block_bytes : int, optional
        Bytes of workspace for a block of rows.
    rough : bool
        Whether models that are not at their minimum after `max_iter` passes will do.
    """

    tol: float = 1e-4
    max_iter: int = 100
    newton: bool = False
    memory: int = 2**30
    block_bytes: int | None = None
    rough: bool = False


def solve(
    data: LossRows,
    penalty: Penalty,
    start: Array,
    options: Options,
    *,
    has_l1: bool = False,
    rarest: int = 0,
) -> Solved:
    """Models of every candidate on every split, as many at once as memory allows.

    Parameters
    ----------
    data : LossRows
    penalty : Penalty
        Of coefficients (C, S, k, q), in units of the mean loss: l1 and l2 (C, S, 1, q), used
        (C, 1, 1, q).
    start : array (C, S, k, q)
        Where to begin.
    options : Options
    has_l1 : bool
        Whether some penalty has an l1 part.
    rarest : int, default=0
        Number of rows of the rarest kind of targets that a sample must not miss; 0 keeps from
        sampling, as where the start is near the minimum.

    Returns
    -------
    Solved
    """
    by_rows = partial(_solve_in_parts, data, penalty, has_l1=has_l1, rarest=rarest)
    n_first = passes_by_rows(data, penalty, start.shape, options, has_l1=has_l1)
    if n_first >= options.max_iter:
        return by_rows(start, options)
    first = np.zeros(start.shape[:2], dtype=np.int32)
    if n_first:
        solved = by_rows(start, replace(options, max_iter=n_first))
        if not ((solved.n_iter >= n_first) & ~solved.stalled).any():
            return solved
        start, first = solved.W, solved.n_iter
        options = replace(options, max_iter=options.max_iter - n_first)
    ends_there = row_space.ends_there(data, start.shape)
    space = row_space.RowSpace.of(data, orthogonal=not ends_there)
    if space is None:
        found = by_rows(start, options)
    else:
        found = _solve_in(space, data, penalty, start, options)
    n_read = None if found.n_read is None else found.n_read + first
    return replace(found, n_iter=found.n_iter + first, n_read=n_read)


def passes_by_rows(
    data: LossRows, penalty: Penalty, shape: tuple[int, ...], options: Options, *, has_l1: bool
) -> int:
    """The number of passes after which models (C, S, k, q) continue in the space of the rows.

    At most ``options.max_iter``, for never.
    """
    if has_l1 or row_space.has_none(data, penalty, options.memory):
        return options.max_iter
    costs = CPU_COSTS if data.place.is_host else GPU_COSTS
    n_first = row_space.passes_before(data, shape, costs, newton=options.newton)
    return min(n_first, options.max_iter)


def _solve_in_parts(data, penalty, start, options, *, has_l1, rarest):
    size = max(1, options.memory // _bytes_per_candidate(start, options))
    method = solve_sparse if has_l1 else solve_smooth
    parts = []
    # BLAS threads would wait for each other in each of many small products; gpuml's threads each do
    # products of their own. With few rows, waking them takes longer than the products.
    on_numpy = data.place.kind == "numpy"
    if on_numpy and (has_l1 or not few_rows.are_few(data, start.shape)):
        data = replace(data, threads=own_threads(data.place))
    with one_blas_thread() if on_numpy else nullcontext():
        for first in range(0, start.shape[0], size):
            some = slice(first, min(first + size, start.shape[0]))
            own = Penalty(*(a[some, ...] for a in (penalty.l1, penalty.l2, penalty.used)))
            parts.append(method(data.of(some), own, start[some, ...], options, rarest))
    return joined(parts, axis=0)


def _solve_in(space, data, penalty, start, options):
    """`solve` in the space of the rows."""
    found = solve(space.rows(data), space.penalty(penalty), space.inward(start), options)
    n_read = np.ones_like(found.n_iter)  # once for inner products, and once here
    if data.advance is not None:
        data.advance(2 * data.n_rows)
    return replace(found, W=space.outward(found.W), n_read=n_read)


def _inverse_at(rows, W, penalty, shared):
    penalty = moved(penalty, rows.place)
    return inverse_curvature(rows, W, penalty, rows.total_weights, shared=shared)


def _bytes_per_candidate(start, options):
    _, n_splits, k, q = start.shape
    order = k * q
    # Other methods use Hessians only if there is room; Newton's method needs them.
    matrices = MATRICES_AT_ONCE * order if options.newton else 0
    return 8 * n_splits * order * (VECTORS_PER_MODEL + matrices)


def solve_smooth(
    data: LossRows, penalty: Penalty, start: Array, options: Options, rarest: int
) -> Solved:
    """`solve` without l1 penalties."""
    xp = data.place.xp
    is_one = math.prod(start.shape[:2]) == 1
    if kinks.are_few(data) and (is_one or not few_rows.are_few(data, start.shape)):
        total = data.total_weights
        return kinks.minimise(data, total, penalty, start, options.tol, options.max_iter)
    if data.loss.coupled:
        # The penalty has its minimum where the coefficients of all vectors sum to zero.
        start = start - xp.mean(start, axis=2, keepdims=True)
    if not options.newton and options.max_iter >= SAMPLE_MAX_ITER:
        start = _near_minimum(data, penalty, start, options, rarest, _solve)
    near = rarest == 0
    few = max(FEW_STEPS, int(FEW_HESSIANS * passes_of_hessians(data, start.shape)))
    if not data.loss.jumps or options.max_iter <= few:
        return _solve(data, penalty, start, options, near=near)
    found = _solve(data, penalty, start, replace(options, max_iter=few), near=near)
    if not ((found.n_iter >= few) & ~found.stalled).any():
        return found
    left = replace(options, max_iter=options.max_iter - few)
    better = _along_path(data, penalty, start, left)
    return replace(better, n_iter=better.n_iter + few)


def _along_path(data, penalty, start, options):
    """The minima under ever weaker penalties, each from the one before.

    Where curvatures jump, rows without one are many near the minimum of a weak penalty: in the
    directions that they alone hold, Newton's steps reach all of them again, and get nowhere. From
    one penalty to the next the rows that count change little.
    """
    xp = namespace(penalty.l2)
    by_newton = replace(options, newton=True)
    if start.shape[0] * _bytes_per_candidate(start, by_newton) <= options.memory:
        options = by_newton
    sample = data.every(max(1, data.n_rows // SMALLEST_SAMPLE))
    size = move(sample.ask(_squares), place_of(penalty.l2))
    strong, total = STRONG * data.loss.bound * float(xp.max(size)), data.total_weights
    W, n_iter = start, 0
    while options.max_iter > n_iter and any_true((penalty.l2 > 0) & (penalty.l2 < strong), xp):
        l2 = xp.where((penalty.l2 > 0) & (penalty.l2 < strong), strong, penalty.l2)
        stronger = replace(penalty, l2=l2)
        gradient = Objective(data, total, stronger).gradient(W, begins=True)
        tol = max(options.tol, ROUGH * float(xp.max(xp.abs(gradient))))
        rough = replace(options, tol=tol, max_iter=options.max_iter - n_iter)
        found = _solve(data, stronger, W, rough)
        W, n_iter, strong = found.W, n_iter + int(found.n_iter.max()), strong / WEAKER
    rest = replace(options, max_iter=max(1, options.max_iter - n_iter))
    found = _solve(data, penalty, W, rest)
    return replace(found, n_iter=found.n_iter + n_iter)


def _squares(rows):
    """Sums of the variances of all features (1 or S,)."""
    _, variance = rows.design.spread()
    return namespace(variance).sum(variance, axis=-1)


def _near_minimum(data, penalty, start, options, rarest, method):
    """The minimum for an evenly spaced sample of rows, if that is cheap and near."""
    if has_cheap_squares(data):
        return start  # of a level that few rows have, a sample shows less than nothing
    step = data.n_rows // sample_size(data)
    fits = 8 * (data.n_rows // max(step, 1)) * data.n_features <= options.memory
    one = one_model.is_one(data, start.shape) and not few_rows.are_few(data, start.shape)
    least = one_model.WORTH_SAMPLING if one else WORTH_SAMPLING
    if not one and starts_take_longest(data, start.shape):
        return start
    if step < least or rarest < SAMPLE_OF_CLASS * step or not fits:
        return start
    sample = data.every(step)
    # The gradient of the sample differs from that of all rows by about 1 / (2 sqrt(rows)).
    noise = SAMPLE_NOISE / sample.n_rows**0.5
    tol = max(options.tol, noise)
    coarse = replace(options, tol=tol, max_iter=SAMPLE_MAX_ITER, rough=True)
    return sample.ask(_minimum, penalty, start, coarse, method)


def _minimum(rows, penalty, start, options, method):
    W = method(rows, penalty, start, options).W
    return merged(W, *rows.design.spread()) if is_numpy(W) and rows.target.ndim == 1 else W


def solve_sparse(
    data: LossRows, penalty: Penalty, start: Array, options: Options, rarest: int = 0
) -> Solved:
    """`solve` where some penalties have an l1 part."""
    if wide_losses.is_wide(data, penalty):
        return wide_losses.minimise(data, penalty, start, options.tol, options.max_iter)
    xp = data.place.xp
    problem = SparseProblem(data, data.total_weights, penalty)
    refresh = Refresh(data, start.shape, options.memory, proximal=True)
    many = start.shape[0] > refresh.most_matrices or refresh.order > MOST_COEFFICIENTS
    if many and data.loss.bound is not None:
        solved = minimise_by_gradients(problem, start, options.tol, options.max_iter)
    else:
        home, precision = _home_of(start, data, smooth=False), _precision(data)
        if data.place.is_host and options.max_iter >= SAMPLE_MAX_ITER:
            start = _near_minimum(data, penalty, start, options, rarest, solve_sparse)
        problem = SparseProblem(data, move(problem.total, home), moved(penalty, home))
        start = move(start, home)
        solved = minimise_sparse(problem, start, options.tol, options.max_iter, precision, refresh)
        solved = replace(solved, W=move(solved.W, data.place))
    if not data.loss.coupled:
        return solved
    # The same added to all intercepts changes nothing: let their sum be zero.
    coef, level = solved.W[..., :-1], solved.W[..., -1:]
    level = level - xp.mean(level, axis=2, keepdims=True)
    return replace(solved, W=xp.concat([coef, level], axis=-1))


def _solve(data, penalty, start, options, *, near=False):
    # What begins near its minimum, as the best model of a search, takes the steps that it takes
    # where rows are divided; of few rows they are the same.
    exact = options.newton and not data.loss.expected
    # Exact steps see a Hessian more, at the end, which takes long where vectors are coupled.
    one = one_model.is_one(data, start.shape) and not (exact and data.loss.coupled)
    if one and (not near or few_rows.are_few(data, start.shape)):
        rest = options.tol, options.max_iter, _precision(data), options.memory
        return one_model.minimise(data, penalty, start, *rest, newton=exact)
    beside = isinstance(data.design, Beside)
    if not beside and few_rows.are_few(data, start.shape):
        bounds = options.tol, options.max_iter, _precision(data)
        try:
            return few_rows.minimise(data, data.total_weights, penalty, start, *bounds)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            free_memory(data.place)  # rows are read block by block then
    home = data.place if beside else _home_of(start, data, smooth=True)
    start, penalty = move(start, home), moved(penalty, home)
    problem = SmoothProblem(data, move(data.total_weights, home), penalty)
    refresh: Any = every_pass
    if beside and not arrow.is_arrow(data, start.shape):
        refresh = None
    elif beside or not exact:
        limits = options.memory, options.max_iter
        refresh = Refresh(data, start.shape, *limits, rough=options.rough)
    # What begins near its minimum may be there already, and need no Hessians.
    begun = refresh.at_start(problem, start) if isinstance(refresh, Refresh) and not near else None
    solved = minimise(
        problem.with_variances() if begun is None else begun,
        start,
        options.tol,
        options.max_iter,
        precision=_precision(data),
        drops_at_once=1 if home.is_host else 2,
        looks=data.loss.jumps,
        refresh=refresh,
    )
    return replace(solved, W=move(solved.W, data.place))


def _home_of(start, data, *, smooth):
    """Where models are while they are solved: few of them in CPU memory, wherever the rows are.

    Unless they are smooth and of CuPy, whose steps take few launches (`solvers._lbfgs_gpu`).
    """
    if data.place.is_host or isinstance(data.design.stored, Divided):
        return data.place
    if data.place.kind == "cupy" and smooth:
        return data.place
    return HOST if math.prod(start.shape) <= FEW_COEFFICIENTS else data.place


def _precision(data):
    xp = data.place.xp
    return float(xp.finfo(data.design.dtype).eps)


def every_pass(problem: Any, W: Array, n_iter: int, left: float) -> Any:
    """Newton's method: Hessians of all rows at every pass."""
    return problem.at(problem.data, W, shared=False)
