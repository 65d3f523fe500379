"""Columns that steps make for each training set, where no linear map does.

Bins between quantiles, splines, products of what was imputed: such steps are fitted to the training
part of each split once, as scikit-learn does it, and what they make of all rows stands in the
table. The map of a split takes its own columns. What several splits have in common, such as the
logarithms of a column, stands there once.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from gpuml._arrays import HOST, Array, is_foreign, is_numpy, move, namespace, to_host
from gpuml._arrays.ops import side_by_side
from gpuml._arrays.places import free_bytes
from gpuml._sklearn import _safe_indexing
from gpuml.compose._layout import Branch, columns_of
from gpuml.compose._target_codes import (
    Codes,
    codes_at,
    codes_of,
    encoded,
    is_shared,
    learned_of,
    level_sums,
)
from gpuml.data import Folds, Split, row_indices, take
from gpuml.pipeline._from_rows import targets
from gpuml.resampling.keys import value_key
from gpuml.resampling.stand_ins import refuse
from gpuml.solvers.table_rows import Table, TableBatch, make_table, narrow

# More columns than these take longer to sum over than they save.
MOST_COLUMNS = 4096


@dataclass(frozen=True)
class Made:
    """The columns of a branch in the table: for each split, then for all rows.

    Attributes
    ----------
    numbers : list of int arrays
        Columns of numbers.
    bins : list of lists of Bins
        Columns of codes: what is made are indicators of bins.
    faults : dict of int to str
        Why there are none.
    coded : (codes, numbers of levels), or None
        Of an encoder by targets.
    learned : dict of int to callable
        What gives attributes of such an encoder.
    """

    numbers: list[np.ndarray] = field(default_factory=list)
    bins: list[list["Bins"]] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    coded: Any = None
    learned: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bins:
    """Bins of one split, as sets of cells that all splits have in common.

    Attributes
    ----------
    column : int
        Of the codes of the table.
    of_cells : int array (L,)
        The bin of each cell.
    n_bins : int
    """

    column: int
    of_cells: np.ndarray
    n_bins: int


class Cells:
    """What bins of several splits divide rows into: between two edges of any split is one cell."""

    def __init__(self, n_rows: int):
        self.codes = np.zeros(n_rows, dtype=np.int64)
        self.of_cells: list[np.ndarray] = []
        self.most = 1

    def add(self, codes: np.ndarray, n_bins: int) -> bool:
        """Divide cells by one more column; False where its bins are of something else."""
        pairs = self.codes * n_bins + codes
        n_cells = int(self.codes.max(initial=0)) + 1
        used = np.flatnonzero(np.bincount(pairs, minlength=n_cells * n_bins))
        # Bins of one feature add no more cells than they have edges.
        if len(used) > self.most + n_bins - 1:
            return False
        self.most += n_bins - 1
        number = np.zeros(n_cells * n_bins, dtype=np.int64)
        number[used] = np.arange(len(used))
        self.codes = number[pairs]
        self.of_cells = [each[used // n_bins] for each in self.of_cells] + [used % n_bins]
        return True


class Pool:
    """Distinct columns, by what they hold."""

    def __init__(self) -> None:
        self.columns: list[Any] = []
        self._known: dict[Any, int] = {}

    def add(self, column: Array, levels: Any = None) -> int:
        """The number of a column, with its levels if any; an equal column is reused."""
        if not is_numpy(column):  # its bytes are on a device
            self.columns.append(column)
            return len(self.columns) - 1
        n_levels = None if levels is None else len(levels)
        key = hashlib.blake2b(np.ascontiguousarray(column).tobytes()).digest(), n_levels
        if key not in self._known:
            if len(self.columns) == MOST_COLUMNS:
                raise ValueError(
                    f"Steps that differ between splits make more than {MOST_COLUMNS:,} columns, "
                    "counted over all splits. Search fewer of their settings in one call, or "
                    "use fewer bins, knots or products."
                )
            if 8 * len(column) * (len(self.columns) + 1) > free_bytes(HOST) // 4:
                raise ValueError(
                    f"{len(self.columns)} columns that differ between splits take a quarter of the "
                    "free memory. Use fewer bins, knots, products or splits."
                )
            self._known[key] = len(self.columns)
            self.columns.append(column if levels is None else (column, levels))
        return self._known[key]


def with_made(folds: Folds, branches: Sequence[Branch]) -> Folds:
    """Folds whose table has the columns of some branches as well.

    Raises
    ------
    UnfittableSplits
        For training parts that a step refuses.
    """
    batch = folds.batch
    assert isinstance(batch, TableBatch)
    heads = {made_key(branch): branch for branch in branches}
    if not heads:
        return folds
    key = "made", frozenset(heads)
    if key not in folds.known:
        numbers, codes = Pool(), Pool()
        sums: dict[Any, Any] = {}
        made = {key: _make(branch, folds, numbers, codes, sums) for key, branch in heads.items()}
        reasons = {s: why for each in made.values() for s, why in each.faults.items()}
        reasons.pop(folds.n_splits, None)  # reported when all rows are fitted
        refuse(reasons, folds.n_splits)
        table = _beside(batch.table, numbers, codes)
        wider = replace(batch, table=table, made=made)
        folds.known[key] = replace(folds, batch=wider, known={})
    return folds.known[key]


def made_key(branch: Branch) -> Any:
    """Equal for branches for which the same is made."""
    return replace(branch, tail=()).key


def _beside(table, numbers, codes) -> Table:
    place = table.place
    own = (move(column, place) for column in numbers.columns)
    coded = ((move(narrow(codes, len(levels)), place), levels) for codes, levels in codes.columns)
    more = make_table(own, len(numbers.columns), coded, table.n_rows, place)
    merged = table.merged and (*table.merged, *[None] * len(more.codes))
    return replace(
        table,
        merged=merged,
        numbers=side_by_side([table.numbers, more.numbers], place),
        holes=side_by_side([table.holes, more.holes], place),
        with_holes=np.concatenate([table.with_holes, more.with_holes + table.numbers.shape[1]]),
        typical=np.concatenate([table.typical, more.typical]),
        codes=table.codes + more.codes,
        levels=table.levels + more.levels,
    )


def _make(branch, folds, numbers, codes, sums):
    """Columns that the head of a branch makes for each split, and for all rows."""
    batch = folds.batch
    X, coded, place = None, None, batch.table.place
    if is_shared(branch.head) and place != HOST:
        coded = codes_at(branch, batch.source, place)
    if not is_foreign(batch.source):
        X = columns_of(batch.source, branch.columns)
        X = X if coded is not None else codes_of(branch, X)
        if is_shared(branch.head) and isinstance(X, Codes):
            coded = list(np.asarray(X).T), X.n_levels
    made = Made(coded=coded)
    first_number, first_code = batch.table.numbers.shape[1], len(batch.table.codes)
    binned: list[list[tuple[np.ndarray, int]]] = []
    for s, split in enumerate([*folds.splits, Split(slice(0, batch.n_rows), slice(0, 0))]):
        steps = [clone(step) for step in branch.head]
        bins = steps[-1] if steps and _is_binned(steps[-1]) else None
        if bins is not None:
            bins.set_params(encode="ordinal")
        try:
            columns = _by_target(branch, s, coded, batch, split, sums, made)
            if columns is None and is_foreign(batch.source):
                raise ValueError(f"{type(steps[0]).__name__} needs these rows in CPU memory")
            columns = list(_values(steps, X, batch, split).T) if columns is None else columns
        except (ValueError, TypeError, IndexError) as error:
            made.faults[s] = str(error)
            columns = []
        found = [] if bins is not None else [numbers.add(column) for column in columns]
        made.numbers.append(first_number + np.asarray(found, dtype=np.int64))
        n_bins = bins.n_bins_.tolist() if bins is not None and columns else []
        own = zip(columns, n_bins, strict=True) if n_bins else ()
        binned.append([(column.astype(np.int64), n) for column, n in own])
    made.bins.extend(_in_cells(binned, codes, first_code))
    return made


def _in_cells(binned, codes, first):
    """Bins (a list for each split of codes, and how many there are) by cells."""
    cells: dict[int, list[Cells]] = {}
    where: list[list[tuple[Cells, int, int]]] = []
    for own in binned:
        where.append([])
        for feature, (column, n_bins) in enumerate(own):
            known = cells.setdefault(feature, [])
            place = next((each for each in known if each.add(column, n_bins)), None)
            if place is None:
                place = Cells(len(column))
                place.add(column, n_bins)
                known.append(place)
            where[-1].append((place, len(place.of_cells) - 1, n_bins))
    columns = {
        id(each): first + codes.add(each.codes, np.arange(int(each.codes.max(initial=0)) + 1))
        for known in cells.values()
        for each in known
    }
    return [
        [Bins(columns[id(each)], each.of_cells[number], n) for each, number, n in own]
        for own in where
    ]


def _is_binned(step):
    """Whether the output of a step are indicators of bins."""
    return getattr(step, "encode", None) in ("onehot", "onehot-dense")


def _by_target(branch, s, coded, batch, split, known, made):
    """A target encoder's output for all rows; None if scikit-learn's class must compute it."""
    if coded is None:
        return None
    codes, n_levels = coded
    encoder = clone(branch.head[0])  # whose inner splitter may hold a generator
    train = to_host(batch.X[:, 0])[row_indices(split.train)]
    key = branch.columns, s, encoder.target_type, value_key(encoder.cv)
    y = targets(batch, split.train)
    if key not in known:
        once = len(np.unique(train)) == len(train)
        own = [take(each, train, namespace(each)) for each in codes if once]
        known[key] = level_sums(encoder, own, y, n_levels) if once else None
    if known[key] is None:
        return None
    made.learned[s] = partial(learned_of, encoder, known[key], y)
    return encoded(encoder, known[key], codes, train)


def _values(steps, X, batch, split):
    """The output (n, k) for all rows of steps that are fitted to a training set."""
    given = row_indices(split.train), row_indices(split.test)
    every = to_host(batch.X[:, 0])
    train, test = (every[rows] for rows in given)
    rest = np.setdiff1d(every, np.concatenate([train, test]))
    chain = Pipeline([(str(n), step) for n, step in enumerate(steps)] or [("0", "passthrough")])
    images = _numbers(chain.fit_transform(_safe_indexing(X, train), targets(batch, split.train)))
    out = np.full((batch.table.n_rows, images.shape[1]), np.nan, order="F")
    seen = np.zeros(len(out), dtype=bool)
    for rows in (train, test, rest):
        if len(rows) == 0:
            continue
        if rows is not train:
            try:
                images = _numbers(_through(steps, _safe_indexing(X, rows)))
            except (ValueError, TypeError):
                if rows is test:
                    raise
                continue  # this split does not use these rows
        n_seen = int(seen.sum())
        fresh = ~seen[rows]
        out[rows[fresh]] = images[fresh]
        seen[rows] = True
        # In a training part that has a row twice, too.
        again = int(seen.sum()) - n_seen < len(rows)
        if again and not np.allclose(out[rows], images, rtol=1e-12, atol=0.0, equal_nan=True):
            raise ValueError("The output for a row depends on the other rows.")
    out[~seen] = 0.0
    return out


def _through(steps, X):
    """What fitted steps make of rows. A `Pipeline` would refuse steps that fit nothing."""
    for step in steps:
        X = step.transform(X)
    return X


def _numbers(images):
    """The output of a step as numbers."""
    if sparse.issparse(images):
        images = images.toarray()
    dtypes = images.dtypes if hasattr(images, "iloc") else [np.asarray(images).dtype]
    if any(dtype.kind in "mM" for dtype in dtypes):
        raise TypeError("Input X holds dates or times, which are not numbers.")
    if hasattr(images, "iloc"):
        images = images.to_numpy(dtype=np.float64, na_value=np.nan)
    images = np.asarray(images, dtype=np.float64)
    if np.isinf(images).any():
        raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
    return images
