"""Fit and score candidates on splits: all of a group at once where the estimator can."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.metadata_routing import _routing_enabled
from sklearn.utils.parallel import Parallel, delayed

from gpuml._arrays import as_array, is_array, place_of
from gpuml._config import current_settings
from gpuml._progress import progress_bar
from gpuml.data import AnySplit, Folds
from gpuml.model_selection.candidates import Group, Plan, Step, group_candidates
from gpuml.model_selection.one_by_one import (
    Progress,
    Task,
    announce_end,
    fit_fold,
    rows_of,
    score_model,
)
from gpuml.model_selection.scores import Scored, score_stack
from gpuml.resampling.multifit import MultifitEstimator, Stack, materialise
from gpuml.resampling.split import make_folds

Results = list[dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """What is searched over: an unfitted estimator, the user's rows, their splits, and the rest."""

    estimator: Any
    X: Any
    y: Any
    splits: Sequence[AnySplit]
    task: Task
    n_jobs: int | None = None
    pre_dispatch: Any = "2*n_jobs"


@dataclass(frozen=True)
class _Shared:
    """A group that was fitted at once."""

    estimator: Any
    group: Group
    stack: Stack


class Evaluator:
    """Evaluates candidates of a job, round after round; rows brought to a device stay there.

    Attributes
    ----------
    steps : list of Step
        What was done so far.
    n_done : int
        Number of candidates evaluated so far.
    """

    def __init__(self, job: Job):
        self.job = job
        self.steps: list[Step] = []
        self._folds: Folds | None = None
        self._shared: list[tuple[int, _Shared]] = []
        self.n_done = 0

    @property
    def plan(self) -> Plan:
        """What was done so far, as a plan."""
        return Plan(tuple(self.steps))

    def evaluate(self, candidates: Sequence[Mapping[str, Any]]) -> Results:
        """Results as scikit-learn's `_fit_and_score` has them, split after split per candidate."""
        if not self.job.splits:
            return []
        table: list[Results] = [[] for _ in candidates]
        for group in self._groups(candidates):
            for position, results in self._fit_at_once(group):
                table[position] = results
        left = [position for position, results in enumerate(table) if not results]
        if left:
            params = [candidates[position] for position in left]
            for position, results in zip(left, self._fit_one_by_one(params), strict=True):
                table[position] = results
        self.n_done += len(candidates)
        return [result for results in table for result in results]

    def refit(self, candidate: int) -> Any | None:
        """The model of a candidate on all rows from what is known of them, without a pass.

        None where the candidate was not fitted together with others.
        """
        for first, shared in self._shared:
            if candidate - first in shared.group.positions:
                index = shared.group.positions.index(candidate - first)
                params = {**shared.group.shared, **shared.group.varying[index]}
                return materialise(shared.estimator, params, shared.stack.pick(index, None))
        return None

    def _groups(self, candidates):
        """Groups that the estimator may be able to fit at once."""
        estimator = self.job.estimator
        if not isinstance(estimator, MultifitEstimator) or not _only_weights(self.job.task):
            return []
        return group_candidates(candidates, estimator.multifit_params)

    # ------------------------------------------------------------ at once

    def _fit_at_once(self, group: Group) -> list[tuple[int, Results]]:
        """Position and results of each candidate of the group; none if they can't share a pass."""
        job = self.job
        started = time.perf_counter()
        try:
            estimator = _with_params(job.estimator, group.shared)
            for varying in group.varying:
                _check_values(estimator, varying)
            if not estimator.multifit_ready(job.X) or any(map(_has_empty_part, job.splits)):
                return []
            folds = self._folds_for(estimator)
            with self._bar(estimator, folds, group) as bar:
                stack = estimator.multifit(folds, group.varying, bar.advance)
            fitted = time.perf_counter()
            scored = score_stack(
                stack, folds, self._model_scores(estimator, group, stack), job.task
            )
        except (ValueError, TypeError, np.linalg.LinAlgError):
            # One model at a time tells which of them fails, and how.
            return []
        fit_seconds, score_seconds = fitted - started, time.perf_counter() - fitted
        self._shared.append((self.n_done, _Shared(estimator, group, stack)))
        n_fits = len(group.varying) * len(job.splits)
        place = str(folds.batch.work)
        self.steps.append(Step(n_fits, stack.n_passes, place, "all candidates together"))
        times = {"fit_time": fit_seconds / n_fits, "score_time": score_seconds / n_fits}
        return self._results(group, stack, estimator, scored, times)

    def _folds_for(self, estimator):
        """The resident rows; brought there by the first group that can use them."""
        job = self.job
        if self._folds is None:
            batch = estimator.multifit_batch(job.X, job.y, job.task.fit_params.get("sample_weight"))
            self._folds = make_folds(batch, job.splits)
            self._seen = {n: v for n, v in vars(estimator).items() if n.endswith("_in_")}
        vars(estimator).update(self._seen)
        return self._folds

    def _bar(self, estimator, folds, group):
        text = f"{len(group.varying)} candidates x {len(self.job.splits)} splits"
        total = estimator.multifit_rows(folds)
        return progress_bar(total, text, enabled=current_settings().progress)

    def _model_scores(self, estimator, group, stack):
        """A function that scores one model the way scikit-learn does, for one scorer."""
        job = self.job

        def score(candidate: int, split: int, part: str, scorer: Any, task: Task) -> Any:
            params = {**group.shared, **group.varying[candidate]}
            model = materialise(estimator, params, stack.pick(candidate, split))
            rows = getattr(job.splits[split], part)
            weight = job.task.score_params.get("sample_weight")
            weighted = weight is not None and _takes_weights(scorer)
            kwargs = {"sample_weight": rows_of(weight, rows)} if weighted else {}
            X, y = rows_of(job.X, rows), rows_of(job.y, rows)
            return score_model(model, X, y, kwargs, task)

        return score

    def _results(self, group, stack, estimator, scored: Scored, times):
        job, rows = self.job, []
        for c, varying in enumerate(group.varying):
            params = {**group.shared, **varying}
            results = []
            for s in range(len(job.splits)):
                result = {"fit_error": None, **scored.of(c, s), **times}
                if job.task.return_estimator:
                    result["estimator"] = materialise(estimator, params, stack.pick(c, s))
                where = Progress(s, len(job.splits), group.positions[c], len(group.positions))
                announce_end(params, where, job.task, result)
                results.append(result)
            rows.append((group.positions[c], results))
        return rows

    # --------------------------------------------------------- one by one

    def _fit_one_by_one(self, params: list[Mapping[str, Any]]) -> list[Results]:
        job, n_splits = self.job, len(self.job.splits)
        parallel = Parallel(n_jobs=job.n_jobs, pre_dispatch=job.pre_dispatch)
        chunks = _chunks(len(params), n_splits, parallel)
        work = [(s, chunk) for s in range(n_splits) for chunk in chunks]

        def candidates_of(split, chunk):
            return [(params[c] or None, Progress(split, n_splits, c, len(params))) for c in chunk]

        done = parallel(
            delayed(fit_fold)(
                job.estimator, job.X, job.y, job.splits[s], candidates_of(s, chunk), job.task
            )
            for s, chunk in work
        )
        rows: list[Results] = [[{}] * n_splits for _ in params]
        for (s, chunk), results in zip(work, done, strict=True):
            for c, result in zip(chunk, results, strict=True):
                rows[c][s] = result
        n_fits = len(params) * n_splits
        self.steps.append(Step(n_fits, n_fits, place_name(job.X), "one by one"))
        return rows


def _with_params(estimator, params):
    out = clone(estimator).set_params(**clone(params, safe=False))
    if hasattr(out, "_validate_params"):
        out._validate_params()
    return out


def _has_empty_part(split):
    return split.n_train == 0 or split.n_test == 0


def _check_values(estimator, params):
    """Values of parameters against an estimator's constraints, if it has any."""
    constraints = getattr(estimator, "_parameter_constraints", {})
    known = {name: constraints[name] for name in params if name in constraints}
    validate_parameter_constraints(known, {n: params[n] for n in known}, type(estimator).__name__)


def _only_weights(task: Task) -> bool:
    """Whether nothing but sample weights goes with the rows, for scores the same or none."""
    fit, score = dict(task.fit_params), dict(task.score_params)
    weight, score_weight = fit.pop("sample_weight", None), score.pop("sample_weight", None)
    several = isinstance(task.scorer, _MultimetricScorer)
    if several and score_weight is not None and _routing_enabled():
        return False
    return not fit and not score and (score_weight is None or score_weight is weight)


def _takes_weights(scorer):
    if hasattr(scorer, "_accept_sample_weight"):
        return scorer._accept_sample_weight()
    return "sample_weight" in signature(scorer).parameters


def place_name(X: Any) -> str:
    """Where the user's X is, for a plan."""
    X = as_array(X)
    return str(place_of(X)) if is_array(X) else "numpy:cpu"


def _chunks(n_candidates, n_splits, parallel):
    """Candidates that share the rows of a split: all of them, or fewer where workers would idle."""
    from joblib import effective_n_jobs

    n_jobs = effective_n_jobs(parallel.n_jobs)
    per_split = min(n_candidates, max(1, -(-n_jobs // n_splits)))
    return [list(part) for part in np.array_split(np.arange(n_candidates), per_split)]
