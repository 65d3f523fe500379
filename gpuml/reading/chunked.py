"""Runs of rows that are several chunks beside each other: sums of visits, images, standards.

Visits go over the long side of a matrix. A run is some neighbours on it, all of the short side too:
the chunks of some rows, one beside the other, and for a matrix with more columns than rows the
chunks of some columns, one below the other, which count as rows then. With B the run that way
round, a visit is ``Y = B Q`` and ``B' Y``, chunk by chunk: nothing is joined, and nothing widened
but blocks that stay in cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, compute_place, move, namespace, nbytes, place_of
from gpuml.encodings import Packed, products
from gpuml.reading.sources import source_of
from gpuml.reading.streams import at_place, blocks, parts_of
from gpuml.reading.visits import as_codes, check_sums, mean_of_first
from gpuml.solvers import row_products
from gpuml.solvers._blocks import quiet
from gpuml.solvers.row_products import Visit, over_rows
from gpuml.solvers.standard import Rule, Standard, Sums, standard_of

Block = Any  # an array, or Packed

MISSING_UNSEEN = (
    "Some chunks are packed codes that may have missing values, and the meta of the dask array "
    "does not say so. Make them with x.map_blocks(pack), or pass such a chunk as meta=."
)


@dataclass(frozen=True)
class Chunked:
    """Chunks (in order along the short side), and how their features are standardised.

    Attributes
    ----------
    chunks : sequence of arrays or Packed
        Of the matrix as the user has it.
    is_wide : bool
        Whether the run is of columns.
    standard : Standard
        Of all features of the chunks, wherever; empty until it is found.
    is_summed : bool
        Whether features were summed for it, so that missing values are known.
    device : {"auto", "cpu", "cuda"}
        gpuml's setting where the run was made.
    block_bytes : int or None
        The same.
    at : Place or None
        Where it is worked on, if that is decided.
    """

    chunks: Sequence[Block]
    is_wide: bool
    standard: Standard = field(default_factory=Standard)
    is_summed: bool = False
    device: str = "auto"
    block_bytes: int | None = None
    at: Place | None = None

    @property
    def length(self) -> int:
        """How many rows it has, or columns if it is wide."""
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
        if self.at is not None:
            return self.at
        n_bytes = sum(nbytes(_data(chunk)) for chunk in self.chunks)
        return compute_place(_data(self.chunks[0]), n_bytes, self.device)

    def members(self) -> Iterator[tuple[Block, slice, Standard]]:
        """Chunks, their spans of the short side, and how their features are standardised."""
        for chunk, span in zip(self.chunks, self.spans, strict=True):
            if isinstance(chunk, Packed) and chunk.missing and not self.is_summed:
                raise TypeError(MISSING_UNSEEN)
            yield chunk, span, self.standard if self.is_wide else self.standard.part(span)


def _data(chunk):
    return chunk.data if isinstance(chunk, Packed) else chunk


# ---------------------------------------------------------------- products


def visit(run: Chunked, Q: Array) -> Visit:
    """What a run adds to a visit, for Q (p, l)."""
    Q, run = _together(Q, run)
    with quiet():  # whether all is finite, the sums tell
        return _visit(run, Q)


def _visit(run, Q):
    if len(run.chunks) == 1 and not run.is_wide:
        return _visit_of_one(run, Q)
    Y = _times(run, Q)
    return Visit.of(_times_transposed(run, Y), Y)


def _visit_of_one(run, Q):
    """One chunk of rows: both products of each block while it is there."""
    ((chunk, _, standard),) = run.members()
    found = _blocks(run, chunk, place_of(Q))
    return reduce(Visit.plus, [row_products.visit(block, Q, standard)[0] for _, block in found])


def image(run: Chunked, W: Array) -> Array:
    """``B W``, the rows of a run, in the dtype of the arithmetic, where the chunks are."""
    W, run = _together(W, run)
    xp = namespace(W)
    with quiet():
        Y = xp.astype(_times(run, W), getattr(xp, run.standard.dtype), copy=False)
    return move(Y, run.home)


def transposed_image(run: Chunked, Y: Array) -> Array:
    """``B' Y``, float64, where it was worked on."""
    Y, run = _together(Y, run)
    with quiet():
        return _times_transposed(run, Y)


def squared_lengths(run: Chunked, W: Array) -> Array:
    """What a run adds to the squared lengths of the columns of ``B W``, float64."""
    W, run = _together(W, run)
    xp = namespace(W)
    return xp.sum(xp.astype(_times(run, W), xp.float64, copy=False) ** 2, axis=0)


def _together(W, run):
    W = move(W, run.work)
    return W, replace(run, standard=run.standard.beside(W))


def _times(run, W):
    """``B W``."""
    total = None
    for chunk, span, standard in run.members():
        product = _transposed if run.is_wide else _product
        found = product(run, chunk, W[span, :], standard)
        total = found if total is None else total + found
    return total


def _times_transposed(run, Y):
    """``B' Y``, float64."""
    xp = namespace(Y)
    product = _product if run.is_wide else _transposed
    found = [product(run, chunk, Y, standard) for chunk, _, standard in run.members()]
    return xp.astype(xp.concat(found), xp.float64, copy=False)


def _product(run, chunk, W, standard):
    """``A W`` of a chunk A, where W is, in the dtype of the arithmetic."""
    xp = namespace(W)
    parts = _blocks(run, chunk, place_of(W))
    return xp.concat([row_products.image(block, W, standard) for _, block in parts])


def _transposed(run, chunk, Y, standard):
    """``A' Y`` of a chunk A, where Y is, float64."""
    total = None
    for rows, block in _blocks(run, chunk, place_of(Y)):
        of_block = _transposed_packed if isinstance(block, Packed) else _transposed_dense
        found = of_block(block, Y[rows, :], standard)
        total = found if total is None else total + found
    return total


def _transposed_dense(block, Y, standard):
    xp = namespace(Y)
    work = getattr(xp, standard.dtype)
    Y = xp.astype(Y, work, copy=False)

    def product(rows, part):
        A = row_products.standardised(rows, standard, work)
        return xp.astype(A.T @ Y[part, :], xp.float64, copy=False)

    return over_rows(block, product, lambda a, b: a + b, Y.shape[1])


def _transposed_packed(block, Y, standard):
    xp = namespace(Y)
    narrow = xp.astype(Y, getattr(xp, standard.dtype), copy=False)
    Z, marked = products.backward(block, narrow, standard.fill is not None)
    return row_products.with_terms(Z, marked, narrow, standard)


# ---------------------------------------------------------------- sums over features


def first_means(run: Chunked) -> Array:
    """Means of features over the first rows: near those of all, so that squares stay small."""
    if run.is_wide:
        return _first_means(run.chunks[0])
    xp = run.home.xp
    return xp.concat([_first_means(chunk) for chunk in run.chunks])


def _first_means(chunk):
    data = _data(chunk)
    xp = namespace(data)
    if isinstance(chunk, Packed):  # counted exactly
        return xp.zeros(chunk.shape[1], dtype=xp.float64, device=data.device)
    with quiet():
        return mean_of_first(chunk)


def sums(run: Chunked, shift: Array) -> Sums:
    """Sums over what a run has of each feature; of squares, of values less `shift`."""
    shift = move(shift, run.work)
    with quiet():
        return _sums_of_run(run, shift)


def _sums_of_run(run, shift):
    if not run.is_wide:
        found = [
            _sums_of_chunk(run, chunk, shift[span])
            for chunk, span in zip(run.chunks, run.spans, strict=True)
        ]
        return Sums(*(namespace(shift).concat(column) for column in zip(*found, strict=True)))
    return reduce(Sums.plus, [_sums_of_chunk(run, chunk, shift) for chunk in run.chunks])


def _sums_of_chunk(run, chunk, shift):
    found = _blocks(run, chunk, place_of(shift))
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


def standard_of_run(run: Chunked, rule: Rule, needs_sums: bool) -> Standard:
    """The standard of the features of a wide run, which has all of each of them.

    Parameters
    ----------
    run : Chunked
    rule : Rule
        Of its features.
    needs_sums : bool
        Whether they have to be summed.
    """
    shift = first_means(run) if needs_sums else no_shift(run.length)
    n_rows = run.spans[-1].stop
    return standard_from(rule, sums(run, shift) if needs_sums else None, shift, n_rows)


# ---------------------------------------------------------------- blocks of a chunk


def _blocks(run: Chunked, chunk: Block, place: Place) -> Iterator[tuple[slice, Block]]:
    """Blocks of rows of a chunk, at a place: the chunk itself where it is there."""
    if place_of(_data(chunk)) == place or place.is_host:
        yield slice(0, chunk.shape[0]), as_codes(at_place(chunk, place))
        return
    source = source_of(chunk, by_columns=False)
    for part, block in blocks(source, parts_of(source, place, run.block_bytes), place):
        yield part, as_codes(block)
