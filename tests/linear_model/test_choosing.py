"""Estimators that choose their penalty have the scores and the model of a search, to the last bit."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

from gpuml.linear_model import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
)
from gpuml.metrics import check_scoring
from gpuml.model_selection import GridSearchCV

ALPHAS = [1.0, 0.1, 0.01]
NEW_FORM = {"use_legacy_attributes": False}


def median_of_errors(estimator, X, y, sample_weight=None):
    """A scorer of the user's own, which is called model by model."""
    return -float(np.median(np.abs(np.asarray(y) - np.asarray(estimator.predict(X)))))


def best_score(model):
    return model.best_score_


def errors(model):
    return -np.reshape(model.mse_path_, (-1, model.mse_path_.shape[-1]))


def scores(model):
    return np.reshape(model.scores_, (model.scores_.shape[0], -1)).T


MSE = "neg_mean_squared_error"
CASES = [
    (RidgeCV(alphas=ALPHAS), Ridge(), {"alpha": ALPHAS}, None, best_score),
    *(
        (RidgeCV(alphas=ALPHAS, scoring=name), Ridge(), {"alpha": ALPHAS}, name, best_score)
        for name in ("neg_mean_absolute_error", "explained_variance", "neg_median_absolute_error")
    ),
    (LassoCV(alphas=ALPHAS), Lasso(), {"alpha": ALPHAS}, MSE, errors),
    (
        ElasticNetCV(alphas=ALPHAS, l1_ratio=[0.2, 0.9]),
        ElasticNet(),
        [{"l1_ratio": [ratio], "alpha": ALPHAS} for ratio in (0.2, 0.9)],
        MSE,
        errors,
    ),
    *(
        (
            LogisticRegressionCV(Cs=ALPHAS, l1_ratios=(0,), scoring=name, **NEW_FORM),
            LogisticRegression(),
            {"C": ALPHAS},
            name,
            scores,
        )
        for name in ("accuracy", "neg_log_loss", "f1_macro", "roc_auc_ovr", median_of_errors)
    ),
    (
        LogisticRegressionCV(
            Cs=ALPHAS, l1_ratios=(0.2, 1), solver="saga", scoring="neg_log_loss", **NEW_FORM
        ),
        LogisticRegression(solver="saga"),
        [{"l1_ratio": [ratio], "C": ALPHAS} for ratio in (0.2, 1)],
        "neg_log_loss",
        scores,
    ),
]


@pytest.mark.pairwise
@pytest.mark.bits
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    "cv", [KFold(3), StratifiedKFold(3), ShuffleSplit(3, random_state=0)], ids=lambda cv: type(cv)
)
@pytest.mark.parametrize(
    "case",
    CASES,
    ids=lambda case: f"{type(case[0]).__name__}-{getattr(case[3], '__name__', case[3])}",
)
def test_scores_and_models_are_those_of_a_search(rng, case, cv, weighted):
    chooses, model, grid, scoring, scores_of = case
    X = rng.normal(2, 1, size=(90, 5))
    y = X @ [1.0, -2.0, 0.5, 0.0, 0.0] + rng.normal(size=90)
    labels = np.searchsorted([-3.0, -1.0], y)
    is_classifier = hasattr(model, "predict_proba")
    if isinstance(cv, StratifiedKFold) and not is_classifier:
        cv = KFold(3, shuffle=True, random_state=0)
    y = labels if is_classifier else y
    weight = rng.uniform(0.1, 2, size=90) if weighted else None
    chooses.set_params(cv=cv).fit(X, y, sample_weight=weight)
    search = GridSearchCV(model, grid, scoring=check_scoring(model, scoring), cv=cv)
    search.fit(X, y, sample_weight=weight)
    table = np.stack([search.cv_results_[f"split{s}_test_score"] for s in range(3)], axis=1)
    expected = table.mean(axis=1).max() if scores_of is best_score else table
    np.testing.assert_array_equal(scores_of(chooses), expected)
    np.testing.assert_array_equal(np.ravel(chooses.coef_), np.ravel(search.best_estimator_.coef_))
