"""A task done by gpuml, and by scikit-learn with all cores and in one process."""

from collections.abc import Callable, Mapping
from typing import Any

import _harness as harness
from _records import HOST_ROWS

# A rival gets so many runs, none of which begins after so many seconds; nor does one of gpuml's.
RIVAL_RUNS, RIVAL_SECONDS = 3, 20.0
RIVALS = {"sklearn": -1, "sklearn-one-process": None}
# scikit-learn's search over cuML's class, in one process: there is one GPU.
CUML = {"cuml": None}


def contenders(
    ours: Callable[[], Any],
    theirs: Callable[[int | None], Any] | None,
    repeats: int,
    compare: Callable[[Any, Any], dict[str, Any]],
    rivals: Mapping[str, int | None] = RIVALS,
    host: Callable[[], Any] | None = None,
) -> list[dict[str, Any]]:
    """Records of gpuml and of its rivals, by name with the `n_jobs` that they are given.

    `compare` takes both results, and says in the record how far they agree. If `ours` has rows on
    a GPU and rivals have the same in CPU memory, `host` is gpuml with those of the rivals, and
    ratios are to that.
    """
    own = {"name": "gpuml"} | harness.first_run(ours)
    own["seconds"] = harness.timing(ours, repeats, at_most=RIVAL_SECONDS)
    result, found = ours(), [own]
    if host is not None:
        own = {"name": HOST_ROWS} | harness.first_run(host)
        own["seconds"] = harness.timing(host, repeats, at_most=RIVAL_SECONDS)
        found.append(own)
    for name, n_jobs in rivals.items() if theirs is not None else ():

        def measure(n_jobs=n_jobs):
            results = []
            seconds = harness.timing(
                lambda: results.append(theirs(n_jobs)), RIVAL_RUNS, at_most=RIVAL_SECONDS
            )
            ratio = seconds["median"] / own["seconds"]["median"]
            return {"seconds": seconds, "ratio": ratio, **compare(result, results[-1])}

        found.append(harness.attempt({"name": name}, measure))
    return found
