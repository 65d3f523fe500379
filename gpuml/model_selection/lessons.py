"""Models that learn call by call: each goes on from where it was, and nobody's state is changed."""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from inspect import signature
from traceback import format_exc
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.utils.parallel import Parallel, delayed

from gpuml._arrays import as_array, is_array, is_numpy, namespace, place_of, synchronize, to_host
from gpuml._settings.config import config_context, get_config
from gpuml.data import Split
from gpuml.model_selection.candidates import Step
from gpuml.model_selection.one_by_one import Fold, Task, failed_scores, score_model, take_fold
from gpuml.model_selection.residence import Residences, configured
from gpuml.model_selection.row_blocks import RowBlocks
from gpuml.model_selection.training import Queue, Request, Result
from gpuml.resampling.split import as_rows


@dataclass(frozen=True)
class Lesson:
    """What all models learn from; the rest of what is needed to train one of them.

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
    return Result(float(score), learnt.fit_seconds, time.perf_counter() - started, None)


def with_classes(estimator: Any, y: Any, task: Task) -> Task:
    """The task with the classes of y, where `partial_fit` has to be told and the user did not."""
    takes_classes = "classes" in signature(estimator.partial_fit).parameters
    if y is None or not takes_classes or "classes" in task.fit_params:
        return task
    if not is_classifier(estimator):
        return task
    return replace(task, fit_params={**task.fit_params, "classes": classes_of(y)})


def classes_of(y: Any) -> np.ndarray:
    """Sorted labels, in CPU memory."""
    y = as_array(y)
    if not is_array(y) or is_numpy(y):
        return np.unique(y)
    return to_host(namespace(y).unique_values(y))


def seeded(estimator: Any, seed: int) -> Any:
    """An unfitted estimator whose every `random_state` that was None is a number now."""
    rng = np.random.RandomState(seed)
    names = [
        name
        for name, value in sorted(estimator.get_params(deep=True).items())
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    ]
    return estimator.set_params(**{name: int(rng.randint(2**31 - 1)) for name in names})


class CallByCall(Queue):
    """Models that learn by calls of `partial_fit`, here.

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
        # Where the estimator reads them.
        rows = Residences(lesson.estimator, X, y, (), lesson.task).of(lesson.estimator)
        self.lesson = replace(lesson, task=rows.task)
        self._blocks, self._X, self._y, self._n_jobs = blocks, rows.X, rows.y, n_jobs
        self._taken: dict[int, Fold] = {}
        self._n_models, self._n_calls, self._place = 0, 0, rows.place
        self._held_out = self._take(Split(slice(0, 0), as_rows(blocks.test(), blocks.bounds[-1])))

    @property
    def steps(self) -> list[Step]:
        """What was done so far, as one step."""
        n_models, n_calls = self._n_models, self._n_calls
        return [Step(n_models, n_calls, self._place, "models learn call by call")]

    def model(self, request: Request, result: Result) -> Any:
        """The fitted estimator of a result."""
        return result.state.model

    def _train(self, requests):
        self._n_models += sum(r.done == 0 for r in requests)
        self._n_calls += sum(r.wanted - r.done for r in requests)
        needed = {b for r in requests for b in self.lesson.order[r.done : r.wanted]}
        blocks = {b: self._block(b) for b in sorted(needed)}
        on_device = is_array(self._X) and not is_numpy(self._X)
        # Rows on a device are given to no other process.
        n_jobs = 1 if on_device or len(requests) == 1 else self._n_jobs
        if effective_n_jobs(n_jobs) == 1:
            return [_trained(r, blocks, self._held_out, self.lesson) for r in requests]
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
