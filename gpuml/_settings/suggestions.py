"""What was probably meant by a misspelt name: "Did you mean 'ridge__alpha'?"."""

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
    >>> did_you_mean("nonsense", ["alpha"])
    ''
    """
    alone = name.rpartition("__")[2]
    found = [each for each in known if each.endswith(f"__{name}") or each == alone]
    found = found or get_close_matches(name, known, n=1, cutoff=ALIKE)
    return f" Did you mean {min(found, key=len)!r}?" if found else ""


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
