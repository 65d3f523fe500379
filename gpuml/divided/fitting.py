"""Fits of one model to rows that are divided."""

import warnings
from typing import Any

from sklearn.base import clone

from gpuml.data import NeedsAllRows, whole
from gpuml.divided.batch import SEEN
from gpuml.divided.rows import DividedRows
from gpuml.exceptions import GatheredWarning, level_of_user
from gpuml.extending import AffineStep
from gpuml.pipeline._alone import AffineAlone
from gpuml.resampling.multifit import offers_affine, offers_multifit


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


def tell_gathered(name: str, n_rows: int, why: NeedsAllRows) -> None:
    """Warn that an estimator of a name is going to be fitted where all rows come together."""
    warnings.warn(
        f"All {n_rows} rows go to one worker to fit {name}: {why} If it has no room for them, "
        "leave parameters at their defaults, fill missing values first, or fit to fewer rows.",
        GatheredWarning,
        stacklevel=level_of_user(),
    )


def _seen(found):
    return {n: v for n, v in vars(found).items() if n in SEEN}
