"""Sessions: candidates are evaluated one after another on rows that are prepared once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from gpuml._arrays.small_arrays import small_arrays
from gpuml._sklearn import (
    BaseSearchCV,
    _insert_error_scores,
    _warn_or_raise_about_fit_failures,
)
from gpuml.metrics.scorer import check_scoring
from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.changed_rows import with_rows, without_rows
from gpuml.model_selection.choice import split_scores
from gpuml.model_selection.evaluate import Evaluator
from gpuml.model_selection.one_by_one import check_error_score
from gpuml.model_selection.results import results_frame
from gpuml.model_selection.trials import GoesOn, Objective, Space, in_turn
from gpuml.model_selection.validation import job_of


class Session:
    """Evaluate candidates one after another, on rows that are prepared once.

    A search knows all its candidates in advance. If the next candidate depends on the last result
    (an optimiser, a notebook), use a session. It keeps the data that a search prepares: the rows on
    their device, the splits, codes of categories, and sums over the rows. The first `evaluate`
    reads the rows; later ones need no pass over them if the models only need sums.

    Do not change the data while the session is open.

    Parameters
    ----------
    estimator : estimator
        Candidates set its parameters on clones; the estimator itself does not change.
    X : array-like of shape (n_samples, n_features)
        In any array library; data on a device stays there.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
    groups, scoring, cv, n_jobs, verbose, params, pre_dispatch, return_train_score, error_score
        As for `cross_validate`. The session makes the splits once, and compares all candidates on
        them.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        Results of all candidates so far, as in `GridSearchCV`.
    results_ : DataFrame
        A row for each candidate so far, the best one first.
    n_splits_ : int
    plan_ : Plan
        How many fits were done in how many passes, and where.

    Raises
    ------
    ValueError
        If `cross_validate` would raise it before fitting, or if the session is closed.

    See Also
    --------
    GridSearchCV : Search over candidates that are known in advance.
    gpuml.optuna.OptunaSearchCV : A search whose candidates Optuna proposes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import Session
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with Session(Ridge(), X, y, cv=5) as session:
    ...     first = session.evaluate([{"alpha": 0.01}, {"alpha": 1.0}])
    ...     second = session.evaluate([{"alpha": 0.1}])
    ...     model = session.refit()
    ...     print(session.plan_.n_fits, session.plan_.n_passes)
    20 1
    >>> first["mean_test_score"].round(3), second["mean_test_score"].round(3), model.alpha
    (array([0.481, 0.41 ]), array([0.48]), 0.01)
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        params: Mapping[str, Any] | None = None,
        pre_dispatch: Any = "2*n_jobs",
        return_train_score: bool = False,
        error_score: Any = np.nan,
    ):
        check_error_score(error_score)
        self.scoring = scoring
        self._has_groups = groups is not None or "groups" in (params or {})
        self._params: list[Mapping[str, Any]] = []
        self._results: list[dict[str, Any]] = []
        self._steps: tuple = ()
        job = job_of(
            estimator,
            X,
            y,
            check_scoring(estimator, scoring, raise_exc=error_score == "raise"),
            "Session",
            groups=groups,
            cv=cv,
            params=params,
            n_jobs=n_jobs,
            pre_dispatch=pre_dispatch,
            return_train_score=return_train_score,
            error_score=error_score,
            verbose=verbose,
            numbered=True,
        )
        self._open: Evaluator | None = Evaluator(job)
        # Without values per row.
        self._task = replace(job.task, fit_params={}, score_params={})
        self.n_splits_ = len(job.splits)

    @property
    def _evaluator(self) -> Evaluator:
        if self._open is None:
            raise ValueError("This Session is closed. Make another one with the same rows.")
        return self._open

    @property
    def plan_(self) -> Plan:
        """How many fits were done so far, in how many passes, and where."""
        now = () if self._open is None else tuple(self._open.steps)
        return Plan(self._steps + now)

    @property
    def results_(self) -> Any:
        """All candidates so far as a DataFrame, the best one first, as in `GridSearchCV`."""
        self._check_evaluated()
        return results_frame(self)

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Results of all candidates so far, as in `GridSearchCV`."""
        self._check_evaluated()
        return self._table(self._params, self._results)

    def evaluate(self, candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Fit and score candidates on all splits, together if possible.

        Parameters
        ----------
        candidates : sequence of dict
            Parameters of each candidate by name, nested names as ``step__alpha``. All other
            parameters are those of the estimator.

        Returns
        -------
        results : dict of ndarrays
            `cv_results_` of these candidates, ranked among themselves.

        Raises
        ------
        ValueError
            If all fits fail, if there are no candidates, or after `close`.
        TypeError
            If `candidates` is anything but a list of dicts.
        """
        if isinstance(candidates, Mapping):
            raise TypeError(
                "evaluate takes a list of dicts of parameters, got one dict: write "
                f"evaluate([{dict(candidates)!r}]), or list(ParameterGrid(...)) for a grid."
            )
        candidates = list(candidates) if isinstance(candidates, Iterable) else [candidates]
        others = [each for each in candidates if not isinstance(each, Mapping)]
        if others:
            raise TypeError(f"evaluate takes a list of dicts of parameters, got {others[0]!r}.")
        candidates = [dict(each) for each in candidates]
        if not candidates:
            raise ValueError("No candidates: evaluate takes a list of dicts of parameters.")
        return self._table(candidates, self.results_of(candidates))

    def refit(self, params: Mapping[str, Any] | None = None, *, metric: str = "score") -> Any:
        """Fit a candidate to all rows, from sums that the session already has if possible.

        Parameters
        ----------
        params : dict, default=None
            Parameters of the candidate; None is the best one so far.
        metric : str, default="score"
            With several metrics, the one that decides which candidate is best.

        Returns
        -------
        model : estimator
            The fitted model.

        Raises
        ------
        ValueError
            If `params` is None and nothing was evaluated yet, if there is no such metric, or after
            `close`.
        """
        evaluator = self._evaluator
        if params is None:
            scores = split_scores(self.cv_results_, metric).mean(axis=1)
            params = self._params[int(np.argmax(np.where(np.isnan(scores), -np.inf, scores)))]
        if not isinstance(params, Mapping):
            raise TypeError(f"params must be a dict of parameters, got {params!r}.")
        with small_arrays():
            evaluator.evaluate([dict(params)])
            model = evaluator.refit(evaluator.n_done - 1)
            evaluator.forget_models()
        return model

    def objective(self, space: Space, *, metric: str | Sequence[str] = "score") -> Objective:
        """A function for Optuna's ``study.optimize``, which returns the mean score of a trial.

        Parameters
        ----------
        space : dict or callable
            The values of each parameter by its name: a list of choices, a distribution of Optuna
            (``FloatDistribution``, ``IntDistribution``, ``CategoricalDistribution``), or the range
            of a ``uniform``, ``loguniform`` or ``randint`` of `scipy.stats`. Or a function that
            takes a trial and returns a dict of parameters.
        metric : str or sequence of str, default="score"
            With several metrics, the one to return. Pass several for a study with as many
            directions.

        Returns
        -------
        objective : callable
            Higher is better: ``study = optuna.create_study(direction="maximize")``. If candidates
            are fitted one by one, each split is reported to the study's pruner.
            `gpuml.optuna.optimize` evaluates several trials at a time, which share work.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from gpuml.linear_model import Ridge
        >>> from gpuml.model_selection import Session
        >>> session = Session(Ridge(), *load_diabetes(return_X_y=True))
        >>> objective = session.objective({"alpha": [0.1, 1.0]})
        >>> # study.optimize(objective, n_trials=100)
        """
        return Objective(self, space, metric)

    def add_rows(
        self,
        X: Any,
        y: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        test_fold: Any = None,
    ) -> Self:
        """Append rows; later evaluations include them.

        For least-squares models, the session adds the second moments of the new rows to those it
        has. For all other models (iterative ones, tables, other sums), the next `evaluate` reads
        all rows again. Old and new rows are copied once into one array.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)
            Of the same kind as the session's X: library, device and columns.
        y : array-like of shape (n_new,) or (n_new, n_outputs), default=None
        params : dict, default=None
            Entries of the session's `params` with one value per row, such as `sample_weight`.
        test_fold : int array-like of shape (n_new,), default=None
            As in `sklearn.model_selection.PredefinedSplit`: the split that holds out each row,
            while all other splits train on it; -1 for rows that all splits train on. None gives
            new rows to the splits that hold out fewest, class by class for classifiers. This needs
            splits that hold out each row exactly once, without `groups`.

        Returns
        -------
        self : Session

        Raises
        ------
        ValueError
            If the rows are of another kind, if there is no such split, or if `test_fold` is None
            but needed.
        """
        deals = not self._has_groups
        self._go_on(with_rows(self._evaluator, X, y, params or {}, test_fold, deals=deals))
        return self

    def remove_rows(self, rows: Any) -> Self:
        """Remove rows; the rows after them move up.

        For least-squares models, the second moments of these rows are subtracted. If they make up
        nearly all of a sum, all rows are read again instead.

        Parameters
        ----------
        rows : int array-like of shape (n_removed,), or bool array-like of shape (n_samples,)
            Row numbers as they are now, or a mask.

        Returns
        -------
        self : Session

        Raises
        ------
        ValueError
            If no rows are left.
        IndexError
            If there are no such rows.
        """
        self._go_on(without_rows(self._evaluator, rows))
        return self

    def close(self) -> None:
        """Release the rows and their sums; `cv_results_` and `plan_` stay."""
        self._steps, self._open = self.plan_.steps, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_evaluated(self):
        if not self._params:
            raise NotFittedError(
                "Nothing was evaluated yet: call evaluate first. To refit, you may pass params."
            )

    def _go_on(self, evaluator):
        self._steps, self._open = self.plan_.steps, evaluator

    def results_of(
        self, candidates: Sequence[Mapping[str, Any]], goes_on: GoesOn | None = None
    ) -> list[dict[str, Any]]:
        """The results of each candidate on each split; see `evaluate` and `in_turn`."""
        evaluator, error_score = self._evaluator, self._task.error_score
        with small_arrays():
            out = in_turn(evaluator, candidates, goes_on)
        evaluator.forget_models()
        _warn_or_raise_about_fit_failures(out, error_score)
        if callable(self.scoring):
            _insert_error_scores(out, error_score)
        self._params += candidates
        self._results += out
        return out

    def _table(self, candidates, out):
        return BaseSearchCV._format_results(self._task, list(candidates), self.n_splits_, out)
