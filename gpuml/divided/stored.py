"""Rows in files as users have them: given as X to searches and fits, and read pass by pass."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from gpuml._arrays import HOST, compute_place, free_bytes
from gpuml._arrays.threads import blas_threads
from gpuml._arrays.transfers import format_bytes
from gpuml._settings.config import get_config
from gpuml.data import NeedsAllRows
from gpuml.divided.batch import Facts, Share, facts_of
from gpuml.divided.holders import InProcess
from gpuml.divided.read import Kept, Pieces, Read, Readings, Room, read
from gpuml.divided.rows import DividedRows
from gpuml.divided.tables import known_table, survey_of_file
from gpuml.extending import TableStep
from gpuml.reading.tables import NullsError, Table

# Rows that are read, and worked on, at once.
SMALLEST_PIECE_BYTES, LARGEST_PIECE_BYTES = 2**20, 2**25
# Pieces on their way at any time: one is being read, others wait for their turn, one is next.
AHEAD = 5
# Pieces in progress for each thread that fills or uses arrays.
BY_THREAD = 3
# Threads that compute for each one that fills arrays.
WORKERS_PER_FILLER = 4
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# What reading may raise that no candidate is to blame for.
FAULTS = (OSError, NullsError, MemoryError)


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows in files that are read in order, pass by pass, in bounded memory.

    `gpuml.read_parquet`, `gpuml.read_csv` and `gpuml.read_array` make such rows. Searches and
    linear models take them as X, with the names of columns as y and `sample_weight`:
    ``search.fit(rows, "price")``. All other columns are features.

    Attributes
    ----------
    shape : (int, int)
        Rows, and columns, targets and weights included.
    columns : tuple of str
    memory : int
        Bytes of memory for reading, and for rows that stay.

    See Also
    --------
    gpuml.read_parquet : Where they come from.

    Examples
    --------
    >>> import numpy as np
    >>> import gpuml
    >>> from gpuml.linear_model import Ridge
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> rows = gpuml.read_array(X)
    >>> model = Ridge(alpha=1e-3).fit(rows, X @ [1.0, 2.0, 3.0])
    >>> model.coef_.round(2)
    array([1., 2., 3.])
    """

    table: Table
    columns: tuple[str, ...]
    memory: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.n_rows, len(self.columns)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the rows as read: float32 if the columns' common dtype is, else float64."""
        kinds = [kind for name in self.columns if (kind := self.table.dtype_of(name)) is not None]
        together = np.result_type(*kinds) if kinds else np.dtype(float)
        return np.result_type(together, np.float32 if together.kind == "f" else np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, p = self.shape
        size = format_bytes(n * p * self.dtype.itemsize)
        return f"<StoredRows: {n} rows of {p} columns ({size}) of {self.table.label}>"

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"{self!r} is read pass by pass, and this needs the rows in memory. Pass rows[:] for "
            "all of them as an array, or work block by block: rows.apply(model.predict), "
            "rows.score(model, y)."
        )

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Neighbouring rows (b, p), in memory."""
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(
                "Rows in files can only be sliced: rows[i:j], or rows[:] for all of them as an "
                f"array in memory; got {type(rows).__name__}."
            )
        start, stop, _ = rows.indices(len(self))
        self.check_numbers()
        (block,) = self._read([slice(start, max(start, stop))])
        return block

    # ------------------------------------------------------------ for users

    def select(self, columns: Sequence[str]) -> "StoredRows":
        """The same rows with some of the columns, in the order that is given."""
        self.table.check_columns(columns)
        return replace(self, columns=tuple(columns))

    def drop(self, *columns: str) -> "StoredRows":
        """The same rows without some columns."""
        self.table.check_columns(columns)
        return self.select([name for name in self.columns if name not in columns])

    def column(self, name: str) -> np.ndarray:
        """The values (n,) of a column, in memory."""
        return self.table.column(name)

    def blocks(self) -> Iterator[np.ndarray]:
        """The rows, block by block, as arrays (b, p)."""
        self.check_numbers()
        return self._read(self._spans(1))

    def apply(self, function: Callable[[Any], Any]) -> np.ndarray:
        """The results of a function such as ``model.predict`` for all rows, block by block.

        Where columns have names, it is given DataFrames of pandas (or polars), as the model of a
        search over such rows knows their names: nulls are nan, and strings are strings.
        """
        if len(self) == 0:
            raise ValueError(f"{self!r} have no rows, and at least one is needed.")
        return np.concatenate([function(frame) for _, frame in self._frames()])

    def score(self, model: Any, y: Any = None, sample_weight: Any = None) -> float:
        """What ``model.score`` gives for all rows, block by block.

        Parameters
        ----------
        model : estimator
            A fitted regressor or classifier, density or KMeans, a pipeline that ends in one, or a
            search for one.
        y : str or array-like of shape (n_samples,), default=None
            The name of a column, which is no feature then, or values. Densities and KMeans need
            none.
        sample_weight : str or array-like of shape (n_samples,), default=None

        Raises
        ------
        ValueError
            If the score reads the rows: it is none of R2, D2, accuracy, a density's and that of
            KMeans, nor a metric of targets and predictions, as ``scoring=`` of a search.
        TypeError
            If the score takes no weights.

        Examples
        --------
        >>> import numpy as np
        >>> import gpuml
        >>> from gpuml.linear_model import Ridge
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> y = X @ [1.0, 2.0, 3.0]
        >>> gpuml.read_array(X).score(Ridge().fit(X, y), y) > 0.99
        True
        """
        from gpuml.metrics.blocks import block_score

        score = block_score(model)
        score.check(y, sample_weight)
        features, y, given = self.resolved(y, {"sample_weight": sample_weight})
        columns = [None if x is None else np.asarray(x) for x in (y, given["sample_weight"])]
        check_consistent_length(features, *columns)
        sums = [
            score.sums(
                getattr(model, score.method)(frame),
                *(None if column is None else column[span] for column in columns),
            )
            for span, frame in features._frames()
        ]
        return score.finish(score.together(sums))

    def _frames(self):
        """Spans of rows, one after the other, as their functions take them."""
        for decoded in self.table.decoded(self.columns, self._spans(1)):
            yield decoded.span, self.table.frame(decoded, self.columns)

    # ------------------------------------------------------------ for fits

    def resolved(self, y: Any, columns: Mapping[str, Any]) -> tuple["StoredRows", Any, dict]:
        """Features, y, and others that have a value for each row: columns by name are read."""
        if isinstance(y, list | tuple) and len(y) != len(self) and set(y) <= set(self.table.names):
            raise ValueError(
                f"y must be the name of one column, or values, got {y!r}. Pass the values of "
                "several columns, and drop them: "
                "fit(rows.drop(*names), rows.select(names)[:])."
            )
        named = [value for value in (y, *columns.values()) if isinstance(value, str)]
        self.table.check_columns(named)
        features = self.drop(*named)
        if len(self) == 0 or not features.columns:
            raise ValueError(
                f"{features!r} have no rows or no features, and at least one of each is needed."
            )
        values = {name: self._value(value) for name, value in columns.items()}
        return features, self._value(y), values

    def _value(self, value):
        return self.column(value) if isinstance(value, str) else value

    def divided(self, y: Any = None, weight: Any = None) -> DividedRows:
        """The rows for fits and searches, with y and weights that are in memory."""
        settings = get_config()
        n, p = self.shape
        row_bytes = p * self.dtype.itemsize
        place = compute_place(np.empty(0), n * row_bytes, settings["device"])
        settings["device"] = "cpu" if place.is_host else "cuda"
        threads = blas_threads() if place.is_host else 1
        spans = self._spans(threads)
        piece_bytes = (spans[0].stop - spans[0].start) * row_bytes
        taken = sum(value.nbytes for value in (y, weight) if hasattr(value, "nbytes"))
        work = taken + self.table.reading_bytes(self.columns)
        work += _n_ahead(threads) * piece_bytes
        if work > self.memory:
            raise MemoryError(
                f"memory={format_bytes(self.memory)} is too small for {self!r}: reading it takes "
                f"about {format_bytes(work)}, of which y and weights, which stay in memory, take "
                f"{format_bytes(taken)}. Give more memory=, or fewer columns."
            )
        room = Room(self.memory - work)
        decoded = partial(self.table.decoded, self.columns)
        filled = partial(self.table.filled, columns=self.columns, dtype=self.dtype)
        fillers = _fillers(threads)
        kept = Kept(room), room, Readings()
        pieces = Pieces(decoded, filled, fillers, spans, y, weight, p, self.dtype, *kept)
        sizes = tuple(span.stop - span.start for span in spans)
        names = self.columns if self.table.has_names else None
        shares = read(pieces, place, threads)
        return ReadRows(shares, sizes, p, settings, names, stored=self)

    def frame_for(self, step: TableStep) -> Any:
        """A DataFrame of the dtypes of the columns, of hardly any rows, as a first step needs it.

        Integers with nulls are floats in DataFrames. Where that matters to the step, all may be.
        """
        found = self.table.frame_of(self.columns, {}, 0)
        if not self.table.has_names or step.table_divided(found) is None:
            return found
        kinds = {name: self.table.dtype_of(name) for name in self.columns}
        floats = {name: [None] for name, kind in kinds.items() if kind and kind.kind in "iu"}
        wide = self.table.frame_of(self.columns, floats, 1)
        return wide if step.table_divided(wide) is None else found

    def fit_model(self, estimator: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit an estimator whose `fit` got these rows."""
        from gpuml.divided.fitting import fit_divided

        features, y, given = self.resolved(y, {"sample_weight": sample_weight})
        features.check_numbers()
        weight = given["sample_weight"]
        try:
            fitted = fit_divided(
                estimator, features.divided(y, weight), weighted=weight is not None
            )
        except NeedsAllRows as error:
            raise NeedsAllRows(f"{error} {in_memory(features)}") from error
        vars(estimator).pop("feature_names_in_", None)
        vars(estimator).update(fitted)
        return estimator

    def _read(self, spans: Sequence[slice]) -> Generator[np.ndarray]:
        return self.table.blocks(self.columns, spans, self.dtype)

    def _spans(self, threads):
        row_bytes = max(1, self.shape[1] * self.dtype.itemsize)
        wanted = self.memory // (4 * _n_ahead(threads))
        wanted = min(max(wanted, SMALLEST_PIECE_BYTES), LARGEST_PIECE_BYTES)
        n, step = len(self), max(1, wanted // row_bytes)
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    def check_numbers(self) -> None:
        """Raise a ValueError that names the columns that hold no numbers, if there are any."""
        others = [name for name in self.columns if self.table.dtype_of(name) is None]
        if others:
            words = ", ".join(f"{name!r} ({self.table.kind_of(name)})" for name in others[:10])
            raise ValueError(
                f"Features must be numbers, but these columns of {self.table.label} are not: "
                f"{words}. Leave them out with rows.drop({others[0]!r}), or by columns=[...], or "
                "search over a pipeline whose first step is a ColumnTransformer that encodes them."
            )


@dataclass(frozen=True)
class ReadRows(DividedRows):
    """Divided rows with y and weights in memory, so that facts need no reading.

    Attributes
    ----------
    stored : StoredRows
        The features.
    """

    shares: Read
    stored: Any = None

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the rows as read."""
        return self.stored.dtype

    @property
    def n_passes(self) -> int:
        """How often the rows were read so far."""
        pieces = self.shares.pieces
        return -(-pieces.readings.n_pieces // len(pieces.spans))

    def without_weights(self) -> "ReadRows":
        """The same rows, without weights."""
        held = self.shares
        pieces = replace(held.pieces, weight=None)
        return replace(self, shares=read(pieces, held.place, held.threads))

    def _table_for(self, step):
        file, features = self.stored.table, self.stored.columns
        survey = partial(survey_of_file, file, features, self._blocks)
        return known_table(file.frame_of(features, {}, 0), step, survey, self.tables)

    def _blocks(self, columns, readers):
        """Holders of blocks of some columns, as readers make numbers of them."""
        held, table = self.shares.pieces, self.stored.table
        filled = partial(table.filled, columns=columns, dtype=np.float64, readers=readers)
        pieces = replace(
            held,
            decoded=partial(table.decoded, columns),
            filled=filled,
            n_features=len(columns),
            dtype=np.dtype(np.float64),
            kept=Kept(held.room),
        )
        return read(pieces, self.shares.place, self.shares.threads)

    def _facts(self, estimator: Any) -> Sequence[Facts]:
        pieces = self.shares.pieces
        # X is checked when it is read; other errors show with one column.
        X = np.zeros((self.shape[0], 1), dtype=self.dtype)
        share = Share(X, pieces.y, pieces.weight)
        settings = {**self.settings, "device": "cpu"}
        (facts,) = facts_of(estimator, InProcess([share], HOST), settings)
        seen = {**facts.seen, "n_features_in_": self.n_features}
        return [facts._replace(n_features=self.n_features, seen=seen)]


def _fillers(threads):
    return -(-threads // WORKERS_PER_FILLER)


def _n_ahead(threads):
    """Pieces in memory at most, besides those that stay."""
    return AHEAD + BY_THREAD * (_fillers(threads) + threads)


def in_memory(rows: StoredRows) -> str:
    """What to type where rows are needed in memory."""
    n, p = rows.shape
    size = format_bytes(n * p * rows.dtype.itemsize)
    if any(rows.table.dtype_of(name) is None for name in rows.columns):
        return f"Pass a DataFrame, as pandas.read_parquet makes it, which takes about {size}."
    return f"Pass rows[:] as X and rows.column(...) as y, which takes {size}."


def memory_of(memory: Any) -> int:
    """Bytes of "4GB", of a number, or of half the free memory for None."""
    if memory is None:
        return free_bytes(HOST) // 2
    size: Any = memory
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]i?)?b?\s*", memory.lower())
        size = float(found[1]) * {**UNITS, **BINARY}[found[2] or ""] if found else 0
    is_number = isinstance(size, Real) and not isinstance(size, bool)
    if is_number and 0 < size < np.inf:
        return int(size)
    raise ValueError(f"memory must be bytes or a string such as '4GB', got {memory!r}.")


def stored_rows(table: Table, columns: Sequence[str] | None, memory: Any) -> StoredRows:
    """Rows of a table; `columns` None is all of them but the index of a DataFrame."""
    rows = StoredRows(table, tuple(table.names), memory_of(memory))
    if columns is None:
        return rows.drop(*set(table.index) & set(table.names))
    if isinstance(columns, str):
        raise ValueError(f"columns must be a list of names, got {columns!r}. Use [{columns!r}].")
    return rows.select(list(columns))
