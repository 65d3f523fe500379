"""`Packed`: a matrix of small codes, several in a byte."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import HOST, Array, device_of, gpu_place, is_numpy, move, namespace
from gpuml.encodings._bits import (
    WIDTHS,
    clear_padding,
    code_table,
    empty_by,
    missing_bits,
    missing_code,
    pack_bits,
    per_byte,
    row_blocks,
    row_bytes,
    unpack_bits,
    value_table,
)
from gpuml.encodings._functions import FUNCTIONS, decode_first
from gpuml.encodings._keys import as_index, is_list, is_number, one, two_keys
from gpuml.encodings._values import codes_of, decoded_dtype, matrix_of


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """A matrix (n, p) of small whole numbers that takes 2, 4 or 8 bits for each.

    Made by `pack` and `open_bed`, or of bytes that are packed already. It cannot be changed, and it
    is a chunk that Dask's arrays can hold: slicing, `concatenate` and pickling work; arithmetic is
    for `decode`, and for what multiplies packed codes as they are, such as
    `gpuml.linalg.svd_compressed`.

    Parameters
    ----------
    data : uint8 array of shape (n, ceil(p * bits / 8)), of NumPy (or memory-mapped) or CuPy
        The bytes of each row. The first column is in the lowest bits of the first byte. What
        padding bits hold does not matter. Nothing is read or copied, unless `data` is not
        C-contiguous.
    n_columns : int
        p.
    bits : {2, 4, 8}, default=2
        Bits for each code.
    missing : bool, default=True
        Whether the largest code (3, 15 or 255) means that a value is missing, rather than itself.

    Attributes
    ----------
    shape : tuple of int
        (n, p).
    dtype : numpy.dtype
        uint8: what decoding gives.
    size, nbytes : int
        Number of codes, and of the bytes that hold them.

    Raises
    ------
    TypeError
        If `data` is not a uint8 array of NumPy or CuPy.
    ValueError
        If `bits` is another number, or the width of `data` does not go with `n_columns`.

    Notes
    -----
    ``packed[rows]`` and ``packed[rows, columns]`` take slices, integer arrays and masks and are
    packed. Neighbouring rows are a view; other rows, and columns, are copies. A single row or
    column is a dense array, and a single code an int. ``==`` compares identity.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.encodings import Packed
    >>> packed = Packed(np.array([[0b11_10_01_00]], dtype=np.uint8), n_columns=4)
    >>> packed
    Packed(shape=(1, 4), bits=2, missing=True, 1 byte of numpy)
    >>> packed.decode()
    array([[0, 1, 2, 3]], dtype=uint8)
    >>> packed.decode("float32")
    array([[ 0.,  1.,  2., nan]], dtype=float32)
    """

    data: Array
    n_columns: int
    bits: int = 2
    missing: bool = True

    def __post_init__(self):
        data = self.data
        if not _is_bytes(data):
            kind = getattr(data, "dtype", type(data).__name__)
            raise TypeError(f"data must be a uint8 array of NumPy or CuPy, got {kind}.")
        if self.bits not in WIDTHS:
            raise ValueError(f"bits must be 2, 4 or 8, got {self.bits!r}.")
        columns = operator.index(self.n_columns)
        if columns < 0 or data.ndim != 2 or data.shape[1] != row_bytes(columns, self.bits):
            raise ValueError(
                f"{columns} columns of {self.bits} bits need data of shape "
                f"(n, {row_bytes(columns, self.bits)}), got {tuple(data.shape)}."
            )
        # Products are written for rows that follow each other in memory.
        if not data.flags.c_contiguous:
            data = namespace(data).ascontiguousarray(data)
        values = {"data": data, "n_columns": columns, "missing": bool(self.missing)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self.data.shape[0]), self.n_columns)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint8)

    @property
    def size(self) -> int:
        return self.shape[0] * self.n_columns

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        library = "numpy" if is_numpy(self.data) else "cupy"
        unit = "byte" if self.nbytes == 1 else "bytes"
        return (
            f"Packed(shape={self.shape}, bits={self.bits}, missing={self.missing}, "
            f"{self.nbytes} {unit} of {library})"
        )

    def __sizeof__(self):
        # Dask's workers weigh what they hold by this.
        return object.__sizeof__(self) + self.nbytes

    def __dask_tokenize__(self):
        return ("gpuml.encodings.Packed", self.data, self.n_columns, self.bits, self.missing)

    def of(self, data: Array, n_columns: int | None = None) -> "Packed":
        """Other bytes, read as these are."""
        columns = self.n_columns if n_columns is None else n_columns
        return Packed(data, columns, self.bits, self.missing)

    # ------------------------------------------------------------------ decoding

    def decode(self, dtype: Any = None, rows: slice = slice(None)) -> Array:
        """Return the codes as a dense array.

        Parameters
        ----------
        dtype : dtype or None, default=None
            An integer dtype leaves the code of missing values as it is (3, 15 or 255); in a
            floating one they are nan. None is uint8.
        rows : slice, default=slice(None)
            The rows to decode.

        Returns
        -------
        X : array of shape (n_rows, p)
            New memory, in the library and on the device of the bytes.

        Raises
        ------
        TypeError
            If the dtype is neither integer nor floating.
        ValueError
            If the dtype does not hold every code.
        """
        dtype = decoded_dtype(dtype, self.bits)
        data = self.data[rows, :]
        xp = namespace(data)
        fill = self.missing and dtype.kind == "f"
        out = empty_by(data, (data.shape[0], self.n_columns), dtype)
        if self.bits == 8:
            out[...] = data
            if fill:
                out[data == missing_code(8)] = np.nan
            return out
        table = code_table(self.bits)
        if dtype != np.uint8:
            table = value_table(self.bits, dtype.str, fill, np.nan if fill else 0.0)
        unpack_bits(data, self.n_columns, xp.asarray(table, device=device_of(data)), out)
        return out

    def has_missing(self) -> bool:
        """Whether any value is missing; reads the bytes until one is found."""
        if not self.missing:
            return False
        for rows in row_blocks(self.data, self.data.shape[1]):
            block = self.data[rows, :]
            if self.n_columns % per_byte(self.bits):
                block = block.copy()
                clear_padding(block, self.n_columns, self.bits)
            if bool(missing_bits(block, self.bits).any()):
                return True
        return False

    def __array__(self, dtype=None, copy=None):
        if not is_numpy(self.data):
            raise TypeError(
                "Packed codes on a GPU do not become a NumPy array by themselves. Use "
                "packed.decode() for a CuPy array, or packed.to_host().decode()."
            )
        if copy is False:
            raise ValueError("Packed codes cannot become an array without a copy.")
        if dtype is None and self.has_missing():
            dtype = np.float64
        return self.decode(dtype)

    # ------------------------------------------------------------------ indexing

    def __getitem__(self, key):
        rows, columns = two_keys(key)
        one_row, one_column = is_number(rows), is_number(columns)
        if one_row:
            row = self._rows(one(rows, len(self)))
            if one_column:
                return int(row._columns(one(columns, self.n_columns)).decode()[0, 0])
            return row._columns(columns).decode()[0]
        if one_column:
            return self._rows(rows)._columns(one(columns, self.n_columns)).decode()[:, 0]
        if is_list(rows) and is_list(columns):
            raise IndexError(
                "Lists of rows and of columns at once would be read in pairs. Use "
                "packed[rows][:, columns]."
            )
        return self._rows(rows)._columns(columns)

    def _rows(self, rows):
        if isinstance(rows, slice):
            return self if rows == slice(None) else self.of(self.data[rows, :])
        return self.of(self.data[self._index(rows, len(self))])

    def _columns(self, columns):
        if isinstance(columns, slice):
            start, stop, step = columns.indices(self.n_columns)
            if step == 1:
                return self._neighbours(start, max(start, stop))
            columns = np.arange(start, stop, step)
        return self._chosen(self._index(columns, self.n_columns))

    def _index(self, key, n):
        """A list of rows or columns where the bytes are."""
        index = as_index(key)
        if is_numpy(index):
            # GPUs take indices modulo n, so they are looked at before they get there.
            _ = np.broadcast_to(np.uint8(0), n)[index]
        return namespace(self.data).asarray(index)

    def _neighbours(self, start, stop):
        per = per_byte(self.bits)
        if (start, stop) == (0, self.n_columns):
            return self
        if start % per:
            return self._chosen(slice(start, stop))
        data = self.data[:, start // per : -(-stop // per)].copy()
        if data.size:
            clear_padding(data, stop - start, self.bits)
        return self.of(data, stop - start)

    def _chosen(self, columns):
        """Columns in any order: bytes are taken apart and put together again."""
        xp = namespace(self.data)
        n_columns = int(xp.arange(self.n_columns)[columns].shape[0])
        data = empty_by(self.data, (len(self), row_bytes(n_columns, self.bits)))
        for rows in row_blocks(self.data, self.n_columns):
            data[rows, :] = pack_bits(self.decode(rows=rows)[:, columns], self.bits)
        return self.of(data, n_columns)

    # ------------------------------------------------------------------ places

    def to_host(self) -> "Packed":
        """The same in CPU memory, for NumPy; itself if it is there."""
        return self if is_numpy(self.data) else self.of(move(self.data, HOST))

    def to_device(self) -> "Packed":
        """The same on the current GPU, for CuPy; itself if it is there.

        Raises
        ------
        ImportError
            If CuPy is not installed.
        """
        data = move(self.data, gpu_place())
        return self if data is self.data else self.of(data)

    # ------------------------------------------------------------------ functions of NumPy

    def __array_function__(self, function, types, args, kwargs):
        if function not in FUNCTIONS:
            raise TypeError(decode_first(function.__name__))
        return FUNCTIONS[function](*args, **kwargs)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        raise TypeError(decode_first(ufunc.__name__))


def pack(x: Any, bits: int = 2, *, missing: bool = True) -> Packed:
    """Pack a matrix of small whole numbers into 2, 4 or 8 bits each.

    Parameters
    ----------
    x : array-like of shape (n, p)
        NumPy, CuPy or torch arrays, DataFrames or lists, of bools, integers, or floats with whole
        values. Negative, nan and masked values are missing (bed-reader has -127, scikit-allel -1).
    bits : {2, 4, 8}, default=2
        Bits per value. If values may be missing, 2 bits hold 0 to 2, 4 bits 0 to 14, and 8 bits 0
        to 254. If not, the largest value is 3, 15 or 255.
    missing : bool, default=True
        Whether values may be missing; the largest code then stands for a missing value.

    Returns
    -------
    packed : Packed
        The packed bytes, on the device of `x`: a CuPy array for CUDA data, otherwise NumPy. With 8
        bits, the bytes of a C-contiguous uint8 array are shared, not copied.

    Raises
    ------
    TypeError
        If `x` is a dask array (use ``x.map_blocks(pack)``), sparse, or not numeric, or if `missing`
        is not a bool.
    ValueError
        If `x` does not have two dimensions, or a value does not fit; the message names the first.

    See Also
    --------
    unpack : The inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.encodings import pack
    >>> packed = pack([[0, 1, 2, -1, 1], [2, np.nan, 0, 0, 0]])
    >>> packed.nbytes
    4
    >>> packed.decode()
    array([[0, 1, 2, 3, 1],
           [2, 3, 0, 0, 0]], dtype=uint8)
    """
    if bits not in WIDTHS:
        raise ValueError(f"bits must be 2, 4 or 8, got {bits!r}.")
    if not isinstance(missing, bool | np.bool_):
        raise TypeError(f"missing must be True or False, got {missing!r}.")
    bits = int(bits)
    if isinstance(x, Packed):
        raise TypeError("x is packed already. Use it as it is, or decode it: packed.decode(float).")
    values, mask = matrix_of(x)
    n, p = values.shape
    if bits == 8 and values.dtype == np.uint8 and mask is None:
        for rows in row_blocks(values, p):
            codes_of(values, mask, rows, bits, missing)
        return Packed(values, p, bits, missing)
    data = empty_by(values, (n, row_bytes(p, bits)))
    for rows in row_blocks(values, p):
        data[rows, :] = pack_bits(codes_of(values, mask, rows, bits, missing), bits)
    return Packed(data, p, bits, missing)


def unpack(packed: Packed, dtype: Any = None) -> Array:
    """Return packed codes as a dense array: ``packed.decode(dtype)``.

    Parameters
    ----------
    packed : Packed
    dtype : dtype or None, default=None
        Floating dtypes have nan where a value is missing; integer ones the code as it is. None is
        uint8.

    Returns
    -------
    X : array of shape (n, p)
        In the library and on the device of the packed bytes.

    Raises
    ------
    TypeError
        If `packed` is something else.

    Examples
    --------
    >>> from gpuml.encodings import pack, unpack
    >>> unpack(pack([[0, 1, -1]]), float)
    array([[ 0.,  1., nan]])
    """
    if not isinstance(packed, Packed):
        raise TypeError(f"unpack takes gpuml.encodings.Packed, got {type(packed).__name__}.")
    return packed.decode(dtype)


def _is_bytes(data):
    known = isinstance(data, np.ndarray) or type(data).__module__.startswith("cupy")
    return known and data.dtype == np.uint8
