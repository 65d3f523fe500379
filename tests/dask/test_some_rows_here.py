"""X on workers with targets and weights of this process: what one device gives, also of divided rows."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from sklearn.metrics import make_scorer, median_absolute_error

from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV as SearchHere
from gpuml_dask.model_selection import GridSearchCV

N = 90


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.normal(size=N), rng.random(N)


PLACES = {
    "array": lambda X: da.from_array(X, chunks=(30, 2)),
    "unknown sizes": lambda X: da.from_array(X, chunks=(30, 3))[da.ones(N, dtype=bool, chunks=30)],
    "frame": lambda X: dd.from_pandas(pd.DataFrame(X).add_prefix("x"), npartitions=4),
}
TARGETS = {
    "numbers": lambda y: y,
    "several": lambda y: np.stack([y, y**2], axis=1),
    "series": pd.Series,
    "list": list,
    "labels": lambda y: np.where(y > 0, "yes", "no"),
    "categories": lambda y: pd.Series(np.where(y > 0, "yes", "no"), dtype="category"),
}


@pytest.mark.parametrize("plan", ["rows", "whole"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("there", PLACES)
def test_targets_and_weights_of_this_process_go_to_the_rows(
    client, rows, there, target, weighted, plan
):
    X, y, weight = rows
    labels = target in ("labels", "categories")
    model = LogisticRegression(tol=1e-10) if labels else Ridge()
    grid = {"C": [0.1, 1.0]} if labels else {"alpha": [0.1, 1.0]}
    options = {"sample_weight": weight} if weighted else {}
    here = SearchHere(model, grid, cv=3).fit(X, TARGETS[target](y), **options)
    with dask.config.set({"gpuml.plan": plan}):
        found = GridSearchCV(model, grid, cv=3).fit(PLACES[there](X), TARGETS[target](y), **options)
    assert ("rows divided" in str(found.plan_)) == (plan == "rows")
    scores = [each.cv_results_["mean_test_score"] for each in (found, here)]
    np.testing.assert_allclose(*scores, rtol=1e-8)


@pytest.mark.parametrize("plan", ["rows", "whole"])
def test_weights_of_another_length_are_refused(client, rows, plan):
    X, y, weight = rows
    for short in (weight[:-1], da.from_array(weight[:-1], chunks=40)):
        with dask.config.set({"gpuml.plan": plan}), pytest.raises(ValueError, match=r"\(89,\)"):
            GridSearchCV(Ridge(), {"alpha": [1.0]}, error_score="raise").fit(
                PLACES["array"](X), y, sample_weight=short
            )


@pytest.mark.parametrize("scoring", [None, make_scorer(median_absolute_error)])
def test_lists_of_tasks_that_are_cut_elsewhere_are_scored(client, rows, scoring):
    X, y, _ = rows
    lists = [[delayed(x[:n]), delayed(x[n:])] for x, n in ((X, 50), (y, 30))]
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=scoring).fit(*lists)
    assert search.score(*lists) == pytest.approx(search.score(X, y), rel=1e-12)
