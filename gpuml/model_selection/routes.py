"""Which way the candidates of a split are fitted where they are not all fitted at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuml._config import config_context
from gpuml._device_copies import several_fits
from gpuml.data import AnySplit
from gpuml.model_selection.last_steps import fit_growing, grows
from gpuml.model_selection.one_by_one import Progress, Task, fit_one, take_fold
from gpuml.model_selection.prefixes import fit_pipelines, prefix_order, shares_prefixes

Candidates = list[tuple[Mapping[str, Any] | None, Progress]]


def fit_fold(
    estimator: Any,
    X: Any,
    y: Any,
    split: AnySplit,
    candidates: Candidates,
    task: Task,
    settings: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Fit and score candidates on one split; results as of scikit-learn's `_fit_and_score`.

    Those that were not made by a fit of their own say how, as "made" (see `steps_of`).
    `settings` are gpuml's, which a worker process does not inherit. Where the rows are in host
    memory and an estimator computes on a device, a fold goes there once for all candidates.
    """
    with config_context(**settings), several_fits():
        fold = take_fold(estimator, X, y, split, task, shared=len(candidates) > 1)
        if shares_prefixes(estimator, candidates):
            return fit_pipelines(estimator, fold, candidates, task)
        if grows(estimator, [params for params, _ in candidates]):
            return fit_growing(estimator, fold, candidates, task)
        return [fit_one(estimator, fold, params, where, task) for params, where in candidates]


def chunk_order(estimator: Any, params: Sequence[Mapping[str, Any]]) -> list[int]:
    """An order of candidates in which those that have work in common are neighbours."""
    if shares_prefixes(estimator, params):
        return list(prefix_order(estimator, params))
    return list(range(len(params)))
