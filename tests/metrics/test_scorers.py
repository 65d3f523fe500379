"""Scorers: scikit-learn's names, objects and tools, on arrays of every library."""

import copy
import doctest
import inspect
import pickle
import re

import numpy as np
import pytest
import sklearn
import sklearn.metrics as sk
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.linear_model import Ridge as TheirRidge
from sklearn.metrics._scorer import _BaseScorer
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_validate

from gpuml._arrays import device_of, namespace, to_host
from gpuml.linear_model import Ridge
from gpuml.metrics import check_scoring, get_scorer, get_scorer_names, make_scorer, regression
from gpuml.metrics._batched import METRICS
from gpuml.metrics.residuals import residual_moments
from gpuml.metrics.scorer import FUNCTIONS, BatchScorer, ClassBatchScorer, batch_scorer

NAMES = get_scorer_names()
REGRESSION = [name for name in NAMES if sk.get_scorer(name)._score_func.__name__ in METRICS]
OTHERS = [name for name in NAMES if name not in REGRESSION]


class Linear(RegressorMixin, BaseEstimator):
    """Predicts the sum of the features."""

    def fit(self, X, y, sample_weight=None):
        self.is_fitted_ = True
        return self

    def predict(self, X):
        return namespace(X).sum(X, axis=-1)


class Nearest(ClassifierMixin, BaseEstimator):
    """Nearest-centroid classifier that computes, and keeps its classes, where X is."""

    def fit(self, X, y):
        xp = namespace(X)
        self.classes_ = xp.unique_values(y)
        rows = [xp.astype(y == self.classes_[k], X.dtype) for k in range(self.classes_.shape[0])]
        self.centroids_ = xp.stack([w @ X / xp.sum(w) for w in rows])
        return self

    def decision_function(self, X):
        xp = namespace(X)
        scores = -xp.sum((X[:, None, :] - self.centroids_[None, ...]) ** 2, axis=-1)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X):
        xp = namespace(X)
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = xp.stack([xp.zeros_like(scores), scores], axis=-1)
        grown = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return grown / xp.sum(grown, axis=-1, keepdims=True)

    def predict(self, X):
        xp = namespace(X)
        return xp.take(self.classes_, xp.argmax(self.predict_proba(X), axis=-1), axis=0)


class Signs(ClassifierMixin, BaseEstimator):
    """Multilabel classifier: label k where feature k is positive."""

    def fit(self, X, y):
        self.classes_ = namespace(X).arange(y.shape[1], device=device_of(X))
        return self

    def predict(self, X):
        xp = namespace(X)
        return xp.astype(X > 0, xp.int64)


def classification(rng, name):
    """Estimator, features and a target that the scorer of a name is for."""
    X = rng.normal(size=(60, 3))
    noise = rng.normal(size=(60, 3))
    if name.endswith("_samples"):
        X[:, 0], noise[:, 0] = 1.0, 0.0  # every row has a label, and is predicted one
        return Signs(), X, ((X + noise) > 0).astype(int)
    if "_ov" in name or name == "top_k_accuracy":
        y = np.argmax(X + 0.5 * noise, axis=1)
    else:
        y = (X[:, 0] + noise[:, 0] > 0).astype(int)
    return Nearest(), X, y


def regression_problem(rng):
    X = rng.uniform(0.1, 1.0, size=(30, 4))
    return X, X.sum(axis=1) * rng.uniform(0.5, 1.5, size=30)


# ---------------------------------------------------------------- against scikit-learn


def test_names_are_those_of_scikit_learn():
    assert get_scorer_names() == sk.get_scorer_names()
    assert make_scorer is sk.make_scorer


@pytest.mark.parametrize("name", NAMES)
def test_scorers_look_like_those_of_scikit_learn(name):
    found, expected = get_scorer(name), sk.get_scorer(name)
    assert isinstance(found, _BaseScorer)
    assert repr(found) == repr(expected)
    for attribute in ("_sign", "_kwargs", "_response_method"):
        assert getattr(found, attribute) == getattr(expected, attribute)
    assert found._accept_sample_weight() == expected._accept_sample_weight()
    assert found._get_pos_label() == expected._get_pos_label()
    assert get_scorer(name) is not found


@pytest.mark.parametrize("name", REGRESSION)
def test_regression_scorers_agree_with_scikit_learn(library, rng, name):
    X, y = regression_problem(rng)
    expected = sk.get_scorer(name)(Linear(), X, y)
    found = get_scorer(name)(Linear(), library.asarray(X), library.asarray(y))
    assert type(found) is float
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.each
@pytest.mark.parametrize("name", OTHERS)
def test_other_scorers_agree_with_scikit_learn(library, rng, name):
    estimator, X, y = classification(rng, name)
    expected = sk.get_scorer(name)(estimator.fit(X, y), X, y)
    X, y = library.asarray(X), library.asarray(y)
    estimator = clone(estimator).fit(X, y)
    np.testing.assert_allclose(get_scorer(name)(estimator, X, y), expected, rtol=1e-12)
    # scikit-learn caches predictions for several metrics.
    several = check_scoring(estimator, {"once": name, "twice": name})(estimator, X, y)
    np.testing.assert_allclose(list(several.values()), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["accuracy", "roc_auc", "matthews_corrcoef", "neg_log_loss"])
def test_weights_on_a_device_reach_other_scorers(library, rng, name):
    estimator, X, y = classification(rng, name)
    weight = rng.uniform(size=60)
    expected = sk.get_scorer(name)(estimator.fit(X, y), X, y, sample_weight=weight)
    X, y, weight = (library.asarray(a) for a in (X, y, weight))
    estimator = clone(estimator).fit(X, y)
    found = get_scorer(name)(estimator, X, y, sample_weight=weight)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_model_fitted_on_a_device_is_scored_on_the_host(library, rng):
    """The estimator moves rows itself; its classes are elsewhere."""

    class Moving(Nearest):
        def decision_function(self, X):
            return super().decision_function(library.asarray(X))

    _, X, y = classification(rng, "roc_auc")
    expected = sk.get_scorer("roc_auc")(Nearest().fit(X, y), X, y)
    estimator = Moving().fit(library.asarray(X), library.asarray(y))
    np.testing.assert_allclose(get_scorer("roc_auc")(estimator, X, y), expected, rtol=1e-12)


def test_labels_may_be_strings_and_the_positive_one_be_named():
    X, y = load_breast_cancer(return_X_y=True)
    y = np.array(["bad", "good"])[y]
    model = LogisticRegression(max_iter=10_000, C=1e-3).fit(X[:, :2], y)
    for name in ("accuracy", "roc_auc", "f1_macro", "neg_log_loss"):
        expected = sk.get_scorer(name)(model, X[:, :2], y)
        assert get_scorer(name)(model, X[:, :2], y) == expected
    with pytest.raises(ValueError, match="pos_label=1 is not a valid label"):
        get_scorer("f1")(model, X[:, :2], y)


@pytest.mark.parametrize("name", ["neg_mean_squared_error", "r2", "neg_median_absolute_error"])
def test_regression_and_other_scorers_share_predictions(library, rng, name):
    _, X, y = classification(rng, "accuracy")
    expected = sk.check_scoring(None, ["accuracy", name])(Nearest().fit(X, y), X, y)
    X, y = library.asarray(X), library.asarray(y)
    estimator = Nearest().fit(X, y)
    estimator.classes_ = to_host(estimator.classes_)  # for the scorer that reads it as it is
    estimator.predict = lambda X: library.asarray(Nearest.predict(on_host, to_host(X)))
    on_host = Nearest().fit(to_host(X), to_host(y))
    estimator.predict.__name__ = "predict"
    for order in (["accuracy", name], [name, "accuracy"]):
        found = check_scoring(estimator, order)(estimator, X, y)
        assert found == pytest.approx(expected, rel=1e-12)


def test_an_estimator_without_the_method_is_named(library):
    X = library.asarray(np.ones((2, 1)))
    with pytest.raises(AttributeError, match="Linear has none of the following attributes"):
        get_scorer("roc_auc")(Linear(), X, library.asarray(np.array([0, 1])))


# ---------------------------------------------------------------- scikit-learn's tools


@pytest.mark.parametrize("name", FUNCTIONS)
def test_metrics_are_pickled_by_name_and_describe_what_they_take(name):
    metric = FUNCTIONS[name]
    assert pickle.loads(pickle.dumps(metric)) is metric
    text = inspect.getdoc(metric)
    if name.endswith("likelihood_ratio"):
        return  # for scorers alone
    described = re.findall(r"^(\w+(?:, \w+)*) : ", text.split("Returns")[0], re.M)
    assert ", ".join(described).split(", ") == list(inspect.signature(metric).parameters)
    assert [f"{name}(" in text, f"import {name}" in text] == [True, True]
    row = METRICS.get(name)
    if row is not None:
        assert ("one row" in text) == bool(row.needs_two_rows)
        assert ("n_outputs" in text) == (not row.single_target)
        assert ("outside the metric's domain" in text) == (row.domain is not None)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if not n.endswith("likelihood_ratio")])
def test_examples_of_metrics_print_what_they_say(name):
    example = doctest.DocTestParser().get_doctest(FUNCTIONS[name].__doc__, {}, name, None, 0)
    assert doctest.DocTestRunner(verbose=False).run(example) == (0, len(example.examples))
    assert len(example.examples) >= 2


def test_wrong_arguments_of_a_metric_are_named():
    with pytest.raises(TypeError, match=r"r2_score\(\): missing a required argument: 'y_pred'"):
        FUNCTIONS["r2_score"]([1.0])
    with pytest.raises(TypeError, match=r"f1_score\(\): .*unexpected keyword argument 'averages'"):
        FUNCTIONS["f1_score"]([1], [1], averages="macro")


@pytest.mark.parametrize("name", NAMES)
def test_scorers_can_be_pickled_cloned_and_copied(rng, name):
    scorer = get_scorer(name)
    if name in REGRESSION:
        estimator, (X, y) = Linear(), regression_problem(rng)
    else:
        estimator, X, y = classification(rng, name)
    estimator.fit(X, y)
    copies = (pickle.loads(pickle.dumps(scorer)), clone(scorer, safe=False), copy.deepcopy(scorer))
    for other in copies:
        assert repr(other) == repr(scorer)
        assert other(estimator, X, y) == scorer(estimator, X, y)


@pytest.mark.parametrize("name", ["r2", "accuracy", "roc_auc"])
def test_metadata_can_be_requested(name):
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer(name).set_score_request(sample_weight="rows")
        again = pickle.loads(pickle.dumps(scorer))
        for one in (scorer, again):
            assert one.get_metadata_routing().score.requests["sample_weight"] == "rows"
        expected = sk.get_scorer(name).get_metadata_routing()
        assert str(get_scorer(name).get_metadata_routing()) == str(expected)


def test_routed_weights_change_the_score(rng):
    X, y = regression_problem(rng)
    weight = rng.uniform(size=30)
    with sklearn.config_context(enable_metadata_routing=True):
        results = [
            cross_validate(
                TheirRidge().set_fit_request(sample_weight=True),
                X,
                y,
                params={"sample_weight": weight},
                scoring=get("r2").set_score_request(sample_weight=True),
            )["test_score"]
            for get in (get_scorer, sk.get_scorer)
        ]
    np.testing.assert_allclose(*results, rtol=1e-12)


def test_scorers_work_inside_the_searches_of_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    grid = {"alpha": [0.1, 1.0, 10.0]}
    names = ["r2", "neg_mean_absolute_error", "neg_median_absolute_error"]
    results = [
        GridSearchCV(TheirRidge(), grid, scoring=scoring, refit=names[0]).fit(X, y).cv_results_
        for scoring in ({name: get_scorer(name) for name in names}, names)
    ]
    for name in names:
        found, expected = (result[f"mean_test_{name}"] for result in results)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_scorers_work_inside_the_cross_validation_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    names = ["roc_auc", "accuracy", "f1", "neg_log_loss"]
    model = LogisticRegression(C=1e-3, max_iter=10_000)
    ours, theirs = (
        cross_validate(model, X[:, :3], y, cv=3, scoring={n: get(n) for n in names})
        for get in (get_scorer, sk.get_scorer)
    )
    for name in names:
        np.testing.assert_array_equal(ours[f"test_{name}"], theirs[f"test_{name}"])


def test_scorers_tune_thresholds():
    X, y = load_breast_cancer(return_X_y=True)
    model = LogisticRegression(C=1e-3, max_iter=10_000)
    found, expected = (
        TunedThresholdClassifierCV(model, scoring=get("balanced_accuracy"), cv=2)
        .fit(X[:, :3], y)
        .best_threshold_
        for get in (get_scorer, sk.get_scorer)
    )
    assert found == expected


# ---------------------------------------------------------------- check_scoring


def test_check_scoring_has_the_signature_of_scikit_learn():
    ours, theirs = (inspect.signature(f).parameters for f in (check_scoring, sk.check_scoring))
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize("kind", [list, tuple, set])
def test_several_names_give_scores_by_name(library, rng, kind):
    X, y = regression_problem(rng)
    scorer = check_scoring(Linear(), kind(["r2", "neg_max_error"]))
    assert type(scorer) is type(sk.check_scoring(Linear(), ["r2"]))
    found = scorer(Linear(), library.asarray(X), library.asarray(y))
    expected = sk.check_scoring(Linear(), ["r2", "neg_max_error"])(Linear(), X, y)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_dict_may_mix_names_and_callables(rng):
    X, y = regression_problem(rng)

    def mine(estimator, X, y):
        return 7.0

    found = check_scoring(Linear(), {"a": "r2", "b": mine, "c": get_scorer("r2")})(Linear(), X, y)
    assert found["a"] == found["c"] == pytest.approx(sk.get_scorer("r2")(Linear(), X, y))
    assert found["b"] == 7.0


def test_a_failing_score_may_be_told_in_words(library, rng):
    X, y = regression_problem(rng)
    scorer = check_scoring(Linear(), ["r2", "neg_mean_squared_log_error"], raise_exc=False)
    scores = scorer(Linear(), library.asarray(X), library.asarray(y - 10.0))
    assert isinstance(scores["r2"], float)
    assert "ValueError" in scores["neg_mean_squared_log_error"]


def test_no_scoring_is_the_score_of_the_estimator(rng):
    X, y = regression_problem(rng)
    assert check_scoring(Linear())(Linear(), X, y) == Linear().score(X, y)
    assert check_scoring(BaseEstimator.__new__(Fittable), allow_none=True) is None


class Fittable(BaseEstimator):
    def fit(self, X, y):
        return self


def test_callables_are_passed_on():
    def mine(estimator, X, y):
        return 1.0

    theirs = sk.get_scorer("r2")
    for scorer in (mine, theirs, get_scorer("accuracy")):
        assert get_scorer(scorer) is scorer
        assert check_scoring(Linear(), scorer) is scorer
    assert get_scorer(None) is None


WRONG = {
    "name": "no_such_score",
    "one of several names": ["r2", "no_such_score"],
    "one in a dict": {"a": "no_such_score"},
    "duplicates": ["r2", "r2"],
    "empty list": [],
    "empty dict": {},
    "callable in a list": [len, "r2"],
    "number in a list": [1, "r2"],
    "list in a list": [["r2"]],
    "number as a key": {1: "r2"},
    "number": 3,
    "metric of scikit-learn": sk.r2_score,
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_scoring_raises_what_scikit_learn_raises(case):
    with pytest.raises(ValueError) as expected:  # noqa: PT011 - the message is compared below
        sk.check_scoring(Linear(), WRONG[case])
    with pytest.raises(type(expected.value)) as found:
        check_scoring(Linear(), WRONG[case])
    assert str(found.value).split("{")[0] == str(expected.value).split("{")[0]


def test_a_name_that_is_none_raises_what_scikit_learn_raises():
    with pytest.raises(ValueError, match="'no_such_score' is not a valid scoring value"):
        get_scorer("no_such_score")


@pytest.mark.parametrize("scoring", [regression.r2_score, {"a": regression.max_error}])
def test_a_metric_is_not_a_scorer(scoring):
    with pytest.raises(ValueError, match="looks like it is a metric function"):
        check_scoring(Linear(), scoring)


def test_an_estimator_that_cannot_be_scored_is_named():
    with pytest.raises(TypeError, match="should have a 'score' method"):
        check_scoring(Fittable())


# ---------------------------------------------------------------- many models at once


@pytest.mark.pairwise
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("whose", [regression, sk], ids=["ours", "theirs"])
def test_batches_are_scored_as_models_are(library, rng, name, sign, whose):
    scorer = make_scorer(getattr(whose, name), greater_is_better=sign > 0)
    X, y = regression_problem(rng)
    preds = np.stack([Linear().predict(X), y**1.2])
    batched = batch_scorer(scorer)
    arrays = library.asarray(y), library.asarray(preds), None
    expected = [sign * getattr(sk, name)(y, pred) for pred in preds]
    found = to_host(batched.from_predictions(*arrays))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert batched.uses_moments == METRICS[name].uses_moments
    if batched.uses_moments:
        found = to_host(batched.from_moments(residual_moments(*arrays)))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert pickle.loads(pickle.dumps(batched)) == batched


@pytest.mark.parametrize("name", NAMES)
def test_names_of_one_label_per_row_have_a_batched_form_and_no_other_has(name):
    is_of_clusters = type(get_scorer(name)).__name__ == "_HostScorer"
    for scorer in (get_scorer(name), sk.get_scorer(name)):
        batched = batch_scorer(scorer)
        assert (batched is None) == (is_of_clusters or name.endswith("_samples"))
        assert isinstance(batched, BatchScorer) == (name in REGRESSION)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mean_pinball_loss", {"alpha": 0.1}),
        ("d2_pinball_score", {"alpha": 0.9}),
        ("mean_tweedie_deviance", {"power": 1.5}),
        ("r2_score", {"multioutput": "variance_weighted", "force_finite": False}),
        ("mean_squared_error", {"multioutput": [0.3, 0.7]}),
    ],
)
def test_options_of_a_scorer_are_honoured(rng, name, options):
    shape = (2, 20) if METRICS[name].single_target else (2, 20, 2)
    y, pred = rng.uniform(0.5, 2.0, size=shape)
    batched = batch_scorer(make_scorer(getattr(sk, name), **options))
    found = batched.from_predictions(y, pred[None], None)
    np.testing.assert_allclose(found, [getattr(sk, name)(y, pred, **options)], rtol=1e-12)


@pytest.mark.parametrize(
    "scorer",
    [
        make_scorer(sk.r2_score, multioutput="raw_values"),
        make_scorer(sk.r2_score, multioutput="no such average"),
        make_scorer(sk.mean_squared_error, sample_weight=np.ones(3)),
        make_scorer(sk.mean_poisson_deviance, power=3),
        make_scorer(sk.mean_pinball_loss, alpha=7),
        make_scorer(sk.r2_score, response_method="predict_proba"),
        make_scorer(lambda y, pred: 0.0),
        get_scorer("f1_samples"),
        get_scorer("rand_score"),
        sk.r2_score,
        None,
    ],
    ids=lambda scorer: str(scorer).partition(" at 0x")[0],
)
def test_what_has_no_batched_form_is_scored_model_by_model(scorer):
    assert batch_scorer(scorer) is None


def test_a_function_of_the_same_name_is_not_taken_for_the_metric():
    def r2_score(y_true, y_pred):
        return 0.0

    assert batch_scorer(make_scorer(r2_score)) is None


class Own(Ridge):
    def score(self, X, y, sample_weight=None):
        return 0.0


@pytest.mark.parametrize(
    ("estimator", "metric"),
    [
        (Linear(), "r2_score"),
        (LinearRegression(), "r2_score"),
        (Ridge(), "r2_score"),
        (LogisticRegression(), "accuracy_score"),
        (Own(), None),
        (DummyClassifier(), None),
    ],
    ids=str,
)
def test_the_score_of_an_estimator_is_known_only_where_that_is_certain(estimator, metric):
    batched = batch_scorer(check_scoring(estimator))
    assert getattr(batched, "metric", None) == metric
    if metric is not None:
        assert batched.sign == 1.0


def test_an_estimator_may_say_what_its_score_is():
    class Said(Own):
        multifit_score = "accuracy"

        def score(self, X, y, sample_weight=None):
            return 1.0

    batched = batch_scorer(check_scoring(Said()))
    assert batched == ClassBatchScorer("accuracy_score", 1.0, {}, "labels")
