"""The interface between adaptive searches and the trainers of their models."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuml._settings.config import current_settings
from gpuml._settings.progress import progress_bar
from gpuml.model_selection.brackets import BracketRun
from gpuml.model_selection.candidates import Step


@dataclass(frozen=True)
class Request:
    """A request to train a model further.

    Attributes
    ----------
    name : str
        Of the model, such as "bracket=4-17".
    params : mapping
    done, wanted : int
        Calls it has had, and is to have had.
    state : object
        What its last result had; None at first.
    """

    name: str
    params: Mapping[str, Any]
    done: int
    wanted: int
    state: Any = None


@dataclass(frozen=True)
class Result:
    """The result of a request: score on the held-out rows, seconds, and the model's state."""

    score: float
    fit_seconds: float
    score_seconds: float
    state: Any
    error: str | None = None


class Trainer:
    """Trains models of several brackets. Its results depend on the requests alone.

    Only the trainer reads a state; a search may request training from the same state again.
    """

    def __init__(self):
        self._waiting: deque = deque()

    @property
    def steps(self) -> list[Step]:
        """The work done so far."""
        raise NotImplementedError

    def start(self, key: Any, requests: Sequence[Request]) -> None:
        """Accept requests; `key` says which bracket they belong to."""
        self._waiting.append((key, list(requests)))

    def next_finished(self) -> tuple[Any, list[Result]]:
        """Results of earlier requests, all with one key: those that have waited longest."""
        key, requests = self._waiting.popleft()
        return key, self._train(requests)

    def model(self, request: Request, result: Result) -> Any:
        """The fitted estimator of a result."""
        raise NotImplementedError

    def close(self) -> None:
        """Release everything."""
        self._waiting.clear()

    def _train(self, requests: list[Request]) -> list[Result]:
        raise NotImplementedError


def train(
    trainer: Trainer, runs: Sequence[BracketRun], report: Callable[[BracketRun], None]
) -> None:
    """Run brackets to their ends, in parallel; call `report` after each rung."""
    n_models = sum(run.bracket.n_models for run in runs)
    n_calls = sum(run.bracket.n_calls for run in runs)
    with progress_bar(n_calls, f"{n_models} models", enabled=current_settings().progress) as bar:
        _train(trainer, runs, report, bar.advance)


def _train(trainer, runs, report, advance):
    started = time.perf_counter()
    pending = {run.bracket.number: (run, _start(trainer, run)) for run in runs}
    while pending:
        number, results = trainer.next_finished()
        run, asked = pending.pop(number)
        advance(sum(request.wanted - request.done for _, request in asked))
        for (entry, request), result in zip(asked, results, strict=True):
            record = {
                "model_id": request.name,
                "params": entry.params,
                "bracket": number,
                "partial_fit_calls": request.wanted,
                "partial_fit_time": result.fit_seconds / (request.wanted - request.done),
                "score": result.score,
                "score_time": result.score_seconds,
                "elapsed_wall_time": time.perf_counter() - started,
            }
            run.record(entry, record, (request, result), result.error)
        report(run)
        asked = _start(trainer, run)
        if asked:
            pending[number] = run, asked


def _start(trainer, run):
    """Request the next training of a bracket, if there is any."""
    asked = []
    for entry, wanted in run.next():
        name = f"bracket={run.bracket.number}-{entry.number}"
        state = entry.state[1].state if entry.state else None
        asked.append((entry, Request(name, entry.params, entry.n_calls, wanted, state)))
    if asked:
        trainer.start(run.bracket.number, [request for _, request in asked])
    return asked
