"""Random column transformers over random tables: scores are those of scikit-learn, or both fail."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import compose as sk_compose
from sklearn import linear_model as sk_linear
from sklearn.base import clone
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import Pipeline, make_pipeline, make_union
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
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from gpuml.compose import ColumnTransformer
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV

SPLITTERS = [
    KFold(3),
    KFold(4, shuffle=True, random_state=0),
    ShuffleSplit(2, test_size=0.3, train_size=0.4, random_state=1),
    TimeSeriesSplit(3),
    RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
]
# What stands behind an imputer, or in front of one.
OF_NUMBERS = [
    *(StandardScaler(), StandardScaler(with_std=False), MinMaxScaler(), MaxAbsScaler()),
    *(MinMaxScaler((-1, 2), clip=True), RobustScaler(), RobustScaler(quantile_range=(10, 80))),
    *(VarianceThreshold(), VarianceThreshold(0.1), Binarizer(), Normalizer("l1")),
    *(FunctionTransformer(np.cbrt), FunctionTransformer(), PowerTransformer()),
    *(KBinsDiscretizer(3, strategy="uniform"), SplineTransformer(3), PolynomialFeatures()),
    KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    SplineTransformer(4, knots="quantile", extrapolation="linear"),
    MissingIndicator(features="all"),
    make_union("passthrough", SplineTransformer(3)),
]
UNKNOWN = ("ignore", "ignore", "infrequent_if_exist", "warn", "error")


def column(random, n):
    """Numbers: rounded, constant, integers, with heavy tails, with holes, empty."""
    values = random.normal(size=n) * 10.0 ** random.integers(-2, 3) + random.choice([0, 5, 100])
    made = random.integers(0, 7)
    if made < 4:
        values = [np.round(values), np.full(n, 2.0), random.integers(0, 7, n), values**3][made]
    if made == 6 or values.dtype.kind == "i":
        return np.full(n, np.nan) if made == 6 and random.random() < 0.4 else values
    values[random.random(n) < random.choice([0.0, 0.05, 0.6, 0.95])] = np.nan
    values[: n // 2 if random.random() < 0.1 else 0] = np.nan
    return values


def levels(random, n):
    """Words or numbers of some levels, rare ones among them, and what is missing."""
    n_levels = int(random.choice([1, 2, 5, 12, 30]))
    codes = random.choice(
        n_levels, n, p=random.dirichlet(np.full(n_levels, random.choice([0.2, 5])))
    )
    if random.random() < 0.3:
        return pd.Series(3 * codes - 4)
    words = pd.Series(np.asarray([f"v{i}" for i in range(n_levels)], dtype=object)[codes])
    words[random.random(n) < random.choice([0.0, 0.15])] = np.nan
    return words.astype("category") if random.random() < 0.3 else words


def steps_of_numbers(random):
    steps = [clone(random.choice(OF_NUMBERS)) for _ in range(random.integers(0, 4))]
    imputer = SimpleImputer(
        strategy=str(random.choice(["mean", "median", "most_frequent", "constant"])),
        add_indicator=bool(random.random() < 0.3),
        keep_empty_features=bool(random.random() < 0.4),
    )
    steps.insert(random.integers(0, len(steps) + 1) if random.random() < 0.2 else 0, imputer)
    return make_pipeline(*steps)


def steps_of_levels(random):
    rare = {
        "min_frequency": random.choice([None, 4, 0.1]),
        "max_categories": random.choice([None, 3]),
    }
    encoder = OneHotEncoder(handle_unknown=str(random.choice(UNKNOWN)), sparse_output=False, **rare)
    if random.random() < 0.25:
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    steps = [encoder, *([StandardScaler()] if random.random() < 0.3 else [])]
    if random.random() < 0.5:
        strategy = str(random.choice(["most_frequent", "constant"]))
        steps.insert(0, SimpleImputer(strategy=strategy))
    return make_pipeline(*steps)


def chosen(random, names):
    return random.choice(names, random.integers(1, len(names) + 1), replace=False).tolist()


def varied(random, transformer):
    """A few hyper-parameters of its steps."""
    values = {
        "strategy": ["mean", "median"],
        "n_bins": [2, 4],
        "degree": [1, 2],
        "with_scaling": [True, False],
        "threshold": [0.0, 0.3],
        "min_frequency": [None, 5],
    }
    params = [name for name in transformer.get_params() if name.rpartition("__")[2] in values]
    some = random.permutation(params)[: random.integers(0, 3)].tolist()
    return {f"columns__{name}": values[name.rpartition("__")[2]] for name in some}


SEEDS = [pytest.param(seed, marks=pytest.mark.exhaustive if seed > 4 else ()) for seed in range(40)]


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_those_of_scikit_learn(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(40, 200))
    X = pd.DataFrame({f"x{i}": column(random, n) for i in range(random.integers(1, 5))})
    numbers = list(X)
    for i in range(random.integers(1, 4)):
        X[f"c{i}"] = levels(random, n)
    y = random.normal(size=n) + X[numbers].rank(pct=True).fillna(0.5).sum(axis=1).to_numpy()
    entries = []
    for i in range(random.integers(1, 4)):
        if random.random() < 0.6:
            entries.append((f"e{i}", steps_of_numbers(random), chosen(random, numbers)))
        else:
            entries.append(
                (f"e{i}", steps_of_levels(random), chosen(random, list(X)[len(numbers) :]))
            )
    options = {"sparse_threshold": 0, "transformer_weights": {"e0": 2.0}}
    grid = {"model__alpha": [0.3, 30.0], **varied(random, ColumnTransformer(entries))}
    cv = SPLITTERS[random.integers(0, len(SPLITTERS))]
    found = []
    for search, columns, model in (
        (GridSearchCV, ColumnTransformer, Ridge()),
        (SkGridSearchCV, sk_compose.ColumnTransformer, sk_linear.Ridge()),
    ):
        pipeline = Pipeline([("columns", columns(entries, **options)), ("model", model)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                each = search(pipeline, grid, cv=cv, return_train_score=True, refit=False)
                found.append(each.fit(X, y).cv_results_)
            except ValueError as error:
                if "fits failed" not in str(error):
                    raise
                found.append({})
    mine, theirs = found
    assert (mine == {}) == (theirs == {})
    for name in theirs:
        if name.endswith("_score") and not name.startswith("rank"):
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-8, atol=1e-8, err_msg=name)
