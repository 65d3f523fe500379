"""Shared code of the naive Bayes classifiers of discrete features."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import Array, as_array, is_array, is_sparse, move, namespace, place_of, to_host
from gpuml._inputs.csr import in_float64
from gpuml.naive_bayes._base import Incremental
from gpuml.naive_bayes._input import refuse_negative
from gpuml.naive_bayes._sums import ClassRows, class_sums, in_blocks, work_place


class ClassSums(NamedTuple):
    """Weights (k,) of classes, and weighted sums (k, p) of their rows, float64."""

    count: Array
    sums: Array


class Discrete(Incremental):
    """Models of sums over classes, whose log likelihoods are linear in the values of rows.

    Subclasses define `_update_feature_log_prob(alpha)`, and `_linear()`, which returns the
    coefficients (k, p) of the log likelihoods, and their constants (k,) without the priors.
    """

    class_count_: Array
    feature_count_: Array

    multifit_params: tuple[str, ...] = ("alpha", "class_prior", "fit_prior", "force_alpha")
    _own_params = ("class_prior", "fit_prior")

    def _check_values(self, X):
        refuse_negative(X, f"{type(self).__name__} (input X)")

    def _values(self, X: Any) -> Any:
        """The values to sum over rows, dense or CSR."""
        return X

    def _sums(self, rows: ClassRows) -> ClassSums:
        return ClassSums(*class_sums(rows, self._values))

    def _before(self, place):
        return ClassSums(*(move(a, place) for a in (self.class_count_, self.feature_count_)))

    def _joined(self, each: Sequence[ClassSums], times: Any) -> ClassSums:
        return ClassSums(*(added([one[i] for one in each], times) for i in range(2)))

    def _adopt(self, sums, home, dtype, like=None) -> None:
        """Set the fitted attributes from sums, or from a model that differs only in its priors."""
        if like is None:
            self._take_counts(sums, home)
            self._update_feature_log_prob(self._check_alpha())
        else:
            for name, value in vars(like).items():
                if name.endswith("_"):
                    setattr(self, name, value)
        self._update_class_log_prior(self.class_prior)

    def _take_counts(self, sums: Any, home: Any) -> None:
        self.class_count_, self.feature_count_ = (move(a, home) for a in sums)

    def _check_parameters(self, n_classes):
        self._check_alpha()
        _checked_prior(self.class_prior, n_classes)

    def _near_counts(self, values: Any) -> Any:
        """A number unchanged; an array as float64, at the place of the counts."""
        if np.ndim(values) == 0:
            return float(values)
        return move(np.asarray(values, dtype=np.float64), place_of(self.class_count_))

    def _update_class_log_prior(self, class_prior=None):
        place = place_of(self.class_count_)
        xp, k = place.xp, self.class_count_.shape[0]
        class_prior = _checked_prior(class_prior, k)
        if class_prior is not None:
            self.class_log_prior_ = move(np.log(np.asarray(class_prior, np.float64)), place)
        elif self.fit_prior:
            with np.errstate(divide="ignore"):  # a class without weight has the prior 0
                logged = xp.log(self.class_count_)
            self.class_log_prior_ = logged - xp.log(xp.sum(self.class_count_))
        else:
            self.class_log_prior_ = xp.full((k,), -np.log(k), dtype=xp.float64, device=place.device)

    def _linear(self) -> tuple[Array, Array | float]:
        raise NotImplementedError

    def _log_prior(self) -> Array:
        """Logarithms (k,) of the priors that predictions use."""
        return self.class_log_prior_

    def _joints(self, models: Sequence["Discrete"], X: Any) -> Array:
        """Joint log likelihoods of all models for checked rows, float64 (C, n, k)."""
        place = work_place(X)
        xp = place.xp
        own: dict[int, int] = {}  # numbers of tables of logarithms, which several models may share
        owner = [own.setdefault(id(model.feature_log_prob_), len(own)) for model in models]
        linear = [models[owner.index(number)]._linear() for number in range(len(own))]
        k = linear[0][0].shape[0]
        tables = [move(coef, place) for coef, _ in linear]
        table = tables[0] if len(tables) == 1 else xp.concat(tables, axis=0)  # (U k, p)
        turned = xp.matrix_transpose(table)
        constants = [linear[u][1] + m._log_prior() for u, m in zip(owner, models, strict=True)]
        constant = move(namespace(*constants).stack(constants), place)  # (C, k)
        which = xp.asarray(owner, dtype=xp.int64, device=place.device)

        def joint(block: Any) -> Array:
            said = xp.reshape(self._products(block, turned), (-1, len(own), k))
            said = said if len(own) == len(models) else xp.take(said, which, axis=1)
            return said + constant

        n_columns = 2 * X.shape[1] + 2 * len(models) * k
        found = joint(X) if is_sparse(X) else in_blocks(X, n_columns, joint, floats=self._floats)
        return namespace(found).permute_dims(found, (1, 0, 2))

    # Whether `_products` takes blocks in float64.
    _floats = True

    def _products(self, X: Any, turned: Array) -> Array:
        """Products (n, m) of rows (n, p), dense or CSR, with (p, m)."""
        values = self._values(X)
        return (in_float64(values) if is_sparse(values) else values) @ turned

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def added(each: Sequence[Array], times: Any) -> Array:
    """The sum of arrays, each multiplied by a count."""
    if len(each) == 1 and times[0] == 1:
        return each[0]
    place = place_of(each[0])
    xp = place.xp
    stacked = xp.stack(list(each))
    factors = xp.asarray(times, dtype=stacked.dtype, device=place.device)[None, :]
    flat = xp.reshape(stacked, (stacked.shape[0], -1))
    return xp.reshape(factors @ flat, each[0].shape)


def _checked_prior(class_prior, n_classes):
    if class_prior is None:
        return None
    class_prior = as_array(class_prior)
    class_prior = to_host(class_prior) if is_array(class_prior) else class_prior
    if len(class_prior) != n_classes:
        raise ValueError("Number of priors must match number of classes.")
    return class_prior
