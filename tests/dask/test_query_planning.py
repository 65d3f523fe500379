"""Dask arrays that are expressions (`array.query-planning`), which are chosen before Dask is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import dask

dask.config.set({"array.query-planning": True, "dataframe.query-planning": True})
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gpuml.linear_model
from gpuml.linalg import svd_compressed as on_one_device
from gpuml_dask import GridSearchCV, predict
from gpuml_dask.decomposition import PCA
from gpuml_dask.io import persist
from gpuml_dask.linalg import svd_compressed
from gpuml_dask.linear_model import Ridge

assert hasattr(da.Array, "expr")
rng = np.random.default_rng(0)
X, y = rng.normal(size=(600, 6)), rng.normal(size=600)
labels = (y > 0).astype(int)
tree = DecisionTreeRegressor(max_depth=3).fit(X, y)
classifier = DecisionTreeClassifier(max_depth=3).fit(X, labels)
with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    lazy = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=200)
    for there, target in (lazy, [array.persist() for array in lazy], [persist(a) for a in lazy]):
        assert np.array_equal(predict.predict(tree, there).compute(), tree.predict(X))
        assert np.array_equal(
            predict.predict_proba(classifier, there + 0).compute(), classifier.predict_proba(X)
        )
        assert np.isclose(predict.score(tree, there, target), tree.score(X, y))
        search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}).fit(there, target)
        assert np.allclose(search.predict(there).compute(), search.best_estimator_.predict(X))
        model = Ridge().fit(there, target)
        assert np.allclose(model.coef_, gpuml.linear_model.Ridge().fit(X, y).coef_)
        pca = PCA(2).fit(there)
        assert np.allclose(pca.transform(there).compute(), pca.transform(X))
        values = on_one_device(X, 3, random_state=0)[1]
        for compute in (False, True):
            u, s, v = svd_compressed(there, 3, seed=0, compute=compute)
            assert np.allclose(s.compute(), values)
            assert u.compute().shape == (600, 3) and v.compute().shape == (3, 6)
    assert np.isclose(predict.score(classifier, lazy[0], labels), classifier.score(X, labels))
    frame, target = pd.DataFrame(X).add_prefix("x"), pd.Series(y)
    frames = [dd.from_pandas(each, npartitions=3) for each in (frame, target)]
    for scoring in (None, "neg_median_absolute_error"):
        search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, scoring=scoring).fit(*frames)
        assert np.allclose(search.predict(frames[0]).compute(), search.predict(frame))
        assert np.isclose(search.score(*frames), search.score(frame, target))
print("done")
"""


@pytest.mark.exhaustive
def test_arrays_that_are_expressions():
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:gpuml", "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "done" in done.stdout, done.stderr
