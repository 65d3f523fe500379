"""How candidates that are fitted one by one are cut into units of work."""

import math
from collections.abc import Sequence

# Units of a search, however few threads there are when it begins: workers that join later then find
# work to take. More would take longer than they are worth: each takes its rows out of all.
UNITS = 256
# Units per thread: enough that none is idle for long at the end. Where steps are shared, each unit
# fits those it needs, so fewer.
PER_THREAD, PER_THREAD_THAT_SHARE = 4, 2


def cut_families(
    families: Sequence[Sequence[int]],
    n_splits: int,
    n_threads: int,
    *,
    sharing: bool = False,
    is_last: bool = False,
) -> list[list[Sequence[int]]]:
    """Families of each unit of a split, about as many candidates in each unit.

    Candidates of a family must stay together. `n_threads` is their number now; there may be more
    later. `sharing`: neighbours have work in common. `is_last`: this split alone is to keep all
    threads busy to the end.

    >>> cut_families([[0], [1], [2, 3], [4]], n_splits=128, n_threads=0)
    [[[0], [1]], [[2, 3], [4]]]
    """
    per_thread, least = (PER_THREAD_THAT_SHARE, 1) if sharing else (PER_THREAD, UNITS / n_splits)
    wanted = math.ceil(max(least, per_thread * n_threads / (1 if is_last else n_splits)))
    n_candidates = sum(map(len, families))
    units: list[list[Sequence[int]]] = []
    n_cut = 0
    for family in families:
        # A family begins the next unit if its middle is beyond the share of those so far.
        if not units or n_cut + len(family) / 2 > n_candidates * len(units) / wanted:
            units.append([])
        units[-1].append(family)
        n_cut += len(family)
    return units
