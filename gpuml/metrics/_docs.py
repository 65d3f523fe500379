"""Sections of the docstrings of metrics that say the same for many of them.

A function's own docstring has its summary and formula, the decorator adds the rest by the names of
its parameters.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)

PARAMETERS = {
    "y_true": """y_true : array-like of shape (n_samples,)
    Correct labels.""",
    "y_pred": """y_true, y_pred : array-like of shape (n_samples,)
    Correct and predicted labels, of any array library. Counted where y_pred is.""",
    "y_proba": """y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
    Probabilities, of any array library: of the positive class, or of all in the order of the
    sorted labels.""",
    "sample_weight": """sample_weight : array-like of shape (n_samples,), default=None
    Weights w of the rows; None weighs each 1.""",
    "labels": """labels : array-like of shape (n_classes,), default=None
    All labels, sorted. None takes those that occur in y_true.""",
    "normalize": """normalize : bool, default=True
    Whether to divide by the sum of weights.""",
    "pos_label": """pos_label : int, float, bool or str, default=None
    The positive class; None is the larger one of two numbers.""",
}


def documented(
    returns: str,
    example: str,
    value: str,
    *,
    raises: str,
    warns: str = "",
    **own: str,
) -> Callable[[Function], Function]:
    """A decorator that adds sections to a function's docstring.

    Parameters
    ----------
    returns : str
        What is under Returns.
    example, value : str
        An expression with the function, and what it prints.
    raises, warns : str
        What is under Raises and Warns; no Warns where that is "".
    **own : str
        Descriptions of parameters in place of those in `PARAMETERS`. "" leaves one out, that
        another's description names too.
    """
    described = {**PARAMETERS, **own}

    def decorate(function):
        if function.__doc__:  # python -OO has none
            sections = {
                "Parameters": _parameters(function, described),
                "Returns": returns,
                "Raises": raises,
                "Warns": warns,
                "Examples": (
                    f">>> from gpuml.metrics import {function.__name__}\n>>> {example}\n{value}"
                ),
            }
            function.__doc__ = "\n\n".join(
                [inspect.cleandoc(function.__doc__), *_written(sections)]
            )
        return function

    return decorate


def _parameters(function, described):
    names = list(inspect.signature(function).parameters)
    if "y_pred" in names[:2]:
        names.remove("y_true")  # described with the predictions
    return "\n".join(filter(None, (described[name] for name in names)))


def _written(sections: Mapping[str, str]):
    for title, text in sections.items():
        if text:
            yield f"{title}\n{'-' * len(title)}\n{text}"
