"""Solvers of cuML, on a GPU."""

from typing import Any

import numpy as np

from gpuml._arrays import Place, as_array, gpu_place, has_gpu, move, place_of, to_host
from gpuml._cuml import import_cuml
from gpuml._inputs.validation import check_classify, check_fit
from gpuml.linear_model._classifier import weights_of_classes

# gpuml's name -> cuML's
CUML_SOLVERS = {"eig": "eig", "lsmr": "lsmr", "cuml-svd": "svd"}


def _cuml_class(name: str, solver: str, instead: str) -> Any:
    """A linear model of cuML, if there is a GPU for it."""
    if not has_gpu():
        raise RuntimeError(
            f"solver={solver!r} is cuML's and needs an NVIDIA GPU with CuPy, and none was found. "
            f"Use {instead}, which runs anywhere."
        )
    try:
        import_cuml()
        import cuml.linear_model
    except ImportError as error:
        raise ImportError(
            f"solver={solver!r} is cuML's. Install gpuml[gpu-cu13] or gpuml[gpu-cu12], or use "
            f"{instead}."
        ) from error
    return getattr(cuml.linear_model, name)


def fit_cuml_ridge(estimator: Any, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
    """Attributes of a ridge model fitted by cuML on the GPU."""
    kind = _cuml_class("Ridge", estimator.solver, "solver='auto', 'cholesky' or 'svd'")
    data = check_fit(estimator, X, y, sample_weight)
    home = place_of(data.X)
    gpu = _gpu_of(home)
    model = kind(
        alpha=estimator.alpha,
        fit_intercept=estimator.fit_intercept,
        solver=CUML_SOLVERS[estimator.solver],
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        output_type="cupy",
    )
    model.fit(*(move(a, gpu) for a in (data.X, data.y)), sample_weight=move(data.weight, gpu))
    coef = move(as_array(model.coef_), home)
    intercept = as_array(model.intercept_) if estimator.fit_intercept else 0.0
    return {
        "coef_": coef,
        "intercept_": _scalar_or_array(intercept, home, data.y.ndim),
        "n_iter_": 1 if model.n_iter_ is None else model.n_iter_,
        "solver_": estimator.solver,
    }


def fit_cuml_logistic(estimator: Any, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
    """Attributes of a logistic model fitted by cuML on the GPU."""
    kind = _cuml_class("LogisticRegression", "qn", "solver='lbfgs'")
    X, labels, weight = check_classify(estimator, X, y, sample_weight)
    strength = estimator._strengths([{}])[0]
    no_penalty = strength.l1 == strength.l2 == 0
    home = place_of(X)
    gpu = _gpu_of(home)
    model = kind(
        penalty=None if no_penalty else "elasticnet",
        C=1.0 if no_penalty else 1.0 / (strength.l1 + strength.l2),
        l1_ratio=None if no_penalty else strength.l1 / (strength.l1 + strength.l2),
        fit_intercept=estimator.fit_intercept,
        class_weight=_by_code(estimator.class_weight, labels),
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        solver="qn",
        output_type="cupy",
    )
    codes = gpu.xp.astype(move(labels.codes, gpu), gpu.xp.int32)
    model.fit(move(X, gpu), codes, sample_weight=move(weight, gpu))
    n_vectors = 1 if labels.n_classes == 2 else labels.n_classes
    coef = move(as_array(model.coef_), home)
    intercept = as_array(model.intercept_) if estimator.fit_intercept else None
    if intercept is None or intercept.size != n_vectors:
        intercept = gpu.xp.zeros((n_vectors,), dtype=coef.dtype)
    return {
        "classes_": labels.classes,
        "coef_": home.xp.reshape(coef, (n_vectors, -1)),
        "intercept_": home.xp.reshape(move(intercept, home), (-1,)),
        "n_iter_": np.asarray([int(to_host(as_array(model.n_iter_)).max())], dtype=np.int32),
    }


def _by_code(class_weight, labels):
    if not isinstance(class_weight, dict):
        return class_weight
    return dict(enumerate(weights_of_classes(class_weight, labels.host_classes).tolist()))


def _gpu_of(home: Place) -> Place:
    return home if home.kind == "cupy" else gpu_place()


def _scalar_or_array(value, home, y_ndim):
    if isinstance(value, float | int | np.floating):
        return float(value)
    value = move(value, home)
    return value.reshape(()) if y_ndim == 1 else value
