"""Rows that are added and removed between evaluations; sums over the other rows are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from gpuml._arrays import as_array, is_array, namespace, place_of, to_host
from gpuml._sklearn import _num_samples
from gpuml.data import AnySplit, FoldLabels, Split, row_indices, shared_labels
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.residence import has_rows
from gpuml.model_selection.route import at_once
from gpuml.resampling.split import as_rows
from gpuml.resampling.stand_ins import Refused
from gpuml.solvers.carried import carried


def with_rows(
    evaluator: Evaluator,
    X: Any,
    y: Any,
    params: Mapping[str, Any],
    test_fold: Any,
    *,
    deals: bool = True,
) -> Evaluator:
    """An evaluator with more rows; `test_fold` says which split holds out each of them.

    Without `test_fold` they are assigned to splits, if `deals` allows it.
    """
    job = evaluator.job
    n_before, X = _num_samples(job.X), as_array(X)
    n_new = _num_samples(X)
    joined: dict[int, Any] = {}
    given = [*job.task.fit_params.items(), *job.task.score_params.items()]
    names = {id(value): name for name, value in given}

    def longer(value):
        if not has_rows(value, n_before):
            return value
        if id(value) not in joined:
            name = names[id(value)]
            if name not in params:
                raise ValueError(
                    f"params must have {name!r} for the new rows, because the earlier rows have it."
                )
            joined[id(value)] = _joined(value, as_array(params[name]), name, n_new)
        return joined[id(value)]

    if (y is None) != (job.y is None):
        raise ValueError("Pass y for the new rows if, and only if, the earlier rows have it.")
    y_all = None if y is None else _joined(job.y, as_array(y), "y", n_new)
    fold = _dealt(job, y_all, n_new, deals) if test_fold is None else np.asarray(test_fold)
    if fold.shape != (n_new,) or fold.dtype.kind not in "iu":
        raise ValueError(f"test_fold must be {n_new} integers, got {test_fold!r}.")
    if n_new and not (fold.min() >= -1 and fold.max() < len(job.splits)):
        raise ValueError(f"test_fold must be -1, or one of {len(job.splits)} splits.")
    changed = replace(
        job,
        X=_joined(job.X, X, "X", n_new),
        y=y_all,
        splits=_longer_splits(job.splits, fold, n_before),
        task=job.task.with_values(longer),
    )
    return _after(evaluator, changed, np.arange(n_before))


def without_rows(evaluator: Evaluator, rows: Any) -> Evaluator:
    """An evaluator without some rows; later rows move up."""
    job = evaluator.job
    n_before = _num_samples(job.X)
    left = np.ones(n_before, dtype=bool)
    left[np.asarray(rows)] = False
    kept = np.flatnonzero(left)
    if len(kept) == 0:
        raise ValueError("No rows are left.")
    taken: dict[int, Any] = {}

    def shorter(value):
        if not has_rows(value, n_before):
            return value
        return taken.setdefault(id(value), rows_of(value, kept))

    changed = replace(
        job,
        X=rows_of(job.X, kept),
        y=rows_of(job.y, kept),
        splits=_shorter_splits(job.splits, left),
        task=job.task.with_values(shorter),
    )
    return _after(evaluator, changed, kept)


# ---------------------------------------------------------------- rows and splits


def _joined(before, new, name, n_new):
    """Two arrays of rows, joined."""
    if _num_samples(new) != n_new:
        raise ValueError(f"{name} has {_num_samples(new)} new rows, and X has {n_new}.")
    if isinstance(before, list):
        return [*before, *new]
    if sparse.issparse(before):
        return sparse.vstack([before, new], format=before.format)
    if is_array(before):
        xp = namespace(before)
        if not is_array(new):
            new = np.asarray(new)
        if new.shape[1:] != before.shape[1:]:
            raise ValueError(
                f"{name} of the new rows must have the shape (n_new, {before.shape[1]}), got "
                f"{tuple(new.shape)}."
                if before.ndim > 1
                else f"{name} of the new rows must be one-dimensional, got {tuple(new.shape)}."
            )
        if place_of(new) != place_of(before):
            raise ValueError(
                f"{name} of the new rows must be in {place_of(before)} as those before."
            )
        floats = xp.isdtype(before.dtype, "real floating") and xp.isdtype(
            new.dtype, "real floating"
        )
        return xp.concat([before, xp.astype(new, before.dtype) if floats else new])
    import narwhals.stable.v2 as nw

    parts = [nw.from_native(each, allow_series=True) for each in (before, new)]
    if isinstance(parts[0], nw.DataFrame):
        return nw.concat(parts).to_native()
    column = parts[0].name or "y"
    frames = [part.alias(column).to_frame() for part in parts]
    return nw.concat(frames)[column].alias(parts[0].name).to_native()


def _dealt(job: Job, y: Any, n_new: int, deals: bool) -> np.ndarray:
    """The split that will hold out each new row: for each class the one with fewest rows."""
    n_before, n_splits = _num_samples(job.X), len(job.splits)
    held_out = np.full(n_before, -1)
    for number, split in enumerate(job.splits):
        held_out[row_indices(split.test)] = number
    sizes = [(split.n_train, split.n_test) for split in job.splits]
    once = (held_out >= 0).all() and sum(n for _, n in sizes) == n_before
    if not (deals and once and all(sum(pair) == n_before for pair in sizes)):
        raise ValueError(
            "test_fold must say which split holds out each new row: rows are dealt out only where "
            "each is held out once, and without groups."
        )
    labels = np.zeros(n_before + n_new)
    if is_classifier(job.estimator) and getattr(y, "ndim", 1) == 1:
        _, labels = np.unique(to_host(y) if is_array(y) else np.asarray(y), return_inverse=True)
    fold = np.empty(n_new, dtype=int)
    for label in np.unique(labels[n_before:]):
        counts = np.bincount(held_out[labels[:n_before] == label], minlength=n_splits)
        own = np.flatnonzero(labels[n_before:] == label)
        fold[own] = _emptiest(counts, len(own))
    return fold


def _emptiest(counts: np.ndarray, n_new: int) -> np.ndarray:
    """Numbers of splits: for each row the split with fewest rows then, or the first of several."""
    # Rows fill the splits level by level, like a table; find the level with room for all rows.
    lowest = int(counts.min())
    top = lowest + next(
        k for k in _doubling() if np.clip(lowest + k - counts, 0, None).sum() >= n_new
    )
    split = np.repeat(np.arange(len(counts)), np.clip(top - counts, 0, None))
    level = np.concatenate([np.arange(c, max(c, top)) for c in counts])
    return split[np.lexsort((split, level))[:n_new]]


def _doubling():
    k = 1
    while True:
        yield k
        k *= 2


def _longer_splits(splits: Sequence[AnySplit], fold: np.ndarray, n_before: int) -> list[AnySplit]:
    labels, n_rows = shared_labels(splits), n_before + len(fold)
    if labels is not None and len(splits) == len(labels.counts) and (fold >= 0).all():
        before = np.asarray(to_host(labels.folds))
        folds = np.concatenate([before, fold.astype(before.dtype)])
        return _labelled(splits, folds, len(labels.counts))
    new = n_before + np.arange(len(fold))
    return [
        Split(
            as_rows(np.concatenate([row_indices(split.train), new[fold != number]]), n_rows),
            as_rows(np.concatenate([row_indices(split.test), new[fold == number]]), n_rows),
        )
        for number, split in enumerate(splits)
    ]


def _shorter_splits(splits: Sequence[AnySplit], left: np.ndarray) -> list[AnySplit]:
    labels = shared_labels(splits)
    if labels is not None:
        return _labelled(splits, np.asarray(to_host(labels.folds))[left], len(labels.counts))
    number, n_rows = np.cumsum(left) - 1, int(left.sum())

    def renumbered(rows):
        own = row_indices(rows)
        return as_rows(number[own[left[own]]], n_rows)

    return [Split(renumbered(split.train), renumbered(split.test)) for split in splits]


def _labelled(splits, folds, n_folds):
    found = FoldLabels(folds, np.bincount(folds, minlength=n_folds)).splits()
    return [found[split.fold] for split in splits]


# ---------------------------------------------------------------- sums


def _after(before: Evaluator, job: Job, kept: np.ndarray) -> Evaluator:
    """An evaluator of a job whose first rows are the `kept` rows of before, with their sums."""
    after = Evaluator(job)
    fits = at_once(job.estimator, job.task)
    folds = None if fits is None else before.folds_read(fits)
    if fits is not None and folds is not None:
        found = after.folds_for(fits, Refused(job.splits, _num_samples(job.X)))
        if found is after.folds_read(fits):
            found.known.update(carried(folds, found, kept))
    return after
