"""Fits inside meta-estimators, made together where scikit-learn makes them in a loop.

scikit-learn's own `fit` of a meta-estimator runs, with its checks, routing and attributes, while
gpuml makes the fits. For this, one of two stand-ins takes the place of the estimator inside. A
`Later` records the arguments of `fit` of each of its copies, and gpuml fits all copies after the
loop. If models must predict before that, a `Numbered` gets row numbers instead of rows: it knows
the models of all training sets in advance, and they predict the rows with these numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from inspect import signature
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from gpuml._arrays import as_array, is_array, is_foreign, move, namespace, place_of, to_host
from gpuml._arrays.threads import threads_of_fit
from gpuml._inputs.validation import as_classes
from gpuml._sklearn import _routing_enabled
from gpuml.data import AnySplit, Split, UnfittableSplits, whole
from gpuml.model_selection.candidates import ALONE, TOGETHER, Plan, Refusal, Step, raised_words
from gpuml.model_selection.evaluate import REFUSALS, Evaluator, Job
from gpuml.model_selection.one_by_one import Task, rows_of
from gpuml.model_selection.residence import place_name
from gpuml.model_selection.route import AtOnce, Nested, kind_of, route
from gpuml.protocol import Group
from gpuml.resampling.multifit import data_obstacle, model_words
from gpuml.resampling.split import as_rows

# Ways of fitting that a plan names.
COLUMNS = "all targets together"
# All rows are read for a model that needs few of them where that takes less than calls of a fit.
FEW_FLOPS = 2**19


def nothing(model: Any, X: Any, y: Any = None) -> float:
    """A placeholder score of models that are not scored."""
    return 0.0


class Parts(Evaluator):
    """Models of several training sets, without scores.

    Attributes
    ----------
    alone : callable or None
        Fits the model of one split; None fits a copy to the rows of the training part.
    few_rows : bool
        Whether each training part has only few of the rows. Then iterative models are fitted one by
        one in CPU memory, because each step of a common fit would read all rows for all models. Not
        if all rows are so few that calls are what a step takes.
    """

    alone: Callable[[int], Any] | None = None
    few_rows = False

    def models(self) -> list[Any]:
        """A fitted copy of the estimator for each split, all together if possible."""
        job = self.job
        (each,) = route(job.estimator, [{}], job.X, job.task, nests=not self.few_rows)
        why = self._few_rows_obstacle(each) if isinstance(each, AtOnce) else each.reason
        if isinstance(each, Nested):
            results = self._fit_nested(each.inside[0], 0, [{}])
            if results:
                return [result["estimator"] for result in results]
        elif isinstance(each, AtOnce) and why is None:
            try:
                return self._models_at_once(each)
            except Exception as error:
                if not self._may_refuse(error):
                    raise
                self.refused = {0: self._told(error)}
        else:
            self.refused = {0: Refusal(why)}
        if self.alone is None:
            return [result["estimator"] for result in self._fit_one_by_one([0], [{}])[0]]
        self.steps += one_by_one(job.X, len(job.splits), self.refused[0].reason)
        splits = range(len(job.splits))
        return Parallel(n_jobs=job.n_jobs)(delayed(self.alone)(s) for s in splits)

    def _few_rows_obstacle(self, each):
        X = self.job.X
        if not self.few_rows or is_foreign(X):
            return None
        work = each.fits.multifit_work(*X.shape, 1, 1)
        if work is not None and (work[0] is not None or work[1] <= FEW_FLOPS):
            return None
        return "each step would read all rows, while each model needs few of them"

    def _models_at_once(self, each):
        fits, group = each.fits, Group({}, [{}], [0])
        stack, folds, refused = self._fit_together(fits, each.group)
        n_splits = len(self.job.splits)
        words = ", ".join(filter(None, [TOGETHER, stack.words]))
        self.steps.append(
            Step(n_splits - len(refused), stack.n_passes, str(folds.batch.work), words)
        )
        self._of_all = lambda: self._on_all_rows(fits, stack, folds)
        alone = self.alone or (lambda s: self._fit_refused(s, refused[s], group)[0]["estimator"])
        return [
            alone(s) if s in refused else fits.multifit_model({}, stack.pick(0, s))
            for s in range(n_splits)
        ]

    def _on_all_rows(self, fits, stack, folds):
        """The model of all rows, from known sums if these determine it.

        Other models, such as iterative ones, come from `fit`, so that they do not depend on the
        splits.
        """
        if fits.multifit_rows(folds) is None:
            return self.fit_all({})
        known = self._known[kind_of(fits)].batch
        if folds.batch.n_rows == known.n_rows:
            return fits.multifit_model({}, stack.pick(0, None))
        return fits.multifit_model({}, fits.multifit(whole(known), [{}]).pick(0, 0))

    def model_of_all(self) -> Any:
        """A copy fitted to all rows; call `models` first."""
        of_all = getattr(self, "_of_all", None)
        return self.fit_all({}) if of_all is None else of_all()


def parts_of(
    estimator: Any,
    X: Any,
    y: Any,
    splits: Sequence[AnySplit],
    params: Mapping[str, Any],
    n_jobs: int | None = None,
) -> Parts:
    """A `Parts` that fits copies of an estimator to the training sets of splits."""
    given = {name: value for name, value in params.items() if value is not None}
    task = Task(nothing, given, {}, False, "raise", 0, return_estimator=True)
    return Parts(Job(clone(estimator), X, y, splits, task, n_jobs))


def parts_of_rows(
    estimator: Any,
    X: Any,
    y: Any,
    rows: Sequence[np.ndarray],
    params: Mapping[str, Any],
    n_jobs: int | None = None,
) -> Parts:
    """A `Parts` that fits copies of an estimator to these sets of rows."""
    splits = [
        Split(as_rows(own, len(y)), slice(0, 1)) for own in rows
    ]  # held-out rows are not used
    parts = parts_of(estimator, X, y, splits, params, n_jobs)
    parts.few_rows = len(rows) > 1
    return parts


def fit_params_of(
    around: Any, estimator: Any, sample_weight: Any, params: Mapping[str, Any]
) -> dict[str, Any]:
    """The fit parameters that a meta-estimator passes to the estimator inside."""
    weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
    if _routing_enabled():
        return dict(process_routing(around, "fit", **weighted, **params).estimator.fit)
    takes = weighted and has_fit_parameter(estimator, "sample_weight")
    return {**params, **(weighted if takes else {})}


def run_around(around: Any, fit: Callable[..., Any], changes: Mapping[str, Any], *args, **params):
    """Run scikit-learn's `fit` of an estimator with other parameters, and set its attributes.

    The parameters of the estimator itself do not change. They are checked first, because `fit` sees
    others: 1 for `n_jobs`, as None would have joblib's current backend run the fits of stand-ins,
    which look up what they have in common. `fit` takes rows of the metadata among `params` by
    NumPy's numbers, so they come to CPU memory.
    """
    params = {name: host_value(value) for name, value in params.items()}
    if not get_config()["skip_parameter_validation"]:
        around._validate_params()
    if "n_jobs" in changes:
        effective_n_jobs(around.n_jobs)  # 0 is an error
    other = copy(around)
    vars(other).update(changes)
    fit(other, *args, **params)
    own = around.get_params(deep=False)
    for name in vars(around).keys() - vars(other).keys() - own.keys():
        delattr(around, name)
    vars(around).update({name: v for name, v in vars(other).items() if name not in own})
    return around


def host_target(y: Any) -> Any:
    """Targets in CPU memory, for scikit-learn's checks."""
    return None if y is None else host_value(taken_apart(y))


def host_value(value: Any) -> Any:
    """What fits are given besides rows and targets, in CPU memory: metadata may be anything."""
    value = as_array(value)
    return to_host(value) if is_foreign(value) else value


def taken_apart(x: Any) -> Any:
    """Rows, or one value per row, in an indexable form; sparse matrices as CSR."""
    if x is None or np.isscalar(x) or getattr(x, "ndim", None) == 0:
        raise ValueError(f"Expected rows, or one value per row, got {x}: pass an array.")
    x = as_array(x)
    return x if is_foreign(x) else indexable(x)[0]


# ---------------------------------------------------------------- fitted later


class StandIn:
    """A stand-in for an estimator: it responds as the estimator does, except to `fit`."""

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "estimator":
            raise AttributeError(name)
        return getattr(self.estimator, name)

    def __repr__(self) -> str:
        return repr(self.estimator)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    @property
    def model(self) -> Any:
        """The model that predicts."""
        return self.estimator

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self.model)
        except NotFittedError:
            return False
        return True

    @property
    def fit(self) -> Callable[..., Any]:
        """A function that records a fit, with the parameters of the estimator's own `fit`."""
        expected = signature(self.estimator.fit)

        def fit(*args, **params):
            try:
                expected.bind(*args, **params)
            except TypeError as error:
                if "argument 'sample_weight'" not in str(error):
                    raise
                name = type(self.estimator).__name__  # scikit-learn would name the stand-in
                text = f"Underlying estimator {name} does not support sample weights."
                raise TypeError(text) from error
            return self.noted(*args, **params)

        fit.__signature__ = expected  # type: ignore[attr-defined]
        return fit

    def noted(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Record a fit."""
        raise NotImplementedError


class Later(StandIn):
    """An estimator whose copies record their fits; `fitted_later` makes these fits."""

    def __sklearn_clone__(self) -> "Later":
        return Later(clone(self.estimator))

    def noted(self, X: Any, y: Any = None, **params: Any) -> "Later":
        """Record a fit."""
        self.X, self.y, self.params = X, y, params
        return self

    @property
    def classes_(self) -> Any:
        """The labels of the recorded target."""
        return np.unique(self.y)

    def fitted(self) -> Any:
        """The estimator, fitted by itself."""
        self.estimator.fit(self.X, self.y, **self.params)
        return self.estimator


def fitted_later(noted: Sequence[Any], n_jobs: int | None = None) -> tuple[list[Any], Plan]:
    """The models of the recorded copies of a `Later`, in their order, and a plan of the fits.

    Targets of the same rows become columns of one target if the estimator can fit these together.
    Other objects are returned unchanged.
    """
    waiting = [each for each in noted if isinstance(each, Later)]
    models: dict[int, Any] = {}
    steps: list[Step] = []
    why = _apart(waiting)
    if why is None:
        try:
            models, steps = _columns(waiting)
        except UnfittableSplits as error:
            why = str(error)
        except REFUSALS as error:
            # If it is one model's error, its single fit raises it again.
            why = raised_words(error)
    if why is not None:
        alone = Parallel(n_jobs=n_jobs)(delayed(each.fitted)() for each in waiting)
        models = {id(each): model for each, model in zip(waiting, alone, strict=True)}
        steps = one_by_one(waiting[0].X, len(waiting), why) if waiting else []
    return [models.get(id(each), each) for each in noted], Plan(tuple(steps))


def one_by_one(X: Any, n_fits: int, why: str) -> list[Step]:
    """The step of a plan for single fits."""
    return [Step(n_fits, n_fits, place_name(X), ALONE, (why,))]


def _apart(waiting):
    """The reason why copies of a `Later` cannot be fitted as columns of one target, or None."""
    if len(waiting) < 2:
        return "there is one target"
    first = waiting[0]
    estimator = first.estimator
    why = model_words(estimator) or data_obstacle(estimator, first.X)
    if why is not None:
        return why
    if not estimator.multifit_targets:
        return f"{type(estimator).__name__} with these parameters fits one target at a time"
    if set(first.params) - {"sample_weight"}:
        return f"fit is given {', '.join(sorted(first.params))}"
    if is_classifier(estimator) and any(len(each.classes_) != 2 for each in waiting):
        return "targets have more than two classes"
    return None


def _columns(waiting):
    """The models of several targets of the same rows, and the step of the plan."""
    first = waiting[0]
    estimator, weight = first.estimator, first.params.get("sample_weight")
    targets = [each.y for each in waiting]
    labels = [each.classes_ for each in waiting] if is_classifier(estimator) else []
    if labels:
        pairs = zip(targets, labels, strict=True)
        targets = [(np.asarray(y) == own[1]).astype(np.int8) for y, own in pairs]
    Y = (namespace(targets[0]) if is_array(targets[0]) else np).stack(targets, axis=1)
    with threads_of_fit(estimator, first.X, Y):
        found = estimator.multifit_columns(first.X, Y, weight)
    for attributes, own in zip(found, labels, strict=False):  # of regressors there are none
        attributes["classes_"] = as_classes(own, estimator)
    models = {
        id(each): estimator.multifit_model({}, attributes)
        for each, attributes in zip(waiting, found, strict=True)
    }
    passes: Any = None  # unknown in advance
    return models, [Step(len(waiting), passes, place_name(first.X), COLUMNS)]


# ---------------------------------------------------------------- resamples


class Features:
    """Some rows and columns of X, copied on first use."""

    def __init__(self, X: Any, rows: np.ndarray | None = None, columns: np.ndarray | None = None):
        self.X, self.rows, self.columns = X, rows, columns
        self.shape = X.shape

    def __getitem__(self, key: tuple[Any, Any]) -> "Features":
        rows, columns = (None if each is ... or isinstance(each, slice) else each for each in key)
        if rows is None:
            return Features(self.X, self.rows, columns)
        rows = np.asarray(rows)
        return Features(self.X, np.flatnonzero(rows) if rows.dtype == bool else rows, self.columns)

    def taken(self) -> Any:
        """The rows with these columns."""
        X = self.X if self.rows is None else rows_of(self.X, self.rows)
        return X if self.columns is None else columns_of(X, self.columns)


def columns_of(X: Any, columns: np.ndarray) -> Any:
    """Some columns of rows of any array library."""
    if is_foreign(X):
        return namespace(X).take(X, move(np.asarray(columns), place_of(X)), axis=1)
    return X[:, columns]


class Resampled(Later):
    """A `Later` for one of many resamples of the same rows, given as sample weights."""

    def __sklearn_clone__(self) -> "Resampled":
        return Resampled(clone(self.estimator))

    def fitted(self) -> Any:
        """The estimator, fitted by itself."""
        self.estimator.fit(self.X.taken(), self.y, **self.params)
        return self.estimator


def resampled(noted: Sequence[Any], n_jobs: int | None = None) -> tuple[list[Any], Plan]:
    """The models of the recorded copies of a `Resampled`, fitted in the same passes if possible.

    Other objects are returned unchanged.
    """
    waiting = [each for each in noted if isinstance(each, Resampled)]
    if not waiting:
        return list(noted), Plan(())
    first, why = waiting[0], None
    last = getattr(first.estimator, "steps", [(0, first.estimator)])[-1][1]
    if first.X.rows is not None:
        why = f"{type(first.estimator).__name__} takes no sample weights"
    elif first.X.columns is not None:
        why = "each model has its own features; leave max_features at the default"
    elif set(first.params) != {"sample_weight"}:
        why = f"fit is given {', '.join(sorted(first.params))}"
    elif not _all_steps_get(first.params, first.estimator):
        why = "not all steps request sample_weight"
    elif not getattr(last, "multifit_repeats", True):
        why = f"{type(last).__name__} with these parameters also reads rows of weight 0"
    if why is not None:
        models = Parallel(n_jobs=n_jobs)(delayed(each.fitted)() for each in waiting)
        plan = Plan(tuple(one_by_one(first.y, len(waiting), why)))
    else:
        times = [np.asarray(each.params["sample_weight"]) for each in waiting]
        splits = [Split(np.arange(w.size).repeat(w), slice(0, 1)) for w in times]  # holds none out
        parts = parts_of(first.estimator, first.X.X, first.y, splits, {}, n_jobs)
        parts.alone = lambda s: waiting[s].fitted()
        models, plan = parts.models(), parts.plan
        for each, model in zip(waiting, models, strict=True):
            own = each.estimator.get_params()
            model.set_params(**{n: v for n, v in own.items() if "random_state" in n})
    of = {id(each): model for each, model in zip(waiting, models, strict=True)}
    return [of.get(id(each), each) for each in noted], plan


def _all_steps_get(params: Mapping[str, Any], estimator: Any) -> bool:
    """Whether metadata routing passes all parameters of a fit to all steps of a pipeline."""
    if not isinstance(estimator, Pipeline):
        return True
    try:
        routed = process_routing(estimator, "fit", **params)
    except (TypeError, ValueError):
        return False  # single fits raise this error
    steps = [name for name, step in estimator.steps if step not in (None, "passthrough")]
    return all(any(params.keys() <= given.keys() for given in routed[n].values()) for n in steps)
