"""Units in two tasks: first steps of a pipeline on a CPU worker, the others on a GPU worker.

The rows between them, as the first steps make them, are the result of a task. The scheduler keeps
it while units need it, brings it to their workers, and makes it again if it is lost.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import cloudpickle
from distributed import Future

from gpuml.model_selection import fitted_prefixes
from gpuml.model_selection.candidates import Step
from gpuml.model_selection.fitted_prefixes import Prepared
from gpuml.model_selection.one_by_one import Fold, Progress, take_fold
from gpuml.model_selection.warned import Warned
from gpuml_dask._annotations import asked_resources, asked_workers
from gpuml_dask.planning.worker_kinds import Kinds, kinds_of
from gpuml_dask.searching.limits import limited
from gpuml_dask.searching.running import Runner
from gpuml_dask.searching.tasks import (
    Done,
    RefitUnit,
    Spec,
    SplitUnit,
    Steps,
    as_user,
    done,
    run_unit,
)
from gpuml_dask.waiting import patience


@dataclass(frozen=True)
class FirstSteps:
    """First steps of a candidate's pipeline, to be fitted to a split; to all rows if that is None.

    Units share a task if their `prefix` and `split` are equal.
    """

    prefix: int
    split: int | None
    params: Mapping[str, Any]
    names: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"fit {' and '.join(self.names)}"

    def run(self, spec: Spec, rows: Mapping[str, Any]) -> Prepared:
        """Fit and transform on a worker."""
        job = spec.kept(rows).evaluator.job
        if self.split is None:
            fold = Fold(job.X, job.y, None, None, job.task.fit_params, {}, {}, 0)
            task, limit = replace(job.task, error_score="raise"), None
        else:
            split, task, limit = job.splits[self.split], job.task, spec.fit_timeout
            fold = take_fold(job.estimator, job.X, job.y, split, task, shared=True)
        with limited(limit):
            return fitted_prefixes.prepare(job.estimator, fold, self.params, self.names, task)


@dataclass(frozen=True)
class First:
    """Fitted first steps, and the warnings that were raised."""

    prepared: Prepared
    warned: Sequence[Warned]

    def __sizeof__(self):
        # What Dask goes by when it moves results, or writes them to disk.
        return object.__sizeof__(self) + self.prepared.n_bytes


@dataclass(frozen=True)
class StagedUnit(SplitUnit):
    """Candidates with the same first steps, which are fitted apart from the others.

    `n_sharing` candidates of this unit and others share their seconds.
    """

    prefix: int = 0
    n_sharing: int = 1

    @property
    def first(self) -> FirstSteps:
        return FirstSteps(self.prefix, self.split, self.params[0], self.placing.first)

    def finish(self, prepared: Prepared, spec: Spec) -> tuple[Any, Steps]:
        """Fit and score the other steps on a worker."""
        n = len(self.params)
        n_splits = len(spec.splits)
        work = [(p, Progress(self.split, n_splits, i, n)) for i, p in enumerate(self.params)]
        task = replace(spec.task, verbose=0)
        with limited(spec.fit_timeout, n):
            results = fitted_prefixes.fit_prepared(
                spec.estimator, prepared, work, task, spec.settings, n_sharing=self.n_sharing
            )
        place = fitted_prefixes.place_of_fits(spec.estimator, prepared, self.params[0])
        return self.made_of(results, place, task.error_score)


@dataclass(frozen=True)
class StagedRefit(RefitUnit):
    """The model of a candidate on all rows, whose first steps are fitted apart from the others."""

    @property
    def first(self) -> FirstSteps:
        return FirstSteps(self.candidate, None, self.params, self.placing.first)

    def finish(self, prepared: Prepared, spec: Spec) -> tuple[Any, Steps]:
        """Fit the other steps on a worker."""
        estimator, params = spec.estimator, self.params
        model = fitted_prefixes.refit_prepared(estimator, prepared, params)
        place = fitted_prefixes.place_of_fits(estimator, prepared, params)
        return model, [Step(1, 1, place, "refit")]


class PlacedRunner(Runner):
    """A runner that gives units to workers of the kind that they need.

    Where no worker of a kind is left, its units wait for one as long as `patience` says. Then they
    go to the others.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._demands: dict[Any, frozenset[str]] = {}
        self._firsts: dict[Any, Any] = {}
        self._missing_since: dict[str, float] = {}

    def _submit(self, units, keys, workers):
        kinds = kinds_of(self.client)
        found: dict[int, Future] = {}
        alike: dict[Any, list[int]] = defaultdict(list)
        for i, unit in enumerate(units):
            staged = isinstance(unit, StagedUnit | StagedRefit)
            alike["staged" if staged else unit.placing.kind].append(i)
        for kind, some in alike.items():
            mine, names = [units[i] for i in some], [keys[i] for i in some]
            if kind == "staged":
                futures = self._submit_staged(mine, names, kinds)
            else:
                futures = self._submit_whole(mine, names, kind, kinds, workers)
            found.update(zip(some, futures, strict=True))
        return [found[i] for i in range(len(units))]

    def _submit_whole(self, units, keys, kind, kinds, workers):
        # Hints are for tasks that may run anywhere else.
        free = not (asked_workers() or asked_resources({}))
        there = [worker for worker in workers if free and worker in kinds.addresses]
        demand = {} if there else kinds.demand(kind)
        where: dict[str, Any] = {"resources": asked_resources(demand) or None}
        if there:
            where = {"workers": there, "allow_other_workers": True}
        self._demands.update(dict.fromkeys(keys, frozenset(demand)))
        packed = [cloudpickle.dumps(unit) for unit in units]
        where.update(self._inputs.arguments())
        return self.client.map(run_unit, packed, key=keys, pure=False, **where)

    def _submit_staged(self, units, keys, kinds):
        """Units, and their first steps once each; nobody else has those, so they go with them."""
        firsts: dict[Any, tuple[Any, str]] = {}
        for unit, key in zip(units, keys, strict=True):
            firsts.setdefault(_what(unit.first), (unit, key[1]))
        of_first, of_rest = kinds.demand("cpu"), kinds.demand("gpu")
        arguments, submit = self._inputs.arguments(), partial(self.client.map, pure=False)
        made = submit(
            run_first,
            [cloudpickle.dumps(unit.first) for unit, _ in firsts.values()],
            key=[(f"{u.first.title}-{self._token}", number) for u, number in firsts.values()],
            resources=asked_resources(of_first) or None,
            **arguments,
        )
        # A worker that dies with first steps counts as one that dies with the unit.
        self._submitted.update((f.key, u) for f, (u, _) in zip(made, firsts.values(), strict=True))
        future_of = dict(zip(firsts, made, strict=True))
        needed = [future_of[_what(unit.first)] for unit in units]
        self._firsts.update((key, first.key) for key, first in zip(keys, needed, strict=True))
        self._demands.update(dict.fromkeys(keys, frozenset((*of_first, *of_rest))))
        return submit(
            run_rest,
            [cloudpickle.dumps(unit) for unit in units],
            needed,
            key=keys,
            resources=asked_resources(of_rest) or None,
            spec=arguments["spec"],
        )

    def _waiting_for(self, key):
        return [k for k in self._running if key in (k, self._firsts.get(k))]

    def _look_at_workers(self):
        super()._look_at_workers()
        asked = frozenset().union(*(self._demands.get(key, ()) for key in self._running))
        if not asked:
            return
        kinds, now = kinds_of(self.client), time.monotonic()
        before, missing = self._missing_since, asked - kinds.resources
        self._missing_since = {name: before.get(name, now) for name in missing}
        gone = {n for n, since in self._missing_since.items() if now - since > patience()}
        waiting = [key for key in self._running if self._demands.get(key, frozenset()) & gone]
        if waiting:
            units, futures = zip(*(self._running.pop(key) for key in waiting), strict=True)
            self._cancel(list(futures))
            self._missing_since.clear()
            self.add(units)


def _what(first):
    return first.prefix, first.split


def readers(units: Sequence[Any], kinds: Kinds) -> list[str]:
    """Workers that are going to read the rows, as many as there are units for each kind."""
    found: dict[str, None] = {}
    for kind in ("gpu", "cpu", None):
        n_units = sum(kind == ("cpu" if u.placing.first else u.placing.kind) for u in units)
        found.update(dict.fromkeys(kinds.workers(kind)[:n_units]))
    return list(found)


def run_first(packed: bytes, spec: Spec, **rows: Any) -> First:
    """Fit first steps on this worker, with the user's settings."""
    with as_user(spec) as warned:
        prepared = cloudpickle.loads(packed).run(spec, rows)
    return First(prepared, tuple(warned))


def run_rest(packed: bytes, first: First, spec: Spec) -> Done:
    """Run a unit whose first steps are done."""
    with as_user(spec) as warned:
        value, steps = cloudpickle.loads(packed).finish(first.prepared, spec)
    return done(value, steps, [*first.warned, *warned])
