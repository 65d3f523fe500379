"""`set_output(transform="cudf")`: results of transformers as cuDF DataFrames.

scikit-learn has no public way to add a kind of DataFrame. Its adapters follow a public protocol
(`sklearn.utils._set_output.ContainerAdapterProtocol`) and are looked up in one registry; ours is
put there beside those of pandas and polars, unless scikit-learn brings one of its own.
"""

from typing import Any

import numpy as np

from gpuml._arrays import HOST, gpu_place, is_array, is_cupyx_sparse, move, place_of
from gpuml._cuml import import_cudf
from gpuml._sklearn import ADAPTERS_MANAGER, _get_output_config, get_columns


class CudfAdapter:
    """scikit-learn's adapter of a kind of DataFrame, for cuDF."""

    container_lib = "cudf"

    def create_container(
        self, X_output: Any, X_original: Any, columns: Any, inplace: bool = True
    ) -> Any:
        """A DataFrame of an array of any library, with the index of the rows that were passed."""
        cudf = _cudf()
        columns = get_columns(columns)
        if not isinstance(X_output, cudf.DataFrame):
            X_output = cudf.DataFrame(_readable(X_output), index=_index_of(X_original, cudf))
        elif not inplace:
            X_output = X_output.copy()
        return X_output if columns is None else self.rename_columns(X_output, columns)

    def is_supported_container(self, X: Any) -> bool:
        """Whether X is a cuDF DataFrame."""
        return isinstance(X, _cudf().DataFrame)

    def rename_columns(self, X: Any, columns: Any) -> Any:
        """X with other names of columns."""
        X.columns = list(columns)
        return X

    def hstack(self, Xs: list) -> Any:
        """DataFrames side by side."""
        return _cudf().concat(Xs, axis=1)


def _cudf():
    try:
        return import_cudf()
    except ImportError as error:
        raise ImportError(
            "Setting output container to 'cudf' requires cudf to be installed"
        ) from error


def wants_host_frame(estimator: Any) -> bool:
    """Whether `set_output` selects DataFrames in CPU memory."""
    return _get_output_config("transform", estimator)["dense"] not in ("default", "cudf")


def as_asked(estimator: Any, image: Any) -> Any:
    """The result of `transform`: in CPU memory if such a DataFrame is to be made of it."""
    if not wants_host_frame(estimator):
        return image
    return image.get() if is_cupyx_sparse(image) else move(image, HOST)


def _readable(X):
    """An array that cuDF reads: of NumPy or CuPy, and no floats of half precision."""
    if is_array(X):
        X = move(X, HOST if place_of(X).is_host else gpu_place())
    return X.astype(np.float32) if X.dtype == np.float16 else X


def _index_of(X, cudf):
    # A list has a method `index` too, so check the types.
    if isinstance(X, cudf.DataFrame | cudf.Series):
        return X.index
    if type(X).__module__.startswith("pandas"):
        return cudf.Index(X.index)
    return None


def register() -> None:
    """Let scikit-learn know the adapter; once is enough."""
    ADAPTERS_MANAGER.adapters.setdefault(CudfAdapter.container_lib, CudfAdapter())
