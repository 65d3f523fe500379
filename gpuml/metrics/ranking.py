"""Metrics of how scores rank the rows, with scikit-learn's names.

Scores in CPU memory are given to scikit-learn. Those of another library or device are sorted
there, and one number comes to the host.
"""

from gpuml.metrics._class_single import score_scores
from gpuml.metrics._docs import PARAMETERS, documented

_TRUE = """y_true : array-like of shape (n_samples,)
    Correct labels. Indicators of several labels per row, (n_samples, n_labels), are scored on
    the host."""
_AVERAGE = """average : {"macro", "micro", "weighted", "samples"} or None, default="macro"
    Over several classes: the mean; all pairs of a row and a class taken as rows; the mean
    weighted by the rows of each class. Where it is None, or labels are several per row, as in
    scikit-learn, on the host."""


@documented(
    "auc : float, or array of shape (n_classes,) if `average` is None",
    "roc_auc_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])",
    "0.75",
    raises="""ValueError
    Several classes without `multi_class`, probabilities that do not sum to 1, weights with
    "ovo", lengths that differ, nan.""",
    warns="sklearn.exceptions.UndefinedMetricWarning\n    If there is one class; the value is nan.",
    y_true=_TRUE,
    y_score="""y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
    Scores of the larger label of two, or probabilities of all classes, of any array library.""",
    average=_AVERAGE,
    max_fpr="""max_fpr : float in (0, 1], default=None
    Where the curve ends; other than None and 1, on the host.""",
    multi_class="""multi_class : {"raise", "ovr", "ovo"}, default="raise"
    With several classes: an error, each class against the rest, or against each other class.""",
    labels="""labels : array-like of shape (n_classes,), default=None
    All labels of several classes, sorted. None takes those that occur in y_true.""",
)
def roc_auc_score(
    y_true,
    y_score,
    *,
    average="macro",
    sample_weight=None,
    max_fpr=None,
    multi_class="raise",
    labels=None,
):
    """Share of pairs of a positive and a negative row that are ranked right.

    .. code-block:: text

        sum_ij w_i w_j ([f_i > f_j] + [f_i = f_j] / 2) / sum_ij w_i w_j,    i positive, j negative
    """
    options = {"average": average, "max_fpr": max_fpr, "multi_class": multi_class, "labels": labels}
    return score_scores("roc_auc_score", y_true, y_score, sample_weight, **options)


@documented(
    "score : float, or array of shape (n_classes,) if `average` is None",
    "average_precision_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).__round__(4)",
    "0.8333",
    raises="ValueError\n    A `pos_label` that does not occur, lengths that differ, nan.",
    warns="UserWarning\n    If there is no positive row.",
    y_true=_TRUE,
    y_score="""y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
    Scores of the positive class of two, or of all classes, of any array library.""",
    average=_AVERAGE,
    pos_label="""pos_label : int, float, bool or str, default=1
    The positive class of two.""",
    sample_weight=PARAMETERS["sample_weight"].replace("Weights w", "Weights"),
)
def average_precision_score(y_true, y_score, *, average="macro", pos_label=1, sample_weight=None):
    """Mean, over the positive rows, of the precision where their score is the threshold.

    .. code-block:: text

        sum_t (R_t - R_before t) P_t,    recall R and precision P at each distinct score t
    """
    options = {"average": average, "pos_label": pos_label}
    return score_scores("average_precision_score", y_true, y_score, sample_weight, **options)


@documented(
    "score : float",
    "scores = [[0.5, 0.2, 0.3], [0.3, 0.4, 0.2], [0.2, 0.4, 0.3], [0.7, 0.2, 0.1]]\n"
    ">>> top_k_accuracy_score([0, 1, 2, 2], scores)",
    "0.75",
    raises="ValueError\n    Another number of scores than of classes, lengths that differ, nan.",
    warns="sklearn.exceptions.UndefinedMetricWarning\n"
    "    If k is no less than the number of classes.",
    y_score="""y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
    Scores of the larger label of two, or of all classes, of any array library.""",
    k="""k : int, default=2
    How many classes are predicted.""",
)
def top_k_accuracy_score(y_true, y_score, *, k=2, normalize=True, sample_weight=None, labels=None):
    """Share of rows whose class has one of the k largest scores.

    .. code-block:: text

        sum w [y is among the k classes of largest score] / sum w

    Of classes with equal scores, the later ones come first. Two classes have one score: where it
    is above 0 (above 0.5 if all are between 0 and 1) the larger label is predicted.
    """
    options = {"k": k, "normalize": normalize, "labels": labels}
    return score_scores("top_k_accuracy_score", y_true, y_score, sample_weight, **options)
