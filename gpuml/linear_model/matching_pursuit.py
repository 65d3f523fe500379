"""Orthogonal matching pursuit from second moments of the rows."""

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn import linear_model as sk

from gpuml.linear_model._from_sums import Found, FromSums
from gpuml.linear_model._paths import pursuit_of, squared_residuals


class OrthogonalMatchingPursuit(FromSums, sk.OrthogonalMatchingPursuit):
    r"""Orthogonal matching pursuit: least squares on features that join one by one.

    Each step adds the feature with the largest :math:`|x_j^\top (y - X w)|` to the model, and fits
    the coefficients of its features by least squares. The steps approximate

    .. math:: \min_w |y - X w|^2 \quad \text{subject to} \quad |w|_0 \le n
              \quad (\text{or } |y - X w|^2 \le \varepsilon) .

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Rows are read once, for their second
    moments; scikit-learn's `orthogonal_mp_gram` computes the steps in CPU memory. In a
    `gpuml.model_selection` search, one path per split gives all values of `n_nonzero_coefs`, and
    another all values of `tol`.

    Parameters
    ----------
    n_nonzero_coefs : int, default=None
        Number n of features in the model. None means a tenth of the features of X, but at least 1.
        Ignored if you set `tol`.
    tol : float, default=None
        Bound :math:`\varepsilon` on the sum of squared residuals.
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.
    precompute : "auto" or bool, default="auto"
        Has no effect: moments are always used.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        In the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
    n_iter_ : int or list of n_targets ints
        Number of features in the model.
    n_nonzero_coefs_ : int or None
        The number n; None with `tol`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    OrthogonalMatchingPursuitCV : Chooses the number of features by cross-validation.
    Lars : Least angle regression, in which coefficients grow gradually.

    Notes
    -----
    scikit-learn does the work for data in CPU memory with fewer rows than features.

    References
    ----------
    R. Rubinstein, M. Zibulevsky, M. Elad, "Efficient implementation of the K-SVD algorithm using
    batch orthogonal matching pursuit", Technion CS (2008).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import OrthogonalMatchingPursuit
    >>> X = np.random.default_rng(0).normal(size=(50, 5))
    >>> model = OrthogonalMatchingPursuit(n_nonzero_coefs=2)
    >>> model.fit(X, X @ [0.0, 2.0, 0.0, 0.0, -3.0]).coef_.round(6) + 0.0
    array([ 0.,  2.,  0.,  0., -3.])
    """

    _numeric_strings = "fit"

    multifit_params = ("n_nonzero_coefs", "tol", "fit_intercept")

    def fit(self, X, y) -> Self:  # type: ignore[override]
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)

        Returns
        -------
        self : OrthogonalMatchingPursuit

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, or if `n_nonzero_coefs` exceeds the number
            of features. A failed fit leaves the estimator as it was.

        Warns
        -----
        RuntimeWarning
            If linearly dependent features end the steps before `n_nonzero_coefs` or `tol` does.
        """
        return super().fit(X, y)

    def _solve(self, sums, candidates, start=None):
        p = len(sums.H)
        sizes = [_size(each, p) for each in candidates]
        found: dict[int, Found] = {}
        for by_tol in (False, True):
            some = [i for i, each in enumerate(candidates) if (each["tol"] is not None) == by_tol]
            if not some:
                continue
            tol = min(candidates[i]["tol"] for i in some) if by_tol else None
            size = None if by_tol else max(sizes[i] for i in some)
            paths = [pursuit_of(sums, k, n_nonzero_coefs=size, tol=tol) for k in range(len(sums.g))]
            for i in some:
                n_steps = [
                    _steps(sums, k, path, sizes[i], candidates[i]["tol"])
                    for k, path in enumerate(paths)
                ]
                coef = [path[:, n] for path, n in zip(paths, n_steps, strict=True)]
                found[i] = Found(np.stack(coef), partial(_attributes, sizes[i], n_steps))
        return [found[i] for i in range(len(candidates))]


def _size(params, p):
    if params["tol"] is not None:
        return None
    size = params["n_nonzero_coefs"]
    return max(int(0.1 * p), 1) if size is None else int(size)


def _steps(sums, target, path, size, tol):
    """Number of steps of a path after which the model is complete."""
    most = path.shape[1] - 1
    if tol is None:
        return min(size, most)
    # scikit-learn compares residuals with `tol` after each step.
    enough = np.flatnonzero(squared_residuals(sums, target, path[:, 1:]) <= tol)
    return int(enough[0]) + 1 if len(enough) else most


def _attributes(size: int | None, n_steps: list[int]) -> dict[str, Any]:
    return {
        "n_iter_": n_steps[0] if len(n_steps) == 1 else n_steps,
        "n_nonzero_coefs_": size,
    }
