"""Searches over hyper-parameters that fit and score all candidates on all folds together."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

from joblib import effective_n_jobs
from sklearn import model_selection as sk
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import as_array
from gpuml._arrays.small_arrays import small_arrays
from gpuml._persistence.travel import Travels
from gpuml._settings.observers import plan_observers
from gpuml._sklearn import (
    BaseSearchCV,
    _check_method_params,
    _check_multimetric_scoring,
    _fit_context,
    _MultimetricScorer,
    _num_samples,
)
from gpuml.data import AnySplit
from gpuml.divided.stored import StoredRows
from gpuml.metrics.scorer import check_scoring, suggesting
from gpuml.model_selection.candidates import ALONE, Plan, Step, measured
from gpuml.model_selection.choice import ONE_SPLIT, OneStandardError
from gpuml.model_selection.divided import evaluator_of, stored
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.interrupted import left_of, show_left
from gpuml.model_selection.kept import kept_of
from gpuml.model_selection.one_by_one import (
    Task,
    check_error_score,
    check_workers,
    is_foreign,
)
from gpuml.model_selection.out_of_bag import OUT_OF_BAG, OutOfBag, check_search
from gpuml.model_selection.residence import all_estimators, place_name
from gpuml.model_selection.resuming import Checkpoints, ResumingEvaluator, check_storable
from gpuml.model_selection.rounds import Rounds, given_params
from gpuml.resampling.split import check_splitter, split_rows

if TYPE_CHECKING:
    from gpuml.model_selection.explain import Explanation, Outlook

logger = logging.getLogger("gpuml")
# The name by which `refit` selects the rule of `OneStandardError`.
ONE_ERROR = "1se"


class OnePassSearch(Travels, BaseSearchCV):
    """`fit` of a scikit-learn search, with its own evaluation of candidates.

    Everything else (candidates, results, ranking, prediction, routing, tags, display) is
    scikit-learn's own.
    """

    # Predictions to keep: a parameter of searches with one round on one device.
    return_predictions: bool | str = False
    # Where finished work is stored: a parameter of searches with candidates known in advance.
    checkpoint: Any = None
    # Whether later rounds fit the same rows with more of a resource.
    _asks_for_more = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The estimator decides which y are valid.
        tags.target_tags = deepcopy(get_tags(self.estimator).target_tags)
        return tags

    def _validate_params(self):
        with suggesting():
            super()._validate_params()

    def _make_evaluator(self, job: Job) -> Any:
        """The evaluator that fits and scores candidates; a subclass may have its own."""
        checkpoints = self._checkpoints()
        return evaluator_of(job) if checkpoints is None else ResumingEvaluator(job, checkpoints)

    def _checkpoints(self, **options: Any) -> Checkpoints | None:
        """The checkpoints of a fit."""
        if self.checkpoint is None:
            return None
        return Checkpoints(self.checkpoint, getattr(self, "random_state", None), **options)

    def _split(self, cv: Any, X: Any, y: Any, params: Mapping[str, Any]) -> Sequence[AnySplit]:
        """The splits of a round."""
        splits = split_rows(cv, X, y, _num_samples(X), **params)
        self.split_sizes_ = [(split.n_train, split.n_test) for split in splits]
        return splits

    def _get_scorers(self):
        if callable(self.scoring):
            return self.scoring, "score"
        if isinstance(self.scoring, list | tuple | set | dict):
            with suggesting():
                _check_multimetric_scoring(self.estimator, self.scoring)  # each scorer by itself
        scorers = check_scoring(self.estimator, self.scoring, raise_exc=self.error_score == "raise")
        if not isinstance(scorers, _MultimetricScorer):
            return scorers, "score"
        self._check_refit_for_multimetric(scorers._scorers)
        return scorers, self.refit

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, **params) -> Self:
        """Fit and score all candidates on all splits, and the best one on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or StoredRows
            Of any array library; device data stays on its device. Rows in files, such as those of
            `gpuml.read_parquet`, are read pass by pass.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            For rows in files also the name of a column, as for `sample_weight` and `groups`.
        **params : dict
            As for scikit-learn's searches: `sample_weight`, `groups`, and what metadata routing
            or the estimator's `fit` takes. Weights go to fits and to scores.

        Returns
        -------
        self : object
            With scikit-learn's attributes, and `plan_`, which says how many fits were done in how
            many passes over the rows and where (``print(search.plan_)``).

        Raises
        ------
        ValueError
            If all fits fail, or for what scikit-learn's searches reject. A failed fit leaves the
            search as it was.
        KeyboardInterrupt
            If you stop the search (Ctrl-C). `cv_results_` then has the fits that were finished, and
            a warning says what is missing.
        """
        X, y, params = stored(X, y, params)
        if self.checkpoint is not None:
            check_storable(self, X)
        if self._is_watched(X):
            ours = "return_predictions" if self.return_predictions else None
            ours = "cv='oob'" if self._is_out_of_bag() else ours
            ours = ours if self.checkpoint is None else "checkpoint"
            if ours is not None:
                raise ValueError(
                    f"{ours} needs gpuml's fits, and callbacks follow scikit-learn's, "
                    "one by one. Leave out one of them."
                )
            # scikit-learn's callbacks follow single fits, so each fit has to be one.
            super().fit(X, y, **params)
            n_fits = len(self.cv_results_["params"]) * self.n_splits_
            step = Step(n_fits, n_fits, place_name(X), f"{ALONE}, for callbacks to follow")
            self.plan_ = Plan((step,))
            return self
        before = dict(vars(self))
        try:
            with small_arrays(), measured(sees_moves=self._works_here()) as with_costs:
                self._fit(as_array(X), as_array(y), params)
                self.plan_ = with_costs(self.plan_)
        except BaseException as error:
            left = vars(self).get("_left")
            self.__dict__ = before
            try:
                if left is not None:
                    show_left(self, left)
            finally:  # also if warnings are errors
                raise error
        for observe in plan_observers:
            observe(self.plan_)
        return self

    def score(self, X, y=None, **params):
        """The score of the best model on given rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or StoredRows
            Rows in files are scored block by block; `scoring` must take targets and predictions.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            For rows in files also the name of a column, as for `sample_weight`.
        **params : dict
            What scikit-learn's searches pass on to the scorer.

        Returns
        -------
        score : float
        """
        if not isinstance(X, StoredRows):
            return super().score(X, y, **params)
        check_is_fitted(self)
        return X.score(self, y, **params)

    def _is_watched(self, X: Any) -> bool:
        """Whether scikit-learn's callbacks follow the search, or the estimators inside it."""
        if getattr(self, "_skl_callbacks", None):
            return True
        # scikit-learn's search tells an estimator's callbacks which fit they follow.
        theirs = type(self)._run_search is not BaseSearchCV._run_search
        if not theirs or is_foreign(X) or not self._works_here():
            return False
        parts = all_estimators(self.estimator)
        return any(getattr(part, "_skl_callbacks", None) for part in parts)

    def _works_here(self) -> bool:
        """Whether this process does the work of `fit`; a subclass may send it elsewhere."""
        return True

    @property
    def results_(self) -> Any:
        """A DataFrame with a row for each candidate, the best one first.

        Of pandas, else of polars: the number of the candidate in `cv_results_`, a column for each
        parameter, rank, mean and standard deviation of the scores of each metric, mean seconds, and
        the scores of each split.
        """
        if not hasattr(self, "cv_results_"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet: no results_.")
        from gpuml.model_selection.results import results_frame

        return results_frame(self)

    def __sklearn_is_fitted__(self) -> bool:
        # After Ctrl-C there are results, and no model.
        return hasattr(self, "best_estimator_" if self.refit else "cv_results_")

    def _html_repr(self):
        from gpuml.model_selection._html import search_html

        return search_html(self, super()._html_repr())

    def explain(self, X, y=None, **params):
        """Tell what `fit` is going to do with these rows, without fitting anything.

        Parameters
        ----------
        X, y, **params
            As for `fit`.

        Returns
        -------
        explanation : Explanation
            Which way the candidates go and why, in how many passes over the rows, the bytes that
            are read, and seconds, which are estimates: from the operations that gpuml's models
            need, and a rate that is measured on this machine. To be printed, or shown in a
            notebook. Of searches that go round by round, the first round.

        Raises
        ------
        ValueError
            For what `fit` rejects before it fits.
        """
        from gpuml.model_selection.explain import explain_search

        return explain_search(clone(self), *stored(X, y, params))

    def _foretold(self, X: Any) -> "Explanation | None":
        """The plan of a search that evaluates no round of candidates; None for others."""
        return None

    def _begin(self, X: Any) -> None:
        """Hook: called with X before everything else."""

    def _stand_in(self, X: Any) -> Any:
        """A stand-in for X with its shape and dtype, if the rows are elsewhere."""
        return X

    def _outlook(self, job: Job, routes: Sequence[Any]) -> "Outlook":
        """The places where the work will be done."""
        from gpuml.model_selection.explain import Outlook

        return Outlook(alone=effective_n_jobs(self.n_jobs))

    def _checked(self, X, y, params):
        """X, y and parameters as arrays of one length."""
        check_error_score(self.error_score)
        if y is None and get_tags(self.estimator).target_tags.required:
            raise ValueError(
                f"This {type(self).__name__} requires y to be passed, but the target y is None: "
                f"{type(self.estimator).__name__} is fitted to a target. Use fit(X, y)."
            )
        X, y = indexable(X, y)
        return X, y, _check_method_params(X, {n: as_array(v) for n, v in params.items()})

    def _prepared(self, X, y, params):
        """Checked scorers, rows and parameters; sets the splitter and the number of splits."""
        scorers, refit_metric = self._get_scorers()
        check_workers(self.n_jobs, self.pre_dispatch)
        if self.refit == ONE_ERROR and not self._same_splits():
            raise ValueError(
                f"refit='{ONE_ERROR}' needs all candidates on the same splits, which those of "
                f"{type(self).__name__} are not; use GridSearchCV or RandomizedSearchCV."
            )
        X, y, params = self._checked(X, y, params)
        routed = self._get_routed_params_for_fit(params)
        cv = self._splitter(X, y)
        self._checked_cv_orig = cv
        self._check_input_parameters(X=X, y=y, split_params=routed.splitter.split)
        self.n_splits_ = cv.get_n_splits(X, y, **routed.splitter.split)
        is_rule = self.refit == ONE_ERROR or isinstance(self.refit, OneStandardError)
        if is_rule and self.n_splits_ < 2:
            raise ValueError(ONE_SPLIT)
        task = replace(
            self._task(scorers, routed),
            kept=kept_of(self.return_predictions, y),
            out_of_bag=isinstance(cv, OutOfBag),
        )
        return scorers, refit_metric, X, y, task, routed

    def _is_out_of_bag(self) -> bool:
        return isinstance(self.cv, str) and self.cv == OUT_OF_BAG

    def _splitter(self, X, y):
        """The splitter of the rows."""
        if self._is_out_of_bag():
            check_search(self, X, clone(self)._candidates())
            return OutOfBag()
        return check_splitter(self.cv, y, classifier=is_classifier(self.estimator))

    def _task(self, scorers, routed) -> Task:
        """The settings that all fits share."""
        return Task(
            scorer=scorers,
            fit_params=given_params(routed.estimator.fit),
            score_params=given_params(routed.scorer.score),
            return_train_score=self.return_train_score,
            error_score=self.error_score,
            verbose=self.verbose,
        )

    def _routed(self, params):
        """The parameters of `fit`, routed to their consumers."""
        return self._get_routed_params_for_fit(dict(params))

    def _one_round_obstacle(self) -> str | None:
        """The reason why not all candidates are known before the first fit, or fitted here."""
        kind = type(self)
        if not self._has_one_round():
            return f"{kind.__name__} decides by scores which candidates to fit next"
        if kind.fit is not OnePassSearch.fit or not self._works_here():
            return f"{kind.__name__} has its own fit"
        if self.return_predictions:
            return "return_predictions=True keeps predictions; leave it out"
        if self.checkpoint is not None:
            return "its checkpoint is of one data set, and each split has others; leave it out"
        if any(getattr(part, "_skl_callbacks", None) for part in all_estimators(self)):
            return "callbacks follow every single fit"
        if getattr(self, "random_state", 0) is None:
            return (
                f"{kind.__name__} with random_state=None draws different candidates on each split; "
                "set random_state"
            )
        return None

    def _same_splits(self) -> bool:
        """Whether all candidates are fitted on the same splits."""
        return self._has_one_round()

    def _has_one_round(self) -> bool:
        own = type(self)._run_search
        return own in (sk.GridSearchCV._run_search, sk.RandomizedSearchCV._run_search)

    def _candidates(self) -> list[Mapping[str, Any]]:
        """The candidates of the first round. This changes the search: pass a clone."""
        self.__dict__.setdefault("n_splits_", 1)  # scikit-learn's searches pass it to callbacks
        found: list[Mapping[str, Any]] = []

        def collect(some, *args, **kwargs):
            found.extend(some)
            raise Collected

        with suppress(Collected):
            self._run(collect)
        return found

    def _run(self, evaluate, n_subtasks=1):
        """Run the search, which calls `evaluate` with its candidates."""
        root = self._init_callback_context(max_subtasks=n_subtasks)
        if "callback_ctx" in _parameters(type(self)._run_search):
            self._run_search(evaluate, callback_ctx=root)
        else:
            self._run_search(evaluate)

    def _fit(self, X, y, params) -> Self:
        scorers, refit_metric, X, y, task, routed = self._prepared(X, y, params)
        rounds = Rounds(self, X, y, task, routed.splitter.split)
        try:
            return self._go_through(rounds, scorers, refit_metric)
        except KeyboardInterrupt:
            self._left = left_of(rounds)
            raise

    @_fit_context(prefer_skip_nested_validation=False)
    def _fit_from(self, evaluator, prepared) -> Self:
        """Do the work of `fit` with prepared rows and an evaluator that has their splits."""
        scorers, refit_metric, X, y, task, routed = prepared
        rounds = Rounds(self, X, y, task, routed.splitter.split, evaluator)
        return self._go_through(rounds, scorers, refit_metric)

    def _go_through(self, rounds, scorers, refit_metric) -> Self:
        self._run(rounds.evaluate, 1 + (self.refit is not False))
        results = rounds.results

        first_scores = rounds.all_out[0]["test_scores"]
        self.multimetric_ = isinstance(first_scores, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first_scores)
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            rule = OneStandardError() if self.refit == ONE_ERROR else self.refit
            self.best_index_ = self._select_best_index(rule, refit_metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]
        if self.refit:
            self._refit(rounds)
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        self.cv_results_ = results
        if self.return_predictions:
            self.cv_predictions_ = rounds.predictions()
        self.plan_ = rounds.plan
        for reason in self.plan_.reasons:
            logger.info("%s: %s", type(self).__name__, reason)
        if self.verbose > 1:
            print(self.plan_)
        return self

    def _refit(self, rounds):
        started = time.perf_counter()
        self.best_estimator_ = best = rounds.refit(self.best_index_)
        self.refit_time_ = time.perf_counter() - started
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_


class Collected(Exception):
    """Raised once the candidates are known, to stop before they are evaluated."""


@cache
def _parameters(function):
    """The names of the parameters of a method."""
    return frozenset(signature(function).parameters)
