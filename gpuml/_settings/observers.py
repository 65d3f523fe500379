"""Observers: functions that are called with events of this process, for reports."""

from collections.abc import Callable
from typing import Any

# Each is given the plan of a search when its fit is done.
plan_observers: list[Callable[[Any], object]] = []
