"""Suggestions for misspelt names: "Did you mean 'ridge__alpha'?".

Constructors need none: from Python 3.13 on, the interpreter itself adds a suggestion to the
TypeError for an unknown argument. For older versions it would take a wrapper around every
`__init__`, which each `clone` would pay for.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

# How much alike names have to be, from 0 to 1.
ALIKE = 0.65


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A question to add to a message; empty if no known name is similar.

    Parameters of a pipeline have their step in front, which is easily forgotten.

    >>> did_you_mean("alpha", ["scaler", "ridge", "ridge__alpha"])
    " Did you mean 'ridge__alpha'?"
    >>> did_you_mean("alppha", ["scaler", "ridge", "ridge__alpha"])
    " Did you mean 'ridge__alpha'?"
    >>> did_you_mean("nonsense", ["alpha"])
    ''
    """
    alone = _last(name)
    found = [each for each in known if each.endswith(f"__{name}") or each == alone]
    found = found or get_close_matches(name, known, n=1, cutoff=ALIKE)
    if not found:
        close = get_close_matches(alone, {_last(each) for each in known}, n=1, cutoff=ALIKE)
        found = [each for each in known if _last(each) in close]
    return f" Did you mean {min(found, key=len)!r}?" if found else ""


def _last(name):
    """The name of a parameter, without steps."""
    return name.rpartition("__")[2]


def check_resource(resource: str, estimator: Any, others: Collection[str] = ()) -> None:
    """Raise scikit-learn's error, with a suggestion, for a resource that an adaptive search lacks.

    Parameters
    ----------
    resource : str
        A parameter of `estimator`, or one of `others`.
    estimator : estimator
    others : collection of str
        Resources that are no parameters, such as "n_samples".
    """
    known = (*others, *estimator.get_params())
    if resource not in known:
        name, meant = type(estimator).__name__, did_you_mean(resource, known)
        raise ValueError(
            f"Cannot use resource={resource} which is not supported by estimator {name}"
            f"{'.' if meant else ''}{meant}"
        )


def asking(error: ValueError, names: Iterable[str], estimator: Any) -> ValueError:
    """The error of `set_params` for a name that `estimator` lacks, with a question added.

    Where an estimator inside it has asked already, this question takes the place of that one: it
    has the name as the caller writes it, with its steps in front.

    Parameters
    ----------
    error : ValueError
        Given back as it is where the estimator has all of the names, or none is similar.
    names : iterable of str
        That were set.
    estimator : estimator
    """
    known = set(estimator.get_params())
    name = next((name for name in names if name not in known), None)
    meant = "" if name is None else did_you_mean(name, known)
    if not meant:
        return error
    text = getattr(error, "unasked", str(error))
    out = ValueError(f"{text}{meant}")
    out.unasked = text  # type: ignore[attr-defined]
    return out
