"""Rows of `gpuml.manifold`."""

from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import manifold

from gpuml._arrays import is_array, to_host
from gpuml.adapters import _conversion, _umap_learn
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import Row, UnsupportedHere, only, unset, when, when_set
from gpuml.adapters._umap_models import SMALL, is_sparse, same_rows
from gpuml.adapters.rows.neighbors import COMPARED, SPARSE_METRICS, other_metric_params

# Passes over the rows that an embedding takes, as far as a CPU's time is concerned.
PASSES = 200
# Neighbours that cuML finds at most.
MOST_NEIGHBORS = 1023


def _work(n_rows, n_features, params):
    return 8.0 * n_rows * n_features * PASSES


def _use_work(n_rows, n_features, params):
    return 8.0 * n_rows * n_features * COMPARED


ONE_FEATURE = when(lambda p, d: d.n_features < 2, "embedding of a single feature")


# ---------------------------------------------------------------- t-SNE

TSNE_METRICS = (
    *("euclidean", "l2", "sqeuclidean", "manhattan", "cityblock", "l1", "minkowski"),
    *("chebyshev", "cosine", "correlation"),
)


# scikit-learn's gradient has the factor 4 that the derivative of the objective has, and cuML's has
# not: the same step takes four times the rate.
RATE = 4.0


def _lower_tsne(model, twin):
    """With the learning rate that scikit-learn reports."""
    out = dict(_conversion.lower(model, twin))
    out["learning_rate_"] = out["learning_rate_"] / RATE
    return out


def _neighbors(params, n_rows):
    """Neighbours that probabilities are computed of, the row itself among them."""
    wanted = n_rows if params["method"] == "exact" else int(3.0 * params["perplexity"] + 1) + 1
    return min(n_rows, wanted)


def _too_many_neighbors(params, data):
    return params["method"] != "exact" and _neighbors(params, data.n_rows) > MOST_NEIGHBORS


def _tsne_checks(params, data):
    if params["perplexity"] >= data.n_rows:
        raise ValueError(
            f"perplexity ({params['perplexity']}) must be less than n_samples ({data.n_rows})"
        )


def _tsne_changes(params, data):
    # Left to itself cuML chooses the number of neighbours, the exaggeration and the rate by the
    # number of rows, whatever `perplexity` and `early_exaggeration` are.
    rate = params["learning_rate"]
    if rate == "auto":
        rate = max(data.n_rows / params["early_exaggeration"] / 4, 50.0)
    return {
        "learning_rate": RATE * rate,
        "learning_rate_method": "none",
        "n_neighbors": min(_neighbors(params, data.n_rows), MOST_NEIGHBORS),
    }


TSNE = Row(
    sk=manifold.TSNE,
    cuml="cuml.manifold.TSNE",
    work=_work,
    refuses=(
        only("n_components", 2),
        only("init", "pca", "random"),
        only("metric", *TSNE_METRICS),
        when_set(other_metric_params, "such metric_params"),
        when(_too_many_neighbors, "perplexity above 340"),
        ONE_FEATURE,
        when(lambda p, d: d.sparse and p["init"] == "pca", "init='pca' of sparse rows"),
        when(lambda p, d: d.sparse and p["metric"] not in SPARSE_METRICS, "metric of sparse rows"),
    ),
    checks=_tsne_checks,
    changes=_tsne_changes,
    sparse=True,
    float32_only=True,
    light=("embedding_", "kl_divergence_", "n_iter_"),
    dtypes={"embedding_": "float32", "fit_transform": "float32"},
    convert=Conversion(lower=_lower_tsne, lift=None),
    notes=(
        "Coordinates differ from scikit-learn's; neighbourhoods agree.",
        "`method='barnes_hut'` is computed by Fourier transforms: `angle` has no effect.",
        "`n_iter_without_progress` has no effect.",
        "The learning rate doubles after the early exaggeration.",
    ),
)


# ---------------------------------------------------------------- spectral embedding


def _used_neighbors(params, n_rows):
    given = params["n_neighbors"]
    return max(n_rows // 10, 1) if given is None else given


SPECTRAL_EMBEDDING = Row(
    sk=manifold.SpectralEmbedding,
    cuml="cuml.manifold.SpectralEmbedding",
    work=lambda n_rows, n_features, params: 8.0 * n_rows * n_rows,
    refuses=(
        only("affinity", "nearest_neighbors", "precomputed"),
        only("eigen_solver", None, "arpack"),
        only("eigen_tol", "auto", 0),
        when(lambda p, d: d.sparse and p["affinity"] != "precomputed", "neighbours of sparse rows"),
        ONE_FEATURE,
        when(lambda p, d: d.n_rows <= p["n_components"] + 1, "embedding of so few rows"),
        when(
            lambda p, d: (
                p["affinity"] == "nearest_neighbors" and _used_neighbors(p, d.n_rows) > d.n_rows
            ),
            "more neighbours than rows",
        ),
    ),
    sparse=True,
    float32_only=True,
    light=("embedding_", "n_neighbors_"),
    absent={"affinity_matrix_": "cuML does not keep it"},
    notes=(
        "Columns of the embedding may have the opposite sign.",
        "There is no warning if the graph is not connected.",
    ),
)


# ---------------------------------------------------------------- UMAP

# Metrics that both libraries know. umap-learn takes rows of no common feature as unconnected where
# the metric is Jaccard's or Hellinger's, cuML does not.
UMAP_METRICS = (
    *("euclidean", "l2", "manhattan", "l1", "taxicab", "chebyshev", "linf", "minkowski"),
    *("canberra", "cosine", "correlation", "hamming"),
)
# Those for which cuML can look for neighbours approximately, as it does of many rows.
APPROXIMATE = ("euclidean", "l2", "cosine")


def _other_metric_kwds(params):
    return other_metric_params({"metric": params["metric"], "metric_params": params["metric_kwds"]})


def _several_epochs(params):
    epochs = params["n_epochs"]  # umap-learn's 0 makes no epochs and is cuML's None
    return epochs is not None and (not isinstance(epochs, Integral) or epochs == 0)


def _other_arguments(params, data):
    rest = dict(data.rest)
    return rest.pop("ensure_all_finite", True) is not True or bool(rest)


def _several_targets(params, data):
    # A transformer gets raw targets: a list, or anything that NumPy turns into an array.
    shape = getattr(data.y, "shape", None)
    shape = np.asarray(data.y).shape if shape is None else shape
    return len(shape) > 1 and shape[1] > 1


def _umap_checks(params, data):
    if params["min_dist"] > params["spread"]:
        raise ValueError("min_dist must be less than or equal to spread")


def _umap_changes(params, data):
    return {"build_algo": "auto" if params["metric"] in APPROXIMATE else "brute_force_knn"}


def _umap_use_checks(model, method, X, arguments):
    if method != "inverse_transform":
        return
    if model.metric not in ("euclidean", "l2"):
        raise UnsupportedHere("inverse_transform of this metric")
    if getattr(model, "_sigmas", None) is None:  # umap-learn, too, keeps none of sparse rows
        raise UnsupportedHere("inverse_transform of a model of sparse rows")


# Parameters with the same name and meaning.
SAME = (
    *("n_neighbors", "n_components", "metric", "metric_kwds", "n_epochs", "learning_rate", "init"),
    *("min_dist", "spread", "set_op_mix_ratio", "local_connectivity", "repulsion_strength"),
    *("negative_sample_rate", "transform_queue_size", "a", "b", "random_state"),
    *("target_n_neighbors", "target_metric", "target_weight"),
)


def _make_umap(cuml_class, twin, changes):
    """Unfitted, with the parameters of an unfitted twin."""
    params = twin.get_params(deep=False)
    return cuml_class(**{name: params[name] for name in SAME} | dict(changes))


@cache
def as_umap_learn(cuml_class: Any) -> Any:
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


def _lower_umap(model, twin):
    """The state of umap-learn's model, without what follows from parameters.

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


def _lift_umap(cuml_class, twin, changes):
    """Fitted, of a fitted twin."""
    if not hasattr(twin, "graph_"):
        raise UnsupportedHere("UMAP of a single row")
    model = _make_umap(cuml_class, twin, changes)
    # As `from_sklearn`, which only accepts umap-learn's own class.
    model._sync_attrs_from_cpu(twin)
    model._supervised = twin._supervised
    return model


UMAP = Row(
    sk=_umap_learn.UMAP,
    cuml="cuml.manifold.UMAP",
    work=_work,
    use_work=_use_work,
    methods=("transform", "inverse_transform"),
    refuses=(
        only("metric", *UMAP_METRICS),
        only("init", "spectral", "random", or_array=True),
        only("target_metric", "categorical", "euclidean", "l2"),
        only("output_metric", "euclidean", "l2"),
        only("transform_mode", "embedding"),
        only("transform_seed", 42),
        unset("unique"),
        unset("densmap"),
        unset("output_dens"),
        unset("disconnection_distance"),
        when_set(_other_metric_kwds, "such metric_kwds"),
        when_set(lambda p: bool(p["output_metric_kwds"]), "output_metric_kwds"),
        when_set(lambda p: bool(p["target_metric_kwds"]), "target_metric_kwds"),
        when_set(_several_epochs, "such n_epochs"),
        when_set(lambda p: any(k is not None for k in p["precomputed_knn"]), "precomputed_knn"),
        when(lambda p, d: d.n_rows <= p["n_neighbors"], "fewer rows than n_neighbors"),
        when(_several_targets, "several targets"),
        when(_other_arguments, "further arguments of fit"),
    ),
    checks=_umap_checks,
    changes=_umap_changes,
    use_checks=_umap_use_checks,
    sparse=True,
    float32_only=True,
    optional_y=True,
    light=("embedding_", "_n_features_out"),
    dtypes=dict.fromkeys(
        ("embedding_", "graph_", "fit_transform", "transform", "inverse_transform"), "float32"
    ),
    convert=Conversion(
        derived=lambda cuml_class, twin: as_umap_learn(cuml_class),
        make=_make_umap,
        lower=_lower_umap,
        lift=_lift_umap,
    ),
    notes=(
        "Coordinates differ from umap-learn's; neighbourhoods agree.",
        "Without `random_state`, neighbours of more than 50,000 rows are approximate, and",
        "`transform` returns slightly different coordinates in each call.",
        "umap-learn computes `update`, and `inverse_transform` for metrics other than the",
        "Euclidean one, on the CPU. `inverse_transform` also copies the rows of the fit to CPU",
        "memory, because cuML triangulates the embedding on the CPU.",
    ),
)
