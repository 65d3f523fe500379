"""Training sets as few rows, and their pairs of directions, in CPU memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuml._arrays import namespace, to_host
from gpuml._arrays.ops import EPS, triangular_factor
from gpuml._arrays.threads import one_blas_thread
from gpuml.cross_decomposition._components import Method, Pairs, find_pairs
from gpuml.solvers.covariances import spectrum
from gpuml.solvers.described import Described, Training, rows_of_parts
from gpuml.solvers.factors import about_mean
from gpuml.solvers.moments import normal_equations


@dataclass(frozen=True)
class Centred:
    """Rows (m, p) and (m, t) about their means, which have the inner products of `n_rows` rows."""

    X: np.ndarray
    Y: np.ndarray
    x_mean: np.ndarray
    y_mean: np.ndarray
    n_rows: int

    def scales(self, scale: bool) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations (p,) and (t,), 1 for columns without any; or 1."""
        if not scale:
            return np.ones(self.X.shape[1]), np.ones(self.Y.shape[1])
        x_std, y_std = (
            np.linalg.norm(columns, axis=0) / (self.n_rows - 1) ** 0.5
            for columns in (self.X, self.Y)
        )
        return np.where(x_std == 0, 1.0, x_std), np.where(y_std == 0, 1.0, y_std)


@dataclass(frozen=True)
class Model:
    """Pairs of directions of scaled columns, with what was taken off and divided by."""

    pairs: Pairs
    part: Centred
    x_std: np.ndarray
    y_std: np.ndarray

    @property
    def coef(self) -> np.ndarray:
        """Coefficients (t, p) for the original rows."""
        turned = self.pairs.x_rotations @ self.pairs.y_loadings.T
        return (turned * self.y_std).T / self.x_std


@dataclass(frozen=True)
class Part:
    """A training set: from second moments, or from factors of the rows if those need more digits.

    Attributes
    ----------
    described : Described
    parts : Training
        With one part.
    known : dict
        What was found so far.
    """

    described: Described
    parts: Training
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return rows_of_parts(self.described.folds, self.parts)[0]

    def model(self, n_pairs: int, scale: bool, method: Method) -> Model:
        """At least `n_pairs` pairs of directions."""
        key = scale, method
        if key not in self.known or self.known[key].pairs.x_weights.shape[1] < n_pairs:
            self.known[key] = self._found(n_pairs, scale, method)
        return self.known[key]

    def _found(self, n_pairs, scale, method):
        noise = EPS / (self.described.precision or 1.0)
        if self.described.moments is not None and noise > EPS:
            part = self._of_moments()
            if part is not None and not (method.whitened and _is_flat(part, scale, noise)):
                model = _model(part, n_pairs, scale, method, noise)
                if model.pairs.reliable:
                    return model
        return _model(self._of_rows(), n_pairs, scale, method, 0.0)

    @property
    def centred(self) -> Centred:
        """Rows about their means."""
        part = self._of_moments() if self.described.moments is not None else None
        return self._of_rows() if part is None else part

    def _of_moments(self) -> Centred | None:
        """None if a target is constant up to rounding, so that the rows are needed."""
        if "moments" not in self.known:
            self.known["moments"] = _from_moments(self.described, self.parts, self.n_rows)
        return self.known["moments"]

    def _of_rows(self) -> Centred:
        if "rows" not in self.known:
            rows = about_mean(self.described.stacked(self.parts))
            values, mean, p = to_host(rows.rows)[:, :-1], to_host(rows.shift), rows.n_features
            if values.shape[0] > values.shape[1]:
                values = triangular_factor(values, np)
            self.known["rows"] = Centred(
                values[:, :p], values[:, p:], mean[:p], mean[p:], self.n_rows
            )
        return self.known["rows"]


def _from_moments(described: Described, parts: Training, n_rows: int) -> Centred | None:
    moments = described.combined(parts)
    normal, p = normal_equations(moments, True), moments.n_features
    xp = namespace(moments.gram)
    gram, noise = to_host(moments.gram[0, ...]), to_host(normal.noise[0, :])
    sums, weight = gram[:-1, -1], gram[-1, -1]
    square = gram[:-1, :-1] - sums[:, None] * sums / weight
    own = np.diagonal(square)
    mean = to_host(xp.concat([normal.x_mean, normal.y_mean], axis=1))[0]
    # Of a constant target rounding is left: of rows near the shift, and of the mean.
    level = (8 * EPS * mean[p:]) ** 2 * weight + EPS / described.precision * np.diagonal(gram)[p:-1]
    if (own[p:] <= level).any():
        return None
    kept = np.concatenate([own[:p] > noise, np.ones(len(own) - p, dtype=bool)])
    square = np.where(kept[:, None] & kept, square, 0.0)
    # Scale columns so that each keeps its digits.
    unit = np.sqrt(np.where(kept & (own > 0), own, 1.0))
    values, vectors = spectrum(square / unit[:, None] / unit)
    some = values > len(values) * EPS * values[-1]
    rows = np.sqrt(values[some])[:, None] * vectors[:, some].T * unit
    rows[:, ~kept] = 0.0  # scaling is not to make rounding of eigenvectors large
    return Centred(rows[:, :p], rows[:, p:], mean[:p], mean[p:], n_rows)


def _is_flat(part: Centred, scale: bool, noise: float) -> bool:
    """Whether X or Y hardly varies along some direction, which whitening would make large."""
    for columns, std in zip((part.X, part.Y), part.scales(scale), strict=True):
        values = np.linalg.svd(columns / std, compute_uv=False)[: columns.shape[1]]
        if values[-1] ** 2 <= noise * values[0] ** 2 or len(values) < columns.shape[1]:
            return True
    return False


def _model(part, n_pairs, scale, method, noise):
    x_std, y_std = part.scales(scale)
    with one_blas_thread():  # products with vectors take less than threads to wake up
        pairs = find_pairs(part.X / x_std, part.Y / y_std, n_pairs, part.n_rows, method, noise)
    return Model(pairs, part, x_std, y_std)


def check_number(params: Mapping[str, Any], n_rows: int, n_features: int, n_targets: int) -> None:
    """Raise scikit-learn's errors for too few rows, and for too many components."""
    if n_rows < 2:
        raise ValueError(
            f"Found array with {n_rows} sample(s) (shape=({n_rows}, {n_features})) while a minimum "
            "of 2 is required."
        )
    sizes = (n_rows, n_features, n_targets) if params["canonical"] else (n_rows, n_features)
    if params["n_components"] > min(sizes):
        raise ValueError(
            f"`n_components` upper bound is {min(sizes)}. Got {params['n_components']} instead. "
            "Reduce `n_components`."
        )
