"""Nearest neighbours: cuML's own conversions, and what these leave to be done."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from gpuml.adapters._row import Conversion, UnsupportedHere
from gpuml.adapters.conversions import interop


def lower(model: Any, twin: Any) -> Mapping[str, Any]:
    """With scikit-learn's entries of `effective_metric_params_`, and its dtype of codes."""
    out = dict(interop.lower(model, twin))
    if out["effective_metric_"] == "minkowski":
        out["effective_metric_params_"] = {**out["effective_metric_params_"], "w": None}
    if "outputs_2d_" in out:  # a classifier, whose votes are counted with NumPy's indices
        out["_y"] = out["_y"].astype(np.intp, copy=False)
    return out


def lift(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """But for targets in columns, which cuML gives back as one array of votes or means."""
    if getattr(twin, "_y", np.empty(0)).ndim > 1:
        raise UnsupportedHere("targets in columns")
    return interop.lift(cuml_class, twin, changes)


def make_nearest(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model whose graphs by radius take scikit-learn's arguments."""
    return interop.make(_with_modes(cuml_class), twin, changes)


@cache
def _with_modes(cuml_class: Any) -> Any:
    class NearestNeighbors(cuml_class):
        def radius_neighbors_graph(self, X=None, radius=None, mode=None, sort_results=False):
            # Rows let no other mode pass than cuML's, in which there is no distance to sort by.
            return super().radius_neighbors_graph(X, radius)

    return NearestNeighbors


NEIGHBORS = Conversion(interop.make, lower, lift)
NEAREST = Conversion(make_nearest, lower, make_nearest)
