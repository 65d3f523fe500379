"""Which candidates are fitted together on a fold: whoever divides candidates cuts between these."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from gpuml.extending import AffineStep
from gpuml.model_selection.ensembles import growth_key, may_grow
from gpuml.model_selection.fold_fits import chunk_order
from gpuml.model_selection.prefix_keys import value_key
from gpuml.model_selection.residence import configured
from gpuml.resampling.multifit import offers_multifit


def families(estimator: Any, params: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Positions of candidates that must stay together, in an order that shares work.

    What is fitted together on a fold is one family, so that models are those of one machine.
    """
    order = chunk_order(estimator, params)
    if not hasattr(estimator, "steps") and not may_grow(estimator):
        return [[position] for position in order]
    found: dict[Hashable, list[int]] = {}
    for position in order:
        key = _family(estimator, params[position])
        found.setdefault(position if key is None else key, []).append(position)
    return list(found.values())


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
    while tail > 0 and isinstance(before[tail - 1][1], AffineStep):
        tail -= 1
    # The last steps are fitted at once behind equal first ones: behind all but the model where
    # nothing else comes first.
    return tuple((name, value_key(step)) for name, step in before[: tail or len(before)])
