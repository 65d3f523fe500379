"""What runs on workers: units of a search, on an evaluator that each worker builds once.

The evaluator of a search on a worker is kept by a `Keeper`, or until there is one by that worker's
copy of its `Spec`; both are Dask keys. So rows are brought to a device once for all units, and go
when Dask lets the keys go: when the search ends, or its client is gone.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle
import sklearn
from distributed import get_worker

import gpuml
from gpuml._sklearn import _is_arraylike, _num_samples
from gpuml.data import AnySplit, aligned
from gpuml.divided import located_splits, small_arrays
from gpuml.model_selection.candidates import NOTHING, Step, steps_of
from gpuml.model_selection.evaluate import Evaluator, Job, Results
from gpuml.model_selection.one_by_one import Task
from gpuml.model_selection.residence import place_name
from gpuml.model_selection.warned import Warned, recorded
from gpuml.protocol import Group
from gpuml_dask.planning.worker_kinds import ANYWHERE, Placing
from gpuml_dask.searching.limits import limited

Steps = Sequence[Step]
BY_UNITS = "folds gathered by each unit"

_building = threading.Lock()


@dataclass(frozen=True)
class Column:
    """Stands in a spec for an array with one value a row, which is sent like the rows."""

    name: str


def with_columns(task: Task, n_rows: int, **changes: Any) -> tuple[Task, dict[str, Any]]:
    """A task with a `Column` in place of each array of one value a row, and those by their names.

    Weights of fits and of scores are one array, and have to stay so: it has one name.
    """
    names: dict[int, Column] = {}
    columns: dict[str, Any] = {}

    def named(value):
        if not (_is_arraylike(value) and _num_samples(value) == n_rows):
            return value
        column = names.setdefault(id(value), Column(f"column_{len(names)}"))
        columns[column.name] = value
        return column

    return task.with_values(named, **changes), columns


def filled(value: Any, rows: Mapping[str, Any]) -> Any:
    return rows[value.name] if isinstance(value, Column) else value


@dataclass
class Spec:
    """What all units of a search have in common, besides rows.

    The task has a `Column` in place of each array of one value a row. Settings of gpuml and of
    scikit-learn, and `warnings.filters`, are the user's: workers do not inherit them. `name` is
    unlike any other spec's; `search` is the same for specs of the same rows in other splits, as
    rounds of a search have, and for no others.
    """

    estimator: Any
    splits: Sequence[AnySplit]
    task: Task
    settings: Mapping[str, Any]
    sklearn_settings: Mapping[str, Any]
    filters: Sequence[tuple]
    name: str
    search: str
    fit_timeout: float | None = None
    _kept: "Kept | None" = field(default=None, repr=False)

    def __getstate__(self):
        # What a worker keeps is its own.
        return {**vars(self), "_kept": None}

    def kept(self, rows: Mapping[str, Any]) -> "Kept":
        """The evaluator of this worker; made of the rows by the first unit that asks."""
        with _building:
            kept = self._kept or _made.get(self.name) or self._make(rows)
            _made[self.name] = _of_search[self.search] = kept
            keeper = _keepers.get(self.name)
            if keeper is not None:
                keeper.kept = kept
            # One owner: where a worker dies while it reads this spec from here, the error that Dask
            # logs, and keeps, has a traceback with the spec in it for good.
            self._kept = kept if keeper is None else None
            return kept

    def _make(self, rows: Mapping[str, Any]) -> "Kept":
        """An evaluator for this worker; one thread at a time asks for it."""
        other = _of_search.get(self.search)
        if other is not None:
            splits = located_splits(self.splits, rows.get("y"))
            return Kept(other.evaluator.with_splits(splits), self.fit_timeout)
        # So that what a user's estimator computes depends less on who had the rows before.
        rows = {name: aligned(x) for name, x in rows.items()}
        y = rows.get("y")
        splits = located_splits(self.splits, y)
        # What is printed of fits is printed where the user sees it.
        task = self.task.with_values(partial(filled, rows=rows), verbose=0)
        job = Job(self.estimator, rows["X"], y, splits, task)
        return Kept(Evaluator(job), self.fit_timeout)


@dataclass
class Kept:
    """An evaluator, the lock for fits of groups on it, and the time limit of a fit in seconds."""

    evaluator: Evaluator
    fit_timeout: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Keeper:
    """Keeps a worker's evaluator of a spec for as long as the client holds the keeper's key.

    Of the copies of a spec Dask removes those that no task waits for just then, as between two
    rounds, or on a worker that has finished before others. Of a keeper there is no other copy.
    """

    kept: Kept | None = None

    def __reduce__(self):
        # What a worker keeps is its own.
        return Keeper, ()


# By names of specs, and of their searches; values are Dask's keys, or belong to them.
_made: "WeakValueDictionary[str, Kept]" = WeakValueDictionary()
_of_search: "WeakValueDictionary[str, Kept]" = WeakValueDictionary()
_keepers: "WeakValueDictionary[str, Keeper]" = WeakValueDictionary()


def keep(name: str) -> Keeper:
    """Keep this worker's evaluator of a spec, now or as soon as there is one."""
    with _building:
        keeper = _keepers.setdefault(name, Keeper())
        keeper.kept = keeper.kept or _made.get(name)
        return keeper


@dataclass(frozen=True)
class Done:
    """The outcome of a unit, and where it ran.

    `value` is a list of (candidate, split, result), an estimator, or the refusal of a group that
    could not be fitted at once.
    """

    value: Any
    steps: Steps
    worker: str
    device: str
    warned: Sequence[Warned] = ()


@dataclass(frozen=True)
class GroupUnit:
    """Candidates that are fitted at once; never cut, because steps of solvers depend on all."""

    title: str
    label: str
    group: Group
    n_splits: int
    placing: Placing = ANYWHERE

    @property
    def candidates(self) -> list[int]:
        return self.group.positions

    def singles(self) -> "list[SplitUnit]":
        params = [{**self.group.shared, **varying} for varying in self.group.varying]
        return [
            SplitUnit(self.title, _of_one(s, position), s, [position], [each], self.placing)
            for s in range(self.n_splits)
            for position, each in zip(self.group.positions, params, strict=True)
        ]

    def run(self, kept: Kept) -> tuple[Any, Steps]:
        """Fit and score on a worker; the reason, if it cannot be done at once."""
        evaluator = kept.evaluator
        n_fits = len(self.candidates) * self.n_splits
        with kept.lock, limited(kept.fit_timeout, n_fits):
            n_before = len(evaluator.steps)
            found = evaluator.fit_group(self.group)
            if not found:
                refusal = evaluator.refused.get(self.group.positions[0], NOTHING)
                return refusal, [Step(0, 0, place_name(evaluator.job.X), "")]
            by_split = [(c, s, each) for c, results in found for s, each in enumerate(results)]
            return by_split, evaluator.steps[n_before:]


@dataclass(frozen=True)
class SplitUnit:
    """Candidates that are fitted on one split: one by one, but for what they have in common."""

    title: str
    label: str
    split: int
    candidates: Sequence[int]
    params: Sequence[Mapping[str, Any]]
    placing: Placing = ANYWHERE

    def singles(self) -> "list[SplitUnit]":
        if len(self.candidates) == 1:
            return []
        return [
            replace(self, label=_of_one(self.split, position), candidates=[position], params=[each])
            for position, each in zip(self.candidates, self.params, strict=True)
        ]

    def run(self, kept: Kept) -> tuple[Any, Steps]:
        """Fit and score on a worker."""
        evaluator = kept.evaluator
        with limited(kept.fit_timeout, len(self.candidates)):
            results = evaluator.fit_split(self.split, self.params)
        error_score = evaluator.job.task.error_score
        return self.made_of(results, evaluator.place_for(self.params[0]), error_score)

    def made_of(self, results: Results, place: str, error_score: Any) -> tuple[Any, Steps]:
        """Results with their candidates and split, and what was done for them at a place."""
        steps = steps_of(results, place, BY_UNITS, by_task=True, error_score=error_score)
        return [(c, self.split, r) for c, r in zip(self.candidates, results, strict=True)], steps


@dataclass(frozen=True)
class RefitUnit:
    """The model of a candidate on all rows, from its group's models if it has one."""

    title: str
    label: str
    candidate: int
    params: Mapping[str, Any]
    group: Group | None
    placing: Placing = ANYWHERE

    @property
    def candidates(self) -> list[int]:
        return [self.candidate]

    def singles(self) -> list:
        return []

    def run(self, kept: Kept) -> tuple[Any, Steps]:
        """Fit on a worker; the group's models are fitted again where it does not have them."""
        evaluator, model = kept.evaluator, None
        if self.group is not None:
            with kept.lock:
                model = evaluator.refit(self.candidate)
                if model is None and evaluator.fit_group(self.group):
                    model = evaluator.refit(self.candidate)
        if model is None:
            model = evaluator.fit_all(self.params)
        return model, [Step(1, 1, evaluator.place_for(self.params), "refit")]


Unit = GroupUnit | SplitUnit | RefitUnit


def _of_one(split, position):
    return f"fold {split + 1} candidate {position}"


def unpacked(packed: bytes) -> Any:
    """An object from bytes, which the scheduler passes on without looking into them."""
    return cloudpickle.loads(packed)


def touch(*inputs: Any) -> None:
    """Do nothing, on a worker that thereby has the inputs."""


def run_unit(packed: bytes, spec: Spec, **rows: Any) -> Done:
    """Run a unit on this worker; `rows` are X, y if there is one, and columns the spec names."""
    unit = cloudpickle.loads(packed)
    with as_user(spec) as warned:
        value, steps = unit.run(spec.kept(rows))
    return done(value, steps, warned)


@contextmanager
def as_user(spec: Spec) -> Iterator[list[Warned]]:
    """The user's settings, for a ``with`` block; yields the warnings that are raised in it."""
    with (
        small_arrays(),
        gpuml.config_context(**{**spec.settings, "progress": False}),
        sklearn.config_context(**spec.sklearn_settings),
        recorded(spec.filters) as warned,
    ):
        yield warned


def done(value: Any, steps: Steps, warned: Sequence[Warned]) -> Done:
    return Done(value, steps, get_worker().address, _device(steps[0].place), tuple(warned))


def _device(places):
    """The device of a place such as "cupy:cuda:0", with the number that the machine gives it.

    Of several places it is the first, where the rows are.
    """
    device = places.partition(", ")[0].partition(":")[2]
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return kind
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(int(index))["name"].decode()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    number = visible[int(index)] if len(visible) > int(index) and visible[0] else index
    return f"cuda:{number} {name}"
