"""Functions that are told what a process does, for reports on it."""

from collections.abc import Callable
from typing import Any

# Each is given the plan of a search when its fit is done.
plan_observers: list[Callable[[Any], object]] = []
