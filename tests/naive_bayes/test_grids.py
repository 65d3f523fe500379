"""Grids of naive Bayes models: at once, one by one, and scikit-learn's search say the same."""

import numpy as np
import pytest
import sklearn.naive_bayes as sk
from scipy import sparse
from scipy.stats import rankdata
from sklearn.model_selection import GridSearchCV as SklearnSearch
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

from gpuml.model_selection import GridSearchCV
from gpuml.model_selection.candidates import TOGETHER
from gpuml.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

PRIORS = {"fit_prior": [True, False], "class_prior": [None, [0.2, 0.5, 0.3]]}
GRIDS = {
    GaussianNB: {"var_smoothing": [1e-9, 0.1, 1.0], "priors": [None, [0.2, 0.5, 0.3]]},
    MultinomialNB: {"alpha": [0.0, 0.1, 3.0], "force_alpha": [True, False], **PRIORS},
    ComplementNB: {"alpha": [0.1, 3.0], "norm": [True, False]},
    BernoulliNB: {"alpha": [0.1, 3.0], "binarize": [0.0, 1.0], "fit_prior": [True, False]},
    CategoricalNB: {"alpha": [0.1, 3.0], **PRIORS},
}
SPLITS = {
    "folds": KFold(4),
    "classes": StratifiedKFold(3),
    "overlapping": ShuffleSplit(3, test_size=0.4, random_state=0),
}
# Rows of equal counts tie in areas under curves, but for the last digit of a sum.
SCORING = {cls: ["accuracy", "neg_log_loss", "f1_macro"] for cls in GRIDS}
SCORING[GaussianNB].append("roc_auc_ovr")


def rows(rng, cls):
    y = rng.integers(3, size=90)
    y[:12] = np.tile([0, 1, 2], 4)
    if cls is GaussianNB:
        return rng.normal(size=(90, 5)) * [1, 1, 5, 1, 0.1] + y[:, None], y
    X = np.minimum(rng.poisson(1.0 + y[:, None], size=(90, 5)), 3).astype(float)
    # Few rows tie where counts have fractions.
    return (X + rng.uniform(0, 0.2, X.shape) if cls in (MultinomialNB, ComplementNB) else X), y


@pytest.mark.filterwarnings("ignore:alpha too small:UserWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.pairwise
@pytest.mark.parametrize("splits", SPLITS)
@pytest.mark.parametrize("cls", GRIDS)
def test_a_grid_is_one_pass_and_scikit_learns_table(library, rng, cls, splits):
    X, y = rows(rng, cls)
    options = {"scoring": SCORING[cls], "refit": "accuracy", "cv": SPLITS[splits]}
    ours = GridSearchCV(cls(), GRIDS[cls], return_train_score=True, **options)
    ours.fit(library.asarray(X), library.asarray(y))
    theirs = SklearnSearch(
        getattr(sk, cls.__name__)(), GRIDS[cls], return_train_score=True, **options
    ).fit(X, y)
    assert {step.why for step in ours.plan_.steps} == {TOGETHER}
    assert ours.plan_.n_passes == (2 if cls is BernoulliNB else 1)  # one for each threshold
    for name, values in theirs.cv_results_.items():
        if name.startswith("rank_"):  # of means that are equal but for rounding, either may lead
            means = np.round(theirs.cv_results_[name.replace("rank", "mean")], 9)
            best, worst = (rankdata(-means, method=method) for method in ("min", "max"))
            assert np.all((best <= ours.cv_results_[name]) & (ours.cv_results_[name] <= worst))
        elif "_test_" in name or "_train_" in name:
            np.testing.assert_allclose(ours.cv_results_[name], values, atol=1e-9, err_msg=name)
    # The best model came from the same sums.
    alone = ours.best_estimator_.__class__(**ours.best_params_)
    alone.fit(library.asarray(X), library.asarray(y))
    for method in ("predict", "predict_proba"):
        found, expected = (getattr(m, method)(library.asarray(X)) for m in (ours, alone))
        np.testing.assert_allclose(*map(library.to_numpy, (found, expected)), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:alpha too small:UserWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cls", [MultinomialNB, ComplementNB, BernoulliNB])
def test_sparse_grids_are_dense_ones(rng, cls, weighted):
    X, y = rows(rng, cls)
    weight = rng.uniform(size=len(y)) if weighted else None
    tables = []
    for each in (X, sparse.csr_matrix(X)):
        search = GridSearchCV(cls(), GRIDS[cls], cv=4, scoring="neg_log_loss")
        search.fit(each, y, sample_weight=weight)
        assert {step.why for step in search.plan_.steps} == {TOGETHER}
        tables.append(search.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*tables, rtol=1e-10)


@pytest.mark.parametrize("cls", GRIDS)
def test_two_classes_are_ranked_by_probabilities(rng, cls):
    """Of classifiers without decision values, as scikit-learn's scorers ask them."""
    X, y = rows(rng, cls)
    y = (y > 0).astype(int)
    # Classes far apart: many probabilities are 1 to the last digit, and tie.
    X = X * 40 + 100 * (y == 1)[:, None] * rng.integers(2, size=X.shape)
    if cls is CategoricalNB:
        X = X // 40 % 7
    scoring = ["accuracy", *(["roc_auc", "average_precision"] if cls is GaussianNB else [])]
    grid = {n: v for n, v in GRIDS[cls].items() if n in ("alpha", "var_smoothing")}
    options = {"scoring": scoring, "refit": False, "cv": 4}
    ours = GridSearchCV(cls(), grid, **options).fit(X, y)
    theirs = SklearnSearch(getattr(sk, cls.__name__)(), grid, **options).fit(X, y)
    assert {step.why for step in ours.plan_.steps} == {TOGETHER}
    for name in scoring:
        name = f"mean_test_{name}"
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:\\n4 fits failed")
def test_what_a_split_cannot_fit_fails_there_alone(rng):
    """A negative count, a class that is missing, a category that no training row has."""
    X, y = rows(rng, CategoricalNB)
    X[0, 0] = 6  # in the first held-out part
    search = GridSearchCV(CategoricalNB(), {"alpha": [0.1, 1.0]}, cv=KFold(3), refit=False)
    search.fit(X, y)
    table = np.stack([search.cv_results_[f"split{s}_test_score"] for s in range(3)])
    assert np.isnan(table[0]).all()
    assert np.isfinite(table[1:]).all()
    y[:30] = 0
    y[30:] = rng.integers(1, 3, size=60)
    found, expected = (
        each(model, {"alpha": [0.1, 1.0]}, cv=KFold(3), refit=False).fit(X, y)
        for each, model in ((GridSearchCV, MultinomialNB()), (SklearnSearch, sk.MultinomialNB()))
    )
    for s in range(3):
        name = f"split{s}_test_score"
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name])
    X[3, 2] = -1
    search = GridSearchCV(MultinomialNB(), {"alpha": [0.1, 1.0]}, cv=KFold(3), refit=False)
    search.fit(X, y)
    table = np.stack([search.cv_results_[f"split{s}_test_score"] for s in range(3)])
    assert np.isfinite(table[0]).all()
    assert np.isnan(table[1:]).all()
