"""Fits and scores of models that share rows.

The models are the last steps of pipelines whose other steps are equal, or whole estimators. If they
can share a fit, `multifit` or `__sklearn_multifit__` fits them together, or the smaller ones are
read off the largest (see `one_fit`).
"""

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from gpuml._arrays import is_array, namespace
from gpuml._arrays.threads import threads_of
from gpuml._sklearn import (
    _num_samples,
    _print_elapsed_time,
    _routing_enabled,
)
from gpuml.data import NotTogether, Split, UnfittableSplits, whole
from gpuml.model_selection.boosters import SharedBins, fit_threads
from gpuml.model_selection.candidates import (
    BINNED,
    BY_METHOD,
    NOTHING,
    ON_EACH_FOLD,
    SAME,
    Made,
    Refusal,
    raised_words,
    refusal_of,
)
from gpuml.model_selection.grown import grow
from gpuml.model_selection.kernel_machines import OwnKernels, fit_by_kernels, kernel_key
from gpuml.model_selection.members import Member, Stage
from gpuml.model_selection.one_by_one import Fold, Task, announce_end, announce_start, score_model
from gpuml.model_selection.one_fits import (
    differing,
    one_fit_key,
    one_fit_kind,
    why_each_alone,
)
from gpuml.model_selection.out_of_bag import (
    OneForestOutOfBag,
    answering_out_of_bag,
    check_model,
)
from gpuml.model_selection.own_rows import private_rows
from gpuml.model_selection.scores import score_stack, scored_as
from gpuml.pipeline._affine import affine_pipeline
from gpuml.protocol import METHOD, multifit
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.keys import estimator_key, multifit_key, pipeline_key
from gpuml.resampling.multifit import offers_multifit


def fit_members(
    members: Sequence[Member], stage: Stage, task: Task, refused: dict[int, Refusal]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Positions and results in the form of `fit_fold`, each as soon as it is known.

    The caller announces the end of each fit. Members of several steps that cannot be fitted
    together get no result. `refused` receives, by position, why a group fit was refused; single
    fits tell whether a candidate caused an error.
    """
    work = _Work(stage, task)
    done: set[int] = set()
    ways = (
        (_stack_key, work.at_once),
        (_fit_key, work.by_one_fit),
        (_kernel_key, work.by_kernels),
        (_method_key, work.by_method),
    )
    for key_of, fit_group in ways:
        left = [i for i in range(len(members)) if i not in done]
        for group in _groups([members[i] for i in left], key_of):
            for i, result in fit_group([members[left[i]] for i in group]):
                done.add(left[group[i]])
                yield left[group[i]], result
            missing = [left[i] for i in group if left[i] not in done]
            refused.update(dict.fromkeys(missing, work.refusal))
            work.refusal = NOTHING
    left = [i for i, member in enumerate(members) if i not in done and member.n_last == 1]
    for i, why in why_each_alone({i: members[i].model for i in left}).items():
        refused.setdefault(i, Refusal(why))
    for i, member in enumerate(members):
        if i in left:
            yield i, work.alone(member)


def fit_alone(member: Member, fold: Fold, task: Task) -> dict[str, Any]:
    """Fit and score one model on the rows of a split; the result has the form of `fit_fold`."""
    result = _Work(Stage(fold, fold.X_train), task).alone(member)
    announce_end(member.params, member.where, task, result)
    return result


# ---------------------------------------------------------------- groups


def _groups(members, key_of) -> list[list[int]]:
    """Positions of members whose models have the same key, in groups of two or more."""
    found: dict[Hashable, list[int]] = {}
    for position, member in enumerate(members):
        if isinstance(member.model, str) or not _takes(member.model, member.fit_params):
            continue  # of wrong parameters its own fit raises the error
        key = key_of(member)
        if key is not None:
            found.setdefault(key, []).append(position)
    return [group for group in found.values() if len(group) > 1]


def _takes(model, fit_params):
    """Whether a model is given nothing to fit, or weights that it takes."""
    weighs = set(fit_params) == {"sample_weight"} and has_fit_parameter(model, "sample_weight")
    return not fit_params or weighs


def _stack_key(member):
    """A key, equal for members whose models one `multifit` can fit."""
    together = _together(member.model, member.fit_params)
    if together is None:
        return None
    key_of = pipeline_key if isinstance(member.model, Pipeline) else estimator_key
    return key_of(member.model, without=together.multifit_params)


def _fit_key(member):
    return one_fit_key(member.model)


def _kernel_key(member):
    return kernel_key(member.model)


def _method_key(member):
    return multifit_key(member.model)


def _together(model, fit_params):
    """The estimator that fits several of its kind together, for a model or a pipeline; or None."""
    if isinstance(model, Pipeline):
        return None if fit_params else affine_pipeline(model, {})
    return model if offers_multifit(model) else None


def _validate(model):
    """Raise scikit-learn's error for an invalid parameter of a model or of one of its steps."""
    for part in [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]:
        if hasattr(part, "_parameter_constraints"):
            part._validate_params()


class _Work:
    """Fits and scores of models on a stage."""

    def __init__(self, stage: Stage, task: Task):
        self.stage, self.task = stage, task
        self._bins = SharedBins()
        # Of the last group that should have been fitted together.
        self.refusal = NOTHING

    # ------------------------------------------------------------ one

    def alone(self, member: Member) -> dict[str, Any]:
        """Fit and score one model."""
        announce_start(member.params, member.where, self.task)
        fitted, how = member.model, {}
        started = time.perf_counter()
        try:
            if self.task.out_of_bag:
                check_model(fitted)
            if not isinstance(fitted, str):
                fitted, how = self._fit(member, fitted)
            if self.task.out_of_bag:
                seconds = time.perf_counter() - started
                answers = answering_out_of_bag(fitted, self.stage.fold.X_test)
                return self._scored_as(member, answers, fitted, seconds)
        except Exception:
            if self.task.error_score == "raise":
                raise
            seconds = time.perf_counter() - started
            return member.failure(format_exc(), self.stage.fold, self.task, seconds)
        return {**self._scored(member, fitted, time.perf_counter() - started), **how}

    def _fit(self, member, model):
        """A fitted model, and a record of the work that it shares with other fits."""
        n_shared, rows = self._bins.n_shared, (self.stage.X_train, self.stage.fold.y_train)

        def fit(own, **more):
            with self._bins.lent_to(own), fit_threads(own, self.task.threads):
                member.fit(own, *rows, **more)

        grown, made, kept = self.task.grown, Made(), {}
        if grown is None or member.assemble is not None:
            fit(model)
        else:
            model, made = grow(model, fit, grown.get(member.where.candidate))
            kept = {"grown": model} if member.where.candidate in grown else {}
        if self._bins.n_shared > n_shared:
            made = replace(made, shared=(*made.shared, BINNED))
        return model, kept if made == Made() else {**kept, "made": made}

    def _scored(self, member, fitted, fit_seconds):
        started = time.perf_counter()
        test = self._score(member, fitted, "test", self.task)
        score_seconds = time.perf_counter() - started
        scores: dict[str, Any] = {"test_scores": test, "n_test_samples": self.stage.fold.n_test}
        if self.task.return_train_score:
            scores["train_scores"] = self._score(member, fitted, "train", self.task)
        if self.task.kept is not None:
            scores["predictions"] = self._said(member, fitted)
        return self._result(member, fitted, scores, fit_seconds, score_seconds)

    def _result(self, member, fitted, scores, fit_seconds, score_seconds):
        times = {"fit_time": fit_seconds, "score_time": score_seconds}
        return member.result(fitted, self.task, {"fit_error": None, **scores, **times})

    def _score(self, member, fitted, part, task):
        fold = self.stage.fold
        model = member.whole(fitted)
        X, y, params = fold.X_train, fold.y_train, fold.train_score_params
        if part == "test":
            X, y, params = fold.X_test, fold.y_test, fold.test_score_params
        if part in self.stage.seen:
            # Without the other steps, so that scorers see a pipeline.
            model, X = model[-member.n_last :], self.stage.seen[part]
        return score_model(model, private_rows(X, model), y, params, task)

    def _said(self, member, fitted):
        """The predictions of a model for the held-out rows, as the search keeps them."""
        model, rows = member.whole(fitted), self.stage.fold.X_test
        if "test" in self.stage.seen:
            model, rows = model[-member.n_last :], self.stage.seen["test"]
        return self.task.kept.of(model, private_rows(rows, model))

    def _refuse(self, error):
        """Record why a group is fitted one by one; single fits tell which model fails, and how."""
        expected = isinstance(error, UnfittableSplits | NotTogether)
        self.refusal = Refusal(str(error) if expected else raised_words(error), raised=not expected)

    # ------------------------------------------------------------ one fit

    def by_one_fit(self, members: Sequence[Member]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Positions and results of the members that the largest model can answer for."""
        fold, X = self.stage.fold, self.stage.X_train
        models = [member.model for member in members]
        kind = one_fit_kind(models[0])
        assert kind is not None  # its key is known
        refused = [kind.refused_rows(model, X) for model in models]
        left = [i for i, why in enumerate(refused) if why is None]
        self.refusal = refusal_of(refused)
        if len(left) < 2:
            return
        started = time.perf_counter()
        try:
            for i in left:
                _validate(models[i])
                if self.task.out_of_bag:
                    check_model(models[i])
            largest = clone(kind.largest([models[i] for i in left], X))
            fitted, how = self._fit(members[left[0]], largest)
        except Exception as error:
            self._refuse(error)
            return
        fit_seconds = time.perf_counter() - started
        seen = {"test": fold.X_test, "train": fold.X_train, **self.stage.seen}
        kind = OneForestOutOfBag if self.task.out_of_bag else kind
        one = kind(fitted, X, fold.y_train, list(seen.values()))
        refused += [one.refused(models[i]) for i in left]
        self.refusal = refusal_of(refused)
        left = [i for i in left if one.refused(models[i]) is None]
        results = self._answers(members, one, sorted(left, key=lambda i: one.order(models[i])))
        shared = kind.words(differing([models[i] for i in left], kind)) or (SAME,)
        also = how.pop("made", Made())
        shared = (*shared, *also.shared)
        score_seconds = sum(r["score_time"] for r in results.values()) / max(1, len(results))
        for n, (i, result) in enumerate(results.items()):
            made = Made(ON_EACH_FOLD, int(n == 0), shared=shared, reason=also.reason)
            times = {"fit_time": fit_seconds / len(left), "score_time": score_seconds}
            yield i, {**result, **times, **how, "made": made}

    def _answers(self, members, one, order):
        """Results of members by position, whose predictions one fit provides."""
        results = {}
        for i in order:
            member = members[i]
            announce_start(member.params, member.where, self.task)
            model = one.model(member.model) if self.task.return_estimator else None
            results[i] = self._scored_as(member, one.answering(member.model), model, 0.0)
        return results

    def _scored_as(self, member, answering, model, fit_seconds):
        """The result of a model whose predictions another model provides."""
        scores = _Work(self.stage, replace(self.task, return_estimator=False))
        result = scores._scored(member, answering, fit_seconds)
        return member.result(model, self.task, result)

    # ------------------------------------------------------------ kernels

    def by_kernels(self, members: Sequence[Member]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Positions and results; nothing for members that compute kernels themselves."""
        try:
            for member in members:
                _validate(member.model)
            yield from fit_by_kernels(members, self.stage, self.task, self.alone)
        except OwnKernels as error:
            self.refusal = Refusal(str(error))
        except Exception as error:
            self._refuse(error)

    # ------------------------------------------------------------ the estimator's method

    def by_method(self, members: Sequence[Member]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Positions and results of the members that `__sklearn_multifit__` fits."""
        started = time.perf_counter()
        try:
            found = self._found_by_method(members)
        except Exception as error:
            self._refuse(error)
            return
        for failure in (each for each in found if isinstance(each, Exception)):
            self._refuse(failure)
        seconds = (time.perf_counter() - started) / len(members)
        for i, (member, fitted) in enumerate(zip(members, found, strict=False)):
            if not isinstance(fitted, Exception):
                announce_start(member.params, member.where, self.task)
                made = Made(ON_EACH_FOLD, int(i == 0), shared=(BY_METHOD,))
                yield i, {**self._scored(member, fitted, seconds), "made": made}

    def _found_by_method(self, members):
        """A model or an error for each member; empty, with a reason, if the method refuses."""
        model, X, y = clone(members[0].model), self.stage.X_train, self.stage.fold.y_train
        if self.task.out_of_bag:
            self.refusal = Refusal(f"cv='oob' does not use {type(model).__name__}.{METHOD}")
            return []
        for member in members:
            _validate(member.model)
        names = model.__sklearn_multifit_params__
        varying = [{n: v for n, v in m.model.get_params().items() if n in names} for m in members]
        whole_part = [(np.arange(_num_samples(X)), np.arange(0))]
        found = multifit(model, X, y, whole_part, varying, **members[0].fit_params)
        if found is NotImplemented:
            kind = type(model).__name__
            self.refusal = Refusal(f"{kind}.{METHOD} refused these parameters or this data")
            return []
        return [row[0] for row in found]

    # ------------------------------------------------------------ at once

    def at_once(self, members: Sequence[Member]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Positions and results; nothing if the models cannot be fitted together."""
        stage, fit_params = self.stage, members[0].fit_params
        estimator = _together(clone(members[0].model), fit_params)
        names = estimator.multifit_params
        varying = [{n: v for n, v in m.model.get_params().items() if n in names} for m in members]
        started = time.perf_counter()
        try:
            for member in members:
                _validate(member.model)
            if not estimator.multifit_ready(stage.X_train):
                return
            rows, split = self._rows(fit_params)
            batch = estimator.multifit_batch(*rows)
            folds = whole(batch) if split is None else make_folds(batch, [split])
            told = _print_elapsed_time("Pipeline", members[0].message)
            with told, threads_of(estimator, folds):
                stack = estimator.multifit(folds, varying)
            fitted = time.perf_counter()

            def model_of(c):
                return estimator.multifit_model(varying[c], stack.pick(c, 0))

            def score_one(c, _, part, scorer):
                return self._score(members[c], model_of(c), part, replace(self.task, scorer=scorer))

            task = scored_as(self.task, members[0].model)
            scored = score_stack(stack, folds, score_one, task) if split else None
            # Some stacks fit a model in `pick`, which may fail.
            models = [model_of(c) for c in range(len(members))] if scored is None else []
        except Exception as error:
            self._refuse(error)
            return
        for member in members:
            announce_start(member.params, member.where, self.task)
        fit_seconds = (fitted - started) / len(members)
        score_seconds = (time.perf_counter() - fitted) / len(members)
        for c, member in enumerate(members):
            if scored is None:
                result = self._scored(member, models[c], fit_seconds)
            else:
                scores = scored.of(c)[0]
                asks = self.task.kept is not None and "predictions" not in scores
                model = model_of(c) if self.task.return_estimator or asks else None
                if asks:
                    scores["predictions"] = self._said(member, model)
                result = self._result(member, model, scores, fit_seconds, score_seconds)
            yield c, {**result, "made": Made(ON_EACH_FOLD, 0 if c else stack.n_passes)}

    def _rows(self, fit_params):
        """X, y and weights for `multifit`, with held-out rows and a split if it can score them.

        That needs arrays of one kind in both parts, with or without weights, and no scores of
        training rows, because `fit_transform` and `transform` may differ.
        """
        fold, scored_with = self.stage.fold, self.stage.fold.test_score_params
        X, y = (self.stage.X_train, self.stage.seen.get("test")), (fold.y_train, fold.y_test)
        weights = tuple(params.get("sample_weight") for params in (fit_params, scored_with))
        weighted = any(weight is not None for weight in weights)
        together = (
            not self.task.return_train_score
            and set(scored_with) <= {"sample_weight"}
            and not (scored_with and _routing_enabled())
            and all(map(_alike, [X, y, weights] if weighted else [X, y]))
        )
        if not together:
            return (X[0], y[0], weights[0]), None
        n = X[0].shape[0]
        rows = _joined(X), _joined(y), _joined(weights) if weighted else None
        return rows, Split(slice(0, n), slice(n, n + fold.n_test))


def _alike(pair):
    """Whether both are arrays of one library, dtype and row shape."""
    first, second = pair
    return (
        is_array(first)
        and type(first) is type(second)
        and first.dtype == second.dtype
        and first.shape[1:] == second.shape[1:]
    )


def _joined(pair):
    return namespace(*pair).concat(pair, axis=0)
