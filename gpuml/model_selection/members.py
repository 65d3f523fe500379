"""Candidates as models to be fitted, and the rows that several of them share."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from gpuml._sklearn import _print_elapsed_time
from gpuml.model_selection.one_by_one import (
    Fold,
    Progress,
    Task,
    failed_fit,
    finish,
)
from gpuml.model_selection.own_rows import private_params, private_rows, private_values
from gpuml.model_selection.residence import configured

Candidate = tuple[Mapping[str, Any] | None, Progress]


@dataclass(frozen=True)
class Member:
    """A candidate, and the unfitted model for it.

    Attributes
    ----------
    params, where
        The candidate and its place, for what is printed.
    model : estimator or "passthrough"
        A clone with the candidate's parameters, not fitted. Several last steps are a pipeline.
    fit_params : mapping
        What its `fit` takes besides X and y.
    assemble : callable or None
        Makes the estimator that the user knows, such as a pipeline, of the fitted model. None is
        the model itself.
    message : str or None
        What is printed with the seconds of the fit.
    n_last : int
        How many last steps the model is of what `assemble` gives.
    shares : bool
        Whether the fitted model, or a step of it, goes on to be used for other members.
    """

    params: Mapping[str, Any] | None
    where: Progress
    model: Any
    fit_params: Mapping[str, Any]
    assemble: Callable[[Any], Any] | None = None
    message: str | None = None
    n_last: int = 1
    shares: bool = True

    def fit(self, model: Any, X: Any, y: Any, **more: Any) -> None:
        """Fit a model with this member's fit parameters, and further ones."""
        target = () if y is None else (private_values(y),)
        params = private_params(self.fit_params, X)
        with _print_elapsed_time("Pipeline", self.message):
            model.fit(private_rows(X, model), *target, **params, **more)
            finish(X)

    def whole(self, fitted: Any) -> Any:
        """The estimator that the user knows, with the fitted model in it."""
        return fitted if self.assemble is None else self.assemble(fitted)

    def result(self, fitted: Any, task: Task, result: dict[str, Any]) -> dict[str, Any]:
        """A result, with the estimator if the task returns estimators."""
        if task.return_estimator:
            whole = self.whole(fitted)
            result["estimator"] = deepcopy(whole) if self.shares else whole
        return result

    def failure(self, error: str, fold: Fold, task: Task, seconds: float = 0.0) -> dict[str, Any]:
        """The result of a fit that failed."""
        return self.result(self.model, task, failed_fit(error, fold.n_test, task, seconds))


def member_of(
    estimator: Any,
    fold: Fold,
    params: Mapping[str, Any] | None,
    where: Progress,
    *,
    shares: bool = True,
) -> Member:
    """A member for a candidate that is a whole estimator."""
    model = configured(estimator, params or {})
    return Member(params, where, model, fold.fit_params, shares=shares)


@dataclass(frozen=True)
class Stage:
    """Rows for the models, and the fold that they come from.

    Attributes
    ----------
    fold : Fold
        Rows as the user has them.
    X_train : rows
        What the models are fitted to.
    seen : dict of str to rows
        What the models see of the held-out ("test") and training ("train") rows when they are
        scored. A part that is missing is scored by the whole estimator on the fold's rows.
    """

    fold: Fold
    X_train: Any
    seen: Mapping[str, Any] = field(default_factory=dict)
