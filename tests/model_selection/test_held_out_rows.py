"""What a split comes to depends on its own rows alone, whatever stands in all others.

Fill values (1e20, -999999999) and rows in other units are held out by some splits and trained on by
others; what is shared between splits must not carry them from one to the other.
"""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from gpuml import get_config
from gpuml._arrays import to_host
from gpuml.decomposition import PCA, TruncatedSVD
from gpuml.divided import DividedRows, InProcess, Share, divided_splits
from gpuml.linear_model import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from gpuml.metrics.scorer import check_scoring
from gpuml.model_selection.divided import DividedEvaluator
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.one_by_one import Task
from gpuml.naive_bayes import GaussianNB
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from gpuml.resampling.split import split_rows

N_ROWS = 90
# Each with the rows of a single one, and of a whole fold.
VALUES = [(1e6, [60]), (1e9, range(60, 90)), (1e20, [60]), (1e36, range(60, 90))]
RTOL = 1e-10
# Iterations end where tol says, by paths that depend on what is fitted beside.
EXACT = {"tol": 1e-11, "max_iter": 150}

NARROW = [
    (Ridge(), {"alpha": [0.1, 10.0]}),
    (Ridge(fit_intercept=False), {"alpha": [0.1, 10.0]}),
    (Ridge(), {"alpha": np.logspace(-2, 2, 40)}),
    (LinearRegression(), {"fit_intercept": [True, False]}),
    (Lasso(), {"alpha": [0.01, 0.1]}),
    (ElasticNet(fit_intercept=False), {"alpha": [0.01, 0.1]}),
    (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 10.0]}),
    (make_pipeline(MinMaxScaler(), Lasso()), {"lasso__alpha": [0.01, 0.1]}),
    (make_pipeline(MaxAbsScaler(), LinearRegression()), {"linearregression__n_jobs": [None]}),
    (make_pipeline(StandardScaler(), PCA(2), Ridge()), {"ridge__alpha": [0.1, 10.0]}),
    (make_pipeline(PCA(svd_solver="full"), Ridge()), {"pca__n_components": [1, 2]}),
    (make_pipeline(TruncatedSVD(2, algorithm="arpack"), Ridge()), {"ridge__alpha": [0.1, 10.0]}),
    (RidgeClassifier(), {"alpha": [0.1, 10.0]}),
    (LogisticRegression(**EXACT), {"C": [0.1, 1.0]}),
    (LogisticRegression(solver="newton-cholesky", **EXACT), {"C": [0.1, 1.0]}),
    (LogisticRegression(solver="saga", l1_ratio=1.0, **EXACT), {"C": [0.1, 1.0]}),
    (
        make_pipeline(StandardScaler(), LogisticRegression(**EXACT)),
        {"logisticregression__C": [0.1, 1.0]},
    ),
]
WIDE = [
    (Ridge(), {"alpha": [1.0, 10.0]}),
    (Ridge(fit_intercept=False), {"alpha": [1.0, 10.0]}),
    (Lasso(max_iter=10_000), {"alpha": [0.1, 0.5]}),
    (ElasticNet(fit_intercept=False, max_iter=10_000), {"alpha": [0.3, 0.5]}),
]


def name_of(case):
    estimator = case[0]
    steps = getattr(estimator, "steps", [(None, estimator)])
    return "-".join(type(step).__name__ for _, step in steps)


def rows_for(estimator, p=4):
    rng = np.random.default_rng(7)
    X = rng.normal(3, 1, size=(N_ROWS, p))
    y = X[:, :4] @ [1.0, -2.0, 0.5, 0.1] + rng.normal(size=N_ROWS)
    return X, (y > np.median(y)).astype(int) if is_classifier(estimator) else y


def with_values(X, y, value, rows):
    """Rows that hold something wild, in features and in a target that is a number."""
    X, y = X.copy(), y.copy()
    X[np.asarray(rows), :2] = [value, -value]
    if y.dtype.kind == "f":
        y[np.asarray(rows)] = value
    return X, y


def splits_around(rows):
    """Three splits of which the first neither trains on nor holds out `rows`."""
    rest = np.array_split(np.setdiff1d(np.arange(N_ROWS), rows), 3)
    first = [(np.r_[rest[0], rest[1]], rest[2])]
    return [*first, *((np.r_[rest[i], rest[2], rows], rest[1 - i]) for i in (0, 1))]


def first_scores(case, X, y, splits, pieces=None):
    """Scores of all candidates on the first split."""
    estimator, grid = case
    ((name, values),) = grid.items()
    scoring = "neg_log_loss" if hasattr(estimator, "predict_proba") else None
    task = Task(check_scoring(estimator, scoring), {}, {}, False, np.nan, 0)
    if pieces is None:
        rows = split_rows(Given(splits), X, y, N_ROWS)
        evaluator = Evaluator(Job(estimator, X, y, rows, task))
    else:
        ends = np.cumsum(pieces)[:-1]
        columns = (np.split(X, ends), np.split(y, ends))
        shares = [Share(*pair, None) for pair in zip(*columns, strict=True)]
        rows = DividedRows(InProcess(shares), pieces, X.shape[1], get_config())
        classifier = is_classifier(estimator)
        splits = divided_splits(Given(splits), rows.shares, pieces, classifier=classifier)
        evaluator = DividedEvaluator(Job(estimator, rows, None, splits, task))
    candidates = [{name: value} for value in values]
    found = [item for group in evaluator.groups(candidates) for item in evaluator.fit_group(group)]
    assert len(found) == len(candidates)
    return [results[0]["test_scores"] for _, results in found]


class Given:
    """A splitter whose splits are known."""

    def __init__(self, splits):
        self.splits = splits

    def split(self, X=None, y=None, groups=None):
        return iter(self.splits)

    def get_n_splits(self, X=None, y=None, groups=None):
        return len(self.splits)


def check(case, p=4, convert=lambda X, y: (X, y), pieces=None):
    X, y = rows_for(case[0], p)
    for value, rows in VALUES:
        splits = splits_around(rows)
        with warnings.catch_warnings():
            # Of the splits that do train on such rows.
            warnings.simplefilter("ignore", ConvergenceWarning)
            expected = first_scores(case, *convert(X, y), splits, pieces)
            found = first_scores(case, *convert(*with_values(X, y, value, rows)), splits, pieces)
        np.testing.assert_allclose(found, expected, rtol=RTOL, err_msg=f"{value} in {rows}")


@pytest.mark.parametrize("case", NARROW, ids=name_of)
def test_held_out_values_do_not_reach_a_model(case):
    check(case)


@pytest.mark.parametrize("case", NARROW, ids=name_of)
def test_held_out_values_of_divided_rows_do_not_reach_a_model(case):
    check(case, pieces=(31, 1, 30, 28))


@pytest.mark.parametrize("case", [NARROW[i] for i in (0, 3, 6, 9, 12)], ids=name_of)
def test_held_out_values_on_a_device_do_not_reach_a_model(case, library):
    check(case, convert=lambda X, y: (library.asarray(X), library.asarray(y)))


@pytest.mark.parametrize("case", WIDE, ids=name_of)
def test_held_out_values_of_many_features_do_not_reach_a_model(case):
    check(case, p=300)


@pytest.mark.parametrize("case", [NARROW[0], NARROW[13]], ids=name_of)
def test_held_out_values_of_sparse_rows_do_not_reach_a_model(case):
    check(case, convert=lambda X, y: (sparse.csr_matrix(X), y))


@pytest.mark.parametrize(
    ("model", "scores"),
    [
        (RidgeCV(alphas=[0.1, 10.0], store_cv_results=True), None),
        (LassoCV(alphas=[0.01, 0.1]), lambda m: m.mse_path_[:, 0]),
        (ElasticNetCV(alphas=[0.01, 0.1], l1_ratio=0.5), lambda m: m.mse_path_[:, 0]),
        (
            LogisticRegressionCV(
                Cs=[0.1, 1.0],
                scoring="neg_log_loss",
                l1_ratios=(0.0,),
                use_legacy_attributes=False,
                **EXACT,
            ),
            lambda m: m.scores_[0],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_classes_that_search_by_themselves_keep_splits_apart(model, scores):
    X, y = rows_for(model)
    for value, rows in VALUES:
        splits = splits_around(rows)
        found = []
        for data in ((X, y), with_values(X, y, value, rows)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                if scores is None:
                    # One split: the score of the best alpha is all that is told of several.
                    own = clone(model).set_params(store_cv_results=False, cv=splits[:1])
                    found.append([own.fit(*data).best_score_])
                else:
                    found.append(to_host(scores(clone(model).set_params(cv=splits).fit(*data))))
        np.testing.assert_allclose(*found, rtol=RTOL, err_msg=f"{value} in {rows}")


@pytest.mark.parametrize(
    ("model", "attributes"),
    [
        *((m, ("coef_", "intercept_")) for m in (Ridge(), LinearRegression(), Lasso(alpha=0.01))),
        *((m, ("coef_", "intercept_")) for m in (RidgeClassifier(), LogisticRegression(**EXACT))),
        *((m, ("coef_", "intercept_")) for m in (RidgeCV(), LassoCV(alphas=[0.01, 0.1]))),
        (StandardScaler(), ("mean_", "scale_")),
        (GaussianNB(var_smoothing=0), ("theta_", "var_")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rows_that_weigh_nothing_may_hold_anything(model, attributes, library):
    X, y = rows_for(model)
    weight = np.random.default_rng(3).uniform(0.5, 2, size=N_ROWS)
    rows = np.arange(5, N_ROWS, 7)
    weight[rows] = 0
    found = []
    for data in ((X, y), *(with_values(X, y, value, rows) for value, _ in VALUES)):
        fitted = clone(model).fit(
            *map(library.asarray, data), sample_weight=library.asarray(weight)
        )
        found.append([library.to_numpy(getattr(fitted, name)) for name in attributes])
    for other in found[1:]:
        for one, expected in zip(other, found[0], strict=True):
            np.testing.assert_allclose(one, expected, rtol=RTOL)
