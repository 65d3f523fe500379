"""Pipelines on one fold in two parts, which may run in two places.

The first steps are fitted, and transform the rows, in one place; the other steps are fitted to
these rows and scored on them in another. Results equal those of `fit_pipelines`: the second part
visits the same tree, in which the prepared prefix already has its rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.pipeline import Pipeline

from gpuml._arrays.device_copies import several_fits
from gpuml._settings.config import config_context
from gpuml._sklearn import _routing_enabled
from gpuml.model_selection.members import Candidate
from gpuml.model_selection.one_by_one import Fold, Task
from gpuml.model_selection.own_rows import private_rows, read_only
from gpuml.model_selection.prefix_cache import rows_nbytes
from gpuml.model_selection.prefixes import Prefix, PrefixError, Visit, plant
from gpuml.model_selection.residence import configured, device_for, place_name
from gpuml.model_selection.scores import asks_for_predictions_only


@dataclass(frozen=True)
class Prepared:
    """First steps of a pipeline, fitted to the training rows of a fold.

    Attributes
    ----------
    names : tuple of str
        Of the steps; those that are left out ("passthrough") are not among them.
    fitted : list of transformers
    rows : dict of str to rows
        "fit": training rows as the fit gave them; "test" and "train": held-out and training rows
        transformed. Those whose transformation failed are missing.
    fold : Fold
        What else there is of the rows; X only where scores will need it.
    error : str or None
        The text of the error of a step, if its fit failed.
    fit_seconds, score_seconds : float
        Of fits, and of transforming held-out rows.
    """

    names: tuple[str, ...]
    fitted: Sequence[Any]
    rows: Mapping[str, Any]
    fold: Fold
    error: str | None = None
    fit_seconds: float = 0.0
    score_seconds: float = 0.0

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows."""
        return sum(map(rows_nbytes, self.rows.values()))


def may_be_prepared(
    estimator: Any, params: Mapping[str, Any], fit_params: Mapping[str, Any], task: Task
) -> bool:
    """Whether a candidate can be fitted in two parts: a plain pipeline, scored by predictions."""
    if not asks_for_predictions_only(task) or (fit_params and _routing_enabled()):
        return False
    try:
        _, unshared = plant(estimator, [(params, None)], fit_params, tails=False)
    except Exception:
        return False  # its fit will raise the error
    return not unshared


def prepare(
    estimator: Any, fold: Fold, params: Mapping[str, Any], names: Sequence[str], task: Task
) -> Prepared:
    """Fit the first steps of a candidate's pipeline to a fold, and transform its rows.

    Parameters
    ----------
    estimator : Pipeline
    fold : Fold
        Without held-out rows (None), only training rows are transformed.
    params : dict
        Of the candidate.
    names : sequence of str
        Of the first steps.
    task : Task

    Returns
    -------
    prepared : Prepared
        Of a step that failed, its error; an error is raised where the task says so.
    """
    tree, _ = plant(estimator, [(params, None)], fold.fit_params, tails=False)
    prefix = tree
    for _ in names:
        (prefix,) = prefix.children.values()
    visit = Visit(tree, fold, task)
    rows: dict[str, Any] = {}
    try:
        rows["fit"] = visit.rows(prefix, "fit")
        rows.update(visit.seen(prefix) if fold.X_test is not None else {})
    except PrefixError as failed:
        bare = replace(fold, X_train=None, X_test=None)
        seconds = sum(each.fit_seconds for each in prefix.branch())
        return Prepared(tuple(names), [], {}, bare, str(failed), seconds)
    branch = prefix.branch()
    kept = replace(
        fold,
        X_train=fold.X_train if task.return_train_score and "train" not in rows else None,
        X_test=None if "test" in rows else fold.X_test,
    )
    return Prepared(
        tuple(names),
        [each.fitted for each in branch],
        rows,
        kept,
        fit_seconds=sum(each.fit_seconds for each in branch),
        score_seconds=sum(each.score_seconds for each in branch),
    )


def fit_prepared(
    estimator: Any,
    prepared: Prepared,
    candidates: Sequence[Candidate],
    task: Task,
    settings: Mapping[str, Any],
    *,
    n_sharing: int,
) -> list[dict[str, Any]]:
    """Fit and score candidates whose first steps are prepared; results as of `fit_pipelines`.

    Parameters
    ----------
    estimator : Pipeline
        With all steps.
    prepared : Prepared
        The steps that all of the candidates have in common.
    candidates : sequence of (parameters, Progress)
    task : Task
    settings : dict
        gpuml's.
    n_sharing : int
        Candidates that share the seconds of what was prepared, these among them.

    Returns
    -------
    results : list of dict
        In the order of the candidates.
    """
    with config_context(**settings), several_fits():
        tree, _ = plant(estimator, candidates, prepared.fold.fit_params)
        _enter(prepared, tree, 0, n_sharing)
        results = Visit(tree, prepared.fold, task).down(tree)
    return [results[position] for position in range(len(candidates))]


def refit_prepared(estimator: Any, prepared: Prepared, params: Mapping[str, Any]) -> Any:
    """The fitted pipeline of a candidate, whose first steps were fitted to all rows."""
    pipeline = configured(estimator, params)
    done = dict(zip(prepared.names, prepared.fitted, strict=True))
    n_done = 1 + max(i for i, (name, _) in enumerate(pipeline.steps) if name in done)
    rest, fold = pipeline[n_done:], prepared.fold
    fit_params = {
        name: value
        for name, value in fold.fit_params.items()
        if name.partition("__")[0] not in done
    }
    rest.fit(private_rows(read_only(prepared.rows["fit"]), rest), fold.y_train, **fit_params)
    first = [(name, done.get(name, step)) for name, step in pipeline.steps[:n_done]]
    pipeline.steps = [*first, *rest.steps]
    return pipeline


def place_of_fits(estimator: Any, prepared: Prepared, params: Mapping[str, Any]) -> str:
    """The place where the last steps of a candidate are fitted, such as "cupy:cuda:0"."""
    X = prepared.rows.get("fit")
    steps = configured(estimator, params).steps
    rest = Pipeline([(name, step) for name, step in steps if name not in prepared.names])
    place = None if X is None else device_for(rest, X)
    return place_name(X) if place is None else str(place)


def _enter(prepared: Prepared, prefix: Prefix, depth: int, n_sharing: int) -> None:
    """Mark the fitted steps in the tree, which rarely has several branches."""
    if depth == len(prepared.names):
        return
    for child in prefix.children.values():
        if prepared.error is None:
            child.fitted = prepared.fitted[depth]
        child.n_below = n_sharing
        if depth == len(prepared.names) - 1:
            child.error = prepared.error
            child.given = {part: read_only(rows) for part, rows in prepared.rows.items()}
            child.fit_seconds = prepared.fit_seconds / n_sharing
            child.score_seconds = prepared.score_seconds / n_sharing
        _enter(prepared, child, depth + 1, n_sharing)
