"""A pipeline whose first steps do not follow from sums, as a `ColumnTransformer` of all columns."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from gpuml._arrays import has_gpu
from gpuml._arrays.frames import is_host_frame
from gpuml._settings.config import current_settings
from gpuml._sklearn import _check_feature_names, _safe_indexing
from gpuml.data import Batch, Folds
from gpuml.pipeline._affine import AffinePipeline, output_names, pipeline_obstacle
from gpuml.pipeline._stacks import PipelineStack
from gpuml.pipeline._weights import fit_weights
from gpuml.resampling.multifit import TABLES, class_of, is_known

FRONT = "front"
# Steps whose output may be a DataFrame though they were not told to make one.
OPEN = ("FunctionTransformer", "Pipeline")


class FrontedPipeline(AffinePipeline):
    """A `Pipeline` of any steps that a table takes, and a linear model, with the multifit protocol.

    Parameters
    ----------
    pipeline, weight, weighted
        As for `AffinePipeline`.
    """

    def __init__(self, pipeline: Pipeline, weight: Any, weighted: set[str]):
        self.given = pipeline
        *front, (last_name, last) = pipeline.steps
        self.columns = "columns" if last_name != "columns" else "table"
        whole = class_of("ColumnTransformer", TABLES)(
            [(FRONT, Pipeline(front), slice(0, None))], sparse_threshold=1
        )
        inside = {self.columns} if weighted - {last_name} else set()
        super().__init__(
            Pipeline([(self.columns, whole), (last_name, last)]), weight, weighted | inside
        )
        self.row_in_: Any = None  # the first row, if X is a DataFrame

    @property
    def multifit_params(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the hyper-parameters that may differ within one call."""
        return tuple(name.removeprefix(self._prefix) for name in super().multifit_params)

    def multifit_obstacle(self, X: Any) -> str | None:
        """The reason why some step cannot be fitted together for this data, if any."""
        device = current_settings().device
        on_gpu = device == "cuda" or (device == "auto" and has_gpu())
        if on_gpu or not (is_host_frame(X) or hasattr(X, "frame_for")):
            # Tables are DataFrames, which are read in CPU memory.
            return pipeline_obstacle(self.given, {})
        return super().multifit_obstacle(X)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and bring them to their compute device."""
        batch = super().multifit_batch(X, y, sample_weight)
        self.row_in_ = _safe_indexing(X, [0]) if is_host_frame(X) else None
        return batch

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> PipelineStack:
        """Fit every candidate to the training rows of every split."""
        return super().multifit(folds, [self._inside(each) for each in candidates], advance)

    def check(self, candidate: Mapping[str, Any]) -> None:
        """Raise scikit-learn's error for an invalid parameter of a step."""
        super().check(self._inside(candidate))

    def multifit_model(self, params: Mapping[str, Any], attributes: Mapping[str, Any]) -> Pipeline:
        """A fitted pipeline with the attributes from a stack."""
        inside = super().multifit_model(self._inside(params), attributes)
        model = clone(self.given).set_params(**clone(dict(params), safe=False))
        front, last = inside.steps[0][1].transformers_[0][1], inside.steps[-1]
        model.steps = [*front.steps, last]
        seen = [step for _, step in front.steps if step is not None and not isinstance(step, str)]
        names = output_names(seen[-1]) if seen else None
        if names is not None:
            last[1].feature_names_in_ = names
        elif seen and (type(seen[-1]).__name__ in OPEN or not is_known(seen[-1])):
            self._tell_names(seen, last[1])
        return model

    def _tell_names(self, steps, last):
        """Tell a model the names of its features if a function or a foreign step gives some."""
        if self.row_in_ is None:
            return
        # One row may be too few for a user's step. Then `predict` warns, by scikit-learn's check,
        # that the model knows no names.
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            image = self.row_in_
            for step in steps:
                image = step.transform(image)
            if image.shape[1] == last.n_features_in_:
                _check_feature_names(last, image, reset=True)

    @property
    def _prefix(self):
        return f"{self.columns}__{FRONT}__"

    def _inside(self, params):
        """The parameters, with the names that the steps have inside the table."""
        own = {name for name, _ in self.given.steps[:-1]}
        return {
            self._prefix + name if name.partition("__")[0] in own else name: value
            for name, value in params.items()
        }


def fronted_pipeline(estimator: Any, fit_params: Mapping[str, Any]) -> FrontedPipeline | None:
    """The object that fits all candidates of a pipeline together as a table; None for others."""
    plain = type(estimator) is Pipeline and len(estimator.steps) > 1
    if not plain or pipeline_obstacle(estimator, fit_params, anyhow=True) is not None:
        return None
    weights = fit_weights(estimator, fit_params)
    fronted = FrontedPipeline(estimator, *weights) if weights is not None else None
    table = None if fronted is None else fronted.table
    return fronted if table is not None and table.affine_obstacle(None) is None else None
