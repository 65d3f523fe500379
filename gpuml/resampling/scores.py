"""Scores of all models of a stack over parts of all splits, in CPU memory.

From sums of residuals where those will do and have their digits, else from what the models say of
the rows, which is read once for all scorers. What has no batched form, or is not defined for all
models of a split at once, is scored model by model.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace, to_host
from gpuml.data import Folds, NeedsAllRows
from gpuml.extending import ClassStack, ClusterStack, DensityStack, RegressionStack, Stack
from gpuml.metrics.scorer import (
    BatchScorer,
    ClassBatchScorer,
    InertiaScorer,
    LikelihoodScorer,
    batch_scorer,
)
from gpuml.resampling.divided_scores import divided_scores
from gpuml.resampling.responses import Answer, Scorer, answers

# (candidate, split, part, scorer) -> score, or a dict of scores
ScoreModel = Callable[[int, int, str, Any], Any]
# (split, predictions of some candidates)
Hear = Callable[[int, Answer], None]
# Scores (C, S) by part and name of the scorer
Tables = dict[str, dict[str, np.ndarray]]
# Which stacks know what scorers ask.
STACKS = {
    BatchScorer: RegressionStack,
    ClassBatchScorer: ClassStack,
    InertiaScorer: ClusterStack,
    LikelihoodScorer: DensityStack,
}


def stack_scores(
    stack: Stack,
    folds: Folds,
    scorers: Mapping[str, Any],
    parts: Sequence[str] = ("test",),
    *,
    weighted: bool,
    score_model: ScoreModel | None = None,
    without: Collection[int] = (),
    hear: Hear | None = None,
) -> Tables:
    """Scores of all models, by part ("test", "train") and name.

    `weighted` says whether scores have the weights of the fits; the scores of splits in `without`
    are nan: nobody is going to look at them. `score_model` scores one model; without it, and where
    others hold the rows, what cannot be scored at once is an error. `hear` is told what the models
    of the other splits say of their held-out rows, some candidates after others.

    Raises
    ------
    NeedsAllRows
        If rows are divided, for scores that need them in one place.
    """
    divided = folds.batch.is_divided
    if hear is not None:
        folds.batch.must_be_here("kept predictions need all rows in one place")
    score_model = None if divided else score_model
    batched = {name: _batched(stack, scorer) for name, scorer in scorers.items()}
    keys = list(product(parts, scorers))
    splits = [split for split in range(folds.n_splits) if split not in without]
    found: dict[tuple, Any] = {}
    with _told_of_divided(folds):
        if score_model is None and None in batched.values():
            names = [name for name, scorer in batched.items() if scorer is None]
            raise ValueError(f"{', '.join(names)} cannot be scored for all models at once.")
        sums = {key: _from_sums(stack, folds, key[0], batched[key[1]], weighted) for key in keys}
        known = _to_host({key: table for key, table in sums.items() if table is not None})
        nothing = np.full((stack.n_candidates, folds.n_splits), np.nan)
        tables = {key: known.get(key, nothing).copy() for key in keys}
        for part in parts if divided else ():
            left = _unknown(tables, part, splits, batched)
            summed = divided_scores(stack, folds, part, left, weighted=weighted)
            tables.update({(part, name): table for name, table in summed.items()})
        all_known = not any(np.isnan(table[:, splits]).any() for table in tables.values())
        if all_known and hear is None:
            return {part: {name: tables[part, name] for name in scorers} for part in parts}
        for part, split in product(parts, splits):
            left = _unknown(tables, part, [split], batched)
            heard = hear if part == "test" else None
            columns = _from_responses(stack, folds, split, part, left, weighted, score_model, heard)
            found.update({(part, name, split): column for name, column in columns.items()})
        found = _to_host(found)
        for part, name in keys:
            table, alone = tables[part, name], np.zeros(nothing.shape, dtype=bool)
            for split in splits:
                scores = found.get((part, name, split), np.nan)
                table[:, split] = np.where(np.isnan(table[:, split]), scores, table[:, split])
                # Predictions may be nan, and their score is then; scikit-learn has more to say of
                # one that is not defined.
                final = (part, name, split) in found and isinstance(batched[name], BatchScorer)
                alone[:, split] = np.isnan(table[:, split]) & (divided or not final)
            if alone.any():
                scorer = scorers[name]
                tables[part, name] = _one_by_one(score_model, part, scorer, table, alone)
    return {part: {name: tables[part, name] for name in scorers} for part in parts}


@contextmanager
def _told_of_divided(folds: Folds) -> Iterator[None]:
    """Say of divided rows that scores are to be made where all rows are."""
    try:
        yield
    except (ValueError, ZeroDivisionError) as error:
        if not folds.batch.is_divided:
            raise
        raise NeedsAllRows(f"Scores are needed for each model by itself: {error}") from error


def _unknown(tables, part, splits, batched) -> dict[str, Scorer]:
    """Batched scorers by name whose scores on some splits are not known."""
    return {
        name: scorer
        for name, scorer in batched.items()
        if isinstance(scorer, BatchScorer | ClassBatchScorer)
        and np.isnan(tables[part, name][:, splits]).any()
    }


def _batched(stack, scorer) -> Scorer | InertiaScorer | LikelihoodScorer | None:
    """The batched form of a scorer, if it has one for models of this kind."""
    found = batch_scorer(scorer, has_decisions=getattr(stack, "has_decisions", True))
    return None if found is None or not isinstance(stack, STACKS[type(found)]) else found


def _from_sums(stack, folds, part, scorer, weighted):
    """Scores (C, S) from sums over rows, nan if inaccurate; None if sums do not give them."""
    if isinstance(scorer, LikelihoodScorer):
        return stack.log_likelihood(part)
    if isinstance(scorer, InertiaScorer):
        return -stack.inertia(part, weighted)
    if not isinstance(scorer, BatchScorer) or not scorer.uses_moments:
        return None
    found = stack.residual_moments(part) if weighted or folds.batch.weight is None else None
    if found is None:
        return None
    moments, reliable = found
    scores = scorer.from_moments(moments)
    xp = namespace(scores)
    return xp.where(reliable, scores, xp.full_like(scores, np.nan))


def _from_responses(stack, folds, split, part, scorers, weighted, score_model, hear):
    """Scores (C,) by name; undefined ones are left to single models."""
    if not scorers and hear is None:
        return {}
    found: dict[str, list[Array]] = {name: [] for name in scorers}
    for answer in answers(stack, folds, split, part, weighted=weighted):
        if hear is not None:
            hear(split, answer)
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
    """The table, completed with scores of single models."""
    if score_model is None:
        raise ValueError(f"{scorer!r} is not defined for some models.")
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


def _to_host(arrays: dict) -> dict:
    """Bring arrays of one shape down in one copy."""
    if not arrays:
        return {}
    xp = namespace(*arrays.values())
    host = np.array(to_host(xp.stack(list(arrays.values()))))
    return dict(zip(arrays, host, strict=True))
