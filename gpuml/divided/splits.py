"""Splits of divided rows, from only the data that a splitter needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from sklearn.model_selection import StratifiedKFold

from gpuml._arrays import Array, as_array, is_array, namespace, to_host
from gpuml._arrays.labels import are_labels, encode
from gpuml.data import Elsewhere, FoldLabels
from gpuml.resampling.split import (
    dealt_folds,
    dealt_rows,
    looks_at_labels,
    rows_by_class,
    split_rows,
)

# Rows among which the first of a class is looked for, before more of them are.
FIRST_BLOCK = 1024


@dataclass(frozen=True)
class Deal:
    """Stratified folds without shuffling: how many rows of each class each fold gets.

    Attributes
    ----------
    ends : ndarray (k, S)
        Rows of class c up to number ``ends[c, f]`` among its rows are in the folds up to f.
    """

    ends: np.ndarray

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows of each fold (S,)."""
        return np.diff(self.ends, axis=1, prepend=0).sum(axis=0)

    def splits(self) -> "list[DealtSplit]":
        """Splits that hold out one fold each."""
        return [DealtSplit(self, fold) for fold in range(len(self.counts))]


@dataclass(frozen=True)
class DealtSplit:
    """A split that holds out one fold of a deal; only pieces know which rows these are."""

    deal: Deal
    fold: int

    @property
    def train(self) -> Elsewhere:
        return Elsewhere(self.n_train, ("train", self.fold))

    @property
    def test(self) -> Elsewhere:
        return Elsewhere(self.n_test, ("test", self.fold))

    @property
    def n_train(self) -> int:
        return int(self.deal.counts.sum()) - self.n_test

    @property
    def n_test(self) -> int:
        return int(self.deal.counts[self.fold])


def located_splits(splits: Sequence[Any], y: Any) -> Sequence[Any]:
    """Splits of rows that are in one place now: those of a deal find their rows among labels y."""
    dealt = [split for split in splits if isinstance(split, DealtSplit)]
    if not dealt:
        return splits
    labels = as_array(y)
    found = encode(labels if is_array(labels) else np.asarray(labels))
    deal, rows = dealt[0].deal, rows_by_class(found.codes, found.n_classes)
    by_fold = FoldLabels(dealt_folds(found.codes, rows, deal.ends), deal.counts).splits()
    return [by_fold[split.fold] for split in dealt]


class Asked(Protocol):
    """Shares that can be queried."""

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Results of a function of every share."""


def divided_splits(
    cv: Any, shares: Asked, sizes: Sequence[int], *, classifier: bool, **params: Any
) -> Sequence[Any]:
    """Splits of divided rows by a scikit-learn splitter; only its labels move, if it needs them.

    Splitters that look at the number of rows alone need nothing of the rows, and stratified folds
    without shuffling need the number of rows of each class in each share.

    Parameters
    ----------
    cv : splitter
    shares : Holders, or what has their `each`
        Of `Share`s.
    sizes : sequence of ints
        Rows of each.
    classifier : bool
        Whether the estimator is one, so that labels become codes where the rows are.
    **params
        Such as groups, on the host.

    Returns
    -------
    splits : sequence of splits
        For `divided_folds`.
    """
    n = int(sum(sizes))
    given = any(value is not None for value in params.values())
    if type(cv) is StratifiedKFold and not cv.shuffle and not given and classifier:
        deal = _deal(cv.n_splits, shares.each(_class_counts))
        if deal is not None:
            return deal.splits()
    y = _all_labels(shares) if looks_at_labels(cv) else None
    return split_rows(cv, np.empty((n, 0)), y, n, **params)


def _all_labels(shares):
    parts = [part for part in shares.each(_labels_of) if part is not None]
    return np.concatenate([to_host(part) for part in parts]) if parts else None


def _labels_of(share):
    y = as_array(share.y)
    return y if y is None or is_array(y) else np.asarray(y)


def _class_counts(share):
    """Classes of a share (k,), rows of each, and the first of them; None for what is no label."""
    y = _labels_of(share)
    if y is None or y.ndim != 1 or not are_labels(y):
        return None
    found = encode(y)
    # Labels stay; a few rows are checked to find the first row of each class.
    firsts = [_first_row(found.codes, c) for c in range(found.n_classes)]
    return found.host_classes, found.counts, np.asarray(firsts, dtype=np.int64)


def _first_row(codes: Array, c: int) -> int:
    """The first row of a class that has some."""
    xp = namespace(codes)
    start, step = 0, FIRST_BLOCK
    while True:
        rows = xp.nonzero(codes[start : min(start + step, codes.shape[0])] == c)[0]
        if rows.shape[0]:
            return start + int(rows[0])
        start, step = start + step, 8 * step


def _deal(n_splits: int, found: Sequence[Any]) -> Deal | None:
    """The assignment of scikit-learn's StratifiedKFold; None if it would warn or raise."""
    if any(each is None for each in found):
        return None
    found = [tuple(map(to_host, each)) for each in found]
    classes = np.unique(np.concatenate([own for own, _, _ in found]))
    counts = np.zeros((len(found), len(classes)), dtype=np.int64)
    first_seen = np.full((len(found), len(classes)), -1)
    for i, (own, per_class, firsts) in enumerate(found):
        where = np.searchsorted(classes, own)
        counts[i, where], first_seen[i, where] = per_class, firsts
    total = counts.sum(axis=0)
    if len(total) == 0 or total.min() < n_splits:
        return None
    piece = (counts > 0).argmax(axis=0)
    # Classes take turns in the order in which they first appear.
    order = np.lexsort((first_seen[piece, np.arange(len(classes))], piece))
    dealt = np.empty((len(classes), n_splits), dtype=np.int64)
    dealt[order] = dealt_rows(total[order], n_splits)
    return Deal(dealt.cumsum(axis=1))
