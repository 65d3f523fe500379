"""`fit` of columns makes no results, and learns what `fit_transform` learns."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import compose as sk_compose
from sklearn import impute, preprocessing
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline

from gpuml.compose import ColumnTransformer
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline

N = 60


@pytest.fixture
def frame(rng):
    X = pd.DataFrame({"x": rng.normal(size=N), "z": rng.normal(size=N)})
    X["kind"] = np.asarray(["a", "b", "c", "d"], dtype=object)[rng.integers(0, 4, N)]
    X["place"] = rng.integers(0, 9, N)
    X.loc[rng.random(N) < 0.2, "z"] = np.nan
    return X


def chain(*steps):
    return Pipeline([(f"s{i}", step) for i, step in enumerate(steps)])


OneHot = preprocessing.OneHotEncoder
CASES = {
    "all kinds of entries": (
        [
            ("n", chain(impute.SimpleImputer(add_indicator=True), preprocessing.StandardScaler()), ["x", "z"]),
            ("o", OneHot(), ["kind", "place"]),
            ("p", "passthrough", ["x"]),
        ],
        {},
    ),
    "most is zero": ([("o", OneHot(), ["kind", "place"])], {"sparse_threshold": 0.2}),
    "not enough is zero": ([("o", OneHot(), ["kind", "place"])], {"sparse_threshold": 0.1}),
    "dropped levels": ([("o", OneHot(drop="first"), ["kind", "place"])], {"sparse_threshold": 0.17}),
    "rare levels": ([("o", OneHot(min_frequency=9), ["kind"])], {"remainder": "drop"}),
    "levels given": ([("o", OneHot(categories=[["a", "b"]], handle_unknown="ignore"), ["kind"])], {}),
    "numbers of levels": ([("o", preprocessing.OrdinalEncoder(), ["kind", "place"])], {"remainder": "passthrough"}),
    "chains behind encoders": ([("o", chain(impute.SimpleImputer(strategy="most_frequent"), OneHot(sparse_output=False), PCA(2)), ["kind", "place"])], {"transformer_weights": {"o": 2.0}}),
    "bins": ([("b", preprocessing.KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), ["x"])], {"sparse_threshold": 0.9}),
    "a function of all rows": ([("f", preprocessing.FunctionTransformer(lambda X: X - X.mean()), ["x"])], {}),
}  # fmt: skip


def learnt(columns):
    facts = {
        n: getattr(columns, n) for n in ("sparse_output_", "output_indices_", "n_features_in_")
    }
    return {**facts, "names": [name for name, *_ in columns.transformers_]}


@pytest.mark.parametrize("name", CASES)
def test_fit_learns_what_fit_of_scikit_learn_learns(name, frame):
    entries, options = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours, theirs = (
            kind(entries, **options).fit(frame)
            for kind in (ColumnTransformer, sk_compose.ColumnTransformer)
        )
    assert learnt(ours) == learnt(theirs)
    made, other = ours.transform(frame), theirs.transform(frame)
    assert type(made) is type(other)
    made, other = (a.toarray() if hasattr(a, "toarray") else a for a in (made, other))
    np.testing.assert_allclose(np.asarray(made, float), np.asarray(other, float))


def test_fit_transforms_one_row(frame, monkeypatch):
    """To see how many columns there are; only steps before others have to see all rows."""
    seen = []
    transform = OneHot.transform
    monkeypatch.setattr(
        OneHot, "transform", lambda self, X: seen.append(len(X)) or transform(self, X)
    )
    ColumnTransformer([("o", OneHot(), ["kind", "place"])]).fit(frame)
    assert seen == [1]


@pytest.mark.parametrize("columns", [["nobody"], "kind"])
def test_errors_are_those_of_scikit_learn(columns, frame):
    entries = [("o", OneHot(), columns)]
    said = []
    for kind in (ColumnTransformer, sk_compose.ColumnTransformer):
        with pytest.raises(ValueError, match="column") as error:
            kind(entries).fit(frame)
        said.append(str(error.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("more", [[], [("p", "passthrough", ["x"])]])
def test_the_best_columns_of_a_search_are_not_fitted_to_all_rows(more, frame, monkeypatch):
    """What the pass has found of them is enough, also beside columns that pass through."""
    seen = []
    fit = OneHot.fit
    monkeypatch.setattr(
        OneHot, "fit", lambda self, X, y=None: seen.append(len(X)) or fit(self, X, y)
    )
    columns = ColumnTransformer([("o", OneHot(), ["kind", "place"]), *more])
    search = GridSearchCV(make_pipeline(columns, Ridge()), {"ridge__alpha": [1.0, 2.0]})
    search.fit(frame, frame["x"])
    assert search.plan_.n_passes < 4
    assert max(seen, default=0) < N
