"""A search over one affine step by itself, such as PCA, with all candidates fitted together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from gpuml._arrays import move
from gpuml._inputs.validation import check_rows, check_weight
from gpuml._settings.config import current_settings
from gpuml._sklearn import validate_parameter_constraints
from gpuml.data import Batch, Folds, resident_rows
from gpuml.extending import AffineStep, MultifitEstimator, Stack
from gpuml.pipeline._chains import ChainFrame, Chains, Rows, Step
from gpuml.pipeline._moments import described_rows, not_described, step_obstacle
from gpuml.resampling.multifit import offers_affine


@dataclass(frozen=True)
class StepStack(Stack):
    """The fitted steps of all candidates on all training sets."""

    frames: Sequence[ChainFrame]
    n_passes: int

    @property
    def n_candidates(self) -> int:
        return len(self.frames)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one candidate; split None means the fit to all rows."""
        return self.frames[candidate].steps_of(split)[0]


class AffineAlone(MultifitEstimator):
    """An affine step with the multifit protocol.

    Parameters
    ----------
    step : AffineStep
        With the parameters that all candidates share.
    weighted : bool, default=False
        Whether it is fitted with the weights of the rows. A search fits steps without.
    """

    weight = None
    multifit_divided = True

    def __init__(self, step: AffineStep, weighted: bool = False):
        self.step = step
        self.weighted = weighted

    @property
    def multifit_params(self) -> Sequence[str]:  # type: ignore[override]
        """Names of the hyper-parameters that may differ within one call."""
        return self.step.affine_params

    def multifit_obstacle(self, X: Any) -> str | None:
        """The reason why the step cannot be fitted from second moments of this data, if any."""
        return not_described(X) or step_obstacle(self.step, X)

    def multifit_batch(self, X: Any, y: Any = None, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and bring them to their compute device."""
        step = clone(self.step)
        X = check_rows(step, X, reset=True, finite_X=False)
        vars(self).update({n: v for n, v in vars(step).items() if n.endswith("_in_")})
        return resident_rows(X, current_settings().device)

    def multifit_piece(self, X: Any, y: Any = None, sample_weight: Any = None) -> Batch:
        """As `multifit_batch`, for some of the rows, with their weights if there are any."""
        batch = self.multifit_batch(X, y)
        if sample_weight is None:
            return batch
        return replace(batch, weight=move(check_weight(sample_weight, batch.X), batch.work))

    def multifit_rows(self, folds: Folds) -> int:
        """The number of rows that `multifit` will read."""
        return len(folds.partitions) * folds.batch.n_rows

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """One pass for second moments, and a small decomposition per model."""
        return 1, 2.0 * n_rows * n_features**2 + 10.0 * n_models * n_features**3

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> StepStack:
        """Fit every candidate to the training rows of every split, in one pass over the rows."""
        described = described_rows(self.step, folds, advance)
        chains = Chains(
            Rows(described, described),
            [Step("step", self.step, self.weighted)],
            [(candidate,) for candidate in candidates],
            model_follows=False,
        )
        frames = chains.frames()
        for frame in frames:
            frame.of(
                slice(0, folds.n_splits)
            )  # here, where the caller handles errors of candidates
        return StepStack(frames, described.n_passes)

    def check(self, candidate: Mapping[str, Any]) -> None:
        """Raise scikit-learn's error for an invalid parameter of the step."""
        constraints = self.step._parameter_constraints
        known = {name: constraints[name] for name in candidate if name in constraints}
        validate_parameter_constraints(known, dict(candidate), type(self.step).__name__)

    def multifit_model(self, params: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        """A fitted step with the attributes from a stack."""
        model = clone(self.step).set_params(**params)
        seen = {n: v for n, v in vars(self).items() if n.endswith("_in_")}
        vars(model).update({**seen, **attributes})
        return model


def affine_alone(estimator: Any, fit_params: Mapping[str, Any]) -> AffineAlone | None:
    """The object that fits all candidates of an affine step together; None for other estimators."""
    watched = getattr(estimator, "_skl_callbacks", None)
    return None if fit_params or watched or not offers_affine(estimator) else AffineAlone(estimator)
