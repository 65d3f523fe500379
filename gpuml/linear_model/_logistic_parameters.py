"""What LogisticRegression warns of: parameters, and fits that stopped early."""

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from gpuml.solvers.lbfgs import Solved

# The words that scikit-learn's users look for in its warnings.
STOPPED = {
    "lbfgs": "lbfgs failed to converge after {max_iter} iteration(s)",
    "newton-cholesky": "Newton solver did not converge after {max_iter} iterations",
    "saga": "The max_iter was reached which means the coef_ did not converge",
}


def warn_of_parameters(estimator: Any, name: str | None) -> None:
    """Warn where scikit-learn does: of what is deprecated, or contradicts itself.

    Parameters
    ----------
    estimator : LogisticRegression
    name : {"l1", "l2", "elasticnet"} or None
        The penalty that its parameters amount to.
    """
    if estimator.penalty == "deprecated":
        if estimator.l1_ratio is None:
            warn("'l1_ratio=None' was deprecated in version 1.8; use 0 <= l1_ratio <= 1.")
    else:
        warn(
            "'penalty' was deprecated in version 1.8 of scikit-learn and will be removed in "
            "1.10. Use l1_ratio (0 for 'l2', 1 for 'l1') and C=np.inf (for None)."
        )
    between = estimator.l1_ratio is not None and 0 < estimator.l1_ratio < 1
    if name not in ("elasticnet",) and between:
        warn(
            f"l1_ratio parameter is only used when penalty is 'elasticnet'. Got (penalty={name})",
            UserWarning,
        )
    if (estimator.penalty == "l2" and estimator.l1_ratio != 0) or (
        estimator.penalty == "l1" and estimator.l1_ratio != 1
    ):
        warn(
            f"Inconsistent values: penalty={estimator.penalty} with l1_ratio={estimator.l1_ratio}. "
            "penalty is deprecated. Please use l1_ratio only.",
            UserWarning,
        )
    if estimator.penalty is None and estimator.C != 1.0:
        warn("Setting penalty=None will ignore the C and l1_ratio parameters", UserWarning)
    if estimator.n_jobs is not None:
        warn(
            "'n_jobs' has no effect since 1.8 and will be removed in 1.10. You provided "
            f"'n_jobs={estimator.n_jobs}', please leave it unspecified."
        )


def warn_if_stopped(estimator: Any, solved: Solved) -> None:
    """Warn of models that `max_iter` passes were not enough for."""
    late = (solved.violation > estimator.tol) & ~solved.stalled
    if not late.any():
        return
    models = f" for {late.sum()} of {late.size} models" if late.size > 1 else ""
    said = STOPPED.get(estimator.solver, STOPPED["lbfgs"]).format(max_iter=estimator.max_iter)
    warn(
        f"{said}{models}: the largest component of a gradient is "
        f"{solved.violation[late].max():.2g}, above tol={estimator.tol:g}. Increase max_iter, "
        "scale the features (StandardScaler), or ask for less with a larger tol.",
        ConvergenceWarning,
    )


def warn(text: str, category: type[Warning] = FutureWarning) -> None:
    """A warning of who called for a fit."""
    warnings.warn(text, category, stacklevel=4)
