"""The door of the public metrics: targets and weights of any library become arrays in one place."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array

from gpuml._arrays import Array, Place, as_array, is_array, is_numpy, move, place_of
from gpuml._arrays.ops import all_finite, any_true
from gpuml._sklearn import Interval, StrOptions, validate_parameter_constraints

AVERAGES = ("raw_values", "uniform_average")
FRACTION_AVERAGES = (*AVERAGES, "variance_weighted")


class Targets(NamedTuple):
    """Checked targets (n, t), predictions (n, t) and weights (n,) or None, where y_pred was."""

    y_true: Array
    y_pred: Array
    weight: Array | None


def check_targets(y_true: Any, y_pred: Any, sample_weight: Any) -> Targets:
    """Check what was passed to a metric, and bring it to the library and device of `y_pred`.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, no rows, more than two axes, values that are
        not numbers, complex, nan or infinite; weights that are all zero.
    TypeError
        Single numbers, sparse matrices.
    ZeroDivisionError
        Weights that sum to zero.
    """
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight}
    arrays = {name: _as_plain(x, name) for name, x in given.items() if x is not None}
    _check_lengths(arrays)
    place = place_of(arrays["y_pred"])
    y_true, y_pred = (_column(arrays[name], name, place) for name in ("y_true", "y_pred"))
    if y_true.shape[1] != y_pred.shape[1]:
        raise ValueError(
            "y_true and y_pred have different number of output "
            f"({y_true.shape[1]}!={y_pred.shape[1]})"
        )
    if "sample_weight" in arrays:
        sample_weight = _check_weight(arrays["sample_weight"], place)
    return Targets(y_true, y_pred, sample_weight)


def check_parameters(caller: str, params: Mapping[str, Any]) -> None:
    """Raise scikit-learn's InvalidParameterError for a parameter of the wrong type or range."""
    averages = FRACTION_AVERAGES if "force_finite" in params else AVERAGES
    constraints = {
        "y_true": ["array-like"],
        "y_pred": ["array-like"],
        "sample_weight": ["array-like", None],
        "multioutput": [StrOptions(set(averages)), "array-like"]
        + ([None] if caller == "r2_score" else []),
        "force_finite": ["boolean"],
        "alpha": [Interval(Real, 0, 1, closed="both")],
        "power": [
            Interval(Real, None, 0, closed="right"),
            Interval(Real, 1, None, closed="left"),
        ],
    }
    validate_parameter_constraints(constraints, dict(params), caller_name=caller)


def _as_plain(x, name):
    """An array of any library; scikit-learn reads data in CPU memory."""
    x = as_array(x)
    if is_array(x) and not is_numpy(x):
        # torch: scores are numbers, not part of a graph.
        return x.detach() if hasattr(x, "detach") else x
    if getattr(getattr(x, "dtype", None), "kind", "") in ("m", "M"):
        raise TypeError(
            f"{name} holds dates or times (dtype {x.dtype}), where numbers are needed. Convert "
            "them explicitly."
        )
    x = check_array(
        x,
        dtype=None,
        ensure_2d=False,
        allow_nd=True,
        ensure_all_finite=False,
        ensure_min_samples=0,
        ensure_min_features=0,
        input_name=name,
    )
    # Lists and objects hold None, which is nan, and scikit-learn reads strings of numbers.
    return x.astype(np.float64) if x.dtype.kind in "OSU" else x


def _check_lengths(arrays):
    for name, x in arrays.items():
        if x.ndim == 0:
            raise TypeError(
                f"{name} is a single number, which cannot be considered a valid collection; give "
                "one value per row."
            )
    lengths = {name: int(x.shape[0]) for name, x in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{list(lengths.values())} ({listed})."
        )
    if lengths["y_pred"] == 0:
        raise ValueError(
            "Found array with 0 sample(s) for y_true and y_pred while a minimum of 1 is required."
        )


def _column(x: Array, name: str, place: Place) -> Array:
    if x.ndim > 2 or (x.ndim == 2 and x.shape[1] == 0):
        raise ValueError(
            f"{name} must have shape (n_samples,) or (n_samples, n_outputs), got {tuple(x.shape)}."
        )
    x = _finite_numbers(move(x, place), name, place.xp)
    return x[:, None] if x.ndim == 1 else x


def _check_weight(weight: Array, place: Place) -> Array:
    if weight.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar, got {weight.ndim}D array for "
            "sample_weight; give one weight per row."
        )
    xp = place.xp
    weight = _finite_numbers(move(weight, place), "sample_weight", xp)
    if float(xp.sum(weight, dtype=xp.float64)) != 0:
        return weight
    if not any_true(weight != 0, xp):
        raise ValueError(
            "Sample weights must contain at least one non-zero number; every sample_weight is 0."
        )
    raise ZeroDivisionError("The values of sample_weight sum to zero, can't be normalized.")


def _finite_numbers(x, name, xp):
    if xp.isdtype(x.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported\n{name} has dtype {x.dtype}.")
    if not xp.isdtype(x.dtype, "real floating"):
        return xp.astype(x, xp.float64)
    if not all_finite(x, xp):
        what = "NaN" if any_true(xp.isnan(x), xp) else "infinity"
        raise ValueError(f"Input {name} contains {what}.")
    return x
