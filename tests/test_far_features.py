"""Adding a number to a feature that a scaler centres changes no score, however large it is."""

import numpy as np
import pandas as pd
import pytest

import gpuml
from gpuml.compose import ColumnTransformer
from gpuml.decomposition import PCA
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LogisticRegression, PoissonRegressor, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder, StandardScaler

TIGHT = {"tol": 1e-6, "max_iter": 500}
MODELS = {
    "ridge": (Ridge, "alpha", "amount"),
    "logistic": (lambda **own: LogisticRegression(**TIGHT, **own), "C", "kind"),
    "many classes": (lambda **own: LogisticRegression(**TIGHT, **own), "C", "many"),
    "l1": (
        lambda **own: LogisticRegression(l1_ratio=1.0, solver="saga", **TIGHT, **own),
        "C",
        "kind",
    ),
    "poisson": (lambda **own: PoissonRegressor(**TIGHT, **own), "alpha", "count"),
}
NUMBERS = ["near", "far", "other"]
STEPS = {
    "scaler": (StandardScaler(),),
    "projection": (StandardScaler(), PCA(2)),
    "table": (
        ColumnTransformer(
            [
                ("numbers", StandardScaler(), NUMBERS),
                ("names", OneHotEncoder(handle_unknown="ignore"), ["name"]),
            ]
        ),
    ),
    "holes": (
        ColumnTransformer(
            [
                ("far", make_pipeline(SimpleImputer(), StandardScaler()), ["far", "holes"]),
                ("numbers", StandardScaler(), ["near", "other"]),
            ]
        ),
    ),
}
LARGE = 1e8


def made(n_rows):
    rng = np.random.default_rng(n_rows)
    # Steps of 1/1024 are kept when the number is added.
    frame = pd.DataFrame(np.round(rng.normal(size=(n_rows, 3)) * 1024) / 1024, columns=NUMBERS)
    amount = frame.sum(axis=1) + rng.normal(size=n_rows)
    targets = {
        "amount": amount,
        "kind": amount > 0,
        "many": np.digitize(amount, [-1.0, 1.0]),
        "count": rng.poisson(np.exp(0.3 * amount)),
    }
    frame["holes"] = frame["other"].where(rng.random(n_rows) > 0.1)
    frame["name"] = rng.choice(["a", "b", "c"], n_rows)
    return frame, {name: np.asarray(values) for name, values in targets.items()}


def scores(steps, model, grid, X, y):
    scoring = "neg_log_loss" if isinstance(model, LogisticRegression) else None
    pipeline = make_pipeline(*steps, model)
    search = GridSearchCV(pipeline, grid, cv=3, scoring=scoring, refit=False).fit(X, y)
    assert "all candidates together" in str(search.plan_)
    return np.array([search.cv_results_[f"split{s}_test_score"] for s in range(3)])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("n_rows", [300, 8_000], ids=["few", "many"])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(("make", "strength", "target"), MODELS.values(), ids=MODELS)
def test_a_large_number_added_changes_no_score(n_rows, steps, make, strength, target, device):
    if device == "cuda" and not pytest.importorskip("cupy").is_available():
        pytest.skip("no GPU")
    X, targets = made(n_rows)
    if len(steps) > 1 or isinstance(steps[0], StandardScaler):
        X = X[NUMBERS].to_numpy()
        moved = X + np.array([0.0, LARGE, 0.0])
    else:
        moved = X.assign(far=X["far"] + LARGE)
    model = make()
    grid = {f"{type(model).__name__.lower()}__{strength}": [0.1, 1.0]}
    with gpuml.config_context(device=device):
        expected, found = (scores(steps, model, grid, each, targets[target]) for each in (X, moved))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("steps", [STEPS["table"], STEPS["holes"]], ids=["table", "holes"])
def test_rows_in_files(tmp_path, steps):
    X, targets = made(8_000)
    moved = X.assign(far=X["far"] + LARGE, kind=targets["kind"])
    moved.to_parquet(tmp_path / "rows.parquet", row_group_size=1500)
    rows = gpuml.read_parquet(tmp_path / "rows.parquet")
    grid = {"logisticregression__C": [0.1, 1.0]}
    model = LogisticRegression(**TIGHT)
    expected = scores(steps, model, grid, X, targets["kind"])
    np.testing.assert_allclose(scores(steps, model, grid, rows, "kind"), expected, atol=1e-6)
