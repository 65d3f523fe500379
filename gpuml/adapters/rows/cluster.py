"""Rows of `gpuml.cluster`."""

import math
import warnings
from functools import cache
from typing import Any

import numpy as np
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import as_array, is_array, move, namespace, place_of, synchronize, to_host
from gpuml._arrays.ops import all_finite, any_true
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._kmeans import CONVERSION
from gpuml.adapters._row import Row, only, unset, when, when_set
from gpuml.exceptions import level_of_user

# Iterations that a run takes in the mean, where no one knows better.
ITERATIONS = 20


def runs(params):
    """scikit-learn's meaning of `n_init` as a number."""
    init, n_init = params["init"], params["n_init"]
    if not isinstance(init, str) and not callable(init):
        return 1  # from the same centres the same clusters
    if n_init != "auto":
        return n_init
    return 1 if init == "k-means++" else 10


def _kmeans_work(n_rows, n_features, params):
    return 8.0 * n_rows * n_features * ITERATIONS * runs(params)


def _kmeans_changes(params, data):
    # cuML translates k-means++ to a seeding of its own, and runs ten times from a given array.
    # scikit-learn looks for labels that stay, too, which is when nothing moves but by the rounding
    # of sums that GPUs add in any order.
    rounding = float(namespace(data.X).finfo(data.X.dtype).eps) ** 1.5
    return {
        "init": _centres(params["init"], data.X),
        "n_init": runs(params),
        "tol": max(params["tol"], rounding),
    }


def _kmeans_checks(params, data):
    n_clusters, init = params["n_clusters"], params["init"]
    if data.n_rows < n_clusters:
        raise ValueError(f"n_samples={data.n_rows} should be >= n_clusters={n_clusters}.")
    if isinstance(init, str):
        return
    init = _as_array(init)
    shape = tuple(init.shape)
    if shape[:1] != (n_clusters,):
        raise ValueError(
            f"The shape of the initial centers {shape} does not match the number of clusters "
            f"{n_clusters}."
        )
    if shape[1:] != (data.n_features,):
        raise ValueError(
            f"The shape of the initial centers {shape} does not match the number of features of "
            f"the data {data.n_features}."
        )
    if not all_finite(init, namespace(init)):
        raise ValueError("Input init contains NaN or infinity. KMeans needs finite centers.")
    if params["n_init"] not in ("auto", 1):
        warnings.warn(
            "Explicit initial center position passed: performing only one init in KMeans instead "
            f"of n_init={params['n_init']}.",
            RuntimeWarning,
            stacklevel=level_of_user(),
        )


def _centres(init, X):
    """The value of `init`; an array, of any library, at the place of the rows."""
    return init if isinstance(init, str) else move(_as_array(init), place_of(X))


def _as_array(init):
    init = as_array(init)
    return init if is_array(init) else np.asarray(init, dtype=np.float64)


def _warn_of_equal_rows(model, params):
    distinct = model.n_found_clusters
    if distinct < params["n_clusters"]:
        warnings.warn(
            f"Number of distinct clusters ({distinct}) found smaller than n_clusters "
            f"({params['n_clusters']}). Possibly due to duplicate points in X.",
            ConvergenceWarning,
            stacklevel=level_of_user(),
        )


KMEANS = Row(
    sk=cluster.KMeans,
    cuml="cuml.cluster.KMeans",
    work=_kmeans_work,
    methods=("predict", "transform", "score"),
    refuses=(when_set(lambda p: callable(p["init"]), "callable init"),),
    checks=_kmeans_checks,
    changes=_kmeans_changes,
    after_fit=_warn_of_equal_rows,
    finds_infinite=True,
    pooled=True,
    light=("cluster_centers_", "labels_", "inertia_", "n_iter_", "_n_features_out"),
    dtypes={"labels_": "int32", "predict": "int32"},
    convert=CONVERSION,
    notes=(
        "Initial centres are drawn with other random numbers than scikit-learn's, and without",
        "`sample_weight`. A centre that is nearest to no row does not move; scikit-learn moves it.",
        "Fits may take more iterations than `tol` needs. For float32 rows, results of `transform`",
        "have a relative error of about 1 in 1,000. gpuml's searches fit all candidates together,",
        "from scikit-learn's own seeds: their models are scikit-learn's to rounding, on a GPU too.",
    ),
)


# ---------------------------------------------------------------- distances of all pairs

# Rows whose distances to each other are more than cuML's indices of 32 bits count.
MOST_ROWS_OF_PAIRS = 46_340


def _pairs_work(n_rows, n_features, params):
    return 8.0 * n_rows * n_rows


def _check_two_rows(name, data):
    if data.n_rows < 2:
        raise ValueError(
            f"Found array with {data.n_rows} sample(s) (shape={tuple(data.X.shape)}) while a "
            f"minimum of 2 is required by {name}."
        )


def _has_rows_of_zeros(X):
    xp = namespace(X)
    return any_true(xp.all(X == 0, axis=1), xp)


# ---------------------------------------------------------------- DBSCAN


def _dbscan_checks(params, data):
    if params["metric"] != "precomputed":
        return
    if data.n_rows != data.n_features:
        raise ValueError(
            f"Precomputed matrix must be square. Input is a {data.n_rows}x{data.n_features} matrix."
        )
    if bool(namespace(data.X).any(data.X < 0)):
        raise ValueError("Negative values in data passed to X.")


def _dbscan_changes(params, data):
    if params["metric"] == "cosine":
        # Of rows of unit length the squared distance is twice that of cosines.
        return {"metric": "euclidean", "eps": _float32_from(math.sqrt(2.0 * params["eps"]))}
    if str(data.X.dtype).endswith("float64"):
        return {"eps": _float32_from(params["eps"])}
    return {"eps": float(np.float32(params["eps"]))}


def _float32_from(eps):
    """The next float32 that is no less.

    cuML compares with a float32, which may be less than eps: float64 distances of 0.7 are more than
    the float32 next to 0.7.
    """
    near = np.float32(eps)
    return float(near if float(near) >= eps else np.nextafter(near, np.float32(np.inf)))


@cache
def on_a_copy(cuml_class: Any) -> Any:
    """The class with a `fit` that gives cuML a copy of X to write into, and to keep."""

    class OnACopy(cuml_class):
        def fit(self, X, **rest):
            super().fit(namespace(X).asarray(X, copy=True), **rest)
            return self

    return OnACopy


@cache
def of_unit_rows(cuml_class: Any) -> Any:
    """The class with a `fit` that gives cuML the directions of the rows.

    cuML 26.10 does not compute cosines: it divides columns of X by the lengths of its first rows.
    """

    class OfUnitRows(cuml_class):
        def fit(self, X, **rest):
            xp = namespace(X)
            rows = X / xp.sqrt(xp.sum(X * X, axis=1, keepdims=True))
            synchronize(place_of(X))
            super().fit(rows, **rest)
            self.components_ = xp.take(X, self.core_sample_indices_, axis=0)
            return self

    return OfUnitRows


def _dbscan_class(cuml_class, twin):
    return of_unit_rows(cuml_class) if twin.metric == "cosine" else on_a_copy(cuml_class)


DBSCAN = Row(
    sk=cluster.DBSCAN,
    cuml="cuml.cluster.DBSCAN",
    work=_pairs_work,
    refuses=(
        only("metric", "euclidean", "l2", "cosine", "precomputed"),
        only("algorithm", "auto", "brute"),
        when_set(lambda p: bool(p["metric_params"]), "metric_params"),
        when(
            lambda p, d: p["metric"] == "cosine" and _has_rows_of_zeros(d.X),
            "metric='cosine' of rows of zeros",
        ),
    ),
    checks=_dbscan_checks,
    changes=_dbscan_changes,
    negative_weight=True,
    light=("labels_", "core_sample_indices_", "components_"),
    dtypes={"labels_": "int64", "core_sample_indices_": "int64"},
    convert=Conversion(derived=_dbscan_class),
    notes=("Distances are compared with eps rounded to float32.",),
)


# ---------------------------------------------------------------- HDBSCAN

LEAST_MIN_SAMPLES, MOST_MIN_SAMPLES = 5, 1024


# scikit-learn's and cuML's parameters of the same name and meaning.
SHARED = (
    *("allow_single_cluster", "alpha", "cluster_selection_epsilon", "cluster_selection_method"),
    *("metric", "min_cluster_size"),
)


def min_samples(params):
    """scikit-learn's number of neighbours that make a core, each point counted as its own."""
    given = params["min_samples"]
    return params["min_cluster_size"] if given is None else given


def _make_hdbscan(cuml_class, twin, changes):
    params = twin.get_params(deep=False)
    return cuml_class(
        **{name: params[name] for name in SHARED},
        # As in the package hdbscan: a point is not its own neighbour, and no limit is 0.
        min_samples=min_samples(params) - 1,
        max_cluster_size=params["max_cluster_size"] or 0,
        **changes,
    )


def _lower_hdbscan(model, twin):
    """Fitted attributes of scikit-learn's class, without the unused copy of X."""
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


def _hdbscan_checks(params, data):
    if data.n_rows == 1:
        raise ValueError("n_samples=1 while HDBSCAN requires more than one sample")
    asked = min_samples(params)
    if asked > data.n_rows:
        raise ValueError(
            f"min_samples ({asked}) must be at most the number of samples in X ({data.n_rows})"
        )


HDBSCAN = Row(
    sk=cluster.HDBSCAN,
    cuml="cuml.cluster.HDBSCAN",
    work=_pairs_work,
    refuses=(
        only("metric", "euclidean", "l2"),
        when_set(lambda p: bool(p["metric_params"]), "metric_params"),
        unset("store_centers"),
        # cuML scales distances to near neighbours only, not those that join what is far apart.
        only("alpha", 1.0),
        # With so few neighbours the tree misses many joins, and clusters differ.
        when_set(
            lambda p: not LEAST_MIN_SAMPLES <= min_samples(p) <= MOST_MIN_SAMPLES,
            f"min_samples below {LEAST_MIN_SAMPLES} or above {MOST_MIN_SAMPLES}",
        ),
    ),
    checks=_hdbscan_checks,
    infinite=True,
    float32_only=True,
    light=("labels_", "probabilities_"),
    dtypes={"labels_": "int64"},
    # It predicts nothing, so no model continues on a GPU.
    convert=Conversion(make=_make_hdbscan, lower=_lower_hdbscan, lift=None),
    notes=(
        "The tree joins each row with its `min_samples` nearest neighbours, and then the remaining",
        "parts: some joins come slightly later than scikit-learn's, and clusters that are hardly",
        "separated may differ. Points on the edge of clusters may be noise in only one of the two.",
    ),
)


# ---------------------------------------------------------------- AgglomerativeClustering


def _agglomerative_checks(params, data):
    _check_two_rows("AgglomerativeClustering", data)
    if params["n_clusters"] is None:
        raise ValueError(
            "Exactly one of n_clusters and distance_threshold has to be set, and the other needs "
            "to be None."
        )
    if params["n_clusters"] > data.n_rows:
        raise ValueError(
            f"Cannot extract more clusters than samples: {params['n_clusters']} clusters were "
            f"given for a tree with {data.n_rows} leaves."
        )


def _make_agglomerative(cuml_class, twin, changes):
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


def _lower_agglomerative(model, twin):
    return {
        "labels_": to_host(model.labels_).astype(np.int64),
        "children_": to_host(model.children_).astype(np.int64),
        "n_clusters_": int(model.n_clusters_),
        "n_leaves_": int(model.n_leaves_),
        "n_connected_components_": int(model.n_connected_components_),
    }


AGGLOMERATIVE_CLUSTERING = Row(
    sk=cluster.AgglomerativeClustering,
    cuml="cuml.cluster.AgglomerativeClustering",
    work=_pairs_work,
    refuses=(
        only("linkage", "single"),
        # cuML knows names of others, and fails with them.
        only("metric", "euclidean", "l2"),
        when_set(lambda p: p["connectivity"] is not None, "connectivity"),
        when_set(lambda p: p["memory"] is not None, "memory"),
        unset("distance_threshold"),
        unset("compute_distances"),
        when(
            lambda p, d: d.n_rows > MOST_ROWS_OF_PAIRS,
            f"single linkage of more than {MOST_ROWS_OF_PAIRS:,} rows",
        ),
    ),
    checks=_agglomerative_checks,
    float32_only=True,
    light=("labels_", "children_", "n_clusters_", "n_leaves_", "n_connected_components_"),
    dtypes={"labels_": "int64", "children_": "int64"},
    convert=Conversion(make=_make_agglomerative, lower=_lower_agglomerative, lift=None),
    notes=("Clusters may have other numbers than scikit-learn's.",),
)


# ---------------------------------------------------------------- SpectralClustering

# Entries of an affinity and of its transpose that differ by more are two: scikit-learn's number.
ASYMMETRY = 1e-10


def _spectral_checks(params, data):
    _check_two_rows("SpectralClustering", data)
    if params["affinity"] == "precomputed" and data.n_rows != data.n_features:
        raise ValueError(f"array must be 2-dimensional and square. shape = {tuple(data.X.shape)}")


def _is_asymmetric(X):
    if not hasattr(X, "tocsr"):
        xp = namespace(X)
        return any_true(xp.abs(X - X.T) > ASYMMETRY, xp)
    difference = abs(X - X.T.tocsr())
    return difference.nnz > 0 and float(difference.max()) > ASYMMETRY


def _wants_much(params, data):
    # cuML takes fewer components, or neighbours, without a word.
    n_components = params["n_components"] or params["n_clusters"]
    by_neighbors = params["affinity"] == "nearest_neighbors"
    return (
        params["n_clusters"] > data.n_rows
        or n_components > (data.n_rows - 1) // 3
        or (by_neighbors and params["n_neighbors"] >= data.n_rows)
    )


SPECTRAL_CLUSTERING = Row(
    sk=cluster.SpectralClustering,
    cuml="cuml.cluster.SpectralClustering",
    work=_pairs_work,
    refuses=(
        only("affinity", "nearest_neighbors", "precomputed"),
        only("assign_labels", "kmeans"),
        unset("eigen_solver"),
        when(lambda p, d: d.sparse and p["affinity"] != "precomputed", "sparse X"),
        when(_wants_much, "so many components or neighbours of so few rows"),
        when(
            lambda p, d: p["affinity"] == "precomputed" and _is_asymmetric(d.X),
            "affinity that is not symmetric",
        ),
    ),
    checks=_spectral_checks,
    sparse=True,
    float32_only=True,
    light=("labels_",),
    absent={"affinity_matrix_": "cuML does not keep it"},
    dtypes={"labels_": "int32"},
    notes=("Clusters have other numbers than scikit-learn's.",),
)
