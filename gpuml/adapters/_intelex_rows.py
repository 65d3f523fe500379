"""The table of what scikit-learn-intelex does: a `Row` for each class, as the other table has it.

What oneDAL does not do at all, its classes say themselves (`frank`). A row refuses what they do
otherwise than scikit-learn.

There is no k-means: oneDAL stops once the cost falls by less than `tol`, whatever the centres do,
and took some ten times as long as scikit-learn.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from sklearn import cluster, ensemble, manifold, neighbors, svm

from gpuml.adapters._conversion import Conversion
from gpuml.adapters._intelex import frank, frank_tsne, lower, make
from gpuml.adapters._row import Row, UnsupportedHere, only, unset
from gpuml.adapters.rows import cluster as clusters
from gpuml.adapters.rows import ensemble as forests
from gpuml.adapters.rows import neighbors as near
from gpuml.adapters.rows import svm as machines


def _converted(lower_by: Any = lower, derived: Any = frank, lift: Any = None) -> Conversion:
    return Conversion(
        derived=lambda intelex_class, twin: derived(intelex_class),
        make=make,
        lower=lower_by,
        lift=lift,
    )


# ---------------------------------------------------------------- neighbours


# For ball trees, oneDAL compares sums of norms and products, which round differently.
ALGORITHMS = only("algorithm", "auto", "brute", "kd_tree")


def _neighbors_work(n_rows: int, n_features: int, params: Mapping[str, Any]) -> float:
    # A fit costs almost nothing, but it decides which library answers later.
    return near.COMPARED * 8.0 * n_rows * n_features


def _lower_neighbors(model: Any, twin: Any) -> dict[str, Any]:
    """A fit by scikit-learn, which stores the rows or makes its own tree of them."""
    fitted, y = copy(twin), getattr(model, "_y", None)
    fitted.fit(model._fit_X, *(() if y is None else (y,)))
    params = twin.get_params(deep=False)
    return {name: value for name, value in vars(fitted).items() if name not in params}


def _lift_neighbors(derived: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A fit to the rows of a twin, whose parameters may be others than those of its fit."""
    y = getattr(twin, "_y", None)
    return make(derived, twin, changes).fit(twin._fit_X, *(() if y is None else (y,)))


def _neighbors(sk: type, methods: tuple[str, ...], **fields: Any) -> Row:
    return Row(
        sk=sk,
        cuml=None,
        intelex=f"sklearnex.neighbors.{sk.__name__}",
        work=_neighbors_work,
        methods=("kneighbors", "kneighbors_graph", *methods),
        use_checks=_neighbors_checks,
        floats="float64",
        mixin_score=True,
        dtypes={"kneighbors": "int64"},
        convert=_converted(_lower_neighbors, lift=_lift_neighbors),
        notes=("Neighbours at the same distance may come in another order.",),
        **fields,
    )


def _neighbors_checks(model: Any, method: str, X: Any, arguments: Mapping[str, Any]) -> None:
    if X is None and not method.startswith("kneighbors"):
        raise UnsupportedHere(f"{method} of the rows of the fit")
    near.use_checks(model, method, X, arguments)


# ---------------------------------------------------------------- forests

OF_FORESTS = (
    *("estimators_", "estimator_", "n_outputs_", "n_classes_", "_n_samples"),
    *("_n_samples_bootstrap", "oob_score_", "oob_prediction_", "oob_decision_function_"),
)


def _lower_forest(model: Any, twin: Any) -> dict[str, Any]:
    return {name: getattr(model, name) for name in OF_FORESTS if hasattr(model, name)}


def _forest(sk: type, methods: tuple[str, ...], **fields: Any) -> Row:
    return Row(
        sk=sk,
        cuml=None,
        intelex=f"sklearnex.ensemble.{sk.__name__}",
        work=forests._work,
        methods=methods,
        # scikit-learn's trees compare in float32.
        floats="float32",
        asked=True,
        light=("n_outputs_", "oob_score_"),
        absent={"estimators_samples_": "oneDAL does not record which rows each tree was given"},
        convert=_converted(_lower_forest),
        notes=(
            "Thresholds of splits are chosen among 256 bins of each feature: scores agree with",
            "scikit-learn's, trees do not.",
        ),
        **fields,
    )


# ---------------------------------------------------------------- support vectors


OF_MACHINES = (
    *("support_", "support_vectors_", "dual_coef_", "_dual_coef_", "intercept_", "_intercept_"),
    *("_gamma", "fit_status_", "shape_fit_", "n_iter_"),
)


def _lower_machine(model: Any, twin: Any) -> dict[str, Any]:
    """Add what libsvm requires: its order of vectors, 32-bit counts, class weights."""
    out = {name: _contiguous(getattr(model, name)) for name in OF_MACHINES}
    n_classes = len(model.classes_) if hasattr(model, "classes_") else 0
    out["support_"] = out["support_"].astype(np.int32)
    out["_n_support"] = np.asarray(model._n_support, dtype=np.int32)
    weights = getattr(model, "class_weight_", None)
    if n_classes:
        out["class_weight_"] = np.ones(n_classes) if weights is None else np.asarray(weights)
    if n_classes == 2:
        out = machines.in_libsvm_order(out)
    if not n_classes:
        out |= {"class_weight_": np.empty(0), "_n_support": np.repeat(out["_n_support"], 2)}
    out |= {"_probA": np.empty(0), "_probB": np.empty(0), "_sparse": False}
    out |= {"_num_iter": np.atleast_1d(model.n_iter_), "_effective_probability": False}
    return out


def _contiguous(value: Any) -> Any:
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


def _machine(sk: type, methods: tuple[str, ...], **fields: Any) -> Row:
    return Row(
        sk=sk,
        cuml=None,
        intelex=f"sklearnex.svm.{sk.__name__}",
        work=machines._kernel_work,
        methods=methods,
        floats="float64",
        asked=True,  # predictions are faster than libsvm's, fits often are not
        convert=_converted(_lower_machine),
        notes=("`shrinking` has no effect, and `n_iter_` counts iterations of another solver.",),
        **fields,
    )


KERNELS = (only("kernel", "linear", "poly", "rbf", "sigmoid"), only("max_iter", -1))

ROWS: dict[type, Row] = {
    row.sk: row
    for row in (
        _neighbors(neighbors.NearestNeighbors, (), refuses=(ALGORITHMS,)),
        _neighbors(
            neighbors.KNeighborsClassifier,
            ("predict", "predict_proba"),
            refuses=(ALGORITHMS, near.ONE_TARGET),
        ),
        _neighbors(
            neighbors.KNeighborsRegressor,
            ("predict",),
            refuses=(ALGORITHMS, near.ONE_TARGET, near.NO_COLUMN),
            flat_y=False,
        ),
        Row(
            sk=cluster.DBSCAN,
            cuml=None,
            intelex="sklearnex.cluster.DBSCAN",
            work=clusters._pairs_work,
            floats="float64",
            asked=True,  # it compares all pairs of rows, scikit-learn walks a tree
            light=("labels_", "core_sample_indices_", "components_"),
            dtypes={"labels_": "int64", "core_sample_indices_": "int64"},
            convert=_converted(),
        ),
        _forest(
            ensemble.RandomForestClassifier,
            ("predict", "predict_proba", "predict_log_proba"),
            refuses=(only("criterion", "gini"),),
            checks=forests._checks,
        ),
        _forest(
            ensemble.RandomForestRegressor,
            ("predict",),
            refuses=(only("criterion", "squared_error"),),
            checks=forests._regressor_checks,
        ),
        _machine(
            svm.SVC,
            ("predict", "decision_function"),
            refuses=(*KERNELS, only("probability", "deprecated", False), unset("break_ties")),
            checks=machines._svc_checks,
        ),
        _machine(svm.SVR, ("predict",), refuses=KERNELS),
        Row(
            sk=manifold.TSNE,
            cuml=None,
            intelex="sklearnex.manifold.TSNE",
            work=lambda n_rows, n_features, params: 8.0 * n_rows * n_features * 200,
            refuses=(only("method", "barnes_hut"), only("n_components", 2), unset("verbose", 0)),
            asked=True,
            light=("embedding_", "kl_divergence_", "n_iter_"),
            dtypes={"embedding_": "float32", "fit_transform": "float32"},
            convert=_converted(derived=frank_tsne),
            notes=("Coordinates differ from scikit-learn's; neighbourhoods agree.",),
        ),
    )
}
