"""Rows on workers in any form: recognise them, and make a Dask collection of them."""

from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask import delayed
from dask.base import tokenize
from dask.delayed import Delayed
from distributed import Client, Future

from gpuml_dask._dask import array_of
from gpuml_dask.errors import ClusterError
from gpuml_dask.rows.blocks import upload
from gpuml_dask.rows.inputs import twin
from gpuml_dask.rows.placement import Placed


def lives_on_workers(x: Any) -> bool:
    """Whether rows are, or will be, on a cluster: collections, futures, placed arrays.

    >>> import dask.array as da
    >>> lives_on_workers(da.ones((4, 2))), lives_on_workers([[1.0, 2.0]])
    (True, False)
    """
    if isinstance(x, list | tuple):
        return len(x) > 0 and all(map(lives_on_workers, x))
    return isinstance(x, Future | Placed) or dask.is_dask_collection(x)


def client_of(*arrays: Any) -> Client | None:
    """The client that has some of the arrays; None for the current one."""
    for x in arrays:
        if isinstance(x, Placed):
            return x.rows.client
        first = x[0] if isinstance(x, list | tuple) and len(x) else x
        if isinstance(first, Future) and first.client is not None:
            return first.client
    return None


def as_collection(x: Any, n_columns: float | None = None) -> Any:
    """Futures, delayed objects and handles of placed rows as a dask array of chunks of rows.

    Nothing is computed, and anything else is returned unchanged. Chunks hold whatever the tasks
    return: DataFrames for handles of DataFrames. `n_columns` is for rows of which only the workers
    know the width; None means one number or label for each row.
    """
    if isinstance(x, Placed):
        x.check_open()
        # New futures, because those of the table are released with it.
        parts = [twin(future) for future in x.rows.to_be_joined()]
        dtype = x.dtype if x.dtype.kind != "O" else np.dtype(np.float64)
        return _chunks(parts, x.rows.sizes, x.shape[1:], dtype, on_gpu=x.rows.facts.on_gpu)
    parts = list(x) if isinstance(x, list | tuple) else [x]
    if not parts or not all(isinstance(part, Future | Delayed) for part in parts):
        return x
    for part in parts:
        if isinstance(part, Future) and part.cancelled():  # Dask would miss a task later
            raise ClusterError(
                f"{part.key!r} is a future that was cancelled, or whose client is closed. Compute "
                "it again with a client that is connected."
            )
    tail = () if n_columns is None else (n_columns,)
    return _chunks(parts, [np.nan] * len(parts), tail, np.dtype(np.float64))


def _chunks(
    parts: Sequence[Any],
    sizes: Sequence[float],
    tail: Sequence[float],
    dtype: np.dtype,
    *,
    on_gpu: bool = False,
) -> da.Array:
    meta: Any = np.empty((0,) * (1 + len(tail)), dtype=dtype)
    meta = upload(meta) if on_gpu else meta
    tasks = [delayed(part) for part in parts]
    name = f"rows-{tokenize([task.key for task in tasks])}"
    # `da.concatenate` would make arrays of DataFrames.
    keys: dict = {(name, i, *(0 for _ in tail)): task.key for i, task in enumerate(tasks)}
    return array_of(name, keys, (sizes, *((n,) for n in tail)), meta, tasks)
