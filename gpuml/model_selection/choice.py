"""The one-standard-error rule: the simplest candidate that is about as good as the best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml.protocol import same_value

# Parameters whose larger, or smaller, values make a model simpler; a prefix may precede them.
LARGER = (
    *("alpha", "ccp_alpha", "l2_regularization", "lambda_l1", "lambda_l2", "min_child_weight"),
    *("min_impurity_decrease", "min_samples_leaf", "min_samples_split", "n_neighbors"),
    *("reg_alpha", "reg_lambda", "reg_param", "shrinkage", "smooth", "var_smoothing"),
)
SMALLER = (
    *("C", "degree", "k", "max_depth", "max_features", "max_leaf_nodes", "n_components"),
    *("n_estimators", "n_features_to_select", "n_knots", "n_nonzero_coefs", "num_leaves"),
)
ONE_SPLIT = (
    "The one-standard-error rule needs the scores of at least two splits; the search has one."
)
WAYS = {"larger": 1.0, "smaller": -1.0}


@dataclass(frozen=True)
class OneStandardError:
    r"""Choose the simplest candidate within one standard error of the best: a `refit` rule.

    With the scores :math:`s_{cj}` of candidate c on J splits, the standard error of the mean of the
    best candidate b is

    .. math:: e = \sqrt{\frac{1}{(J - 1) J} \sum_j (s_{bj} - \bar s_b)^2} .

    Among the candidates whose mean is at least :math:`\bar s_b - e`, the rule chooses the simplest:
    the one with the strongest regularisation. The name of a parameter (its last part, after
    ``__``) tells which values are simpler: larger ones for ``alpha``, ``reg_lambda``,
    ``min_samples_leaf``, ``n_neighbors``, ...; smaller ones for ``C``, ``n_components``,
    ``max_depth``, ``k``, ... (`LARGER` and `SMALLER` of this module list all names). If candidates
    differ in several parameters, the first one in the order of the grid decides, then the next;
    finally, the better score. The rule considers only candidates that agree with the best one in
    all other parameters.

    ``refit="1se"`` is this rule with its defaults.

    Parameters
    ----------
    simpler : dict of str to {"larger", "smaller"}, default=None
        For each parameter, by its whole name, whether larger or smaller values are simpler, in the
        order in which the parameters decide. It replaces the rule about names.
    metric : str, default=None
        The metric whose scores decide; required if there are several.

    Raises
    ------
    ValueError
        When called, if no parameter of the search has an order, if `simpler` has an unknown
        parameter or order, if there are several metrics and you named none, or a single split.

    References
    ----------
    Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, section 3.4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import GridSearchCV, OneStandardError
    >>> X, y = load_diabetes(return_X_y=True)
    >>> grid = {"alpha": [0.01, 0.1, 0.3, 1.0, 10.0]}
    >>> GridSearchCV(Ridge(), grid).fit(X, y).best_params_
    {'alpha': 0.01}
    >>> GridSearchCV(Ridge(), grid, refit=OneStandardError()).fit(X, y).best_params_
    {'alpha': 0.3}
    """

    simpler: Mapping[str, str] | None = None
    metric: str | None = None

    def __call__(self, cv_results: Mapping[str, Any]) -> int:
        """The number of the candidate that is chosen."""
        scores = split_scores(cv_results, self.metric)
        if scores.shape[1] < 2:
            raise ValueError(ONE_SPLIT)
        params = list(cv_results["params"])
        means = scores.mean(axis=1)
        if np.isnan(means).all():
            return 0  # as in scikit-learn
        best = int(np.nanargmax(means))
        ordered = self._ordered(params)
        least = means[best] - scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
        near = [
            c
            for c in np.flatnonzero(means >= least).tolist()
            if _agree(params[c], params[best], ordered)
        ]
        return min([best, *near], key=lambda c: (_rank(params[c], ordered), -means[c]))

    def _ordered(self, params: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Parameters with an order of simplicity: sign +1 if larger values are simpler, else -1."""
        unknown = set((self.simpler or {}).values()) - WAYS.keys()
        if unknown:
            raise ValueError(
                f"simpler must say 'larger' or 'smaller' for each parameter, got {unknown.pop()!r}."
            )
        names = dict.fromkeys(name for each in params for name in each)
        if self.simpler is not None:
            missing = self.simpler.keys() - names.keys()
            if missing:
                raise ValueError(f"The search has no parameter {sorted(missing)[0]!r}.")
            return {name: WAYS[way] for name, way in self.simpler.items()}
        last = {name: name.rpartition("__")[2] for name in names}
        found = {n: 1.0 for n in names if last[n] in LARGER}
        found |= {n: -1.0 for n in names if last[n] in SMALLER}
        if not found:
            raise ValueError(
                "The one-standard-error rule does not know which values are simpler of "
                f"{', '.join(names) or 'no parameters'}; set "
                "refit=OneStandardError(simpler={'name': 'larger'}), or 'smaller'."
            )
        return {name: found[name] for name in names if name in found}


def _agree(params, best, ordered):
    """Whether candidates differ only in ordered parameters, with numbers as values."""
    others = (params.keys() | best.keys()) - ordered.keys()
    none = object()
    alike = all(same_value(params.get(n, none), best.get(n, none)) for n in others)
    return alike and all(_is_number(params.get(name)) for name in ordered)


def _is_number(value):
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _rank(params, ordered):
    """A sort key, lower for simpler candidates; values that are no numbers, such as None, come
    last.
    """
    return tuple(
        -sign * params[name] if _is_number(params.get(name)) else np.inf
        for name, sign in ordered.items()
    )


def split_scores(cv_results: Mapping[str, Any], metric: str | None = None) -> np.ndarray:
    """Scores of held-out rows, (n_candidates, n_splits).

    Raises
    ------
    ValueError
        For an unknown metric, or for several of which none is named.
    """
    metrics = [name[len("mean_test_") :] for name in cv_results if name.startswith("mean_test_")]
    if metric is None and len(metrics) == 1:
        metric = metrics[0]
    if metric not in metrics:
        raise ValueError(f"Choose one of the metrics {', '.join(map(repr, metrics))}.")
    n_splits = sum(
        name.startswith("split") and name.endswith(f"_test_{metric}") for name in cv_results
    )
    return np.stack([cv_results[f"split{i}_test_{metric}"] for i in range(n_splits)], axis=1)
