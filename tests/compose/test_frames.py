"""A table gives the same scores, whichever kind of DataFrame or array holds it."""

import tracemalloc
from functools import cache

import numpy as np
import pytest
from sklearn import compose as sk_compose
from sklearn import impute as sk_impute
from sklearn import linear_model as sk_linear
from sklearn import pipeline as sk_pipeline
from sklearn import preprocessing as sk_preprocessing
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
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
    assert "all candidates together" in str(search.plan_)
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
    with pytest.raises(ValueError, match=rf"Column 'town' is not numeric: {ENCODES}"):
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


SKLEARNS = {
    "one-hot": (sk_preprocessing.OneHotEncoder(**UNSEEN), True),
    "numbered": (sk_preprocessing.OrdinalEncoder(encoded_missing_value=-3), True),
    "filled": (
        make_pipeline(
            sk_impute.SimpleImputer(strategy="constant", fill_value="?"),
            sk_preprocessing.OrdinalEncoder(),
        ),
        True,
    ),
}


@pytest.mark.parametrize("kind", ["polars", "polars, categories", "Arrow"])
@pytest.mark.parametrize("name", SKLEARNS)
def test_steps_of_scikit_learn_read_nulls_in_their_own_way(name, kind):
    """They take null among text for a value of its own, and the pass does as they do."""
    encoder, joins = SKLEARNS[name]
    X, y = KINDS[kind](), table()[1]
    entries = [("n", StandardScaler(), ["count"]), ("l", encoder, ["town", "kind"])]
    grid = {"ridge__alpha": [0.1, 1.0]}
    ours = GridSearchCV(make_pipeline(ColumnTransformer(entries), Ridge()), grid, cv=3)
    exact = sk_linear.Ridge(solver="cholesky")
    theirs = sk_pipeline.make_pipeline(
        sk_compose.ColumnTransformer(entries, sparse_threshold=0), exact
    )
    # scikit-learn's columns take no table of Arrow.
    theirs = SkGridSearchCV(theirs, grid, cv=3).fit(polars() if kind == "Arrow" else X, y)
    ours.fit(X, y)
    assert ("all candidates together" in str(ours.plan_)) is joins
    expected = theirs.cv_results_["mean_test_score"]
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], expected, rtol=1e-8)


@pytest.mark.parametrize("kind", ["polars", "Arrow"])
def test_no_row_of_a_column_of_names_becomes_a_string(kind):
    library = pytest.importorskip("polars" if kind == "polars" else "pyarrow")
    n = 100_000
    codes = np.random.default_rng(0).integers(0, 300, n)
    names = [f"a name of many letters {i}" for i in range(300)]
    if kind == "polars":
        values = library.Series(names).gather(codes)
        X = library.DataFrame({"a": values, "b": values.cast(library.Categorical), "x": codes})
    else:
        held = library.DictionaryArray.from_arrays(library.array(codes), names)
        X = library.table({"a": held.cast(library.string()), "b": held, "x": codes})
    entries = [("l", OneHotEncoder(**UNSEEN), ["a", "b"]), ("n", "passthrough", ["x"])]
    columns = ColumnTransformer(entries)
    batch = Ridge().multifit_batch(np.zeros((n, 1)), np.zeros(n))
    tracemalloc.start()
    found = columns.table_batch(batch, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [codes.dtype for codes in found.table.codes] == [np.uint16, np.uint16]
    assert list(found.table.levels[0][:2]) == sorted(names)[:2]
    assert peak < 60 * n  # codes of eight bytes, a column at a time; a string takes as much
