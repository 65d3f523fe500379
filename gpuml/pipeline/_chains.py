"""Steps before a linear model: all their settings, fitted to all training sets from moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpuml._arrays import HOST, move, namespace
from gpuml._arrays.ops import widened
from gpuml.data import Folds, Outside, UnfittableSplits, take
from gpuml.extending import AffineStep
from gpuml.resampling.keys import value_key
from gpuml.resampling.multifit import is_known
from gpuml.resampling.stand_ins import refuse
from gpuml.solvers.affine import Affine, FittedStep, Parts
from gpuml.solvers.described import (
    Described,
    Training,
    all_rows,
    rows_of_part,
    rows_of_parts,
    training_parts,
)
from gpuml.solvers.numbered_rows import NumberedBatch

# Types of parameters that can be compared between calls, and bytes of maps to keep.
PLAIN = (bool, int, float, str, type(None), tuple)
MOST_KEPT_BYTES = 2**24
Setting = tuple[Mapping[str, Any], ...]  # the parameters of each step


@dataclass(frozen=True)
class Step:
    """A step with the parameters that all settings share.

    Attributes
    ----------
    name : str
    transformer : AffineStep
    weighted : bool
        Whether it is fitted to weighted rows.
    """

    name: str
    transformer: AffineStep
    weighted: bool


@dataclass(frozen=True)
class Chain:
    """Fitted steps in one setting, for some parts: each step, and their product as one map."""

    steps: tuple[FittedStep, ...]
    maps: Affine

    @property
    def places(self) -> tuple[Any, ...] | None:
        """As in `FittedStep`, for the last step."""
        return self.steps[-1].places

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of output columns of each part, without levels kept apart."""
        n_parts, _, k = self.maps.matrix.shape
        widths: tuple[int, ...] | None = None
        for step in self.steps:
            widths = widths if step.widths is None and step.maps.diagonal else step.widths
        return (k,) * n_parts if widths is None else widths


@dataclass(frozen=True)
class Rows:
    """The sums over rows that are known, with and without sample weights."""

    weighted: Described
    unweighted: Described

    @property
    def n_passes(self) -> int:
        """How often the rows were read for moments."""
        return sum(each.n_passes for each in self._distinct)

    @property
    def n_extrema(self) -> int:
        """For how many partitions the rows were read for extrema."""
        known = [each.folds.known for each in self._distinct]
        return sum(isinstance(key, tuple) and key[0] == "extrema" for k in known for key in k)

    @property
    def _distinct(self) -> list[Described]:
        same = self.weighted is self.unweighted
        return [self.weighted] if same else [self.weighted, self.unweighted]

    def parts(self, training: Training) -> dict[bool, Parts]:
        """The input for fitting steps, by whether they use weights."""
        own = _parts(self.weighted, training)
        same = self.weighted is self.unweighted
        return {True: own, False: own if same else _parts(self.unweighted, training)}


def _parts(described, training):
    batch = described.folds.batch
    return Parts(
        batch=batch,
        moments=described.combined(training),
        n_rows=rows_of_parts(described.folds, training),
        weighted=batch.weight is not None,
        stacked=lambda s: described.stacked(training.part(s)),
        extrema=lambda: described.extrema(training),
        rows=lambda s: rows_of_part(described.folds, training, s),
        splits=training.splits,
        times=lambda s, B: _times(batch, rows_of_part(described.folds, training, s), B),
    )


def _times(batch, rows, B):
    """``X B`` of some rows, in CPU memory."""
    X = take(batch.X, rows, namespace(batch.X))
    if not isinstance(batch, NumberedBatch):
        return move(X, HOST) @ B
    return move(batch.about(X, np.zeros(batch.n_features)).matvec(move(B.T, batch.work)), HOST)


@dataclass
class Chains:
    """All settings of the steps, fitted on first use; equal beginnings of settings are fitted once.

    Attributes
    ----------
    rows : Rows
        Of the rows themselves, not of a frame.
    steps : sequence of Steps
    settings : sequence of L tuples
        Parameters of each step; all distinct.
    outside : Outside or None
        First of the steps that are fitted to training parts of other splits.
    model_follows : bool
        Whether a model needs at least one of their columns.
    """

    rows: Rows
    steps: Sequence[Step]
    settings: Sequence[Setting]
    outside: Outside | None = None
    model_follows: bool = True
    fitted: dict[Any, Any] = field(default_factory=dict)

    @property
    def folds(self) -> Folds:
        return self.rows.weighted.folds

    def known_to(self, folds: Folds) -> "Chains":
        """These chains, or those fitted earlier in the same settings, if they are small.

        In a session candidates come one after another, most of them with other models after these
        steps.
        """
        steps: list[Any] = [step.transformer for step in self.steps]
        plain = [step for step in steps if is_known(step) and isinstance(step, BaseEstimator)]
        params = [step.get_params() for step in plain]
        comparable = all(isinstance(v, PLAIN) for each in params for v in each.values())
        if not self._is_small or len(plain) < len(steps) or not comparable:
            return self
        names = [(type(step.transformer), step.name, step.weighted) for step in self.steps]
        settings = [tuple(map(setting_key, setting)) for setting in self.settings]
        key = repr((names, list(map(setting_key, params)), settings, self.outside))
        before, fitted = folds.known.get("chains", ("", {}))
        if before != key:
            fitted = {}
            folds.known["chains"] = key, fitted
        return replace(self, fitted=fitted)

    @property
    def _is_small(self):
        """Whether the fitted maps are small enough to keep."""
        n_parts = self.folds.n_splits * len(self.settings)
        return 8 * n_parts * self.folds.batch.n_features**2 <= MOST_KEPT_BYTES

    def frames(self) -> list["ChainFrame"]:
        """The coordinates after the steps, in each setting."""
        return [ChainFrame(self, leaf) for leaf in range(len(self.settings))]

    def of(self, training: Training) -> list[Chain]:
        """Every setting, fitted to the parts of one partition."""
        key = None if training.splits is None else training.splits.start
        if key not in self.fitted:
            found: dict[int, Chain] = {}
            leaves = list(range(len(self.settings)))
            try:
                parts = self.rows.parts(training)
                if self.outside is None or training.splits is None:
                    self._grow(0, leaves, parts, (), found)
                else:
                    self._grow_behind(self.outside, leaves, parts, found)
            except UnfittableSplits as error:
                # Steps number the parts of one partition only.
                reasons = {(key or 0) + part: why for part, why in error.reasons.items()}
                refuse(reasons, 1 if key is None else self.folds.n_splits)
            self.fitted[key] = [found[leaf] for leaf in range(len(self.settings))]
        return self.fitted[key]

    def _grow_behind(self, outside, leaves, parts, found):
        """Continue after steps that were fitted to outer training sets, in one setting."""
        owners = outside.owners[parts[True].splits]
        chains = [self._of_owner(owner, outside.n_steps) for owner in owners]
        before = tuple(_of_others(chains, level) for level in range(outside.n_steps))
        for step in before:
            parts = {flag: part.through(step.maps, step.widths) for flag, part in parts.items()}
        self._grow(outside.n_steps, leaves, parts, before, found)

    def _of_owner(self, owner, n_steps):
        """The first steps, fitted to the training rows of one split."""
        key = "outside", owner
        if key not in self.fitted:
            first = Chains(self.rows, self.steps[:n_steps], [self.settings[0][:n_steps]])
            every = training_parts(self.folds)
            firsts = np.cumsum([0, *map(len, every)])
            index = int(np.searchsorted(firsts, owner, side="right")) - 1
            self.fitted[key] = first.of(every[index].part(owner - int(firsts[index])))
        return self.fitted[key][0]

    def _grow(self, level, leaves, parts, before, found):
        """Fit the step of one level for settings that agree before it, then the later steps."""
        if level == len(self.steps):
            chain = Chain(before, _composed(before))
            none_left = [s for s, width in enumerate(chain.widths) if width == 0]
            if self.model_follows and none_left and chain.places is None:
                raise UnfittableSplits(dict.fromkeys(none_left, "no feature is left"))
            found.update(dict.fromkeys(leaves, chain))
            return
        step = self.steps[level]
        groups = _alike(leaves, [self.settings[leaf][level] for leaf in leaves])
        candidates = [self.settings[some[0]][level] for some in groups]
        fitted = step.transformer.multi_affine(parts[step.weighted], candidates)
        for some, one in zip(groups, fitted, strict=True):
            after: dict[bool, Parts] = {}
            if level + 1 < len(self.steps):
                after = {flag: part.through(one.maps, one.widths) for flag, part in parts.items()}
            self._grow(level + 1, some, after, (*before, one), found)


def _alike(leaves, params):
    """Groups of leaves with equal parameters."""
    groups: dict[Any, list[int]] = {}
    for leaf, mine in zip(leaves, params, strict=True):
        groups.setdefault(setting_key(mine), []).append(leaf)
    return list(groups.values())


def setting_key(params: Mapping[str, Any]) -> Any:
    """A key of parameters: 1 components and a share of 1.0 of the variance differ."""
    return tuple((name, value_key(value)) for name, value in params.items())


def _composed(steps):
    maps = steps[0].maps
    for step in steps[1:]:
        maps = maps.then(step.maps)
    return maps


def _of_others(chains, level):
    """One step for several chains with one part each, in the form of a step fitted to all parts."""
    steps = [chain.steps[level] for chain in chains]
    xp = namespace(steps[0].maps.matrix)
    turned = [xp.matrix_transpose(step.maps.matrix) for step in steps]
    height = max(matrix.shape[-1] for matrix in turned)
    maps = [
        replace(step.maps, matrix=xp.matrix_transpose(widened(matrix, height)))
        for step, matrix in zip(steps, turned, strict=True)
    ]
    own = [(step.maps.matrix.shape[-1],) if step.widths is None else step.widths for step in steps]
    widths = tuple(width for (width,) in own)
    joined = replace(_joined(maps), diagonal=all(each.diagonal for each in maps))
    same = min(widths) == joined.matrix.shape[-1]
    return FittedStep(joined, lambda s: steps[s].pick(0), None if same else widths)


@dataclass(frozen=True)
class ChainFrame:
    """The coordinates after the steps in one setting, in which a model sees the rows."""

    chains: Chains
    leaf: int

    @property
    def n_features(self) -> int:
        """The largest number of columns of any part."""
        return self._of_splits.matrix.shape[-1]

    def width(self, split: int | None) -> int:
        """How many columns a split has, or all rows, without levels kept apart."""
        chain, part = self._chain_of(split)
        return chain.widths[part]

    def of(self, splits: slice | None) -> Affine:
        """Maps fitted to the training rows of some splits; None for the map of all rows."""
        if splits is None:
            return self._of_all().maps
        maps = self._of_splits
        return Affine(maps.matrix[splits, ...], maps.offset[splits, ...])

    @property
    def kept(self) -> dict[Any, Any]:
        """A cache for what models find in the transformed rows, if the maps are small."""
        key = "kept", self.leaf
        return self.chains.fitted.setdefault(key, {}) if self.chains._is_small else {}

    def places(self, split: int | None) -> Any:
        """The coefficients for columns that the training rows of a split, or all rows, have."""
        chain, part = self._chain_of(split)
        return slice(chain.widths[part]) if chain.places is None else chain.places[part]

    def steps_of(self, split: int | None) -> list[dict[str, Any]]:
        """Fitted attributes of every step for one split, or for all rows."""
        chain, part = self._chain_of(split)
        return [step.pick(part) for step in chain.steps]

    def _chain_of(self, split):
        """The chain of a split, and the number of its part; split None means all rows."""
        if split is None:
            return self._of_all(), 0
        for chain in self._chains_of_splits:
            n_parts = chain.maps.matrix.shape[0]
            if split < n_parts:
                return chain, split
            split -= n_parts
        raise IndexError("There are fewer splits than that.")

    @cached_property
    def _chains_of_splits(self) -> list[Chain]:
        return [self.chains.of(part)[self.leaf] for part in training_parts(self.chains.folds)]

    @cached_property
    def _of_splits(self) -> Affine:
        return _joined([chain.maps for chain in self._chains_of_splits])

    def _of_all(self):
        # A refit needs one setting only: do not fit the others.
        alone = replace(self.chains, settings=[self.chains.settings[self.leaf]], fitted={})
        key = ("all", self.leaf)
        if key not in self.chains.fitted:
            self.chains.fitted[key] = alone.of(all_rows(self.chains.folds))
        return self.chains.fitted[key][0]


def _joined(parts: list[Affine]) -> Affine:
    """Maps of the parts of several partitions, concatenated and padded with zeros."""
    if len(parts) == 1:
        return parts[0]
    width = max(maps.matrix.shape[-1] for maps in parts)
    xp = namespace(parts[0].matrix)
    return Affine(
        xp.concat([widened(maps.matrix, width) for maps in parts]),
        xp.concat([widened(maps.offset, width) for maps in parts]),
    )
