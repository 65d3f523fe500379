"""Models that learn call by call on a cluster: chains of tasks, each from one state to the next.

A state is a future; it stays on the worker that made it, and the scheduler knows how to make it
again. Only states that depended on rows which the client had sent are begun anew here.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import cloudpickle
from distributed import Client, Future

from gpuml._sklearn import _num_samples
from gpuml.model_selection.candidates import Step
from gpuml.model_selection.one_by_one import Fold, failed_scores, rows_of
from gpuml.model_selection.residence import configured
from gpuml.model_selection.row_blocks import Recipe, RowBlocks
from gpuml.model_selection.trainers import Learnt, Lesson, learn, scored
from gpuml.model_selection.training import Request, Result, Trainer
from gpuml_dask._annotations import asked_resources
from gpuml_dask.errors import ClusterError
from gpuml_dask.planning.worker_kinds import Kinds, kinds_of, placing_of
from gpuml_dask.rows import blocks as joining
from gpuml_dask.rows.chunked import Layer
from gpuml_dask.rows.placement import Table
from gpuml_dask.searching.inputs import Sent
from gpuml_dask.searching.rounds import model_words
from gpuml_dask.searching.running import Killed
from gpuml_dask.searching.staged import PlacedRunner
from gpuml_dask.searching.tasks import filled
from gpuml_dask.waiting import TICK_SECONDS

# Calls whose rows are no more than this are one task.
TOGETHER_BYTES = 2**25
LOST = ("cancelled", "lost", "error")


@dataclass(eq=False)
class Leg:
    """A stretch of a model's training: a unit of work without parts.

    `key` says whose request it is, and `position` which one. `number` is that of the model in the
    search. `future` is the state after the leg; its tasks need the Dask resources `asks`.
    """

    key: Any
    position: int
    request: Request
    number: int
    previous: "Leg | None"
    title: str
    future: Future | None = None
    asks: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        return f"{self.request.name} call {self.request.wanted}"

    @property
    def candidates(self) -> list[int]:
        return [self.number]

    def singles(self) -> list:
        return []


class ClusterTrainer(Trainer):
    """Trains models call by call on workers.

    The lesson has a `Column` in place of each array of one value a row. The table is cut as the
    blocks are, and closed with the trainer.
    """

    def __init__(self, client: Client, lesson: Lesson, blocks: RowBlocks, table: Table):
        self.client, self.lesson, self._table = client, lesson, table
        self._inputs = LessonInputs(client, lesson, blocks, table)
        self._runner = ChainRunner(client, self._inputs, lesson)
        self._title = f"train {model_words(lesson.estimator)}"
        self._numbers: dict[str, int] = {}
        self._legs: list[Leg] = []
        self._new: list[Leg] = []
        self._found: dict[Any, list[Any]] = {}
        self._results: Any = None
        self._n_calls = 0

    @property
    def steps(self) -> list[Step]:
        n_models, n_calls = len(self._numbers), self._n_calls
        return [Step(n_models, n_calls, "workers", "models are trained call by call")]

    def start(self, key: Any, requests: Sequence[Request]) -> None:
        self._found[key] = [None] * len(requests)
        for position, request in enumerate(requests):
            number = self._numbers.setdefault(request.name, len(self._numbers))
            leg = Leg(key, position, request, number, request.state, self._title)
            self._new.append(leg)
            self._legs.append(leg)
            self._n_calls += request.wanted - request.done

    def next_finished(self) -> tuple[Any, list[Result]]:
        new, self._new = self._new, []
        if self._results is None:
            self._results = self._runner.run(new)
        else:
            self._runner.add(new)
        for leg, found in self._results:
            results = self._found[leg.key]
            results[leg.position] = self._result(leg, found)
            if None not in results:
                return leg.key, self._found.pop(leg.key)
        raise ClusterError("The cluster has lost units of work.")  # the runner says so before

    def model(self, request: Request, result: Result) -> Any:
        leg: Leg = result.state
        runner = ChainRunner(self.client, self._inputs, self.lesson, last=model_of)
        results: Any = runner.run([leg])
        with closing(results):
            ((_, model),) = results
        if isinstance(model, Killed):
            raise ClusterError(f"The best model could not be fetched: {model.reason}.")
        return model

    def close(self) -> None:
        if self._results is not None:
            self._results.close()
        for leg in self._legs:
            leg.future = None
        self._inputs.close()
        self._table.close()

    def _result(self, leg, found):
        if isinstance(found, Killed):
            found = self._killed(leg, found)
        if leg.previous is not None:
            leg.previous.future = None  # the scheduler can make it again if it must
        return replace(found, state=leg)

    def _killed(self, leg, killed):
        task, params = self.lesson.task, dict(leg.request.params)
        text = f"training ends the process that runs it: {killed.reason}. Parameters: {params}"
        if task.error_score == "raise":
            raise ClusterError(f"{text}. Look at the workers' logs.")
        return Result(failed_scores(task), 0.0, 0.0, None, f"ClusterError: {text}")


class ChainRunner(PlacedRunner):
    """A runner of legs: states are futures, and results are of the last state.

    Models learn on the kind of worker that they need, as they are fitted there.
    """

    def __init__(self, client: Client, inputs: "LessonInputs", lesson: Lesson, last: Any = scored):
        super().__init__(client, inputs)
        self._lesson, self._last = lesson, last
        self._kinds, self._kinds_since = Kinds({}), float("-inf")

    def _add(self, units, workers=()):
        """Submit legs, and the legs before them whose states were lost."""
        now = time.monotonic()
        if now - self._kinds_since > TICK_SECONDS:  # legs are short
            self._kinds, self._kinds_since = kinds_of(self.client), now
        kinds = self._kinds
        for leg in units:
            title, inputs = leg.title.replace("train", "score", 1), self._inputs
            demand = self._demand(leg, kinds)
            future = self.client.submit(
                self._last,
                self._state(leg, demand),
                inputs.held_out,
                inputs.lesson,
                key=self._key(leg, title, leg.label),
                resources=asked_resources(demand) or None,
            )
            self._demands[future.key] = frozenset(demand)
            self._running[future.key] = leg, future
            self._wait_on([future])

    def _demand(self, leg, kinds):
        if not kinds.differ:
            return {}
        if self._inputs.on_gpu:
            return kinds.demand("gpu")  # where the rows are
        try:
            model = configured(self._lesson.estimator, leg.request.params)
            return kinds.demand(placing_of(model).kind)
        except Exception:
            return {}  # training will tell what is wrong

    def _blame(self, unit):
        unit.future = None  # what runs of it is let go
        yield from super()._blame(unit)

    def _key(self, leg, title, label):
        """A unique key; deaths of workers that run it count for the leg."""
        key = f"{title}-{self._token}", f"{label} #{len(self._submitted) + 1}"
        self._submitted[key] = leg
        return key

    def _state(self, leg, demand):
        """The future of the state after a leg, submitted if no worker has it or will have it."""
        future = leg.future
        # The workers that it waits for did not come back.
        stuck = future is not None and not future.done() and not leg.asks <= demand.keys()
        if future is None or future.status in LOST or stuck:
            state = None if leg.previous is None else self._state(leg.previous, demand)
            packed = cloudpickle.dumps(dict(leg.request.params))
            leg.asks = frozenset(demand)
            for calls in self._stretches(leg.request):
                numbers = sorted({self._lesson.order[call] for call in calls})
                state = self.client.submit(
                    learn_calls,
                    self._inputs.lesson,
                    packed,
                    calls,
                    calls.start > leg.request.done,
                    state,
                    numbers,
                    *[self._inputs.block(number) for number in numbers],
                    key=self._key(leg, leg.title, f"{leg.request.name} call {calls.stop}"),
                    resources=asked_resources(demand) or None,
                )
            leg.future = state
        return leg.future

    def _stretches(self, request):
        """Ranges of calls that are one task each; a task holds all of its rows at once."""
        first, n_bytes = request.done, 0
        seen: set[int] = set()
        for call in range(request.done, request.wanted):
            number = self._lesson.order[call]
            more = 0 if number in seen else self._inputs.block_bytes(number)
            if call > first and n_bytes + more > TOGETHER_BYTES and number not in seen:
                yield range(first, call)
                first, seen, n_bytes = call, set(), 0
            seen.add(number)
            n_bytes += more
        yield range(first, request.wanted)


class LessonInputs:
    """The lesson, training rows of each block, and all held-out rows, on workers.

    `on_gpu`: rows are in the memory of GPUs.
    """

    def __init__(self, client: Client, lesson: Lesson, blocks: RowBlocks, table: Table):
        self._blocks, self._table = blocks, table
        self._names, self._rows = table.names, table["X"].rows
        self.on_gpu = self._rows.facts.on_gpu
        self._lesson = Sent(client, lesson, f"lesson of {model_words(lesson.estimator)}")
        self._row_bytes = max(1, table.dtype.itemsize) * max(1, *table.shape[1:])
        parts = partial(self._parts, training_part, "rows to train on")
        self._training = Layer(blocks.n_blocks, parts)
        self._held_out = Layer(1, self._join)

    @property
    def lesson(self) -> Future:
        return self._lesson.future

    @property
    def held_out(self) -> Future:
        return self._held_out.futures()[0]

    def block(self, number: int) -> Future:
        return self._training.futures([number])[0]

    def block_bytes(self, number: int) -> int:
        """Size of the training rows of a block, about."""
        return self._blocks.recipe(number).n_rows * self._row_bytes

    def arguments(self) -> Mapping[str, Future]:
        """None: legs get their inputs one by one."""
        return {}

    def revive(self) -> None:
        self._table.revive()
        self._lesson.revive()
        self._held_out.drop_lost(LOST)
        self._training.drop_lost(LOST)

    def keep_on(self, workers: Collection[str]) -> None:
        """Do nothing: states are kept by the tasks that depend on them."""

    def close(self) -> None:
        self._held_out.forget()
        self._training.forget()

    def _parts(self, function, title, numbers, word):
        chunks = list(zip(*(self._table.blocks(name) for name in self._names), strict=True))
        recipe, what = self._blocks.recipe, (self.lesson, self._names)
        return [
            self._rows.submit(function, *what, recipe(i), *chunks[i], key=(f"{title}-{word}", i))
            for i in numbers
        ]

    def _join(self, _missing, word):
        every = range(self._blocks.n_blocks)
        parts = self._parts(held_out_part, "rows to score on", every, word)
        key = f"held-out rows-{word}"
        return [self._rows.submit(join_held_out, self.lesson, self._names, *parts, key=key)]


# ---------------------------------------------------------------- on workers


def training_part(lesson: Lesson, names: Sequence[str], recipe: Recipe, *chunks: Any) -> Fold:
    """A fold of the training rows of a chunk, and of nothing held out."""
    rows, _ = recipe.parts()
    part = {n: rows_of(c, rows, shared=True) for n, c in zip(names, chunks, strict=True)}
    params = {name: filled(value, part) for name, value in lesson.task.fit_params.items()}
    return Fold(part["X"], part.get("y"), None, None, params, {}, {}, 0)


def held_out_part(lesson: Lesson, names: Sequence[str], recipe: Recipe, *chunks: Any) -> list[Any]:
    _, rows = recipe.parts()
    return [rows_of(chunk, rows) for chunk in chunks]


def join_held_out(lesson: Lesson, names: Sequence[str], *parts: Sequence[Any]) -> Fold:
    """A fold of held-out rows, and of nothing to train on."""
    columns = [joining.join(*some) for some in zip(*parts, strict=True)]
    part = dict(zip(names, columns, strict=True))
    params = {name: filled(value, part) for name, value in lesson.task.score_params.items()}
    return Fold(None, None, part["X"], part.get("y"), {}, {}, params, _num_samples(part["X"]))


def learn_calls(
    lesson: Lesson,
    packed: bytes,
    calls: range,
    goes_on: bool,
    before: Learnt | None,
    numbers: Sequence[int],
    *blocks: Fold,
) -> Learnt:
    """The state after some calls; seconds of calls of one leg add up."""
    if before is not None and before.error is not None:
        return before
    block_of = dict(zip(numbers, blocks, strict=True)).__getitem__
    learnt = learn(before, cloudpickle.loads(packed), calls, block_of, lesson)
    if goes_on and before is not None:
        return replace(learnt, fit_seconds=before.fit_seconds + learnt.fit_seconds)
    return learnt


def model_of(learnt: Learnt, held_out: Fold, lesson: Lesson) -> Any:
    return learnt.model
