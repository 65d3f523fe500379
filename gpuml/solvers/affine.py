"""Affine maps of rows, one per training set, and the input of steps that find them.

Centring, scaling and projecting send a row x to ``x A + a``. Second moments of the images follow
from those of the rows, so a chain of such steps before a linear model needs the rows only once:
each step is fitted to moments that the steps before it have transformed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gpuml._arrays import Array, move, namespace, place_of
from gpuml._arrays.threads import threads_for_order
from gpuml.data import Batch, Rows, UnfittableSplits
from gpuml.designs._few_entries import both_sides, few_entries
from gpuml.solvers.extrema import Extrema
from gpuml.solvers.factors import ROUNDING, Stacked, about_mean, above, norms_of
from gpuml.solvers.moments import Moments, rounding


@dataclass(frozen=True)
class Affine:
    """Maps ``x -> x A + a`` of S parts: `matrix` (S, p, k) and `offset` (S, k), float64.

    `diagonal` says that all matrices are diagonal, whatever the rows.
    """

    matrix: Array
    offset: Array
    diagonal: bool = False

    def beside(self, like: Array) -> "Affine":
        """The same maps where an array is."""
        place = place_of(like)
        return Affine(move(self.matrix, place), move(self.offset, place), self.diagonal)

    def part(self, s: int) -> "Affine":
        """The map of one part."""
        one = slice(s, s + 1)
        return Affine(self.matrix[one, ...], self.offset[one, :], self.diagonal)

    def then(self, after: "Affine") -> "Affine":
        """Do this map, and then another one."""
        xp = namespace(self.matrix)
        moved = (self.offset[:, None, :] @ after.matrix)[:, 0, :]
        return Affine(
            xp.matmul(self.matrix, after.matrix),
            moved + after.offset,
            self.diagonal and after.diagonal,
        )


def _nobody_knows(s: int, B: Any = None) -> Any:
    raise NotImplementedError("Which rows a part has is not known here.")


@dataclass(frozen=True)
class Parts:
    """The input for fitting a step: training rows of S parts, transformed by earlier steps.

    Attributes
    ----------
    batch : Batch
        The rows as they came: where to work (`work`), and whose library and dtype fitted
        attributes are to be in (`home`, `X.dtype`).
    moments : Moments
        Of ``[x - c, y - d, 1]`` for the rows x that the step sees: gram (S, q, q), and a shift
        (c, d) of shape (q - 1,) or (S, q - 1).
    n_rows : tuple of S ints
        How many rows each part has.
    weighted : bool
        Whether the moments hold sample weights.
    stacked : callable
        ``stacked(s)`` are rows Z (m, q) that describe part s, found without forming ``Z' Z``:
        for steps that must not square the condition number. The first call may read the rows.
    extrema : callable or None
        ``extrema()`` are the smallest and largest values of the features; the first call may read
        the rows. None after a step that mixes features.
    rows : callable
        ``rows(s)`` are the rows of part s by their numbers in the batch.
    splits : slice or None
        The splits whose training parts these are; None for all rows.
    times : callable
        ``times(s, B)`` is ``X B`` (n_s, m), in CPU memory, for the rows X (n_s, p) of part s as the
        step sees them and a matrix (p, m). Each call reads the rows.
    widths : tuple of S ints, or None
        How many features each part has; what is beyond is 0. None for all features.
    """

    batch: Batch
    moments: Moments
    n_rows: tuple[int, ...]
    weighted: bool
    stacked: Callable[[int], Stacked]
    extrema: Callable[[], Extrema] | None = None
    rows: Callable[[int], Rows] = _nobody_knows
    splits: slice | None = None
    times: Callable[[int, Array], Array] = _nobody_knows
    widths: tuple[int, ...] | None = None

    @property
    def n_features(self) -> int:
        return self.moments.n_features

    def width(self, s: int) -> int:
        """How many features a part has."""
        return self.n_features if self.widths is None else self.widths[s]

    def each(self, function: Callable[[int], Any]) -> list[Any]:
        """The results of a function for the number of each part.

        Raises
        ------
        UnfittableSplits
            Where it raises a ValueError, by the numbers of the parts.
        """
        found, reasons = [], {}
        for s in range(len(self.n_rows)):
            try:
                found.append(function(s))
            except ValueError as error:
                reasons[s] = str(error)
        if reasons:
            raise UnfittableSplits(reasons)
        return found

    def through(self, step: Affine, widths: tuple[int, ...] | None = None) -> "Parts":
        """The same parts after one more step, whose output may have columns of some parts only."""
        xp = namespace(self.moments.gram)
        before, extrema, times = self.stacked, self.extrema, self.times
        if extrema is not None and step.diagonal:
            factor = xp.linalg.diagonal(step.matrix)
            after = partial(_scaled, extrema, factor, step.offset)
        else:
            after = None
        return replace(
            self,
            moments=transformed(self.moments, step),
            stacked=lambda s: stacked_image(before(s), step.part(s)),
            extrema=after,
            times=partial(_times_image, times, step),
            widths=self.widths if widths is None and step.diagonal else widths,
        )


def _times_image(times, step, s, B):
    """``(X A + a) B`` of one part."""
    maps = step.part(s).beside(B)
    return times(s, maps.matrix[0, ...] @ B) + maps.offset @ B


def _scaled(extrema, factor, offset):
    return extrema().scaled(factor, offset)


@dataclass(frozen=True)
class FittedStep:
    """A step fitted to S parts.

    Attributes
    ----------
    maps : Affine
    pick : callable
        ``pick(s)`` are the fitted attributes for part s, but for names and number of features.
    widths : tuple of S ints, or None
        How many columns of its output each part has; what is beyond is 0. None for all columns.
    places : tuple of S int arrays, or None
        Where levels stand apart, which are no part of the maps: where each column of the output is
        among what the maps make and those levels, which are counted from the end. Of a last step.
    """

    maps: Affine
    pick: Callable[[int], dict[str, Any]]
    widths: tuple[int, ...] | None = None
    places: tuple[Any, ...] | None = None


def transformed(moments: Moments, step: Affine) -> Moments:
    """Moments of the images of rows: gram (S, q', q') and shift (S, q' - 1).

    Rounding goes through the map too: the image of a constant feature is rounding alone, and its
    mean is 0, so that nothing but `noise` says so. It also counts what the products here add to
    directions in which the rows hardly vary.
    """
    xp = namespace(moments.gram)
    p = moments.n_features
    roots = xp.sqrt(rounding(moments))
    noise = (roots[:, None, :] @ xp.abs(step.matrix))[:, 0, :] ** 2
    change = _with_others(step.matrix, moments.gram.shape[-1] - p, xp)
    turned = xp.matrix_transpose(change)
    few = few_entries(turned)
    if few is None:
        with threads_for_order(moments.gram.shape[-1]):
            gram = turned @ moments.gram @ change
    else:
        gram = both_sides(few, moments.gram)
    n_parts = step.matrix.shape[0]
    shift = xp.broadcast_to(moments.shift, (n_parts, moments.shift.shape[-1]))
    image = (shift[:, None, :p] @ step.matrix)[:, 0, :] + step.offset
    noise = xp.concat([noise, xp.zeros_like(shift[:, p:])], axis=1)
    return Moments(gram, xp.concat([image, shift[:, p:]], axis=1), step.matrix.shape[-1], noise)


def _with_others(matrix: Array, n_others: int, xp: Any) -> Array:
    """Block-diagonal ``[A, I]`` (S, p + n_others, k + n_others): targets and the 1 stay."""
    n_parts, p, k = matrix.shape
    zero = {"dtype": matrix.dtype, "device": matrix.device}
    upper = xp.concat([matrix, xp.zeros((n_parts, p, n_others), **zero)], axis=2)
    eye = xp.broadcast_to(xp.eye(n_others, **zero), (n_parts, n_others, n_others))
    lower = xp.concat([xp.zeros((n_parts, n_others, k), **zero), eye], axis=2)
    return xp.concat([upper, lower], axis=1)


def stacked_image(stacked: Stacked, step: Affine) -> Stacked:
    """Rows that describe the image of one part: the map is the only one of `step`.

    What is rounding before or after the map is 0 in the image, or it would pass for a direction.
    """
    xp = namespace(stacked.rows)
    p, stacked = stacked.n_features, about_mean(stacked)
    matrix, size = step.matrix[0, ...], xp.abs(step.matrix[0, ...])
    features, others = stacked.rows[:, :p], stacked.rows[:, p:]
    rows = above(features @ matrix, norms_of(features, xp) @ size, xp)
    image = stacked.shift[:p] @ matrix + step.offset[0, :]
    level = xp.abs(stacked.shift[:p]) @ size + xp.abs(step.offset[0, :])
    image = xp.where(xp.abs(image) > ROUNDING * level, image, xp.zeros_like(image))
    shift = xp.concat([image, stacked.shift[p:]])
    return Stacked(xp.concat([rows, others], axis=1), shift, step.matrix.shape[-1])


def pulled_back(coef: Array, intercept: Array, maps: Affine) -> tuple[Array, Array]:
    """Models (C, S, t, k) of images as models (C, S, t, p) of the rows.

    Coefficients beyond those of the images are of columns that no map changes.
    """
    xp, maps = namespace(coef), maps.beside(coef)
    k = maps.matrix.shape[-1]
    own, rest = coef[..., :k], coef[..., k:]
    moved = xp.sum(own * maps.offset[:, None, :], axis=-1)
    own = own @ xp.matrix_transpose(maps.matrix)
    return xp.concat([own, rest], axis=-1) if rest.shape[-1] else own, intercept + moved


def dual(maps: Affine) -> Array:
    """Matrices (S, k + 1, p + 1) that make vectors [w, b] for images vectors for the rows."""
    xp = namespace(maps.matrix)
    like = {"dtype": maps.matrix.dtype, "device": maps.matrix.device}
    n_parts, p, _ = maps.matrix.shape  # there may be no column
    ends = [xp.zeros((n_parts, 1, p), **like), xp.ones((n_parts, 1, 1), **like)]
    last = xp.concat(ends, axis=-1)
    upper = xp.concat([xp.matrix_transpose(maps.matrix), maps.offset[..., None]], axis=-1)
    return xp.concat([upper, last], axis=1)
