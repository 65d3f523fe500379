"""Models of splits that lie inside the training parts of others, as those of a search inside.

An inner training part is most of an outer one, so the minimum on the outer part is near that on the
inner one. Models of outer parts come first, and inner ones begin there: half as many passes lead to
their minima, and of nested folds these are most of the models.

Where losses are not negative, the start is a good one whatever the other rows of the outer part
hold. At an outer minimum the objective is no larger than without features, so on the inner part its
mean is at most the weight of the outer part over that of the inner one times that.
"""

from dataclasses import replace

import numpy as np

from gpuml._arrays import Array, device_of, namespace
from gpuml._arrays.ops import all_finite
from gpuml.designs import Beside, Divided, Mapped
from gpuml.penalties import Penalty
from gpuml.solvers import few_rows
from gpuml.solvers._result import joined, taken
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.loss_models import Options, passes_by_rows, solve
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.refresh import starts_take_longest

# Outer models that take more of the passes than this part are no start: few are left then.
MOST_PASSES = 0.5


def solve_inside(
    data: LossRows,
    penalty: Penalty,
    start: Array,
    options: Options,
    owners: tuple[int, ...],
    *,
    has_l1: bool = False,
    rarest: int = 0,
) -> Solved:
    """As `loss_models.solve`, where training parts of some splits are inside those of others.

    Parameters
    ----------
    data, penalty, start, options, has_l1, rarest
        As of `solve`.
    owners : tuple of int
        For each split, that whose training part has its own; itself for outer ones.

    Returns
    -------
    Solved
        Iterations of an inner model are its own and those of the model that it began at.
    """
    owner = np.asarray(owners)
    is_outer = owner == np.arange(len(owner))
    if is_outer.all() or not _pays(data, penalty, start, options, has_l1=has_l1):
        return solve(data, penalty, start, options, has_l1=has_l1, rarest=rarest)
    outer, inner = np.flatnonzero(is_outer), np.flatnonzero(~is_outer)
    outer_data, inner_data = (_of_splits(data, some) for some in (outer, inner))
    outer_penalty, inner_penalty = (_penalty_of(penalty, some) for some in (outer, inner))
    begin = _take(start, outer)
    before = solve(outer_data, outer_penalty, begin, options, has_l1=has_l1, rarest=rarest)
    n_before = before.n_iter.max()
    if (before.violation <= options.tol).all() and n_before <= MOST_PASSES * options.max_iter:
        places = np.searchsorted(outer, owner[inner])
        begin = _taken_over(outer_data, inner_data, _take(before.W, places), places)
        left = replace(options, max_iter=options.max_iter - int(n_before))
        after = solve(inner_data, inner_penalty, begin, left, has_l1=has_l1)
        after = replace(after, n_iter=after.n_iter + before.n_iter[:, places])
    else:
        begin = _take(start, inner)
        after = solve(inner_data, inner_penalty, begin, options, has_l1=has_l1, rarest=rarest)
    both = joined([before, after], axis=1)
    return taken(both, np.argsort(np.concatenate([outer, inner])), axis=1)


def _pays(data, penalty, start, options, *, has_l1):
    """Whether the time of passes grows with the number of models, and rows are read unchanged."""
    if isinstance(data.design.stored, Divided) or isinstance(data.design, Beside):
        return False
    if passes_by_rows(data, penalty, start.shape, options, has_l1=has_l1) < options.max_iter:
        return False
    return not (few_rows.are_few(data, start.shape) or starts_take_longest(data, start.shape))


def _of_splits(data, splits):
    """The rows with the weights, and images, of some splits."""
    design = data.design
    if isinstance(design, Mapped):
        design = replace(design, maps=_take(design.maps, splits, axis=0))
    return replace(data, design=design, weights=_take(data.weights, splits, axis=0))


def _penalty_of(penalty, splits):
    return Penalty(*(_take(a, splits) for a in (penalty.l1, penalty.l2, penalty.used)))


def _take(values, splits, axis=1):
    """The entries for some splits; entries that all splits share do not change."""
    if values.shape[axis] == 1:
        return values
    xp = namespace(values)
    return xp.take(values, xp.asarray(splits, device=device_of(values)), axis=axis)


def _taken_over(outer, inner, W, places):
    """Models W (C, S, k, q) of outer splits, as vectors of the inner ones that they are nearest to.

    They are the same but where splits see images of the rows.
    """
    if not isinstance(outer.design, Mapped):
        return W
    xp = namespace(W)
    maps, own = _take(outer.design.maps, places, axis=0), inner.design.maps
    found = W @ (maps @ xp.linalg.pinv(own))
    return found if all_finite(found, xp) else W
