"""Rows that are read block by block: packed codes, files, and objects of the user's own."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    as_array,
    is_array,
    move,
    namespace,
    to_host,
)
from gpuml._arrays.ops import all_finite, any_true
from gpuml._inputs.foreign_rows import check_shape
from gpuml._inputs.validation import named_columns
from gpuml._settings.config import current_settings
from gpuml.data import Absent
from gpuml.reading.images import images
from gpuml.reading.sources import Source, is_stored, source_of
from gpuml.reading.streams import blocks, parts_of

OVERFLOW = (
    "Squares of the values of X overflow float64. Scale the features (StandardScaler, or divide "
    "by a power of ten)."
)


@dataclass(frozen=True)
class Streamed:
    """Rows of a source, in the form of a `Batch` for fits of components.

    Attributes
    ----------
    source : Source
    work : Place
        Where blocks are worked on.
    """

    source: Source
    work: Place
    holders = None

    @property
    def X(self) -> Absent:
        """The shape of the rows, and the dtype of results: float32 for float32, else float64."""
        return Absent(self.source.shape, np.dtype(float_like(self.source.of.dtype)))

    @property
    def home(self) -> Place:
        """Where results are to be: in CPU memory for what is in files."""
        return self.source.home

    @property
    def n_rows(self) -> int:
        return self.source.shape[0]

    @property
    def n_features(self) -> int:
        return self.source.shape[1]


def float_like(dtype: Any) -> str:
    """The dtype of results for rows of any library's dtype: float32 for float32, else float64."""
    name = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
    return "float32" if name == "float32" else "float64"


def opened(X: Any) -> Any:
    """The input unchanged if it is read block by block, else as an array if it contains one."""
    return X if is_stored(X) else as_array(X)


def check_streamed(
    estimator: Any, X: Any, *, reset: bool, min_rows: int = 1, min_features: int = 1
) -> Streamed:
    """Check a matrix that is read block by block; whether it is finite, sums are to tell.

    Raises
    ------
    ValueError
        For too few rows or columns, or other features than in `fit`.
    """
    check_shape(X, estimator, min_rows=min_rows, min_features=min_features)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    source = source_of(X)
    return Streamed(source, source.work_place(1, current_settings().device))


def streamed_images(estimator: Any, rows: Streamed, W: Array) -> Array:
    """``X W``, float64, where results are to be; W is float64, where the components are.

    Raises
    ------
    ValueError
        If X is not finite, or lacks values that nothing is known of.
    """
    fill = getattr(estimator, "mean_", None)
    fill = getattr(estimator, "_fill", None) if fill is None else fill
    found = images(
        rows.source,
        rows.work,
        rows.home,
        move(W, rows.work),
        None if fill is None else doubles(fill, rows.work),
        current_settings().block_bytes,
    )
    if not all_finite(found, namespace(found)):
        refuse_blocks(estimator, rows)
    return found


def refuse_blocks(estimator: Any, rows: Streamed) -> None:
    """Say what is wrong with rows whose sums are not finite."""
    source = rows.source
    parts = parts_of(source, HOST, current_settings().block_bytes)
    for part, block in blocks(source, parts, source.home):
        if is_array(block) and not _is_fine(block):
            _refuse_block(estimator, block.T if source.by_columns else block, part, source)
    raise ValueError(OVERFLOW)


def _is_fine(block):
    xp = namespace(block)
    return not xp.isdtype(block.dtype, "real floating") or all_finite(block, xp)


def _refuse_block(estimator, rows, part, source):
    xp = namespace(rows)
    has_nan = any_true(xp.isnan(rows), xp)
    what = "NaN" if has_nan else f"infinity or a value too large for {rows.dtype!r}"
    faulty = np.zeros(source.shape[1], dtype=bool)
    faulty[part if source.by_columns else slice(None)] = ~to_host(xp.all(xp.isfinite(rows), axis=0))
    raise ValueError(
        f"Input X contains {what}.\n{type(estimator).__name__} does not accept missing or infinite "
        "values, except codes that gpuml.encodings.pack marks as missing. Drop such rows, or "
        f"impute them.{named_columns(estimator, faulty)}"
    )


def doubles(values: Array, place: Place) -> Array:
    """Float64 numbers at a place."""
    values = move(values, place)
    return place.xp.astype(values, place.xp.float64, copy=False)
