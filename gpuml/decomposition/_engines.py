"""cuML's PCA, for callers that name its solvers."""

from numbers import Integral
from typing import Any

from gpuml._arrays import as_array, gpu_place, has_gpu, move, place_of
from gpuml._cuml import import_cuml
from gpuml._inputs.validation import check_finite
from gpuml.decomposition._input import check_fit_rows
from gpuml.decomposition._projection import in_kind
from gpuml.solvers.components import with_signs

# gpuml's name -> cuML's
CUML_SOLVERS = {"jacobi": "jacobi", "cuml-full": "full"}
INSTEAD = "svd_solver='auto', 'covariance_eigh' or 'full'"


def fit_cuml_pca(estimator: Any, X: Any) -> dict[str, Any]:
    """Attributes of a PCA fitted by cuML on the GPU.

    Raises
    ------
    RuntimeError
        Without a GPU.
    ImportError
        Without cuML.
    ValueError
        For a number of components that is not an integer or None.
    """
    solver = estimator.svd_solver
    if not has_gpu():
        raise RuntimeError(
            f"svd_solver={solver!r} is cuML's and needs an NVIDIA GPU with CuPy, and none was "
            f"found. Use {INSTEAD}, which run anywhere."
        )
    try:
        import_cuml()
        from cuml.decomposition import PCA as CumlPCA
    except ImportError as error:
        raise ImportError(
            f"svd_solver={solver!r} is cuML's. Install gpuml[gpu-cu13] or gpuml[gpu-cu12], or use "
            f"{INSTEAD}."
        ) from error
    X = check_fit_rows(estimator, X, min_rows=2)
    check_finite(X, "X", estimator)
    most = min(X.shape)
    wanted = most if estimator.n_components is None else estimator.n_components
    if not isinstance(wanted, Integral) or not 1 <= int(wanted) <= most:
        raise ValueError(
            f"n_components={wanted!r} must be an integer between 1 and min(n_samples, n_features)="
            f"{most} with svd_solver={solver!r}"
        )
    home = place_of(X)
    gpu = home if home.kind == "cupy" else gpu_place()
    model = CumlPCA(
        n_components=int(wanted),
        svd_solver=CUML_SOLVERS[solver],
        whiten=estimator.whiten,
        output_type="cupy",
        **_iteration_options(estimator),
    )
    model.fit(move(X, gpu))
    return _attributes(model, X, int(wanted), home)


def _iteration_options(estimator):
    """What scikit-learn's defaults leave open is left to cuML's."""
    options = {}
    if estimator.tol > 0:
        options["tol"] = estimator.tol
    if estimator.iterated_power != "auto":
        options["iterated_power"] = estimator.iterated_power
    return options


def _attributes(model, X, n_components, home):
    n, p = X.shape

    def of(name, shape):
        values = move(as_array(getattr(model, name)), home)
        return in_kind(home.xp.reshape(values, shape), X.dtype)

    fitted = {
        "components_": with_signs(of("components_", (n_components, p)), home.xp),
        "mean_": of("mean_", (p,)),
    }
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_"):
        fitted[name] = of(name, (n_components,))
    if n_components < min(n, p):
        # The mean variance of the other components, from the share of the first one.
        variance = fitted["explained_variance_"]
        rest = variance[0] / fitted["explained_variance_ratio_"][0] - home.xp.sum(variance)
        fitted["noise_variance_"] = in_kind(rest / (min(n, p) - n_components), X.dtype)
    else:
        fitted["noise_variance_"] = 0.0
    return {**fitted, "n_components_": n_components, "n_samples_": n}
