"""Ordinary least squares on the device of its data."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import as_array, namespace
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.data import Batch, Folds, whole
from gpuml.linear_model._base import LinearPredictor, OnePass, describe_rows, multifit_batch
from gpuml.linear_model._engines import fit_on_host, needs_host
from gpuml.linear_model._least_squares import solve_candidates
from gpuml.linear_model._models import Models, at_home
from gpuml.solvers.ridge import spectrum


class LinearRegression(LinearPredictor, OnePass, sk.LinearRegression):
    r"""Ordinary least squares.

    Minimises, over W of shape (n_targets, n_features) and b,

    .. math:: \sum_i w_i \, |y_i - W x_i - b|^2

    and of several minimisers takes the W of least norm. Works where the data is, as `Ridge` does;
    in a `gpuml.model_selection` search, all splits are fitted from one pass over the rows.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether b is fitted or 0.
    copy_X : bool, default=True
        Only where scikit-learn does the work; ours never writes to X.
    tol : float, default=1e-6
        Singular values of the centred, weighted X up to tol x the largest count as zero.
        For sparse X, the tolerance of scikit-learn's iterative solver.
    n_jobs : int, default=None
        Only for ``positive=True`` with several targets.
    positive : bool, default=False
        Whether W must be non-negative; scikit-learn's solver, for host data.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        W, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
        b; 0.0 without an intercept.
    rank_ : int
        Number of singular values that count.
    singular_ : array of shape (min(n_samples, n_features),)
        Singular values of the centred, weighted X, descending.
    status_ : gpuml.solvers.Status
        How the solve went; ``status_.advice`` says it in a sentence.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights w.

        Returns
        -------
        self : LinearRegression

        Raises
        ------
        ValueError
            For input that scikit-learn's LinearRegression rejects, and for device data with
            ``positive=True``. A failed fit leaves the estimator as it was.
        MemoryError
            If a device has no room for even small blocks of rows.
        """
        with unchanged_on_error(self):
            X = as_array(X)
            reason = needs_host(self, X)
            if reason is not None:
                fit_on_host(self, sk.LinearRegression, reason, X, y, sample_weight)
                return self
            batch = self.multifit_batch(X, y, sample_weight)
            self.__dict__.update(self.multifit(whole(batch), [{}]).pick(0, None))
        return self

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why our own solver does not do the work; then models are fitted one by one."""
        return needs_host(self, X)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and bring them to where they are worked on."""
        return multifit_batch(self, X, y, sample_weight)

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> Models:
        """Fit every candidate on the training part of every split; as `Ridge.multifit`."""
        return solve_candidates(
            described=describe_rows(self, folds, advance),
            alphas=np.zeros((len(candidates), 1)),
            fit_intercept=[c.get("fit_intercept", self.fit_intercept) for c in candidates],
            attributes=partial(_rank_attributes, self.tol),
            rcond=self.tol,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = not self.positive
        return tags


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
