"""Pictures of searches and models, drawn with matplotlib from what is wherever it is."""

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
