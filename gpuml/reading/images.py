"""Images of rows under a linear map, block by block: what a fitted model says of them."""

from collections.abc import Callable
from typing import Any

from gpuml._arrays import Array, Place, move, namespace
from gpuml.encodings import Packed
from gpuml.reading.sources import Source
from gpuml.reading.streams import blocks, parts_of
from gpuml.reading.visits import as_codes
from gpuml.solvers import feature_rows, row_products
from gpuml.solvers._blocks import quiet
from gpuml.solvers.row_products import over_rows
from gpuml.solvers.standard import Standard

# Of codes that are decoded a few rows at a time: they stay in cache on a CPU.
DECODED_BYTES = 2**22

UNFILLED = (
    "Input X contains NaN: some of its codes are missing, and the model has no means of features "
    "to replace them by, because no code was missing when it was fitted."
)


def images(
    source: Source,
    work: Place,
    home: Place,
    W: Array,
    fill: Array | None,
    block_bytes: int | None,
) -> Array:
    """``X W`` (n, l), float64.

    Parameters
    ----------
    source : Source
        Of X (n, p).
    work, home : Place
        Where blocks are worked on, and where the result is to be.
    W : array (p, l), float64, at `work`
    fill : array (p,) at `work`, or None
        In place of missing values.
    block_bytes : int or None
        As the setting.

    Raises
    ------
    ValueError
        If values are missing and there is no `fill`.
    """

    def of_block(block, features):
        # Products of all blocks are float64, those of codes too: there is one for each row.
        if fill is None and isinstance(block, Packed) and block.has_missing():
            raise ValueError(UNFILLED)
        return _image(source, block, W[features, :], None if fill is None else fill[features])

    return _read(source, work, home, of_block, block_bytes)


def images_and_lengths(
    source: Source,
    work: Place,
    home: Place,
    W: Array,
    mean: Array,
    block_bytes: int | None,
) -> tuple[Array, Array]:
    """``X W`` (n, l), and the squared length (n,) of each row less `mean`; float64.

    Parameters are as of `images`; missing values are those of the mean.
    """
    xp = namespace(W)

    def of_block(block, features):
        image = _image(source, block, W[features, :], mean[features])
        lengths = _lengths(block, mean[features], source.by_columns)
        return xp.concat([image, lengths[:, None]], axis=1)

    found = _read(source, work, home, of_block, block_bytes)
    return found[:, :-1], found[:, -1]


def _read(
    source: Source,
    work: Place,
    home: Place,
    of_block: Callable[[Any, slice], Array],
    block_bytes: int | None,
) -> Array:
    """What blocks of rows give, one below the other; or of features, added up."""
    parts = parts_of(source, work, block_bytes)
    found: list[Array] = []
    with quiet():  # whether all is finite, the images tell
        for part, block in blocks(source, parts, work):
            block = as_codes(block)
            if not source.by_columns:
                found.append(move(of_block(block, slice(None)), home))
            elif not found:
                found.append(of_block(block, part))
            else:
                found[0] = found[0] + of_block(block, part)
    if source.by_columns:
        return move(found[0], home)
    return found[0] if len(found) == 1 else home.xp.concat(found)


def _image(source, block, W, fill):
    if source.by_columns:
        return feature_rows.transposed_image(block, W, fill)
    return row_products.image(block, W, Standard(fill=fill))


def _lengths(block, mean, by_columns):
    """Squared lengths of the rows of a block less `mean`; of its columns where it has features."""
    xp = namespace(mean)

    def squares(rows, part):
        rows = xp.astype(rows, xp.float64, copy=False)
        centre = mean[part, None] if by_columns else mean
        # Missing values are those of the mean.
        away = xp.where(xp.isnan(rows), 0.0, rows - centre) if is_coded else rows - centre
        return xp.sum(away**2, axis=0 if by_columns else 1)

    is_coded = isinstance(block, Packed)
    found = _decoded(block, squares) if is_coded else _of_dense(block, squares)
    return sum(found[1:], found[0]) if by_columns else xp.concat(found)


def _of_dense(block, function):
    return over_rows(block, lambda rows, part: [function(rows, part)], lambda a, b: a + b, 1)


def _decoded(block, function):
    n, p = block.shape
    step = max(1, DECODED_BYTES // max(8 * p, 1))
    parts = [slice(i, min(i + step, n)) for i in range(0, n, step)]
    return [function(block.decode("float64", part), part) for part in parts]
