"""Rows of X, y and more in aligned chunks, each of them a future on a worker.

Rows on workers stay there; rows of this process are cut by bytes and sent straight to workers,
once. Chunks and pieces follow from the data alone.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Self
from uuid import uuid4

import dask
import numpy as np
from distributed import Client, Future
from sklearn.utils import check_consistent_length

from gpuml import get_config
from gpuml._persistence.tokens import token_of
from gpuml.exceptions import level_of_user
from gpuml_dask.client import HOW_TO_CONNECT, current_client, thread_lent
from gpuml_dask.errors import ClusterError
from gpuml_dask.planning.plan import DIVIDED_FROM_BYTES, room_for_rows
from gpuml_dask.rows import inputs
from gpuml_dask.rows.chunked import Rows, cut_tasks, local_rows, remote_rows
from gpuml_dask.rows.inputs import CollectionRows, LocalRows
from gpuml_dask.rows.sending import Homes, gpu_resources
from gpuml_dask.rows.unread import digest, is_kept, is_matrix, unread_rows
from gpuml_dask.waiting import answers, check_client, facts_of, in_touch

__all__ = ["Placed", "Table", "place"]

# Dask's setting: bytes of chunks of a collection that stay on workers.
MEMORY = "gpuml.memory"
# In place of "auto": whatever the setting says, all of them stay.
ALL = "all"
NOT_IN_PASSES = (
    f"{MEMORY} (or memory=) has no effect on chunks that hold text, are sparse or on GPUs, or are "
    "for an encoder, an imputer or RobustScaler: all chunks of X stay on the workers. Leave the "
    "setting out for this fit; for other models, you can also encode X first."
)

# ---------------------------------------------------------------- tables


class Placed:
    """Stands for rows that are on workers: pass it as X, y or a column wherever `place` is used.

    A search has it in the place of an array; it has a `shape`, `dtype` and `ndim`, and no values.
    It is the column `name` of `table`.
    """

    def __init__(self, table: "Table", name: str, rows: Rows):
        self.table, self.name, self.rows = table, name, rows
        self.shape = (sum(rows.sizes), *rows.tail)
        self.dtype = rows.dtype
        self.ndim = len(self.shape)

    @property
    def future(self) -> Future:
        """All rows in one, on one worker."""
        return self.table.whole(self.name)

    @property
    def header(self) -> Any:
        """The rows without any, as steps that read tables see them; None if no worker reads one."""
        facts = self.rows.facts
        if self.rows.unread is not None or facts.on_gpu:
            return None
        return np.empty((0, *self.shape[1:]), self.dtype) if facts.columns is None else facts.head

    @property
    def n_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    def check_open(self) -> None:
        """Raise an error if no table has the rows any more."""
        if not self.rows.is_open:
            raise ClusterError(f"{self!r}: its table is closed. Place the data again.")

    def revive(self) -> bool:
        """Make again what was lost."""
        return self.table.revive()

    def content_token(self) -> str:
        """A token of the values, for checkpoints; see `Table.content_token`."""
        return f"{self.name} of {self.table.content_token()}"

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        state = "on workers" if self.rows.is_open else "released"
        return f"<{self.rows.name} of shape {self.shape}, {self.dtype}, {state}>"

    def __array__(self, dtype=None, copy=None):
        raise TypeError(f"{self!r} has no values in this process; pass it to gpuml_dask only.")

    def __getitem__(self, key):
        raise TypeError(
            f"{self.name} is on the workers of a cluster; its values are not read here. A "
            "splitter or scorer that needs them gets them from an array or DataFrame passed to fit."
        )


class Table:
    """X, y and columns in aligned chunks of rows, each a future on a worker; made by `place`.

    A context manager; `close` forgets the data and its futures, which the workers then free, unless
    another table or the user has them too.

    Attributes
    ----------
    client : distributed.Client
    names : tuple of str
        "X", "y" if there is one, and the names of the columns.
    sizes : tuple of int
        Rows of each chunk.
    n_rows, n_chunks : int
    shape, dtype, y_shape, y_dtype
        Of X and y as arrays; the dtype of a DataFrame that is not all numbers is object.
    columns_names : list of str or None
        Names of the columns of X, where it is a DataFrame.
    token : str
        Equal only for equal data. Tables of one dask collection, of the same futures or of the same
        `Placed` handles have the same token; local data has a new one each time it is placed,
        because it may have been changed in between.
    """

    def __init__(self, client: Client, rows: Mapping[str, Rows]):
        self.client = client
        self._columns, self._is_closed = dict(rows), False
        self.names = tuple(rows)
        X, y = rows["X"], rows.get("y")
        self.sizes, self.n_chunks, self.n_rows = X.sizes, len(X.sizes), sum(X.sizes)
        self.shape, self.dtype, self.columns_names = (self.n_rows, *X.tail), X.dtype, X.columns
        self.y_shape = None if y is None else (self.n_rows, *y.tail)
        self.y_dtype = None if y is None else y.dtype
        self.token = token_of([(name, column.token) for name, column in rows.items()])

    def futures(self, name: str) -> list[Future]:
        """Chunks of one of `names`, as arrays: (n_i, p), (n_i,) or (n_i, t)."""
        return self._rows(name).arrays()

    def blocks(self, name: str) -> list[Future]:
        """Chunks of one of `names` in the form of `whole`: DataFrames or arrays."""
        return self._rows(name).to_be_joined()

    def whole(self, name: str) -> Future:
        """All rows of one of `names` in one array, or DataFrame, on one worker."""
        return self._rows(name).whole()

    def pieces(
        self, bounds: Sequence[tuple[int, int]], *, frames: bool = False
    ) -> list[tuple[Future, ...]]:
        """Rows cut at other bounds (start, stop), by tasks near the chunks.

        Ranges may overlap, in any order. For each there are its arrays in the order of `names`,
        which the table does not keep: after a loss `pieces` must be called again. With `frames`, X
        is in the form of `blocks`.
        """
        wanted = [(int(start), int(stop)) for start, stop in bounds]
        for start, stop in wanted:
            if not 0 <= start <= stop <= self.n_rows:
                raise ValueError(f"There are no rows {start} to {stop} in {self.n_rows} rows.")
        word, columns = uuid4().hex, []
        for name in self.names:
            rows = self._rows(name)
            chunks = rows.to_be_joined() if frames and name == "X" else rows.arrays()
            columns.append(cut_tasks(rows, chunks, wanted, f"rows-of-{name}-{word}"))
        return list(zip(*columns, strict=True))

    def revive(self) -> bool:
        """Make again what was lost with its worker and Dask cannot make; whether anything was lost.

        Afterwards ask for all futures anew. A `ClusterError` is raised if they were the user's.
        """
        check_client(self.client)
        revived = [self._rows(name).revive() for name in self.names]
        return any(revived)

    def content_token(self) -> str:
        """A hash of all values, computed chunk by chunk on the workers.

        It is the same in any process and on any cluster for the same values, dtypes and names in
        the same chunks. Of arrays in this process the chunks follow from the bytes of a row.
        """
        while True:
            try:
                return self._content_token()
            except ClusterError:
                if not self.revive():
                    raise

    def _content_token(self):
        check_client(self.client)
        word = uuid4().hex
        digests: list[Any] = []
        for name in self.names:
            rows = self._rows(name)
            keys = [(f"digest-of-{name}-{word}", i) for i in range(self.n_chunks)]
            digests += rows.map(digest, rows.to_be_joined(), keys=keys)
        digests = answers(self.client, digests, "hashes of the rows")
        return token_of([self.names, self.sizes, digests])

    @property
    def X(self) -> Placed:
        """A handle of X."""
        return self["X"]

    @property
    def y(self) -> Placed | None:
        """A handle of y; None without one."""
        return self["y"] if "y" in self.names else None

    def __getitem__(self, name: str) -> Placed:
        """A handle of one of `names`, good until the table is closed."""
        return Placed(self, name, self._rows(name))

    def close(self) -> None:
        """Forget all futures; closing twice does no harm."""
        if not self._is_closed:
            self._is_closed = True
            _release(self._columns.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        state = "closed" if self._is_closed else f"{self.n_chunks} chunks"
        return f"<Table of {', '.join(self.names)}: {self.shape}, {self.dtype}, {state}>"

    def _rows(self, name):
        if self._is_closed:
            raise ClusterError("The table is closed; place the data again.")
        return self._columns[name]


def place(
    X: Any,
    y: Any = None,
    columns: Mapping[str, Any] | None = None,
    *,
    client: Client | None = None,
    chunks: int | Sequence[int] | None = None,
    numeric: bool = True,
    memory: int | str | None = None,
) -> Table:
    """Put rows on the workers of a cluster, to use them in several fits and searches.

    Parameters
    ----------
    X : array-like, DataFrame or sparse matrix of shape (n, p), or dask or Placed object
        NumPy, CuPy, torch, pandas, polars, cuDF, SciPy sparse data and lists are sent straight to
        the workers, once, in chunks of about 64 MiB. Dask arrays and DataFrames, `Delayed` objects
        and futures (one for all rows, or a list of one per chunk) stay on the workers, and keep
        their chunks. With Dask's setting ``array.backend`` "cupy" or ``dataframe.backend`` "cudf",
        workers move NumPy arrays or pandas DataFrames of this process to their GPUs.
    y : array-like of shape (n,) or (n, t), Series, DataFrame, dask or Placed object, default=None
        Targets; they get the chunks of X.
    columns : dict of str to (n,) or (n, t) array-like, default=None
        Other columns by name, such as ``sample_weight``. Entries that are None are left out.
    client : distributed.Client, default=None
        None is the current client.
    chunks : int or sequence of int, default=None
        Rows per chunk, or a list with the rows of each chunk. None keeps the chunks of X, or makes
        chunks of about 64 MiB.
    numeric : bool, default=True
        Whether X must be numeric or a DataFrame. False also accepts texts and rows of any shape.
    memory : int, str or None, default=None
        How many bytes of the chunks of a dask array or DataFrame X stay on the workers, such as
        "40GB". Fits and searches compute the other chunks again in each pass; fits that need all
        rows in memory raise an error. "auto" uses Dask's setting ``gpuml.memory``, as searches and
        estimators do. None keeps all chunks. Other kinds of X are always kept.

    Returns
    -------
    table : Table
        Pass its handles ``table.X``, ``table.y`` and ``table["sample_weight"]`` to searches and
        estimators, as often as you like: nothing is copied again. Close it to release the rows.

    Raises
    ------
    ValueError
        If scikit-learn rejects the data: lengths that differ, a wrong number of axes, text. Also if
        there is no client, or `memory` is set and workers use GPUs, which keep all rows.
    TypeError
        For collections without rows, for ``np.matrix``, and if `client` is not a client.
    ClusterError
        If the client is closed, there are no workers, or chunks are lost.

    Examples
    --------
    >>> import numpy as np
    >>> from distributed import Client
    >>> from gpuml_dask.rows.placement import place
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     with place(np.ones((10, 2)), np.arange(10), chunks=4) as table:
    ...         table.sizes, table.X, table.whole("y").result().sum()
    ((4, 4, 2), <X of shape (10, 2), float64, on workers>, np.int64(45))
    """
    client = current_client() if client is None else client
    if client is None:
        raise ValueError(f"There is no Dask client. {HOW_TO_CONNECT}")
    check_client(client)
    if taken := {"X", "y"} & set(columns or ()):
        raise ValueError(f"columns must have other names than X and y, got {sorted(taken)}.")
    if X is None:
        raise ValueError("X is None; rows are required.")
    given = {"X": X, "y": y, **(columns or {})}
    read = {n: _read(n, x, client, numeric) for n, x in given.items() if x is not None}
    _check_lengths([source.facts.n_rows for source in read.values()])
    placed: dict[str, Rows] = {}
    try:
        with in_touch(client), thread_lent():
            _place_all(client, read, placed, chunks, numeric, memory)
    except BaseException:
        _release(placed.values())
        raise
    return Table(client, placed)


def _place_all(client, read, placed, chunks, numeric, memory):
    gpu = cache(partial(gpu_resources, client))  # asked once, and only where it matters
    X = _placed_matrix(client, read["X"], chunks, numeric, gpu, memory)
    X = _take(placed, "X", X)
    others = {name: source for name, source in read.items() if name != "X"}
    _check_lengths([sum(X.sizes), *(source.facts.n_rows for source in others.values())])
    for name, source in others.items():
        if isinstance(source, LocalRows):
            homes = X.homes or _homes(client, source, X.sizes)
            rows = local_rows(client, name, source, X.sizes, homes, gpu)
        else:
            rows = source if isinstance(source, Rows) else remote_rows(client, name, source, gpu)
            inputs.check_column(rows.facts, name)
            _check_lengths([sum(X.sizes), sum(rows.sizes)])
            rows = rows.cut(X.sizes)
        _take(placed, name, rows)


def _take(placed, name, rows):
    """Acquire rows for a table, and start to send or compute their chunks."""
    rows.acquire()
    placed[name] = rows
    rows.blocks()
    return rows


def _placed_matrix(client, source, chunks, numeric, gpu, memory):
    if isinstance(source, LocalRows):
        sizes = inputs.chunk_sizes(source, chunks)
        return local_rows(client, "X", source, sizes, _homes(client, source, sizes), gpu)
    rows = source if isinstance(source, Rows) else None
    if isinstance(source, CollectionRows) and memory is not None and not is_kept(source):
        rows = unread_rows(client, "X", source, _room(client, source, memory))
    rows = remote_rows(client, "X", source, gpu, numeric) if rows is None else rows
    if numeric:
        inputs.check_matrix(rows.facts)
    return rows if chunks is None else rows.cut(inputs.sizes_of(chunks, sum(rows.sizes)))


def _room(client, source, memory):
    """Bytes of chunks of a collection that stay on workers."""
    asked = dask.config.get(MEMORY) if memory in ("auto", ALL) else memory
    if asked is not None and (memory == ALL or not is_matrix(source.facts)):
        warnings.warn(NOT_IN_PASSES, UserWarning, stacklevel=level_of_user())
    if memory == ALL:
        return math.inf
    if asked is None and (source.facts.n_bytes or 0) < DIVIDED_FROM_BYTES:
        return math.inf  # small, or of a size that only reading would tell
    return room_for_rows(asked, facts_of(client).values(), gpus=get_config()["device"] != "cpu")


def _homes(client, source, sizes):
    return Homes(client, [size * source.row_bytes for size in sizes], source.facts.on_gpu)


def _read(name, value, client, numeric):
    if isinstance(value, Placed):
        value.check_open()
        if value.rows.client is not client:
            raise ValueError(f"{value!r} is on the workers of another client.")
        return value.rows
    if name == "X":
        return inputs.read_rows(value, numeric=numeric)
    return inputs.read_column(value, name)


def _check_lengths(lengths):
    check_consistent_length(*(range(n) for n in lengths if n is not None))


def _release(columns):
    for rows in columns:
        rows.release()
