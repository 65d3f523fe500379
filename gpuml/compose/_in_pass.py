"""A `ColumnTransformer` fitted from sums over the rows of a table, for all training parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import OneHotEncoder

from gpuml._arrays import is_foreign, to_host
from gpuml._sklearn import _safe_indexing
from gpuml.compose._apart import places_apart, with_levels_apart
from gpuml.compose._fits import fit_where
from gpuml.compose._groups import with_groups
from gpuml.compose._layout import (
    Branch,
    as_ours,
    chain_of,
    columns_of,
    entries_of,
    kind_of,
    layout_of,
    made_where_missing,
    side_by_side,
)
from gpuml.compose._learned import (
    Fit,
    counts_of,
    fill_of,
    learned,
    n_holes_of,
    numbers_of_rows,
    with_statistics,
)
from gpuml.compose._levels import Levels, filled, levels_of_table, one_hot, ordinal, warn_of_skipped
from gpuml.compose._made import made_key, with_made
from gpuml.compose._obstacles import divided_obstacle, too_many_levels
from gpuml.data import Folds, NeedsAllRows, UnfittableSplits, take
from gpuml.pipeline._from_rows import targets
from gpuml.solvers.affine import Affine, FittedStep, Parts
from gpuml.solvers.moments import Moments
from gpuml.solvers.table_rows import MOST_LEVELS, TableBatch

NO_FEATURE = "Found array with 0 feature(s) while a minimum of 1 is required."


@dataclass(frozen=True)
class Piece:
    """Maps from columns of the design to the output of a branch.

    Attributes
    ----------
    columns : int array (m,)
    matrices : list of S arrays (m, k_s)
    offsets : list of S arrays (k_s,)
    places : list of S int arrays, or None
        As of `FittedStep`, where some of what is made are levels that stand apart.
    picks : tuple of callables
        Attributes, for each part, of the affine steps behind those that know the table.
    """

    columns: np.ndarray
    matrices: list[np.ndarray]
    offsets: list[np.ndarray]
    places: list[np.ndarray] | None = None
    picks: tuple[Any, ...] = ()

    def times(self, factor: float) -> "Piece":
        """The output, times a factor."""
        scaled = [[factor * each for each in own] for own in (self.matrices, self.offsets)]
        return self if factor == 1.0 else replace(self, matrices=scaled[0], offsets=scaled[1])


def folds_of(transformer: Any, folds: Folds, candidates: Sequence[Mapping[str, Any]]) -> Folds:
    """Folds whose table has all columns that candidates read."""
    batch = cast(TableBatch, folds.batch)
    X = batch.source
    layout = layout_of(batch.table, transformer, X)
    branches = _branches(transformer, layout, X, candidates)
    if folds.batch.is_divided:
        why = divided_obstacle(branches, X)
        if why is not None:
            raise NeedsAllRows(why)
        folds = with_groups(folds, layout, branches)
        n_levels = sum(map(len, cast(TableBatch, folds.batch).table.levels))
        if n_levels > MOST_LEVELS:
            raise NeedsAllRows(too_many_levels(n_levels))
        return with_statistics(folds, layout, branches)
    folds = with_levels_apart(with_groups(folds, layout, branches), layout, branches)
    made = [leaf for branch in branches for leaf in branch.leaves if leaf.kind == "made"]
    return with_made(folds, made)


def _branches(transformer, layout, X, candidates):
    """The branches of each candidate, as far as the table of a layout has their columns."""
    found = []
    for candidate in candidates:
        own = transformer
        if candidate:
            own = clone(transformer).set_params(**clone(dict(candidate), safe=False))
        branch = side_by_side(own, X, layout.branch.columns)
        for leaf in branch.leaves:
            for step in (*leaf.head, *leaf.tail):
                if hasattr(step, "_parameter_constraints"):
                    step._validate_params()
        found.append(made_where_missing(branch, layout))
    return found


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
    batch = cast(TableBatch, parts.batch)
    X = batch.source
    fit = Fit(parts, layout_of(batch.table, transformer, X))
    branches = _branches(transformer, fit.layout, X, candidates)
    return [
        _step(transformer, candidate, branch, fit)
        for candidate, branch in zip(candidates, branches, strict=True)
    ]


def _fit_branch(branch: Branch, fit: Fit) -> Piece:
    """The output of a branch from columns of the design."""
    if branch.key not in fit.pieces:
        reasons: dict[int, str] = {}
        if branch.kind == "beside":
            own = [_fit_branch(part, fit).times(weight) for part, weight in branch.parts]
            piece, left = _joined(own, len(fit.parts.n_rows)), branch.tail
        elif branch.kind == "levels":
            piece, left = _fit_levels(branch, fit, reasons), branch.tail
        elif branch.kind == "numbers":
            columns = [[fit.layout.numbers.index(j) for j in branch.columns]]
            columns *= len(fit.parts.n_rows)
            piece, left = _fit_numbers(columns, branch.head, fit, reasons), branch.tail
        else:
            piece, left = _fit_made(branch, fit, reasons)
        if reasons:
            raise UnfittableSplits(reasons)
        fit.pieces[branch.key] = _behind(piece, left, fit.parts) if left else piece
    return fit.pieces[branch.key]


def _fit_made(branch, fit, reasons):
    """Columns that were made for each part, and the steps behind."""
    parts, made = fit.parts, fit.parts.batch.made[made_key(branch)]
    n_parts = len(parts.n_rows)
    own = [len(made.numbers) - 1] * n_parts
    if parts.splits is not None:
        own = [parts.splits.start + s for s in range(n_parts)]
    reasons.update({s: made.faults[i] for s, i in enumerate(own) if i in made.faults})
    if reasons:
        return None, ()
    fills = branch.tail[:1] if branch.tail and kind_of(branch.tail[0]) is SimpleImputer else ()
    piece = _fit_numbers([made.numbers[i].tolist() for i in own], fills, fit, reasons)
    bins = _indicators([made.bins[i] for i in own], parts.batch.table)
    return _joined([piece, bins], n_parts), branch.tail[len(fills) :]


def _indicators(bins, table) -> Piece:
    """Indicators of bins (a list for each part)."""
    used = sorted({each.column for mine in bins for each in mine})
    widths = {column: len(table.levels[column]) for column in used}
    starts = dict(zip(used, np.cumsum([0, *widths.values()]).tolist(), strict=False))
    own = [np.arange(table.n_columns)[table.of_levels[column]] for column in used]
    matrices = []
    for mine in bins:
        matrix = np.zeros((sum(widths.values()), sum(each.n_bins for each in mine)))
        first = 0
        for each in mine:
            cells = starts[each.column] + np.arange(len(each.of_cells))
            matrix[cells, first + each.of_cells] = 1.0
            first += each.n_bins
        matrices.append(matrix)
    columns = np.concatenate([np.zeros(0, dtype=int), *own])
    return Piece(columns, matrices, [np.zeros(matrix.shape[1]) for matrix in matrices])


def _joined(pieces: Sequence[Piece], n_parts: int) -> Piece:
    """Pieces side by side; a column may serve several of them."""
    columns = np.unique(np.concatenate([piece.columns for piece in pieces]))
    matrices = []
    for s in range(n_parts):
        ends = np.cumsum([0, *(piece.matrices[s].shape[1] for piece in pieces)])
        matrix = np.zeros((len(columns), ends[-1]))
        for piece, start, stop in zip(pieces, ends[:-1], ends[1:], strict=True):
            rows = np.searchsorted(columns, piece.columns)
            np.add.at(matrix, (rows[:, None], np.arange(start, stop)), piece.matrices[s])
        matrices.append(matrix)
    offsets = [np.concatenate([piece.offsets[s] for piece in pieces]) for s in range(n_parts)]
    if all(piece.places is None for piece in pieces):
        return Piece(columns, matrices, offsets)
    return Piece(columns, matrices, offsets, [_joined_places(pieces, s) for s in range(n_parts)])


def _joined_places(pieces, s):
    """Where the outputs of pieces side by side are, of one part."""
    found, first = [], 0
    for piece in pieces:
        width = piece.matrices[s].shape[1]
        own = np.arange(width) if piece.places is None else piece.places[s]
        found.append(np.where(own < 0, own, own + first))
        first += width
    return np.concatenate(found)


def _behind(piece: Piece, steps: Sequence[Any], parts: Parts) -> Piece:
    """Affine steps behind those that know the table."""
    widths: tuple[int, ...] | None = _some_features(piece)
    maps, picks = _maps(piece), []
    seen = _of_columns(parts, piece.columns).through(maps, widths)
    for number, step in enumerate(steps, start=1):
        fitted = as_ours(step).multi_affine(seen, [{}])[0]
        picks.append(fitted.pick)
        maps = maps.then(fitted.maps)
        if fitted.widths is not None or not fitted.maps.diagonal:
            widths = fitted.widths
        if number < len(steps):
            seen = seen.through(fitted.maps, fitted.widths)
    widths = widths or (maps.matrix.shape[-1],) * len(piece.matrices)
    return Piece(
        piece.columns,
        [maps.matrix[s, :, :w] for s, w in enumerate(widths)],
        [maps.offset[s, :w] for s, w in enumerate(widths)],
        picks=tuple(picks),
    )


def _some_features(piece: Piece) -> tuple[int, ...]:
    """How many features each part has; UnfittableSplits for parts that have none."""
    widths = tuple(matrix.shape[1] for matrix in piece.matrices)
    if piece.places is not None:
        return widths
    none_left = {s: NO_FEATURE for s, width in enumerate(widths) if width == 0}
    if none_left:
        raise UnfittableSplits(none_left)
    return widths


def _maps(piece: Piece) -> Affine:
    """All maps of a piece, those to fewer columns filled up with zeros."""
    # If all output is kept apart, one column of zeros remains, because a map needs a column.
    width = max(1, *(matrix.shape[1] for matrix in piece.matrices))
    return Affine(
        np.stack([_padded(matrix, width) for matrix in piece.matrices]),
        np.stack([_padded(offset, width) for offset in piece.offsets]),
    )


def _padded(values, width):
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, width - values.shape[-1])])


def _of_columns(parts: Parts, columns: np.ndarray) -> Parts:
    """The statistics of some columns of the design alone."""
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

    def times(s, B):
        wide = np.zeros((p, B.shape[1]))
        wide[columns] = B
        return parts.times(s, wide)

    return replace(parts, moments=some, stacked=stacked, extrema=None, times=times)


# ---------------------------------------------------------------- numbers


def _fit_numbers(columns, steps, fit, reasons) -> Piece:
    """Numbers (a list of columns for each part), with something in their holes."""
    parts, table = fit.parts, fit.parts.batch.table
    used = sorted({j for own in columns for j in own})
    holes = {j: hole for j in used if (hole := table.hole_of(j)) is not None}
    own = np.asarray(sorted([*used, *holes.values()]), dtype=np.int64)
    row_of = {int(column): row for row, column in enumerate(own)}
    matrices, skipped = [], set()
    for s, mine in enumerate(columns):
        matrix = np.zeros((len(own), len(mine)))
        matrix[[row_of[j] for j in mine], np.arange(len(mine))] = 1.0
        flags: list[int] = []
        empty: list[int] = []
        for at, j in enumerate(mine):
            if j not in holes:
                continue
            if not steps:
                reasons[s] = "a column has missing values, and no imputer"
                break
            imputer, row = steps[0], row_of[holes[j]]
            n_holes = n_holes_of(fit, j, s)
            if n_holes > parts.n_rows[s] - 1:
                empty.append(at)
            matrix[row, at] = fill_of(imputer, fit, s, j) - table.typical[j]
            if imputer.add_indicator and n_holes > 0:
                flags.append(row)
        if empty and not steps[0].keep_empty_features:
            matrix = np.delete(matrix, empty, axis=1)
            skipped.update(empty)
        extra = np.zeros((len(own), len(flags)))
        extra[flags, np.arange(len(flags))] = 1.0
        matrices.append(np.concatenate([matrix, extra], axis=1))
    if skipped:
        warn_of_skipped(steps[0].strategy, sorted(skipped))
    return Piece(own, matrices, [np.zeros(matrix.shape[1]) for matrix in matrices])


# ---------------------------------------------------------------- levels


def _fit_levels(branch, fit, reasons) -> Piece:
    """The output of an encoder for levels, which an imputer may have filled."""
    parts, table = fit.parts, fit.parts.batch.table
    *fills, encoder = branch.head
    apart = {j for j in branch.columns if fit.layout.coded.index(j) in table.apart}
    if len(branch.columns) > 1 and apart:
        each = [replace(branch, columns=(j,)) for j in branch.columns]
        own = [_fit_levels(one, fit, reasons) for one in each]
        return _joined(own, len(parts.n_rows))
    if apart:
        number = fit.layout.coded.index(*apart)
        none = [np.zeros((0, 0)) for _ in parts.n_rows], [np.zeros(0) for _ in parts.n_rows]
        return Piece(np.arange(0), *none, places_apart(encoder, number, parts, reasons))
    columns, blocks, n_left = [], [], 0
    for j in (fit.layout.coded.index(j) for j in branch.columns):
        own = np.arange(table.n_columns)[table.of_levels[j]]
        levels: Levels = levels_of_table(table, j, counts_of(fit, j))
        if fills and levels.merged is None:  # groups are of levels without holes
            levels = filled(fills[0], levels, reasons)
        if len(levels.values) == 0:  # an imputer leaves the column out
            made = levels.maps
        elif kind_of(encoder) is OneHotEncoder:
            made = one_hot(encoder, levels, parts.n_rows, reasons)
        else:
            made = ordinal(encoder, levels, reasons)
        n_left += len(levels.values)
        columns.append(own)
        blocks.append(made)
    if n_left == 0:
        reasons.update(dict.fromkeys(range(len(parts.n_rows)), NO_FEATURE))
    matrices = [_diagonal([made[s] for made in blocks]) for s in range(len(parts.n_rows))]
    offsets = [np.zeros(matrix.shape[1]) for matrix in matrices]
    return Piece(np.concatenate(columns), matrices, offsets)


def _diagonal(blocks):
    """Matrices along the diagonal."""
    out = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)))
    row = column = 0
    for block in blocks:
        out[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return out


# ---------------------------------------------------------------- all columns


def _step(transformer, candidate, branch: Branch, fit: Fit) -> FittedStep:
    """The output of a transformer from the design."""
    parts, piece = fit.parts, _fit_branch(branch, fit)
    maps, widths = _maps(piece), _some_features(piece)
    places = None if piece.places is None else tuple(piece.places)
    matrix = np.zeros((len(widths), parts.moments.n_features, maps.offset.shape[1]))
    matrix[:, piece.columns, :] = maps.matrix

    def pick(s: int) -> dict[str, Any]:
        batch = cast(TableBatch, parts.batch)
        fitted = clone(transformer).set_params(**clone(dict(candidate), safe=False))
        known = {}
        entries = entries_of(fitted, batch.source)
        for (name, *_), (part, _) in zip(entries, branch.parts, strict=True):
            found = learned(part, fit.pieces[part.key].picks, fit, s)
            known.update({} if found is None else {name: found})
        if batch.is_divided:
            _fit_stand_in(fitted, parts, known, len(entries))
        else:
            rows, y = _rows_of_part(parts, s), None
            if not is_foreign(rows):
                y = targets(batch, parts.rows(s))
            fit_where(fitted, rows, y, known)
            _put_picks(branch, fitted, batch.source, fit, s)
        given = fitted.get_params(deep=False)
        return {name: value for name, value in vars(fitted).items() if name not in given}

    even = min(widths) == max(widths)
    return FittedStep(Affine(matrix, maps.offset), pick, None if even else widths, places)


def _put_picks(branch, transformer, X, fit, s):
    """Give affine steps that were fitted to rows their attributes in the pass.

    Models count on them: components may have other signs, or be others, if fitted once more.
    """
    own = X if len(branch.columns) == X.shape[1] else columns_of(X, branch.columns)
    if isinstance(transformer, FeatureUnion):
        found = dict(transformer.transformer_list)
    else:
        found = {name: each for name, each, _ in transformer.transformers_}
    for (name, *_), (part, _) in zip(entries_of(transformer, own), branch.parts, strict=True):
        steps, picks = chain_of(found[name]), fit.pieces[part.key].picks
        if part.kind == "beside":
            _put_picks(part, steps[0], X, fit, s)
        for step, pick in zip(steps[len(steps) - len(picks) :], picks, strict=True):
            vars(step).update(pick(s))


def _fit_stand_in(transformer, parts, known, n_entries):
    """Fit a transformer of divided rows to the few that stand for all of them."""
    if parts.splits is not None or len(known) < n_entries:
        raise NeedsAllRows("Some steps are fitted to the rows of training parts in memory.")
    given = transformer.get_params(deep=False)
    transformer.set_params(n_jobs=None, verbose=False)
    transformer.fit_where(cast(TableBatch, parts.batch).source, None, known, stand_in=True)
    transformer.set_params(n_jobs=given["n_jobs"], verbose=given["verbose"])


def _rows_of_part(parts, s):
    """The user's rows of one part; the same object for all rows."""
    batch = cast(TableBatch, parts.batch)
    rows = batch.source
    if parts.splits is None and batch.n_rows == batch.table.n_rows:
        return rows
    taken = numbers_of_rows(parts, s)
    return (
        take(rows, taken, batch.work.xp)
        if is_foreign(rows)
        else _safe_indexing(rows, to_host(taken))
    )
