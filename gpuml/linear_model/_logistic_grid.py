"""The grid of penalties that LogisticRegressionCV tries, and its fitted attributes."""

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace, to_host
from gpuml._sklearn import _check_solver
from gpuml.data import Batch
from gpuml.exceptions import level_of_user
from gpuml.linear_model._cross_validation import numbers_in
from gpuml.linear_model._models import Models, at_home


class Grid:
    """All penalties of a search: candidates with the l1_ratio as the slow and C as the fast axis.

    Making one raises what scikit-learn raises of parameters, and `warn` warns of what it warns of:
    later, since it may be that scikit-learn does the work after all and warns by itself.
    """

    def __init__(self, estimator: Any):
        self.estimator = estimator
        self._warnings: list[tuple[str, type[Warning]]] = []
        ratios = estimator.l1_ratios
        if isinstance(ratios, str):
            ratios = None
            self._note(
                "The default value for l1_ratios will change from None to (0.0,) in version 1.10 "
                "of scikit-learn, and None will be forbidden. Set a value, e.g. l1_ratios=(0,)."
            )
        self.penalty = self._penalty(ratios)
        self._note_defaults()
        _check_solver(estimator.solver, self.penalty, estimator.dual)
        self._check_ratios(ratios)
        self.has_ratios = ratios is not None
        self.ratios = [None] if ratios is None else list(ratios)
        Cs = estimator.Cs
        if np.ndim(Cs) == 0 and not isinstance(Cs, Integral):
            raise TypeError(f"Cs must be an int or a list of positive numbers, got {Cs!r}.")
        if isinstance(Cs, Integral):
            self.Cs = np.logspace(-4, 4, Cs)
        else:
            self.Cs = numbers_in(Cs, "Cs", bounds="neither")

    def warn(self) -> None:
        """Warn of parameters whose meaning is going to change."""
        for text, category in self._warnings:
            warnings.warn(text, category, stacklevel=level_of_user())

    def _note(self, text, category=FutureWarning):
        self._warnings.append((text, category))

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """Values of C and l1_ratio of every model."""
        share = {"l2": 0.0, "l1": 1.0}
        return [
            {"C": float(C), "l1_ratio": share.get(self.penalty, ratio)}
            for ratio in self.ratios
            for C in self.Cs
        ]

    def position(self, index_of_C: int, index_of_ratio: int) -> int:
        """Index of a candidate."""
        return int(index_of_ratio * len(self.Cs) + index_of_C)

    def table(self, values: np.ndarray) -> np.ndarray:
        """Values (C, S) of all models as (S, n_l1_ratios, n_cs)."""
        return np.reshape(values.T, (-1, len(self.ratios), len(self.Cs)))

    def best_ratio(self, indices: list[int], refit: bool) -> Any:
        """The chosen l1_ratio by scikit-learn's rules: not to refit is 0 without an elastic net."""
        if refit:
            return self.ratios[indices[0]]
        if self.penalty != "elasticnet":
            return 0.0
        return np.mean([self.ratios[index] for index in indices])

    def attributes(self, stack: Models, scores: np.ndarray, C: Any, ratio: Any) -> dict:
        """`C_`, `l1_ratio_`, `coefs_paths_`, `scores_` and `n_iter_`, in scikit-learn's form."""
        batch = stack.folds.batch
        W, xp = stack.coef, namespace(stack.coef)
        if self.estimator.fit_intercept:
            W = xp.concat([W, stack.intercept[..., None]], axis=-1)
        W = xp.reshape(W, (len(self.ratios), len(self.Cs), *W.shape[1:]))
        n_iter = self.table(np.asarray(stack.n_iter, dtype=np.int32))
        if self.estimator.use_legacy_attributes is False:
            if not self.has_ratios:
                ratio = 1.0 if self.estimator.penalty == "l1" else 0.0
            return {
                "C_": float(C),
                "l1_ratio_": float(ratio),
                "coefs_paths_": at_home(xp.permute_dims(W, (2, 0, 1, 3, 4)), batch),
                "scores_": move_home(scores, batch),
                "n_iter_": move_home(n_iter, batch),
            }
        paths = at_home(xp.permute_dims(W, (3, 2, 1, 0, 4)), batch)  # (k, S, n_cs, R, q)
        scores, n_iter = np.swapaxes(scores, 1, 2), np.swapaxes(n_iter, 1, 2)[None, ...]
        if not self.has_ratios:
            paths, scores, n_iter = paths[:, :, :, 0, :], scores[..., 0], n_iter[..., 0]
        keys = to_host(batch.classes)
        keys = keys[1:] if len(keys) == 2 else keys
        n_vectors = len(keys)
        return {
            "C_": move_home(np.tile(C, n_vectors), batch),
            "l1_ratio_": move_home(np.tile(np.asarray(ratio), n_vectors), batch),
            "coefs_paths_": {key: paths[i, ...] for i, key in enumerate(keys)},
            "scores_": {key: move_home(scores.copy(), batch) for key in keys},
            "n_iter_": move_home(n_iter, batch),
        }

    def _penalty(self, ratios):
        """Name of the penalty, by scikit-learn's rules for its two ways of naming it."""
        if self.estimator.penalty != "deprecated":
            self._note(
                "'penalty' was deprecated in version 1.8 of scikit-learn and will be removed in "
                "1.10. Use l1_ratios=(0,) for 'l2', l1_ratios=(1,) for 'l1', and numbers between "
                "for 'elasticnet'."
            )
            return self.estimator.penalty
        if self.estimator.l1_ratios is None:
            self._note(
                "'l1_ratios=None' was deprecated in version 1.8 of scikit-learn and will be an "
                "error in 1.10. Use an array-like with values in [0, 1]."
            )
        if ratios is None or np.all(np.asarray(ratios) == 0):
            return "l2"
        return "l1" if np.all(np.asarray(ratios) == 1) else "elasticnet"

    def _check_ratios(self, ratios):
        if self.penalty == "elasticnet":
            if (
                ratios is None
                or len(ratios) == 0
                or any(not isinstance(r, Real) or not 0 <= float(r) <= 1 for r in ratios)
            ):
                raise ValueError(
                    "l1_ratios must be an array-like of numbers between 0 and 1; got "
                    f"(l1_ratios={ratios!r})"
                )
        elif ratios is not None and self.estimator.penalty != "deprecated":
            self._note(
                "l1_ratios parameter is only used when penalty is 'elasticnet'. Got "
                f"(penalty={self.penalty})",
                UserWarning,
            )

    def _note_defaults(self):
        if self.estimator.scoring == "warn":
            self._note(
                "The default value of the parameter 'scoring' will change from None, i.e. "
                "accuracy, to 'neg_log_loss' in version 1.11 of scikit-learn. To silence this "
                "warning, set scoring='neg_log_loss' for the new default, scoring='accuracy' for "
                "the old."
            )
        if self.estimator.use_legacy_attributes == "warn":
            self._note(
                "The default value of use_legacy_attributes will change from True to False in "
                "scikit-learn 1.10, which simplifies the fitted attributes of "
                "LogisticRegressionCV. Set use_legacy_attributes=False for the new form now, or "
                "True to keep the old one for the time being."
            )


def move_home(values: np.ndarray, batch: Batch) -> Array:
    """A few host numbers in the library and on the device of the user's X."""
    values = np.ascontiguousarray(values)
    return values if values.dtype == object else move(values, batch.home)
