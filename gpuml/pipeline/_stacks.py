"""Models of all candidates of a pipeline on all splits, as a stack for searches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, namespace
from gpuml.extending import ClassStack, RegressionStack, Stack
from gpuml.metrics.residuals import ResidualMoments
from gpuml.pipeline._chains import ChainFrame


@dataclass(frozen=True)
class Branch:
    """The models that share one setting of the steps before them, and their candidates."""

    frame: ChainFrame | None
    stack: Any
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class PipelineStack(Stack):
    """The models of all branches, in the order of the candidates."""

    branches: Sequence[Branch]
    passes_before: int = 0

    @property
    def n_candidates(self) -> int:
        return sum(len(branch.candidates) for branch in self.branches)

    @property
    def n_passes(self) -> int:
        """Passes for moments, and passes of the models after the steps."""
        return self.passes_before + sum(branch.stack.n_passes for branch in self.branches)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of each step, with those of the model as ``"last"``."""
        branch = next(b for b in self.branches if candidate in b.candidates)
        last = branch.stack.pick(branch.candidates.index(candidate), split)
        if branch.frame is None:
            return {"steps": [], "last": last}
        places = branch.frame.places(split)
        # Only coefficients and singular values show how many features there are.
        for name in ("coef_", "singular_"):
            if name in last:
                last[name] = _taken(last[name], places)
        return {"steps": branch.frame.steps_of(split), "last": last}

    @property
    def responses(self) -> Any:
        """An empty response of the models, for its shape."""
        first, *others = [branch.stack.responses for branch in self.branches]
        if not others:
            return first
        order = np.argsort([c for branch in self.branches for c in branch.candidates])
        xp = namespace(first.coef)
        return first.joined(others, xp.asarray(order, device=device_of(first.coef)))

    def _gathered(self, ask, candidates: slice) -> Array:
        """The results of ``ask(stack, slice)`` for some candidates, in their order."""
        wanted = range(*candidates.indices(self.n_candidates))
        found, order = [], []
        for branch in self.branches:
            mine = [i for i, c in enumerate(branch.candidates) if c in wanted]
            if mine:  # consecutive, because a branch keeps the order of its candidates
                found.append(ask(branch.stack, slice(mine[0], mine[-1] + 1)))
                order += [branch.candidates[i] for i in mine]
        return _in_order(found, np.argsort(order))


@dataclass(frozen=True)
class RegressionPipelineStack(PipelineStack, RegressionStack):
    """A stack of pipelines that end in a regressor.

    `weighted_alike` says whether its sums of residuals have the weights of the batch.
    """

    weighted_alike: bool = True

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions (C, m) or (C, m, t) of some candidates of one split for rows X (m, p)."""
        return self._gathered(lambda stack, some: stack.predict(X, split, some), candidates)

    def residual_moments(self, part: str) -> tuple[ResidualMoments, Array] | None:
        """Sums of residuals (C, S) over "train" or "test" rows, and a mask of accurate ones.

        None if they need predictions.
        """
        if not self.weighted_alike:
            return None
        found = [branch.stack.residual_moments(part) for branch in self.branches]
        if any(each is None for each in found):
            return None
        order = np.argsort([c for branch in self.branches for c in branch.candidates])
        residual, squared, reliable = (
            _in_order(items, order)
            for items in zip(*((m.residual, m.squared, ok) for m, ok in found), strict=True)
        )
        return replace(found[0][0], residual=residual, squared=squared), reliable


class ClassPipelineStack(PipelineStack, ClassStack):
    """A stack of pipelines that end in a classifier."""

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values for rows X (m, p): (C, m) for two classes, (C, m, k) for more."""
        return self._gathered(lambda stack, some: stack.decision(X, split, some), candidates)

    def probability(self, decision: Array) -> Array | None:
        """Probabilities (C, m, k) from decision values; None if the models have none."""
        return self.branches[0].stack.probability(decision)


def _taken(values, places):
    """Entries of the last axis, by a slice or by numbers (negative ones count from the end)."""
    if isinstance(places, slice):
        return values[..., places]
    xp = namespace(values)
    return xp.take(values, xp.asarray(places % values.shape[-1], device=device_of(values)), axis=-1)


def _in_order(found, order):
    if len(found) == 1:
        return found[0]
    xp = namespace(*found)
    index = xp.asarray(order, device=device_of(found[0]))
    return xp.take(xp.concat(found, axis=0), index, axis=0)
