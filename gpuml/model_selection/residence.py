"""Where rows are while candidates are fitted one by one, and how folds are taken from them.

Rows move at most once for all fits of a search, and only where this helps:

* Rows on a device stay there. An estimator that reads NumPy arrays only gets them in CPU memory.
* Rows in CPU memory go to the GPU for an estimator that computes there and takes CuPy arrays, if
  the settings and the size of X say so (as for `gpuml.set_config`). Tables with names of columns
  stay as they are, so that the estimator sees the names; so do rows that joblib is going to send
  to workers with devices of their own.

Wherever rows came from or went to a device, and splits are those of a K-fold, they are laid out
once so that every fold is a view (see `layout`). Training rows are then in another order than the
splitter's, which an estimator that draws rows at random notices. So rows that are in CPU memory
and stay there are gathered once for each split instead, in the splitter's order: all estimators
then give bit for bit what they give in scikit-learn's search.

A view of NumPy memory is read-only. Device arrays cannot be: an estimator that writes to its X in
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
    free_bytes,
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
from gpuml.data import AnySplit, Rows
from gpuml.extending import Extension
from gpuml.metrics.scorer import get_scorer
from gpuml.model_selection.layout import Layout, find_layout
from gpuml.model_selection.one_by_one import Task, rows_of

# Shares of the free memory that ordered rows may take: as a ring, or once with the largest training
# set beside them. The fits need the rest.
RING_SHARE = 1 / 3
ONCE_SHARE = 1 / 2

GATHERED = "folds gathered once each"
VIEWS = "views of rows sorted once"
JOINED = "two views joined for each split of rows sorted once"


@dataclass(frozen=True)
class Residence:
    """Rows in the form in which single fits take their folds.

    Attributes
    ----------
    X, y : array-like
        The user's own, or laid out: then rows have other numbers, and some may be there twice.
    splits : sequence of splits
        Of those rows.
    task : Task
        With parameters that have one value a row in the same order.
    place : str
        Where the rows are, such as "cupy:cuda:0".
    route : str
        How folds come about, in words for a plan.
    refit : tuple (X, y, fit_params) or None
        Rows for the model of all rows; what was brought to a device is in the order of the layout.
        None is the user's own.
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
        """The same rows with other splits; both share moved rows that are not reordered."""
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
            return _laid_out(_scored_there(given)) if foreign else given
        known = self._moved.get(str(place)) or replace(_moved(given, place), place=str(place))
        moved = replace(known, splits=given.splits)
        if place.is_host:
            # Rows that were in CPU memory from the start stay in the splitter's order.
            rows = self._in_order(place, moved) if is_foreign(given.X) else moved
            refit = moved.X, moved.y, moved.task.fit_params
            return replace(rows, route=f"on a copy in CPU memory, {rows.route}", refit=refit)
        rows = self._in_order(place, _scored_there(moved))
        # Not the moved rows: they would be in GPU memory twice.
        refit = _first(rows, _num_samples(given.X))
        return replace(rows, route=f"copied there once, {rows.route}", refit=refit)

    def _in_order(self, place, moved):
        """Rows ordered for their splits; rows that keep their order serve other splits too."""
        rows = _laid_out(moved)
        if rows is moved:
            self._moved[str(place)] = moved
        return rows


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
    return clone(estimator).set_params(**clone(params, safe=False))


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
                if hasattr(item, "fit") and not isinstance(item, type):
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


# ---------------------------------------------------------------- moving and laying out


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


def _laid_out(rows: Residence) -> Residence:
    """Rows in an order in which splits are views, if there is one and memory allows it."""
    n_rows = _num_samples(rows.X)
    layout = find_layout(rows.splits, n_rows)
    if layout is None or (ring := _choose(layout, rows)) is None:
        return rows
    known: dict[int, Any] = {}
    order: dict[str, Rows] = {}

    def laid_out(x):
        if not has_rows(x, n_rows):
            return x
        place = place_of(x) if is_array(x) else HOST
        if str(place) not in order:
            order[str(place)] = layout.at(place).rows(ring=ring)
        if id(x) not in known:
            known[id(x)] = rows_of(x, order[str(place)])
        return known[id(x)]

    views = ring or len(rows.splits) == 2
    out = replace(rows, splits=layout.splits(ring=ring), route=VIEWS if views else JOINED)
    return _mapped(out, laid_out)


def _choose(layout: Layout, rows: Residence) -> bool | None:
    """Whether to order rows as a ring (True) or once (False); None if memory allows neither."""
    n_rows = layout.n_rows
    row_bytes = sum(nbytes(x) for x in _arrays_of(rows) if has_rows(x, n_rows)) / n_rows
    free = free_bytes(place_of(rows.X))
    if row_bytes * (n_rows + layout.n_repeated) <= RING_SHARE * free:
        return True
    copied = 0 if layout.order is None else n_rows
    return False if row_bytes * (copied + layout.largest_part) <= ONCE_SHARE * free else None


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


def _first(rows: Residence, n_rows: int) -> tuple:
    """X, y and parameters of the first rows of a layout: all rows, each once."""
    laid_out = _num_samples(rows.X)

    def first(x):
        return rows_of(x, slice(0, n_rows)) if has_rows(x, laid_out) else x

    params = {name: first(value) for name, value in rows.task.fit_params.items()}
    return first(rows.X), first(rows.y), params


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


def _scored_there(rows: Residence) -> Residence:
    """The task with scorers that accept arrays on a device."""
    scorer = rows.task.scorer
    if isinstance(scorer, _MultimetricScorer):
        each = {name: _of_any_library(one) for name, one in scorer._scorers.items()}
        scorer = _MultimetricScorer(scorers=each, raise_exc=scorer._raise_exc)
    return replace(rows, task=replace(rows.task, scorer=_of_any_library(scorer)))


def _of_any_library(scorer):
    return _OwnScore(scorer._estimator) if type(scorer) is _PassthroughScorer else scorer


def place_name(X: Any) -> str:
    """The name of the place of X, for a plan."""
    X = as_array(X)
    X = X.data if is_cupyx_sparse(X) else X
    return str(place_of(X)) if is_array(X) else str(HOST)
