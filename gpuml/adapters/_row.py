"""The table entry of an estimator, a `Row`, and helpers to write rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import all_finite
from gpuml.adapters._conversion import Conversion


class UnsupportedHere(Exception):
    """The engine cannot do it; the text says why, to end a sentence "cuML has no ...".

    `library` is who was meant to do it.
    """

    def __init__(self, reason: str = "", library: str = "cuML"):
        super().__init__(reason)
        self.library = library

    @property
    def clause(self) -> str:
        return f"{self.library} has no {self}"


class NotFinite(Exception):
    """Rows hold nan or inf, as their fit found out."""


class NotConvertible(RuntimeError):
    """A model that cuML fitted has no counterpart in scikit-learn."""


@dataclass(frozen=True)
class Data:
    """Checked input of `fit`, and facts about it for rows.

    Attributes
    ----------
    X : array (n, p), sparse matrix or list of str
        In the library and on the device of the user's X; floating.
    y : array or None
        Targets as numbers; of a classifier codes 0..k-1 of its classes.
    weight : array (n,) or None
    rest : mapping of str to object
        Further arguments of `fit`, as they were given.
    classes : array (k,) or None
        Of a classifier: the labels, sorted.
    sparse : bool
    """

    X: Any
    y: Array | None = None
    weight: Array | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)
    classes: Any = None
    sparse: bool = False

    @property
    def n_rows(self) -> int:
        return self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)

    @property
    def n_features(self) -> int:
        """Columns of X; 0 for texts."""
        return self.X.shape[1] if hasattr(self.X, "shape") else 0

    @property
    def n_outputs(self) -> int:
        """Columns of the target; 0 without one."""
        if self.y is None:
            return 0
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 for other targets."""
        return 0 if self.classes is None else self.classes.shape[0]

    @cached_property
    def has_nan(self) -> bool:
        """Whether dense X has nan (rows never need to know about inf)."""
        if self.sparse or not hasattr(self.X, "shape"):
            return False
        return not all_finite(self.X, namespace(self.X))


@dataclass(frozen=True)
class Refusal:
    """A case that cuML does not do as scikit-learn does.

    Attributes
    ----------
    of : callable (params, data) -> bool
        Whether this is the case. `data` is None where `needs_data` is False.
    reason : str
        Ends the sentence "cuML has no ...".
    parameter : str or None
        A parameter to name with its value in place of the reason.
    needs_data : bool
        Whether the case can be told from parameters alone.
    """

    of: Callable[[Mapping[str, Any], Any], bool]
    reason: str = ""
    parameter: str | None = None
    needs_data: bool = False

    def text(self, params: Mapping[str, Any]) -> str:
        if self.parameter is None:
            return self.reason
        return f"{self.parameter}={params[self.parameter]!r}"


def when(test: Callable[[Mapping[str, Any], Data], bool], reason: str) -> Refusal:
    """Refuse by parameters and data: ``when(lambda p, d: d.n_classes > 2, "more classes")``."""
    return Refusal(test, reason, needs_data=True)


def when_set(test: Callable[[Mapping[str, Any]], bool], reason: str) -> Refusal:
    """Refuse by parameters alone: ``when_set(lambda p: callable(p["init"]), "callable init")``."""
    return Refusal(lambda params, data: test(params), reason)


def only(name: str, *values: Any, or_array: bool = False) -> Refusal:
    """Refuse every value of a parameter but these (and arrays, if so)."""

    def refused(params, data):
        value = params[name]
        if hasattr(value, "__array__") and _n_axes(value) > 0:
            return not or_array
        return not any(_same(value, known) for known in values)

    return Refusal(refused, parameter=name)


def _n_axes(value):
    # Some objects with `__array__` forbid NumPy's functions.
    return value.ndim if hasattr(value, "ndim") else np.asarray(value).ndim


def unset(name: str, default: Any = None) -> Refusal:
    """Refuse a parameter that is set: neither None, nor False, nor its default."""
    return only(name, None, False, default)


def _same(value, known):
    # 0 == False in Python: a parameter of 0 is set, unless its default is 0.
    if isinstance(known, bool) or known is None:
        return value is known or (isinstance(value, np.bool_) and value == known)
    if callable(value) or callable(known):
        return value is known
    return not isinstance(value, bool | np.bool_) and bool(value == known)


def no_changes(params: Mapping[str, Any], data: Data) -> Mapping[str, Any]:
    """The converter for equal parameters: no changes."""
    return {}


def no_checks(params: Mapping[str, Any], data: Data) -> None:
    """Nothing is wrong that scikit-learn's validation lets pass."""


def no_use_checks(model: Any, method: str, X: Any, arguments: Mapping[str, Any]) -> None:
    """Nothing is wrong with checked rows that cuML does not find itself."""


def nothing_after_fit(model: Any, params: Mapping[str, Any]) -> None:
    """CuML says all that scikit-learn says after a fit."""


def one_pass(n_rows: int, n_features: int, params: Mapping[str, Any]) -> float:
    """Bytes of float64 rows."""
    return 8.0 * n_rows * n_features


@dataclass(frozen=True)
class Row:
    """One estimator of the table; an adapter is built of it by `gpuml.adapters.build`.

    Attributes
    ----------
    sk : type
        The class whose face it has: scikit-learn's (or a subclass of `BaseEstimator` with the
        signatures of another library's).
    cuml : str or None
        Such as "cuml.cluster.KMeans"; None if scikit-learn does all of it.
    work : callable (n_rows, n_features, params) -> float
        Bytes that `fit` reads on a CPU, all passes counted: what `device="auto"` decides by.
    use_work : callable (n_rows, n_features, params) -> float
        The same of `predict` and its like.
    methods : tuple of str
        Besides `fit`: methods that cuML has with scikit-learn's meaning. `fit_predict` need not be
        there (it is `labels_` if that is light, else `predict`); `fit_transform` only where cuML's
        own is to be called.
    refuses : tuple of Refusal
        Looked at in this order before cuML is asked; the first one that holds is the reason.
    checks : callable (params, data)
        Raises scikit-learn's error for what cuML finds late or not at all.
    changes : callable (params, data) -> mapping
        Parameters of cuML that differ from those that the conversion makes. `params` are plain,
        and X is on the GPU already.
    use_checks : callable (model, method, X, arguments)
        The same of other methods than `fit`, of cuML's fitted model; raises `UnsupportedHere` for
        what it cannot do with these checked rows (None where the method was given none).
    after_fit : callable (model, params)
        Says what scikit-learn says after a fit, of cuML's fitted model: warnings of convergence.
    sparse : bool
        Whether cuML takes CSR matrices.
    nan : bool
        Whether cuML takes nan in X where scikit-learn does.
    infinite : bool
        Whether scikit-learn takes inf in X: such rows fall back.
    finds_infinite : bool
        Whether `fit` reads the rows anyway, and raises `NotFinite` then: rows of a GPU are not
        looked at before.
    negative_weight : bool
        Whether cuML takes negative weights as scikit-learn does: else such fits fall back.
    flat_y : bool
        Whether a regressor takes a target of one column as a vector, with a warning. Else it keeps
        the column, and predicts one.
    float32_only : bool
        Whether cuML computes in float32 whatever X is.
    pooled : bool
        Whether cuML is faster with a pool of memory, and was seen to be as right with one.
    optional_y : bool
        Whether `fit` of what is neither classifier nor regressor hands a target on to cuML.
    mixin_score : bool
        Whether scikit-learn's class has a `score` of its own that is its mixin's all the same:
        accuracy, or R^2, of what `predict` gives.
    light : tuple of str
        Fitted attributes with the same name and meaning on cuML's model; read off it. All others
        need the conversion of the whole model.
    kept : tuple of str
        Fitted attributes that only cuML's model has: they travel beside the converted one.
    absent : mapping of str to str
        Attributes that there are none of after a fit on a GPU, and why.
    dtypes : mapping of str to str
        scikit-learn's dtype of integer results, by attribute or method, where cuML's differs; or
        of floating ones, where it is another than that of X.
    noise : str or None
        Regular expression, from the beginning, of a warning that parts of cuML give about each
        other: nobody hears it.
    convert : Conversion
        By default cuML's own `from_sklearn` and `as_sklearn`.
    notes : tuple of str
        What differs in results, as sentences: for the docs and the class docstring.
    intelex : str or None
        In place of `cuml`, in rows for the CPU: such as "sklearnex.cluster.DBSCAN".
    floats : str or None
        The dtype in which the engine is given rows; None is theirs.
    asked : bool
        Whether the engine works only where it is asked for by name: its models are others than
        scikit-learn's (trees, embeddings), or its fits are not faster.
    """

    sk: type
    cuml: str | None
    work: Callable[[int, int, Mapping[str, Any]], float]
    use_work: Callable[[int, int, Mapping[str, Any]], float] = one_pass
    methods: tuple[str, ...] = ()
    refuses: tuple[Refusal, ...] = ()
    checks: Callable[[Mapping[str, Any], Data], None] = no_checks
    changes: Callable[[Mapping[str, Any], Data], Mapping[str, Any]] = no_changes
    use_checks: Callable[[Any, str, Any, Mapping[str, Any]], None] = no_use_checks
    after_fit: Callable[[Any, Mapping[str, Any]], None] = nothing_after_fit
    sparse: bool = False
    nan: bool = False
    infinite: bool = False
    finds_infinite: bool = False
    negative_weight: bool = False
    flat_y: bool = True
    float32_only: bool = False
    pooled: bool = False
    optional_y: bool = False
    mixin_score: bool = False
    light: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    noise: str | None = None
    convert: Conversion = field(default_factory=Conversion)
    notes: tuple[str, ...] = ()
    intelex: str | None = None
    floats: str | None = None
    asked: bool = False

    def __post_init__(self):
        # Where cuml.accel was installed before, scikit-learn's names are bound to its proxies.
        object.__setattr__(self, "sk", getattr(self.sk, "_cpu_class", self.sk))

    @property
    def name(self) -> str:
        return self.sk.__name__

    @property
    def model(self) -> str | None:
        """Path of the class that does the work."""
        return self.cuml or self.intelex

    @property
    def library(self) -> str:
        """The name of the library, as users know it."""
        return "cuML" if self.intelex is None else "scikit-learn-intelex"

    @property
    def host_library(self) -> str:
        """The library that does the work instead."""
        of_sklearn = self.sk.__module__.startswith("sklearn.")
        return "scikit-learn" if of_sklearn else "umap-learn"

    def refuses_parameters(self, params: Mapping[str, Any]) -> str | None:
        """Why cuML does not do it whatever the data, or None."""
        if self.model is None:
            return self.name
        return next(
            (r.text(params) for r in self.refuses if not r.needs_data and r.of(params, None)), None
        )

    def refuses_data(self, params: Mapping[str, Any], data: Data) -> str | None:
        """Why cuML does not do it with this data, or None."""
        return next(
            (r.text(params) for r in self.refuses if r.needs_data and r.of(params, data)), None
        )
