"""scikit-learn's compiled coordinate descent, for lasso and elastic net on a CPU.

It is the one thing of scikit-learn that is not public here: the public functions around it warn of
every model that is not there yet, as ours never are when they are handed on to an exact solver.

References
----------
J. Friedman, T. Hastie, R. Tibshirani, "Regularization paths for generalized linear models via
coordinate descent", Journal of Statistical Software 33 (2010).
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuml._sklearn import _cd_fast

# A length of y, which only the duality gap has a use for: any will do where the gap is none.
_NO_TARGET = np.ones(1)


def descend_rows(
    X: np.ndarray,
    y: np.ndarray,
    start: np.ndarray,
    l1: float,
    l2: float,
    *,
    tol: float,
    max_iter: int,
) -> np.ndarray:
    """Go towards the minimum over v of ``|y - X v|^2 / 2 + l1 |v|_1 + l2 |v|^2 / 2``.

    Parameters
    ----------
    X : ndarray (n, p), float64, in Fortran's order
    y : ndarray (n,), float64
    start : ndarray (p,), float64
    l1, l2 : float
        `l1` above zero.
    tol : float
        When to stop: at a duality gap of this share of ``|y|^2``.
    max_iter : int
        Bound on the sweeps over the coefficients.

    Returns
    -------
    v : ndarray (p,)
    """
    _ignore_early_stops()
    v, *_ = _cd_fast.enet_coordinate_descent(
        w=start.copy(),
        alpha=l1,
        beta=l2,
        X=X,
        y=y,
        max_iter=max_iter,
        tol=tol,
        rng=np.random.RandomState(0),
        random=False,
        positive=False,
        do_screening=True,
    )
    return v


def descend_gram(
    H: np.ndarray,
    g: np.ndarray,
    start: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    *,
    tol: float,
    max_iter: int,
) -> np.ndarray:
    """Go towards the minimum over v of ``v'Hv/2 - g'v + sum_j (l1_j |v_j| + l2_j v_j^2 / 2)``.

    Parameters
    ----------
    H : ndarray (p, p), float64
    g, start, l1, l2 : ndarrays (p,), float64
        `l1` above zero.
    tol : float
        Relative change of the coefficients in a sweep that counts as none.
    max_iter : int
        Bound on the sweeps.

    Returns
    -------
    v : ndarray (p,)
    """
    _ignore_early_stops()
    # In units of their own every coefficient has the same penalty.
    largest = l1.max()
    unit = l1 / largest
    Q = H / unit / unit[:, None]
    Q[np.diag_indices(len(l1))] += l2 / unit**2
    v, *_ = _cd_fast.enet_coordinate_descent_gram(
        w=start * unit,
        alpha=largest,
        beta=0.0,
        Q=Q,
        q=g / unit,
        y=_NO_TARGET,
        max_iter=max_iter,
        tol=tol,
        rng=np.random.RandomState(0),
        random=False,
        positive=False,
        # Which needs a gap, and so |y|.
        do_screening=False,
    )
    return v / unit


def _ignore_early_stops():
    """Let no warning out of this module, in front of all other filters.

    For good: what `warnings.catch_warnings` puts back at its end may be what another thread is
    using. The compiled code warns in the name of the module that calls it, which is this one.
    """
    module = r"gpuml\.solvers\._coordinates$"
    first = warnings.filters[0] if warnings.filters else None
    # Only where it is not so: each change makes Python forget which warnings were shown.
    if first is None or getattr(first[3], "pattern", None) != module:
        warnings.filterwarnings("ignore", category=ConvergenceWarning, module=module)
