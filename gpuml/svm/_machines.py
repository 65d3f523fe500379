"""Code that LinearSVC and LinearSVR share: penalties in liblinear's form, and solvers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gpuml._arrays import Array, is_sparse, namespace
from gpuml._sklearn import _get_liblinear_solver_type, _validate_dual_parameter
from gpuml.data import Folds
from gpuml.linear_model._base import LinearEstimator
from gpuml.linear_model._by_split import BySplit, Found, TrainingRows, warn_late
from gpuml.linear_model._glm import LossEstimator
from gpuml.linear_model._losses import Strength, fit_loss
from gpuml.losses import Loss
from gpuml.solvers import few_rows
from gpuml.solvers._result import in_order, of_candidates
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.margins import Kinks, fit_paths


@dataclass(frozen=True)
class MachineStrength(Strength):
    """The penalties of one candidate, and the error up to which its loss is 0."""

    epsilon: float = 0.0


class LinearMachine(LossEstimator, BySplit):
    """A linear support vector machine with a squared loss or a piecewise linear loss.

    Models with a squared loss share passes over the rows; a subclass defines `_family` and
    `_fit_losses` for them. Models with a piecewise linear loss are solved split by split; a
    subclass defines `_kinks` for them.
    """

    def _kinks(
        self, rows: TrainingRows, weight: Array, candidate: Mapping[str, Any]
    ) -> list[Kinks]:
        """The losses of each coefficient vector of a candidate; `weight` is multiplied by C."""
        raise NotImplementedError

    @property
    def multifit_divided(self) -> bool:  # type: ignore[override]
        """Whether `multifit` needs only sums over rows; this holds for squared losses."""
        return self._is_smooth

    @property
    def _is_smooth(self):
        return self.loss.startswith("squared")

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        if is_sparse(X) and not self._is_smooth:
            return f"sparse X and loss={self.loss!r}"
        return LinearEstimator._needs_sklearn(self, X, y)

    @property
    def _instead(self) -> str:  # type: ignore[override]
        return f"loss='squared_{self.loss}'"

    def multifit_levels(self, n_columns: int, X: Any) -> str | None:
        """The reason why categories with `n_columns` levels cannot be kept apart; None if none."""
        if not self._is_smooth:
            return f"loss={self.loss!r} is fitted to the rows of each split"
        if getattr(self, "penalty", "l2") == "l1":
            return "penalty='l1' takes Hessians; leave penalty at the default"
        return super().multifit_levels(n_columns, X)

    def multifit_words(
        self, X: Any, y: Any, candidates: Sequence[Mapping[str, Any]], n_splits: int
    ) -> str:
        """A note for the plan if solver steps will be taken in the space of the rows."""
        return super().multifit_words(X, y, candidates, n_splits) if self._is_smooth else ""

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """Number of passes and flops; see `LossEstimator` and `BySplit`."""
        kind = LossEstimator if self._is_smooth else BySplit
        return kind.multifit_work(self, n_rows, n_features, n_targets, n_models)

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        penalty, ways = getattr(self, "penalty", "l2"), getattr(self, "multi_class", "ovr")
        dual = _validate_dual_parameter(self.dual, self.loss, penalty, ways, np.empty((1, 1)))
        _get_liblinear_solver_type(ways, penalty, self.loss, dual)  # raises the error
        kind = LossEstimator if self._is_smooth else BySplit
        self._strengths(candidates)  # raises the errors
        return kind.multifit(self, folds, candidates, advance, start)

    def _strengths(self, candidates: Sequence[Mapping[str, Any]]) -> list[MachineStrength]:  # type: ignore[override]
        return [self._strength(candidate) for candidate in candidates]

    def _strength(self, candidate):
        values = {name: candidate.get(name, getattr(self, name)) for name in self.multifit_params}
        fit_intercept, scaling = bool(values["fit_intercept"]), values["intercept_scaling"]
        epsilon = float(values.get("epsilon", 0.0))
        if fit_intercept and scaling <= 0:
            raise ValueError(
                f"Intercept scaling is {scaling!r} but needs to be greater than 0. To disable "
                "fitting an intercept, set fit_intercept=False."
            )
        if epsilon < 0:
            raise ValueError(f"epsilon must not be negative, got {epsilon!r}.")
        inverse = 1.0 / float(values["C"])
        l1, l2 = (inverse, 0.0) if getattr(self, "penalty", "l2") == "l1" else (0.0, inverse)
        share = 1.0 / float(scaling) if fit_intercept else 0.0
        return MachineStrength(l2, l1, fit_intercept, share, epsilon)

    def _solve(self, rows, candidates, start=None):
        xp: Any = namespace(rows.X)
        weight = xp.ones_like(rows.y) if rows.weight is None else rows.weight
        found: list[Any] = [None] * len(candidates)
        strengths = self._strengths(candidates)
        for share in {s.of_intercept for s in strengths}:
            # Models with strong penalties differ much from each other and from all others.
            some = [i for i, s in enumerate(strengths) if s.of_intercept == share]
            some.sort(key=lambda i: (strengths[i].epsilon, strengths[i].l2))
            losses = [self._kinks(rows, weight * candidates[i]["C"], candidates[i]) for i in some]
            constant = 1.0 / share if share else 0.0
            paths = fit_paths(rows.X, constant, list(zip(*losses, strict=True)))
            for i, vectors in zip(some, zip(*paths, strict=True), strict=True):
                found[i] = _model(vectors, share, rows.X.shape[1])
        late = sum(not one.attributes.pop("converged") for one in found)
        warn_late(late, len(found), "Scale the features (StandardScaler)")
        return found


def _model(vectors, share, n_features):
    """The result that `BySplit` expects, for a model with these vectors."""
    coef = np.stack([each.coef for each in vectors])
    level = coef[:, n_features] / share if share else np.zeros(len(coef))
    n_steps = [each.n_steps for each in vectors]
    attributes = {"n_iter_": max(n_steps), "converged": all(each.converged for each in vectors)}
    return Found(coef[:, :n_features], level, sum(n_steps), attributes)


# ---------------------------------------------------------------- models of several losses


def one_vs_rest(
    folds: Folds,
    family_of: Callable[..., Any],
    strengths: Sequence[Strength],
    options: Any,
    start: Array | None = None,
    advance: Callable[[int], None] | None = None,
) -> tuple[Loss | None, Solved]:
    """Like `fit_loss`, with a coefficient vector for each class, or one for the second of two."""
    classes = members(folds)
    starts = [None if start is None else start[:, :, v : v + 1, :] for v in range(len(classes))]
    if _cost_little(folds, len(classes) * len(strengths)):
        families = [family_of(folds, member=member) for member in classes]
        if all(family.factors is None for family in families):
            found = _together(folds, families, strengths, options, starts, advance)
            return None, _side_by_side(found)
    found = []
    for own, member in zip(starts, classes, strict=True):
        family = partial(family_of, member=member)
        found.append(fit_loss(folds, family, strengths, options, own, advance)[1])
    return None, _side_by_side(found)


def _cost_little(folds, n_machines):
    """Whether so many machines of each split take steps together that cost little but calls."""
    batch = folds.batch
    if batch.is_divided or batch.n_classes < 3:
        return False
    n_models = n_machines * folds.n_splits
    return few_rows.cost_little(batch.n_rows, folds.n_features + 1, 1, n_models, batch.work)


def _together(folds, families, strengths, options, starts, advance):
    """What is found for each family; to the solver, they are candidates with their own targets."""
    batch, n_candidates = folds.batch, len(strengths)
    xp, k = batch.work.xp, len(families)
    codes = xp.stack([batch.codes == family.member for family in families])  # (k, n)
    codes = xp.astype(xp.repeat(codes, n_candidates, axis=0), batch.codes.dtype)
    family = replace(families[0], member=None, rarest=min(each.rarest for each in families))
    start = None if starts[0] is None else xp.concat(starts, axis=0)
    all_of_them = replace(folds, batch=replace(batch, codes=codes))
    _, solved = fit_loss(
        all_of_them, lambda _: family, list(strengths) * k, options, start, advance
    )
    parts = [slice(v * n_candidates, (v + 1) * n_candidates) for v in range(k)]
    return [of_candidates(solved, part) for part in parts]


def members(folds: Folds) -> Sequence[int]:
    """The classes that have a machine."""
    n_classes = folds.batch.n_classes
    return range(n_classes) if n_classes > 2 else (1,)


def _side_by_side(found):
    if len(found) == 1:
        return found[0]
    first = found[0]
    n_iter, violation, stalled = (
        np.stack([getattr(each, name) for each in found])
        for name in ("n_iter", "violation", "stalled")
    )
    # For a model that did not converge, the vector that did not.
    worst = np.argmax(np.where(stalled, 0.0, violation), axis=0)[None]
    n_read = None
    if any(each.n_read is not None for each in found):
        n_read = sum(each.n_iter if each.n_read is None else each.n_read for each in found)
    return replace(
        first,
        W=namespace(first.W).concat([each.W for each in found], axis=2),
        violation=np.take_along_axis(violation, worst, axis=0)[0],
        stalled=np.take_along_axis(stalled, worst, axis=0)[0],
        n_iter=n_iter.max(axis=0),
        n_read=n_read,
    )


def by_epsilon(
    folds: Folds,
    family_of: Callable[..., Any],
    strengths: Sequence[MachineStrength],
    options: Any,
    start: Array | None = None,
    advance: Callable[[int], None] | None = None,
) -> tuple[Loss | None, Solved]:
    """Like `fit_loss`, for candidates whose losses differ in epsilon."""
    found, places = [], []
    for epsilon in dict.fromkeys(strength.epsilon for strength in strengths):
        some = [i for i, strength in enumerate(strengths) if strength.epsilon == epsilon]
        own = None if start is None else start[np.asarray(some), ...]
        family = partial(family_of, epsilon=epsilon)
        those = [strengths[i] for i in some]
        found.append(fit_loss(folds, family, those, options, own, advance)[1])
        places.append(np.asarray(some))
    return None, in_order(found, places)
