"""Metrics of predicted labels with scikit-learn's names.

Predictions in CPU memory are given to scikit-learn. Those of another library or device are
counted there, by true and predicted class, and only the counts come to the host.
"""

from collections.abc import Callable

import numpy as np

from gpuml.metrics._class_single import n_equal, score_labels
from gpuml.metrics._docs import PARAMETERS, Function, documented

_RAISES = "ValueError\n    Lengths that differ, no rows, nan, or numbers that are no labels."
_WEIGHTS = PARAMETERS["sample_weight"].replace("Weights w", "Weights")
_INDICATORS = f"""{PARAMETERS["y_pred"]} Indicators of
    several labels per row, (n_samples, n_labels), are %s on the host."""
_UNDEFINED = "sklearn.exceptions.UndefinedMetricWarning\n    "


@documented(
    "score : float",
    "accuracy_score([0, 1, 2, 3], [0, 2, 1, 3])",
    "0.5",
    raises=_RAISES,
    y_pred=_INDICATORS % "compared",
)
def accuracy_score(y_true, y_pred, *, normalize=True, sample_weight=None):
    """Share of rows whose label is predicted.

    .. code-block:: text

        sum w [y = f] / sum w
    """
    found = n_equal(y_true, y_pred) if sample_weight is None else None
    if found is not None and isinstance(normalize, bool):
        n_right, n_rows = found
        return n_right / n_rows if normalize else float(n_right)
    return score_labels("accuracy_score", y_true, y_pred, sample_weight, normalize=normalize)


@documented(
    "score : float",
    "balanced_accuracy_score([0, 0, 0, 1], [0, 0, 0, 0])",
    "0.5",
    raises=_RAISES,
    warns="UserWarning\n    If a label is predicted that is not in y_true; it is left out.",
    adjusted="""adjusted : bool, default=False
    Whether guessing is to score 0; a perfect prediction still scores 1.""",
)
def balanced_accuracy_score(y_true, y_pred, *, sample_weight=None, adjusted=False):
    """Mean, over the classes, of the share of their rows that is predicted.

    .. code-block:: text

        b = mean over classes c of sum w [y = c, f = c] / sum w [y = c]
        adjusted: (b - 1 / k) / (1 - 1 / k) for k classes
    """
    return score_labels("balanced_accuracy_score", y_true, y_pred, sample_weight, adjusted=adjusted)


@documented(
    "score : float\n    Between -1 and 1.",
    "matthews_corrcoef([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    "0.5774",
    raises=_RAISES,
)
def matthews_corrcoef(y_true, y_pred, *, sample_weight=None):
    """Correlation of true and predicted labels.

    .. code-block:: text

        (c s - t'p) / sqrt((s^2 - p'p) (s^2 - t't))

    with s the sum of weights, c that of the rows predicted right, and t and p the sums by true and
    by predicted class. It is 0 where the root is.
    """
    return score_labels("matthews_corrcoef", y_true, y_pred, sample_weight)


@documented(
    "kappa : float\n    At most 1.",
    "cohen_kappa_score([0, 0, 1, 1], [0, 1, 1, 1])",
    "0.5",
    raises="ValueError\n    Lengths that differ, no rows, nan, numbers that are no labels, no "
    "label of `labels` in y1.",
    warns=_UNDEFINED + "Where both raters use one and the same label.",
    y1="""y1, y2 : array-like of shape (n_samples,)
    Labels by either rater, of any array library. Counted where y2 is.""",
    y2="",
    labels="""labels : array-like of shape (n_classes,), default=None
    Labels that count, in their order. None takes all that occur.""",
    weights="""weights : {"linear", "quadratic"}, default=None
    Penalty of a disagreement: 1, the distance in the order of the labels, or its square.""",
    sample_weight=_WEIGHTS,
    replace_undefined_by="""replace_undefined_by : float in [-1, 1] or nan, default=np.nan
    The value where the score is not defined.""",
)
def cohen_kappa_score(
    y1, y2, *, labels=None, weights=None, sample_weight=None, replace_undefined_by=np.nan
):
    """Agreement of two raters beyond what their margins alone would give.

    .. code-block:: text

        1 - sum d_ij N_ij / sum d_ij E_ij,        E = outer(t, p) / s

    with N the confusion matrix, t and p its margins, s its sum, and d the penalties.
    """
    options = {"labels": labels, "weights": weights, "replace_undefined_by": replace_undefined_by}
    return score_labels("cohen_kappa_score", y1, y2, sample_weight, **options)


@documented(
    "ratios : tuple (float, float)\n    LR+ and LR-.",
    "class_likelihood_ratios([0, 0, 1, 1], [0, 1, 1, 1])",
    "(2.0, 0.0)",
    raises="ValueError\n    More than two classes, lengths that differ, no rows, nan, or numbers "
    "that are no labels.",
    warns=_UNDEFINED + "Where a ratio is not defined.",
    y_pred=PARAMETERS["y_pred"].replace("labels, of", "labels of two classes, of"),
    labels="""labels : array-like of shape (2,), default=None
    The negative and the positive label. None takes them in their order.""",
    sample_weight=_WEIGHTS,
    replace_undefined_by="""replace_undefined_by : nan, 1.0 or dict with keys "LR+" and "LR-", \
default=np.nan
    Values of the ratios where they are not defined.""",
)
def class_likelihood_ratios(
    y_true, y_pred, *, labels=None, sample_weight=None, replace_undefined_by=np.nan
):
    """How much a positive, and a negative, prediction change the odds of the positive class.

    .. code-block:: text

        LR+ = sensitivity / (1 - specificity),        LR- = (1 - sensitivity) / specificity
    """
    options = {"labels": labels, "replace_undefined_by": replace_undefined_by}
    return score_labels("class_likelihood_ratios", y_true, y_pred, sample_weight, **options)


def positive_likelihood_ratio(y_true, y_pred):
    """The LR+ of `class_likelihood_ratios`, 1 where it is not defined, for the scorer."""
    return class_likelihood_ratios(y_true, y_pred, replace_undefined_by=1.0)[0]


def negative_likelihood_ratio(y_true, y_pred):
    """The LR- of `class_likelihood_ratios`, 1 where it is not defined, for the scorer."""
    return class_likelihood_ratios(y_true, y_pred, replace_undefined_by=1.0)[1]


@documented(
    "matrix : array of shape (n_classes, n_classes)\n"
    "    In the library and on the device of y_pred; integers where weights are.",
    "confusion_matrix([0, 0, 1, 1], [0, 1, 1, 1]).tolist()",
    "[[1, 1], [0, 2]]",
    raises="ValueError\n    Lengths that differ, nan, numbers that are no labels, no label of "
    "`labels` in y_true.",
    labels="""labels : array-like of shape (n_classes,), default=None
    Labels of the rows and columns. None takes all that occur, sorted.""",
    normalize="""normalize : {"true", "pred", "all"}, default=None
    Whether rows, columns or the whole matrix are to sum to 1.""",
)
def confusion_matrix(y_true, y_pred, *, labels=None, sample_weight=None, normalize=None):
    """Weights of the rows by true and predicted label.

    .. code-block:: text

        N_ij = sum w [y = label i, f = label j]
    """
    options = {"labels": labels, "normalize": normalize}
    return score_labels("confusion_matrix", y_true, y_pred, sample_weight, **options)


# ---------------------------------------------------------------- per class, or averaged over them


def _per_class(
    example: str, value: str, undefined: str, zero_division: str = "0.0, 1.0, nan"
) -> Callable[[Function], Function]:
    return documented(
        "score : float, or array of shape (n_classes,) if `average` is None\n    Between 0 and 1.",
        example,
        value,
        raises='ValueError\n    More than two classes where `average` is "binary", a `pos_label` '
        "that does not\n    occur, lengths that differ, no rows, nan, or numbers that are no "
        "labels.",
        warns=f'{_UNDEFINED}If {undefined}, and `zero_division` is "warn".',
        y_pred=_INDICATORS % "counted",
        labels="""labels : array-like of shape (n_classes,), default=None
    Classes to average over. None takes all that occur.""",
        pos_label="""pos_label : int, float, bool or str, default=1
    The class that counts if `average` is "binary".""",
        average="""average : {"binary", "micro", "macro", "weighted", "samples"} or None, \
default="binary"
    The one class `pos_label`; sums over classes before they are divided; the mean of the
    classes; their mean weighted by the rows of each; the mean over rows of several labels.
    None gives one score per class.""",
        zero_division=f"""zero_division : {{"warn", {zero_division}}}, default="warn"
    The value of 0 / 0; "warn" is 0 with a warning.""",
    )


@_per_class(
    "precision_score([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    "0.6667",
    "no row is predicted to be of a class",
)
def precision_score(
    y_true,
    y_pred,
    *,
    labels=None,
    pos_label=1,
    average="binary",
    sample_weight=None,
    zero_division="warn",
):
    """Share of the rows predicted to be of a class that are of it.

    .. code-block:: text

        sum w [y = c, f = c] / sum w [f = c]

    for each class c, averaged as `average` says.
    """
    options = {"labels": labels, "pos_label": pos_label, "average": average}
    options["zero_division"] = zero_division
    return score_labels("precision_score", y_true, y_pred, sample_weight, **options)


@_per_class("recall_score([0, 0, 1, 1], [0, 1, 1, 0])", "0.5", "no row is of a class")
def recall_score(
    y_true,
    y_pred,
    *,
    labels=None,
    pos_label=1,
    average="binary",
    sample_weight=None,
    zero_division="warn",
):
    """Share of the rows of a class that are predicted to be of it.

    .. code-block:: text

        sum w [y = c, f = c] / sum w [y = c]

    for each class c, averaged as `average` says.
    """
    options = {"labels": labels, "pos_label": pos_label, "average": average}
    options["zero_division"] = zero_division
    return score_labels("recall_score", y_true, y_pred, sample_weight, **options)


@_per_class(
    "f1_score([0, 0, 1, 1], [0, 1, 1, 1])", "0.8", "no row is of a class or predicted to be"
)
def f1_score(
    y_true,
    y_pred,
    *,
    labels=None,
    pos_label=1,
    average="binary",
    sample_weight=None,
    zero_division="warn",
):
    """Harmonic mean of precision and recall.

    .. code-block:: text

        2 sum w [y = c, f = c] / (sum w [y = c] + sum w [f = c])

    for each class c, averaged as `average` says.
    """
    options = {"labels": labels, "pos_label": pos_label, "average": average}
    options["zero_division"] = zero_division
    return score_labels("f1_score", y_true, y_pred, sample_weight, **options)


@_per_class(
    "jaccard_score([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    "0.6667",
    "no row is of a class or predicted to be",
    "0.0, 1.0",
)
def jaccard_score(
    y_true,
    y_pred,
    *,
    labels=None,
    pos_label=1,
    average="binary",
    sample_weight=None,
    zero_division="warn",
):
    """Rows of a class that are predicted to be of it, over rows of which either is so.

    .. code-block:: text

        sum w [y = c, f = c] / sum w [y = c or f = c]

    for each class c, averaged as `average` says.
    """
    options = {"labels": labels, "pos_label": pos_label, "average": average}
    options["zero_division"] = zero_division
    return score_labels("jaccard_score", y_true, y_pred, sample_weight, **options)
