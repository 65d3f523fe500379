"""Quadratic discriminant analysis: a normal density, with its own covariance, for each class."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn import discriminant_analysis as sk

from gpuml._arrays import Array, as_array, is_array, is_sparse, move, namespace, place_of, to_host
from gpuml._inputs.validation import check_rows, unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.data import take
from gpuml.linear_model._classifier import two_class_probability
from gpuml.naive_bayes._base import Posterior
from gpuml.naive_bayes._grid import GridStack
from gpuml.naive_bayes._sums import ClassRows, in_blocks, row_slices, work_place


class QuadraticDiscriminantAnalysis(Posterior, sk.QuadraticDiscriminantAnalysis):
    r"""Classifier of normal densities, each class with a mean and a covariance of its own.

    With means :math:`\mu_c`, covariances :math:`\Sigma_c` and priors :math:`\pi_c` of the classes,
    the class of a row x is the one of largest

    .. math:: \log \pi_c - \tfrac{1}{2} \log |\Sigma_c|
              - \tfrac{1}{2} (x - \mu_c)^\top \Sigma_c^{-1} (x - \mu_c) .

    With "svd", a share r = `reg_param` makes :math:`(1 - r) \Sigma_c + r I` of a covariance; with
    "eigen" a share s of shrinkage :math:`(1 - s) \Sigma_c + s \, \mathrm{tr}(\Sigma_c) I / p`.

    Rows are read once, where they are: NumPy, CuPy, torch and other arrays; sums are float64. In a
    `gpuml.model_selection` search, all candidates are made from the same sums and eigenvectors, and
    scored with one product for each class.

    Parameters
    ----------
    solver : {"svd", "eigen"}, default="svd"
        Which of the two regularisations there is. Both take eigenvectors of the covariances.
    shrinkage : "auto", float in [0, 1] or None, default=None
        For "eigen"; with "auto" scikit-learn does the work, with data in CPU memory.
    priors : array-like of shape (n_classes,), default=None
        Probabilities of the classes; None takes their shares of the rows.
    reg_param : float in [0, 1], default=0.0
        For "svd".
    store_covariance : bool, default=False
        Whether to set `covariance_`.
    tol : float, default=1e-4
        Covariances with an eigenvalue that is not larger are refused.
    covariance_estimator : estimator, default=None
        For "eigen", with `fit` and `covariance_`; scikit-learn does the work, with data in CPU
        memory.

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
        Sorted labels, of the kind of y.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

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
    _located_by = "means_"

    multifit_params = ("priors", "reg_param", "shrinkage", "solver", "store_covariance", "tol")
    _own_params = multifit_params

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y) -> Self:  # type: ignore[override]
        """Find mean and covariance of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
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

    def _sums(self, rows: ClassRows, known: Any = None) -> "Covariances":
        with np.errstate(over="ignore", invalid="ignore"):  # the sums are looked at
            return stacked([_of_class(rows, c) for c in range(rows.n_classes)])

    def _joined(self, each: Sequence["Covariances"], times: Any) -> "Covariances":
        return joined(each, times)

    def _adopt(self, sums, home, dtype, like=None) -> None:
        """Take the model from sums; eigenvectors are those of all candidates."""
        xp = home.xp

        def kept(values: Array) -> Array:
            return xp.astype(move(values, home), dtype, copy=False)

        labels = to_host(self.classes_) if hasattr(self, "classes_") else None
        _check_counts(sums.count, labels)
        self.means_ = kept(sums.mean) if like is None else like.means_
        vectors = [kept(each) for _, each in sums.eigen] if like is None else like.rotations_
        values = [self._regularised(each) for each, _ in sums.eigen]
        for c, each in enumerate(values):
            # As scikit-learn's, "svd" has as many values as rows, so that nothing fills the others.
            too_few = self.solver == "svd" and float(sums.count[c]) < sums.mean.shape[1]
            if too_few or float(each[-1]) <= self.tol:
                raise np.linalg.LinAlgError(self._not_full(c, labels, sums))
        self.rotations_, self.scalings_ = list(vectors), [kept(each) for each in values]
        if self.priors is None:
            self.priors_ = kept(sums.count / namespace(sums.count).sum(sums.count))
        else:
            self.priors_ = kept(move(_numbers(self.priors), home))
        if self.store_covariance:
            self.covariance_ = [
                kept(vectors * each @ namespace(vectors).matrix_transpose(vectors))
                for each, (_, vectors) in zip(values, sums.eigen, strict=True)
            ]

    def _regularised(self, values):
        """Eigenvalues of a covariance, with what the parameters add."""
        if self.solver == "svd":
            return (1.0 - self.reg_param) * values + self.reg_param
        share = self.shrinkage or 0.0
        return (1.0 - share) * values + share * namespace(values).mean(values)

    def _not_full(self, c, labels, sums):
        which = f"of class {c if labels is None else labels[c]}"
        n_rows, n_features = int(sums.count[c]), sums.mean.shape[1]
        if self.solver == "svd" and n_rows <= n_features:
            return (
                f"The covariance matrix {which} is not full rank. When using `solver='svd'` the "
                f"number of samples in each class should be more than the number of features, but "
                f"this one has {n_rows} samples and {n_features} features. Try using "
                "`solver='eigen'` and setting the parameter `shrinkage` for regularization."
            )
        name = "shrinkage" if self.solver == "eigen" else "reg_param"
        return (
            f"The covariance matrix {which} is not full rank. Increase the value of `{name}` to "
            "reduce the collinearity."
        )

    def _joints(self, models: Sequence["QuadraticDiscriminantAnalysis"], X: Array) -> Array:
        """What models with the same eigenvectors say of checked rows: float64 (C, n, k)."""
        place = work_place(X)
        xp = place.xp

        def here(values: Array) -> Array:
            return xp.astype(move(values, place), xp.float64, copy=False)

        first, n_classes = models[0], models[0].means_.shape[0]
        means, turns = here(first.means_), [here(each) for each in first.rotations_]
        scales = [
            xp.stack([here(model.scalings_[c]) for model in models], axis=1)  # (p, C)
            for c in range(n_classes)
        ]
        prior = xp.stack([here(model.priors_) for model in models])  # (C, k)
        with np.errstate(divide="ignore"):
            constant = xp.log(prior) - 0.5 * xp.stack(
                [xp.sum(xp.log(each), axis=0) for each in scales], axis=1
            )

        def joint(block: Array) -> Array:
            said = [
                ((block - means[c, :]) @ turns[c]) ** 2 @ (-0.5 / scales[c])
                for c in range(n_classes)
            ]
            return xp.stack(said, axis=-1) + constant  # (b, C, k)

        n_columns = 3 * X.shape[1] + 2 * len(models) * n_classes
        return namespace(X).permute_dims(in_blocks(X, n_columns, joint), (1, 0, 2))


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


# ---------------------------------------------------------------- sums over the rows of classes


@dataclass(frozen=True)
class Covariances:
    """Of each class: number of rows (k,), mean (k, p) and covariance (k, p, p), float64."""

    count: Array
    mean: Array
    matrix: Array

    @cached_property
    def eigen(self) -> list[tuple[Array, Array]]:
        """Eigenvalues (p,), from large to small, and eigenvectors (p, p) of each class."""
        xp = namespace(self.matrix)
        found = (xp.linalg.eigh(self.matrix[c, ...]) for c in range(self.matrix.shape[0]))
        return [
            (xp.flip(xp.where(values > 0, values, 0.0)), xp.flip(vectors, axis=1))
            for values, vectors in found
        ]


def stacked(each: Sequence[tuple[Array, Array, Array]]) -> Covariances:
    """Those of several classes as one record."""
    return Covariances(*(namespace(*values).stack(values) for values in zip(*each, strict=True)))


def joined(each: Sequence[Covariances], times: Any = None) -> Covariances:
    """Those of the rows of all, each of which counts so many times (once, if None)."""
    xp = namespace(each[0].count)
    count, mean, matrix = (
        xp.stack([getattr(one, name) for one in each]) for name in ("count", "mean", "matrix")
    )
    if times is not None:
        times = move(np.asarray(times, dtype=np.float64), place_of(count))
        count = count * times[:, None]
    total = xp.sum(count, axis=0)
    share = count / xp.where(total > 0, total, 1.0)  # (a, k)
    whole = xp.sum(share[..., None] * mean, axis=0)
    step = mean - whole
    spread = matrix + step[..., :, None] * step[..., None, :]
    return Covariances(total, whole, xp.sum(share[..., None, None] * spread, axis=0))


def _of_class(rows: ClassRows, c: int) -> tuple[Array, Array, Array]:
    """Number, mean and covariance of the rows of one class."""
    work = work_place(rows.X)
    xp, p = work.xp, rows.X.shape[1]
    index = namespace(rows.codes).nonzero(rows.codes == c)[0]
    parts = []
    for some in row_slices(index[:, None], work, 3 * p):
        X = move(take(rows.X, index[some], namespace(rows.X)), work)
        X = xp.astype(X, xp.float64, copy=False)
        mean = xp.mean(X, axis=0)
        Z = X - mean
        n = xp.asarray([float(X.shape[0])], dtype=xp.float64, device=work.device)
        parts.append(Covariances(n, mean[None, :], (Z.T @ Z / X.shape[0])[None, ...]))
    if not parts:
        zero = xp.zeros((p, p), dtype=xp.float64, device=work.device)
        return zero[0, 0], zero[0, :], zero
    found = joined(parts)
    return found.count[0], found.mean[0, :], found.matrix[0, ...]


def _check_counts(count: Array, labels: Any) -> None:
    few = np.flatnonzero(to_host(count) <= 1)
    if len(few):
        label = few[0] if labels is None else labels[few[0]]
        raise ValueError(f"y has only 1 sample in class {label}, covariance is ill defined.")


def _numbers(priors: Any) -> np.ndarray:
    """Priors in CPU memory."""
    return np.asarray(to_host(priors) if is_array(priors) else priors, dtype=np.float64)
