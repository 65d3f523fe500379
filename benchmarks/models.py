"""Searches over models that have few rivals besides scikit-learn, on the same rows.

    python benchmarks/models.py --json models.json

Ten or so candidates and 5 folds. README.md beside this file says how it is measured.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any

import _harness as harness
import numpy as np
import sklearn.covariance as sk_covariance
import sklearn.cross_decomposition as sk_cross
import sklearn.decomposition as sk_decomposition
import sklearn.discriminant_analysis as sk_da
import sklearn.gaussian_process as sk_gp
import sklearn.kernel_approximation as sk_approximation
import sklearn.kernel_ridge as sk_kernel
import sklearn.linear_model as sk_linear
import sklearn.naive_bayes as sk_nb
import sklearn.neighbors as sk_neighbors
import sklearn.svm as sk_svm
from _beside import CUML, RIVAL_RUNS, RIVAL_SECONDS, RIVALS, contenders
from _harness import needed_cupy, scaled
from _targets import (
    claims,
    costs,
    counts,
    noisy,
    outlying,
    several,
    three_classes,
    two_classes,
)
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.model_selection import ParameterGrid

import gpuml
from gpuml.covariance import ShrunkCovariance
from gpuml.cross_decomposition import CCA, PLSRegression
from gpuml.decomposition import FactorAnalysis
from gpuml.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from gpuml.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from gpuml.gaussian_process.kernels import RBF, Matern, WhiteKernel
from gpuml.kernel_approximation import Nystroem, RBFSampler
from gpuml.kernel_ridge import KernelRidge
from gpuml.linear_model import (
    ARDRegression,
    GammaRegressor,
    HuberRegressor,
    Lars,
    LassoLars,
    LassoLarsIC,
    MultiTaskElasticNet,
    MultiTaskLasso,
    OrthogonalMatchingPursuit,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    TweedieRegressor,
)
from gpuml.model_selection import GridSearchCV
from gpuml.naive_bayes import GaussianNB
from gpuml.neighbors import KNeighborsClassifier, KNeighborsRegressor
from gpuml.pipeline import make_pipeline
from gpuml.svm import SVC, SVR, LinearSVC, LinearSVR

SEED, FOLDS = 0, 5
PENALTIES = np.geomspace(1e-4, 1e2, 10).tolist()
SQUARED = "squared_epsilon_insensitive"
ALPHAS = np.geomspace(1e-4, 1e2, 10).tolist()
PATH = np.geomspace(1e-3, 0.3, 10).tolist()
SHRINKAGE = np.linspace(0.0, 0.9, 10).tolist()
MACHINES = {"C": [0.1, 1.0, 10.0, 30.0, 100.0], "gamma": [0.001, 0.003, 0.01, 0.03, 0.1]}
SCALES = [1.0 * RBF(length) for length in np.geomspace(1.0, 30.0, 5)]
SHAPES = [1.0 * RBF(3.0) + WhiteKernel(0.5), 1.0 * Matern(3.0) + WhiteKernel(0.5)]
NEIGHBOURS = {"n_neighbors": [1, 5, 9, 15, 25, 50], "weights": ["uniform", "distance"]}
INTEL = {"sklearnex": "sklearnex.neighbors"}
INTEL_SVM = {"sklearnex": "sklearnex.svm"}


@dataclass(frozen=True)
class Scenario:
    """Rows, targets, both models, and a grid.

    Of models with several solvers in scikit-learn, theirs has the fastest that reaches the optimum.
    Those of cuML, which a function makes, get rows in CPU memory from scikit-learn's search, and
    stand beside gpuml's search over the same rows. `others` are modules that have a class of the
    same name, for scikit-learn's search over rows in CPU memory.
    """

    ours: Any
    theirs: Any
    grid: dict[str, list]
    target: Callable[..., np.ndarray]
    n: int = 50_000
    p: int = 50
    on_device: bool = False
    others: Mapping[str, str] = field(default_factory=dict)


def of_cuml(name, **params):
    """A model of cuML, which nobody else imports."""

    def make():
        import cuml

        return getattr(cuml, name)(**params)

    return make


def glm(kind, target, **params):
    """A generalised linear model, both to nearly the optimum."""
    theirs = getattr(sk_linear, kind.__name__)(solver="newton-cholesky", tol=1e-6, **params)
    return Scenario(kind(tol=1e-6, **params), theirs, {"alpha": ALPHAS}, target)


SCENARIOS = {
    "poisson": glm(PoissonRegressor, counts),
    "gamma": glm(GammaRegressor, costs),
    "tweedie": glm(TweedieRegressor, claims, power=1.5),
    "huber": Scenario(
        HuberRegressor(), sk_linear.HuberRegressor(max_iter=1000), {"alpha": ALPHAS}, outlying
    ),
    "quantile": Scenario(
        QuantileRegressor(),
        sk_linear.QuantileRegressor(),
        {"quantile": [0.1, 0.75], "alpha": [0.001, 0.1]},
        outlying,
        n=5_003,  # the optimum is one point where no share of the rows is a whole number
        p=30,
    ),
    **{
        name: Scenario(kind(), getattr(sk_linear, kind.__name__)(), grid, target)
        for name, kind, grid, target in (
            ("multi_task_lasso", MultiTaskLasso, {"alpha": PATH}, several),
            (
                "multi_task_elastic_net",
                MultiTaskElasticNet,
                {"alpha": PATH[::2], "l1_ratio": [0.2, 0.9]},
                several,
            ),
            (
                "matching_pursuit",
                OrthogonalMatchingPursuit,
                {"n_nonzero_coefs": list(range(2, 22, 2))},
                noisy,
            ),
            ("lars", Lars, {"n_nonzero_coefs": list(range(5, 55, 5))}, noisy),
            ("lasso_lars", LassoLars, {"alpha": PATH}, noisy),
            (
                "lasso_lars_ic",
                LassoLarsIC,
                {"criterion": ["aic", "bic"], "noise_variance": [None, 0.5, 1.0, 2.0, 4.0]},
                noisy,
            ),
            (
                "ard",
                ARDRegression,
                {"threshold_lambda": np.geomspace(1e1, 1e5, 10).tolist()},
                noisy,
            ),
        )
    },
    "linear_svc": Scenario(LinearSVC(), sk_svm.LinearSVC(), {"C": PENALTIES}, two_classes),
    "linear_svc_l1": Scenario(
        LinearSVC(penalty="l1"), sk_svm.LinearSVC(penalty="l1"), {"C": PENALTIES}, two_classes
    ),
    # Of losses with kinks theirs stops at 1,000 iterations, of large C far from the optimum.
    "linear_svc_hinge": Scenario(
        LinearSVC(loss="hinge"),
        sk_svm.LinearSVC(loss="hinge"),
        {"C": PENALTIES},
        two_classes,
        n=20_000,
    ),
    "linear_svr_squared": Scenario(
        LinearSVR(loss=SQUARED, epsilon=0.5),
        sk_svm.LinearSVR(loss=SQUARED, epsilon=0.5),
        {"C": PENALTIES},
        outlying,
    ),
    "linear_svr": Scenario(
        LinearSVR(epsilon=0.5),
        sk_svm.LinearSVR(epsilon=0.5),
        {"C": PENALTIES},
        outlying,
        n=20_000,
    ),
    "lda": Scenario(
        LinearDiscriminantAnalysis(solver="lsqr"),
        sk_da.LinearDiscriminantAnalysis(solver="lsqr"),
        {"shrinkage": SHRINKAGE},
        three_classes,
    ),
    "qda": Scenario(
        QuadraticDiscriminantAnalysis(),
        sk_da.QuadraticDiscriminantAnalysis(),
        {"reg_param": SHRINKAGE},
        three_classes,
    ),
    "covariance": Scenario(
        ShrunkCovariance(),
        sk_covariance.ShrunkCovariance(),
        {"shrinkage": SHRINKAGE},
        outlying,
    ),
    "pls": Scenario(
        PLSRegression(), sk_cross.PLSRegression(), {"n_components": list(range(1, 11))}, several
    ),
    "cca": Scenario(CCA(), sk_cross.CCA(), {"n_components": [1, 2, 3, 4]}, several),
    "factors": Scenario(
        FactorAnalysis(),
        sk_decomposition.FactorAnalysis(),
        {"n_components": [2, 4, 6]},
        outlying,
        n=5_000,  # scikit-learn reads them in each of some hundred steps
        p=30,
    ),
    "kernel_ridge": Scenario(
        KernelRidge(kernel="rbf"),
        sk_kernel.KernelRidge(kernel="rbf"),
        {
            "alpha": np.geomspace(1e-3, 1e2, 10).tolist(),
            "gamma": np.geomspace(1e-3, 1.0, 5).tolist(),
        },
        noisy,
        n=1_500,
        p=20,
    ),
    "gaussian_process": Scenario(
        GaussianProcessRegressor(optimizer=None),
        sk_gp.GaussianProcessRegressor(optimizer=None),
        {
            "kernel": SCALES,
            "alpha": np.geomspace(1e-2, 1e1, 10).tolist(),
        },
        noisy,
        n=1_000,
        p=20,
    ),
    **{
        f"gaussian_process_{name}": Scenario(
            kind(**params),
            getattr(sk_gp, kind.__name__)(**params),
            {"kernel": kernels},
            target,
            n=500,
            p=20,
        )
        for name, kind, params, kernels, target in (
            ("optimized", GaussianProcessRegressor, {}, SHAPES, noisy),
            ("classes", GaussianProcessClassifier, {"optimizer": None}, SCALES, three_classes),
        )
    },
    **{
        name: Scenario(
            kind(), getattr(sk_svm, kind.__name__)(), MACHINES, target, n, p, others=INTEL_SVM
        )
        for name, kind, target, n, p in (
            ("svc", SVC, two_classes, 1_500, 50),
            ("svc_few", SVC, three_classes, 1_500, 10),
            ("svr", SVR, noisy, 1_200, 50),
        )
    },
    **{
        name: Scenario(
            make_pipeline(step(**params, random_state=SEED), Ridge()),
            make_pipeline(
                getattr(sk_approximation, step.__name__)(**params, random_state=SEED),
                sk_linear.Ridge(),
            ),
            {"ridge__alpha": ALPHAS},
            noisy,
            n=20_000,
            p=20,
        )
        for name, step, params in (
            ("rbf_sampler", RBFSampler, {"gamma": 0.01, "n_components": 300}),
            ("nystroem", Nystroem, {"gamma": 0.01, "n_components": 300}),
        )
    },
    "gaussian_nb": Scenario(
        GaussianNB(),
        sk_nb.GaussianNB(),
        {"var_smoothing": np.geomspace(1e-10, 1e-1, 10).tolist()},
        three_classes,
    ),
    **{
        name: Scenario(
            kind(),
            getattr(sk_neighbors, kind.__name__)(),
            NEIGHBOURS,
            target,
            10_000,
            p,
            others=INTEL,
        )
        for name, kind, target, p in (
            ("neighbours", KNeighborsClassifier, three_classes, 20),
            ("neighbours_tree", KNeighborsClassifier, three_classes, 8),
            ("neighbours_mean", KNeighborsRegressor, outlying, 20),
        )
    },
}
# The same on a GPU, of which scikit-learn knows nothing.
SCENARIOS |= {
    f"device_{name}": Scenario(
        each.ours, None, each.grid, each.target, 1_000_000, 2 * each.p, on_device=True
    )
    for name, each in SCENARIOS.items()
    if name not in ("svc", "svc_few", "svr")  # cuML fits each of them by itself
}
for name, n in (("", 8_000), ("_optimized", 4_000), ("_classes", 4_000)):
    SCENARIOS[f"device_gaussian_process{name}"] = replace(
        SCENARIOS[f"device_gaussian_process{name}"], n=n
    )
SCENARIOS["device_quantile"] = replace(
    SCENARIOS["device_quantile"],
    grid={"quantile": np.linspace(0.1, 0.9, 9).tolist(), "alpha": ALPHAS},
    p=50,
)
SCENARIOS["device_kernel_ridge"] = replace(
    SCENARIOS["device_kernel_ridge"], theirs=of_cuml("KernelRidge", kernel="rbf"), n=10_000
)
for name, p in (("", 50), ("_tree", 16), ("_mean", 50)):
    # All pairs of rows are compared, on few features too.
    name = f"device_neighbours{name}"
    cuml = {"cuml": "cuml.neighbors"}
    SCENARIOS[name] = replace(SCENARIOS[name], n=100_000, p=p, others=cuml)
SCENARIOS["device_neighbours_million"] = replace(
    SCENARIOS["device_neighbours"], n=1_000_000, others={}
)
GROUPS = {
    "cpu": tuple(name for name, each in SCENARIOS.items() if not each.on_device),
    "device": tuple(name for name, each in SCENARIOS.items() if each.on_device),
}


def rows(args, scenario):
    """Correlated features, and targets that some of them make."""
    random = np.random.default_rng(SEED)
    n, p = scaled(scenario.n, args), args.features or scenario.p
    X = random.normal(size=(n, p)) @ (np.eye(p) + 0.2 * random.normal(size=(p, p)) / p**0.5)
    coef = np.where(np.arange(p) % 3 == 0, random.normal(size=p), 0.0)
    margin = X @ coef
    return X, scenario.target(random, margin / margin.std())


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    X, y = rows(args, scenario)
    if scenario.on_device:
        X = X.astype(np.float32)
    host = X, y
    if scenario.on_device:
        try:
            xp = needed_cupy()
        except RuntimeError as error:
            return {"scenario": name, "skipped": str(error)}
        X, y = xp.asarray(X), xp.asarray(y)
    ours = partial(searched, GridSearchCV, scenario.ours, scenario.grid, X, y)
    rivals, theirs, like = RIVALS, None, None
    if scenario.theirs is not None:
        rivals = CUML if scenario.on_device else RIVALS
        model = scenario.theirs() if scenario.on_device else scenario.theirs
        theirs = partial(searched, TheirSearch, model, scenario.grid, *host)
    if scenario.on_device and (scenario.others or theirs is not None):
        like = partial(searched, GridSearchCV, scenario.ours, scenario.grid, *host)
    with gpuml.config_context(device="cuda" if scenario.on_device else "cpu"):
        found = contenders(ours, theirs, args.repeats or 7, compared, rivals, like)
        own = ours()
    beside = found[0] if like is None else found[1]
    for rival, module in scenario.others.items():
        found.append(against(rival, module, scenario, host, beside, own))
    problem = harness.facts_of(X) | {
        "folds": FOLDS,
        "candidates": len(ParameterGrid(scenario.grid)),
    }
    return {"scenario": name, "problem": problem, "contenders": found}


def against(rival, module, scenario, rows, ours, own):
    """scikit-learn's search over a rival's class of the same name."""

    def measure():
        model = getattr(import_module(module), type(scenario.ours).__name__)()
        scores = []
        seconds = harness.timing(
            lambda: scores.append(searched(TheirSearch, model, scenario.grid, *rows)),
            RIVAL_RUNS,
            at_most=RIVAL_SECONDS,
        )
        ratio = seconds["median"] / ours["seconds"]["median"]
        return {"seconds": seconds, "ratio": ratio, **compared(own, scores[-1])}

    return harness.attempt({"name": rival}, measure)


def searched(kind, model, grid, X, y, n_jobs=None):
    """Mean scores of the candidates."""
    return kind(model, grid, cv=FOLDS, n_jobs=n_jobs).fit(X, y).cv_results_["mean_test_score"]


def compared(own, other):
    return {"largest_score_difference": float(np.max(np.abs(own - other)))}


def show(result):
    """Print a scenario as a table."""
    problem = result["problem"]
    size = f"{problem['rows']:,} x {problem['features']}, {problem['candidates']} x {FOLDS} folds"
    rows = [as_row(contender) for contender in result["contenders"]]
    harness.print_table(f"{result['scenario']}: {size}", rows)


def as_row(contender):
    return {
        "contender": contender["name"],
        **harness.clock_cells(contender),
        "x gpuml": harness.cell(contender.get("ratio"), ".1f"),
        "score difference": harness.cell(contender.get("largest_score_difference"), ".1e"),
    }


def main():
    args = harness.arguments(__doc__, [*SCENARIOS, *GROUPS], ["cpu"]).parse_args()
    harness.report_on("models", harness.names_of(args.scenario, GROUPS), run_scenario, show, args)


if __name__ == "__main__":
    main()
