"""Rounds of a search on a cluster that differ in their splits: rows are sent and read once."""

import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import sklearn

import gpuml
from gpuml.data import AnySplit
from gpuml.divided import located_splits
from gpuml_dask.searching.evaluator import ClusterEvaluator
from gpuml_dask.searching.sent import SearchInputs, send_rows
from gpuml_dask.searching.tasks import Kept, Spec

# What this worker has of each search. Values are kept by the specs of its rounds and their keepers,
# which are Dask's keys, and go with them.
_known: "WeakValueDictionary[str, Kept]" = WeakValueDictionary()


@dataclass
class RoundSpec(Spec):
    """The spec of one round; on a worker it shares rows with those of other rounds.

    Attributes
    ----------
    search : str
        The same for all rounds of a search, and for nobody else.
    """

    search: str = ""

    def _make(self, rows: Mapping[str, Any]) -> Kept:
        """An evaluator for these splits, of the same rows as other rounds'."""
        other = _known.get(self.search)
        if other is None:
            made = super()._make(rows)
        else:
            splits = located_splits(self.splits, rows.get("y"))
            made = Kept(other.evaluator.with_splits(splits))
        _known[self.search] = made
        return made


class RoundEvaluator(ClusterEvaluator):
    """A `ClusterEvaluator` that others with other splits can be made of."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._search = uuid.uuid4().hex
        self._shared: tuple | None = None
        self._others: list[RoundEvaluator] = []

    def with_splits(self, splits: Sequence[AnySplit]) -> "RoundEvaluator":
        """An evaluator of the same rows in other splits; what workers have serves both."""
        other = RoundEvaluator(
            replace(self.job, splits=splits),
            self.client,
            elsewhere=self._elsewhere,
            checkpoints=self._checkpoints,
        )
        other._search, other._shared = self._search, self._send_once()
        self._others.append(other)
        return other

    def close(self) -> None:
        """Let go of all that is on workers for this search."""
        for other in self._others:
            other.close()
        self._shared = None
        super().close()

    def _send_once(self):
        if self._shared is None:
            self._shared = send_rows(self.client, self.job, self._elsewhere)
        return self._shared

    def _sent(self) -> SearchInputs:
        if self._inputs is None:
            rows, task = self._send_once()
            spec = RoundSpec(
                self.job.estimator,
                self.job.splits,
                task,
                gpuml.get_config(),
                sklearn.get_config(),
                list(warnings.filters),
                uuid.uuid4().hex,
                search=self._search,
            )
            self._inputs = SearchInputs(self.client, spec, rows)
        return self._inputs
