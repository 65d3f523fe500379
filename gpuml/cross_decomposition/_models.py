"""All candidates on all splits: the pairs of directions of the largest serve all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, place_of
from gpuml._arrays.ops import constant
from gpuml.cross_decomposition._components import Method
from gpuml.cross_decomposition._parts import Model, Part, check_number
from gpuml.linear_model._by_split import training_rows
from gpuml.linear_model._models import Models, RegressionModels, at_home
from gpuml.solvers.described import Described, Training, all_rows, training_parts


def fitted_models(
    described: Described, params: Sequence[Mapping[str, Any]], *, keeps_scores: bool = False
) -> Models:
    """Models of candidates on the training parts.

    Parameters are `n_components`, `scale`, and the fields of `Method`. `keeps_scores` says whether
    models have the scores of the rows that they were fitted to.
    """
    return _models(described, params, training_parts(described.folds), keeps_scores)


def _models(
    described: Described,
    params: Sequence[Mapping[str, Any]],
    parts: Sequence[Training],
    keeps_scores: bool,
    of_all_rows: bool = False,
) -> Models:
    folds, n_read = described.folds, len(described.factors)
    single = [Part(described, each.part(i)) for each in parts for i in range(len(each))]
    for part in single:
        for each in params:
            check_number(each, part.n_rows, described.n_features, folds.batch.y.shape[1])
    found = [[part_model(part, each, params) for part in single] for each in params]
    coef = np.stack([np.stack([model.coef for model in row]) for row in found])
    level = [
        [model.part.y_mean - coef[c, s] @ model.part.x_mean for s, model in enumerate(row)]
        for c, row in enumerate(found)
    ]

    def attributes(models, c, s):
        arrays = _arrays(found[c][s], coef[c, s])
        if keeps_scores and not folds.batch.is_divided:
            arrays |= training_scores(folds, found[c][s], None if of_all_rows else s)
        return {
            **{name: at_home(a, folds.batch) for name, a in arrays.items()},
            "n_iter_": found[c][s].pairs.n_iter,
            "_predict_1d": folds.batch.y_is_flat,
            "_n_features_out": params[c]["n_components"],
        }

    return RegressionModels(
        folds=folds,
        coef=move(coef, described.place),
        intercept=move(np.asarray(level), described.place),
        fit_intercept=[True] * len(params),
        n_passes=described.n_passes + len(described.factors) - n_read,
        refit=lambda models, c: _models(
            described, [params[c]], [all_rows(folds)], keeps_scores, True
        ),
        attributes=attributes,
        described=described,
        of_all_rows=of_all_rows,
    )


def part_model(part: Part, own: Mapping[str, Any], params: Sequence[Mapping[str, Any]]) -> Model:
    """The model of one candidate, from pairs of directions for all that differ in number only."""
    scale, method = _how(own)
    alike = [each["n_components"] for each in params if _how(each) == (scale, method)]
    model = part.model(max(alike), scale, method)
    return replace(model, pairs=model.pairs.first(own["n_components"]))


def _how(params: Mapping[str, Any]) -> tuple[bool, Method]:
    names = ("canonical", "whitened", "algorithm", "max_iter", "tol")
    return bool(params["scale"]), Method(*(params[name] for name in names))


def _arrays(model, coef):
    pairs, part = model.pairs, model.part
    return {
        "coef_": coef,
        "intercept_": part.y_mean,
        "x_weights_": pairs.x_weights,
        "y_weights_": pairs.y_weights,
        "x_loadings_": pairs.x_loadings,
        "y_loadings_": pairs.y_loadings,
        "x_rotations_": pairs.x_rotations,
        "y_rotations_": pairs.y_rotations,
        "_x_mean": part.x_mean,
        "_y_mean": part.y_mean,
        "_x_std": model.x_std,
        "_y_std": model.y_std,
    }


def training_scores(folds: Any, model: Model, split: int | None) -> dict[str, Array]:
    """Scores (n, k) of the rows that a regression was fitted to, which are read for that.

    Those of X are products with its rotations. Those of Y are of what the scores of X before them
    have not explained: ``Y c - T u``, with u above the diagonal of ``Q' C``.
    """
    X, Y = training_rows(folds, split, folds.batch.y)
    like, xp = place_of(X).xp.astype(Y, X.dtype), place_of(X).xp
    pairs, part = model.pairs, model.part

    def here(values):
        return constant(values, like=X, xp=xp)

    turn = pairs.x_rotations / model.x_std[:, None]
    x_scores = X @ here(turn) - here(part.x_mean @ turn)
    square = np.sum(pairs.y_weights**2, axis=0)
    weights = pairs.y_weights / np.where(square > 0, square, 1.0)
    turn = weights / model.y_std[:, None]
    explained = np.triu(pairs.y_loadings.T @ weights, 1)
    y_scores = like @ here(turn) - here(part.y_mean @ turn) - x_scores @ here(explained)
    return {"x_scores_": x_scores, "y_scores_": y_scores}
