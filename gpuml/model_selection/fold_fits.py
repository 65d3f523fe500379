"""Fits of candidates on one split after the other, where they are not all fitted at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from gpuml._arrays.device_copies import several_fits
from gpuml._settings.config import config_context, get_config
from gpuml._settings.progress import Ticks
from gpuml.data import AnySplit
from gpuml.model_selection.last_steps import fit_growing, grows
from gpuml.model_selection.one_by_one import Progress, Task, fit_one, take_fold
from gpuml.model_selection.prefixes import (
    fit_pipelines,
    prefix_order,
    shares_prefixes,
)
from gpuml.model_selection.residence import Residence

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
    `settings` are gpuml's, which a worker process does not inherit. Where the rows are in CPU
    memory and an estimator computes on a device, a fold goes there once for all candidates.
    """
    with config_context(**settings), several_fits():
        fold = take_fold(estimator, X, y, split, task, shared=len(candidates) > 1)
        if shares_prefixes(estimator, candidates):
            return fit_pipelines(estimator, fold, candidates, task)
        if grows(estimator, [params for params, _ in candidates]):
            return fit_growing(estimator, fold, candidates, task)
        return [fit_one(estimator, fold, params, where, task) for params, where in candidates]


def fit_splits(
    estimator: Any,
    rows: Residence,
    params: Sequence[Mapping[str, Any]],
    parallel: Parallel,
    advance: Callable[[int], None],
) -> tuple[list[list[dict[str, Any]]], bool]:
    """Fit and score candidates on all splits of some rows.

    Parameters
    ----------
    estimator : estimator
    rows : Residence
    params : sequence of dicts
    parallel : Parallel
        Runs a call of `fit_fold` for each split, or several where workers would idle.
    advance : callable
        Is told of each fit that is done.

    Returns
    -------
    table : list of list of dict
        Results of each candidate, split after split.
    by_task : bool
        Whether the candidates of a split were divided over calls.
    """
    n_splits, ticks = len(rows.splits), Ticks(advance)
    order = chunk_order(estimator, params)
    chunks = [[order[i] for i in chunk] for chunk in _chunks(len(params), n_splits, parallel)]
    work = [(s, chunk) for s in range(n_splits) for chunk in chunks]
    task = replace(rows.task, on_end=ticks)
    settings = {**get_config(), "progress": False}  # one bar is enough

    def candidates_of(split, chunk):
        return [(params[c] or None, Progress(split, n_splits, c, len(params))) for c in chunk]

    done = parallel(
        delayed(fit_fold)(
            estimator, rows.X, rows.y, rows.splits[s], candidates_of(s, chunk), task, settings
        )
        for s, chunk in work
    )
    table: list[list[dict[str, Any]]] = [[{}] * n_splits for _ in params]
    n_done = 0
    for (s, chunk), results in zip(work, done, strict=True):
        n_done += len(chunk)
        ticks.up_to(n_done)
        for c, result in zip(chunk, results, strict=True):
            table[c][s] = result
    return table, len(chunks) > 1


def _chunks(n_candidates, n_splits, parallel):
    """Candidates that share the rows of a split: all of them, or fewer where workers would idle."""
    n_jobs = effective_n_jobs(parallel.n_jobs)
    per_split = min(n_candidates, max(1, -(-n_jobs // n_splits)))
    return [list(part) for part in np.array_split(np.arange(n_candidates), per_split)]


def chunk_order(estimator: Any, params: Sequence[Mapping[str, Any]]) -> list[int]:
    """An order of candidates in which those that have work in common are neighbours."""
    if shares_prefixes(estimator, params):
        return list(prefix_order(estimator, params))
    return list(range(len(params)))
