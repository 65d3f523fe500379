"""Models that travel: what pickles, joblib and skops keep of an estimator.

A state is saved in terms that every machine has (`gpuml._persistence.stored`), with a mark that
says who saved it. Copies within a process (`copy`, `deepcopy`, `clone`) have no
mark, and keep arrays where they are.
"""

import copy
import warnings
from collections.abc import Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from gpuml import __version__
from gpuml._persistence.stored import loading_device, must_load_to_gpu, packed, unpacked
from gpuml._persistence.tooltips import with_tooltips
from gpuml._persistence.twins import as_sklearn
from gpuml._settings.suggestions import asking
from gpuml.exceptions import VersionWarning

__all__ = [
    "Travels",
    "as_sklearn",
    "loading_device",
    "must_load_to_gpu",
    "packed",
    "unpacked",
]

# The key under which a state says who saved it. States without it are those of copies, and those
# of pickles from before there were marks.
MARK = "_gpuml"
# Grows with a change that versions before it would misread.
FORMAT = 1

_copying: ContextVar[bool] = ContextVar("gpuml_copying", default=False)


if TYPE_CHECKING:
    # Whose methods the mixin ends with. scikit-learn has no types, so this one has all attributes.
    from sklearn.base import BaseEstimator as _Theirs
else:
    _Theirs = object


class Travels(_Theirs):
    """Of an estimator that may be saved on one machine and loaded on another.

    A mixin before scikit-learn's class. Classes whose fitted state is not all in attributes that
    scikit-learn's class has too override `_host_state` or `_sklearn_state`.
    """

    if TYPE_CHECKING:

        def __init_subclass__(
            cls, auto_wrap_output_keys: tuple[str, ...] | None = ("transform",), **kwargs: Any
        ) -> None: ...  # of a transformer of scikit-learn

    def as_sklearn(self) -> Any:
        """Convert this estimator to scikit-learn's class, which needs neither gpuml nor a GPU.

        Returns
        -------
        estimator : estimator
            Of scikit-learn's class of this name, with the same parameters and, if this one is
            fitted, NumPy arrays for fitted attributes; see `gpuml.as_sklearn`.
        """
        return as_sklearn(self)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        # What is saved of an estimator, copied of it by `clone` and checked at every fit goes by
        # these names. scikit-learn takes them from a signature, which takes as long as a small fit.
        kind: Any = cls
        return list(_names_of(kind))

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator, and of those inside it as ``<step>__<parameter>``.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For an unknown name. The message lists the names that there are, and asks whether you
            meant the one that is most similar.
        """
        try:
            super().set_params(**params)
        except ValueError as error:
            raise asking(error, params, self) from None
        return self

    def _get_params_html(self, deep: bool = True, doc_link: str = "") -> Any:
        shown = super()._get_params_html(deep, doc_link)
        return with_tooltips(shown, type(self), "Parameters")

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        return with_tooltips(super()._get_fitted_attr_html(doc_link), type(self), "Attributes")

    def _host_state(self) -> dict[str, Any]:
        """What is saved, and what a loaded estimator is given: attributes by name."""
        return dict(super().__getstate__())

    def _sklearn_state(self) -> dict[str, Any]:
        """Attributes that scikit-learn's class is given, before they are converted."""
        return dict(vars(self))

    def __getstate__(self):
        if _copying.get():
            return dict(super().__getstate__())
        made = {"version": __version__, "sklearn": sklearn.__version__, "format": FORMAT}
        return {MARK: made, **packed(self._host_state())}

    def __setstate__(self, state):
        if MARK in state:
            _check_made(type(self).__name__, state[MARK])
            state = unpacked({name: value for name, value in state.items() if name != MARK})
        super().__setstate__(state)

    def __copy__(self):
        out = type(self).__new__(type(self))
        out.__setstate__(_plain_state(self))
        return out

    def __deepcopy__(self, memo):
        out = memo[id(self)] = type(self).__new__(type(self))
        out.__setstate__(copy.deepcopy(_plain_state(self), memo))
        return out


@lru_cache(maxsize=1024)
def _names_of(kind: Any) -> tuple[str, ...]:
    """Parameters of a class, as scikit-learn's class behind the mixin finds them."""
    return tuple(super(Travels, kind)._get_param_names())


def _plain_state(estimator):
    """The state of a copy, with arrays at their place."""
    token = _copying.set(True)
    try:
        return estimator.__getstate__()
    finally:
        _copying.reset(token)


def _check_made(name: str, made: Mapping[str, Any]) -> None:
    """Refuse a state that this version cannot read; warn about other versions."""
    if made["format"] > FORMAT:
        raise ValueError(
            f"This {name} was saved by gpuml {made['version']} in format {made['format']}, and "
            f"gpuml {__version__} reads formats up to {FORMAT}. Load it with gpuml "
            f"{made['version']} or later."
        )
    if made["version"] != __version__:
        warnings.warn(
            f"{name} was saved by gpuml {made['version']} and is loaded by gpuml {__version__}. "
            "Results may differ, or methods fail: check it, and save it again with this version.",
            VersionWarning,
            stacklevel=3,
        )
    if made["sklearn"] != sklearn.__version__:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=name,
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=made["sklearn"],
            ),
            stacklevel=3,
        )
