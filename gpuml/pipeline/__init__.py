"""Pipelines and unions of steps, which gpuml's searches can fit together.

`Pipeline` and `make_pipeline` are scikit-learn's, unchanged: they only call their steps, so data
stays where the steps keep it. `FeatureUnion` and `make_union` differ from scikit-learn's in one
point: they join results on a device there.
"""

from sklearn.pipeline import Pipeline, make_pipeline

from gpuml._settings.first_use import at_first_use
from gpuml.pipeline._union import FeatureUnion, make_union

__all__ = ["FeatureUnion", "Pipeline", "make_pipeline", "make_union"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.pipeline")
