"""Losses of predicted probabilities with scikit-learn's names.

Probabilities in CPU memory are given to scikit-learn. Those of another library or device are
reduced there, in float64, and one number comes to the host.
"""

from collections.abc import Callable

from gpuml.metrics._class_single import score_scores
from gpuml.metrics._docs import PARAMETERS, Function, documented
from gpuml.metrics._host import on_host


def _metric(name: str, value: str, *, is_share: bool = False) -> Callable[[Function], Function]:
    weights = PARAMETERS["sample_weight"]
    return documented(
        "score : float\n    At most 1." if is_share else "loss : float",
        f"{name}([0, 1, 1], [0.1, 0.8, 0.6]).__round__(4)",
        value,
        raises="ValueError\n    Probabilities out of range or of another number of classes, "
        "lengths that differ, nan.",
        warns=(
            "sklearn.exceptions.UndefinedMetricWarning\n    If there is one row; the value is nan."
            if is_share
            else "UserWarning\n    If the probabilities of a row do not sum to 1."
        ),
        y_pred="y_pred : array-like of the shape of `y_proba`\n"
        "    The former name of `y_proba`, as in scikit-learn.",
        scale_by_half="""scale_by_half : bool or "auto", default="auto"
    Whether to halve the loss, so that it is between 0 and 1. "auto" does for two classes.""",
        sample_weight=weights.replace("Weights w", "Weights") if is_share else weights,
    )


@_metric("log_loss", "0.2798")
def log_loss(
    y_true, y_proba=None, *, normalize=True, sample_weight=None, labels=None, y_pred="deprecated"
):
    """Mean negative logarithm of the probability given to what happened.

    .. code-block:: text

        -sum w log p_y / sum w

    with p no less than the precision eps of its type, and no more than 1 - eps.
    """
    options = {"normalize": normalize, "labels": labels}
    return _score("log_loss", y_true, y_proba, sample_weight, options, y_pred)


@_metric("brier_score_loss", "0.07")
def brier_score_loss(
    y_true, y_proba, *, sample_weight=None, pos_label=None, labels=None, scale_by_half="auto"
):
    """Mean squared distance of probabilities from what happened.

    .. code-block:: text

        sum w |p - e_y|^2 / sum w,        e_y the indicator of the class
    """
    options = {"pos_label": pos_label, "labels": labels, "scale_by_half": scale_by_half}
    return _score("brier_score_loss", y_true, y_proba, sample_weight, options)


@_metric("d2_log_loss_score", "0.5605", is_share=True)
def d2_log_loss_score(
    y_true, y_proba=None, *, sample_weight=None, labels=None, y_pred="deprecated"
):
    """Share of the log loss of constant probabilities that is saved.

    .. code-block:: text

        1 - log_loss(y, p) / log_loss(y, shares of the classes)
    """
    return _score("d2_log_loss_score", y_true, y_proba, sample_weight, {"labels": labels}, y_pred)


@_metric("d2_brier_score", "0.685", is_share=True)
def d2_brier_score(y_true, y_proba, *, sample_weight=None, pos_label=None, labels=None):
    """Share of the Brier score of constant probabilities that is saved.

    .. code-block:: text

        1 - brier(y, p) / brier(y, shares of the classes)
    """
    options = {"pos_label": pos_label, "labels": labels}
    return _score("d2_brier_score", y_true, y_proba, sample_weight, options)


def _score(name, y_true, y_proba, sample_weight, options, y_pred="deprecated"):
    if not (isinstance(y_pred, str) and y_pred == "deprecated"):
        options = {**options, "y_pred": on_host(y_pred)}
    return score_scores(name, y_true, y_proba, sample_weight, **options)
