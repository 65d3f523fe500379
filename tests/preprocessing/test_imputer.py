"""SimpleImputer over array libraries: agreement with scikit-learn, and its inverse."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn.impute as sk
from sklearn import model_selection as sk_model_selection
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge as SkRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder as SkOneHotEncoder

from gpuml import impute, linear_model, model_selection, preprocessing
from gpuml.impute import SimpleImputer
from gpuml.testing import RTOL

STRATEGIES = ["mean", "median", "most_frequent", "constant"]
SKIPS = "ignore:Skipping features:UserWarning"


def rows(rng, n=61, placeholder=np.nan):
    X = rng.integers(0, 7, size=(n, 5)).astype(float)
    X[rng.uniform(size=X.shape) < 0.3] = placeholder
    X[:, 1] = rng.normal(size=n)  # nothing is missing
    X[:, 3] = placeholder  # everything is
    return X


def numbers(x):
    return np.asarray(x, dtype=float)


@pytest.mark.pairwise
@pytest.mark.filterwarnings(SKIPS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("keep_empty_features", [False, True])
@pytest.mark.parametrize("add_indicator", [False, True])
@pytest.mark.parametrize("placeholder", [np.nan, -1.0])
def test_agrees_with_sklearn(
    library, rng, dtype, strategy, keep_empty_features, add_indicator, placeholder
):
    params = {
        "strategy": strategy,
        "keep_empty_features": keep_empty_features,
        "add_indicator": add_indicator,
        "missing_values": placeholder,
    }
    X, new = (rows(rng, placeholder=placeholder).astype(dtype) for _ in range(2))
    new[0, 1] = placeholder
    ours, theirs = SimpleImputer(**params), sk.SimpleImputer(**params).fit(X)
    X_lib = library.asarray(X)
    found = ours.fit(X_lib).transform(library.asarray(new))
    assert type(found) is type(X_lib)
    found, expected = library.to_numpy(found), theirs.transform(new)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=RTOL[dtype])
    np.testing.assert_allclose(
        numbers(library.to_numpy(ours.statistics_)), numbers(theirs.statistics_), rtol=RTOL[dtype]
    )
    np.testing.assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())


@pytest.mark.parametrize("n", [1, 2, 3, 10, 11])
def test_medians_of_few_values(library, rng, n):
    X = rng.normal(size=(12, 3))
    X[n:, 0] = np.nan
    found = SimpleImputer(strategy="median").fit(library.asarray(X))
    np.testing.assert_allclose(library.to_numpy(found.statistics_), np.nanmedian(X, axis=0))


def test_the_smallest_of_several_most_frequent_values(library):
    X = np.array([[3, 5], [1, 5], [3, 4], [1, 4], [9, np.nan]])
    found = SimpleImputer(strategy="most_frequent").fit(library.asarray(X))
    np.testing.assert_array_equal(library.to_numpy(found.statistics_), [1, 4])


@pytest.mark.parametrize("strategy", ["most_frequent", "constant"])
def test_integers_stay_integers(library, rng, strategy):
    X = rng.integers(-1, 3, size=(40, 3))
    model = SimpleImputer(missing_values=-1, strategy=strategy, fill_value=8)
    theirs = sk.SimpleImputer(missing_values=-1, strategy=strategy, fill_value=8)
    found = library.to_numpy(model.fit_transform(library.asarray(X)))
    assert found.dtype == X.dtype
    np.testing.assert_array_equal(found, theirs.fit_transform(X))


def test_a_callable_gets_the_values_that_are_there(library, rng):
    X = rows(rng)[:, :3]
    found = SimpleImputer(strategy=lambda x: x[0]).fit(library.asarray(X))
    first = [column[~np.isnan(column)][0] for column in X.T]
    np.testing.assert_allclose(library.to_numpy(found.statistics_), first)


@pytest.mark.filterwarnings(SKIPS)
def test_inverse_puts_missing_values_back(library, rng):
    X = rows(rng)
    model = SimpleImputer(add_indicator=True).fit(library.asarray(X))
    back = model.inverse_transform(model.transform(library.asarray(X)))
    np.testing.assert_array_equal(library.to_numpy(back), X)
    with pytest.raises(ValueError, match="add_indicator=True"):
        model.set_params(add_indicator=False).inverse_transform(library.asarray(X))


def test_a_large_mean_does_not_cost_digits_of_float32(library, rng):
    if library.name.startswith("numpy"):
        pytest.skip("scikit-learn sums float32 in float32")
    X = rng.normal(500, 1, size=(20_000, 2)).astype("float32")
    X[7, 0] = np.nan
    found = library.to_numpy(SimpleImputer().fit(library.asarray(X)).statistics_)
    np.testing.assert_allclose(found, np.nanmean(X.astype("float64"), axis=0), rtol=1e-12)


@pytest.mark.filterwarnings(SKIPS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_models_move_between_libraries(library, rng, strategy):
    X = rows(rng)
    params = {"strategy": strategy, "add_indicator": True}
    expected = sk.SimpleImputer(**params).fit_transform(X)
    here = SimpleImputer(**params).fit(library.asarray(X))
    if library.name != "array_api_strict":
        here = pickle.loads(pickle.dumps(here))
    np.testing.assert_allclose(numbers(here.transform(X)), numbers(expected))
    there = SimpleImputer(**params).fit(X).transform(library.asarray(X))
    np.testing.assert_allclose(library.to_numpy(there), numbers(expected))


def test_left_out_features_are_named_in_a_warning(library, rng):
    model = SimpleImputer().fit(library.asarray(rows(rng)))
    with pytest.warns(UserWarning, match=r"Skipping features without any observed values: \[3\]"):
        model.transform(library.asarray(rows(rng)))


@pytest.mark.parametrize(
    ("params", "bad"),
    [
        ({}, [[np.inf]]),
        ({"missing_values": -1}, [[np.nan]]),
        ({"missing_values": -1, "strategy": "constant", "fill_value": 0.5}, [[1]]),
        ({"strategy": "constant", "fill_value": "zero"}, [[1.0]]),
        ({"strategy": "none"}, [[1.0]]),
    ],
)
def test_bad_input_is_refused(library, params, bad):
    model = SimpleImputer(**params)
    with pytest.raises(ValueError, match=r"\w"):
        model.fit(library.asarray(np.asarray(bad)))
    assert not hasattr(model, "n_features_in_")


def test_strings_stand_for_nothing_on_a_device(library):
    if library.name.startswith("numpy"):
        pytest.skip("host")
    with pytest.raises(ValueError, match="both numerical"):
        SimpleImputer(missing_values="none").fit(library.asarray(np.ones((2, 2))))


def test_strings_on_the_host_are_the_work_of_sklearn():
    X = np.array([["a"], ["b"], ["a"], [np.nan]], dtype=object)
    found = SimpleImputer(strategy="most_frequent").fit_transform(X)
    assert found[:, 0].tolist() == ["a", "b", "a", "a"]


def test_one_class_in_both_packages():
    assert preprocessing.SimpleImputer is impute.SimpleImputer


@pytest.mark.parametrize("library_of_nulls", ["polars", "pyarrow"])
@pytest.mark.parametrize("missing_values", [None, pd.NA, "u", ""])
def test_nulls_stay_where_something_else_is_missing(library_of_nulls, missing_values):
    module = pytest.importorskip(library_of_nulls)
    make = module.table if library_of_nulls == "pyarrow" else module.DataFrame
    X = make({"a": ["u", None, "v", "u", None], "b": ["p", "q", None, "p", "p"]})
    for options in ({"strategy": "most_frequent"}, {"strategy": "constant", "fill_value": "z"}):
        params = {"missing_values": missing_values, "add_indicator": True, **options}
        found, expected = (
            each.SimpleImputer(**params).fit_transform(X).tolist() for each in (impute, sk)
        )
        assert found == expected
    found, expected = (
        each.MissingIndicator(missing_values=missing_values).fit_transform(X).tolist()
        for each in (impute, sk)
    )
    assert found == expected


def test_searches_fill_nulls_of_polars_as_scikit_learn_does(rng):
    polars = pytest.importorskip("polars")
    names = np.asarray(["u", "v", "w", None], dtype=object)[rng.integers(0, 4, 80)]
    X, y = polars.DataFrame({"a": names.tolist()}), rng.normal(size=80)
    scores = []
    for impute_of, encode, model, search in (
        (impute, preprocessing.OneHotEncoder(), linear_model.Ridge(), model_selection),
        (sk, SkOneHotEncoder(), SkRidge(), sk_model_selection),
    ):
        fill = impute_of.SimpleImputer(missing_values=None, strategy="most_frequent")
        columns = ColumnTransformer([("a", make_pipeline(fill, encode), ["a"])])
        pipe = make_pipeline(columns, model)
        found = search.GridSearchCV(pipe, {"ridge__alpha": [0.1, 1.0]}, cv=3).fit(X, y)
        scores.append(found.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*scores, rtol=1e-8)
