"""Linear discriminants of all candidates on all splits, from class sums."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuml._arrays import Array, device_of, move, namespace, place_of
from gpuml._arrays.ops import constant, widened
from gpuml.data import Folds
from gpuml.discriminant_analysis._scatter import Scatter, covariance, ledoit_wolf
from gpuml.discriminant_analysis._solvers import (
    Within,
    by_eigenvectors,
    by_least_squares,
    by_svd,
    standardised,
)
from gpuml.linear_model._by_split import training_rows
from gpuml.linear_model._models import ClassModels, Models, at_home
from gpuml.losses import BINOMIAL, MULTINOMIAL
from gpuml.solvers.covariances import shrunk
from gpuml.solvers.described import Described, all_rows, training_parts


@dataclass(frozen=True)
class Analyses:
    """The results of candidates with equal parameters for the same rows.

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
        found = [self._solved(candidates, s) for s in splits]
        xp, width = namespace(found[0][0]), 0 if of_all_rows else self.folds.n_features
        found = [(widened(coef, width), intercept) for coef, intercept in found]
        coef, intercept = (xp.stack(a, axis=1) for a in zip(*found, strict=True))
        if coef.shape[2] == 2:  # the second class less the first
            coef, intercept = (a[:, :, 1:, ...] - a[:, :, :1, ...] for a in (coef, intercept))
        n_readings = sum(key[0] in ("rows of each class", "rows") for key in self.known)
        return ClassModels(
            folds=self.folds,
            coef=coef,
            intercept=intercept,
            fit_intercept=[True] * len(candidates),
            n_passes=self.described.n_passes + n_readings,
            refit=lambda models, i: self.models([candidates[i]], of_all_rows=True),
            attributes=lambda models, i, s: self.attributes(candidates[i], splits[s]),
            loss=BINOMIAL if self.folds.batch.n_classes == 2 else MULTINOMIAL,
            of_all_rows=of_all_rows,
        )

    def _solved(self, candidates: Sequence[int], split: int | None) -> tuple[Array, Array]:
        """Coefficients (C, k, p) and intercepts (C, k) of candidates on a split."""
        same: dict[Any, list[int]] = {}
        for c in candidates:
            same.setdefault(self._key(c), []).append(c)
        found = [self._solved_alike(some, split) for some in same.values()]
        xp = namespace(found[0][0])
        coef, intercept = (xp.concat(a) if len(a) > 1 else a[0] for a in zip(*found, strict=True))
        order = [c for some in same.values() for c in some]
        if order == list(candidates):
            return coef, intercept
        index = xp.asarray([order.index(c) for c in candidates], device=device_of(coef))
        return xp.take(coef, index, axis=0), xp.take(intercept, index, axis=0)

    def _key(self, candidate: int) -> Any:
        """Equal for candidates whose covariances within the classes have the same eigenvectors."""
        params = self.params[candidate]
        if params["solver"] == "svd":
            return "svd", candidate
        priors = None if params["priors"] is None else params["priors"].tobytes()
        return params["shrinkage"] == "auto", priors

    def _solved_alike(self, candidates, split):
        """As `_solved`, of candidates of one key."""
        scatter, first = self.scatter(split), candidates[0]
        xp = namespace(scatter.means)
        if self.params[first]["solver"] == "svd":
            model = self._by_svd(first, split)
            return model.coef[None, ...], model.intercept[None, ...]
        within = self._spectrum(first, split)
        shares = [self._share(c) for c in candidates]
        values = within.shrunk(constant(shares, like=within.values, xp=xp))
        return by_least_squares(scatter.means, within, values, self.priors(first, split))

    def _share(self, candidate: int) -> float:
        """What is added as shrinkage to the covariance within the classes, beside "auto"."""
        share = self.params[candidate]["shrinkage"]
        return 0.0 if share is None or share == "auto" else float(share)

    def _by_svd(self, candidate, split):
        scatter, tol = self.scatter(split), self.params[candidate]["tol"]
        return by_svd(scatter, self._spectrum(candidate, split), self.priors(candidate, split), tol)

    def _spectrum(self, candidate: int, split: int | None) -> Within:
        """That of the covariance within the classes, before shrinkage by a share.

        With "svd" of standardised features, whatever the candidate.
        """
        is_svd = self.params[candidate]["solver"] == "svd"
        key = "spectrum", split, "svd" if is_svd else self._key(candidate)
        if key not in self.known:
            covariance = (
                standardised(self.scatter(split)) if is_svd else self._unshrunk(candidate, split)
            )
            self.known[key] = Within.of(covariance)
        return self.known[key]

    def _directions(self, candidate: int, split: int | None) -> tuple[Array, Array]:
        """Scalings (p, r), and the shares (r,) of the spread of the classes that they explain."""
        params, scatter = self.params[candidate], self.scatter(split)
        if params["solver"] == "svd":
            model = self._by_svd(candidate, split)
            return model.scalings, model.ratio
        if params["shrinkage"] == "auto":
            total = self._of_rows("rows", split, lambda X, codes: ledoit_wolf(X))
        else:
            total = shrunk(scatter.total, params["shrinkage"])
        within, xp = self._spectrum(candidate, split), namespace(total)
        share = constant([self._share(candidate)], like=total, xp=xp)
        between = total - self.within(candidate, split)
        return by_eigenvectors(between, within, within.shrunk(share)[0, :])

    def attributes(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes beside `coef_` and `intercept_`."""
        params, scatter = self.params[candidate], self.scatter(split)
        priors, n_components = self.priors(candidate, split), params["n_components"]
        found = {"means_": scatter.means, "priors_": priors}
        if params["solver"] != "svd" or params["store_covariance"]:
            found["covariance_"] = self.within(candidate, split)
        if params["solver"] != "lsqr":
            found["scalings_"], ratio = self._directions(candidate, split)
            found["explained_variance_ratio_"] = ratio[:n_components]
        if params["solver"] == "svd":
            found["xbar_"] = priors @ scatter.means
        n_out = n_components
        if "scalings_" in found:  # fewer where features are constant or collinear
            n_out = min(n_out, found["scalings_"].shape[1])
        numbers = {"_max_components": n_components, "_n_features_out": n_out}
        return {**{k: at_home(v, self.folds.batch) for k, v in found.items()}, **numbers}

    def priors(self, candidate: int, split: int | None) -> Array:
        """Probabilities (k,) of the classes."""
        counts, given = self.scatter(split).counts, self.params[candidate]["priors"]
        if given is not None:
            return move(given, place_of(counts))
        return counts / namespace(counts).sum(counts)

    def within(self, candidate: int, split: int | None) -> Array:
        """The covariance (p, p) within the classes that a candidate takes."""
        return shrunk(self._unshrunk(candidate, split), self._share(candidate))

    def _unshrunk(self, candidate: int, split: int | None) -> Array:
        """The same before shrinkage by a share."""
        params, scatter = self.params[candidate], self.scatter(split)
        auto = params["shrinkage"] == "auto"
        if params["priors"] is None and not auto:
            return scatter.within
        n_classes, of = self.folds.batch.n_classes, ledoit_wolf if auto else covariance

        def each(X: Array, codes: Array) -> Array:
            xp = namespace(X)
            rows = (xp.nonzero(codes == c)[0] for c in range(n_classes))
            return xp.stack([of(xp.take(X, some, axis=0)) for some in rows])

        of_classes = self._of_rows("rows of each class", split, each, auto)
        priors = self.priors(candidate, split)
        return namespace(priors).sum(priors[:, None, None] * of_classes, axis=0)

    def scatter(self, split: int | None) -> Scatter:
        """Means and scatter of a training part, or of all rows."""
        if ("scatter", split) not in self.known:
            if split is None:
                every = Scatter.of(self.described, all_rows(self.folds))
                self.known["scatter", None] = every.part(0, self.folds.width(None))
            else:
                parts = (Scatter.of(self.described, each) for each in training_parts(self.folds))
                each = ((part, i) for part in parts for i in range(part.mean.shape[0]))
                for s, (part, i) in enumerate(each):
                    self.known["scatter", s] = part.part(i, self.folds.width(s))
        return self.known["scatter", split]

    def _of_rows(
        self, what: str, split: int | None, make: Callable[..., Array], *key: Any
    ) -> Array:
        """A result that needs another pass over the rows of a training set, besides its scatter."""
        if (what, split, *key) not in self.known:
            place = place_of(self.scatter(split).within)
            X, codes = training_rows(self.folds, split, self.folds.batch.codes)
            made = make(X[:, : self.folds.width(split)], codes)
            self.known[what, split, *key] = move(made, place)
        return self.known[what, split, *key]
