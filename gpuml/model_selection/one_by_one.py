"""Fits of one model at a time: folds that are copied once, and scores.

For estimators without `multifit`. All candidates share the rows of a split; see `own_rows` for
estimators that write to their rows.
"""

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, effective_n_jobs
from joblib.logger import short_format_time
from sklearn.utils import get_tags

from gpuml._arrays import (
    HOST,
    is_cupyx_sparse,
    is_foreign,
    is_numpy,
    move,
    namespace,
    place_of,
    synchronize,
)
from gpuml._sklearn import (
    _check_method_params,
    _MultimetricScorer,
    _num_samples,
    _safe_indexing,
    _safe_split,
    _score,
)
from gpuml.data import AnySplit, Rows, count_rows, row_indices, take
from gpuml.model_selection.default_scores import quick


@dataclass(frozen=True)
class Task:
    """The settings that all fits of a search share.

    `on_end` is called after each fit with its result; copies of it may go to other processes.
    `kept` says which predictions for held-out rows become "predictions" of results that did not
    fail. With `out_of_bag`, trees of a forest predict the rows that they did not draw. `grown` has
    ensembles by the candidates that continue them; None if no round follows. If fits run in
    parallel, each may use `threads`. `numbered` says that what `verbose` prints tells the place of
    each fit, as scikit-learn's searches do and its functions do not. On the splits in
    `unscored` models are for the caller, and errors of fits and scores are no matter: there
    `error_score` becomes None (see `on`).
    """

    scorer: Any
    fit_params: Mapping[str, Any]
    score_params: Mapping[str, Any]
    return_train_score: bool
    error_score: Any
    verbose: int
    return_estimator: bool = False
    kept: Any = None
    out_of_bag: bool = False
    on_end: "Callable[[Progress, Mapping[str, Any]], None] | None" = None
    grown: Mapping[int, Any] | None = None
    threads: int | None = None
    numbered: bool = True
    unscored: frozenset[int] = frozenset()

    def on(self, split: int) -> "Task":
        """The task on one split."""
        return replace(self, error_score=None) if split in self.unscored else self

    def with_values(self, change: Callable[[Any], Any], **changes: Any) -> "Task":
        """The task with `change` applied to each value that fits and scorers receive."""
        for name in ("fit_params", "score_params"):
            params = getattr(self, name)
            changes[name] = {key: change(value) for key, value in params.items()}
        return replace(self, **changes)


@dataclass(frozen=True)
class Fold:
    """The rows of one split, taken out of X, y and of the parameters that have one value a row.

    Attributes
    ----------
    X_train, y_train, X_test, y_test : array-like
        Of the kind of the rows they were taken from; y may be None.
    fit_params : dict
        What goes to `fit` besides.
    train_score_params, test_score_params : dict
        What goes to scorers besides.
    n_test : int
        Number of rows held out.
    """

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any
    fit_params: Mapping[str, Any]
    train_score_params: Mapping[str, Any]
    test_score_params: Mapping[str, Any]
    n_test: int


@dataclass(frozen=True)
class Progress:
    """The place of a fit: split and candidate, and how many there are of each."""

    split: int
    n_splits: int
    candidate: int
    n_candidates: int


def rows_of(x: Any, rows: Rows, *, shared: bool = False) -> Any:
    """Rows of any object that scikit-learn can index or gpuml computes on.

    `shared` marks a NumPy copy read-only; views always are.
    """
    if x is None:
        return None
    if is_foreign(x):
        return take(x, rows, namespace(x))
    if is_cupyx_sparse(x):  # scikit-learn asks for its device, which cupyx does not tell
        return x[move(row_indices(rows), place_of(x.data))]
    if is_numpy(x) and isinstance(rows, slice | tuple):
        out = take(x, rows, np)
    else:
        out = _safe_indexing(x, row_indices(rows))
    if isinstance(out, np.ndarray) and (shared or out.base is not None):
        out = out.view()
        out.flags.writeable = False
    return out


def take_fold(estimator: Any, X: Any, y: Any, split: AnySplit, task: Task, *, shared: bool) -> Fold:
    """Take the rows of a split, once for all candidates.

    Slices of rows are views. Index arrays go up to a device once, whatever is taken by them there.
    """
    train, test = Part(split.train), Part(split.test)
    if get_tags(estimator).input_tags.pairwise:
        X_train, y_train = _safe_split(estimator, X, y, train.indices())
        X_test, y_test = _safe_split(estimator, X, y, test.indices(), train.indices())
    else:
        X_train, y_train = (train.of(a, shared=shared) for a in (X, y))
        X_test, y_test = (test.of(a, shared=shared) for a in (X, y))
    return Fold(
        X_train,
        y_train,
        X_test,
        y_test,
        fit_params=params_of(X, task.fit_params, train),
        train_score_params=params_of(X, task.score_params, train),
        test_score_params=params_of(X, task.score_params, test),
        n_test=count_rows(split.test),
    )


class Part:
    """One part of a split; its index array moves to each device once."""

    def __init__(self, rows: Rows):
        self._rows = rows
        self._at: dict[str, Rows] = {}  # by name: not every device can be hashed

    def of(self, x: Any, *, shared: bool = False) -> Any:
        """The rows of `x`."""
        return rows_of(x, self._near(place_of(x) if is_foreign(x) else HOST), shared=shared)

    def indices(self) -> np.ndarray:
        """The rows as an index array in CPU memory."""
        return row_indices(self._near(HOST))

    def _near(self, place):
        if isinstance(self._rows, slice | tuple):
            return self._rows
        name = str(place)
        if name not in self._at:
            self._at[name] = move(self._rows, place)
        return self._at[name]


def finish(rows: Any) -> None:
    """Wait for queued work on a device, so that the measured seconds include it."""
    if is_foreign(rows):
        synchronize(place_of(rows))


def score_model(model: Any, X: Any, y: Any, params: Mapping[str, Any], task: Task) -> Any:
    """Score, with scikit-learn's handling of errors and of scores that are no numbers."""
    scorer = task.scorer if params else quick(task.scorer, model, y)
    if task.error_score is not None:
        return _score(model, X, y, scorer, dict(params), task.error_score)
    try:
        return _score(model, X, y, scorer, dict(params), "raise")
    except Exception:  # the caller looks at the model, and asked for no score
        return np.nan


def params_of(X: Any, params: Mapping[str, Any], part: Part) -> dict[str, Any]:
    """The parameters for some rows: values with one entry per row are cut, others passed on."""
    if not params:
        return {}
    foreign = {name: value for name, value in params.items() if is_foreign(value)}
    plain = {name: value for name, value in params.items() if name not in foreign}
    out = _check_method_params(X, params=plain, indices=part.indices()) if plain else {}
    for name, value in foreign.items():
        per_row = value.ndim > 0 and value.shape[0] == _num_samples(X)
        out[name] = part.of(value) if per_row else value
    return out


def failed_fit(error: str, n_test: int, task: Task, seconds: float = 0.0) -> dict[str, Any]:
    """The result of a fit that failed, without an estimator."""
    result = {
        "fit_error": error,
        "test_scores": failed_scores(task),
        "n_test_samples": n_test,
        "fit_time": seconds,
        "score_time": 0.0,
    }
    return result | ({"train_scores": failed_scores(task)} if task.return_train_score else {})


def failed_scores(task: Task) -> Any:
    """The scores of a fit that failed."""
    if isinstance(task.scorer, _MultimetricScorer):
        return dict.fromkeys(task.scorer._scorers, task.error_score)
    return task.error_score


def check_error_score(error_score: Any) -> None:
    """Raise scikit-learn's error for an error_score that is neither a number nor "raise"."""
    if error_score != "raise" and not isinstance(error_score, numbers.Number):
        raise ValueError(
            "error_score must be the string 'raise' or a numeric value. (Hint: if using 'raise', "
            "please make sure that it has been spelled correctly.)"
        )


def check_workers(n_jobs: int | None, pre_dispatch: int | str) -> None:
    """Raise ValueError for an `n_jobs` or `pre_dispatch` that joblib could not use.

    joblib itself looks when it starts workers, which a search may never do.
    """
    n_workers = effective_n_jobs(n_jobs)  # ValueError for 0
    if pre_dispatch in ("all", "2*n_jobs"):
        return
    asked: list[bool] = []

    def no_task():
        asked.append(True)
        yield from ()

    ahead = str(pre_dispatch).replace("n_jobs", str(n_workers))
    try:
        # joblib checks the value if there are two workers; without a task it starts none.
        Parallel(n_jobs=2, backend="threading", pre_dispatch=ahead)(no_task())
        # For one worker, which needs no task in advance, a fraction may round to 0.
        is_number = bool(asked) or (n_workers == 1 and isinstance(pre_dispatch, str))
    except ValueError:
        is_number = False
    if not is_number:
        raise ValueError(
            f"pre_dispatch must be 'all', a positive number of tasks, or such an expression of "
            f"n_jobs as '2*n_jobs', got {pre_dispatch!r}."
        )


# ------------------------------------------------- what verbose > 1 prints


def announce_start(params: Any, where: Progress, task: Task) -> None:
    """Print the line for the start of a fit, if `verbose` demands it."""
    if task.verbose > 9:
        text = f"[CV{_position(where, task)}] START {_describe(params)}"
        print(text.ljust(80, "."))


def announce_end(params: Any, where: Progress, task: Task, result: Mapping[str, Any]) -> None:
    """Count a finished fit, and print its line in scikit-learn's format."""
    if task.on_end is not None:
        task.on_end(where, result)
    if task.verbose <= 1:
        return
    head = f"[CV{_position(where, task)}] END "
    tail = _describe(params) + (";" if params else "")
    if task.verbose > 2:
        tail += _describe_scores(result)
    tail += f" total time={short_format_time(result['fit_time'] + result['score_time'])}"
    print(head + tail.rjust(max(len(tail), 80 - len(head)), "."))


def _position(where, task):
    text = ""
    if not task.numbered:
        return text
    if task.verbose > 2:
        text += f" {where.split + 1}/{where.n_splits}"
    if task.verbose > 9:
        text += f"; {where.candidate + 1}/{where.n_candidates}"
    return text


def _describe(params):
    return ", ".join(f"{name}={params[name]}" for name in sorted(params or {}))


def _describe_scores(result):
    test, train = result["test_scores"], result.get("train_scores")
    if not isinstance(test, dict):
        inner = f"{test:.3f}" if train is None else f"(train={train:.3f}, test={test:.3f})"
        return f", score={inner}"
    text = ""
    for name in sorted(test):
        before = "" if train is None else f"train={train[name]:.3f}, "
        text += f" {name}: ({before}test={test[name]:.3f})"
    return text
