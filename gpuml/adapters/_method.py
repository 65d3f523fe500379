"""Methods of scikit-learn's classes, and calls of them by the names of their arguments."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

FITTING = ("fit", "fit_predict", "fit_transform")
# What scikit-learn's methods call the rows that they are given, as their first argument.
ROWS = ("X", "raw_documents", "X_test")


@dataclass(frozen=True)
class Call:
    """The arguments of one call: rows, and all others that were given, by name."""

    X: Any
    rest: Mapping[str, Any]

    def given(self, name: str) -> Any:
        return self.rest.get(name)


@dataclass(frozen=True)
class Method:
    """A method that scikit-learn's class defines.

    Attributes
    ----------
    name : str
    original : function
        Of scikit-learn.
    signature : inspect.Signature
    rows : str or None
        Its first argument, if that is rows of data.
    """

    name: str
    original: Callable[..., Any]
    signature: inspect.Signature
    rows: str | None

    @classmethod
    def of(cls, name: str, original: Callable[..., Any]) -> "Method":
        signature = inspect.signature(original)
        first = [*signature.parameters][1:2]
        return cls(name, original, signature, first[0] if first and first[0] in ROWS else None)

    @property
    def fits(self) -> bool:
        return self.name in FITTING

    @functools.cached_property
    def _open(self):
        """Name of the parameter that takes all further ones (`**params`), or None."""
        kinds = self.signature.parameters.values()
        return next((p.name for p in kinds if p.kind is p.VAR_KEYWORD), None)

    def bind(self, estimator: Any, args: tuple, kwargs: Mapping[str, Any]) -> Call:
        """The call with these arguments; TypeError if the method does not take them."""
        try:
            given = dict(self.signature.bind(estimator, *args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{type(estimator).__name__}.{self.name}() {error}") from None
        del given[next(iter(self.signature.parameters))]
        given |= given.pop(self._open, {}) if self._open else {}
        return Call(given.pop(self.rows, None) if self.rows else None, given)

    def call(self, estimator: Any, call: Call) -> Any:
        """scikit-learn's method with the arguments of a call."""
        rows = {self.rows: call.X} if self.rows else {}
        return self.original(estimator, **rows, **call.rest)
