"""Scores of all models of a stack, as results of a search hold them."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from gpuml._sklearn import _MultimetricScorer, _PassthroughScorer
from gpuml.data import Folds
from gpuml.extending import Stack
from gpuml.model_selection.one_by_one import Task
from gpuml.resampling.scores import ScoreModel, Tables, stack_scores


@dataclass(frozen=True)
class Scored:
    """Scores (C, S) by part ("test", "train") and scorer name, in CPU memory."""

    tables: Tables
    n_test: list[int]
    several: bool

    def of(self, candidate: int, split: int) -> dict[str, Any]:
        """Scores of one model, as scikit-learn's results hold them."""
        out: dict[str, Any] = {"n_test_samples": self.n_test[split]}
        for part, tables in self.tables.items():
            scores = {name: table[candidate, split] for name, table in tables.items()}
            out[f"{part}_scores"] = scores if self.several else scores["score"]
        return out


def scored_as(task: Task, estimator: Any) -> Task:
    """A task whose models are scored as this estimator scores: parameters may decide how."""
    scorer = task.scorer
    if not isinstance(scorer, _PassthroughScorer):
        return task
    return replace(task, scorer=type(scorer)(estimator))


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
    tables = stack_scores(
        stack,
        folds,
        task.scorer._scorers if several else {"score": task.scorer},
        ("test", "train") if task.return_train_score else ("test",),
        # Then weights are those of the fits.
        weighted="sample_weight" in task.score_params,
        score_model=score_model,
        without=without,
    )
    return Scored(tables, [split.n_test for split in folds.splits], several)
