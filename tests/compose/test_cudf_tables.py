"""DataFrames of cuDF are coded on their device, as far as pandas can act it."""

import numpy as np
import pandas as pd
import pytest

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml._arrays.frames import DeviceFrame, from_cudf
from gpuml.compose import ColumnTransformer, make_column_selector
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder, StandardScaler
from tests.test_inputs import ActedColumn, ActedFrame, on_device

N = 120


class Column(ActedColumn):
    """Of which no row of strings leaves the device."""

    def to_pandas(self):
        assert len(self.series) == 0 or str(self.series.dtype) not in ("object", "str")
        return self.series


class Frame(ActedFrame):
    def __getitem__(self, name):
        return Column(self.frame[name])


def frame():
    random = np.random.default_rng(0)
    z = pd.array(random.integers(0, 9, N), dtype="Int64")
    X = pd.DataFrame({"x": random.normal(size=N), "z": z})
    X["kind"] = pd.Categorical.from_codes(random.integers(-1, 3, N), ["b", "a", "c", "unused"])
    X["name"] = np.asarray(["w", "u", "v"], dtype=object)[random.integers(0, 3, N)]
    X.loc[::9, "name"] = None
    X.loc[::7, "x"] = np.nan
    y = X["x"].fillna(0) + (X["kind"] == "a") + (X["name"] == "u") + random.normal(size=N)
    return X, y.to_numpy()


def search_of(model, grid):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    levels = OneHotEncoder(handle_unknown="ignore")
    columns = ColumnTransformer(
        [
            ("n", numbers, make_column_selector(dtype_include=np.number)),
            ("l", levels, ["kind", "name"]),
        ]
    )
    return GridSearchCV(make_pipeline(columns, model), grid, cv=3)


def test_a_frame_with_strings_is_that_of_pandas():
    X, _ = frame()
    made = from_cudf(Frame(X))
    pd.testing.assert_frame_equal(made, X)
    assert DeviceFrame.of(made) is not None
    assert DeviceFrame.of(X) is None
    key = id(made)
    del made
    assert key not in DeviceFrame._known


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (Ridge(), {"ridge__alpha": [0.1, 1.0]}),
        (LogisticRegression(tol=1e-9), {"logisticregression__C": [0.1, 1.0]}),
    ],
)
def test_searches_are_those_over_pandas(model, grid, there, monkeypatch):
    X, y = frame()
    y = y if isinstance(model, Ridge) else (y > 0).astype(int)
    here = search_of(model, grid).fit(X, y)
    if there:
        place = place_of(on_device(np.zeros(1)))
        monkeypatch.setattr("gpuml.pipeline._beside_tables.compute_place", lambda *_: place)
    search = search_of(model, grid).fit(Frame(X), y)
    assert "all candidates together" in str(search.plan_)
    assert ("array_api_strict" in str(search.plan_)) == there
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, here.cv_results_["mean_test_score"], rtol=1e-6)
    np.testing.assert_allclose(search.predict(Frame(X)), here.predict(X), rtol=1e-6)


def test_codes_are_made_where_the_names_are(monkeypatch):
    X, y = frame()
    place = place_of(on_device(np.zeros(1)))
    monkeypatch.setattr("gpuml.pipeline._beside_tables.compute_place", lambda *_: place)
    sent = []
    monkeypatch.setattr("gpuml._arrays.moves.transfer_observers", [lambda *a: sent.append(a)])
    search_of(Ridge(), {"ridge__alpha": [1.0]}).fit(Frame(X), y)
    up = [size for direction, size in sent if direction == "to_device"]
    assert max(up) <= 8 * N  # targets; else tables of levels, and no column of names


def test_names_of_a_frame_of_numbers_alone():
    """It is an array, which has names beside it."""
    X, y = frame()
    X = X[["x", "z"]]
    columns = ColumnTransformer(
        [("n", SimpleImputer(), ["x"]), ("r", StandardScaler(), make_column_selector("z"))]
    )
    images = columns.fit_transform(ActedFrame(X))
    np.testing.assert_allclose(to_host(images), columns.fit_transform(X))
    assert list(columns.fit(ActedFrame(X)).feature_names_in_) == ["x", "z"]
    search = GridSearchCV(make_pipeline(columns, Ridge()), {"ridge__alpha": [0.1, 1.0]}, cv=3)
    found = search.fit(ActedFrame(X), on_device(y))
    assert "all candidates together" in str(found.plan_)
    scores = found.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, search.fit(X, y).cv_results_["mean_test_score"])


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_frames_of_cudf(device):
    cudf = pytest.importorskip("cudf")
    X, y = frame()
    with gpuml.config_context(device="cpu"):
        here = search_of(Ridge(), {"ridge__alpha": [0.1, 1.0]}).fit(X, y)
    with gpuml.config_context(device=device):
        search = search_of(Ridge(), {"ridge__alpha": [0.1, 1.0]}).fit(cudf.from_pandas(X), y)
    assert "all candidates together" in str(search.plan_)
    assert ("cupy" in str(search.plan_)) == (device == "cuda")
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, here.cv_results_["mean_test_score"], rtol=1e-6)
    np.testing.assert_allclose(search.predict(cudf.from_pandas(X)), here.predict(X), rtol=1e-6)
