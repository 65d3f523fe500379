"""Searches inside a cross-validation or a search are scikit-learn's, all inner fits together."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
import sklearn.decomposition as sk_decomposition
import sklearn.linear_model as sk_linear
import sklearn.model_selection as sk
import sklearn.pipeline as sk_pipeline
import sklearn.preprocessing as sk_preprocessing
from scipy.stats import uniform
from sklearn.datasets import load_diabetes, load_iris
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.metrics import get_scorer

import gpuml.model_selection as ours
import gpuml.preprocessing as our_preprocessing
from gpuml._arrays import device_of
from gpuml.compose import ColumnTransformer
from gpuml.data import LabelledSplit, row_indices
from gpuml.decomposition import PCA
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LogisticRegression, Ridge, RidgeClassifier
from gpuml.model_selection.evaluate import Evaluator
from gpuml.model_selection.inside import splits_inside
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder, StandardScaler
from gpuml.resampling.split import check_splitter, split_rows
from gpuml.testing import array_libraries

OUR_STEPS, THEIR_STEPS = (
    SimpleNamespace(
        **vars(sk_preprocessing) | vars(module) | {"PCA": pca, "SelectKBest": SelectKBest},
        f_regression=f_regression,
    )
    for module, pca in ((our_preprocessing, PCA), (sk_preprocessing, sk_decomposition.PCA))
)
ALPHAS = {"alpha": [0.01, 1.0, 100.0]}
CS = {"C": [0.01, 1.0]}
SPLITTERS = [
    3,
    sk.KFold(3, shuffle=True, random_state=0),
    sk.ShuffleSplit(2, random_state=1),
    sk.TimeSeriesSplit(2),
    sk.RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
]
INNER = [
    *SPLITTERS[:2],
    sk.RepeatedKFold(n_splits=2, n_repeats=2, random_state=np.random.RandomState(0)),
]
# Of iterations that end within `tol` of the optimum.
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


@pytest.fixture(scope="module")
def numbers():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def classes():
    return load_iris(return_X_y=True)


@pytest.fixture
def n_fits(monkeypatch):
    """How often candidates were fitted together."""
    found = []
    real = Evaluator._fit_together
    monkeypatch.setattr(Evaluator, "_fit_together", lambda *args: found.append(args) or real(*args))
    return found


def logistic(**params):
    return LogisticRegression(tol=1e-9, **params)


def their_logistic(**params):
    return sk_linear.LogisticRegression(tol=1e-9, solver="newton-cholesky", **params)


def assert_same(found, expected, **close):
    """Scores of outer splits, and all that inner searches say of themselves."""
    assert found.keys() == expected.keys()
    for name in expected:
        if name.startswith(("test", "train")):
            np.testing.assert_allclose(found[name], expected[name], **close)
    for own, other in zip(found["estimator"], expected["estimator"], strict=True):
        assert own.best_params_ == other.best_params_
        assert own.cv_results_.keys() == other.cv_results_.keys()
        assert own.cv_results_["params"] == other.cv_results_["params"]
        for name, values in other.cv_results_.items():
            if "score" in name and "time" not in name and "rank" not in name:
                np.testing.assert_allclose(own.cv_results_[name], values, **close)
        assert vars(own).keys() - vars(other).keys() == {
            *("plan_", "split_sizes_"),
            *("checkpoint", "return_predictions"),
        }


def both(own, other, X, y, **options):
    """What both modules find, with the searches of all outer splits."""
    options["return_estimator"] = True
    return (
        module.cross_validate(search, X, y, **options)
        for module, search in ((ours, own), (sk, other))
    )


@pytest.mark.pairwise
@pytest.mark.parametrize("inner", INNER, ids=["neighbours", "shuffled", "repeated"])
@pytest.mark.parametrize("outer", SPLITTERS, ids=str)
def test_every_splitter_in_every_other(outer, inner, numbers, n_fits):
    options = {"cv": inner, "return_train_score": True}
    found, expected = both(
        ours.GridSearchCV(Ridge(), ALPHAS, **options),
        sk.GridSearchCV(sk_linear.Ridge(), ALPHAS, **options),
        *numbers,
        cv=outer,
        return_train_score=True,
    )
    assert_same(found, expected, rtol=1e-8, atol=1e-10)
    assert len(n_fits) == 1


@pytest.mark.parametrize("outer", SPLITTERS, ids=str)
def test_splits_inside_name_the_rows_of_a_splitter_on_training_rows(outer, classes):
    X, y = classes
    inners = [*SPLITTERS, sk.StratifiedKFold(3), sk.StratifiedShuffleSplit(2, random_state=0)]
    for split in split_rows(check_splitter(outer, y, classifier=True), X, y, len(y)):
        train = row_indices(split.train)
        for inner in inners:
            cv = check_splitter(inner, y[train], classifier=False)
            *found, whole = splits_inside(
                split, split_rows(cv, X[train], y[train], len(train)), len(y)
            )
            expected = list(sk.check_cv(inner).split(X[train], y[train]))
            assert len(found) == len(expected)
            for own, (fitted, held_out) in zip(found, expected, strict=True):
                for part, rows in ((own.train, fitted), (own.test, held_out)):
                    np.testing.assert_array_equal(np.sort(row_indices(part)), np.sort(train[rows]))
                assert (own.n_train, own.n_test) == (len(fitted), len(held_out))
                if isinstance(own, LabelledSplit):
                    np.testing.assert_array_equal(
                        np.flatnonzero(own.trains), np.sort(train[fitted])
                    )
            np.testing.assert_array_equal(
                np.sort(row_indices(whole.train)), np.sort(row_indices(split.train))
            )
            np.testing.assert_array_equal(
                np.sort(row_indices(whole.test)), np.sort(row_indices(split.test))
            )


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("shuffle", [False, True])
def test_rows_of_any_library(library, shuffle, classes, n_fits):
    X, y = classes
    cv = sk.StratifiedKFold(3, shuffle=shuffle, random_state=0 if shuffle else None)
    pipe = make_pipeline(StandardScaler(), logistic())
    grid = {"logisticregression__C": CS["C"]}
    rows = library.asarray(X), library.asarray(y)
    search = ours.GridSearchCV(pipe, grid, cv=cv)
    found = ours.cross_validate(search, *rows, cv=cv, return_estimator=True)
    theirs = sk_pipeline.make_pipeline(sk_preprocessing.StandardScaler(), their_logistic())
    expected = sk.cross_val_score(sk.GridSearchCV(theirs, grid, cv=cv), X, y, cv=cv)
    np.testing.assert_allclose(found["test_score"], expected)
    assert len(n_fits) == 1
    model = found["estimator"][0].best_estimator_[-1]
    assert str(device_of(model.coef_)) == str(device_of(rows[0]))


WAYS = {
    "probabilities": ({"scoring": "neg_log_loss"}, {}),
    "several metrics": (
        {"scoring": {"a": "accuracy", "loss": "neg_log_loss"}, "refit": "loss"},
        {"scoring": ["accuracy", "f1_macro"]},
    ),
    "own choice": ({"refit": lambda results: int(np.argmin(results["mean_test_score"]))}, {}),
    "groups": ({"cv": sk.GroupKFold(3)}, {"params": {"groups": np.arange(150) % 9}, "cv": 3}),
    "weights": ({}, {"params": {"sample_weight": np.linspace(0.1, 2, 150)}}),
    "own scorer": ({"scoring": lambda model, X, y: (model.predict(X) == y).mean()}, {"cv": 3}),
}


@pytest.mark.parametrize("way", WAYS)
def test_classifiers(way, classes, n_fits):
    inner, outer = ({"cv": 3, **options} for options in WAYS[way])
    found, expected = both(
        ours.GridSearchCV(logistic(), CS, **inner),
        sk.GridSearchCV(their_logistic(), CS, **inner),
        *classes,
        **outer,
    )
    assert_same(found, expected, **CLOSE)
    assert len(n_fits) == 1


def test_metadata_is_routed(classes, n_fits):
    params = {"groups": np.arange(150) % 9, "sample_weight": np.linspace(0.1, 2, 150)}

    def search(module, model):
        scorer = get_scorer("accuracy").set_score_request(sample_weight=True)
        model.set_fit_request(sample_weight=True)
        return module.GridSearchCV(model, CS, cv=sk.GroupKFold(3), scoring=scorer)

    with sklearn.config_context(enable_metadata_routing=True):
        found, expected = both(
            search(ours, logistic()),
            search(sk, their_logistic()),
            *classes,
            params=params,
            cv=sk.GroupKFold(4),
        )
    assert_same(found, expected, **CLOSE)
    assert len(n_fits) == 1


def test_candidates_are_drawn_as_for_each_split(numbers, n_fits):
    draws = {"alpha": uniform(0.1, 10), "fit_intercept": [True, False]}
    options = {"n_iter": 4, "random_state": 0}
    found, expected = both(
        ours.RandomizedSearchCV(Ridge(), draws, **options),
        sk.RandomizedSearchCV(sk_linear.Ridge(), draws, **options),
        *numbers,
    )
    assert_same(found, expected, rtol=1e-8)
    assert len(n_fits) == 1


def test_a_table(n_fits):
    random = np.random.default_rng(0)
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(
        {"size": random.normal(size=120), "kind": random.choice(["a", "b", "c"], size=120)}
    )
    y = X["size"] + (X["kind"] == "b") + random.normal(size=120)
    columns = ColumnTransformer(
        [("n", StandardScaler(), ["size"]), ("k", OneHotEncoder(), ["kind"])]
    )
    grid, options = {"ridge__alpha": [0.1, 10.0]}, {"cv": 2, "return_estimator": True}
    search = ours.GridSearchCV(make_pipeline(columns, Ridge()), grid, cv=2)
    found = ours.cross_validate(search, X, y, **options)
    expected = sk.cross_validate(sk.GridSearchCV(search.estimator, grid, cv=2), X, y, **options)
    assert_same(found, expected, rtol=1e-8)
    assert len(n_fits) == 1
    assert list(found["estimator"][0].feature_names_in_) == ["size", "kind"]


def test_a_class_that_inner_parts_lack(classes):
    options = {"cv": sk.KFold(3)}
    found, expected = both(
        ours.GridSearchCV(logistic(), CS, **options),
        sk.GridSearchCV(their_logistic(), CS, **options),
        *classes,
        cv=sk.KFold(5),
    )
    assert_same(found, expected, **CLOSE)
    text = str(found["estimator"][0].plan_)
    assert "with those of 5 outer splits" in text
    assert "it has no row of class 0" in text


@pytest.mark.parametrize("alphas", [[-1.0, 1.0], [-1.0, -2.0]])
@pytest.mark.parametrize("outer", [np.nan, "raise"])
@pytest.mark.parametrize("inner", [np.nan, "raise"])
def test_what_fails_fails_as_in_scikit_learn(inner, outer, alphas, numbers):
    def heard(module, model):
        search = module.GridSearchCV(model, {"alpha": alphas}, error_score=inner)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                scores = module.cross_val_score(search, *numbers, cv=3, error_score=outer)
                found = scores.round(8).tolist()
            except ValueError as error:
                found = type(error)
        return repr(found), {each.category for each in caught}

    assert heard(ours, Ridge()) == heard(sk, sk_linear.Ridge())


def test_predictions_and_curves_of_searches(numbers, n_fits):
    X, y = numbers
    own, other = ours.GridSearchCV(Ridge(), ALPHAS), sk.GridSearchCV(sk_linear.Ridge(), ALPHAS)
    np.testing.assert_allclose(ours.cross_val_predict(own, X, y), sk.cross_val_predict(other, X, y))
    iris = load_iris(return_X_y=True)
    found, expected = (
        module.cross_val_predict(module.GridSearchCV(model, CS), *iris, method="predict_proba")
        for module, model in ((ours, logistic()), (sk, their_logistic()))
    )
    np.testing.assert_allclose(found, expected, **CLOSE)
    sizes = {"train_sizes": [0.3, 1.0]}
    found, expected = (
        ours.learning_curve(own, X, y, **sizes),
        sk.learning_curve(other, X, y, **sizes),
    )
    np.testing.assert_allclose(found[1:], expected[1:])
    assert len(n_fits) == 3


def test_a_search_of_searches(numbers, n_fits):
    X, y = numbers
    grid = {"estimator__fit_intercept": [True, False]}
    search = ours.GridSearchCV(ours.GridSearchCV(Ridge(), ALPHAS), grid).fit(X, y)
    assert len(n_fits) == 3  # the best one on all rows
    expected = sk.GridSearchCV(sk.GridSearchCV(sk_linear.Ridge(), ALPHAS), grid).fit(X, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], expected.cv_results_[name])
    assert search.best_estimator_.best_params_ == expected.best_estimator_.best_params_
    assert not search.plan_.reasons
    assert "with 75 fits of the searches inside" in str(search.plan_)
    told = ours.GridSearchCV(ours.GridSearchCV(Ridge(), ALPHAS), grid).explain(X, y)
    assert not told.reasons


class Halved(ours.GridSearchCV):
    """Scores in another way than its candidates."""

    def score(self, X, y=None):
        return super().score(X, y) / 2


@pytest.mark.parametrize("changes", [{}, {"refit": "1se"}, {"scoring": "neg_mean_squared_error"}])
def test_scores_alone_are_those_of_searches_that_are_kept(changes, numbers, n_fits):
    X, y = numbers
    search = ours.GridSearchCV(Ridge(), ALPHAS, **changes)
    alone = ours.cross_validate(search, X, y, return_train_score=True)
    kept = ours.cross_validate(search, X, y, return_train_score=True, return_estimator=True)
    halves = ours.cross_val_score(Halved(Ridge(), ALPHAS, **changes), X, y)
    assert len(n_fits) == 3
    for name in ("train_score", "test_score"):
        np.testing.assert_array_equal(alone[name], kept[name])
    found = [
        own.score(X[test], y[test])
        for own, (_, test) in zip(kept["estimator"], sk.KFold().split(X), strict=True)
    ]
    np.testing.assert_allclose(alone["test_score"], found)
    np.testing.assert_allclose(2 * halves, alone["test_score"])


NOT_TOGETHER = {
    "set random_state": ours.RandomizedSearchCV(Ridge(), ALPHAS, n_iter=2),
    "return_predictions=True": ours.GridSearchCV(Ridge(), ALPHAS, return_predictions=True),
    "decides by scores": ours.HalvingGridSearchCV(Ridge(), ALPHAS),
    "from gpuml.model_selection import GridSearchCV": sk.GridSearchCV(Ridge(), ALPHAS),
    "from gpuml.linear_model import Ridge": ours.GridSearchCV(sk_linear.Ridge(), ALPHAS),
    "solver='sag'": ours.GridSearchCV(Ridge(), {"solver": ["sag"]}),
}


@pytest.mark.parametrize("reason", NOT_TOGETHER)
def test_a_search_that_goes_by_itself_says_why(reason, numbers):
    grid = {"error_score": [np.nan]}
    search = ours.GridSearchCV(NOT_TOGETHER[reason], grid, cv=2)
    assert reason in search.explain(*numbers).reasons[0]
    assert reason in search.fit(*numbers).plan_.reasons[0]


BEHIND = {
    "scaler": (lambda m: [m.StandardScaler()], None),
    "image": (lambda m: [m.StandardScaler(), m.PCA(0.9)], None),
    "scaler in search": (lambda m: [m.MaxAbsScaler(), m.PCA(5)], lambda m: [m.StandardScaler()]),
    "choice": (lambda m: [m.SelectKBest(m.f_regression, k=4)], lambda m: [m.PCA(3)]),
    "products": (lambda m: [m.PolynomialFeatures(2), "passthrough", m.StandardScaler()], None),
}


def behind(parts, before, inner, module, model, grid, **options):
    """A search behind other steps."""
    steps = [] if inner is None else inner(parts)
    name = type(model).__name__.lower()
    named = {f"{name}__{n}" if steps else n: values for n, values in grid.items()}
    inside = make_pipeline(*steps, model) if steps else model
    return make_pipeline(*before(parts), module.GridSearchCV(inside, named, **options))


@pytest.mark.each
@pytest.mark.parametrize("inner", INNER, ids=["neighbours", "shuffled", "repeated"])
@pytest.mark.parametrize("outer", SPLITTERS[1:], ids=str)
@pytest.mark.parametrize("steps", BEHIND)
def test_a_search_behind_other_steps(steps, outer, inner, numbers, n_fits):
    """The steps are of outer training parts, and inner splits of what they make of those."""
    options = {"cv": inner, "return_train_score": True}
    own = behind(OUR_STEPS, *BEHIND[steps], ours, Ridge(), ALPHAS, **options)
    other = behind(THEIR_STEPS, *BEHIND[steps], sk, sk_linear.Ridge(), ALPHAS, **options)
    found, expected = both(own, other, *numbers, cv=outer, return_train_score=True)
    assert len(n_fits) == 1
    for one, two in zip(found["estimator"], expected["estimator"], strict=True):
        assert [name for name, _ in one.steps] == [name for name, _ in own.steps]
        np.testing.assert_allclose(one[0].transform(numbers[0]), two[0].transform(numbers[0]))
    last = [{**each, "estimator": [e[-1] for e in each["estimator"]]} for each in (found, expected)]
    assert_same(*last, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        found["estimator"][0].predict(numbers[0]), expected["estimator"][0].predict(numbers[0])
    )


def test_classifiers_behind_other_steps(classes, n_fits):
    pipes = (
        behind(parts, *BEHIND["image"], module, model, CS, scoring="neg_log_loss", cv=3)
        for parts, module, model in (
            (OUR_STEPS, ours, logistic()), (THEIR_STEPS, sk, their_logistic())
        )
    )  # fmt: skip
    own, other = pipes
    found, expected = both(own, other, *classes)
    np.testing.assert_allclose(found["test_score"], expected["test_score"], **CLOSE)
    assert len(n_fits) == 1
    said = ours.cross_val_predict(own, *classes, method="predict_proba")
    np.testing.assert_allclose(
        said, sk.cross_val_predict(other, *classes, method="predict_proba"), rtol=1e-4, atol=1e-6
    )
    # A search of pipelines that end in searches.
    grid = {"pca__n_components": [1, 3]}
    search = ours.GridSearchCV(own, grid).fit(*classes)
    assert not search.plan_.reasons
    assert search.best_params_ == sk.GridSearchCV(other, grid).fit(*classes).best_params_


ALONE_BEHIND = {
    "not one of gpuml's linear steps": [SimpleImputer(), ours.GridSearchCV(Ridge(), ALPHAS)],
    "search over the whole pipeline": [
        ColumnTransformer([("all", StandardScaler(), slice(0, 10))]),
        ours.GridSearchCV(Ridge(), ALPHAS),
    ],
    "scoring of GridSearchCV may use": [
        StandardScaler(),
        ours.GridSearchCV(Ridge(), ALPHAS, scoring=lambda model, X, y: model.score(X, y)),
    ],
    "is not a search of gpuml": [
        StandardScaler(),
        sk.HalvingGridSearchCV(Ridge(), ALPHAS, min_resources=100, random_state=0),
    ],
    "Got -1.0": [StandardScaler(), ours.GridSearchCV(Ridge(), {"alpha": [-1.0, 1.0]})],
}


@pytest.mark.parametrize("reason", ALONE_BEHIND)
@pytest.mark.filterwarnings("ignore")  # of fits that fail
def test_a_search_behind_other_steps_that_goes_by_itself_says_why(reason, numbers):
    pipe = make_pipeline(*ALONE_BEHIND[reason])
    grid = {f"{pipe.steps[-1][0]}__error_score": [np.nan]}
    search = ours.GridSearchCV(pipe, grid, cv=2).fit(*numbers)
    assert reason in str(search.plan_.reasons)
    expected = sk.GridSearchCV(pipe, grid, cv=2).fit(*numbers)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )


def test_a_fit_inside_that_goes_by_itself_behind_other_steps(classes):
    """Then it is none of outer steps, and each outer split is fitted by itself."""
    X, y = classes
    options = {"cv": sk.KFold(3)}
    own, other = (
        behind(parts, *BEHIND["scaler"], module, model, CS, **options)
        for parts, module, model in (
            (OUR_STEPS, ours, logistic()), (THEIR_STEPS, sk, their_logistic())
        )
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = both(own, other, X, y, cv=sk.KFold(5))
    np.testing.assert_allclose(found["test_score"], expected["test_score"], **CLOSE)


def test_a_held_out_part_leaves_no_trace(numbers):
    """Wild values in held-out rows change no inner search of that split."""
    X, y = numbers
    search, cv = ours.GridSearchCV(Ridge(), ALPHAS), sk.KFold(3)
    options = {"cv": cv, "return_estimator": True}
    before = ours.cross_validate(search, X, y, **options)["estimator"]
    for split, (_, test) in enumerate(cv.split(X)):
        wild = X.copy()
        wild[test] = 1e9
        after = ours.cross_validate(search, wild, y, **options)["estimator"][split]
        np.testing.assert_allclose(
            after.cv_results_["mean_test_score"],
            before[split].cv_results_["mean_test_score"],
            rtol=1e-12,
        )
        np.testing.assert_allclose(
            after.best_estimator_.coef_, before[split].best_estimator_.coef_, rtol=1e-9
        )


def fails_for_eight_rows(model, X, y):
    if len(X) == 8:
        raise ValueError("eight rows")
    return float(np.mean(model.predict(X) == y))


@pytest.mark.parametrize("error_score", ["raise", 0.5, np.nan])
def test_only_the_outer_score_scores_outer_rows(error_score, rng):
    """Inner models of outer training sets, some of which lack a class, are scored by the caller."""
    X, y = rng.normal(size=(24, 3)), (np.arange(24) % 5 == 0) + 1 * (np.arange(24) % 8 == 7)
    found = {}
    for module, model in ((ours, RidgeClassifier()), (sk, sk_linear.RidgeClassifier())):
        how = {"cv": sk.KFold(4), "scoring": fails_for_eight_rows, "error_score": error_score}
        search = module.GridSearchCV(model, {"alpha": [0.1, 10.0]}, **how)
        predicted = module.cross_val_predict(search, X, y, cv=sk.KFold(3))
        with pytest.warns(UserWarning, match="eight rows"):
            scores = module.cross_val_score(search, X, y, cv=sk.KFold(3))
        assert np.isnan(scores).all()
        found[module] = predicted
    np.testing.assert_array_equal(found[ours], found[sk])


@pytest.mark.parametrize("steps", [0, 1])
def test_the_estimator_of_an_outer_fit_that_failed_is_returned(steps, classes):
    X, y = classes
    folds = [(np.flatnonzero(y == 0), np.arange(150)), *sk.KFold(2, shuffle=True).split(X)]
    search = ours.GridSearchCV(LogisticRegression(), CS, cv=2)
    whole = make_pipeline(StandardScaler(), search) if steps else search
    for cv in (folds, folds[::-1]):
        with pytest.warns(sklearn.exceptions.FitFailedWarning, match="1 fits failed"):
            found = ours.cross_validate(whole, X, y, cv=cv, return_estimator=True)
        assert [type(each) for each in found["estimator"]] == [type(whole)] * 3
        failed = np.isnan(found["test_score"])
        assert [hasattr(each, "classes_") for each in found["estimator"]] == (~failed).tolist()


def test_weights_that_no_pipeline_takes_are_only_the_error_of_its_fits(numbers):
    X, y = numbers
    search = ours.GridSearchCV(Ridge(), ALPHAS, scoring=lambda model, X, y: model.score(X, y))
    whole = make_pipeline(StandardScaler(), search)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match="Pipeline.fit does not accept the sample_weight"):
            ours.cross_validate(whole, X, y, params={"sample_weight": np.ones(len(y))})
    assert warned == []
