"""Where rows are while candidates are fitted one by one, and how folds are taken from them.

Rows move at most once for all fits of a search, and only where this helps:

* Rows on a device stay there. An estimator that reads NumPy arrays only gets them in CPU memory.
* Rows in CPU memory go to the GPU for an estimator that computes there and takes CuPy arrays, if
  the settings and the size of X say so (as for `gpuml.set_config`). Tables with names of columns
  stay as they are, so that the estimator sees the names; so do rows that joblib is going to send
  to workers with devices of their own.

Folds are gathered in the splitter's order, once for all candidates: estimators that draw rows, or
split them once more, give what they give in scikit-learn's search, wherever the rows are.

A fold of NumPy memory is read-only. Device arrays cannot be: an estimator that writes to its X in
place (which scikit-learn's conventions do not allow) spoils the rows for all fits that follow.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from joblib.parallel import BACKENDS, get_active_backend
from sklearn import get_config
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.utils import get_tags

from gpuml._arrays import (
    HOST,
    Place,
    as_array,
    compute_place,
    fits,
    is_array,
    is_cupyx_sparse,
    is_foreign,
    is_numpy,
    move,
    nbytes,
    place_of,
)
from gpuml._settings.config import current_settings
from gpuml._sklearn import _MultimetricScorer, _num_samples, _PassthroughScorer
from gpuml.data import AnySplit, shared_labels
from gpuml.extending import Extension
from gpuml.metrics.scorer import get_scorer
from gpuml.model_selection.inside import fold_labels
from gpuml.model_selection.one_by_one import Task

GATHERED = "folds gathered once each"


@dataclass(frozen=True)
class Residence:
    """Rows in the form in which single fits take their folds.

    Attributes
    ----------
    X, y : array-like
        The user's own, or moved.
    splits : sequence of splits
    task : Task
        With parameters at the same place.
    place : str
        Where the rows are, such as "cupy:cuda:0".
    route : str
        How folds come about, in words for a plan.
    refit : tuple (X, y, fit_params) or None
        Rows for the model of all rows; None is the user's own.
    """

    X: Any
    y: Any
    splits: Sequence[AnySplit]
    task: Task
    place: str
    route: str
    refit: tuple[Any, Any, Mapping[str, Any]] | None = None

    @property
    def on_device(self) -> bool:
        """Whether the rows are in memory that other processes and NumPy cannot read."""
        return is_array(self.X) and not place_of(self.X).is_host


class Residences:
    """Rows of a job in every place where candidates need them; each place is prepared once.

    Parameters
    ----------
    estimator : estimator
        Without the parameters of candidates.
    X, y : array-like
        The user's rows.
    splits : sequence of splits
    task : Task
    """

    def __init__(self, estimator: Any, X: Any, y: Any, splits: Sequence[AnySplit], task: Task):
        self._given = Residence(X, y, splits, task, place_name(X), GATHERED)
        # A matrix of pairs is cut along both axes.
        self._pairwise = get_tags(estimator).input_tags.pairwise
        self._known: dict[str, Residence] = {}  # by name: not every device can be hashed
        self._moved: dict[str, Residence] = {}

    def with_splits(self, splits: Sequence[AnySplit]) -> "Residences":
        """The same rows with other splits; both share what was moved."""
        other = copy(self)
        other._given, other._known = replace(self._given, splits=splits), {}
        return other

    def of(self, estimator: Any) -> Residence:
        """The rows for an estimator with the parameters of a candidate."""
        place = self._place_for(estimator)
        if str(place) not in self._known:
            self._known[str(place)] = self._at(place)
        return self._known[str(place)]

    def to_refit(self, estimator: Any) -> tuple[Any, Any, Mapping[str, Any]] | None:
        """X, y and parameters for the model of all rows; None is what the user gave.

        gpuml's estimators promise attributes of the kind of the user's X, so they get that where
        they can read it.
        """
        rows = self.of(estimator)
        return None if rows.on_device and returns_kind_of_fit(estimator) else rows.refit

    def _place_for(self, estimator):
        """The target place of the rows; None if they stay."""
        if self._pairwise:
            return None
        if reads_host_only(estimator):
            return HOST if any(map(is_foreign, _arrays_of(self._given))) else None
        if self._given.task.return_estimator and returns_kind_of_fit(estimator):
            return None
        return device_for(estimator, self._given.X)

    def _at(self, place):
        given = self._given
        if place is None:
            foreign = is_foreign(given.X) and not self._pairwise
            return _on_device(given) if foreign else given
        if str(place) not in self._moved:
            self._moved[str(place)] = replace(_moved(given, place), place=str(place))
        moved = replace(self._moved[str(place)], splits=given.splits)
        rows = moved if place.is_host else _on_device(moved)
        how = "on a copy in CPU memory" if place.is_host else "copied there once"
        refit = moved.X, moved.y, moved.task.fit_params
        return replace(rows, route=f"{how}, {rows.route}", refit=refit)


# ---------------------------------------------------------------- what estimators take


def reads_host_only(estimator: Any) -> bool:
    """Whether an estimator reads arrays in CPU memory only.

    scikit-learn's own do (those whose `fit` is defined there), but where their tags promise
    support of other array libraries and ``array_api_dispatch`` is on. A pipeline, a search or
    another estimator around estimators does if one of those does. Of others it is not
    assumed.
    """
    return any(map(_itself_reads_host_only, all_estimators(estimator)))


def _itself_reads_host_only(estimator):
    if _is_pipeline(estimator) and list(inner_estimators(estimator)):
        return False
    return _root(getattr(type(estimator), "fit", None)) == "sklearn" and not (
        get_config()["array_api_dispatch"] and get_tags(estimator).array_api_support
    )


def computes_on_gpu(estimator: Any) -> bool:
    """Whether an estimator moves rows to the GPU itself, and accepts CuPy arrays.

    cuML's and gpuml's do, and xgboost's with ``device="cuda"``; of estimators around estimators,
    those around nothing else. (LightGBM computes on a GPU too, but takes no CuPy arrays.) Not those
    with a step whose output is of use in CPU memory only, or with a user's function, which may know
    NumPy only.
    """
    return all(map(_itself_computes_on_gpu, all_estimators(estimator)))


def _itself_computes_on_gpu(estimator):
    if isinstance(estimator, Extension):
        said = estimator.computes_on_gpu()
        if said is not None:  # some parameters prevent it
            return said
    if _root(type(estimator)) == "gpuml":
        params = estimator.get_params(deep=False)
        if params.get("sparse_output") or callable(params.get("func")):
            return False
    if list(inner_estimators(estimator)):
        return _is_pipeline(estimator) or _root(type(estimator)) in ("cuml", "gpuml")
    if _root(type(estimator)) == "xgboost":
        return str(estimator.get_params(deep=False).get("device")).startswith(("cuda", "gpu"))
    return _root(type(estimator)) in ("cuml", "gpuml")


def configured(estimator: Any, params: Mapping[str, Any]) -> Any:
    """An unfitted copy with the parameters of a candidate."""
    model = clone(estimator)
    model.set_params(**clone(params, safe=False))  # of a FrozenEstimator it returns None
    return model


def returns_kind_of_fit(estimator: Any) -> bool:
    """Whether fitted attributes follow the array library of X, as gpuml's do."""
    return any(_root(type(part)) == "gpuml" for part in all_estimators(estimator))


def all_estimators(estimator: Any) -> Iterator[Any]:
    """An estimator and all estimators inside it, on every level, each once.

    Each once, because a parameter may be a list that holds the estimator itself, such as one in
    which estimators register.
    """
    waiting, met = [estimator], {id(estimator): estimator}
    while waiting:
        part = waiting.pop()
        yield part
        for inner in inner_estimators(part):
            if id(inner) not in met:
                met[id(inner)] = inner
                waiting.append(inner)


def inner_estimators(estimator: Any) -> Iterator[Any]:
    """The estimators directly inside an estimator."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return
    for value in estimator.get_params(deep=False).values():
        # Pipelines and ensembles hold lists of (name, estimator, ...).
        entries = value if isinstance(value, list) else [value]
        for entry in entries:
            for item in entry if isinstance(entry, tuple) else (entry,):
                # By its class: lazy expressions, such as skrub's, have attributes of any name.
                if hasattr(type(item), "fit") and hasattr(item, "fit"):
                    yield item


def _is_pipeline(estimator):
    # scikit-learn's or imbalanced-learn's: it passes its rows on to its steps.
    return hasattr(estimator, "steps")


def _root(thing):
    return (getattr(thing, "__module__", None) or "").partition(".")[0]


def device_for(estimator: Any, X: Any) -> Place | None:
    """The GPU to which rows in CPU memory should move for an estimator, else None."""
    setting = current_settings().device
    numbers = is_numpy(X) and X.ndim == 2 and X.dtype.kind in "fiub"
    if setting == "cpu" or not numbers or not computes_on_gpu(estimator) or _fits_are_sent_away():
        return None
    place = compute_place(X, nbytes(X), setting)
    # Twice, because folds are copies of the rows.
    return place if place != HOST and fits(2 * nbytes(X), place) else None


def _fits_are_sent_away():
    """Whether joblib sends fits to processes that do not share the devices of this one."""
    backend, _ = get_active_backend()
    here = (BACKENDS["loky"], BACKENDS["multiprocessing"])
    return not getattr(backend, "supports_sharedmem", False) and not isinstance(backend, here)


# ---------------------------------------------------------------- moving


def _moved(rows: Residence, place: Place) -> Residence:
    """Rows at a place; data that is not numeric stays in CPU memory."""
    n_rows = _num_samples(rows.X)
    known: dict[int, Any] = {}

    def moved(x):
        if not is_array(x) or not has_rows(x, n_rows):
            return x
        if is_numpy(x) and x.dtype.kind not in "fiub":
            return x
        # Fits and scores may share the array of weights.
        if id(x) not in known:
            known[id(x)] = move(x, place)
        return known[id(x)]

    return _mapped(rows, moved)


def _arrays_of(rows: Residence) -> list:
    """Arrays among X, y and the parameters, each once."""
    task = rows.task
    found = [rows.X, rows.y, *task.fit_params.values(), *task.score_params.values()]
    return list({id(x): x for x in found if is_array(x) and x.ndim > 0}.values())


def has_rows(x, n_rows):
    """Whether `x` is an array, table or list with one entry per row."""
    if is_array(x):
        return x.ndim > 0 and x.shape[0] == n_rows
    sized = hasattr(x, "__len__") or hasattr(x, "shape")
    return sized and not isinstance(x, str | dict) and _num_samples(x) == n_rows


def _mapped(rows, change):
    task = rows.task.with_values(change)
    return replace(rows, X=change(rows.X), y=change(rows.y), task=task)


# ---------------------------------------------------------------- scores


_INHERITED = {
    ClassifierMixin.score: get_scorer("accuracy"),
    RegressorMixin.score: get_scorer("r2"),
}


class _OwnScore(_PassthroughScorer):
    """An estimator's own `score`, for arrays of any library.

    What estimators inherit from scikit-learn's mixins reads NumPy arrays, or needs a setting; the
    metric that it computes is taken from `gpuml.metrics` instead.
    """

    def __call__(self, estimator, *args, **kwargs):
        final = estimator
        while _is_pipeline(final) and final.steps:
            final = final.steps[-1][1]
        scorer = _INHERITED.get(getattr(type(final), "score", None))
        if scorer is None:
            return estimator.score(*args, **kwargs)
        return scorer(estimator, *args, **kwargs)


def _on_device(rows: Residence) -> Residence:
    """With scorers that accept arrays on a device, and a label a row there instead of its index."""
    scorer = rows.task.scorer
    if isinstance(scorer, _MultimetricScorer):
        each = {name: _of_any_library(one) for name, one in scorer._scorers.items()}
        scorer = _MultimetricScorer(scorers=each, raise_exc=scorer._raise_exc)
    task = replace(rows.task, scorer=_of_any_library(scorer))
    splits = _labelled_there(rows.splits, _num_samples(rows.X), place_of(rows.X))
    return replace(rows, splits=splits, task=task)


def _labelled_there(splits, n_rows, place):
    """Splits that hold out every row once, with labels at a place; others are as they were."""
    if all(isinstance(split.test, slice) for split in splits):
        return splits
    if shared_labels(splits) is None:
        labels = fold_labels(splits, n_rows)
        splits = splits if labels is None else labels.splits()
    labels = shared_labels(splits)
    if labels is None:
        return splits
    folds = move(labels.folds, place)
    there = labels if folds is labels.folds else replace(labels, folds=folds)
    return [replace(split, labels=there) for split in splits]


def _of_any_library(scorer):
    return _OwnScore(scorer._estimator) if type(scorer) is _PassthroughScorer else scorer


def place_name(X: Any) -> str:
    """The name of the place of X, for a plan."""
    X = as_array(X)
    X = X.data if is_cupyx_sparse(X) else X
    return str(place_of(X)) if is_array(X) else str(HOST)
