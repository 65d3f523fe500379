"""Losses of predicted probabilities with scikit-learn's names.

Probabilities in host memory are given to scikit-learn. Those of another library or device are
reduced there, in float64, and one number comes to the host.
"""

from gpuml.metrics._class_single import score_scores
from gpuml.metrics._host import on_host

__all__ = ["brier_score_loss", "d2_brier_score", "d2_log_loss_score", "log_loss"]


def log_loss(
    y_true, y_proba=None, *, normalize=True, sample_weight=None, labels=None, y_pred="deprecated"
):
    """Mean negative logarithm of the probability given to what happened.

    .. code-block:: text

        -sum w log p_y / sum w

    with p no less than the precision eps of its type, and no more than 1 - eps.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Correct labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities, of any array library: of the positive class, or of all in the order of the
        sorted labels.
    normalize : bool, default=True
        Whether to divide by the sum of weights.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    labels : array-like of shape (n_classes,), default=None
        All labels, sorted. None takes those that occur in y_true.
    y_pred : array-like of the shape of `y_proba`
        The former name of `y_proba`, as in scikit-learn.

    Returns
    -------
    loss : float

    Raises
    ------
    ValueError
        Probabilities out of range or of another number of classes, lengths that differ, nan.

    Warns
    -----
    UserWarning
        If the probabilities of a row do not sum to 1.

    Examples
    --------
    >>> from gpuml.metrics import log_loss
    >>> log_loss([0, 1, 1], [0.1, 0.8, 0.6]).__round__(4)
    0.2798
    """
    options = {"normalize": normalize, "labels": labels}
    return _score("log_loss", y_true, y_proba, sample_weight, options, y_pred)


def brier_score_loss(
    y_true, y_proba, *, sample_weight=None, pos_label=None, labels=None, scale_by_half="auto"
):
    """Mean squared distance of probabilities from what happened.

    .. code-block:: text

        sum w |p - e_y|^2 / sum w,        e_y the indicator of the class

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Correct labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities, of any array library: of the positive class, or of all in the order of the
        sorted labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    pos_label : int, float, bool or str, default=None
        The positive class; None is the larger one of two numbers.
    labels : array-like of shape (n_classes,), default=None
        All labels, sorted. None takes those that occur in y_true.
    scale_by_half : bool or "auto", default="auto"
        Whether to halve the loss, so that it is between 0 and 1. "auto" does for two classes.

    Returns
    -------
    loss : float

    Raises
    ------
    ValueError
        Probabilities out of range or of another number of classes, lengths that differ, nan.

    Warns
    -----
    UserWarning
        If the probabilities of a row do not sum to 1.

    Examples
    --------
    >>> from gpuml.metrics import brier_score_loss
    >>> brier_score_loss([0, 1, 1], [0.1, 0.8, 0.6]).__round__(4)
    0.07
    """
    options = {"pos_label": pos_label, "labels": labels, "scale_by_half": scale_by_half}
    return _score("brier_score_loss", y_true, y_proba, sample_weight, options)


def d2_log_loss_score(
    y_true, y_proba=None, *, sample_weight=None, labels=None, y_pred="deprecated"
):
    """Share of the log loss of constant probabilities that is saved.

    .. code-block:: text

        1 - log_loss(y, p) / log_loss(y, shares of the classes)

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Correct labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities, of any array library: of the positive class, or of all in the order of the
        sorted labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows; None weighs each 1.
    labels : array-like of shape (n_classes,), default=None
        All labels, sorted. None takes those that occur in y_true.
    y_pred : array-like of the shape of `y_proba`
        The former name of `y_proba`, as in scikit-learn.

    Returns
    -------
    score : float
        At most 1.

    Raises
    ------
    ValueError
        Probabilities out of range or of another number of classes, lengths that differ, nan.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If there is one row; the value is nan.

    Examples
    --------
    >>> from gpuml.metrics import d2_log_loss_score
    >>> d2_log_loss_score([0, 1, 1], [0.1, 0.8, 0.6]).__round__(4)
    0.5605
    """
    return _score("d2_log_loss_score", y_true, y_proba, sample_weight, {"labels": labels}, y_pred)


def d2_brier_score(y_true, y_proba, *, sample_weight=None, pos_label=None, labels=None):
    """Share of the Brier score of constant probabilities that is saved.

    .. code-block:: text

        1 - brier(y, p) / brier(y, shares of the classes)

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Correct labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities, of any array library: of the positive class, or of all in the order of the
        sorted labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows; None weighs each 1.
    pos_label : int, float, bool or str, default=None
        The positive class; None is the larger one of two numbers.
    labels : array-like of shape (n_classes,), default=None
        All labels, sorted. None takes those that occur in y_true.

    Returns
    -------
    score : float
        At most 1.

    Raises
    ------
    ValueError
        Probabilities out of range or of another number of classes, lengths that differ, nan.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If there is one row; the value is nan.

    Examples
    --------
    >>> from gpuml.metrics import d2_brier_score
    >>> d2_brier_score([0, 1, 1], [0.1, 0.8, 0.6]).__round__(4)
    0.685
    """
    options = {"pos_label": pos_label, "labels": labels}
    return _score("d2_brier_score", y_true, y_proba, sample_weight, options)


def _score(name, y_true, y_proba, sample_weight, options, y_pred="deprecated"):
    if not (isinstance(y_pred, str) and y_pred == "deprecated"):
        options = {**options, "y_pred": on_host(y_pred)}
    return score_scores(name, y_true, y_proba, sample_weight, **options)
