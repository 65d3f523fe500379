"""The Nystroem method: features from kernels with a sample of the rows, on the device of X."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from sklearn import kernel_approximation as sk
from sklearn.utils import check_random_state

from gpuml._arrays import Array, device_of, is_numpy, move, namespace, place_of
from gpuml._arrays.ops import clipped, constant
from gpuml._arrays.threads import threads_for_order
from gpuml._inputs.validation import check_rows
from gpuml.exceptions import level_of_user
from gpuml.preprocessing._places import row_blocks
from gpuml.preprocessing._transformer import Transformer
from gpuml.solvers.pair_kernels import PairKernel, pair_base

# Eigenvalues that are smaller count as this, as in scikit-learn.
SMALLEST = 1e-12
NEED_WRITABLE = ("additive_chi2", "chi2")
# Values of kernel parameters that are None.
DEFAULTS = {"gamma": None, "coef0": 1.0, "degree": 3.0}


class Nystroem(Transformer, sk.Nystroem):
    r"""Features :math:`z(x) = K_b^{-1/2} \, k(b, x)` from kernels with rows b of the training set.

    The inner product :math:`z(x) \cdot z(y)` approximates the kernel k(x, y), and equals it if x
    and y are among the rows b. A seed draws the same rows b as in scikit-learn. CuPy, torch and
    other arrays are transformed on their device, with kernels in float64; features have the dtype
    of X. scikit-learn does the work for data in CPU memory, including sparse matrices.

    In a `gpuml.model_selection` search, the rows b of each split come from its training set. For
    each setting of this step, the features of a split are computed once and shared by all
    candidates that differ only in later steps. If a linear model of gpuml follows, all these
    candidates are fitted together.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        "additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly" or "polynomial", "rbf",
        "sigmoid", "precomputed"; or a function of two rows that returns a number. A function is
        called for one pair of rows after another, which is slow on a GPU.
    gamma : float, default=None
        Kernel coefficient of "rbf", "laplacian", "poly", "sigmoid" and "chi2". None means
        ``1 / n_features``, except for "chi2", where it means 1.
    coef0 : float, default=None
        Constant term of "poly" and "sigmoid"; None means 1.
    degree : float, default=None
        Degree of "poly"; None means 3.
    kernel_params : dict, default=None
        Further keyword arguments of the kernel.
    n_components : int, default=100
        Number of rows b and of features; at most the number of rows of X.
    random_state : int, RandomState instance or None, default=None
        Seed for drawing the rows b.
    n_jobs : int, default=None
        Used only for data in CPU memory.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The rows b, in the library, on the device and of the dtype of the X of `fit`.
    component_indices_ : array of shape (n_components,)
        Indices of the rows b in X.
    normalization_ : array of shape (n_components, n_components)
        :math:`K_b^{-1/2}`, in float64 on a device. Eigenvalues below 1e-12 count as 1e-12.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    RBFSampler : Random features, which do not depend on the rows.
    gpuml.kernel_ridge.KernelRidge : The exact kernel, for up to a few ten thousand rows.

    References
    ----------
    C. K. I. Williams, M. Seeger, "Using the Nystroem method to speed up kernel machines", NIPS
    2000.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.kernel_approximation import Nystroem
    >>> X = np.linspace(0, 3, 40)[:, None]
    >>> Z = Nystroem(gamma=1.0, n_components=10, random_state=0).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - np.exp(-((X - X.T) ** 2))).max() < 0.01)
    True
    """

    components_: Any
    component_indices_: Any
    normalization_: Any
    _located_by: ClassVar[str | None] = "components_"

    def _read(self, X: Any) -> Any:
        X = super()._read(X)
        # scikit-learn's chi-squared kernels refuse rows that cannot be written to, as folds are.
        if self.kernel in NEED_WRITABLE and is_numpy(X) and not X.flags.writeable:
            return X.copy()
        return X

    def _fit_there(self, X, y=None):
        kernels = self._kernels()
        X = check_rows(self, X, reset=True)
        xp, n_rows = namespace(X), X.shape[0]
        drawn = check_random_state(self.random_state).permutation(n_rows)[: self.n_components]
        if self.n_components > n_rows:
            warnings.warn(
                f"n_components > n_samples: there are {n_rows} rows to draw {self.n_components} "
                f"from. All rows are used; set n_components to at most {n_rows}.",
                stacklevel=level_of_user(),
            )
        indices = xp.asarray(drawn, dtype=xp.int64, device=device_of(X))
        basis = xp.take(X, indices, axis=0)
        if self.kernel == "precomputed":
            if len(drawn) != X.shape[1]:
                raise ValueError(
                    f"Precomputed kernels of {len(drawn)} drawn rows with {X.shape[1]} rows are "
                    "not square: kernel='precomputed' needs all rows. Set n_components to how many "
                    "rows there are."
                )
            # Columns of kernels keep their order, whatever rows are drawn first.
            half = xp.take(_inverse_root(kernels(X, None)), indices, axis=0)
        else:
            half = _inverse_root(kernels(basis, None))
        self.normalization_ = half
        self.components_ = basis
        self.component_indices_ = indices
        self._n_features_out = len(drawn)

    def _transform_there(self, X):
        kernels = self._kernels()
        X = check_rows(self, X, reset=False)
        place = place_of(X)
        xp = place.xp
        basis = move(self.components_, place)
        half = _doubles(move(self.normalization_, place)).T
        dtype = xp.result_type(X.dtype, basis.dtype)
        # Memory for the base, the kernel and the result.
        blocks = row_blocks(X, 8 * 4 * basis.shape[0])
        found = [xp.astype(kernels(X[rows, :], basis) @ half, dtype) for rows in blocks]
        return xp.concat(found)

    def _kernels(self) -> Callable[[Array, Array | None], Array]:
        """A function of rows (n, p) and (m, p), or None for the same rows, that returns (n, m)."""
        given = {name: getattr(self, name) for name in DEFAULTS}
        given = {name: value for name, value in given.items() if value is not None}
        further = self.kernel_params or {}
        if given and (callable(self.kernel) or self.kernel == "precomputed"):
            raise ValueError(
                f"{', '.join(given)} is for kernels given by name, and kernel={self.kernel!r} is "
                "not a name. Leave it at None; pass arguments of a function in kernel_params."
            )
        if callable(self.kernel):
            return partial(_by_pairs, self.kernel, further)
        kernel = PairKernel.of(self.kernel, **{**DEFAULTS, **further, **given})
        return partial(_by_name, kernel)


def _doubles(values: Array) -> Array:
    xp = namespace(values)
    return xp.astype(values, xp.float64, copy=False)


def _by_name(kernel: PairKernel, X: Array, Y: Array | None) -> Array:
    X, Y = _doubles(X), None if Y is None else _doubles(Y)
    if kernel.name == "precomputed":
        return X
    return kernel.of_base(pair_base(kernel.base, X, Y), X.shape[1], in_place=True)


def _by_pairs(
    function: Callable[..., Any], params: Mapping[str, Any], X: Array, Y: Array | None
) -> Array:
    Y = X if Y is None else Y
    others = [Y[j, :] for j in range(Y.shape[0])]
    found = [
        [float(function(X[i, :], other, **params)) for other in others] for i in range(X.shape[0])
    ]
    return constant(found, like=X, xp=namespace(X))


def _inverse_root(K: Array) -> Array:
    """``U S^{-1/2} V'``, where ``U S V'`` is the SVD of the symmetric matrix K."""
    xp = namespace(K)
    with threads_for_order(K.shape[0]):
        values, vectors = xp.linalg.eigh(K)
    signs = xp.where(values < 0, -xp.ones_like(values), xp.ones_like(values))
    return (vectors * (signs / xp.sqrt(clipped(xp.abs(values), SMALLEST)))) @ vectors.T
