"""Candidates that are proposed one by one: trials of Optuna, which may stop between splits.

This module does not import Optuna; it knows trials and distributions by their methods.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuml.model_selection.evaluate import Evaluator, Results
from gpuml.model_selection.interrupted import not_fitted
from gpuml.model_selection.route import AtOnce

if TYPE_CHECKING:
    from gpuml.model_selection.session import Session

# ``goes_on(position, scores)`` gets a candidate's scores on the splits so far.
GoesOn = Callable[[int, list[Any]], bool]
# Values of each parameter, or a function that makes parameters from a trial.
Space = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
# Types that Optuna's storages keep unchanged.
PLAIN = (bool, int, float, str, type(None))


def in_turn(
    evaluator: Evaluator, candidates: Sequence[Mapping[str, Any]], goes_on: GoesOn | None
) -> Results:
    """Results of candidates; `goes_on` decides after each split whether a candidate continues.

    They have the form of ``evaluator.evaluate``; scores of splits without a fit are nan. If all
    candidates are fitted in the same passes, `goes_on` is not called, since fewer splits would save
    nothing.
    """
    job = evaluator.job
    if goes_on is None or all(isinstance(each, AtOnce) for each in evaluator.routes_of(candidates)):
        return evaluator.evaluate(candidates)
    table: list[Results] = [[] for _ in candidates]
    alive = list(range(len(candidates)))
    for split in job.splits:
        one = evaluator.with_splits([split])
        results = one.evaluate([candidates[position] for position in alive])
        evaluator.steps += one.steps
        for position, result in zip(alive, results, strict=True):
            table[position].append(result)
        if split is not job.splits[-1]:
            alive = [p for p in alive if goes_on(p, [r["test_scores"] for r in table[p]])]
        if not alive:
            break
    evaluator.note(candidates)
    for own in table:
        own += [not_fitted(own[0], seconds=0.0)] * (len(job.splits) - len(own))
    return [result for own in table for result in own]


def suggested(trial: Any, space: Space) -> dict[str, Any]:
    """Parameters of a trial, as its study proposes them.

    Raises
    ------
    TypeError
        For values of a space that are no range and no choice.
    """
    if callable(space):
        return dict(space(trial))
    return {name: _suggested(trial, name, values) for name, values in space.items()}


def _suggested(trial, name, values):
    choices = getattr(values, "choices", values)
    if isinstance(choices, list | tuple | np.ndarray):
        return _chosen(trial, name, list(choices))
    if all(hasattr(values, attribute) for attribute in ("low", "high", "log", "step")):
        whole = isinstance(values.low, int)
        suggest = trial.suggest_int if whole else trial.suggest_float
        return suggest(name, values.low, values.high, step=values.step, log=values.log)
    family = getattr(getattr(values, "dist", None), "name", None)
    if family not in ("loguniform", "reciprocal", "uniform", "randint"):
        raise TypeError(
            f"The values of {name!r} must be a list of choices, a distribution of Optuna, or a "
            f"frozen uniform, loguniform or randint of scipy.stats, got {values!r}."
        )
    low, high = values.support()
    if family == "randint":
        return trial.suggest_int(name, int(low), int(high))
    return trial.suggest_float(name, float(low), float(high), log=family != "uniform")


def _chosen(trial, name, choices):
    """A choice; Optuna gets the text of values other than numbers and strings."""
    choices = [each.item() if isinstance(each, np.generic) else each for each in choices]
    if all(isinstance(each, PLAIN) for each in choices):
        return trial.suggest_categorical(name, choices)
    words = {repr(each): each for each in choices}
    if len(words) < len(choices):
        raise ValueError(f"Choices of {name!r} cannot be told apart by their repr: {choices!r}.")
    return words[trial.suggest_categorical(name, list(words))]


def scores_of(results: Results, metric: str) -> list[float]:
    """Scores of one metric, by candidate and split."""
    scores = [result["test_scores"] for result in results]
    if scores and isinstance(scores[0], dict):
        if metric not in scores[0]:
            names = ", ".join(scores[0])
            raise ValueError(f"metric must be one of {names}, got {metric!r}.")
        return [each[metric] for each in scores]
    if metric != "score":
        raise ValueError(f"There is one metric, whose name is 'score', got {metric!r}.")
    return scores


def check_directions(study: Any) -> None:
    """Raise ValueError for a study that minimises.

    Raises
    ------
    ValueError
        If one of its directions is "minimize", which is Optuna's default.
    """
    directions = [direction.name.lower() for direction in study.directions]
    if set(directions) != {"maximize"}:
        raise ValueError(
            "Higher scores are better, those of 'neg_mean_squared_error' and the like as well: use "
            f"create_study(direction='maximize'), got direction {', '.join(map(repr, directions))}."
        )


class Pruning:
    """Reports mean scores to the pruners of the studies of trials, and records pruned trials."""

    def __init__(self, trials: Sequence[Any], metric: str):
        self._trials, self._metric = trials, metric
        self.pruned: set[int] = set()

    def __call__(self, position: int, scores: list[Any]) -> bool:
        """As `GoesOn`."""
        trial = self._trials[position]
        own = scores_of([{"test_scores": each} for each in scores], self._metric)
        trial.report(float(np.mean(own)), len(own))
        if trial.should_prune():
            self.pruned.add(position)
        return position not in self.pruned


@dataclass(frozen=True)
class Objective:
    """Mean scores of trials of a study, from a session; see `Session.objective`."""

    session: "Session"
    space: Space
    metric: str | Sequence[str] = "score"

    def __call__(self, trial: Any) -> Any:
        """The score of a trial, or one for each metric; nan, which fails it, if a fit failed.

        Raises
        ------
        optuna.TrialPruned
            If the pruner of the study says so.
        ValueError
            If the study minimises.
        """
        if hasattr(trial, "study"):  # trials with fixed parameters have no study
            check_directions(trial.study)
        found = self.values([trial])[0]
        if found is None:
            import optuna

            raise optuna.TrialPruned
        return found[0] if isinstance(self.metric, str) else found

    def values(self, trials: Sequence[Any]) -> list[tuple[float, ...] | None]:
        """Scores of each trial by metric, all fitted together if possible; None if pruned."""
        metrics = (self.metric,) if isinstance(self.metric, str) else tuple(self.metric)
        candidates = [suggested(trial, self.space) for trial in trials]
        pruning = Pruning(trials, metrics[0])
        # Optuna cannot prune with several metrics.
        results = self.session.results_of(candidates, pruning if len(metrics) == 1 else None)
        n = self.session.n_splits_
        return [
            None
            if i in pruning.pruned
            else tuple(float(np.mean(scores_of(results[i * n : (i + 1) * n], m))) for m in metrics)
            for i in range(len(trials))
        ]
