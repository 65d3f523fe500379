"""Metrics of predicted labels with scikit-learn's names.

Predictions in host memory are given to scikit-learn. Those of another library or device are
counted there, by true and predicted class, and only the counts come to the host.
"""

import numpy as np

from gpuml.metrics._class_single import n_equal, score_labels

__all__ = [
    "accuracy_score",
    "balanced_accuracy_score",
    "class_likelihood_ratios",
    "cohen_kappa_score",
    "confusion_matrix",
    "matthews_corrcoef",
]


def accuracy_score(y_true, y_pred, *, normalize=True, sample_weight=None):
    """Share of rows whose label is predicted.

    .. code-block:: text

        sum w [y = f] / sum w

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels, of any array library. Counted where y_pred is. Indicators of
        several labels per row, (n_samples, n_labels), are compared on the host.
    normalize : bool, default=True
        Whether to divide by the sum of weights.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        Lengths that differ, no rows, nan, or numbers that are no labels.

    Examples
    --------
    >>> from gpuml.metrics import accuracy_score
    >>> accuracy_score([0, 1, 2, 3], [0, 2, 1, 3])
    0.5
    """
    found = n_equal(y_true, y_pred) if sample_weight is None else None
    if found is not None and isinstance(normalize, bool):
        n_right, n_rows = found
        return n_right / n_rows if normalize else float(n_right)
    return score_labels("accuracy_score", y_true, y_pred, sample_weight, normalize=normalize)


def balanced_accuracy_score(y_true, y_pred, *, sample_weight=None, adjusted=False):
    """Mean, over the classes, of the share of their rows that is predicted.

    .. code-block:: text

        b = mean over classes c of sum w [y = c, f = c] / sum w [y = c]
        adjusted: (b - 1 / k) / (1 - 1 / k) for k classes

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels, of any array library. Counted where y_pred is.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    adjusted : bool, default=False
        Whether guessing is to score 0; a perfect prediction still scores 1.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        Lengths that differ, no rows, nan, or numbers that are no labels.

    Warns
    -----
    UserWarning
        If a label is predicted that is not in y_true; it is left out.

    Examples
    --------
    >>> from gpuml.metrics import balanced_accuracy_score
    >>> balanced_accuracy_score([0, 0, 0, 1], [0, 0, 0, 0])
    0.5
    """
    return score_labels("balanced_accuracy_score", y_true, y_pred, sample_weight, adjusted=adjusted)


def matthews_corrcoef(y_true, y_pred, *, sample_weight=None):
    """Correlation of true and predicted labels.

    .. code-block:: text

        (c s - t'p) / sqrt((s^2 - p'p) (s^2 - t't))

    with s the sum of weights, c that of the rows predicted right, and t and p the sums by true and
    by predicted class. It is 0 where the root is.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels, of any array library. Counted where y_pred is.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.

    Returns
    -------
    score : float
        Between -1 and 1.

    Raises
    ------
    ValueError
        Lengths that differ, no rows, nan, or numbers that are no labels.

    Examples
    --------
    >>> from gpuml.metrics import matthews_corrcoef
    >>> matthews_corrcoef([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)
    0.5774
    """
    return score_labels("matthews_corrcoef", y_true, y_pred, sample_weight)


def cohen_kappa_score(
    y1, y2, *, labels=None, weights=None, sample_weight=None, replace_undefined_by=np.nan
):
    """Agreement of two raters beyond what their margins alone would give.

    .. code-block:: text

        1 - sum d_ij N_ij / sum d_ij E_ij,        E = outer(t, p) / s

    with N the confusion matrix, t and p its margins, s its sum, and d the penalties.

    Parameters
    ----------
    y1, y2 : array-like of shape (n_samples,)
        Labels by either rater, of any array library. Counted where y2 is.
    labels : array-like of shape (n_classes,), default=None
        Labels that count, in their order. None takes all that occur.
    weights : {"linear", "quadratic"}, default=None
        Penalty of a disagreement: 1, the distance in the order of the labels, or its square.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows; None weighs each 1.
    replace_undefined_by : float in [-1, 1] or nan, default=np.nan
        The value where the score is not defined.

    Returns
    -------
    kappa : float
        At most 1.

    Raises
    ------
    ValueError
        Lengths that differ, no rows, nan, numbers that are no labels, no label of `labels` in y1.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        Where both raters use one and the same label.

    Examples
    --------
    >>> from gpuml.metrics import cohen_kappa_score
    >>> cohen_kappa_score([0, 0, 1, 1], [0, 1, 1, 1])
    0.5
    """
    return score_labels(
        "cohen_kappa_score",
        y1,
        y2,
        sample_weight,
        labels=labels,
        weights=weights,
        replace_undefined_by=replace_undefined_by,
    )


def class_likelihood_ratios(
    y_true, y_pred, *, labels=None, sample_weight=None, replace_undefined_by=np.nan
):
    """How much a positive, and a negative, prediction change the odds of the positive class.

    .. code-block:: text

        LR+ = sensitivity / (1 - specificity),        LR- = (1 - sensitivity) / specificity

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels of two classes, of any array library. Counted where y_pred is.
    labels : array-like of shape (2,), default=None
        The negative and the positive label. None takes them in their order.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows; None weighs each 1.
    replace_undefined_by : nan, 1.0 or dict with keys "LR+" and "LR-", default=np.nan
        Values of the ratios where they are not defined.

    Returns
    -------
    ratios : tuple (float, float)
        LR+ and LR-.

    Raises
    ------
    ValueError
        More than two classes, lengths that differ, no rows, nan, or numbers that are no labels.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        Where a ratio is not defined.

    Examples
    --------
    >>> from gpuml.metrics import class_likelihood_ratios
    >>> class_likelihood_ratios([0, 0, 1, 1], [0, 1, 1, 1])
    (2.0, 0.0)
    """
    return score_labels(
        "class_likelihood_ratios",
        y_true,
        y_pred,
        sample_weight,
        labels=labels,
        replace_undefined_by=replace_undefined_by,
    )


def positive_likelihood_ratio(y_true, y_pred):
    """The LR+ of `class_likelihood_ratios`, 1 where it is not defined, for the scorer."""
    return class_likelihood_ratios(y_true, y_pred, replace_undefined_by=1.0)[0]


def negative_likelihood_ratio(y_true, y_pred):
    """The LR- of `class_likelihood_ratios`, 1 where it is not defined, for the scorer."""
    return class_likelihood_ratios(y_true, y_pred, replace_undefined_by=1.0)[1]


def confusion_matrix(y_true, y_pred, *, labels=None, sample_weight=None, normalize=None):
    """Weights of the rows by true and predicted label.

    .. code-block:: text

        N_ij = sum w [y = label i, f = label j]

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted labels, of any array library. Counted where y_pred is.
    labels : array-like of shape (n_classes,), default=None
        Labels of the rows and columns. None takes all that occur, sorted.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    normalize : {"true", "pred", "all"}, default=None
        Whether rows, columns or the whole matrix are to sum to 1.

    Returns
    -------
    matrix : array of shape (n_classes, n_classes)
        In the library and on the device of y_pred; integers where weights are.

    Raises
    ------
    ValueError
        Lengths that differ, nan, numbers that are no labels, no label of `labels` in y_true.

    Examples
    --------
    >>> from gpuml.metrics import confusion_matrix
    >>> confusion_matrix([0, 0, 1, 1], [0, 1, 1, 1]).tolist()
    [[1, 1], [0, 2]]
    """
    return score_labels(
        "confusion_matrix", y_true, y_pred, sample_weight, labels=labels, normalize=normalize
    )
