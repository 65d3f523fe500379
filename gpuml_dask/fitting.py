"""Shared parts of this package's estimators: fits to rows on workers, and methods on such rows.

An estimator here is gpuml's class of the same name. Given rows on a cluster it fits them where they
are; its fitted attributes are NumPy arrays, so that it is cloned, pickled and used like any other.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from inspect import signature
from numbers import Number
from textwrap import fill
from typing import Any
from uuid import uuid4

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import TransformerMixin, clone, is_classifier
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import get_tags

from gpuml import config_context, get_config
from gpuml.data import NeedsAllRows
from gpuml.divided import HOST, DividedRows, Share, moved
from gpuml.divided.fitting import fit_divided, tell_gathered
from gpuml.exceptions import level_of_user
from gpuml.model_selection.warned import recorded, tell
from gpuml_dask import predict as blockwise
from gpuml_dask._dask import meta_of
from gpuml_dask._documents import docstring_of_gpuml, name_on_one_device, of_gpuml, with_sections
from gpuml_dask.client import the_client
from gpuml_dask.rows import blocks
from gpuml_dask.rows.lazy import client_of, lives_on_workers
from gpuml_dask.rows.placement import ALL, Table, place
from gpuml_dask.sums.columns import Find, fit_columns, fitted_attributes
from gpuml_dask.sums.divided import Spread, fetch, repeated

# The class after a mixin: mypy need not know it.
_Model: Any = object
ALIKE = TransformerMixin.fit_transform  # `fit`, then `transform`, wherever the rows are

ON_WORKERS = (
    "For NumPy, CuPy and other data of this process, this class works like `{one}`. If the rows "
    "are on a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of "
    "`gpuml_dask.place`), it fits them there: {how}. Fitted attributes are then NumPy arrays in "
    "this process, and the same for any division of the rows, up to rounding. Predictions and "
    "transformed rows are lazy dask arrays (`gpuml_dask.predict`). A "
    "`gpuml_dask.errors.ClusterError` is raised if there is no client, or if rows are lost that "
    "cannot be computed again."
)
EXAMPLE = """
Examples
--------
>>> import dask.array as da
>>> from distributed import Client
>>> from {module} import {name}
>>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
"""
# Examples of `documented`, by what they print: y, the model and the method are filled in.
SCORED = """\
>>> y = {}
>>> with Client(processes=False, dashboard_address=":0") as client:
...     model = {}.fit(X, y)
...     round(model.score(X, y), {})
{}
"""
APPLIED = """\
>>> with Client(processes=False, dashboard_address=":0") as client:
...     model = {}.fit(X)
...     model.{}(X).compute().shape
{}
"""
TRANSFORMED = APPLIED.format("{}", "transform", "(300, {})")


def documented(how: str, example: str) -> Callable[[type], type]:
    """A decorator that derives the docstring of a class from gpuml's class of the same name.

    `how` says how rows on workers are fitted; `example` has lines with rows X on workers.
    """

    def decorate(kind):
        head = docstring_of_gpuml(kind).partition("\nParameters\n")[0]
        before, formula, after = head.partition("\n\n.. math::")
        problem = before + formula + after.partition("\n\n")[0].rstrip(",\n")
        fits = fill(ON_WORKERS.format(one=name_on_one_device(kind), how=how), 100)
        examples = EXAMPLE.format(module=kind.__module__, name=kind.__name__) + example
        kind.__doc__ = with_sections(kind, f"{problem}\n\n{fits}", examples)
        return kind

    return decorate


class OnWorkers(_Model):
    """Methods for rows on a cluster; a mixin before one of gpuml's classes.

    `fit`, methods with a result for each row, `score` and `fit_transform` take rows on workers too.
    Their signatures and docstrings are those of gpuml's class. `of_columns` is the function of
    `gpuml_dask.sums.columns` that fits rows which need not be numbers, column by column; None for
    fits to numbers.
    """

    of_columns: Any = None  # mypy takes a function for a method

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if OnWorkers in cls.__bases__:  # subclasses of users have their own methods
            for name, there in METHODS.items():
                if name not in vars(cls) and getattr(cls, name, ALIKE) is not ALIKE:
                    setattr(cls, name, _or_on_workers(getattr(cls, name), there))

    def _fit_on_workers(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit rows of which at least some are on workers; a failed fit leaves all as it was."""
        if hasattr(self, "_validate_params"):
            self._validate_params()
        if not get_tags(self).target_tags.required:
            y = None
        elif y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        find: Find | None = self.of_columns
        numeric, memory = find is None, "auto" if find is None else ALL
        if numeric and blocks.is_frame(meta_of(X)):
            blocks.check_columns(meta_of(X))  # before anything is computed
        scalar = isinstance(sample_weight, Number)
        columns = {"sample_weight": None if scalar else sample_weight}
        with (
            the_client(client_of(X, y, sample_weight)) as client,
            place(X, y, columns, client=client, numeric=numeric, memory=memory) as table,
            _weighted(table, sample_weight) if scalar else nullcontext(table) as table,
        ):
            check_names(table.columns_names)
            fitted = fit_table(bare(self), table, find)
        return self._become(fitted)

    def _become(self, fitted: Mapping[str, Any]) -> Any:
        # Of an earlier fit: names of columns, so that rows without names would raise a warning, and
        # a model of cuML, which would hide this one.
        for name in ("feature_names_in_", "_fitted", "_lifted"):
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)
        return self


def _or_on_workers(theirs: Callable[..., Any], there: Callable[..., Any]) -> Callable[..., Any]:
    """A method of gpuml's class; with rows on workers ``there(self, X, y, sample_weight)``."""
    bind = signature(theirs).bind

    @wraps(theirs)
    def method(self, *args, **kwargs):
        given = bind(self, *args, **kwargs).arguments
        rows = [given.get(name) for name in ("X", "y", "sample_weight")]
        if any(map(lives_on_workers, rows)):
            return there(self, *rows)
        return theirs(self, *args, **kwargs)

    return method


def _fits_and(method: str) -> Callable[..., Any]:
    def fits_and(self, X, y, sample_weight):
        given = {"y": y, "sample_weight": sample_weight}
        fitted = self.fit(X, **{name: x for name, x in given.items() if x is not None})
        return getattr(fitted, method)(X)

    return fits_and


def _by_block(method: str) -> Callable[..., Any]:
    return lambda self, X, *_: blockwise.by_block(self, method, X)


# What methods of gpuml's class do with rows on workers.
METHODS: dict[str, Callable[..., Any]] = {
    "fit": lambda self, *rows: self._fit_on_workers(*rows),
    "fit_transform": _fits_and("transform"),
    "fit_predict": _fits_and("predict"),
    "score": blockwise.score,
    **{
        name: _by_block(name)
        for name in (
            *("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba"),
            *("decision_function", "transform", "inverse_transform", "score_samples"),
        )
    },
}


def _weighted(table: Table, weight: Any) -> Table:
    """The rows of a table, with equal weights."""
    weights = np.full(table.n_rows, weight, dtype=np.float64)
    return place(table.X, table.y, {"sample_weight": weights}, client=table.client)


def _tell_of_column(estimator: Any, y_shape: tuple[int, ...] | None) -> None:
    """Warn about a column vector of labels, as scikit-learn does."""
    if is_classifier(estimator) and y_shape is not None and y_shape[1:] == (1,):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
            stacklevel=level_of_user(),
        )


def check_names(names: Sequence[Any] | None) -> None:
    """Refuse column names as scikit-learn does: duplicates, or not all strings."""
    if names is None:
        return
    several = sorted({str(name) for name in names if list(names).count(name) > 1})
    if several:
        raise ValueError(f"Names of columns must be unique, got several of {several}.")
    kinds = sorted({type(name).__name__ for name in names})
    if len(kinds) > 1 and any(isinstance(name, str) for name in names):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {kinds} as feature name / column name types. If you want feature names to "
            "be stored and validated, you must convert them all to strings, by using X.columns = "
            "X.columns.astype(str) for example. Otherwise you can remove feature / column names "
            "from your input data, or convert them all to a non-string data type."
        )


def bare(estimator: Any) -> Any:
    """The class of gpuml with the same parameters: workers need not import this package's."""
    return of_gpuml(type(estimator))(**clone(estimator).get_params(deep=False))


def fit_table(estimator: Any, table: Table, find: Find | None = None) -> dict[str, Any]:
    """Fitted attributes, in CPU memory, of an estimator on the rows of a table.

    Rows stay divided where sums over them, or over their columns (`find`), are enough; else they
    are gathered on one worker, and the fit is done there.
    """
    weight = "sample_weight" if "sample_weight" in table.names else None
    name = type(estimator).__name__
    label = f"{name} of {table.n_rows} rows"
    try:
        if find is not None:
            return fit_columns(estimator, table, find, label)
        options = weight is not None, list(warnings.filters)
        fitted, found = Spread(table, label, weight).run(_fit_rows, estimator, *options)
        _tell_of_column(estimator, table.y_shape)  # whole rows are told of where they are fitted
    except NeedsAllRows as error:
        tell_gathered(name, table.n_rows, error)
        fitted, found = repeated(table, _fit_whole, estimator, table, label)
    tell(found, set())
    return fitted


def _fit_rows(rows: DividedRows, estimator, weighted, filters):
    with recorded(filters) as found:
        try:
            fitted = fit_divided(estimator, rows, weighted=weighted)
        except NeedsAllRows:
            raise
        except ValueError as error:
            if not get_tags(estimator).input_tags.allow_nan:
                raise
            # Sums do not support missing values, but this estimator does. What it refuses, it
            # refuses also without them, and then the rows stay where they are.
            filled = replace(rows, shares=rows.shares.map(_zeros_for_missing))
            fit_divided(estimator, filled, weighted=weighted)
            raise NeedsAllRows("Sums over rows do not support missing values.") from error
    return moved(fitted, HOST), found


def _zeros_for_missing(share: Share) -> Share:
    xp = array_namespace(share.X)
    if not xp.isdtype(share.X.dtype, "real floating"):
        return share
    return share._replace(X=xp.where(xp.isnan(share.X), xp.zeros_like(share.X), share.X))


def _fit_whole(estimator, table: Table, label: str):
    what = estimator, table.names, get_config(), list(warnings.filters)
    key = f"fit-{label}-{uuid4().hex}".replace(" ", "-")
    task = table.client.submit(_fit_one, *what, *map(table.whole, table.names), key=key)
    return fetch(table.client, [task])[0]


def _fit_one(estimator, names, settings: Mapping, filters, *columns):
    given = dict(zip(names, columns, strict=True))
    X, y = given.pop("X"), given.pop("y", None)
    with config_context(**settings), recorded(filters) as found:
        model = estimator.fit(X, **given) if y is None else estimator.fit(X, y, **given)
    return moved(fitted_attributes(model), HOST), found
