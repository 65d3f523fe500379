"""A `ColumnTransformer` fitted from sums over the rows of a table, for all training parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from gpuml._sklearn import _safe_indexing
from gpuml.compose._layout import Entry, as_ours, kind_of, lay_out
from gpuml.compose._levels import Levels, filled, levels_of_table, one_hot, ordinal
from gpuml.data import UnfittableSplits, row_indices
from gpuml.solvers.affine import Affine, FittedStep, Parts
from gpuml.solvers.extrema import Extrema
from gpuml.solvers.moments import Moments
from gpuml.solvers.table_rows import Table, TableBatch


@dataclass(frozen=True)
class Piece:
    """Maps from some columns of the design to what an entry makes of them.

    Attributes
    ----------
    columns : int array (m,)
    matrices : list of S arrays (m, k_s)
    offsets : list of S arrays (k_s,)
    extrema : pair of lists of S arrays (k_s,), or None
        Smallest and largest values of what they make.
    """

    columns: np.ndarray
    matrices: list[np.ndarray]
    offsets: list[np.ndarray]
    extrema: tuple[list[np.ndarray], list[np.ndarray]] | None = None


def fit_columns(
    transformer: Any, parts: Parts, candidates: Sequence[Mapping[str, Any]]
) -> list[FittedStep]:
    """Fit every candidate to every part.

    Raises
    ------
    UnfittableSplits
        For parts of which scikit-learn has something to say: columns without values, levels that
        an encoder does not take.
    """
    batch = parts.batch
    assert isinstance(batch, TableBatch)
    layout = lay_out(transformer, batch.source)
    known: dict[Any, Piece] = {}
    statistics: dict[Any, np.ndarray] = {}
    found = []
    for candidate in candidates:
        pieces = []
        for entry in layout.entries:
            steps = [_step(prefix, step, candidate) for prefix, step in entry.steps]
            key = (entry.name, *(repr(sorted(step.get_params().items())) for step in steps))
            if key not in known:
                reasons: dict[int, str] = {}
                known[key] = _fit_entry(entry, steps, parts, statistics, reasons)
                if reasons:
                    raise UnfittableSplits(reasons)
            pieces.append(known[key])
        found.append(_side_by_side(transformer, candidate, pieces, parts))
    return found


def _step(prefix, step, candidate):
    own = {k[len(prefix) + 2 :]: v for k, v in candidate.items() if k.startswith(f"{prefix}__")}
    step = as_ours(clone(step).set_params(**own))
    step._validate_params()
    return step


def _fit_entry(entry: Entry, steps, parts, statistics, reasons) -> Piece:
    table = parts.batch.table
    if entry.coded:
        piece, left = _fit_levels(entry, steps, parts, reasons)
    else:
        piece, left = _fit_numbers(entry, steps, table, parts, statistics, reasons)
    if reasons:
        return piece
    piece = _behind(piece, left, parts) if left else piece
    if entry.weight != 1.0:
        matrices = [entry.weight * matrix for matrix in piece.matrices]
        piece = replace(
            piece, matrices=matrices, offsets=[entry.weight * offset for offset in piece.offsets]
        )
    return piece


def _behind(piece: Piece, steps: Sequence[Any], parts: Parts) -> Piece:
    """Affine steps behind those that know the table."""
    given = [matrix.shape[1] for matrix in piece.matrices]
    maps = Affine(
        np.stack([_padded(matrix, max(given)) for matrix in piece.matrices]),
        np.stack([_padded(offset, max(given)) for offset in piece.offsets]),
    )
    seen = _of_columns(parts, piece.columns).through(maps)
    if piece.extrema is not None:
        ends = Extrema(*(np.stack([_padded(e, max(given)) for e in end]) for end in piece.extrema))
        seen = replace(seen, extrema=lambda: ends)
    widths = tuple(given)
    for number, step in enumerate(steps, start=1):
        fitted = step.multi_affine(seen, [{}])[0]
        maps = maps.then(fitted.maps)
        if not step.affine_is_diagonal:
            widths = fitted.widths or (maps.matrix.shape[-1],) * len(given)
        if number < len(steps):
            seen = seen.through(fitted.maps)
    return Piece(
        piece.columns,
        [maps.matrix[s, :, :w] for s, w in enumerate(widths)],
        [maps.offset[s, :w] for s, w in enumerate(widths)],
    )


def _padded(values, width):
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, width - values.shape[-1])])


def _of_columns(parts: Parts, columns: np.ndarray) -> Parts:
    """What is known of some columns of the design alone."""
    moments = parts.moments
    p, q = moments.n_features, moments.gram.shape[-1]
    kept = np.concatenate([columns, np.arange(p, q)])
    shift = np.broadcast_to(moments.shift, (moments.gram.shape[0], q - 1))[:, kept[:-1]]
    noise = None if moments.noise is None else moments.noise[:, kept[:-1]]
    some = Moments(moments.gram[:, kept[:, None], kept], shift, len(columns), noise)

    def stacked(s):
        whole = parts.stacked(s)
        return replace(
            whole, rows=whole.rows[:, kept], shift=whole.shift[kept[:-1]], n_features=len(columns)
        )

    return replace(parts, moments=some, stacked=stacked, extrema=None)


def _sums(parts: Parts, columns: np.ndarray) -> np.ndarray:
    """Sums (S, m) of columns of the design over the rows of each part."""
    gram = parts.moments.gram
    return gram[:, columns, -1] + gram[:, -1:, -1] * parts.moments.shift[:, columns]


# ---------------------------------------------------------------- numbers


def _fit_numbers(entry, steps, table: Table, parts, statistics, reasons):
    columns = list(entry.columns)
    holes = {j: table.hole_of(j) for j in columns}
    own = np.asarray(columns + [hole for hole in holes.values() if hole is not None])
    imputer: Any = steps[0] if steps and kind_of(steps[0]) is SimpleImputer else None
    some = {j: hole for j, hole in holes.items() if hole is not None}
    if imputer is None and some:
        reasons.update(
            dict.fromkeys(range(len(parts.n_rows)), "a column has holes, and no imputer")
        )
        return Piece(own, [], []), []
    left = steps[1:] if imputer is not None else steps
    ends: tuple[list, list] = ([], [])
    matrices, offsets = [], []
    for s in range(len(parts.n_rows)):
        fills = {}
        matrix = np.zeros((len(own), len(columns)))
        matrix[np.arange(len(columns)), np.arange(len(columns))] = 1.0
        flags = []
        for j, hole in some.items():
            row = int(np.flatnonzero(own == hole)[0])
            n_holes = float(np.rint(_sums(parts, np.asarray([hole]))[s, 0]))
            if n_holes > parts.n_rows[s] - 1 and imputer.strategy != "constant":
                reasons[s] = "a column has no values to fill holes with"
                continue
            fill = _fill(imputer, table, parts, s, j, n_holes, statistics)
            at = columns.index(j)
            matrix[row, [k for k, other in enumerate(columns) if other == j]] = (
                fill - table.typical[j]
            )
            if n_holes > 0:
                flags.append((at, row))
                fills[j] = fill
        if imputer is not None and imputer.add_indicator and flags:
            extra = np.zeros((len(own), len(flags)))
            for number, (_, row) in enumerate(sorted(flags)):
                extra[row, number] = 1.0
            matrix = np.concatenate([matrix, extra], axis=1)
        matrices.append(matrix)
        offsets.append(np.zeros(matrix.shape[1]))
        if s not in reasons and any(step.affine_needs_extrema for step in left):
            rows = parts.batch.X[row_indices(parts.rows(s)), 0]
            for end, extreme, of_flags in zip(ends, (np.min, np.max), (0.0, 1.0), strict=True):
                values = [extreme([*table.known(j, rows), *_given(fills, j)]) for j in columns]
                end.append(np.asarray(values + [of_flags] * (matrix.shape[1] - len(columns))))
    return Piece(own, matrices, offsets, ends if ends[0] else None), left


def _given(values, key):
    return [values[key]] if key in values else []


def _fill(imputer, table, parts, s, j, n_holes, statistics):
    """What an imputer puts into the holes of a column."""
    if imputer.strategy == "constant":
        return 0.0 if imputer.fill_value is None else float(imputer.fill_value)
    if imputer.strategy == "mean":
        n_rows = parts.n_rows[s]
        total = _sums(parts, np.asarray([j]))[s, 0] - n_holes * table.typical[j]
        return total / (n_rows - n_holes)
    key = (imputer.strategy, j, s)
    if key not in statistics:
        rows = parts.batch.X[row_indices(parts.rows(s)), 0]
        known = table.known(j, rows)
        if imputer.strategy == "median":
            statistics[key] = np.median(known)
        else:
            values, counts = np.unique(known, return_counts=True)
            statistics[key] = values[counts.argmax()]
    return statistics[key]


# ---------------------------------------------------------------- levels


def _fit_levels(entry, steps, parts, reasons):
    table = parts.batch.table
    columns, blocks = [], []
    encoder = next(step for step in steps if kind_of(step) is not SimpleImputer)
    for j in entry.columns:
        own = np.arange(table.n_columns)[table.of_levels[j]]
        counts = np.rint(_sums(parts, own)).astype(np.int64)
        levels: Levels = levels_of_table(table.levels[j], counts)
        if kind_of(steps[0]) is SimpleImputer:
            levels = filled(steps[0], levels, reasons)
        if kind_of(encoder) is OneHotEncoder:
            made = one_hot(encoder, levels, parts.n_rows, reasons)
        else:
            made = ordinal(encoder, levels, reasons)
        columns.append(own)
        blocks.append(made)
    matrices = [_diagonal([made[s] for made in blocks]) for s in range(len(parts.n_rows))]
    offsets = [np.zeros(matrix.shape[1]) for matrix in matrices]
    left = steps[steps.index(encoder) + 1 :]
    return Piece(np.concatenate(columns), matrices, offsets), left


def _diagonal(blocks):
    """Matrices along the diagonal."""
    out = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)))
    row = column = 0
    for block in blocks:
        out[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return out


# ---------------------------------------------------------------- all entries


def _side_by_side(transformer, candidate, pieces, parts) -> FittedStep:
    n_parts, p = len(parts.n_rows), parts.moments.n_features
    widths = [sum(piece.matrices[s].shape[1] for piece in pieces) for s in range(n_parts)]
    matrix = np.zeros((n_parts, p, max(widths)))
    offset = np.zeros((n_parts, max(widths)))
    for s in range(n_parts):
        first = 0
        for piece in pieces:
            stop = first + piece.matrices[s].shape[1]
            # A column may serve several entries, and stand in one twice.
            np.add.at(
                matrix[s], (piece.columns[:, None], np.arange(first, stop)), piece.matrices[s]
            )
            offset[s, first:stop] = piece.offsets[s]
            first = stop

    def pick(s: int) -> dict[str, Any]:
        rows = parts.batch.X[row_indices(parts.rows(s)), 0]
        fitted = clone(transformer).set_params(**clone(dict(candidate), safe=False))
        fitted.fit(_safe_indexing(parts.batch.source, rows))
        given = fitted.get_params(deep=False)
        return {name: value for name, value in vars(fitted).items() if name not in given}

    even = min(widths) == max(widths)
    return FittedStep(Affine(matrix, offset), pick, None if even else tuple(widths))
