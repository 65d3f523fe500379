"""Which kind of worker does which step of a pipeline, and where its rows change workers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from gpuml_dask.planning.sizes import Kind


@dataclass(frozen=True)
class PlacedStep:
    """A step of a pipeline, and the kind of worker that does it.

    `crosses` says that the step before is done by the other kind, so that rows have to move.
    """

    name: str
    kind: Kind
    crosses: bool


def place_steps(
    steps: Sequence[tuple[str, Literal["gpu", "cpu", "any"]]],
    kinds: Collection[str] = ("gpu", "cpu"),
) -> tuple[PlacedStep, ...]:
    """Say which kind of worker does each step.

    Parameters
    ----------
    steps : sequence of (name, need)
        In order. "gpu" is for what gains from a GPU, "cpu" for what cannot use one (reading, text,
        an estimator of the host), "any" for what is at home on both.
    kinds : collection of str, default=("gpu", "cpu")
        Kinds of workers in the cluster. A step whose kind is missing is done by the other: gpuml
        computes on CPUs too, and a GPU worker has a CPU.

    Returns
    -------
    placed : tuple of PlacedStep
        Steps that may be anywhere stay where rows are, so rows cross as seldom as they can.

    Raises
    ------
    ValueError
        For another need, or a cluster without workers.

    Examples
    --------
    >>> from gpuml_dask.planning.steps import place_steps
    >>> placed = place_steps([("read", "cpu"), ("scale", "any"), ("ridge", "gpu")])
    >>> [(step.name, step.kind, step.crosses) for step in placed]
    [('read', 'cpu', False), ('scale', 'cpu', False), ('ridge', 'gpu', True)]
    """
    every_kind: tuple[Kind, ...] = ("gpu", "cpu")
    there = [kind for kind in every_kind if kind in kinds]
    if not there:
        raise ValueError(f"There are no workers of the kinds 'gpu' or 'cpu', only {list(kinds)}.")
    wanted: list[Kind | None] = []
    for name, need in steps:
        if need not in ("gpu", "cpu", "any"):
            raise ValueError(f"Step {name!r} needs {need!r}; use 'gpu', 'cpu' or 'any'.")
        wanted.append(None if need == "any" else need if need in there else there[0])
    # Steps before the first that cares go where that goes.
    at = next((kind for kind in wanted if kind is not None), there[0])
    placed = []
    for i, ((name, _), kind) in enumerate(zip(steps, wanted, strict=True)):
        before, at = at, kind or at
        placed.append(PlacedStep(name, at, i > 0 and at != before))
    return tuple(placed)
