"""Chains and unions of steps, which searches of gpuml know how to fit at once.

`Pipeline` and `make_pipeline` are scikit-learn's, unchanged: they only call their steps, so they
are where the data is if the steps are. `FeatureUnion` and `make_union` are scikit-learn's but for
one thing: results on a device are joined there.
"""

from sklearn.pipeline import Pipeline, make_pipeline

from gpuml._settings.first_use import at_first_use
from gpuml.pipeline._union import FeatureUnion, make_union

__all__ = ["FeatureUnion", "Pipeline", "make_pipeline", "make_union"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.pipeline")
