"""One classification problem as the batched kernels see it, and averages over its rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuml._arrays import Array, as_array, device_of, is_array, namespace, to_host
from gpuml._arrays.ops import all_finite

# (category, text)
Note = tuple[type[Warning], str]


@dataclass(frozen=True)
class Problem:
    """Targets and responses of C models.

    Attributes
    ----------
    y : int array (m,)
        Code 0..k-1 of the class of each row.
    response : array (C, m) or (C, m, k)
        Codes of predicted classes, or scores. Two axes of scores are those of the positive class.
    weight : float64 array (m,) or None
        None weighs every row 1.
    classes : ndarray (k,)
        The labels, sorted.
    notes : set of (category, text)
        What is to be warned of, once, when all models have been looked at.
    confusion : float64 array (C, k, k) or None
        Sums of weights by true and predicted class, where those are all that is known of the rows.
    """

    y: Array
    response: Array
    weight: Array | None
    classes: np.ndarray
    notes: set[Note] = field(default_factory=set)
    confusion: Array | None = None

    @property
    def xp(self) -> Any:
        """Namespace of the arrays."""
        return namespace(self.response)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.classes)

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes."""
        return self.n_classes == 2

    def code_of(self, label: Any) -> int:
        """Code of a label; ValueError if there is no such class."""
        codes = np.flatnonzero(self.classes == label)
        if len(codes) != 1:
            raise ValueError(f"{label!r} is not one of the classes {self.classes.tolist()}.")
        return int(codes[0])

    def codes_of(self, labels: Any) -> list[int]:
        """Codes of several labels."""
        return [self.code_of(label) for label in host_labels(labels)]

    def check_labels(self, labels: Any) -> None:
        """Raise ValueError unless `labels` is None or all classes in their order."""
        if labels is not None and self.codes_of(labels) != list(range(self.n_classes)):
            raise ValueError(f"labels must be the classes {self.classes.tolist()}, sorted.")

    def indicator(self, code: int) -> Array:
        """1.0 for rows of a class, else 0.0: (m,)."""
        return self.xp.astype(self.y == code, self.xp.float64)

    def one_hot(self) -> Array:
        """Indicators of all classes, float64 (m, k)."""
        xp = self.xp
        codes = xp.arange(self.n_classes, device=device_of(self.y))
        return xp.astype(self.y[:, None] == codes, xp.float64)

    def codes_along(self, scores: Array) -> Array:
        """Codes (C, m, 1) to take the score of each row's own class by."""
        return self.xp.broadcast_to(self.y[None, :, None], (*scores.shape[:2], 1))

    def scores(self) -> Array:
        """The response as floating point numbers; ValueError if one is not finite."""
        xp, scores = self.xp, self.response
        if not xp.isdtype(scores.dtype, "real floating"):
            scores = xp.astype(scores, xp.float64)
        if not all_finite(scores, xp):
            raise ValueError("The scores of some model contain nan or infinity.")
        return scores

    def average(self, values: Array, *, normalize: bool = True) -> Array:
        """Weighted means, or sums, of float64 values (..., m) over the rows: (...)."""
        xp = self.xp
        if self.weight is None:
            # Not xp.mean, which multiplies by 1 / m in torch on GPUs: equal counts tie everywhere.
            total = xp.sum(values, axis=-1)
            return total / values.shape[-1] if normalize else total
        # Not `values @ weight`, whose rounding differs between rows: equal predictions tie.
        total = xp.sum(values * self.weight, axis=-1)
        return total / xp.sum(self.weight) if normalize else total


def host_labels(labels: Any) -> list:
    """Labels of any library as a list of Python objects."""
    labels = as_array(labels)
    return np.asarray(to_host(labels) if is_array(labels) else labels).tolist()
