"""Scores of all models of a stack over rows that are divided over several holders.

Means over rows and confusion matrices are sums over pieces. What ranks the rows, or is no function
of sums in another way, is computed from what the models say of all rows, which is brought to one
place for that, split by split; the rows themselves never move.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace, to_host
from gpuml.data import Folds, NeedsAllRows, count_rows, cut, take
from gpuml.metrics._confusion import confusion_matrices
from gpuml.metrics.scorer import BatchScorer, ClassBatchScorer
from gpuml.resampling.class_scores import OF_ANY_ROWS, Responses

# Workspace for what models say of the rows of a piece.
RESPONSE_BYTES = 2**28

Scorer = BatchScorer | ClassBatchScorer


def divided_scores(
    stack: Any, folds: Folds, part: str, scorers: Mapping[str, Scorer], *, weighted: bool
) -> dict[str, np.ndarray]:
    """Scores (C, S), on the host, by name.

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
    if not scorers:
        return {}
    ask = _Question(part, weighted and folds.batch.weight is not None, stack.responses)
    means = {name: s for name, s in scorers.items() if s.is_mean}
    tables = {name: s for name, s in scorers.items() if name not in means and _is_table(s)}
    others = {name: s for name, s in scorers.items() if name not in means and name not in tables}
    holders: Any = folds.batch.holders
    try:
        sums = holders.total(_sums_of_piece, ask, means, bool(tables), combine=_added)
        if sums and (to_host(sums["weight"]) <= 0).any():
            raise ValueError("the rows of a part of some split weigh nothing.")
        found = {name: to_host(sums[name] / sums["weight"]) for name in means}
        if tables:
            _demand_classes(sums["confusion"], [*means.values(), *tables.values()])
            classes = to_host(folds.batch.classes)
            for name, scorer in tables.items():
                found[name] = _of_tables(scorer, sums["confusion"], classes)
        elif "classes" in sums:
            _demand_classes(sums["classes"][None, ..., None], list(means.values()))
        for name, scorer in others.items():
            found[name] = _from_responses(holders, ask, scorer, folds)
        undefined = [name for name, table in found.items() if np.isnan(table).any()]
        if undefined:
            raise ValueError(f"not defined for some models: {', '.join(undefined)}.")
    except (ValueError, ZeroDivisionError) as error:
        raise NeedsAllRows(f"Scores of models one by one are asked for: {error}") from error
    return found


@dataclass(frozen=True)
class _Question:
    """What is asked of a piece: responses of all models to one part of every split."""

    part: str
    weighted: bool
    responses: Any

    def of(self, folds: Folds, split: int) -> "_Answer":
        """The answer of a piece for one split."""
        batch = folds.batch
        xp = batch.work.xp
        rows = getattr(folds.splits[split], self.part)
        target = batch.y if batch.codes is None else batch.codes
        y = take(target, rows, namespace(target))
        weight = batch.weight if self.weighted else None
        weight = None if weight is None else move(take(weight, rows, namespace(weight)), batch.work)
        models = self.responses.to(batch.work)
        ask = models.predict if batch.codes is None else models.decision
        everyone = slice(0, models.n_candidates)
        row_bytes = 8 * (batch.n_features + models.n_candidates * max(1, batch.n_classes))
        blocks = [
            ask(move(take(batch.X, piece, namespace(batch.X)), batch.work), split, everyone)
            for piece in cut(rows, max(1, RESPONSE_BYTES // row_bytes))
        ]
        if not blocks:
            empty = move(take(batch.X, slice(0, 0), namespace(batch.X)), batch.work)
            blocks = [ask(empty, split, everyone)]
        values = blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=1)
        if batch.codes is None and values.ndim == 2:
            values = values[..., None]
        return _Answer(move(y, batch.work), values, weight, count_rows(rows))


@dataclass(frozen=True)
class _Answer:
    """Targets (m, t) or codes (m,), what models say (C, m, ...), weights (m,), and m."""

    y: Array
    values: Array
    weight: Array | None
    n_rows: int


def _is_table(scorer):
    return isinstance(scorer, ClassBatchScorer) and scorer.uses_confusion


def _added(one: dict, other: dict) -> dict:
    return {name: one[name] + other[name] for name in one}


def _sums_of_piece(folds: Folds, ask: _Question, means: Mapping[str, Scorer], table: bool) -> dict:
    """Sums of a piece: score x weight by name (C, S), weights (S,), confusion (C, S, k, k)."""
    if not means and not table:
        return {}
    classes = None if folds.batch.classes is None else to_host(folds.batch.classes)
    splits = [_sums_of_split(folds, ask, means, table, s, classes) for s in range(folds.n_splits)]
    xp = folds.batch.work.xp
    sums = {name: xp.stack([each[name] for each in splits], axis=1) for name in splits[0]}
    sums["weight"] = sums["weight"][0, :]
    if "classes" in sums:
        sums["classes"] = sums["classes"][0, ...]
    return sums


def _sums_of_split(folds, ask, means, table, split, classes):
    batch = folds.batch
    xp = batch.work.xp
    answer = ask.of(folds, split)
    n_models = ask.responses.n_candidates
    y, weight = answer.y, answer.weight
    floats = {"dtype": xp.float64, "device": batch.work.device}
    # Weights are looked at, which waits for a device; numbers of rows are known here.
    if weight is None:
        total, is_empty = xp.full((1,), float(answer.n_rows), **floats), answer.n_rows == 0
    else:
        total = xp.reshape(xp.sum(weight, dtype=xp.float64), (1,))
        is_empty = answer.n_rows == 0 or not bool(total[0] > 0)
    sums = {"weight": total}
    heard = None if batch.codes is None else Responses(ask.responses.to(batch.work), answer.values)
    for name, scorer in means.items():
        if is_empty:
            sums[name] = xp.zeros((n_models,), **floats)
        elif heard is None:
            sums[name] = scorer.from_predictions(y, answer.values, weight) * total[0]
        else:
            response = heard.get(scorer.response)
            if response is None:
                raise ValueError(f"These models have no {scorer.response}.")
            sums[name] = scorer.from_responses(y, response, weight, classes) * total[0]
    if heard is not None:
        k = batch.n_classes
        codes = xp.astype(y, xp.int64, copy=False)
        counted = None if weight is None else xp.astype(weight, xp.float64)
        if table:
            labels = heard.get("labels")
            sums["confusion"] = confusion_matrices(codes, labels, counted, k, xp)
        elif _picky(means.values()):
            every = xp.arange(k, dtype=xp.int64, device=batch.work.device)
            own = xp.astype(codes[:, None] == every, xp.float64)
            own = own if counted is None else own * counted[:, None]
            sums["classes"] = xp.sum(own, axis=0)[None, :]
    return sums


def _demand_classes(confusion: Array, scorers: Iterable[Scorer]) -> None:
    """Raise unless every class weighs something in every split, where a metric wants that."""
    if (
        _picky(scorers)
        and (to_host(namespace(confusion).sum(confusion[0, ...], axis=-1)) <= 0).any()
    ):
        raise ValueError("a part of some split lacks a class.")


def _picky(scorers: Iterable[Scorer]) -> bool:
    """Whether some metric wants rows of every class."""
    return any(scorer.metric not in OF_ANY_ROWS for scorer in scorers)


def _of_tables(scorer, confusion, classes):
    """Scores (C, S) of confusion matrices (C, S, k, k)."""
    xp = namespace(confusion)
    columns = [
        scorer.from_confusion(confusion[:, s, ...], classes) for s in range(confusion.shape[1])
    ]
    return to_host(xp.stack(columns, axis=1))


def _from_responses(holders, ask, scorer, folds):
    """Scores (C, S) from what models say of all rows, brought here split by split."""
    columns = []
    for split in range(folds.n_splits):
        parts = holders.each(_response_of_piece, ask, split, getattr(scorer, "response", None))
        xp = namespace(parts[0][1])
        y, values = (xp.concat([p[i] for p in parts], axis=i) for i in (0, 1))
        weight = xp.concat([p[2] for p in parts]) if ask.weighted else None
        if isinstance(scorer, BatchScorer):
            scores = scorer.from_predictions(y, values, weight)
        else:
            classes = to_host(folds.batch.classes)
            counted = y if weight is None else y[weight > 0]
            if xp.unique_values(counted).shape[0] < len(classes):
                raise ValueError("a part of some split lacks a class.")
            scores = scorer.from_responses(y, values, weight, classes)
        columns.append(to_host(scores))
    return np.stack(columns, axis=1)


def _response_of_piece(folds: Folds, ask: _Question, split: int, kind: str | None):
    answer = ask.of(folds, split)
    if kind is None:
        return answer.y, answer.values, answer.weight
    response = Responses(ask.responses.to(folds.batch.work), answer.values).get(kind)
    if response is None:
        raise ValueError(f"These models have no {kind}.")
    return answer.y, response, answer.weight
