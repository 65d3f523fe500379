"""Fits that are made once more, alone, to estimate what batches save: for reports."""

import io
import warnings
from collections.abc import Collection, Mapping
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from gpuml._settings.observers import batch_observers
from gpuml.divided.rows import DividedRows
from gpuml.protocol import Group

# A fit that took less seconds is timed twice: the first may have imported modules.
SHORT = 0.1


def tell_of_batch(evaluator: Any, group: Group, refused: Collection[int], seconds: float) -> None:
    """Tell observers that a group was fitted and scored together, but for the refused splits."""
    for observe in batch_observers:
        observe(seconds, partial(seconds_alone, evaluator, group, refused))


def seconds_alone(evaluator: Any, group: Group, refused: Collection[int]) -> float | None:
    """Estimated seconds of the fits and scores of a group, had they been made one at a time.

    The middle candidate is fitted and scored alone on the first split, and its seconds are taken
    for those of all, shared by ``n_jobs`` processes. The program does not see that fit: it prints
    and warns nothing, and NumPy's global generator stays as it is.

    Parameters
    ----------
    evaluator : Evaluator
    group : Group
    refused : collection of int
        Splits on which the group was not fitted together.

    Returns
    -------
    seconds : float or None
        None for divided rows, such as those of files, and for a fit that fails alone.
    """
    job = evaluator.job
    if isinstance(job.X, DividedRows):
        return None
    splits = [split for split in range(len(job.splits)) if split not in refused]
    middle = {**group.shared, **group.varying[len(group.varying) // 2]}
    n_fits = len(group.varying) * len(splits)
    one = _seconds_of_one(evaluator, middle, splits[0])
    return None if one is None else one * n_fits / min(effective_n_jobs(job.n_jobs), n_fits)


def _seconds_of_one(evaluator, params, split):
    shared = check_random_state(None)  # NumPy's global generator
    state = shared.get_state()
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first = _timed(evaluator, params, split)
            if first is None or first > SHORT:
                return first
            again = _timed(evaluator, params, split)
            return None if again is None else min(first, again)
    finally:
        shared.set_state(state)


def _timed(evaluator: Any, params: Mapping[str, Any], split: int) -> float | None:
    try:
        (result,) = evaluator.fit_split(split, [params])
    except Exception:  # of error_score="raise": only the batch, which went well, is the program's
        return None
    failed = result.get("fit_error") is not None
    return None if failed else result["fit_time"] + result["score_time"]
