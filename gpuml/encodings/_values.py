"""Matrices that users pass become small codes, or an error that names what does not fit."""

from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import HOST, Array, as_array, gpu_place, is_array, move, namespace, place_of
from gpuml.encodings._bits import WIDTHS, missing_code


def matrix_of(x: Any) -> tuple[Array, Array | None]:
    """A 2-D array of NumPy or CuPy, and the mask (True is missing) if there is one."""
    if hasattr(x, "__dask_graph__"):
        raise TypeError("A Dask array is packed chunk by chunk: x.map_blocks(pack).")
    if sparse.issparse(x):
        raise TypeError("Sparse data was passed, but dense data is required. Use '.toarray()'.")
    mask = None
    if isinstance(x, np.ma.MaskedArray):
        x, mask = x.data, np.ma.getmaskarray(x) if np.ma.is_masked(x) else None
    x = as_array(x)
    if not is_array(x):
        x = np.asarray(x)
    place = place_of(x)
    if place.kind not in ("numpy", "cupy"):
        x = move(x, HOST if place.is_host or place.kind != "torch" else gpu_place())
    if x.ndim != 2:
        raise ValueError(f"Expected 2D array, got {x.ndim}D array instead: shape {tuple(x.shape)}.")
    if x.dtype.kind not in "biuf":
        raise TypeError(
            f"Codes are whole numbers; got dtype {x.dtype}. Convert: x.astype(float), with nan "
            "where a value is missing."
        )
    return x, mask


def codes_of(values: Array, mask: Array | None, rows: slice, bits: int, missing: bool) -> Array:
    """Some rows as uint8 codes.

    Raises
    ------
    ValueError
        If a value does not fit; the first one is named.
    """
    block = values[rows, :]
    absent = None if mask is None else mask[rows, :]
    xp = namespace(block)
    largest = int(missing_code(bits)) - missing
    fits, codes = _fitting(block, largest)
    if fits is None and absent is None:
        return codes
    lost = _missing(block, absent)
    wrong = lost if not missing else xp.zeros_like(lost)
    if fits is not None:
        wrong = wrong | ~(fits | lost)
    if bool(wrong.any()):
        _refuse(block, wrong, lost, rows.start, bits, missing)
    return xp.where(lost, missing_code(bits), codes)


def _fitting(block, largest):
    """Which values are codes as they are (None: all), and all of them as uint8."""
    xp = namespace(block)
    if block.size == 0 or block.dtype.kind == "b":
        return None, block.astype(xp.uint8)
    if block.dtype.kind == "u" and int(block.max()) <= largest:
        return None, block.astype(xp.uint8, copy=False)
    if block.dtype == np.int8:
        # Negative ones become large, so that one look finds whatever is no code.
        codes = block.view(xp.uint8)
        return (None, codes) if int(codes.max()) <= largest else (codes <= largest, codes)
    with np.errstate(invalid="ignore"):
        codes = block.astype(xp.uint8)
    fits = (codes == block) & (codes <= largest)
    return (None, codes) if bool(fits.all()) else (fits, codes)


def _missing(block, mask):
    """Where values are missing: masked, nan, or negative whole numbers."""
    xp = namespace(block)
    lost = block < 0 if block.dtype.kind != "b" else xp.zeros_like(block)
    if block.dtype.kind == "f":
        lost = (lost & (xp.trunc(block) == block) & xp.isfinite(block)) | xp.isnan(block)
    return lost if mask is None else lost | xp.asarray(mask)


def _refuse(block, wrong, lost, first_row, bits, missing):
    at = int(namespace(block).argmax(wrong.ravel()))
    row, column = divmod(at, block.shape[1])
    value = block[row, column].item()
    where = f"{value} in row {first_row + row}, column {column}"
    if bool(lost[row, column]):
        raise ValueError(f"{where} is a missing value. Use missing=True to have a code for it.")
    largest = int(missing_code(bits)) - missing
    held = f"whole numbers from 0 to {largest}" + (" and missing values" if missing else "")
    advice = _advice(value, largest, bits, missing)
    raise ValueError(f"{where} does not fit: {bits} bits hold {held}. {advice}")


def _advice(value, largest, bits, missing):
    if missing and value == largest + 1:
        return "If it is a value, use missing=False; if it means a missing one, pass nan or -1."
    for more in WIDTHS:
        if more > bits and 0 <= value <= missing_code(more) - missing and value == int(value):
            return f"Use bits={more}."
    return "Codes are counts or classes; other numbers have no encoding."


def decoded_dtype(dtype: Any, bits: int) -> np.dtype:
    """The dtype to decode to, uint8 for None; an error if it does not hold the codes."""
    dtype = np.dtype(np.uint8 if dtype is None else dtype)
    if dtype.kind not in "iuf":
        raise TypeError(f"Codes are decoded to integers or floats, not to {dtype}.")
    if dtype.kind == "i" and np.iinfo(dtype).max < missing_code(bits):
        raise ValueError(f"{dtype} does not hold all codes of {bits} bits. Use uint8 or int16.")
    return dtype
