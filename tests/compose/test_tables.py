"""Searches over tables: every candidate at once, and scores of scikit-learn's search."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import compose as sk_compose
from sklearn import config_context
from sklearn import impute as sk_impute
from sklearn import linear_model as sk_linear
from sklearn import preprocessing as sk_preprocessing
from sklearn.decomposition import NMF
from sklearn.decomposition import PCA as SkPCA
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.random_projection import GaussianRandomProjection

from gpuml import config_context as config_of_gpuml
from gpuml import model_selection
from gpuml._arrays import has_gpu
from gpuml.compose import ColumnTransformer, make_column_selector
from gpuml.decomposition import PCA
from gpuml.designs.coded import CodedBlock
from gpuml.impute import SimpleImputer
from gpuml.linear_model import ElasticNet, LinearRegression, LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from gpuml.solvers import few_rows

NUMBERS, CATEGORIES = ["x", "holes", "large"], ["kind", "place", "code"]
SkScaler = sk_preprocessing.StandardScaler
OneHot, Ordinal = sk_preprocessing.OneHotEncoder, sk_preprocessing.OrdinalEncoder


def table(n=240, *, seed=0):
    """Numbers with holes, strings with holes, and integers that are names."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "x": random.normal(size=n),
            "kind": np.asarray(["b", "a", "c"], dtype=object)[random.integers(0, 3, n)],
            "holes": random.integers(0, 9, n).astype(float),
            "place": np.asarray([f"p{i}" for i in range(12)], dtype=object)[
                np.minimum(random.geometric(0.3, n) - 1, 11)
            ],
            "large": 1e3 + random.normal(size=n),
            "code": random.integers(0, 5, n),
        }
    )
    X.loc[random.random(n) < 0.15, "holes"] = np.nan
    X.loc[random.random(n) < 0.1, "place"] = np.nan
    signal = X["x"] + (X["kind"] == "a") + 0.2 * X["code"] + 0.1 * X["holes"].fillna(0.0)
    return X, (signal + random.normal(size=n)).to_numpy()


def pair(numbers, levels, model, theirs, *, behind=(), **params):
    """A pipeline of ours, and one of scikit-learn's, over the same columns."""

    def made(columns, last):
        entries = [("numbers", numbers, NUMBERS), ("levels", levels, CATEGORIES)]
        steps = [("columns", columns(entries, sparse_threshold=0, **params)), *behind]
        return Pipeline([*steps, ("model", last)])

    return made(ColumnTransformer, model), made(sk_compose.ColumnTransformer, theirs)


def imputed(*steps, **params):
    return Pipeline(
        [("impute", SimpleImputer(**params)), *[(f"s{i}", s) for i, s in enumerate(steps)]]
    )


FILLED = imputed(OneHot(handle_unknown="ignore"), strategy="most_frequent")
SCALED = imputed(StandardScaler())
ALPHAS = {"model__alpha": [0.1, 10.0]}
# What stands before the model, and what a search varies.
CASES = {
    "scaled": (SCALED, FILLED, ALPHAS),
    "median": (imputed(StandardScaler(with_std=False), strategy="median"), FILLED, ALPHAS),
    "flags": (imputed(StandardScaler(), add_indicator=True), FILLED, ALPHAS),
    "constant": (imputed(strategy="constant", fill_value=-1), imputed(OneHot(handle_unknown="ignore"), strategy="constant"), ALPHAS),
    "strategies": (SCALED, FILLED, {"columns__numbers__impute__strategy": ["mean", "median", "most_frequent"], "columns__numbers__s0__with_mean": [True, False], **ALPHAS}),
    "nan is a level": (SCALED, OneHot(handle_unknown="ignore"), ALPHAS),
    "rare": (SCALED, OneHot(handle_unknown="infrequent_if_exist", min_frequency=9), {"columns__levels__min_frequency": [5, 0.1, None], "columns__levels__max_categories": [None, 4, 1], **ALPHAS}),
    "dropped": (SCALED, OneHot(drop="first", min_frequency=12), {"columns__levels__drop": ["first", "if_binary", None], **ALPHAS}),
    "ordinal": (SCALED, Ordinal(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2), ALPHAS),
    "scaled levels": (SCALED, imputed(OneHot(handle_unknown="ignore", sparse_output=False), StandardScaler(), strategy="most_frequent"), ALPHAS),
    "components": (imputed(PCA(2)), FILLED, {"columns__numbers__s0__n_components": [1, 2], **ALPHAS}),
    "ranges": (imputed(MinMaxScaler((-1, 2))), FILLED, {"columns__numbers__impute__strategy": ["mean", "constant"], "columns__numbers__s0__feature_range": [(0, 1), (-1, 3)], **ALPHAS}),
    "ranges and flags": (imputed(StandardScaler(), MaxAbsScaler(), add_indicator=True), FILLED, ALPHAS),
    "scikit-learn's steps": (Pipeline([("i", sk_impute.SimpleImputer()), ("s", sk_preprocessing.MinMaxScaler()), ("p", SkPCA(2))]), Pipeline([("i", sk_impute.SimpleImputer(strategy="most_frequent")), ("o", OneHot(handle_unknown="ignore"))]), ALPHAS),
    "passed": (imputed(strategy="mean"), "drop", ALPHAS),
    "only levels": ("drop", FILLED, ALPHAS),
}  # fmt: skip


def assert_same(ours, theirs, rtol=1e-8):
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    for name, column in theirs.cv_results_.items():
        if name.endswith("_score") and not name.startswith("rank"):
            np.testing.assert_allclose(
                ours.cv_results_[name], column, rtol=rtol, atol=rtol, err_msg=name
            )


@pytest.mark.some
@pytest.mark.parametrize("name", CASES)
def test_scores_and_models_are_those_of_scikit_learn(name):
    numbers, levels, grid = CASES[name]
    X, y = table()
    ours, theirs = pair(numbers, levels, Ridge(), sk_linear.Ridge())
    cv = KFold(4, shuffle=True, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, about levels that it has not seen
        search = GridSearchCV(ours, grid, cv=cv, return_train_score=True).fit(X, y)
        other = SkGridSearchCV(theirs, grid, cv=cv, return_train_score=True).fit(X, y)
    assert "all candidates together" in str(search.plan_)
    assert_same(search, other)
    np.testing.assert_allclose(search.predict(X), other.predict(X), rtol=1e-8)
    mine, own = search.best_estimator_[0], other.best_estimator_[0]
    assert list(mine.get_feature_names_out()) == list(own.get_feature_names_out())
    images = mine.transform(X).astype(float), own.transform(X).astype(float)
    np.testing.assert_allclose(*images, rtol=1e-7, atol=1e-12)
    assert search.best_estimator_[-1].coef_.shape == other.best_estimator_[-1].coef_.shape


@pytest.mark.parametrize("name", ["scaled", "rare", "flags"])
def test_all_candidates_go_in_one_pass(name):
    numbers, levels, grid = CASES[name]
    ours, _ = pair(numbers, levels, Ridge(), None)
    search = GridSearchCV(ours, grid, refit=False).fit(*table())
    assert "all candidates together" in str(search.plan_)
    assert search.plan_.n_passes == 1


MODELS = {
    "logistic": (LogisticRegression(tol=1e-10), sk_linear.LogisticRegression(tol=1e-10, max_iter=5000), {"model__C": [0.1, 1.0]}, 1e-6),
    "elastic net": (ElasticNet(0.05, tol=1e-10), sk_linear.ElasticNet(0.05, tol=1e-12, max_iter=50_000), {"model__l1_ratio": [0.2, 0.8]}, 1e-6),
    "least squares": (LinearRegression(), sk_linear.LinearRegression(), {"columns__numbers__impute__strategy": ["mean", "median"]}, 1e-7),
}  # fmt: skip


@pytest.mark.each
@pytest.mark.parametrize("name", MODELS)
def test_other_models(name):
    model, theirs, grid, rtol = MODELS[name]
    X, y = table()
    y = (y > np.median(y)).astype(int) if name == "logistic" else y
    ours, theirs = pair(SCALED, FILLED, model, theirs)
    search = GridSearchCV(ours, grid, cv=3).fit(X, y)
    assert "all candidates together" in str(search.plan_)
    assert_same(search, SkGridSearchCV(theirs, grid, cv=3).fit(X, y), rtol)


def test_scorers_that_need_predictions_and_models_of_splits():
    X, y = table()
    labels = np.asarray(["no", "yes"])[(y > np.median(y)).astype(int)]
    ours, theirs = pair(
        SCALED, FILLED, LogisticRegression(tol=1e-9), sk_linear.LogisticRegression(tol=1e-9)
    )
    options = {"cv": StratifiedKFold(3), "scoring": ["roc_auc", "neg_log_loss"]}
    mine = model_selection.cross_validate(ours, X, labels, return_estimator=True, **options)
    other = cross_validate(theirs, X, labels, return_estimator=True, **options)
    for name in ("test_roc_auc", "test_neg_log_loss"):
        np.testing.assert_allclose(mine[name], other[name], rtol=1e-5)
    for one, two in zip(mine["estimator"], other["estimator"], strict=True):
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-3, atol=1e-4)


def test_columns_and_steps_of_scikit_learn_join_as_they_are():
    """Of its pipelines only the model and the search are changed."""
    X, y = table()
    entries = [
        ("numbers", Pipeline([("i", sk_impute.SimpleImputer()), ("s", SkScaler())]), NUMBERS),
        ("levels", OneHot(handle_unknown="ignore"), CATEGORIES),
    ]
    columns = sk_compose.ColumnTransformer(entries, sparse_threshold=0)
    grid = {"columns__numbers__i__strategy": ["mean", "median"], **ALPHAS}
    mine = GridSearchCV(Pipeline([("columns", columns), ("model", Ridge())]), grid).fit(X, y)
    theirs = Pipeline([("columns", columns), ("model", sk_linear.Ridge())])
    other = SkGridSearchCV(theirs, grid).fit(X, y)
    assert mine.plan_.n_passes == 1
    assert_same(mine, other)
    assert type(mine.best_estimator_[0]) is sk_compose.ColumnTransformer
    assert type(mine.best_estimator_[0].named_transformers_["numbers"]["s"]) is SkScaler
    np.testing.assert_allclose(mine.predict(X), other.predict(X))


def test_steps_behind_the_columns():
    X, y = table()
    grid = {"pca__n_components": [2, 4], **ALPHAS}
    ours, theirs = pair(SCALED, FILLED, Ridge(), sk_linear.Ridge(), behind=[("pca", PCA())])
    search = GridSearchCV(ours, grid, cv=3).fit(X, y)
    assert search.plan_.n_passes == 1
    assert_same(search, SkGridSearchCV(theirs, grid, cv=3).fit(X, y))


def test_columns_of_arrays_selectors_weights_and_a_column_in_two_entries():
    X, y = table()
    frame = X.drop(columns=["place", "kind"])
    fill = sk_impute.SimpleImputer()
    for rows, chosen in (
        (frame, make_column_selector(pattern="^[xl]")),
        (frame.to_numpy(), [0, 2]),
    ):
        entries = [
            ("a", fill, chosen),
            ("b", OneHot(handle_unknown="ignore"), [-1]),
            ("c", fill, [1, 0]),
        ]
        options = {"transformer_weights": {"a": 0.5, "b": 2.0}, "sparse_threshold": 0}
        mine, other = (
            search(
                Pipeline([("columns", kind(entries, **options)), ("model", model)]), ALPHAS, cv=3
            ).fit(rows, y)
            for search, kind, model in (
                (GridSearchCV, ColumnTransformer, Ridge()),
                (SkGridSearchCV, sk_compose.ColumnTransformer, sk_linear.Ridge()),
            )
        )
        assert "all candidates together" in str(mine.plan_)
        assert_same(mine, other)


def test_weights_count_rows():
    X, y = table()
    weight = np.random.default_rng(3).integers(0, 3, len(y))
    ours, theirs = pair(SCALED, FILLED, Ridge(), sk_linear.Ridge())
    params = {"model__sample_weight": weight.astype(float)}
    search = GridSearchCV(ours, ALPHAS, cv=3).fit(X, y, **params)
    assert "all candidates together" in str(search.plan_)
    assert_same(search, SkGridSearchCV(theirs, ALPHAS, cv=3).fit(X, y, **params))


def test_what_scikit_learn_refuses_or_warns_of_goes_to_it():
    """Unknown levels, columns without values: of the split alone that has them."""
    X, y = table(90)
    X.loc[3, "kind"] = "seldom"
    ours, theirs = pair(SCALED, OneHot(), Ridge(), sk_linear.Ridge())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(ours, ALPHAS, cv=3).fit(X, y)
        other = SkGridSearchCV(theirs, ALPHAS, cv=3).fit(X, y)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()
    assert_same(search, other)
    assert "all candidates together" in str(search.plan_)
    assert "on splits 0, 2" in str(search.plan_)  # the last one lacks a rare place


def test_a_column_without_values_in_a_training_part():
    X, y = table(90)
    X["holes"] = np.where(np.arange(90) < 30, 1.0 + np.arange(90), np.nan)
    ours, theirs = pair(SCALED, FILLED, Ridge(), sk_linear.Ridge())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(ours, ALPHAS, cv=KFold(3)).fit(X, y)
        other = SkGridSearchCV(theirs, ALPHAS, cv=KFold(3)).fit(X, y)
    assert_same(search, other)


def test_a_wild_value_in_rows_held_out_changes_no_model():
    X, y = table()
    ours, _ = pair(SCALED, FILLED, Ridge(), None)

    def models(X):
        return model_selection.cross_validate(ours, X, y, cv=KFold(4), return_estimator=True)[
            "estimator"
        ]

    wild = X.copy()
    wild.loc[5, "large"] = 1e15
    same = models(X)[0][-1].coef_
    np.testing.assert_allclose(models(wild)[0][-1].coef_, same, rtol=1e-9, atol=1e-12)


REFUSED = {
    "NMF has a fit_transform of its own": (imputed(NMF(1)), FILLED),
    "set it to an integer": (imputed(GaussianRandomProjection(2)), FILLED),
    "svd_solver": (imputed(PCA(1, svd_solver="randomized")), FILLED),
    "set sparse_output=False": (SCALED, imputed(OneHot(handle_unknown="ignore"), StandardScaler(), strategy="most_frequent")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_plan_names_the_step_that_does_not_join(name):
    numbers, levels = REFUSED[name]
    X, y = table()
    ours, _ = pair(numbers, levels, Ridge(), None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outlook = str(GridSearchCV(ours, ALPHAS, error_score=0.0).explain(X, y))
    assert name in outlook
    assert "all candidates together" not in outlook


def test_the_plan_says_that_there_are_too_many_levels():
    random = np.random.default_rng(0)
    X = pd.DataFrame({"a": random.integers(0, 10**6, 2000), "x": random.normal(size=2000)})
    columns = ColumnTransformer([("l", OneHot(handle_unknown="ignore", drop="first"), ["a"])])
    steps = [("columns", columns), ("model", Ridge())]
    outlook = str(GridSearchCV(Pipeline(steps), ALPHAS).explain(X, X["x"]))
    assert "levels, and sums over pairs pay off up to 1,024" in outlook


def test_no_encoded_copy_is_made():
    """Codes are a byte or two for each row, whatever the number of levels."""
    random = np.random.default_rng(0)
    n = 4000
    X = pd.DataFrame(
        {
            "a": random.integers(0, 300, n),
            "b": random.integers(0, 20, n),
            "x": random.normal(size=n),
        }
    )
    columns = ColumnTransformer(
        [("l", OneHot(handle_unknown="ignore"), ["a", "b"])], remainder="passthrough"
    )
    batch = columns.table_batch(Ridge().multifit_batch(np.zeros((n, 1)), X["x"].to_numpy()), X)
    held = [batch.table.numbers, batch.table.holes, *batch.table.codes]
    assert sum(a.nbytes for a in held) == n * (8 + 2 + 1)
    assert batch.n_features == 321


def test_steps_behind_sparse_columns_do_not_join():
    """scikit-learn's StandardScaler refuses to centre what `sparse_threshold` leaves sparse."""
    X, y = table()
    entries = [("levels", OneHot(handle_unknown="ignore"), CATEGORIES)]
    for options, joins in (({}, False), ({"sparse_threshold": 0}, True)):
        columns = ColumnTransformer(entries, **options)
        steps = [("columns", columns), ("scale", StandardScaler()), ("model", Ridge())]
        outlook = str(GridSearchCV(Pipeline(steps), ALPHAS).explain(X, y))
        assert ("all candidates together" in outlook) == joins
        assert ("set sparse_threshold=0" in outlook) != joins


def test_sparse_columns_before_a_model():
    X, y = table()
    entries = [
        ("x", StandardScaler(), ["x"]),
        ("levels", OneHot(handle_unknown="ignore"), CATEGORIES),
    ]
    mine = Pipeline(
        [("columns", ColumnTransformer(entries, sparse_threshold=1.0)), ("model", Ridge())]
    )
    exact = sk_linear.Ridge(tol=1e-12)
    theirs = Pipeline(
        [("columns", sk_compose.ColumnTransformer(entries, sparse_threshold=1.0)), ("model", exact)]
    )
    search = GridSearchCV(mine, ALPHAS, cv=3).fit(X, y)
    other = SkGridSearchCV(theirs, ALPHAS, cv=3).fit(X, y)
    assert_same(search, other, 1e-7)
    np.testing.assert_allclose(search.predict(X), other.predict(X), rtol=1e-6)


def test_weights_that_go_to_the_steps_keep_them_out(rng):
    X, y = table()
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        columns = ColumnTransformer([("x", scaler, ["x", "large"])])
        r2 = get_scorer("r2").set_score_request(sample_weight=False)
        model = Ridge().set_fit_request(sample_weight=True)
        search = GridSearchCV(
            Pipeline([("columns", columns), ("model", model)]), ALPHAS, scoring=r2
        )
        outlook = str(search.explain(X, y, sample_weight=rng.uniform(size=len(y))))
    assert "sample weights are routed to steps of ColumnTransformer" in outlook


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
def test_rare_levels_of_few_and_of_equal_counts(drop):
    """As many levels as columns, and ties: which of them are rare decides the order of columns."""
    X = pd.DataFrame({"a": ["u", "v"] * 20, "b": ["p", "q", "r", "s"] * 10, "x": np.arange(40.0)})
    y = np.random.default_rng(0).normal(size=40)
    encoder = OneHot(drop=drop, max_categories=2)
    grid = {"columns__l__max_categories": [2, 3, 4, 5], "columns__l__min_frequency": [None, 10, 21]}
    found = [
        search(
            Pipeline(
                [
                    ("columns", kind([("l", encoder, ["a", "b"])], remainder="passthrough")),
                    ("model", model),
                ]
            ),
            grid,
            cv=KFold(2, shuffle=True, random_state=0),
        ).fit(X, y)
        for search, kind, model in (
            (GridSearchCV, ColumnTransformer, Ridge()),
            (SkGridSearchCV, sk_compose.ColumnTransformer, sk_linear.Ridge(tol=1e-12)),
        )
    ]
    assert_same(*found, 1e-7)
    # Models of all rows know the order of columns.
    for candidate in found[1].cv_results_["params"]:
        grid = {name: [value] for name, value in candidate.items()}
        one, two = (
            search(each.estimator, grid, cv=2).fit(X, y).predict(X)
            for search, each in zip((GridSearchCV, SkGridSearchCV), found, strict=True)
        )
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-8)


def test_levels_that_few_rows_have_take_few_passes():
    """Hessians of codes cost little, so that steps are Newton's from the first one on."""
    random = np.random.default_rng(0)
    rare = np.minimum(random.geometric(0.05, 20_000), 99)
    X = pd.DataFrame({"x": random.normal(size=20_000), "rare": rare})
    y = (X["x"] + np.sin(rare) + random.logistic(size=20_000) > 0).to_numpy()
    levels = ("levels", OneHot(handle_unknown="ignore"), ["rare"])
    columns = ColumnTransformer([("x", StandardScaler(), ["x"]), levels])
    search = GridSearchCV(
        Pipeline([("columns", columns), ("model", LogisticRegression())]),
        {"model__C": [0.01, 1.0, 10.0]},
        refit=False,
    )
    assert search.fit(X, y).plan_.n_passes <= 12
    # The model of all rows begins at the mean of those of the splits, whichever levels each knew.
    assert search.set_params(refit=True).fit(X, y).best_estimator_[-1].n_iter_[0] <= 3


@pytest.mark.parametrize("model", [Ridge(), LogisticRegression()], ids=["ridge", "logistic"])
@pytest.mark.parametrize("scoring", [None, "neg_root_mean_squared_error"])
def test_no_search_makes_indicators(model, scoring, monkeypatch):
    """Codes are added up and looked up, in fits and in scores: nobody asks for columns of levels."""
    monkeypatch.delattr(CodedBlock, "dense")
    # Of few rows a dense copy is less work than anything else.
    monkeypatch.setattr(few_rows, "are_few", lambda *_: False)
    X, y = table()
    y = y > 0 if isinstance(model, LogisticRegression) else y
    ours, _ = pair(SCALED, FILLED, model, None)
    grid = {"columns__numbers__impute__strategy": ["mean", "median"]}
    search = GridSearchCV(ours, grid, cv=3, scoring=scoring).fit(X, y)
    assert "all candidates together" in str(search.plan_)


@pytest.mark.gpu
@pytest.mark.skipif(not has_gpu(), reason="no GPU")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_tables_on_a_machine_with_a_gpu(name, device):
    """A frame is in CPU memory, where its codes are summed; the results are those of a CPU."""
    model, theirs, grid, rtol = MODELS[name]
    X, y = table()
    y = (y > np.median(y)).astype(int) if name == "logistic" else y
    ours, theirs = pair(SCALED, FILLED, model, theirs)
    with config_of_gpuml(device=device):
        search = GridSearchCV(ours, grid, cv=3).fit(X, y)
        outlook = str(search.plan_)
    assert "all candidates together" in outlook
    assert_same(search, SkGridSearchCV(theirs, grid, cv=3).fit(X, y), rtol)
