"""Observers: functions that are called with events of this process, for reports."""

from collections.abc import Callable
from typing import Any

# Each is given the plan of a search when its fit is done.
plan_observers: list[Callable[[Any], object]] = []

# Each is given the seconds of candidates that were fitted and scored together, and a function that
# estimates those of the same fits one at a time: it makes one of them.
batch_observers: list[Callable[[float, Callable[[], float | None]], object]] = []
