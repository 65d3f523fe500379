"""Docstrings of classes that do on a cluster what gpuml's class of the same name does."""

import inspect
from typing import Any


def of_gpuml(kind: type) -> Any:
    """The class of gpuml that a class of this package derives from."""
    return next(k for k in kind.__mro__ if k.__module__.startswith("gpuml."))


def docstring_of_gpuml(kind: type) -> str:
    """The docstring of that class; empty under python -OO."""
    return inspect.cleandoc(of_gpuml(kind).__doc__ or "")


def name_on_one_device(kind: type) -> str:
    """The name by which users import that class."""
    return ".".join((*of_gpuml(kind).__module__.split(".")[:2], kind.__name__))


def with_sections(kind: type, head: str, examples: str, more_parameters: str = "") -> str:
    """A docstring with a head and examples, and between them all other sections of gpuml's class.

    Its parameters are followed by others.
    """
    sections = docstring_of_gpuml(kind).partition("\nParameters\n")[2]
    sections = sections.partition("\nExamples\n")[0]
    parameters, mark, others = sections.partition("\nAttributes\n")
    also = "See Also\n--------\n"
    others = others.replace(also, f"{also}{name_on_one_device(kind)} : The same on one device.\n")
    sections = f"{parameters}{more_parameters}{mark}{others.rstrip()}"
    return f"{head.rstrip()}\n\nParameters\n{sections}\n{examples}"
