"""The rounds of evaluation of a search."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sklearn.base import clone

from gpuml._sklearn import (
    _insert_error_scores,
    _num_samples,
    _warn_or_raise_about_fit_failures,
)
from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.grown import Grown
from gpuml.model_selection.kept import check_partition, predictions_of
from gpuml.model_selection.one_by_one import Task
from gpuml.model_selection.trials import in_turn


class Rounds:
    """The rounds of evaluation of a search: one, or several for adaptive searches.

    With an `evaluator`, which has its own splits, it evaluates the candidates of all rounds.
    """

    def __init__(
        self, search: Any, X: Any, y: Any, task: Task, split_params: dict, evaluator: Any = None
    ):
        self.search, self.X, self.y, self.task = search, X, y, task
        # Before anything is drawn: the estimator may hold the generator of a splitter.
        self._estimator = clone(search.estimator)
        self.split_params, self._given = split_params, evaluator
        self.all_params: list = []
        self.all_out: list = []
        self.said: list = []
        self.more: dict = defaultdict(list)
        self.results: dict = {}
        # By the identity of a splitter, which is kept alive so that no other has the same.
        self._evaluators: dict[int, tuple[Any, Any]] = {}
        self._sources: list = []
        # The evaluation in progress: evaluator, candidates, and further results.
        self.under_way: tuple[Any, list, Mapping[str, Any]] = None, [], {}

    @property
    def plan(self):
        return Plan(tuple(step for _, each in self._evaluators.values() for step in each.steps))

    def evaluate(
        self, candidate_params, cv=None, more_results=None, callback_ctx=None, goes_on=None
    ):
        """scikit-learn's `evaluate_candidates`; `goes_on` as in `in_turn`."""
        search = self.search
        candidates = list(candidate_params)
        evaluator = self._evaluator(cv or search._checked_cv_orig)
        n_fits = len(candidates) * search.n_splits_
        if search.verbose > 0:
            print(
                f"Fitting {search.n_splits_} folds for each of {len(candidates)} candidates, "
                f"totalling {n_fits} fits"
            )
        first = evaluator.n_done
        if goes_on is None:
            self.under_way = evaluator, candidates, more_results or {}
            out = evaluator.evaluate(candidates)
            self.under_way = None, [], {}
        else:
            out = in_turn(evaluator, candidates, goes_on)
        if len(out) < 1:
            raise ValueError(
                "No fits were performed. Was the CV iterator empty? Were there no candidates?"
            )
        self._sources += [(evaluator, first + i) for i in range(len(candidates))]
        self.said += [result.pop("predictions", None) for result in out]
        _warn_or_raise_about_fit_failures(out, search.error_score)
        if callable(search.scoring):
            _insert_error_scores(out, search.error_score)
        self.all_params += candidates
        self.all_out += out
        for name, values in (more_results or {}).items():
            self.more[name].extend(values)
        self.results = search._format_results(
            self.all_params, search.n_splits_, self.all_out, self.more
        )
        return self.results

    def refit(self, index: int) -> Any:
        """The best model on all rows."""
        evaluator, position = self._sources[index]
        return evaluator.refit(position)

    def predictions(self) -> Any:
        """Predictions of all candidates for held-out rows, for a search with one round."""
        job = self._sources[0][0].job
        return predictions_of(self.said, job.splits, job.X)

    def _evaluator(self, cv) -> Any:
        if id(cv) not in self._evaluators:
            self._evaluators[id(cv)] = cv, self._given or self._new_evaluator(cv)
        return self._evaluators[id(cv)][1]

    def _new_evaluator(self, cv):
        search = self.search
        splits = search._split(cv, self.X, self.y, self.split_params)
        if len(splits) != search.n_splits_:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. Expected "
                f"{search.n_splits_} splits, got {len(splits)}"
            )
        if self.task.kept is not None:
            check_partition(splits, _num_samples(self.X), "return_predictions")
        for _, other in self._evaluators.values():
            return other.with_splits(splits)
        job = Job(
            self._estimator,
            self.X,
            self.y,
            splits,
            self.task,
            search.n_jobs,
            search.pre_dispatch,
        )
        evaluator = search._make_evaluator(job)
        if search._asks_for_more:
            evaluator.grown = Grown()
        return evaluator


def given_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are not None."""
    return {name: value for name, value in params.items() if value is not None}
