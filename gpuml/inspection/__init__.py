"""Pictures of searches and models, standard errors of coefficients, importance of features."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.inspection.bands import PrecisionRecallBandDisplay, RocBandDisplay
from gpuml.inspection.clusters import ClusterCurveDisplay
from gpuml.inspection.responses import (
    CalibrationDisplay,
    ConfusionMatrixDisplay,
    DetCurveDisplay,
    PrecisionRecallDisplay,
    PredictionErrorDisplay,
    RocCurveDisplay,
)
from gpuml.inspection.scree import ScreeDisplay
from gpuml.inspection.search import SearchDisplay

if TYPE_CHECKING:
    from gpuml.inspection._summary import Summary
    from gpuml.inspection.importance import permutation_importance
    from gpuml.inspection.inference import summarize

__all__ = [
    "CalibrationDisplay",
    "ClusterCurveDisplay",
    "ConfusionMatrixDisplay",
    "DetCurveDisplay",
    "PrecisionRecallBandDisplay",
    "PrecisionRecallDisplay",
    "PredictionErrorDisplay",
    "RocBandDisplay",
    "RocCurveDisplay",
    "ScreeDisplay",
    "SearchDisplay",
    "Summary",
    "permutation_importance",
    "summarize",
]

# They bring models along, which searches need not.
_LATER = {
    "Summary": "gpuml.inspection._summary",
    "permutation_importance": "gpuml.inspection.importance",
    "summarize": "gpuml.inspection.inference",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER, mirrors="sklearn.inspection")
