"""Evaluation of candidates on rows that are divided over holders, or in files."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Number
from typing import Any, NoReturn

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from gpuml._sklearn import _check_feature_names, _MultimetricScorer
from gpuml.data import AnySplit, NeedsAllRows
from gpuml.divided.rows import WHERE_LEVELS_ARE
from gpuml.divided.stored import FAULTS, ReadRows, StoredRows, in_memory
from gpuml.metrics.scorer import batch_scorer
from gpuml.model_selection.candidates import NOT_FITTED, Made, steps_of
from gpuml.model_selection.evaluate import REFUSALS, Evaluator, Job, Known
from gpuml.model_selection.one_by_one import failed_fit
from gpuml.model_selection.route import at_once, fit_weight, kind_of, together
from gpuml.pipeline._affine import AffinePipeline
from gpuml.protocol import Group
from gpuml.resampling.stand_ins import check_sizes


class DividedEvaluator(Evaluator):
    """An `Evaluator` for a job whose X is `gpuml.divided.DividedRows`; it only fits groups.

    A group that needs the rows in one place is refused as others are that can't share a pass:
    `fit_group` gives no results.

    Parameters
    ----------
    job : Job
    faults : tuple of exception types, default=()
        Errors of what has the rows, which are no candidate's.
    """

    def __init__(self, job: Job, faults: tuple[type[Exception], ...] = ()):
        super().__init__(job)
        self._faults = faults

    def folds_for(self, estimator, refused):
        job, kind = self.job, kind_of(estimator)
        splits, key = refused.splits(), (kind, refused.key)
        check_sizes(splits)
        if key not in self._folds:
            weighted = fit_weight(estimator, job.task) is not None
            folds = job.X.folds(estimator, splits, weighted=weighted)
            seen = {n: v for n, v in vars(estimator).items() if n.endswith("_in_")}
            self._known[kind], self._folds[key] = Known(folds.batch, seen), folds
        vars(estimator).update(self._known[kind].seen)
        return self._folds[key]

    def _may_refuse(self, error):
        return not isinstance(error, self._faults) and super()._may_refuse(error)

    def _refuse(self, refused, error):
        if error.together:
            raise NeedsAllRows(f"{error} Models are fitted one by one there.") from error
        super()._refuse(refused, error)

    def _fit_refused(self, split, why, group):
        # No place has all rows for the estimator to check, and the reason for refusing is known.
        task = self.job.task
        if task.error_score == "raise":
            raise ValueError(why)
        result = failed_fit(f"ValueError: {why}", self.job.splits[split].n_test, task)
        return [{**result, "made": Made(NOT_FITTED, 0)} for _ in group.varying]

    def with_splits(self, splits: Sequence[AnySplit]) -> Any:
        """An evaluator of the same rows with other splits."""
        raise NotImplementedError("Divided rows are split once.")


class StoredEvaluator(DividedEvaluator):
    """As `Evaluator`, of a job whose X is `gpuml.divided.stored.StoredRows`.

    Raises
    ------
    NeedsAllRows
        A ValueError, for candidates that are not fitted and scored from sums over rows: it says
        why, and how to have the rows in memory.
    """

    def __init__(self, job: Job, rows: ReadRows | None = None):
        self._stored = job.X
        why = why_not_divided(job)
        if why is not None:
            self._refuse_all(why)
        check_columns(job)
        rows = job.X.divided(job.y, weight_of(job)) if rows is None else rows
        self._n_passes = rows.n_passes
        super().__init__(replace(job, X=rows, y=None), FAULTS)

    def with_splits(self, splits):
        """An evaluator of the same rows with other splits."""
        return type(self)(replace(self.job, X=self._stored, splits=splits), self.job.X)

    def routes_of(self, candidates):
        """The route of each candidate, once the levels of the rows are known."""
        fits: Any = at_once(self.job.estimator, self.job.task)
        if getattr(fits, "table", None) is not None:
            # Here, where errors of files are no candidate's.
            why = fits.multifit_obstacle(self._stored)
            try:
                if why is None:
                    self.job.X.frame_for(fits.table)
            except NeedsAllRows as error:
                why = str(error)
            if why is not None:
                self._refuse_all(why)
        return super().routes_of(candidates)

    def fit_group(self, group, fits=None):
        """As of an `Evaluator`; passes of its step are those in which the rows were read."""
        position = len(self.steps)
        found = super().fit_group(group, fits)
        if found:
            self._count_passes(position, 0)
        return found

    def refit(self, candidate):
        """As of an `Evaluator`; its passes are counted with those of the last step."""
        model = super().refit(candidate)
        if self.steps:
            self._count_passes(-1, self.steps[-1].n_passes)
        return model

    def _count_passes(self, position, n_before):
        """Set the passes of a step to some, and those since the step before."""
        n_read, self._n_passes = self.job.X.n_passes - self._n_passes, self.job.X.n_passes
        self.steps[position] = replace(self.steps[position], n_passes=n_before + n_read)

    def _may_refuse(self, error):
        # Single fits could find out nothing more about other errors.
        return isinstance(error, REFUSALS) and super()._may_refuse(error)

    def _fit_one_by_one(self, positions, candidates):
        """Results of candidates that were refused, together with the reason."""
        found = []
        for position in positions:
            reason = self.refused[position].reason
            (group,) = self.groups([candidates[position]]) or (None,)
            prefix = f"{NeedsAllRows.__name__}: "
            if group is None or reason.startswith(prefix):
                self._refuse_all(reason.removeprefix(prefix))
            alone = Group(group.shared, group.varying, [position])
            ((_, results),) = self.fit_group(alone) or ((position, None),)
            found.append(self._failed(self.refused[position]) if results is None else results)
        return found

    def _failed(self, refusal):
        job, task = self.job, self.job.task
        if not refusal.raised:
            self._refuse_all(refusal.reason)
        if task.error_score == "raise":
            raise ValueError(refusal.reason)
        failures = [
            {**failed_fit(refusal.reason, split.n_test, task), "made": Made(NOT_FITTED, 0)}
            for split in job.splits
        ]
        place = str(job.X.shares.place)
        self.steps += steps_of(failures, place, "", error_score=task.error_score)
        return failures

    def _refuse_all(self, why: str) -> NoReturn:
        raise NeedsAllRows(
            f"Rows in files are fitted and scored from sums over them, but {why.rstrip('.')}. "
            f"{in_memory(self._stored)}"
        )


def evaluator_of(job: Job) -> Evaluator:
    """The evaluator for a job on one device."""
    return StoredEvaluator(job) if isinstance(job.X, StoredRows) else Evaluator(job)


def stored(X: Any, y: Any, params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """X, y and parameters of `fit`, some of which may be columns of rows in files."""
    if not isinstance(X, StoredRows):
        return X, y, params
    columns = {n: v for n, v in params.items() if n.endswith(("sample_weight", "groups"))}
    X, y, values = X.resolved(y, columns)
    return X, y, {**params, **values}


def reads_table(job: Job) -> bool:
    """Whether rows are read as a table, whose levels are of all rows."""
    return getattr(at_once(job.estimator, job.task), "table", None) is not None


def reads_stored_table(job: Job) -> bool:
    """Whether rows in files are read as a table, which takes a reading to find levels."""
    return isinstance(job.X, StoredRows) and reads_table(job)


def check_columns(job: Job) -> None:
    """Raise a ValueError for rows in files with text columns that no step reads.

    Other rows are checked when they are fitted.
    """
    if isinstance(job.X, StoredRows) and not reads_table(job):
        job.X.check_numbers()


def weight_of(job: Job) -> Any:
    """The sample weights of a job's fits."""
    found = at_once(job.estimator, job.task)
    return None if found is None else fit_weight(found, job.task)


def why_not_divided(job: Job, header: Any = None) -> str | None:
    """The reason why groups cannot be fitted and scored from sums over rows; None if they can.

    Parameters
    ----------
    job : Job
    header : DataFrame or array, optional
        X without rows, where those who have the rows find the levels of tables.
    """
    found, why = together(job.estimator, job.task)
    if found is None:
        return why
    if isinstance(found, AffinePipeline):
        words = found.divided_words()
        if words is not None:
            return words
    table = getattr(found, "table", None)
    if table is None and not found.multifit_divided:
        return f"{model_name(job.estimator)} does not set multifit_divided"
    if table is not None and not isinstance(job.X, StoredRows):
        why_not = WHERE_LEVELS_ARE if header is None else _not_of_sums(table, header)
        if why_not is not None:
            return why_not
    if not isinstance(job.X, StoredRows):
        why_not = _not_to_be_summed(job, header)
        if why_not is not None:
            return why_not
    if job.task.return_estimator:
        return "return_estimator=True needs fitted estimators"
    scorer = job.task.scorer
    scorers = scorer._scorers.values() if isinstance(scorer, _MultimetricScorer) else [scorer]
    unknown = [each for each in scorers if batch_scorer(each) is None]
    return f"the score {unknown[0]} needs all predictions in one place" if unknown else None


def _not_to_be_summed(job, header):
    """Why X or its weights are for fits to all rows, which take them or say what is wrong."""
    if hasattr(job.X, "nnz"):
        return "X is sparse"
    if len(getattr(job.X, "shape", (0, 0))) != 2:
        return "X is not two-dimensional"
    if isinstance(weight_of(job), Number):
        return "sample_weight is one number: pass one for each row"
    try:
        _check_feature_names(BaseEstimator(), header, reset=True)
    except Exception as error:  # duplicates, and names of different types
        return str(error)
    return None


def _not_of_sums(table, header):
    try:
        return table.table_divided(header)
    except REFUSALS as error:  # columns that X does not have, no transformers: fits raise it
        return str(error)


def model_name(estimator: Any) -> str:
    """The class name of an estimator, or of the last step of a pipeline."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return type(last).__name__
