"""What the estimators of this package share: fits to rows on workers, and what follows on them.

An estimator here is gpuml's class of the same name. Given data in this process it does what that
does. Given rows on a cluster it fits them where they are; its fitted attributes are the same, as
NumPy arrays, so that it is cloned, pickled and used like any other.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from numbers import Number
from textwrap import fill
from typing import Any, Self
from uuid import uuid4

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import clone, is_classifier
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import get_tags

from gpuml import config_context, get_config
from gpuml.data import NeedsAllRows
from gpuml.divided import HOST, DividedRows, Share, moved
from gpuml.divided.fitting import fit_divided
from gpuml_dask import predict as blockwise
from gpuml_dask._dask import meta_of
from gpuml_dask.client import the_client
from gpuml_dask.rows import blocks
from gpuml_dask.rows.lazy import client_of, lives_on_workers
from gpuml_dask.rows.placement import Table, place
from gpuml_dask.searching.warned import recorded, tell
from gpuml_dask.sums.divided import fetch, repeated, run_divided

# The class that a mixin is put before: mypy need not know which.
_Model: Any = object

ON_WORKERS = (
    "Given NumPy, CuPy or other data of this process, it is `{one}`. Given rows on a cluster (a "
    "dask array, a dask or dask-cudf DataFrame, futures, handles of `gpuml_dask.place`) it fits "
    "them where they are: {how}. Fitted attributes are then NumPy arrays in this process, whatever "
    "the rows were. They do not depend on how rows are divided, but for rounding."
)
EXAMPLE = """
Examples
--------
>>> import dask.array as da
>>> from distributed import Client
>>> from {module} import {name}
>>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
"""
TRANSFORMED = """\
>>> with Client(processes=False, dashboard_address=":0") as client:
...     step = {}.fit(X)
...     step.transform(X).compute().shape
(300, {})
"""


def documented(how: str, example: str) -> Callable[[type], type]:
    """A decorator that writes the docstring of a class from that of gpuml's of the same name.

    Parameters
    ----------
    how : str
        How rows on workers are fitted.
    example : str
        Lines with rows X on workers, and what they print.
    """

    def decorate(kind):
        theirs = inspect.cleandoc(_of_gpuml(kind).__doc__ or "")  # python -OO has none
        head, _, sections = theirs.partition("\nParameters\n")
        before, formula, after = head.partition("\n\n.. math::")
        problem = before + formula + after.partition("\n\n")[0].rstrip(",\n")
        module, name = kind.__module__, kind.__name__
        one = f"{module.replace('gpuml_dask', 'gpuml')}.{name}"
        also = "See Also\n--------\n"
        kind.__doc__ = "\n".join(
            (
                f"{problem}\n",
                fill(ON_WORKERS.format(one=one, how=how), 100),
                "\nParameters",
                sections.partition("\nExamples\n")[0].replace(
                    also, f"{also}{one} : The same on one device.\n"
                ),
                EXAMPLE.format(module=module, name=name) + example,
            )
        )
        return kind

    return decorate


def _of_gpuml(kind):
    """The class of gpuml that a class of this package derives from."""
    return next(k for k in kind.__mro__ if k.__module__.startswith("gpuml."))


class FitsOnWorkers(_Model):
    """`fit` of rows on a cluster; a mixin before one of gpuml's classes."""

    def _fit_on_workers(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit rows of which at least X is on workers; a failed fit leaves all as it was."""
        if hasattr(self, "_validate_params"):
            self._validate_params()
        if y is None and get_tags(self).target_tags.required:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        _check_kinds(X)
        scalar = isinstance(sample_weight, Number)
        columns = {} if sample_weight is None or scalar else {"sample_weight": sample_weight}
        with (
            the_client(client_of(X, y, sample_weight)) as client,
            place(X, y, columns, client=client) as table,
            _weighted(table, sample_weight) if scalar else nullcontext(table) as table,
        ):
            _check_names(table.columns_names)
            _tell_of_column(self, table.y_shape)
            fitted = fit_table(_bare(self), table)
        # Names of an earlier fit to a frame: rows without names would be warned of ever after.
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(fitted)
        return self


class FitsTargets(FitsOnWorkers):
    """`fit` of models of targets."""

    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), here or on workers
            Chunk sizes may be unknown, and columns may be in several chunks.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), here or on workers
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For what gpuml's class refuses. A failed fit leaves the estimator as it was.
        TypeError
            For columns of dates or times.
        gpuml_dask.errors.ClusterError
            If there is no client, the cluster has no workers, or rows were lost that nobody can
            make again.
        """
        if any(map(lives_on_workers, (X, y, sample_weight))):
            return self._fit_on_workers(X, y, sample_weight)
        return super().fit(X, y, sample_weight)


class FitsSparseModels(FitsOnWorkers):
    """`fit` of models with an l1 penalty."""

    def fit(self, X, y, sample_weight=None, check_input=True) -> Self:
        """Fit the model, as `LinearRegression.fit`; rows on workers are checked in any case."""
        if any(map(lives_on_workers, (X, y, sample_weight))):
            return self._fit_on_workers(X, y, sample_weight)
        return super().fit(X, y, sample_weight, check_input)


class FitsRows(FitsOnWorkers):
    """`fit` of transformers that look at rows alone."""

    def fit(self, X, y=None) -> Self:
        """Fit to rows, here or on workers, as `LinearRegression.fit`; y is without effect."""
        if lives_on_workers(X):
            return self._fit_on_workers(X)
        return super().fit(X, y)


def _weighted(table: Table, weight: Any) -> Table:
    """The rows of a table, all of one weight."""
    weights = np.full(table.n_rows, weight, dtype=np.float64)
    return place(table.X, table.y, {"sample_weight": weights}, client=table.client)


def _check_kinds(X: Any) -> None:
    """Complain of columns of dates before anything is computed, where X tells its dtypes."""
    frame = meta_of(X)
    if blocks.is_frame(frame):
        blocks.check_columns(frame)


def _tell_of_column(estimator: Any, y_shape: tuple[int, ...] | None) -> None:
    """Warn of labels in a column as scikit-learn does."""
    if is_classifier(estimator) and y_shape is not None and y_shape[1:] == (1,):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples,), for example using y.ravel().",
            DataConversionWarning,
            stacklevel=4,
        )


def _check_names(names: Sequence[Any] | None) -> None:
    """Complain of names of columns as scikit-learn does: several of one, or not all strings."""
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


def _bare(estimator):
    """The class of gpuml with the same parameters: workers need not know ours."""
    return _of_gpuml(type(estimator))(**clone(estimator).get_params(deep=False))


def fit_table(estimator: Any, table: Table) -> dict[str, Any]:
    """Fitted attributes, on the host, of an estimator on the rows of a table.

    Rows stay divided where sums over them are enough; else they are gathered on one worker, and the
    fit is done there.
    """
    weight = "sample_weight" if "sample_weight" in table.names else None
    name = type(estimator).__name__
    label = f"{name} of {table.n_rows} rows"
    try:
        filters = list(warnings.filters)
        fitted, found = run_divided(
            table, _fit_rows, estimator, weight is not None, filters, label=label, weight=weight
        )
    except NeedsAllRows:
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
            # Sums over rows take no missing values, but this estimator does. What it refuses, it
            # refuses also without them, and then the rows stay where they are.
            fit_divided(estimator, _without_missing(rows), weighted=weighted)
            raise NeedsAllRows("Sums over rows take no missing values.") from error
    return moved(fitted, HOST), found


def _without_missing(rows: DividedRows) -> DividedRows:
    return replace(rows, shares=rows.shares.map(_zeros_for_missing))


def _zeros_for_missing(share: Share) -> Share:
    xp = array_namespace(share.X)
    if not xp.isdtype(share.X.dtype, "real floating"):
        return share
    return share._replace(X=xp.where(xp.isnan(share.X), xp.zeros_like(share.X), share.X))


def _fit_whole(estimator, table: Table, label: str):
    """Attributes of a fit of all rows on one worker."""
    columns = [table.whole(name) for name in table.names]
    task = table.client.submit(
        _fit_one,
        estimator,
        table.names,
        get_config(),
        list(warnings.filters),
        *columns,
        key=f"fit-{label}".replace(" ", "-") + f"-{uuid4().hex}",
        pure=False,
    )
    return fetch(table.client, [task])[0]


def _fit_one(estimator, names, settings: Mapping, filters, *columns):
    given = dict(zip(names, columns, strict=True))
    X, y = given.pop("X"), given.pop("y", None)
    with config_context(**settings), recorded(filters) as found:
        model = estimator.fit(X, **given) if y is None else estimator.fit(X, y, **given)
    fitted = {n: v for n, v in vars(model).items() if n not in model.get_params(deep=False)}
    return moved(fitted, HOST), found


class Predicts(_Model):
    """`predict` and `score` of rows on workers, block by block; a mixin."""

    def predict(self, X):
        """Predict; of rows on workers lazily, block by block (see `gpuml_dask.predict`)."""
        return blockwise.predict(self, X) if lives_on_workers(X) else super().predict(X)

    def score(self, X, y, sample_weight=None):
        """The score of gpuml's class of this name; of rows on workers from sums of their blocks."""
        if any(map(lives_on_workers, (X, y, sample_weight))):
            return blockwise.score(self, X, y, sample_weight)
        return super().score(X, y, sample_weight)


class Classifies(Predicts):
    """What classifiers say of rows on workers; a mixin."""

    def decision_function(self, X):
        """Decision values; of rows on workers lazily, block by block."""
        if lives_on_workers(X):
            return blockwise.decision_function(self, X)
        return super().decision_function(X)


class Transforms(_Model):
    """`transform` of rows on workers, block by block; a mixin."""

    def transform(self, X, *args, **kwargs):
        """Transform; of rows on workers lazily, block by block (see `gpuml_dask.predict`)."""
        if lives_on_workers(X):
            return blockwise.transform(self, X)
        return super().transform(X, *args, **kwargs)

    def inverse_transform(self, X, *args, **kwargs):
        """Undo `transform`; of rows on workers lazily, block by block."""
        if lives_on_workers(X):
            return blockwise.inverse_transform(self, X)
        return super().inverse_transform(X, *args, **kwargs)

    def fit_transform(self, X, y=None, **params):
        """Fit, then transform the same rows; of rows on workers the second part is lazy."""
        if lives_on_workers(X):
            return self.fit(X, y, **params).transform(X)
        return super().fit_transform(X, y, **params)
