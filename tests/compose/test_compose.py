"""Transformers of some columns, and transformed targets: scikit-learn's results, where rows are."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.compose
import sklearn.impute
import sklearn.linear_model
import sklearn.model_selection
import sklearn.preprocessing
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline

from gpuml._arrays import namespace, place_of
from gpuml.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LinearRegression, LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from gpuml.testing import count_transfers

TIGHT = {"tol": 1e-10, "max_iter": 10_000}


def table(rng, n=150):
    numbers = {"a": rng.normal(size=n), "b": 10 * rng.normal(size=n)}
    numbers["m"] = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    kinds = {"k": rng.choice(["u", "v", "w"], n), "l": rng.choice(["p", "q"], n)}
    frame = pd.DataFrame({**numbers, **kinds})
    noise = rng.normal(size=n)
    y = np.where(frame["a"] + 0.1 * frame["b"] + (frame["k"] == "u") + noise > 0, "yes", "no")
    return frame, y


def steps(ours, *, sparse=True, output=None, number=("a", "b", "m"), kind=("k", "l")):
    """The same pipeline of our classes, or of theirs."""
    pick = {
        True: (ColumnTransformer, SimpleImputer, StandardScaler, OneHotEncoder, LogisticRegression),
        False: (
            sklearn.compose.ColumnTransformer,
            sklearn.impute.SimpleImputer,
            sklearn.preprocessing.StandardScaler,
            sklearn.preprocessing.OneHotEncoder,
            sklearn.linear_model.LogisticRegression,
        ),
    }
    columns, imputer, scaler, encoder, model = pick[ours]
    number, kind = (list(c) if isinstance(c, tuple) else c for c in (number, kind))
    prepare = columns(
        [
            ("number", make_pipeline(imputer(), scaler()), number),
            ("kind", encoder(handle_unknown="ignore", sparse_output=sparse), kind),
        ]
    ).set_output(transform=output)
    return Pipeline([("prepare", prepare), ("model", model(**TIGHT))])


GRID = {
    "prepare__number__simpleimputer__strategy": ["mean", "median"],
    "prepare__kind__drop": [None, "first"],
    "model__C": [0.1, 1.0],
}


def polars_frame(data):
    return pytest.importorskip("polars").from_pandas(data)


@pytest.mark.some
@pytest.mark.parametrize("as_frame", [pd.DataFrame, polars_frame], ids=["pandas", "polars"])
@pytest.mark.parametrize(
    ("sparse", "output"), [(True, None), (False, None), (False, "pandas"), (False, "polars")]
)
def test_a_search_over_columns_of_a_frame_agrees_with_scikit_learn(as_frame, sparse, output, rng):
    pytest.importorskip(output or "pandas")
    frame, y = table(rng)
    X = as_frame(frame)
    ours = GridSearchCV(steps(True, sparse=sparse, output=output), GRID, cv=3).fit(X, y)
    theirs = sklearn.model_selection.GridSearchCV(
        steps(False, sparse=sparse, output=output), GRID, cv=3
    ).fit(X, y)
    name = "mean_test_score"
    np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-6)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    names = ours.best_estimator_[:-1].get_feature_names_out()
    assert list(names) == list(theirs.best_estimator_[:-1].get_feature_names_out())
    assert list(ours.feature_names_in_) == list(frame.columns)
    image = ours.best_estimator_[:-1].transform(X)
    assert type(image) is type(theirs.best_estimator_[:-1].transform(X))
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict(X), ours.predict(X))
    assert "ColumnTransformer" in ours._repr_html_()


def test_columns_are_selected_by_their_dtype(rng):
    frame, y = table(rng)
    by_dtype = {
        "number": make_column_selector(dtype_include="number"),
        "kind": make_column_selector(dtype_exclude="number"),
    }
    ours, theirs = (steps(each, **by_dtype).fit(frame, y) for each in (True, False))
    np.testing.assert_allclose(ours.predict_proba(frame), theirs.predict_proba(frame), atol=1e-6)


def test_a_frame_without_a_column_that_fit_had_is_refused(rng):
    frame, y = table(rng)
    fitted = steps(True).fit(frame, y)
    with pytest.raises(ValueError, match="columns are missing: {'k'}"):
        fitted.predict(frame.drop(columns="k"))
    moved = frame[[*reversed(frame.columns)]].assign(other=1)
    np.testing.assert_array_equal(fitted.predict(moved), fitted.predict(frame))


# ---------------------------------------------------------------- arrays


COLUMNS = {
    "neighbours": [1, 2],
    "others": [0, 3],
    "in another order": [2, 0],
    "from the end": [-1, 1],
    "slice": slice(1, 3),
    "slice from the end": slice(-2, None),
    "mask": [True, False, True, False, True],
    "array": np.array([4, 0]),
    "array mask": np.array([False, True, True, False, False]),
    "tuple": (1, 2),
    "function": lambda X: [0, X.shape[1] - 1],
    "none": [],
}
REMAINDERS = {"drop": "drop", "passthrough": "passthrough", "scaled": StandardScaler()}


@pytest.mark.pairwise
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("remainder", REMAINDERS)
def test_columns_of_arrays_are_taken_where_they_are(columns, remainder, library, rng):
    X = rng.normal(size=(20, 5))
    parts = [("range", MinMaxScaler(), COLUMNS[columns]), ("again", "passthrough", [0])]
    ours = ColumnTransformer(
        parts, remainder=REMAINDERS[remainder], transformer_weights={"again": 2}
    )
    expected = sklearn.compose.ColumnTransformer(**ours.get_params(deep=False)).fit_transform(X)
    rows = library.asarray(X)
    with count_transfers() as moved:
        fitted = clone(ours).fit(rows)
    assert moved.to_host < X.nbytes
    for found in (clone(ours).fit_transform(rows), fitted.transform(rows)):
        assert place_of(found) == place_of(rows)
        np.testing.assert_allclose(library.to_numpy(found), expected, atol=1e-12)
    assert list(fitted.get_feature_names_out()) == list(ours.fit(X).get_feature_names_out())


def test_dropping_everything_leaves_no_columns_where_rows_are(library):
    rows = library.asarray(np.ones((3, 2)))
    nothing = ColumnTransformer([("out", "drop", [0])])
    for found in (nothing.fit_transform(rows), nothing.transform(rows)):
        assert found.shape == (3, 0)
        assert place_of(found) == place_of(rows)


def test_names_of_columns_need_a_frame(library, rng):
    X = rng.normal(size=(20, 3))
    named = ColumnTransformer([("scaled", StandardScaler(), ["a", "b"])])
    with pytest.raises(ValueError, match="only supported for dataframes"):
        named.fit(library.asarray(X))
    assert not hasattr(named, "n_features_in_")
    named.fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    with pytest.raises(ValueError, match="only supported for dataframes"):
        named.transform(library.asarray(X))


def test_a_failed_fit_changes_nothing(library, rng):
    X = rng.normal(size=(20, 3))
    columns = ColumnTransformer([("a", StandardScaler(), [0]), ("b", MinMaxScaler(), [1, 2])])
    columns.fit(library.asarray(X))
    before = dict(vars(columns))
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        columns.fit(library.asarray(X))
    assert vars(columns) == before


def test_other_numbers_of_columns_are_refused(library, rng):
    X = rng.normal(size=(20, 3))
    columns = ColumnTransformer([("a", StandardScaler(), [0])]).fit(library.asarray(X))
    with pytest.raises(ValueError, match="expecting 3 features"):
        columns.transform(library.asarray(X[:, :2]))
    with pytest.raises(NotFittedError):
        clone(columns).transform(library.asarray(X))


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_columns_come_as_frames_with_names(library, frame, rng):
    pytest.importorskip(frame)
    X = rng.normal(size=(20, 3))
    parts = [("scaled", StandardScaler(), [2]), ("as", "passthrough", [0])]
    columns = ColumnTransformer(parts, remainder=MinMaxScaler()).set_output(transform=frame)
    found = columns.fit_transform(library.asarray(X))
    assert type(found).__module__.startswith(frame)
    assert list(found.columns) == ["scaled__x2", "as__x0", "remainder__x1"]
    expected = clone(columns).set_output(transform="default").fit_transform(X)
    np.testing.assert_allclose(found.to_numpy(), expected, atol=1e-12)


def test_a_search_over_columns_of_arrays_is_where_they_are(library, rng):
    X = rng.normal(size=(90, 4))
    X[:, 3] = rng.integers(0, 3, size=90)
    y = (X[:, 0] + X[:, 3] + rng.normal(size=90) > 1).astype(int)
    search = GridSearchCV(
        make_pipeline(
            make_column_transformer(
                (OneHotEncoder(sparse_output=False), [3]), remainder=StandardScaler()
            ),
            LogisticRegression(**TIGHT),
        ),
        {
            "columntransformer__onehotencoder__drop": [None, "first"],
            "logisticregression__C": [0.1, 1.0],
        },
        scoring="neg_log_loss",
    )
    on_host = clone(search).fit(X, y).cv_results_["mean_test_score"]
    there = search.fit(library.asarray(X), library.asarray(y))
    np.testing.assert_allclose(there.cv_results_["mean_test_score"], on_host, rtol=1e-6)
    assert place_of(there.predict(library.asarray(X))) == place_of(library.asarray(X))


def test_make_column_transformer_is_of_our_class():
    made = make_column_transformer((StandardScaler(), [0]), remainder="passthrough", n_jobs=2)
    assert type(made) is ColumnTransformer
    assert (made.remainder, made.n_jobs, made.transformers[0][0]) == (
        "passthrough",
        2,
        "standardscaler",
    )


# ---------------------------------------------------------------- targets


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return 100 * X, y


def log(y):
    return namespace(y).log(y)


def exp(y):
    return namespace(y).exp(y)


TARGETS = {
    "functions": lambda r, s: {"func": log, "inverse_func": exp},
    "transformer": lambda r, s: {"transformer": s()},
    "nothing": lambda r, s: {},
    "pipeline": lambda r, s: {
        "regressor": make_pipeline(s(), r()),
        "func": log,
        "inverse_func": exp,
    },
}


def target_models(name):
    """A model of a transformed target of our classes, and of theirs."""
    ours = {"regressor": Ridge(), **TARGETS[name](Ridge, MinMaxScaler)}
    ridge = sklearn.linear_model.Ridge
    theirs = {"regressor": ridge(), **TARGETS[name](ridge, sklearn.preprocessing.MinMaxScaler)}
    return (
        TransformedTargetRegressor(**ours),
        sklearn.compose.TransformedTargetRegressor(**theirs),
    )


@pytest.mark.pairwise
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("n_targets", [0, 1, 2], ids=["flat", "one", "two"])
def test_targets_are_transformed_where_rows_are(name, n_targets, library):
    X, y = diabetes()
    if n_targets:
        y = np.stack([y, y + 10.0][:n_targets], axis=1)
    ours, theirs = target_models(name)
    theirs.fit(X, y)
    rows, target = library.asarray(X), library.asarray(y)
    with count_transfers() as moved:
        found = ours.fit(rows, target).predict(rows)
    assert moved.to_host < y.nbytes
    assert place_of(found) == place_of(rows)
    assert found.shape == target.shape
    np.testing.assert_allclose(library.to_numpy(found), theirs.predict(X), rtol=1e-6)
    np.testing.assert_allclose(ours.score(rows, target), theirs.score(X, y), rtol=1e-9)
    assert ours.n_features_in_ == X.shape[1]


def test_a_target_comes_to_where_rows_are(library):
    X, y = diabetes()
    ours, theirs = target_models("transformer")
    rows, target = library.asarray(X), library.asarray(y)
    expected = theirs.fit(X, y).predict(X)
    found = ours.fit(rows, list(y)).predict(rows)
    np.testing.assert_allclose(library.to_numpy(found), expected, rtol=1e-9)
    np.testing.assert_allclose(ours.fit(X, target).predict(X), expected, rtol=1e-9)
    # Fitted to one library, asked by another.
    np.testing.assert_allclose(library.to_numpy(ours.predict(rows)), expected, rtol=1e-9)


def test_a_search_over_a_regressor_of_a_transformed_target(library):
    X, y = diabetes()
    params = {"regressor__ridge__alpha": [0.1, 1.0, 10.0]}
    ours, theirs = target_models("pipeline")
    theirs = sklearn.model_selection.GridSearchCV(theirs, params).fit(X, y)
    ours = GridSearchCV(ours, params).fit(library.asarray(X), library.asarray(y))
    scores = "mean_test_score"
    np.testing.assert_allclose(ours.cv_results_[scores], theirs.cv_results_[scores], rtol=1e-6)
    assert ours.best_params_ == theirs.best_params_
    found = library.to_numpy(ours.predict(library.asarray(X)))
    np.testing.assert_allclose(found, theirs.predict(X), rtol=1e-6)


def test_a_search_within_a_transformed_target(library):
    X, y = diabetes()
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]})
    inner = sklearn.model_selection.GridSearchCV(sklearn.linear_model.Ridge(), search.param_grid)
    expected = sklearn.compose.TransformedTargetRegressor(inner, func=log, inverse_func=exp)
    ours = TransformedTargetRegressor(search, func=log, inverse_func=exp)
    found = ours.fit(library.asarray(X), library.asarray(y)).predict(library.asarray(X))
    expected = expected.fit(X, y).predict(X)
    np.testing.assert_allclose(library.to_numpy(found), expected, rtol=1e-6)


def test_the_default_regressor_is_ours(library):
    X, y = diabetes()
    model = TransformedTargetRegressor().fit(library.asarray(X), library.asarray(y))
    assert type(model.regressor_) is LinearRegression


def test_functions_that_are_not_inverse_are_noticed(library):
    X, y = map(library.asarray, diabetes())
    wrong = TransformedTargetRegressor(Ridge(), func=log, inverse_func=log)
    with pytest.warns(UserWarning, match="not strictly inverse"):
        wrong.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrong.set_params(check_inverse=False).fit(X, y)


BAD_TARGETS = {
    "none": (lambda y: None, {}),
    "nan": (lambda y: np.where(y > 300, np.nan, y), {}),
    "infinite": (lambda y: np.where(y > 300, np.inf, y), {}),
    "complex": (lambda y: y + 1j, {}),
    "words": (lambda y: np.array(["word"] * len(y)), {}),
    "too short": (lambda y: y[:-1], {}),
    "sparse": (lambda y: sparse.csr_matrix(y[:, None]), {}),
    "no axis": (lambda y: y[0], {}),
    "no rows": (lambda y: y[:0], {}),
    "both kinds of transformers": (
        lambda y: y,
        {"func": log, "inverse_func": exp, "transformer": StandardScaler()},
    ),
    "no inverse": (lambda y: y, {"func": log}),
    "no function": (lambda y: y, {"inverse_func": exp}),
}


@pytest.mark.parametrize("name", BAD_TARGETS)
def test_bad_targets_raise_and_change_nothing(name, library):
    X, y = diabetes()
    change, params = BAD_TARGETS[name]
    model = TransformedTargetRegressor(Ridge()).fit(library.asarray(X), y).set_params(**params)
    theirs = sklearn.compose.TransformedTargetRegressor(sklearn.linear_model.Ridge(), **params)
    with pytest.raises((ValueError, TypeError)) as expected:
        theirs.fit(X, change(y))
    before = dict(vars(model))
    with pytest.raises(expected.type):
        model.fit(library.asarray(X), change(y))
    assert vars(model) == before
