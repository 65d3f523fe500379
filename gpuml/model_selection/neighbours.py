"""Nearest neighbours that differ in number, radius and weights: the largest query answers all.

The k nearest rows are the first k of the K > k nearest, and the rows within a radius are among
those within a larger one. So each part of a fold needs one query, by the public `kneighbors` or
`radius_neighbors` of a model; scikit-learn's own methods then count votes, take means or compare
densities of the truncated result. If two rows are equally far, a smaller query may find another one
of them: rows that depend on such a tie are queried again.

For rows on a device, or a model fitted by cuML, `gpuml.solvers` computes votes and means.
"""

import sys
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cached_property, wraps
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier

from gpuml._sklearn import _num_samples
from gpuml.model_selection.candidates import QUERIED
from gpuml.model_selection.found_neighbours import Counted, Found, Within
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.one_fit import OneFit, is_count, of_sklearn, shallow
from gpuml.resampling.keys import estimator_key

# Names of classes, and the parameters in which models of one query may differ.
NEAREST = ("KNeighborsClassifier", "KNeighborsRegressor")
WITHIN = ("RadiusNeighborsClassifier", "RadiusNeighborsRegressor")
VARYING = {
    **dict.fromkeys(NEAREST, ("n_neighbors", "weights")),
    **dict.fromkeys(WITHIN, ("radius", "weights")),
    "LocalOutlierFactor": ("n_neighbors", "contamination"),
}


def is_of(estimator: Any, names: Collection[str]) -> bool:
    """Whether an estimator is of one of these classes, scikit-learn's or gpuml's; no subclass."""
    kind = type(estimator)
    # No import is needed: without the modules there is no such estimator.
    modules = (sys.modules.get(name) for name in ("sklearn.neighbors", "gpuml.neighbors"))
    return kind.__name__ in names and any(
        kind is getattr(module, kind.__name__, None) for module in modules
    )


def query_key(estimator: Any) -> Hashable | None:
    """A key, equal for models that one largest query answers; None for others."""
    if not is_of(estimator, VARYING):
        return None
    name = type(estimator).__name__
    if name in WITHIN:
        answered = _is_radius(estimator.radius)
    else:
        answered = is_count(estimator.n_neighbors)
    if not answered or not getattr(estimator, "novelty", True):
        return None  # its fit raises the error; without novelty it predicts no other rows
    return estimator_key(estimator, without=VARYING[name])


def _is_radius(value):
    return isinstance(value, int | float | np.number) and type(value) is not bool and value >= 0


def refused_number(model: Any, n_rows: int) -> str | None:
    """The reason why a larger query of so many training rows cannot answer a model, if any."""
    if model.n_neighbors > n_rows:
        return f"n_neighbors is more than the {n_rows} rows of a training set"
    if model.algorithm == "auto" and model.n_neighbors >= n_rows // 2:
        return (
            "algorithm='auto' uses brute force if n_neighbors is half of the rows of a "
            "training set or more; set algorithm='brute'"
        )
    return None


def is_host_model(fitted: Any) -> bool:
    """Whether a model is scikit-learn's, fitted to rows in CPU memory."""
    return "n_samples_fit_" in vars(fitted)  # adapters delegate this attribute


def _known(answer: tuple[Any, Any]) -> Callable[..., Any]:
    """A query that returns a known result for every input."""

    def query(X=None, n_neighbors=None, return_distance=True):
        return answer if return_distance else answer[1]

    return query


class OneQuery(OneFit):
    """The nearest rows of each part, found once for all models of a `query_key`.

    Attributes
    ----------
    names : collection of str
        Of the classes that have these models.
    query : str
        The method that finds neighbours.
    methods : tuple of str
        Those that predict by what it finds, and by nothing else.
    """

    names: ClassVar[Collection[str]] = NEAREST
    query: ClassVar[str] = "kneighbors"
    methods: ClassVar[tuple[str, ...]] = ("predict", "predict_proba")

    def __init__(self, fitted: Any, X: Any, y: Any, parts: Sequence[Any]):
        super().__init__(fitted, X, y, parts)
        self._on_host = is_host_model(fitted)
        self._found: dict[int, Any] = {}

    @classmethod
    def varying(cls, estimator: Any) -> tuple[str, ...]:
        """The number of neighbours or the radius, and parameters of votes."""
        return VARYING[type(estimator).__name__] if is_of(estimator, cls.names) else ()

    key = staticmethod(query_key)

    @staticmethod
    def refused_rows(model: Any, X: Any) -> str | None:
        """The reason why fewer neighbours cannot be read off more, if any."""
        return refused_number(model, _num_samples(X))

    @staticmethod
    def largest(models: Sequence[Any], X: Any) -> Any:
        """The model with the most neighbours."""
        return max(models, key=lambda model: model.n_neighbors)

    @staticmethod
    def words(names: Collection[str]) -> tuple[str, ...]:
        """Text: neighbours are searched once."""
        return (QUERIED,)

    def order(self, model: Any) -> Any:
        """The number of neighbours, so that votes are counted once."""
        return model.n_neighbors

    def refused(self, model: Any) -> str | None:
        """The reason why the query cannot answer a model, if any."""
        if self._on_host:
            return None
        if callable(model.weights):
            return "your own function of weights runs in CPU memory"
        several = is_classifier(model) and np.ndim(self.y) > 1
        return "votes for several targets are counted in CPU memory" if several else None

    def model(self, unfitted: Any) -> Any:
        """The fitted model that a fit of `unfitted` would give."""
        return shallow(self.fitted).set_params(**unfitted.get_params(deep=False))

    def answering(self, unfitted: Any) -> Any:
        """A model with the same predictions, from known neighbours."""
        model = self.model(unfitted)
        return self._read(model) if self._on_host else self._counted(model)

    def _read(self, model):
        """A model whose votes and means scikit-learn computes."""
        out = shallow(model)
        for method in self.methods:
            if hasattr(model, method):
                setattr(out, method, self._method(model, method))
        return out

    def _reads(self, model: Any, found: Any) -> Any:
        """scikit-learn's model, with a query that returns the known result."""
        reads = of_sklearn(model)
        setattr(reads, self.query, _known(found.of(model)))
        if (
            getattr(model, "weights", None) == "uniform"
            and getattr(model, "outputs_2d_", None) is False
        ):
            # Equal votes. With the name of the weights, brute force would count votes while it
            # searches.
            reads.weights = None
        return reads

    def _counted(self, model):
        """A model whose votes and means are computed where the rows are."""
        out = shallow(model)
        for method in ("predict", "predict_proba"):
            if hasattr(model, method):
                setattr(out, method, self._counting(getattr(model, method), method, model))
        return out

    def _counting(self, own, name, model):
        @wraps(own)  # scorers look at its name
        def method(X):
            found = self._of(X)
            return own(X) if found is None else getattr(found, name)(model)

        return method

    def _method(self, model: Any, name: str) -> Callable[[Any], Any]:
        own = getattr(model, name)

        @wraps(own)  # scorers look at its name
        def method(X):
            found = self._of(X)
            if found is None:
                return own(X)
            again = found.doubtful(model)
            whole = callable(getattr(model, "weights", None)) or len(again) == found.n_rows
            if len(again) and whole:
                return own(X)  # a user's weight function may combine rows
            known = getattr(self._reads(model, found), name)(X)
            return _replaced(known, again, own(rows_of(X, again))) if len(again) else known

        return method

    def _of(self, X: Any) -> "Found | None":
        part = self.part(X)
        if part is None:
            return None
        if part not in self._found:
            self._found[part] = self._find(X)
        return self._found[part]

    def _find(self, X: Any) -> Any:
        """The result of the largest query for some rows."""
        if self._on_host:
            return Found(self.fitted, self.X, X)
        return Counted(self.fitted, self.X, self.y, X)


class OneRadius(OneQuery):
    """The rows within the largest radius of each row of each part."""

    names = WITHIN
    query = "radius_neighbors"

    @staticmethod
    def refused_rows(model: Any, X: Any) -> str | None:
        """None: a fit does not depend on the radius."""
        return None

    @staticmethod
    def largest(models: Sequence[Any], X: Any) -> Any:
        """The model with the largest radius."""
        return max(models, key=lambda model: model.radius)

    def order(self, model: Any) -> Any:
        """A sort key that puts models with equal radius together."""
        return model.radius

    def _find(self, X: Any) -> Any:
        return Within(self.fitted, X)


class OneDensity(OneQuery):
    """Local outlier factors, from the nearest rows of training rows and of each part."""

    names = ("LocalOutlierFactor",)
    methods = ("predict", "decision_function", "score_samples")

    @cached_property
    def _training(self):
        return Found(self.fitted, self.X, None)

    @staticmethod
    def refused_rows(model: Any, X: Any) -> str | None:
        """The reason why fewer neighbours cannot be read off more, if any."""
        if model.n_neighbors >= _num_samples(X):
            return "n_neighbors is not less than the number of rows of a training set"
        return refused_number(model, _num_samples(X))

    def refused(self, model: Any) -> str | None:
        """Densities depend on which of several equally far training rows are found."""
        if len(self._training.doubtful(model)) == 0:
            return None
        return "some training rows are equally far away, so that their order depends on n_neighbors"

    def model(self, unfitted: Any) -> Any:
        """scikit-learn's own fit with the stored rows and the known neighbours."""
        model = super().model(unfitted)
        model.kneighbors = _known(self._training.of(unfitted))
        model.fit(self.fitted)
        del model.kneighbors
        return model


def _replaced(values: Any, rows: np.ndarray, others: Any) -> Any:
    """Values with replacements in some rows; several targets have a list of probabilities."""
    if isinstance(values, list):
        pairs = zip(values, others, strict=True)
        return [_replaced(each, rows, other) for each, other in pairs]
    values[rows] = others
    return values
