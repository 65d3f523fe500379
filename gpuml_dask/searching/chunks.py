"""How candidates that are fitted one by one are cut into units of work."""

import math
from collections.abc import Sequence

# Units per thread: enough that none is idle for long at the end. Where steps are shared, each unit
# fits those it needs, so fewer.
UNITS, UNITS_THAT_SHARE = 4, 2


def cut_families(
    families: Sequence[Sequence[int]], n_splits: int, n_threads: int, *, sharing: bool = False
) -> list[list[Sequence[int]]]:
    """Families of each unit of a split, about as many candidates in each unit.

    Parameters
    ----------
    families : sequence of sequences of int
        Candidates that must stay together.
    n_splits, n_threads : int
    sharing : bool, default=False
        Whether neighbours have work in common.

    Examples
    --------
    >>> from gpuml_dask.searching.chunks import cut_families
    >>> cut_families([[0], [1], [2, 3], [4]], n_splits=8, n_threads=4)
    [[[0], [1]], [[2, 3], [4]]]
    """
    wanted = math.ceil((UNITS_THAT_SHARE if sharing else UNITS) * n_threads / n_splits)
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
