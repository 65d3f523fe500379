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

# Coordinates are visited one after the other: a seed is drawn from it, and not used.
_NO_ORDER = np.random.RandomState(0)


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
    # Scale coordinates so that all coefficients have the same penalty.
    largest = l1.max()
    unit = l1 / largest
    Q = H / unit / unit[:, None]
    Q.flat[:: len(l1) + 1] += l2 / unit**2
    v, _ = sweep_gram(Q, g / unit, start * unit, largest, 0.0, tol=tol, max_iter=max_iter)
    return v / unit


def sweep_gram(
    H: np.ndarray,
    g: np.ndarray,
    start: np.ndarray,
    l1: float,
    l2: float,
    *,
    tol: float,
    max_iter: int,
    size: float = 1.0,
) -> tuple[np.ndarray, int]:
    """The same with one penalty for all coordinates, and without a copy of H.

    A coordinate with a zero diagonal stays where it is. Besides v come the sweeps that it took.
    `size` says what g is sums of products with: to rounding of its square, the duality gap that
    the compiled code asks for when coefficients change no more is none.
    """
    _ignore_early_stops()
    v, _, _, n_iter = _cd_fast.enet_coordinate_descent_gram(
        w=start.copy(),
        alpha=l1,
        beta=l2,
        Q=H,
        q=g,
        y=np.full(1, size),
        max_iter=max_iter,
        tol=tol,
        rng=_NO_ORDER,
        random=False,
        positive=False,
        # Which needs a gap, and so |y|.
        do_screening=False,
    )
    return v, n_iter


def _ignore_early_stops():
    """Ignore warnings from this module, before all other filters.

    For good: what `warnings.catch_warnings` puts back at its end may be what another thread is
    using. The compiled code warns in the name of the module that calls it, which is this one.
    """
    module = r"gpuml\.solvers\._coordinates$"
    first = warnings.filters[0] if warnings.filters else None
    # Only if needed: each change of filters makes Python forget which warnings it has shown.
    if first is None or getattr(first[3], "pattern", None) != module:
        warnings.filterwarnings("ignore", category=ConvergenceWarning, module=module)
