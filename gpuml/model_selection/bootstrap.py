"""Bootstrap distributions of scores."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import Bunch, check_random_state

from gpuml._arrays import HOST, to_host
from gpuml._arrays.small_arrays import small_arrays
from gpuml._arrays.threads import threads_of
from gpuml._sklearn import (
    HasMethods,
    Interval,
    _num_samples,
    _warn_or_raise_about_fit_failures,
    validate_params,
)
from gpuml.data import Batch, NeedsAllRows, Split
from gpuml.extending import RegressionStack
from gpuml.metrics.scorer import BatchScorer, batch_scorer, check_scoring
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.route import AtOnce, fit_weight, route
from gpuml.model_selection.validation import check_one_score, job_of
from gpuml.solvers.resampled import counts_of, resampled

# How many resamples are fitted together: their row counts, or their moments, take memory.
SIDE_BY_SIDE, MOMENT_BYTES = 16, 2**30


@validate_params(
    {
        "estimator": [HasMethods(["fit"])],
        "X": "no_validation",
        "y": "no_validation",
        "n_resamples": [Interval(Integral, 2, None, closed="left")],
        "scoring": [str, callable, None],
        "confidence_level": [Interval(Real, 0, 1, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "params": [dict, None],
    },
    prefer_skip_nested_validation=False,
)
def bootstrap_score(
    estimator,
    X,
    y=None,
    *,
    n_resamples=1000,
    scoring=None,
    confidence_level=0.95,
    n_jobs=None,
    random_state=None,
    params=None,
):
    r"""Bootstrap a score: fit to resamples of the rows, and score on the rows left out.

    In each resample, the number of copies of a row is a Poisson variable of mean 1 [1]_; for many
    rows, this is like drawing as many rows with replacement. It leaves out about 37 % of the rows,
    which score its model (the out-of-bag, or leave-one-out bootstrap [2]_). If the model is fitted
    from second moments, such as `Ridge` and `Lasso`, also behind scalers and PCA, and the score is
    computed from sums of residuals (`r2`, squared errors), one pass over the rows serves all
    resamples. Other models are fitted to several resamples at a time.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_samples, n_features)
        In any array library; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
    n_resamples : int, default=1000
    scoring : str, callable or None, default=None
        One metric; None is the estimator's `score`.
    confidence_level : float, default=0.95
        Level of the interval.
    n_jobs, params
        As for `cross_validate`.
    random_state : int, RandomState or None, default=None
        Resamples are the same for every array library.

    Returns
    -------
    result : Bunch
        With `scores` (n_resamples,) in CPU memory; `mean` and `standard_error`, their mean and
        standard deviation; and `confidence_interval`, a pair of their quantiles.

    Raises
    ------
    ValueError
        If a resample cannot be fitted, or `cross_validate` would raise it.

    Notes
    -----
    A resample contains 63 % of the rows, so scores are a little lower than those of models of all
    rows. The interval describes scores of models fitted to new data of this kind, not the score of
    one model.

    References
    ----------
    .. [1] N. Chamandy, O. Muralidharan, A. Najmi, S. Naidu, "Estimating uncertainty for massive
       data streams", Google (2012).
    .. [2] B. Efron, R. Tibshirani, "Improvements on cross-validation: the .632+ bootstrap method",
       J. Am. Stat. Assoc. 92 (1997).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import bootstrap_score
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = bootstrap_score(Ridge(alpha=0.01), X, y, random_state=0)
    >>> len(found.scores), 0.4 < found.mean < 0.5, 0.02 < found.standard_error < 0.06
    (1000, True, True)
    """
    job = job_of(
        estimator,
        X,
        y,
        check_scoring(estimator, scoring),
        "bootstrap_score",
        groups=None,
        cv=KFold(2),  # unused
        params=params,
        n_jobs=n_jobs,
        return_train_score=False,
        error_score="raise",
        verbose=0,
    )
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    with small_arrays():
        scores = _from_sums(job, n_resamples, seed)
        scores = _some_at_a_time(job, n_resamples, seed) if scores is None else scores
    tail = 50 * (1 - confidence_level)
    low, high = np.percentile(scores, [tail, 100 - tail])
    return Bunch(
        scores=scores,
        mean=float(scores.mean()),
        standard_error=float(scores.std(ddof=1)),
        confidence_interval=(float(low), float(high)),
    )


def _from_sums(job: Job, n_resamples: int, seed: int) -> np.ndarray | None:
    """Scores of models from moments; None if the models need more, or more digits."""
    scorer = batch_scorer(job.task.scorer, has_decisions=False)
    each = route(job.estimator, [{}], job.X, job.task)[0]
    if not isinstance(each, AtOnce) or not isinstance(scorer, BatchScorer):
        return None
    # A model for each target follows from moments.
    if not (scorer.uses_moments and each.fits.multifit_targets):
        return None
    batch = each.fits.multifit_batch(job.X, job.y, fit_weight(each.fits, job.task))
    weighted = "sample_weight" in job.task.score_params
    few_rows = batch.n_features > batch.n_rows
    if type(batch) is not Batch or few_rows or (batch.weight is not None) != weighted:
        return None
    q = batch.n_features + batch.y.shape[1] + 1
    step, found = max(1, MOMENT_BYTES // (16 * q * q)), []
    for first in range(0, n_resamples, step):
        folds = resampled(batch, slice(first, min(first + step, n_resamples)), seed)
        try:
            with threads_of(each.fits, folds):
                stack = each.fits.multifit(folds, each.group.varying)
        except NeedsAllRows:  # some resamples cannot be solved from moments
            return None
        sums = stack.residual_moments("test") if isinstance(stack, RegressionStack) else None
        if sums is None or not bool(to_host(sums[1]).all()):
            return None
        found.append(to_host(scorer.from_moments(sums[0]))[0])
    return np.concatenate(found)


def _some_at_a_time(job: Job, n_resamples: int, seed: int) -> np.ndarray:
    found: list[float] = []
    n_rows = _num_samples(job.X)
    for first in range(0, n_resamples, SIDE_BY_SIDE):
        numbers = slice(first, min(first + SIDE_BY_SIDE, n_resamples))
        counts = counts_of(slice(0, n_rows), numbers, seed, HOST)
        splits = [
            Split(np.repeat(np.arange(n_rows), own), np.flatnonzero(own == 0)) for own in counts
        ]
        results = Evaluator(replace(job, splits=splits)).evaluate([{}])
        _warn_or_raise_about_fit_failures(results, "raise")
        check_one_score(results)
        found += [result["test_scores"] for result in results]
    return np.asarray(found, dtype=float)
