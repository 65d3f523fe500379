"""docs/from-glum.md: the models of its table are glum's."""

import numpy as np
import pytest

from gpuml.linear_model import (
    ElasticNet,
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from gpuml.model_selection import GridSearchCV

pytestmark = pytest.mark.exhaustive

glum = pytest.importorskip("glum", reason="needs gpuml[rivals]")

N, A = 300, 0.02
random = np.random.default_rng(0)
X = random.normal(size=(N, 4))
MEAN = np.exp(X @ [0.5, -0.3, 0.2, 0.0])
WEIGHTS = random.uniform(0.5, 2.0, size=N)
COUNTS = random.poisson(MEAN)
TIGHT = {"tol": 1e-9, "max_iter": 10_000}
CASES = {
    "normal": ("normal", 0, COUNTS, lambda n: Ridge(alpha=A * n)),
    "normal, l1": ("normal", 0.5, COUNTS, lambda n: ElasticNet(alpha=A, l1_ratio=0.5)),
    "poisson": ("poisson", 0, COUNTS, lambda n: PoissonRegressor(alpha=A, **TIGHT)),
    "poisson, l1": (
        "poisson",
        0.5,
        COUNTS,
        lambda n: PoissonRegressor(alpha=A, l1_ratio=0.5, **TIGHT),
    ),
    "gamma": ("gamma", 0, COUNTS + 0.5, lambda n: GammaRegressor(alpha=A, **TIGHT)),
    "tweedie": (
        glum.TweedieDistribution(1.5),
        0,
        COUNTS,
        lambda n: TweedieRegressor(power=1.5, alpha=A, **TIGHT),
    ),
    "binomial": ("binomial", 0, COUNTS > 1, lambda n: LogisticRegression(C=1 / (A * n), **TIGHT)),
}


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["rows", "weights"])
@pytest.mark.parametrize("case", CASES)
def test_a_model_of_the_table_is_glums(case, weights):
    family, l1_ratio, y, make = CASES[case]
    n = N if weights is None else weights.sum()
    options = {"gradient_tol": 1e-10, "max_iter": 1000}
    theirs = glum.GeneralizedLinearRegressor(
        family=family, alpha=A, l1_ratio=l1_ratio, **options
    ).fit(X, y, sample_weight=weights)
    model = make(n).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(np.ravel(model.coef_), theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(np.ravel(model.intercept_), theirs.intercept_, atol=1e-6)


def test_an_exposure_is_a_weight():
    options = {"family": "poisson", "alpha": A, "gradient_tol": 1e-10}
    theirs = glum.GeneralizedLinearRegressor(**options).fit(X, COUNTS, offset=np.log(WEIGHTS))
    model = PoissonRegressor(alpha=A / WEIGHTS.mean(), **TIGHT)
    model.fit(X, COUNTS / WEIGHTS, sample_weight=WEIGHTS)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-6)


def test_glums_estimators_work_in_a_search():
    grid = {"alpha": [0.01, 0.1]}
    search = GridSearchCV(glum.GeneralizedLinearRegressor(family="poisson"), grid).fit(X, COUNTS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
