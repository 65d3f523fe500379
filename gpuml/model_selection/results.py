"""Results of a search as a table, and tests of whether its candidates differ."""

from typing import Any

import numpy as np
from scipy import stats
from sklearn.exceptions import NotFittedError

from gpuml._arrays.frames import in_frame
from gpuml.model_selection.choice import split_scores

# The columns of each metric, and their names in scikit-learn's tables.
PARTS = {"score": "test", "train_score": "train"}


def results_frame(search: Any) -> Any:
    """A DataFrame with a row for each candidate of a fitted search, the best one first.

    See the property `results_` of gpuml's searches; of scikit-learn's this function makes the same.
    """
    table = _table_of(search)
    names = dict.fromkeys(name for each in table["params"] for name in each)
    metrics = [name[len("mean_test_") :] for name in table if name.startswith("mean_test_")]
    if not metrics:  # Hyperband has scores of one split only
        return _frame_as_it_is(table, names)
    first = metrics[0]
    if getattr(search, "refit", None) in metrics:  # a session has no `refit`
        first = search.refit
    order = np.argsort(np.asarray(table[f"rank_test_{first}"]), kind="stable")
    columns: dict[str, Any] = {"candidate": np.arange(len(order))}
    columns |= {name: _column(table["params"], name) for name in names}
    for metric in metrics:
        tail = "" if metrics == ["score"] else f"_{metric}"
        columns[f"rank{tail}"] = table[f"rank_test_{metric}"]
        for name, part in PARTS.items():
            if f"mean_{part}_{metric}" in table:
                columns[f"{name}{tail}"] = table[f"mean_{part}_{metric}"]
                columns[f"{name}{tail}_std"] = table[f"std_{part}_{metric}"]
    columns["fit_time"] = table["mean_fit_time"]
    columns["score_time"] = table["mean_score_time"]
    for metric in metrics:
        tail = "" if metrics == ["score"] else f"_{metric}"
        for split, scores in enumerate(split_scores(table, metric).T):
            columns[f"score{tail}_{split}"] = scores
    return in_frame({name: np.asarray(values)[order] for name, values in columns.items()})


def _frame_as_it_is(table, names):
    given = [name for name in table if name != "params" and not name.startswith("param_")]
    columns = {name: _column(table["params"], name) for name in names}
    columns |= {name: np.asarray(table[name]) for name in given}
    order = np.argsort(columns["rank_test_score"], kind="stable")
    return in_frame({name: values[order] for name, values in columns.items()})


def _table_of(search):
    table = getattr(search, "cv_results_", None)
    if table is None:
        raise NotFittedError(f"This {type(search).__name__} is not fitted yet. Call its fit first.")
    return table


def _column(params, name):
    """Values of a parameter: numbers or text if all of them are, else objects."""
    values = [each.get(name) for each in params]
    for kind in (bool, int, float, str):
        numbers = int | float | np.number if kind is float else kind
        if all(isinstance(value, numbers) for value in values):
            mixed = kind is not bool and any(isinstance(value, bool) for value in values)
            if not mixed:
                return np.asarray(values, dtype=kind if kind is not str else object)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def compare_candidates(
    search: Any, *, reference: int | None = None, metric: str | None = None, level: float = 0.95
) -> Any:
    r"""Test whether candidates differ from one of them, by the corrected resampled t-test.

    Scores of J splits are not independent, because training sets overlap. With the differences
    :math:`d_j` of the scores of two candidates, and :math:`n_1` training and :math:`n_2` held-out
    rows, the test of Nadeau and Bengio uses
    :math:`t = \bar d / \sqrt{(1 / J + n_2 / n_1) s_d^2}` with J - 1 degrees of freedom.

    Parameters
    ----------
    search : fitted search
        A `GridSearchCV` or `RandomizedSearchCV` of gpuml.
    reference : int, default=None
        Index in `cv_results_` of the candidate to compare all others with. None is `best_index_`,
        or, if there is none, the candidate with the highest score.
    metric : str, default=None
        The metric to compare; required if there are several.
    level : float, default=0.95
        Confidence level of the intervals.

    Returns
    -------
    comparison : DataFrame
        A pandas DataFrame, or polars if pandas is not installed. For each candidate, in the order
        of `cv_results_`: `candidate`, its parameters, the mean `difference` of its scores from
        those of the reference, its `std_error`, the statistic `t`, the two-sided `p_value`, `low`
        and `high`. Each p-value is for a single comparison: if the reference is the best of many,
        or you look at many, p-values are too small.

    Raises
    ------
    NotFittedError
        If the search is not fitted.
    ValueError
        If there are fewer than two splits, `metric` or `reference` is unknown, or `level` is not
        between 0 and 1.
    ImportError
        If neither pandas nor polars is installed.

    References
    ----------
    Nadeau, Bengio (2003), Inference for the generalization error, Machine Learning 52, 239-281.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import GridSearchCV, compare_candidates
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 100.0]}, cv=10).fit(X, y)
    >>> compare_candidates(search)["p_value"].round(3).tolist()
    [1.0, 0.048, 0.0]
    """
    table = _table_of(search)
    scores = split_scores(table, metric)
    n_candidates, n_splits = scores.shape
    if n_splits < 2:
        raise ValueError("A test needs the scores of at least two splits; the search has one.")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}.")
    if reference is None:
        best = np.nan_to_num(scores.mean(axis=1), nan=-np.inf).argmax()
        reference = int(getattr(search, "best_index_", best))
    if not 0 <= reference < n_candidates:
        raise ValueError(f"There is no candidate {reference}; there are {n_candidates}.")
    sizes = getattr(search, "split_sizes_", None)
    if sizes is None or len(sizes) != n_splits:
        raise ValueError(
            f"{type(search).__name__} does not say how many rows its splits have. Use gpuml's "
            "GridSearchCV or RandomizedSearchCV."
        )
    n_train, n_test = np.mean(sizes, axis=0)
    differences = scores - scores[reference]
    mean = differences.mean(axis=1)
    error = np.sqrt((1 / n_splits + n_test / n_train) * differences.var(axis=1, ddof=1))
    t, p = corrected_t(mean, error, n_splits)
    half = error * stats.t.ppf((1 + level) / 2, n_splits - 1)
    names = dict.fromkeys(name for each in table["params"] for name in each)
    columns = {"candidate": np.arange(n_candidates)}
    columns |= {name: _column(table["params"], name) for name in names}
    columns |= {"difference": mean, "std_error": error, "t": t, "p_value": p}
    return in_frame(columns | {"low": mean - half, "high": mean + half})


def corrected_t(mean: np.ndarray, error: np.ndarray, n_splits: int) -> tuple[Any, Any]:
    """Statistics and two-sided p-values; 0 and 1 for candidates without any difference."""
    same = (mean == 0) & (error == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(same, 0.0, mean / error)
    return t, 2 * stats.t.sf(np.abs(t), n_splits - 1)
