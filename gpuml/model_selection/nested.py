"""A search inside a search or a cross-validation: all inner fits share passes.

Nested cross-validation fits every candidate on every inner training set of every outer one, and
then the best candidate on the outer training set. All of these are subsets of the same rows. So one
evaluator fits them together, and the search of each outer split continues with its share of the
results: it chooses, takes its best fitted model, and is scored, as if it ran alone.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.base import clone

from gpuml._arrays.small_arrays import small_arrays
from gpuml._sklearn import _MultimetricScorer, _num_samples, _PassthroughScorer
from gpuml.data import AnySplit
from gpuml.model_selection.behind import Behind
from gpuml.model_selection.candidates import TOGETHER, Plan, Step, number
from gpuml.model_selection.evaluate import Evaluator, Job, Results
from gpuml.model_selection.inside import splits_inside
from gpuml.model_selection.one_by_one import (
    Part,
    Progress,
    announce_end,
    failed_fit,
    params_of,
    score_model,
)
from gpuml.model_selection.one_pass import OnePassSearch
from gpuml.resampling.split import is_theirs


def fit_nested(
    job: Job, behind: Behind, params: Mapping[str, Any], position: int = 0, n_candidates: int = 1
) -> tuple[Results, list[Step]]:
    """Fit and score a search on all splits of a job.

    Parameters
    ----------
    job : Job
        The outer one.
    behind : Behind
        The search, of one round of candidates, whose routes are known.
    params : dict
        What it differs in from the estimator of the job.
    position, n_candidates : int
        Its place among those of the job, which `verbose` prints.

    Returns
    -------
    results : list of dict
        As of scikit-learn's `_fit_and_score`, split after split.
    steps : list of Step
        What was done. Splits inside are counted through, an outer one behind its own.

    Raises
    ------
    NotTogether
        If a fit has to be made by itself, and steps before the search are fitted to other rows.
    """
    started = time.perf_counter()
    with small_arrays():
        insides = [_Inside(job, behind, split) for split in job.splits]
        splits = [split for each in insides for split in each.splits]
        sizes = [len(each.splits) for each in insides]
        ends = np.cumsum(sizes).tolist()
        outside = behind.outside(np.repeat([end - 1 for end in ends], sizes).tolist())
        inner = _inner_job(job, behind.whole, splits, frozenset(end - 1 for end in ends))
        evaluator = Evaluator(replace(inner, outside=outside), behind.routed)
        out = evaluator.evaluate(behind.routed[0])
        if behind.n_steps and evaluator.plan.reasons:
            reasons = {reason: None for step in evaluator.steps for reason in step.reasons}
            raise NotTogether("; ".join(reasons))
        seconds = (time.perf_counter() - started) / len(insides)
        results = []
        for s, (inside, end) in enumerate(zip(insides, ends, strict=True)):
            own = slice(end - len(inside.splits), end - 1)
            share = _Share(evaluator, out, own, len(insides), behind)
            result = inside.result(share, seconds)
            where = Progress(s, len(insides), position, n_candidates)
            announce_end(params, where, job.task, result)
            results.append(result)
    n_inner = sum(len(each.splits) - 1 for each in insides) * (len(out) // len(splits))
    why = f"{TOGETHER}, with {number(n_inner, 'fit')} of the searches inside"
    return results, _steps(evaluator, len(insides), why)


def _steps(evaluator, n_fits, why):
    """Fits as the first step; then the inner fits that were not made together."""
    together = [step for step in evaluator.steps if not step.reasons]
    n_passes = sum(step.n_passes for step in together)
    first = Step(n_fits, n_passes, evaluator.plan.place, why)
    left = [step for step in evaluator.steps if step.reasons]
    return [first, *(replace(step, why=f"inside, {step.why}") for step in left)]


def _inner_job(job, search, splits, unscored):
    """All inner fits as one job, including unscored fits on outer training sets."""
    task = search._task(search._get_scorers()[0], search._routed(job.task.fit_params))
    estimator = clone(search.estimator)
    task = replace(task, unscored=unscored)
    return Job(estimator, job.X, job.y, splits, task, search.n_jobs, search.pre_dispatch)


class NotTogether(ValueError):
    """Not all inner fits could be made together."""


class _Inside:
    """The search of one outer split, with its own splits of its training rows."""

    def __init__(self, job: Job, behind: Behind, split: AnySplit):
        self.job, self.behind, self.split = job, behind, split
        self.search = own = clone(behind.search)
        train = Part(split.train)
        # scikit-learn's splitters read only the number of rows from X.
        counted = not hasattr(own.cv, "split") or is_theirs(own.cv)
        X = np.broadcast_to(0.0, (split.n_train, 1)) if counted else train.of(job.X)
        params = params_of(job.X, job.task.fit_params, train)
        self._prepared = own._prepared(X, train.of(job.y), params)
        _, _, X, y, _, routed = self._prepared
        inner = own._split(own._checked_cv_orig, X, y, routed.splitter.split)
        self.splits = splits_inside(split, inner, _num_samples(job.X))

    def result(self, share: "_Share", seconds: float) -> dict[str, Any]:
        """The result of the outer split; `seconds` is its share of the total."""
        task, started = self.job.task, time.perf_counter()
        result: dict[str, Any] = {
            "fit_error": None,
            "n_test_samples": self.split.n_test,
            "fit_time": seconds,
        }
        scores = self._scores_alone(share)
        if scores is not None:
            return result | scores | {"score_time": time.perf_counter() - started}
        try:
            self.search._fit_from(share, self._prepared)
            whole = self.behind.assembled(share, self.search)
        except Exception:
            if task.error_score == "raise":
                raise
            seconds += time.perf_counter() - started
            failed = failed_fit(format_exc(), self.split.n_test, task, seconds)
            unfitted = clone(self.behind.estimator)
            return failed | ({"estimator": unfitted} if task.return_estimator else {})
        fitted = time.perf_counter()
        result["fit_time"] += fitted - started
        result |= {f"{name}_scores": self._score(share, whole, name) for name in self._parts}
        result["score_time"] = time.perf_counter() - fitted
        if task.kept is not None:
            rows = Part(self.split.test).of(self.job.X)
            result["predictions"] = task.kept.of(whole, rows)
        return result | ({"estimator": whole} if task.return_estimator else {})

    @property
    def _parts(self):
        return ("test", "train") if self.job.task.return_train_score else ("test",)

    def _scores_alone(self, share):
        """The scores without a fitted search, if no caller sees it; None if they need one."""
        task, own = self.job.task, self.search
        if task.return_estimator or task.kept is not None or not self._scores_itself():
            return None
        if own.refit is not True or own.verbose or not share.choose():
            return None
        found = {f"{name}_scores": self._known(share, name) for name in self._parts}
        return None if None in found.values() else found

    def _score(self, share, model, name):
        """The score on a part of the outer split; the inner fits may already have it."""
        job, part = self.job, Part(getattr(self.split, name))
        known = self._known(share, name) if self._scores_itself() else None
        if known is not None:
            return known
        params = params_of(job.X, job.task.score_params, part)
        return score_model(model, part.of(job.X), part.of(job.y), params, job.task)

    def _known(self, share, name):
        """The score that the inner fits have found, in the form of the outer ones; else None."""
        known, scorer = share.score(name), self.job.task.scorer
        several = isinstance(scorer, _MultimetricScorer)
        if known != known:
            return None
        return dict.fromkeys(scorer._scorers, known) if several else known

    def _scores_itself(self):
        """Whether this score is the one by which the search chooses, without weights."""
        scorer, own = self.job.task.scorer, self._prepared[4]
        several = isinstance(scorer, _MultimetricScorer)
        all_of_them = scorer._scorers.values() if several else [scorer]
        weighed = self.job.task.score_params or own.score_params
        if weighed or type(self.search).score is not OnePassSearch.score:
            return False
        return all(isinstance(each, _PassthroughScorer) for each in all_of_them)


class _Share:
    """The share of one outer split's search in the fits of all outer splits.

    It replaces the search's own evaluator.
    """

    n_done = 0

    def __init__(
        self, evaluator: Evaluator, out: Results, splits: slice, n_searches: int, behind: Behind
    ):
        self._evaluator, self._out, self._splits = evaluator, out, splits
        self._n_searches, self._behind = n_searches, behind
        self._best: int | None = None

    @property
    def steps(self) -> list[Step]:
        """The work done for this search; passes and single fits are those of all searches."""
        n_all = len(self._evaluator.job.splits)
        n_fits = (self._splits.stop - self._splits.start) * (len(self._out) // n_all)
        why = f"{TOGETHER}, with those of {number(self._n_searches, 'outer split')}"
        return _steps(self._evaluator, n_fits, why)

    @property
    def plan(self) -> Plan:
        """The same as a plan."""
        return Plan(tuple(self.steps))

    def evaluate(self, candidates: Sequence[Mapping[str, Any]]) -> Results:
        """The results on the splits of this search."""
        n_all = len(self._evaluator.job.splits)
        of_each = range(0, len(self._out), n_all)
        first, stop = self._splits.start, self._splits.stop
        return [result for c in of_each for result in self._out[c + first : c + stop]]

    def choose(self) -> bool:
        """Take the best candidate as a search does, if all of them were fitted and have a score."""
        out = self.evaluate(())
        scores = np.asarray([result["test_scores"] for result in out])
        if any(result["fit_error"] for result in out) or scores.dtype != float:
            return False
        if not np.isfinite(scores).all():
            return False
        n_splits = self._splits.stop - self._splits.start
        self._best = int(scores.reshape(-1, n_splits).mean(axis=1).argmax())
        return True

    def score(self, part: str) -> Any:
        """The score of the best candidate on a part of the outer split; nan if unknown."""
        if self._best is None:
            return np.nan
        of_best = self._out[self._best * len(self._evaluator.job.splits) + self._splits.stop]
        score = of_best.get(f"{part}_scores")
        return score if isinstance(score, float) else np.nan

    @cached_property
    def whole(self) -> Any:
        """The best candidate on the outer training set, with the steps before it."""
        return self._evaluator.model_of(self._best or 0, self._splits.stop)

    def refit(self, candidate: int) -> Any:
        """The model of a candidate on the outer training set."""
        self._best = candidate
        return self._behind.inner(self.whole)
