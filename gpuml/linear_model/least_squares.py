"""Ordinary least squares on the device of its data."""

from functools import partial
from typing import Any

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import namespace
from gpuml.linear_model._base import LinearPredictor, OnePass, describe_rows
from gpuml.linear_model._least_squares import solve_candidates
from gpuml.linear_model._models import Models, at_home
from gpuml.solvers.ridge import spectrum


class LinearRegression(LinearPredictor, OnePass, sk.LinearRegression):
    r"""Ordinary least squares.

    Minimises, over W of shape (n_targets, n_features) and b,

    .. math:: \sum_i w_i \, |y_i - W x_i - b|^2

    If there are several solutions, W is the one with the least norm. For the device, see `Ridge`.
    In a `gpuml.model_selection` search, all splits are fitted in one pass over the rows.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.
    copy_X : bool, default=True
        Used only by scikit-learn's solvers; gpuml's never write to X.
    tol : float, default=1e-6
        Singular values of the centred, weighted X that are at most `tol` times the largest count as
        zero. For sparse X, the tolerance of scikit-learn's iterative solver.
    n_jobs : int, default=None
        Only for ``positive=True`` with several targets.
    positive : bool, default=False
        Whether W must be non-negative; scikit-learn's solver, for data in CPU memory.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        W, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
        b; 0.0 without an intercept.
    rank_ : int
        Number of singular values that do not count as zero.
    singular_ : array of shape (min(n_samples, n_features),)
        Singular values of the centred, weighted X, descending.
    status_ : gpuml.solvers.Status
        How the solve went; ``status_.advice`` says it in a sentence.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    Ridge : With a penalty, for features that are nearly dependent.

    References
    ----------
    A. Bjorck, "Numerical methods for least squares problems" (1996), chapters 1 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import LinearRegression
    >>> X = np.array([[1.0, 1.0], [1.0, 2.0], [2.0, 2.0], [2.0, 3.0]])
    >>> model = LinearRegression().fit(X, X @ [1.0, 2.0] + 3.0)
    >>> model.coef_.round(6)
    array([1., 2.])
    """

    # Hyper-parameters that may differ between candidates of one pass over the rows.
    multifit_params = ("fit_intercept",)
    multifit_targets = True
    _instead = "positive=False"

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        return solve_candidates(
            described=describe_rows(self, folds, advance),
            alphas=np.zeros((len(candidates), 1)),
            fit_intercept=self._values(candidates, "fit_intercept"),
            attributes=partial(_rank_attributes, self.tol),
            rcond=self.tol,
        )


def _rank_attributes(rcond: float, models: Models, candidate: int, split: int) -> dict[str, Any]:
    assert models.described is not None
    part = None if models.of_all_rows else split
    values = spectrum(models.described, models.fit_intercept[candidate], part)
    xp = namespace(values)
    rank = int(xp.sum(xp.astype(values > rcond * values[0], xp.int64)))
    return {
        "rank_": rank,
        "singular_": at_home(values, models.folds.batch),
        "status_": models.status_of(candidate, split),
    }
