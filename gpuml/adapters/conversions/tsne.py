"""t-SNE: cuML's own conversion, in scikit-learn's units of the learning rate."""

from collections.abc import Mapping
from typing import Any

from gpuml.adapters._row import Conversion
from gpuml.adapters.conversions.interop import INTEROP

# scikit-learn's gradient has the factor 4 that the derivative of the objective has, and cuML's has
# not: the same step takes four times the rate.
RATE = 4.0


def lower(model: Any, twin: Any) -> Mapping[str, Any]:
    """With the learning rate that scikit-learn reports."""
    out = dict(INTEROP.lower(model, twin))
    out["learning_rate_"] = out["learning_rate_"] / RATE
    return out


TSNE = Conversion(INTEROP.make, lower, None)
