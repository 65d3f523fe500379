"""Tables of scores: however many rows and models are looked at together, and whoever scores."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from gpuml.linear_model import LogisticRegression, Ridge, RidgeClassifier
from gpuml.metrics import get_scorer
from gpuml.resampling import responses
from gpuml.resampling.atoms import folds_of
from gpuml.resampling.scores import stack_scores

ALPHAS = [{"alpha": a} for a in (0.1, 1.0, 10.0)]
REGRESSION = ("r2", "neg_mean_absolute_error", "neg_median_absolute_error", "neg_max_error")
LABELS = ("accuracy", "balanced_accuracy", "f1_macro")
CASES = [
    (Ridge(), ALPHAS, REGRESSION),
    (RidgeClassifier(), ALPHAS, LABELS),
    (LogisticRegression(), [{"C": 0.1}, {"C": 10.0}], (*LABELS, "neg_log_loss", "roc_auc_ovr")),
]


def fitted(library, model, candidates, y, cv, n_features=4):
    rng = np.random.default_rng(0)
    X = rng.normal(1, 1, size=(len(y), n_features)) + y[:, None]
    X, y = library.asarray(X), library.asarray(y)
    folds = folds_of(cv, model.multifit_batch(X, y), X, y)
    return model.multifit(folds, candidates), folds


def never(*model):
    raise AssertionError(f"{model} was scored alone.")


@pytest.mark.parametrize("size", [1, 500])
@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_rows_and_models_at_a_time_do_not_matter(library, monkeypatch, case, size):
    model, candidates, names = case
    y = np.arange(60) % 3
    y = y.astype(float) if isinstance(model, Ridge) else y
    stack, folds = fitted(library, model, candidates, y, KFold(4))
    scorers = {name: get_scorer(name) for name in names}

    def tables():
        parts = ("test", "train")
        return stack_scores(stack, folds, scorers, parts, weighted=True, score_model=never)

    expected = tables()
    monkeypatch.setattr(responses, "RESPONSE_BYTES", size)
    found = tables()
    assert found.keys() == expected.keys()
    for part, own in expected.items():
        for name in names:
            assert own[name].shape == (len(candidates), 4)
            np.testing.assert_allclose(found[part][name], own[name], rtol=1e-12, atol=1e-12)


def test_single_models_score_what_is_not_defined_and_nothing_else(library):
    y = np.arange(40) % 2
    y[:10] = 0  # the first held-out part has no row of the other class
    stack, folds = fitted(library, LogisticRegression(), [{"C": 0.1}, {"C": 1.0}], y, KFold(4))
    asked = []

    def score_model(candidate, split, part, scorer):
        asked.append((candidate, split, part))
        return 7.0

    scorers = {name: get_scorer(name) for name in ("accuracy", "neg_log_loss")}
    found = stack_scores(stack, folds, scorers, weighted=True, score_model=score_model)["test"]
    assert asked == [(0, 0, "test"), (1, 0, "test")]
    assert (found["neg_log_loss"][:, 0] == 7).all()
    assert (found["neg_log_loss"][:, 1:] < 0).all()
    assert (found["accuracy"] <= 1).all()


def test_a_regression_score_is_asked_of_single_models_on_its_own_split_only(library):
    y = np.arange(40.0)
    stack, folds = fitted(library, Ridge(), ALPHAS, y - 9.5, KFold(4))
    scorers = {"score": get_scorer("neg_mean_squared_log_error")}  # of values above -1
    asked = []

    def score_model(candidate, split, part, scorer):
        asked.append(split)
        return np.nan

    table = stack_scores(stack, folds, scorers, weighted=True, score_model=score_model)
    assert asked == [0] * 3
    assert np.isfinite(table["test"]["score"][:, 1:]).all()
    with pytest.raises(ValueError, match="values less than or equal to -1"):
        stack_scores(stack, folds, scorers, weighted=True)


def test_splits_that_nobody_looks_at_are_not_scored(library):
    y = np.arange(40) % 2
    stack, folds = fitted(library, LogisticRegression(), [{"C": 1.0}], y, StratifiedKFold(4))
    scorers = {"score": get_scorer("roc_auc"), "own": lambda model, X, y: 1.0}
    asked = []

    def score_model(candidate, split, part, scorer):
        asked.append(split)
        return 1.0

    found = stack_scores(
        stack, folds, scorers, weighted=True, score_model=score_model, without=[1, 3]
    )["test"]
    assert asked == [0, 2]
    for table in found.values():
        assert np.isnan(table).tolist() == [[False, True, False, True]]
    with pytest.raises(ValueError, match="own cannot be scored for all models at once"):
        stack_scores(stack, folds, scorers, weighted=True)
