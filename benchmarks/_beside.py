"""A task done by gpuml, and by scikit-learn with all cores and in one process."""

from collections.abc import Callable
from typing import Any

import _harness as harness

# A rival gets so many runs, none of which begins after so many seconds.
RIVAL_RUNS, RIVAL_SECONDS = 3, 20.0
RIVALS = {"sklearn": -1, "sklearn-one-process": None}


def contenders(
    ours: Callable[[], Any],
    theirs: Callable[[int | None], Any] | None,
    repeats: int,
    compare: Callable[[Any, Any], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Records of gpuml and of scikit-learn, which is given `n_jobs`.

    `compare` takes both results, and says in the record how far they agree.
    """
    own = {"name": "gpuml"} | harness.first_run(ours)
    own["seconds"] = harness.timing(ours, repeats)
    result, found = ours(), [own]
    for name, n_jobs in RIVALS.items() if theirs is not None else ():

        def measure(n_jobs=n_jobs):
            results = []
            seconds = harness.timing(
                lambda: results.append(theirs(n_jobs)), RIVAL_RUNS, at_most=RIVAL_SECONDS
            )
            ratio = seconds["median"] / own["seconds"]["median"]
            return {"seconds": seconds, "ratio": ratio, **compare(result, results[-1])}

        found.append(harness.attempt({"name": name}, measure))
    return found
