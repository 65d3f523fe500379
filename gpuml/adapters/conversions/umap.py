"""UMAP between cuML and umap-learn, which need not be installed where a GPU does the work."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuml._arrays import is_array, to_host
from gpuml.adapters._row import Conversion, UnsupportedHere
from gpuml.adapters._umap_models import SMALL, is_sparse, same_rows

# Parameters with the same name and meaning.
SAME = (
    *("n_neighbors", "n_components", "metric", "metric_kwds", "n_epochs", "learning_rate", "init"),
    *("min_dist", "spread", "set_op_mix_ratio", "local_connectivity", "repulsion_strength"),
    *("negative_sample_rate", "transform_queue_size", "a", "b", "random_state"),
    *("target_n_neighbors", "target_metric", "target_weight"),
)


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """Unfitted, with the parameters of an unfitted twin."""
    params = twin.get_params(deep=False)
    return as_umap_learn(cuml_class)(**{name: params[name] for name in SAME} | dict(changes))


@functools.cache
def as_umap_learn(cuml_class: type) -> type:
    """CuML's class with umap-learn's arguments, and its answer for the rows of the fit.

    umap-learn recognises these by a hash of all rows, and gives their embedding as it is. cuML can
    do the same, but copies rows to CPU memory for it; comparing them where they are takes no time.
    """

    class UMAP(cuml_class):
        def fit(self, X, y=None, ensure_all_finite=True):  # rows refuse what is not True
            return super().fit(X, y if y is None or is_array(y) else np.asarray(y))

        def transform(self, X, ensure_all_finite=True):
            if ensure_all_finite is not True:
                raise UnsupportedHere("rows that are not finite")
            if same_rows(X, self._raw_data):
                return self.embedding_
            return super().transform(X)

    return UMAP


def lower(model: Any, twin: Any) -> Mapping[str, Any]:
    """The state of umap-learn's model, but for what it makes of parameters alone.

    There is neither a hash of the rows nor a search index: `gpuml.adapters._umap_models` does
    without the one, and makes the other where it is needed.
    """
    rows = _on_host(model._raw_data)
    out = {
        "embedding_": _on_host(model.embedding_),
        "graph_": model.graph_.tocsr(),
        "graph_dists_": None,
        "_raw_data": rows,
        "_input_hash": None,
        "_sparse_data": bool(model._sparse_data),
        "_supervised": bool(model._supervised),
        "_small_data": rows.shape[0] < SMALL,
        "_a": float(model._a),
        "_b": float(model._b),
        "_n_neighbors": int(model._n_neighbors),
        "_initial_alpha": twin.learning_rate,
        "_n_features_out": model.embedding_.shape[1],
    }
    for name in ("_sigmas", "_rhos"):  # there are none of sparse rows
        if getattr(model, name, None) is not None:
            out[name] = _on_host(getattr(model, name))
    return out


def _on_host(value):
    if is_sparse(value):
        return value.get() if hasattr(value, "get") else value
    return to_host(value) if is_array(value) else value


def lift(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """Fitted, of a fitted twin."""
    if not hasattr(twin, "graph_"):
        raise UnsupportedHere("UMAP of a single row")
    model = make(cuml_class, twin, changes)
    # What `from_sklearn` does, which takes objects of umap-learn's own class only.
    model._sync_attrs_from_cpu(twin)
    model._supervised = twin._supervised
    return model


UMAP = Conversion(make, lower, lift)
