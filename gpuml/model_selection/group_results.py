"""Results of candidates that were fitted together, in the form of single fits."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuml.model_selection.jobs import Job, Shared
from gpuml.model_selection.one_by_one import Progress, announce_end, rows_of
from gpuml.model_selection.scores import Scored


def group_results(
    job: Job,
    shared: Shared,
    scored: Scored,
    times: Mapping[str, float],
    alone: Mapping[int, Sequence[Any]],
) -> list[tuple[int, list[dict[str, Any]]]]:
    """Position and results, split after split, of each candidate of a group.

    Parameters
    ----------
    job : Job
    shared : Shared
        The models of the group.
    scored : Scored
        Their scores.
    times : dict of str to float
        Seconds of each fit.
    alone : dict of int to list
        Results of all candidates on splits that had to be fitted by themselves.
    """
    task = job.task
    is_complete = not (task.return_estimator or task.kept is not None or task.verbose > 1)
    found, equal = [], _first_equal(shared.group.varying)
    for c, position in enumerate(shared.group.positions):
        results = scored.of(equal[c], fit_error=None, **times)
        for split, of_each in alone.items():
            results[split] = of_each[c]
        for split in () if is_complete else range(len(results)):
            if split not in alone:
                _complete(job, shared, c, split, results[split])
        found.append((position, results))
    return found


def _first_equal(varying):
    """For each candidate the first one that is equal: the last bits of a batch may differ.

    Equal candidates share a rank, as those of single fits.
    """
    known: dict[Any, int] = {}
    found = []
    for c, params in enumerate(varying):
        try:
            # 1 component is not a share of 1.0.
            key = frozenset((name, type(value), value) for name, value in params.items())
            found.append(known.setdefault(key, c))
        except TypeError:  # a value without a hash
            found.append(c)
    return found


def _complete(job, shared, c, s, result):
    """Add the estimator and predictions if the task wants them, and print the line of the fit."""
    task, group = job.task, shared.group
    wants = task.kept is not None and "predictions" not in result
    if task.return_estimator or wants:
        model = shared.model_of(c, s)
        result |= {"estimator": model} if task.return_estimator else {}
    if wants:
        held_out = rows_of(job.X, job.splits[s].test)
        result["predictions"] = task.kept.of(model, held_out)
    if task.verbose > 1:
        where = Progress(s, len(job.splits), group.positions[c], len(group.positions))
        params = {**group.shared, **group.varying[c]}
        announce_end(params, where, task, result)
