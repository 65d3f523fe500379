"""What searches of an accelerated program did, told at its end."""

import atexit
import sys
from collections import defaultdict
from dataclasses import replace
from typing import Any

from gpuml._settings.observers import plan_observers


class Report:
    """Fits, passes and seconds of all searches of a process, from their plans."""

    def __init__(self) -> None:
        self.plans: list[Any] = []

    def lines(self) -> list[str]:
        """A line for all searches, one for each way in which fits were made, and the reasons."""
        if not self.plans:
            return []
        groups: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for step in (step for plan in self.plans for step in plan.steps):
            groups[step.place, step.why].append(step)
        n_fits = sum(step.n_fits for steps in groups.values() for step in steps)
        searches = "1 search" if len(self.plans) == 1 else f"{len(self.plans)} searches"
        seconds = sum(plan.seconds or 0.0 for plan in self.plans)
        summed = [_summed(steps) for steps in groups.values()]
        return [
            f"{searches}, {n_fits} fits in {seconds:.1f} s",
            *(f"  {step}" for step in summed),
            *_saved(summed),
            *dict.fromkeys(f"  {why}" for plan in self.plans for why in plan.reasons),
        ]

    def write(self) -> None:
        """Write it to standard error; nothing where there was no search."""
        sys.stderr.write("".join(f"gpuml: {line}\n" for line in self.lines()))


def report_at_exit() -> None:
    """Watch the searches of this process from now on, and report at its end."""
    report = Report()
    plan_observers.append(report.plans.append)
    atexit.register(report.write)


def _saved(steps: list[Any]) -> list[str]:
    """A line that says how many passes were saved: one by one, a fit needs one or more."""
    saved = sum(max(step.n_fits - step.n_passes, 0) for step in steps if step.n_passes is not None)
    if not saved:
        return []
    return [f"  saved {saved} passes over the rows or more: fits one at a time need one each"]


def _summed(steps: list[Any]) -> Any:
    """Steps of one place and way as one."""
    passes = [step.n_passes for step in steps]
    total = None if None in passes else sum(passes)
    return replace(steps[0], n_fits=sum(step.n_fits for step in steps), n_passes=total)
