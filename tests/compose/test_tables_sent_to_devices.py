"""DataFrames in CPU memory are coded there and worked on where the settings want it."""

import numpy as np
import pandas as pd
import pytest
from sklearn import preprocessing as sk_preprocessing
from sklearn.impute import SimpleImputer as TheirImputer
from sklearn.model_selection import KFold

import gpuml
from gpuml._arrays import place_of
from gpuml.compose import ColumnTransformer
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from gpuml.testing import array_libraries, count_transfers

# Nobody writes to what pandas gives, of which torch would know nothing.
pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
N = 240
NUMBERS, LEVELS = ["x", "whole", "flag"], ["kind", "name", "number"]
DENSE = {"handle_unknown": "ignore", "sparse_output": False}
KNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -3}
ENCODERS = {
    "one-hot": OneHotEncoder(**DENSE),
    "scikit-learn's": sk_preprocessing.OneHotEncoder(**DENSE),
    "rare together": OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=9),
    "numbered": OrdinalEncoder(**KNOWN),
    "filled": make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(**DENSE)),
    "means": TargetEncoder(cv=KFold(3)),
}
MODELS = {
    "ridge": (Ridge(), {"ridge__alpha": [0.1, 1.0]}),
    "logistic": (LogisticRegression(tol=1e-9, max_iter=500), {"logisticregression__C": [0.1, 1.0]}),
    "counts": (PoissonRegressor(tol=1e-9, max_iter=500), {"poissonregressor__alpha": [0.1, 1.0]}),
    # Where columns depend on others, from the rows.
    "least squares": (LinearRegression(), {"linearregression__fit_intercept": [True, False]}),
}


@pytest.fixture(params=[each for each in array_libraries() if not each.id.startswith("numpy")])
def library(request):
    """Others than NumPy, at which tables stay what they are."""
    return request.param


@pytest.fixture
def sent(library, monkeypatch):
    """The place where tables are worked on."""
    place = place_of(library.asarray(np.zeros(1)))
    monkeypatch.setattr("gpuml.pipeline._beside_tables.compute_place", lambda *_: place)
    return place


def frame(n_names=8, seed=0):
    """Columns of several dtypes with holes, and targets that depend on them."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame({"x": random.normal(size=N).astype(np.float32)})
    X["whole"], X["flag"] = random.integers(0, 5, N), random.random(N) < 0.5
    kinds = random.integers(-1, 3, N)  # -1 is missing, and the last category is not in use
    X["kind"] = pd.Categorical.from_codes(kinds, ["b", "a", "c", "unused"])
    names = np.asarray([f"name {code}" for code in range(n_names)], dtype=object)
    X["name"] = names[random.integers(0, n_names, N)]
    X["number"] = random.integers(0, 3, N).astype(float)
    X.loc[::7, "x"] = X.loc[::9, "name"] = X.loc[::11, "number"] = np.nan
    y = X["x"].fillna(0) + (X["kind"] == "a") + random.normal(size=N)
    y = y.to_numpy(dtype=float)
    counts = np.floor(np.exp(y / 2))
    return X, {"ridge": y, "logistic": (y > 0).astype(int), "counts": counts, "least squares": y}


def search_of(encoder, name, numbers=None):
    numbers = numbers or (SimpleImputer(), StandardScaler())
    entries = [("n", make_pipeline(*numbers), NUMBERS), ("l", encoder, LEVELS)]
    model, grid = MODELS[name]
    steps = make_pipeline(ColumnTransformer(entries, sparse_threshold=0), model)
    return GridSearchCV(steps, grid, cv=3)


@pytest.mark.pairwise
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("name", MODELS)
def test_scores_and_models_are_those_of_rows_that_stay(encoder, name, sent, monkeypatch):
    X, targets = frame()
    there = search_of(ENCODERS[encoder], name).fit(X, targets[name])
    assert f"on {sent} (all candidates together" in str(there.plan_)
    monkeypatch.undo()
    here = search_of(ENCODERS[encoder], name).fit(X, targets[name])
    scores = there.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, here.cv_results_["mean_test_score"], rtol=1e-6)
    assert isinstance(there.best_estimator_[-1].coef_, np.ndarray)
    np.testing.assert_allclose(there.predict(X), here.predict(X), rtol=1e-5)


BINS = KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
NUMBER_STEPS = {
    "median": (SimpleImputer(strategy="median"), StandardScaler()),
    "mode": (SimpleImputer(strategy="most_frequent"),),
    "indicators": (SimpleImputer(add_indicator=True), StandardScaler()),
    "scikit-learn's": (TheirImputer(), sk_preprocessing.StandardScaler()),
    "by rows": (SimpleImputer(), RobustScaler()),
    "made": (SimpleImputer(), BINS),
}


@pytest.mark.filterwarnings("ignore:Bins whose width are too small")
@pytest.mark.each
@pytest.mark.parametrize("steps", NUMBER_STEPS)
def test_steps_of_numbers(steps, sent, monkeypatch):
    X, targets = frame()
    X = X.astype({"whole": float, "flag": float})
    given = {"numbers": NUMBER_STEPS[steps]}
    there = search_of(ENCODERS["one-hot"], "ridge", **given).fit(X, targets["ridge"])
    assert f"on {sent} (all candidates together" in str(there.plan_)
    monkeypatch.undo()
    here = search_of(ENCODERS["one-hot"], "ridge", **given).fit(X, targets["ridge"])
    for split in range(3):
        name = f"split{split}_test_score"
        np.testing.assert_allclose(there.cv_results_[name], here.cv_results_[name], rtol=1e-7)
    np.testing.assert_allclose(there.predict(X), here.predict(X), rtol=1e-7)


@pytest.mark.parametrize("name", ["ridge", "logistic"])
@pytest.mark.parametrize("rare", [None, 9])
def test_many_levels(name, rare, sent, monkeypatch):
    monkeypatch.setattr("gpuml.compose._apart.MOST_LEVELS", 20)
    monkeypatch.setattr("gpuml.compose._groups.FEW_LEVELS", 12)
    X, targets = frame(n_names=40)
    encoder = OneHotEncoder(handle_unknown="ignore", min_frequency=rare)
    there = search_of(encoder, name).fit(X, targets[name])
    assert f"on {sent} (all candidates together" in str(there.plan_)
    monkeypatch.undo()
    here = search_of(encoder, name).fit(X, targets[name])
    scores = there.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, here.cv_results_["mean_test_score"], rtol=1e-6)


def test_where_a_table_is_worked_on_follows_its_size(monkeypatch):
    asked = []

    def place(x, work_bytes, setting):
        asked.append((work_bytes, setting))
        return place_of(x)

    monkeypatch.setattr("gpuml.pipeline._beside_tables.compute_place", place)
    X, targets = frame()
    search_of(ENCODERS["one-hot"], "ridge").fit(X, targets["ridge"])
    assert asked == [(8 * N * X.shape[1], "auto")]


def test_a_table_larger_than_the_memory_says_what_to_set(sent, monkeypatch):
    monkeypatch.setattr("gpuml.pipeline._beside_tables.fits", lambda *_: False)
    X, targets = frame()
    with pytest.raises(MemoryError, match="which are not free on .*gpuml.set_config"):
        search_of(ENCODERS["one-hot"], "ridge").fit(X, targets["ridge"])


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_codes_and_numbers_are_sent_once(name):
    pytest.importorskip("cupy")
    X, targets = frame()
    X = pd.concat([X] * 500, ignore_index=True)
    y = np.tile(targets[name], 500)
    with gpuml.config_context(device="cpu"):
        here = search_of(ENCODERS["one-hot"], name).fit(X, y)
    with gpuml.config_context(device="cuda"):
        search = search_of(ENCODERS["one-hot"], name).fit(X, y)
        with count_transfers() as moved:
            search.fit(X, y)
    assert str(search.plan_).endswith("on cupy:cuda:0 (all candidates together)")
    assert moved.to_device < 1.5 * X.memory_usage(index=False).sum()
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, here.cv_results_["mean_test_score"], rtol=1e-6)
    np.testing.assert_allclose(search.predict(X), here.predict(X), rtol=1e-5)
