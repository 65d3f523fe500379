"""Fits of candidates split by split, for candidates that are not all fitted together.

If workers divide the candidates, they divide them between `families`.
"""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from joblib import cpu_count, effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from gpuml._arrays.device_copies import several_fits
from gpuml._arrays.threads import openmp_threads
from gpuml._settings.config import config_context, get_config
from gpuml._settings.progress import Ticks
from gpuml.data import AnySplit
from gpuml.extending import AffineStep
from gpuml.model_selection.boosters import grows_trees, uses_threads
from gpuml.model_selection.candidates import (
    BY_METHOD,
    KERNELS,
    NOTHING,
    ON_EACH_FOLD,
    SAME,
    Made,
    Refusal,
)
from gpuml.model_selection.grown import Grown
from gpuml.model_selection.kernel_machines import VARYING, one_kernel_key, reads_kernels
from gpuml.model_selection.last_steps import fit_alone, fit_members
from gpuml.model_selection.members import Stage, member_of
from gpuml.model_selection.one_by_one import Fold, Progress, Task, announce_end, take_fold
from gpuml.model_selection.one_fits import differing, one_fit_key, one_fit_kind
from gpuml.model_selection.prefixes import (
    fit_pipelines,
    prefix_order,
    shares_prefixes,
)
from gpuml.model_selection.residence import Residence, configured
from gpuml.model_selection.warned import Warned, recorded, tell
from gpuml.protocol import group_candidates, supports_multifit
from gpuml.resampling.keys import multifit_key, value_key
from gpuml.resampling.multifit import offers_multifit

Candidates = list[tuple[Mapping[str, Any] | None, Progress]]
NOTHING_KNOWN: Mapping[tuple[int, int], dict[str, Any]] = MappingProxyType({})


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
    task = task.on(candidates[0][1].split)
    with config_context(**settings), several_fits(), openmp_threads(task.threads):
        fold = take_fold(estimator, X, y, split, task, shared=len(candidates) > 1)
        if shares_prefixes(estimator, candidates):
            return fit_pipelines(estimator, fold, candidates, task)
        if len(candidates) > 1 and _may_share(estimator):
            return fit_sharing(estimator, fold, candidates, task)
        members = [member_of(estimator, fold, *each, shares=False) for each in candidates]
        return [fit_alone(member, fold, task) for member in members]


def fit_sharing(
    estimator: Any, fold: Fold, candidates: Candidates, task: Task
) -> list[dict[str, Any]]:
    """Fit and score candidates of an estimator whose fits may share work.

    As `fit_fold` for each of them; candidates that are read off one fit share its seconds evenly.
    """
    members = [member_of(estimator, fold, *each) for each in candidates]
    results = {}
    refused: dict[int, Refusal] = {}
    for i, result in fit_members(members, Stage(fold, fold.X_train), task, refused):
        result["made"] = result.get("made", Made()).after(refused.get(i, NOTHING))
        announce_end(members[i].params, members[i].where, task, result)
        results[i] = result
    return [results[i] for i in range(len(members))]


def shared_fits(estimator: Any, params: Sequence[Mapping[str, Any] | None]) -> str | None:
    """The work that `fit_sharing` shares between candidates of an estimator; None for none."""
    if len(params) < 2 or not _may_share(estimator):
        return None
    if reads_kernels(estimator):
        return KERNELS if _some_alike(params, VARYING) else None
    if supports_multifit(estimator):
        alike = _some_alike(params, estimator.__sklearn_multifit_params__)
        return f"{ON_EACH_FOLD}, {BY_METHOD}" if alike else None
    kind = one_fit_kind(estimator)
    assert kind is not None  # it may share fits
    groups: dict[Hashable, list[Any]] = {}
    for each in params:
        try:
            model = configured(estimator, each or {})
            key = one_fit_key(model)
        except Exception:
            continue  # its fit will raise the error
        if key is not None:
            groups.setdefault(key, []).append(model)
    shared = [models for models in groups.values() if len(models) > 1]
    if not shared:
        return None
    names = {name for models in shared for name in differing(models, kind)}
    return ", ".join(kind.words(names)) or SAME


def _some_alike(params, names):
    """Whether some candidates differ in parameters of these names only."""
    groups = group_candidates([each or {} for each in params], names)
    return any(len(group.positions) > 1 for group in groups)


def _may_share(estimator):
    """Whether fits of an estimator may share work, besides the steps of pipelines."""
    return (
        one_fit_kind(estimator) is not None
        or reads_kernels(estimator)
        or supports_multifit(estimator)
    )


def fit_splits(
    estimator: Any,
    rows: Residence,
    params: Sequence[Mapping[str, Any]],
    parallel: Parallel,
    advance: Callable[[int], None],
    note: Callable[[int, int, dict[str, Any]], None],
    grown: Grown | None = None,
    known: Mapping[tuple[int, int], dict[str, Any]] = NOTHING_KNOWN,
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
    note : callable
        ``note(candidate, split, result)`` is told of it too: of those in this process when they are
        done, of others when they come back.
    grown : Grown, optional
        Ensembles of the round before, in adaptive searches; those of this one are added.
    known : dict of (int, int) to dict, optional
        Results by candidate and split that need no fit.

    Returns
    -------
    table : list of list of dict
        Results of each candidate, split after split.
    by_task : bool
        Whether the candidates of a split were divided over calls.
    """
    n_splits, ticks = len(rows.splits), _Ends(advance, note)
    fit = fit_fold if _in_this_process(parallel) else _fit_elsewhere
    n_jobs = effective_n_jobs(parallel.n_jobs)
    chunks = _chunks(estimator, params, max(1, -(-n_jobs // n_splits)))
    missing = [
        (s, [c for c in chunk if (c, s) not in known]) for s in range(n_splits) for chunk in chunks
    ]
    work = [(s, chunk) for s, chunk in missing if chunk]
    # Forests use no more cores than processes would.
    n_cores = n_jobs if grows_trees(estimator) else cpu_count()
    n_done = len(known)
    ticks.up_to(n_done)
    before = None if grown is None else grown.before(estimator, params, n_splits)
    tasks = [
        replace(
            rows.task,
            on_end=ticks,
            grown=None if before is None else before[s],
            threads=threads,
        )
        for (s, _), threads in zip(work, threads_of_each(len(work), n_jobs, n_cores), strict=True)
    ]
    settings = {**get_config(), "progress": False}  # one progress bar is enough

    def candidates_of(split, chunk):
        return [(params[c] or None, Progress(split, n_splits, c, len(params))) for c in chunk]

    done = parallel(
        delayed(fit)(
            estimator, rows.X, rows.y, rows.splits[s], candidates_of(s, chunk), task, settings
        )
        for (s, chunk), task in zip(work, tasks, strict=True)
    )
    table = [[known.get((c, s), {}) for s in range(n_splits)] for c in range(len(params))]
    told: set[Warned] = set()
    for (s, chunk), results in zip(work, done, strict=True):
        if isinstance(results, Elsewhere):
            tell(results.warned, told)
            results = results.results
        n_done += len(chunk)
        ticks.up_to(n_done)
        for c, result in zip(chunk, results, strict=True):
            table[c][s] = result
            note(c, s, result)
    if grown is not None:
        grown.keep(estimator, params, table)
    return table, len(chunks) > 1


class Elsewhere(NamedTuple):
    """Results of `fit_fold` in another process, and the warnings that it raised."""

    results: list[dict[str, Any]]
    warned: list[Warned]


def _fit_elsewhere(*args):
    with recorded(warnings.filters) as warned:
        return Elsewhere(fit_fold(*args), warned)


def _in_this_process(parallel):
    shares = getattr(parallel._backend, "supports_sharedmem", False)
    return shares or effective_n_jobs(parallel.n_jobs) < 2


class _Ends(Ticks):
    """Count the fits that end in this process, and record their results."""

    def __init__(self, advance: Callable[[int], None], note: Callable[..., None]):
        super().__init__(advance)
        self._note = note

    def __call__(self, *told: Any) -> None:
        where, result = told
        self._note(where.candidate, where.split, result)
        super().__call__()


def workers_for(
    rows: Residence, n_jobs: int | None, pre_dispatch: int | str
) -> tuple[Parallel, str]:
    """The pool for fits, and its description. Rows on a device go to no other process."""
    options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
    parallel = Parallel(**options)
    several = effective_n_jobs(parallel.n_jobs) > 1
    if rows.on_device and not _in_this_process(parallel):
        return Parallel(n_jobs=1), f"{rows.route}, in this process: the rows are in GPU memory"
    if several and getattr(parallel._backend, "supports_return_generator", False):
        # Keep finished results if the search is interrupted, and show them in a bar.
        parallel = Parallel(**options, return_as="generator")
    return parallel, rows.route


def _chunks(estimator, params, most):
    """Candidates of each call for a split: all of them, or fewer if workers would be idle.

    Ensembles whose fits use several threads are not read off more than one fit for this.
    """
    if uses_threads(estimator) and most > 1:
        units = families(estimator, params)
    else:
        units = [[position] for position in chunk_order(estimator, params)]
    parts = np.array_split(np.arange(len(units)), min(len(units), most))
    return [[position for i in part for position in units[i]] for part in parts]


def threads_of_each(n_fits: int, n_jobs: int, n_cores: int) -> list[int | None]:
    """Threads for each of some fits, of which `n_jobs` run in parallel: they share the cores.

    Those that are left at the end share them too. None for fits in turn.
    """
    if n_jobs < 2:
        return [None] * n_fits
    at_once = min(n_jobs, max(1, n_fits))
    left = n_fits % at_once
    rounds = [at_once] * (n_fits - left) + [left] * left
    return [max(1, n_cores // n) for n in rounds]


def chunk_order(estimator: Any, params: Sequence[Mapping[str, Any]]) -> list[int]:
    """An order of candidates that puts those with shared work next to each other."""
    if shares_prefixes(estimator, params):
        return list(prefix_order(estimator, params))
    return list(range(len(params)))


def families(estimator: Any, params: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Positions of candidates that must stay together, in an order that shares work.

    Candidates that are fitted together on a fold are one family, so the models equal those of one
    machine.
    """
    order = chunk_order(estimator, params)
    if not hasattr(estimator, "steps") and not _may_share(estimator):
        return [[position] for position in order]
    found: dict[Hashable, list[int]] = {}
    for position in order:
        key = _family(estimator, params[position])
        found.setdefault(position if key is None else key, []).append(position)
    return list(found.values())


def _family(estimator, params):
    """A key, equal for candidates that may be fitted together on a fold; None for single fits."""
    try:
        model = configured(estimator, params)
    except Exception:
        return None  # its fit will raise the error
    if _may_share(model):
        return one_fit_key(model) or one_kernel_key(model) or multifit_key(model)
    steps = getattr(model, "steps", None)
    if not steps or not (offers_multifit(steps[-1][1]) or supports_multifit(steps[-1][1])):
        return None
    before = [(name, step) for name, step in steps[:-1] if step not in (None, "passthrough")]
    tail = len(before)
    while tail > 0 and isinstance(before[tail - 1][1], AffineStep):
        tail -= 1
    # The last steps are fitted together after equal first steps. If all steps before the model are
    # affine, the key has all of them.
    return tuple((name, value_key(step)) for name, step in before[: tail or len(before)])
