"""One metric of one model, from whatever the user has."""

from typing import Any

from gpuml.metrics._batched import METRICS, evaluate
from gpuml.metrics._input import check_parameters, check_targets
from gpuml.metrics._outputs import is_raw


def evaluate_one(
    name: str, y_true: Any, y_pred: Any, sample_weight: Any = None, **options: Any
) -> Any:
    """A metric as a batch of one: a float, or an array (t,) for raw values."""
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight}
    check_parameters(name, {**given, **options})
    y_true, y_pred, weight = check_targets(y_true, y_pred, sample_weight)
    result = evaluate(name, y_true, y_pred[None, ...], weight, options)
    if not is_raw(options):
        return float(result[0])
    # One row has no raw values where the score of one row is undefined, as in scikit-learn.
    undefined = METRICS[name].needs_two_rows and y_true.shape[0] < 2
    return float("nan") if undefined else result[0, ...]
