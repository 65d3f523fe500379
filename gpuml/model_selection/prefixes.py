"""Pipelines on one fold: first steps that candidates share are fitted once.

Candidates whose first steps are equal (class, parameters, metadata) share a *prefix*. Prefixes form
a tree: its root is the fold's rows, and each further step is a child. The tree is visited depth
first, so that what is kept are the rows along one branch, as far as `PrefixCache` has room for
them. Candidates with the same prefix get its rows for their last steps together.

The last steps of a candidate are its model and the affine steps right before that, as far as they
may be fitted at once with those of others. Where that turns out to be impossible for the rows that
a prefix made, the affine steps make the prefix longer, and the model is left.

What differs from fitting every candidate by itself: a step without a fixed `random_state` draws
once for all candidates that share it, and what a step warns of or prints is said once; of last
steps that are fitted at once, the model alone prints its seconds.
"""

import time
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from traceback import format_exc
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from gpuml._settings.config import current_settings
from gpuml._sklearn import _fit_transform_one
from gpuml.model_selection.candidates import NOTHING, STEPS, STEPS_AGAIN, Made, Refusal
from gpuml.model_selection.last_steps import fit_alone, fit_members
from gpuml.model_selection.members import Candidate, Member, Stage, member_of
from gpuml.model_selection.one_by_one import (
    Fold,
    Task,
    announce_end,
    announce_start,
    finish,
)
from gpuml.model_selection.own_rows import private_rows, private_values, read_only
from gpuml.model_selection.prefix_cache import PrefixCache
from gpuml.model_selection.residence import place_name
from gpuml.model_selection.scores import asks_for_predictions_only
from gpuml.pipeline._affine import affine_tail
from gpuml.resampling.keys import value_key


def shares_prefixes(estimator: Any, candidates: Sequence[Any]) -> bool:
    """Whether `fit_pipelines` applies: several candidates of one of scikit-learn's pipelines."""
    return len(candidates) > 1 and _is_plain(estimator)


def fit_pipelines(
    estimator: Any, fold: Fold, candidates: Sequence[Candidate], task: Task
) -> list[dict[str, Any]]:
    """Fit and score candidates of a pipeline on one fold.

    As `fit_fold`, in another order. The seconds of a step are shared out evenly among the
    candidates that share it, those of transforming held-out rows likewise, as `score_time`.

    Parameters
    ----------
    estimator : Pipeline
    fold : Fold
    candidates : sequence of (parameters or None, Progress)
    task : Task

    Returns
    -------
    results : list of dict
        In the order of the candidates, each with "made".
    """
    tree, unshared = plant(estimator, candidates, fold.fit_params)
    results = Visit(tree, fold, task).down(tree)
    for position in unshared:
        results[position] = fit_alone(member_of(estimator, fold, *candidates[position]), fold, task)
    return [results[position] for position in range(len(candidates))]


def prefix_order(estimator: Any, candidates: Sequence[Mapping[str, Any]]) -> list[int]:
    """Positions of candidates, ordered so that those with a common prefix are neighbours."""
    placed = [(params, None) for params in candidates]
    tree, unshared = plant(estimator, placed, {}, tails=False)
    return [*(leaf.position for leaf in _leaves(tree)), *unshared]


def have_common_steps(estimator: Any, candidates: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any two candidates share their first steps."""
    names = [name for name, _ in estimator.steps[:-1]]
    steps = dict(estimator.steps)
    met = set()
    for params in candidates:
        left = [n for n in names if params.get(n, steps[n]) not in (None, "passthrough")]
        if not left:
            continue
        # Longer prefixes have fewer candidates.
        first = left[0]
        own = {name: v for name, v in params.items() if name.partition("__")[0] == first}
        key = first, *((name, value_key(own[name])) for name in sorted(own))
        if key in met:
            return True
        met.add(key)
    return False


# ---------------------------------------------------------------- the tree


@dataclass(frozen=True)
class _Leaf:
    """A candidate in the tree.

    Attributes
    ----------
    position : int
        Among all candidates.
    params, where
        The candidate and its place, for what is printed.
    pipeline : Pipeline
        With the candidate's parameters, not fitted.
    routed : mapping
        Parameters of the methods of its steps.
    n_last : int
        How many last steps follow the prefix that it hangs on.
    """

    position: int
    params: Mapping[str, Any] | None
    where: Any
    pipeline: Pipeline
    routed: Mapping[str, Any]
    n_last: int

    def steps_before(self) -> "list[tuple[str, Any, str | None]]":
        """Names, steps and messages of all steps before the last ones, without "passthrough"."""
        steps, last = self.pipeline, len(self.pipeline.steps) - self.n_last
        found = steps._iter(with_final=False)
        return [(name, step, steps._log_message(i)) for i, name, step in found if i < last]

    def member(self, prefix: "Prefix") -> Member:
        """The last steps, to be fitted to the output of a prefix."""
        steps, n_last = self.pipeline, self.n_last
        name, model = steps.steps[-1][0], steps._final_estimator
        fit_params = {} if isinstance(model, str) else self.routed[name]["fit"]
        if n_last > 1:
            model = Pipeline(steps.steps[-n_last:])
        message = steps._log_message(len(steps.steps) - 1)
        assemble = partial(_assembled, self, prefix)
        return Member(self.params, self.where, model, fit_params, assemble, message, n_last)


@dataclass(eq=False)
class Prefix:
    """The first steps of some candidates, and the last of these steps in particular.

    Attributes
    ----------
    parent : Prefix or None
        The steps before; None for the fold's rows as they are.
    name : str
    step : transformer or None
        Not fitted; fits are fits of clones.
    routed : mapping
        Parameters of its methods besides X and y.
    message : str or None
        What is printed with the seconds of the fit.
    children, leaves
        Longer prefixes, and candidates whose last steps follow this prefix.
    n_below, n_left : int
        Candidates below, and those of them that are not done yet.
    n_fits : int
        How often the step was fitted.
    fitted, error
        The fitted step, or the text of the error that it raised.
    given : mapping of str to rows
        Rows as the steps make them, of parts ("fit", "test", "train") for which they are known.
    fit_seconds, score_seconds : float
        What each candidate that is not done yet has to bear.
    """

    parent: "Prefix | None" = None
    name: str = ""
    step: Any = None
    routed: Mapping[str, Any] = field(default_factory=dict)
    message: str | None = None
    children: dict[Hashable, "Prefix"] = field(default_factory=dict)
    leaves: list[_Leaf] = field(default_factory=list)
    n_below: int = 0
    n_left: int = 0
    n_fits: int = 0
    fitted: Any = None
    error: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    fit_seconds: float = 0.0
    score_seconds: float = 0.0

    @property
    def is_shared(self) -> bool:
        """Whether its rows are needed more than once."""
        return len(self.children) + bool(self.leaves) > 1

    def branch(self) -> "list[Prefix]":
        """The prefix and all shorter ones, without the root."""
        return [] if self.parent is None else [*self.parent.branch(), self]


def plant(
    estimator: Any,
    candidates: Sequence[tuple[Mapping[str, Any] | None, Any]],
    fit_params: Mapping[str, Any],
    *,
    tails: bool = True,
) -> tuple[Prefix, list[int]]:
    """The tree of all candidates, and positions of those that do not belong in it."""
    root, unshared = Prefix(), []
    for position, (params, where) in enumerate(candidates):
        pipeline = clone(estimator).set_params(**clone(params or {}, safe=False))
        try:
            routed = _checked(pipeline, fit_params)
        except Exception:
            routed = None  # a single fit raises the error
        if routed is None:
            unshared.append(position)
            continue
        leaf = _Leaf(position, params, where, pipeline, routed, n_last=1)
        if tails and not fit_params:
            leaf = _with_tail(leaf)
        _hang(leaf, root)
    return root, unshared


def _with_tail(leaf):
    """A candidate with as many last steps as can be fitted together, after other steps."""
    longer = replace(leaf, n_last=affine_tail(leaf.pipeline))
    return longer if longer.steps_before() else leaf


def _hang(leaf, prefix):
    """Insert a candidate into the tree, after the prefix of all but its last steps."""
    known = {each.name for each in prefix.branch()}
    for name, step, message in leaf.steps_before():
        if name not in known:
            prefix = _child(prefix, name, step, leaf.routed[name], message)
            prefix.n_below += 1
            prefix.n_left += 1
    prefix.leaves.append(leaf)


def _checked(pipeline, fit_params):
    """Parameters of the steps' methods; None if a pipeline is invalid or unusual."""
    if not _is_plain(pipeline):
        return None
    pipeline._validate_params()
    pipeline.steps = list(pipeline.steps)
    pipeline._validate_steps()
    return pipeline._check_method_params(method="fit", props=dict(fit_params))


def _is_plain(pipeline):
    """Whether a pipeline is scikit-learn's, without a cache and callbacks."""
    if type(pipeline) is not Pipeline:
        return False
    if pipeline.memory is not None or pipeline.transform_input is not None:
        return False
    parts = [pipeline, *(step for _, step in pipeline.steps)]
    return not any(getattr(part, "_skl_callbacks", None) for part in parts)


def _child(prefix, name, step, routed, message):
    # Metadata needs no place in the key: it belongs to the step.
    key = name, value_key(step)
    if key not in prefix.children:
        prefix.children[key] = Prefix(prefix, name, step, routed, message)
    return prefix.children[key]


def _assembled(leaf, prefix, fitted):
    """The pipeline of a candidate with its fitted steps."""
    out = copy(leaf.pipeline)
    done = {each.name: each.fitted for each in prefix.branch() if each.fitted is not None}
    if leaf.n_last > 1:
        done.update(fitted.steps)
    elif not isinstance(fitted, str):
        done[out.steps[-1][0]] = fitted
    out.steps = [(name, done.get(name, step)) for name, step in out.steps]
    return out


def _leaves(prefix):
    yield from prefix.leaves
    for child in prefix.children.values():
        yield from _leaves(child)


# ---------------------------------------------------------------- fits


class PrefixError(Exception):
    """The fit of a step failed; `args` holds the text of its error."""


class Visit:
    """Fits along the tree, with results by position."""

    def __init__(self, tree: Prefix, fold: Fold, task: Task):
        self.fold, self.task = fold, task
        self.cache = PrefixCache(current_settings().cache_bytes)
        tree.given = {"fit": fold.X_train, "test": fold.X_test, "train": fold.X_train}
        self.results: dict[int, dict[str, Any]] = {}
        # By position, for candidates that should have been fitted together.
        self.refused: dict[int, Refusal] = {}

    def down(self, prefix: Prefix) -> dict[int, dict[str, Any]]:
        """Fit and score all candidates of a prefix, then of longer ones; all results so far."""
        if prefix.leaves:
            self._fit_leaves(prefix)
        for child in prefix.children.values():
            self.down(child)
        for part in ("fit", "test", "train"):
            self.cache.discard((prefix, part))
        prefix.fitted = None
        return self.results

    def _fit_leaves(self, prefix):
        """Fit and score the last steps after a prefix; refused ones get a longer prefix."""
        members = [leaf.member(prefix) for leaf in prefix.leaves]
        rows: dict[str, Any] = {}
        refused: dict[int, Refusal] = {}
        try:
            rows["fit"] = self.rows(prefix, "fit")
        except PrefixError as failed:
            results = iter([(i, self._failure(m, str(failed))) for i, m in enumerate(members)])
        else:
            rows.update(self.seen(prefix))
            seen = {part: kept for part, kept in rows.items() if part != "fit"}
            stage = Stage(self.fold, rows["fit"], seen)
            results = fit_members(members, stage, self.task, refused)
        place = place_name(rows["fit"]) if "fit" in rows else None
        for i, result in results:
            self._note(prefix, refused)
            self._done(prefix.leaves[i], members[i], prefix, result, place)
        self._note(prefix, refused)
        left = [leaf for leaf in prefix.leaves if leaf.position not in self.results]
        for leaf in left:
            _hang(replace(leaf, n_last=1), prefix)
        for part in rows if left else ():
            self.cache.put((prefix, part), rows[part])

    def _note(self, prefix, refused):
        self.refused.update({prefix.leaves[i].position: each for i, each in refused.items()})

    def _done(self, leaf, member, prefix, result, place):
        made = result.get("made", Made())
        in_common = [each.n_fits for each in prefix.branch() if each.n_below > 1]
        steps = [STEPS_AGAIN if n_fits > 1 else STEPS for n_fits in in_common]
        shared = tuple(dict.fromkeys([*steps, *made.shared]))
        made = replace(made, place=place, shared=shared)
        result["made"] = made.after(self.refused.get(leaf.position, NOTHING))
        for each in prefix.branch():
            result["fit_time"] += each.fit_seconds
            result["score_time"] += each.score_seconds
            each.n_left -= 1
        announce_end(member.params, member.where, self.task, result)
        self.results[leaf.position] = result

    def _failure(self, member, error):
        announce_start(member.params, member.where, self.task)
        return member.failure(error, self.fold, self.task)

    def seen(self, prefix: Prefix) -> dict[str, Any]:
        """Transformed rows to score; without those whose transformation failed."""
        seen = {}
        parts = ("test", "train") if self.task.return_train_score else ("test",)
        for part in parts if asks_for_predictions_only(self.task) else ():
            try:
                seen[part] = self.rows(prefix, part)
            except Exception:
                continue  # scoring the whole pipeline raises the error
        return seen

    def rows(self, prefix: Prefix, part: str) -> Any:
        """Rows as a prefix makes them: "fit" as its fit gives them, "test" and "train" as later.

        A fit of it includes fits of shorter prefixes whose rows were not kept.
        """
        if prefix.error is not None:
            raise PrefixError(prefix.error)
        if part in prefix.given:
            return prefix.given[part]
        rows = self.cache.get((prefix, part))
        if rows is not None:
            return rows
        assert prefix.parent is not None
        X = private_rows(self.rows(prefix.parent, part), prefix.step)
        started = time.perf_counter()
        rows = read_only(self._fit(prefix, X) if part == "fit" else prefix.fitted.transform(X))
        finish(rows)
        seconds = (time.perf_counter() - started) / max(1, prefix.n_left)
        if part == "fit":
            prefix.fit_seconds += seconds
        elif part == "test":
            prefix.score_seconds += seconds
        if prefix.is_shared:
            self.cache.put((prefix, part), rows)
        return rows

    def _fit(self, prefix, X):
        # A step without a fixed seed may differ when fitted again, so its old output is invalid.
        for part in ("test", "train"):
            self.cache.discard((prefix, part))
        step, message = clone(prefix.step, safe=False), prefix.message
        y = private_values(self.fold.y_train)
        prefix.n_fits += 1
        started = time.perf_counter()
        try:
            rows, prefix.fitted = _fit_transform_one(
                step, X, y, None, "Pipeline", message, prefix.routed
            )
        except Exception:
            if self.task.error_score == "raise":
                raise
            prefix.fit_seconds += (time.perf_counter() - started) / max(1, prefix.n_left)
            prefix.error = format_exc()
            raise PrefixError(prefix.error) from None
        return rows
