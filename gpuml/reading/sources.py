"""Where blocks of rows are read from: arrays, packed codes, files, and whatever else is sliced."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import HOST, Place, as_array, compute_place, is_array, itemsize, place_of
from gpuml.encodings import BedFile, Packed

# Blocks are of whole chunks. Where those across one side are larger than this, and those across the
# other are smaller, blocks are of the latter.
LARGE_BLOCK_BYTES = 2**26

OF_A_PATH = (
    "a is a path, {path!r}. Open the file first: zarr.open_array(path, mode='r'), "
    "np.load(path, mmap_mode='r'), or gpuml.encodings.open_bed(path)."
)
FROM_COLLECTIONS = (
    "a is a {kind}, which lives on the workers of a cluster or is not computed yet. Use "
    "gpuml_dask.linalg.svd_compressed, which takes dask arrays."
)


@dataclass(frozen=True)
class Source:
    """A matrix that is read in blocks of rows, or of columns, which are then rows.

    Attributes
    ----------
    shape : (int, int)
        Of the matrix that the user has.
    slice_of : callable
        The block (an array or Packed) of a slice.
    row_bytes : int
        Of one row of a block, as it is stored.
    of : object
        What the user has.
    by_columns : bool
        Whether blocks are of columns, transposed: their rows are features.
    place : Place or None
        Where blocks are in memory already; None where they have to be read from somewhere.
    chunk : int
        Rows of a block that are stored together.
    codes : bool
        Whether blocks are packed codes or integers of 8 bits.
    may_miss : bool
        Whether values may be missing.
    """

    shape: tuple[int, int]
    slice_of: Callable[[slice], Any]
    row_bytes: int
    of: Any
    by_columns: bool = False
    place: Place | None = None
    chunk: int = 1
    codes: bool = False
    may_miss: bool = False

    @property
    def length(self) -> int:
        """Rows of all blocks."""
        return self.shape[1] if self.by_columns else self.shape[0]

    @property
    def width(self) -> int:
        """Columns of each block."""
        return self.shape[0] if self.by_columns else self.shape[1]

    @property
    def home(self) -> Place:
        """Where results are to be: in CPU memory for what is in files."""
        return HOST if self.place is None else self.place

    def work_place(self, n_readings: int, setting: str) -> Place:
        """Where blocks are worked on, if all is read so often."""
        where = self.of.data if isinstance(self.of, Packed) else self.of
        n_bytes = self.length * self.row_bytes * n_readings
        return compute_place(np.empty(0) if self.place is None else where, n_bytes, setting)


def source_of(a: Any, by_columns: bool | None = None) -> Source:
    """How a matrix is read.

    Parameters
    ----------
    a : matrix
    by_columns : bool, optional
        Of an array, whether by columns; None if there are more of them than rows.

    Raises
    ------
    TypeError
        For what is no matrix of numbers, or is one on a cluster.
    ValueError
        If it has not two dimensions, or no rows or columns.
    """
    if isinstance(a, BedFile):
        found = _of_bed(a)
    elif isinstance(a, Packed):
        found = _of_packed(a)
    elif _is_stored(a):
        found = _of_stored(a)
    elif isinstance(a, str | os.PathLike):
        raise TypeError(OF_A_PATH.format(path=os.fspath(a)))
    else:
        found = _of_array(a, by_columns)
    return found


def is_stored(a: Any) -> bool:
    """Whether `a` is a matrix that is best read block by block: packed codes, a file, an object.

    Arrays of this machine's numbers are none, wherever they are; frames and sparse matrices
    neither, nor what is computed elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.encodings import pack
    >>> from gpuml.reading.sources import is_stored
    >>> is_stored(pack([[0, 1]])), is_stored(np.zeros((1, 2)))
    (True, False)
    """
    if isinstance(a, BedFile | Packed):
        return True
    if not _is_stored(a) or _is_computed_elsewhere(a) or _is_sparse(a) or _is_frame(a):
        return False
    try:
        return len(a.shape) == 2 and np.dtype(a.dtype).kind in "fiub"
    except TypeError:  # a shape that is no tuple, a dtype that is not NumPy's
        return False


def _width(packed):
    return packed.data.shape[1]


def _of_packed(packed):
    _check_shape(packed.shape)
    return Source(
        packed.shape,
        packed.__getitem__,
        _width(packed),
        packed,
        place=None if _is_file(packed.data) else place_of(packed.data),
        codes=True,
        may_miss=packed.missing,
    )


def _of_bed(bed):
    _check_shape(bed.shape)
    lines = bed.by_variant
    return Source(
        bed.shape, lines.__getitem__, -(-bed.shape[0] // 4), bed, True, codes=True, may_miss=True
    )


def _is_stored(a):
    """Whether `a` is an array somewhere else, which is read by slicing."""
    if isinstance(a, np.ndarray):
        # What is turned over, or aligned, as it is read would be a copy of the file otherwise.
        as_is = a.dtype.isnative and a.flags.aligned
        return not as_is and a.dtype.kind in "fiu" and _is_file(a)
    if is_array(a) or hasattr(a, "__cuda_array_interface__"):
        return False
    return all(hasattr(a, name) for name in ("shape", "dtype", "__getitem__")) and not hasattr(
        a, "__dlpack__"
    )


def _of_stored(a):
    if _is_computed_elsewhere(a):
        raise TypeError(FROM_COLLECTIONS.format(kind=type(a).__name__))
    if _is_sparse(a) or _is_frame(a):
        return _of_array(a, None)
    shape, dtype = tuple(a.shape), np.dtype(a.dtype)
    _check_shape(shape)
    _check_dtype(dtype)
    chunks = getattr(a, "chunks", None)
    # Of objects of the user's own only rows are asked for.
    by_columns = chunks is not None and _is_read_by_columns(shape, chunks, dtype.itemsize)
    chunk = 1 if chunks is None else int(chunks[1] if by_columns else chunks[0])
    width = shape[0] if by_columns else shape[1]
    row_bytes, is_small, may_miss = width * dtype.itemsize, _is_small(dtype), False
    if chunks is None and isinstance(first := a[0:1], Packed):  # the user's own blocks may be codes
        row_bytes, is_small, may_miss = _width(first), True, first.missing

    def read(part):
        block = as_array(a[:, part].T if by_columns else a[part])
        if not is_array(block) and not isinstance(block, Packed):
            block = np.asarray(block)
        wanted = (part.stop - part.start, width)
        if tuple(block.shape) != wanted:
            raise ValueError(
                f"a[{part.start}:{part.stop}] gave a block of shape {tuple(block.shape)}, and "
                f"{wanted} was expected of a.shape={shape}."
            )
        return block

    return Source(shape, read, row_bytes, a, by_columns, None, chunk, is_small, may_miss)


def _is_read_by_columns(shape, chunks, itemsize):
    """Whether blocks of chunks are of columns: of a wide matrix, unless whole chunks are large."""
    n, p = shape
    of_rows = min(chunks[0], n) * p * itemsize
    of_columns = min(chunks[1], p) * n * itemsize
    if n < p:
        return of_columns <= max(LARGE_BLOCK_BYTES, of_rows)
    return of_rows > max(LARGE_BLOCK_BYTES, of_columns)


def _is_computed_elsewhere(a):
    return hasattr(a, "dask") or hasattr(a, "__dask_graph__")


def _is_frame(a):
    return hasattr(a, "iloc") or hasattr(a, "columns")


def _is_small(dtype):
    return np.dtype(dtype).kind in "biu" and np.dtype(dtype).itemsize == 1


def _is_sparse(a):
    return hasattr(a, "nnz") and hasattr(a, "tocsr")


def _of_array(a, by_columns):
    if _is_sparse(a):
        raise TypeError(
            "Sparse data was passed, but dense data is required. For sparse matrices use "
            "gpuml.decomposition.TruncatedSVD or scipy.sparse.linalg.svds."
        )
    x = as_array(a)
    if not is_array(x) or isinstance(x, np.ndarray):
        x = np.asarray(x)  # subclasses have arithmetic of their own
    _check_shape(tuple(x.shape))
    is_small = False
    if isinstance(x, np.ndarray):
        _check_dtype(x.dtype)
        is_small = _is_small(x.dtype)
    else:
        is_small = itemsize(x.dtype) == 1
    n, p = x.shape
    by_columns = n < p if by_columns is None else by_columns
    place = None if _is_file(x) else place_of(x)
    row_bytes = itemsize(x.dtype) * (n if by_columns else p)

    def view(part):
        return x[:, part].T if by_columns else x[part, ...]

    return Source((n, p), view, row_bytes, x, by_columns, place, codes=is_small)


def _is_file(x):
    """Whether an array is a file: reading it takes a while, and is better done ahead."""
    base = x
    while base is not None:
        if isinstance(base, np.memmap):
            return True
        base = getattr(base, "base", None)
    return False


def _check_dtype(dtype):
    if dtype.kind not in "fiub":
        raise TypeError(f"a must hold real numbers, got the dtype {dtype}.")


def _check_shape(shape):
    if len(shape) != 2:
        raise ValueError(f"a must have 2 dimensions, got shape {shape}.")
    if any(not isinstance(size, int | np.integer) for size in shape):
        raise ValueError(f"The shape of a must be known, got {shape}.")
    if min(shape) < 1:
        raise ValueError(f"a must have at least one row and one column, got shape {shape}.")
