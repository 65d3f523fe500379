"""Losses of predicted probabilities with scikit-learn's names.

Probabilities in CPU memory are given to scikit-learn. Those of another library or device, and of
many models at once, (C, m) of the positive class or (C, m, k), are reduced where they are, in
float64.
"""

import math
from collections.abc import Callable
from typing import Any

import sklearn.metrics as sk

from gpuml._arrays.ops import any_true, clipped
from gpuml.metrics._class_single import score_scores
from gpuml.metrics._classes import PROBABILITY, add_row
from gpuml.metrics._functions import PARAMETERS, public

# ---------------------------------------------------------------- of many models


def _log_loss(problem, options):
    losses = _log_losses(problem, _probabilities(problem, options["labels"]))
    return problem.average(losses, normalize=options["normalize"])


def _brier(problem, options):
    loss = _distances(problem, options)
    by_half = options["scale_by_half"]
    if isinstance(by_half, str):
        if by_half != "auto":
            raise ValueError(f"scale_by_half must be 'auto' or a bool, got {by_half!r}.")
        by_half = problem.response.ndim == 2 or problem.response.shape[-1] < 3
    return loss / 2 if by_half else loss


def _d2_log_loss(problem, options):
    loss = problem.average(_log_losses(problem, _probabilities(problem, options["labels"])))
    share = _class_shares(problem)
    xp = problem.xp
    log_share = xp.log(xp.where(share > 0, share, xp.ones_like(share)))
    return 1 - loss / -xp.sum(share * log_share)


def _d2_brier(problem, options):
    loss = _distances(problem, options)
    off = (problem.one_hot() - _class_shares(problem)) ** 2
    return 1 - loss / problem.average(problem.xp.sum(off, axis=-1))


def _class_shares(problem):
    if problem.y.shape[0] < 2:
        raise ValueError("D^2 is not defined for one row.")
    return problem.average(problem.xp.matrix_transpose(problem.one_hot()))


def _log_losses(problem, p):
    xp = problem.xp
    eps = float(xp.finfo(p.dtype).eps)
    own = xp.take_along_axis(p, problem.codes_along(p), axis=-1)
    # A probability of 0 for what happened would cost infinitely much.
    return -xp.log(xp.astype(clipped(own, eps, 1 - eps), xp.float64))[..., 0]


def _distances(problem, options):
    xp = problem.xp
    if problem.response.ndim == 2:
        p = _probabilities(problem, None)[..., 1]
        truth = problem.indicator(_positive_code(problem, options["pos_label"]))
        # Both classes are off by the same.
        return 2 * problem.average((truth - xp.astype(p, xp.float64)) ** 2)
    p = xp.astype(_probabilities(problem, options["labels"]), xp.float64)
    return problem.average(xp.sum((problem.one_hot() - p) ** 2, axis=-1))


def _positive_code(problem, pos_label):
    if pos_label is not None:
        return problem.code_of(pos_label)
    if problem.classes.dtype.kind in "OUS":
        raise ValueError("pos_label must be given where classes are not numbers.")
    return 1


def _probabilities(problem, labels):
    """Probabilities (C, m, k) of all classes; ValueError for what is none."""
    xp, p = problem.xp, problem.scores()
    problem.check_labels(labels)
    if any_true(p < 0, xp) or any_true(p > 1, xp):
        raise ValueError("Some probabilities are below 0 or above 1.")
    if p.ndim == 2:
        # The other column of a model may differ by rounding, which counts where p is near 1.
        p = xp.stack([1 - p, p], axis=-1)
    if p.shape[-1] != problem.n_classes:
        raise ValueError(f"{p.shape[-1]} probabilities per row for {problem.n_classes} classes.")
    tolerance = math.sqrt(float(xp.finfo(p.dtype).eps))
    if any_true(xp.abs(xp.sum(p, axis=-1) - 1) > tolerance, xp):
        problem.notes.add((UserWarning, "The probabilities of some rows do not sum to one."))
    return p


# ---------------------------------------------------------------- the table


def _metric(
    theirs: Callable[..., Any],
    kernel: Callable[..., Any],
    summary: str,
    formula: str,
    value: str,
    *,
    further: str = "",
    is_loss: bool = False,
) -> Callable[..., Any]:
    weights = PARAMETERS["sample_weight"]
    one_row = (
        "sklearn.exceptions.UndefinedMetricWarning\n    If there is one row; the value is nan."
    )
    function = public(
        __name__,
        score_scores,
        theirs,
        summary,
        formula,
        further=further,
        returns="loss : float" if is_loss else "score : float\n    At most 1.",
        example=f"{theirs.__name__}([0, 1, 1], [0.1, 0.8, 0.6]).__round__(4)",
        value=value,
        raises="ValueError\n    If probabilities are below 0, above 1 or nan, their number is not "
        "that of the\n    classes, or lengths differ.",
        warns="UserWarning\n    If the probabilities of a row do not sum to 1."
        if is_loss
        else one_row,
        y_pred="y_pred : array-like of the shape of `y_proba`\n"
        "    The former name of `y_proba`, as in scikit-learn.",
        scale_by_half="""scale_by_half : bool or "auto", default="auto"
    Whether to halve the loss, so that it is between 0 and 1. "auto" halves it for two classes.""",
        sample_weight=weights if is_loss else weights.replace("Weights w", "Weights"),
    )
    add_row(function, kernel, (PROBABILITY,), is_mean=is_loss)
    return function


log_loss = _metric(
    sk.log_loss,
    _log_loss,
    "Log loss: mean negative logarithm of the probability of the true class.",
    "-sum w log p_y / sum w",
    "0.2798",
    further="with p no less than the precision eps of its type, and no more than 1 - eps.",
    is_loss=True,
)
brier_score_loss = _metric(
    sk.brier_score_loss,
    _brier,
    "Brier score: mean squared difference between probabilities and outcomes.",
    "sum w |p - e_y|^2 / sum w,        e_y the indicator of the class",
    "0.07",
    is_loss=True,
)
d2_log_loss_score = _metric(
    sk.d2_log_loss_score,
    _d2_log_loss,
    "D2 score: share of the log loss that the probabilities explain.",
    "1 - log_loss(y, p) / log_loss(y, shares of the classes)",
    "0.5605",
)
d2_brier_score = _metric(
    sk.d2_brier_score,
    _d2_brier,
    "D2 score: share of the Brier score that the probabilities explain.",
    "1 - brier(y, p) / brier(y, shares of the classes)",
    "0.685",
)
