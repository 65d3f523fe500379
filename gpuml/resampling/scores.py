"""Scores of all models of a stack over parts of all splits, in CPU memory.

From sums of residuals where those will do and have their digits, else from what the models say of
the rows, which is read once for all scorers. What has no batched form, or is not defined for all
models of a split at once, is scored model by model.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace, to_host
from gpuml.data import Folds, NeedsAllRows
from gpuml.extending import ClassStack, RegressionStack, Stack
from gpuml.metrics.scorer import BatchScorer, batch_scorer
from gpuml.resampling.divided_scores import divided_scores
from gpuml.resampling.responses import Scorer, answers

# (candidate, split, part, scorer) -> score, or a dict of scores
ScoreModel = Callable[[int, int, str, Any], Any]
# Scores (C, S) by part and name of the scorer
Tables = dict[str, dict[str, np.ndarray]]


def stack_scores(
    stack: Stack,
    folds: Folds,
    scorers: Mapping[str, Any],
    parts: Sequence[str] = ("test",),
    *,
    weighted: bool,
    score_model: ScoreModel | None = None,
    without: Collection[int] = (),
) -> Tables:
    """Scores of all models, by part and name.

    Parameters
    ----------
    stack : Stack
    folds : Folds
    scorers : dict
        Scorers by name, with and without a batched form.
    parts : sequence of {"test", "train"}
    weighted : bool
        Whether scores have the weights of the fits.
    score_model : callable, optional
        Scores one model. Without it, what cannot be scored at once is an error.
    without : collection of int
        Splits whose scores are nan: nobody is going to look at them.

    Raises
    ------
    NeedsAllRows
        If rows are divided, for scores that need them in one place.
    """
    batched = {name: _batched(stack, scorer) for name, scorer in scorers.items()}
    keys = list(product(parts, scorers))
    sums = {key: _from_sums(stack, folds, key[0], batched[key[1]], weighted) for key in keys}
    known = _to_host({key: table for key, table in sums.items() if table is not None})
    if folds.batch.is_divided:
        return _divided(stack, folds, batched, parts, known, weighted)
    nothing = np.full((stack.n_candidates, folds.n_splits), np.nan)
    tables = {key: known.get(key, nothing).copy() for key in keys}
    splits = [split for split in range(folds.n_splits) if split not in without]
    found: dict[tuple, Any] = {}
    for part, split in product(parts, splits):
        asked = {
            name: scorer
            for name, scorer in batched.items()
            if scorer is not None and np.isnan(tables[part, name][:, split]).any()
        }
        if asked:
            scores = _from_responses(stack, folds, split, part, asked, weighted, score_model)
            found.update({(part, name, split): column for name, column in scores.items()})
    found = _to_host(found)
    for part, name in keys:
        table = tables[part, name]
        left = np.zeros(table.shape, dtype=bool)
        for split in splits:
            scores = found.get((part, name, split), np.nan)
            table[:, split] = np.where(np.isnan(table[:, split]), scores, table[:, split])
            # A regressor's predictions may be nan, and its score is then; scikit-learn has more to
            # say of a score that is not defined.
            if (part, name, split) not in found or not isinstance(batched[name], BatchScorer):
                left[:, split] = np.isnan(table[:, split])
        if left.any():
            tables[part, name] = _one_by_one(score_model, part, scorers[name], table, left)
    return {part: {name: tables[part, name] for name in scorers} for part in parts}


def _batched(stack, scorer) -> Scorer | None:
    """The batched form of a scorer, if it has one for models of this kind."""
    found = batch_scorer(scorer)
    kind = RegressionStack if isinstance(found, BatchScorer) else ClassStack
    return found if isinstance(stack, kind) else None


def _from_sums(stack, folds, part, scorer, weighted):
    """Scores (C, S) from sums of residuals, nan where those cannot be trusted; None for others."""
    if not isinstance(scorer, BatchScorer) or not scorer.uses_moments:
        return None
    found = stack.residual_moments(part) if weighted or folds.batch.weight is None else None
    if found is None:
        return None
    moments, reliable = found
    scores = scorer.from_moments(moments)
    xp = namespace(scores)
    return xp.where(reliable, scores, xp.full_like(scores, np.nan))


def _from_responses(stack, folds, split, part, scorers, weighted, score_model):
    """Scores (C,) by name; without those that are not defined, which are asked of single models."""
    found: dict[str, list[Array]] = {name: [] for name in scorers}
    for answer in answers(stack, folds, split, part, weighted=weighted):
        for name in list(found):
            try:
                answer.check_classes(scorers[name])
                found[name].append(answer.scores(scorers[name]))
            except (ValueError, ZeroDivisionError):
                if score_model is None:
                    raise
                del found[name]
    return {name: namespace(*columns).concat(columns) for name, columns in found.items()}


def _one_by_one(score_model, part, scorer, table, left):
    """The table with scores of single models where they are left."""
    if score_model is None:
        raise TypeError(f"{scorer!r} has no batched form.")
    found = {
        (int(c), int(s)): score_model(int(c), int(s), part, scorer)
        for s, c in zip(*np.nonzero(left.T), strict=True)
    }
    # A user's callable may give a dict of scores for each model.
    if any(isinstance(score, dict) for score in found.values()):
        table = table.astype(object)
    for place, score in found.items():
        table[place] = score
    return table


def _divided(stack, folds, batched, parts, known, weighted):
    """Scores by part and name, of rows that are divided."""
    alone = [name for name, scorer in batched.items() if scorer is None]
    if alone:
        raise NeedsAllRows(f"Scorers that want the rows in one place: {', '.join(alone)}.")
    tables: Tables = {}
    for part in parts:
        sums = {name: known[part, name] for name in batched if (part, name) in known}
        left = {n: b for n, b in batched.items() if n not in sums or np.isnan(sums[n]).any()}
        found = divided_scores(stack, folds, part, left, weighted=weighted)
        tables[part] = {name: {**sums, **found}[name] for name in batched}
    return tables


def _to_host(arrays: dict) -> dict:
    """Bring arrays of one shape down in one copy."""
    if not arrays:
        return {}
    xp = namespace(*arrays.values())
    host = np.array(to_host(xp.stack(list(arrays.values()))))
    return dict(zip(arrays, host, strict=True))
