"""What workers do with a strip: the chunks of some rows of a matrix, or some columns of a wide one.

Visits go over the long side of a matrix. A strip is a share of it, all of the short side included:
the chunks of some rows, one beside the other, and for a matrix with more columns than rows the
chunks of some columns, one below the other, which count as rows then. With B the strip that way
round, a visit is ``Y = B Q`` and ``B' Y``, chunk by chunk: nothing is joined, and nothing widened
but blocks that stay in cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import Array, Place, compute_place, itemsize, move, namespace, nbytes, place_of
from gpuml.encodings import Packed, products
from gpuml.reading.sources import Source
from gpuml.reading.streams import at_place, blocks, parts_of
from gpuml.reading.visits import SHIFT_ROWS, as_codes, check_sums
from gpuml.solvers import row_products
from gpuml.solvers._blocks import quiet
from gpuml.solvers.row_products import gram, over_rows
from gpuml.solvers.standard import Rule, Standard, Sums, standard_of

Block = Any  # an array, or Packed

MISSING_UNSEEN = (
    "Some chunks are packed codes that may have missing values, and the meta of the dask array "
    "does not say so. Make them with x.map_blocks(pack), or pass such a chunk as meta=."
)


class Share(NamedTuple):
    """Sums of a visit over the long side, float64: as `gpuml.solvers.row_products.Visit`, and one.

    Attributes
    ----------
    Z : array (p, l)
        ``B' B Q``.
    G : array (l, l)
        ``Q' B' B Q``.
    ones : array (l,)
        ``1' B Q``.
    """

    Z: Array
    G: Array
    ones: Array

    def plus(self, other: "Share") -> "Share":
        """Both, of the strips of either."""
        return Share(self.Z + other.Z, self.G + other.G, self.ones + other.ones)


@dataclass(frozen=True)
class Strip:
    """Chunks (in order along the short side), and how their features are standardised.

    Attributes
    ----------
    chunks : sequence of arrays or Packed
        Of the matrix as the user has it.
    is_wide : bool
        Whether the strip is of columns.
    standard : Standard
        Of all features of the chunks, wherever; empty until it is found.
    is_summed : bool
        Whether features were summed for it, so that missing values are known.
    device : {"auto", "cpu", "cuda"}
        gpuml's setting where the strip was made.
    block_bytes : int or None
        The same.
    """

    chunks: Sequence[Block]
    is_wide: bool
    standard: Standard = field(default_factory=Standard)
    is_summed: bool = False
    device: str = "auto"
    block_bytes: int | None = None

    @property
    def length(self) -> int:
        """Its share of the long side."""
        return int(self.chunks[0].shape[1 if self.is_wide else 0])

    @property
    def spans(self) -> list[slice]:
        """What each chunk has of the short side."""
        ends = list(accumulate(chunk.shape[0 if self.is_wide else 1] for chunk in self.chunks))
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    @property
    def home(self) -> Place:
        """Where its chunks are."""
        return place_of(_data(self.chunks[0]))

    @property
    def work(self) -> Place:
        """Where they are worked on: on a GPU if there is one and settings do not say otherwise."""
        n_bytes = sum(nbytes(_data(chunk)) for chunk in self.chunks)
        return compute_place(_data(self.chunks[0]), n_bytes, self.device)

    def members(self) -> Iterator[tuple[Block, slice, Standard]]:
        """Chunks, their spans of the short side, and how their features are standardised."""
        for chunk, span in zip(self.chunks, self.spans, strict=True):
            if isinstance(chunk, Packed) and chunk.missing and not self.is_summed:
                raise TypeError(MISSING_UNSEEN)
            yield chunk, span, self.standard if self.is_wide else _part(self.standard, span)


def _part(standard, features):
    centre, factor, fill = (
        None if values is None else values[features]
        for values in (standard.centre, standard.factor, standard.fill)
    )
    return Standard(centre, factor, fill, standard.dtype)


def _data(chunk):
    return chunk.data if isinstance(chunk, Packed) else chunk


# ---------------------------------------------------------------- products


def visit(strip: Strip, Q: Array) -> Share:
    """The share of a strip in a visit, for Q (p, l)."""
    Q, strip = _together(Q, strip)
    with quiet():  # whether all is finite, the sums tell
        return _visit(strip, Q)


def _visit(strip, Q):
    if len(strip.chunks) == 1 and not strip.is_wide:
        return _visit_of_one(strip, Q)
    Y = _times(strip, Q)
    return Share(_times_transposed(strip, Y), gram(Y), _sum(Y))


def _visit_of_one(strip, Q):
    """One chunk of rows: both products of each block while it is there."""
    ((chunk, _, standard),) = strip.members()
    total: Share | None = None
    for _, block in _blocks(strip, chunk, place_of(Q)):
        found, Y = row_products.visit(block, Q, standard)
        share = Share(found.Z, found.G, _sum(Y))
        total = share if total is None else total.plus(share)
    assert total is not None
    return total


def image(strip: Strip, W: Array) -> Array:
    """``B W``, the rows of a strip, in the dtype of the arithmetic, where the chunks are."""
    W, strip = _together(W, strip)
    xp = namespace(W)
    with quiet():
        Y = xp.astype(_times(strip, W), getattr(xp, strip.standard.dtype), copy=False)
    return move(Y, strip.home)


def transposed_image(strip: Strip, Y: Array) -> Array:
    """``B' Y``, float64, where it was worked on."""
    Y, strip = _together(Y, strip)
    with quiet():
        return _times_transposed(strip, Y)


def squared_lengths(strip: Strip, W: Array) -> Array:
    """Share of a strip in the squared lengths of the columns of ``B W``, float64."""
    W, strip = _together(W, strip)
    xp = namespace(W)
    return xp.sum(xp.astype(_times(strip, W), xp.float64, copy=False) ** 2, axis=0)


def _together(W, strip):
    W = move(W, strip.work)
    return W, replace(strip, standard=strip.standard.beside(W))


def _times(strip, W):
    """``B W``."""
    total = None
    for chunk, span, standard in strip.members():
        product = _transposed if strip.is_wide else _product
        found = product(strip, chunk, W[span, :], standard)
        total = found if total is None else total + found
    return total


def _times_transposed(strip, Y):
    """``B' Y``, float64."""
    xp = namespace(Y)
    product = _product if strip.is_wide else _transposed
    found = [product(strip, chunk, Y, standard) for chunk, _, standard in strip.members()]
    return xp.astype(xp.concat(found), xp.float64, copy=False)


def _product(strip, chunk, W, standard):
    """``A W`` of a chunk A, where W is, in the dtype of the arithmetic."""
    xp = namespace(W)
    parts = _blocks(strip, chunk, place_of(W))
    return xp.concat([row_products.image(block, W, standard) for _, block in parts])


def _transposed(strip, chunk, Y, standard):
    """``A' Y`` of a chunk A, where Y is, float64."""
    total = None
    for rows, block in _blocks(strip, chunk, place_of(Y)):
        of_block = _transposed_packed if isinstance(block, Packed) else _transposed_dense
        found = of_block(block, Y[rows, :], standard)
        total = found if total is None else total + found
    return total


def _transposed_dense(block, Y, standard):
    xp = namespace(Y)
    work = getattr(xp, standard.dtype)
    Y = xp.astype(Y, work, copy=False)

    def product(rows, part):
        A = row_products.standardised(rows, standard, work, xp)
        return xp.astype(A.T @ Y[part, :], xp.float64, copy=False)

    return over_rows(block, product, lambda a, b: a + b, Y.shape[1])


def _transposed_packed(block, Y, standard):
    xp = namespace(Y)
    narrow = xp.astype(Y, getattr(xp, standard.dtype), copy=False)
    Z, marked = products.backward(block, narrow, standard.fill is not None)
    return row_products.with_terms(Z, marked, narrow, standard)


def _sum(Y):
    xp = namespace(Y)
    return xp.sum(xp.astype(Y, xp.float64, copy=False), axis=0)


# ---------------------------------------------------------------- sums over features


def first_means(strip: Strip) -> Array:
    """Means of features over the first rows: near those of all, so that squares stay small."""
    if strip.is_wide:
        return _first_means(strip.chunks[0])
    xp = strip.home.xp
    return xp.concat([_first_means(chunk) for chunk in strip.chunks])


def _first_means(chunk):
    data = _data(chunk)
    xp = namespace(data)
    if isinstance(chunk, Packed):  # counted exactly
        return xp.zeros(chunk.shape[1], dtype=xp.float64, device=data.device)
    with quiet():
        return xp.mean(xp.astype(chunk[: min(SHIFT_ROWS, chunk.shape[0]), ...], xp.float64), axis=0)


def sums(strip: Strip, shift: Array) -> Sums:
    """Sums over what a strip has of each feature; of squares, of values less `shift`."""
    shift = move(shift, strip.work)
    with quiet():
        return _sums_of_strip(strip, shift)


def _sums_of_strip(strip, shift):
    if not strip.is_wide:
        found = [
            _sums_of_chunk(strip, chunk, shift[span])
            for chunk, span in zip(strip.chunks, strip.spans, strict=True)
        ]
        return Sums(*(namespace(shift).concat(column) for column in zip(*found, strict=True)))
    return reduce(Sums.plus, [_sums_of_chunk(strip, chunk, shift) for chunk in strip.chunks])


def _sums_of_chunk(strip, chunk, shift):
    found = _blocks(strip, chunk, place_of(shift))
    return reduce(Sums.plus, [row_products.sums_of(block, shift) for _, block in found])


def no_shift(n: int) -> np.ndarray:
    """Nothing subtracted from features, (n,)."""
    return np.zeros(n)


def standard_from(rule: Rule, found: Sums | None, shift: Array, n_rows: int) -> Standard:
    """What a rule comes to; see `gpuml.solvers.standard.standard_of`.

    Raises
    ------
    ValueError
        If there are nan or infinite values, too.
    """
    if found is not None:
        check_sums(found)
    return standard_of(rule, found, shift, n_rows)


def standard_of_strip(strip: Strip, rule: Rule, needs_sums: bool) -> Standard:
    """The standard of the features of a wide strip, which has all of each of them.

    Parameters
    ----------
    strip : Strip
    rule : Rule
        Of its features.
    needs_sums : bool
        Whether they have to be summed.
    """
    shift = first_means(strip) if needs_sums else no_shift(strip.length)
    n_rows = strip.spans[-1].stop
    return standard_from(rule, sums(strip, shift) if needs_sums else None, shift, n_rows)


# ---------------------------------------------------------------- blocks of a chunk


def _blocks(strip: Strip, chunk: Block, place: Place) -> Iterator[tuple[slice, Block]]:
    """Blocks of rows of a chunk, at a place: the chunk itself where it is there."""
    data = _data(chunk)
    if place_of(data) == place or place.is_host:
        yield slice(0, chunk.shape[0]), as_codes(at_place(chunk, place))
        return
    row_bytes = data.shape[1] * itemsize(data.dtype)
    source = Source(
        chunk.shape, False, chunk.__getitem__, place_of(data), row_bytes, 1, False, chunk
    )
    parts = parts_of(source, place, strip.block_bytes)
    for part, block in blocks(source, parts, place):
        yield part, as_codes(block)
