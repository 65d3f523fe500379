"""How candidates that are fitted one by one are cut into units of work."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from gpuml.model_selection.growing import growth_key, may_grow
from gpuml.model_selection.prefix_keys import value_key
from gpuml.model_selection.residence import configured
from gpuml.model_selection.routes import chunk_order
from gpuml.resampling.multifit import offers_multifit

# Units per thread: enough that none is idle for long at the end. Where steps are shared, each unit
# fits those it needs, so fewer.
UNITS, UNITS_THAT_SHARE = 4, 2


def families(estimator: Any, params: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Positions of candidates that must stay together, in an order that shares work.

    What gpuml fits together on a fold stays together, so that models are those of one machine.
    """
    order = chunk_order(estimator, params)
    if not hasattr(estimator, "steps") and not may_grow(estimator):
        return [[position] for position in order]
    found: dict[Hashable, list[int]] = {}
    for position in order:
        key = _family(estimator, params[position])
        found.setdefault(position if key is None else key, []).append(position)
    return list(found.values())


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


def _family(estimator, params):
    """Equal for candidates that may be fitted together on a fold; None for a fit by itself."""
    try:
        model = configured(estimator, params)
    except Exception:
        return None  # its fit will tell what is wrong
    if may_grow(model):
        return growth_key(model)
    steps = getattr(model, "steps", None)
    if not steps or not offers_multifit(steps[-1][1]):
        return None
    before = [(name, step) for name, step in steps[:-1] if step not in (None, "passthrough")]
    tail = len(before)
    while tail > 0 and hasattr(before[tail - 1][1], "affine_params"):
        tail -= 1
    # The last steps are fitted at once behind equal first ones: behind all but the model where
    # nothing else comes first.
    return tuple((name, value_key(step)) for name, step in before[: tail or len(before)])
