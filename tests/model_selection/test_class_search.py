"""Searches over classifiers: the scores of scikit-learn's search, fit by fit."""

import warnings

import numpy as np
import pytest
from sklearn import linear_model as sk
from sklearn import model_selection as sk_search
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import FitFailedWarning, UndefinedMetricWarning
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.preprocessing import StandardScaler

from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV, cross_validate
from gpuml.testing import count_transfers

GRID = {"C": [1e-3, 0.1, 10.0]}
EXACT = {"tol": 1e-8, "max_iter": 5000}
BINARY = ["accuracy", "neg_log_loss", "roc_auc", "f1", "average_precision", "neg_brier_score"]
MULTICLASS = [
    *("accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc_ovr", "roc_auc_ovo_weighted"),
    *("f1_macro", "precision_weighted", "recall_micro", "jaccard_macro", "matthews_corrcoef"),
]


def blobs(rng, n=300, p=6, k=3, noise=1.0):
    X = rng.normal(size=(n, p))
    scores = X @ rng.normal(size=(p, k)) + noise * rng.gumbel(size=(n, k))
    return X, scores.argmax(axis=1)


def problems(rng):
    """Name, X, y; all different in kind."""
    X, y = blobs(rng, k=2)
    yield "binary", X, y
    yield "three classes", *blobs(rng)
    yield "strings", X, np.asarray(["no", "yes"])[y]
    yield "separable", X, (X[:, 0] + 2 * X[:, 1] > 0).astype(int)
    fifty = blobs(rng, n=1500, p=5, k=50, noise=0.3)
    kept = np.isin(fifty[1], np.flatnonzero(np.bincount(fifty[1]) >= 5))
    yield "fifty classes", fifty[0][kept], fifty[1][kept]
    yield "collinear", np.hstack([X, X[:, :2] @ rng.normal(size=(2, 3))]), y
    yield "mean 500", X + 500.0, y
    yield "more features than rows", *blobs(rng, n=60, p=120, k=2)
    yield "imbalanced", X, (X[:, 0] + rng.normal(size=len(X)) > 2.0).astype(int)
    yield "scales", X * np.array([1e-3, 1.0, 1e3, 1.0, 10.0, 1e-1]), y
    for load in (load_iris, load_wine, load_breast_cancer):
        features, labels = load(return_X_y=True)
        yield load.__name__, StandardScaler().fit_transform(features), labels
    features, labels = load_digits(return_X_y=True)
    yield "digits", features[:500] / 16, labels[:500]


NAMES = [name for name, *_ in problems(np.random.default_rng(0))]


def named(rng, name):
    return next((X, y) for found, X, y in problems(rng) if found == name)


@pytest.mark.some
@pytest.mark.parametrize("name", NAMES)
def test_split_scores_are_those_of_scikit_learn(rng, name):
    X, y = named(rng, name)
    k = len(np.unique(y))
    scoring = BINARY if k == 2 else MULTICLASS
    if y.dtype.kind == "U":
        scoring = ["accuracy", "neg_log_loss", "roc_auc"]
    if k > 10:  # scikit-learn takes ten seconds for the pairs of so many; digits have the same law
        scoring = [metric for metric in scoring if "_ovo" not in metric]
    # Newton's method gets to the bottom where scikit-learn's L-BFGS stops for want of progress.
    theirs = sk.LogisticRegression(tol=1e-10, max_iter=5000, solver="newton-cholesky")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = sk_search.GridSearchCV(theirs, GRID, scoring=scoring, refit="accuracy").fit(X, y)
        got = GridSearchCV(
            LogisticRegression(**EXACT), GRID, scoring=scoring, refit="accuracy"
        ).fit(X, y)
    assert "together" in str(got.plan_)
    for metric in scoring:
        for split in range(5):
            key = f"split{split}_test_{metric}"
            np.testing.assert_allclose(
                got.cv_results_[key], want.cv_results_[key], atol=1e-6, err_msg=key
            )
    assert got.best_params_ == want.best_params_


def test_every_library_gives_the_same_scores(rng, library):
    X, y = blobs(rng, n=400)
    search = GridSearchCV(
        LogisticRegression(**EXACT),
        GRID,
        scoring=MULTICLASS,
        refit="accuracy",
        return_train_score=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        host = search.fit(X, y).cv_results_
        there = search.fit(library.asarray(X), library.asarray(y))
    for key, values in host.items():
        if key.startswith(("split", "mean_t")):
            np.testing.assert_allclose(there.cv_results_[key], values, atol=1e-7, err_msg=key)
    label = there.best_estimator_.predict(library.asarray(X[:3]))
    assert type(label) is type(library.asarray(y))


def test_sample_weights_go_to_fits_and_scores(rng):
    X, y = blobs(rng)
    weight = rng.uniform(0.1, 3.0, size=len(y))
    got = cross_validate(
        LogisticRegression(**EXACT),
        X,
        y,
        scoring=["accuracy", "f1_macro"],
        params={"sample_weight": weight},
    )
    want = sk_search.cross_validate(
        sk.LogisticRegression(solver="newton-cholesky", tol=1e-10),
        X,
        y,
        scoring=["accuracy", "f1_macro"],
        params={"sample_weight": weight},
    )
    for name in ("test_accuracy", "test_f1_macro"):
        np.testing.assert_allclose(got[name], want[name], atol=1e-9)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 5.0, 2: 0.3}])
def test_class_weights_are_those_of_each_training_part(rng, class_weight):
    X, y = blobs(rng)
    y[y == 2] = np.where(rng.random(int((y == 2).sum())) < 0.5, 2, 0)
    both = [
        search(model, GRID, scoring="neg_log_loss").fit(X, y).cv_results_
        for search, model in (
            (GridSearchCV, LogisticRegression(**EXACT, class_weight=class_weight)),
            (
                sk_search.GridSearchCV,
                sk.LogisticRegression(
                    solver="newton-cholesky", tol=1e-10, class_weight=class_weight
                ),
            ),
        )
    ]
    np.testing.assert_allclose(*(found["mean_test_score"] for found in both), atol=1e-8)


def compare_awkward(X, y, cv, scoring):
    """Scores of both searches where folds are irregular, and the warnings of both."""
    found = []
    for search, model in (
        (GridSearchCV, LogisticRegression(**EXACT)),
        (sk_search.GridSearchCV, sk.LogisticRegression(solver="newton-cholesky", tol=1e-10)),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = search(model, GRID, scoring=scoring, cv=cv, refit=False).fit(X, y).cv_results_
        kinds = {w.category for w in caught if w.category is not DeprecationWarning}
        found.append((np.stack([results[f"split{s}_test_score"] for s in range(3)]), kinds))
    (got, got_kinds), (want, want_kinds) = found
    np.testing.assert_allclose(got, want, atol=1e-6)
    assert got_kinds == want_kinds


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "f1_macro", "roc_auc_ovr"])
def test_a_class_that_a_held_out_part_lacks(rng, scoring):
    X, y = blobs(rng, k=2)
    y[:2] = 2
    compare_awkward(X, y, 3, scoring)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_a_class_that_a_training_part_lacks(rng, scoring):
    X, y = blobs(rng, k=2)
    y[:40] = 2
    order = np.arange(len(y))
    cv = [(order[40:], order[:40]), (order[:200], order[200:]), (order[20:], order[:20])]
    compare_awkward(X, y, cv, scoring)


def test_a_training_part_of_one_class_fails_alone(rng):
    X, y = blobs(rng, k=2)
    y = np.sort(y)
    one_class = np.flatnonzero(y == 0)
    cv = [(one_class, np.arange(len(y))), (np.arange(0, len(y), 2), np.arange(1, len(y), 2))]
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        search = GridSearchCV(LogisticRegression(), GRID, cv=cv).fit(X, y)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()
    assert np.isfinite(search.cv_results_["split1_test_score"]).all()


def test_scores_that_are_undefined_warn_as_scikit_learn(rng):
    X, y = blobs(rng, k=2)
    y = (X[:, 0] > 1.8).astype(int)
    with pytest.warns(UndefinedMetricWarning):
        GridSearchCV(LogisticRegression(), {"C": [1e-9]}, scoring="precision").fit(X, y)


def test_labels_of_a_device_are_not_copied_to_the_host(rng):
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")

    def bytes_down(n):
        X, y = blobs(rng, n=n, p=20)
        X, y = strict.asarray(X, device=device), strict.asarray(y, device=device)
        with count_transfers() as moved:
            GridSearchCV(LogisticRegression(), GRID).fit(X, y)
        return moved.to_host

    # This library has no assignment by index: folds are made on the host, once, of one number for
    # each row. Labels would be as many again, a row of X twenty times as many.
    more = 20_000
    assert bytes_down(20_000 + more) - bytes_down(20_000) < 1.5 * 8 * more


@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:One or more of the test scores")
@pytest.mark.parametrize("names", [["a", "f"], ["f", "a"], ["f"], ["a", "p", "f"]])
def test_scorers_of_one_method_look_at_the_positive_label_of_the_first(rng, names):
    """Which is 1, whatever the labels are, unless a scorer says otherwise."""
    X, y = named(rng, "strings")
    f2 = make_scorer(fbeta_score, beta=2, average="macro")
    scoring = {name: {"a": "accuracy", "p": "neg_log_loss", "f": f2}[name] for name in names}
    given = {"param_grid": GRID, "cv": 3, "scoring": scoring, "refit": False}
    ours = GridSearchCV(LogisticRegression(**EXACT), **given).fit(X, y)
    theirs = sk_search.GridSearchCV(sk.LogisticRegression(**EXACT), **given).fit(X, y)
    for name in names:
        found, expected = (each.cv_results_[f"mean_test_{name}"] for each in (ours, theirs))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
