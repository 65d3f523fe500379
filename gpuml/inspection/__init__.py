"""Pictures of searches and models, drawn with matplotlib from what is wherever it is."""

from gpuml._settings.first_use import at_first_use
from gpuml.inspection.responses import (
    ConfusionMatrixDisplay,
    DetCurveDisplay,
    PrecisionRecallDisplay,
    PredictionErrorDisplay,
    RocCurveDisplay,
)
from gpuml.inspection.scree import ScreeDisplay
from gpuml.inspection.search import SearchDisplay

__all__ = [
    "ConfusionMatrixDisplay",
    "DetCurveDisplay",
    "PrecisionRecallDisplay",
    "PredictionErrorDisplay",
    "RocCurveDisplay",
    "ScreeDisplay",
    "SearchDisplay",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.inspection")
