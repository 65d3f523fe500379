"""Linear discriminants of all candidates on all splits, from what is known of the rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuml._arrays import Array, move, namespace, place_of
from gpuml.data import Folds
from gpuml.discriminant_analysis._scatter import Scatter, covariance, ledoit_wolf
from gpuml.discriminant_analysis._solvers import (
    Discriminants,
    by_eigenvectors,
    by_least_squares,
    by_svd,
)
from gpuml.linear_model._by_split import training_rows
from gpuml.linear_model._models import ClassModels, Models, at_home
from gpuml.losses import BINOMIAL, MULTINOMIAL
from gpuml.solvers.covariances import shrunk
from gpuml.solvers.described import Described, all_rows, training_parts


@dataclass(frozen=True)
class Analyses:
    """What candidates with some parameters make of the same rows.

    Attributes
    ----------
    folds : Folds
    described : Described
    params : list of C dicts
        Checked.
    known : dict
        Scatter and covariances by split; None stands for all rows.
    """

    folds: Folds
    described: Described
    params: list[dict[str, Any]]
    known: dict[Any, Any] = field(default_factory=dict)

    def models(self, candidates: Sequence[int], *, of_all_rows: bool = False) -> Models:
        """Models of some candidates on all splits, or of one on all rows."""
        splits = [None] if of_all_rows else list(range(self.folds.n_splits))
        found = [[self.discriminants(c, s) for s in splits] for c in candidates]
        xp = namespace(found[0][0].coef)
        coef, intercept = (
            xp.stack([xp.stack([_of_two(getattr(one, name)) for one in row]) for row in found])
            for name in ("coef", "intercept")
        )
        n_readings = sum(key[0] in ("rows of each class", "rows") for key in self.known)
        return ClassModels(
            folds=self.folds,
            coef=coef,
            intercept=intercept,
            fit_intercept=[True] * len(found),
            n_passes=self.described.n_passes + n_readings,
            refit=lambda models, i: self.models([candidates[i]], of_all_rows=True),
            attributes=lambda models, i, s: self.attributes(candidates[i], splits[s]),
            loss=BINOMIAL if self.folds.batch.n_classes == 2 else MULTINOMIAL,
            of_all_rows=of_all_rows,
        )

    def discriminants(self, candidate: int, split: int | None) -> Discriminants:
        """One model."""
        params, scatter = self.params[candidate], self.scatter(split)
        priors = self.priors(candidate, split)
        if params["solver"] == "svd":
            return by_svd(scatter, priors, params["tol"])
        within = self.within(candidate, split)
        if params["solver"] == "lsqr":
            return by_least_squares(scatter, within, priors)
        if params["shrinkage"] == "auto":
            total = self._of_rows("rows", split, lambda X, codes: ledoit_wolf(X))
        else:
            total = shrunk(scatter.total, params["shrinkage"])
        return by_eigenvectors(scatter, within, total, priors)

    def attributes(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes beside `coef_` and `intercept_`."""
        params, scatter = self.params[candidate], self.scatter(split)
        priors, n_components = self.priors(candidate, split), params["n_components"]
        found = {"means_": scatter.means, "priors_": priors}
        if params["solver"] != "svd" or params["store_covariance"]:
            found["covariance_"] = self.within(candidate, split)
        if params["solver"] != "lsqr":
            model = self.discriminants(candidate, split)
            found["scalings_"] = model.scalings
            found["explained_variance_ratio_"] = model.ratio[:n_components]  # type: ignore[index]
        if params["solver"] == "svd":
            found["xbar_"] = priors @ scatter.means
        numbers = {"_max_components": n_components, "_n_features_out": n_components}
        return {**{k: at_home(v, self.folds.batch) for k, v in found.items()}, **numbers}

    def priors(self, candidate: int, split: int | None) -> Array:
        """Probabilities (k,) of the classes."""
        counts, given = self.scatter(split).counts, self.params[candidate]["priors"]
        if given is not None:
            return move(given, place_of(counts))
        return counts / namespace(counts).sum(counts)

    def within(self, candidate: int, split: int | None) -> Array:
        """The covariance (p, p) within the classes that a candidate takes."""
        params, scatter = self.params[candidate], self.scatter(split)
        auto = params["shrinkage"] == "auto"
        if params["priors"] is None and not auto:
            return shrunk(scatter.within, params["shrinkage"])
        n_classes, of = self.folds.batch.n_classes, ledoit_wolf if auto else covariance

        def each(X: Array, codes: Array) -> Array:
            xp = namespace(X)
            rows = (xp.nonzero(codes == c)[0] for c in range(n_classes))
            return xp.stack([of(xp.take(X, some, axis=0)) for some in rows])

        of_classes = self._of_rows("rows of each class", split, each, auto)
        priors = self.priors(candidate, split)
        mixed = namespace(priors).sum(priors[:, None, None] * of_classes, axis=0)
        return mixed if auto else shrunk(mixed, params["shrinkage"])

    def scatter(self, split: int | None) -> Scatter:
        """Means and scatter of a training part, or of all rows."""
        if ("scatter", split) not in self.known:
            if split is None:
                every = Scatter.of(self.described, all_rows(self.folds))
                self.known["scatter", None] = every.part(0)
            else:
                parts = (Scatter.of(self.described, each) for each in training_parts(self.folds))
                each = (part.part(i) for part in parts for i in range(part.mean.shape[0]))
                self.known.update({("scatter", s): found for s, found in enumerate(each)})
        return self.known["scatter", split]

    def _of_rows(
        self, what: str, split: int | None, make: Callable[..., Array], *key: Any
    ) -> Array:
        """What the rows of a training part are read for once more, beside its scatter."""
        if (what, split, *key) not in self.known:
            place = place_of(self.scatter(split).within)
            rows = training_rows(self.folds, split, self.folds.batch.codes)
            self.known[what, split, *key] = move(make(*rows), place)
        return self.known[what, split, *key]


def _of_two(values: Array) -> Array:
    """Of two classes the second less the first; others as they are."""
    return values[1:, ...] - values[:1, ...] if values.shape[0] == 2 else values
