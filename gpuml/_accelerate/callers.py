"""The caller of a name: user code, or scikit-learn, an installed package, the standard library."""

import dis
import os
import sys
from collections.abc import Iterable
from functools import cache
from types import FrameType

# They work on both classes, and would call themselves.
NEVER = ("sklearn", "gpuml", "gpuml_dask")
INSTALLED = frozenset({"site-packages", "dist-packages"})
STANDARD_LIBRARY = os.path.dirname(os.__file__)

# What `module.name` and `from module import name` are compiled to, by any version of Python.
READS = frozenset(
    dis.opmap[name]
    for name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "IMPORT_STAR", "CALL_INTRINSIC_1")
    if name in dis.opmap
)
CACHE = dis.opmap["CACHE"]


def is_user_code(frame: FrameType, packages: Iterable[str]) -> bool:
    """Whether a frame runs code of the user, or of one of the packages."""
    name = str(frame.f_globals.get("__name__", "__main__"))
    if name == "__main__" or is_within(name, packages):
        return True
    return _is_of_users(name, str(frame.f_globals.get("__file__") or ""))


def reads_attribute(frame: FrameType) -> bool:
    """Whether the line that runs reads an attribute, or imports it.

    A function in C, such as `pickle.loads`, has no frame: what it asks for seems to be asked for by
    its caller, but there the instruction that runs is a call.
    """
    code, last = frame.f_code.co_code, frame.f_lasti
    while code[last] == CACHE:  # Python 3.12 may be past it, in what it keeps behind instructions
        last -= 2
    return code[last] in READS


def is_within(name: str, prefixes: Iterable[str]) -> bool:
    """Whether a dotted name is one of the prefixes, or below one."""
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


@cache
def _is_of_users(name: str, file: str) -> bool:
    top = name.partition(".")[0]
    if top in NEVER:  # wherever they lie: their developers install them from a checkout
        return False
    if not file:  # a notebook, or `exec`
        return top not in sys.stdlib_module_names
    folder, _ = os.path.split(os.path.abspath(file))
    in_standard_library = is_below(folder, STANDARD_LIBRARY)
    return not in_standard_library and INSTALLED.isdisjoint(folder.split(os.sep))


def is_below(folder: str, root: str) -> bool:
    """Whether a folder is another one, or in it."""
    return folder == root or folder.startswith(os.path.join(root, ""))
