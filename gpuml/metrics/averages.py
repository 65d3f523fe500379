"""Precision and its relatives, per class or averaged over classes, with scikit-learn's names.

Predictions in host memory are given to scikit-learn. Those of another library or device are
counted there, by true and predicted class, and only the counts come to the host.
"""

from gpuml.metrics._class_single import score_labels

__all__ = ["f1_score", "jaccard_score", "precision_score", "recall_score"]


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

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels, of any array library. Counted where y_pred is. Indicators of
        several labels per row, (n_samples, n_labels), are counted on the host.
    labels : array-like of shape (n_classes,), default=None
        Classes to average over. None takes all that occur.
    pos_label : int, float, bool or str, default=1
        The class that counts if `average` is "binary".
    average : {"binary", "micro", "macro", "weighted", "samples"} or None, default="binary"
        The one class `pos_label`; sums over classes before they are divided; the mean of the
        classes; their mean weighted by the rows of each; the mean over rows of several labels.
        None gives one score per class.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    zero_division : {"warn", 0.0, 1.0, nan}, default="warn"
        The value of 0 / 0; "warn" is 0 with a warning.

    Returns
    -------
    score : float, or array of shape (n_classes,) if `average` is None
        Between 0 and 1.

    Raises
    ------
    ValueError
        More than two classes where `average` is "binary", a `pos_label` that does not occur,
        lengths that differ, no rows, nan, or numbers that are no labels.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If no row is predicted to be of a class, and `zero_division` is "warn".

    Examples
    --------
    >>> from gpuml.metrics import precision_score
    >>> precision_score([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)
    0.6667
    """
    return score_labels(
        "precision_score",
        y_true,
        y_pred,
        sample_weight,
        labels=labels,
        pos_label=pos_label,
        average=average,
        zero_division=zero_division,
    )


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

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels, of any array library. Counted where y_pred is. Indicators of
        several labels per row, (n_samples, n_labels), are counted on the host.
    labels : array-like of shape (n_classes,), default=None
        Classes to average over. None takes all that occur.
    pos_label : int, float, bool or str, default=1
        The class that counts if `average` is "binary".
    average : {"binary", "micro", "macro", "weighted", "samples"} or None, default="binary"
        The one class `pos_label`; sums over classes before they are divided; the mean of the
        classes; their mean weighted by the rows of each; the mean over rows of several labels.
        None gives one score per class.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    zero_division : {"warn", 0.0, 1.0, nan}, default="warn"
        The value of 0 / 0; "warn" is 0 with a warning.

    Returns
    -------
    score : float, or array of shape (n_classes,) if `average` is None
        Between 0 and 1.

    Raises
    ------
    ValueError
        More than two classes where `average` is "binary", a `pos_label` that does not occur,
        lengths that differ, no rows, nan, or numbers that are no labels.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If no row is of a class, and `zero_division` is "warn".

    Examples
    --------
    >>> from gpuml.metrics import recall_score
    >>> recall_score([0, 0, 1, 1], [0, 1, 1, 0])
    0.5
    """
    return score_labels(
        "recall_score",
        y_true,
        y_pred,
        sample_weight,
        labels=labels,
        pos_label=pos_label,
        average=average,
        zero_division=zero_division,
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

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels, of any array library. Counted where y_pred is. Indicators of
        several labels per row, (n_samples, n_labels), are counted on the host.
    labels : array-like of shape (n_classes,), default=None
        Classes to average over. None takes all that occur.
    pos_label : int, float, bool or str, default=1
        The class that counts if `average` is "binary".
    average : {"binary", "micro", "macro", "weighted", "samples"} or None, default="binary"
        The one class `pos_label`; sums over classes before they are divided; the mean of the
        classes; their mean weighted by the rows of each; the mean over rows of several labels.
        None gives one score per class.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    zero_division : {"warn", 0.0, 1.0, nan}, default="warn"
        The value of 0 / 0; "warn" is 0 with a warning.

    Returns
    -------
    score : float, or array of shape (n_classes,) if `average` is None
        Between 0 and 1.

    Raises
    ------
    ValueError
        More than two classes where `average` is "binary", a `pos_label` that does not occur,
        lengths that differ, no rows, nan, or numbers that are no labels.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If no row is of a class or predicted to be, and `zero_division` is "warn".

    Examples
    --------
    >>> from gpuml.metrics import f1_score
    >>> f1_score([0, 0, 1, 1], [0, 1, 1, 1])
    0.8
    """
    return score_labels(
        "f1_score",
        y_true,
        y_pred,
        sample_weight,
        labels=labels,
        pos_label=pos_label,
        average=average,
        zero_division=zero_division,
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

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels, of any array library. Counted where y_pred is. Indicators of
        several labels per row, (n_samples, n_labels), are counted on the host.
    labels : array-like of shape (n_classes,), default=None
        Classes to average over. None takes all that occur.
    pos_label : int, float, bool or str, default=1
        The class that counts if `average` is "binary".
    average : {"binary", "micro", "macro", "weighted", "samples"} or None, default="binary"
        The one class `pos_label`; sums over classes before they are divided; the mean of the
        classes; their mean weighted by the rows of each; the mean over rows of several labels.
        None gives one score per class.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    zero_division : {"warn", 0.0, 1.0}, default="warn"
        The value of 0 / 0; "warn" is 0 with a warning.

    Returns
    -------
    score : float, or array of shape (n_classes,) if `average` is None
        Between 0 and 1.

    Raises
    ------
    ValueError
        More than two classes where `average` is "binary", a `pos_label` that does not occur,
        lengths that differ, no rows, nan, or numbers that are no labels.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If no row is of a class or predicted to be, and `zero_division` is "warn".

    Examples
    --------
    >>> from gpuml.metrics import jaccard_score
    >>> jaccard_score([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)
    0.6667
    """
    return score_labels(
        "jaccard_score",
        y_true,
        y_pred,
        sample_weight,
        labels=labels,
        pos_label=pos_label,
        average=average,
        zero_division=zero_division,
    )
