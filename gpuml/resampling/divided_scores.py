"""Scores of all models of a stack over rows that are divided.

Means over rows and confusion matrices are sums over shards. What ranks the rows, or is no function
of sums in another way, is computed from what the models say of all rows, which is brought to one
place for that, split by split; the rows themselves never move.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, namespace, to_host
from gpuml.data import Folds, NeedsAllRows
from gpuml.metrics._confusion import confusion_matrices
from gpuml.metrics.scorer import ClassBatchScorer
from gpuml.resampling.responses import Answer, Scorer, answer, demands_classes

# Sums that no scorer is the name of.
WEIGHT, CLASSES, CONFUSION = ("weight",), ("classes",), ("confusion",)


def divided_scores(
    stack: Any, folds: Folds, part: str, scorers: Mapping[str, Scorer], *, weighted: bool
) -> dict[str, np.ndarray]:
    """Scores (C, S), in CPU memory, by name.

    Parameters
    ----------
    stack : stack with `responses`
    folds : Folds
        Of divided rows.
    part : {"test", "train"}
    scorers : dict
    weighted : bool
        Whether scores have the weights of the fits.

    Raises
    ------
    NeedsAllRows
        Where a score is not defined: model by model, scikit-learn then says what it is.
    """
    ask = _Question(part, weighted and folds.batch.weight is not None, stack.responses)
    means = {name: s for name, s in scorers.items() if s.is_mean}
    tables = {name: s for name, s in scorers.items() if name not in means and _is_table(s)}
    others = {name: s for name, s in scorers.items() if name not in means and name not in tables}
    found: dict[str, np.ndarray] = {}
    try:
        if means or tables:
            found.update(_from_sums(folds, ask, means, tables))
        if others:
            found.update(_from_all_responses(folds, ask, others))
        undefined = [name for name, table in found.items() if np.isnan(table).any()]
        if undefined:
            raise ValueError(f"not defined for some models: {', '.join(undefined)}.")
    except (ValueError, ZeroDivisionError) as error:
        raise NeedsAllRows(f"Scores of models one by one are asked for: {error}") from error
    return found


@dataclass(frozen=True)
class _Question:
    """What is asked of a shard: responses of all models to one part of every split."""

    part: str
    weighted: bool
    responses: Any

    def of(self, folds: Folds, split: int) -> Answer:
        """The answer of a shard for one split."""
        models = self.responses.to(folds.batch.work)
        rows = getattr(folds.splits[split], self.part)
        everyone = slice(0, models.n_candidates)
        return answer(models, folds, rows, split, everyone, weighted=self.weighted)


def _is_table(scorer):
    return isinstance(scorer, ClassBatchScorer) and scorer.uses_confusion


def _from_sums(folds, ask, means, tables):
    """Scores (C, S) by name that sums over shards make up."""
    sums = folds.batch.total(_sums_of_shard, ask, means, bool(tables), combine=_added)
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


def _sums_of_shard(folds: Folds, ask: _Question, means: Mapping[str, Scorer], table: bool) -> dict:
    """Sums of a shard: score x weight by name (C, S), weights (S,), of classes (S, k) too.

    Confusion matrices (C, S, k, k) are there if a table is asked for.
    """
    splits = [_sums_of_split(ask.of(folds, s), means, table) for s in range(folds.n_splits)]
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


def _from_all_responses(folds, ask, scorers):
    """Scores (C, S) by name from what models say of all rows, brought here split by split."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in scorers}
    classes = None if folds.batch.classes is None else to_host(folds.batch.classes)
    for split in range(folds.n_splits):
        ys, values, weights = zip(*folds.batch.holders.each(_said, ask, split), strict=True)
        xp = namespace(values[0])
        weight = xp.concat(weights) if ask.weighted else None
        heard = Answer(xp.concat(ys), xp.concat(values, axis=1), weight, ask.responses, classes)
        for name, scorer in scorers.items():
            heard.check_classes(scorer)
            columns[name].append(to_host(heard.scores(scorer)))
    return {name: np.stack(each, axis=1) for name, each in columns.items()}


def _said(folds: Folds, ask: _Question, split: int):
    heard = ask.of(folds, split)
    return heard.y, heard.values, heard.weight
