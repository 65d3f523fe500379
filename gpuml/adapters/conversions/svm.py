"""Support vectors in libsvm's order, and linear machines with liblinear's objective."""

import copy
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight

from gpuml._arrays import namespace, to_host
from gpuml.adapters._row import Conversion, UnsupportedHere
from gpuml.adapters.conversions import interop

# Targets that stand for the two classes are this far from 0, by dtype: so far that no score is
# beyond them, and so near that scores minus targets are exact enough. Others are tried in turn.
FAR = {"float32": (2.0**6, 2.0**10), "float64": (2.0**20,)}


# ---------------------------------------------------------------- kernels


def _lower(model: Any, twin: Any) -> Mapping[str, Any]:
    return in_libsvm_order(interop.lower(model, twin))


def in_libsvm_order(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Fitted attributes of SVC or SVR with support vectors by class, then by row.

    cuML has them in an order of its own, and counts all of them for the first class. Where there
    are classes, vectors of the first one have negative coefficients.

    Parameters
    ----------
    fitted : mapping of str to object
        As cuML's conversion gives them; not changed.

    Returns
    -------
    fitted : dict of str to object
    """
    out = dict(fitted)
    signs = _values(out["dual_coef_"]) > 0
    of_second = signs if "class_weight_" in out else np.zeros_like(signs)
    order = np.lexsort((out["support_"], of_second))
    out["support_"] = out["support_"][order]
    for name in ("dual_coef_", "_dual_coef_"):
        # SciPy leaves the stored values of a sparse row as they were, and their indices in
        # disorder; scikit-learn hands libsvm the values alone.
        out[name] = _sorted(out[name][:, order])
    if out["support_vectors_"].shape[0]:  # there are none of precomputed kernels
        out["support_vectors_"] = _sorted(out["support_vectors_"][order])
    n_second = np.count_nonzero(of_second)
    out["_n_support"] = np.array([len(order) - n_second, n_second], dtype=np.int32)
    if "class_weight_" in out:
        out["class_weight_"] = np.asarray(out["class_weight_"], dtype=np.float64)
    return out


def _sorted(x):
    """A dense array as it is, a sparse matrix with its indices in order."""
    return x.sorted_indices() if sparse.issparse(x) else x


def _values(row):
    """The only row of an array or a sparse matrix."""
    return np.ravel(row.toarray() if hasattr(row, "toarray") else row)


SVM = Conversion(interop.make, _lower, interop.lift)


# ---------------------------------------------------------------- linear ones


def make_linear_svr(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model as cuML translates the twin, that minimises one and the same objective."""
    return interop.make(_with_even_weights(cuml_class), twin, changes)


@cache
def _with_even_weights(cuml_class: Any) -> Any:
    # cuML divides its loss by the sum of the weights, but the gradient of the loss by the number of
    # rows: its line search ends anywhere between the two optima, unless both are the same.
    class LinearSVR(cuml_class):
        def fit(self, X, y, sample_weight=None):
            if sample_weight is None:
                return super().fit(X, y)
            weight, mean = _even(sample_weight, X.dtype)
            given = self.C
            self.set_params(C=given * mean)
            try:
                return super().fit(X, y, sample_weight=weight)
            finally:
                self.set_params(C=given)

    return LinearSVR


def _even(weight, dtype):
    """Weights whose mean is 1, and their mean, which C is to be multiplied by."""
    xp = namespace(weight)
    mean = float(xp.mean(xp.astype(weight, xp.float64, copy=False)))
    if not 0.0 < mean < np.inf:  # cuML would take a C of 1
        raise UnsupportedHere("weights whose mean is 0 or not finite")
    return xp.astype(weight / mean, dtype, copy=False), mean


def make_linear_svc(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model as cuML translates the twin, that minimises liblinear's objective."""
    return interop.make(_solved_as_regression(cuml_class), twin, changes)


@cache
def _solved_as_regression(cuml_class: Any) -> Any:
    # cuML's gradient of the squared hinge is half of the derivative of its loss: a line search by
    # the one along the other ends about where C is half as large, and nowhere exactly. What it has
    # right is the squared error beyond epsilon. With targets of -m and m and an epsilon of m - 1
    # that error is max(0, 1 - margin), unless a margin is above 2 m - 1.
    class LinearSVC(cuml_class):
        def fit(self, X, y, sample_weight=None):
            xp = namespace(X)
            n_classes = int(xp.max(y)) + 1
            wanted = (1,) if n_classes == 2 else range(n_classes)
            pairs = machine_weights(self.class_weight, y, sample_weight)
            models = [self._machine(X, y == code, pairs[code], sample_weight) for code in wanted]
            self.coef_ = xp.stack([xp.reshape(m.coef_, (-1,)) for m in models])
            self.intercept_ = 0.0
            if self.fit_intercept:
                self.intercept_ = xp.concat([xp.reshape(m.intercept_, (1,)) for m in models])
            self.n_iter_ = max(int(m.n_iter_) for m in models)
            self.classes_ = np.arange(n_classes)
            self.n_features_in_ = X.shape[1]
            return self

        def _machine(self, X, is_member, pair, sample_weight):
            xp, weight = namespace(X), weight_of(is_member, pair, sample_weight)
            sign = 2 * xp.astype(is_member, X.dtype) - 1
            for far in FAR[str(X.dtype).rpartition(".")[2]]:
                model = self._regression(far - 1).fit(X, far * sign, sample_weight=weight)
                scores = X @ xp.reshape(model.coef_, (-1,)) + model.intercept_
                if float(xp.max(sign * scores)) <= 2 * far - 1:
                    return model
            raise UnsupportedHere("classes that are so far apart")

        def _regression(self, epsilon):
            regression = import_module("cuml.svm").LinearSVR
            return _with_even_weights(regression)(
                epsilon=epsilon,
                penalty=self.penalty,
                loss="squared_epsilon_insensitive",
                C=self.C,
                fit_intercept=self.fit_intercept,
                penalized_intercept=True,
                tol=self.tol,
                max_iter=self.max_iter,
            )

    return LinearSVC


def machine_weights(class_weight: Any, codes: Any, sample_weight: Any) -> Any:
    """Weights of the rows in a class, and of all others, in the machine of each class.

    liblinear weighs the class that a machine is of, and leaves the others as they are, unless there
    are two.

    Parameters
    ----------
    class_weight : mapping of int to float, "balanced" or None
        By code.
    codes : array (n,)
    sample_weight : array (n,) or None

    Returns
    -------
    weights : array (k, 2)
    """
    if class_weight is None:  # the rows need not come to CPU memory for it
        return np.ones((int(namespace(codes).max(codes)) + 1, 2))
    known = to_host(codes).astype(np.int64)
    given = None if sample_weight is None else to_host(sample_weight)
    of_class = compute_class_weight(
        class_weight, classes=np.unique(known), y=known, sample_weight=given
    )
    rest = of_class[::-1] if len(of_class) == 2 else np.ones(len(of_class))
    return np.stack([of_class, rest], axis=1)


def weight_of(is_member: Any, pair: Any, weight: Any) -> Any:
    """Weights of rows for the machine of one class; None if nothing is weighted."""
    inside, outside = pair
    if inside == outside == 1.0:
        return weight
    xp = namespace(is_member)
    factor = float(outside) + float(inside - outside) * xp.astype(is_member, xp.float64)
    return factor if weight is None else factor * xp.astype(weight, xp.float64, copy=False)


def lift_linear(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model with the attributes of the twin, whose coefficients `sparsify` may have changed."""
    if sparse.issparse(getattr(twin, "coef_", None)):
        twin = copy.copy(twin)
        twin.coef_ = twin.coef_.toarray()
    return interop.lift(cuml_class, twin, changes)


LINEAR_SVC = Conversion(make_linear_svc, interop.lower, lift_linear)
LINEAR_SVR = Conversion(make_linear_svr, interop.lower, interop.lift)
