"""Scores of all models of a stack, in the form of a search's results."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from gpuml._arrays import Array
from gpuml._sklearn import (
    _BaseScorer,
    _MultimetricScorer,
    _PassthroughScorer,
    _routing_enabled,
)
from gpuml.data import Folds
from gpuml.extending import ClassStack, RegressionStack, Stack
from gpuml.model_selection.jobs import Job
from gpuml.model_selection.kept import Heard
from gpuml.model_selection.one_by_one import Task, rows_of, score_model
from gpuml.protocol import Group
from gpuml.resampling.scores import ScoreModel, Tables, stack_scores


@dataclass(frozen=True)
class Scored:
    """Scores (C, S) by part ("test", "train") and scorer name, in CPU memory.

    `said` has the predictions for held-out rows, by split, if all models predict together.
    """

    tables: Tables
    n_test: list[int]
    several: bool
    said: Mapping[int, Array]

    def of(self, candidate: int, **more: Any) -> list[dict[str, Any]]:
        """Scores of the models of a candidate, split after split, as scikit-learn's results.

        They have `more` beside them, which all results have alike.
        """
        out = [{**more, "n_test_samples": n} for n in self.n_test]
        for part, tables in self.tables.items():
            columns = {name: table[candidate].tolist() for name, table in tables.items()}
            key = f"{part}_scores"
            if self.several:
                scores = [{n: column[s] for n, column in columns.items()} for s in range(len(out))]
            else:
                scores = columns["score"]
            for own, score in zip(out, scores, strict=True):
                own[key] = score
        for split, said in self.said.items():
            out[split]["predictions"] = said[candidate, ...]
        return out


def asks_for_predictions_only(task: Task) -> bool:
    """Whether all scores of a task follow from an estimator's predictions.

    Then the last step, on rows that the others have transformed, will do for the whole pipeline.
    It will not for a user's function, which may look at the steps and at X, nor where metadata is
    routed to `transform`.
    """
    several = isinstance(task.scorer, _MultimetricScorer)
    scorers = task.scorer._scorers.values() if several else [task.scorer]
    routed = bool(task.score_params) and _routing_enabled()
    return all(_asks_for_predictions_only(scorer, routed) for scorer in scorers)


def _asks_for_predictions_only(scorer, routed):
    if isinstance(scorer, _PassthroughScorer):
        return not routed
    is_known = type(scorer).__module__.split(".")[0] in ("sklearn", "gpuml")
    return isinstance(scorer, _BaseScorer) and is_known


def scored_as(task: Task, estimator: Any) -> Task:
    """The task with the scorer of this estimator, whose parameters may choose it."""
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
    asks = task.kept is not None and isinstance(stack, RegressionStack | ClassStack)
    heard = Heard(task.kept, folds.batch.dtype) if asks else None
    tables = stack_scores(
        stack,
        folds,
        task.scorer._scorers if several else {"score": task.scorer},
        ("test", "train") if task.return_train_score else ("test",),
        # Scores then have the weights of the fits.
        weighted="sample_weight" in task.score_params,
        score_model=score_model,
        without=without,
        hear=None if heard is None else heard.hear,
    )
    said = {} if heard is None else heard.by_split()
    return Scored(tables, [split.n_test for split in folds.splits], several, said)


def model_scores(job: Job, estimator: Any, group: Group, stack: Stack) -> ScoreModel:
    """A function that scores one model of the stack with one scorer, as scikit-learn does."""

    def score(candidate: int, split: int, part: str, scorer: Any) -> Any:
        params = {**group.shared, **group.varying[candidate]}
        model = estimator.multifit_model(params, stack.pick(candidate, split))
        if isinstance(job.task.scorer, _MultimetricScorer):
            # An AttributeError, whatever `error_score` is, if several need a method that it lacks.
            job.task.scorer._use_cache(model)
        rows = getattr(job.splits[split], part)
        weight = job.task.score_params.get("sample_weight")
        weighted = weight is not None and _takes_weights(scorer)
        kwargs = {"sample_weight": rows_of(weight, rows)} if weighted else {}
        X, y = rows_of(job.X, rows), rows_of(job.y, rows)
        alike = _asking_alike(scorer, job.task.scorer)
        if len(alike) > 1:
            several = _MultimetricScorer(scorers=alike, raise_exc=job.task.scorer._raise_exc)
            every = score_model(model, X, y, kwargs, replace(job.task, scorer=several))
            return every[list(alike)[-1]]
        found = score_model(model, X, y, kwargs, replace(job.task, scorer=scorer))
        if isinstance(found, dict) and scorer is not job.task.scorer:
            raise ValueError(f"One of several scorers returned {found}.")  # single fits say which
        return found

    return score


def _asking_alike(scorer, of_all):
    """A scorer of several, by name, after those before it that ask for the same method.

    scikit-learn calls the method for the first of them, and so looks at the positive label of that
    one only.
    """
    alike: dict[str, Any] = {}
    if isinstance(of_all, _MultimetricScorer) and isinstance(scorer, _BaseScorer):
        for name, each in of_all._scorers.items():
            if getattr(each, "_response_method", None) == scorer._response_method:
                alike[name] = each
            if each is scorer:
                break
    return alike


def _takes_weights(scorer):
    if hasattr(scorer, "_accept_sample_weight"):
        return scorer._accept_sample_weight()
    return "sample_weight" in signature(scorer).parameters
