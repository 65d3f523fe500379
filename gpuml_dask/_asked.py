"""Dask annotations for all tasks of a search: workers, priority, resources.

They are Dask's annotations, so a ``with dask.annotate(...)`` block around a fit does the same.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import dask

Fact = TypeVar("Fact", bound=Mapping[str, Any])

NAMES = ("workers", "priority", "resources")


def asked_by(search: Any) -> dict[str, Any]:
    """The annotations of a search: those of its parameters `NAMES` that are not None."""
    given = {name: getattr(search, name) for name in NAMES}
    return {name: value for name, value in given.items() if value is not None}


def asked_workers() -> Collection[Any]:
    """Addresses, names or hosts of the workers for tasks of this thread; none for all workers."""
    workers = dask.get_annotations().get("workers") or ()
    return () if callable(workers) else workers


def allowed(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Those of the workers, as the scheduler describes them, that tasks of this thread may use."""
    wanted = set(asked_workers())
    return {
        address: fact
        for address, fact in facts.items()
        if not wanted or wanted & {address, fact["host"], fact["name"]}
    }


def asked_resources(demand: Mapping[str, float]) -> dict[str, float]:
    """The resources of a task, with those for all tasks of this thread."""
    asked = dask.get_annotations().get("resources") or {}
    return {**demand, **(asked if isinstance(asked, dict) else {})}


def asked_priority() -> float:
    """The priority for all tasks of this thread; 0 by default."""
    priority = dask.get_annotations().get("priority", 0)
    return 0 if callable(priority) else priority
