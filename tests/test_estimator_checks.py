"""scikit-learn's own checks, array-API ones included: all pass, none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuml.linear_model import LinearRegression, Ridge
from gpuml.model_selection import GridSearchCV, RandomizedSearchCV

GRID = {"alpha": [0.1, 1.0]}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        Ridge(),
        Ridge(solver="svd"),
        Ridge(solver="lsqr"),
        LinearRegression(),
        GridSearchCV(Ridge(), GRID),
        RandomizedSearchCV(Ridge(), GRID, n_iter=2, random_state=0),
    ]
)
def test_check_estimator(estimator, check):
    check(estimator)
