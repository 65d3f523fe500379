"""Scores of all models of a stack that are sums over rows, where others hold the rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, namespace, to_host
from gpuml.data import Folds
from gpuml.metrics._confusion import confusion_matrices
from gpuml.metrics.scorer import ClassBatchScorer
from gpuml.resampling.responses import Answer, Scorer, answer_here, demands_classes

# Sums that no scorer is the name of.
WEIGHT, CLASSES, CONFUSION = ("weight",), ("classes",), ("confusion",)


def divided_scores(
    stack: Any, folds: Folds, part: str, scorers: Mapping[str, Scorer], *, weighted: bool
) -> dict[str, np.ndarray]:
    """Scores (C, S) of a stack with `responses`, in CPU memory, by name.

    Of means over rows and of functions of confusion matrices; others rank the rows, or are no
    function of sums in another way. Raises ValueError where a score is not defined.
    """
    means = {name: s for name, s in scorers.items() if s.is_mean}
    tables = {
        name: s
        for name, s in scorers.items()
        if isinstance(s, ClassBatchScorer) and s.uses_confusion and not s.is_mean
    }
    if not means and not tables:
        return {}
    question = means, bool(tables), stack.responses, part, weighted
    sums = folds.batch.total(_sums_of_shard, *question, combine=_added)
    if (to_host(sums[WEIGHT]) <= 0).any():
        raise ValueError("the rows of a part of some split weigh nothing.")
    demanding = any(demands_classes(s) for s in (*means.values(), *tables.values()))
    if demanding and (to_host(sums[CLASSES]) <= 0).any():
        raise ValueError("a part of some split lacks a class.")
    found = {name: to_host(sums[name] / sums[WEIGHT]) for name in means}
    for name, scorer in tables.items():
        matrices, classes = sums[CONFUSION], to_host(folds.batch.classes)
        columns = [
            scorer.from_confusion(matrices[:, s, ...], classes) for s in range(folds.n_splits)
        ]
        found[name] = to_host(namespace(matrices).stack(columns, axis=1))
    return found


def _added(one: dict, other: dict) -> dict:
    return {name: one[name] + other[name] for name in one}


def _sums_of_shard(folds: Folds, means: Mapping[str, Scorer], table: bool, *question: Any) -> dict:
    """Sums of a shard: score x weight by name (C, S), weights (S,), of classes (S, k) too.

    Confusion matrices (C, S, k, k) are there if a table is asked for.
    """
    responses, part, weighted = question
    splits = [
        _sums_of_split(answer_here(folds, responses, split, part, weighted), means, table)
        for split in range(folds.n_splits)
    ]
    xp = folds.batch.work.xp
    return {
        name: xp.stack([each[name] for each in splits], axis=0 if name in (WEIGHT, CLASSES) else 1)
        for name in splits[0]
    }


def _sums_of_split(heard: Answer, means: Mapping[str, Scorer], table: bool) -> dict:
    values, weight, classes = heard.values, heard.weight, heard.classes
    xp = namespace(values)
    n_models, n_rows = values.shape[:2]
    floats = {"dtype": xp.float64, "device": device_of(values)}
    # Weights are looked at, which waits for a device; numbers of rows are known here.
    if weight is None:
        total, is_empty = xp.asarray(float(n_rows), **floats), n_rows == 0
    else:
        weight = xp.astype(weight, xp.float64)
        total = xp.sum(weight)
        is_empty = n_rows == 0 or not bool(total > 0)
    sums: dict[Any, Array] = {WEIGHT: total}
    for name, scorer in means.items():
        sums[name] = xp.zeros((n_models,), **floats) if is_empty else heard.scores(scorer) * total
    if classes is None:
        return sums
    codes = xp.astype(heard.y, xp.int64, copy=False)
    every = xp.arange(len(classes), dtype=xp.int64, device=device_of(values))
    own = xp.astype(codes[:, None] == every, xp.float64)
    sums[CLASSES] = xp.sum(own if weight is None else own * weight[:, None], axis=0)
    if table:
        labels = heard.response("labels")
        sums[CONFUSION] = confusion_matrices(codes, labels, weight, len(classes), xp)
    return sums
