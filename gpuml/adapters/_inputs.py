"""What users pass to adapters, checked: errors are scikit-learn's, facts are the row's to use."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from gpuml._arrays import (
    Place,
    as_array,
    device_of,
    is_array,
    is_cupyx_sparse,
    is_foreign,
    is_host_sparse,
    is_sparse,
    move,
    namespace,
    to_host,
)
from gpuml._arrays.gathered import gathered
from gpuml._arrays.labels import Encoded, encode, is_labels
from gpuml._arrays.ops import all_finite, any_true
from gpuml._inputs.validation import (
    FLOATS,
    check_finite,
    check_fit,
    check_images,
    check_rows,
    check_weight,
    flat_target,
    require_target,
)
from gpuml._sklearn import _check_y
from gpuml.adapters._method import Call
from gpuml.adapters._place import has_cuml
from gpuml.adapters._row import Data, Row


def reads_texts(estimator: Any) -> bool:
    """Whether an estimator's rows are texts."""
    return _reads_texts(get_tags(estimator))


def _reads_texts(tags):
    return tags.input_tags.string and not tags.input_tags.two_d_array


def check_data(estimator: Any, row: Row, call: Call) -> Data:
    """Check what was passed to `fit`; sets `n_features_in_` and `feature_names_in_`.

    Raises
    ------
    ValueError, TypeError
        scikit-learn's.
    """
    rest = {name: value for name, value in call.rest.items() if value is not None}
    y, weight = as_array(rest.pop("y", None)), rest.pop("sample_weight", None)
    tags = get_tags(estimator)
    if _reads_texts(tags):
        return Data(call.X, rest=rest)
    if tags.estimator_type == "regressor":
        return _regression(estimator, row, call.X, y, weight, rest)
    X = check_X(estimator, row, call.X, reset=True)
    labels = None
    if tags.estimator_type == "classifier":
        y, labels = _labels(estimator, X, y)
    elif not row.optional_y:
        y = None
    elif y is not None:
        y = _with_shape(y)
    return Data(
        X,
        labels.codes if labels else y,
        _weight(weight, X),
        rest,
        labels.classes if labels else None,
        is_sparse(X),
    )


def check_X(estimator: Any, row: Row, X: Any, *, reset: bool) -> Any:
    """Rows as floats or CSR, at the user's place; accepts what scikit-learn accepts, also nan."""
    X = as_array(X)
    tags = get_tags(estimator).input_tags
    if is_cupyx_sparse(X):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X.tocsr()
    if is_host_sparse(X):
        accepted = "csr" if tags.sparse else False
        return validate_data(estimator, X, reset=reset, accept_sparse=accepted, dtype=FLOATS)
    if not (is_foreign(X) and tags.allow_nan) or row.infinite:
        found_later = row.infinite or (reset and row.finds_infinite and is_foreign(X))
        return check_rows(
            estimator, X, reset=reset, allow_nan=tags.allow_nan, finite_X=not found_later
        )
    X = check_rows(estimator, X, reset=reset, finite_X=False)
    _check_no_inf(X, estimator)
    return X


def _check_no_inf(X, estimator):
    """Raise scikit-learn's ValueError for inf; nan is the row's affair."""
    # Rows are nearly always finite, and this check is much faster.
    if not all_finite(X, namespace(X)):
        check_finite(X, "X", estimator, allow_nan=True)


def check_transformed(estimator: Any, X: Any) -> Any:
    """Dense rows for `inverse_transform`, whose columns are those that `transform` gives."""
    X = as_array(X)
    if not is_foreign(X):
        X = check_array(X, dtype=FLOATS, estimator=estimator, input_name="X")
    return check_images(estimator, X, estimator._n_features_out)


def clause_before_checks(row: Row, X: Any, params: Mapping[str, Any]) -> str | None:
    """Why a library does not do it, as far as is known before X is read."""
    if row.cuml is not None and not has_cuml():
        return "cuML is not installed"
    reason = row.refuses_parameters(params)
    if reason is None and is_sparse(X) and not row.sparse:
        reason = "sparse X"
    return reason and f"{row.library} has no {reason}"


def refused_rows(estimator: Any, row: Row, X: Any) -> str | None:
    """The reason why cuML cannot take checked rows that scikit-learn takes, if any."""
    if is_sparse(X):
        return None if row.sparse else "sparse X"
    seen = row.infinite or (get_tags(estimator).input_tags.allow_nan and not row.nan)
    if not seen or not is_array(X):
        return None  # there is none, or none that matters
    xp = namespace(X)
    if all_finite(X, xp):
        return None
    if row.infinite and any_true(xp.isinf(X), xp):
        return "inf in X"
    return None if row.nan else "nan in X"


def refused_weight(row: Row, data: Data) -> str | None:
    """The reason why cuML cannot take checked weights that scikit-learn takes, if any."""
    if data.weight is None or row.negative_weight:
        return None
    return "negative sample_weight" if bool(namespace(data.weight).any(data.weight < 0)) else None


def _regression(estimator, row, X, y, weight, rest):
    if is_sparse(X):
        require_target(estimator, y)
        X = check_X(estimator, row, X, reset=True)
        y = to_host(y) if is_foreign(y) else y
        y = _check_y(y, multi_output=True, y_numeric=True, estimator=estimator)
        check_consistent_length(X, y)
        return Data(X, _target(row, y), _weight(weight, X), rest, sparse=True)
    allow_nan = get_tags(estimator).input_tags.allow_nan
    X, y, _ = check_fit(estimator, X, y, finite_X=not allow_nan)
    if allow_nan:
        _check_no_inf(X, estimator)
    return Data(X, _target(row, y), _weight(weight, X), rest)


def _target(row, y):
    return flat_target(y) if row.flat_y else y


def _with_shape(y):
    return y if is_array(y) or hasattr(y, "shape") else np.asarray(y)


def _labels(estimator, X, y) -> tuple[Any, Encoded | None]:
    """Targets, and their codes if there is one target."""
    require_target(estimator, y)
    y = _with_shape(y)
    check_consistent_length(X, y)
    if y.ndim == 2 and y.shape[1] > 1:
        return y, None
    if is_foreign(y) and is_labels(y):
        return y, encode(flat_target(y))
    # Strings have no other library, and floats may be no labels: scikit-learn says so.
    y = column_or_1d(to_host(y) if is_array(y) else y, warn=True)
    check_classification_targets(y)
    return y, encode(y)


def _weight(weight, X):
    if weight is None:
        return None
    if is_sparse(X):
        # Only the number of rows, the dtype and the device of a matrix matter.
        xp = namespace(X.data)
        X = xp.empty((X.shape[0], 1), dtype=X.dtype, device=device_of(X.data))
    # Signs are looked at by `refused_weight` and by scikit-learn's fits.
    return check_weight(weight, X, signed=True)


# ---------------------------------------------------------------- moving arguments


def moved(arguments: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Arguments with those that are arrays of numbers, or hold GPU memory, at a place."""
    return {name: _moved(value, place) for name, value in arguments.items()}


def _moved(value, place):
    value = as_array(value)
    if is_array(value) and value.ndim > 0:
        return move_numbers(value, place)
    if is_cupyx_sparse(value) and place.is_host:
        return value.get()
    return value


def move_numbers(x: Any, place: Place) -> Any:
    """An array at a place; what is no numbers stays in CPU memory."""
    if isinstance(x, np.ndarray) and x.dtype.kind not in "fiub":
        return x
    return move(x, place)


def in_memory(call: Call) -> Call:
    """The call with what collections of Dask hold: gathered once, as all later steps read it."""
    return Call(gathered(call.X), {name: gathered(value) for name, value in call.rest.items()})


def host_call(call: Call) -> Call:
    """The call with all data in CPU memory, for scikit-learn; data there is unchanged."""
    return Call(_on_host(call.X), {name: _on_host(value) for name, value in call.rest.items()})


def _on_host(value):
    if is_cupyx_sparse(value):
        return value.get()
    array = as_array(value)
    return to_host(array) if is_foreign(array) else value


def to_engine(X: Any, place: Place) -> Any:
    """Checked rows as an engine at a place reads them."""
    if sparse.issparse(X):
        return X if place.is_host else _sparse_on_gpu(X)
    return move(X, place) if is_array(X) else X


def _sparse_on_gpu(X):
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse.csr_matrix(X)
