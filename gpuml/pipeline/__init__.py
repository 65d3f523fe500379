"""Chains of steps: scikit-learn's own classes, which searches of gpuml know how to fit at once.

`Pipeline`, `FeatureUnion`, `make_pipeline` and `make_union` are scikit-learn's, unchanged: they
only call their steps, so they are where the data is if the steps are.
"""

from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union

__all__ = ["FeatureUnion", "Pipeline", "make_pipeline", "make_union"]
