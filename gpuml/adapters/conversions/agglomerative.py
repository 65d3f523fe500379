"""Agglomerative clustering: cuML has single linkage only, and no way to scikit-learn."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuml._arrays import to_host
from gpuml.adapters._row import Conversion


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """An unfitted model.

    What cuML calls connectivity is how it searches neighbours: with "knn", its default, it sees
    some of the distances only.
    """
    return cuml_class(
        n_clusters=twin.n_clusters,
        metric=twin.metric,
        linkage=twin.linkage,
        connectivity="pairwise",
        **changes,
    )


def lower(model: Any, twin: Any) -> Mapping[str, Any]:
    """Fitted attributes of scikit-learn's."""
    return {
        "labels_": to_host(model.labels_).astype(np.int64),
        "children_": to_host(model.children_).astype(np.int64),
        "n_clusters_": int(model.n_clusters_),
        "n_leaves_": int(model.n_leaves_),
        "n_connected_components_": int(model.n_connected_components_),
    }


# It predicts nothing: no model has to go on on a GPU.
AGGLOMERATIVE = Conversion(make, lower, None)
