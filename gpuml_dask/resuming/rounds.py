"""Rounds of a search in a checkpoint: finished parts, and new ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuml._sklearn import _PassthroughScorer
from gpuml.model_selection.evaluate import Job, Results
from gpuml.protocol import Group
from gpuml_dask.resuming.checkpoint import Checkpoint, Manifest, token_of
from gpuml_dask.rows.placement import Placed


class Finished:
    """Finished groups and fits of one round; without a checkpoint nothing is known or kept.

    Fits that were given up for `fit_timeout` are finished for searches with the same limit alone.
    """

    def __init__(self, checkpoint: Checkpoint | None = None, fit_timeout: float | None = None):
        self._checkpoint = checkpoint
        self._late = "" if fit_timeout is None else f" within {float(fit_timeout)} s"

    @property
    def url(self) -> str:
        """The address of the folder."""
        return "" if self._checkpoint is None else str(self._checkpoint.url)

    def group(self, group: Group, *, late: bool = False) -> list[Results] | None:
        """Results of each candidate of a group; None if it is not finished.

        `late`: of one that took too long and was fitted one by one.
        """
        if late and not self._late:
            return None
        flat = self._get(self._kind("group", late), [group.shared, group.varying])
        if flat is None:
            return None
        n_splits = len(flat) // len(group.positions)
        return [flat[i : i + n_splits] for i in range(0, len(flat), n_splits)]

    def put_group(self, group: Group, results: Sequence[Results], *, late: bool = False) -> None:
        """Add a group."""
        flat = [result for each in results for result in each]
        self._put(self._kind("group", late), [group.shared, group.varying], flat)

    def family(self, split: int, params: Sequence[Mapping[str, Any]]) -> Results | None:
        """Results on a split of candidates that belong together; None if it is not finished."""
        found = self._get(f"split {split}", list(params))
        if found is None and self._late:
            found = self._get(self._kind(f"split {split}", True), list(params))
        return found

    def put_family(
        self, split: int, params: Sequence[Mapping[str, Any]], results: Results, *, late: bool
    ) -> None:
        """Add candidates that belong together, on a split; `late` if one of them took too long."""
        self._put(self._kind(f"split {split}", late), list(params), results)

    def _kind(self, kind, late):
        return f"{kind}{self._late if late else ''}"

    def _get(self, kind, what):
        if self._checkpoint is None:
            return None
        return self._checkpoint.get(f"{kind} {token_of(what)}")

    def _put(self, kind, what, results):
        if self._checkpoint is not None:
            self._checkpoint.put(f"{kind} {token_of(what)}", results)


class Checkpoints:
    """The checkpoints of all rounds of a search, in one folder.

    `fit_timeout` may differ from that of the search which began.
    """

    def __init__(self, url: Any, random_state: Any = None, *, fit_timeout: float | None = None):
        self.url, self._random_state = url, token_of(random_state)
        self._fit_timeout = fit_timeout
        self._data = ""
        self._n_rounds = 0

    def open(self, job: Job, candidates: Sequence[Mapping[str, Any]]) -> Finished:
        """The finished parts of the next round.

        A ValueError is raised if the folder is of another search; the message says what differs.
        """
        self._n_rounds += 1
        task = job.task
        if not self._data:
            params = (task.fit_params, task.score_params)
            self._data = token_of(
                [_content(job.X), _content(job.y)]
                + [{name: _content(value) for name, value in each.items()} for each in params]
            )
        manifest = Manifest(
            estimator=token_of(job.estimator),
            candidates=token_of([dict(each) for each in candidates]),
            data=self._data,
            splits=token_of(list(job.splits)),
            scoring=token_of([_scoring(task.scorer), task.error_score, task.return_train_score]),
            random_state=self._random_state,
        )
        checkpoint = Checkpoint(self.url, key=f"round-{self._n_rounds}")
        return Finished(checkpoint.open(manifest), self._fit_timeout)


def _content(x):
    return f"{x.name} of {x.table.content_token()}" if isinstance(x, Placed) else x


def _scoring(scorer):
    """A scorer without the estimator inside, which has its own token."""
    if isinstance(scorer, _PassthroughScorer):
        return ["the estimator's", repr(getattr(scorer, "_metadata_request", None))]
    return scorer
