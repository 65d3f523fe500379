"""Transformers of some columns, and regressors of a transformed target, where the data is.

The classes are scikit-learn's, and its work for data in CPU memory: NumPy, pandas, polars, lists,
sparse matrices. Only what cannot be done to arrays of CuPy, torch and other libraries there is
replaced:

* `ColumnTransformer` takes columns of them by integers, slices and masks, and joins results on
  their device. Names of columns and `make_column_selector` need a DataFrame.
* `TransformedTargetRegressor` transforms the target on the device of X.

`make_column_selector` is scikit-learn's, unchanged.
"""

from sklearn.compose import make_column_selector

from gpuml._settings.first_use import at_first_use
from gpuml.compose._columns import ColumnTransformer, make_column_transformer
from gpuml.compose._target import TransformedTargetRegressor

__all__ = [
    "ColumnTransformer",
    "TransformedTargetRegressor",
    "make_column_selector",
    "make_column_transformer",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.compose")
