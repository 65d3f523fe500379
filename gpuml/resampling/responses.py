"""Predictions of all models of a stack for the rows of a split, computed once for all scorers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace
from gpuml.data import Batch, Folds, Rows, count_rows, cut, take
from gpuml.metrics.scorer import BatchScorer, ClassBatchScorer
from gpuml.resampling.stand_ins import no_weight

# Workspace for predictions of the rows of a split, and how many times that a GPU has.
RESPONSE_BYTES = 2**27
BLOCKS_AT_ONCE = 4
# Metrics that do not change if a class has no rows.
OF_ANY_ROWS = ("accuracy_score",)

Scorer = BatchScorer | ClassBatchScorer


@dataclass(frozen=True)
class Answer:
    """Targets (m, t) or codes (m,), predictions or decisions (C, m, ...), and weights (m,).

    `models` make probabilities of decisions; `classes` (k,) are in CPU memory, None for numbers.
    """

    y: Array
    values: Array
    weight: Array | None
    models: Any
    classes: np.ndarray | None
    _known: dict[str, Any] = field(default_factory=dict)

    def scores(self, scorer: Scorer) -> Array:
        """Scores (C,).

        Raises
        ------
        ValueError, ZeroDivisionError
            Where a score is not defined: of one model, scikit-learn then says what it is.
        """
        if not self._weighs():
            raise ValueError(no_weight())
        if isinstance(scorer, BatchScorer):
            return scorer.from_predictions(self.y, self.values, self.weight)
        assert self.classes is not None  # models of labels are of some
        return scorer.from_responses(
            self.y, self.response(scorer.response), self.weight, self.classes
        )

    def response(self, kind: str) -> Array:
        """Labels (C, m), probabilities (C, m, k) or decision values."""
        if kind == "decision":
            return self.values
        if kind not in self._known:
            made = self._labels() if kind == "labels" else self.models.probability(self.values)
            self._known[kind] = made
        found = self._known[kind]
        if found is None:
            raise ValueError(f"These models have no {kind}.")
        return found

    def check_classes(self, scorer: Scorer) -> None:
        """Raise ValueError unless each class weighs something, where a metric wants that."""
        if self.classes is None or not demands_classes(scorer):
            return
        if "complete" not in self._known:
            counted = self.y if self.weight is None else self.y[self.weight > 0]
            self._known["complete"] = namespace(counted).unique_values(counted)
        if self._known["complete"].shape[0] < len(self.classes):
            raise ValueError("a part of some split lacks a class.")

    def _weighs(self):
        if self.weight is None:
            return True
        if "weighs" not in self._known:
            self._known["weighs"] = bool(namespace(self.weight).any(self.weight > 0))
        return self._known["weighs"]

    def _labels(self):
        xp = namespace(self.values)
        if self.values.ndim == 2:
            return xp.astype(self.values > 0, xp.int64)
        return xp.argmax(self.values, axis=-1)


def demands_classes(scorer: Scorer) -> bool:
    """Whether a metric wants rows of every class."""
    return isinstance(scorer, ClassBatchScorer) and scorer.metric not in OF_ANY_ROWS


def answers(stack: Any, folds: Folds, split: int, part: str, *, weighted: bool) -> Iterator[Answer]:
    """Predictions for the "test" or "train" rows of a split, for some candidates at a time.

    What they say of divided rows comes to one place for that; the rows themselves do not move.
    """
    if folds.batch.is_divided:
        yield _gathered(stack.responses, folds, split, part, weighted)
        return
    rows = getattr(folds.splits[split], part)
    row_bytes = 8 * _width(folds.batch)
    step = max(1, _most_bytes(folds.batch) // max(1, row_bytes * count_rows(rows)))
    for first in range(0, stack.n_candidates, step):
        candidates = slice(first, min(first + step, stack.n_candidates))
        yield _answer(stack, folds, rows, split, candidates, weighted)


def answer_here(folds: Folds, responses: Any, split: int, part: str, weighted: bool) -> Answer:
    """Predictions of all models for a shard's rows of a split."""
    models, batch = responses.to(folds.batch.work), folds.batch
    rows = getattr(folds.splits[split], part)
    every = slice(0, models.n_candidates)
    return _answer(models, folds, rows, split, every, weighted, batch.answering)


def _gathered(responses, folds, split, part, weighted):
    shards = folds.batch.holders.each(_said, responses, split, part, weighted)
    ys, values, weights = zip(*shards, strict=True)
    xp = namespace(values[0])
    weight = None if weights[0] is None else xp.concat(weights)
    return Answer(xp.concat(ys), xp.concat(values, axis=1), weight, responses, folds.batch.labels)


def _said(folds, *question):
    heard = answer_here(folds, *question)
    return heard.y, heard.values, heard.weight


def _answer(
    models: Any,
    folds: Folds,
    rows: Rows,
    split: int,
    candidates: slice,
    weighted: bool,
    read: Callable[[Array], Any] | None = None,
) -> Answer:
    """Predictions of some candidates' models of a split for some rows, block by block.

    `read` makes rows of what X has of them, for models that do not know the batch.
    """
    batch = folds.batch
    numbers = batch.codes is None
    ask = models.predict if numbers else models.decision
    row_bytes = 8 * (batch.n_numbers + _width(batch) * (candidates.stop - candidates.start))
    blocks = list(cut(rows, max(1, _most_bytes(batch) // row_bytes))) or [slice(0, 0)]
    taken = (_at_work(batch, batch.X, block) for block in blocks)
    found = [ask(X if read is None else read(X), split, candidates) for X in taken]
    values = found[0] if len(found) == 1 else batch.work.xp.concat(found, axis=1)
    if numbers and values.ndim == 2:
        values = values[..., None]
    y = _at_work(batch, batch.y if numbers else batch.codes, rows)
    weight = batch.weight if weighted else None
    weight = None if weight is None else _at_work(batch, weight, rows)
    return Answer(y, values, weight, models, batch.labels)


def _at_work(batch: Batch, values: Any, rows: Rows) -> Array:
    return move(take(values, rows, namespace(values)), batch.work)


def _most_bytes(batch: Batch) -> int:
    """Bytes of a block; on a GPU, each takes a dozen launches."""
    return RESPONSE_BYTES * (1 if batch.work.is_host else BLOCKS_AT_ONCE)


def _width(batch: Batch) -> int:
    """Numbers that a model says of a row."""
    return batch.n_classes if batch.n_classes > 2 else max(1, batch.y.shape[1])
