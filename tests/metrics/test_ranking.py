"""Laws of metrics that rank, and agreement with slow sums over pairs."""

import itertools

import numpy as np
import pytest

from gpuml._arrays import namespace, to_host
from gpuml.metrics import average_precision_score, roc_auc_score, top_k_accuracy_score
from gpuml.metrics.ranking import Ranking, auc, precision_area

AREAS = [roc_auc_score, average_precision_score]


def problem(rng, n=40, n_distinct=8):
    """Targets, scores with many ties, weights some of which are zero."""
    y = rng.integers(2, size=n)
    y[:2] = 0, 1
    weight = rng.uniform(0.5, 2.0, size=n)
    weight[4::5] = 0.0
    return y, rng.integers(n_distinct, size=n) / n_distinct + 0.2 * y, weight


def slow_auc(y, scores, weight):
    pairs = [
        (weight[i] * weight[j], (scores[i] > scores[j]) + (scores[i] == scores[j]) / 2)
        for i, j in itertools.product(np.flatnonzero(y == 1), np.flatnonzero(y == 0))
    ]
    return sum(w * right for w, right in pairs) / sum(w for w, _ in pairs)


def slow_precision(y, scores, weight):
    score = 0.0
    for t in np.unique(scores):
        chosen, here = scores >= t, scores == t
        if weight[chosen].sum() > 0:
            precision = (weight * y)[chosen].sum() / weight[chosen].sum()
            score += precision * (weight * y)[here].sum() / (weight * y).sum()
    return score


@pytest.mark.parametrize("n_distinct", [1, 2, 8, 10**6])
def test_areas_are_sums_over_pairs(library, rng, n_distinct):
    y, scores, weight = problem(rng, n_distinct=n_distinct)
    arrays = library.asarray(y), library.asarray(scores)
    weights = library.asarray(weight)
    found = roc_auc_score(*arrays, sample_weight=weights)
    np.testing.assert_allclose(found, slow_auc(y, scores, weight), rtol=1e-12)
    found = average_precision_score(*arrays, sample_weight=weights)
    np.testing.assert_allclose(found, slow_precision(y, scores, weight), rtol=1e-12)


def test_models_do_not_mix_where_one_ends_as_the_next_begins(library):
    scores = np.array([[3.0, 2.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
    positive, negative = np.array([1.0, 0, 1, 0]), np.array([0, 1.0, 0, 1])
    arrays = [library.asarray(a) for a in (scores, positive, negative)]
    xp = namespace(*arrays)
    np.testing.assert_allclose(to_host(auc(*arrays, xp)), [0.625, 0.5, 0.5], rtol=1e-12)
    found = to_host(precision_area(*arrays, xp))
    np.testing.assert_allclose(found, [0.75, 0.5, 0.5], rtol=1e-12)


def test_ranks_are_undone(library, rng):
    scores = rng.integers(4, size=(3, 20)) / 4
    xp = namespace(library.asarray(scores))
    ranking = Ranking.of(library.asarray(scores), xp)
    ranked = xp.take_along_axis(library.asarray(scores), ranking.order, axis=-1)
    assert (np.diff(to_host(ranked), axis=-1) <= 0).all()
    np.testing.assert_array_equal(to_host(ranking.unranked(ranked, xp)), scores)


@pytest.mark.parametrize("metric", AREAS)
def test_only_the_order_of_scores_counts(library, rng, metric):
    y, scores, weight = problem(rng)
    weight, y = library.asarray(weight), library.asarray(y)
    expected = metric(y, library.asarray(scores), sample_weight=weight)
    for other in (np.exp(scores), 3 * scores - 7, scores.astype("float32"), scores**3):
        found = metric(y, library.asarray(other), sample_weight=weight)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", AREAS)
@pytest.mark.parametrize("at", [-100.0, 0.5, 100.0])
def test_a_row_of_weight_zero_changes_nothing_wherever_it_stands(library, rng, metric, at):
    y, scores, weight = problem(rng)
    expected = metric(
        *(library.asarray(a) for a in (y, scores)), sample_weight=library.asarray(weight)
    )
    longer = (np.append(y, [0, 1]), np.append(scores, [at, at]), np.append(weight, [0.0, 0.0]))
    y, scores, weight = (library.asarray(a) for a in longer)
    np.testing.assert_allclose(metric(y, scores, sample_weight=weight), expected, rtol=1e-12)


def test_turning_scores_and_classes_around_keeps_the_area(library, rng):
    y, scores, _ = problem(rng)
    found = roc_auc_score(library.asarray(1 - y), library.asarray(-scores))
    expected = roc_auc_score(library.asarray(y), library.asarray(scores))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", AREAS)
def test_a_perfect_ranking(library, metric):
    y, scores = np.array([0, 0, 1, 1]), np.array([-3.0, -0.0, 0.1, 2.0])
    assert metric(library.asarray(y), library.asarray(scores)) == 1.0


def test_positive_and_negative_zero_are_a_tie(library):
    y, scores = np.array([0, 1]), np.array([0.0, -0.0])
    assert roc_auc_score(library.asarray(y), library.asarray(scores)) == 0.5


def test_of_classes_with_equal_scores_the_later_ones_come_first(library):
    y, scores = np.array([0, 1, 2]), np.zeros((3, 3))
    for k in (1, 2):
        found = top_k_accuracy_score(library.asarray(y), library.asarray(scores), k=k)
        np.testing.assert_allclose(found, k / 3, rtol=1e-12)


def test_scores_between_zero_and_one_are_taken_for_probabilities(library):
    y = library.asarray(np.array([0, 1, 1]))
    for scores, expected in (([0.1, 0.4, 0.9], 2 / 3), ([-0.1, 0.4, 0.9], 1.0)):
        found = top_k_accuracy_score(y, library.asarray(np.array(scores)), k=1)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_many_rows_keep_their_digits(library, rng):
    """Sums are of float64, and do not depend on the order of a million rows."""
    n = 200_000
    y = (rng.uniform(size=n) < 0.01).astype(int)
    scores = (rng.normal(size=n) + y).astype("float32")
    order = rng.permutation(n)
    first = roc_auc_score(library.asarray(y), library.asarray(scores))
    second = roc_auc_score(library.asarray(y[order]), library.asarray(scores[order]))
    np.testing.assert_allclose(first, second, rtol=1e-12)
