"""Fits and scores of models on rows that they have in common.

The models are last steps of pipelines whose other steps are the same, one or several of them, or
estimators of their own. Those that can share a fit do: `multifit` fits all at once, ensembles grow
from one to the next.
"""

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from gpuml._arrays import place_of, synchronize
from gpuml._sklearn import (
    _BaseScorer,
    _MultimetricScorer,
    _PassthroughScorer,
    _print_elapsed_time,
    _routing_enabled,
)
from gpuml.data import NeedsAllRows, UnfittableSplits, whole
from gpuml.model_selection.candidates import (
    GROWN,
    NOTHING,
    ON_EACH_FOLD,
    Made,
    Refusal,
    group_candidates,
    raised_words,
)
from gpuml.model_selection.common_rows import common_rows
from gpuml.model_selection.ensembles import grow, growth_key, may_grow
from gpuml.model_selection.one_by_one import (
    Fold,
    Progress,
    Task,
    announce_end,
    announce_start,
    failed_fit,
    is_foreign,
    score_model,
)
from gpuml.model_selection.prefix_keys import estimator_key, pipeline_key
from gpuml.model_selection.scores import score_stack
from gpuml.pipeline._affine import affine_pipeline
from gpuml.resampling.multifit import offers_multifit
from gpuml.resampling.split import make_folds

Candidate = tuple[Mapping[str, Any] | None, Progress]


@dataclass(frozen=True)
class Member:
    """A candidate, and the model that is to be fitted for it.

    Attributes
    ----------
    params, where
        The candidate and its place, for what is printed.
    model : estimator or "passthrough"
        A clone with the candidate's parameters, not fitted. Several last steps are a pipeline.
    fit_params : mapping
        What its `fit` takes besides X and y.
    assemble : callable
        Makes the estimator that the user knows, such as a pipeline, of the fitted model.
    message : str or None
        What is printed with the seconds of the fit.
    n_last : int
        How many last steps the model is of what `assemble` gives.
    """

    params: Mapping[str, Any] | None
    where: Progress
    model: Any
    fit_params: Mapping[str, Any]
    assemble: Callable[[Any], Any]
    message: str | None = None
    n_last: int = 1

    def fit(self, model: Any, X: Any, y: Any) -> Any:
        """Fit a model with this member's parameters of fits."""
        with _print_elapsed_time("Pipeline", self.message):
            fitted = model.fit(private_rows(X, model), y, **self.fit_params)
            finish(X)
            return fitted


@dataclass(frozen=True)
class Stage:
    """Rows for the models, and the fold that they come from.

    Attributes
    ----------
    fold : Fold
        Rows as the user has them.
    X_train : rows
        What the models are fitted to.
    seen : dict of str to rows
        What the models see of the held-out ("test") and training ("train") rows when they are
        scored. A part that is missing is scored by the whole estimator on the fold's rows.
    """

    fold: Fold
    X_train: Any
    seen: Mapping[str, Any] = field(default_factory=dict)


def fit_growing(
    estimator: Any, fold: Fold, candidates: Sequence[Candidate], task: Task
) -> list[dict[str, Any]]:
    """Fit and score candidates of an estimator that may grow from one to the next.

    As `fit_fold` for each of them, with the seconds that growing took for `fit_time`.
    """
    members = []
    for params, where in candidates:
        model = clone(estimator).set_params(**clone(params or {}, safe=False))
        members.append(Member(params, where, model, fold.fit_params, _itself))
    results = {}
    refused: dict[int, Refusal] = {}
    for i, result in fit_members(members, Stage(fold, fold.X_train), task, refused):
        result["made"] = result.get("made", Made()).after(refused.get(i, NOTHING))
        announce_end(members[i].params, members[i].where, task, result)
        results[i] = result
    return [results[i] for i in range(len(members))]


def grows(estimator: Any, params: Sequence[Mapping[str, Any] | None]) -> bool:
    """Whether `fit_growing` has something to share between candidates of an estimator."""
    if not may_grow(estimator):
        return False
    groups = group_candidates([each or {} for each in params], ["n_estimators"])
    return any(len(group.positions) > 1 for group in groups)


def fit_members(
    members: Sequence[Member], stage: Stage, task: Task, refused: dict[int, Refusal]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Positions and results, as `fit_fold` has them, each as soon as it is known.

    The end of a fit is not announced. Members that are several steps have none where those can't be
    fitted at once with others. `refused` is told, by position, why several that were to be fitted
    at once were not: fits by themselves tell whether one of them is to blame for an error.
    """
    work = _Work(stage, task)
    done: set[int] = set()
    for key_of, fit_group in ((_stack_key, work.at_once), (_growth_key, work.growing)):
        left = [i for i in range(len(members)) if i not in done]
        for group in _groups([members[i] for i in left], key_of):
            for i, result in fit_group([members[left[i]] for i in group]):
                done.add(left[group[i]])
                yield left[group[i]], result
            missing = [left[i] for i in group if left[i] not in done]
            refused.update(dict.fromkeys(missing, work.refusal))
            work.refusal = NOTHING
    for i, member in enumerate(members):
        if i not in done and member.n_last == 1:
            yield i, work.alone(member)


def failed_result(
    model: Any, error: str, fold: Fold, task: Task, fit_seconds: float
) -> dict[str, Any]:
    """The result of a candidate whose fit failed."""
    result = failed_fit(error, fold.n_test, task, fit_seconds)
    if task.return_estimator:
        result["estimator"] = deepcopy(model)
    return result


def asks_for_predictions_only(task: Task) -> bool:
    """Whether all scores of a task follow from what an estimator predicts for the rows.

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


# ---------------------------------------------------------------- shared rows


def read_only(rows: Any) -> Any:
    """Rows that several models are going to read: NumPy arrays as views that can't be written."""
    if not isinstance(rows, np.ndarray):
        return rows
    rows = rows.view()
    rows.flags.writeable = False
    return rows


def finish(rows: Any) -> None:
    """Wait for what was queued for rows on a device, so that seconds are those of the work."""
    if is_foreign(rows):
        synchronize(place_of(rows))


def private_rows(rows: Any, step: Any) -> Any:
    """Rows for a step: a copy where it is told to work in place and nothing else would stop it."""
    if isinstance(rows, np.ndarray) or not hasattr(step, "get_params"):
        return rows
    in_place = any(
        value is False and name.rpartition("__")[2] in ("copy", "copy_X", "copy_x")
        for name, value in step.get_params().items()
    )
    return deepcopy(rows) if in_place else rows


# ---------------------------------------------------------------- groups


def _groups(members, key_of) -> list[list[int]]:
    """Positions of members, more than one each time, whose models have the same key."""
    found: dict[Hashable, list[int]] = {}
    for position, member in enumerate(members):
        if not set(member.fit_params) <= {"sample_weight"} or isinstance(member.model, str):
            continue
        key = key_of(member)
        if key is not None:
            found.setdefault(key, []).append(position)
    return [group for group in found.values() if len(group) > 1]


def _stack_key(member):
    """Equal for members whose models one `multifit` may fit."""
    together = _together(member.model, member.fit_params)
    if together is None:
        return None
    key_of = pipeline_key if isinstance(member.model, Pipeline) else estimator_key
    return key_of(member.model, without=together.multifit_params)


def _growth_key(member):
    return growth_key(member.model)


def _together(model, fit_params):
    """A model, or a pipeline as what fits several of its kind at once; None where nothing does."""
    if isinstance(model, Pipeline):
        return None if fit_params else affine_pipeline(model, {})
    return model if offers_multifit(model) else None


def _validate(model):
    """Raise scikit-learn's error for a parameter that a model, or one of its steps, rejects."""
    for part in [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]:
        if hasattr(part, "_validate_params"):
            part._validate_params()


class _Work:
    """Fits and scores of models on a stage."""

    def __init__(self, stage: Stage, task: Task):
        self.stage, self.task = stage, task
        # Of the last group that was to be fitted at once.
        self.refusal = NOTHING

    # ------------------------------------------------------------ one

    def alone(self, member: Member) -> dict[str, Any]:
        """Fit and score one model."""
        announce_start(member.params, member.where, self.task)
        fitted = member.model
        started = time.perf_counter()
        try:
            if not isinstance(fitted, str):
                member.fit(fitted, self.stage.X_train, self.stage.fold.y_train)
        except Exception:
            if self.task.error_score == "raise":
                raise
            seconds = time.perf_counter() - started
            model = member.assemble(fitted)
            return failed_result(model, format_exc(), self.stage.fold, self.task, seconds)
        return self._scored(member, fitted, time.perf_counter() - started)

    def _scored(self, member, fitted, fit_seconds):
        started = time.perf_counter()
        test = self._score(member, fitted, "test", self.task)
        score_seconds = time.perf_counter() - started
        scores = {"test_scores": test, "n_test_samples": self.stage.fold.n_test}
        if self.task.return_train_score:
            scores["train_scores"] = self._score(member, fitted, "train", self.task)
        return self._result(member, fitted, scores, fit_seconds, score_seconds)

    def _result(self, member, fitted, scores, fit_seconds, score_seconds):
        times = {"fit_time": fit_seconds, "score_time": score_seconds}
        result = {"fit_error": None, **scores, **times}
        if self.task.return_estimator:
            # Steps are shared between candidates; what is given away is not.
            result["estimator"] = deepcopy(member.assemble(fitted))
        return result

    def _score(self, member, fitted, part, task):
        fold = self.stage.fold
        model = member.assemble(fitted)
        X, y, params = fold.X_train, fold.y_train, fold.train_score_params
        if part == "test":
            X, y, params = fold.X_test, fold.y_test, fold.test_score_params
        if part in self.stage.seen:
            # Of the pipeline without its other steps, so that it answers as the pipeline would.
            return score_model(model[-member.n_last :], self.stage.seen[part], y, params, task)
        return score_model(model, X, y, params, task)

    def _refuse(self, error):
        """Note why a group is fitted one by one, which tells which of them fails, and how."""
        expected = isinstance(error, UnfittableSplits | NeedsAllRows)
        self.refusal = Refusal(str(error) if expected else raised_words(error), raised=not expected)

    # ------------------------------------------------------------ growing

    def growing(self, members: Sequence[Member]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Positions and results; without those that were to come when a fit failed."""
        X, y = self.stage.X_train, self.stage.fold.y_train
        models = [member.model for member in members]
        started = time.perf_counter()
        try:
            for position, grown in grow(models, lambda model: members[0].fit(model, X, y)):
                fit_seconds = time.perf_counter() - started
                member = members[position]
                announce_start(member.params, member.where, self.task)
                result = self._scored(member, grown, fit_seconds)
                yield position, {**result, "made": Made(shared=(GROWN,))}
                started = time.perf_counter()
        except Exception as error:
            self._refuse(error)

    # ------------------------------------------------------------ at once

    def at_once(self, members: Sequence[Member]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Positions and results; none where the models can't be fitted at once."""
        stage, fit_params = self.stage, members[0].fit_params
        estimator = _together(clone(members[0].model), fit_params)
        names = estimator.multifit_params
        varying = [{n: v for n, v in m.model.get_params().items() if n in names} for m in members]
        started = time.perf_counter()
        try:
            for member in members:
                _validate(member.model)
            if not estimator.multifit_ready(stage.X_train):
                return
            X_test = stage.seen.get("test")
            rows = common_rows(stage.fold, stage.X_train, X_test, fit_params, self.task)
            batch = estimator.multifit_batch(rows.X, rows.y, rows.weight)
            folds = whole(batch) if rows.split is None else make_folds(batch, [rows.split])
            with _print_elapsed_time("Pipeline", members[0].message):
                stack = estimator.multifit(folds, varying)
            fitted = time.perf_counter()

            def model_of(c):
                return estimator.multifit_model(varying[c], stack.pick(c, 0))

            def score_one(c, _, part, scorer, task):
                return self._score(members[c], model_of(c), part, replace(task, scorer=scorer))

            scored = score_stack(stack, folds, score_one, self.task) if rows.split else None
        except Exception as error:
            self._refuse(error)
            return
        for member in members:
            announce_start(member.params, member.where, self.task)
        fit_seconds = (fitted - started) / len(members)
        score_seconds = (time.perf_counter() - fitted) / len(members)
        for c, member in enumerate(members):
            if scored is None:
                result = self._scored(member, model_of(c), fit_seconds)
            else:
                model = model_of(c) if self.task.return_estimator else None
                result = self._result(member, model, scored.of(c, 0), fit_seconds, score_seconds)
            yield c, {**result, "made": Made(ON_EACH_FOLD, 0 if c else stack.n_passes)}


def _itself(model):
    return model
