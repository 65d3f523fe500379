"""The plan of a search before it runs: routes, passes, bytes, estimated seconds."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from gpuml._arrays import (
    HOST,
    Place,
    as_array,
    compute_place,
    is_array,
    move,
    nbytes,
    place_of,
    synchronize,
)
from gpuml._arrays.transfers import format_bytes
from gpuml._settings.config import current_settings
from gpuml._sklearn import _num_samples
from gpuml.data import NotTogether, Split
from gpuml.extending import MultifitEstimator
from gpuml.model_selection._html import STYLE, plan_rows
from gpuml.model_selection.candidates import ALONE, Step, Stepwise, total
from gpuml.model_selection.divided import check_columns, reads_stored_table
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.residence import all_estimators, configured, device_for
from gpuml.model_selection.route import AnyRoute, AtOnce, Nested, OneByOne, Route, route
from gpuml.resampling.multifit import data_obstacle

# The array that the speed of a machine is measured with, and for how long.
SAMPLE, SAMPLE_SECONDS = (32_768, 64), 0.05
# Overheads that do not depend on the number of rows, in units of a clone of a small estimator
# (about fifty lines of Python): for a search, for a group per estimator in it, for a fit in a
# group, and for a single fit.
CLONES = {"search": 83, "group": 60, "fit": 0.5, "alone": 35}
# Array calls per pass, and passes if their number depends on the data.
CALLS, USUAL_PASSES = 300, 10


@dataclass(frozen=True)
class Speed:
    """The speed of a place.

    Attributes
    ----------
    flops : float
        Floating-point operations a second of sums over rows in double precision.
    call, clone : float
        Seconds of a call of its array library (on a GPU, of a launch), and of a clone.
    """

    flops: float
    call: float
    clone: float

    def seconds(self, n_flops: float, n_calls: float, n_clones: float) -> float:
        """Seconds for so much work."""
        return n_flops / self.flops + n_calls * self.call + n_clones * self.clone


@dataclass(frozen=True)
class Outlook:
    """Where a search will work.

    Attributes
    ----------
    place : str or None
        In words for a plan; None is found from the rows.
    speed : Speed or None
        Of one worker; None is measured here.
    at_once, alone : int
        How many work side by side on a group, and on fits one by one.
    divided : bool
        Whether groups are fitted from sums over rows that are divided.
    limit : str
        What limits the time of fits, if no rows are divided.
    """

    place: str | None = None
    speed: Speed | None = None
    at_once: int = 1
    alone: int = 1
    divided: bool = False
    limit: str = ""


@dataclass(frozen=True)
class Expected(Step):
    """A part of the work of a search: a step, and its expected costs.

    Passes are None if their number depends on the data, bytes and seconds if they are unknown.
    Bytes are those that fits and scores read in all passes.
    """

    n_passes: int | None  # type: ignore[assignment]
    n_bytes: int | None = field(default=None, kw_only=True)
    seconds: float | None = field(default=None, kw_only=True)

    def __str__(self):
        read = "" if self.n_bytes is None else f", {format_bytes(self.n_bytes)} read"
        took = "unknown" if self.seconds is None else f"about {_seconds(self.seconds)}"
        return f"{super().__str__()}{read}, time {took}"


@dataclass(frozen=True)
class Explanation(Stepwise):
    """The plan of a search, made before anything is fitted.

    Attributes
    ----------
    steps : tuple of Expected
    rates : dict of str to float
        Measured speeds, in floating-point operations per second, that the estimates use.
    """

    rates: dict[str, float] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int | None:
        """Bytes that fits and scores read; None if unknown."""
        return total(step.n_bytes for step in self.steps)

    @property
    def seconds(self) -> float | None:
        """Estimated seconds of the fits; None if the cost of one of them is unknown."""
        return total(step.seconds for step in self.steps)

    def __str__(self):
        lines = ["Nothing was fitted yet.", *map(str, self.steps), *self.reasons]
        return "\n".join([*lines, self._how()])

    def _repr_html_(self):
        rows = [("expected", "<br>".join(escape(str(step)) for step in self.steps))]
        if self.reasons:
            rows.append(("why", "<br>".join(map(escape, self.reasons))))
        rows.append(("time", escape(self._how())))
        return f"{STYLE}<div class='gpuml-search'>{plan_rows(rows)}</div>"

    def _how(self):
        rates = ", ".join(f"{rate / 1e9:.3g} Gflop/s on {p}" for p, rate in self.rates.items())
        if not rates:
            return "The time is unknown: time one fit, and multiply."
        of_rows = f"from {rates} as measured on sums over rows"
        return f"Times are estimates, {of_rows}, with fixed costs of Python added."


def explain_search(search: Any, X: Any, y: Any, params: Mapping[str, Any]) -> Explanation:
    """What a search is going to do; the search is changed, so it should be a clone.

    Parameters
    ----------
    search : OnePassSearch
    X, y : array-like
    params : dict
        As for its `fit`.
    """
    X, y = as_array(X), as_array(y)
    foretold = search._foretold(X)
    if foretold is not None:
        return foretold
    search._begin(X)
    _, _, X, y, task, _ = search._prepared(X, y, params)
    candidates = search._candidates()
    # Splits are not made: their number is known.
    splits = [Split(slice(0, 0), slice(0, 0))] * search.n_splits_
    job = Job(clone(search.estimator), X, y, splits, task)
    check_columns(job)
    nests = search._works_here()
    routes = route(job.estimator, candidates, search._stand_in(X), task, nests=nests)
    routes = [_after_a_look(each, X, y) for each in routes]
    return explained(job, routes, candidates, search._outlook(job, routes))


def _after_a_look(way_of: AnyRoute, X: Any, y: Any) -> AnyRoute:
    """The route that a fit takes, which finds at the first look at y what cannot be together."""
    if isinstance(way_of, AtOnce) and is_array(X) and is_array(y) and y.ndim == 2:
        try:
            way_of.fits.multifit_batch(X[:2], y[:2])
        except NotTogether as error:
            return OneByOne(way_of.positions, str(error))
        except Exception:  # two rows may be too few: the fit warns of what it refuses
            return way_of
    return way_of


def explained(
    job: Job, routes: Sequence[Route], candidates: Sequence[Mapping[str, Any]], outlook: Outlook
) -> Explanation:
    """What will be done for the routes of a job.

    Parameters
    ----------
    job : Job
        Its splits need only be as many as there will be.
    routes : sequence of Route
    candidates : sequence of dict
    outlook : Outlook

    Returns
    -------
    explanation : Explanation
    """
    rates: dict[str, float] = {}
    of_search = CLONES["search"] / max(1, len(routes))
    steps = [_expected(job, each, candidates, outlook, rates, of_search) for each in routes]
    return Explanation(tuple(steps), rates)


def _expected(job, way_of, candidates, outlook, rates, n_clones):
    X, n_splits = job.X, len(job.splits)
    n_fits = len(way_of.positions) * n_splits
    size = _size_of(X)
    n_rows, n_features, n_targets = _num_samples(X), _n_columns(X), _n_columns(job.y)
    if isinstance(way_of, AtOnce):
        place = _place_at_once(X, size) if outlook.place is None else None
        work = way_of.fits.multifit_work(n_rows, n_features, n_targets, n_fits)
        n_passes, n_flops = (None, None) if work is None else work
        n_passes = None if n_passes is None else n_passes + reads_stored_table(job)
        n_bytes = None if n_passes is None else n_passes * size
        n_clones += CLONES["group"] * len(list(all_estimators(job.estimator)))
        n_clones += CLONES["fit"] * n_fits
        n_calls = CALLS * (USUAL_PASSES if n_passes is None else n_passes)
        words = way_of.fits.multifit_words(X, job.y, way_of.group.varying, n_splits)
        said = [way_of.way, words, outlook.limit]
        if outlook.divided:
            said[1:] = "rows divided", outlook.limit and "with no limit of time"
        n_side = outlook.at_once
        reasons: tuple[str, ...] = ()
    else:
        model = configured(job.estimator, candidates[way_of.positions[0]])
        place = device_for(model, X) if outlook.place is None and is_array(X) else None
        place = _home_of(X) if place is None else place
        n_passes, n_bytes, n_flops = n_fits, n_fits * size, None
        n_calls, n_clones = CALLS * n_fits, n_clones + CLONES["alone"] * n_fits
        own = isinstance(model, MultifitEstimator) and data_obstacle(model, X) is None
        if isinstance(way_of, OneByOne) and own:
            n_train = max(1, round(n_rows * (1 - 1 / max(2, n_splits))))
            work = model.multifit_work(n_train, n_features, n_targets, 1)
            n_flops = None if work is None else n_fits * work[1]
        else:
            n_passes = n_passes if isinstance(way_of, OneByOne) else None
            n_bytes = n_bytes if isinstance(way_of, OneByOne) else None
        way = ALONE if isinstance(way_of, OneByOne) else way_of.way
        reasons = () if isinstance(way_of, Nested) else (way_of.reason,)
        n_side, said = outlook.alone, [way, outlook.limit]
    words = outlook.place or str(place)
    seconds = None
    if n_flops is not None:
        speed = outlook.speed or speed_of(str(place), place)
        rates[words] = speed.flops
        seconds = speed.seconds(n_flops, n_calls, n_clones) / max(1, min(n_side, n_fits))
    cost = {"n_bytes": n_bytes, "seconds": seconds}
    return Expected(n_fits, n_passes, words, ", ".join(filter(None, said)), reasons, **cost)


class _Small(BaseEstimator):
    """The estimator whose clones are measured."""

    def __init__(self, first=1.0, second=None, third="text"):
        self.first, self.second, self.third = first, second, third


_speeds: dict[str, Speed] = {}


def speed_of(name: str, place: Place | None = None) -> Speed:
    """The speed of a place, measured once per process; None is CPU memory."""
    if name not in _speeds:
        place = HOST if place is None else place
        rows, few = (move(np.ones(shape), place) for shape in (SAMPLE, (8, 8)))
        n_flops = 2 * SAMPLE[0] * SAMPLE[1] ** 2
        _speeds[name] = Speed(
            flops=n_flops / _measured(lambda: _sums(rows, place), place),
            call=_measured(lambda: [_sums(few, place) for _ in range(20)], place) / 60,
            clone=_measured(lambda: [clone(_Small()) for _ in range(20)], place) / 20,
        )
    return _speeds[name]


def _sums(rows, place):
    # The operations of a pass: read rows, shift, multiply.
    shifted = rows - 1.0
    return place.xp.matmul(place.xp.matrix_transpose(shifted), shifted)


def _measured(work, place):
    """Seconds of some work: the median of several runs."""
    took: list[float] = []
    while sum(took) < SAMPLE_SECONDS or len(took) < 3:
        started = time.perf_counter()
        work()
        synchronize(place)
        took.append(time.perf_counter() - started)
    return float(np.median(took))


def _place_at_once(X, size):
    return compute_place(X, size, current_settings().device) if is_array(X) else HOST


def _home_of(X):
    return place_of(X) if is_array(X) else HOST


def _size_of(X):
    """Bytes of the rows; without `nbytes`, as many as numbers would take."""
    if hasattr(X, "nnz"):
        return int(X.nnz) * (X.dtype.itemsize + np.dtype(np.int32).itemsize)
    if is_array(X):
        return nbytes(X)
    return 8 * _num_samples(X) * _n_columns(X)


def _n_columns(x):
    shape: Any = getattr(x, "shape", ())
    return shape[1] if len(shape) > 1 else 1


def _seconds(seconds):
    if seconds < 1:
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"
