"""Optuna proposes candidates, several at a time; gpuml fits and scores them together."""

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from gpuml._sklearn import BaseSearchCV, Interval
from gpuml.model_selection.one_pass import ONE_ERROR, OnePassSearch
from gpuml.model_selection.session import Session
from gpuml.model_selection.trials import Pruning, Space, check_directions, suggested

__all__ = ["OptunaSearchCV", "optimize"]

# Scores of each trial by metric; None for a trial that was pruned.
Values = Sequence[tuple[float, ...] | None]


def optimize(
    study: Any,
    session: Session,
    space: Space,
    *,
    n_trials: int,
    batch_size: int = 10,
    timeout: float | None = None,
    callbacks: Sequence[Callable[[Any, Any], None]] | None = None,
    metric: str | Sequence[str] = "score",
) -> None:
    """Run trials of an Optuna study in a session, several at a time.

    This is ``study.optimize(session.objective(space), n_trials)`` with trials that share their
    passes over the rows: the sampler proposes `batch_size` trials before it gets the scores of any
    of them. Samplers that take running trials into account, as those of Optuna do, propose
    different candidates within a batch.

    Parameters
    ----------
    study : optuna.Study
        A study with any sampler, pruner and storage. Its direction must be "maximize", for each
        metric if there are several.
    session : Session
        The session that fits and scores the trials.
    space, metric
        As for `Session.objective`.
    n_trials : int
        Number of trials.
    batch_size : int, default=10
        Number of trials that are proposed, fitted and scored together.
    timeout : float, default=None
        No further trials start after this many seconds.
    callbacks : list of callable, default=None
        Called with the study and each finished trial, as by ``study.optimize``.

    Raises
    ------
    ValueError
        If the study minimises, or if all fits of a batch fail. The trials of such a batch are
        marked as failed in the study.

    Examples
    --------
    >>> import optuna  # doctest: +SKIP
    >>> study = optuna.create_study(direction="maximize")  # doctest: +SKIP
    >>> optimize(study, session, {"alpha": loguniform(1e-3, 1e3)}, n_trials=50)  # doctest: +SKIP
    """
    check_directions(study)
    is_int = isinstance(batch_size, Integral)
    if not (is_int and batch_size >= 1):
        raise ValueError(f"batch_size must be an int of at least 1, got {batch_size!r}.")
    values_of = session.objective(space, metric=metric).values
    _run(study, values_of, n_trials, batch_size, timeout, callbacks)


def _run(
    study: Any,
    values_of: Callable[[list[Any]], Values],
    n_trials: int,
    batch_size: int,
    timeout: float | None,
    callbacks: Sequence[Callable[[Any, Any], None]] | None = None,
) -> None:
    """Ask a study for trials, batch by batch, and report their scores to it.

    This uses the loop of `study.optimize`, so that samplers and callbacks can stop it. The loop
    knows only the first trial of each batch; the others are asked and told here.
    """
    import optuna

    state, left, callbacks = optuna.trial.TrialState, n_trials, list(callbacks or [])

    def batch(first):
        nonlocal left
        others = [study.ask() for _ in range(min(batch_size, left) - 1)]
        left -= 1 + len(others)
        try:
            own, *found = values_of([first, *others])
        except BaseException:
            for trial in others:
                study.tell(trial, state=state.FAIL)
            raise
        for trial, values in zip(others, found, strict=True):
            if values is None:
                frozen = study.tell(trial, state=state.PRUNED)
            elif np.isnan(values).any():
                frozen = study.tell(trial, state=state.FAIL)
            else:
                frozen = study.tell(trial, list(values))
            for callback in callbacks:
                callback(study, frozen)
        if own is None:
            raise optuna.TrialPruned
        return own

    n_batches = -(-n_trials // batch_size)
    study.optimize(batch, n_trials=n_batches, timeout=timeout, callbacks=callbacks)


class OptunaSearchCV(OnePassSearch, BaseSearchCV):
    """Search over candidates that an Optuna study proposes, `batch_size` of them at a time.

    Each batch is evaluated as `GridSearchCV` evaluates its candidates: those that can share a pass
    over the rows do so. The rows are moved to their device once for all batches, and sums over
    them, codes and splits are computed once. Needs Optuna: ``pip install 'gpuml[optuna]'``.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn-compatible estimator.
    param_distributions : dict or callable
        The search space, as for `gpuml.model_selection.Session.objective`: a dict from names of
        parameters to lists of choices, or to distributions of Optuna or `scipy.stats`; or a
        function that returns a dict of parameters for a trial.
    n_trials : int, default=10
        Number of candidates.
    batch_size : int, default=10
        Number of candidates that are proposed before any of them is scored. With 1, the sampler
        learns from each candidate; with more, candidates share passes.
    study : optuna.Study, default=None
        A study with the single direction "maximize", and any sampler, pruner and storage. Its
        earlier trials guide the sampler, but are not candidates of the search. None is a new study
        in memory with `TPESampler`.
    timeout : float, default=None
        No further candidates are proposed after this many seconds.
    callbacks : list of callable, default=None
        Called with the study and each finished trial; ``study.stop()`` ends the search.
    enable_pruning : bool, default=False
        Whether to report the scores of candidates that are fitted one by one to the study's pruner
        after each split. The search drops the candidates that it prunes; their other scores are
        nan. Candidates that are fitted in the same passes are never pruned, because fewer splits
        would save nothing.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As for `GridSearchCV`. With several metrics, the study optimises the one named by `refit`.
    random_state : int, RandomState instance or None, default=None
        Seed of the sampler of a new study.

    Attributes
    ----------
    study_ : optuna.Study
        The study.
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, refit_time_
        As in scikit-learn; ``cv_results_["trial"]`` has the numbers of the trials.
    scorer_, multimetric_, n_splits_, classes_, n_features_in_, feature_names_in_
        As in scikit-learn.
    plan_ : Plan
        How many fits were done in how many passes, and where.

    Raises
    ------
    ImportError
        From `fit`, if Optuna is not installed.
    ValueError
        From `fit`, if the study has another direction, if there are several metrics and `refit`
        names none of them, if all fits of a batch fail, if the pruner drops all candidates, and
        for input that scikit-learn's searches reject.

    See Also
    --------
    optimize : Runs a study in a session, without a search.

    References
    ----------
    T. Akiba, S. Sano, T. Yanase, T. Ohta, M. Koyama, "Optuna: a next-generation hyperparameter
    optimization framework", KDD (2019). J. Bergstra, R. Bardenet, Y. Bengio, B. Kegl, "Algorithms
    for hyper-parameter optimization", NeurIPS (2011).

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.optuna import OptunaSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = OptunaSearchCV(Ridge(), {"alpha": loguniform(1e-3, 1e3)}, n_trials=30)
    >>> round(search.fit(X, y).best_score_, 2)  # doctest: +SKIP
    0.48
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **BaseSearchCV._parameter_constraints,
        "param_distributions": [dict, callable],
        "n_trials": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "study": "no_validation",
        "timeout": [Interval(Real, 0, None, closed="left"), None],
        "callbacks": [list, tuple, None],
        "enable_pruning": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        n_trials=10,
        batch_size=10,
        study=None,
        timeout=None,
        callbacks=None,
        enable_pruning=False,
        scoring=None,
        n_jobs=None,
        refit: Any = True,
        cv=None,
        verbose=0,
        pre_dispatch: Any = "2*n_jobs",
        random_state=None,
        error_score: Any = np.nan,
        return_train_score=False,
    ):
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.param_distributions = param_distributions
        self.n_trials = n_trials
        self.batch_size = batch_size
        self.study = study
        self.timeout = timeout
        self.callbacks = callbacks
        self.enable_pruning = enable_pruning
        self.random_state = random_state

    def _run_search(self, evaluate_candidates):
        self.study_ = study = self._study()

        def values_of(trials):
            candidates = [suggested(trial, self.param_distributions) for trial in trials]
            numbers = {"trial": [trial.number for trial in trials]}
            pruning = Pruning(trials, self._metric())
            more = {"goes_on": pruning} if self.enable_pruning else {}
            results = evaluate_candidates(candidates, more_results=numbers, **more)
            if f"mean_test_{self._metric()}" not in results:
                raise ValueError(
                    "Of several metrics, refit must name the one that is optimised, got "
                    f"refit={self.refit!r}."
                )
            scores = results[f"mean_test_{self._metric()}"][-len(trials) :]
            return [None if i in pruning.pruned else (float(s),) for i, s in enumerate(scores)]

        n_trials, known = (
            self.n_trials,
            {trial.number for trial in study.get_trials(deepcopy=False)},
        )
        _run(study, values_of, n_trials, self.batch_size, self.timeout, self.callbacks)
        own = [t.state.name for t in study.get_trials(deepcopy=False) if t.number not in known]
        if set(own) == {"PRUNED"}:
            raise ValueError(
                f"The study's pruner ({type(study.pruner).__name__}) dropped all {len(own)} "
                "candidates, so that none of them is the best. Use a pruner that lets some finish, "
                "or enable_pruning=False."
            )

    def _same_splits(self):
        return True

    def _metric(self):
        named = isinstance(self.refit, str) and self.refit != ONE_ERROR
        return self.refit if named else "score"

    def _study(self):
        try:
            import optuna
        except ImportError as error:
            raise ImportError(
                "OptunaSearchCV needs Optuna: pip install 'gpuml[optuna]'."
            ) from error
        if self.study is None:
            random = check_random_state(self.random_state)
            sampler = optuna.samplers.TPESampler(seed=int(random.randint(2**31 - 1)))
            return optuna.create_study(direction="maximize", sampler=sampler)
        check_directions(self.study)
        if len(self.study.directions) > 1:
            raise ValueError(
                "The study must have one direction, since refit names one metric, got "
                f"{len(self.study.directions)}. Use gpuml.optuna.optimize for several metrics."
            )
        return self.study

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        with warnings.catch_warnings():
            if self.enable_pruning:
                # Candidates that were pruned have nan scores on their other splits.
                words = "One or more of the (test|train) scores are non-finite"
                warnings.filterwarnings("ignore", words, UserWarning)
            return super()._format_results(candidate_params, n_splits, out, more_results)

    def explain(self, X, y=None, **params):
        """Explain what `fit` will do with the first batch; see `GridSearchCV.explain`."""
        # The study must not get these candidates: it would wait for their results.
        return OnePassSearch.explain(clone(self).set_params(study=None), X, y, **params)
