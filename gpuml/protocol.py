"""Batched fits as an optional method of estimators: `__sklearn_multifit__`.

The protocol of the page "A proposal: batched fits in scikit-learn", with what a search needs to use
it. This module imports the standard library only, so other projects can adopt it as one file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

__all__ = [
    "Group",
    "SupportsMultifit",
    "fit_candidates",
    "group_candidates",
    "multifit",
    "supports_multifit",
]

METHOD = "__sklearn_multifit__"


@runtime_checkable
class SupportsMultifit(Protocol):
    """An estimator that fits many candidates on many splits in one call.

    One law defines the method: ``models[c][s]`` equals, up to rounding,
    ``clone(self).set_params(**candidates[c]).fit(X[train], y[train])``, for the training
    rows of split s.
    The method changes neither the estimator nor its arguments.

    Attributes
    ----------
    __sklearn_multifit_params__ : sequence of str
        Parameters that may differ within one call.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyRegressor
    >>> from gpuml.protocol import SupportsMultifit, fit_candidates
    >>> class Quantiles(DummyRegressor):
    ...     __sklearn_multifit_params__ = ("quantile",)
    ...
    ...     def __sklearn_multifit__(self, X, y, splits, candidates):
    ...         if self.strategy != "quantile":
    ...             return NotImplemented
    ...         models = [[] for _ in candidates]
    ...         for train, _ in splits:
    ...             levels = [candidate["quantile"] for candidate in candidates]
    ...             found = np.quantile(y[train], levels)  # sorts y once
    ...             for row, candidate, constant in zip(models, candidates, found):
    ...                 model = Quantiles(strategy="quantile", **candidate)
    ...                 model.constant_, model.n_outputs_ = np.array([[constant]]), 1
    ...                 row.append(model)
    ...         return models
    >>> estimator = Quantiles(strategy="quantile")
    >>> isinstance(estimator, SupportsMultifit)
    True
    >>> X, y = np.zeros((5, 1)), np.arange(5.0)
    >>> splits = [(np.arange(1, 5), np.arange(1)), (np.arange(4), np.arange(4, 5))]
    >>> models = fit_candidates(estimator, X, y, splits, [{"quantile": 0.0}, {"quantile": 1.0}])
    >>> [[float(model.predict(X)[0]) for model in row] for row in models]
    [[1.0, 0.0], [4.0, 3.0]]
    """

    __sklearn_multifit_params__: Sequence[str]

    def __sklearn_multifit__(
        self,
        X: Any,
        y: Any,
        splits: Sequence[tuple[Any, Any]],
        candidates: Sequence[Mapping[str, Any]],
        **fit_params: Any,
    ) -> Any:
        """Fit every candidate on the training rows of every split.

        Parameters
        ----------
        X, y : array-like
            As for `fit`.
        splits : sequence of (train, test)
            Index arrays, as a splitter yields them. `test` is a hint: rows that will be scored.
        candidates : sequence of dict
            Values of some of `__sklearn_multifit_params__`; others are those of this estimator.
        **fit_params : dict
            As for `fit`; arrays with one entry per row are those of all rows.

        Returns
        -------
        models : list of list
            ``models[c][s]`` is a fitted estimator, or the exception that its fit raised.
            `NotImplemented` in place of the list: fit these parameters, or this data, one by one.
        """


def supports_multifit(estimator: Any) -> TypeGuard[SupportsMultifit]:
    """Whether an estimator's `__sklearn_multifit__` fits what its `fit` fits.

    A subclass that overrides `fit`, and not the method, inherits a method that does not know this
    `fit`: it has no batched fits.

    Parameters
    ----------
    estimator : object
        Any estimator.

    Returns
    -------
    supports : bool
        Whether a search may call the method.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from gpuml.protocol import supports_multifit
    >>> supports_multifit(Ridge())
    False
    """
    if not isinstance(estimator, SupportsMultifit):
        return False
    return next(overridden(type(estimator), METHOD, ("fit",)), None) is None


def overridden(kind: type, method: str, names: Sequence[str]) -> Iterator[tuple[type, str]]:
    """Methods among `names` that subclasses of the class with `method` define, and those classes.

    Nearest class first. Such a class changes what the inherited `method` would have to do.
    """
    for each in kind.__mro__:
        if method in vars(each):
            return
        yield from ((each, name) for name in names if name in vars(each))


@dataclass(frozen=True)
class Group:
    """Candidates of one call: equal but for parameters that may differ within one call.

    Attributes
    ----------
    shared : dict
        Parameters that all of them have.
    varying : list of dict
        The rest of the parameters of each.
    positions : list of int
        The position of each among all candidates.
    """

    shared: dict[str, Any]
    varying: list[dict[str, Any]]
    positions: list[int]


def group_candidates(
    candidates: Sequence[Mapping[str, Any]],
    may_vary: Sequence[str] | Callable[[Mapping[str, Any]], Sequence[str]],
) -> list[Group]:
    """Group candidates whose parameters other than `may_vary` are equal.

    Parameters
    ----------
    candidates : sequence of dict
        Parameters by name.
    may_vary : sequence of str or callable
        Names of parameters that may differ within a group, or a function that returns those of a
        candidate.

    Returns
    -------
    groups : list of Group
        In the order of their first candidates.

    Examples
    --------
    >>> from gpuml.protocol import group_candidates
    >>> grid = [{"alpha": 1, "solver": "svd"}, {"alpha": 1, "solver": "lu"},
    ...         {"alpha": 2, "solver": "svd"}]
    >>> [(group.shared, group.positions) for group in group_candidates(grid, ["alpha"])]
    [({'solver': 'svd'}, [0, 2]), ({'solver': 'lu'}, [1])]
    """
    groups: list[Group] = []
    for position, candidate in enumerate(candidates):
        names = may_vary(candidate) if callable(may_vary) else may_vary
        shared = {name: value for name, value in candidate.items() if name not in names}
        varying = {name: value for name, value in candidate.items() if name in names}
        for group in groups:
            if _equal(group.shared, shared):
                group.varying.append(varying)
                group.positions.append(position)
                break
        else:
            groups.append(Group(shared, [varying], [position]))
    return groups


def _equal(first, second):
    return first.keys() == second.keys() and all(same_value(first[k], second[k]) for k in first)


def same_value(a: Any, b: Any) -> bool:
    """Whether two values of a parameter have the same type and are equal; arrays by elements."""
    if a is b:
        return True
    if type(a) is not type(b) or getattr(a, "shape", None) != getattr(b, "shape", None):
        return False
    try:
        equal = a == b
        return bool(equal.all() if hasattr(equal, "all") else equal)
    except Exception:  # objects that do not compare
        return False


def multifit(
    estimator: SupportsMultifit,
    X: Any,
    y: Any,
    splits: Sequence[tuple[Any, Any]],
    candidates: Sequence[Mapping[str, Any]],
    **fit_params: Any,
) -> Any:
    """Call `__sklearn_multifit__`, and check the shape of its result.

    Parameters
    ----------
    estimator : SupportsMultifit
        With the parameters that all candidates share.
    X, y : array-like
        All rows and targets.
    splits : sequence of (train, test)
        Index arrays.
    candidates : sequence of dict
        Values of some of `__sklearn_multifit_params__`.
    **fit_params : dict
        What `fit` takes besides.

    Returns
    -------
    models : list of list, or NotImplemented
        ``models[c][s]`` is a fitted estimator, or the exception that its fit raised.

    Raises
    ------
    ValueError
        If there is not one model per candidate and split.

    Examples
    --------
    >>> from gpuml.protocol import multifit
    >>> class Lazy:
    ...     __sklearn_multifit_params__ = ("alpha",)
    ...
    ...     def __sklearn_multifit__(self, X, y, splits, candidates):
    ...         return NotImplemented
    >>> multifit(Lazy(), [[1.0]], [1.0], [([0], [])], [{"alpha": 1.0}])
    NotImplemented
    """
    models = estimator.__sklearn_multifit__(X, y, splits, candidates, **fit_params)
    if models is NotImplemented:
        return models
    shape = [len(row) for row in models]
    if shape != [len(splits)] * len(candidates):
        raise ValueError(
            f"{type(estimator).__name__}.{METHOD} must return {len(candidates)} lists (one per "
            f"candidate) of {len(splits)} models (one per split), got lists of lengths {shape}."
        )
    return models


def fit_candidates(
    estimator: Any,
    X: Any,
    y: Any,
    splits: Sequence[tuple[Any, Any]],
    candidates: Sequence[Mapping[str, Any]],
    *,
    clone: Callable[[Any], Any] = deepcopy,
) -> list[list[Any]]:
    """Fit all candidates on all splits: in groups where the estimator can, else one by one.

    Parameters
    ----------
    estimator : object
        Unfitted, with `set_params` and `fit`. It stays as it is.
    X, y : array-like
        All rows and targets, which index arrays can index.
    splits : sequence of (train, test)
        Index arrays, as a splitter yields them.
    candidates : sequence of dict
        Parameters by name.
    clone : callable, default=copy.deepcopy
        Returns an unfitted copy of an estimator, such as `sklearn.base.clone`.

    Returns
    -------
    models : list of list
        ``models[c][s]`` is a fitted estimator, or the exception that its fit raised.

    Raises
    ------
    ValueError
        If `__sklearn_multifit__` does not return one model per candidate and split.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import KFold
    >>> from gpuml.protocol import fit_candidates
    >>> X, y = load_diabetes(return_X_y=True)
    >>> splits = list(KFold(5).split(X))
    >>> models = fit_candidates(Ridge(), X, y, splits, [{"alpha": 0.1}, {"alpha": 1.0}])
    >>> len(models), len(models[0])
    (2, 5)
    """
    names = estimator.__sklearn_multifit_params__ if supports_multifit(estimator) else ()
    models: list[list[Any]] = [[] for _ in candidates]
    for group in group_candidates(candidates, names):
        common = clone(estimator).set_params(**group.shared)
        batch: Any = NotImplemented
        if names:
            batch = multifit(common, X, y, splits, group.varying)
        if batch is NotImplemented:
            batch = [
                [
                    _fitted(clone(common).set_params(**own), X[train], y[train])
                    for train, _ in splits
                ]
                for own in group.varying
            ]
        for position, row in zip(group.positions, batch, strict=True):
            models[position] = list(row)
    return models


def _fitted(model, X, y):
    try:
        return model.fit(X, y)
    except Exception as error:  # it takes the place of the model
        return error
