"""Forests scored out of the bag, without folds: scores are scikit-learn's `oob_score_`."""

import numpy as np
import pytest
import scipy.sparse
from sklearn import ensemble
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuml
from gpuml.ensemble import RandomForestClassifier
from gpuml.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV

RNG = np.random.default_rng(8)
X = RNG.normal(size=(120, 4))
NUMBERS = X @ RNG.normal(size=(4, 2)) + 0.3 * RNG.normal(size=(120, 2))
LABELS = np.array(["b", "a", "cc"])[np.digitize(NUMBERS[:, 0], [-1.0, 1.0])]
WEIGHTS = RNG.uniform(0.2, 2.0, size=120)
GRID = {"n_estimators": [60, 70], "ccp_alpha": [0.0, 0.01]}

# name -> (model, X, y)
CASES = {
    "classes": (ensemble.RandomForestClassifier(random_state=0), X, LABELS),
    "sparse": (ensemble.RandomForestClassifier(random_state=0), scipy.sparse.csr_array(X), LABELS),
    "ours": (RandomForestClassifier(random_state=0, class_weight="balanced"), X, LABELS),
    "marks": (ensemble.RandomForestClassifier(random_state=0), X, (NUMBERS > 0).astype(int)),
    "numbers": (ensemble.RandomForestRegressor(random_state=1, max_samples=0.4), X, NUMBERS[:, 0]),
    "several": (ensemble.ExtraTreesRegressor(random_state=1, bootstrap=True), X, NUMBERS),
    "threads": (ensemble.RandomForestClassifier(random_state=0, n_jobs=2), X, LABELS),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("together", [True, False])
def test_scores_are_those_of_sklearn(name, together):
    model, rows, y = CASES[name]
    grid = GRID if together else [{"max_features": [1], "n_estimators": [60]}]
    search = GridSearchCV(model, grid, cv="oob", refit=False).fit(rows, y)
    assert search.n_splits_ == search.plan_.n_passes == 1
    for params, score in zip(
        search.cv_results_["params"], search.cv_results_["split0_test_score"], strict=True
    ):
        alone = clone(model).set_params(**params, oob_score=True).fit(rows, y)
        np.testing.assert_allclose(score, alone.oob_score_, rtol=1e-13)


def test_any_scorer_and_predictions():
    model = ensemble.RandomForestClassifier(random_state=0)
    search = RandomizedSearchCV(
        model,
        {"max_depth": [2, 3, None], "n_estimators": [40]},
        n_iter=3,
        cv="oob",
        scoring=["neg_log_loss", "accuracy"],
        refit="accuracy",
        return_train_score=True,
        return_predictions="predict_proba",
        random_state=0,
    ).fit(X, LABELS)
    deepest = [params["max_depth"] for params in search.cv_results_["params"]].index(None)
    alone = clone(model).set_params(n_estimators=40, oob_score=True).fit(X, LABELS)
    said = alone.oob_decision_function_
    np.testing.assert_array_equal(search.cv_predictions_[deepest], said)
    found = {name: search.cv_results_[f"mean_test_{name}"][deepest] for name in search.scorer_}
    np.testing.assert_allclose(found["neg_log_loss"], -log_loss(LABELS, said), rtol=1e-13)
    assert found["accuracy"] == alone.oob_score_
    assert search.cv_results_["mean_train_accuracy"][deepest] == alone.score(X, LABELS) == 1.0
    assert search.predict(X).shape == LABELS.shape


def test_weights_draw_the_bags_and_count_in_scores():
    model = ensemble.RandomForestClassifier(random_state=0, n_estimators=40)
    search = GridSearchCV(model, {"n_estimators": [40]}, cv="oob", refit=False)
    search.fit(X, LABELS, sample_weight=WEIGHTS)
    alone = clone(model).set_params(oob_score=True).fit(X, LABELS, sample_weight=WEIGHTS)
    said = alone.classes_[alone.oob_decision_function_.argmax(axis=1)]
    score = accuracy_score(LABELS, said, sample_weight=WEIGHTS)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], [score], rtol=1e-13)


def test_too_few_trees_are_told():
    model = ensemble.RandomForestRegressor(random_state=0)
    search = GridSearchCV(model, {"n_estimators": [2]}, cv="oob", refit=False)
    with pytest.warns(UserWarning, match="Each of 2 trees has drawn"):
        search.fit(X, NUMBERS[:, 0])
    alone = clone(model).set_params(n_estimators=2, oob_score=True)
    with pytest.warns(UserWarning, match="Some inputs do not have OOB scores"):
        alone.fit(X, NUMBERS[:, 0])
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], [alone.oob_score_])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ensemble.ExtraTreesClassifier(), "Set bootstrap=True, or cv=5"),
        (ensemble.GradientBoostingClassifier(), "needs a random forest by itself"),
        (make_pipeline(StandardScaler(), RandomForestClassifier()), "got Pipeline. Set cv=5"),
    ],
)
def test_others_have_no_rows_out_of_the_bag(model, words):
    with pytest.raises(ValueError, match=words):
        GridSearchCV(model, {"verbose": [0]}, cv="oob").fit(X, LABELS)


def test_a_candidate_without_bags_fails_alone():
    model = ensemble.ExtraTreesClassifier(random_state=0)
    grid = {"bootstrap": [True, False], "n_estimators": [40, 50]}
    with (
        pytest.warns(FitFailedWarning, match="2 fits failed"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search = GridSearchCV(model, grid, cv="oob", refit=False).fit(X, LABELS)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, False, True, True]


def test_other_searches_and_words_are_refused():
    model = ensemble.RandomForestClassifier()
    with pytest.raises(ValueError, match="The 'cv' parameter of HalvingGridSearchCV"):
        HalvingGridSearchCV(model, {"max_depth": [1, 2]}, cv="oob").fit(X, LABELS)
    with pytest.raises(ValueError, match="The 'cv' parameter of GridSearchCV"):
        GridSearchCV(model, {"max_depth": [1, 2]}, cv="bag").fit(X, LABELS)


def test_models_are_those_of_fits():
    """The best is fitted to all rows, as in any search; without cuts as in scikit-learn."""
    model = ensemble.RandomForestClassifier(random_state=0, n_estimators=30)
    with gpuml.config_context(cut_trees=False):
        search = GridSearchCV(model, {"max_depth": [2, None]}, cv="oob").fit(X, LABELS)
    alone = clone(model).set_params(**search.best_params_, oob_score=True).fit(X, LABELS)
    assert search.best_score_ == alone.oob_score_
    np.testing.assert_array_equal(search.predict_proba(X), alone.predict_proba(X))
