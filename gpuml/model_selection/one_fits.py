"""The table of all kinds of fits that provide others."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from gpuml.model_selection.boosters import OneBooster
from gpuml.model_selection.cut_trees import OneForest
from gpuml.model_selection.neighbours import OneDensity, OneQuery, OneRadius
from gpuml.model_selection.one_fit import OneFit
from gpuml.resampling.keys import value_key

KINDS: tuple[type[OneFit], ...] = (
    *(OneQuery, OneRadius, OneDensity),
    *(OneForest, OneBooster),
)


def one_fit_kind(estimator: Any) -> type[OneFit] | None:
    """The class that reads fits of an estimator off one of them; None if there is none."""
    return next((kind for kind in KINDS if kind.varying(estimator)), None)


def one_fit_key(model: Any) -> Hashable | None:
    """A key, equal for models that are read off one fit; None for single fits."""
    kind = one_fit_kind(model)
    key = None if kind is None else kind.key(model)
    return None if key is None else (kind, key)


def why_each_alone(models: Mapping[int, Any]) -> dict[int, str]:
    """By position, the reason why fits are not read off one, if the user can change that."""
    kinds = {i: kind for i, model in models.items() if (kind := one_fit_kind(model)) is not None}
    found = {i: kind.why_alone(models[i]) for i, kind in kinds.items()}
    return {
        i: why
        for i, why in found.items()
        if why is not None
        and differing([models[j] for j, kind in kinds.items() if kind is kinds[i]], kinds[i])
    }


def differing(models: Sequence[Any], kind: type[OneFit]) -> list[str]:
    """Parameters in which models of one fit differ."""
    values: dict[str, set] = {}
    for model in models:
        params = model.get_params(deep=False)
        for name in kind.varying(model):
            values.setdefault(name, set()).add(value_key(params.get(name)))
    return [name for name, own in values.items() if len(own) > 1]
