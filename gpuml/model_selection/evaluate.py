"""Fit and score candidates on splits: a whole group together where the estimator can."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuml._arrays import NoDeviceError
from gpuml._arrays.threads import threads_of
from gpuml._settings.config import current_settings, get_config
from gpuml._settings.progress import progress_bar
from gpuml._sklearn import _num_samples
from gpuml.data import AnySplit, Folds, NotTogether, UnfittableSplits
from gpuml.exceptions import level_of_user
from gpuml.extending import MultifitEstimator, Stack
from gpuml.model_selection.candidates import (
    NOTHING,
    TOGETHER,
    Made,
    Plan,
    Refusal,
    Step,
    raised_words,
    refusal_of,
    steps_of,
)
from gpuml.model_selection.fold_fits import chunk_order, fit_fold, fit_splits, workers_for
from gpuml.model_selection.group_results import group_results
from gpuml.model_selection.grown import Grown, why_rounds_anew
from gpuml.model_selection.jobs import Job, Known, Shared
from gpuml.model_selection.one_by_one import Part, Progress, params_of
from gpuml.model_selection.residence import Residence, Residences, configured
from gpuml.model_selection.route import (
    AnyRoute,
    AtOnce,
    Nested,
    fit_weight,
    fits_group,
    grouped,
    kind_of,
    route,
    warn_of_unused,
    with_params,
    words_of,
)
from gpuml.model_selection.row_subsets import used_rows
from gpuml.model_selection.scores import model_scores, score_stack, scored_as
from gpuml.model_selection.timed import tell_of_batch
from gpuml.protocol import Group
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.stand_ins import Refused, check_sizes, check_weights

Results = list[dict[str, Any]]
# Errors that refuse parameters or rows. Others point to a bug, so they are reported at once.
REFUSALS = ValueError, TypeError, ArithmeticError, NotImplementedError


class Evaluator:
    """Evaluate the candidates of a job, round after round. Rows moved to a device stay there.

    Attributes
    ----------
    steps : list of Step
        What was done so far.
    n_done : int
        Number of candidates evaluated so far.
    refused : dict of int to Refusal
        Why candidates of the last round were not fitted at once, by position.
    grown : Grown or None
        Ensembles of the last round, in adaptive searches, whose next rounds go on from them.
    """

    grown: Grown | None = None
    _targets_apart = False

    def __init__(self, job: Job, routed: tuple[Any, list[AnyRoute]] = (None, [])):
        self.job = job
        self.refused: dict[int, Refusal] = {}
        self.steps: list[Step] = []
        self._known: dict[type, Known] = {}
        self._folds: dict[tuple, Folds] = {}
        self._shared: list[tuple[int, Shared]] = []
        self.n_done = 0
        self._routed = routed
        self._rows = Residences(job.estimator, job.X, job.y, job.splits, job.task)
        self._alone: dict[int, Mapping[str, Any]] = {}
        self._params: dict[int, Mapping[str, Any]] = {}
        self._table: list[Results] = []
        self._single: dict[tuple[int, int], Any] = {}

    @property
    def plan(self) -> Plan:
        """The plan of the work done so far."""
        return Plan(tuple(self.steps))

    @property
    def refusals(self) -> list[str]:
        """The reasons why candidates were not fitted together."""
        return list(dict.fromkeys(each.reason for each in self.refused.values()))

    @property
    def finished(self) -> dict[tuple[int, int], Any]:
        """Results so far of the current round, by position of the candidate and by split."""
        rows = enumerate(self._table)
        return {(p, s): each for p, row in rows for s, each in enumerate(row)} | self._single

    def with_splits(self, splits: Sequence[AnySplit]) -> "Evaluator":
        """An evaluator of the same rows with other splits; both share the rows on a device."""
        other = self._like(replace(self.job, splits=splits))
        other._known = self._known
        other._rows = self._rows.with_splits(splits)
        return other

    def _like(self, job):
        return Evaluator(job)

    def evaluate(self, candidates: Sequence[Mapping[str, Any]]) -> Results:
        """Results as scikit-learn's `_fit_and_score` returns them, by candidate and split."""
        job = self.job
        if not job.splits:
            return []
        warn_of_unused(job.estimator, candidates)
        routes = self.routes_of(candidates)
        if job.task.verbose > 1 and job.n_told:
            print(words_of(routes, job.n_told))
        self.refused = {
            position: refusal_of([each.reason, self._why_anew(candidates[position])])
            for each in routes
            for position in each.positions
            if not isinstance(each, AtOnce | Nested)
        }
        table: list[Results] = [[] for _ in candidates]
        self._table = table
        for each in routes:
            if isinstance(each, AtOnce):
                for position, results in self.fit_group(each.group, each.fits):
                    table[position] = results
            elif isinstance(each, Nested):
                for position in each.positions:
                    inside = each.inside[position]
                    table[position] = self._fit_nested(inside, position, candidates)
        left = [position for position, results in enumerate(table) if not results]
        if left:
            results_of_each = self._fit_one_by_one(left, candidates)
            for position, results in zip(left, results_of_each, strict=True):
                table[position] = results
        self._params.update({self.n_done + i: each for i, each in enumerate(candidates)})
        self.n_done += len(candidates)
        self._table, self._single = [], {}
        found = [result for results in table for result in results]
        if self.grown is not None:
            self.grown.turn()
        return found

    def _why_anew(self, params):
        return None if self.grown is None else why_rounds_anew(self.job.estimator, params)

    def routes_of(self, candidates: Sequence[Mapping[str, Any]]) -> list[AnyRoute]:
        """The route of each candidate, with its reason."""
        if self._routed[0] is not candidates:
            job = self.job
            routes = route(job.estimator, candidates, job.X, job.task, nests=True)
            self._routed = candidates, routes
        return self._routed[1]

    def targets_stack(self) -> Stack | None:
        """The stack of the only candidate, fitted to all target columns and all splits together.

        None unless each column has models of its own, as if it were alone, and scores have the
        weights of the fits.
        """
        job = self.job
        each = route(job.estimator, [{}], job.X, job.task)[0]
        if not isinstance(each, AtOnce) or not each.fits.multifit_targets:
            return None
        if fit_weight(each.fits, job.task) is not job.task.score_params.get("sample_weight"):
            return None
        self._targets_apart = True
        stack, _, refused = self._fit_together(each.fits, each.group)
        return None if refused else stack

    def refit(self, candidate: int) -> Any | None:
        """The model of a candidate on all rows; None for a candidate that was not fitted here.

        A candidate that was fitted together with others is refitted from the sums already known,
        without another pass if they suffice.
        """
        for first, shared in self._shared:
            if candidate - first in shared.group.positions:
                return shared.model(shared.group.positions.index(candidate - first))
        params = self._alone.get(candidate)
        return None if params is None else self.fit_all(params)

    def folds_read(self, estimator: MultifitEstimator) -> Folds | None:
        """All rows with the splits of the job and the sums known so far; None if there are none."""
        folds = self._folds.get((kind_of(estimator), ()))
        complete = folds is not None and folds.batch.n_rows == _num_samples(self.job.X)
        return folds if complete else None

    def note(self, candidates: Sequence[Mapping[str, Any]]) -> None:
        """Count candidates that were evaluated elsewhere as fitted one by one."""
        own = {self.n_done + i: each for i, each in enumerate(candidates)}
        self._alone.update(own)
        self._params.update(own)
        self.n_done += len(candidates)

    def forget_models(self) -> None:
        """Release the models of all candidates, which no caller needs any more."""
        self._shared, self._alone, self._params = [], {}, {}

    def model_of(self, candidate: int, split: int) -> Any:
        """The model of a candidate on the training rows of a split."""
        for first, shared in self._shared:
            index = candidate - first
            if index in shared.group.positions and split not in shared.refused:
                return shared.model_of(shared.group.positions.index(index), split)
        job, rows = self.job, Part(self.job.splits[split].train)
        model = configured(job.estimator, self._params[candidate])
        y = () if job.y is None else (rows.of(job.y),)
        model.fit(rows.of(job.X), *y, **params_of(job.X, job.task.fit_params, rows))
        return model

    def groups(self, candidates: Sequence[Mapping[str, Any]]) -> list[Group]:
        """The groups of candidates that can be fitted together; other candidates are in none."""
        return grouped(self.job.estimator, candidates, self.job.task)[0]

    # ------------------------------------------------------------ at once

    def fit_group(
        self, group: Group, fits: MultifitEstimator | None = None
    ) -> list[tuple[int, Results]]:
        """Position and results of each candidate of the group; nothing if they cannot share a pass.

        `fits` is the estimator that fits them together, if the caller knows it (see `route`).
        """
        job = self.job
        started = time.perf_counter()
        try:
            estimator, why = fits, ""
            if estimator is None:
                estimator, why = fits_group(job.estimator, group, job.X, job.task)
            if estimator is None:
                self._refuse_group(group, Refusal(why))
                return []
            stack, folds, refused = self._fit_together(estimator, group)
            fitted = time.perf_counter()
            score_model = model_scores(job, estimator, group, stack)
            task = job.task
            if group.shared:
                task = scored_as(task, with_params(job.estimator, group.shared))
            how = score_model, task
            with threads_of(estimator, folds):
                scored = score_stack(stack, folds, *how, without={*refused, *task.unscored})
        except Exception as error:
            if not self._may_refuse(error):
                raise
            # Fits of one model at a time tell which candidate fails, and how.
            self._refuse_group(group, self._told(error))
            return []
        fit_seconds, score_seconds = fitted - started, time.perf_counter() - fitted
        known = self._known[kind_of(estimator)].batch
        all_rows = None if folds.batch.n_rows == known.n_rows else known
        shared = Shared(estimator, group, stack, all_rows, refused)
        self._shared.append((self.n_done, shared))
        n_fits = len(group.varying) * (len(job.splits) - len(refused))
        place = str(folds.batch.work)
        why = ", ".join(filter(None, [TOGETHER, stack.words]))
        self.steps.append(Step(n_fits, stack.n_passes, place, why))
        tell_of_batch(self, group, refused, fit_seconds + score_seconds)
        times = {"fit_time": fit_seconds / n_fits, "score_time": score_seconds / n_fits}
        alone = {split: self._fit_refused(split, why, group) for split, why in refused.items()}
        for split, why in refused.items():
            alike = [other for other, reason in refused.items() if reason == why]
            refusal = Refusal(f"{_on(alike)}: {why}")
            for result in alone[split]:
                result["made"] = result.get("made", Made()).after(refusal)
        failures = [r for each in alone.values() for r in each]
        self.steps += steps_of(failures, place, _on(alone), error_score=job.task.error_score)
        return group_results(job, shared, scored, times, alone)

    def _may_refuse(self, error):
        """Whether an error may come from a candidate, so that the search goes on without it."""
        if isinstance(error, MemoryError | NoDeviceError):
            return False  # its text says which setting makes the fits possible
        return isinstance(error, REFUSALS) or self.job.task.error_score != "raise"

    def _refuse_group(self, group, refusal):
        self.refused.update(dict.fromkeys(group.positions, refusal))

    def _told(self, error):
        """The refusal for an error. Warn at once if it hardly comes from rows or parameters."""
        text = str(error) if type(error) is NotTogether else raised_words(error)
        # Models without a method that a scorer needs raise an AttributeError, as single fits do.
        # One that no single fit raises is told after these, as all refusals are.
        told = not isinstance(error, (*REFUSALS, AttributeError))
        if told:
            warnings.warn(
                f"Fitting all candidates together raised {text.rstrip('.')}. They are fitted one "
                "by one, which takes longer.",
                RuntimeWarning,
                stacklevel=level_of_user(),
            )
        # Divided rows cannot provide everything; that is no error.
        return Refusal(text, raised=not told and not isinstance(error, NotTogether))

    def _fit_together(self, estimator, group):
        """All models of a group; splits that cannot be fitted get substitute training rows."""
        refused = Refused(self.job.splits, _num_samples(self.job.X))
        while True:
            try:
                folds = self.folds_for(estimator, refused)
                check_weights(folds)
                total = estimator.multifit_rows(folds)
                with self._bar(total, len(group.varying)) as bar, threads_of(estimator, folds):
                    stack = estimator.multifit(folds, group.varying, bar.advance)
                if not isinstance(stack, Stack):
                    raise TypeError(
                        f"multifit of {type(estimator).__name__} returned {type(stack).__name__}: "
                        "derive that from RegressionStack, ClassStack, ClusterStack or "
                        "DensityStack of gpuml.extending"
                    )
                return stack, folds, refused.reasons
            except UnfittableSplits as error:
                self._refuse(refused, error)

    def _refuse(self, refused, error):
        refused.add(error)

    def _fit_refused(self, split, why, group):
        """Results of a group on a refused split: single fits raise the error that users know."""
        return self.fit_split(split, [{**group.shared, **varying} for varying in group.varying])

    def folds_for(self, estimator: Any, refused: Refused) -> Folds:
        """The rows at their device; the first group that can use them there moves them."""
        job, kind = self.job, kind_of(estimator)
        splits = refused.splits()
        check_sizes(splits)
        if kind not in self._known:
            batch = estimator.multifit_batch(job.X, job.y, fit_weight(estimator, job.task))
            seen = {n: v for n, v in vars(estimator).items() if n.endswith("_in_")}
            batch = replace(batch, targets_apart=True) if self._targets_apart else batch
            self._known[kind] = Known(batch, seen)
        known = self._known[kind]
        if (kind, refused.key) not in self._folds:
            folds = make_folds(*used_rows(known.batch, splits))
            self._folds[kind, refused.key] = replace(folds, outside=job.outside)
        vars(estimator).update(known.seen)
        return self._folds[kind, refused.key]

    def _bar(self, total, n_candidates):
        text = f"{n_candidates} candidates x {len(self.job.splits)} splits"
        return progress_bar(total, text, enabled=current_settings().progress)

    # ------------------------------------------------- searches inside

    def _fit_nested(self, inside, position, candidates):
        """Results of a candidate that ends in a search; nothing if it must be fitted by itself."""
        from gpuml.model_selection.nested import fit_nested  # it has an evaluator of its own

        job, params = self.job, candidates[position]
        try:
            results, steps = fit_nested(job, inside, params, position, len(candidates))
        except Exception as error:
            if not self._may_refuse(error):
                raise
            self.refused[position] = self._told(error)
            return []
        self.steps += steps
        self._alone[self.n_done + position] = params
        return results

    # --------------------------------------------------------- one by one

    def _fit_one_by_one(self, positions: list[int], candidates: Sequence[Mapping]) -> list[Results]:
        """Results of each candidate; those that need rows in the same place run together."""
        found: dict[int, Results] = {}
        self._alone.update({self.n_done + p: candidates[p] for p in positions})
        for rows, some in self._by_place(positions, candidates):
            params = [candidates[position] for position in some]
            refused = [self.refused.get(position, NOTHING) for position in some]
            found.update(zip(some, self._fit_on(rows, params, refused, some), strict=True))
        return [found[position] for position in positions]

    def fit_split(self, split: int, params: Sequence[Mapping[str, Any]]) -> Results:
        """Results of some candidates on one split, fitted in this thread; see `fit_fold`."""
        job = self.job
        found: dict[int, dict[str, Any]] = {}
        for rows, some in self._by_place(range(len(params)), params):
            order = [some[i] for i in chunk_order(job.estimator, [params[i] for i in some])]
            work = [
                (params[i] or None, Progress(split, len(rows.splits), i, len(params)))
                for i in order
            ]
            results = fit_fold(
                job.estimator, rows.X, rows.y, rows.splits[split], work, rows.task, get_config()
            )
            found.update(zip(order, results, strict=True))
        return [found[position] for position in range(len(params))]

    def _by_place(self, positions, candidates):
        """The rows in each place where some candidates need them, with the positions of those."""
        found: dict[int, tuple[Residence, list[int]]] = {}
        for position in positions:
            rows = self._rows.of(configured(self.job.estimator, candidates[position]))
            found.setdefault(id(rows), (rows, []))[1].append(position)
        return list(found.values())

    def _fit_on(self, rows: Residence, params, refused, positions: list[int]) -> list[Results]:
        job = self.job
        parallel, why = workers_for(rows, job.n_jobs, job.pre_dispatch)
        known, store = self._stored_fits(params)

        def note(candidate, split, result):
            if self._table:  # a round is in progress
                self._single[positions[candidate], split] = result
            store(candidate, split, result)

        self._single.update({(positions[c], split): each for (c, split), each in known.items()})
        with self._bar(len(params) * len(rows.splits), len(params)) as bar:
            how = params, parallel, bar.advance, note, self.grown, known
            table, by_task = fit_splits(job.estimator, rows, *how)
        results = []
        for c, each in enumerate(table):
            for split, result in enumerate(each):
                if (c, split) not in known:
                    result["made"] = result.get("made", Made()).after(refused[c])
                    results.append(result)
        error_score = job.task.error_score
        self.steps += steps_of(results, rows.place, why, by_task=by_task, error_score=error_score)
        return table

    def _stored_fits(self, params) -> tuple[Mapping[tuple[int, int], Any], Callable[..., None]]:
        """Results by candidate and split that need no fit, and a function that stores others."""
        return {}, lambda candidate, split, result: None

    def fit_all(self, params: Mapping[str, Any]) -> Any:
        """The model of a candidate on all rows, fitted by itself in the place that it needs."""
        job, model = self.job, configured(self.job.estimator, params)
        X, y, fit_params = self._rows.to_refit(model) or (job.X, job.y, job.task.fit_params)
        model.fit(X, *(() if y is None else (y,)), **fit_params)
        return model  # a user's `fit` may not return the estimator

    def place_for(self, params: Mapping[str, Any]) -> str:
        """The place of the rows for a candidate that is fitted by itself."""
        return self._rows.of(configured(self.job.estimator, params)).place


def _on(splits):
    """Text that names splits by their numbers."""
    return f"on split{'s' if len(splits) > 1 else ''} {', '.join(map(str, sorted(splits)))}"
