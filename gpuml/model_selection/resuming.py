"""Searches that resume: finished work comes from a checkpoint, and new work goes into it."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from gpuml._persistence.checkpoint import Checkpoint, Manifest
from gpuml._persistence.tokens import token_of
from gpuml._sklearn import _PassthroughScorer
from gpuml.divided.stored import StoredRows
from gpuml.model_selection.candidates import Step
from gpuml.model_selection.evaluate import Evaluator, Job, Results
from gpuml.model_selection.fold_fits import families
from gpuml.protocol import Group

FOUND = "finished before"
# Fields of results that are not stored: how they came about, and ensembles that go on.
NOT_STORED = ("made", "grown")
# Fields of cluster searches, whose checkpoints a search of one machine can resume.
OF_CLUSTERS = ("worker", "device")


NO_PREDICTIONS = (
    "return_predictions= cannot be used with checkpoint=: predictions are not stored. Leave one of "
    "them out; cross_val_predict finds the predictions of a chosen candidate."
)
NO_FILES = (
    "checkpoint= needs rows in memory, whose contents it compares when you resume; these are read "
    "from files. Pass rows[:] for all of them as an array, or leave it out."
)


def check_storable(search: Any, X: Any) -> None:
    """Raise a ValueError for a search with `checkpoint` whose work is not stored."""
    if search.return_predictions:
        raise ValueError(NO_PREDICTIONS)
    if isinstance(X, StoredRows):
        raise ValueError(NO_FILES)


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
        self,
        split: int,
        params: Sequence[Mapping[str, Any]],
        results: Results,
        *,
        late: bool = False,
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
            stored = [{n: x for n, x in r.items() if n not in NOT_STORED} for r in results]
            self._checkpoint.put(f"{kind} {token_of(what)}", stored)


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
    """A token of rows that are elsewhere; all others tell by themselves what they are."""
    return x.content_token() if hasattr(x, "content_token") else x


def _scoring(scorer):
    """A scorer without the estimator inside, which has its own token."""
    if isinstance(scorer, _PassthroughScorer):
        return ["the estimator's", repr(getattr(scorer, "_metadata_request", None))]
    return scorer


class ResumingEvaluator(Evaluator):
    """An `Evaluator` that does only the work that its checkpoints lack, and stores that.

    What is stored are groups, families of single fits on a split, and searches inside. Models are
    not: those of a group are fitted again, together, if one of them is refitted.
    """

    def __init__(self, job: Job, checkpoints: Checkpoints):
        super().__init__(job)
        self._checkpoints, self._finished = checkpoints, Finished()
        self._found: list[tuple[int, Group]] = []
        self._storing = Lock()

    def _like(self, job):
        return ResumingEvaluator(job, self._checkpoints)

    def evaluate(self, candidates: Sequence[Mapping[str, Any]]) -> Results:
        self._finished = self._checkpoints.open(self.job, candidates)
        return super().evaluate(candidates)

    def fit_group(self, group, fits=None):
        found = self._finished.group(group)
        if found is None:
            made = super().fit_group(group, fits)
            if made:
                self._finished.put_group(group, [results for _, results in made])
            return made
        self._found.append((self.n_done, group))
        for position, varying in zip(group.positions, group.varying, strict=True):
            self._alone[self.n_done + position] = {**group.shared, **varying}
        return list(zip(group.positions, map(self._take, found), strict=True))

    def refit(self, candidate):
        for first, group in self._found:
            if candidate - first in group.positions:
                # As it was then, since steps of a solver depend on all candidates.
                positions = [first + position - self.n_done for position in group.positions]
                super().fit_group(Group(group.shared, group.varying, positions))
                self._found.remove((first, group))
                break
        return super().refit(candidate)

    def _fit_nested(self, inside, position, candidates):
        params = candidates[position]
        alone = Group({}, [params], [position])
        found = self._finished.group(alone)
        if found is not None:
            self._alone[self.n_done + position] = params
            return self._take(found[0])
        results = super()._fit_nested(inside, position, candidates)
        if results:
            self._finished.put_group(alone, [results])
        return results

    def _stored_fits(self, params):
        known: dict[tuple[int, int], dict[str, Any]] = {}
        family_of: dict[int, list[int]] = {}
        for family in families(self.job.estimator, params):
            family_of.update(dict.fromkeys(family, family))
            for split in range(len(self.job.splits)):
                found = self._finished.family(split, [params[c] for c in family]) or []
                known.update(zip([(c, split) for c in family], self._take(found), strict=False))
        come: dict[tuple[int, int], dict[str, Any]] = {}

        def store(candidate, split, result):
            family = family_of[candidate]
            with self._storing:  # fits may end in several threads
                is_new = (candidate, split) not in come
                come[candidate, split] = result
                if is_new and all((c, split) in come for c in family):
                    results = [come[c, split] for c in family]
                    self._finished.put_family(split, [params[c] for c in family], results)

        return known, store

    def _take(self, results):
        """Results of a checkpoint, counted as a step of the plan."""
        if results:
            url, steps = self._finished.url, self.steps
            n_before = steps.pop().n_fits if steps and _is_found(steps[-1], url) else 0
            steps.append(Step(n_before + len(results), 0, url, FOUND))
        return [{n: x for n, x in r.items() if n not in OF_CLUSTERS} for r in results]


def _is_found(step, url):
    return (step.place, step.why) == (url, FOUND)
