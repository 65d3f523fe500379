"""A search, or a fit, on divided rows is the same search on all rows, however they are divided."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.preprocessing import RobustScaler

from gpuml import get_config
from gpuml._arrays import HOST, is_array, place_of, to_host
from gpuml.cluster import KMeans
from gpuml.covariance import LedoitWolf, ShrunkCovariance
from gpuml.cross_decomposition import PLSRegression
from gpuml.data import NeedsAllRows
from gpuml.decomposition import PCA, FactorAnalysis, IncrementalPCA, TruncatedSVD
from gpuml.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from gpuml.divided import DividedRows, InProcess, Share, divided_splits
from gpuml.divided.fitting import fit_divided
from gpuml.linear_model import (
    ARDRegression,
    ElasticNet,
    Lasso,
    LassoLars,
    LinearRegression,
    LogisticRegression,
    OrthogonalMatchingPursuit,
    Ridge,
    RidgeClassifier,
)
from gpuml.metrics.scorer import check_scoring
from gpuml.model_selection.divided import DividedEvaluator
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.one_by_one import Task
from gpuml.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from gpuml.resampling.split import check_splitter, split_rows
from gpuml.solvers import loss_rows
from tests.travelled import travelled

RTOL = {"float64": 1e-10, "float32": 1e-3}
N_ROWS = 90
SIZES = (31, 1, 18, 40)


def regression():
    X, y = load_diabetes(return_X_y=True)
    return 20 * X[:N_ROWS], y[:N_ROWS]


def classes(n_classes=3):
    X, y = load_wine(return_X_y=True)
    X, y = (X - X.mean(0)) / X.std(0), y
    chosen = np.random.default_rng(3).permutation(np.flatnonzero(y < n_classes))[:N_ROWS]
    return X[chosen], y[chosen]


class Bootstrap:
    """Rows that are drawn several times, and rows that no part has."""

    def split(self, X, y=None, groups=None):
        rng = np.random.default_rng(0)
        for _ in range(2):
            train = rng.integers(0, len(X), len(X))
            yield train, np.setdiff1d(np.arange(len(X)), train)[::2]

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2


REGRESSORS = [
    (Ridge(), [{"alpha": a} for a in (0.01, 1.0, 10.0)]),
    (Ridge(solver="svd", fit_intercept=False), [{"alpha": 0.1}, {"alpha": 2.0}]),
    (LinearRegression(), [{"fit_intercept": True}]),
    (Lasso(), [{"alpha": 0.1}, {"alpha": 1.0}]),
    (ElasticNet(tol=1e-8), [{"alpha": 0.1}, {"alpha": 1.0}]),
    (
        make_pipeline(StandardScaler(), PCA(), Ridge()),
        [{"pca__n_components": k, "ridge__alpha": a} for k in (2, 5) for a in (0.1, 1.0)],
    ),
    (make_pipeline(MinMaxScaler(), Lasso()), [{"lasso__alpha": 0.1}, {"lasso__alpha": 1.0}]),
    (make_pipeline(MaxAbsScaler(), LinearRegression()), [{}]),
]
CLASSIFIERS = [
    (LogisticRegression(), [{"C": 0.1}, {"C": 10.0}]),
    (LogisticRegression(class_weight="balanced"), [{"C": 1.0}]),
    (LogisticRegression(class_weight={0: 1.0, 1: 2.0, 2: 0.5}), [{"C": 1.0}]),
    (LogisticRegression(solver="newton-cholesky"), [{"C": 0.1}, {"C": 1.0}]),
    (LogisticRegression(solver="saga", l1_ratio=0.5, max_iter=1000), [{"C": 1.0}, {"C": 10.0}]),
    (RidgeClassifier(), [{"alpha": 1.0}, {"alpha": 10.0}]),
    (
        make_pipeline(StandardScaler(), PCA(4), LogisticRegression()),
        [{"logisticregression__C": 1.0}, {"logisticregression__C": 10.0}],
    ),
]
DENSITIES = [
    (GaussianNB(), [{"var_smoothing": 1e-9}, {"var_smoothing": 1e-2}]),
    (GaussianNB(priors=[0.5, 0.2, 0.3]), [{"var_smoothing": 1e-9}]),
    (MultinomialNB(), [{"alpha": 0.1}, {"alpha": 1.0, "fit_prior": False}]),
    (ComplementNB(), [{"alpha": 0.1}, {"alpha": 1.0, "norm": True}]),
    (BernoulliNB(binarize=1.0), [{"alpha": 0.1}, {"alpha": 1.0}]),
    (CategoricalNB(min_categories=12), [{"alpha": 0.1}, {"alpha": 1.0}]),
]
ANALYSES = [
    (QuadraticDiscriminantAnalysis(), [{"reg_param": 0.1}, {"reg_param": 0.5}]),
    (QuadraticDiscriminantAnalysis(solver="eigen"), [{"shrinkage": 0.1}, {"shrinkage": 0.5}]),
    (LinearDiscriminantAnalysis(), [{"n_components": 1}, {"n_components": 2}]),
    (LinearDiscriminantAnalysis(solver="lsqr"), [{"shrinkage": None}, {"shrinkage": 0.5}]),
]
MEANS = [
    (KMeans(random_state=0), [{"n_clusters": 2}, {"n_clusters": 5}]),
    (KMeans(random_state=1, init="random", tol=0.0), [{"n_clusters": 2}, {"n_clusters": 3}]),
]
# Without weights.
FROM_SUMS = [
    (ShrunkCovariance(), [{"shrinkage": 0.0}, {"shrinkage": 0.3}]),
    (LedoitWolf(), [{"assume_centered": False}, {"assume_centered": True}]),
    (FactorAnalysis(), [{"n_components": 1}, {"n_components": 3}]),
    (PLSRegression(), [{"n_components": 1}, {"n_components": 4}]),
    (ARDRegression(), [{"threshold_lambda": 1e4}, {"threshold_lambda": 2.0}]),
    (LassoLars(), [{"alpha": 0.01}, {"alpha": 0.1}]),
    (OrthogonalMatchingPursuit(), [{"n_nonzero_coefs": 1}, {"n_nonzero_coefs": 3}]),
]
REGRESSION_SCORES = [
    *("r2", "explained_variance", "neg_mean_squared_error", "neg_root_mean_squared_error"),
    *("neg_mean_absolute_error", "neg_median_absolute_error", "neg_max_error"),
]
LABEL_SCORES = ["accuracy", "balanced_accuracy", "f1_macro", "precision_weighted"]
CLASS_SCORES = [*LABEL_SCORES, "neg_log_loss", "roc_auc_ovr"]
SPLITTERS = [
    KFold(3),
    StratifiedKFold(3),
    StratifiedKFold(3, shuffle=True, random_state=0),
    RepeatedKFold(n_splits=2, n_repeats=3, random_state=0),
    ShuffleSplit(3, train_size=0.5, test_size=0.2, random_state=0),
    ShuffleSplit(1, random_state=1),
    TimeSeriesSplit(2),
    GroupKFold(3),
    Bootstrap(),
]


def name_of(value):
    steps = getattr(value, "steps", [(None, value)])
    return "-".join(type(step).__name__ for _, step in steps)


def rows_in_pieces(sizes, X, y=None, weight=None, place=HOST):
    ends = np.cumsum(sizes).tolist()
    bounds = zip([0, *ends[:-1]], ends, strict=True)
    columns = (X, y, weight)
    shares = [Share(*(None if c is None else c[a:b, ...] for c in columns)) for a, b in bounds]
    return DividedRows(InProcess(shares, place), tuple(sizes), X.shape[1], get_config())


def task_of(estimator, scoring, weight=None, *, train=False):
    prefix = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    fit_params = {} if weight is None else {f"{prefix}sample_weight": weight}
    score_params = {} if weight is None else {"sample_weight": weight}
    scorer = check_scoring(estimator, scoring)
    return Task(scorer, fit_params, score_params, train, np.nan, 0)


def table(evaluator, params):
    """Scores (candidate, split) by name, sizes of the held-out parts, and the model of candidate 0."""
    found = [item for group in evaluator.groups(params) for item in evaluator.fit_group(group)]
    if not found:
        return None
    assert [position for position, _ in found] == list(range(len(params)))
    scores = {}
    for _, results in found:
        for result in results:
            for part in ("test_scores", "train_scores"):
                own = result.get(part, {})
                for name, score in (own if isinstance(own, dict) else {"score": own}).items():
                    scores.setdefault((part, name), []).append(score)
    n_test = [result["n_test_samples"] for _, results in found for result in results]
    model = evaluator.refit(0)
    return scores, n_test, getattr(model, "steps", [(None, model)])[-1][1]


def check_search(
    case, X, y, weight=None, *, scoring, splitter, sizes=SIZES, library=None, place=HOST
):
    """Search on all rows, and on the same rows divided."""
    estimator, params = case
    groups = {"groups": np.arange(len(y)) % 7} if isinstance(splitter, GroupKFold) else {}
    classifier = is_classifier(estimator)
    if isinstance(splitter, StratifiedKFold) and not classifier:
        splitter = KFold(3, shuffle=splitter.shuffle, random_state=splitter.random_state)
    task = task_of(estimator, scoring, weight, train=True)
    splitter = check_splitter(splitter, y, classifier=classifier)
    splits = split_rows(splitter, X, y, len(y), **groups)

    # Solvers of different libraries may stop at different steps, so the library is that of `place`.
    def here(x):
        return x if place == HOST or x is None else library.asarray(x)

    expected = table(Evaluator(Job(estimator, here(X), here(y), splits, task)), params)
    if library is not None:
        X, y = library.asarray(X), y if y.dtype.kind == "U" else library.asarray(y)
        weight = None if weight is None else library.asarray(weight)
    rows = rows_in_pieces(sizes, X, y, weight, place)
    splits = divided_splits(splitter, rows.shares, sizes, classifier=classifier, **groups)
    found = table(DividedEvaluator(Job(estimator, rows, None, splits, task)), params)
    assert expected is not None
    assert found is not None
    rtol = RTOL[str(X.dtype).rpartition(".")[2]]
    assert found[0].keys() == expected[0].keys()
    for key, scores in expected[0].items():
        np.testing.assert_allclose(found[0][key], scores, rtol=rtol, atol=rtol, err_msg=str(key))
    assert found[1] == expected[1]
    # Near the minimum scores hardly change with the coefficients.
    rtol = max(10 * rtol, 1e-8)
    if isinstance(estimator, OTHERS):
        check_attributes(found[2], expected[2], rtol)
        return
    check_close(found[2].coef_, expected[2].coef_, rtol)
    check_close(found[2].intercept_, expected[2].intercept_, rtol)


OTHERS = tuple({type(model) for model, _ in DENSITIES + ANALYSES + MEANS})


def check_attributes(found, expected, rtol):
    """Fitted attributes agree, if they are arrays, numbers, or lists of arrays."""
    found, expected = fitted(found), fitted(expected)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        pairs = zip(found[name], value, strict=True) if isinstance(value, list) else None
        for one, other in pairs or [(found[name], value)]:
            if isinstance(other, float | int):
                assert float(one) == pytest.approx(float(other), rel=rtol), name
            elif name == "classes_":
                assert np.array_equal(to_host(one), to_host(other))
            else:
                check_close(one, other, rtol)


def check_close(found, expected, rtol):
    found, expected = (np.asarray(to_host(x) if is_array(x) else x) for x in (found, expected))
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


def scores_of(case):
    if isinstance(case[0], KMeans):
        return None
    if isinstance(case[0], OTHERS):  # of features with few values, the order of rows has ties
        return ["accuracy", "balanced_accuracy", "neg_log_loss"]
    if not is_classifier(case[0]):
        return REGRESSION_SCORES
    return LABEL_SCORES if "Ridge" in name_of(case[0]) else CLASS_SCORES


def data_for(case):
    if isinstance(case[0], OTHERS):
        X, y = classes()
        if any(case[0] is model for model, _ in DENSITIES):
            X = np.floor(np.abs(3 * X))
        return X[:, :4], y
    return classes() if is_classifier(case[0]) else regression()


cases = pytest.mark.parametrize("case", REGRESSORS + CLASSIFIERS, ids=lambda c: name_of(c[0]))


@pytest.mark.each
@cases
@pytest.mark.parametrize("splitter", SPLITTERS, ids=name_of)
def test_a_search_on_divided_rows_is_the_search_on_all(case, splitter):
    check_search(case, *data_for(case), scoring=scores_of(case), splitter=splitter)


@pytest.mark.some
@cases
def test_weights_of_fits_and_scores_go_with_the_rows(case, rng):
    X, y = data_for(case)
    for weight in (rng.random(N_ROWS) + 0.1, rng.integers(1, 4, N_ROWS).astype(float)):
        check_search(
            case,
            X,
            y,
            weight,
            scoring=scores_of(case),
            splitter=KFold(3, shuffle=True, random_state=0),
        )


@pytest.mark.some
@cases
def test_all_rows_of_a_piece_may_weigh_nothing(case, rng):
    X, y = data_for(case)
    weight = rng.random(N_ROWS) + 0.1
    weight[31:50] = 0
    check_search(case, X, y, weight, scoring=scores_of(case), splitter=StratifiedKFold(3))


@pytest.mark.each
@cases
@pytest.mark.parametrize("sizes", [(90,), (1,) * 90, (1, 88, 1)], ids=len)
def test_it_does_not_matter_where_the_rows_are_cut(case, sizes):
    check_search(
        case, *data_for(case), scoring=scores_of(case), splitter=StratifiedKFold(3), sizes=sizes
    )


other_cases = pytest.mark.parametrize(
    "case", DENSITIES + ANALYSES + MEANS, ids=lambda c: name_of(c[0])
)


@pytest.mark.each
@other_cases
@pytest.mark.parametrize("splitter", SPLITTERS, ids=name_of)
def test_densities_and_clusters_of_divided_rows(case, splitter):
    if isinstance(case[0], KMeans) and isinstance(splitter, ShuffleSplit | Bootstrap):
        pytest.skip("k-means draws seeds by the order of the rows, and pieces keep theirs")
    check_search(case, *data_for(case), scoring=scores_of(case), splitter=splitter)


@pytest.mark.some
@other_cases
def test_cuts_do_not_matter_to_densities_and_clusters(case):
    options = {"scoring": scores_of(case), "splitter": StratifiedKFold(3)}
    check_search(case, *data_for(case), sizes=(1, 1, 1, 80, 7), **options)


@pytest.mark.some
@pytest.mark.parametrize("case", DENSITIES + MEANS, ids=lambda c: name_of(c[0]))
def test_densities_and_clusters_of_weighted_rows(case, rng):
    X, y = data_for(case)
    weight = rng.random(N_ROWS) + 0.1
    for given in (weight, np.where(np.arange(N_ROWS) // 19 == 2, 0.0, weight)):
        check_search(case, X, y, given, scoring=scores_of(case), splitter=StratifiedKFold(3))


@pytest.mark.each
@pytest.mark.parametrize("case", DENSITIES + ANALYSES + MEANS[:1], ids=lambda c: name_of(c[0]))
@pytest.mark.parametrize("there", [True, False], ids=["sums there", "sums on the host"])
def test_densities_and_clusters_of_any_library(case, library, there):
    X, y = data_for(case)
    place = place_of(library.asarray(X)) if there else HOST
    options = {"scoring": scores_of(case), "splitter": StratifiedKFold(2)}
    check_search(case, X, y, library=library, place=place, **options)


@pytest.mark.some
@pytest.mark.bits
@other_cases
def test_densities_and_clusters_have_the_same_bits_wherever_pieces_were(case):
    X, y = data_for(case)
    task, found = task_of(case[0], scores_of(case)), []
    for kind in (InProcess, Travelling):
        rows = rows_in_pieces(SIZES, X, y)
        rows = replace(rows, shares=kind(rows.shares.pieces))
        splits = divided_splits(KFold(3), rows.shares, SIZES, classifier=is_classifier(case[0]))
        found.append(table(DividedEvaluator(Job(case[0], rows, None, splits, task)), case[1]))
    assert found[0][:2] == found[1][:2]
    check_attributes(found[0][2], found[1][2], 0.0)


@pytest.mark.each
@pytest.mark.parametrize("case", FROM_SUMS, ids=lambda c: name_of(c[0]))
@pytest.mark.parametrize("sizes", [SIZES, (1, 88, 1)], ids=len)
@pytest.mark.parametrize("splitter", [KFold(3), SPLITTERS[3], Bootstrap()], ids=name_of)
def test_what_is_fitted_and_scored_by_sums_needs_no_rows(case, sizes, splitter):
    (model, params), (X, y) = case, regression()
    task = task_of(model, None, train=True)
    splits = split_rows(splitter, X, y, N_ROWS)
    expected = table(Evaluator(Job(model, X, y, splits, task)), params)
    rows = rows_in_pieces(sizes, X, y)
    splits = divided_splits(splitter, rows.shares, sizes, classifier=False)
    found = table(DividedEvaluator(Job(model, rows, None, splits, task)), params)
    for key, scores in expected[0].items():
        np.testing.assert_allclose(found[0][key], scores, rtol=1e-9, err_msg=str(key))
    mine, theirs = (
        {k: v for k, v in vars(m).items() if k.endswith("_")} for m in (found[2], expected[2])
    )
    assert theirs.keys() - mine.keys() <= {"x_scores_", "y_scores_"}  # of rows that are elsewhere
    for name in mine.keys() & {"covariance_", "coef_", "noise_variance_"}:
        check_close(mine[name], theirs[name], 1e-8)


@pytest.mark.parametrize("case", CLASSIFIERS + DENSITIES + ANALYSES, ids=lambda c: name_of(c[0]))
def test_pieces_may_lack_classes(case):
    X, y = data_for(case)
    order = np.argsort(y, kind="stable")
    ends = np.cumsum(np.bincount(y))
    sizes = (ends[0], ends[1] - ends[0] + 3, N_ROWS - ends[1] - 3)
    for splitter in (StratifiedKFold(3), KFold(3, shuffle=True, random_state=0)):
        check_search(
            case, X[order], y[order], scoring=scores_of(case), splitter=splitter, sizes=sizes
        )


@pytest.mark.each
@pytest.mark.parametrize(
    "case",
    [*(REGRESSORS[i] for i in (0, 3, 5)), *(CLASSIFIERS[i] for i in (0, 1, 5, 6))],
    ids=lambda c: name_of(c[0]),
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("there", [True, False], ids=["sums there", "sums on the host"])
def test_pieces_of_any_library(case, library, dtype, there, rng):
    X, y = data_for(case)
    X, weight = X.astype(dtype), (rng.random(N_ROWS) + 0.1).astype(dtype)
    check_search(
        case,
        X,
        y if is_classifier(case[0]) else y.astype(dtype),
        weight,
        scoring=scores_of(case)[:3],
        splitter=StratifiedKFold(2),
        library=library,
        place=place_of(library.asarray(X)) if there else HOST,
    )


@pytest.mark.parametrize("case", REGRESSORS, ids=lambda c: name_of(c[0]))
def test_several_targets(case, rng):
    X, y = regression()
    Y = np.stack([y, y * X[:, 0], -y + rng.normal(size=N_ROWS)], axis=1)
    scoring = [name for name in REGRESSION_SCORES if name != "neg_max_error"]
    check_search(case, X, Y, scoring=scoring, splitter=KFold(3))


@pytest.mark.parametrize("case", [CLASSIFIERS[0], CLASSIFIERS[5]], ids=lambda c: name_of(c[0]))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_that_are_strings(case, n_classes):
    X, y = classes(n_classes)
    y = np.asarray(["one", "of", "several"])[y]
    check_search(case, X, y, scoring=scores_of(case)[:3], splitter=StratifiedKFold(3))


def test_two_classes_with_scores_of_the_second():
    X, y = classes(2)
    scoring = ["roc_auc", "average_precision", "f1", "neg_brier_score", "neg_log_loss"]
    check_search(CLASSIFIERS[0], X, y, scoring=scoring, splitter=StratifiedKFold(3))


def test_scorers_have_the_names_that_users_give_them():
    names = ("neg_log_loss", "accuracy", "balanced_accuracy", "roc_auc_ovr")
    scoring = dict(zip(("weight", "classes", "confusion", "score"), names, strict=True))
    check_search(CLASSIFIERS[0], *classes(), scoring=scoring, splitter=StratifiedKFold(3))


@pytest.mark.parametrize("gathered", [True, False])
def test_samples_are_the_same_rows(monkeypatch, gathered):
    # Enough rows that solvers look at samples of them first.
    monkeypatch.setattr(loss_rows, "GATHER_BYTES", 2**26 if gathered else 0)
    X, y = classes()
    rng = np.random.default_rng(0)
    X, y = np.tile(X, (150, 1)), np.tile(y, 150)
    X += 0.3 * rng.normal(size=X.shape)
    sizes = (5000, 3, 4997, 3500)
    for case in (CLASSIFIERS[0], CLASSIFIERS[4]):
        check_search(case, X, y, scoring=["neg_log_loss"], splitter=KFold(2), sizes=sizes)


@pytest.mark.bits
def test_runs_give_the_same_bits(rng):
    X, y = classes()
    for case in (CLASSIFIERS[0], CLASSIFIERS[-1]):
        task = task_of(case[0], CLASS_SCORES)
        found = []
        for _ in range(2):
            rows = rows_in_pieces(SIZES, X, y)
            splits = divided_splits(StratifiedKFold(3), rows.shares, SIZES, classifier=True)
            found.append(table(DividedEvaluator(Job(case[0], rows, None, splits, task)), case[1]))
        assert found[0][:2] == found[1][:2]
        np.testing.assert_array_equal(found[0][2].coef_, found[1][2].coef_)


class Travelling(InProcess):
    """Holders whose pieces, arguments and results go over a network each time."""

    def map(self, function, *args, each_with=None):
        pieces = [travelled(piece) for piece in self.pieces]
        there = InProcess(pieces).map(function, *travelled(args), each_with=travelled(each_with))
        return Travelling(there.pieces)

    def each(self, function, *args):
        pieces = [travelled(piece) for piece in self.pieces]
        return [travelled(each) for each in InProcess(pieces).each(function, *travelled(args))]


@pytest.mark.some
@pytest.mark.bits
@cases
@pytest.mark.parametrize("order", ["C", "F"])
def test_bits_are_the_same_wherever_pieces_were(case, order):
    X, y = data_for(case)
    X = np.asarray(X, order=order)
    task = task_of(case[0], scores_of(case), train=True)
    found = []
    for kind in (InProcess, Travelling):
        rows = rows_in_pieces(SIZES, X, y)
        shares = [Share(each.X.copy(order="K"), each.y) for each in rows.shares.pieces]
        rows = replace(rows, shares=kind(shares))
        splits = divided_splits(KFold(3), rows.shares, SIZES, classifier=is_classifier(case[0]))
        found.append(table(DividedEvaluator(Job(case[0], rows, None, splits, task)), case[1]))
    assert found[0][:2] == found[1][:2]
    np.testing.assert_array_equal(found[0][2].coef_, found[1][2].coef_)
    np.testing.assert_array_equal(found[0][2].intercept_, found[1][2].intercept_)


# ---------------------------------------------------------------- what needs the rows in one place


def _absolute_error(model, X, y):
    return -np.abs(model.predict(X) - y).mean()


def wide(rng):
    X = rng.normal(size=(N_ROWS, N_ROWS + 5))
    return X, X[:, 0] + rng.normal(size=N_ROWS)


def with_nan(rng):
    X, y = classes()
    X[50, 2] = np.nan
    return X, y


def with_inf(rng):
    X, y = regression()
    X[3, 2] = np.inf
    return X, y


def with_nan_target(rng):
    X, y = regression()
    y[70] = np.nan
    return X, y


def one_class(rng):
    X, y = classes()
    return X, 0 * y


def lone_class(rng):
    X, y = classes()
    y = np.minimum(y, 1)
    y[17] = 2
    return X, y


@pytest.mark.parametrize(
    ("estimator", "make", "scoring"),
    [
        (Ridge(), wide, None),
        (Ridge(), with_nan, None),
        (Ridge(), with_inf, None),
        (Ridge(), with_nan_target, None),
        (Ridge(solver="lsqr"), lambda rng: regression(), None),
        (Ridge(), lambda rng: regression(), _absolute_error),
        (Ridge(), lambda rng: regression(), "neg_mean_squared_log_error"),
        (make_pipeline(RobustScaler(), Ridge()), lambda rng: regression(), None),
        (LogisticRegression(), one_class, None),
        (LogisticRegression(), lone_class, None),
        (LogisticRegression(), with_nan, None),
        (LogisticRegression(solver="liblinear"), lambda rng: classes(2), None),
        (RidgeClassifier(class_weight="balanced"), lambda rng: classes(), None),
        (RidgeClassifier(), lambda rng: classes(), "roc_auc_ovr"),
    ],
)
def test_groups_that_need_all_rows_are_left_to_others(estimator, make, scoring, rng):
    X, y = make(rng)
    if scoring == "neg_mean_squared_log_error":
        y = y - y.min() + 1e-3
    rows = rows_in_pieces(SIZES, X, y)
    last = getattr(estimator, "steps", [("", estimator)])[-1]
    name = "C" if isinstance(last[1], LogisticRegression) else "alpha"
    params = [{f"{last[0]}__{name}" if last[0] else name: value} for value in (1e-6, 1.0)]
    task = task_of(estimator, scoring)
    splits = divided_splits(KFold(3), rows.shares, SIZES, classifier=False)
    assert table(DividedEvaluator(Job(estimator, rows, None, splits, task)), params) is None


def test_a_part_without_weight_has_no_scores():
    X, y = regression()
    weight = np.r_[np.zeros(30), np.ones(60)]
    rows = rows_in_pieces(SIZES, X, y, weight)
    splits = divided_splits(KFold(3), rows.shares, SIZES, classifier=False)
    task = task_of(Ridge(), "neg_mean_absolute_error", weight)
    assert table(DividedEvaluator(Job(Ridge(), rows, None, splits, task)), [{"alpha": 1.0}]) is None


# ---------------------------------------------------------------- fits

STEPS = [
    PCA(3),
    PCA(0.9, whiten=True),
    TruncatedSVD(3),
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler(),
    MaxAbsScaler(),
]
MODELS = [clone(case[0]) for case in REGRESSORS + CLASSIFIERS if not hasattr(case[0], "steps")]


def fitted(model):
    return {n: v for n, v in vars(model).items() if n.endswith("_") and not n.startswith("_")}


def check_fit(model, X, y, weight, *, sizes=SIZES, library=None):
    """`fit_divided` gives the attributes that `fit` gives."""
    there = X, y, weight
    if library is not None:
        there = [None if c is None else library.asarray(c) for c in there]
    rows = rows_in_pieces(sizes, *there)
    found = fit_divided(model, rows, weighted=weight is not None)
    assert fitted(model) == {}
    weights = {} if weight is None else {"sample_weight": weight}
    expected = fitted(clone(model).fit(X, y, **weights))
    assert expected.keys() <= found.keys()
    rtol = max(1e-8, RTOL[str(X.dtype)])
    for name, value in expected.items():
        if name == "dual_gap_":  # of the size of the tolerance
            assert abs(found[name] - value) <= 1e-9 * np.square(y).sum()
        elif isinstance(value, np.ndarray | float) and np.asarray(value).dtype.kind in "fiu":
            check_close(found[name], value, rtol)
        else:
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.each
@pytest.mark.parametrize("model", MODELS + STEPS, ids=name_of)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_of_divided_rows_is_the_fit_of_all(model, weighted, rng):
    X, y = classes() if is_classifier(model) else regression()
    takes = hasattr(model, "predict") or isinstance(model, StandardScaler)
    weight = rng.random(N_ROWS) + 0.1 if weighted and takes else None
    y = y if hasattr(model, "predict") else None
    for sizes in (SIZES, (1,) * N_ROWS):
        check_fit(model, X, y, weight, sizes=sizes)


@pytest.mark.parametrize(
    "model", [Ridge(), Lasso(), RidgeClassifier(), PCA(3), MinMaxScaler()], ids=name_of
)
def test_a_fit_of_pieces_of_any_library(model, library):
    X, y = classes() if is_classifier(model) else regression()
    check_fit(model, X, y if hasattr(model, "predict") else None, None, library=library)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_a_doubled_row_is_a_doubled_weight(model):
    X, y = classes() if is_classifier(model) else regression()
    times = np.where(np.arange(N_ROWS) % 3 == 0, 2, 1)
    one = fit_divided(model, rows_in_pieces(SIZES, X, y, times.astype(float)), weighted=True)
    X, y = np.repeat(X, times, axis=0), np.repeat(y, times)
    sizes = (60, len(y) - 60)
    other = fit_divided(model, rows_in_pieces(sizes, X, y))
    # Solvers that stop at a tolerance stop at different points of it.
    exact = isinstance(model, LinearRegression | Ridge | RidgeClassifier)
    check_close(one["coef_"], other["coef_"], 1e-9 if exact else 1e-3)


def test_a_failed_fit_leaves_nothing_on_the_estimator(rng):
    for make in (with_nan, with_nan_target, with_inf):
        model = Ridge()
        with pytest.raises(ValueError, match="NaN|infinity"):
            fit_divided(model, rows_in_pieces(SIZES, *make(rng)))
        assert fitted(model) == {}


@pytest.mark.parametrize(
    ("model", "make"),
    [
        (Ridge(), wide),
        (Ridge(solver="lsqr"), lambda rng: regression()),
        (RidgeClassifier(class_weight="balanced"), lambda rng: classes()),
        (LogisticRegression(solver="liblinear"), lambda rng: classes(2)),
        (RobustScaler(), lambda rng: regression()),
        (IncrementalPCA(), lambda rng: regression()),
        (make_pipeline(StandardScaler(), Ridge()), lambda rng: regression()),
    ],
)
def test_fits_that_need_all_rows_say_so(model, make, rng):
    with pytest.raises(NeedsAllRows):
        fit_divided(model, rows_in_pieces(SIZES, *make(rng)))
