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

# Scores of trials by metric; None of those that were pruned.
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

    As ``study.optimize(session.objective(space), n_trials)``, with trials that share their passes
    over the rows: the sampler proposes `batch_size` of them before it learns how any of these
    scored. Samplers that know of running trials, as those of Optuna do, keep them apart.

    Parameters
    ----------
    study : optuna.Study
        With any sampler, pruner and storage; of direction "maximize", or one for each metric.
    session : Session
    space, metric
        As for `Session.objective`.
    n_trials : int
    batch_size : int, default=10
    timeout : float, default=None
        Seconds after which no further trials are asked for.
    callbacks : list of callable, default=None
        Called with the study and each finished trial, as by ``study.optimize``.

    Raises
    ------
    ValueError
        For a study that minimises. If all fits of a batch fail; its trials are told to the study as
        failed.

    Examples
    --------
    >>> import optuna  # doctest: +SKIP
    >>> study = optuna.create_study(direction="maximize")  # doctest: +SKIP
    >>> optimize(study, session, {"alpha": loguniform(1e-3, 1e3)}, n_trials=50)  # doctest: +SKIP
    """
    check_directions(study)
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
    """Ask a study for trials, batch by batch, and tell it what became of them.

    In the study's own loop, which samplers and callbacks may end, with one of each batch as the
    trial that is evaluated.
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
    """Search over candidates that a study of Optuna proposes, `batch_size` of them at a time.

    Each batch is evaluated as `GridSearchCV` evaluates its candidates: those that can share a pass
    over the rows do so, rows are brought to their device once for all batches, and what is known
    of them (sums, codes, splits) serves all batches. Needs Optuna: ``pip install 'gpuml[optuna]'``.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn-compatible estimator.
    param_distributions : dict or callable
        The space, as for `gpuml.model_selection.Session.objective`: names of parameters to lists
        of choices or to distributions of Optuna or of `scipy.stats`, or a function of a trial that
        makes a dict of parameters.
    n_trials : int, default=10
        Number of candidates.
    batch_size : int, default=10
        Candidates that are proposed before any of them is scored. 1 lets the sampler learn from
        each; more of them share passes.
    study : optuna.Study, default=None
        Of one direction, "maximize"; with any sampler, pruner and storage. Trials that it has
        already guide the sampler, and are no candidates. None is a new one in memory with
        `TPESampler`.
    timeout : float, default=None
        Seconds after which no further candidates are proposed.
    callbacks : list of callable, default=None
        Called with the study and each finished trial; ``study.stop()`` ends the search.
    enable_pruning : bool, default=False
        Whether candidates that are fitted one by one are reported to the study's pruner after each
        split, and dropped where it says so; their other scores are nan. Candidates that are fitted
        in the same passes are not: a split less would save nothing.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As for `GridSearchCV`. Of several metrics, the one named by `refit` is optimised.
    random_state : int, RandomState instance or None, default=None
        Seed of the sampler of a new study.

    Attributes
    ----------
    study_ : optuna.Study
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, refit_time_
        As scikit-learn's; ``cv_results_["trial"]`` has the numbers of the trials.
    scorer_, multimetric_, n_splits_, classes_, n_features_in_, feature_names_in_
        As scikit-learn's.
    plan_ : Plan
        How many fits were done in how many passes, and where.

    Raises
    ------
    ImportError
        From `fit`, without Optuna.
    ValueError
        From `fit`, for a study of another direction, for several metrics without a name in `refit`,
        if all fits of a batch fail, if the pruner drops all candidates, and for what scikit-learn's
        searches reject.

    See Also
    --------
    optimize : A study over a session, without a search.

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
                # Splits that a candidate was not fitted on.
                words = "One or more of the (test|train) scores are non-finite"
                warnings.filterwarnings("ignore", words, UserWarning)
            return super()._format_results(candidate_params, n_splits, out, more_results)

    def explain(self, X, y=None, **params):
        """Tell what `fit` is going to do with the first batch; see `GridSearchCV.explain`."""
        # The candidates are not told to a study, which would wait for their results.
        return OnePassSearch.explain(clone(self).set_params(study=None), X, y, **params)
