"""What steps before a model make of features that do not vary is 0, not rounding to fit to."""

import numpy as np
import pytest
import sklearn.decomposition
import sklearn.linear_model
import sklearn.model_selection
import sklearn.pipeline
import sklearn.preprocessing

from gpuml.decomposition import PCA
from gpuml.linear_model import LinearRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MinMaxScaler, StandardScaler

# None of them is a number of binary digits; sums of them differ from their mean by rounding.
LEVELS = (4.3, 1e6 / 3, 1.1e-9)
STEPS = {
    "scaler": [StandardScaler()],
    "scaler twice": [StandardScaler(), StandardScaler()],
    "centring": [StandardScaler(with_std=False)],
    "min-max": [MinMaxScaler()],
    "PCA": [PCA()],
    "scaler, PCA": [StandardScaler(), PCA(2)],
}


def theirs(steps, model):
    modules = (sklearn.preprocessing, sklearn.decomposition, sklearn.linear_model)
    found = [
        next(vars(m)[type(each).__name__] for m in modules if hasattr(m, type(each).__name__))(
            **each.get_params()
        )
        for each in (*steps, model)
    ]
    return sklearn.pipeline.make_pipeline(*found)


@pytest.mark.pairwise
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("model", [LinearRegression(), Ridge(alpha=0.0), Ridge(alpha=1.0)], ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("varying", [False, True])
def test_constant_features_behind_steps(
    library, rng, name, model, fit_intercept, weighted, varying
):
    n = 60
    constant, rest = np.tile(LEVELS, (n, 1)), rng.normal(size=(n, 3))
    y = rest.sum(axis=1) + rng.normal(2.0, 1.0, n)
    own = type(model).__name__.lower()
    grid = {f"{own}__fit_intercept": [fit_intercept]}
    weights = {f"{own}__sample_weight": rng.integers(1, 4, n).astype(float)} if weighted else {}
    X, steps = np.concatenate([constant, rest], axis=1), STEPS[name]
    if not varying:
        X, rest = constant, np.zeros((n, 1))
    search = GridSearchCV(make_pipeline(*steps, model), grid, cv=5).fit(
        library.asarray(X),
        library.asarray(y),
        **{k: library.asarray(v) for k, v in weights.items()},
    )
    # Without the constant features, since scikit-learn fits to rounding at times.
    steps = [step for step in steps if varying or not isinstance(step, PCA)]
    expected = sklearn.model_selection.GridSearchCV(theirs(steps, model), grid, cv=5)
    expected.fit(rest, y, **weights)
    for split in range(5):
        key = f"split{split}_test_score"
        np.testing.assert_allclose(search.cv_results_[key], expected.cv_results_[key], rtol=1e-6)
