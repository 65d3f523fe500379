"""The few functions of NumPy that keep packed codes packed: what Dask asks of its chunks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuml._arrays import namespace
from gpuml.encodings._bits import empty_by, pack_bits, per_byte, row_blocks, row_bytes


def decode_first(name: str) -> str:
    """What to say of the other functions."""
    return f"{name} does not work on packed codes. Decode them first: packed.decode()."


def concatenate(arrays: Any, axis: int | None = 0, **options: Any) -> Any:
    """Packed matrices of one kind below or beside each other."""
    if options:
        raise TypeError(
            f"np.concatenate of packed codes takes no {', '.join(options)}: they stay packed. "
            "Decode them first: np.concatenate([x.decode() for x in arrays])."
        )
    arrays = list(arrays)
    if axis not in (0, 1, -1, -2):
        raise ValueError(f"axis {axis} is out of bounds: packed codes have rows and columns.")
    _check_alike(arrays)
    return _below(arrays) if axis in (0, -2) else _beside(arrays)


def _check_alike(arrays):
    first = arrays[0]
    for other in arrays:
        # Types, not `isinstance`: this module is below the one of the class.
        if not hasattr(other, "n_columns"):
            raise TypeError(
                f"Packed codes and {type(other).__name__} cannot be joined. Pack the other with "
                "gpuml.encodings.pack, or decode: packed.decode()."
            )
        if (other.bits, other.missing) != (first.bits, first.missing):
            raise ValueError(
                f"Packed codes of {first.bits} bits with missing={first.missing} and of "
                f"{other.bits} bits with missing={other.missing} cannot be joined. Pack them alike."
            )


def _below(arrays):
    widths = sorted({x.n_columns for x in arrays})
    if len(widths) > 1:
        raise ValueError(f"Packed rows of {widths} columns cannot be put below each other.")
    return arrays[0].of(namespace(arrays[0].data).concatenate([x.data for x in arrays], axis=0))


def _beside(arrays):
    heights = sorted({x.shape[0] for x in arrays})
    if len(heights) > 1:
        raise ValueError(f"Packed columns of {heights} rows cannot be put beside each other.")
    first = arrays[0]
    xp = namespace(first.data)
    total = sum(x.n_columns for x in arrays)
    if all(x.n_columns % per_byte(x.bits) == 0 for x in arrays[:-1]):
        return first.of(xp.concatenate([x.data for x in arrays], axis=1), total)
    data = empty_by(first.data, (heights[0], row_bytes(total, first.bits)))
    for rows in row_blocks(data, total):
        codes = xp.concatenate([x.decode(rows=rows) for x in arrays], axis=1)
        data[rows, :] = pack_bits(codes, first.bits)
    return first.of(data, total)


def _vstack(tup, **options):
    return concatenate(tup, 0, **options)


def _hstack(tup, **options):
    return concatenate(tup, 1, **options)


def _take(a, indices, axis=None, **options):
    if axis not in (0, 1, -1, -2) or options or np.ndim(indices) != 1:
        raise TypeError(
            "np.take of packed codes needs axis=0 or 1 and a list of rows or columns. Decode "
            "them for others: np.take(packed.decode(), ...)."
        )
    return a[indices] if axis in (0, -2) else a[:, indices]


FUNCTIONS: dict[Any, Callable] = {
    np.concatenate: concatenate,
    np.vstack: _vstack,
    np.hstack: _hstack,
    np.take: _take,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
}
