"""Sample weights for the steps of a pipeline."""

from collections.abc import Mapping
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import process_routing

from gpuml._sklearn import _routing_enabled


def fit_weights(pipeline: Pipeline, fit_params: Mapping[str, Any]) -> Any:
    """The sample weights in the fit parameters and the steps that get them, or None."""
    if not fit_params:
        return None, set()
    if _routing_enabled():
        try:
            routed = process_routing(pipeline, "fit", **fit_params)
        except (TypeError, ValueError):
            return None  # single fits raise the error
        by_step: dict[Any, Any] = {}
        for name, _ in pipeline.steps:
            calls = routed.get(name, {})
            mine = {**calls.get("fit", {}), **calls.get("fit_transform", {})}
            by_step.update({(name, param): value for param, value in mine.items()})
    else:
        by_step = {tuple(key.split("__", 1)): value for key, value in fit_params.items()}
    values = list(by_step.values())
    names = {key[0] for key in by_step}
    only_weights = all(len(key) == 2 and key[1] == "sample_weight" for key in by_step)
    known = names <= {name for name, _ in pipeline.steps}
    same = all(value is values[0] for value in values)
    return (values[0], names) if values and only_weights and known and same else None
