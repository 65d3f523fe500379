"""A table gives the same scores, whichever kind of DataFrame or array holds it."""

from functools import cache

import numpy as np
import pytest
from sklearn.model_selection import KFold

from gpuml.compose import ColumnTransformer
from gpuml.impute import MissingIndicator, SimpleImputer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline, make_union
from gpuml.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)

pd = pytest.importorskip("pandas")
N = 120


@cache
def table():
    """Numbers with holes, integers, truths, names with holes, and names; and a target."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=N).round(2),
            "count": rng.integers(0, 9, N),
            "open": rng.random(N) < 0.5,
            "town": rng.choice(["York", "Bath", "Ely"], N).astype(object),
            "kind": rng.choice(["a", "b"], N).astype(object),
        }
    )
    y = 2 * X["size"] + 3 * (X["town"] == "Bath") + 0.3 * X["count"] + rng.normal(size=N)
    X.loc[::9, "size"] = np.nan
    X.loc[::11, "town"] = np.nan
    return X, y.to_numpy()


NULLABLE = {
    "size": "Float64",
    "count": "Int64",
    "open": "boolean",
    "town": "string",
    "kind": "string",
}


def categories():
    """Columns of categories, of which some have no row."""
    X = table()[0]
    towns = pd.Categorical(X["town"], categories=["York", "Oxford", "Ely", "Bath"])
    return X.assign(town=towns, kind=X["kind"].astype("category"))


def polars():
    return pytest.importorskip("polars").from_pandas(table()[0])


def polars_categories():
    pl = pytest.importorskip("polars")
    kinds = pl.Enum(["a", "z", "b"])
    return polars().with_columns(pl.col("town").cast(pl.Categorical), pl.col("kind").cast(kinds))


def arrow():
    return pytest.importorskip("pyarrow").Table.from_pandas(table()[0], preserve_index=False)


KINDS = {
    "pandas": lambda: table()[0],
    "pandas, nullable": lambda: table()[0].astype(NULLABLE),
    "pandas, Arrow inside": lambda: (
        table()[0].astype(NULLABLE).convert_dtypes(dtype_backend="pyarrow")
    ),
    "pandas, categories": categories,
    "polars": polars,
    "polars, categories": polars_categories,
    "Arrow": arrow,
    "objects": lambda: table()[0].to_numpy(dtype=object),
}


def filled(step, strategy="most_frequent", **params):
    return make_pipeline(SimpleImputer(strategy=strategy, **params), step)


UNSEEN = {"handle_unknown": "ignore"}
BINS = KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform")
# What is made of numbers, of names, and what varies.
PIPELINES = {
    "most frequent": (
        filled(StandardScaler(), "mean"),
        filled(OneHotEncoder(**UNSEEN)),
        {"numbers__simpleimputer__strategy": ["mean", "median"]},
    ),
    "named": (
        filled(StandardScaler(), "median", add_indicator=True),
        filled(OneHotEncoder(**UNSEEN), "constant", fill_value="?"),
        {"names__onehotencoder__min_frequency": [None, 35]},
    ),
    "holes as levels": (filled(BINS, "mean"), OneHotEncoder(**UNSEEN), {}),
    "codes": (filled(StandardScaler(), "mean"), filled(OrdinalEncoder()), {}),
    "means": (
        filled(StandardScaler(), "mean"),
        TargetEncoder(cv=KFold(3)),
        {"names__smooth": ["auto", 3.0]},
    ),
    "flags": (
        make_union(SimpleImputer(), MissingIndicator(features="all")),
        make_union(MissingIndicator(features="all"), filled(OrdinalEncoder())),
        {},
    ),
}


def search_of(name, model, by_number):
    numbers, names, grid = PIPELINES[name]
    where = ([0, 1], [3, 4]) if by_number else (["size", "count"], ["town", "kind"])
    columns = ColumnTransformer([("numbers", numbers, where[0]), ("names", names, where[1])])
    penalty = {"C": [0.1, 1.0]} if isinstance(model, LogisticRegression) else {"alpha": [0.1, 1.0]}
    grid = {f"columntransformer__{key}": value for key, value in grid.items()}
    grid |= {f"{type(model).__name__.lower()}__{key}": value for key, value in penalty.items()}
    return GridSearchCV(make_pipeline(columns, model), grid, cv=3, error_score="raise")


@cache
def known(name, of_classes):
    return outcome(name, of_classes, "pandas")


def outcome(name, of_classes, kind):
    model = LogisticRegression(tol=1e-8) if of_classes else Ridge()
    X, y = KINDS[kind](), table()[1]
    search = search_of(name, model, kind == "objects").fit(X, y > 1 if of_classes else y)
    return search.cv_results_["mean_test_score"], search.predict(X)


@pytest.mark.pairwise
@pytest.mark.parametrize("of_classes", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "pandas"])
@pytest.mark.parametrize("name", PIPELINES)
def test_scores_do_not_depend_on_the_kind_of_table(name, kind, of_classes):
    scores, predicted = outcome(name, of_classes, kind)
    np.testing.assert_allclose(scores, known(name, of_classes)[0], rtol=1e-8)
    np.testing.assert_allclose(predicted, known(name, of_classes)[1], rtol=1e-6, atol=1e-6)


ENCODES = r"drop it, or encode it with OneHotEncoder in a ColumnTransformer\."


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("objects", "Arrow")])
@pytest.mark.parametrize("model", [StandardScaler(), SimpleImputer()], ids=str)
def test_errors_about_text_say_what_encodes_it(model, kind):
    X = KINDS[kind]()
    names = ["size", "town"]
    with pytest.raises(ValueError, match=rf"Column 'town' holds no numbers: {ENCODES}"):
        model.fit(X[names] if hasattr(X, "iloc") else X.select(names))


@pytest.mark.parametrize(
    "estimator", [SimpleImputer(), OneHotEncoder(), search_of("codes", Ridge(), False)], ids=type
)
def test_rows_that_are_not_worked_out_yet_are_refused(estimator):
    pytest.importorskip("polars")
    words = r"Got a polars LazyFrame; call \.collect\(\) first\."
    with pytest.raises(TypeError, match=words):
        estimator.fit(polars().lazy(), table()[1])
    pipeline = getattr(estimator, "estimator", None)
    if pipeline is not None:
        with pytest.raises(TypeError, match=words):
            pipeline.fit(polars().lazy(), table()[1])
