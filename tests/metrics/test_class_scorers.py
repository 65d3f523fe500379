"""Scores of many classifiers at once: agreement with scikit-learn's scorers model by model, laws."""

import math
import pickle
import warnings

import numpy as np
import pytest
import sklearn.metrics as sk
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import UndefinedMetricWarning

import gpuml.metrics
from gpuml._arrays import device_of, namespace, to_host
from gpuml.metrics import _classes, _confusion, get_scorer, make_scorer
from gpuml.metrics.scorer import ClassBatchScorer, batch_scorer

NAMES = [
    n for n in sk.get_scorer_names() if isinstance(batch_scorer(get_scorer(n)), ClassBatchScorer)
]
CLASSES = {
    "binary": np.array([0, 1]),
    "signs": np.array([-1, 1]),
    "two words": np.array(["no", "yes"]),
    "three": np.array([0, 1, 2]),
    "five words": np.array(list("abcde")),
}
AVERAGED = ("precision_score", "recall_score", "f1_score", "jaccard_score")
PROBA = ("predict_proba",)
BOTH = ("decision_function", "predict_proba")

# (metric, options, response method) that the names of scikit-learn do not cover.
OPTIONS = [
    ("accuracy_score", {"normalize": False}, "predict"),
    ("balanced_accuracy_score", {"adjusted": True}, "predict"),
    ("cohen_kappa_score", {}, "predict"),
    ("cohen_kappa_score", {"weights": "linear"}, "predict"),
    ("cohen_kappa_score", {"weights": "quadratic", "labels": [2, 0, 1]}, "predict"),
    ("cohen_kappa_score", {"labels": [1, 0]}, "predict"),
    *((name, {"pos_label": 0}, "predict") for name in AVERAGED),
    *((name, {"average": "macro", "labels": [1, 0]}, "predict") for name in AVERAGED),
    *((name, {"average": "micro", "labels": [1]}, "predict") for name in AVERAGED),
    *((name, {"average": "weighted", "labels": [0]}, "predict") for name in AVERAGED),
    *(("fbeta_score", {"beta": b, "average": "macro"}, "predict") for b in (0.0, 0.5, 2, math.inf)),
    ("fbeta_score", {"beta": 2.0}, "predict"),
    ("log_loss", {"normalize": False}, PROBA),
    ("brier_score_loss", {"pos_label": 0}, "predict_proba"),
    ("brier_score_loss", {"scale_by_half": False}, "predict_proba"),
    ("brier_score_loss", {"scale_by_half": True}, "predict_proba"),
    ("d2_brier_score", {"pos_label": 0}, "predict_proba"),
    ("average_precision_score", {"pos_label": 0}, BOTH),
    ("average_precision_score", {"pos_label": 0}, "predict_proba"),
    *(("average_precision_score", {"average": a}, BOTH) for a in ("micro", "weighted")),
    ("roc_auc_score", {"multi_class": "ovr", "average": "micro"}, "predict_proba"),
    ("roc_auc_score", {}, "predict_proba"),
    ("top_k_accuracy_score", {"k": 1}, BOTH),
    ("top_k_accuracy_score", {"k": 1}, PROBA),
    ("top_k_accuracy_score", {"k": 2, "normalize": False}, BOTH),
]


class Says(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose responses are given."""

    def __init__(self, classes, labels, proba, decision):
        self.classes_ = classes
        self.labels = labels
        self.proba = proba
        self.decision = decision

    def fit(self, X, y):
        return self

    def predict(self, X):
        if isinstance(self.classes_, np.ndarray):
            return self.classes_[self.labels]
        return namespace(self.labels).take(self.classes_, self.labels)

    def predict_proba(self, X):
        return self.proba

    def decision_function(self, X):
        return self.decision


def problem(rng, k, n_models=3, n_rows=80):
    """Codes of imbalanced classes; labels, probabilities and decisions of models, with ties."""
    share = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    y = np.concatenate([np.arange(k), rng.choice(k, size=n_rows - k, p=share)])
    raw = np.round(rng.normal(size=(n_models, n_rows, k)), 1) + (y[:, None] == np.arange(k))
    proba = np.exp(raw) / np.exp(raw).sum(axis=-1, keepdims=True)
    decision = raw if k > 2 else raw[..., 1] - raw[..., 0]
    return y, {"labels": raw.argmax(axis=-1), "probability": proba, "decision": decision}


def weights_of(rng, n_rows):
    weight = rng.uniform(0.1, 2.0, size=n_rows)
    weight[6::7] = 0.0
    return weight


def model_by_model(scorer, y, said, classes, weight=None):
    """What scikit-learn's scorer gives for each model, or the error it raises."""
    weights = weight is not None and scorer._accept_sample_weight()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            scorer(
                Says(classes, *(said[r][c] for r in ("labels", "probability", "decision"))),
                np.zeros((len(y), 1)),
                classes[y],
                **({"sample_weight": weight} if weights else {}),
            )
            for c in range(len(said["labels"]))
        ]


def at_once(scorer, y, said, classes, weight=None, asarray=np.asarray):
    batched = batch_scorer(scorer)
    weight = None if weight is None else asarray(weight)
    found = batched.from_responses(asarray(y), asarray(said[batched.response]), weight, classes)
    assert found.dtype == namespace(found).float64
    return to_host(found)


def check_agreement(scorer, y, said, classes, weight, asarray):
    """The batch gives what the models give; or both refuse."""
    try:
        expected = model_by_model(scorer, y, said, classes, weight)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - the words are those of scikit-learn
            at_once(scorer, y, said, classes, weight, asarray)
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        found = at_once(scorer, y, said, classes, weight, asarray)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    return True


# ---------------------------------------------------------------- against scikit-learn


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("name", NAMES)
def test_names_agree_with_scikit_learn(library, rng, name, kind, weighted):
    classes = CLASSES[kind]
    y, said = problem(rng, len(classes))
    weight = weights_of(rng, len(y)) if weighted else None
    check_agreement(sk.get_scorer(name), y, said, classes, weight, library.asarray)


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("kind", ["binary", "three"])
@pytest.mark.parametrize(("name", "options", "response"), OPTIONS)
def test_options_agree_with_scikit_learn(library, rng, name, options, response, kind, weighted):
    classes = CLASSES[kind]
    if max(options.get("labels", [0])) >= len(classes):
        pytest.skip("labels that do not occur are scored model by model")
    y, said = problem(rng, len(classes))
    weight = weights_of(rng, len(y)) if weighted else None
    scorer = make_scorer(getattr(sk, name), response_method=response, **options)
    check_agreement(scorer, y, said, classes, weight, library.asarray)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_defined_for_one_of_the_problems(rng, name):
    """Or agreement would be agreement to refuse."""
    defined = [
        check_agreement(sk.get_scorer(name), *problem(rng, len(c)), c, None, np.asarray)
        for c in CLASSES.values()
    ]
    assert any(defined)


@pytest.mark.parametrize("pos_label", ["no", "yes"])
@pytest.mark.parametrize("name", [*AVERAGED, "brier_score_loss", "average_precision_score"])
def test_the_positive_class_may_be_either_word(rng, name, pos_label):
    y, said = problem(rng, 2)
    if name in AVERAGED:
        responses = ["predict"]
    else:
        responses = ["predict_proba"] if name == "brier_score_loss" else ["predict_proba", BOTH]
    for response in responses:
        scorer = make_scorer(getattr(sk, name), response_method=response, pos_label=pos_label)
        assert check_agreement(scorer, y, said, CLASSES["two words"], None, np.asarray)


@pytest.mark.pairwise
@pytest.mark.parametrize("zero_division", ["warn", 0, 1, np.nan])
@pytest.mark.parametrize("average", ["binary", "macro", "micro", "weighted"])
@pytest.mark.parametrize("name", AVERAGED)
def test_classes_nobody_predicts(library, rng, name, average, zero_division):
    if name == "jaccard_score" and np.isnan(zero_division if zero_division != "warn" else 0):
        pytest.skip("scikit-learn does not take it")
    y, said = problem(rng, 2 if average == "binary" else 3)
    said["labels"] = np.zeros_like(said["labels"])
    said["labels"][1] = np.arange(len(y)) % 2
    classes = np.arange(y.max() + 1)
    scorer = make_scorer(getattr(sk, name), average=average, zero_division=zero_division)
    assert check_agreement(scorer, y, said, classes, None, library.asarray)


def test_models_that_predict_one_class(library, rng):
    y, said = problem(rng, 3)
    said["labels"] = np.ones_like(said["labels"])
    for name in ("matthews_corrcoef", "balanced_accuracy", "accuracy"):
        weight = weights_of(rng, len(y))
        assert check_agreement(sk.get_scorer(name), y, said, np.arange(3), weight, library.asarray)


@pytest.mark.each
@pytest.mark.parametrize("name", NAMES)
def test_float32_responses_are_summed_in_float64(library, rng, name):
    y, said = problem(rng, 2 if "_ov" not in name else 3)
    narrow = {key: a.astype("float32") if key != "labels" else a for key, a in said.items()}
    scorer, classes = sk.get_scorer(name), np.arange(y.max() + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        found = at_once(scorer, y, narrow, classes, asarray=library.asarray)
    wide = {key: a.astype("float64") if key != "labels" else a for key, a in narrow.items()}
    expected = model_by_model(scorer, y, wide, classes)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_probabilities_are_clipped_by_the_precision_of_their_type(library):
    y, classes = np.array([0, 1, 1]), np.array([0, 1])
    scorer = sk.get_scorer("neg_log_loss")
    for dtype in ("float64", "float32"):
        p = np.array([[0.0, 1.0, 0.0]], dtype=dtype)
        said = {"labels": [0], "decision": [0], "probability": np.stack([1 - p, p], axis=-1)}
        expected = model_by_model(scorer, y, said, classes)
        found = at_once(scorer, y, said, classes, asarray=library.asarray)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


# ---------------------------------------------------------------- laws


LAWS = [pytest.param(name, 3 if "_ov" in name else 2, id=name) for name in NAMES]


@pytest.mark.parametrize(("name", "k"), LAWS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_a_batch_is_its_models_one_by_one(library, rng, monkeypatch, name, k):
    y, said = problem(rng, k, n_models=5)
    expected = [
        at_once(get_scorer(name), y, {key: a[c : c + 1] for key, a in said.items()}, np.arange(k))
        for c in range(5)
    ]
    # Two models at a time, and rows in blocks.
    monkeypatch.setattr(_classes, "WORK_BYTES", 2 * 8 * _classes.COPIES * 2 * (80 + k**2))
    monkeypatch.setattr(_confusion, "BLOCK_BYTES", 1000)
    found = at_once(get_scorer(name), y, said, np.arange(k), asarray=library.asarray)
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("name", "k"), LAWS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_equal_models_tie(rng, name, k, weighted):
    y, said = problem(rng, k, n_models=1)
    weight = rng.uniform(0.1, 3.0, size=len(y)) if weighted and "_ovo" not in name else None
    alike = {key: np.repeat(a, 7, axis=0) for key, a in said.items()}
    found = at_once(get_scorer(name), y, alike, np.arange(k), weight)
    np.testing.assert_array_equal(found, found[0])


@pytest.mark.parametrize(("name", "k"), LAWS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_the_order_of_rows_is_of_no_consequence(library, rng, name, k):
    y, said = problem(rng, k)
    order = rng.permutation(len(y))
    other = {key: a[:, order, ...] for key, a in said.items()}
    expected = at_once(get_scorer(name), y, said, np.arange(k), asarray=library.asarray)
    found = at_once(get_scorer(name), y[order], other, np.arange(k), asarray=library.asarray)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "k"), LAWS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_weight_two_is_a_row_twice_and_weight_zero_is_none(library, rng, name, k):
    if "_ovo" in name or "likelihood" in name:
        pytest.skip("takes no weights")
    y, said = problem(rng, k)
    times = rng.integers(0, 3, size=len(y))
    times[:k] = 1
    rows = np.repeat(np.arange(len(y)), times)
    repeated = {key: a[:, rows, ...] for key, a in said.items()}
    expected = at_once(get_scorer(name), y[rows], repeated, np.arange(k), asarray=library.asarray)
    found = at_once(get_scorer(name), y, said, np.arange(k), times, library.asarray)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_weights_are_passed_over_where_there_are_none(rng):
    y, said = problem(rng, 2)
    scorer = get_scorer("positive_likelihood_ratio")
    found = at_once(scorer, y, said, np.arange(2), weights_of(rng, len(y)))
    np.testing.assert_array_equal(found, at_once(scorer, y, said, np.arange(2)))


@pytest.mark.parametrize("k", [2, 3, 100])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_confusion_matrices(library, rng, k, weighted):
    y, pred = rng.integers(k, size=300), rng.integers(k, size=(3, 300))
    weight = rng.uniform(size=300) if weighted else None
    expected = [sk.confusion_matrix(y, p, labels=np.arange(k), sample_weight=weight) for p in pred]
    y, pred = library.asarray(y), library.asarray(pred)
    weight = None if weight is None else library.asarray(weight)
    found = _confusion.confusion_matrices(y, pred, weight, k, namespace(y))
    assert device_of(found) == device_of(y)
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-12)


# ---------------------------------------------------------------- warnings and refusals


def test_one_warning_is_given_for_all_models(rng):
    y, said = problem(rng, 3)
    said["labels"] = np.zeros_like(said["labels"])
    with pytest.warns(UndefinedMetricWarning, match="Precision is ill-defined") as caught:
        at_once(get_scorer("precision_macro"), y, said, np.arange(3))
    assert len(caught) == 1
    silent = make_scorer(sk.precision_score, average="macro", zero_division=0)
    assert len(at_once(silent, y, said, np.arange(3))) == 3


def test_warnings_of_scikit_learn_are_given(rng):
    y, said = problem(rng, 2)
    with pytest.warns(UndefinedMetricWarning, match="k=2 is no less"):
        at_once(get_scorer("top_k_accuracy"), y, said, np.arange(2))
    y, said = problem(rng, 3)
    said["probability"][1, 4] *= 0.9
    with pytest.warns(UserWarning, match="do not sum to one"):
        at_once(get_scorer("neg_log_loss"), y, said, np.arange(3))
    said["labels"], y = np.ones((2, 4), dtype=int), np.array([0, 0, 1, 1])
    with pytest.warns(UndefinedMetricWarning, match="likelihood ratio is ill-defined"):
        found = at_once(get_scorer("neg_negative_likelihood_ratio"), y, said, np.arange(2))
    np.testing.assert_array_equal(found, [-1.0, -1.0])


@pytest.mark.pairwise
@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
@pytest.mark.parametrize(
    "name", ["neg_log_loss", "neg_brier_score", "roc_auc_ovr", "d2_brier_score"]
)
def test_what_is_no_probability_is_refused(library, rng, name, bad):
    y, said = problem(rng, 3)
    said["probability"][1, 5, 2] = bad
    with pytest.raises(ValueError, match="nan or infinity|below 0|sum to 1"):
        at_once(get_scorer(name), y, said, np.arange(3), asarray=library.asarray)


REFUSED = {
    "binary average": ("f1", 3, {}),
    "likelihood ratio": ("positive_likelihood_ratio", 3, {}),
    "plain ROC AUC": ("roc_auc", 3, {}),
    "weights with ovo": ("roc_auc_ovo", 3, {"weight": np.ones(80)}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_defined_for_a_problem_is_refused(rng, case):
    name, k, options = REFUSED[case]
    y, said = problem(rng, k)
    with pytest.raises(ValueError):  # noqa: PT011 - scikit-learn's error is what users see
        at_once(get_scorer(name), y, said, np.arange(k), **options)


@pytest.mark.parametrize("name", ["f1", "precision", "average_precision", "neg_brier_score"])
def test_a_positive_label_that_is_no_class_is_refused(rng, name):
    y, said = problem(rng, 2)
    with pytest.raises(ValueError, match="pos_label"):
        at_once(get_scorer(name), y, said, CLASSES["two words"])


# ---------------------------------------------------------------- recognition


@pytest.mark.parametrize("name", NAMES)
def test_scorers_of_either_library_are_recognised(name):
    ours, theirs = (batch_scorer(get(name)) for get in (get_scorer, sk.get_scorer))
    assert ours == theirs == pickle.loads(pickle.dumps(ours))
    assert (ours.sign, ours.options) == (get_scorer(name)._sign, get_scorer(name)._kwargs)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("decision_function", "decision"),
        (("decision_function", "predict_proba"), "decision"),
        (["predict_proba"], "probability"),
        ("predict_proba", "probability"),
        ("predict", None),
    ],
)
@pytest.mark.parametrize("whose", [gpuml.metrics, sk], ids=["ours", "theirs"])
def test_the_first_response_method_decides(whose, response, expected):
    scorer = make_scorer(whose.roc_auc_score, response_method=response)
    assert getattr(batch_scorer(scorer), "response", None) == expected


@pytest.mark.parametrize(
    "scorer",
    [
        make_scorer(sk.f1_score, average=None),
        make_scorer(sk.f1_score, average="samples"),
        make_scorer(sk.f1_score, average="no such average"),
        make_scorer(sk.f1_score, beta=2),
        make_scorer(sk.zero_one_loss),
        make_scorer(sk.accuracy_score, response_method="predict_proba"),
        make_scorer(sk.accuracy_score, sample_weight=np.ones(3)),
        make_scorer(sk.log_loss),
        make_scorer(sk.log_loss, response_method="decision_function"),
        make_scorer(sk.top_k_accuracy_score, response_method="predict_proba", k=0),
        make_scorer(sk.hamming_loss),
        make_scorer(sk.class_likelihood_ratios),
    ],
    ids=str,
)
def test_what_is_not_recognised(scorer):
    assert batch_scorer(scorer) is None


def test_options_without_a_default_have_to_be_given(rng):
    y, said = problem(rng, 2)
    with pytest.raises(ValueError, match="needs a value for beta"):
        at_once(make_scorer(sk.fbeta_score), y, said, CLASSES["binary"])
