"""The input of an evaluator, and its records of fitted groups."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuml._arrays.threads import threads_of
from gpuml.data import AnySplit, Batch, Outside, whole
from gpuml.extending import Stack
from gpuml.model_selection.one_by_one import Task
from gpuml.protocol import Group


@dataclass(frozen=True)
class Job:
    """A search problem: an unfitted estimator, the user's rows, their splits, and the rest.

    `outside` says which splits are inside the training rows of others. `estimators` are those of
    the splits, if these have estimators of their own.
    """

    estimator: Any
    X: Any
    y: Any
    splits: Sequence[AnySplit]
    task: Task
    n_jobs: int | None = None
    pre_dispatch: Any = "2*n_jobs"
    outside: Outside | None = None
    estimators: Sequence[Any] = ()

    @property
    def n_told(self) -> int:
        """Of how many splits this job tells the plan; of those with estimators the first tells."""
        if not self.estimators:
            return len(self.splits)
        return len(self.estimators) if self.estimator is self.estimators[0] else 0


@dataclass(frozen=True)
class Known:
    """Rows that estimators of one kind have checked, and the attributes that they set."""

    batch: Batch
    seen: Mapping[str, Any]


@dataclass(frozen=True)
class Shared:
    """A group that was fitted together; with all rows if the stack knows only some of them.

    The models of splits in `refused` are never used.
    """

    estimator: Any
    group: Group
    stack: Stack
    all_rows: Batch | None
    refused: Collection[int] = ()

    def model(self, index: int) -> Any:
        """The model of a candidate on all rows."""
        varying = self.group.varying[index]
        if self.all_rows is None:
            attributes = self.stack.pick(index, None)
        else:
            folds = whole(self.all_rows)
            with threads_of(self.estimator, folds):
                attributes = self.estimator.multifit(folds, [varying]).pick(0, 0)
        return self.estimator.multifit_model({**self.group.shared, **varying}, attributes)

    def model_of(self, index: int, split: int) -> Any:
        """The model of a candidate on the training rows of a split."""
        params = {**self.group.shared, **self.group.varying[index]}
        return self.estimator.multifit_model(params, self.stack.pick(index, split))
