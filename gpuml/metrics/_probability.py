"""Losses of predicted probabilities of many models: (C, m) of the positive class, or (C, m, k)."""

import math
from collections.abc import Mapping
from typing import Any

from gpuml._arrays import Array
from gpuml.metrics._problem import Problem


def log_loss(problem: Problem, options: Mapping[str, Any]) -> Array:
    """Mean, or sum, of ``-log p`` of the classes that rows are of."""
    losses = _log_losses(problem, _probabilities(problem, options["labels"]))
    return problem.average(losses, normalize=options["normalize"])


def brier(problem: Problem, options: Mapping[str, Any]) -> Array:
    """Mean squared distance of probabilities from the indicator of the class."""
    loss = _brier(problem, options)
    by_half = options["scale_by_half"]
    if isinstance(by_half, str):
        if by_half != "auto":
            raise ValueError(f"scale_by_half must be 'auto' or a bool, got {by_half!r}.")
        by_half = problem.response.ndim == 2 or problem.response.shape[-1] < 3
    return loss / 2 if by_half else loss


def d2_log_loss(problem: Problem, options: Mapping[str, Any]) -> Array:
    """Share of the log loss of constant probabilities, those of the classes, that is saved."""
    loss = problem.average(_log_losses(problem, _probabilities(problem, options["labels"])))
    share = _class_shares(problem)
    xp = problem.xp
    log_share = xp.log(xp.where(share > 0, share, xp.ones_like(share)))
    return 1 - loss / -xp.sum(share * log_share)


def d2_brier(problem: Problem, options: Mapping[str, Any]) -> Array:
    """Share of the Brier score of constant probabilities that is saved."""
    loss = _brier(problem, options)
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
    return -xp.log(xp.astype(xp.clip(own, eps, 1 - eps), xp.float64))[..., 0]


def _brier(problem, options):
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
    if bool(xp.any(p < 0)) or bool(xp.any(p > 1)):
        raise ValueError("Some probabilities are below 0 or above 1.")
    if p.ndim == 2:
        # The other column of a model may differ by rounding, which counts where p is near 1.
        p = xp.stack([1 - p, p], axis=-1)
    if p.shape[-1] != problem.n_classes:
        raise ValueError(f"{p.shape[-1]} probabilities per row for {problem.n_classes} classes.")
    tolerance = math.sqrt(float(xp.finfo(p.dtype).eps))
    if bool(xp.any(xp.abs(xp.sum(p, axis=-1) - 1) > tolerance)):
        problem.notes.add((UserWarning, "The probabilities of some rows do not sum to one."))
    return p
