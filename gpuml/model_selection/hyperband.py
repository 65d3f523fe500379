"""Hyperband: brackets of successive halving, which continue models with `partial_fit`."""

import math
import warnings
from contextlib import closing
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import ParameterSampler
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from gpuml._settings.suggestions import check_resource
from gpuml._sklearn import (
    HasMethods,
    Interval,
    StrOptions,
    _num_samples,
    _warn_or_raise_about_fit_failures,
)
from gpuml.model_selection.brackets import (
    BracketRun,
    described,
    or_least,
    plan_brackets,
    results_of,
)
from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.explain import Expected, Explanation
from gpuml.model_selection.one_by_one import Task
from gpuml.model_selection.one_pass import OnePassSearch, given_params
from gpuml.model_selection.residence import place_name
from gpuml.model_selection.row_blocks import RowBlocks, even_bounds
from gpuml.model_selection.trainers import CallByCall, Lesson, MoreOfAResource, with_classes
from gpuml.model_selection.training import Trainer, train

CALLS = "partial_fit"
ROWS = "n_samples"


class HyperbandSearchCV(OnePassSearch):
    r"""Search over randomly drawn candidates by Hyperband, which stops bad candidates early.

    Successive halving needs a choice between many candidates with little training each, and few
    candidates with much training. Hyperband tries all such choices: it runs
    :math:`\lfloor \log_\eta R \rfloor + 1` successive halvings, called brackets, with about the
    same total training each, and keeps the best model of all. Here R is `max_iter`, and
    :math:`\eta` is `aggressiveness`. All brackets score models on the same held-out rows.

    If the estimator has `partial_fit`, training is counted in calls of it, and a model that reaches
    the next round of its bracket continues its training. Otherwise training is counted in rows, or
    by a parameter; each round then fits the models again, together if they can share a pass over
    the rows.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn-compatible estimator.
    parameters : dict or list of dicts
        Lists of values, or distributions with a method `rvs`, by parameter name.
    max_iter : int, default=81
        The most training that a model gets: calls of `partial_fit`, or the largest value of the
        parameter `resource`. For rows, ``max_iter`` stands for all training rows.
    aggressiveness : int, default=3
        One in `aggressiveness` models continues in the next round of its bracket, with
        `aggressiveness` times the training.
    patience : bool or int, default=False
        Stop a model early if its score has not risen by more than `tol` within this many calls of
        `partial_fit`; models are also scored at least that often. True is ``max_iter //
        aggressiveness``; a smaller number gives a warning, because Hyperband itself stops models.
        False stops no model early.
    tol : float or None, default=1e-3
        The least rise of the score that counts for `patience`. None or nan stops no model early.
    test_size : float or None, default=None
        Share of the rows of each chunk to hold out, between 0 and 1. None is 1 divided by the
        number of chunks, but at most 0.2.
    random_state : int, RandomState instance or None, default=None
        Seed for the candidates, the held-out rows, the order of chunks, and every `random_state`
        of the estimator that is None. The same integer gives the same results.
    scoring : str, callable or None, default=None
        One metric; None is the estimator's `score`.
    verbose : bool or float, default=False
        Whether to print the number of models and the best score after each round.
    prefix : str, default=""
        Text in front of what `verbose` prints.
    resource : str, default="auto"
        How training is counted: "partial_fit" (calls), "n_samples" (rows), or the name of a
        parameter of the estimator that takes positive integers, such as "n_estimators". "auto" is
        "partial_fit" if the estimator has this method, and "n_samples" otherwise.
    chunk_size : int or None, default=None
        Rows per call of `partial_fit`, including those held out; None is all rows.
    n_jobs : int or None, default=None
        Number of workers that train models side by side. Models that are fitted together do not
        need them.
    error_score : "raise" or number, default=nan
        Score of a candidate whose fit fails; it gets no further training.
    checkpoint : str, path or None, default=None
        A folder or URL to resume an interrupted search from; see `GridSearchCV`. It must be None
        for "partial_fit", because models between calls are not stored.

    Attributes
    ----------
    cv_results_ : dict of arrays
        One entry per model: `test_score` (the last one), `rank_test_score`, `model_id`, `bracket`,
        `partial_fit_calls`, `params`, ``param_{name}`` for each parameter, and mean and standard
        deviation of `partial_fit_time` (seconds per call) and `score_time` (seconds).
    metadata, metadata_ : dict
        `n_models`, `partial_fit_calls` and `brackets`, a list with the same for each bracket, its
        number (`bracket`), and the calls after which its models are compared (`decisions`).
        `metadata` is the plan, `metadata_` what happened: less, if models stopped early.
    history_ : list of dicts
        A record per score of a model, in order of time: `model_id`, `params`, `bracket`,
        `partial_fit_calls`, `score`, `partial_fit_time`, `score_time`, `elapsed_wall_time`.
    model_history_ : dict of lists
        The records of `history_` by `model_id`.
    best_estimator_ : estimator
        The best model as it was scored, if trained by `partial_fit`; otherwise its parameters,
        fitted to all rows.
    best_index_, best_score_, best_params_
        Those of the best model, among the models that reached the last round of their bracket.
    scorer_, n_splits_, multimetric_, classes_, n_features_in_, feature_names_in_
        As for `GridSearchCV`; there is one split.
    plan_ : Plan
        How many fits gpuml made, in how many passes over the rows, and where; a call of
        `partial_fit` is a pass over its chunk.

    Raises
    ------
    ValueError
        From `fit`, for invalid parameters, and if all fits fail.

    See Also
    --------
    HalvingRandomSearchCV : A single successive halving, with cross-validation.

    Notes
    -----
    Parameters and attributes have the names of dask-ml's class, which fails on Dask 2025.3 and
    later. Unlike dask-ml, all brackets are compared on the same held-out rows, and ranks are among
    all models.

    References
    ----------
    L. Li, K. Jamieson, G. DeSalvo, A. Rostamizadeh, A. Talwalkar, "Hyperband: a novel bandit-based
    approach to hyperparameter optimization", JMLR 18 (2018).

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import SGDClassifier
    >>> from gpuml.model_selection import HyperbandSearchCV
    >>> X, y = load_digits(return_X_y=True)
    >>> draws = {"alpha": loguniform(1e-6, 1e1), "average": [True, False]}
    >>> search = HyperbandSearchCV(
    ...     SGDClassifier(), draws, max_iter=9, chunk_size=600, random_state=0
    ... )
    >>> search.fit(X / 16, y).metadata_["partial_fit_calls"]
    69
    >>> bool(search.best_score_ > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit"]), HasMethods(["partial_fit"])],
        "parameters": [dict, list],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "aggressiveness": [Interval(Integral, 2, None, closed="left")],
        "patience": ["boolean", Interval(Integral, 0, None, closed="left")],
        "tol": [Real, None],
        "test_size": [Interval(Real, 0, 1, closed="neither"), None],
        "random_state": ["random_state"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "verbose": ["boolean", Interval(Real, 0, 1, closed="both")],
        "prefix": [str],
        "resource": [str],
        "chunk_size": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "error_score": [StrOptions({"raise"}), Real],
    }

    # scikit-learn's searches read these; users of this search cannot choose them.
    refit = True
    cv = None
    return_train_score = False
    # What searches can't have whose models learn call by call.
    _not_by_calls: ClassVar[dict] = {"checkpoint": "states of models are not stored"}

    def __init__(
        self,
        estimator,
        parameters,
        max_iter=81,
        aggressiveness=3,
        patience=False,
        tol=1e-3,
        test_size=None,
        random_state=None,
        scoring=None,
        verbose=False,
        prefix="",
        *,
        resource="auto",
        chunk_size=None,
        n_jobs=None,
        error_score: Any = np.nan,
        checkpoint: Any = None,
    ):
        self.estimator = estimator
        self.parameters = parameters
        self.max_iter = max_iter
        self.aggressiveness = aggressiveness
        self.patience = patience
        self.tol = tol
        self.test_size = test_size
        self.random_state = random_state
        self.scoring = scoring
        self.verbose = verbose
        self.prefix = prefix
        self.resource = resource
        self.chunk_size = chunk_size
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.checkpoint = checkpoint

    @property
    def metadata(self) -> dict:
        """The planned numbers of models and of calls of `partial_fit`, in all and per bracket."""
        return described(
            (b.number, b.n_models, b.n_calls, [calls for _, calls in b.rungs])
            for b in plan_brackets(self.max_iter, self.aggressiveness)
        )

    @property
    def metadata_(self) -> dict:
        """The actual numbers of models and of calls of `partial_fit`, in all and per bracket."""
        check_is_fitted(self)
        rows: dict[int, list[list[dict]]] = {}
        for history in self.model_history_.values():
            rows.setdefault(history[0]["bracket"], []).append(history)
        return described(
            (
                number,
                len(models),
                sum(history[-1]["partial_fit_calls"] for history in models),
                {record["partial_fit_calls"] for history in models for record in history},
            )
            for number, models in rows.items()
        )

    def get_metadata_routing(self):
        """The metadata routing of `fit` and `score`; see scikit-learn's user guide."""
        scorer, _ = self._get_scorers()
        to_fit = "partial_fit" if self._resource() == CALLS else "fit"
        return (
            MetadataRouter(owner=self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee=to_fit),
            )
            .add(
                scorer=scorer,
                method_mapping=MethodMapping()
                .add(caller="score", callee="score")
                .add(caller="fit", callee="score"),
            )
        )

    # ------------------------------------------------------------ fit

    def _foretold(self, X: Any) -> Explanation:
        calls = self._resource() == CALLS
        why = "models are trained call by call" if calls else "candidates are trained by rounds"
        reasons = (f"{why}, and only the best continue",)
        place = place_name(X) if self._works_here() else "the workers"
        n_models = self.metadata["n_models"]
        return Explanation((Expected(n_models, None, place, why, reasons),))

    def _fit(self, X, y, params) -> Self:
        scorer, _ = self._get_scorers()
        effective_n_jobs(self.n_jobs)  # ValueError for 0
        X, y, params = self._checked(X, y, params)
        task = self._task(scorer, params)
        runs, seed = self._runs()
        bounds = self._bounds(X)
        blocks = RowBlocks(bounds, self._share_held_out(len(bounds) - 1), seed)
        with closing(self._make_trainer(X, y, blocks, task, seed)) as trainer:
            train(trainer, runs, self._report)
            self._set_results(trainer, runs, scorer)
        return self

    def _bounds(self, X: Any) -> tuple[int, ...]:
        """The first rows of chunks; a subclass may use other bounds."""
        return even_bounds(_num_samples(X), self.chunk_size)

    def _task(self, scorer, params):
        routed = self._get_routed_params_for_fit(params)
        # Without routing, fit parameters have this name for every method.
        fit_params = routed.estimator.get(self._method()) or routed.estimator.get("fit") or {}
        return Task(
            scorer=scorer,
            fit_params=given_params(fit_params),
            score_params=given_params(routed.scorer.score),
            return_train_score=False,
            error_score=self.error_score,
            verbose=0,
        )

    def _make_trainer(self, X: Any, y: Any, blocks: RowBlocks, task: Task, seed: int) -> Trainer:
        """The trainer of the models; a subclass may have its own."""
        estimator = clone(self.estimator)
        if self._resource() == CALLS:
            self._check_by_calls()
            task = with_classes(estimator, y, task)
            lesson = Lesson(estimator, seed, blocks.order(self.max_iter), task)
            return CallByCall(lesson, blocks, X, y, self.n_jobs)
        job = Job(estimator, X, y, (), task, self.n_jobs)
        return MoreOfAResource(
            self._make_evaluator, job, blocks, self.max_iter, self._resource(), seed
        )

    def _check_by_calls(self):
        for name, why in self._not_by_calls.items():
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name}= cannot be used with resource='{CALLS}': {why}. Use "
                    f"resource='{ROWS}' or a parameter, or {name}=None."
                )

    def _set_results(self, trainer, runs, scorer):
        entries = [entry for run in runs for entry in run.entries]
        failures = [{"fit_error": entry.error} for entry in entries]
        _warn_or_raise_about_fit_failures(failures, self.error_score)
        # Of equal models, the one of the most adaptive bracket, which comes first.
        best = max((run.best for run in runs), key=lambda e: or_least(e.score))
        self.best_index_ = next(i for i, entry in enumerate(entries) if entry is best)
        self.best_params_ = dict(best.params)
        self.best_score_ = best.score
        self.best_estimator_ = trainer.model(*best.state)
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        self.cv_results_ = results_of(entries)
        self.model_history_ = {e.records[0]["model_id"]: e.records for e in entries}
        records = [record for entry in entries for record in entry.records]
        self.history_ = sorted(records, key=lambda record: record["elapsed_wall_time"])
        self.scorer_ = scorer
        self.n_splits_ = 1
        self.multimetric_ = False
        self.plan_ = Plan(tuple(trainer.steps))

    # ------------------------------------------------------------ what parameters mean

    def _runs(self):
        """The brackets with their candidates, and a seed for all other randomness."""
        patience = self._patience()
        first_seed = int(check_random_state(self.random_state).randint(2**31))
        runs = []
        for bracket in plan_brackets(self.max_iter, self.aggressiveness):
            seed = self.random_state if bracket.number == 0 else first_seed + bracket.number
            drawn = list(ParameterSampler(self.parameters, bracket.n_models, random_state=seed))
            runs.append(BracketRun(bracket, drawn, patience, self.tol))
        return runs, first_seed

    def _resource(self):
        if self.resource == "auto":
            return CALLS if hasattr(self.estimator, "partial_fit") else ROWS
        if self.resource == CALLS and not hasattr(self.estimator, "partial_fit"):
            raise ValueError(
                f"Cannot use resource='{CALLS}': {type(self.estimator).__name__} has no such "
                f"method. Use '{ROWS}' or a parameter."
            )
        check_resource(self.resource, self.estimator, (CALLS, ROWS))
        grids = self.parameters if isinstance(self.parameters, list) else [self.parameters]
        if any(self.resource in grid for grid in grids):
            raise ValueError(
                f"Cannot use parameter {self.resource} as the resource since it is part of the "
                "searched parameters."
            )
        return self.resource

    def _method(self):
        return "partial_fit" if self._resource() == CALLS else "fit"

    def _share_held_out(self, n_blocks):
        return min(0.2, 1 / n_blocks) if self.test_size is None else self.test_size

    def _patience(self):
        """The number of calls without a rise after which a model stops; None for no limit."""
        enough = max(self.max_iter // self.aggressiveness, 1)
        if self.patience is True:
            return max(enough, 2)
        if not self.patience:
            return None
        if self.patience == 1:
            raise ValueError("patience=1 always detects a plateau. Set patience >= 2.")
        if self.patience < enough and self.tol is not None and not math.isnan(self.tol):
            warnings.warn(
                f"patience={self.patience} stops models that Hyperband would continue: Hyperband "
                f"drops models itself. Set patience=True, patience >= {enough}, or tol=None.",
                UserWarning,
                stacklevel=2,
            )
        return int(self.patience)

    def _report(self, run):
        if self.verbose:
            scores = [entry.score for entry in run.alive]
            calls = max(entry.n_calls for entry in run.alive)
            print(
                f"[CV{self.prefix}] bracket {run.bracket.number}: {len(run.alive)} models after "
                f"{calls} calls, best score {max(map(or_least, scores)):.4f}"
            )
