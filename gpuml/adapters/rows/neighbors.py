"""Rows of `gpuml.neighbors`."""

import math
from functools import cache
from typing import Any

import numpy as np
from sklearn import neighbors

from gpuml.adapters import _conversion
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import Refusal, Row, UnsupportedHere, only, when, when_set

# Rows of the fit that a row at use is compared with on a CPU, where no one knows their number.
COMPARED = 100
# Metrics that both libraries know, and mean the same by. cuML's Jensen-Shannon distance does not
# scale rows to sum to one as SciPy's does.
METRICS = (
    *("minkowski", "euclidean", "l2", "sqeuclidean", "manhattan", "cityblock", "l1", "chebyshev"),
    *("canberra", "cosine", "correlation", "haversine"),
)
SPARSE_METRICS = neighbors.VALID_METRICS_SPARSE["brute"] - {"precomputed"}
OF_MINKOWSKI = {1: "manhattan", 2: "euclidean", math.inf: "chebyshev"}

DENSITY_METRICS = ("euclidean", "l2", "manhattan", "cityblock", "l1", "chebyshev", "minkowski")


def used_metric(params):
    """The metric by its most special name."""
    metric = params["metric"]
    return OF_MINKOWSKI.get(params["p"], metric) if metric == "minkowski" else metric


def _no_order(p):
    """Whether a parameter is no order of a Minkowski metric: scikit-learn raises, or warns."""
    return p is None or p < 1


def _metric_of_no_tree(params):
    # cuML continues without a tree; scikit-learn raises an error.
    algorithm = params["algorithm"]
    return (
        algorithm.endswith("_tree") and params["metric"] not in neighbors.VALID_METRICS[algorithm]
    )


def other_metric_params(params):
    """Whether there are `metric_params` besides the order of a Minkowski metric."""
    given = params["metric_params"]
    if not given:
        return False
    one_order = params["metric"] == "minkowski" and set(given) == {"p"}
    return not one_order or _no_order(given["p"])


def _use_work(n_rows, n_features, params):
    return 8.0 * n_rows * n_features * COMPARED


def _fit_work(n_rows, n_features, params):
    return 8.0 * n_rows * n_features


REFUSES = (
    only("metric", *METRICS),
    when_set(lambda p: bool(p["metric_params"]), "metric_params"),
    when_set(lambda p: p["metric"] == "minkowski" and _no_order(p["p"]), "p below 1"),
    when_set(_metric_of_no_tree, "tree of this metric"),
    Refusal(lambda p, d: p["n_neighbors"] is None, parameter="n_neighbors"),
    when(
        lambda p, d: d.sparse and used_metric(p) not in SPARSE_METRICS, "this metric of sparse rows"
    ),
    when(
        lambda p, d: p["metric"] == "haversine" and d.n_features != 2,
        "haversine metric but of two features",
    ),
)
ONE_TARGET = when(lambda p, d: d.n_outputs > 1, "several targets")
# scikit-learn predicts a column then, cuML a vector.
NO_COLUMN = when(lambda p, d: d.y is not None and d.y.ndim > 1, "target in a column")
WEIGHTS = only("weights", "uniform", "distance", None)
LIGHT = ("n_samples_fit_", "effective_metric_")
NOTES = (
    (
        "Distances are computed in float32, Euclidean ones from norms and products: that of a row "
        "to itself may be slightly above 0."
    ),
    "Neighbours at the same distance may come in another order.",
)


def use_checks(model, method, X, arguments):
    """Raise what scikit-learn raises at use, and refuse what cuML does not do with these rows."""
    if X is not None and _is_sparse(X) != _is_sparse(model._fit_X):
        raise UnsupportedHere("search for dense rows among sparse ones, or the reverse")
    if method == "radius_neighbors_graph":
        _check_graph(model, arguments)
        return
    if X is None and not method.startswith("kneighbors"):
        raise UnsupportedHere(f"{method} of the rows of the fit")
    wanted = arguments.get("n_neighbors")
    wanted = model.n_neighbors if wanted is None else wanted
    n_rows = model.n_samples_fit_
    if wanted > n_rows - (X is None):
        raise ValueError(
            f"Expected n_neighbors {'<' if X is None else '<='} n_samples_fit, but n_neighbors = "
            f"{wanted}, n_samples_fit = {n_rows}, n_samples = {n_rows if X is None else X.shape[0]}"
        )


def _check_graph(model, arguments):
    if arguments.get("mode", "connectivity") != "connectivity":
        raise UnsupportedHere("graph by radius with distances")
    if model.effective_metric_ not in ("euclidean", "l2") or _is_sparse(model._fit_X):
        raise UnsupportedHere("graph by radius but of Euclidean distances of dense rows")
    if arguments.get("radius", model.radius) <= 0:
        raise UnsupportedHere("radius of 0")


def _is_sparse(X):
    return hasattr(X, "indptr")


def _lower(model, twin):
    """With scikit-learn's entries of `effective_metric_params_`, and its dtype of codes."""
    out = dict(_conversion.lower(model, twin))
    if out["effective_metric_"] == "minkowski":
        out["effective_metric_params_"] = {**out["effective_metric_params_"], "w": None}
    if "outputs_2d_" in out:  # a classifier, whose votes are counted with NumPy's indices
        out["_y"] = out["_y"].astype(np.intp, copy=False)
    return out


def _lift(cuml_class, twin, changes):
    """Except for targets in columns, for which cuML returns one array of votes or means."""
    if getattr(twin, "_y", np.empty(0)).ndim > 1:
        raise UnsupportedHere("targets in columns")
    return _conversion.lift(cuml_class, twin, changes)


@cache
def _with_modes(cuml_class: Any) -> Any:
    class NearestNeighbors(cuml_class):
        def radius_neighbors_graph(self, X=None, radius=None, mode=None, sort_results=False):
            # Rows let no other mode pass than cuML's, in which there is no distance to sort by.
            return super().radius_neighbors_graph(X, radius)

    return NearestNeighbors


NEIGHBORS = Conversion(lower=_lower, lift=_lift)
NEAREST = Conversion(derived=lambda cuml_class, twin: _with_modes(cuml_class), lower=_lower)

NEAREST_NEIGHBORS = Row(
    sk=neighbors.NearestNeighbors,
    cuml="cuml.neighbors.NearestNeighbors",
    work=_fit_work,
    use_work=_use_work,
    methods=("kneighbors", "kneighbors_graph", "radius_neighbors_graph"),
    refuses=REFUSES,
    use_checks=use_checks,
    sparse=True,
    float32_only=True,
    light=LIGHT,
    dtypes={"kneighbors": "int64"},
    convert=NEAREST,
    notes=NOTES,
)

KNEIGHBORS_CLASSIFIER = Row(
    sk=neighbors.KNeighborsClassifier,
    cuml="cuml.neighbors.KNeighborsClassifier",
    work=_fit_work,
    use_work=_use_work,
    methods=("kneighbors", "kneighbors_graph", "predict", "predict_proba"),
    refuses=(WEIGHTS, *REFUSES, ONE_TARGET),
    use_checks=use_checks,
    sparse=True,
    float32_only=True,
    mixin_score=True,
    light=(*LIGHT, "outputs_2d_"),
    dtypes={"kneighbors": "int64"},
    convert=NEIGHBORS,
    notes=NOTES,
)

KNEIGHBORS_REGRESSOR = Row(
    sk=neighbors.KNeighborsRegressor,
    cuml="cuml.neighbors.KNeighborsRegressor",
    work=_fit_work,
    use_work=_use_work,
    methods=("kneighbors", "kneighbors_graph", "predict"),
    refuses=(WEIGHTS, *REFUSES, ONE_TARGET, NO_COLUMN),
    use_checks=use_checks,
    sparse=True,
    float32_only=True,
    flat_y=False,
    light=LIGHT,
    dtypes={"kneighbors": "int64"},
    convert=NEIGHBORS,
    notes=NOTES,
)

KERNEL_DENSITY = Row(
    sk=neighbors.KernelDensity,
    cuml="cuml.neighbors.KernelDensity",
    work=_fit_work,
    use_work=_use_work,
    methods=("score_samples", "score", "sample"),
    refuses=(
        only("metric", *DENSITY_METRICS),
        when_set(other_metric_params, "such metric_params"),
    ),
    light=("bandwidth_",),
    notes=(
        "Densities are sums over all rows: `algorithm`, `leaf_size`, `atol`, `rtol` and",
        "`breadth_first` have no effect.",
        "float32 rows are computed in float32; scikit-learn's tree always uses float64.",
        "`kernel='cosine'` integrates to 1; scikit-learn's does so only for odd numbers of",
        "features: for two features its densities are 2.75 times too small, for four they are nan.",
        "`sample` draws other random numbers than scikit-learn's, and returns rows in the library",
        "of the rows of the fit.",
    ),
)
