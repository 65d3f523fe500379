"""One round of evaluation on a cluster: candidates to units, units to a table of results."""

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.pipeline import Pipeline

from gpuml.data import NeedsAllRows
from gpuml.model_selection.candidates import (
    NOTHING,
    TOGETHER,
    Refusal,
    Step,
    groups_together,
    number,
)
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.fold_fits import families
from gpuml.model_selection.one_by_one import Progress, announce_end, failed_fit
from gpuml.model_selection.prefixes import shares_prefixes
from gpuml.model_selection.resuming import FOUND, Finished
from gpuml.protocol import Group
from gpuml_dask.errors import ClusterError, FitTimeoutError
from gpuml_dask.planning.worker_kinds import Placer, Spot
from gpuml_dask.searching.by_rows import Found
from gpuml_dask.searching.running import Killed, Late
from gpuml_dask.searching.staged import StagedUnit
from gpuml_dask.searching.tasks import Done, GroupUnit, SplitUnit, Unit

# Units of a search, however few threads there are when it begins: workers that join later then find
# work to take. More would take longer than they are worth: each takes its rows out of all.
UNITS = 256
# Units per thread: enough that none is idle for long at the end. Where steps are shared, each unit
# fits those it needs, so fewer.
PER_THREAD, PER_THREAD_THAT_SHARE = 4, 2
# Units per thread that workers are left with when those held back are added.
QUEUED = 2
# What reasons of divided rows begin with.
NEEDS_ALL_ROWS = f"{NeedsAllRows.__name__}: "


@dataclass(frozen=True)
class _Held:
    """Candidates on a split that are not cut into units yet."""

    spot: Spot
    split: int
    families: Sequence[Sequence[int]]
    sharing: bool
    is_last: bool


class Round:
    """The candidates of one round, and their results so far.

    Units know candidates by their numbers among those of all rounds; `first` is the first of this
    one. `finished` are results from a checkpoint. `table` has the results of each candidate by
    split; `groups` the group that a candidate was fitted with, and the worker if that is known;
    `refused` why a candidate was not fitted together with others.
    """

    def __init__(
        self,
        job: Job,
        candidates: Sequence[Mapping[str, Any]],
        first: int,
        finished: Finished,
        placer: Placer,
    ):
        self.job, self._finished, self._placer = job, finished, placer
        self._n_found = 0
        self._families: dict[tuple[int, int], list[int]] = {}
        self._killed: set[tuple[int, int]] = set()
        self._late: set[tuple[int, int]] = set()
        self._cut_groups: dict[int, Group] = {}
        self._held: deque[_Held] = deque()
        self.params = dict(enumerate(candidates, first))
        self.table: dict[int, dict[int, dict[str, Any]]] = {number: {} for number in self.params}
        self.groups: dict[int, tuple[Group, str | None]] = {}
        # By what was done and where: the workers that did it, and a step of each unit.
        self._done: dict[tuple[str, str], list[tuple[str, Step]]] = defaultdict(list)
        self._divided: list[Step] = []
        self.refused: dict[int, Refusal] = {}

    @property
    def n_fits(self) -> int:
        return sum(len(self.job.splits) - len(results) for results in self.table.values())

    @property
    def results(self) -> list[dict[str, Any]]:
        """All results, split after split per candidate."""
        return [each[split] for each in self.table.values() for split in range(len(each))]

    # ------------------------------------------------------------ units

    def units(self, groups: Sequence[Group], n_threads: int) -> list[Unit]:
        """Units for groups, the largest first, and for candidates that are in none.

        Some are held back, for `more`.
        """
        grouped = {number for group in groups for number in group.positions}
        missing = [group for group in groups if not self.find_group(group)]
        alone = {n: self.params[n] for n, found in self.table.items() if not found}
        largest_first = sorted(missing, key=lambda group: -len(group.positions))
        spots = self._placer.spots({n: each for n, each in alone.items() if n not in grouped})
        singles = [unit for spot in spots for unit in self._units_of(spot, n_threads)]
        return [*map(self._group_unit, largest_first), *singles]

    def more(self, n_threads: int, n_running: int) -> list[Unit]:
        """Units that were held back, as many as workers will need soon.

        Candidates that share steps are cut for the threads there are by then. The last split of
        others comes at the end, the longest fits first, so that workers end together.
        """
        units: list[Unit] = []
        while self._held:
            families = self._held[0].families
            soon = 0 if self._held[0].sharing else len(families) // 2
            if n_running + len(units) > max(QUEUED * n_threads, soon):
                break
            units += self._cut(self._held.popleft(), n_threads)
        return units

    def _seconds(self, candidate):
        known = self.table[candidate].values()
        if not known:
            return math.inf  # it has not come back yet, and may be long
        return sum(each["fit_time"] + each["score_time"] for each in known) / len(known)

    def _group_unit(self, group):
        title = f"fit {model_words(self.job.estimator)} x{len(group.positions)}"
        placing = self._placer.placing({**group.shared, **group.varying[0]})
        return GroupUnit(title, "all folds", group, len(self.job.splits), placing)

    def _units_of(self, spot: Spot, n_threads):
        estimator, n_splits, numbers = self.job.estimator, len(self.job.splits), spot.candidates
        params = [self.params[number] for number in numbers]
        together = [[numbers[i] for i in family] for family in families(estimator, params)]
        sharing = shares_prefixes(estimator, params)
        units: list[Unit] = []
        for split in range(n_splits):
            missing = [family for family in together if not self._find_family(split, family)]
            is_last = not sharing and split == n_splits - 1 > 0
            part = _Held(spot, split, missing, sharing, is_last)
            if sharing or part.is_last:
                self._held.append(part)
            else:
                units += self._cut(part, n_threads)
        return units

    def _cut(self, held, n_threads):
        n_splits, sharing, is_last = len(self.job.splits), held.sharing, held.is_last
        cut = cut_families(held.families, n_splits, n_threads, sharing=sharing, is_last=is_last)
        units = [
            self._split_unit(f"x{sum(map(len, p))} fold {held.split + 1}", held.split, p, held.spot)
            for p in cut
        ]
        if held.is_last:
            units.sort(key=lambda unit: -sum(map(self._seconds, unit.candidates)))
        return units

    def _split_unit(self, label, split, part, spot):
        title = f"fit {model_words(self.job.estimator)}"
        params = {number: self.params[number] for family in part for number in family}
        self._families.update({(split, n): family for family in part for n in family})
        what = title, label, split, list(params), list(params.values()), spot.placing
        if not spot.placing.first:
            return SplitUnit(*what)
        return StagedUnit(*what, prefix=spot.candidates[0], n_sharing=len(spot.candidates))

    # ------------------------------------------------------------ what is finished already

    def find_group(self, group: Group) -> bool:
        """Enter the results of a group that was finished before, if it was."""
        results = self._finished.group(group)
        if results is not None:
            self.groups.update(dict.fromkeys(group.positions, (group, None)))
        else:
            results = self._finished.group(group, late=True)
        for candidate, each in zip(group.positions, results or (), strict=bool(results)):
            self._enter_found(candidate, dict(enumerate(each)))
        return results is not None

    def _find_family(self, split, family):
        results = self._finished.family(split, [self.params[c] for c in family])
        for candidate, result in zip(family, results or (), strict=bool(results)):
            self._enter_found(candidate, {split: result})
        return results is not None

    def _enter_found(self, candidate, by_split):
        self._n_found += len(by_split)
        # A search of one machine, which may have begun, knows no workers.
        bare = {"worker": "", "device": ""}
        self.table[candidate].update({s: {**bare, **each} for s, each in by_split.items()})

    def _keep(self, unit):
        """Add a unit's results to what is finished."""
        if isinstance(unit, GroupUnit):
            rows = [[self.table[n][s] for s in range(unit.n_splits)] for n in unit.candidates]
            self._finished.put_group(unit.group, rows)
            return
        found = [self._families.get((unit.split, candidate)) for candidate in unit.candidates]
        for family in {family[0]: family for family in found if family is not None}.values():
            self._keep_family(unit.split, family)
        if found == [None]:
            self._keep_cut_group(self._cut_groups.get(unit.candidates[0]))

    def _keep_family(self, split, family):
        spots = {(n, split) for n in family}
        if self._is_known(spots):
            params = [self.params[n] for n in family]
            results = [self.table[n][split] for n in family]
            late = bool(spots & self._late)
            self._finished.put_family(split, params, results, late=late)

    def _keep_cut_group(self, group):
        every = range(len(self.job.splits))
        if group is not None and self._is_known({(n, s) for n in group.positions for s in every}):
            rows = [[self.table[n][split] for split in every] for n in group.positions]
            self._finished.put_group(group, rows, late=True)

    def _is_known(self, spots):
        """Whether there are results of all these fits, none of which ended its worker."""
        return all(s in self.table[n] for n, s in spots) and not spots & self._killed

    # ------------------------------------------------------------ results

    def take(self, unit: Any, done: Done | Killed | Late) -> None:
        """Enter the results of a unit; a group that could not be fitted at once has none."""
        if isinstance(done, Late) and done.again:
            why = f"in one task they took longer than fit_timeout={done.fit_timeout:g} s each"
            self.refused.update(dict.fromkeys(unit.candidates, Refusal(why)))
            if isinstance(unit, GroupUnit):
                self._cut_groups.update(dict.fromkeys(unit.candidates, unit.group))
            return
        if isinstance(done, Killed | Late):
            given_up = self._killed if isinstance(done, Killed) else self._late
            for candidate in unit.candidates:
                given_up.add((candidate, unit.split))
                self._enter(candidate, unit.split, self._result_of(candidate, unit.split, done), {})
            self._keep(unit)
            return
        if isinstance(done.value, Refusal):
            self.refused.update(dict.fromkeys(unit.candidates, done.value))
            return
        where = {"worker": done.worker, "device": done.device}
        for candidate, split, result in done.value:
            self._enter(candidate, split, result, where)
        if isinstance(unit, GroupUnit):
            self.groups.update(dict.fromkeys(unit.candidates, (unit.group, done.worker)))
        refusals = (self.refused.get(candidate, NOTHING) for candidate in unit.candidates)
        reasons = tuple(dict.fromkeys(each.reason for each in refusals if each.reason))
        for step in done.steps:
            if isinstance(unit, GroupUnit):  # that could not be fitted with the rows divided
                whole = [f"rows whole: {each.removeprefix(NEEDS_ALL_ROWS)}" for each in reasons]
                told = replace(step, why=", ".join([step.why, *whole]))
            else:
                told = replace(step, reasons=(*reasons, *step.reasons))
            self._done[told.why, told.place].append((done.worker, told))
        self._keep(unit)

    def _enter(self, candidate, split, result, where):
        self.table[candidate][split] = {**result, "worker": "", "device": "", **where}
        where_it_stands = Progress(split, len(self.job.splits), candidate, len(self.params))
        announce_end(self.params[candidate], where_it_stands, self.job.task, result)

    def _result_of(self, candidate, split, done):
        task, params = self.job.task, dict(self.params[candidate])
        kind: type[Exception]
        if isinstance(done, Killed):
            kind, more, seconds = ClusterError, " Look at the workers' logs.", 0.0
            text = f"the fit ends the process that runs it: {done.reason}. Parameters: {params}"
        else:
            kind, more, seconds = FitTimeoutError, "", done.seconds
            text = (
                f"the fit took longer than fit_timeout={done.fit_timeout:g} s. Allow more, or "
                f"leave such candidates out. Parameters: {params}"
            )
        if task.error_score == "raise":
            raise kind(f"{text}.{more}")
        return failed_fit(f"{kind.__name__}: {text}", self.job.splits[split].n_test, task, seconds)

    def take_divided(self, groups: Sequence[Group], found: Found, workers: str) -> list[Group]:
        """Enter results of groups that were fitted with the rows divided; those that were not."""
        where = {"worker": workers, "device": found.device}
        left = []
        for group in groups:
            if any(position not in found.results for position in group.positions):
                left.append(group)
                self.refused.update({n: found.refused.get(n, NOTHING) for n in group.positions})
                continue
            results = [found.results[position] for position in group.positions]
            for position, splits in zip(group.positions, results, strict=True):
                for split, result in enumerate(splits):
                    self._enter(position, split, result, where)
            self._finished.put_group(group, results)
        self._divided.extend(found.steps)
        return left

    # ------------------------------------------------------------ the plan

    def steps(self) -> list[Step]:
        """The steps of the plan; similar units are one step."""
        steps = [self._step(why, place, done) for (why, place), done in self._done.items()]
        if self._n_found:
            steps.insert(0, Step(self._n_found, 0, self._finished.url, FOUND))
        return [*self._divided, *steps]

    def _step(self, why, place, done):
        n_workers = len({worker for worker, _ in done})
        if why.startswith(TOGETHER) and len(done) > 1:
            why = why.replace(TOGETHER, groups_together(len(done)), 1)
        n_fits, n_passes = sum(s.n_fits for _, s in done), sum(s.n_passes for _, s in done)
        reasons = tuple(dict.fromkeys(reason for _, step in done for reason in step.reasons))
        return Step(n_fits, n_passes, f"{number(n_workers, 'worker')} ({place})", why, reasons)


def cut_families(
    families: Sequence[Sequence[int]],
    n_splits: int,
    n_threads: int,
    *,
    sharing: bool = False,
    is_last: bool = False,
) -> list[list[Sequence[int]]]:
    """Families of each unit of a split, about as many candidates in each unit.

    Candidates of a family must stay together. `sharing`: neighbours have work in common. `is_last`:
    this split alone is to keep all threads busy to the end.

    >>> cut_families([[0], [1], [2, 3], [4]], n_splits=128, n_threads=0)
    [[[0], [1]], [[2, 3], [4]]]
    """
    per_thread, least = (PER_THREAD_THAT_SHARE, 1) if sharing else (PER_THREAD, UNITS / n_splits)
    wanted = math.ceil(max(least, per_thread * n_threads / (1 if is_last else n_splits)))
    n_candidates = sum(map(len, families))
    units: list[list[Sequence[int]]] = []
    n_cut = 0
    for family in families:
        # A family begins the next unit if its middle is beyond the share of those so far.
        if not units or n_cut + len(family) / 2 > n_candidates * len(units) / wanted:
            units.append([])
        units[-1].append(family)
        n_cut += len(family)
    return units


def model_words(estimator: Any) -> str:
    """The name of an estimator on the dashboard.

    >>> from sklearn.linear_model import LogisticRegression
    >>> model_words(LogisticRegression())
    'logistic regression'
    """
    while isinstance(estimator, Pipeline) and estimator.steps:
        estimator = estimator.steps[-1][1]
    name = estimator if isinstance(estimator, str) else type(estimator).__name__
    starts = [i for i, c in enumerate(name) if c.isupper() and name[i - 1 : i].islower()]
    return " ".join(name[a:b] for a, b in zip([0, *starts], [*starts, None], strict=True)).lower()
