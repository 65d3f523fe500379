"""Quadratic discriminant analysis: a normal density, with its own covariance, for each class."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np
from sklearn import discriminant_analysis as sk

from gpuml._arrays import (
    Array,
    Place,
    as_array,
    is_array,
    is_sparse,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.threads import one_thread_for_few
from gpuml._inputs.validation import check_rows, unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.discriminant_analysis._class_covariances import (
    Covariances,
    class_covariances,
    joined,
)
from gpuml.divided.stored import StoredRows
from gpuml.linear_model._classifier import two_class_probability
from gpuml.naive_bayes._base import Posterior
from gpuml.naive_bayes._grid import GridStack
from gpuml.naive_bayes._input import result_dtype
from gpuml.naive_bayes._sums import (
    ClassRows,
    as_kept,
    class_distances,
    here_if_few,
)

# Features up to which eigenvectors are found in CPU memory: a GPU takes as long for small matrices.
LARGEST_ORDER_HERE = 300


class QuadraticDiscriminantAnalysis(Posterior, sk.QuadraticDiscriminantAnalysis):
    r"""Quadratic discriminant analysis: normal classes, each with its own covariance.

    With means :math:`\mu_c`, covariances :math:`\Sigma_c` and priors :math:`\pi_c` of the classes,
    the prediction for a row x is the class with the largest

    .. math:: \log \pi_c - \tfrac{1}{2} \log |\Sigma_c|
              - \tfrac{1}{2} (x - \mu_c)^\top \Sigma_c^{-1} (x - \mu_c) .

    Each covariance is regularised. With the solver "svd", it is replaced by
    :math:`(1 - r) \Sigma_c + r I`, where r = `reg_param`; with "eigen", by
    :math:`(1 - s) \Sigma_c + s \, \mathrm{tr}(\Sigma_c) I / p`, where s = `shrinkage`.

    Rows are read once, on their device; sums are float64. In a `gpuml.model_selection` search, all
    candidates use the same sums and eigenvectors, and are scored with one product per class.

    Parameters
    ----------
    solver : {"svd", "eigen"}, default="svd"
        Which regularisation to use, see above. Both solvers use eigenvectors of the covariances.
    shrinkage : "auto", float in [0, 1] or None, default=None
        Shrinkage for "eigen"; None is 0. "auto" estimates it: scikit-learn does the work, and needs
        data in CPU memory.
    priors : array-like of shape (n_classes,), default=None
        Prior probabilities of the classes; None is the share of each class among the rows.
    reg_param : float in [0, 1], default=0.0
        Regularisation for "svd".
    store_covariance : bool, default=False
        Whether to set `covariance_`.
    tol : float, default=1e-4
        A covariance with an eigenvalue of `tol` or less raises an error.
    covariance_estimator : estimator, default=None
        For "eigen", an estimator with `fit` and `covariance_`, which replaces `shrinkage`.
        scikit-learn does the work, and needs data in CPU memory.

    Attributes
    ----------
    covariance_ : list of n_classes arrays of shape (n_features, n_features)
        With `store_covariance`. This and the arrays below are in the library and on the device of
        X, float32 for float32 X, else float64.
    means_ : array of shape (n_classes, n_features)
    priors_ : array of shape (n_classes,)
    rotations_ : list of n_classes arrays of shape (n_features, n_features)
        Eigenvectors of the covariances, in columns.
    scalings_ : list of n_classes arrays of shape (n_features,)
        Eigenvalues, with their regularisation, from large to small.
    classes_ : array of shape (n_classes,)
        Sorted labels, of the dtype of y.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LinearDiscriminantAnalysis : One covariance for all classes.

    References
    ----------
    T. Hastie, R. Tibshirani, J. Friedman, "The elements of statistical learning", section 4.3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.discriminant_analysis import QuadraticDiscriminantAnalysis
    >>> X, y = load_iris(return_X_y=True)
    >>> round(QuadraticDiscriminantAnalysis(reg_param=0.1).fit(X, y).score(X, y), 2)
    0.98
    """

    _accept_sparse = False
    _classes_as_text = False
    _located_by = "means_"

    multifit_params = ("priors", "reg_param", "shrinkage", "solver", "store_covariance", "tol")
    _own_params = multifit_params

    @_fit_context(prefer_skip_nested_validation=False)
    @one_thread_for_few
    def fit(self, X, y) -> Self:  # type: ignore[override]
        """Find mean and covariance of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or StoredRows
            Rows in files (`gpuml.read_parquet`) are read block by block; y may then be the name of
            a column.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        NotImplementedError
            For shrinkage with ``solver="svd"``.
        numpy.linalg.LinAlgError
            If the covariance of a class is not of full rank.
        """
        if isinstance(X, StoredRows):
            return X.fit_model(self, y)
        with unchanged_on_error(self):
            why = self.multifit_obstacle(X)
            if why is None:
                data = self._checked(X, y, None, reset=True)
                self.classes_ = data.labels.classes
                self._check_parameters(self.classes_.shape[0])
                self._learn(self._by_class(data))
            else:
                self._fit_by_sklearn(why, X, y)
        return self

    def _fit_by_sklearn(self, why, X, y):
        X, y = as_array(X), as_array(y)
        if is_array(X) and place_of(X).kind != "numpy":
            raise ValueError(
                f"QuadraticDiscriminantAnalysis with {why} runs scikit-learn's solver, which needs "
                f"data in CPU memory, and got X in {place_of(X)}. Use a number for shrinkage, or "
                "pass NumPy arrays (cupy.asnumpy(X), X.cpu().numpy())."
            )
        sk.QuadraticDiscriminantAnalysis.fit(self, X, y)

    def decision_function(self, X):
        """Logarithms of densities times priors of the classes, up to a constant.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            In the library and on the device of X. Of two classes the second less the first.
        """
        joint, dtype = self._joint(X, "decision_function")
        xp = namespace(joint)
        joint = joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else joint
        return xp.astype(joint, dtype, copy=False)

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why scikit-learn does the work; then models are fitted one by one."""
        if self.covariance_estimator is not None:
            return "covariance_estimator"
        return "shrinkage='auto'" if isinstance(self.shrinkage, str) else None

    @property
    def _stack(self) -> "type[GridStack]":
        return DecidingStack

    def _check_parameters(self, n_classes):
        if n_classes < 2:
            raise ValueError(
                f"The number of classes has to be greater than one. Got {n_classes} class."
            )
        if self.solver == "svd" and self.shrinkage is not None:
            raise NotImplementedError("shrinkage not supported with 'svd' solver.")
        if isinstance(self.shrinkage, str):
            raise ValueError("shrinkage='auto' is fitted by scikit-learn, beside no other value.")
        if self.priors is not None and np.shape(_numbers(self.priors)) != (n_classes,):
            raise ValueError(
                f"priors must have one value for each of {n_classes} classes, got {self.priors!r}."
            )

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        X = as_array(X)
        return (
            super()._check_X(X, reset=reset) if is_sparse(X) else check_rows(self, X, reset=reset)
        )

    def _sums(self, rows: ClassRows) -> "Covariances":
        with np.errstate(over="ignore", invalid="ignore"):  # the sums are looked at
            return class_covariances(rows)

    def _joined(self, each: Sequence["Covariances"], times: Any) -> "Covariances":
        return joined(each, times)

    def _small(self, sums: list["Covariances"]) -> list["Covariances"]:
        if sums[0].mean.shape[1] > LARGEST_ORDER_HERE:
            return sums
        arrays = iter(here_if_few([a for one in sums for a in (one.count, one.mean, one.matrix)]))
        return [Covariances(*islice(arrays, 3)) for _ in sums]

    def _learn(self, rows: ClassRows, first: bool = True) -> None:
        sums = self._small([self._sums(rows)])[0]
        models = self._fitted([self], sums, place_of(rows.X), result_dtype(rows.X))
        self.__dict__.update(models.attributes(0))

    def _fitted(self, candidates, sums, home, dtype) -> "Quadratics":
        labels = to_host(self.classes_) if hasattr(self, "classes_") else None
        return Quadratics.of(candidates, sums, home, dtype, labels)

    def _regularised(self, values):
        """Eigenvalues (k, p) of covariances, with what the parameters add."""
        if self.solver == "svd":
            return (1.0 - self.reg_param) * values + self.reg_param
        share = self.shrinkage or 0.0
        return (1.0 - share) * values + share * namespace(values).mean(
            values, axis=-1, keepdims=True
        )

    def _not_full(self, c, labels, count, vectors):
        which = f"class {c if labels is None else labels[c]}"
        n_rows, n_features = int(count[c]), vectors.shape[-1]
        if self.solver == "svd" and n_rows <= n_features:
            return (
                f"The covariance matrix of {which} is not full rank. When using `solver='svd'` the "
                f"number of samples in each class should be more than the number of features, but "
                f"{which} has {n_rows} samples and {n_features} features. Try using "
                "`solver='eigen'` and setting the parameter `shrinkage` for regularization."
            )
        name = "shrinkage" if self.solver == "eigen" else "reg_param"
        return (
            f"The covariance matrix of {which} is not full rank. Increase the value of `{name}` to "
            "reduce the collinearity."
        )

    def _joint_log_likelihood(self, X: Any) -> Array:
        xp = namespace(self.means_)
        rotations, scalings = (xp.stack(a) for a in (self.rotations_, self.scalings_))
        numbers = self.means_, rotations, scalings[None, ...], self.priors_[None, :]
        return normal_joints(*numbers, X)[0, ...]


@dataclass(frozen=True)
class Quadratics:
    """Models of C candidates whose covariances have the same eigenvectors.

    Attributes
    ----------
    candidates : sequence of estimators
    mean : array (k, p)
    vectors : array (k, p, p)
    values : array (C, k, p)
        Regularised.
    prior : array (C, k)
    home : Place
        Where attributes of models go.

    Arrays are of the dtype that attributes have there, so that candidates say what estimators do.
    """

    candidates: Sequence[QuadraticDiscriminantAnalysis]
    mean: Array
    vectors: Array
    values: Array
    prior: Array
    home: Place

    @classmethod
    def of(
        cls,
        candidates: Sequence[QuadraticDiscriminantAnalysis],
        sums: "Covariances",
        home: Place,
        dtype: Any,
        labels: Any,
    ) -> "Quadratics":
        """Of candidates, from the sums of the rows that they are fitted to.

        Raises
        ------
        ValueError, LinAlgError
            If a class has too few rows, or a covariance is not of full rank; with its label.
        """
        count = to_host(sums.count)
        _check_counts(count, labels)
        eigenvalues, vectors = sums.eigen
        place = place_of(eigenvalues)
        xp, kept = place.xp, partial(as_kept, single=dtype == home.xp.float32)
        values = xp.stack([model._regularised(eigenvalues) for model in candidates])
        least = to_host(values[:, :, -1])
        # As scikit-learn's, "svd" has as many values as rows, so that nothing fills the others.
        for model, smallest in zip(candidates, least, strict=True):
            too_few = (model.solver == "svd") & (count < vectors.shape[-1])
            unfit = np.flatnonzero(too_few | ~(smallest > model.tol))
            if len(unfit):
                raise np.linalg.LinAlgError(model._not_full(int(unfit[0]), labels, count, vectors))
        shares = sums.count / xp.sum(sums.count)
        priors = [
            shares if model.priors is None else move(_numbers(model.priors), place)
            for model in candidates
        ]
        prior = xp.stack(priors)
        return cls(candidates, kept(sums.mean), kept(vectors), kept(values), kept(prior), home)

    def attributes(self, candidate: int) -> dict[str, Any]:
        """What `fit` sets of one of them."""
        vectors, values = (move(a, self.home) for a in (self.vectors, self.values[candidate, ...]))
        classes = range(values.shape[0])
        found = {
            "means_": move(self.mean, self.home),
            "rotations_": [vectors[c, ...] for c in classes],
            "scalings_": [values[c, ...] for c in classes],
            "priors_": move(self.prior[candidate, :], self.home),
        }
        if self.candidates[candidate].store_covariance:
            found["covariance_"] = [
                vectors[c, ...] * values[c, ...] @ vectors[c, ...].T for c in classes
            ]
        return found

    def joints(self, candidates: slice, X: Array) -> Array:
        """Joint log likelihoods of some candidates for checked rows: float64 (C, n, k)."""
        values, prior = self.values[candidates, ...], self.prior[candidates, ...]
        return normal_joints(self.mean, self.vectors, values, prior, X)


def normal_joints(mean: Array, vectors: Array, values: Array, prior: Array, X: Array) -> Array:
    """Joint log likelihoods of normal densities of C models for checked rows: float64 (C, n, k).

    They have means (k, p), eigenvectors (k, p, p) and eigenvalues (C, k, p) of covariances, and
    priors (C, k); these may be elsewhere than the rows.
    """
    xp = namespace(values)
    mean, vectors, values, prior = (
        xp.astype(a, xp.float64) for a in (mean, vectors, values, prior)
    )
    with np.errstate(divide="ignore"):
        constant = xp.log(prior) - 0.5 * xp.sum(xp.log(values), axis=-1)  # (C, k)
    shares = xp.permute_dims(-0.5 / values, (1, 2, 0))  # (k, p, C)
    return class_distances(X, mean, shares, constant, vectors)


class DecidingStack(GridStack):
    """Models with decision values: of two classes those of the second less those of the first."""

    has_decisions = True

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values (C, m), or (C, m, k), float64, for rows X (m, p)."""
        joint = super().decision(X, split, candidates)
        return joint[..., 1] - joint[..., 0] if joint.shape[-1] == 2 else joint

    def probability(self, decision: Array) -> Array:
        """Probabilities (C, m, k)."""
        if decision.ndim == 2:
            return two_class_probability(decision, namespace(decision))
        return super().probability(decision)


def _check_counts(count: np.ndarray, labels: Any) -> None:
    few = np.flatnonzero(count <= 1)
    if len(few):
        label = few[0] if labels is None else labels[few[0]]
        raise ValueError(f"y has only 1 sample in class {label}, covariance is ill defined.")


def _numbers(priors: Any) -> np.ndarray:
    """Priors in CPU memory."""
    return np.asarray(to_host(priors) if is_array(priors) else priors, dtype=np.float64)
