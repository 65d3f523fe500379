"""Metrics and scorers with scikit-learn's names, evaluated where the data is."""

from sklearn.metrics import make_scorer

from gpuml._settings.first_use import at_first_use
from gpuml.metrics import cluster
from gpuml.metrics.classification import (
    accuracy_score,
    balanced_accuracy_score,
    class_likelihood_ratios,
    cohen_kappa_score,
    confusion_matrix,
    f1_score,
    fbeta_score,
    jaccard_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
)
from gpuml.metrics.probabilities import (
    brier_score_loss,
    d2_brier_score,
    d2_log_loss_score,
    log_loss,
)
from gpuml.metrics.ranking import average_precision_score, roc_auc_score, top_k_accuracy_score
from gpuml.metrics.regression import (
    d2_absolute_error_score,
    d2_pinball_score,
    d2_tweedie_score,
    explained_variance_score,
    max_error,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
    mean_squared_log_error,
    mean_tweedie_deviance,
    median_absolute_error,
    r2_score,
    root_mean_squared_error,
    root_mean_squared_log_error,
)
from gpuml.metrics.scorer import check_scoring, get_scorer, get_scorer_names

__all__ = [
    "accuracy_score",
    "average_precision_score",
    "balanced_accuracy_score",
    "brier_score_loss",
    "check_scoring",
    "class_likelihood_ratios",
    "cluster",
    "cohen_kappa_score",
    "confusion_matrix",
    "d2_absolute_error_score",
    "d2_brier_score",
    "d2_log_loss_score",
    "d2_pinball_score",
    "d2_tweedie_score",
    "explained_variance_score",
    "f1_score",
    "fbeta_score",
    "get_scorer",
    "get_scorer_names",
    "jaccard_score",
    "log_loss",
    "make_scorer",
    "matthews_corrcoef",
    "max_error",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_gamma_deviance",
    "mean_pinball_loss",
    "mean_poisson_deviance",
    "mean_squared_error",
    "mean_squared_log_error",
    "mean_tweedie_deviance",
    "median_absolute_error",
    "precision_score",
    "r2_score",
    "recall_score",
    "roc_auc_score",
    "root_mean_squared_error",
    "root_mean_squared_log_error",
    "top_k_accuracy_score",
]

__getattr__, __dir__ = at_first_use(__name__, packages=("pairwise",), mirrors="sklearn.metrics")
