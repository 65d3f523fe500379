"""Scores of all models of a stack: on the device, and down to the host in one copy."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace, to_host
from gpuml._sklearn import _MultimetricScorer
from gpuml.data import Folds, NeedsAllRows, count_rows, cut, take
from gpuml.extending import ClassStack, RegressionStack, Stack
from gpuml.metrics.scorer import BatchScorer, ClassBatchScorer, batch_scorer
from gpuml.model_selection.one_by_one import Task
from gpuml.resampling.class_scores import ClassScores
from gpuml.resampling.divided_scores import divided_scores

# Workspace of a block of predictions.
PREDICT_BYTES = 2**27

# (candidate, split, "train" | "test", scorer, task) -> score
ScoreModel = Callable[[int, int, str, Any, Task], Any]


@dataclass(frozen=True)
class Scored:
    """Scores (C, S) by part ("test", "train") and scorer name, on the host."""

    tables: dict[str, dict[str, np.ndarray]]
    n_test: list[int]
    several: bool

    def of(self, candidate: int, split: int) -> dict[str, Any]:
        """Scores of one model, as scikit-learn's results hold them."""
        out: dict[str, Any] = {"n_test_samples": self.n_test[split]}
        for part, tables in self.tables.items():
            scores = {name: table[candidate, split] for name, table in tables.items()}
            out[f"{part}_scores"] = scores if self.several else scores["score"]
        return out


def score_stack(
    stack: Stack,
    folds: Folds,
    score_model: ScoreModel,
    task: Task,
    without: Collection[int] = (),
) -> Scored:
    """Score every model of a stack on its held-out (and training) rows.

    The scores of splits in `without` are anything: nobody is going to look at them.
    """
    several = isinstance(task.scorer, _MultimetricScorer)
    scorers = task.scorer._scorers if several else {"score": task.scorer}
    if folds.batch.is_divided:
        return Scored(_divided(stack, folds, scorers, task), _test_sizes(folds), several)
    parts = ("test", "train") if task.return_train_score else ("test",)
    batched = {name: batch_scorer(scorer) for name, scorer in scorers.items()}
    scored = [split for split in range(folds.n_splits) if split not in without]
    scoring = _Scoring(stack, folds, score_model, task, scored)
    found = {
        (part, name): scoring.batched(part, b) for part in parts for name, b in batched.items()
    }
    classes = {n: b for n, b in batched.items() if isinstance(b, ClassBatchScorer)}
    if classes and isinstance(stack, ClassStack):
        for part in parts:
            tables = ClassScores(stack, folds, part, weighted=scoring.weighted).of(classes, scored)
            found.update({(part, name): table for name, table in tables.items()})
    known = _to_host({key: value for key, value in found.items() if value is not None})
    by_part: dict[str, dict[str, np.ndarray]] = {part: {} for part in parts}
    for part, name in found:
        table = scoring.corrected(part, scorers[name], known.get((part, name)))
        by_part[part][name] = table
    return Scored(by_part, _test_sizes(folds), several)


def _test_sizes(folds):
    return [split.n_test for split in folds.splits]


def _divided(stack, folds, scorers, task):
    """Scores (C, S) by part and name, of rows that are divided."""
    found = {name: batch_scorer(scorer) for name, scorer in scorers.items()}
    batched = {name: scorer for name, scorer in found.items() if scorer is not None}
    unknown = [name for name in found if name not in batched]
    if unknown:
        raise NeedsAllRows(f"Scorers that want the rows in one place: {', '.join(unknown)}.")
    by_part = {}
    weighted = "sample_weight" in task.score_params
    for part in ("test", "train") if task.return_train_score else ("test",):
        sums = {name: _from_sums(stack, folds, part, b, weighted) for name, b in batched.items()}
        known = _to_host({name: table for name, table in sums.items() if table is not None})
        left = {n: b for n, b in batched.items() if n not in known or np.isnan(known[n]).any()}
        by_part[part] = {**known, **divided_scores(stack, folds, part, left, weighted=weighted)}
    return by_part


def _from_sums(stack, folds, part, scorer, weighted):
    """Scores (C, S) from sums of residuals, nan where those cannot be trusted; None for others."""
    if not isinstance(scorer, BatchScorer) or not isinstance(stack, RegressionStack):
        return None
    usable = scorer.uses_moments and (weighted or folds.batch.weight is None)
    found = stack.residual_moments(part) if usable else None
    if found is None:
        return None
    moments, reliable = found
    scores = scorer.from_moments(moments)
    xp = namespace(scores)
    return xp.where(reliable, scores, xp.full_like(scores, np.nan))


@dataclass(frozen=True)
class _Scoring:
    stack: Any
    folds: Folds
    score_model: ScoreModel
    task: Task
    scored: Sequence[int]

    @property
    def weighted(self) -> bool:
        """Whether scores have weights; then they are those of the fits."""
        return "sample_weight" in self.task.score_params

    def batched(self, part: str, scorer: Any) -> Array | None:
        """Scores (C, S) on the device, nan where sums of residuals can't be trusted."""
        if not isinstance(scorer, BatchScorer) or not isinstance(self.stack, RegressionStack):
            return None
        scores = _from_sums(self.stack, self.folds, part, scorer, self.weighted)
        if scores is None:
            return self._from_predictions(part, scorer, range(self.folds.n_splits))
        return scores

    def _from_predictions(self, part, scorer, splits):
        try:
            found = {s: self._split_scores(part, scorer, s) for s in splits if s in self.scored}
        except (ValueError, ZeroDivisionError):
            return None  # such as logarithms of negative predictions: models fail one by one
        columns = list(found.values())
        xp = namespace(*columns)
        unknown = xp.full_like(columns[0], np.nan)
        return xp.stack([found.get(s, unknown) for s in splits], axis=1)

    def _split_scores(self, part, scorer, split):
        """Scores (C,) of one split, from predictions of some candidates at a time."""
        batch = self.folds.batch
        rows = getattr(self.folds.splits[split], part)
        xp = namespace(batch.X)
        y, weight = (
            None if a is None else move(take(a, rows, xp), batch.work)
            for a in (batch.y, batch.weight if self.weighted else None)
        )
        per_candidate = max(1, 8 * count_rows(rows) * batch.y.shape[1])
        step = max(1, PREDICT_BYTES // per_candidate)
        scores = [
            scorer.from_predictions(
                y,
                self._predict(rows, split, slice(c, min(c + step, self.stack.n_candidates))),
                weight,
            )
            for c in range(0, self.stack.n_candidates, step)
        ]
        return batch.work.xp.concat(scores)

    def _predict(self, rows, split, candidates):
        """Predictions (C, m, t) of some candidates for rows read block by block."""
        batch = self.folds.batch
        xp = batch.work.xp
        row_bytes = 8 * (batch.n_features + (candidates.stop - candidates.start))
        blocks = [
            self.stack.predict(
                move(take(batch.X, piece, namespace(batch.X)), batch.work), split, candidates
            )
            for piece in cut(rows, max(1, PREDICT_BYTES // row_bytes))
        ]
        pred = blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=1)
        return pred[..., None] if pred.ndim == 2 else pred

    def corrected(self, part: str, scorer: Any, table: np.ndarray | None) -> np.ndarray:
        """Replace what is nan by scores of single splits or models; what stays nan is the score."""
        if table is None:
            return self.model_by_model(part, scorer, range(self.folds.n_splits))
        splits = [s for s in np.flatnonzero(np.isnan(table).any(axis=0)) if s in self.scored]
        if len(splits) == 0:
            return table
        table = table.copy()
        missing = np.isnan(table[:, splits])
        table[:, splits] = np.where(missing, self._again(part, scorer, splits), table[:, splits])
        return table

    def _again(self, part, scorer, splits):
        batched = batch_scorer(scorer)
        if isinstance(batched, BatchScorer):
            if not batched.uses_moments:
                return np.nan
            columns = self._from_predictions(part, batched, splits)
            if columns is not None:
                return to_host(columns)
        return self.model_by_model(part, scorer, splits)

    def model_by_model(self, part: str, scorer: Any, splits: Any) -> np.ndarray:
        """Scores (C, number of splits) of a scorer that has no batched form."""
        task = replace(self.task, scorer=scorer)
        out = np.full((self.stack.n_candidates, len(splits)), np.nan, dtype=object)
        for c in range(self.stack.n_candidates):
            for i, s in enumerate(splits):
                if s in self.scored:
                    out[c, i] = self.score_model(c, int(s), part, scorer, task)
        # A user's callable may give a dict of scores for each model.
        several = any(isinstance(scores, dict) for scores in out.flat)
        return out if several else out.astype(np.float64)


def _to_host(tables: dict) -> dict:
    """Bring all tables (C, S) down in one copy."""
    if not tables:
        return {}
    xp = namespace(*tables.values())
    host = np.asarray(to_host(xp.stack(list(tables.values()))))
    return dict(zip(tables, host, strict=True))
