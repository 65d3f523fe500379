"""What searches of an accelerated program did, told at its end."""

import atexit
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpuml._settings.observers import batch_observers, plan_observers


class Report:
    """Fits, passes and seconds of all searches of a process, from their plans.

    Attributes
    ----------
    plans : list of Plan
    together, alone : float
        Seconds of batched fits: as measured, and an estimate of what they take one at a time.
    timing : float
        Seconds that were spent on timing single fits.
    """

    def __init__(self) -> None:
        self.plans: list[Any] = []
        self.together = self.alone = self.timing = 0.0

    def begin(self) -> "Report":
        """Watch the searches of this process from now on; they are reported when it exits."""
        plan_observers.append(self.add_plan)
        batch_observers.append(self.add_batch)
        atexit.register(self.write)
        return self

    def end(self) -> None:
        """Watch no longer, and report now."""
        plan_observers.remove(self.add_plan)
        batch_observers.remove(self.add_batch)
        atexit.unregister(self.write)
        self.write()

    def add_plan(self, plan: Any) -> None:
        """Add a search that is done."""
        self.plans.append(plan)

    def add_batch(self, seconds: float, alone: Callable[[], float | None]) -> None:
        """Add a batch, as `batch_observers` are told of it."""
        started = time.perf_counter()
        estimate = alone()
        if estimate is not None:
            self.together += seconds
            self.alone += estimate
        self.timing += time.perf_counter() - started

    def lines(self) -> list[str]:
        """A line for all searches, one for each way in which fits were made, and the reasons."""
        if not self.plans:
            return []
        groups: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for step in (step for plan in self.plans for step in plan.steps):
            groups[step.place, step.why].append(step)
        n_fits = sum(step.n_fits for steps in groups.values() for step in steps)
        searches = "1 search" if len(self.plans) == 1 else f"{len(self.plans)} searches"
        seconds = sum(plan.seconds or 0.0 for plan in self.plans) - self.timing
        summed = [_summed(steps) for steps in groups.values()]
        return [
            f"{searches}, {n_fits} fits in {max(seconds, 0.0):.1f} s",
            *(f"  {step}" for step in summed),
            *_passes_saved(summed),
            *self._time_saved(),
            *dict.fromkeys(f"  {why}" for plan in self.plans for why in plan.reasons),
        ]

    def _time_saved(self) -> list[str]:
        """A line with the estimate of seconds saved, and what it rests on."""
        if not self.alone:
            return []
        saved = self.alone - self.together
        what = "saved" if saved >= 0 else "lost"
        words = (
            f"  {what} about {abs(saved):.2g} s: batched fits took {self.together:.2g} s, one at a "
            f"time they take about {self.alone:.2g} s (an estimate: one fit of each batch was "
            f"timed alone, in {self.timing:.2g} s)"
        )
        return [words]

    def write(self) -> None:
        """Write it to standard error; nothing where there was no search."""
        sys.stderr.write("".join(f"gpuml: {line}\n" for line in self.lines()))


def _passes_saved(steps: list[Any]) -> list[str]:
    """A line that says how many passes were saved: one by one, a fit needs one or more."""
    saved = sum(max(step.n_fits - step.n_passes, 0) for step in steps if step.n_passes is not None)
    if not saved:
        return []
    return [f"  saved at least {saved} passes over the rows: each single fit needs one"]


def _summed(steps: list[Any]) -> Any:
    """Steps of one place and way as one."""
    passes = [step.n_passes for step in steps]
    total = None if None in passes else sum(passes)
    return replace(steps[0], n_fits=sum(step.n_fits for step in steps), n_passes=total)
