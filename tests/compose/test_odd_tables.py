"""Odd tables, and steps with odd parameters: searches over them give what single fits give."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as sk_linear
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)

from gpuml import as_sklearn
from gpuml import preprocessing as ours
from gpuml.compose import ColumnTransformer
from gpuml.compose._coding import levels_of
from gpuml.cross_decomposition import PLSRegression
from gpuml.discriminant_analysis import LinearDiscriminantAnalysis
from gpuml.linear_model import BayesianRidge, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.model_selection import cross_validate as gpuml_cross_validate

N = 60
DENSE = {"handle_unknown": "ignore", "sparse_output": False}
BINS = KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")


def numbers(rng, n=N):
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, X["a"] + rng.normal(size=n)


def piped(columns, model):
    return Pipeline([("columns", columns), ("model", model)])


def check_search(columns, grid, X, y, together=True, **options):
    """The same scores as scikit-learn's search over scikit-learn's model."""
    options = {"cv": 3, "error_score": "raise", **options}
    mine = GridSearchCV(piped(columns, Ridge()), grid, **options).fit(X, y)
    theirs = SkGridSearchCV(piped(columns, sk_linear.Ridge()), grid, **options).fit(X, y)
    assert not together or "all candidates together" in str(mine.plan_)
    found, expected = (each.cv_results_["mean_test_score"] for each in (mine, theirs))
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    if mine.refit:
        np.testing.assert_allclose(mine.predict(X), theirs.predict(X), rtol=1e-8)
    return found


def powers(column):
    return np.stack([column, column**2], axis=1) if column.ndim == 1 else column


@pytest.mark.parametrize("column", ["a", 0, lambda X: "a"], ids=["name", "number", "callable"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_column_given_as_a_vector_is_a_vector_in_a_search(rng, column, inside):
    X, y = numbers(rng)
    columns = ColumnTransformer([("p", FunctionTransformer(powers), column)])
    if inside:
        columns = ColumnTransformer([("c", columns, ["a", "b"])])
    found = check_search(columns, {"model__alpha": [1.0]}, X, y, together=False)
    whole = ColumnTransformer([("p", FunctionTransformer(powers), ["a"])])
    assert found != check_search(whole, {"model__alpha": [1.0]}, X, y)
    search = GridSearchCV(piped(columns, Ridge()), {"model__alpha": [1.0]}).fit(X, y)
    assert "as a vector; write [" in str(search.plan_)


def test_a_column_passed_through_as_a_vector_fails_in_a_search_too(rng):
    X, y = numbers(rng)
    pipe = piped(ColumnTransformer([("a", "passthrough", "a")]), Ridge())
    for search in (GridSearchCV, SkGridSearchCV):
        with pytest.raises(ValueError, match="transformer should be 2D"):
            search(pipe, {"model__alpha": [1.0]}, error_score="raise").fit(X, y)


def looked_up(X, table):
    return np.sin(np.asarray(X) * table[1000])


@pytest.mark.parametrize("whole", [False, True])
def test_arrays_that_print_alike_are_other_parameters(rng, whole):
    X, y = numbers(rng)
    tables = np.ones((2, 3000))
    tables[1, 1000] = 3.0  # their repr leaves out the middle
    columns = ColumnTransformer([("f", FunctionTransformer(looked_up), ["a", "b"])])
    given = [{"table": table} for table in tables]
    grid = {"columns__f__kw_args": given}
    if whole:
        grid = {"columns": [clone(columns).set_params(f__kw_args=each) for each in given]}
    first, second = check_search(columns, grid, X, y)
    assert first != second


def test_inner_splits_that_print_alike_are_other_parameters(rng):
    n = 6006
    X = pd.DataFrame({"level": rng.integers(0, 9, n).astype(str)})
    y = X["level"].astype(int) + 3 * rng.normal(size=n)
    splits = []
    for middle in (np.arange(6, 3998), rng.permutation(np.arange(6, 3998))):
        first = np.concatenate([[0, 1, 2], np.sort(middle[:1990]), [4001, 4002, 4003]])
        second = np.setdiff1d(np.arange(4004), first)
        splits.append([(first, second), (second, first)])  # their repr leaves out the middle
    columns = ColumnTransformer([("level", TargetEncoder(), ["level"])])
    grid = {"columns__level__cv": splits}
    first, second = check_search(columns, grid, X, y, refit=False)
    assert first != second


def test_copies_of_a_selector_are_the_same_step(rng):
    X, y = numbers(rng)
    inside = ColumnTransformer(
        [("fill", SimpleImputer(), make_column_selector(dtype_include="number"))]
    )
    union = FeatureUnion([("binned", Pipeline([("inside", inside), ("bins", BINS)]))])
    grid = {"columns__all__binned__bins__n_bins": [2, 4], "model__alpha": [0.1, 10.0]}
    check_search(ColumnTransformer([("all", union, ["a", "b"])]), grid, X, y)


@pytest.mark.parametrize("step", [FunctionTransformer(np.tanh), "whole"])
def test_data_frames_between_steps_keep_names_that_no_step_tells(rng, step):
    X, y = numbers(rng)
    if step == "whole":
        given = Pipeline([("f", FunctionTransformer(np.tanh)), ("model", Ridge())])
    else:
        given = piped(ColumnTransformer([("f", step, ["a", "b"])]), Ridge())
    given.set_output(transform="pandas")
    search = GridSearchCV(given, {"model__alpha": [0.1, 1.0]}, cv=3).fit(X, y)
    alone = clone(given).set_params(**search.best_params_).fit(X, y)
    names = alone[-1].feature_names_in_
    np.testing.assert_array_equal(search.best_estimator_[-1].feature_names_in_, names)
    np.testing.assert_allclose(search.predict(X), alone.predict(X), rtol=1e-10)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("inside", [False, True])
def test_sparse_columns_make_no_data_frame_in_any_fit(rng, kind, inside):
    X, y = numbers(rng)
    X["level"] = np.tile(["u", "v", "w"], N // 3 + 1)[:N]
    encoder = OneHotEncoder()
    front = ColumnTransformer([("level", encoder, ["level"])]) if inside else encoder
    given = make_pipeline(front, Ridge())
    (encoder if inside else given).set_output(transform=kind)
    words = f"{kind} output does not support sparse data"
    for refit in (False, True):
        search = GridSearchCV(given, {"ridge__alpha": [0.1, 1.0]}, refit=refit)
        with pytest.raises(ValueError, match=f"(?is)fits failed.*{words}"):
            search.fit(X[["level"]], y)
    plan = str(search.explain(X[["level"]], y))
    reason = "set_output asks for DataFrames, which cannot be sparse: OneHotEncoder with"
    assert "fits one at a time" in plan
    assert (reason in plan) == inside


@pytest.mark.parametrize("in_columns", [False, True])
@pytest.mark.parametrize(
    ("model", "param"),
    [
        (BayesianRidge(), "fit_intercept"),
        (LinearDiscriminantAnalysis(), "n_components"),
        (PLSRegression(), "n_components"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_models_of_dense_rows_take_no_sparse_columns_in_a_search_either(
    rng, model, param, in_columns
):
    X, y = pd.DataFrame({"a": rng.integers(0, 20, N).astype(str)}), rng.integers(0, 2, N)
    grid = {f"model__{param}": [1]} if param == "n_components" else {f"model__{param}": [True]}
    for sparse in (True, False):
        step = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
        if in_columns:
            step = ColumnTransformer([("a", step, ["a"])])
        search = GridSearchCV(piped(step, model), grid, cv=3, error_score="raise")
        if sparse:
            with pytest.raises(TypeError, match="Sparse data was passed"):
                search.fit(X, y)
            with pytest.raises(TypeError, match="Sparse data was passed"):
                search.set_params(estimator=piped(step, as_sklearn(model))).fit(X, y)
        else:
            assert search.fit(X, y).predict(X).shape[0] == N
            assert "all candidates together" in str(search.plan_)


def test_sparse_thresholds_decide_whether_models_of_dense_rows_take_columns(rng):
    X, y = numbers(rng)
    X["d"] = rng.integers(0, 3, N).astype(str)
    columns = ColumnTransformer(
        [("d", OneHotEncoder(handle_unknown="ignore"), ["d"]), ("n", "passthrough", ["a", "b"])]
    )  # three of five values of a row are not zero
    grid = {"columns__sparse_threshold": [0.5, 0.7]}
    search = GridSearchCV(piped(columns, BayesianRidge()), grid, cv=3)
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        scores = search.fit(X, y).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(np.isnan(scores), [False, True])


def test_the_plan_says_which_step_names_no_features(rng):
    X, y = numbers(rng)
    columns = ColumnTransformer([("f", FunctionTransformer(np.tanh), ["a"])])
    columns.set_output(transform="pandas")
    plan = str(GridSearchCV(piped(columns, Ridge()), {}, cv=3).fit(X, y).plan_)
    assert "get_feature_names_out; set feature_names_out='one-to-one'" in plan
    assert "at the default" not in plan


def text(kind):
    """A column of names, some of which are missing."""
    names = pd.Series(["u", "v", "w", "v"] * (N // 4))
    names = names.astype(object if kind == "None" else kind)
    names[::7] = None
    return names


# Entries that read the same columns in different ways, as numbers, as levels, or as neither.
WAYS = {
    "fills": [SimpleImputer(strategy="constant", fill_value=each) for each in (0.5, 1, "none")],
    "levels filled": [
        make_pipeline(SimpleImputer(strategy="constant", fill_value=each), OneHotEncoder(**DENSE))
        for each in (0.5, 1, "none")
    ],
    "strategies": [SimpleImputer(), SimpleImputer(strategy="most_frequent"), StandardScaler()],
    "encoders": [OneHotEncoder(**DENSE), ours.OneHotEncoder(**DENSE)],
    "filled encoders": [
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(**DENSE)),
        make_pipeline(ours.SimpleImputer(strategy="most_frequent"), ours.OneHotEncoder(**DENSE)),
    ],
}
COLUMNS = {
    "int64": lambda: pd.Series(range(N)) % 5,
    "uint8": lambda: (pd.Series(range(N)) % 5).astype("uint8"),
    "bool": lambda: pd.Series(range(N)) % 3 == 0,
    "Int64": lambda: (pd.Series(range(N)) % 5).astype("Int64"),
    "int64[pyarrow]": lambda: (pd.Series(range(N)) % 5).astype("int64[pyarrow]"),
    "numbers as categories": lambda: (pd.Series(range(N)) % 5).astype("category"),
    "string": lambda: text("string"),
    "string[pyarrow]": lambda: text("string[pyarrow]"),
    "str": lambda: text("str"),
    "None": lambda: text("None"),
    "no values": lambda: pd.Series([np.nan] * N),
    "no names": lambda: pd.Series([np.nan] * N, dtype=object),
    "dates": lambda: pd.Series(pd.Timestamp("2020-01-01"), range(N)).where(np.arange(N) % 4 > 0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("ways", WAYS)
def test_entries_that_fail_alone_fail_in_a_search(rng, ways, column, order):
    X, y = numbers(rng)
    X["x"] = COLUMNS[column]()
    given = [("x", SimpleImputer(), ["x"]), ("a", StandardScaler(), ["a"])]
    grid = {"columns__x": WAYS[ways][::order]}
    found = []
    for model, kind in ((Ridge(), GridSearchCV), (sk_linear.Ridge(), SkGridSearchCV)):
        search = kind(piped(ColumnTransformer(given), model), grid, cv=3, refit=False)
        try:
            found.append(search.fit(X, y).cv_results_["mean_test_score"])
        except ValueError as error:
            if "fits failed" not in str(error):
                raise
            found.append(np.full(len(WAYS[ways]), np.nan))
    np.testing.assert_allclose(*found, rtol=1e-9)


@pytest.mark.parametrize("encoder", [OneHotEncoder(**DENSE), OrdinalEncoder()])
@pytest.mark.parametrize("strategy", ["most_frequent", "constant"])
@pytest.mark.parametrize("keep", [False, True])
def test_columns_of_holes_alone_are_left_out_or_kept(rng, encoder, strategy, keep):
    X, y = numbers(rng)
    X["empty"], X["name"] = pd.Series([np.nan] * N, dtype=object), text("str")
    fill = SimpleImputer(strategy=strategy, keep_empty_features=keep)
    entry = make_pipeline(fill, encoder)
    columns = ColumnTransformer([("x", entry, ["empty", "name"]), ("a", StandardScaler(), ["a"])])
    if keep:
        check_search(columns, {"model__alpha": [0.1, 10.0]}, X, y)
    else:
        with pytest.warns(UserWarning, match="Skipping features without any observed values"):
            check_search(columns, {"model__alpha": [0.1, 10.0]}, X, y)


def test_names_that_are_not_all_strings_fail_in_each_fit(rng):
    X, y = numbers(rng)
    X.columns = ["a", 1, "c"]
    search = GridSearchCV(piped(ColumnTransformer([("a", "passthrough", [0])]), Ridge()), {})
    with pytest.raises(ValueError, match="fits failed"):
        search.fit(X, y)


# In front of PCA: numbers, levels, what is made for each split, and steps beside each other.
FRONTS = {
    "numbers": make_pipeline(SimpleImputer(), StandardScaler()),
    "rare levels": OneHotEncoder(**DENSE, min_frequency=3),
    "made": make_pipeline(FunctionTransformer(np.cbrt), StandardScaler()),
    "beside": make_union(StandardScaler(), make_pipeline(SimpleImputer(), StandardScaler())),
    "nested": ColumnTransformer([("inner", StandardScaler(), [0, 1])]),
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("front", FRONTS)
def test_best_estimators_have_the_components_that_their_models_count_on(rng, front, whole):
    # Two features of variance 1: loads are equal, and rounding alone gives components their signs.
    wrong = 0
    for seed in range(4):
        X, y = numbers(np.random.default_rng(seed))
        X = X[["a", "b"]]
        if front == "rare levels":
            X = pd.DataFrame({name: np.where(X[name] > 0, "u", "v") for name in X})
        steps = make_pipeline(FRONTS[front], PCA(2, svd_solver="full"))
        wide = ColumnTransformer([("x", steps, ["a", "b"]), ("f", FunctionTransformer(), [])])
        given = make_pipeline(*steps, Ridge()) if whole else piped(wide, Ridge())
        search = GridSearchCV(given, {}, cv=3, refit=True).fit(X, y)
        alone = clone(given).fit(X, y)
        fitted = gpuml_cross_validate(given, X, y, cv=3, return_estimator=True)["estimator"]
        wrong += not np.allclose(search.predict(X), alone.predict(X), rtol=1e-8)
        for (train, _), each in zip(KFold(3).split(X), fitted, strict=True):
            own = clone(given).fit(X.iloc[train], y.iloc[train])
            wrong += not np.allclose(each.predict(X), own.predict(X), rtol=1e-8)
    assert wrong == 0
    assert "all candidates together" in str(search.plan_)


def test_dates_are_no_numbers(rng):
    X, y = numbers(rng)
    X["date"] = pd.date_range("2020-01-01", periods=N)
    given = piped(ColumnTransformer([("d", "passthrough", ["date"])]), Ridge())
    search = GridSearchCV(given, {"columns__d": ["passthrough"], "model__alpha": [1.0]}, cv=3)
    with pytest.raises(ValueError, match="fits failed"):
        search.fit(X, y)


@pytest.mark.parametrize("cv", [KFold(3), KFold(3, shuffle=True, random_state=0)])
def test_splitters_tell_that_they_ignore_groups(rng, cv):
    X, y = numbers(rng)
    with pytest.warns(UserWarning, match="groups parameter is ignored by KFold"):
        GridSearchCV(Ridge(), {}, cv=cv).fit(X, y, groups=np.arange(N))


def test_arrow_tables_are_not_passed_through(rng):
    arrow = pytest.importorskip("pyarrow")
    X, y = numbers(rng)
    entries = [("p", "passthrough", ["a"]), ("s", StandardScaler(), ["b"])]
    grid = {"columns__p": ["passthrough", StandardScaler()]}
    search = GridSearchCV(piped(ColumnTransformer(entries), Ridge()), grid, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(arrow.Table.from_pandas(X), y)
    np.testing.assert_array_equal(np.isnan(search.cv_results_["mean_test_score"]), [True, False])
    assert "pass columns of a pyarrow.Table through; write StandardScaler" in str(search.plan_)


def test_constants_beside_none_are_sorted_before_it(rng):
    X, y = numbers(rng)
    names = ["u", None, np.nan, "v"] * (N // 4)
    X["x"] = pd.Series(names, dtype=object)
    for encoder in (OneHotEncoder(**DENSE), OrdinalEncoder()):
        entry = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), encoder)
        check_search(ColumnTransformer([("x", entry, ["x"])]), {"model__alpha": [0.1, 1.0]}, X, y)


def test_pandas_na_among_objects_is_named():
    values = np.asarray(["u", pd.NA, "v"], dtype=object)
    with pytest.raises(ValueError, match="a column holds <NA> among its levels; write None"):
        levels_of(values)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]"])
def test_arrays_of_dates_are_refused_in_fit(dtype):
    X = np.arange(6).astype(dtype)[:, None]
    for estimator in (Ridge(), ours.StandardScaler()):
        with pytest.raises(ValueError, match=r"X must hold numbers, got dtype .*64\[s\]"):
            estimator.fit(X, np.arange(6.0))
