"""Which steps of a `ColumnTransformer` join the pass: scores of each are those of scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn import compose as sk_compose
from sklearn import linear_model as sk_linear
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import FitFailedWarning
from sklearn.feature_selection import (
    GenericUnivariateSelect,
    SelectFpr,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
    chi2,
    f_classif,
    f_regression,
    r_regression,
)
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

from gpuml import preprocessing
from gpuml.compose import ColumnTransformer, make_column_selector
from gpuml.linear_model import LogisticRegression, PoissonRegressor, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.split import split_rows
from tests.compose.test_tables import ALPHAS, FILLED, NUMBERS, assert_same, pair, table

SPLITTERS = [
    KFold(4, shuffle=True, random_state=1),
    ShuffleSplit(3, train_size=0.5, test_size=0.3, random_state=0),
    TimeSeriesSplit(3),
    RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
]
LEVELS = OneHotEncoder(handle_unknown="ignore")
DENSE = OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def behind(*steps, **params):
    """Steps behind an imputer, named as scikit-learn names them."""
    return make_pipeline(SimpleImputer(**params), *steps)


def often(*steps):
    return behind(*steps, strategy="most_frequent")


def varied(**params):
    return {f"columns__numbers__{name}": values for name, values in params.items()}


def bins(**params):
    return KBinsDiscretizer(quantile_method="averaged_inverted_cdf", **params)


def centred(X):
    """No function of one row alone."""
    return np.asarray(X) - np.asarray(X).mean(axis=0)


class Ranges(TransformerMixin, BaseEstimator):
    """A step of one's own."""

    def fit(self, X, y=None):
        self.range_ = np.ptp(X, axis=0)
        return self

    def transform(self, X):
        return np.asarray(X) / self.range_


def union(**params):
    parts = [("a", behind(StandardScaler(), PCA(2))), ("b", behind(SplineTransformer(3)))]
    return FeatureUnion([*parts, ("no", "drop"), ("c", behind())], **params)


# What stands before the model, and what a search varies.
CASES = {
    "quantiles": (behind(RobustScaler()), FILLED, varied(robustscaler__with_scaling=[True, False], robustscaler__quantile_range=[(25, 75), (10, 90)])),
    "robust levels": (behind(RobustScaler(with_scaling=False)), often(DENSE, RobustScaler()), {}),
    "variances": (behind(VarianceThreshold()), often(LEVELS, VarianceThreshold(0.1)), varied(variancethreshold__threshold=[0, 2.0])),
    "function of holes": (make_pipeline(FunctionTransformer(np.abs), FunctionTransformer(np.sqrt), SimpleImputer(), StandardScaler()), FILLED, {}),
    "function": (behind(FunctionTransformer(np.abs), FunctionTransformer(np.log1p)), FILLED, varied(simpleimputer__strategy=["mean", "median"])),
    "function of many rows": (behind(FunctionTransformer(centred)), FILLED, {}),
    "identity": (make_pipeline(FunctionTransformer(), SimpleImputer()), FILLED, {}),
    "norms": (behind(Normalizer()), FILLED, varied(normalizer__norm=["l1", "l2"])),
    "signs": (behind(Binarizer()), FILLED, varied(binarizer__threshold=[0.0, 1.0])),
    "holes": (FeatureUnion([("f", SimpleImputer()), ("h", MissingIndicator())]), FILLED, varied(h__features=["all"])),
    "even bins": (behind(KBinsDiscretizer(strategy="uniform")), FILLED, varied(kbinsdiscretizer__n_bins=[3, 5])),
    "bins of rows": (behind(bins()), FILLED, varied(kbinsdiscretizer__encode=["ordinal", "onehot", "onehot-dense"])),
    "scaled bins": (behind(bins(encode="onehot-dense"), StandardScaler()), FILLED, {}),
    "splines": (behind(SplineTransformer()), FILLED, varied(splinetransformer__n_knots=[3, 4], splinetransformer__knots=["uniform", "quantile"])),
    "given knots": (behind(SplineTransformer()), FILLED, varied(splinetransformer__knots=["uniform", np.quantile(table()[0][NUMBERS].fillna(0.0), [0, 0.3, 1], axis=0)])),
    "scaled splines": (behind(SplineTransformer(extrapolation="linear"), StandardScaler()), FILLED, varied(splinetransformer__extrapolation=["linear", "constant"])),
    "products": (behind(PolynomialFeatures(include_bias=False), StandardScaler()), FILLED, varied(polynomialfeatures__degree=[1, 2], polynomialfeatures__interaction_only=[True, False])),
    "products of levels": (behind(), often(LEVELS, PolynomialFeatures(interaction_only=True)), {}),
    "union": (union(transformer_weights={"a": 0.5}), FILLED, varied(a__pca__n_components=[1, 2], b__splinetransformer__degree=[1, 2])),
    "union behind": (behind(FeatureUnion([("p", PolynomialFeatures()), ("v", PCA(2))])), FILLED, {}),
    "behind a union": (make_pipeline(union(), RobustScaler(), PCA(3)), FILLED, varied(pca__n_components=[1, 3])),
    "best": (behind(SelectKBest(f_regression, k=2)), often(LEVELS, SelectPercentile(f_regression)), {**varied(selectkbest__k=[1, "all"]), "columns__levels__selectpercentile__percentile": [20, 50]}),
    "correlated": (behind(SelectKBest(r_regression, k=2)), often(LEVELS, SelectFpr(f_regression)), {"columns__levels__selectfpr__alpha": [0.1, 0.9]}),
    "nothing is left of one entry": (behind(), FILLED, {"columns__numbers": [behind(SelectFpr(f_regression, alpha=1e-300)), behind()]}),
    "any mode": (behind(GenericUnivariateSelect(f_regression, mode="k_best", param=1)), FILLED, {}),
    "components": (behind(TruncatedSVD(2, algorithm="arpack")), make_pipeline(LEVELS, TruncatedSVD(3, algorithm="arpack")), {}),
    "shapes": (behind(PowerTransformer()), FILLED, {}),
    "ranks": (behind(QuantileTransformer(n_quantiles=50)), FILLED, {}),
    "one's own": (behind(Ranges()), FILLED, {}),
    "drawn by a number": (behind(GaussianRandomProjection(2, random_state=0)), FILLED, varied(gaussianrandomprojection__n_components=[1, 2])),
    "neighbours": (KNNImputer(), FILLED, varied(n_neighbors=[2, 5])),
    "scaled holes": (make_pipeline(StandardScaler(), SimpleImputer()), FILLED, {}),
    "clipped": (behind(MinMaxScaler(clip=True)), often(DENSE, MaxAbsScaler()), {}),
    "given levels": (behind(), OneHotEncoder(categories=[["a", "b", "c"], ["p0", "p1"], [0, 2]], handle_unknown="ignore"), {"columns__levels__categories": ["auto", [["b", "c"], ["p1"], [1]]]}),
    "one word for many": (behind(), OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2, min_frequency=9), {}),
    "nested": (make_pipeline(behind("passthrough"), StandardScaler()), FILLED, {}),
    "columns of columns": (make_pipeline(sk_compose.ColumnTransformer([("a", behind(StandardScaler()), ["x", "holes"]), ("b", "passthrough", [2])], sparse_threshold=0)), FILLED, {}),
    "gpuml's own": (behind(preprocessing.PolynomialFeatures(2), preprocessing.StandardScaler()), FILLED, {}),
    "candidates are steps": (behind(StandardScaler()), FILLED, {"columns__levels": ["drop", DENSE], **varied(standardscaler=["passthrough", RobustScaler()])}),
    "candidates are entries": (behind(), FILLED, {"columns__numbers": ["drop", behind(bins()), KNNImputer()]}),
}  # fmt: skip


QUICK = ("quantiles", "function of holes", "holes", "even bins", "best", "one's own")


def searched(ours, theirs, grid, X, y, *, cv, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of both, about bins, constant features and new levels
        search = GridSearchCV(ours, grid, cv=cv, return_train_score=True).fit(X, y, **params)
        other = SkGridSearchCV(theirs, grid, cv=cv, return_train_score=True).fit(X, y, **params)
    return search, other


def assert_together(search):
    assert "batched" not in str(search.plan_).lower(), search.plan_
    assert "all candidates together" in str(search.plan_)


def cases():
    """All of them, each with one of the splitters; a few are run by `make test`."""
    for i, name in enumerate(CASES):
        marks = () if name in QUICK else pytest.mark.exhaustive
        yield pytest.param(name, SPLITTERS[i % len(SPLITTERS)], marks=marks)


@pytest.mark.parametrize(("name", "cv"), list(cases()))
def test_scores_and_models_are_those_of_scikit_learn(name, cv):
    numbers, levels, grid = CASES[name]
    X, y = table()
    ours, theirs = pair(numbers, levels, Ridge(), sk_linear.Ridge())
    search, other = searched(ours, theirs, grid or ALPHAS, X, y, cv=cv)
    assert_together(search)
    assert_same(search, other)
    np.testing.assert_allclose(search.predict(X), other.predict(X), rtol=1e-8)
    mine, own = search.best_estimator_[0], other.best_estimator_[0]
    # What is 0 in one is a rounding error of values of about 1 in the other.
    np.testing.assert_allclose(
        mine.transform(X).astype(float), own.transform(X).astype(float), atol=1e-12
    )


MODELS = {
    "logistic": (LogisticRegression(tol=1e-10), sk_linear.LogisticRegression(tol=1e-10, max_iter=9000), {"model__C": [0.1, 1.0]}),
    "poisson": (PoissonRegressor(tol=1e-10), sk_linear.PoissonRegressor(tol=1e-10, max_iter=9000, solver="newton-cholesky"), {"model__alpha": [0.1, 1.0]}),
}  # fmt: skip
FOR_CLASSES = {
    "classes": behind(MinMaxScaler(), SelectKBest(f_classif, k=2)),
    "counts": behind(MinMaxScaler(), SelectPercentile(chi2, percentile=70)),
    "splines": behind(SplineTransformer(4), StandardScaler()),
    "bins": behind(bins()),
}


@pytest.mark.some
@pytest.mark.parametrize(
    ("name", "model"),
    [
        *(("splines", "logistic"), ("bins", "logistic"), ("classes", "logistic")),
        *(("counts", "logistic"), ("splines", "poisson"), ("bins", "poisson")),
    ],
)
def test_models_by_iterations(name, model):
    X, y = table()
    ours, theirs, grid = MODELS[model]
    y = np.asarray(["no", "yes"])[(y > np.median(y)).astype(int)] if model == "logistic" else y**2
    ours, theirs = pair(FOR_CLASSES[name], FILLED, ours, theirs)
    search, other = searched(ours, theirs, grid, X, y, cv=3)
    assert_together(search)
    assert_same(search, other, 1e-6)


@pytest.mark.some
@pytest.mark.parametrize("name", ["quantiles", "splines", "bins of rows"])
def test_weights_are_of_the_model_alone(name):
    X, y = table()
    weight = np.random.default_rng(3).uniform(0, 2, len(y))
    numbers, levels, _ = CASES[name]
    ours, theirs = pair(numbers, levels, Ridge(), sk_linear.Ridge())
    search, other = searched(ours, theirs, ALPHAS, X, y, cv=3, model__sample_weight=weight)
    assert_together(search)
    assert_same(search, other)


EMPTY = {
    "mean": SimpleImputer(),
    "constant": SimpleImputer(strategy="constant", fill_value=3.0),
    "kept": SimpleImputer(keep_empty_features=True),
    "kept constant": SimpleImputer(strategy="constant", fill_value=3.0, keep_empty_features=True),
    "flags": SimpleImputer(strategy="median", add_indicator=True),
}


@pytest.mark.some
@pytest.mark.parametrize("name", EMPTY)
def test_columns_that_are_empty_or_constant(name):
    """In all rows, and in some training parts alone."""
    X, y = table(120)
    X["large"] = np.nan
    X["holes"] = np.where(np.arange(120) < 40, 1.0 + np.arange(120), np.nan)
    X["x"] = 7.0
    X["kind"] = "a"
    ours, theirs = pair(behind(), FILLED, Ridge(), sk_linear.Ridge())
    grid = {
        "columns__numbers": [
            make_pipeline(EMPTY[name]),
            make_pipeline(EMPTY[name], RobustScaler()),
            make_pipeline(EMPTY[name], StandardScaler()),
        ],
        **ALPHAS,
    }
    search, other = searched(ours, theirs, grid, X, y, cv=KFold(3))
    assert_together(search)
    assert_same(search, other)


def test_a_constant_column_stays_so_behind_scalers():
    """One value is known in each training part, and what is left of it is rounding."""
    X, y = table(60)
    X["x"] = np.nan
    X.loc[[3, 40], "x"] = [-3.069576, -9.003093]
    numbers = behind(StandardScaler(), MaxAbsScaler(), MinMaxScaler())
    ours, theirs = pair(numbers, FILLED, Ridge(), sk_linear.Ridge())
    for seed in range(3):
        cv = KFold(2, shuffle=True, random_state=seed)
        search, other = searched(ours, theirs, ALPHAS, X, y, cv=cv)
        assert_together(search)
        assert_same(search, other)


def test_a_warning_tells_of_empty_columns():
    X, y = table(90)
    X["large"] = np.nan
    ours, _ = pair(behind(), FILLED, Ridge(), None)
    with pytest.warns(UserWarning, match=r"any observed values: \[2\].*a training set has none"):
        GridSearchCV(ours, ALPHAS, cv=3, refit=False).fit(X, y)


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_a_warning_tells_of_a_selection_of_no_features(output):
    X, y = table(90)
    selector = SelectFpr(f_regression, alpha=0.0).set_output(transform=output)
    ours, _ = pair(behind(selector), FILLED, Ridge(), None)
    with pytest.warns(UserWarning, match="No features were selected"):
        search = GridSearchCV(ours, ALPHAS, cv=3, refit=False).fit(X, y)
    assert_together(search)


def test_what_splits_have_in_common_is_made_once():
    X, y = table()
    made = {}
    for name, step in (("logs", FunctionTransformer(np.log1p)), ("bins", bins(n_bins=4))):
        columns = ColumnTransformer([("a", step, ["code", "x"])])
        X["x"] = X["x"].abs()
        batch = columns.table_batch(Ridge().multifit_batch(np.zeros((len(y), 1)), y), X)
        folds = make_folds(batch, split_rows(KFold(5), X, y, len(y)))
        made[name] = columns.table_folds(folds, [{}]).batch.table
    assert made["logs"].numbers.shape[1] == 2
    # A byte for each row and feature: edges of all training parts and of all rows make cells.
    assert [codes.dtype.itemsize for codes in made["bins"].codes] == [1, 1]
    assert max(map(len, made["bins"].levels)) <= 1 + 3 * 6


def test_settings_of_all_steps_share_a_pass():
    X, y = table()
    numbers = behind(SplineTransformer(), SelectKBest(f_regression))
    grid = {
        **varied(splinetransformer__n_knots=[3, 4], selectkbest__k=[3, "all"]),
        "columns__levels__onehotencoder__min_frequency": [None, 9],
    }
    levels = behind(LEVELS, strategy="most_frequent")
    ours, theirs = pair(numbers, levels, Ridge(), sk_linear.Ridge())
    search, other = searched(ours, theirs, grid, X, y, cv=3)
    assert search.plan_.n_passes == 1
    assert_same(search, other)


def test_features_are_scored_in_blocks(monkeypatch):
    X, y = table()
    monkeypatch.setattr("gpuml.pipeline._from_rows.BLOCK_BYTES", 8 * 160 * 4)
    levels = make_pipeline(DENSE, SelectKBest(f_regression))
    grid = {"columns__levels__selectkbest__k": [3, 7]}
    ours, theirs = pair(behind(), levels, Ridge(), sk_linear.Ridge())
    search, other = searched(ours, theirs, grid, X, y, cv=3)
    assert_together(search)
    assert_same(search, other)


def test_a_setting_that_does_not_join_keeps_no_other_out():
    X, y = table()
    numbers = behind(PCA(2, random_state=0))
    grid = {**varied(pca__svd_solver=["full", "randomized"]), **ALPHAS}
    ours, theirs = pair(numbers, FILLED, Ridge(), sk_linear.Ridge())
    search, other = searched(ours, theirs, grid, X, y, cv=3)
    assert "6 fits in 1 pass on numpy:cpu (all candidates together)" in str(search.plan_)
    assert "svd_solver='randomized'" in str(search.plan_)
    assert_same(search, other, 1e-6)


OF_NUMBERS = make_column_selector(dtype_include="number")
ENTRIES = [("n", behind(bins()), OF_NUMBERS), ("l", LEVELS, make_column_selector("kind"))]
COLUMNS = {
    "sparse where that pays": (ENTRIES, {}),
    "dense": (ENTRIES, {"sparse_threshold": 0}),
    "the rest is transformed": (ENTRIES[1:], {"remainder": behind(SplineTransformer(3), RobustScaler())}),
    "sparse": (ENTRIES[1:], {"remainder": "drop", "sparse_threshold": 1.0}),
    "weights": (ENTRIES[1:], {"remainder": behind(), "transformer_weights": {"l": 3.0}}),
}  # fmt: skip


@pytest.mark.some
@pytest.mark.parametrize("name", COLUMNS)
def test_selectors_of_columns_remainders_and_sparse_columns(name):
    X, y = table()
    entries, options = COLUMNS[name]
    ours, theirs = (
        Pipeline([("columns", kind(entries, **options)), ("model", model)])
        for kind, model in (
            (ColumnTransformer, Ridge()),
            (sk_compose.ColumnTransformer, sk_linear.Ridge(tol=1e-13)),
        )
    )
    search, other = searched(ours, theirs, ALPHAS, X.drop(columns="place"), y, cv=3)
    assert_together(search)
    assert_same(search, other, 1e-7)


def test_steps_that_read_rows_join_pipelines_of_arrays(rng):
    """Without a table, on rows in CPU memory."""
    X = rng.normal(size=(150, 6))
    y = X[:, 0] + rng.normal(size=150)
    for step, grid in (
        (RobustScaler(), {"step__with_scaling": [True, False]}),
        (VarianceThreshold(), {"step__threshold": [0.0, 0.9]}),
        (SelectKBest(f_regression), {"step__k": [2, "all"]}),
    ):
        ours, theirs = (
            Pipeline([("step", step), ("scale", scaler), ("model", model)])
            for scaler, model in (
                (preprocessing.StandardScaler(), Ridge()),
                (StandardScaler(), sk_linear.Ridge()),
            )
        )
        search, other = searched(ours, theirs, {**grid, **ALPHAS}, X, y, cv=4)
        assert search.plan_.n_passes == 1
        assert_same(search, other)
        np.testing.assert_allclose(search.predict(X), other.predict(X), rtol=1e-8)


REFUSED = {
    "bools": (SimpleImputer(strategy="most_frequent"), ["bool"]),
    "bools as levels": (often(LEVELS), ["bool"]),
    "fractions in integers": (SimpleImputer(strategy="constant", fill_value=0.5), ["code"]),
    "one feature": (behind(TruncatedSVD(1, algorithm="arpack")), ["x"]),
    "sparse rows": (make_pipeline(LEVELS, StandardScaler()), ["kind"]),
    "holes": (make_pipeline(StandardScaler()), ["holes"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_scikit_learn_refuses_is_refused(name):
    X, y = table(60)
    X = X.assign(bool=X["x"] > 0)
    steps, columns = REFUSED[name]
    for search, kind, model in (
        (GridSearchCV, ColumnTransformer, Ridge()),
        (SkGridSearchCV, sk_compose.ColumnTransformer, sk_linear.Ridge()),
    ):
        pipeline = Pipeline([("columns", kind([("a", steps, columns)])), ("model", model)])
        with pytest.raises(ValueError, match="All the 6 fits failed"):
            search(pipeline, ALPHAS, cv=3).fit(X, y)


def test_a_split_that_a_step_refuses_goes_alone():
    X, y = table(90)
    X["x"] = X["x"].abs() * np.where(np.arange(90) < 20, -1.0, 1.0)

    def roots(values):
        if (np.asarray(values) < 0).any():
            raise ValueError("no roots")
        return np.sqrt(values)

    entries = [("numbers", FunctionTransformer(roots), ["x"]), ("levels", LEVELS, ["kind"])]
    cv = [(np.arange(20, 60), np.arange(60, 90)), (np.arange(0, 60), np.arange(60, 90))]
    search, other = (
        kind(
            Pipeline([("columns", columns(entries)), ("model", model)]), ALPHAS, cv=cv, refit=False
        )
        for kind, columns, model in (
            (GridSearchCV, ColumnTransformer, Ridge()),
            (SkGridSearchCV, sk_compose.ColumnTransformer, sk_linear.Ridge()),
        )
    )
    for each in (search, other):
        with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
            each.fit(X, y)
    assert "on split 1: no roots" in str(search.plan_)
    assert_same(search, other)


def test_rows_twice_that_a_step_tells_apart_go_alone():
    X, y = table(60)
    twice = np.r_[np.arange(40), np.arange(20)]

    def count(values):
        return np.arange(len(values), dtype=float)[:, None] / 100

    ours, theirs = pair(
        make_pipeline(FunctionTransformer(count)), FILLED, Ridge(), sk_linear.Ridge()
    )
    cv = [(twice, np.arange(40, 60)), (np.arange(20, 60), np.arange(20))]
    search, other = searched(ours, theirs, ALPHAS, X, y, cv=cv)
    assert "depends on the other rows" in str(search.plan_)
    assert_same(search, other)


@pytest.mark.parametrize("drop", ["first", "if_binary"])
@pytest.mark.parametrize("unknown", ["ignore", "infrequent_if_exist"])
def test_categories_that_a_training_set_lacks_are_zeros_where_one_is_dropped(drop, unknown):
    rng = np.random.default_rng(0)
    kind = rng.choice(["b", "c", "d"], 300).astype(object)
    kind[[0, 150]] = "a", "e"  # the first one is dropped where it is known
    two = np.where(np.arange(300) < 290, "no", "yes")
    y = rng.normal(size=300) + (kind == "c") + (two == "yes")
    X = np.stack([kind, two], axis=1)
    names = preprocessing.OneHotEncoder(drop=drop, handle_unknown=unknown, sparse_output=False)
    steps = [("names", names, [0, 1])]
    ours = GridSearchCV(
        make_pipeline(ColumnTransformer(steps), Ridge()), {"ridge__alpha": [0.1, 10.0]}, cv=3
    )
    with pytest.warns(UserWarning, match="unknown categories in rows outside"):
        ours.fit(X, y)
    assert "all candidates together" in str(ours.plan_)
    front = sk_compose.ColumnTransformer(steps)
    theirs = SkGridSearchCV(
        make_pipeline(front, sk_linear.Ridge()), {"ridge__alpha": [0.1, 10.0]}, cv=3
    )
    with pytest.warns(UserWarning, match="unknown categories"):
        theirs.fit(X, y)
    for s in range(3):
        found, expected = (each.cv_results_[f"split{s}_test_score"] for each in (ours, theirs))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
