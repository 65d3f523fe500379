"""Models that are fitted anew with ever more rows, or more of what a parameter counts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpuml.data import Split
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.lessons import seeded
from gpuml.model_selection.residence import configured
from gpuml.model_selection.row_blocks import RowBlocks
from gpuml.model_selection.training import Queue, Request, Result
from gpuml.resampling.split import as_rows


class MoreOfAResource(Queue):
    """Models that are fitted anew with ever more rows, or more of what a parameter counts.

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
        # All candidates have one seed, so that those that differ in nothing else share a pass.
        estimator = seeded(job.estimator, seed)
        self._first = make_evaluator(replace(job, estimator=estimator, splits=[self._split(1.0)]))
        self._evaluators = {max_calls: self._first}

    @property
    def steps(self) -> list:
        """What was done, as steps of a plan."""
        return [step for each in self._evaluators.values() for step in each.steps]

    def model(self, request: Request, result: Result) -> Any:
        """The model of all rows, held-out ones too."""
        evaluator, position = result.state
        model = evaluator.refit(position)
        if model is None:
            job = self._first.job
            model = configured(job.estimator, self._candidate(request))
            target = () if job.y is None else (job.y,)
            model.fit(job.X, *target, **job.task.fit_params)
        return model

    def _train(self, requests):
        found: dict[int, Result] = {}
        for wanted in {r.wanted: None for r in requests}:
            some = [i for i, request in enumerate(requests) if request.wanted == wanted]
            evaluator = self._evaluator(wanted)
            first = evaluator.n_done
            out = evaluator.evaluate([self._candidate(requests[i]) for i in some])
            for position, (i, result) in enumerate(zip(some, out, strict=True)):
                found[i] = _result(result, (evaluator, first + position))
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
    return Result(float(result["test_scores"]), *times, state, result["fit_error"])
