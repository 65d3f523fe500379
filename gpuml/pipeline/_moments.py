"""Moments that steps are fitted from, and what is in the way of them."""

from collections.abc import Callable
from typing import Any

from gpuml._inputs.validation import check_rows_finite
from gpuml._settings.config import current_settings
from gpuml.data import Folds
from gpuml.extending import AffineStep
from gpuml.pipeline._from_rows import step_name
from gpuml.resampling.multifit import obstacle_words
from gpuml.solvers.described import Described, describe

# With more features, computing moments takes longer than it saves.
MOST_FEATURES = 4096


def not_described(X: Any) -> str | None:
    """The reason why second moments of X would take more memory than its rows, if any."""
    shape = getattr(X, "shape", None)
    if shape is None or len(shape) != 2:
        return f"X of type {type(X).__name__} is not a two-dimensional array"
    if shape[1] > MOST_FEATURES:
        return f"X has {shape[1]} features, and moments pay up to {MOST_FEATURES}"
    if shape[1] > shape[0]:
        return f"X has more features ({shape[1]}) than samples ({shape[0]})"
    return None


def step_obstacle(step: AffineStep, X: Any) -> str | None:
    """The reason why a step cannot be fitted from second moments of this data, if any."""
    why = step.affine_obstacle(X)
    asks_more = type(step).affine_ready is not AffineStep.affine_ready
    if why is None and asks_more and not step.affine_ready(X):
        why = "what affine_ready returns"
    if why is None:
        return None
    return obstacle_words(step_name(step), why, "cannot be computed from moments")


def described_rows(
    estimator: Any,
    folds: Folds,
    advance: Callable[[int], None] | None = None,
    n_settings: int = 1,
) -> Described:
    """Moments of the rows; raises an error that names `estimator` if they are not finite."""
    described = describe(
        folds,
        block_bytes=current_settings().block_bytes,
        advance=advance,
        by_features=True,
        n_settings=n_settings,
    )
    if not described.is_finite:
        check_rows_finite(folds.batch, estimator)
        raise ValueError(
            "Squares of the values of X or y overflow float64. Divide them by a power of ten first."
        )
    return described
