"""Trainers of adaptive searches: call by call, or new fits with more of a resource.

A model that learns call by call continues from its last state; earlier states do not change.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from inspect import signature
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.parallel import Parallel, delayed

from gpuml._arrays import as_array, is_array, is_numpy, namespace, place_of, synchronize, to_host
from gpuml._settings.config import config_context, get_config
from gpuml.data import Split
from gpuml.model_selection.candidates import Step
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.grown import Grown
from gpuml.model_selection.one_by_one import Fold, Task, failed_scores, score_model, take_fold
from gpuml.model_selection.residence import Residences, configured
from gpuml.model_selection.row_blocks import RowBlocks
from gpuml.model_selection.training import Request, Result, Trainer
from gpuml.model_selection.validation import check_one_score
from gpuml.resampling.split import as_rows


@dataclass(frozen=True)
class Lesson:
    """What all models learn from, and what else is needed to train one of them.

    Attributes
    ----------
    estimator : estimator
        Unfitted.
    seed : int
        For what is random in a model and has no seed of its own.
    order : sequence of int
        The block of each call.
    task : Task
        The scorer, and parameters without one value a row.
    settings : mapping
        gpuml's.
    """

    estimator: Any
    seed: int
    order: Sequence[int]
    task: Task
    settings: Mapping[str, Any] = field(default_factory=get_config)


@dataclass(frozen=True)
class Learnt:
    """The state of a model that learns call by call."""

    model: Any
    fit_seconds: float
    error: str | None = None


def learn(
    before: Learnt | None,
    params: Mapping[str, Any],
    calls: range,
    block_of: Callable[[int], Fold],
    lesson: Lesson,
) -> Learnt:
    """Train a model by calls of `partial_fit`; `before` stays as it is.

    Parameters
    ----------
    before : Learnt or None
        None begins with a new model.
    params : mapping
        Of the new model.
    calls : range
        Numbers of the calls, from which their blocks follow.
    block_of : callable
        The rows of a block.
    lesson : Lesson
    """
    started = time.perf_counter()
    try:
        with config_context(**lesson.settings):
            if before is None:
                model = seeded(configured(lesson.estimator, params), lesson.seed)
            else:
                model = deepcopy(before.model)
            for call in calls:
                block = block_of(lesson.order[call])
                target = () if block.y_train is None else (block.y_train,)
                model.partial_fit(block.X_train, *target, **block.fit_params)
            if calls and is_array(block.X_train) and not is_numpy(block.X_train):
                synchronize(place_of(block.X_train))
    except Exception:
        if lesson.task.error_score == "raise":
            raise
        return Learnt(None, time.perf_counter() - started, format_exc())
    return Learnt(model, time.perf_counter() - started)


def scored(learnt: Learnt, held_out: Fold, lesson: Lesson) -> Result:
    """The score of a model on held-out rows, without its state."""
    started = time.perf_counter()
    if learnt.error is not None:
        return Result(failed_scores(lesson.task), learnt.fit_seconds, 0.0, None, learnt.error)
    with config_context(**lesson.settings):
        params = held_out.test_score_params
        score = score_model(learnt.model, held_out.X_test, held_out.y_test, params, lesson.task)
    check_one_score([{"test_scores": score}])
    return Result(float(score), learnt.fit_seconds, time.perf_counter() - started, None)


def with_classes(estimator: Any, y: Any, task: Task) -> Task:
    """The task with the classes of y, if `partial_fit` needs them and the user gave none."""
    takes_classes = "classes" in signature(estimator.partial_fit).parameters
    if y is None or not takes_classes or "classes" in task.fit_params:
        return task
    if not is_classifier(estimator):
        return task
    return replace(task, fit_params={**task.fit_params, "classes": classes_of(y)})


def classes_of(y: Any) -> np.ndarray:
    """Sorted labels in CPU memory."""
    y = as_array(y)
    if not is_array(y) or is_numpy(y):
        return np.unique(y)
    return to_host(namespace(y).unique_values(y))


def seeded(estimator: Any, seed: int) -> Any:
    """An unfitted estimator with a number for every `random_state` that was None."""
    rng = np.random.RandomState(seed)
    names = [
        name
        for name, value in sorted(estimator.get_params(deep=True).items())
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    ]
    return estimator.set_params(**{name: int(rng.randint(2**31 - 1)) for name in names})


class CallByCall(Trainer):
    """Train models by calls of `partial_fit` in this process.

    Parameters
    ----------
    lesson : Lesson
    blocks : RowBlocks
    X, y : array-like
        Each block is taken out of them once, for all models.
    n_jobs : int or None
        Models that are trained side by side.
    """

    def __init__(self, lesson: Lesson, blocks: RowBlocks, X: Any, y: Any, n_jobs: int | None):
        super().__init__()
        # In the place where the estimator reads them.
        rows = Residences(lesson.estimator, X, y, (), lesson.task).of(lesson.estimator)
        self.lesson = replace(lesson, task=rows.task)
        self._blocks, self._X, self._y, self._n_jobs = blocks, rows.X, rows.y, n_jobs
        self._taken: dict[int, Fold] = {}
        self._n_models, self._n_calls, self._place = 0, 0, rows.place
        self._held_out = self._take(Split(slice(0, 0), as_rows(blocks.test(), blocks.bounds[-1])))

    @property
    def steps(self) -> list[Step]:
        """The work done so far, as one step."""
        n_models, n_calls = self._n_models, self._n_calls
        return [Step(n_models, n_calls, self._place, "models are trained call by call")]

    def model(self, request: Request, result: Result) -> Any:
        """The fitted estimator of a result."""
        return result.state.model

    def _train(self, requests):
        self._n_models += sum(r.done == 0 for r in requests)
        self._n_calls += sum(r.wanted - r.done for r in requests)
        needed = {b for r in requests for b in self.lesson.order[r.done : r.wanted]}
        blocks = {b: self._block(b) for b in sorted(needed)}
        on_device = is_array(self._X) and not is_numpy(self._X)
        # No other process gets rows on a device.
        n_jobs = 1 if on_device or len(requests) == 1 else self._n_jobs
        return Parallel(n_jobs=n_jobs)(
            delayed(_trained)(r, blocks, self._held_out, self.lesson) for r in requests
        )

    def _block(self, number):
        if number not in self._taken:
            rows = as_rows(self._blocks.train(number), self._blocks.bounds[-1])
            self._taken[number] = self._take(Split(rows, slice(0, 0)))
        return self._taken[number]

    def _take(self, split):
        lesson = self.lesson
        return take_fold(lesson.estimator, self._X, self._y, split, lesson.task, shared=True)


def _trained(request, blocks, held_out, lesson):
    calls = range(request.done, request.wanted)
    learnt = learn(request.state, request.params, calls, blocks.__getitem__, lesson)
    return replace(scored(learnt, held_out, lesson), state=learnt)


class MoreOfAResource(Trainer):
    """Fit models anew with more and more rows, or more of a parameter.

    Parameters
    ----------
    make_evaluator : callable
        Of a `Job`; fits all models of a round that it can fit at once.
    job : Job
        Its splits are not looked at.
    blocks : RowBlocks
    max_calls : int
        Calls that stand for all training rows.
    resource : str
        "n_samples", or the parameter whose value is the number of calls.
    seed : int
        For what is random in the estimator and has no seed of its own.
    """

    def __init__(
        self,
        make_evaluator: Callable[[Job], Evaluator],
        job: Job,
        blocks: RowBlocks,
        max_calls: int,
        resource: str,
        seed: int,
    ):
        super().__init__()
        self._blocks, self._max_calls, self._resource = blocks, max_calls, resource
        self._test = as_rows(blocks.test(), blocks.bounds[-1])
        # All candidates have one seed, so that they can share a pass.
        estimator = seeded(job.estimator, seed)
        self._first = make_evaluator(replace(job, estimator=estimator, splits=[self._split(1.0)]))
        self._evaluators = {max_calls: self._first}

    @property
    def steps(self) -> list:
        """The work done, as steps of a plan."""
        return [step for each in self._evaluators.values() for step in each.steps]

    def model(self, request: Request, result: Result) -> Any:
        """The model of all rows, including held-out ones."""
        evaluator, position, _ = result.state
        return evaluator.refit(position)

    def _train(self, requests):
        found: dict[int, Result] = {}
        # All requests belong to one bracket, whose ensembles continue those of its previous rung.
        grown = next((r.state[2] for r in requests if r.state is not None), Grown())
        for wanted in {r.wanted: None for r in requests}:
            some = [i for i, request in enumerate(requests) if request.wanted == wanted]
            evaluator = self._evaluator(wanted)
            first = evaluator.n_done
            evaluator.grown = grown if self._resource != "n_samples" else None
            out = evaluator.evaluate([self._candidate(requests[i]) for i in some])
            for position, (i, result) in enumerate(zip(some, out, strict=True)):
                found[i] = _result(result, (evaluator, first + position, grown))
        return [found[i] for i in range(len(requests))]

    def _candidate(self, request):
        more = {} if self._resource == "n_samples" else {self._resource: request.wanted}
        return {**request.params, **more}

    def _evaluator(self, n_calls):
        if self._resource != "n_samples":
            return self._first
        if n_calls not in self._evaluators:
            splits = [self._split(n_calls / self._max_calls)]
            self._evaluators[n_calls] = self._first.with_splits(splits)
        return self._evaluators[n_calls]

    def _split(self, share):
        return Split(as_rows(self._blocks.prefix(share), self._blocks.bounds[-1]), self._test)


def _result(result, state):
    times = result["fit_time"], result["score_time"]
    check_one_score([result])
    return Result(float(result["test_scores"]), *times, state, result["fit_error"])
