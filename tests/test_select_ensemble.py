"""Each step adds the model that is best to add, however it is scored and wherever predictions are."""

import numpy as np
import pytest
from sklearn import metrics as sk

from gpuml.ensemble import select_ensemble
from gpuml.metrics import make_scorer
from gpuml.testing import array_libraries

N_MODELS, N_STEPS = 7, 8


def regressions(rng, n_targets=None):
    shape = (60,) if n_targets is None else (60, n_targets)
    y = rng.normal(size=shape)
    P = y + rng.normal(size=(N_MODELS, *shape)) + 0.3 * rng.normal(size=(N_MODELS, *shape[:0]))[0]
    return P, y, rng.random(60)


def classes(rng, k):
    y = rng.integers(0, k, 90)
    raw = rng.gamma(1.0, size=(N_MODELS, 90, k)) + 0.7 * (y[:, None] == np.arange(k))
    return raw / raw.sum(axis=-1, keepdims=True), y, rng.random(90)


def naive(P, score):
    """Counts of models after each step, and scores, by trying each in turn."""
    chosen, order, scores = [], [], []
    for _ in range(N_STEPS):
        found = np.array([score(P[[*chosen, j]].mean(axis=0)) for j in range(len(P))])
        chosen.append(int(np.argmax(found >= found.max() - 1e-12)))
        order.append(chosen[-1])
        scores.append(found[chosen[-1]])
    return order, scores


def labelled(metric):
    return lambda y, p, **options: metric(y, p.argmax(axis=1), **options)


CASES = {
    "r2": ("regression", sk.r2_score),
    "neg_root_mean_squared_error": (
        "regression",
        lambda *a, **k: -sk.root_mean_squared_error(*a, **k),
    ),
    "neg_mean_absolute_error": ("regression", lambda *a, **k: -sk.mean_absolute_error(*a, **k)),
    "explained_variance": ("targets", sk.explained_variance_score),
    "roc_auc": ("binary", lambda y, p, **k: sk.roc_auc_score(y, p[:, 1], **k)),
    "neg_log_loss": ("several", lambda *a, **k: -sk.log_loss(*a, **k)),
    "accuracy": ("several", labelled(sk.accuracy_score)),
    "roc_auc_ovr": ("several", lambda y, p, **k: sk.roc_auc_score(y, p, multi_class="ovr", **k)),
}


def data_of(kind, rng):
    if kind == "regression":
        return regressions(rng)
    if kind == "targets":
        return regressions(rng, 2)
    return classes(rng, 2 if kind == "binary" else 3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scoring", CASES)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.each
def test_each_step_is_the_best_of_all(library, scoring, weighted, rng):
    kind, metric = CASES[scoring]
    P, y, weight = data_of(kind, rng)
    options = {"sample_weight": weight} if weighted else {}
    order, scores = naive(P, lambda p: metric(y, p, **options))
    there = {name: library.asarray(a) for name, a in options.items()}
    found = select_ensemble(
        library.asarray(P), library.asarray(y), scoring=scoring, n_steps=N_STEPS, **there
    )
    np.testing.assert_allclose(found.scores[0], scores, rtol=1e-9)
    if scoring != "accuracy":  # where rounding decides on labels of equal probability
        assert found.order[0].tolist() == order
    assert found.weights.sum() == pytest.approx(1.0)
    mixed = found.combine(library.asarray(P))
    assert type(mixed) is type(library.asarray(P))
    mean = np.tensordot(found.weights, P, axes=1)
    assert found.score == pytest.approx(metric(y, mean, **options), rel=1e-9)
    assert found.score >= found.model_scores.max()


def test_weights_are_repetitions(rng):
    P, y, _ = regressions(rng)
    times = rng.integers(0, 3, 60)
    for scoring in ("r2", "neg_mean_absolute_error"):
        weighted = select_ensemble(P, y, scoring=scoring, sample_weight=times, n_steps=N_STEPS)
        many = np.repeat(P, times, axis=1), np.repeat(y, times)
        repeated = select_ensemble(*many, scoring=scoring, n_steps=N_STEPS)
        np.testing.assert_array_equal(weighted.order, repeated.order)
        np.testing.assert_allclose(weighted.scores, repeated.scores, rtol=1e-10)


def test_names_binary_probabilities_strings_and_functions(rng):
    P, y, _ = classes(rng, 2)
    names = [f"m{j}" for j in range(N_MODELS)]
    labels = np.array(["no", "yes"])[y]
    full = select_ensemble(dict(zip(names, P, strict=True)), labels, scoring="roc_auc", n_steps=5)
    second = select_ensemble(list(P[:, :, 1]), y, scoring="roc_auc", n_steps=5)
    own = select_ensemble(P[:, :, 1], y, scoring=sk.roc_auc_score, n_steps=5)
    assert full.names == tuple(names)
    for found in (second, own):
        np.testing.assert_allclose(found.scores, full.scores)
    with pytest.raises(ValueError, match="the ensemble has"):
        full.combine(P)
    tuned = make_scorer(sk.fbeta_score, beta=2.0)
    assert select_ensemble(P, y, scoring=tuned, n_steps=3).score > 0.5


def test_it_starts_with_the_best_and_ties_go_to_the_first(rng):
    P, y, _ = regressions(rng)
    found = select_ensemble(P, y, scoring="r2", n_steps=6, n_init=3)
    assert found.order[0, :3].tolist() == np.argsort(-found.model_scores)[:3].tolist()
    twins = np.concatenate([P, P])
    for scoring in ("r2", "neg_mean_absolute_error"):
        found = select_ensemble(twins, y, scoring=scoring, n_steps=N_STEPS)
        assert (found.order < N_MODELS).all()
    # A model that nothing improves is alone, however many steps are taken.
    perfect = select_ensemble(np.stack([P[0], y]), y, scoring="r2", n_steps=4)
    assert perfect.weights.tolist() == [0.0, 1.0]
    assert perfect.n_used.tolist() == [1]


def test_bags_are_averaged(rng):
    P, y, _ = regressions(rng)
    options = {"scoring": "neg_mean_absolute_error", "n_steps": 8, "n_bags": 5}
    found, again = (select_ensemble(P, y, **options, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(found.order, again.order)
    assert all(len(np.unique(order)) <= 4 for order in found.order)
    each = [
        np.bincount(order[:n], minlength=N_MODELS) / n
        for order, n in zip(found.order, found.n_used, strict=True)
    ]
    np.testing.assert_allclose(found.weights, np.mean(each, axis=0))
    mixed = np.tensordot(found.weights, P, axes=1)
    assert found.score == pytest.approx(-sk.mean_absolute_error(y, mixed))


BAD = [
    ({"n_steps": 0}, "n_steps"),
    ({"n_init": 60}, "n_init=60"),
    ({"bag_fraction": 0}, "bag_fraction"),
    ({"scoring": "adjusted_rand_score"}, "cannot score predictions"),
    ({"sample_weight": np.ones(3)}, "sample_weight has 3 rows"),
    ({"scoring": None}, "scoring must be a name"),
    ({"y": None}, "y must be the targets"),
]


@pytest.mark.parametrize(("options", "words"), BAD)
def test_what_cannot_be_is_said(options, words, rng):
    P, y, _ = regressions(rng)
    with pytest.raises(ValueError, match=words):
        select_ensemble(P, **{"y": y, "scoring": "r2", **options})


def test_predictions_that_cannot_be_are_refused(rng):
    P, y, _ = regressions(rng)
    with pytest.raises(ValueError, match="one shape"):
        select_ensemble([P[0], P[1][:-1]], y, scoring="r2")
    with pytest.raises(ValueError, match="NaN or infinity"):
        select_ensemble(np.where(P > 2, np.nan, P), y, scoring="r2")
    with pytest.raises(ValueError, match="must be"):
        select_ensemble(P[0], y, scoring="r2")
    P, y, _ = classes(rng, 3)
    with pytest.raises(ValueError, match="3 classes"):
        select_ensemble(P[:, :, 0], y, scoring="accuracy")
