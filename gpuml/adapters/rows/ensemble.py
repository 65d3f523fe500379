"""Rows of `gpuml.ensemble`."""

import math
from numbers import Integral

from sklearn import ensemble
from sklearn.utils import check_random_state

from gpuml._arrays import namespace
from gpuml._arrays.ops import any_true
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import Row, only, unset, when, when_set

# cuML's default number of quantiles per feature where splits are tried.
BINS = 128
# Bytes that a row reads on its way down one tree.
PATH_BYTES = 64
SUBSAMPLE = "balanced_subsample"

REFUSES = (
    unset("warm_start"),
    unset("monotonic_cst"),
    unset("ccp_alpha", 0.0),
    unset("min_weight_fraction_leaf", 0.0),
    # cuML fills level by level up to a number that it may exceed, not the best leaf first, and
    # compares the gain at a node, whatever share of the rows is there.
    unset("max_leaf_nodes"),
    unset("min_impurity_decrease", 0.0),
    when_set(lambda p: callable(p["oob_score"]), "callable oob_score"),
    when_set(lambda p: isinstance(p["max_samples"], int), "integer max_samples"),
    when(lambda p, d: d.n_outputs > 1, "several targets"),
)
NOTES = (
    "Thresholds of splits are chosen among 128 quantiles of each feature: scores agree with",
    "scikit-learn's, trees do not.",
)
# nvForest, which asks the trees of cuML, is built with an older Treelite than cuML: it says so
# whenever it reads a forest. RAPIDS ships them together, and users can do nothing about it.
NOISE = r".*The model you are loading originated from a newer Treelite version"
ABSENT = {"estimators_samples_": "cuML does not record which rows each tree was given"}


def _work(n_rows, n_features, params):
    return 8.0 * n_rows * n_features * params["n_estimators"]


def _use_work(n_rows, n_features, params):
    return n_rows * (8.0 * n_features + PATH_BYTES * params["n_estimators"])


def _checks(params, data):
    if params["max_samples"] is not None and not params["bootstrap"]:
        raise ValueError(
            "`max_sample` cannot be set if `bootstrap=False`. Either switch to `bootstrap=True` or "
            "set `max_sample=None`."
        )
    if params["oob_score"] and not params["bootstrap"]:
        raise ValueError("Out of bag estimation only available if bootstrap=True")


def _regressor_checks(params, data):
    _checks(params, data)
    if params["criterion"] != "poisson":
        return
    xp = namespace(data.y)
    if any_true(data.y < 0, xp):
        raise ValueError(
            "Some value(s) of y are negative which is not allowed for Poisson regression."
        )
    if float(xp.sum(data.y)) <= 0:
        raise ValueError(
            "Sum of y is not strictly positive which is necessary for Poisson regression."
        )


def _features_per_split(n_features, given):
    """scikit-learn's number of features that each split is sought among."""
    if given is None:
        return n_features
    if isinstance(given, str):
        given = math.sqrt(n_features) if given == "sqrt" else math.log2(n_features)
    elif not isinstance(given, Integral):
        given *= n_features
    return max(1, int(given))


def _seed(random_state):
    """A number is cuML's seed; without one, cuML would use the same seed each time."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _changes(params, data):
    # cuML is given numbers of features as shares in float32, and drops the fraction of what they
    # amount to: a little more keeps the last feature.
    seed = _seed(params["random_state"])
    n_features = _features_per_split(data.n_features, params["max_features"])
    return {
        "random_state": seed,
        "n_bins": min(BINS, data.n_rows),
        "max_features": min(1.0, (n_features + 0.25) / data.n_features),
    }


RANDOM_FOREST_CLASSIFIER = Row(
    sk=ensemble.RandomForestClassifier,
    cuml="cuml.ensemble.RandomForestClassifier",
    work=_work,
    use_work=_use_work,
    methods=("predict", "predict_proba", "predict_log_proba"),
    refuses=(
        only("criterion", "gini", "entropy"),
        when_set(lambda p: p["class_weight"] == SUBSAMPLE, f"class_weight={SUBSAMPLE!r}"),
        # cuML counts the rows of a class by their weights.
        when(
            lambda p, d: p["class_weight"] == "balanced" and d.weight is not None,
            "class_weight='balanced' with sample_weight",
        ),
        *REFUSES,
    ),
    checks=_checks,
    changes=_changes,
    light=("n_classes_", "n_outputs_", "oob_decision_function_", "oob_score_"),
    kept=("feature_importances_",),
    absent=ABSENT,
    pooled=True,
    noise=NOISE,
    notes=NOTES,
)

RANDOM_FOREST_REGRESSOR = Row(
    sk=ensemble.RandomForestRegressor,
    cuml="cuml.ensemble.RandomForestRegressor",
    work=_work,
    use_work=_use_work,
    methods=("predict",),
    refuses=(only("criterion", "squared_error", "poisson"), *REFUSES),
    checks=_regressor_checks,
    changes=_changes,
    light=("n_outputs_", "oob_prediction_", "oob_score_"),
    kept=("feature_importances_",),
    absent=ABSENT,
    pooled=True,
    noise=NOISE,
    notes=NOTES,
)


def _rows_per_tree(n_rows, params):
    """Rows that each tree of an isolation forest is given."""
    given = params["max_samples"]
    if given == "auto":
        return min(256, n_rows)
    return min(given, n_rows) if isinstance(given, Integral) else int(given * n_rows)


def _isolation_work(n_rows, n_features, params):
    reads = 8.0 * n_features * (n_rows + params["n_estimators"] * _rows_per_tree(n_rows, params))
    if params["contamination"] == "auto":
        return reads
    return reads + _use_work(n_rows, n_features, params)  # of the scores of all rows


def _isolation_checks(params, data):
    given = params["max_features"]
    if isinstance(given, Integral) and given > data.n_features:
        raise ValueError("max_features must be <= n_features")
    if _rows_per_tree(data.n_rows, params) == 0:
        raise ValueError(f"max_samples={params['max_samples']} of {data.n_rows} rows is no row.")


ISOLATION_FOREST = Row(
    sk=ensemble.IsolationForest,
    cuml="cuml.ensemble.IsolationForest",
    work=_isolation_work,
    use_work=_use_work,
    methods=("predict", "decision_function", "score_samples"),
    refuses=(
        unset("warm_start"),
        # scikit-learn takes one feature.
        when_set(
            lambda p: isinstance(p["max_features"], Integral) and p["max_features"] < 1,
            "max_features below 1",
        ),
        when(lambda p, d: d.weight is not None, "sample_weight"),
    ),
    checks=_isolation_checks,
    infinite=True,
    light=("max_samples_", "offset_"),
    absent=ABSENT,
    noise=NOISE,
    dtypes={"predict": "int64", "fit_predict": "int64"},
    # cuML's own reader of fitted models only raises.
    convert=Conversion(lift=None),
    notes=(
        "Trees are drawn with other random numbers than scikit-learn's. For float64 rows, they are",
        "computed in float64. Models that scikit-learn fitted stay in CPU memory.",
    ),
)
