"""Whether rows are divided over workers or copied whole to each, decided from sizes alone.

Nothing here knows a cluster or looks at data. `docs/scaling.md` has the rule.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dask.utils import parse_bytes

Mode = Literal["whole", "rows"]

# From the data alone, so that results do not depend on the number of workers: sums over pieces
# round differently from sums over all rows.
DIVIDED_FROM_BYTES = 2**26
# The part of all workers' memory that chunks of a collection may take.
ROOM = 0.5
SHARE = 0.9  # of the memory for rows: folds and work need the rest
# For a GPU whose memory is unknown.
GPU_BYTES = 16 * 2**30


@dataclass(frozen=True)
class Plan:
    """The place of the rows of a round; printed with ``verbose=2``.

    "whole": every worker that gets work gets all rows. "rows": groups of candidates are fitted from
    sums over rows that are divided over workers; all else needs all rows.
    """

    mode: Mode
    why: str
    n_bytes: int
    gathers: bool = False  # rows that the rule would leave divided, as they are

    def __str__(self):
        is_whole = self.mode == "whole"
        where = "all of them on each worker that works" if is_whole else "divided over the workers"
        return f"{byte_text(self.n_bytes)} of rows, {where} ({self.why})"


def make_plan(
    n_bytes: int,
    memories: Sequence[int],
    *,
    divisible: bool,
    some_whole: bool = False,
    asked: Mode | None = None,
    unread: str | None = None,
    divided: bool = False,
) -> Plan:
    """Decide where the rows of a round are.

    `memories` are the bytes of each worker that can do the work. `divisible`: there are groups of
    candidates that sums over rows are enough for. `some_whole`: other candidates need all rows in
    one place besides. `asked` takes the place of the rule, but "rows" has no effect where nothing
    is divisible. `unread` says which rows are computed again in each pass; such rows are always
    divided where possible. `divided`: in chunks already. A ValueError is raised if rows do not fit.

    >>> print(make_plan(10**6, [10**9] * 4, divisible=True))
    1 MB of rows, all of them on each worker that works (rows of less than 64 MiB)
    >>> make_plan(10**8, [10**9] * 4, divisible=True).mode
    'rows'
    """
    if unread is not None:
        return Plan("rows" if divisible else "whole", unread, n_bytes)
    fit_one = n_bytes <= SHARE * max(memories)
    fit_all = n_bytes <= SHARE * sum(memories)
    large = n_bytes >= DIVIDED_FROM_BYTES
    wanted: Mode = "rows" if divisible and (large or not fit_one) else "whole"
    if not divisible:
        why = "what is fitted needs all rows"
    elif large or fit_one:
        why = "rows of 64 MiB or more" if large else "rows of less than 64 MiB"
    else:
        why = "no worker has room for all rows"
    if asked == "whole" or (asked == "rows" and divisible):
        wanted, why = asked, f"Dask's setting gpuml.plan is {asked!r}"
    elif asked not in (None, "rows"):
        raise ValueError(f"Dask's setting gpuml.plan is None, 'whole' or 'rows'; got {asked!r}.")
    can_be_divided = divisible and fit_all and (fit_one or not some_whole)
    if not (can_be_divided if wanted == "rows" else fit_one):
        raise ValueError(
            f"{byte_text(n_bytes)} of rows cannot be placed for this search: the largest of "
            f"{len(memories)} workers has {byte_text(max(memories))} of memory, all of them "
            f"{byte_text(sum(memories))}, and {SHARE:.0%} of it may hold rows. Work that cannot be "
            "done with rows divided needs all of them in one place. Add workers, or workers with "
            "more memory, or use fewer rows or float32."
        )
    return Plan(wanted, why, n_bytes, divided and large and not divisible and asked != "whole")


def has_gpu(worker: Mapping[str, Any]) -> bool:
    """Whether a worker declares a GPU to the scheduler, which describes it so."""
    return bool(worker["resources"].get("GPU"))


def memory_of(worker: Mapping[str, Any]) -> int:
    """The memory of a worker, as the scheduler describes it: of its GPU, or of its process."""
    if not has_gpu(worker):
        return worker.get("memory_limit") or 2**62
    total = (worker.get("gpu") or {}).get("memory-total", GPU_BYTES)
    return sum(total) if isinstance(total, list | tuple) else total


def room_for_rows(
    asked: int | str | None, workers: Iterable[Mapping[str, Any]], *, gpus: bool
) -> float:
    """Bytes of chunks of a collection that stay on workers; the others are computed in each pass.

    Without an amount from the user, that is `ROOM` of the memory of all workers, and no bound where
    GPUs are used, whose rows stay.

    >>> room_for_rows("4 GB", [], gpus=False)
    4000000000
    """
    workers = list(workers)
    on_gpus = gpus and any(map(has_gpu, workers))
    if asked is None:
        limits = [worker.get("memory_limit") or math.inf for worker in workers]
        return math.inf if on_gpus else ROOM * sum(limits)
    if on_gpus:
        raise ValueError(
            f"Rows beyond a memory of {asked!r} are computed in each pass by CPUs alone, and this "
            "cluster has GPUs. Use GPUs for all rows, dask.config.set({'gpuml.memory': None}), "
            "or for none, gpuml.set_config(device='cpu')."
        )
    return parse_bytes(asked)


def byte_text(n_bytes: float) -> str:
    """Bytes in readable units.

    >>> byte_text(25_600_000_000)
    '25.6 GB'
    """
    unit = "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if n_bytes < 1000:
            break
        n_bytes, unit = n_bytes / 1000, larger
    return f"{n_bytes:.3g} {unit}"
