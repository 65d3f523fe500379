"""A split that cannot be fitted fails by itself, and changes no digit of any other number."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import (
    KFold,
    ParameterGrid,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from gpuml import get_config
from gpuml._arrays import HOST
from gpuml.data import UnfittableSplits
from gpuml.decomposition import PCA, TruncatedSVD
from gpuml.divided import DividedRows, InProcess, Share
from gpuml.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
)
from gpuml.metrics.scorer import check_scoring
from gpuml.model_selection import GridSearchCV, HalvingGridSearchCV, cross_validate
from gpuml.model_selection.divided import DividedEvaluator
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.one_by_one import Task
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MinMaxScaler, StandardScaler
from gpuml.resampling.split import split_rows
from gpuml.testing import ArrayLibrary, array_libraries

N_ROWS, N_SPLITS, FAILED = 140, 4, -99.0
# The last rows are in no split but those that are to fail.
USED = np.arange(N_ROWS - 20)
C = {"C": [0.01, 1.0, 100.0]}
ALPHA = {"alpha": [0.01, 1.0]}
TABLE = {
    "logistic": (LogisticRegression(), C),
    "logistic, balanced": (LogisticRegression(class_weight="balanced"), C),
    "logistic, dict": (LogisticRegression(class_weight={0: 2.0}), C),
    "logistic, newton": (LogisticRegression(solver="newton-cholesky"), C),
    "logistic, l1": (LogisticRegression(solver="saga", l1_ratio=0.5, max_iter=1000), C),
    "ridge classifier": (RidgeClassifier(), ALPHA),
    "ridge classifier, balanced": (RidgeClassifier(class_weight="balanced"), ALPHA),
    "ridge": (Ridge(), ALPHA),
    "ridge, svd": (Ridge(solver="svd"), ALPHA),
    "least squares": (LinearRegression(), {"fit_intercept": [True, False]}),
    "lasso": (Lasso(), ALPHA),
    "elastic net": (ElasticNet(), ALPHA),
    "scaler, pca, logistic": (
        make_pipeline(StandardScaler(), PCA(4), LogisticRegression()),
        {"logisticregression__C": [0.1, 10.0]},
    ),
    "scaler, pca, ridge": (
        make_pipeline(MinMaxScaler(), PCA(4), Ridge()),
        {"ridge__alpha": [0.1, 10.0]},
    ),
    "svd, ridge": (
        make_pipeline(TruncatedSVD(4, algorithm="arpack"), Ridge()),
        {"ridge__alpha": [0.1, 10.0]},
    ),
}
SPARSE = [name for name in TABLE if name.startswith(("logistic", "ridge")) and "svd" not in name]


def problem(name):
    """Rows, targets, weights, and training rows by the reason why they cannot be fitted."""
    rng = np.random.default_rng(11)
    estimator, grid = TABLE[name]
    X = rng.normal(size=(N_ROWS, 6))
    y = X @ rng.normal(size=6) + rng.normal(size=N_ROWS)
    weight = rng.uniform(0.5, 2, size=N_ROWS)
    weight[USED[-1] + 1 :] = 0
    bad = {"no rows": np.arange(0), "no weight": np.arange(USED[-1] + 1, N_ROWS)}
    if is_classifier(estimator):
        y = (y > 0).astype(int)
        if "ridge" not in name:
            bad["one class"] = np.flatnonzero(y[USED] == 0)
    if name == "logistic, balanced":
        weightless = np.arange(USED[-1] + 1, N_ROWS)
        bad["a class without weight"] = np.r_[np.flatnonzero(y[USED] == 0), weightless]
    if "pca" in name or "svd," in name:
        bad["fewer rows than components"] = np.asarray([0, *np.flatnonzero(y != y[0])[:1]])
    return estimator, grid, X, y, weight, bad


def splits(replaced=None, held_out=None, shuffle=True):
    """Folds of the rows in use; the training parts of some of them are replaced."""
    cv = KFold(N_SPLITS, shuffle=shuffle, random_state=0 if shuffle else None)
    found = list(cv.split(USED))
    for split, train in (replaced or {}).items():
        found[split] = train, found[split][1] if held_out is None else held_out
    return found


def weights_of(estimator, weight):
    last = estimator.steps[-1][0] + "__" if hasattr(estimator, "steps") else ""
    return {f"{last}sample_weight": weight}


def options(name, **others):
    scoring = "roc_auc" if "ridge classifier" in name else None
    if "logistic" in name:
        scoring = "neg_log_loss"
    first = {"refit": lambda results: 0}  # whatever the scores of the split that fails
    return {"scoring": scoring, "error_score": FAILED, "return_train_score": True, **first} | others


def numbers(search, without):
    names = [
        f"split{split}_{part}_score"
        for split in range(N_SPLITS)
        for part in ("test", "train")
        if split not in without
    ]
    best = search.best_estimator_
    best = best.steps[-1][1] if hasattr(best, "steps") else best
    return [*(search.cv_results_[name] for name in names), ArrayLibrary.to_numpy(best.coef_)]


def assert_alone(good, bad, failed):
    """Whether splits have failed, and all other numbers are the same to the last bit."""
    for ours, theirs in zip(numbers(bad, failed), numbers(good, failed), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for split in failed:
        for part in ("test", "train"):
            assert (bad.cv_results_[f"split{split}_{part}_score"] == FAILED).all()


CASES = [(name, why) for name in TABLE for why in problem(name)[-1]]


@pytest.mark.some
@pytest.mark.parametrize(("name", "why"), CASES)
def test_the_others_stay_as_they_are(name, why):
    estimator, grid, X, y, weight, bad = problem(name)
    params = weights_of(estimator, weight)
    shuffle = "one" in why
    good = GridSearchCV(estimator, grid, cv=splits(shuffle=shuffle), **options(name))
    good.fit(X, y, **params)
    for failed, held_out in (([1], None), ([0, 3], None), ([2], np.arange(9))):
        cv = splits(dict.fromkeys(failed, bad[why]), held_out, shuffle)
        search = GridSearchCV(estimator, grid, cv=cv, **options(name))
        with pytest.warns(FitFailedWarning):
            search.fit(X, y, **params)
        assert_alone(good, search, failed)
        alone = "split " if len(failed) == 1 else "splits "
        alone += ", ".join(map(str, failed))
        together, one_by_one = search.plan_.steps
        assert together.why == "all candidates together"
        assert one_by_one.why.startswith(f"one by one, on {alone}")
        assert search.plan_.n_fits == N_SPLITS * len(ParameterGrid(grid))


@pytest.mark.parametrize("name", ["logistic", "ridge classifier", "lasso", "scaler, pca, ridge"])
@pytest.mark.parametrize(
    "cv",
    [
        KFold(2),
        RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
        ShuffleSplit(4, random_state=0),
        TimeSeriesSplit(4),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_the_others_stay_as_they_are_in_splits_of_any_kind(name, cv):
    estimator, grid, X, y, _, bad = problem(name)
    pairs = list(cv.split(USED))
    good = GridSearchCV(estimator, grid, cv=pairs, **options(name)).fit(X, y)
    for failed in {0, len(pairs) - 1}:
        replaced = [*pairs[:failed], (bad["no rows"], pairs[failed][1]), *pairs[failed + 1 :]]
        search = GridSearchCV(estimator, grid, cv=replaced, **options(name))
        with pytest.warns(FitFailedWarning):
            search.fit(X, y)
        for split in range(len(pairs)):
            own = search.cv_results_[f"split{split}_test_score"]
            expected = good.cv_results_[f"split{split}_test_score"]
            np.testing.assert_array_equal(own, FAILED if split == failed else expected)


@pytest.mark.parametrize(("name", "why"), CASES)
def test_the_error_is_that_of_the_fit(name, why):
    estimator, grid, X, y, weight, bad = problem(name)
    rows = bad[why]
    with pytest.raises(ValueError, match="0 sample|weight|class|must be") as alone:
        clone(estimator).fit(X[rows], y[rows], **weights_of(estimator, weight[rows]))
    search = GridSearchCV(
        estimator, grid, cv=splits({2: rows}), **options(name, error_score="raise")
    )
    with pytest.raises(type(alone.value)) as found:
        search.fit(X, y, **weights_of(estimator, weight))
    assert str(found.value) == str(alone.value)


@pytest.mark.parametrize("library", [each for each in array_libraries() if each.id != "numpy"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("logistic, balanced", "a class without weight"),
        ("ridge classifier", "no weight"),
        ("elastic net", "no rows"),
        ("scaler, pca, ridge", "fewer rows than components"),
    ],
)
def test_in_other_libraries(library, name, why):
    estimator, grid, X, y, weight, bad = problem(name)
    X, y, weight = map(library.asarray, (X, y, weight))
    params = weights_of(estimator, weight)
    good, search = (
        GridSearchCV(estimator, grid, cv=cv, **options(name))
        for cv in (splits(), splits({1: bad[why]}))
    )
    with pytest.warns(FitFailedWarning):
        search.fit(X, y, **params)
    assert_alone(good.fit(X, y, **params), search, [1])
    assert "together" in str(search.plan_)


@pytest.mark.parametrize("name", SPARSE)
def test_in_sparse_rows(name):
    estimator, grid, X, y, weight, bad = problem(name)
    X = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
    for why, train in bad.items():
        good, search = (
            GridSearchCV(estimator, grid, cv=cv, **options(name))
            for cv in (splits(), splits({1: train}))
        )
        with pytest.warns(FitFailedWarning):
            search.fit(X, y, sample_weight=weight)
        assert_alone(good.fit(X, y, sample_weight=weight), search, [1])
        assert "together" in str(search.plan_) or "ridge classifier" in name, why


# ---------------------------------------------------------------- divided rows


def results_of_divided(name, X, y, weight, cv, error_score=FAILED):
    """Results by candidate and split, of rows in three pieces."""
    estimator, grid = TABLE[name]
    bounds = [(0, 50), (50, 110), (110, N_ROWS)]
    shares = InProcess([Share(X[a:b], y[a:b], weight[a:b]) for a, b in bounds], HOST)
    rows = DividedRows(shares, tuple(b - a for a, b in bounds), X.shape[1], get_config())
    scorer = check_scoring(estimator, options(name)["scoring"])
    task = Task(scorer, weights_of(estimator, weight), {}, True, error_score, 0)
    found = split_rows(_Given(cv), X, y, N_ROWS)
    evaluator = DividedEvaluator(Job(estimator, rows, None, found, task))
    (group,) = evaluator.groups(ParameterGrid(grid))
    return evaluator, [results for _, results in evaluator.fit_group(group)]


class _Given:
    """A splitter of splits that are given."""

    def __init__(self, pairs):
        self.pairs = pairs

    def split(self, X, y=None, groups=None):
        return self.pairs


@pytest.mark.some
@pytest.mark.parametrize(
    ("name", "why"), [(n, why) for n, why in CASES if n not in ("ridge classifier, balanced",)]
)
def test_in_divided_rows(name, why):
    _, _, X, y, weight, bad = problem(name)
    _, good = results_of_divided(name, X, y, weight, splits())
    evaluator, found = results_of_divided(name, X, y, weight, splits({2: bad[why]}))
    assert len(found) == len(good) > 0
    for results, expected in zip(found, good, strict=True):
        for split in range(N_SPLITS):
            scores = [results[split][f"{part}_scores"] for part in ("test", "train")]
            if split == 2:
                assert scores == [FAILED, FAILED]
                assert results[split]["fit_error"].startswith("ValueError: ")
            else:
                assert scores == [expected[split][f"{part}_scores"] for part in ("test", "train")]
                assert results[split]["fit_error"] is None
    assert np.isfinite(evaluator.refit(0).predict(X)).all()
    with pytest.raises(ValueError, match="0 sample|weight|class|must be"):
        results_of_divided(name, X, y, weight, splits({2: bad[why]}), "raise")


def test_divided_rows_of_which_a_split_lacks_a_class_are_wanted_in_one_place():
    _, _, X, y, weight, _ = problem("logistic")
    y[:30] = 2
    without = np.flatnonzero(y[USED] < 2)
    evaluator, found = results_of_divided("logistic", X, y, weight, splits({0: without}))
    assert found == []
    assert evaluator.refusals[0].startswith("NeedsAllRows: The training part of split 0")


# ---------------------------------------------------------------- splits that fit in part


def test_a_split_that_only_some_candidates_fit():
    """Those that fail there fail alone, and others have the scores of a fit by itself."""
    _, _, X, y, _, _ = problem("scaler, pca, ridge")
    estimator = make_pipeline(StandardScaler(), PCA(), Ridge())
    grid = {"pca__n_components": [1, 3], "ridge__alpha": [1.0]}
    cv = splits({1: np.arange(2)})
    good = GridSearchCV(estimator, grid, cv=splits(), **options("ridge")).fit(X, y)
    search = GridSearchCV(estimator, grid, cv=cv, **options("ridge"))
    with pytest.warns(FitFailedWarning, match="1 fits failed out of a total of 8"):
        search.fit(X, y)
    for ours, theirs in zip(numbers(search, [1]), numbers(good, [1]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    alone = clone(estimator).set_params(pca__n_components=1).fit(X[:2], y[:2])
    held_out = cv[1][1]
    scores = search.cv_results_["split1_test_score"]
    np.testing.assert_allclose(scores, [alone.score(X[held_out], y[held_out]), FAILED])


@pytest.mark.parametrize("name", ["logistic", "ridge classifier", "scaler, pca, logistic"])
def test_a_split_that_lacks_one_of_three_classes_is_fitted_by_itself(name):
    """As in scikit-learn, where such a model knows fewer classes."""
    estimator, grid, X, y, _, _ = problem(name)
    y[:40] = 2
    without = np.flatnonzero(y[USED] < 2)
    given = options(name, scoring="accuracy")
    good = GridSearchCV(estimator, grid, cv=splits(), **given).fit(X, y)
    search = GridSearchCV(estimator, grid, cv=splits({2: without}), **given).fit(X, y)
    for ours, theirs in zip(numbers(search, [2]), numbers(good, [2]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    held_out = splits()[2][1]
    scores = search.cv_results_["split2_test_score"]
    for candidate, score in zip(ParameterGrid(grid), scores, strict=True):
        alone = clone(estimator).set_params(**candidate).fit(X[without], y[without])
        assert score == alone.score(X[held_out], y[held_out])


@pytest.mark.parametrize("n_splits", [1, 3])
@pytest.mark.parametrize("name", ["logistic", "ridge classifier", "scaler, pca, logistic"])
def test_a_class_that_no_split_trains_on_is_no_error(name, n_splits):
    """No model alone needs it, so that there is nothing to warn of."""
    estimator, grid, X, y, _, _ = problem(name)
    y[:40] = 2
    cv = [(np.flatnonzero(y < 2), test) for _, test in splits()[:n_splits]]
    given = {**options(name, scoring="accuracy"), "refit": False}
    search = GridSearchCV(estimator, grid, cv=cv, **given).fit(X, y)
    (why,) = search.plan_.reasons
    assert "it has no row of class 2" in why
    table = [search.cv_results_[f"split{s}_test_score"] for s in range(n_splits)]
    for candidate, scores in zip(ParameterGrid(grid), np.stack(table, axis=1), strict=True):
        alone = clone(estimator).set_params(**candidate)
        expected = [alone.fit(X[train], y[train]).score(X[test], y[test]) for train, test in cv]
        np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize(
    "cv", [KFold(3), StratifiedKFold(3), StratifiedKFold(3, shuffle=True, random_state=0)]
)
@pytest.mark.parametrize("name", ["logistic", "ridge classifier", "lasso", "scaler, pca, ridge"])
def test_weights_that_one_split_holds_out_all(name, cv):
    """Of the rows that it does not hold out, too, none weighs anything."""
    estimator, _, X, y, weight, _ = problem(name)
    cv = cv if is_classifier(estimator) else KFold(3)
    parts = list(cv.split(X, y))
    weight[:] = np.where(np.isin(np.arange(N_ROWS), parts[1][1]), weight + 1, 0)
    with pytest.warns(FitFailedWarning, match="1 fits failed out of a total of 3"):
        found = cross_validate(estimator, X, y, cv=cv, params=weights_of(estimator, weight))
    assert np.isnan(found["test_score"][1])
    for split in (0, 2):
        train, test = parts[split]
        alone = clone(estimator).fit(X[train], y[train], **weights_of(estimator, weight[train]))
        score = alone.score(X[test], y[test])
        assert found["test_score"][split] == pytest.approx(score, abs=1e-8)


# Wild rows in no training part, and yet in the sums of all: no model by itself fails.
@pytest.mark.filterwarnings("ignore:Fitting all candidates together raised ValueError. Squares")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("logistic", np.asarray),
        ("logistic", sparse.csr_array),
        ("logistic, newton", np.asarray),
        ("logistic, l1", np.asarray),
        ("logistic, l1", sparse.csr_array),
        ("ridge", np.asarray),
        ("lasso", np.asarray),
        ("ridge classifier", np.asarray),
    ],
)
def test_values_of_one_split_whose_squares_overflow(name, kind):
    """Splits share Hessians; those that do not train on such rows have their models."""
    estimator, grid, X, y, _, bad = problem(name)
    usual = GridSearchCV(estimator, grid, cv=splits(), **options(name)).fit(X[USED], y[USED])
    X[bad["no weight"]] *= 1e200
    X = kind(X)
    cv = splits({1: np.r_[splits()[1][0], bad["no weight"]]})
    given = options(name, refit=False)
    good = GridSearchCV(estimator, grid, cv=splits(), **given).fit(X, y)
    search = GridSearchCV(estimator, grid, cv=cv, **given)
    with pytest.warns(FitFailedWarning, match="Squares of the values of X"):
        search.fit(X, y)
    for split in range(N_SPLITS):
        scores = search.cv_results_[f"split{split}_test_score"]
        if split == 1:
            assert (scores == FAILED).all()
            continue
        np.testing.assert_array_equal(scores, good.cv_results_[f"split{split}_test_score"])
        expected = usual.cv_results_[f"split{split}_test_score"]
        np.testing.assert_allclose(scores, expected, rtol=1e-3)


def test_early_rounds_that_lack_a_class(rng):
    """Halving begins with few rows; those of the rare class are in some training parts only."""
    X = rng.normal(size=(600, 4))
    y = (np.arange(600) % 60 == 0).astype(int)
    given = {"factor": 2, "min_resources": 40, "cv": KFold(4), "random_state": 1}
    search = HalvingGridSearchCV(LogisticRegression(), C, **given)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert any(w.category is FitFailedWarning for w in warned)
    first, second, *_ = (step.why for step in search.plan_.steps)
    assert first == "all candidates together"
    assert second.startswith("one by one, on split")


def test_cross_validation_says_which_splits_have_failed():
    estimator, _, X, y, weight, bad = problem("logistic, balanced")
    scores = cross_validate(estimator, X, y, cv=splits(), params={"sample_weight": weight})
    for why, train in bad.items():
        with pytest.warns(FitFailedWarning, match="1 fits failed out of a total of 4"):
            found = cross_validate(
                estimator, X, y, cv=splits({3: train}), params={"sample_weight": weight}
            )
        np.testing.assert_array_equal(found["test_score"][:3], scores["test_score"][:3])
        assert np.isnan(found["test_score"][3]), why


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_logistic_regression_cv_refuses_such_splits(class_weight):
    """It has no table of scores with failed fits; scikit-learn's raises of weights that are 0."""
    _, _, X, y, weight, bad = problem("logistic, balanced")
    model = LogisticRegressionCV(
        Cs=[0.1, 1.0],
        l1_ratios=(0,),
        cv=splits({1: bad["no weight"]}),
        class_weight=class_weight,
        scoring="neg_log_loss",
        use_legacy_attributes=False,
    )
    with pytest.raises(ValueError, match="split 1 .*must contain at least one non-zero number"):
        model.fit(X, y, sample_weight=weight)
    assert not hasattr(model, "coef_")


def test_the_error_of_splits_travels():
    error = pickle.loads(pickle.dumps(UnfittableSplits({3: "it is empty."}, together=True)))
    assert (error.reasons, error.together) == ({3: "it is empty."}, True)
    assert str(error) == "The training part of split 3 cannot be fitted: it is empty."


def test_the_plan_says_why_splits_are_fitted_by_themselves():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), (np.arange(60) >= 40).astype(int)
    some, all_rows = np.arange(30), np.arange(60)
    cv = [(some, all_rows[30:]), (all_rows, some), (some, all_rows[40:])]
    grid = {"C": [1.0, 10.0]}
    search = GridSearchCV(LogisticRegression(), grid, cv=cv, refit=False, error_score=FAILED)
    with pytest.warns(FitFailedWarning):
        search.fit(X, y)
    together, alone = search.plan_.steps
    assert together.reasons == ()
    assert alone.why.endswith("on splits 0, 2")
    assert [r.partition(".")[0] for r in alone.reasons] == [
        "on splits 0, 2: it has no row of class 1"
    ]
