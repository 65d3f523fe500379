"""Tables in files, read in order as blocks of rows, and those of arrays that are sliced."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gpuml.reading.sources import source_of

# Rows that pyarrow decodes at once: few enough to stay near the caches.
BATCH_ROWS = 2**15


class NullsError(ValueError):
    """A column of numbers has nulls."""


class Table(ABC):
    """Rows of named columns that are read from front to back, as often as they are needed.

    Attributes
    ----------
    names : tuple of str
        Of all columns.
    n_rows : int
    label : str
        What messages call it.
    has_names : bool
        Whether names are those of the file, and not numbers.
    index : tuple of str
        Names of columns that are the index of the DataFrame that was written.
    """

    names: tuple[str, ...]
    n_rows: int
    label: str
    has_names: bool = True
    index: tuple[str, ...] = ()

    @abstractmethod
    def dtype_of(self, column: str) -> np.dtype | None:
        """Dtype of a column; None of one that holds no numbers."""

    @abstractmethod
    def kind_of(self, column: str) -> str:
        """What a column holds, in the words of the file."""

    @abstractmethod
    def batches(self, columns: Sequence[str], rows: slice) -> Iterator[tuple[int, Sequence[Any]]]:
        """Neighbouring rows that together have some; the number of the first, and its columns."""

    def reading_bytes(self, columns: Sequence[str]) -> int:
        """Memory that reading takes besides the blocks that come of it."""
        return 0

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise a ValueError for columns that there are not."""
        for name in columns:
            if name not in self.names:
                alike = get_close_matches(str(name), self.names, 1)
                hint = f"Did you mean {alike[0]!r}? " if alike else ""
                some = ", ".join(map(repr, self.names[:20]))
                more = ", ..." if len(self.names) > 20 else ""
                raise ValueError(
                    f"{self.label} has no column {name!r}. {hint}Its columns are {some}{more}."
                )

    def decoded(self, columns: Sequence[str], spans: Sequence[slice]) -> Generator["Decoded"]:
        """Spans of rows in ascending order, of some columns, in the batches that were read.

        Raises
        ------
        OSError
            If a file is gone, or was changed.
        """
        for run in _runs(spans):
            batches = self.batches(columns, slice(run[0].start, run[-1].stop))
            first, n = 0, 0
            batch: Sequence[Any] = []
            for span in run:
                parts = [(first, batch)] if first + n > span.start else []
                while first + n < span.stop:
                    first, batch = next(batches)
                    n = len(batch[0])
                    if first + n > span.start:
                        parts.append((first, batch))
                yield Decoded(span, parts)

    def filled(
        self,
        decoded: "Decoded",
        columns: Sequence[str],
        dtype: Any,
        readers: Sequence[Callable[[Any], np.ndarray]] | None = None,
    ) -> np.ndarray:
        """A span of rows (b, p) as an array.

        Each of `readers` makes numbers of some rows of a column, as they were read; None takes
        columns of numbers without nulls.

        Raises
        ------
        NullsError
            For a null.
        """
        span, parts = decoded
        # Column after column, as they come: each is written, and later read, in a run.
        block = np.empty((len(columns), span.stop - span.start), dtype=dtype).T
        for first, batch in parts:
            start, stop = max(span.start, first), min(span.stop, first + len(batch[0]))
            for j, values in enumerate(batch):
                if readers is None:
                    found = self.values(values, columns[j], start - first, stop - first, start)
                else:
                    found = readers[j](values[start - first : stop - first])
                block[start - span.start : stop - span.start, j] = found
        return block

    def frame(self, decoded: "Decoded", columns: Sequence[str]) -> Any:
        """A span of rows as a DataFrame; as an array where columns have no names."""
        return self.filled(decoded, columns, self.dtype_of(columns[0]))

    def frame_of(
        self, columns: Sequence[str], values: Mapping[str, Sequence[Any]], n_rows: int
    ) -> Any:
        """The same of few rows, with values of some of the columns, None for missing ones."""
        made = np.zeros((n_rows, len(columns)), dtype=self.dtype_of(columns[0]))
        for name, own in values.items():
            made[:, list(columns).index(name)] = [np.nan if v is None else v for v in own]
        return made

    def blocks(
        self, columns: Sequence[str], spans: Sequence[slice], dtype: Any
    ) -> Generator[np.ndarray]:
        """Blocks (b, p) of some columns, for spans of rows in ascending order."""
        for decoded in self.decoded(columns, spans):
            yield self.filled(decoded, columns, dtype)

    def values(self, column: Any, name: str, start: int, stop: int, row: int) -> np.ndarray:
        """Some of the values of a column of a batch, whose first is in a row of the table."""
        return column[start:stop]

    def column(self, name: str) -> np.ndarray:
        """All values of a column: numbers, or strings."""
        self.check_columns([name])
        parts, first = [], 0
        for first, (values,) in self.batches([name], slice(0, self.n_rows)):
            parts.append(self.values(values, name, 0, len(values), first))
        found = np.concatenate(parts)
        return found.astype(str) if found.dtype == object else found


class Decoded(NamedTuple):
    """A span of rows, and batches that have them: the number of the first row, and columns."""

    span: slice
    parts: Sequence[tuple[int, Sequence[Any]]]


def _runs(spans):
    """Spans of neighbours together."""
    runs: list[list[slice]] = []
    for span in spans:
        if runs and runs[-1][-1].stop == span.start:
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


# ---------------------------------------------------------------- arrays


@dataclass(frozen=True, eq=False)
class ArrayTable(Table):
    """An array (n, p) that is sliced, such as a memory map or one of Zarr; names are numbers."""

    array: Any
    source: Any
    label: str
    has_names = False

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.source.shape[0]

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(map(str, range(self.source.shape[1])))

    def dtype_of(self, column: str) -> np.dtype | None:
        return np.dtype(self.array.dtype)

    def kind_of(self, column: str) -> str:
        return str(self.array.dtype)

    def batches(self, columns: Sequence[str], rows: slice) -> Iterator[tuple[int, Sequence[Any]]]:
        numbers = [int(name) for name in columns]
        step = max(BATCH_ROWS // self.source.chunk, 1) * self.source.chunk
        for start in range(rows.start // step * step, rows.stop, step):
            block = self.source.slice_of(slice(start, min(start + step, self.n_rows)))
            yield start, [block[:, j] for j in numbers]


def array_table(array: Any, label: str) -> ArrayTable:
    """A two-dimensional array that is sliced, as a table."""
    return ArrayTable(array, source_of(array, by_columns=False), label)
