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

_LENGTHS = "ValueError\n    Lengths that differ, no rows, nan, or numbers that are no labels."
_WEIGHTS = PARAMETERS["sample_weight"].replace("Weights w", "Weights")
_INDICATORS = f"""{PARAMETERS["y_pred"]} Indicators of
    several labels per row, (n_samples, n_labels), are %s in CPU memory."""
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
    "Share of rows whose label is predicted.",
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
    "Mean, over the classes, of the share of their rows that is predicted.",
    "b = mean over classes c of sum w [y = c, f = c] / sum w [y = c]\n"
    "adjusted: (b - 1 / k) / (1 - 1 / k) for k classes",
    counted=_confusion.balanced_accuracy,
    returns="score : float",
    example="balanced_accuracy_score([0, 0, 0, 1], [0, 0, 0, 0])",
    value="0.5",
    warns="UserWarning\n    If a label is predicted that is not in y_true; it is left out.",
    adjusted="""adjusted : bool, default=False
    Whether guessing is to score 0; a perfect prediction still scores 1.""",
)

matthews_corrcoef = _metric(
    sk.matthews_corrcoef,
    "Correlation of true and predicted labels.",
    "(c s - t'p) / sqrt((s^2 - p'p) (s^2 - t't))",
    counted=_confusion.matthews,
    further="with s the sum of weights, c that of the rows predicted right, and t and p the sums "
    "by true and\nby predicted class. It is 0 where the root is.",
    returns="score : float\n    Between -1 and 1.",
    example="matthews_corrcoef([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    value="0.5774",
)

cohen_kappa_score = _metric(
    sk.cohen_kappa_score,
    "Agreement of two raters beyond what their margins alone would give.",
    "1 - sum d_ij N_ij / sum d_ij E_ij,        E = outer(t, p) / s",
    counted=_confusion.kappa,
    further="with N the confusion matrix, t and p its margins, s its sum, and d the penalties.",
    returns="kappa : float\n    At most 1.",
    example="cohen_kappa_score([0, 0, 1, 1], [0, 1, 1, 1])",
    value="0.5",
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

class_likelihood_ratios = _metric(
    sk.class_likelihood_ratios,
    "How much a positive, and a negative, prediction change the odds of the positive class.",
    "LR+ = sensitivity / (1 - specificity),        LR- = (1 - sensitivity) / specificity",
    returns="ratios : tuple (float, float)\n    LR+ and LR-.",
    example="class_likelihood_ratios([0, 0, 1, 1], [0, 1, 1, 1])",
    value="(2.0, 0.0)",
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
    "Weights of the rows by true and predicted label.",
    "N_ij = sum w [y = label i, f = label j]",
    returns="matrix : array of shape (n_classes, n_classes)\n"
    "    In the library and on the device of y_pred; integers where weights are.",
    example="confusion_matrix([0, 0, 1, 1], [0, 1, 1, 1]).tolist()",
    value="[[1, 1], [0, 2]]",
    raises="ValueError\n    Lengths that differ, nan, numbers that are no labels, no label of "
    "`labels` in y_true.",
    labels="""labels : array-like of shape (n_classes,), default=None
    Labels of the rows and columns. None takes all that occur, sorted.""",
    normalize="""normalize : {"true", "pred", "all"}, default=None
    Whether rows, columns or the whole matrix are to sum to 1.""",
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
        raises='ValueError\n    More than two classes where `average` is "binary", a `pos_label` '
        "that does not\n    occur, lengths that differ, no rows, nan, or numbers that are no "
        "labels.",
        warns=f'{_UNDEFINED}If {undefined}, and `zero_division` is "warn".',
        y_pred=_INDICATORS % "counted",
        beta="""beta : float
    How much more recall counts than precision.""",
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


precision_score = _per_class(
    sk.precision_score,
    _confusion.precision,
    "Share of the rows predicted to be of a class that are of it.",
    "sum w [y = c, f = c] / sum w [f = c]",
    "no row is predicted to be of a class",
    example="precision_score([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    value="0.6667",
)

recall_score = _per_class(
    sk.recall_score,
    _confusion.recall,
    "Share of the rows of a class that are predicted to be of it.",
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
    "Rows of a class that are predicted to be of it, over rows of which either is so.",
    "sum w [y = c, f = c] / sum w [y = c or f = c]",
    "no row is of a class or predicted to be",
    example="jaccard_score([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)",
    value="0.6667",
    zero_division="0.0, 1.0",
)
