"""Features that do not vary are left out, on the device of the rows."""

import numpy as np
from sklearn import feature_selection as sk

from gpuml._arrays import namespace, to_host
from gpuml._inputs.validation import check_rows
from gpuml.feature_selection._selector import Selector
from gpuml.preprocessing._column_extrema import column_extrema
from gpuml.preprocessing._column_sums import column_moments


class VarianceThreshold(Selector, sk.VarianceThreshold):
    r"""Select the features with a variance above a threshold, :math:`s_j^2 > t`.

    CuPy, torch and other arrays stay on their device; scikit-learn transforms data in CPU memory,
    including sparse matrices.

    Parameters
    ----------
    threshold : float, default=0.0
        The threshold t. 0 removes the features that have the same value in all rows.

    Attributes
    ----------
    variances_ : ndarray of shape (n_features,)
        Variances of the values that are not nan, in CPU memory.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SelectKBest : Select features by their relation to the target.

    Examples
    --------
    >>> from gpuml.feature_selection import VarianceThreshold
    >>> VarianceThreshold().fit_transform([[0, 2, 0], [0, 1, 4], [0, 1, 1]])
    array([[2, 0],
           [1, 4],
           [1, 1]])
    """

    def _fit_there(self, X, y=None):
        X = check_rows(self, X, reset=True, allow_nan=True)
        self.variances_ = column_moments(X, None).variance
        if self.threshold == 0:
            xp = namespace(X)
            low, high = to_host(xp.stack(column_extrema(self, X)))
            # The distance of extrema has no rounding.
            self.variances_ = np.fmin(self.variances_, high - low)
        if np.all(~np.isfinite(self.variances_) | (self.variances_ <= self.threshold)):
            one = " (X contains only one sample)" if X.shape[0] == 1 else ""
            raise ValueError(
                f"No feature in X meets the variance threshold {self.threshold:.5f}{one}"
            )
