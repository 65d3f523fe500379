"""Where scikit-learn's metadata routing sends weights, searches send them: to fits and scores."""

import itertools
import warnings

import numpy as np
import pytest
import sklearn
import sklearn.linear_model as sk_linear
import sklearn.metrics
import sklearn.model_selection as sk
import sklearn.pipeline
import sklearn.preprocessing

from gpuml import model_selection
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.metrics import get_scorer
from gpuml.model_selection import GridSearchCV, cross_validate
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

OURS = {
    "Ridge": Ridge,
    "LogisticRegression": LogisticRegression,
    "scaler": StandardScaler,
    "pipeline": make_pipeline,
    "search": GridSearchCV,
    "cross_validate": cross_validate,
    "scorer": get_scorer,
}
THEIRS = {
    "Ridge": sk_linear.Ridge,
    "LogisticRegression": sk_linear.LogisticRegression,
    "scaler": sklearn.preprocessing.StandardScaler,
    "pipeline": sklearn.pipeline.make_pipeline,
    "search": sk.GridSearchCV,
    "cross_validate": sk.cross_validate,
    "scorer": sklearn.metrics.get_scorer,
}
GRIDS = {"Ridge": {"alpha": [0.1, 10.0]}, "LogisticRegression": {"C": [0.1, 10.0]}}
# None is a request that was not made.
REQUESTS = (True, False, None)


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 4))
    return X, X @ [1, 2, 0, 0] + rng.normal(size=60), rng.uniform(0.1, 2, size=60)


def make_estimator(of, model, in_pipeline, fit, score):
    last = of[model]()
    if fit is not None:
        last.set_fit_request(sample_weight=fit)
    if score is not None:
        last.set_score_request(sample_weight=score)
    if not in_pipeline:
        return last
    return of["pipeline"](of["scaler"]().set_fit_request(sample_weight=False), last)


def make_scoring(of, request):
    if request == "estimator":
        return None
    scorer = of["scorer"]("r2")
    return scorer if request is None else scorer.set_score_request(sample_weight=request)


def outcome(work, of, args):
    """What comes back, or what is raised; and warnings. Lines of a traceback differ."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = {
                n: np.asarray(v, float).tolist() for n, v in work(of, *args).items() if is_score(n)
            }
        except Exception as error:
            found = {"raised": type(error), "text": str(error).split("Below are")[0]}
    return found, {(w.category, str(w.message).strip().splitlines()[-1]) for w in caught}


def is_score(name):
    return "score" in name and "time" not in name and "rank" not in name


def check_same(work, *args):
    """Ours and scikit-learn's do the same, in numbers, errors and warnings."""
    ours, theirs = (outcome(work, of, args) for of in (OURS, THEIRS))
    assert ours[1] == theirs[1]
    assert ours[0].keys() == theirs[0].keys()
    for name, value in theirs[0].items():
        if name in ("raised", "text"):
            assert ours[0][name] == value
        else:
            np.testing.assert_allclose(ours[0][name], value, rtol=1e-4)


def searched(of, model, estimator, scoring, error_score, X, y, w):
    prefix = f"{model.lower()}__" if hasattr(estimator, "steps") else ""
    grid = {prefix + name: values for name, values in GRIDS[model].items()}
    search = of["search"](
        estimator, grid, cv=3, scoring=scoring, error_score=error_score, return_train_score=True
    )
    return search.fit(X, y, **({} if w is None else {"sample_weight": w}))


@pytest.mark.pairwise
@pytest.mark.parametrize("model", ["Ridge", "LogisticRegression"])
@pytest.mark.parametrize("in_pipeline", [True, False])
@pytest.mark.parametrize("error_score", [np.nan, "raise"])
@pytest.mark.parametrize("fit", REQUESTS)
@pytest.mark.parametrize("score", REQUESTS)
def test_a_search_scores_or_fails_as_sklearns(rows, model, in_pipeline, error_score, fit, score):
    X, y, w = rows
    y = y if model == "Ridge" else (y > 0).astype(int)

    def search(of, weight):
        estimator = make_estimator(of, model, in_pipeline, fit, score)
        return searched(of, model, estimator, None, error_score, X, y, weight).cv_results_

    for weight in (w, None):
        check_same(search, weight)


@pytest.mark.each
@pytest.mark.parametrize("in_pipeline", [True, False])
@pytest.mark.parametrize("fit", REQUESTS)
@pytest.mark.parametrize("scorer", REQUESTS)
def test_scorers_have_requests_of_their_own(rows, in_pipeline, fit, scorer):
    def search(of, score, error_score):
        estimator = make_estimator(of, "Ridge", in_pipeline, fit, score)
        scoring = make_scoring(of, scorer)
        return searched(of, "Ridge", estimator, scoring, error_score, *rows).cv_results_

    # What the estimator's own score asks for does not matter then.
    for score, error_score in itertools.product(REQUESTS, (np.nan, "raise")):
        check_same(search, score, error_score)


@pytest.mark.pairwise
@pytest.mark.parametrize("in_pipeline", [True, False])
@pytest.mark.parametrize("fit", REQUESTS)
@pytest.mark.parametrize("score", REQUESTS)
@pytest.mark.parametrize("scoring", ["estimator", True, "several"])
def test_cross_validation_too(rows, in_pipeline, fit, score, scoring):
    X, y, w = rows

    def scores(of, error_score):
        estimator = make_estimator(of, "Ridge", in_pipeline, fit, score)
        how = {
            "scoring": {"r2": make_scoring(of, True), "plain": make_scoring(of, False)}
            if scoring == "several"
            else make_scoring(of, scoring),
            "params": {"sample_weight": w},
            "error_score": error_score,
        }
        return of["cross_validate"](estimator, X, y, cv=3, **how)

    for error_score in (np.nan, "raise"):
        check_same(scores, error_score)


@pytest.mark.parametrize("function", ["cross_validate", "cross_val_score"])
@pytest.mark.parametrize("score", REQUESTS)
@pytest.mark.parametrize("scaled", REQUESTS)
def test_a_pipeline_scores_itself_alike_wherever_it_is_asked(rows, scaled, score, function):
    """Where no step requests the weights of scores, `score` of a pipeline is an error."""
    X, y, w = rows

    def scores(of):
        model = make_estimator(of, "Ridge", True, True, score)
        if scaled is not None:
            model[0].set_fit_request(sample_weight=scaled)
        found = getattr(sk if of is THEIRS else model_selection, function)(
            model, X, y, cv=3, params={"sample_weight": w}
        )
        return found if isinstance(found, dict) else {"score": found}

    check_same(scores)


@pytest.mark.parametrize("error_score", [np.nan, "raise"])
@pytest.mark.parametrize("scoring", ["r2", "neg_median_absolute_error", "neg_mean_squared_error"])
def test_a_held_out_part_without_weight_has_no_score(rows, scoring, error_score):
    """A median of rows that weigh nothing is no score, nor is a mean of them."""
    X, y, w = rows
    w[:20] = 0.0

    def search(of):
        estimator = make_estimator(of, "Ridge", False, True, True)
        scorer = of["scorer"](scoring).set_score_request(sample_weight=True)
        return searched(of, "Ridge", estimator, scorer, error_score, X, y, w).cv_results_

    (found, warned), (expected, _) = (outcome(search, of, ()) for of in (OURS, THEIRS))
    assert found.keys() == expected.keys()
    assert found.get("raised") == expected.get("raised")
    if error_score != "raise":
        assert np.isnan(found["split0_test_score"]).all()
        assert any("at least one non-zero number" in text for _, text in warned)


@pytest.mark.parametrize("model", ["Ridge", "LogisticRegression"])
@pytest.mark.parametrize("in_pipeline", [True, False])
@pytest.mark.parametrize("scoring", ["estimator", True, False])
def test_explicit_requests_share_a_pass(rows, model, in_pipeline, scoring):
    X, y, w = rows
    y = y if model == "Ridge" else (y > 0).astype(int)
    estimator = make_estimator(OURS, model, in_pipeline, True, True)
    how = make_scoring(OURS, scoring)
    search = searched(OURS, model, estimator, how, np.nan, X, y, w)
    assert "all candidates together" in str(search.plan_)
    assert "one by one" not in str(search.plan_)


def test_without_weights_a_request_not_made_shares_a_pass(rows):
    X, y, _ = rows
    estimator = make_estimator(OURS, "Ridge", True, None, None)
    search = searched(OURS, "Ridge", estimator, None, np.nan, X, y, None)
    assert "all candidates together" in str(search.plan_)
