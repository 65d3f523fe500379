r"""Lasso and elastic net of every penalty on every split from one pass over the rows.

For each split and each (alpha, l1_ratio), with W the sum of the training weights, a model minimises

    1/(2 W) sum_i w_i (y_i - x_i' v - b)^2 + alpha ( l1_ratio |v|_1 + (1 - l1_ratio) |v|^2 / 2 ) .

Centred moments H = sum w (x - m)(x - m)' / W and g = sum w (x - m)(y - n) / W hold all that the
problem needs. `solvers.sparse_paths` solves it on a CPU, where moments of no more than 2,048
features are brought from a GPU, too, `solvers.prox` elsewhere. Where moments of
all features would be too many, `solvers.working_set` keeps those of some, or has them made of rows.

References
----------
R. Tibshirani, "Regression shrinkage and selection via the lasso", J. R. Stat. Soc. B 58 (1996).
H. Zou, T. Hastie, "Regularization and variable selection via the elastic net", J. R. Stat. Soc. B
67 (2005). S.-J. Kim, K. Koh, M. Lustig, S. Boyd, D. Gorinevsky, "An interior-point method for
large-scale l1-regularized least squares", IEEE J. Sel. Top. Signal Process. 1 (2007), for the gap.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    device_of,
    is_numpy,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import EPS, constant
from gpuml._arrays.threads import threads_for_order
from gpuml.data import Folds
from gpuml.solvers._path_sources import OfMatrix
from gpuml.solvers._result import LinearModels, Path, Status, in_order, joined
from gpuml.solvers.described import Described, describe, training_parts
from gpuml.solvers.described import all_rows as everything
from gpuml.solvers.moments import Moments, normal_equations
from gpuml.solvers.prox import minimise_path
from gpuml.solvers.sparse_paths import follow

# Workspace for the matrices of several splits at once.
MATRIX_BYTES = {True: 2**28, False: 2**32}
# Features up to which paths from moments on a GPU are followed in CPU memory: a path is one change
# of signs after the other, each of which is dozens of launches there and a few vectors here.
MOST_FEATURES_HERE = 2048
# The accuracy of the solvers: systems on the signs of a model are exact, so it costs little.
VIOLATION = 1e-12


@dataclass(frozen=True)
class Penalties:
    """Of C candidates: alpha, l1_ratio and fit_intercept, host arrays (C,)."""

    alpha: np.ndarray
    l1_ratio: np.ndarray
    fit_intercept: np.ndarray

    def of(self, index: Any) -> "Penalties":
        """Those of some candidates."""
        return Penalties(self.alpha[index], self.l1_ratio[index], self.fit_intercept[index])

    def __len__(self):
        return len(self.alpha)

    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (C,) of the l1 and of the l2 part."""
        return self.alpha * self.l1_ratio, self.alpha * (1 - self.l1_ratio)

    def paths(self) -> Iterator[tuple[bool, np.ndarray]]:
        """`fit_intercept` and numbers of candidates that make a path, from strong to weak.

        Those with an intercept, those of an l1_ratio, and those without an l1 part are apart.
        """
        groups: dict[tuple[bool, float, bool], list[int]] = {}
        has_l1 = (self.parts()[0] > 0).tolist()
        kinds = zip(self.fit_intercept.tolist(), self.l1_ratio.tolist(), has_l1, strict=True)
        for number, kind in enumerate(kinds):
            groups.setdefault(kind, []).append(number)
        for kind in sorted(groups):
            some = np.asarray(groups[kind])
            yield kind[0], some[np.argsort(-self.alpha[some], kind="stable")]


@dataclass(frozen=True, kw_only=True)
class SparseModels(LinearModels):
    """Models (C, S) with the iterations they took, and how far from optimal they are.

    Attributes
    ----------
    n_iter : int ndarray (C, S, t), host
    gap : array (C, S, t)
        Duality gap of the objective above.
    y_square : array (C, S, t)
        Weighted mean of the squares of the centred targets: the unit of tolerances of the gap.
    violation : array (C, S, t)
        Relative violation of the optimality conditions.
    """

    n_iter: np.ndarray
    gap: Array
    y_square: Array
    violation: Array

    def converged(self, tol: float) -> np.ndarray:
        """Bool ndarray (C, S, t), host: gap at most tol x y_square, or as small as rounding."""
        xp = namespace(self.gap)
        limit = (tol + 8 * EPS) * self.y_square
        return to_host((self.gap <= limit) | (xp.abs(self.violation) <= 4 * VIOLATION))


def describe_columns(
    folds: Folds,
    columns: np.ndarray | None = None,
    *,
    block_bytes: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> Described:
    """Moments of some columns (None: all of them) for each partition, in one pass each."""
    if columns is not None:
        batch = folds.batch
        xp = namespace(batch.X)
        index = xp.asarray(columns, device=device_of(batch.X))
        some = replace(batch, X=xp.take(batch.X, index, axis=1))
        folds = replace(folds, batch=some, known={})
    # Slopes of the columns that these leave out are sums over rows on the device.
    return describe(folds, block_bytes=block_bytes, advance=advance, by_features=True, at_work=True)


def solve_described(
    described: Described,
    penalties: Penalties,
    max_iter: int,
    start: Array | None = None,
    all_rows: bool = False,
) -> SparseModels:
    """Models of all candidates on the training part of every split.

    Parameters
    ----------
    described : Described
        With moments.
    penalties : Penalties
    max_iter : int
    start : array (C, S, t, p), optional
        Coefficients to start from, or what broadcasts to them.
    all_rows : bool, default=False
        Whether to fit all rows, as one split, instead.

    Returns
    -------
    SparseModels
    """
    folds = described.folds
    jobs = [everything(folds)] if all_rows else training_parts(folds)
    found, first = [], 0
    for parts in jobs:
        step = _splits_at_once(described)
        for i in range(0, len(parts), step):
            some = described.combined(parts.parts(i, i + step))
            place = slice(first, first + some.gram.shape[0])
            found.append(_solve_nearby(some, penalties, max_iter, start, place))
            first = place.stop
    return joined(found, axis=1)


def _solve_nearby(total, penalties, max_iter, start, splits):
    """As `_solve_parts`, but in CPU memory if that is faster; models are where the moments are."""
    place = place_of(total.gram)
    if place.is_host or total.n_features > MOST_FEATURES_HERE:
        return _solve_parts(total, penalties, max_iter, start, splits)
    start = None if start is None else to_host(start)
    return at_place(_solve_parts(total.to(HOST), penalties, max_iter, start, splits), place)


def at_place(models: SparseModels, place: Place) -> SparseModels:
    """Models in CPU memory with their arrays moved to a place."""
    names = ("coef", "intercept", "gap", "y_square", "violation")
    # PyTorch takes no arrays that cannot be written.
    arrays = {name: np.require(getattr(models, name), requirements="W") for name in names}
    return replace(models, **{name: move(array, place) for name, array in arrays.items()})


def _splits_at_once(described):
    q = described.n_features + described.folds.batch.y.shape[1] + 1
    is_host = described.place.kind != "cupy"
    return max(1, MATRIX_BYTES[is_host] // (8 * q * q * 5))


def _solve_parts(total, penalties, max_iter, start, splits):
    """Candidates that differ in alpha alone follow one path."""
    found, places = [], []
    xp = namespace(total.gram)
    if start is not None:
        p = total.n_features
        shape = (len(penalties), splits.stop, total.shift.shape[-1] - p, p)
        if start.ndim < 4 or start.shape[1] == 1:
            start = xp.broadcast_to(start, shape)
        start = start[:, splits, ...]
    for fit_intercept, group in groupby(penalties.paths(), itemgetter(0)):
        problem = standardise(total, fit_intercept)
        for _, place in group:
            begin = start
            if start is not None:
                begin = xp.take(start, xp.asarray(place, device=device_of(start)), axis=0)
            found.append(_solve_path(problem, penalties.of(place), max_iter, begin))
            places.append(place)
    return in_order(found, places)


@dataclass(frozen=True)
class Standard:
    """Centred moments per unit of weight: H (S, p, p), g (S, t, p), y_square (S, t), means.

    H is None where rows stand in for it.
    """

    H: Array | None
    g: Array
    y_square: Array
    x_mean: Array
    y_mean: Array
    weight: Array


def standardise(moments: Moments, fit_intercept: bool) -> Standard:
    """What the objective at the top of this module is a function of."""
    xp = namespace(moments.gram)
    p = moments.n_features
    t = moments.shift.shape[-1] - p
    weight = moments.gram[:, -1, -1]
    # With y among the features, this also gives its centred squares.
    normal = normal_equations(replace(moments, n_features=p + t), fit_intercept)
    W = weight[:, None, None]
    H = normal.xx[:, :p, :p] / W
    g = xp.matrix_transpose(normal.xx[:, :p, p:]) / W
    # A column that is constant up to rounding has no direction.
    known = xp.linalg.diagonal(normal.xx) > normal.noise
    known = known[:, :p]
    H = xp.where(known[:, :, None] & known[:, None, :], H, xp.zeros_like(H))
    g = xp.where(known[:, None, :], g, xp.zeros_like(g))
    squares = xp.linalg.diagonal(normal.xx)[:, p:] / weight[:, None]
    squares = xp.where(squares > 0, squares, xp.zeros_like(squares))
    mean = normal.x_mean
    return Standard(H, g, squares, mean[:, :p], mean[:, p:], weight)


def _solve_path(problem, penalties, max_iter, start):
    l1, l2 = penalties.parts()
    options = {"tol": VIOLATION, "max_iter": max_iter}
    if is_numpy(problem.g) and (l1 > 0).all():
        S, t = problem.g.shape[:2]
        with threads_for_order(problem.g.shape[-1]):
            paths = [
                follow(
                    OfMatrix(problem.H[i], problem.g[i, j]),
                    l1,
                    l2,
                    None if start is None else start[:, i, j],
                    **options,
                )
                for i, j in np.ndindex(S, t)
            ]
        return models_of(problem, Path.stacked(paths, (S, t)), l1, l2)
    v, violation, n_iter = minimise_path(problem.H, problem.g, l1, l2, start, **options)
    slopes = problem.g - v @ problem.H[None, ...]
    return models_of(problem, Path(v, slopes, n_iter, violation), l1, l2)


def models_of(problem: Standard, path: Path, l1: np.ndarray, l2: np.ndarray) -> SparseModels:
    """The models (C, S, t, p) of a path, with intercepts and gaps."""
    xp, v = namespace(problem.g), path.v
    return SparseModels(
        coef=v,
        intercept=problem.y_mean - xp.sum(v * problem.x_mean[:, None, :], axis=-1),
        status=np.full(v.shape[:2], Status.MOMENTS, dtype=int),
        n_iter=path.n_iter,
        gap=duality_gap(problem, v, path.slopes, l1, l2),
        y_square=xp.broadcast_to(problem.y_square[None, ...], path.violation.shape),
        violation=path.violation,
    )


def duality_gap(
    problem: Standard, v: Array, slopes: Array, l1: np.ndarray, l2: np.ndarray
) -> Array:
    """Duality gaps (C, S, t), in the unit of the objective.

    Of coefficients (C, S, t, p), where ``g - H v`` has the given values. With residuals
    r = y - Xv the dual point is r scaled into ``|X'r - l2 v| <= l1``. Without an l1 part, the
    conjugate of the l2 part is used; with neither, the squared gradient stands in.
    """
    xp = namespace(v)
    one, two = (constant(x, like=v, xp=xp)[:, None, None] for x in (l1, l2))
    y_square = problem.y_square
    along = y_square - xp.sum(v * problem.g, axis=-1)  # r'y
    squares = along - xp.sum(v * slopes, axis=-1)  # r'r
    norm = xp.max(xp.abs(slopes - two[..., None] * v), axis=-1)
    sizes = xp.sum(v**2, axis=-1)
    ridge = squares + two * sizes
    scale = xp.where(norm > one, one / xp.where(norm > 0, norm, 1.0), xp.ones_like(norm))
    gap = 0.5 * (1 + scale**2) * ridge + one * xp.sum(xp.abs(v), axis=-1) - scale * along
    gradient = xp.sum(slopes**2, axis=-1)
    safe = xp.where(two > 0, two, xp.ones_like(two))
    no_l1 = squares + 0.5 * two * sizes - along + 0.5 * gradient / safe
    least = gradient * problem.weight[:, None]
    gap = xp.where(one > 0, gap, xp.where(two > 0, no_l1, least))
    return xp.where(gap > 0, gap, xp.zeros_like(gap))
