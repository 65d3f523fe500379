"""What a fit costs: its seconds, and the bytes that it moves."""

import time
from collections import Counter
from dataclasses import replace
from typing import Self

from gpuml._arrays import transfer_observers
from gpuml.model_selection.candidates import Plan


class Costs:
    """Measures a block of code.

    Parameters
    ----------
    sees_moves : bool
        Whether all moves between host and devices are made by this process. Those that several
        fits in threads make at once count for each of them.
    """

    def __init__(self, *, sees_moves: bool):
        self.sees_moves = sees_moves
        self.seconds = 0.0
        self._moved: Counter = Counter()

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        transfer_observers.append(self._add)
        return self

    def __exit__(self, *error):
        transfer_observers.remove(self._add)
        self.seconds = time.perf_counter() - self._started

    def added_to(self, plan: Plan) -> Plan:
        """A plan that says what it cost."""
        up, down = (self._moved[name] for name in ("to_device", "to_host"))
        return replace(
            plan,
            seconds=self.seconds,
            bytes_to_device=up if self.sees_moves else None,
            bytes_to_host=down if self.sees_moves else None,
        )

    def _add(self, direction, size):
        self._moved[direction] += size
