"""Regressors whose models of a training part follow from its second moments, part by part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from gpuml._arrays import HOST, Array, is_array, is_foreign, is_sparse, move, namespace
from gpuml._arrays.ops import widened
from gpuml._arrays.threads import threads_for_order
from gpuml.linear_model._base import LinearPredictor, OnePass, describe_rows
from gpuml.linear_model._models import RegressionModels, at_home
from gpuml.solvers._result import moved
from gpuml.solvers.described import Described, Training, all_rows, training_parts
from gpuml.solvers.lasso import Standard, standardise


@dataclass(frozen=True)
class Found:
    """Coefficients (p,) or (t, p) of a model, and how to get its other fitted attributes."""

    coef: Array
    attributes: Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Sums(Standard):
    """Moments of one training part per unit of weight: H (p, p), g (t, p), y_square (t,), means."""

    H: Array

    def of_features(self, p: int) -> "Sums":
        """Those of the first features; others are 0 in this part, and do not count."""
        H, g, x_mean = self.H[:p, :p], self.g[:, :p], self.x_mean[:p]
        return replace(self, H=H, g=g, x_mean=x_mean)


class FromSums(LinearPredictor, OnePass):
    """A regressor that defines `_solve`, of the moments of a training part and of candidates."""

    # Attributes that are arrays, or lists of such, where `coef_` is.
    _at_home: ClassVar[tuple[str, ...]] = ()
    # Whether `coef_` of one target has one axis.
    _flat_coef: ClassVar[bool] = True
    # Whether moments are brought to CPU memory, however many features there are.
    _in_cpu_memory: ClassVar[bool] = True

    def _solve(
        self, sums: Any, candidates: Sequence[Mapping[str, Any]], start: Any = None
    ) -> list[Found]:
        """A model for each candidate, whose parameters are all there; `start` as of `multifit`."""
        raise NotImplementedError

    def _sums(self, described: Described, parts: Training, fit_intercept: bool) -> list[Any]:
        """What `_solve` is given of some training parts, which has `x_mean` and `y_mean`."""
        problem = standardise(described.combined(parts), fit_intercept)
        problem = moved(problem, HOST) if self._in_cpu_memory else problem
        names = [field.name for field in fields(Standard)]
        first = None if parts.splits is None else parts.splits.start
        return [
            Sums(**{name: getattr(problem, name)[s, ...] for name in names}).of_features(
                described.folds.width(None if first is None else first + s)
            )
            for s in range(problem.g.shape[0])
        ]

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        return obstacle_of_rows(X)

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        described = describe_rows(self, folds, advance, by_features=True)
        return self._models(described, self._params(candidates), training_parts(folds), start)

    def _params(self, candidates):
        """All parameters of candidates that may differ between them."""
        return [
            {name: each.get(name, getattr(self, name)) for name in self.multifit_params}
            for each in candidates
        ]

    def _models(self, described, params, parts, start=None, *, of_all_rows=False):
        folds = described.folds
        flags = [bool(each["fit_intercept"]) for each in params]
        sums: dict[bool, list] = {}
        found: dict[int, Sequence[Found]] = {}
        for flag in sorted(set(flags)):
            some = [i for i, own in enumerate(flags) if own == flag]
            with threads_for_order(described.n_features):
                sums[flag] = [one for part in parts for one in self._sums(described, part, flag)]
                solved = [self._solve(one, [params[i] for i in some], start) for one in sums[flag]]
            found |= dict(zip(some, zip(*solved, strict=True), strict=True))

        def attributes(models, candidate, split):
            values = found[candidate][split].attributes()
            home = {n: _home(values[n], folds.batch) for n in self._at_home if n in values}
            return values | home

        def refit(models, candidate):
            some = [params[candidate]]
            return self._models(described, some, [all_rows(folds)], of_all_rows=True)

        models = [
            [
                _with_intercept(one.coef, known, 0 if of_all_rows else folds.n_features)
                for one, known in zip(found[i], sums[flag], strict=True)
            ]
            for i, flag in enumerate(flags)
        ]
        xp = namespace(models[0][0][0])
        coef, intercept = (
            xp.stack([xp.stack([one[k] for one in row]) for row in models]) for k in (0, 1)
        )
        flat_coef = self._flat_coef and folds.batch.y.shape[1] == 1
        return as_models(
            described,
            coef,
            intercept,
            flags,
            refit=refit,
            attributes=attributes,
            flat_coef=flat_coef,
            of_all_rows=of_all_rows,
        )


def obstacle_of_rows(X: Any) -> str | None:
    """The reason why models of rows X do not follow from moments, if any."""
    if is_sparse(X):
        return "sparse X"
    if X is None or is_foreign(X):
        return None
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return "more features than rows" if len(shape) == 2 and shape[1] > shape[0] else None


def as_models(
    described: Described,
    coef: Array,
    intercept: Array,
    fit_intercept: Sequence[bool],
    **others: Any,
) -> RegressionModels:
    """Models (C, S, t, p) of described rows; `others` are attributes of `Models`."""
    work = described.folds.batch.work
    return RegressionModels(
        folds=described.folds,
        coef=move(coef, work),
        intercept=move(intercept, work),
        fit_intercept=fit_intercept,
        n_passes=described.n_passes,
        described=described if described.place == work else None,
        **others,
    )


def _with_intercept(coef, sums, n_features):
    """Coefficients (t, p) of at least so many features, and intercepts (t,)."""
    xp = namespace(coef)
    coef = coef if coef.ndim == 2 else coef[None, :]
    intercept = xp.reshape(sums.y_mean - coef @ sums.x_mean, (-1,))
    return widened(coef, n_features), intercept


def _home(value, batch):
    if isinstance(value, list):
        return [_home(one, batch) for one in value]
    return at_home(value, batch) if is_array(value) else value
