"""A class is made of a row: scikit-learn's class, with a base that decides where work is done."""

import functools
import inspect
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from gpuml._sklearn import _AvailableIfDescriptor
from gpuml.adapters._base import Adapter
from gpuml.adapters._method import Method
from gpuml.adapters._row import Row

# What scikit-learn's classes do with parameters and metadata, not with data.
NOT_FORWARDED = (
    *("get_feature_names_out", "get_metadata_routing", "get_params"),
    *("set_output", "set_params"),
)


def build(row: Row, module: str, *mixins: type, **members: Any) -> type:
    """The public class of a row.

    Parameters
    ----------
    row : Row
    module : str
        `__name__` of the public module that binds the class to the name of `row.sk`.
    *mixins : type
        Bases that come first, for what the class does besides.
    **members : object
        Of the class.

    Returns
    -------
    cls : type
        A subclass of `Adapter` and of `row.sk`, with the same name, constructor and methods.

    Examples
    --------
    >>> from gpuml.adapters import build
    >>> from gpuml.adapters.rows.cluster import KMEANS
    >>> build(KMEANS, __name__)
    <class '...KMeans'>
    """
    names = {name: _forwarder(row.sk, name) for name in _methods(row.sk)}
    names |= {name: _attribute(name, prop) for name, prop in _properties(row.sk)}
    names |= {"_row": row, "__module__": module, "__doc__": _documented(row, module), **members}
    return type(row.sk.__name__, (*mixins, Adapter, row.sk), names)


def _methods(sk):
    """Public methods that scikit-learn defines, those under conditions (`available_if`) too."""
    for name in dir(sk):
        defined = inspect.getattr_static(sk, name)
        of_base = name in vars(BaseEstimator) or name in NOT_FORWARDED
        is_method = inspect.isfunction(defined) or isinstance(defined, _AvailableIfDescriptor)
        if is_method and not name.startswith("_") and not of_base:
            yield name


def _forwarder(sk, name):
    defined = inspect.getattr_static(sk, name)
    if isinstance(defined, _AvailableIfDescriptor):
        return available_if(defined.check)(_forwarded(Method.of(name, defined.fn)))
    return _forwarded(Method.of(name, defined))


def _forwarded(method):
    # Copy all that `functools.wraps` copies except `__module__`: its value shows that scikit-learn
    # does not read the rows.
    @functools.wraps(method.original, assigned=("__name__", "__qualname__", "__doc__"))
    def forwarded(self, *args, **kwargs):
        return self._run(method, args, kwargs)

    return forwarded


def _properties(sk):
    """Public properties for fitted attributes: what they compute is scikit-learn's."""
    for name in dir(sk):
        defined = inspect.getattr_static(sk, name)
        if isinstance(defined, property) and name.endswith("_") and not name.startswith("_"):
            yield name, defined


def _attribute(name, of_sk):
    def get(self):
        return self._fitted_attribute(name, of_sk.fget)

    return property(get, of_sk.fset, of_sk.fdel, of_sk.__doc__)


def _documented(row, module):
    """scikit-learn's documentation, without its examples (they show its own numbers and names)."""
    text = inspect.cleandoc(row.sk.__doc__ or "")
    head, _, _ = text.partition("\nExamples\n--------")
    first, _, rest = head.strip().partition("\n\n")
    lines = [first, "", *_on_a_gpu(row), "", rest, "", *_example(row, module)]
    return "\n".join(lines) + "\n"


def _on_a_gpu(row):
    # No section: numpydoc warns of those that it does not know wherever a notebook shows a model.
    yield "On a GPU:"
    if row.cuml is None:
        yield "cuML has no such estimator: scikit-learn does the work on the CPU."
        return
    yield f"`{row.cuml}` does the work. For parameters and data that it lacks, and the table lists,"
    yield "scikit-learn does."
    yield from row.notes
    yield from (f"There is no `{name}`: {why}." for name, why in row.absent.items())


def _example(row, module):
    yield from ("Examples", "--------")
    yield from (f">>> from {module} import {row.name}", f">>> {row.name}()", f"{row.name}()")
