"""Least angle regression and orthogonal matching pursuit, as functions of any library's arrays."""

from typing import Any

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import Place, as_array, is_array, is_foreign, is_numpy, move, place_of, to_host
from gpuml._sklearn import _num_samples

# As a default, it must print like scikit-learn's.
MACHINE_EPS = np.finfo(float).eps


def lars_path(
    X,
    y,
    Xy=None,
    *,
    Gram=None,
    max_iter=500,
    alpha_min=0,
    method="lar",
    copy_X=True,
    eps=MACHINE_EPS,
    copy_Gram=True,
    verbose=0,
    return_path=True,
    return_n_iter=False,
    positive=False,
):
    r"""Path of least angle regression, or of the lasso, for centred data.

    With ``method="lasso"``, the coefficients minimise
    :math:`\frac{1}{2n} |y - X w|^2 + \alpha |w|_1` at every :math:`\alpha` where a feature joins or
    leaves the model; between these they are linear in :math:`\alpha`.

    scikit-learn does the work for arrays in CPU memory. For arrays on a device, `Gram` and `Xy` are
    computed there in float64, however many features there are, and the steps in CPU memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or None with `Gram`
    y : array of shape (n_samples,), or None with `Xy` and `Gram`
    Xy : array of shape (n_features,), default=None
        ``X.T @ y``.
    Gram : None, "auto", bool or array of shape (n_features, n_features), default=None
        ``X.T @ X``, if you have it. Values other than arrays matter only for X in CPU memory.
    max_iter : int, default=500
        The most steps.
    alpha_min : float, default=0
        The alpha at which the path ends.
    method : {"lar", "lasso"}, default="lar"
        "lar" for least angle regression, "lasso" for the lasso.
    copy_X, copy_Gram : bool, default=True
        Used only for arrays in CPU memory.
    eps : float, default=2.2e-16
        The least diagonal entry of the Cholesky factor.
    verbose : int, default=0
        From 2 on, the function prints each step.
    return_path : bool, default=True
        Whether to return all steps, or only the last one.
    return_n_iter : bool, default=False
        Whether to return `n_iter` too.
    positive : bool, default=False
        Whether coefficients must be non-negative; only for ``method="lasso"``.

    Returns
    -------
    alphas : array of shape (n_steps + 1,)
        This and `coefs` are in the library, on the device and of the dtype of X.
    active : list of ints
        Features at the end of the path.
    coefs : array of shape (n_features, n_steps + 1), or (n_features,)
    n_iter : int
        Number of steps. Only with `return_n_iter`.

    Raises
    ------
    ValueError
        For input that scikit-learn's function rejects, and for no rows.

    See Also
    --------
    Lars, LassoLars : Estimators that follow these paths.

    References
    ----------
    B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle regression", Annals of Statistics
    32 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import lars_path
    >>> X = np.array([[-1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    >>> X = X - X.mean(axis=0)
    >>> alphas, active, coefs = lars_path(X, X @ [1.0, 2.0], method="lasso")
    >>> coefs[:, -1].round(6)
    array([1., 2.])
    """
    options = {
        "max_iter": max_iter,
        "alpha_min": alpha_min,
        "method": method,
        "copy_X": copy_X,
        "eps": eps,
        "copy_Gram": copy_Gram,
        "verbose": verbose,
        "return_path": return_path,
        "return_n_iter": return_n_iter,
        "positive": positive,
    }
    X, y, Xy, Gram = (as_array(a) for a in (X, y, Xy, Gram))
    if X is not None and _num_samples(X) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    if X is None or not is_foreign(X):
        return sk.lars_path(X, y, Xy, Gram=Gram, **options)
    rows, y = _float64(X, place_of(X)), _float64(y, place_of(X))
    Gram = to_host(Gram) if is_array(Gram) else to_host(rows.T @ rows)
    Xy = to_host(rows.T @ y if Xy is None else Xy)
    return _back(sk.lars_path_gram(Xy, Gram, n_samples=X.shape[0], **options), X)


def lars_path_gram(
    Xy,
    Gram,
    *,
    n_samples,
    max_iter=500,
    alpha_min=0,
    method="lar",
    copy_X=True,
    eps=MACHINE_EPS,
    copy_Gram=True,
    verbose=0,
    return_path=True,
    return_n_iter=False,
    positive=False,
):
    """Path of `lars_path`, from the Gram matrix of the features.

    Arrays on a device are copied to CPU memory for the steps; results return to the device.

    Parameters
    ----------
    Xy : array of shape (n_features,)
        ``X.T @ y``.
    Gram : array of shape (n_features, n_features)
        ``X.T @ X``.
    n_samples : int
        Number of rows of X.
    max_iter, alpha_min, method, copy_X, eps, copy_Gram, verbose
        As for `lars_path`.
    return_path, return_n_iter, positive
        As for `lars_path`.

    Returns
    -------
    alphas : array of shape (n_steps + 1,)
        This and `coefs` are in the library, on the device and of the dtype of `Gram`.
    active : list of ints
    coefs : array of shape (n_features, n_steps + 1), or (n_features,)
    n_iter : int
        Only with `return_n_iter`.

    Raises
    ------
    ValueError
        For input that scikit-learn's function rejects.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import lars_path_gram
    >>> Gram = np.array([[2.0, 0.0], [0.0, 4.0]])
    >>> lars_path_gram(Gram @ [1.0, 2.0], Gram, n_samples=10)[0].round(6)
    array([0.8, 0.2, 0. ])
    """
    there, Xy = (to_host(a) if is_array(a) else a for a in (as_array(Gram), as_array(Xy)))
    found = sk.lars_path_gram(
        Xy,
        there,
        n_samples=n_samples,
        max_iter=max_iter,
        alpha_min=alpha_min,
        method=method,
        copy_X=copy_X,
        eps=eps,
        copy_Gram=copy_Gram,
        verbose=verbose,
        return_path=return_path,
        return_n_iter=return_n_iter,
        positive=positive,
    )
    return _back(found, Gram)


def orthogonal_mp(
    X,
    y,
    *,
    n_nonzero_coefs=None,
    tol=None,
    precompute=False,
    copy_X=True,
    return_path=False,
    return_n_iter=False,
):
    r"""Orthogonal matching pursuit for centred data.

    Each step adds the feature with the largest :math:`|x_j^\top (y - X w)|` to the model, and
    minimises :math:`|y - X w|^2` over the coefficients w of its features. Steps end when the model
    has `n_nonzero_coefs` features, or when :math:`|y - X w|^2` is at most `tol`.

    scikit-learn does the work for arrays in CPU memory. For arrays on a device, sums over the rows
    are computed there in float64, and the steps in CPU memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Scale the columns to norm 1 if no feature should be preferred.
    y : array of shape (n_samples,) or (n_samples, n_targets)
    n_nonzero_coefs : int, default=None
        Number of features in the model. None means a tenth of the features of X, but at least 1.
        Ignored if you set `tol`.
    tol : float, default=None
        Bound on the sum of squared residuals.
    precompute : "auto" or bool, default=False
        Used only for X in CPU memory; on a device, sums are always used.
    copy_X : bool, default=True
        Used only for X in CPU memory.
    return_path : bool, default=False
        Whether to return coefficients after each step.
    return_n_iter : bool, default=False
        Whether to return `n_iters` too.

    Returns
    -------
    coef : array of shape (n_features,) or (n_features, n_targets)
        In the library, on the device and of the dtype of X. With `return_path`, the last axis is
        that of the steps.
    n_iters : int or list of n_targets ints
        Number of features in the model. Only with `return_n_iter`.

    Raises
    ------
    ValueError
        For input that scikit-learn's function rejects.

    References
    ----------
    R. Rubinstein, M. Zibulevsky, M. Elad, "Efficient implementation of the K-SVD algorithm using
    batch orthogonal matching pursuit", Technion CS (2008).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import orthogonal_mp
    >>> X = np.random.default_rng(0).normal(size=(50, 5))
    >>> orthogonal_mp(X, X @ [0.0, 2.0, 0.0, 0.0, -3.0], n_nonzero_coefs=2).round(6) + 0.0
    array([ 0.,  2.,  0.,  0., -3.])
    """
    options = {
        "n_nonzero_coefs": n_nonzero_coefs,
        "tol": tol,
        "return_path": return_path,
        "return_n_iter": return_n_iter,
    }
    X, y = as_array(X), as_array(y)
    if not is_foreign(X):
        return sk.orthogonal_mp(X, y, precompute=precompute, copy_X=copy_X, **options)
    if n_nonzero_coefs is None and tol is None:
        options["n_nonzero_coefs"] = max(int(0.1 * X.shape[1]), 1)
    place = place_of(X)
    rows, y = _float64(X, place), _float64(y, place)
    y = y if y.ndim == 2 else y[:, None]
    squares = to_host(place.xp.sum(y * y, axis=0))
    found = sk.orthogonal_mp_gram(
        to_host(rows.T @ rows), to_host(rows.T @ y), norms_squared=squares, **options
    )
    return _back(found, X)


def orthogonal_mp_gram(
    Gram,
    Xy,
    *,
    n_nonzero_coefs=None,
    tol=None,
    norms_squared=None,
    copy_Gram=True,
    copy_Xy=True,
    return_path=False,
    return_n_iter=False,
):
    """Orthogonal matching pursuit, from the Gram matrix of the features.

    Arrays on a device are copied to CPU memory for the steps; results return to the device.

    Parameters
    ----------
    Gram : array of shape (n_features, n_features)
        ``X.T @ X``.
    Xy : array of shape (n_features,) or (n_features, n_targets)
        ``X.T @ y``.
    n_nonzero_coefs, tol
        As for `orthogonal_mp`.
    norms_squared : array of shape (n_targets,), default=None
        Sums of squares of the targets; needed if you set `tol`.
    copy_Gram, copy_Xy : bool, default=True
        Used only for arrays in CPU memory.
    return_path, return_n_iter
        As for `orthogonal_mp`.

    Returns
    -------
    coef : array of shape (n_features,) or (n_features, n_targets)
        In the library, on the device and of the dtype of `Gram`. With `return_path`, the last axis
        is that of the steps.
    n_iters : int or list of n_targets ints
        Number of features in the model. Only with `return_n_iter`.

    Raises
    ------
    ValueError
        For input that scikit-learn's function rejects.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import orthogonal_mp_gram
    >>> Gram = np.array([[2.0, 0.5], [0.5, 4.0]])
    >>> orthogonal_mp_gram(Gram, Gram @ [0.0, 2.0], n_nonzero_coefs=1)
    array([0., 2.])
    """
    given = (as_array(a) for a in (Gram, Xy, norms_squared))
    there, Xy, norms_squared = (to_host(a) if is_array(a) else a for a in given)
    found = sk.orthogonal_mp_gram(
        there,
        Xy,
        n_nonzero_coefs=n_nonzero_coefs,
        tol=tol,
        norms_squared=norms_squared,
        copy_Gram=copy_Gram,
        copy_Xy=copy_Xy,
        return_path=return_path,
        return_n_iter=return_n_iter,
    )
    return _back(found, Gram)


def _float64(values: Any, place: Place) -> Any:
    return place.xp.astype(move(values, place), place.xp.float64, copy=False)


def _back(found: Any, like: Any) -> Any:
    """Results with arrays on the device and of the dtype of `like`, if that is on a device."""
    if isinstance(found, tuple):
        return tuple(_back(each, like) for each in found)
    if not is_numpy(found) or not is_foreign(like):
        return found
    place = place_of(like)
    return place.xp.astype(move(np.ascontiguousarray(found), place), like.dtype)
