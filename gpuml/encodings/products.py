"""Products of packed codes with matrices of a few columns, wherever the codes are.

A matrix of codes (n, p) is read as two: `X0` has 0 where a value is missing, and `M` is 1 there and
0 elsewhere. Neither is ever formed: NumPy's codes are decoded in
blocks that stay in cache, CuPy's in registers.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import Array, is_numpy, namespace, place_of
from gpuml.encodings import _host
from gpuml.encodings.packed import Packed


class Counts(NamedTuple):
    """Of each column, int64 (p,): codes that are present, their sum, and the sum of squares."""

    n_present: Array
    total: Array
    squares: Array


class Both(NamedTuple):
    """``Y = X0 W + M W_missing - offset``, ``X0' Y`` and ``M' Y`` (None if not asked for)."""

    Y: Array
    values: Array
    missing: Array | None


def forward(packed: Packed, W: Array, W_missing: Array | None = None) -> Array:
    """``Y = X0 W + M W_missing`` (n, l), of the dtype and in the place of W.

    Parameters
    ----------
    packed : Packed of shape (n, p)
    W, W_missing : array of shape (p, l), float32 or float64
        In the place of the codes, and of the dtype of the arithmetic. W_missing is what missing
        values count as; None is 0.

    Raises
    ------
    TypeError
        If `packed` is no `Packed`, W is in another place, or is not of float32 or float64.
    ValueError
        If shapes do not go together.
    """
    W, W_missing = _checked_W(packed, W, W_missing)
    return _engine(packed).forward(packed, W, W_missing)


def backward(packed: Packed, Y: Array, with_missing: bool = False) -> tuple[Array, Array | None]:
    """``X0' Y`` and, if asked for, ``M' Y``, float64 (p, l), for Y (n, l); see `forward`.

    The dtype of Y is that of the arithmetic within blocks of rows; sums over blocks are float64.
    """
    Y = _checked(packed, Y, "Y", packed.shape[0] if isinstance(packed, Packed) else 0)
    return _engine(packed).backward(packed, Y, with_missing)


def both(
    packed: Packed, W: Array, W_missing: Array | None = None, offset: Array | None = None
) -> Both:
    """``Y = X0 W + M W_missing - 1 offset'``, and ``X0' Y`` and ``M' Y`` of it; see `forward`.

    ``M' Y`` is returned where W_missing is given; `offset` is float64 (l,). On a CPU both products
    use a block of rows while it is decoded.
    """
    W, W_missing = _checked_W(packed, W, W_missing)
    if offset is not None and offset.shape != (W.shape[1],):
        raise ValueError(f"offset has shape {tuple(offset.shape)}; ({W.shape[1]},) was expected.")
    engine = _engine(packed)
    if engine is _host:
        return Both(*_host.both(packed, W, W_missing, offset))
    Y = engine.forward(packed, W, W_missing)
    if offset is not None:
        Y -= namespace(Y).astype(offset, Y.dtype)
    return Both(Y, *engine.backward(packed, Y, W_missing is not None))


def counts(packed: Packed) -> Counts:
    """Count and sum up the codes of each column, and their squares, exactly."""
    _check_packed(packed)
    return Counts(*_engine(packed).counts(packed))


def _engine(packed: Packed) -> Any:
    if is_numpy(packed.data):
        return _host
    from gpuml.encodings import _gpu

    return _gpu


def _check_packed(packed):
    if not isinstance(packed, Packed):
        raise TypeError(
            f"Expected gpuml.encodings.Packed, got {type(packed).__name__}. Use "
            "gpuml.encodings.pack, or X @ W of dense arrays."
        )


def _checked_W(packed, W, W_missing):
    n_columns = packed.n_columns if isinstance(packed, Packed) else 0
    W = _checked(packed, W, "W", n_columns)
    if W_missing is None:
        return W, None
    W_missing = _checked(packed, W_missing, "W_missing", n_columns)
    if (W_missing.shape, W_missing.dtype) != (W.shape, W.dtype):
        raise ValueError(
            f"W and W_missing differ: {tuple(W.shape)} of {W.dtype}, "
            f"{tuple(W_missing.shape)} of {W_missing.dtype}."
        )
    return W, W_missing


def _checked(packed, matrix, name, n_rows):
    _check_packed(packed)
    if place_of(matrix) != place_of(packed.data):
        raise TypeError(
            f"{name} is on {place_of(matrix)} and the codes on {place_of(packed.data)}. "
            "Move one: packed.to_device(), packed.to_host()."
        )
    if matrix.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} must be of float32 or float64, got {matrix.dtype}.")
    if matrix.ndim != 2 or matrix.shape[0] != n_rows:
        raise ValueError(
            f"{name} of shape {tuple(matrix.shape)} does not go with codes of shape "
            f"{packed.shape}: ({n_rows}, l) was expected."
        )
    return matrix
