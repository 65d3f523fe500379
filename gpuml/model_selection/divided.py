"""Fits, and evaluation of candidates, on rows that are divided."""

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from gpuml.data import AnySplit, NeedsAllRows, whole
from gpuml.divided import SEEN, DividedRows
from gpuml.extending import AffineStep
from gpuml.model_selection.candidates import NOT_FITTED, Made
from gpuml.model_selection.evaluate import Evaluator, Job, Known
from gpuml.model_selection.one_by_one import failed_fit
from gpuml.model_selection.route import fit_weight, kind_of
from gpuml.pipeline._alone import AffineAlone
from gpuml.resampling.multifit import offers_affine, offers_multifit
from gpuml.resampling.stand_ins import check_sizes


class DividedEvaluator(Evaluator):
    """As `Evaluator`, of a job whose X is `gpuml.divided.DividedRows`; it can only fit groups.

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
        # Nobody has the rows in one place to ask the estimator, and why it would refuse is known.
        task = self.job.task
        if task.error_score == "raise":
            raise ValueError(why)
        result = failed_fit(f"ValueError: {why}", self.job.splits[split].n_test, task)
        return [{**result, "made": Made(NOT_FITTED, 0)} for _ in group.varying]

    def with_splits(self, splits: Sequence[AnySplit]) -> Any:
        """An evaluator of the same rows in other splits."""
        raise NotImplementedError("Divided rows are split once.")


def fit_divided(estimator: Any, rows: DividedRows, *, weighted: bool = False) -> dict[str, Any]:
    """Fitted attributes of an estimator on all of the rows.

    Parameters
    ----------
    estimator : estimator
        With valid parameters: a linear model, or a step that moments are enough for. It stays as it
        is.
    rows : DividedRows
    weighted : bool, default=False
        Whether the weights among the rows are those of the fit.

    Raises
    ------
    NeedsAllRows
        If it cannot be fitted from sums over rows.
    ValueError
        For rows that the estimator refuses.
    """
    estimator = clone(estimator)
    if isinstance(estimator, AffineStep) and estimator.fits_batches:
        checks = AffineAlone(estimator)
        batch = rows.batch(checks, weighted=False)
        return {**_seen(checks), **estimator.fit_batch(batch)}
    found: Any = AffineAlone(estimator, weighted) if offers_affine(estimator) else estimator
    if found is estimator and not offers_multifit(estimator):
        raise NeedsAllRows(f"{type(estimator).__name__} is not fitted from sums over rows.")
    if not found.multifit_ready(rows):
        raise NeedsAllRows(f"{estimator} is not fitted from sums over rows with these parameters.")
    batch = rows.batch(found, weighted=weighted)
    return {**_seen(found), **found.multifit(whole(batch), [{}]).pick(0, 0)}


def _seen(found):
    return {n: v for n, v in vars(found).items() if n in SEEN}
