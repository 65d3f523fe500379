"""A search after other steps of a pipeline, fitted inside the splits of an outer cross-validation.

The steps are fitted to an outer training set, and the search splits their output. So its fits are
fits of whole pipelines whose first steps are fitted to the outer training set.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from gpuml._sklearn import BaseSearchCV
from gpuml.data import Outside
from gpuml.model_selection.one_by_one import Task
from gpuml.model_selection.residence import all_estimators
from gpuml.model_selection.scores import asks_for_predictions_only
from gpuml.pipeline._affine import AffinePipeline
from gpuml.resampling.split import is_theirs

MODEL = "model of the search"


def search_in(estimator: Any) -> Any:
    """The search that an estimator is, or that ends a pipeline; None if there is none."""
    steps = getattr(estimator, "steps", None) if isinstance(estimator, Pipeline) else None
    last = steps[-1][1] if steps else estimator
    return last if isinstance(last, BaseSearchCV) else None


class Behind:
    """A search, or a pipeline that ends in one, with parameters of its own.

    Attributes
    ----------
    search : BaseSearchCV
    whole : BaseSearchCV
        The same over whole pipelines.
    n_steps : int
        How many steps stand before it.
    routed : tuple
        The candidates of `whole`, and their routes, once `route` has found them.
    """

    routed: tuple[Sequence[Mapping[str, Any]], list[Any]] = (), []

    def __init__(self, estimator: Any):
        self.estimator, self.search = estimator, search_in(estimator)
        self.before = [] if self.search is estimator else estimator.steps[:-1]
        self.n_steps = len(self.before)
        self.whole = clone(self.search)
        self._is_pipeline = isinstance(getattr(self.search, "estimator", None), Pipeline)
        if self.n_steps:
            inner = self.whole.estimator
            last = inner.steps if self._is_pipeline else [(MODEL, inner)]
            first = [(f"step {i} before it", step) for i, (_, step) in enumerate(self.before)]
            self.whole.estimator = clone(Pipeline([*first, *last]))

    def candidates(self) -> list[Mapping[str, Any]]:
        """The candidates of the search, as candidates of the whole pipeline."""
        found = clone(self.search)._candidates()
        if not self.n_steps or self._is_pipeline:
            return found
        return [{f"{MODEL}__{name}": value for name, value in each.items()} for each in found]

    def outside(self, owners: Sequence[int]) -> Outside:
        """Which splits are inside others, whose training rows the first steps are fitted to."""
        return Outside(self.n_steps, tuple(owners))

    def inner(self, model: Any) -> Any:
        """The model of the search, from a fitted whole pipeline."""
        if not self.n_steps:
            return model
        if not self._is_pipeline:
            return model.steps[-1][1]
        own = copy(model)
        vars(own).update(vars(clone(self.search.estimator)), steps=model.steps[self.n_steps :])
        return own

    def assembled(self, share: Any, search: Any) -> Any:
        """A fitted search after its fitted first steps."""
        if not self.n_steps:
            return search
        out = clone(self.estimator)
        fitted = [step for _, step in share.whole.steps[: self.n_steps]]
        names = [name for name, _ in self.estimator.steps]
        out.steps = list(zip(names, [*fitted, search], strict=True))
        return out

    def obstacle(self, given: Task, task: Task) -> str | None:
        """The reason why the fits of the search are not fits of whole pipelines, if any.

        `given` is the task of the outer fits, `task` that of the search.
        """
        if not self.n_steps:
            return None
        kind, inner = type(self.search).__name__, self.search.estimator
        for each in (self.estimator, *([inner] if self._is_pipeline else [])):
            if type(each) is not Pipeline:
                return f"{type(each).__name__} is not scikit-learn's Pipeline"
            if each.memory is not None:
                return "the pipeline has memory=; leave it out: the rows are read once anyway"
            if getattr(each, "transform_input", None) is not None:
                return "the pipeline has transform_input="
        if any(getattr(part, "_skl_callbacks", None) for part in all_estimators(self.estimator)):
            return "callbacks follow every single fit"
        if given.fit_params or given.score_params:
            names = sorted({*given.fit_params, *given.score_params})
            return f"{kind} comes after other steps, and fit was passed {', '.join(names)}"
        cv = self.search.cv
        if hasattr(cv, "split") and not is_theirs(cv):
            return f"{type(cv).__name__} may use the output of the steps before {kind}"
        if not asks_for_predictions_only(task):
            return f"scoring of {kind} may use the output of the steps before it"
        return None

    def fits_obstacle(self, fits: Any) -> str | None:
        """The reason why `fits` cannot fit the first steps to other rows than the model, if any."""
        if not self.n_steps or (isinstance(fits, AffinePipeline) and fits.table is None):
            return None
        names = ", ".join(type(step).__name__ for _, step in self.before)
        kind = type(self.search).__name__
        return (
            f"{names} before {kind} is fitted anew on each outer training set; search over "
            f"the whole pipeline instead: {kind}(make_pipeline({names}, ...), ...)"
        )
