"""Worker-side functions on blocks of rows: describe, convert, cut, join and hash them.

A block is an array (NumPy, CuPy), a sparse matrix, a DataFrame or a series (pandas, polars, cuDF),
or whatever a user's own task returned that holds rows. The client does the same to local data.
"""

import math
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
from scipy import sparse

from gpuml._persistence.tokens import token_of

FRAMES = ("pandas", "polars", "cudf")
MOST_NAMED = 5
# dtypes of NumPy that float32 holds.
IN_FLOAT32 = {"float32", "float16", "int16", "uint16", "int8", "uint8", "bool"}


@dataclass(frozen=True)
class Facts:
    """Known facts about rows; None for what only the workers know.

    `sizes` are the rows of each block, `tail` is the shape of one row. `dtype` is that of the array
    that `as_rows` makes, and object for a DataFrame that has no such array. `columns` are the names
    of a DataFrame's columns. `are_arrays`: no task need convert the blocks. `head` is a block
    without its rows, where workers read tables of such blocks.
    """

    sizes: tuple[int, ...] | None = None
    n_rows: int | None = None
    tail: tuple[int, ...] | None = None
    dtype: Any = None
    columns: list[str] | None = None
    are_arrays: bool = True
    on_gpu: bool = False
    head: Any = None

    @property
    def complete(self) -> bool:
        """Whether the workers need not be asked."""
        return self.sizes is not None and self.tail is not None and self.dtype is not None

    @property
    def n_bytes(self) -> int | None:
        """Bytes of the rows as one array; None if unknown."""
        if not self.complete:
            return None
        return sum(self.sizes or ()) * math.prod(self.tail or ()) * self.dtype.itemsize


def describe(block: Any) -> Facts:
    if is_frame(block):
        columns = list(block.columns)
        return Facts(
            n_rows=len(block),
            tail=(len(columns),),
            dtype=frame_dtype(block),
            columns=columns,
            are_arrays=False,
            on_gpu=library_of(block) == "cudf",
            head=head_of(block),
        )
    rows = as_rows(block)
    if rows.ndim == 0:
        raise ValueError(f"Rows were expected, got a single {type(block).__name__}: {block!r}.")
    return Facts(
        n_rows=rows.shape[0],
        tail=tuple(rows.shape[1:]),
        dtype=np.dtype(rows.dtype),
        are_arrays=rows is block,
        on_gpu=library_of(rows) == "cupy",
    )


def head_of(block: Any) -> Any:
    """A block without its rows if it is an array or a DataFrame that workers read as a table."""
    if library_of(block) == "pandas":
        return block.iloc[:0]
    return block[:0] if isinstance(block, np.ndarray) else None


def is_frame(x: Any) -> bool:
    """Whether `x` is a DataFrame of pandas, polars or cuDF."""
    return library_of(x) in FRAMES and hasattr(x, "columns")


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse matrix of SciPy or CuPy."""
    return hasattr(x, "tocsr")


def frame_dtype(frame: Any) -> np.dtype:
    """The dtype of a DataFrame's rows as one array: float, or object if not all are numbers."""
    kinds = {str(dtype) for dtype in frame.dtypes}
    if not all(k.lower().startswith(("float", "double", "int", "uint", "bool")) for k in kinds):
        return np.dtype(object)
    is_small = kinds == {"Float32"} or "float32" in kinds <= IN_FLOAT32
    return np.dtype(np.float32 if is_small else np.float64)


def as_rows(x: Any, dtype: Any = None) -> Any:
    """A block as an array with rows along its first axis, in CPU or GPU memory as it is.

    Without a dtype, arrays keep theirs, and DataFrames get that of `frame_dtype`.
    """
    if is_frame(x):
        rows = _frame_rows(x, dtype)
    elif is_sparse(x):
        rows = x if x.format == "csr" else x.tocsr()
    elif isinstance(x, np.ndarray):
        rows = np.asarray(x)
    else:
        rows = _foreign_rows(x)
    return rows if dtype is None or rows.dtype == dtype else rows.astype(dtype)


def check_columns(frame: Any) -> None:
    """Refuse columns of dates or complex numbers, which would silently become numbers."""
    kinds = [_kind(dtype) for dtype in frame.dtypes]
    named = [repr(n) for n, kind in zip(frame.columns, kinds, strict=True) if kind in ("m", "M")]
    if named:
        column = f"Column {named[0]} holds" if len(named) == 1 else f"Columns {_some(named)} hold"
        raise TypeError(
            f"{column} dates or times; numbers are needed. Convert such columns explicitly, or "
            "leave them out."
        )
    if "c" in kinds:
        raise ValueError("Complex data not supported: of a column of the frame.")


def labels(frame: Any) -> Any:
    """The only column of a DataFrame as an array of its values, shape (n, 1)."""
    return as_rows(frame.iloc[:, 0] if hasattr(frame, "iloc") else frame.to_series(0))[:, None]


def _kind(dtype):
    """NumPy's letter for a kind of numbers; for polars only dates and times."""
    if hasattr(dtype, "is_temporal"):
        return "M" if dtype.is_temporal() else ""
    return getattr(dtype, "kind", "")


def _some(named):
    text = ", ".join(named[:MOST_NAMED])
    return text if len(named) <= MOST_NAMED else f"{text} and {len(named) - MOST_NAMED} more"


def _frame_rows(frame, dtype):
    check_columns(frame)
    dtype = frame_dtype(frame) if dtype is None else np.dtype(dtype)
    if dtype.kind == "O":
        dtype = np.dtype(np.float64)  # text in a column: the conversion raises an error
    if library_of(frame) == "cudf":
        return frame.to_cupy(dtype=dtype, na_value=np.nan)
    if library_of(frame) == "pandas":
        return frame.to_numpy(dtype=dtype, na_value=np.nan)
    return frame.to_numpy().astype(dtype)


def _foreign_rows(x):
    if library_of(x) == "cupy":
        return x
    if hasattr(x, "to_cupy"):  # a series of cuDF; text has no CuPy array
        return x.to_cupy() if np.dtype(x.dtype).kind in "fiub" else x.to_numpy()
    if array_api_compat.is_torch_array(x):
        x = x.detach()
        if not x.is_cuda:
            return x.numpy()
    if hasattr(x, "__cuda_array_interface__"):
        import cupy

        return cupy.asarray(x)
    if hasattr(x, "to_numpy"):  # a series of pandas or polars
        nullable = not isinstance(x.dtype, np.dtype) and _kind(x.dtype) in ("f", "i", "u", "b")
        return x.to_numpy(np.float64, na_value=np.nan) if nullable else x.to_numpy()
    if hasattr(x, "__array_namespace__") and hasattr(x, "to_device"):  # of the array standard
        info = x.__array_namespace__().__array_namespace_info__()
        return np.asarray(x.to_device(info.default_device()))
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    return np.asarray(x)


@contextmanager
def _asked_for(library, setting, other):
    """Explain an ImportError: why a worker needs the library."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"Rows must be in GPU memory, but a worker cannot import {library} ({error}). Dask's "
            f"setting {setting!r} is {library!r}, or you chose GPUs: start workers with "
            f"GPUs, gpuml_dask.local_client(device='cuda'), or set "
            f"dask.config.set({{{setting!r}: {other!r}}})."
        ) from error


def upload(block: Any) -> Any:
    """A block moved to the GPU of this worker: NumPy becomes CuPy, pandas cuDF.

    Text labels stay in CPU memory.
    """
    if library_of(block) == "pandas":
        with _asked_for("cudf", "dataframe.backend", "pandas"):
            import cudf
        return cudf.DataFrame.from_pandas(block)
    if not isinstance(block, np.ndarray) or block.dtype.kind not in "fiub":
        return block
    with _asked_for("cupy", "array.backend", "numpy"):
        import cupy
    return cupy.asarray(block)


def same(x: Any, attempt: str = "") -> Any:
    """What it is given: a task of another name, on another worker, or of a known value."""
    return x


# ---------------------------------------------------------------- rows


def cut(block: Any, start: int, stop: int) -> Any:
    """Rows from `start` to `stop` of a block; a view if the library supports it."""
    if hasattr(block, "iloc"):
        return block.iloc[start:stop]
    return block[start:stop]


def join(*blocks: Any) -> Any:
    """Blocks of one kind, joined in order."""
    if len(blocks) == 1:
        return blocks[0]
    if library_of(blocks[0]) in FRAMES:
        # Whoever made the blocks has imported it.
        return sys.modules[library_of(blocks[0])].concat(blocks)
    if is_sparse(blocks[0]):
        stack = sparse if sparse.issparse(blocks[0]) else sys.modules["cupyx.scipy.sparse"]
        return stack.vstack(blocks, format="csr")
    if all(isinstance(block, np.ndarray) for block in blocks):
        return np.concatenate(blocks)  # for labels too, which the array standard lacks
    return array_api_compat.array_namespace(*blocks).concat(blocks, axis=0)


def join_cuts(spans: Sequence[tuple[int, int, int]], blocks: Sequence[Any]) -> Any:
    """Some rows of each block, joined; a span is (start, stop, expected rows of the block)."""
    parts = []
    for block, (start, stop, size) in zip(blocks, spans, strict=True):
        check_size(block, size)
        parts.append(cut(block, start, stop))
    return join(*parts)


def check_size(block: Any, size: int) -> None:
    """Refuse a block that has not as many rows as its collection says."""
    if block.shape[0] != size:
        raise ValueError(
            f"A chunk has {block.shape[0]} rows, and its collection says {size}. A function "
            "that changes the number of rows must declare it: map_blocks(..., chunks=...), or "
            "compute_chunk_sizes() afterwards."
        )


def digest(block: Any) -> str:
    """A token of a block's values, shape and dtype: equal in all processes, on CPU and GPU."""
    return token_of([host_copy(part) for part in _parts(block)])


def _parts(block):
    if is_frame(block):
        yield np.asarray(list(block.columns), dtype=object)
        yield from (as_rows(block[name]) for name in block.columns)
    elif is_sparse(block):
        block = as_rows(block)
        yield from (np.asarray(block.shape), block.indptr, block.indices, block.data)
    else:
        yield as_rows(block)


def library_of(x: Any) -> str:
    return type(x).__module__.partition(".")[0]


def host_copy(x: Any) -> Any:
    """Values in CPU memory, for a client that has no GPU."""
    return x.get() if hasattr(x, "get") and type(x).__module__.startswith("cupy") else x
