"""A pipeline of affine steps before a linear model, with all candidates fitted together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from gpuml._arrays import is_foreign
from gpuml._sklearn import _get_output_config, validate_parameter_constraints
from gpuml.data import Absent, Batch, Folds
from gpuml.extending import ClassStack, MultifitEstimator, TableStep
from gpuml.pipeline._beside_tables import batch_beside, piece_beside
from gpuml.pipeline._chains import Chains, Rows, Setting, Step, setting_key
from gpuml.pipeline._from_rows import BEHIND_TABLES, from_rows, reading_obstacle, step_name
from gpuml.pipeline._moments import described_rows, not_described, step_obstacle
from gpuml.pipeline._stacks import (
    Branch,
    ClassPipelineStack,
    PipelineStack,
    RegressionPipelineStack,
)
from gpuml.pipeline._weights import fit_weights, weights_obstacle
from gpuml.resampling.keys import value_key
from gpuml.resampling.multifit import (
    BY_ROW,
    DENSE_BY_ROW,
    TABLES,
    data_obstacle,
    is_known,
    model_words,
    offers_affine,
    offers_multifit,
    ours_of,
    own_map_words,
    step_words,
)
from gpuml.resampling.stand_ins import refuse
from gpuml.solvers.described import unweighted
from gpuml.solvers.table_rows import Table


class AffinePipeline(MultifitEstimator):
    """A scikit-learn `Pipeline` of affine steps and a linear model, with the multifit protocol.

    Parameters
    ----------
    pipeline : Pipeline
        With the parameters that all candidates share.
    weight : array-like or None
        Sample weights that some of its steps are fitted with.
    weighted : set of str
        Names of these steps.
    """

    def __init__(self, pipeline: Pipeline, weight: Any, weighted: set[str]):
        self.pipeline = pipeline
        self.weight = weight
        self.weighted = weighted
        *before, (self.last_name, self.last) = pipeline.steps
        self.by_row, self.before = _in_front(before)
        self.by_row_in_: list[dict[str, Any]] = []  # the fitted first steps
        self.knows_levels = False  # whether rows come as tables of codes of known levels
        first = self.before[0][1] if self.before else None
        self.table = first if isinstance(first, TableStep) else None

    @property
    def batch_kind(self) -> Any:
        """A key: pipelines with the same key share a batch."""
        kind: Any = type(self.last)
        if self.by_row:
            kind = kind, value_key([step for _, step in self.by_row])
        return kind if self.table is None else (kind, self.table.table_key())

    @property
    def only_fits(self) -> str | None:
        """The step whose output for training rows differs between fits and scores, if any."""
        return None if self.table is None else self.table.table_only_fits()

    @cached_property
    def multifit_params(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the hyper-parameters that may differ within one call."""
        own = [(name, step.affine_params) for name, step in self.before]
        own.append((self.last_name, self.last.multifit_params))
        return tuple(f"{step}__{param}" for step, params in own for param in params)

    @property
    def multifit_divided(self) -> bool:  # type: ignore[override]
        """Whether rows may stay divided: steps read only sums, and the model decides for itself.

        Tables may if somebody has found the levels of all rows before.
        """
        return (self.table is None or self.knows_levels) and self.divided_words() is None

    def divided_words(self) -> str | None:
        """Why steps and model are not fitted from sums over rows; None if they are."""
        for _, step in self.before:
            if step.affine_needs_rows:
                return f"{step_name(step)} is fitted to rows; use StandardScaler, or leave it out"
        if self.by_row:
            return f"{type(self.by_row[0][1]).__name__} transforms rows in memory"
        own = self.last.multifit_divided
        return None if own else f"{type(self.last).__name__} does not set multifit_divided"

    @property
    def multifit_targets(self) -> bool:  # type: ignore[override]
        """Whether each target has a model of its own and no step reads targets."""
        steps = [getattr(step, "step", step) for _, step in (*self.by_row, *self.before)]
        selects = any(hasattr(step, "get_support") for step in steps)
        looks = selects or any(get_tags(step).target_tags.required for step in steps)
        return self.last.multifit_targets and self.table is None and not looks

    def multifit_obstacle(self, X: Any) -> str | None:
        """The reason why some step cannot be fitted from second moments of this data, if any."""
        steps = [step for _, step in self.before]
        for step in [*(step for _, step in self.by_row), *steps, self.last]:
            if hasattr(step, "_parameter_constraints"):
                step._validate_params()
        why = not_described(X)
        if why is None and self.table is None:
            why = reading_obstacle(steps, X)
        if why is None and self.by_row:
            why = self._not_by_row(X)
            n_features = 0 if why else self._n_features_behind(X.shape[1])
            X = Absent((X.shape[0], n_features), np.dtype(np.float64))
        why = why or not_described(X) or _unknown_extrema(steps)
        if why is None and self.table is not None:
            why = self._table_obstacle(self.table, X, steps[1:])
            X, steps = Absent((X.shape[0], 1), np.dtype(np.float64)), steps[1:]
        of_steps = (step_obstacle(step, X) for step in steps)
        return why or next(filter(None, of_steps), None) or data_obstacle(self.last, X)

    def _not_by_row(self, X):
        """The reason why the first steps cannot transform all rows together, if any."""
        weighted = [step for name, step in self.by_row if name in self.weighted]
        if weighted:
            return f"sample weights are routed to {type(weighted[0]).__name__}"
        names = [type(step).__name__ for _, step in self.by_row]
        if not hasattr(X, "tocsr") or any(name in DENSE_BY_ROW for name in names):
            return None
        return f"X is sparse, and {', '.join(names)} leaves it so"

    def _n_features_behind(self, n_features):
        """The number of features after the first steps."""
        row = np.ones((1, n_features))
        for _, step in self.by_row:
            row = clone(step).fit_transform(row)
        return row.shape[1]

    def _table_obstacle(self, table, X, behind):
        """The reason why a `TableStep` and the steps behind it cannot share the pass, if any."""
        is_divided = hasattr(X, "frame_for")
        X = X.frame_for(table) if is_divided else X
        why = step_obstacle(table, X) or self._around_table(behind)
        if is_divided:
            why = why or table.table_divided(X)
        return why or table.table_obstacle(X, behind, self.last)

    def _around_table(self, behind):
        """The reason why steps around a `TableStep` prevent a shared pass, if any."""
        name = type(self.table).__name__
        if self.before[0][0] in self.weighted:
            return f"sample weights are routed to steps of {name}"
        sparse = self.table.table_sparse() if behind and self.table else None
        if sparse is None:
            return None
        return f"{type(behind[0]).__name__} behind {name} with {sparse}; set sparse_threshold=0"

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and bring them to their compute device."""
        last = clone(self.last)
        if self.table is not None:
            return self.table.table_batch(batch_beside(last, X, y, sample_weight), X)
        fitted = []
        for _, step in self.by_row:
            own = ours_of(step, BY_ROW) if is_foreign(X) else clone(step)
            X = own.fit_transform(X)
            params = own.get_params(deep=False)
            fitted.append({n: v for n, v in vars(own).items() if n not in params})
        batch = last.multifit_batch(X, y, sample_weight)
        vars(self).update({n: v for n, v in vars(last).items() if n.endswith("_in_")})
        self.by_row_in_ = fitted
        return batch

    def multifit_piece(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As `multifit_batch`, for some of the rows, which may be a table."""
        last = clone(self.last)
        if isinstance(X, Table):
            return piece_beside(last, X, y, sample_weight)
        batch = last.multifit_piece(X, y, sample_weight)
        vars(self).update({n: v for n, v in vars(last).items() if n.endswith("_in_")})
        return batch

    def multifit_joined(self, batch: Batch) -> Batch:
        """A block as one of all rows, once their classes are known."""
        return self.last.multifit_joined(batch)

    def multifit_rows(self, folds: Folds) -> int | None:
        """The number of rows that `multifit` will read; None if unknown."""
        return self.last.multifit_rows(folds)

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float] | None:
        """The costs of the model, with a pass for the moments of the steps if it needs none."""
        n_features = self._n_features_behind(n_features)
        work = self.last.multifit_work(n_rows, n_features, n_targets, n_models)
        if work is None or work[0] == 1:
            return work
        return work[0], work[1] + 2.0 * n_rows * n_features**2

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> PipelineStack:
        """Fit every candidate on the training part of every split.

        The rows are read once for their second moments; every step, and a least-squares model, is
        fitted to what the steps before it make of those. Other models read the rows as often as
        they do without the steps.
        """
        settings = self._settings(candidates)
        if self.table is not None:
            folds = self.table.table_folds(folds, [setting[0] for setting, _ in settings])
        own = folds if self.last_name in self.weighted else unweighted(folds)
        rows = frames = None
        if self.before:
            chains = self._chains(folds, [setting for setting, _ in settings], advance)
            rows, frames = chains.rows, chains.frames()
            self._refuse_sparse(frames, folds)
        read_before = rows.n_extrema if rows else 0
        branches = []
        for frame, (_, positions) in zip(frames or [None], settings, strict=True):
            params = [_of_step(candidates[i], self.last_name) for i in positions]
            stack = self.last.multifit(replace(own, frame=frame), params, advance)
            branches.append(Branch(frame, stack, tuple(positions)))
        # Extrema are read when a step first needs them, during the fits of models.
        n_passes = rows.n_passes + rows.n_extrema - read_before if rows else 0
        n_passes += getattr(folds.batch, "n_readings", 0)
        if isinstance(branches[0].stack, ClassStack):
            return ClassPipelineStack(branches, n_passes)
        same_weights = (own.batch.weight is None) == (folds.batch.weight is None)
        return RegressionPipelineStack(branches, n_passes, same_weights)

    def _refuse_sparse(self, frames, folds):
        """Refuse splits whose table is sparse to a model of dense rows, as scikit-learn's does."""
        if self.table is None or self.table.table_sparse() is None or folds.batch.is_divided:
            return
        if get_tags(self.last).input_tags.sparse or not _is_sparse(frames, 0):
            return  # other training parts have the same columns, or nearly so
        why = f"{type(self.last).__name__} takes no sparse rows; set sparse_output=False"
        reasons = {s: why for s in range(folds.n_splits) if _is_sparse(frames, s)}
        refuse(reasons, folds.n_splits)

    def check(self, candidate: Mapping[str, Any]) -> None:
        """Raise scikit-learn's error for an invalid parameter of a step."""
        for name, step in [*self.by_row, *self.before, (self.last_name, self.last)]:
            params = _of_step(candidate, name)
            constraints = getattr(step, "_parameter_constraints", {})
            known = {param: constraints[param] for param in params if param in constraints}
            validate_parameter_constraints(known, params, type(step).__name__)

    def multifit_model(self, params: Mapping[str, Any], attributes: Mapping[str, Any]) -> Pipeline:
        """A fitted pipeline with the attributes from a stack."""
        model = clone(self.pipeline).set_params(**clone(dict(params), safe=False))
        seen = {n: v for n, v in vars(self).items() if n in ("n_features_in_", "feature_names_in_")}
        steps = [step for _, step in model.steps[:-1] if not _is_left_out(step)]
        for step, found in zip(steps, self.by_row_in_, strict=False):
            vars(step).update(found)
        for step, found in zip(steps[len(self.by_row_in_) :], attributes["steps"], strict=True):
            vars(step).update({**seen, **found})
            seen = _seen_after(step, seen)
        last = model.steps[-1][1]
        vars(last).update({**seen, **attributes["last"]})
        return model

    def _settings(self, candidates):
        """The distinct settings of the steps, with the candidates that have each."""
        found: dict[Any, tuple[Setting, list[int]]] = {}
        for position, candidate in enumerate(candidates):
            setting = tuple(_of_step(candidate, name) for name, _ in self.before)
            key = tuple(map(setting_key, setting))
            found.setdefault(key, (setting, []))[1].append(position)
        return list(found.values())

    def _chains(self, folds, settings, advance):
        steps = [Step(name, step, name in self.weighted) for name, step in self.before]
        bare = replace(folds, frame=None)
        weighted = described_rows(self.pipeline, bare, advance, len(settings))
        rows = Rows(weighted, weighted)
        if folds.batch.weight is not None and not all(step.weighted for step in steps):
            plain = described_rows(self.pipeline, unweighted(bare), advance, len(settings))
            rows = replace(rows, unweighted=plain)
        chains = Chains(rows, steps, settings, self._outside(folds))
        return chains.known_to(bare)

    def _outside(self, folds):
        """First steps that are fitted to outer splits, without those that need no fit."""
        if folds.outside is None:
            return None
        first = self.pipeline.steps[: folds.outside.n_steps]
        n_steps = sum(not _is_left_out(step) for _, step in first) - len(self.by_row)
        return replace(folds.outside, n_steps=n_steps) if n_steps > 0 else None


def affine_pipeline(estimator: Any, fit_params: Mapping[str, Any]) -> AffinePipeline | None:
    """The object that fits all candidates of a pipeline together; None if there is none.

    Parameters
    ----------
    estimator : estimator
    fit_params : dict
        What its `fit` is to be given.
    """
    if pipeline_obstacle(estimator, fit_params) is not None:
        return None
    return AffinePipeline(estimator, *fit_weights(estimator, fit_params))


def pipeline_obstacle(
    estimator: Any, fit_params: Mapping[str, Any], *, anyhow: bool = False
) -> str | None:
    """The reason why `affine_pipeline` refuses a pipeline, as text for the user, if it does.

    With `anyhow`, the steps before the model may be any.
    """
    if type(estimator) is not Pipeline or not estimator.steps:
        return f"{type(estimator).__name__} is not scikit-learn's Pipeline"
    if estimator.memory is not None:
        return "the pipeline has memory=; leave it out: the rows are read once anyway"
    if any(getattr(part, "_skl_callbacks", None) for _, part in estimator.steps):
        return "callbacks follow the steps of the pipeline"
    if getattr(estimator, "transform_input", None) is not None:
        return "the pipeline has transform_input="
    *before, (name, last) = estimator.steps
    steps = [step for _, step in _in_front(before)[1]]
    why = None if anyhow else next(filter(None, map(step_words, steps)), None)
    why = why or model_words(last)
    if why is None and not last.multifit_in_frames:
        why = f"{type(last).__name__} needs the original rows, without steps before it"
    weight = f"{name}__sample_weight"
    if why is None and weight in fit_params and not has_fit_parameter(last, "sample_weight"):
        why = f"fit is given {weight}"
    if why is None:
        why = weights_obstacle(estimator, fit_params)
    return why


def affine_tail(pipeline: Pipeline) -> int:
    """How many last steps of a pipeline `affine_pipeline` accepts; 1 for the last one alone.

    The first of several is not "passthrough".
    """
    *before, (_, last) = pipeline.steps
    n_last = 1
    steps: list[Any] = []
    if not _works_in_frames(last):
        return n_last
    for n_steps, (_, step) in enumerate(reversed(before), start=2):
        if _is_left_out(step):
            continue
        steps = [step, *steps]
        if not offers_affine(step) or _unknown_extrema(steps):
            break
        n_last = n_steps
    return n_last


def _in_front(steps):
    """The first steps, which transform each row by itself, and the other steps, with their names.

    If the first of the others reads a table and no step precedes it, it is gpuml's class.
    """
    steps = [(name, step) for name, step in steps if not _is_left_out(step)]
    by_row = list(takewhile(lambda named: _is_by_row(named[1]), steps))
    rest = [(name, from_rows(step)) for name, step in steps[len(by_row) :]]
    if by_row:
        return by_row, rest
    table = [(name, ours_of(step, TABLES)) for name, step in rest[:1]]
    if table and isinstance(table[0][1], TableStep):
        # Tables are read in CPU memory.
        rest = [(name, from_rows(step, BEHIND_TABLES)) for name, step in rest]
    return [], table + rest[1:]


def _is_by_row(step):
    """Whether a step transforms each row by itself, and is no subclass that may differ."""
    return is_known(step) and type(step).__name__ in BY_ROW and own_map_words(step) is None


def _is_left_out(step):
    return step is None or (isinstance(step, str) and step == "passthrough")


def _is_sparse(frames, split):
    """Whether what a `TableStep` makes of a training part is sparse."""
    return any(frame.steps_of(split)[0].get("sparse_output_") for frame in frames)


def _works_in_frames(model):
    return offers_multifit(model) and model.multifit_in_frames


def _unknown_extrema(steps):
    """The reason why a step that needs extrema of features cannot have them, if any."""
    mixing = None
    for step in steps:
        if mixing is not None and step.affine_needs_extrema:
            return (
                f"{type(step).__name__} needs extrema of features behind {type(mixing).__name__}, "
                "which mixes features; put it before"
            )
        mixing = mixing if step.affine_is_diagonal else step
    return None


def _of_step(params, name):
    """The parameters of one step, without the prefix."""
    prefix = f"{name}__"
    return {key[len(prefix) :]: v for key, v in params.items() if key.startswith(prefix)}


def _seen_after(step, seen):
    """The number of features of the next step's input, and their names if there are any."""
    names = output_names(step)
    if names is not None:
        return {"n_features_in_": len(names), "feature_names_in_": names}
    if hasattr(step, "get_support"):
        return {"n_features_in_": int(step.get_support().sum())}
    width = getattr(step, "_n_features_out", seen.get("n_features_in_"))
    if width is None:
        width = max(columns.stop for columns in step.output_indices_.values())
    return {"n_features_in_": int(width)}


def output_names(step: Any) -> Any:
    """Column names of a step's output if it is a DataFrame, else None."""
    frames = _get_output_config("transform", step)["dense"] != "default"
    return step.get_feature_names_out() if frames else None
