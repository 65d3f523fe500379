"""Curves, predictions of held-out rows and permutation tests are scikit-learn's, many at a time."""

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model as sk_linear
import sklearn.model_selection as sk
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.naive_bayes import GaussianNB as TheirNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

import gpuml.model_selection as ours
from gpuml._arrays import HOST, device_of
from gpuml._sklearn import InvalidParameterError
from gpuml.feature_selection import SelectKBest, f_regression
from gpuml.linear_model import Lasso, LogisticRegression, Ridge
from gpuml.model_selection.evaluate import Evaluator
from gpuml.naive_bayes import GaussianNB
from gpuml.preprocessing import StandardScaler
from gpuml.solvers.resampled import ORDERS_AT_ONCE, permuted_rows
from gpuml.testing import array_libraries

ALPHAS = [0.01, 1.0, 100.0]
SPLITTERS = [
    3,
    sk.KFold(4, shuffle=True, random_state=0),
    sk.ShuffleSplit(4, random_state=1),
    sk.TimeSeriesSplit(3),
    sk.RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
]
PARTITIONS = [3, sk.KFold(4, shuffle=True, random_state=0), sk.GroupKFold(3)]


@pytest.fixture(scope="module")
def numbers():
    return load_diabetes(return_X_y=True)


@pytest.fixture
def n_fits(monkeypatch):
    """How often candidates were fitted together."""
    found = []
    real = Evaluator._fit_together
    monkeypatch.setattr(Evaluator, "_fit_together", lambda *args: found.append(args) or real(*args))
    return found


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("cv", SPLITTERS, ids=str)
def test_validation_curves(library, cv, numbers, n_fits):
    X, y = numbers
    options = {"param_name": "alpha", "param_range": ALPHAS, "cv": cv}
    rows = library.asarray(X), library.asarray(y)
    found = ours.validation_curve(Ridge(), *rows, **options)
    expected = sk.validation_curve(sk_linear.Ridge(), X, y, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert len(n_fits) == 1


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("cv", SPLITTERS, ids=str)
def test_learning_curves(library, cv, numbers, n_fits):
    X, y = numbers
    for options in ({}, {"train_sizes": [20, 40, 90]}, {"shuffle": True, "random_state": 0}):
        rows = library.asarray(X), library.asarray(y)
        found = ours.learning_curve(Ridge(), *rows, cv=cv, **options)
        expected = sk.learning_curve(sk_linear.Ridge(), X, y, cv=cv, **options)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-8, atol=1e-10)
    assert len(n_fits) == 3


@pytest.mark.parametrize("shuffle", [False, True])
def test_learning_curves_of_training_parts_of_other_sizes(shuffle, numbers, n_fits):
    """Sizes are of the first part; smaller ones have all their rows."""
    X, y = numbers
    groups = np.repeat(np.arange(5), [40, 150, 100, 100, 52])
    options = {"cv": sk.LeaveOneGroupOut(), "groups": groups, "shuffle": shuffle, "random_state": 0}
    found = ours.learning_curve(Ridge(), X, y, **options)
    expected = sk.learning_curve(sk_linear.Ridge(), X, y, **options)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-8)
    assert len(n_fits) == 1


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("options", [{}, {"shuffle": True, "random_state": 0}], ids=str)
def test_learning_curves_of_models_that_go_on(library, options):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    options = {**options, "exploit_incremental_learning": True, "train_sizes": [0.3, 0.5, 1.0]}
    options |= {"return_times": True, "cv": sk.KFold(3, shuffle=True, random_state=0)}
    rows = library.asarray(X), library.asarray(y)
    params = {"sample_weight": library.asarray(weight)}
    found = ours.learning_curve(GaussianNB(), *rows, params=params, **options)
    params = {"sample_weight": weight}
    expected = sk.learning_curve(TheirNB(), X, y, params=params, **options)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1:3], expected[1:3])
    assert len(found) == 5
    assert len(ours.learning_curve(GaussianNB(), *rows, return_times=True)) == 5
    with pytest.raises(ValueError, match="partial_fit"):
        ours.learning_curve(Ridge(), *rows, exploit_incremental_learning=True)


def test_rows_that_splits_name_on_a_device_stay_there(monkeypatch):
    torch = pytest.importorskip("torch")
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    expected = ours.learning_curve(GaussianNB(), X[order], y[order])

    def refuse(*args, **kwargs):  # as tensors of a GPU do
        raise TypeError("implicit conversion")

    rows = torch.asarray(X[order]), torch.asarray(y[order])
    monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    found = ours.learning_curve(GaussianNB(), *rows)  # a warning would say: one by one
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other)


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
@pytest.mark.parametrize("cv", PARTITIONS, ids=str)
def test_predictions_of_held_out_rows(library, method, cv):
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).normal(size=X.shape)
    groups = np.arange(len(y)) % 7
    model = LogisticRegression(tol=1e-10)
    rows = library.asarray(X), library.asarray(y)
    options = {"cv": cv, "method": method}
    if isinstance(cv, sk.GroupKFold):
        options["groups"] = groups
    found = ours.cross_val_predict(model, *rows, **options)
    assert device_of(found) == device_of(rows[0])
    theirs = sk_linear.LogisticRegression(tol=1e-10, max_iter=10_000)
    expected = sk.cross_val_predict(theirs, X, y, **options)
    np.testing.assert_allclose(library.to_numpy(found), expected, rtol=1e-4, atol=1e-5)


def test_predictions_where_a_training_part_lacks_a_class():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    with pytest.warns(RuntimeWarning, match="Number of classes in training fold|one by one"):
        found = ours.cross_val_predict(
            GaussianNB(), X, names, cv=sk.KFold(3), method="predict_proba"
        )
    assert (found[:50, 0] == 0.0).all()
    with pytest.raises(ValueError, match="only works for partitions"):
        ours.cross_val_predict(GaussianNB(), X, names, cv=sk.ShuffleSplit(3))


PERMUTED = [
    (Ridge(), sk_linear.Ridge(), {}),
    (Ridge(alpha=0.1), sk_linear.Ridge(alpha=0.1), {"scoring": "neg_mean_absolute_error"}),
    (Lasso(alpha=0.1), sk_linear.Lasso(alpha=0.1, tol=1e-12), {"cv": sk.KFold(3)}),
    (
        make_pipeline(StandardScaler(), Ridge()),
        make_pipeline(StandardScaler(), sk_linear.Ridge()),
        {"scoring": "neg_mean_squared_error", "cv": SPLITTERS[2]},
    ),
    (
        make_pipeline(SelectKBest(f_regression, k=3), Ridge()),
        make_pipeline(SelectKBest(f_regression, k=3), sk_linear.Ridge()),
        {},
    ),
]


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize(("model", "theirs", "options"), PERMUTED, ids=range(len(PERMUTED)))
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_permutations(library, model, theirs, options, grouped, numbers):
    X, y = numbers
    more = {**options, "groups": np.arange(len(y)) % 5} if grouped else options
    more = {**more, "n_permutations": 6, "random_state": 3}
    rows = library.asarray(X), library.asarray(y)
    score, permuted, pvalue = ours.permutation_test_score(model, *rows, **more)
    expected = sk.permutation_test_score(theirs, X, y, **more)
    assert [type(each) for each in (score, permuted, pvalue)] == [type(each) for each in expected]
    np.testing.assert_allclose(score, expected[0], rtol=1e-8)
    np.testing.assert_allclose(permuted, expected[1], rtol=1e-7)
    assert pvalue == expected[2]


@pytest.mark.parametrize("kind", [list, pd.Series])
def test_groups_of_permutations_may_be_in_any_container(kind, numbers):
    X, y = numbers
    groups, options = np.arange(len(y)) % 5, {"cv": sk.GroupKFold(3), "n_permutations": 3}
    found = ours.permutation_test_score(Ridge(), X, y, groups=kind(groups), **options)
    expected = sk.permutation_test_score(sk_linear.Ridge(), X, y, groups=groups, **options)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-7)


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored by KFold")  # as scikit-learn's
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    "model", [Ridge(), DecisionTreeRegressor(max_depth=2, random_state=0)], ids=["", "tree"]
)
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_permutations_of_a_generator_are_those_of_any_library(library, model, grouped, numbers):
    X, y = numbers
    groups = np.arange(len(y)) % 5 if grouped else None
    rows = (X, y) if isinstance(model, DecisionTreeRegressor) else map(library.asarray, (X, y))
    score, permuted, _ = ours.permutation_test_score(
        model, *rows, n_permutations=3, groups=groups, random_state=np.random.default_rng(7)
    )
    seed = int(np.random.default_rng(7).integers(2**63 - 1))
    orders = permuted_rows(len(y), range(1, 4), seed, HOST, groups)
    theirs = sk_linear.Ridge() if isinstance(model, Ridge) else model
    expected = [sk.cross_val_score(theirs, X, y[order]).mean() for order in orders]
    np.testing.assert_allclose(permuted, expected, rtol=1e-7)
    np.testing.assert_allclose(score, sk.cross_val_score(theirs, X, y).mean(), rtol=1e-8)
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(len(y)))
        assert groups is None or np.array_equal(groups[order], groups)


def test_all_orders_of_a_generator_are_as_likely():
    found = np.concatenate(
        [
            permuted_rows(4, range(n, n + ORDERS_AT_ONCE), 11, HOST)
            for n in range(0, 2400, ORDERS_AT_ONCE)
        ]
    )
    assert found.shape == (2400, 4)
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert np.sum((counts - 100) ** 2 / 100) < 49.7  # chi squared of 23 degrees, p = 0.001


def test_more_orders_than_keys_have_room_for_are_refused():
    with pytest.raises(ValueError, match="At most 8 orders"):
        permuted_rows(4, range(9), 11, HOST)


@pytest.mark.parametrize("steps", [(), (StandardScaler(),)], ids=["", "scaled"])
def test_scores_of_permutations_have_no_weights_of_fits(steps, numbers):
    X, y = numbers
    weight = np.random.default_rng(0).uniform(0.1, 2.0, len(y))
    name = "ridge__sample_weight" if steps else "sample_weight"
    options = {"n_permutations": 5, "params": {name: weight}}
    (found, expected) = (
        module.permutation_test_score(
            make_pipeline(*steps, model) if steps else model, X, y, **options
        )
        for module, model in ((ours, Ridge()), (sk, sk_linear.Ridge()))
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-8)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8)


def test_targets_are_columns_where_models_of_each_are_its_own(numbers, n_fits):
    X, y = numbers
    ours.permutation_test_score(Ridge(), X, y, n_permutations=20)
    assert len(n_fits) == 1
    # The selection looks at the targets, all of them.
    ours.permutation_test_score(PERMUTED[-1][0], X, y, n_permutations=3)
    assert len(n_fits) == 1 + 4


@pytest.mark.parametrize("cv", [3, sk.KFold(3, shuffle=True), sk.StratifiedKFold(3)], ids=str)
def test_splits_that_depend_on_labels_are_those_of_the_permuted_ones(cv):
    X, y = load_iris(return_X_y=True)
    if isinstance(cv, sk.KFold):
        cv.random_state = np.random.RandomState(0)
    found = ours.permutation_test_score(GaussianNB(), X, y, cv=cv, n_permutations=5)
    if isinstance(cv, sk.KFold):
        cv.random_state = np.random.RandomState(0)
    expected = sk.permutation_test_score(GaussianNB(), X, y, cv=cv, n_permutations=5)
    np.testing.assert_allclose(found[1], expected[1])
    np.testing.assert_allclose(found[0], expected[0])


def scores_and_models(module, tree, cv, _, X, y, **options):
    found = module.cross_validate(tree, X, y, cv=cv, return_estimator=True, **options)
    return found["test_score"], *(model.predict(X) for model in found["estimator"])


DRAWING = {
    "validation": scores_and_models,
    "validation with indices": partial(scores_and_models, return_indices=True),
    "scores of a pipeline": lambda module, tree, cv, _, X, y: (
        module.cross_val_score(make_pipeline(StandardScaler(), tree), X, y, cv=cv),
    ),
    "predictions": lambda module, tree, cv, _, X, y: (
        module.cross_val_predict(tree, X, y, cv=cv) if cv.get_n_splits() == 3 else np.zeros(1),
    ),
    "validation curve": lambda module, tree, cv, _, X, y: module.validation_curve(
        tree, X, y, param_name="max_depth", param_range=[2, 5], cv=cv
    ),
    "grid": lambda module, tree, cv, _, X, y: module.GridSearchCV(
        tree, {"max_depth": [2, 5]}, cv=cv
    ).fit(X, y),
    "randomized": lambda module, tree, cv, generator, X, y: module.RandomizedSearchCV(
        tree, {"max_depth": range(1, 9)}, n_iter=2, cv=cv, random_state=generator
    ).fit(X, y),
    "learning curve": lambda module, tree, cv, generator, X, y: module.learning_curve(
        tree, X, y, cv=cv, shuffle=True, random_state=generator
    ),
    "permutations": lambda module, tree, cv, generator, X, y: module.permutation_test_score(
        tree, X, y, cv=cv, n_permutations=3, random_state=generator
    ),
}


# Some draw all splits at once, others one after the other.
SHUFFLING = {
    "KFold": partial(sk.KFold, 3, shuffle=True),
    "StratifiedKFold": partial(sk.StratifiedKFold, 3, shuffle=True),
    "RepeatedKFold": partial(sk.RepeatedKFold, n_splits=2, n_repeats=2),
    "ShuffleSplit": partial(sk.ShuffleSplit, 4),
    "StratifiedShuffleSplit": partial(sk.StratifiedShuffleSplit, 4),
}


@pytest.mark.parametrize("together", [False, True], ids=["apart", "shared"])
@pytest.mark.parametrize("kind", SHUFFLING.values(), ids=SHUFFLING)
@pytest.mark.parametrize("name", DRAWING)
def test_generators_are_drawn_from_in_scikit_learns_order(name, kind, together):
    X, y = load_iris(return_X_y=True)
    found = []
    for module in (ours, sk):
        own = [np.random.RandomState(seed) for seed in (3, 4, 5)]
        own = [own[0]] * 3 if together else own
        tree = DecisionTreeRegressor(max_features=1, random_state=own[0])
        said = DRAWING[name](module, tree, kind(random_state=own[1]), own[2], X, y)
        if not isinstance(said, tuple):
            said = said.cv_results_["mean_test_score"], said.predict(X)
        found.append([*said, *(generator.random_sample() for generator in own)])
    for each, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-12)


def test_what_is_refused(numbers):
    X, y = numbers
    with pytest.raises(ValueError, match="train_sizes has been interpreted as fractions"):
        ours.learning_curve(Ridge(), X, y, train_sizes=[0.5, 2.0])
    with pytest.raises(ValueError, match="param_name"):
        ours.validation_curve(Ridge(), X, y, param_name=3, param_range=[1])
    with pytest.raises(ValueError, match="Invalid parameter 'no_such'"):
        ours.validation_curve(Ridge(), X, y, param_name="no_such", param_range=[1])
    with pytest.raises(ValueError, match="alpha"):
        ours.cross_val_predict(Ridge(alpha=-1), X, y)
    with pytest.raises(InvalidParameterError, match="n_permutations"):
        ours.permutation_test_score(Ridge(), X, y, n_permutations=0)


@pytest.mark.parametrize("error_score", [np.nan, -1.0])
@pytest.mark.parametrize("values", [[-1.0, 1.0], [-1.0, -2.0]])
def test_a_curve_of_failed_fits_is_one_of_error_scores(values, error_score, numbers):
    options = {"param_name": "alpha", "param_range": values, "error_score": error_score}
    with pytest.warns(FitFailedWarning, match="fits failed"):
        found = ours.validation_curve(Ridge(), *numbers, **options)
    expected = sk.validation_curve(sk_linear.Ridge(), *numbers, **options)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("learning_curve", {"train_sizes": [1.0]}),
        ("validation_curve", {"param_name": "alpha", "param_range": [1.0]}),
        ("permutation_test_score", {"n_permutations": 1}),
        ("bootstrap_score", {"n_resamples": 2}),
        ("cross_val_score", {}),
        ("cross_validate", {"scoring": {"several": lambda *_: {"a": 1.0}}}),
    ],
)
def test_several_scores_are_refused_where_one_is_needed(name, options, numbers):
    X, y = numbers
    with pytest.raises(ValueError, match="scoring must return a number, got {'a': 1.0}"):
        getattr(ours, name)(Ridge(), X, y, **{"scoring": lambda *_: {"a": 1.0}, **options})


@pytest.mark.parametrize("wrong", ["scoring", "estimator"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("learning_curve", {"error_score": "raise"}),
        ("validation_curve", {"param_name": "tol", "param_range": [1.0], "error_score": "raise"}),
        ("permutation_test_score", {"n_permutations": 2}),
        ("bootstrap_score", {"n_resamples": 2}),
    ],
)
def test_values_that_are_not_allowed_raise_scikit_learns_error(name, options, wrong, numbers):
    X, y = numbers
    estimator, scoring = LogisticRegression(), "accuracy"
    if wrong == "estimator":
        estimator.C = -1.0
    else:
        scoring = "no_such_scorer"
    with pytest.raises(InvalidParameterError, match="The '(C|scoring)' parameter of"):
        getattr(ours, name)(estimator, X, y > y.mean(), scoring=scoring, **options)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["cross_validate", "cross_val_score", "validation_curve"])
def test_lines_of_fits_tell_no_place_as_those_of_scikit_learn(name, shared, rng, capsys):
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    given = {"param_name": "max_depth", "param_range": [1, 2]} if name == "validation_curve" else {}
    printed = []
    for package in (sk, ours):
        random = np.random.RandomState(0)
        model = DecisionTreeRegressor(random_state=random)
        cv = sk.KFold(3, shuffle=True, random_state=random if shared else 0)
        getattr(package, name)(model, X, y, cv=cv, verbose=10, **given)
        lines = capsys.readouterr().out.splitlines()
        fits = [line for line in lines if line.startswith("[CV")]
        printed.append(sorted(re.sub(r"\.\.+|total time=.*", " ", line) for line in fits))
    assert printed[0] == printed[1]
    plan = f"plan: {len(fits) // 2} fits (one by one)"  # a fit has two lines
    assert [line for line in lines if line.startswith("plan:")] == [plan]
