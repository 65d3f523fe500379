"""Scores of all classifiers of a stack, from one reading of the rows of each split."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gpuml._arrays import Array, device_of, move, namespace, to_host
from gpuml.data import Folds, Rows, count_rows, cut, take
from gpuml.extending import ClassStack
from gpuml.metrics.scorer import ClassBatchScorer

# Workspace for what models say of the rows of a split.
RESPONSE_BYTES = 2**28
# Metrics that are what they are where a class has no rows.
OF_ANY_ROWS = ("accuracy_score",)


@dataclass(frozen=True)
class ClassScores:
    """Scores over the "test" or "train" rows of every split.

    `weighted` says whether scores have weights; then they are those of the fits.
    """

    stack: ClassStack
    folds: Folds
    part: str
    weighted: bool

    def of(
        self, scorers: Mapping[str, ClassBatchScorer], splits: Collection[int]
    ) -> dict[str, Array]:
        """Scores (C, S) by name, on the device, of some splits.

        nan for other splits, and where a split lacks some class or a metric refuses: model by
        model, scikit-learn then says what a score is, or that there is none.
        """
        found = {split: self._split_scores(scorers, split) for split in splits}
        return {name: self._table(name, found) for name in scorers}

    def _table(self, name, found):
        columns = {split: scores[name] for split, scores in found.items()}
        xp = namespace(*columns.values())
        unknown = xp.full_like(next(iter(columns.values())), np.nan)
        return xp.stack([columns.get(s, unknown) for s in range(self.folds.n_splits)], axis=1)

    def _split_scores(self, scorers, split):
        batch = self.folds.batch
        xp = batch.work.xp
        rows = getattr(self.folds.splits[split], self.part)
        weight = batch.weight if self.weighted else None
        y = take(batch.codes, rows, xp)
        weight = None if weight is None else move(take(weight, rows, namespace(weight)), batch.work)
        complete = self._has_every_class(y, weight)
        chunks: dict[str, list[Array]] = {name: [] for name in scorers}
        for decision in self._decisions(rows, split):
            responses = Responses(self.stack, decision)
            for name, scorer in scorers.items():
                usable = complete or scorer.metric in OF_ANY_ROWS
                chunks[name].append(self._score(scorer, y, responses, weight, usable))
        return {name: xp.concat(items) for name, items in chunks.items()}

    def _score(self, scorer, y, responses, weight, usable):
        decision = responses.decision
        xp = namespace(decision)
        try:
            response = responses.get(scorer.response) if usable else None
            if response is not None:
                return scorer.from_responses(y, response, weight, self._classes)
        except (ValueError, ZeroDivisionError):
            pass
        unknown = decision.shape[0]
        return xp.full((unknown,), np.nan, dtype=xp.float64, device=device_of(decision))

    @property
    def _classes(self):
        return to_host(self.folds.batch.classes)

    def _has_every_class(self, y, weight):
        xp = namespace(y)
        counted = y if weight is None else y[weight > 0]
        return int(xp.unique_values(counted).shape[0]) == self.folds.batch.n_classes

    def _decisions(self, rows: Rows, split: int) -> Iterator[Array]:
        """Decision values (C, m) or (C, m, k) of some candidates at a time."""
        batch, stack = self.folds.batch, self.stack
        n_vectors = max(1, batch.n_classes if batch.n_classes > 2 else 1)
        step = max(1, RESPONSE_BYTES // max(1, 8 * count_rows(rows) * n_vectors))
        for first in range(0, stack.n_candidates, step):
            candidates = slice(first, min(first + step, stack.n_candidates))
            row_bytes = 8 * (batch.n_features + n_vectors * (candidates.stop - first))
            blocks = [
                stack.decision(self._rows(piece), split, candidates)
                for piece in cut(rows, max(1, RESPONSE_BYTES // row_bytes))
            ]
            yield blocks[0] if len(blocks) == 1 else batch.work.xp.concat(blocks, axis=1)

    def _rows(self, piece):
        batch = self.folds.batch
        return move(take(batch.X, piece, namespace(batch.X)), batch.work)


class Responses:
    """What a stack says of some rows, in the forms that scorers ask for."""

    def __init__(self, stack: ClassStack, decision: Array):
        self.stack, self.decision = stack, decision
        self._known: dict[str, Array | None] = {"decision": decision}

    def get(self, kind: str) -> Array | None:
        """Labels (C, m), probabilities (C, m, k) or decision values; None if there are none."""
        if kind not in self._known:
            self._known[kind] = self._labels() if kind == "labels" else self._probability()
        return self._known[kind]

    def _labels(self):
        xp = namespace(self.decision)
        if self.decision.ndim == 2:
            return xp.astype(self.decision > 0, xp.int64)
        return xp.argmax(self.decision, axis=-1)

    def _probability(self):
        return self.stack.probability(self.decision)
