"""User input as one of three sources of blocks on workers.

Nothing is sent or computed here: that is done in `gpuml_dask.rows.placement`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from dask.base import tokenize
from dask.delayed import Delayed
from distributed import Client, Future, futures_of
from sklearn.utils import check_array

from gpuml_dask._dask import meta_of
from gpuml_dask.rows import blocks
from gpuml_dask.rows.blocks import Facts

# Rows in messages of this size; a lost one is sent again.
CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class LocalRows:
    block: Any
    facts: Facts
    # Per placement, not per object, whose values may change between two searches.
    token: str = field(default_factory=lambda: uuid4().hex)

    @property
    def row_bytes(self) -> int:
        return max(1, _nbytes(self.block) // max(1, self.block.shape[0]))

    def to_backend(self) -> "LocalRows":
        """The same rows, on the GPU if Dask's settings say so of new arrays or DataFrames."""
        is_frame = blocks.is_frame(self.block)
        wanted = dask.config.get("dataframe.backend" if is_frame else "array.backend", None)
        if wanted not in ("cupy", "cudf") or not self._can_be_uploaded():
            return self
        return replace(self, facts=replace(self.facts, on_gpu=True))

    @property
    def is_uploaded(self) -> bool:
        """Whether workers move the rows to their GPUs."""
        return self.facts.on_gpu and self._can_be_uploaded()

    def _can_be_uploaded(self):
        is_numeric_array = isinstance(self.block, np.ndarray) and self.block.dtype.kind in "fiub"
        return is_numeric_array or blocks.library_of(self.block) == "pandas"


@dataclass(frozen=True)
class CollectionRows:
    """A dask array, DataFrame or series with all columns in each of its blocks."""

    collection: Any
    facts: Facts

    @property
    def token(self) -> str:
        return tokenize(self.collection)

    @property
    def is_lost(self) -> bool:
        """Whether it depends on futures of the user that are gone."""
        return any(future.cancelled() for future in futures_of(self.collection))

    def start(self, client: Client, attempt: str, resources: Any) -> list[Future]:
        """Futures of the blocks in order; existing blocks stay where they are.

        `attempt` is "" at first, and another word each time that blocks were lost.
        """
        collection = _renamed(self.collection, attempt) if attempt else self.collection
        persisted = client.persist(collection, resources=resources)
        # Keys are (name, number of the block, 0); optimised graphs may have another name.
        return sorted(futures_of(persisted), key=lambda future: future.key[1:])


@dataclass(frozen=True)
class TaskRows:
    """Futures and delayed objects, each of them a block."""

    parts: Sequence[Any]
    facts: Facts = field(default_factory=Facts)

    @property
    def token(self) -> str:
        return tokenize([part.key for part in self.parts])

    @property
    def is_lost(self) -> bool:
        """Whether some are futures of the user that are gone."""
        return any(future.cancelled() for part in self.parts for future in futures_of(part))

    def start(self, client: Client, attempt: str, resources: Any) -> list[Future]:
        """Futures of the blocks; for futures of the user, new ones that share their data."""
        return [self._future(client, part, attempt, resources) for part in self.parts]

    def _future(self, client, part, attempt, resources):
        if isinstance(part, Future):
            return twin(part)
        if attempt:
            part = dask.delayed(blocks.same, pure=True)(part, attempt)
        return client.compute(part, resources=resources)


Source = LocalRows | CollectionRows | TaskRows


def twin(future: Future) -> Future:
    """Another future of the same data, which can be released separately."""
    return Future(future.key, client=future.client)


# ---------------------------------------------------------------- reading


def read_rows(x: Any, name: str = "X", *, numeric: bool = True) -> Source:
    """Recognise the user's X; with `numeric=False` any sequence will do."""
    source = _remote(x, name) or (_local_matrix(x, name) if numeric else _local(x))
    if numeric:
        check_matrix(source.facts)
    return source


def read_column(x: Any, name: str) -> Source:
    """Recognise the user's y, or another column with a value per row."""
    x = _labels_of_frame(x)
    source = _remote(x, name)
    if source is None:
        rows = blocks.as_rows(x)
        if rows.ndim == 0:
            raise ValueError(f"{name} should be a 1d array, got an array of shape () instead.")
        source = _local(rows)
    check_column(source.facts, name)
    return source


def check_matrix(facts: Facts) -> None:
    """Refuse rows that are no matrix of numbers, as far as is known."""
    if facts.tail == ():
        n_rows = "n" if facts.n_rows is None else facts.n_rows
        raise ValueError(
            f"Expected 2D array, got 1D array instead:\nshape=({n_rows},).\nReshape your data "
            "either using array.reshape(-1, 1) if your data has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
    if facts.tail is not None and len(facts.tail) > 1:
        n_axes = len(facts.tail) + 1
        raise ValueError(f"Found array with dim {n_axes}, while dim <= 2 is required.")
    if facts.dtype is not None and facts.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\nX has dtype {facts.dtype}.")
    if facts.n_rows == 0 and facts.tail is not None:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={(0, *facts.tail)}) while a minimum of 1 is "
            "required."
        )


def check_column(facts: Facts, name: str) -> None:
    """Refuse a column with too many axes."""
    if facts.tail is not None and len(facts.tail) > 1:
        shape = ("n" if facts.n_rows is None else facts.n_rows, *facts.tail)
        raise ValueError(f"{name} should be a 1d array, got an array of shape {shape} instead.")


def chunk_sizes(source: LocalRows, chunks: Any = None) -> tuple[int, ...]:
    """Rows per chunk of local rows: by bytes, for any cluster."""
    by_bytes = max(1, CHUNK_BYTES // source.row_bytes)
    return sizes_of(by_bytes if chunks is None else chunks, source.block.shape[0])


def sizes_of(chunks: int | Sequence[int], n_rows: int) -> tuple[int, ...]:
    """Rows of each chunk, from rows per chunk or from the sizes themselves, which are checked."""
    if isinstance(chunks, int | np.integer):
        if chunks > 0:
            full, rest = divmod(n_rows, int(chunks))
            return (int(chunks),) * full + ((rest,) if rest else ())
    elif np.iterable(chunks):
        sizes = list(chunks)
        positive = all(isinstance(size, int | np.integer) and size > 0 for size in sizes)
        if positive and sum(sizes) == n_rows:
            return tuple(int(size) for size in sizes)
    raise ValueError(
        f"chunks must be a number of rows, or positive sizes that make up all {n_rows} rows; got "
        f"{chunks!r}."
    )


# ---------------------------------------------------------------- here


def _local_matrix(x, name):
    if blocks.library_of(x) == "pyarrow" and hasattr(x, "column_names"):
        x = x.to_pandas()
    if blocks.is_frame(x):
        return _local(x)
    if not isinstance(x, np.ndarray) and hasattr(x, "shape") and not hasattr(x, "iloc"):
        x = blocks.as_rows(x)  # CuPy, torch and similar arrays, which scikit-learn would refuse
    if isinstance(x, np.ndarray) or not hasattr(x, "shape") or hasattr(x, "iloc"):
        x = check_array(x, ensure_all_finite=False, ensure_min_features=0, input_name=name)
    return _local(x)


def _local(x):
    block = x if blocks.is_frame(x) else blocks.as_rows(x)
    return LocalRows(block, blocks.describe(block)).to_backend()


def _nbytes(block):
    if blocks.is_sparse(block):
        return block.data.nbytes + block.indices.nbytes + block.indptr.nbytes
    if hasattr(block, "memory_usage"):
        return int(block.memory_usage(index=False).sum())
    if hasattr(block, "estimated_size"):  # polars
        return int(block.estimated_size())
    return block.nbytes


# ---------------------------------------------------------------- on workers


def _remote(x, name):
    """The source for rows on workers, or computed there; None for local data."""
    if isinstance(x, Delayed | Future):
        return TaskRows([x])
    is_list = isinstance(x, list | tuple) and len(x)
    if is_list and (isinstance(x[0], Future) or dask.is_dask_collection(x[0])):
        _check_parts(x, name)
        return TaskRows(list(x))
    if not dask.is_dask_collection(x):
        return None
    if hasattr(x, "rechunk"):
        return _array_rows(x)
    if hasattr(x, "to_dask_array"):
        return _frame_rows(x)
    raise TypeError(f"{type(x).__name__} has no rows; pass a dask array or a dask dataframe.")


def _check_parts(parts, name):
    """Refuse lists of more than tasks: NumPy would compute their parts, and stack them."""
    odd = {type(part).__name__ for part in parts if not isinstance(part, Delayed | Future)}
    if odd:
        raise ValueError(
            f"{name} is a list with parts of type {', '.join(sorted(odd))}. A list must hold "
            "futures or Delayed objects alone, one for each chunk of rows. Join dask arrays with "
            "dask.array.concatenate, dask DataFrames with dask.dataframe.concat."
        )


def _labels_of_frame(x):
    """A DataFrame with a single column, not of floats, as arrays of its values.

    It may hold labels, which stay as they are; other DataFrames become arrays of floats.
    """
    frame = meta_of(x)
    if not blocks.is_frame(frame) or frame.shape[1] != 1:
        return x
    if str(next(iter(frame.dtypes))).lower().startswith("float"):
        return x
    blocks.check_columns(frame)
    if frame is x:
        return blocks.labels(x)
    return [dask.delayed(blocks.labels, pure=True)(part) for part in x.to_delayed()]


def _array_rows(x):
    if x.ndim == 0:
        raise ValueError("Rows were expected, got a dask array without any axis.")
    if any(n > 1 for n in x.numblocks[1:]):
        x = x.rechunk(dict.fromkeys(range(1, x.ndim), -1))
    known = not np.isnan(sum(x.chunks[0]))
    tail, meta = x.shape[1:], meta_of(x)
    facts = Facts(
        sizes=tuple(int(size) for size in x.chunks[0]) if known else None,
        n_rows=int(sum(x.chunks[0])) if known else None,
        tail=None if any(np.isnan(size) for size in tail) else tuple(int(size) for size in tail),
        dtype=x.dtype,
        are_arrays=isinstance(meta, np.ndarray) or blocks.library_of(meta) == "cupy",
        on_gpu=blocks.library_of(meta) == "cupy",
    )
    return CollectionRows(x, facts)


def _frame_rows(x):
    meta = meta_of(x)
    facts = Facts(tail=(), are_arrays=False, on_gpu=blocks.library_of(meta) == "cudf")
    if x.ndim == 1:
        return CollectionRows(x, facts)
    names, dtype = list(x.columns), blocks.frame_dtype(meta)
    return CollectionRows(x, replace(facts, tail=(len(names),), dtype=dtype, columns=names))


def _renamed(collection, attempt):
    """The same collection with new keys at the end: keys of lost futures cannot be reused."""
    meta = meta_of(collection)
    if hasattr(collection, "to_dask_array"):
        return collection.map_partitions(blocks.same, attempt, meta=meta)
    return collection.map_blocks(blocks.same, attempt, meta=meta, dtype=collection.dtype)
