"""Evaluates candidates on a cluster: what gpuml's `Evaluator` does, in units on workers."""

import uuid
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sklearn

import gpuml
from gpuml.data import AnySplit
from gpuml.exceptions import level_of_user
from gpuml.model_selection.candidates import Plan, Step, refusal_of, tell_gathered, tell_unrepeated
from gpuml.model_selection.evaluate import Job, Results, progress_bar
from gpuml.model_selection.grown import Grown, why_rounds_anew
from gpuml.model_selection.resuming import Finished
from gpuml.model_selection.route import AtOnce, route, warn_of_unused
from gpuml.model_selection.warned import Warned, tell
from gpuml.protocol import Group
from gpuml_dask.errors import ClusterError
from gpuml_dask.planning.plan import byte_text
from gpuml_dask.planning.worker_kinds import Placer, Placing, kinds_among, kinds_of
from gpuml_dask.searching.by_rows import ByRows, plan_for
from gpuml_dask.searching.inputs import SearchInputs, send_rows
from gpuml_dask.searching.limits import check_restartable
from gpuml_dask.searching.rounds import UNITS, Round, model_words
from gpuml_dask.searching.running import Killed
from gpuml_dask.searching.staged import PlacedRunner, StagedRefit, readers
from gpuml_dask.searching.tasks import Done, RefitUnit, Spec
from gpuml_dask.sums.holders import WorkersDied
from gpuml_dask.waiting import facts_of, workers_there

if TYPE_CHECKING:
    from gpuml_dask.searching.session import Session

NO_LIMIT = (
    "fit_timeout= does not limit fits whose rows are divided over workers, because such a fit "
    "is many tasks on many workers. For a limit, keep all rows on each worker, "
    "dask.config.set({'gpuml.plan': 'whole'}); without one, leave fit_timeout= out."
)


class ClusterEvaluator:
    """Evaluates candidates of a job on the workers of a cluster, round after round.

    Units of work are groups of candidates, each fitted at once and never cut, and candidates one by
    one on a split. A worker that gets units gets all rows, once. Groups of much data are fitted
    with the rows divided (`ByRows`).

    `refits`: the candidate of the best mean score is going to be refitted. Of all rounds so far,
    `steps` say what was done, `n_done` is the number of candidates, and `names` are the units of
    work, as on the dashboard. `grown` is as of gpuml's `Evaluator`, and stays empty.
    """

    grown: Grown | None = None

    def __init__(self, job: Job, on: "Session", *, refits: bool = False):
        self.job, self.on, self.client, self._refits = job, on, on.client, refits
        self._divided: ByRows | None = None
        self._by_rows: set[int] = set()
        self.steps: list[Step] = []
        self.n_done = 0
        self.names: list[str] = []
        self._search = uuid.uuid4().hex
        self._shared: tuple | None = None
        self._others: list[ClusterEvaluator] = []
        self._inputs: SearchInputs | None = None
        self._params: dict[int, Mapping[str, Any]] = {}
        self._groups: dict[int, tuple[Group, str | None]] = {}
        self._told: set[Warned] = set()
        self._round: Round | None = None

    @property
    def plan(self) -> Plan:
        return Plan(tuple(self.steps))

    @property
    def finished(self) -> dict[tuple[int, int], Any]:
        """Results so far of the round under way, by position of the candidate and split."""
        rows = enumerate(self._round.table.values() if self._round else ())
        return {(p, split): each for p, row in rows for split, each in row.items()}

    def evaluate(self, candidates: Sequence[Mapping[str, Any]]) -> Results:
        """Results as of scikit-learn's `_fit_and_score`, split after split, with worker, device."""
        n_splits = len(self.job.splits)
        if n_splits == 0:
            return []
        n_units = min(UNITS, len(candidates) * n_splits)
        facts = workers_there(self.client, n_wanted=n_units)
        if self.on.fit_timeout is not None:
            check_restartable(facts)
        checkpoints = self.on.checkpoints
        finished = checkpoints.open(self.job, candidates) if checkpoints else Finished()
        placer = Placer(self.job, kinds_among(facts))
        self._round = round_ = Round(self.job, candidates, self.n_done, finished, placer)
        groups = self._groups_of(candidates, round_)
        plan = plan_for(self.job, groups, len(candidates) - _size_of(groups), facts)
        if self.job.task.verbose > 1:
            print(plan)
        if plan.mode != "whole":
            if self.on.fit_timeout is not None:
                warnings.warn(NO_LIMIT, UserWarning, stacklevel=level_of_user())
            groups = self._fit_by_rows(round_, groups)
        if plan.mode != "whole" or plan.gathers:
            tell_gathered(round_.refused, round_.table, byte_text(plan.n_bytes), plan.why)
        self._run_round(round_, groups)
        self._params.update(round_.params)
        self._groups.update(round_.groups)
        results = {n: list(by_split.values()) for n, by_split in round_.table.items()}
        tell_unrepeated(round_.refused, results, self.job.task.error_score)
        self.steps.extend(round_.steps())
        self.n_done += len(candidates)
        self._round = None
        return round_.results

    def refit(self, candidate: int) -> Any:
        """The model of a candidate on all rows, fitted on a worker."""
        params = self._params[candidate]
        group, worker = self._groups.get(candidate, (None, None))
        title = f"refit {model_words(self.job.estimator)}"
        if self._divided is not None and candidate in self._by_rows:
            model = self._divided.refit(candidate, group, title)
            if model is not None:
                return model
        placing = Placer(self.job, kinds_of(self.client)).placing(params)
        if group is not None:
            placing = Placing(placing.kind)  # its models are there already
        kind = StagedRefit if placing.first else RefitUnit
        unit = kind(title, "all rows", candidate, params, group, placing)
        self._note([unit])
        homes = [worker] if worker else []
        with closing(self._runner(None).run([unit], workers=homes)) as results:
            ((_, done),) = results
        self._tell(done)
        if isinstance(done, Killed):
            raise ClusterError(
                f"The best model could not be fitted to all rows: {done.reason}. "
                f"Parameters: {dict(params)}."
            )
        return done.value

    def with_splits(self, splits: Sequence[AnySplit]) -> "ClusterEvaluator":
        """An evaluator of the same rows in other splits; what workers have serves both."""
        other = ClusterEvaluator(replace(self.job, splits=splits), self.on)
        other._search, other._shared = self._search, self._send_once()
        self._others.append(other)
        return other

    def close(self) -> None:
        """Release all that is on workers for this search."""
        for other in self._others:
            other.close()
        self._inputs = self._shared = None
        if self._divided is not None:
            self._divided.close()

    # ------------------------------------------------------------ whole data on workers

    def _groups_of(self, candidates, round_):
        """Groups, with the numbers that candidates have among those of all rounds.

        Whether the rows are of a kind that can be fitted at once is checked where they are.
        """
        warn_of_unused(self.job.estimator, candidates)
        groups = []
        for each in route(self.job.estimator, candidates, None, self.job.task):
            positions = [self.n_done + position for position in each.positions]
            if isinstance(each, AtOnce):
                groups.append(replace(each.group, positions=positions))
            else:
                for number, position in zip(positions, each.positions, strict=True):
                    params, anew = candidates[position], None
                    if self.grown is not None:
                        anew = why_rounds_anew(self.job.estimator, params, on_cluster=True)
                    round_.refused[number] = refusal_of([each.reason, anew])
        return groups

    def _run_round(self, round_, groups):
        facts = facts_of(self.client)
        kinds, n_threads = kinds_among(facts), sum(each["nthreads"] for each in facts.values())
        units = round_.units(groups, n_threads)
        units += round_.more(n_threads, len(units))
        if not units:
            return
        self._note(units)
        self._sent().keep_on(kinds.addresses)
        self._sent().spread(readers(units, kinds))
        text = f"{len(round_.params)} candidates x {len(self.job.splits)} splits"
        enabled = gpuml.get_config()["progress"]

        def more(n_threads, n_running):
            return self._note(round_.more(n_threads, n_running))

        with (
            progress_bar(round_.n_fits, text, enabled=enabled) as bar,
            closing(self._runner(self.on.fit_timeout).run(units, more=more)) as results,
        ):
            for unit, done in results:
                missing = round_.n_fits
                round_.take(unit, done)
                bar.advance(missing - round_.n_fits)
                self._tell(done)
        # Groups that could not be fitted at once, all together: what they share is fitted once.
        self._run_round(round_, [])

    def _runner(self, fit_timeout):
        return PlacedRunner(self.client, self._sent(), fit_timeout=fit_timeout)

    def _note(self, units):
        n_before = len(self.names)
        self.names += [f"{u.title} {u.label} #{i}" for i, u in enumerate(units, n_before + 1)]
        return units

    def _tell(self, done):
        if isinstance(done, Done):
            tell(done.warned, self._told)

    def _send_once(self) -> tuple:
        if self._shared is None:
            self._shared = send_rows(self.client, self.job, self.on.elsewhere)
        return self._shared

    def _sent(self) -> SearchInputs:
        """Rows and the rest on workers; sent there by the first round."""
        if self._inputs is None:
            rows, task = self._send_once()
            spec = Spec(
                self.job.estimator,
                self.job.splits,
                task,
                settings=gpuml.get_config(),
                sklearn_settings=sklearn.get_config(),
                filters=list(warnings.filters),
                name=uuid.uuid4().hex,
                search=self._search,
                fit_timeout=self.on.fit_timeout,
            )
            self._inputs = SearchInputs(self.client, spec, rows)
        return self._inputs

    # ------------------------------------------------------------ rows divided over workers

    def _fit_by_rows(self, round_: Round, groups: Sequence[Group]) -> list[Group]:
        """Fit groups with the rows divided; those that need them in one place are left."""
        missing = [group for group in groups if not round_.find_group(group)]
        if not missing:
            return []
        if self._divided is None:
            self._divided = ByRows(self.job, self.client)
        # With a checkpoint, what is finished must not wait for what is not.
        together = [[group] for group in missing] if self.on.checkpoints else [missing]
        refit = "best" if self._refits and len(together) == 1 else None
        return [g for part in together for g in self._fit_part_by_rows(round_, part, refit)]

    def _fit_part_by_rows(self, round_, groups, refit):
        """Fit groups at one time; those that are left."""
        divided: Any = self._divided
        label = f"{model_words(self.job.estimator)} x{_size_of(groups)}"
        self.names.append(f"fit {label} by rows")
        try:
            found = divided.fit(groups, label, refit=refit)
        except WorkersDied as error:
            # Fit by fit it will be seen which of them ends its worker, if it is a fit.
            why = refusal_of([str(error)])
            round_.refused.update({n: why for group in groups for n in group.positions})
            return groups
        tell(found.warned, self._told)
        left = round_.take_divided(groups, found, ", ".join(divided.workers))
        self._by_rows.update(found.results)
        round_.groups.update(
            {n: (group, None) for group in groups for n in group.positions if n in found.results}
        )
        return left


def _size_of(groups: Sequence[Group]) -> int:
    return sum(len(group.positions) for group in groups)
