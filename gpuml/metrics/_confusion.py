"""Weighted confusion matrices of many models, and the metrics that are functions of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from gpuml._arrays import Array, device_of, place_of
from gpuml._arrays.ops import any_true, constant
from gpuml.metrics._problem import Problem

# Workspace of a block of rows.
BLOCK_BYTES = 2**27
# Up to here a product with indicators is cheap, and its order of summation is always the same.
# GPUs add weights to bins in any order, so that equal models could get scores that differ.
PRODUCT_CLASSES = 64


def confusion_matrices(y: Array, pred: Array, weight: Array | None, k: int, xp: Any) -> Array:
    """Sums of weights by true and predicted class: float64 (C, k, k) of codes (m,) and (C, m)."""
    count = _counter(y, weight, k)
    n_models, n_rows = pred.shape
    row_bytes = n_models * (24 if count is _by_bins else 16 * k)
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    total = None
    for start in range(0, max(n_rows, 1), step):
        rows = slice(start, min(start + step, n_rows))
        part = count(y[rows], pred[:, rows], None if weight is None else weight[rows], k, xp)
        total = part if total is None else total + part
    return total


def _counter(y, weight, k):
    kind = place_of(y).kind
    adds_in_order = kind == "numpy" or weight is None
    if kind == "array_api_strict" or not (adds_in_order or k > PRODUCT_CLASSES):
        return _by_products
    return _by_bins


def _by_bins(y, pred, weight, k, xp):
    n_models = pred.shape[0]
    offsets = k * k * xp.arange(n_models, dtype=xp.int64, device=device_of(pred))
    bins = offsets[:, None] + (k * y + pred)  # (C, b)
    if weight is not None:
        weight = xp.reshape(xp.broadcast_to(weight, bins.shape), (-1,))
    counts = xp.bincount(xp.reshape(bins, (-1,)), weights=weight, minlength=n_models * k * k)
    return xp.reshape(xp.astype(counts, xp.float64), (n_models, k, k))


def _by_products(y, pred, weight, k, xp):
    codes = xp.arange(k, dtype=xp.int64, device=device_of(pred))
    truth = xp.astype(y[:, None] == codes, xp.float64)  # (b, k)
    if weight is not None:
        truth = truth * weight[:, None]
    guess = xp.astype(pred[:, None, :] == codes[:, None], xp.float64)  # (C, k, b)
    return xp.matrix_transpose(guess @ truth)


def from_confusion(kernel):
    """A kernel ``(confusion (C, k, k), problem, options)`` as one of problems."""

    def of_problem(problem, options):
        matrices = problem.confusion
        if matrices is None:
            k, xp = problem.n_classes, problem.xp
            matrices = confusion_matrices(problem.y, problem.response, problem.weight, k, xp)
        # Scores that are not defined are put right afterwards.
        with np.errstate(divide="ignore", invalid="ignore"):
            return kernel(matrices, problem, options)

    return of_problem


def accuracy(problem: Problem, options: Mapping[str, Any]) -> Array:
    """Share, or weight, of rows that are predicted right; needs no matrix."""
    hits = problem.xp.astype(problem.response == problem.y, problem.xp.float64)
    return problem.average(hits, normalize=options["normalize"])


def balanced_accuracy(confusion, problem, options):
    """Mean of the recalls of all classes."""
    xp, k = problem.xp, problem.n_classes
    score = xp.mean(_diagonal(confusion, xp) / xp.sum(confusion, axis=-1), axis=-1)
    return (score - 1 / k) / (1 - 1 / k) if options["adjusted"] else score


def matthews(confusion, problem, options):
    """Correlation of true and predicted classes."""
    xp = problem.xp
    true, predicted = xp.sum(confusion, axis=-1), xp.sum(confusion, axis=-2)
    total = xp.sum(predicted, axis=-1)
    right = xp.sum(_diagonal(confusion, xp), axis=-1)
    covariance = right * total - xp.sum(true * predicted, axis=-1)
    spread = (total**2 - xp.sum(predicted**2, axis=-1)) * (total**2 - xp.sum(true**2, axis=-1))
    safe = xp.where(spread == 0, xp.ones_like(spread), spread)
    return xp.where(spread == 0, xp.zeros_like(spread), covariance / xp.sqrt(safe))


def kappa(confusion, problem, options):
    """Agreement beyond chance, which follows from the margins."""
    xp = problem.xp
    if options["labels"] is not None:
        codes = _index(problem.codes_of(options["labels"]), confusion, xp)
        confusion = xp.take(xp.take(confusion, codes, axis=1), codes, axis=2)
    by_pred, by_true = xp.sum(confusion, axis=-2), xp.sum(confusion, axis=-1)
    total = xp.sum(by_pred, axis=-1)[:, None, None]
    expected = by_pred[:, :, None] * by_true[:, None, :] / total
    penalty = constant(_disagreement(confusion.shape[-1], options["weights"]), like=total, xp=xp)
    seen, by_chance = (xp.sum(penalty * a, axis=(-2, -1)) for a in (confusion, expected))
    undefined = xp.logical_not(by_chance > 0)
    _note_if(undefined, problem, "Cohen's kappa is not defined for a single label in common.")
    instead = float(options["replace_undefined_by"])
    return xp.where(undefined, xp.full_like(seen, instead), 1 - seen / by_chance)


def _disagreement(k, weights):
    if weights not in (None, "linear", "quadratic"):
        raise ValueError(f"weights must be None, 'linear' or 'quadratic', got {weights!r}.")
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    return {None: distance > 0, "linear": distance, "quadratic": distance**2}[weights]


def likelihood_ratio(which):
    """The kernel of a likelihood ratio, "LR+" or "LR-"; 1 if it is undefined."""

    def kernel(confusion, problem, options):
        if not problem.is_binary:
            raise ValueError("Likelihood ratios are for two classes.")
        xp = problem.xp
        tn, fp = confusion[:, 0, 0], confusion[:, 0, 1]
        fn, tp = confusion[:, 1, 0], confusion[:, 1, 1]
        undefined = xp.logical_or(fp == 0, tn == 0)
        _note_if(undefined, problem, "A likelihood ratio is ill-defined and set to 1.")
        above, below = (tp, fp) if which == "LR+" else (fn, tn)
        ratio = above * (tn + fp) / (below * (tp + fn))
        return xp.where(below == 0, xp.ones_like(ratio), ratio)

    return kernel


# ---------------------------------------------------------------- precision and its relatives


def precision(confusion, problem, options):
    """Share of the rows predicted to be of a class that are of it."""
    return _share(confusion, problem, options, "Precision", lambda true, pred, right: pred)


def recall(confusion, problem, options):
    """Share of the rows of a class that are predicted to be of it."""
    return _share(confusion, problem, options, "Recall", lambda true, pred, right: true)


def f_score(confusion, problem, options):
    """``(1 + b^2) right / (b^2 true + predicted)``, with b = 1 if there is no `beta`."""
    square = float(options.get("beta", 1.0)) ** 2
    if square == np.inf:
        return _share(confusion, problem, options, "F-score", lambda true, pred, right: true)
    return _share(
        confusion,
        problem,
        options,
        "F-score",
        lambda true, pred, right: square * true + pred,
        1 + square,
    )


def jaccard(confusion, problem, options):
    """Rows of a class predicted as such, over rows of which either is true."""
    if _zero_division(options["zero_division"]) not in (0, 1):
        raise ValueError("zero_division must be 'warn', 0 or 1.")
    return _share(
        confusion, problem, options, "Jaccard", lambda true, pred, right: true + pred - right
    )


def _share(confusion, problem, options, name, out_of, factor=1):
    """``factor * right / out_of(true, pred, right)`` per class, averaged as options say."""
    xp, average = problem.xp, options["average"]
    right, true, pred = _class_sums(confusion, problem, options)
    if average == "micro":
        right, true, pred = (xp.sum(a, axis=-1, keepdims=True) for a in (right, true, pred))
    below = out_of(true, pred, right)
    empty = below == 0
    instead = _zero_division(options["zero_division"])
    share = factor * right / xp.where(empty, xp.ones_like(below), below)
    share = xp.where(empty, xp.full_like(share, instead), share)
    if options["zero_division"] == "warn":
        _note_if(empty, problem, f"{name} is ill-defined and set to 0.0 where it is 0 / 0.")
    return _mean_of_classes(share, true if average == "weighted" else None, xp)


def _class_sums(confusion, problem, options):
    """Weights (C, labels) of rows predicted right, of a class, and predicted to be of it."""
    xp, average = problem.xp, options["average"]
    if average not in ("binary", "micro", "macro", "weighted"):
        raise ValueError(f"average={average!r} is not for several models at once.")
    sums = _diagonal(confusion, xp), xp.sum(confusion, axis=-1), xp.sum(confusion, axis=-2)
    codes = _wanted_codes(problem, options)
    if codes is None:
        return sums
    codes = _index(codes, confusion, xp)
    return tuple(xp.take(a, codes, axis=1) for a in sums)


def _wanted_codes(problem, options):
    if options["average"] == "binary":
        if not problem.is_binary:
            raise ValueError("average='binary' is for two classes.")
        return [problem.code_of(options["pos_label"])]
    if options["pos_label"] not in (None, 1):
        raise ValueError("pos_label is for average='binary'.")
    labels = options["labels"]
    return None if labels is None else problem.codes_of(labels)


def _zero_division(setting):
    if isinstance(setting, str) and setting == "warn":
        return 0.0
    if setting in (0, 1) or np.isnan(setting):
        return float(setting)
    raise ValueError(f"zero_division must be 'warn', 0, 1 or nan, got {setting!r}.")


def _mean_of_classes(share, weight, xp):
    """Means (C,) of values (C, labels) that are not nan; weights that are all 0 do not count."""
    known = xp.logical_not(xp.isnan(share))
    evenly = xp.astype(known, xp.float64)
    share = xp.where(known, share, xp.zeros_like(share))
    if weight is None:
        weight = evenly
    else:
        weight = weight * evenly
        weight = xp.where(xp.sum(weight, axis=-1, keepdims=True) == 0, evenly, weight)
    return xp.sum(share * weight, axis=-1) / xp.sum(weight, axis=-1)


# ---------------------------------------------------------------- helpers


def _diagonal(confusion, xp):
    return xp.linalg.diagonal(confusion)


def _index(codes, like, xp):
    return xp.asarray(np.asarray(codes, dtype=np.int64), device=device_of(like))


def _note_if(undefined, problem, text):
    if any_true(undefined, problem.xp):
        problem.notes.add((UndefinedMetricWarning, text))
