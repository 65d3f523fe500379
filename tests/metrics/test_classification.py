"""Classification metrics as functions: agreement with scikit-learn on every array library."""

import inspect
import warnings

import numpy as np
import pytest
import sklearn.metrics as sk

import gpuml.metrics
from gpuml._arrays import is_array, is_numpy, namespace, place_of, to_host
from gpuml.metrics import _class_single
from gpuml.metrics._classes import CLASS_METRICS
from gpuml.testing import count_transfers

FUNCTIONS = [
    *(name for name in CLASS_METRICS if not name.endswith("_likelihood_ratio")),
    "class_likelihood_ratios",
    "confusion_matrix",
]
# (metric, number of classes, options)
OF_LABELS = [
    ("accuracy_score", 3, {}),
    ("accuracy_score", 3, {"normalize": False}),
    ("balanced_accuracy_score", 3, {}),
    ("balanced_accuracy_score", 3, {"adjusted": True}),
    ("matthews_corrcoef", 3, {}),
    ("cohen_kappa_score", 4, {"weights": "quadratic"}),
    ("cohen_kappa_score", 4, {"weights": "linear", "labels": [2, 0, 1]}),
    ("class_likelihood_ratios", 2, {}),
    ("class_likelihood_ratios", 2, {"labels": [1, 0], "replace_undefined_by": 1.0}),
    ("confusion_matrix", 3, {}),
    ("confusion_matrix", 3, {"labels": [2, 0], "normalize": "true"}),
    ("precision_score", 2, {}),
    ("precision_score", 2, {"pos_label": 0}),
    ("recall_score", 3, {"average": None}),
    ("f1_score", 3, {"average": "macro", "labels": [0, 2, 7], "zero_division": 1.0}),
    ("f1_score", 3, {"average": "weighted"}),
    ("fbeta_score", 2, {"beta": 0.5}),
    ("fbeta_score", 3, {"beta": 2.0, "average": "macro"}),
    ("jaccard_score", 3, {"average": "micro", "labels": [0, 2]}),
]
OF_SCORES = [
    ("log_loss", 2, {}),
    ("log_loss", 3, {"normalize": False}),
    ("log_loss", 3, {"labels": [0, 1, 2]}),
    ("brier_score_loss", 2, {}),
    ("brier_score_loss", 2, {"pos_label": 0}),
    ("brier_score_loss", 3, {"scale_by_half": True}),
    ("d2_log_loss_score", 2, {}),
    ("d2_log_loss_score", 3, {}),
    ("d2_brier_score", 3, {}),
    ("roc_auc_score", 2, {}),
    ("roc_auc_score", 2, {"max_fpr": 0.3}),
    ("roc_auc_score", 3, {"multi_class": "ovr", "average": "weighted"}),
    ("roc_auc_score", 3, {"multi_class": "ovr", "average": "micro"}),
    ("roc_auc_score", 3, {"multi_class": "ovr", "labels": [0, 1, 2]}),
    ("average_precision_score", 2, {"pos_label": 0}),
    ("average_precision_score", 3, {"average": "micro"}),
    ("top_k_accuracy_score", 2, {"k": 1}),
    ("top_k_accuracy_score", 4, {"k": 3}),
    ("top_k_accuracy_score", 4, {"normalize": False}),
]


def both(name):
    return getattr(gpuml.metrics, name), getattr(sk, name)


def labels_of(rng, k, n_rows=60):
    y = np.concatenate([np.arange(k), rng.integers(k, size=n_rows - k)])
    return y, np.where(rng.uniform(size=n_rows) < 0.6, y, rng.integers(k, size=n_rows))


def probabilities_of(rng, y, k):
    raw = np.exp(np.round(rng.normal(size=(len(y), k)), 1) + (y[:, None] == np.arange(k)))
    proba = raw / raw.sum(axis=1, keepdims=True)
    return proba[:, 1] if k == 2 else proba


def weights_of(rng, n_rows):
    weight = rng.uniform(0.1, 2.0, size=n_rows)
    weight[6::7] = 0.0
    return weight


def check_same(found, expected, place=None):
    if isinstance(expected, np.ndarray):
        assert place is None or place_of(found) == place
        found = to_host(found)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# ---------------------------------------------------------------- against scikit-learn


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_public_and_look_like_those_of_scikit_learn(name):
    ours, theirs = both(name)
    assert name in gpuml.metrics.__all__
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("name", "k", "options"), OF_LABELS)
def test_metrics_of_labels(library, rng, name, k, options, weighted):
    ours, theirs = both(name)
    y, pred = labels_of(rng, k)
    weight = weights_of(rng, len(y)) if weighted else None
    expected = theirs(y, pred, sample_weight=weight, **options)
    pred, weight = library.asarray(pred), None if weight is None else library.asarray(weight)
    for target in (library.asarray(y), y, y.tolist()):  # brought to the predictions
        check_same(ours(target, pred, sample_weight=weight, **options), expected, place_of(pred))


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("name", "k", "options"), OF_SCORES)
def test_metrics_of_scores(library, rng, name, k, options, weighted):
    ours, theirs = both(name)
    y, _ = labels_of(rng, k)
    scores = probabilities_of(rng, y, k)
    weight = weights_of(rng, len(y)) if weighted else None
    expected = theirs(y, scores, sample_weight=weight, **options)
    scores, weight = library.asarray(scores), None if weight is None else library.asarray(weight)
    for target in (library.asarray(y), y):
        found = ours(target, scores, sample_weight=weight, **options)
        assert type(found) is float
        np.testing.assert_allclose(found, expected, rtol=1e-12)


LABELS = {
    "negative": np.array([-3, 5, 8]),
    "far apart": np.array([-(10**6), 7, 10**12]),
    "float": np.array([-1.0, 2.0, 3.0]),
    "int32": np.array([0, 4, 9], dtype="int32"),
    "uint8": np.array([0, 4, 255], dtype="uint8"),
    "bool": np.array([False, True]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_type(library, rng, kind):
    labels = LABELS[kind]
    y, pred = labels_of(rng, len(labels))
    scores = probabilities_of(rng, y, len(labels))
    arrays = library.asarray(labels[y]), library.asarray(labels[pred])
    found = gpuml.metrics.f1_score(*arrays, average="macro")
    np.testing.assert_allclose(found, sk.f1_score(y, pred, average="macro"), rtol=1e-12)
    for normalize in (True, False):
        found = gpuml.metrics.accuracy_score(*arrays, normalize=normalize)
        assert type(found) is float
        assert found == sk.accuracy_score(y, pred, normalize=normalize)
    found = gpuml.metrics.confusion_matrix(*arrays)
    np.testing.assert_array_equal(to_host(found), sk.confusion_matrix(y, pred))
    found = gpuml.metrics.log_loss(arrays[0], library.asarray(scores))
    np.testing.assert_allclose(found, sk.log_loss(y, scores), rtol=1e-12)


def test_several_labels_per_row(library, rng):
    y, pred = (rng.integers(2, size=(20, 3)) for _ in range(2))
    y[0], pred[0] = 1, 1
    for name, options in (
        ("accuracy_score", {}),
        ("f1_score", {"average": "macro"}),
        ("roc_auc_score", {}),
    ):
        ours, theirs = both(name)
        found = ours(library.asarray(y), library.asarray(pred), **options)
        np.testing.assert_allclose(found, theirs(y, pred, **options), rtol=1e-12)


def test_one_score_per_class(library, rng):
    y, _ = labels_of(rng, 3)
    scores = probabilities_of(rng, y, 3)
    options = {"multi_class": "ovr", "average": None}
    found = gpuml.metrics.roc_auc_score(library.asarray(y), library.asarray(scores), **options)
    np.testing.assert_allclose(found, sk.roc_auc_score(y, scores, **options), rtol=1e-12)


def test_labels_that_are_listed_need_not_occur(library, rng):
    y = np.array([0, 2, 2, 0])
    scores = probabilities_of(rng, y, 3)
    for name in ("log_loss", "brier_score_loss", "d2_log_loss_score", "top_k_accuracy_score"):
        ours, theirs = both(name)
        found = ours(library.asarray(y), library.asarray(scores), labels=[0, 1, 2])
        np.testing.assert_allclose(found, theirs(y, scores, labels=[0, 1, 2]), rtol=1e-12)


def test_words_on_the_host(rng):
    words = np.array(["no", "yes"])
    y, pred = (words[a] for a in labels_of(rng, 2))
    found = gpuml.metrics.f1_score(y, pred, pos_label="yes")
    assert found == sk.f1_score(y, pred, pos_label="yes")


def test_the_former_name_of_probabilities():
    with pytest.warns(FutureWarning, match="renamed"):
        found = gpuml.metrics.log_loss([0, 1], y_pred=[0.2, 0.7])
    assert found == sk.log_loss([0, 1], [0.2, 0.7])


# ---------------------------------------------------------------- what scikit-learn says


WRONG = {
    "mixed kinds": ("accuracy_score", [0, 1, 2], [[0, 1], [1, 0], [1, 1]], {}),
    "numbers that are no labels": ("accuracy_score", [0, 1, 2], [0.5, 1.0, 2.0], {}),
    "lengths": ("accuracy_score", [0, 1], [0, 1, 1], {}),
    "weights": ("accuracy_score", [0, 1], [0, 1], {"sample_weight": [np.nan, 1.0]}),
    "weights of zero": ("accuracy_score", [0, 1], [0, 1], {"sample_weight": [0.0, 0.0]}),
    "average": ("f1_score", [0, 1, 2], [0, 1, 1], {}),
    "pos_label": ("f1_score", [0, 2], [0, 2], {}),
    "option": ("f1_score", [0, 1], [0, 1], {"average": "no such average"}),
    "option of scores": ("log_loss", [0, 1], [0.2, 0.3], {"normalize": "yes"}),
    "nan": ("roc_auc_score", [0, 1, 1], [0.2, np.nan, 0.3], {}),
    "no probability": ("log_loss", [0, 1, 1], [0.2, 1.5, 0.3], {}),
    "one class": ("log_loss", [1, 1, 1], [0.2, 0.5, 0.3], {}),
    "columns": ("log_loss", [0, 1, 2], [[0.5, 0.5], [0.4, 0.6], [0.2, 0.8]], {}),
    "multi_class": ("roc_auc_score", [0, 1, 2], np.eye(3), {}),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_those_of_scikit_learn(library, case):
    name, y, pred, options = WRONG[case]
    ours, theirs = both(name)
    with pytest.raises((ValueError, ZeroDivisionError)) as expected:
        theirs(np.asarray(y), np.asarray(pred), **options)
    with pytest.raises(type(expected.value)) as found:
        ours(library.asarray(np.asarray(y)), library.asarray(np.asarray(pred)), **options)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    ("name", "y", "pred"),
    [
        ("precision_score", [0, 1, 1], [0, 0, 0]),
        ("balanced_accuracy_score", [0, 1, 1], [0, 1, 2]),
        ("cohen_kappa_score", [1, 1], [1, 1]),
        ("confusion_matrix", [1, 1], [1, 1]),
        ("class_likelihood_ratios", [0, 1, 1], [0, 1, 1]),
        ("roc_auc_score", [1, 1], [0.2, 0.3]),
        ("top_k_accuracy_score", [0, 1], [0.2, 0.3]),
        ("d2_brier_score", [1], [0.5]),
    ],
)
def test_warnings_are_those_of_scikit_learn(library, name, y, pred):
    ours, theirs = both(name)
    y, pred = np.asarray(y), np.asarray(pred)
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        value = theirs(y, pred)
    with pytest.warns(expected[0].category):
        found = ours(library.asarray(y), library.asarray(pred))
    check_same(found, value)


# ---------------------------------------------------------------- where work is done


def test_rows_stay_where_they_are(library, rng):
    y, pred = labels_of(rng, 3, n_rows=10_000)
    scores = library.asarray(probabilities_of(rng, y, 3))
    y, pred = library.asarray(y), library.asarray(pred)
    if is_numpy(y):
        pytest.skip("the rows are on the host")
    with count_transfers(max_to_host=4096, max_to_device=4096):
        gpuml.metrics.f1_score(y, pred, average="macro")
        gpuml.metrics.log_loss(y, scores)
        gpuml.metrics.roc_auc_score(y, scores, multi_class="ovr")


def test_more_classes_than_pairs_can_be_counted_of(library, rng, monkeypatch):
    monkeypatch.setattr(_class_single, "DENSE_LABELS", 2)
    for most in (2, 100):
        monkeypatch.setattr(_class_single, "MOST_LABELS", most)
        y, pred = labels_of(rng, 12)
        found = gpuml.metrics.accuracy_score(library.asarray(y), library.asarray(pred))
        np.testing.assert_allclose(found, sk.accuracy_score(y, pred), rtol=1e-12)


def test_rows_of_weight_zero_say_which_labels_there_are(library):
    y, pred, weight = np.array([0, 1, 1]), np.array([0, 1, 2]), np.array([1.0, 1.0, 0.0])
    arrays = (library.asarray(a) for a in (y, pred))
    found = gpuml.metrics.confusion_matrix(*arrays, sample_weight=library.asarray(weight))
    assert is_array(found)
    assert namespace(found).isdtype(found.dtype, "real floating")
    np.testing.assert_array_equal(to_host(found), np.diag([1.0, 1.0, 0.0]))
