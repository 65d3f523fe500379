"""HDBSCAN: cuML's class is a twin of the package hdbscan, ours of scikit-learn."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuml._arrays import to_host
from gpuml.adapters._row import Conversion

# scikit-learn's and cuML's parameters of the same name and meaning.
SHARED = (
    *("allow_single_cluster", "alpha", "cluster_selection_epsilon", "cluster_selection_method"),
    *("metric", "min_cluster_size"),
)


def min_samples(params: Mapping[str, Any]) -> int:
    """scikit-learn's number of neighbours that make a core, each point counted as its own."""
    given = params["min_samples"]
    return params["min_cluster_size"] if given is None else given


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """An unfitted model."""
    params = twin.get_params(deep=False)
    return cuml_class(
        **{name: params[name] for name in SHARED},
        # Of the package hdbscan: a point is no neighbour of its own, and no limit is 0.
        min_samples=min_samples(params) - 1,
        max_cluster_size=params["max_cluster_size"] or 0,
        **changes,
    )


def lower(model: Any, twin: Any) -> Mapping[str, Any]:
    """Fitted attributes of scikit-learn's, but for the copy of X that nothing reads."""
    return {
        "labels_": to_host(model.labels_).astype(np.int64, copy=False),
        "probabilities_": to_host(model.probabilities_).astype(np.float64),
        "_single_linkage_tree_": _records(model._single_linkage_tree),
        "_min_samples": min_samples(twin.get_params(deep=False)),
        "_metric_params": {},
    }


def _records(tree):
    """A dendrogram (n - 1, 4), as SciPy has it, in scikit-learn's records."""
    from gpuml._sklearn import HIERARCHY_dtype

    records = np.empty(tree.shape[0], dtype=HIERARCHY_dtype)
    for column, name in enumerate(HIERARCHY_dtype.names):
        records[name] = tree[:, column]
    return records


# It predicts nothing: no model has to go on on a GPU.
HDBSCAN = Conversion(make, lower, None)
