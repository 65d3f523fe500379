"""A matrix that is read again and again, block by block, each time for sums over its rows."""

from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, namespace, place_of, to_host
from gpuml._arrays.ops import all_finite, any_true
from gpuml.encodings import Packed
from gpuml.reading.sources import Source
from gpuml.reading.streams import blocks
from gpuml.solvers import feature_rows, row_products
from gpuml.solvers._blocks import quiet
from gpuml.solvers.compressed import NOT_FINITE, TooSmall
from gpuml.solvers.row_products import Visit
from gpuml.solvers.standard import Rule, Standard, Sums, standard_of

# Rows whose mean is near enough to that of all rows for squares about it to stay small.
SHIFT_ROWS = 256


class Visits:
    """Visits of a matrix; see `gpuml.solvers.compressed`.

    Parameters
    ----------
    source : Source
    parts : list of slice
        The blocks.
    place : Place
        Where they are worked on.
    rule : Rule
        How features are standardised.
    bar : object
        Its ``advance()`` is called after each block.
    with_sums : bool, default=False
        Whether features are summed even if nothing here needs it.

    Attributes
    ----------
    images : list of arrays (n_b, l)
        ``A Q`` of the last visit, block by block.
    sums : Sums or None
        Of the features, if they were summed.
    shift : array (p,)
        What was subtracted before squaring, if features are columns or were summed.
    place : Place
    """

    def __init__(
        self,
        source: Source,
        parts: list[slice],
        place: Place,
        rule: Rule,
        bar: Any,
        *,
        with_sums: bool = False,
    ):
        self._source, self._parts, self.place, self._bar = source, parts, place, bar
        self._rule = rule
        self.images: list[Array] = []
        self.sums: Sums | None = None
        self.shift = place.xp.zeros(source.width, dtype=place.xp.float64, device=place.device)
        self._standard: Standard | None = None
        if source.by_columns and with_sums:
            self._sum_features()
        if not source.by_columns:
            if with_sums or rule.needs_sums or source.may_miss:
                self._sum()
            self._standard = standard_of(rule, self.sums, self.shift, source.length)

    def visit(self, Q: Array) -> Visit:
        """Sums over all rows."""
        self.images, total = [], None
        with quiet():  # whether all is finite, the sums tell
            for part, block in self._blocks():
                if self._standard is None:
                    found, Y = feature_rows.visit(block, Q, self._rule.part(part))
                else:
                    found, Y = row_products.visit(block, Q, self._standard)
                self.images.append(Y)
                total = found if total is None else total.plus(found)
        assert total is not None
        self._demand_squares(total)
        return total

    def _demand_squares(self, total):
        xp = namespace(total.G)
        if any_true(total.G != 0, xp):
            return
        if any(any_true(Y != 0, xp) for Y in self.images):
            raise TooSmall(self._rule.dtype)

    def left(self, turn: Array) -> Array:
        """Left vectors (n, k) from the images of the last visit, which are then let go."""
        images, self.images = self.images, []
        xp = namespace(turn)
        turn = xp.astype(turn, images[0].dtype, copy=False)
        return xp.concat([Y @ turn for Y in images])

    def squared_lengths(self, W: Array) -> np.ndarray:
        """Of the columns of ``A W``, in CPU memory."""
        xp = namespace(W)
        total = np.zeros(W.shape[1])
        for part, block in self._blocks():
            if self._standard is None:
                Y = feature_rows.image(block, W, self._rule.part(part))
            else:
                Y = row_products.image(block, W, self._standard)
            total += to_host(xp.sum(xp.astype(Y, xp.float64, copy=False) ** 2, axis=0))
        return total

    def _blocks(self):
        for part, block in blocks(self._source, self._parts, self.place):
            yield part, as_codes(block)
            self._bar.advance()

    def _sum(self):
        for _, block in self._blocks():
            with quiet():
                if self.sums is None and not isinstance(block, Packed):
                    self.shift = mean_of_first(block)
                found = row_products.sums_of(block, self.shift)
                self.sums = found if self.sums is None else self.sums.plus(found)
        assert self.sums is not None
        check_sums(self.sums)

    def _sum_features(self):
        """The same where rows of blocks are features."""
        with quiet():
            found = [feature_rows.sums_of(block) for _, block in self._blocks()]
        sums, shifts = zip(*found, strict=True)
        xp = self.place.xp
        self.sums = Sums(*(xp.concat(column) for column in zip(*sums, strict=True)))
        self.shift = xp.concat(shifts)
        check_sums(self.sums)


def mean_of_first(block: Array) -> Array:
    """Means (p,) of the first rows, float64: near those of all."""
    xp = namespace(block)
    first = block[: min(SHIFT_ROWS, block.shape[0]), ...]
    return xp.mean(xp.astype(first, xp.float64), axis=0)


def check_sums(sums: Sums) -> None:
    """Complain of rows whose sums are not finite."""
    xp = namespace(sums.total)
    if not all_finite(sums.total, xp):
        raise ValueError(NOT_FINITE)


def as_codes(block: Any) -> Any:
    """Bytes on a GPU as codes: their products read bytes, and nothing is widened."""
    if isinstance(block, Packed) or place_of(block).kind != "cupy" or str(block.dtype) != "uint8":
        return block
    if not block.flags.c_contiguous:
        return block
    return Packed(block, block.shape[1], bits=8, missing=False)
