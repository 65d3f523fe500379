"""Sample weights for the steps of a pipeline."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import process_routing

from gpuml._arrays import as_array, is_array, namespace
from gpuml._arrays.ops import any_true
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


def weights_obstacle(pipeline: Pipeline, fit_params: Mapping[str, Any]) -> str | None:
    """Why the rows of a pipeline cannot have the weights in the fit parameters, if they cannot."""
    found = fit_weights(pipeline, fit_params)
    if found is None:
        return f"fit is given more than one array of weights: {', '.join(fit_params)}"
    # Scalers accept negative ones, and rows that are read for all models have none.
    return "some sample weights are negative" if _some_negative(found[0]) else None


def _some_negative(weight):
    weight = as_array(weight)
    if isinstance(weight, list | tuple) or hasattr(weight, "to_numpy"):
        weight = np.asarray(weight)
    if not is_array(weight):
        return False
    xp = namespace(weight)
    is_real = xp.isdtype(weight.dtype, ("integral", "real floating"))
    return is_real and any_true(weight < 0, xp)
