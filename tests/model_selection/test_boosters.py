"""XGBoost, LightGBM and CatBoost in searches: scores are those of scikit-learn's search."""

import numpy as np
import pytest
from sklearn import model_selection as sk
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuml.model_selection import GridSearchCV
from gpuml.model_selection.boosters import OneBooster
from gpuml.model_selection.candidates import BINNED, GROWN
from gpuml.model_selection.one_fits import one_fit_key
from tests.boosting import catboost, lightgbm, xgboost

RNG = np.random.default_rng(5)
X = RNG.normal(size=(150, 5))
X[RNG.random(X.shape) < 0.05] = np.nan
NUMBERS = np.nan_to_num(X) @ RNG.normal(size=5) + 0.3 * RNG.normal(size=150)
CLASSES = np.digitize(NUMBERS, [-1.0, 1.0])
WEIGHTS = RNG.uniform(0.2, 2.0, size=150)
SIZES = {"n_estimators": [7, 1, 12]}


# name -> (how it is made, class, parameters, y)
CASES = {
    "xgboost": (xgboost, "XGBClassifier", {}, CLASSES),
    "xgboost of two classes": (xgboost, "XGBClassifier", {"max_bin": 16}, NUMBERS > 0),
    "xgboost that draws": (
        xgboost,
        "XGBRegressor",
        {"subsample": 0.7, "colsample_bytree": 0.5, "random_state": 3},
        NUMBERS,
    ),
    "xgboost of several targets": (
        xgboost,
        "XGBRegressor",
        {"num_parallel_tree": 2, "subsample": 0.8},
        np.stack([NUMBERS, NUMBERS**2], axis=1),
    ),
    "lightgbm": (lightgbm, "LGBMClassifier", {}, np.array(["a", "b", "c"])[CLASSES]),
    "lightgbm that draws": (
        lightgbm,
        "LGBMRegressor",
        {"subsample": 0.7, "subsample_freq": 1, "colsample_bytree": 0.5, "random_state": 3},
        NUMBERS,
    ),
    "catboost": (catboost, "CatBoostClassifier", {"learning_rate": 0.2}, CLASSES),
    "catboost that draws": (
        catboost,
        "CatBoostRegressor",
        {"learning_rate": 0.2, "subsample": 0.7, "bootstrap_type": "Bernoulli", "random_seed": 3},
        NUMBERS,
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    make, name, params, y = CASES[request.param]
    return make(name, **params), y


def both(model, grid, y, **options):
    weight = options.pop("weight", {})
    return [
        search(model, grid, cv=3, **options).fit(X, y, **weight)
        for search in (GridSearchCV, sk.GridSearchCV)
    ]


def assert_same_scores(ours, theirs):
    for name in [name for name in theirs.cv_results_ if "_test_" in name or "_train_" in name]:
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_sizes_are_read_off_one_fit(case, weighted):
    model, y = case
    weight = {"sample_weight": WEIGHTS} if weighted else {}
    scoring = "accuracy" if hasattr(model, "predict_proba") else "neg_mean_squared_error"
    ours, theirs = both(model, SIZES, y, weight=weight, scoring=scoring, return_train_score=True)
    assert_same_scores(ours, theirs)
    assert ours.plan_.n_passes == 3
    assert GROWN in str(ours.plan_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_probabilities_are_scored(case):
    model, y = case
    if not hasattr(model, "predict_proba"):
        pytest.skip("no classifier")
    scoring = ["neg_log_loss", "accuracy"]
    assert_same_scores(*both(model, SIZES, y, scoring=scoring, refit=False))


def test_models_are_those_of_single_fits(case):
    model, y = case
    large = clone(model).set_params(n_estimators=12).fit(X, y)
    alone = clone(model).set_params(n_estimators=7)
    read = OneBooster(large, X, y, []).model(alone)
    alone.fit(X, y)
    np.testing.assert_array_equal(read.predict(X), alone.predict(X))
    assert read.get_params() == alone.get_params()
    assert large.get_params()["n_estimators"] == 12


def test_last_steps_of_pipelines():
    model = xgboost("XGBRegressor")
    pipeline = make_pipeline(StandardScaler(), model)
    grid = {"xgbregressor__n_estimators": [3, 9], "xgbregressor__max_depth": [2, 3]}
    ours, theirs = both(pipeline, grid, NUMBERS, refit=False)
    assert_same_scores(ours, theirs)
    assert ours.plan_.n_passes == 2 * 3


@pytest.mark.parametrize(("name", "y"), [("XGBClassifier", CLASSES), ("XGBRegressor", NUMBERS)])
@pytest.mark.parametrize("weighted", [False, True])
def test_bins_are_made_once(monkeypatch, name, y, weighted):
    model, made = xgboost(name, n_estimators=5), []
    own = type(model)._create_dmatrix

    def noted(self, ref=None, **params):
        made.append(self.max_bin)
        return own(self, ref=ref, **params)

    for kind in type(model).__mro__:
        if "_create_dmatrix" in vars(kind):
            monkeypatch.setattr(kind, "_create_dmatrix", noted)
            break
    grid = {"learning_rate": [0.1, 0.3], "max_depth": [2, 4], "max_bin": [8, 64]}
    weight = {"sample_weight": WEIGHTS} if weighted else {}
    ours = GridSearchCV(model, grid, cv=3, refit=False).fit(X, y, **weight)
    assert sorted(made) == [8] * 3 + [64] * 3
    assert BINNED in str(ours.plan_)
    monkeypatch.undo()
    theirs = sk.GridSearchCV(model, grid, cv=3, refit=False).fit(X, y, **weight)
    assert_same_scores(ours, theirs)
    assert "_create_dmatrix" not in vars(model)


@pytest.mark.parametrize(
    ("make", "name", "params", "why"),
    [
        (xgboost, "XGBClassifier", {"booster": "dart"}, "booster='dart' change earlier ones"),
        (lightgbm, "LGBMClassifier", {"boosting_type": "dart"}, "boosting_type='dart'"),
        (lightgbm, "LGBMClassifier", {"num_rounds": 3}, "write n_estimators"),
        (catboost, "CatBoostClassifier", {}, "set learning_rate"),
    ],
)
@pytest.mark.filterwarnings("ignore:Found 'num_rounds' in params", "ignore:Found `num_rounds`")
def test_plans_say_why_nothing_is_read_off(make, name, params, why):
    model = make(name, **params)
    ours, theirs = both(model, {"n_estimators": [2, 4]}, CLASSES, refit=False)
    assert_same_scores(ours, theirs)
    assert why in ours.plan_.reasons[0]
    assert ours.plan_.n_passes == 6


def test_what_has_no_key():
    assert one_fit_key(xgboost("XGBClassifier", early_stopping_rounds=3)) is None
    generator = np.random.RandomState(0)
    assert one_fit_key(xgboost("XGBClassifier", random_state=generator)) is None
    assert one_fit_key(xgboost("XGBRFClassifier")) is None
    assert one_fit_key(xgboost("XGBClassifier", n_estimators=0)) is None
