"""Tables in files that pyarrow reads: Parquet and CSV."""

import glob
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays.frames import frame_of_arrow
from gpuml.exceptions import level_of_user
from gpuml.reading.levels import frame_of
from gpuml.reading.tables import BATCH_ROWS, Decoded, NullsError, Table

# Columns of Parquet are read from the file in stretches of so many bytes. Without that pyarrow
# takes whole row groups into memory, which may be gigabytes.
BUFFER_BYTES = 2**18
# What pyarrow holds of a column while it decodes: a stretch of the file, a page, decoded values.
COLUMN_BYTES = 2**21
TEXT = ("string", "large_string", "string_view")


class _Arrow(Table):
    """What tables of pyarrow have in common; `schema` is that of pyarrow."""

    schema: Any

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.schema.names)

    def dtype_of(self, column: str) -> np.dtype | None:
        import pyarrow.types as kinds

        kind = self.schema.field(column).type
        if kinds.is_boolean(kind):
            return np.dtype(bool)
        if kinds.is_integer(kind) or kinds.is_floating(kind):
            return np.dtype(kind.to_pandas_dtype())
        return np.dtype(float) if kinds.is_decimal(kind) else None

    def kind_of(self, column: str) -> str:
        return str(self.schema.field(column).type)

    def reading_bytes(self, columns: Sequence[str]) -> int:
        return COLUMN_BYTES * len(columns)

    def values(self, column: Any, name: str, start: int, stop: int, row: int) -> np.ndarray:
        import pyarrow.types as kinds

        some = column.slice(start, stop - start)
        if kinds.is_dictionary(some.type):
            some = some.dictionary_decode()
        if some.null_count:
            first = row + some.is_null().index(True).as_py()
            raise NullsError(
                f"Column {name!r} of {self.label} has nulls, the first of them in row {first}, and "
                "models that are fitted pass by pass do not accept missing values. Search over a "
                "pipeline whose first step is a SimpleImputer, write a file without, for example "
                "polars.scan_parquet(path).drop_nulls().sink_parquet(other), or leave the column "
                "out: columns=[...]."
            )
        if kinds.is_decimal(some.type):
            some = some.cast("float64")
        return some.to_numpy(zero_copy_only=False)

    def frame(self, decoded: Decoded, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        span, parts = decoded
        chunks: list[list[Any]] = [[] for _ in columns]
        for first, batch in parts:
            for own, values in zip(chunks, batch, strict=True):
                own.append(values[max(span.start - first, 0) : span.stop - first])
        arrays = [
            pa.chunked_array([each.cast(kind) for each in own], kind)
            for own, kind in zip(chunks, map(self._kind_in_frames, columns), strict=True)
        ]
        return frame_of_arrow(pa.table(arrays, list(columns)))

    def frame_of(
        self, columns: Sequence[str], values: Mapping[str, Sequence[Any]], n_rows: int
    ) -> Any:
        return frame_of([self.schema.field(name) for name in columns], values, n_rows)

    def _kind_in_frames(self, column):
        import pyarrow as pa
        import pyarrow.types as kinds

        kind = self.schema.field(column).type
        return pa.float64() if kinds.is_decimal(kind) else kind


class _File(NamedTuple):
    """A file of Parquet.

    Its rows, those of its row groups, the bytes of the largest of these for each column on average,
    and what tells whether it was changed.
    """

    path: str
    n_rows: int
    group_rows: tuple[int, ...]
    column_bytes: int
    stamp: Any


@dataclass(frozen=True)
class ParquetTable(_Arrow):
    """Files of Parquet, one after the other."""

    files: tuple[_File, ...]
    schema: Any
    filesystem: Any
    label: str
    index: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return sum(file.n_rows for file in self.files)

    def reading_bytes(self, columns: Sequence[str]) -> int:
        # As it is stored, and decoded.
        of_column = 2 * max(file.column_bytes for file in self.files) + 8 * BATCH_ROWS
        if self.filesystem is None:
            of_column = min(of_column, COLUMN_BYTES)
        return of_column * len(columns)

    def batches(self, columns: Sequence[str], rows: slice) -> Iterator[tuple[int, Sequence[Any]]]:
        first = 0
        for file in self.files:
            if max(first, rows.start) < min(first + file.n_rows, rows.stop):
                yield from self._batches_of(file, columns, first, rows)
            first += file.n_rows

    def _batches_of(self, file, columns, first, rows):
        ends = first + np.cumsum(file.group_rows)
        starts = ends - file.group_rows
        groups = np.flatnonzero((starts < rows.stop) & (ends > rows.start))
        at = int(starts[groups[0]])
        _check_unchanged(self.filesystem, file.path, file.stamp, self.label)
        # Strings as codes of a dictionary, which is how Parquet has most of them.
        text = [name for name in columns if str(self.schema.field(name).type) in TEXT]
        with _opened(self.filesystem, file.path, text) as opened:
            for batch in opened.iter_batches(
                BATCH_ROWS, row_groups=groups.tolist(), columns=list(columns)
            ):
                yield at, [batch.column(name) for name in columns]
                at += batch.num_rows


def parquet_table(
    path: Any,
    storage_options: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
) -> ParquetTable:
    """Files of Parquet as a table.

    Parameters
    ----------
    path : str, path, or list of them
        Files, folders of them, patterns with ``*``, or URLs that fsspec knows.
    storage_options : mapping, optional
        Of the file system of an URL.
    columns : sequence of str, optional
        Names of the columns that must be alike in all files; None is all. The table has those of
        the first file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file is none of Parquet, two of its columns have one name, or files have different
        columns.
    """
    filesystem, paths = _found(path, storage_options, ".parquet")
    files: list[_File] = []
    first: Any = None
    for each in paths:
        with _explained(each, "It is no file of Parquet."), _opened(filesystem, each) as opened:
            metadata, written = opened.metadata, opened.schema_arrow
            groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        first = written if first is None else first
        asked, own = (
            [field for field in some if columns is None or field.name in columns]
            for some in (first, written)
        )
        if own != asked:
            raise ValueError(
                f"{each} has other columns than {paths[0]}: {_differences(asked, own)}. Rows of a "
                "search need the same columns, of the same types, in all files."
            )
        sizes = tuple(group.num_rows for group in groups)
        largest = max((group.total_byte_size for group in groups), default=0)
        column_bytes = largest // max(1, metadata.num_columns)
        stamp = _stamp(filesystem, each)
        files.append(_File(each, metadata.num_rows, sizes, column_bytes, stamp))
    _refuse_one_name(paths[0], first)
    # Ranges, which have no column, are mappings.
    index = [
        each
        for each in (first.pandas_metadata or {}).get("index_columns", ())
        if isinstance(each, str)
    ]
    schema = first.remove_metadata()
    return ParquetTable(tuple(files), schema, filesystem, _label(paths), tuple(index))


@contextmanager
def _explained(path, advice):
    """Errors of pyarrow about what a file holds say which file it is, and what to do."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {str(error).rstrip('.')}. {advice}") from error


def _refuse_one_name(path, schema):
    several = sorted(name for name, n in Counter(schema.names).items() if n > 1)
    if several:
        raise ValueError(
            f"Columns are found by their names, but several columns of {path} are called "
            f"{several[0]!r}. Write the file with names that differ."
        )


def _differences(one, other):
    apart = set(map(str, one)) ^ set(map(str, other))
    return ", ".join(sorted(apart)) if apart else "they have another order"


def _opened(filesystem, path, text=()):
    """A file of Parquet, open; pyarrow reads those of this machine by itself."""
    from pyarrow.parquet import ParquetFile

    given = {"read_dictionary": list(text)}
    if filesystem is None:
        return ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False, **given)
    # Whole row groups come over a network in few requests.
    return ParquetFile(filesystem.open(path, "rb"), pre_buffer=True, **given)


def _found(path, storage_options, ending):
    """The file system behind paths (None is this machine's), and files in order."""
    several = [path] if isinstance(path, str | os.PathLike) else list(path)
    paths: list[str] = [os.path.expanduser(os.fspath(each)) for each in several]
    kinds = {"".join(each.partition("://")[:2]) for each in paths if "://" in each}
    filesystem = None
    if not paths:
        raise ValueError("The list of files is empty, and at least one is needed.")
    if kinds and not all(each.startswith(min(kinds)) for each in paths):
        raise ValueError(f"Files must be all on this machine, or all at {min(kinds)}, got {paths}.")
    if kinds:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(f"{paths[0]} is read by fsspec. Type: pip install fsspec") from error
        filesystem, _ = fsspec.core.url_to_fs(paths[0], **(storage_options or {}))
        paths = [filesystem._strip_protocol(each) for each in paths]
    elif storage_options:
        raise ValueError("storage_options is for URLs, but these are paths on this machine.")
    find: Any = partial(glob.glob, recursive=True) if filesystem is None else filesystem.glob
    is_folder = os.path.isdir if filesystem is None else filesystem.isdir
    files: list[str] = []
    for each in paths:
        if is_folder(each):
            root = each.rstrip("/") if filesystem else glob.escape(each.rstrip("/"))
            found = sorted(f for f in find(f"{root}/**/*{ending}") if not is_folder(f))
            found = [f for f in found if not _is_hidden(f[len(each) :])]
            _warn_of_partitions(each, found)
        else:
            found = sorted(find(each)) if "*" in each else [each]
        if not found:
            raise FileNotFoundError(f"There is no file *{ending} at {each}.")
        files += found
    return filesystem, files


def _is_hidden(path):
    """Whether pandas and pyarrow leave a file of a folder out, as what a writer has there."""
    return any(part.startswith(("_", ".")) for part in path.split("/"))


def _warn_of_partitions(folder, files):
    """Warn of columns that only names of folders have, as in ``year=2024/part-0.parquet``."""
    below = {part for f in files for part in f[len(folder) :].split("/")[:-1] if "=" in part}
    if below:
        names = ", ".join(sorted({repr(part.split("=")[0]) for part in below}))
        warnings.warn(
            f"Folders in {folder} are named after values of {names} ({min(below)}), which are "
            "no columns of the rows: only what is in the files is read. Write these columns into "
            "the files if you need them.",
            UserWarning,
            stacklevel=level_of_user(),
        )


def _stamp(filesystem, path):
    """Size of a file, and when it was written; None if it is gone."""
    try:
        if filesystem is not None:
            return filesystem.size(path)
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


def _check_unchanged(filesystem, path, stamp, label):
    if _stamp(filesystem, path) != stamp:
        raise OSError(f"{path} was changed, or removed, after {label} was opened.")


def _label(paths):
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


@dataclass(frozen=True)
class CsvTable(_Arrow):
    """A file of CSV, which is parsed from its beginning at each reading."""

    path: str
    n_rows: int
    schema: Any
    filesystem: Any
    label: str
    stamp: Any

    def batches(self, columns: Sequence[str], rows: slice) -> Iterator[tuple[int, Sequence[Any]]]:
        kinds = {name: self.schema.field(name).type for name in columns}
        at = 0
        _check_unchanged(self.filesystem, self.path, self.stamp, self.label)
        options = {"include_columns": list(columns), "column_types": kinds}
        with _csv_opened(self.filesystem, self.path, **options) as batches:
            for batch in batches:
                yield at, [batch.column(name) for name in columns]
                at += batch.num_rows
                if at >= rows.stop:
                    return


def csv_table(path: Any, storage_options: Mapping[str, Any] | None = None) -> CsvTable:
    """A file of CSV as a table; it is read once, to count its rows.

    What its columns hold follows from the first megabyte.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        For what pyarrow cannot parse.
    """
    filesystem, paths = _found(path, storage_options, ".csv")
    if len(paths) > 1:
        raise ValueError(f"read_csv reads one CSV file, got {len(paths)}.")
    stamp = _stamp(filesystem, paths[0])
    advice = (
        "The first megabyte decides what columns hold. If later lines hold something else, convert "
        "the file, for example polars.scan_csv(path, infer_schema_length=None).sink_parquet(other)."
    )
    with _explained(paths[0], advice), _csv_opened(filesystem, paths[0]) as batches:
        schema = batches.schema
        n_rows = sum(batch.num_rows for batch in batches)
    _refuse_one_name(paths[0], schema)
    return CsvTable(paths[0], n_rows, schema, filesystem, paths[0], stamp)


def _csv_opened(filesystem, path, **options):
    import pyarrow.csv as csv

    # As for pandas, an empty field is a missing value, of strings too.
    given = csv.ConvertOptions(strings_can_be_null=True, **options)

    file = path if filesystem is None else filesystem.open(path, "rb")
    return csv.open_csv(file, convert_options=given)
