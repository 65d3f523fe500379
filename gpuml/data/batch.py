"""Frozen records for solvers: rows, and how splits divide them."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gpuml._arrays import Array, Place, aligned, move, to_host
from gpuml.data.rows import Elsewhere, NeedsAllRows, Rows, spaced
from gpuml.data.splits import AnySplit, LabelledSplit, Outside, Partition, Split, shared_labels


class UnfittableSplits(ValueError):
    """Some splits have no model, with `reasons` by their numbers; the others have one.

    `together` says that these splits fail only in a fit together with others.
    """

    def __init__(self, reasons: Mapping[int, str], *, together: bool = False):
        super().__init__(reasons)
        self.together = together

    @property
    def reasons(self) -> Mapping[int, str]:
        return self.args[0]

    def __str__(self) -> str:
        split, why = next(iter(self.reasons.items()))
        return f"The training part of split {split} cannot be fitted: {why}"


@dataclass(frozen=True)
class Absent:
    """A placeholder for an array whose rows are in pieces elsewhere: shape and NumPy dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)


class Holders(Protocol):
    """Pieces of rows at several holders, in the order of the rows.

    A piece is the result of the last `map`. Functions are defined in modules, so that they can be
    pickled.
    """

    @property
    def place(self) -> Place:
        """The place of results, where the caller continues to compute."""

    def __len__(self) -> int:
        """The number of pieces."""

    def map(
        self, function: Callable[..., Any], *args: Any, each_with: Sequence[Any] | None = None
    ) -> "Holders":
        """Holders of ``function(piece, *args[, each_with[i]])`` for every piece."""

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(piece, *args)`` of every piece, at `place`, in the order of the pieces."""

    def total(
        self,
        function: Callable[..., Any],
        *args: Any,
        combine: Callable[[Any, Any], Any] = operator.add,
    ) -> Any:
        """These results combined, in an order that depends only on the number of pieces."""

    def gathered(
        self, function: Callable[..., Any], build: Callable[[list[Any]], Any]
    ) -> "Holders":
        """One piece at one holder: ``build`` of the list of ``function(piece)`` of every piece."""


class Aligned:
    """Records whose arrays are `aligned` when unpickled; whole arrays, so strides stay."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: aligned(value) for name, value in state.items()})


@dataclass(frozen=True)
class Batch(Aligned):
    """Rows to fit: features (n, p), targets (n, t), and non-negative weights (n,) or None.

    The three live in one place. `work` is where to compute: the same place, or a device that the
    rows are brought to block by block because all of them would not fit. `home` is the place that
    the user's X came from: results go back there. `y_is_flat` says that the user's y had one axis,
    `targets_apart` that no caller needs products of two targets, so that moments may lack them.

    With `holders`, the rows are divided: X, y, weight and codes are `Absent`, and each piece of the
    holders is `Folds` of a batch of its own, with the same splits, whose first row is number
    `first` of all rows.
    """

    X: Array
    y: Array
    weight: Array | None
    work: Place
    home: Place
    y_is_flat: bool = False
    codes: Array | None = None
    classes: Array | None = None
    first: int = 0
    holders: Holders | None = None
    targets_apart: bool = False

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def dtype(self) -> Any:
        """The dtype of the rows."""
        return self.X.dtype

    def rows(self, taken: Array) -> Any:
        """Rows taken from X, as models see them: X may hold row numbers instead."""
        return taken

    def answering(self, taken: Array) -> Any:
        """As `rows`, if they are only multiplied with coefficients."""
        return self.rows(taken)

    @property
    def n_numbers(self) -> int:
        """How many numbers a row takes in memory while it is read."""
        return self.n_features

    @property
    def multiplied(self) -> tuple[int, int] | None:
        """How many rows and columns products have, of batches read block by block; else None."""
        return None

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 if the target has no labels."""
        return 0 if self.classes is None else self.classes.shape[0]

    @cached_property
    def labels(self) -> np.ndarray | None:
        """The classes in CPU memory; None if the target has no labels."""
        return None if self.classes is None else to_host(self.classes)

    @property
    def is_divided(self) -> bool:
        """Whether other holders have the rows."""
        return self.holders is not None

    def must_be_here(self, why: str) -> None:
        """Raise NeedsAllRows if other holders have the rows."""
        if self.is_divided:
            raise NeedsAllRows(why)

    def total(
        self,
        function: Callable[..., Any],
        *args: Any,
        combine: Callable[[Any, Any], Any] = operator.add,
        here: "Folds | None" = None,
    ) -> Any:
        """``function(folds, *args)``, a sum over rows or another combination.

        If the rows are divided, the folds are those of each shard; else `here`, or all rows.
        """
        if self.holders is None:
            return function(whole(self) if here is None else here, *args)
        return self.holders.total(function, *args, combine=combine)


class Frame(Protocol):
    """Coordinates in which models see the rows: an affine map for each training set."""

    @property
    def n_features(self) -> int:
        """The number of features after the map."""

    def width(self, split: int | None) -> int:
        """How many features the map of a split has, or of all rows; what is beyond is 0."""

    def of(self, splits: slice | None) -> Any:
        """Maps fitted to the training rows of some splits; None for the map of all rows."""


@dataclass(frozen=True)
class Folds:
    """A batch of rows with its splits, and the same splits as sums of atoms.

    Attributes
    ----------
    batch : Batch
    splits : tuple of splits
    divide : callable
        Finds the atoms, which not everybody needs.
    frame : Frame or None
        Models are of the rows' images under it; None for the rows themselves.
    outside : Outside or None
        Which splits are inside the training parts of others; None for none.
    known : dict
        What readings of the rows have found, so that the next caller need not read them again.
        Nothing in it depends on the frame.
    """

    batch: Batch
    splits: tuple[AnySplit, ...]
    divide: Callable[[Batch, tuple[AnySplit, ...]], tuple[Partition, ...]]
    frame: Frame | None = None
    outside: Outside | None = None
    known: dict = field(default_factory=dict, compare=False, repr=False)

    @property
    def n_splits(self) -> int:
        return len(self.splits)

    @property
    def n_features(self) -> int:
        """The number of features that models see."""
        return self.batch.n_features if self.frame is None else self.frame.n_features

    def width(self, split: int | None) -> int:
        """How many of them models of a split have, or of all rows; what is beyond is 0."""
        return self.batch.n_features if self.frame is None else self.frame.width(split)

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows, and columns of [X, y, 1], that products take at a time: all, unless in blocks."""
        n_rows, n_features = self.batch.multiplied or (self.batch.n_rows, self.n_features)
        return n_rows, n_features + self.batch.y.shape[1] + 1

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        if "partitions" not in self.known:  # frames make other `Folds` of the same splits
            self.known["partitions"] = self.divide(self.batch, self.splits)
        return self.known["partitions"]

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(folds, *args)``, a sum over rows, of these rows or of each shard."""
        return self.batch.total(function, *args, here=self)


def whole(batch: Batch) -> Folds:
    """One split that trains on every row and holds out none."""
    if batch.holders is not None:
        batch = replace(batch, holders=batch.holders.map(_whole_piece))
        everything = Elsewhere(batch.n_rows, ("train", 0))
        nothing = Elsewhere(0, ("test", 0))
        return Folds(batch, (Split(everything, nothing),), _one_atom)
    return Folds(batch, (Split(slice(0, batch.n_rows), slice(0, 0)),), _one_atom)


def _whole_piece(folds):
    return whole(folds.batch)


def _one_atom(batch, splits):
    one = np.ones((1, 1), dtype=int)
    rows: Rows = slice(0, batch.n_rows)
    if batch.is_divided:
        rows = Elsewhere(batch.n_rows, ("atom", 0, 0))
    return (Partition(0, (rows,), one, 0 * one),)


def atoms_here(folds: Folds, atoms: tuple[Rows, ...]) -> tuple[Rows, ...]:
    """Atoms of a shard: names are replaced by the shard's rows."""
    return tuple(rows_here(folds, atom) for atom in atoms)


def rows_here(folds: Folds, rows: Rows) -> Rows:
    """Rows of a shard: a name is replaced by the shard's rows."""
    if not isinstance(rows, Elsewhere):
        return rows
    kind, *numbers = rows.name
    if kind == "atom":
        partition, atom = numbers
        return folds.partitions[partition].atoms[atom]
    return getattr(folds.splits[numbers[0]], kind)


def without_weights(folds: Folds) -> Folds:
    """The same rows and splits with weight 1 for every row, and no known sums."""
    batch = replace(folds.batch, weight=None)
    if batch.holders is not None:
        batch = replace(batch, holders=batch.holders.map(without_weights))
    return replace(folds, batch=batch, frame=None, known={})


def spaced_rows(batch: Batch, offset: int, step: int) -> tuple[Array | None, ...]:
    """Every `step`-th row of all rows, from row `offset` on: X, y and weight, at their place.

    Divided rows give the same rows in the same order, at the caller's place.
    """
    if batch.holders is not None:
        pieces = batch.holders.each(_spaced_rows_of_piece, offset, step)
        columns = zip(*pieces, strict=True)
        xp = batch.work.xp
        return tuple(None if column[0] is None else xp.concat(column) for column in columns)
    rows = spaced(offset, step, batch.first, batch.n_rows)
    return tuple(
        None if column is None else column[rows, ...] for column in (batch.X, batch.y, batch.weight)
    )


def _spaced_rows_of_piece(folds, offset, step):
    return spaced_rows(folds.batch, offset, step)


def split_weights(folds: Folds) -> Array | None:
    """How often each row is in the training set of each split, (S, n) small integers at `work`.

    None for one split that trains on every row once.
    """
    batch, place = folds.batch, folds.batch.work
    xp, n_rows = place.xp, batch.n_rows
    if folds.n_splits == 1 and _is_everything(folds.splits[0].train, n_rows):
        return None
    labels = shared_labels(folds.splits)
    if labels is not None:
        numbers = np.asarray([split.fold for split in folds.splits])  # type: ignore[union-attr]
        of_rows = move(labels.folds, place)
        numbers = xp.astype(move(numbers, place), of_rows.dtype)
        return xp.astype(of_rows[None, :] != numbers[:, None], xp.uint8)
    labelled = [split for split in folds.splits if isinstance(split, LabelledSplit)]
    if len(labelled) == folds.n_splits:
        return xp.stack([xp.astype(move(split.trains, place), xp.uint8) for split in labelled])
    return move(np.stack([_row_counts(s.train, n_rows) for s in folds.splits]), place)


def _is_everything(rows, n_rows):
    return isinstance(rows, slice) and rows == slice(0, n_rows)


def _row_counts(rows, n_rows):
    if isinstance(rows, slice | tuple):
        counts = np.zeros(n_rows, dtype=np.uint8)
        for run in (rows,) if isinstance(rows, slice) else rows:
            counts[run] += 1
        return counts
    rows = to_host(rows)
    counts = np.zeros(n_rows, dtype=np.uint8)
    counts[rows] = 1  # much faster than counting, for rows that occur once
    if np.count_nonzero(counts) == rows.shape[0]:
        return counts
    counts = np.bincount(rows, minlength=n_rows)
    return counts.astype(np.uint8 if counts.max(initial=0) < 256 else np.int32)
