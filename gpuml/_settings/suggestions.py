"""What was probably meant by a misspelt name: "Did you mean 'ridge__alpha'?"."""

from collections.abc import Collection
from difflib import get_close_matches

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
