"""The plan of a search: steps, ways of fitting, and the reasons for them."""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.base import clone

from gpuml._arrays import transfer_observers
from gpuml._settings.suggestions import asking
from gpuml.data import NeedsAllRows
from gpuml.exceptions import GatheredWarning, level_of_user

# How many reasons a step of a plan prints.
MOST_REASONS = 3
# The ways of fitting that a step of a plan names.
ALONE = "one by one"
ON_EACH_FOLD = "candidates together on each fold"
TOGETHER = "all candidates together"
NOT_FITTED = "not fitted"
# The work that fits share.
COMMON = "shared steps"
STEPS = "shared steps fitted once per fold"
STEPS_OF_TASKS = "shared steps fitted once per task"
STEPS_AGAIN = "shared steps fitted again where their output was not kept"
GROWN = "smaller ensembles taken from the largest"
CONTINUED = "ensembles continued from the previous round"
CUT = "shallower trees cut from deeper ones"
PRUNED = "trees grown once for all ccp_alpha"
BINNED = "XGBoost bins computed once per fold"
SAME = "one fit for equal candidates"
QUERIED = "one neighbour search per fold"
KERNELS = "one distance or kernel matrix per fold"
BY_METHOD = "fits shared by __sklearn_multifit__"


def check_names(estimator: Any, candidates: Sequence[Mapping[str, Any]]) -> None:
    """Raise the error of `set_params` for an unknown name, with a suggestion.

    A candidate may bring the step that has the parameter: only its own `set_params` knows.
    """
    if not hasattr(estimator, "get_params"):
        return
    known = set(estimator.get_params())
    unknown = {next((n for n in each if n not in known), None): each for each in candidates}
    for name, candidate in unknown.items():
        if name is None:
            continue
        whole = {key: clone(value, safe=False) for key, value in candidate.items()}
        try:
            clone(estimator).set_params(**whole)
        except ValueError as error:
            raise asking(error, [name], estimator) from None


@dataclass(frozen=True)
class Step:
    """One step of a plan: `n_fits` fits in `n_passes` passes over the rows on `place`.

    `why` says how, and `reasons` what was in the way of fitting all candidates at once.
    """

    n_fits: int
    n_passes: int
    place: str
    why: str
    reasons: tuple[str, ...] = field(default=(), compare=False)

    @property
    def told(self) -> str:
        """How its fits were made and why they were not all made together; "" if they were."""
        return words_of_reasons(self.reasons, self.n_fits, self.why)

    def __str__(self):
        passes = "passes as needed"
        if self.n_passes is not None:
            passes = f"{self.n_passes} pass" + ("" if self.n_passes == 1 else "es")
        return f"{number(self.n_fits, 'fit')} in {passes} on {self.place} ({self.why})"


def number(n: int, noun: str) -> str:
    """A number of things.

    >>> number(1, "fit"), number(2, "fit")
    ('1 fit', '2 fits')
    """
    return f"{n} {noun}" + ("" if n == 1 else "s")


def words_of_reasons(reasons: Sequence[str], n_fits: int, why: str) -> str:
    """The reasons why candidates were not fitted together, and how they are fitted instead."""
    if not reasons:
        return ""
    # What some candidates were told in addition includes what all were told.
    reasons = [r for r in reasons if not any(each.startswith(f"{r}; ") for each in reasons)]
    text = "; ".join(reasons[:MOST_REASONS])
    if len(reasons) > MOST_REASONS:
        text += f"; and {len(reasons) - MOST_REASONS} more reasons"
    on_folds = ON_EACH_FOLD in why
    way = "together on each fold" if on_folds else "one at a time"
    unit = "task" if STEPS_OF_TASKS in why else "fold" if STEPS in why or why == COMMON else ""
    shared = f", preprocessing fitted once per {unit}" if unit else ""
    head = "Batched on each fold only" if on_folds else "Not batched"
    return f"{head}: {text}; {number(n_fits, 'fit')} {way}{shared}"


def groups_together(n_groups: int) -> str:
    """`TOGETHER` for several groups."""
    return f"{n_groups} groups, the candidates of each together"


@dataclass(frozen=True)
class Refusal:
    """The reason why a candidate was not fitted together with others.

    `raised` says that the reason is an error that was not reported yet.
    """

    reason: str
    raised: bool = False


NOTHING = Refusal("")


def refusal_of(reasons: Iterable[str | None]) -> Refusal:
    """The refusal for several reasons, each once; None is no reason."""
    return Refusal("; ".join(dict.fromkeys(filter(None, reasons))))


@dataclass(frozen=True)
class Made:
    """How the result of a candidate on a split was made.

    Attributes
    ----------
    way : str
    n_passes : int
        Passes over the rows of the split; of those that several share, the first has all.
    place : str or None
        Where the rows are that the model was fitted to, if that is known.
    shared : tuple of str
        What it has in common with others.
    reason : str
        Why it was not made together with all others.
    raised : str
        What was raised where it was to be made together with others.
    """

    way: str = ALONE
    n_passes: int = 1
    place: str | None = None
    shared: tuple[str, ...] = ()
    reason: str = ""
    raised: str = ""

    def after(self, refusal: Refusal) -> "Made":
        """The same, for a candidate that was refused by a group fit before."""
        raised = self.raised or (refusal.reason if refusal.raised else "")
        reasons = dict.fromkeys(filter(None, [refusal.reason, self.reason]))
        return replace(self, reason="; ".join(reasons), raised=raised)


def steps_of(
    results: Sequence[dict[str, Any]],
    place: str,
    route: str,
    *,
    by_task: bool = False,
    error_score: Any = np.nan,
) -> tuple[Step, ...]:
    """The steps of a plan for results of candidates on splits: one for each way of fitting.

    Parameters
    ----------
    results : sequence of dict
        "made" is taken out of each.
    place : str
        Where the rows are.
    route : str
        How folds come about.
    by_task : bool, default=False
        Whether the candidates of a fold are divided over tasks, which share nothing.
    error_score : "raise" or number, default=nan
        Score of a candidate that fails.

    Warns
    -----
    RuntimeWarning
        Of errors that were raised where several were to be made together, and by none of them.
    """
    ways: dict[str, list[Made]] = {}
    raised: dict[str, list[bool]] = {}
    for result in results:
        made = result.pop("made", Made())
        ways.setdefault(made.way, []).append(made)
        if made.raised:
            raised.setdefault(made.raised, []).append(failed(result, error_score))
    _warn_unrepeated(raised)
    return tuple(_step(way, each, place, route, by_task) for way, each in ways.items())


def _step(way, made, place, route, by_task):
    places = dict.fromkeys([place, *(each.place for each in made if each.place is not None)])
    shared = dict.fromkeys(words for each in made for words in each.shared)
    if STEPS_AGAIN in shared:
        shared.pop(STEPS, None)
    words = [STEPS_OF_TASKS if by_task and each == STEPS else each for each in shared]
    n_passes = sum(each.n_passes for each in made)
    reasons = tuple(dict.fromkeys(each.reason for each in made if each.reason))
    return Step(len(made), n_passes, ", ".join(places), ", ".join([way, route, *words]), reasons)


def raised_words(error: BaseException) -> str:
    """An error as the text of a reason."""
    return f"{type(error).__name__}: {error}"


def tell_unrepeated(
    refused: Mapping[int, Refusal],
    results: Mapping[int, Sequence[Mapping[str, Any]]],
    error_score: Any,
) -> None:
    """Warn about errors of group fits that no single fit of a candidate repeated.

    Parameters
    ----------
    refused : dict of int to Refusal
        By candidate.
    results : dict of int to list
        Of each candidate on all splits.
    error_score : "raise" or number
    """
    raised: dict[str, list[bool]] = {}
    for position, refusal in refused.items():
        if refusal.raised:
            failures = raised.setdefault(refusal.reason, [])
            failures += [failed(result, error_score) for result in results[position]]
    _warn_unrepeated(raised)


def tell_gathered(
    refused: Mapping[int, Refusal], results: Mapping[int, Any], amount: str, otherwise: str
) -> None:
    """Warn about candidates that bring all rows together where others leave them divided.

    Parameters
    ----------
    refused : dict of int to Refusal
        By candidate.
    results : dict of int
        By candidate, empty for those that are still to be fitted.
    amount : str
        What comes together, in readable units.
    otherwise : str
        Why, if no candidate was refused.
    """
    left = [refused.get(candidate, NOTHING) for candidate, found in results.items() if not found]
    if left:
        reasons = dict.fromkeys(each.reason for each in left if each.reason)
        found = (each.removeprefix(f"{NeedsAllRows.__name__}: ").rstrip(".") for each in reasons)
        why = ". ".join(found) or otherwise
        warnings.warn(
            f"Rows are divided, but all of them ({amount}) go to each worker that fits some of the "
            f"candidates ({len(left)} of {len(results)}): {why}. If no worker has room for them, "
            "leave these candidates out, or give them fewer rows.",
            GatheredWarning,
            stacklevel=level_of_user(),
        )


def failed(result: Mapping[str, Any], error_score: Any) -> bool:
    """Whether a fit or one of its scores failed."""
    scores = result.get("test_scores")
    values = list(scores.values()) if isinstance(scores, dict) else [scores]
    return result.get("fit_error") is not None or any(
        value is None or value != value or value == error_score for value in values
    )


def _warn_unrepeated(raised: Mapping[str, Sequence[bool]]) -> None:
    """Warn about errors of group fits. `raised` has, by text, whether each single fit failed."""
    for text, failures in raised.items():
        if not any(failures):
            warnings.warn(
                f"Fitting all candidates together raised {text.rstrip('.')}. None of them "
                "raises it alone, so they are fitted one by one, which is slower.",
                RuntimeWarning,
                stacklevel=level_of_user(),
            )


def total(values: Iterable) -> Any:
    """The sum of some values; None if one of them is None."""
    values = list(values)
    return None if None in values else sum(values)


@dataclass(frozen=True)
class Stepwise:
    """Steps that were done, or will be done."""

    steps: tuple[Any, ...]

    @property
    def n_fits(self) -> int:
        """Models that are fitted, the refit not counted."""
        return total(step.n_fits for step in self.steps)

    @property
    def n_passes(self) -> Any:
        """Passes over the rows; a fit of one model on its own counts as one.

        None before the fits where that depends on what is found in the rows.
        """
        return total(step.n_passes for step in self.steps)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why fits are not all made together, one sentence per step."""
        return tuple(filter(None, (step.told for step in self.steps)))


@dataclass(frozen=True)
class Plan(Stepwise):
    """What a search did: fits, passes over the rows, device, seconds and bytes moved.

    Attributes
    ----------
    steps : tuple of Step
    seconds : float or None
        How long `fit` took, the refit included.
    bytes_to_device, bytes_to_host : int or None
        Bytes that gpuml moved between CPU memory and devices in this process during `fit`; None
        where other processes did the work.
    """

    seconds: float | None = field(default=None, compare=False)
    bytes_to_device: int | None = field(default=None, compare=False)
    bytes_to_host: int | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """The place where the work was done, such as "numpy:cpu"."""
        return ", ".join(dict.fromkeys(step.place for step in self.steps))

    @property
    def runs(self) -> tuple[Step, ...]:
        """The steps; consecutive steps that were done in the same way are joined."""
        alike = groupby(self.steps, lambda step: (step.place, step.why, step.reasons))
        return tuple(
            Step(total(s.n_fits for s in run), total(s.n_passes for s in run), *key)
            for key, run in ((key, list(run)) for key, run in alike)
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why fits are not all made together, one sentence per run of such steps."""
        return tuple(filter(None, (step.told for step in self.runs)))

    def __str__(self):
        return "\n".join(["; ".join(str(step) for step in self.runs), *self.reasons])

    def _repr_html_(self):
        from gpuml.model_selection._html import plan_html

        return plan_html(self)


@contextmanager
def measured(*, sees_moves: bool) -> Iterator[Callable[[Plan], Plan]]:
    """Measure a block of code; yields a function that adds seconds and bytes so far to a plan.

    `sees_moves` says whether this process makes all moves between CPU memory and devices. Moves of
    fits in several threads count for each of these fits.
    """
    moved: Counter = Counter()

    def add(direction, size):
        moved[direction] += size

    def with_costs(plan):
        up, down = (moved[name] if sees_moves else None for name in ("to_device", "to_host"))
        seconds = time.perf_counter() - started
        return replace(plan, seconds=seconds, bytes_to_device=up, bytes_to_host=down)

    started = time.perf_counter()
    transfer_observers.append(add)
    try:
        yield with_costs
    finally:
        transfer_observers.remove(add)
