"""Public functions of metrics, made from scikit-learn's signatures and the texts here."""

import inspect
from collections.abc import Callable
from typing import Any

PARAMETERS = {
    "y_true": """y_true : array-like of shape (n_samples,)
    Correct labels.""",
    "y_pred": """y_true, y_pred : array-like of shape (n_samples,)
    Correct and predicted labels, in any array library. They are counted on the device of
    y_pred.""",
    "y_proba": """y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
    Probabilities, in any array library: those of the positive class, or of all classes in the
    order of their sorted labels.""",
    "sample_weight": """sample_weight : array-like of shape (n_samples,), default=None
    Weights w of the rows; None gives each row weight 1.""",
    "labels": """labels : array-like of shape (n_classes,), default=None
    All labels, sorted. None is the labels that occur in y_true.""",
    "normalize": """normalize : bool, default=True
    Whether to divide by the sum of the weights; otherwise, return the sum over the rows.""",
    "pos_label": """pos_label : int, float, bool or str, default=None
    The positive class; None is the larger of two labels that are numbers.""",
}


def public(
    module: str,
    score: Callable[..., Any],
    theirs: Callable[..., Any],
    summary: str,
    formula: str,
    *,
    returns: str,
    example: str,
    value: str,
    raises: str,
    further: str = "",
    warns: str = "",
    **own: str,
) -> Callable[..., Any]:
    """A function with the name and the signature of one of scikit-learn's.

    Parameters
    ----------
    module : str
        The module that binds it to its name.
    score : callable (name, y, response, **options)
        What it calls, with the options that were given.
    theirs : function
        scikit-learn's.
    summary, formula, further : str
        What it computes: a line, lines of text, and a sentence below them.
    returns, raises, warns : str
        What is under these headings; none where it is "".
    example, value : str
        An expression with the function, and what it prints.
    **own : str
        Descriptions of parameters in place of those in `PARAMETERS`. "" leaves one out, that
        another's description names too.
    """
    name, signature = theirs.__name__, inspect.signature(theirs)
    known = frozenset(list(signature.parameters)[2:])

    def function(*args, **kwargs):
        if len(args) != 2 or not known.issuperset(kwargs):  # to bind takes a while
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}(): {error}") from None
            args, kwargs = bound.args, bound.kwargs
        return score(name, *args, **kwargs)

    sections = {
        "Parameters": _described(signature, {**PARAMETERS, **own}),
        "Returns": returns,
        "Raises": raises,
        "Warns": warns,
        "Examples": f">>> from gpuml.metrics import {name}\n>>> {example}\n{value}",
    }
    formula = "\n".join(f"    {line}" for line in formula.splitlines())
    parts = [summary, f".. code-block:: text\n\n{formula}", further]
    parts += [f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text]
    function.__doc__ = "\n\n".join(filter(None, parts))
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _described(signature, words):
    names = list(signature.parameters)
    if "y_pred" in names[:2]:
        names.remove("y_true")  # described with the predictions
    return "\n".join(filter(None, (words[name] for name in names)))


def options_of(function: Callable[..., Any]) -> tuple[dict[str, Any], bool]:
    """Names and defaults of a metric's options, and whether rows may have weights."""
    parameters = dict(list(inspect.signature(function).parameters.items())[2:])
    takes_weight = parameters.pop("sample_weight", None) is not None
    parameters.pop("y_pred", None)  # the former name of probabilities
    return {name: parameter.default for name, parameter in parameters.items()}, takes_weight
