"""Results of candidates that were fitted at once, as those of single fits are."""

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
    group = shared.group
    return [
        (
            position,
            [
                alone[s][c] if s in alone else _result(job, shared, c, s, {**scores, **times})
                for s, scores in enumerate(scored.of(c))
            ],
        )
        for c, position in enumerate(group.positions)
    ]


def _result(job, shared, c, s, found):
    task, group = job.task, shared.group
    result = {"fit_error": None, **found}
    asks = task.kept is not None and "predictions" not in result
    if task.return_estimator or asks:
        model = shared.model_of(c, s)
        result |= {"estimator": model} if task.return_estimator else {}
    if asks:
        held_out = rows_of(job.X, job.splits[s].test)
        result["predictions"] = task.kept.of(model, held_out)
    if task.verbose > 1:
        where = Progress(s, len(job.splits), group.positions[c], len(group.positions))
        params = {**group.shared, **group.varying[c]}
        announce_end(params, where, task, result)
    return result
