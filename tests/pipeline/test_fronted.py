"""Pipelines of a DataFrame whose first steps no sums fit: all candidates at once."""

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as sk_linear
from sklearn import preprocessing as sk
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline

from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV

BINS = sk.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
UNION = FeatureUnion([("filled", SimpleImputer()), ("holes", MissingIndicator())])


def as_frames(step):
    return step.set_output(transform="pandas")


class Upper(TransformerMixin, BaseEstimator):
    """A step that fits nothing, as people write them."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X.fillna(0.0).rename(columns=str.upper)


# Steps before the model, and what a search varies of them.
CASES = {
    "imputer": ([("fill", SimpleImputer()), ("scale", sk.StandardScaler())], {"fill__strategy": ["mean", "median"]}),
    "many": ([("fill", SimpleImputer(add_indicator=True)), ("terms", sk.PolynomialFeatures()), ("scale", sk.RobustScaler()), ("best", SelectKBest(f_regression))], {"terms__degree": [1, 2], "best__k": [3, 5]}),
    "union": ([("union", UNION), ("spline", sk.SplineTransformer())], {"union__filled__strategy": ["mean", "median"], "spline": ["passthrough", sk.SplineTransformer(3)]}),
    "function": ([("fill", sk.FunctionTransformer(lambda X: X.fillna(0).assign(ac=X.a.fillna(0) * X.c.fillna(0))))], {}),
    "named by no step": ([("fill", as_frames(SimpleImputer())), ("same", sk.FunctionTransformer())], {"fill__strategy": ["mean", "median"]}),
    "fits nothing": ([("own", Upper()), ("same", sk.FunctionTransformer())], {}),
    "fits nothing for columns": ([("table", ColumnTransformer([("own", Upper(), ["a", "c"])], remainder=SimpleImputer()))], {}),
    "named inside": ([("inner", Pipeline([("own", Upper()), ("scale", as_frames(sk.MinMaxScaler()))]))], {}),
    "frames": ([("columns", as_frames(SimpleImputer())), ("bins", as_frames(BINS))], {"bins__n_bins": [2, 4]}),
}  # fmt: skip


@pytest.fixture
def table(rng):
    X = rng.normal(size=(200, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(2 * X[:, 0] + X[:, 4]) + rng.normal(size=200)
    return pd.DataFrame(X, columns=list("abcde")), y


@pytest.mark.some
@pytest.mark.parametrize("name", CASES)
def test_scores_and_models_are_those_of_scikit_learn(name, table):
    steps, grid = CASES[name]
    grid = {**grid, "model__alpha": [0.1, 10.0]}
    found = []
    for search, model in ((GridSearchCV, Ridge()), (SkGridSearchCV, sk_linear.Ridge())):
        pipeline = Pipeline([*steps, ("model", model)])
        found.append(search(pipeline, grid, cv=4, return_train_score=True).fit(*table))
    mine, theirs = found
    assert "all candidates together" in str(mine.plan_)
    assert "atched" not in str(mine.plan_)
    for column, values in theirs.cv_results_.items():
        if column.endswith("_score") and not column.startswith("rank"):
            np.testing.assert_allclose(mine.cv_results_[column], values, rtol=1e-8, err_msg=column)
    np.testing.assert_allclose(mine.predict(table[0]), theirs.predict(table[0]), rtol=1e-8)
    for one, two in zip(mine.best_estimator_, theirs.best_estimator_, strict=True):
        assert type(one).__name__ == type(two).__name__
        if not isinstance(one, str):
            widths = [getattr(each, "n_features_in_", None) for each in (one, two)]
            assert widths[0] == widths[1]
            names = [list(getattr(each, "feature_names_in_", ())) for each in (one, two)]
            assert names[0] == names[1]


def test_weights_of_the_model_and_of_a_step(table):
    X, y = table
    weight = np.random.default_rng(0).uniform(size=len(y))
    pipeline = Pipeline([*CASES["imputer"][0], ("model", Ridge())])
    theirs = Pipeline([*CASES["imputer"][0], ("model", sk_linear.Ridge())])
    for names, together in ((["model"], True), (["model", "scale"], False)):
        params = {f"{name}__sample_weight": weight for name in names}
        mine = GridSearchCV(pipeline, {"model__alpha": [0.1, 9.0]}).fit(X, y, **params)
        other = SkGridSearchCV(theirs, {"model__alpha": [0.1, 9.0]}).fit(X, y, **params)
        assert ("all candidates together" in str(mine.plan_)) == together
        for name in ("mean_test_score", "std_test_score"):
            np.testing.assert_allclose(mine.cv_results_[name], other.cv_results_[name], rtol=1e-8)


def test_a_model_may_have_the_name_of_the_columns(table):
    X, y = table
    labels = np.where(y > 0, "yes", "no")
    grid = {"columns__C": [0.1, 1.0], "front__degree": [1, 2]}
    steps = [("fill", SimpleImputer()), ("front", sk.PolynomialFeatures())]
    mine, theirs = (
        search(Pipeline([*steps, ("columns", model)]), grid, scoring="roc_auc").fit(X, labels)
        for search, model in (
            (GridSearchCV, LogisticRegression(tol=1e-9)),
            (SkGridSearchCV, sk_linear.LogisticRegression(tol=1e-9, max_iter=999)),
        )
    )
    assert "all candidates together" in str(mine.plan_)
    scores = [each.cv_results_["mean_test_score"] for each in (mine, theirs)]
    np.testing.assert_allclose(*scores, rtol=1e-6)


def test_the_plan_names_the_step_that_does_not_join(table):
    class Own(SimpleImputer):
        def fit_transform(self, X, y=None):
            return super().fit_transform(X)

    pipeline = Pipeline([("fill", Own()), ("model", Ridge())])
    outlook = str(GridSearchCV(pipeline, {"model__alpha": [0.1, 9.0]}).explain(*table))
    assert "Own() is not one of gpuml's linear steps" in outlook
