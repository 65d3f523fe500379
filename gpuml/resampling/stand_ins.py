"""Splits that cannot be fitted, and other training parts in their place.

Models that are fitted together depend on all splits, if only in the last digits: atoms of rows are
what all splits treat alike, and steps of iterative solvers are taken together. So a split whose
training part cannot be fitted is neither left out nor tried. It keeps its held-out part and trains
on other rows instead, and nobody looks at its models. These are all rows that it does not hold out,
as in most splitters: then the models of the other splits are, to the last bit, those that they are
where it can be fitted. Among folds it holds out the one that nobody else does, and among splits
that train on what was before, so does it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace, to_host
from gpuml.data import (
    AnySplit,
    Folds,
    NotTogether,
    Split,
    UnfittableSplits,
    count_rows,
    row_indices,
    take,
    without_features,
)
from gpuml.resampling.split import as_rows

# Substitutes for a split, in order: itself, the rest of the rows, another split.
MOST_TIMES = 2


class Refused:
    """Splits without a model, and their substitutes.

    Parameters
    ----------
    splits : sequence of splits
    n_rows : int
        Number of all rows.

    Attributes
    ----------
    reasons : dict of int to str
        Why, by numbers of splits.
    """

    def __init__(self, splits: Sequence[Any], n_rows: int):
        self._splits, self._n_rows = splits, n_rows
        self._times: Counter[int] = Counter()
        self.reasons: dict[int, str] = {}

    def add(self, error: UnfittableSplits) -> None:
        """Record an error; raise it if no substitute is left."""
        self.reasons = {**error.reasons, **self.reasons}
        self._times.update(error.reasons.keys())
        none_left = len(self.reasons) == len(self._splits)
        if none_left or max(self._times.values()) > MOST_TIMES:
            raise error

    @property
    def key(self) -> tuple:
        """A key, equal if the same splits have the same substitutes."""
        return tuple(sorted(self._times.items()))

    def splits(self) -> Sequence[Any]:
        """All splits, with the substitutes among them."""
        kept = [split for number, split in enumerate(self._splits) if number not in self._times]
        out = list(self._splits)
        for number, times in self._times.items():
            rest = _with_the_rest(out[number], kept, self._n_rows) if times == 1 else None
            out[number] = kept[0] if rest is None else rest
        return out


def _with_the_rest(split, others, n_rows):
    """A split that trains on all rows in use which it does not hold out; None if there are none."""
    if not all(isinstance(each, Split) for each in (split, *others)) or split.n_test == 0:
        return None
    used, times = _marks(split.test, n_rows), np.zeros(n_rows, dtype=np.int64)
    for other in others:
        used |= _marks(other.train, n_rows) | _marks(other.test, n_rows)
        times += _marks(other.test, n_rows)
    own = _marks(split.test, n_rows)
    is_fold = times.max() == 1 and (times == 0)[used].any()
    if is_fold and times[own].any():
        own = used & (times == 0)
    rest = used & ~own
    before = rest & (np.arange(n_rows) < np.flatnonzero(own)[0])
    if before.any() and all(map(_looks_back, others)):
        rest = before
    train, test = (as_rows(np.flatnonzero(rows), n_rows) for rows in (rest, own))
    return Split(train, test) if count_rows(train) else None


def _looks_back(split):
    """Whether a split trains on rows before those that it holds out."""
    train, test = row_indices(split.train), row_indices(split.test)
    return min(train.size, test.size) > 0 and train.max() < test.min()


def _marks(rows, n_rows):
    """Which rows a part names, as a mask."""
    marks = np.zeros(n_rows, dtype=bool)
    marks[row_indices(rows)] = True
    return marks


def refuse(reasons: Mapping[int, str], n_splits: int, *, together: bool = False) -> None:
    """Raise the error for splits without models; if none has one, a plain ValueError.

    Parameters
    ----------
    reasons : dict of int to str
        By numbers of splits; nothing is raised if there are none.
    n_splits : int
        Number of all splits.
    together : bool, default=False
        Whether it is only together with the others that they have none: then it is no error.

    Raises
    ------
    UnfittableSplits, NotTogether
    """
    if reasons and len(reasons) == n_splits:
        raise (NotTogether if together else ValueError)(next(iter(reasons.values())))
    if reasons:
        raise UnfittableSplits(reasons, together=together)


def check_sizes(splits: Sequence[AnySplit]) -> None:
    """Raise `UnfittableSplits` if there are no rows to train on, or none to score."""
    for part, together in (("train", False), ("test", True)):
        empty = [s for s, split in enumerate(splits) if getattr(split, f"n_{part}") == 0]
        why = f"Found array with 0 sample(s) in its {part}ing part."
        refuse(dict.fromkeys(empty, why), len(splits), together=together)


def check_weights(folds: Folds, class_weight: Any = None) -> None:
    """Raise `UnfittableSplits` where all rows of a training part have the weight 0.

    `class_weight` is what made them so, if it did.
    """
    batch = folds.batch
    if batch.weight is None:
        return
    if not batch.is_divided and bool(namespace(batch.weight).all(batch.weight > 0)):
        return
    weightless = np.flatnonzero(to_host(folds.total(_weighing_rows)) == 0).tolist()
    refuse(dict.fromkeys(weightless, no_weight(class_weight)), folds.n_splits)


def no_weight(class_weight: Any = None) -> str:
    """What is wrong with rows that weigh nothing, as scikit-learn says it."""
    why = "Sample weights must contain at least one non-zero number"
    return why + ("." if class_weight is None else f", and {class_weight=} leaves none.")


@without_features
def _weighing_rows(folds: Folds) -> Array:
    """Rows (S,) of each training part whose weights are not 0."""
    weight: Any = folds.batch.weight
    xp = namespace(weight)
    weighs = xp.astype(weight > 0, xp.int64)
    return xp.stack([xp.sum(take(weighs, split.train, xp)) for split in folds.splits])
