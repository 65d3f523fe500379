"""Ensemble selection: which models to average, and how often each, by hill climbing."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpuml._arrays import Array, move, place_of
from gpuml.ensemble._candidates import Judge, judge_of, stacked

# Scores are equal if they differ by no more than this, relative to the larger of 1 and their size.
ROUNDING = 1e-12


@dataclass(frozen=True)
class EnsembleSelection:
    """Result of `select_ensemble`; arrays are in CPU memory.

    Attributes
    ----------
    weights : ndarray of shape (n_models,)
        Shares of the models in the ensemble; they sum to 1.
    names : tuple of n_models
        Names of the models: the keys if predictions were a dict, otherwise 0, 1, ...
    score : float
        Score of the ensemble, on the rows that it was selected on.
    model_scores : ndarray of shape (n_models,)
        Score of each model alone.
    order : int ndarray of shape (n_bags, n_steps)
        The model that each step added.
    scores : ndarray of shape (n_bags, n_steps)
        The score after each step.
    n_used : int ndarray of shape (n_bags,)
        Number of steps up to the best score; the ensemble consists of the models of these steps.
    """

    weights: np.ndarray
    names: tuple[Any, ...]
    score: float
    model_scores: np.ndarray
    order: np.ndarray
    scores: np.ndarray
    n_used: np.ndarray

    def combine(self, predictions: Any) -> Array:
        """The ensemble's predictions for other rows.

        Parameters
        ----------
        predictions : array, sequence or dict of arrays
            Predictions of the same models, in the form that `select_ensemble` takes.

        Returns
        -------
        prediction : array of shape (n_samples,) or (n_samples, n_outputs)
            In the library and on the device of the predictions.

        Raises
        ------
        ValueError
            If the predictions are of other models.
        """
        P, names = stacked(predictions)
        if names != self.names:
            raise ValueError(f"predictions are from {names}, but the ensemble has {self.names}.")
        place = place_of(P)
        return place.xp.tensordot(move(self.weights, place), P, axes=1)


def select_ensemble(
    predictions: Any,
    y: Any,
    *,
    scoring: Any,
    sample_weight: Any = None,
    n_steps: int = 50,
    n_init: int = 0,
    n_bags: int = 1,
    bag_fraction: float = 0.5,
    random_state: Any = None,
) -> EnsembleSelection:
    r"""Choose models to average by hill climbing, from their predictions of held-out rows.

    An ensemble of t models, which may contain a model several times, predicts the mean
    :math:`\frac{1}{t} \sum_k c_k p_k` of the predictions p with counts c. Each step adds the model
    that gives the best score, and the result is the ensemble with the best score of all steps. All
    candidates of a step are scored together, on the device of the predictions. Scores that are
    functions of residuals ("r2" and mean squared errors) need one pass over the rows for all steps.

    Predictions must be of rows that the models were not fitted to, such as those of
    `sklearn.model_selection.cross_val_predict`. The score of an ensemble is optimistic, because it
    is computed on the rows that the ensemble was selected on; estimate it on other rows.

    Parameters
    ----------
    predictions : array of shape (n_models, n_samples) or (n_models, n_samples, n_outputs)
        Predictions of the models, also as a sequence of arrays, or as a dict from names of models
        to arrays, of any library. For classifiers, pass probabilities: of all classes, or of the
        second of two.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The targets of the predictions.
    scoring : str, scorer or callable
        A name that `gpuml.metrics.get_scorer` knows ("r2", "roc_auc", "neg_log_loss", "accuracy"),
        a scorer of a metric, or a function ``(y_true, prediction) -> float`` whose larger values
        are better. A function is called for one candidate after the other.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows; a function gets them as the keyword argument `sample_weight`.
    n_steps : int, default=50
        Number of models to add.
    n_init : int, default=0
        Number of models to start with: those with the best scores alone.
    n_bags : int, default=1
        If more than 1, select an ensemble from each of so many random sets of models, and average
        the ensembles. This leaves out models that were only lucky on these rows.
    bag_fraction : float in (0, 1], default=0.5
        Share of the models in each set, if `n_bags` is more than 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the sets.

    Returns
    -------
    found : EnsembleSelection
        Weights of the models, and scores. If models or steps have equal scores (to 12 digits), the
        first one is chosen.

    Raises
    ------
    ValueError
        If predictions differ in shape, contain NaN or infinity, or have another number of rows
        than y, or if a score is nan.

    See Also
    --------
    sklearn.ensemble.VotingClassifier : Averages models with given weights.

    References
    ----------
    R. Caruana, A. Niculescu-Mizil, G. Crew, A. Ksikes, "Ensemble selection from libraries of
    models", ICML (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.ensemble import select_ensemble
    >>> y = np.array([0.0, 1.0, 2.0, 3.0])
    >>> predictions = {"low": y - 1, "high": y + 2, "flat": np.ones(4)}
    >>> found = select_ensemble(predictions, y, scoring="r2", n_steps=6)
    >>> found.weights.round(2), round(found.score, 2)
    (array([0.67, 0.33, 0.  ]), 1.0)
    """
    _check_numbers(n_steps, n_init, n_bags, bag_fraction)
    P, names = stacked(predictions)
    judge, n_models = judge_of(scoring, P, y, sample_weight), P.shape[0]
    everyone, none = np.arange(n_models), np.zeros(n_models)
    alone = _scores(judge, none, everyone)
    random = check_random_state(random_state)
    size = n_models if n_bags == 1 else ceil(bag_fraction * n_models)
    climbs, weights = [], none
    for _ in range(n_bags):
        bag = everyone if n_bags == 1 else np.sort(random.permutation(n_models)[:size])
        order, scores = _climb(judge, alone, bag, n_steps, n_init)
        n_used = _first_best(scores) + 1
        climbs.append((order, scores, n_used))
        weights = weights + np.bincount(order[:n_used], minlength=n_models) / n_used / n_bags
    order, scores, n_used = (np.stack(column) for column in zip(*climbs, strict=True))
    score = scores[0, n_used[0] - 1] if n_bags == 1 else _score_of(judge, weights)
    return EnsembleSelection(weights, names, float(score), alone, order, scores, n_used)


def _check_numbers(n_steps, n_init, n_bags, bag_fraction):
    for name, value, least in (
        ("n_steps", n_steps, 1),
        ("n_init", n_init, 0),
        ("n_bags", n_bags, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be an int of at least {least}, got {value!r}.")
    if n_init > n_steps:
        raise ValueError(f"n_init={n_init} is more than n_steps={n_steps}.")
    if not 0 < bag_fraction <= 1:
        raise ValueError(f"bag_fraction must be above 0 and at most 1, got {bag_fraction!r}.")


def _climb(
    judge: Judge, alone: np.ndarray, bag: np.ndarray, n_steps: int, n_init: int
) -> tuple[np.ndarray, np.ndarray]:
    """The models that the steps add, and the score after each step, both (n_steps,)."""
    counts = np.zeros(len(alone))
    first = bag[np.argsort(-alone[bag], kind="stable")[:n_init]]
    order, scores = [], []
    for step in range(n_steps):
        some = first[step : step + 1] if step < len(first) else bag
        found = _scores(judge, counts, some)
        best = _first_best(found)
        counts[some[best]] += 1
        order.append(int(some[best]))
        scores.append(found[best])
    return np.asarray(order), np.asarray(scores)


def _first_best(scores):
    """The first score that equals the largest up to rounding."""
    top = scores.max()
    return int(np.argmax(scores >= top - ROUNDING * max(1.0, abs(top))))


def _scores(judge: Judge, counts: np.ndarray, some: Sequence[int] | np.ndarray) -> np.ndarray:
    found = judge(counts, np.asarray(some))
    if np.isnan(found).any():
        raise ValueError(
            "The score of some predictions is nan. Use another scoring, or leave out these models: "
            f"{np.asarray(some)[np.isnan(found)].tolist()}."
        )
    return found


def _score_of(judge, weights):
    """The score of an ensemble with these weights; the judge adds the first model to the counts."""
    first = int(np.argmax(weights > 0))
    counts = weights / weights[first]
    counts[first] = 0.0
    return _scores(judge, counts, [first])[0]
