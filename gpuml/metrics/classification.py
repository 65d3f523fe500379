"""Metrics of predicted labels with scikit-learn's names.

Predictions in CPU memory are given to scikit-learn. Those of another library or device are
counted there, by true and predicted class, and only the counts come to CPU memory.
"""

from collections.abc import Callable
from typing import Any

import sklearn.metrics as sk

from gpuml.metrics import _confusion
from gpuml.metrics._class_single import n_equal, score_labels
from gpuml.metrics._classes import LABELS, add_row
from gpuml.metrics._functions import PARAMETERS, public

_LENGTHS = (
    "ValueError\n    If lengths differ, there are no rows, or a label is nan or not discrete."
)
_WEIGHTS = PARAMETERS["sample_weight"].replace("Weights w", "Weights")
_INDICATORS = f"""{PARAMETERS["y_pred"]} Indicators of several labels per row,
    (n_samples, n_labels), are %s in CPU memory."""
_UNDEFINED = "sklearn.exceptions.UndefinedMetricWarning\n    "


def _metric(
    theirs: Callable[..., Any],
    summary: str,
    formula: str,
    *,
    counted: Callable[..., Any] | None = None,
    score: Callable[..., Any] = score_labels,
    raises: str = _LENGTHS,
    **words: str,
) -> Callable[..., Any]:
    """A metric of labels; `counted` is its kernel, if it is a function of confusion matrices."""
    function = public(__name__, score, theirs, summary, formula, raises=raises, **words)
    if counted is not None:
        kernel = _confusion.from_confusion(counted)
        add_row(function, kernel, (LABELS,), uses_confusion=True)
    return function


def _accuracy(name, y_true, y_pred, *, normalize=True, sample_weight=None):
    found = n_equal(y_true, y_pred) if sample_weight is None else None
    if found is not None and isinstance(normalize, bool):
        n_right, n_rows = found
        return n_right / n_rows if normalize else float(n_right)
    return score_labels(name, y_true, y_pred, sample_weight, normalize=normalize)


accuracy_score = _metric(
    sk.accuracy_score,
    "Share of rows whose label is predicted correctly.",
    "sum w [y = f] / sum w",
    score=_accuracy,
    returns="score : float",
    example="accuracy_score([0, 1, 2, 3], [0, 2, 1, 3])",
    value="0.5",
    y_pred=_INDICATORS % "compared",
)
add_row(accuracy_score, _confusion.accuracy, (LABELS,), is_mean=True)

balanced_accuracy_score = _metric(
    sk.balanced_accuracy_score,
    "Balanced accuracy: mean recall over the classes.",
    "b = mean over classes c of sum w [y = c, f = c] / sum w [y = c]\n"
    "adjusted: (b - 1 / k) / (1 - 1 / k) for k classes",
    counted=_confusion.balanced_accuracy,
    returns="score : float",
    example="balanced_accuracy_score([0, 0, 0, 1], [0, 0, 0, 0])",
    value="0.5",
    warns="UserWarning\n    If a label is predicted that is not in y_true; it is left out.",
    adjusted="""adjusted : bool, default=False
    Whether to rescale the score so that random guessing scores 0, and a perfect prediction 1.""",
)

matthews_corrcoef = _metric(
    sk.matthews_corrcoef,
    "Matthews correlation coefficient of true and predicted labels.",
    "(c s - t'p) / sqrt((s^2 - p'p) (s^2 - t't))",
    counted=_confusion.matthews,
    further="with s the sum of the weights, c that of correctly predicted rows, and t and p the "
    "sums by true and\nby predicted class. The score is 0 if the root is 0.",
    returns="score : float\n    Between -1 and 1.",
    example="matthews_corrcoef([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    value="0.5774",
)

cohen_kappa_score = _metric(
    sk.cohen_kappa_score,
    "Cohen's kappa: agreement of two labellings beyond chance.",
    "1 - sum d_ij N_ij / sum d_ij E_ij,        E = outer(t, p) / s",
    counted=_confusion.kappa,
    further="with N the confusion matrix, t and p its margins, s its sum, and d the penalties.",
    returns="kappa : float\n    At most 1.",
    example="cohen_kappa_score([0, 0, 1, 1], [0, 1, 1, 1])",
    value="0.5",
    raises="ValueError\n    If lengths differ, there are no rows, no label of `labels` is in y1, "
    "or a label is\n    nan or not discrete.",
    warns=_UNDEFINED + "If both raters use only one and the same label.",
    y1="""y1, y2 : array-like of shape (n_samples,)
    Labels from the two raters, in any array library. They are counted on the device of y2.""",
    y2="",
    labels="""labels : array-like of shape (n_classes,), default=None
    The labels to use, in this order. None is all labels that occur, sorted.""",
    weights="""weights : {"linear", "quadratic"}, default=None
    Penalty of a disagreement. None: 1. "linear": the distance of the two labels in the order of
    the labels. "quadratic": its square.""",
    sample_weight=_WEIGHTS,
    replace_undefined_by="""replace_undefined_by : float in [-1, 1] or nan, default=np.nan
    The score to return if it is undefined.""",
)

class_likelihood_ratios = _metric(
    sk.class_likelihood_ratios,
    "Likelihood ratios: how much each prediction changes the odds of the positive class.",
    "LR+ = sensitivity / (1 - specificity),        LR- = (1 - sensitivity) / specificity",
    returns="ratios : tuple (float, float)\n    LR+ and LR-.",
    example="class_likelihood_ratios([0, 0, 1, 1], [0, 1, 1, 1])",
    value="(2.0, 0.0)",
    raises="ValueError\n    If there are more than two classes, lengths differ, there are no rows, "
    "or a label is\n    nan or not discrete.",
    warns=_UNDEFINED + "If a ratio is undefined.",
    y_pred=PARAMETERS["y_pred"].replace("labels, of", "labels of two classes, of"),
    labels="""labels : array-like of shape (2,), default=None
    The negative and the positive label. None is the two labels that occur, sorted.""",
    sample_weight=_WEIGHTS,
    replace_undefined_by="""replace_undefined_by : nan, 1.0 or dict with keys "LR+" and "LR-", \
default=np.nan
    The value to return for a ratio that is undefined.""",
)


def positive_likelihood_ratio(y_true, y_pred):
    """The LR+ of `class_likelihood_ratios`, 1 if it is undefined, for the scorer."""
    return class_likelihood_ratios(y_true, y_pred, replace_undefined_by=1.0)[0]


def negative_likelihood_ratio(y_true, y_pred):
    """The LR- of `class_likelihood_ratios`, 1 if it is undefined, for the scorer."""
    return class_likelihood_ratios(y_true, y_pred, replace_undefined_by=1.0)[1]


for _function, _which in ((positive_likelihood_ratio, "LR+"), (negative_likelihood_ratio, "LR-")):
    _kernel = _confusion.from_confusion(_confusion.likelihood_ratio(_which))
    add_row(_function, _kernel, (LABELS,))

confusion_matrix = _metric(
    sk.confusion_matrix,
    "Number, or weight, of the rows by true and predicted label.",
    "N_ij = sum w [y = label i, f = label j]",
    returns="matrix : array of shape (n_classes, n_classes)\n"
    "    In the library and on the device of y_pred; integers if the weights are.",
    example="confusion_matrix([0, 0, 1, 1], [0, 1, 1, 1]).tolist()",
    value="[[1, 1], [0, 2]]",
    raises="ValueError\n    If lengths differ, no label of `labels` is in y_true, or a label is "
    "nan or not discrete.",
    labels="""labels : array-like of shape (n_classes,), default=None
    Labels of the rows and columns. None is all labels that occur, sorted.""",
    normalize="""normalize : {"true", "pred", "all"}, default=None
    Divide so that each row ("true"), each column ("pred") or the whole matrix sums to 1. None
    does not divide.""",
)


# ---------------------------------------------------------------- per class, or averaged over them


def _per_class(
    theirs: Callable[..., Any],
    counted: Callable[..., Any],
    summary: str,
    formula: str,
    undefined: str,
    *,
    example: str,
    value: str,
    zero_division: str = "0.0, 1.0, nan",
) -> Callable[..., Any]:
    return _metric(
        theirs,
        summary,
        formula,
        counted=counted,
        further="for each class c, averaged as `average` says.",
        returns="score : float, or array of shape (n_classes,) if `average` is None\n"
        "    Between 0 and 1.",
        example=example,
        value=value,
        raises='ValueError\n    If there are more than two classes and `average` is "binary", '
        "`pos_label` does\n    not occur, lengths differ, there are no rows, or a label is nan or "
        "not discrete.",
        warns=f'{_UNDEFINED}If {undefined}, and `zero_division` is "warn".',
        y_pred=_INDICATORS % "counted",
        beta="""beta : float
    Recall counts `beta` times as much as precision.""",
        labels="""labels : array-like of shape (n_classes,), default=None
    Classes to average over. None is all classes that occur.""",
        pos_label="""pos_label : int, float, bool or str, default=1
    The positive class, if `average` is "binary".""",
        average="""average : {"binary", "micro", "macro", "weighted", "samples"} or None, \
default="binary"
    How to combine the scores of the classes. "binary": the score of the class `pos_label`.
    "micro": the ratio of the sums over all classes. "macro": the mean over the classes.
    "weighted": the mean weighted by the rows of each class. "samples": for several labels per
    row, the mean over rows. None returns one score per class.""",
        zero_division=f"""zero_division : {{"warn", {zero_division}}}, default="warn"
    The score if it is 0 / 0; "warn" is 0, with a warning.""",
    )


precision_score = _per_class(
    sk.precision_score,
    _confusion.precision,
    "Precision: share of the rows predicted as a class that belong to it.",
    "sum w [y = c, f = c] / sum w [f = c]",
    "no row is predicted to be of a class",
    example="precision_score([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    value="0.6667",
)

recall_score = _per_class(
    sk.recall_score,
    _confusion.recall,
    "Recall: share of the rows of a class that are predicted as this class.",
    "sum w [y = c, f = c] / sum w [y = c]",
    "no row is of a class",
    example="recall_score([0, 0, 1, 1], [0, 1, 1, 0])",
    value="0.5",
)

f1_score = _per_class(
    sk.f1_score,
    _confusion.f_score,
    "Harmonic mean of precision and recall.",
    "2 sum w [y = c, f = c] / (sum w [y = c] + sum w [f = c])",
    "no row is of a class or predicted to be",
    example="f1_score([0, 0, 1, 1], [0, 1, 1, 1])",
    value="0.8",
)

fbeta_score = _per_class(
    sk.fbeta_score,
    _confusion.f_score,
    "Weighted harmonic mean of precision and recall.",
    "(1 + b^2) sum w [y = c, f = c] / (b^2 sum w [y = c] + sum w [f = c])",
    "no row is of a class or predicted to be",
    example="fbeta_score([0, 0, 1, 1], [0, 1, 1, 1], beta=2).__round__(4)",
    value="0.9091",
)

jaccard_score = _per_class(
    sk.jaccard_score,
    _confusion.jaccard,
    "Jaccard index: rows both of a class and predicted as it, over rows that are either.",
    "sum w [y = c, f = c] / sum w [y = c or f = c]",
    "no row is of a class or predicted to be",
    example="jaccard_score([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    value="0.6667",
    zero_division="0.0, 1.0",
)
