"""Linear models of rows that are divided over the workers of a cluster."""

import numpy as np

from gpuml import linear_model as one_device
from gpuml_dask import predict as blockwise
from gpuml_dask.fitting import (
    Classifies,
    FitsSparseModels,
    FitsTargets,
    Predicts,
    lives_on_workers,
)


class LinearRegression(Predicts, FitsTargets, one_device.LinearRegression):
    r"""Ordinary least squares.

    .. math:: \min_{W, b} \sum_i w_i \, |y_i - W x_i - b|^2

    Given NumPy, CuPy or other data of this process, it is `gpuml.linear_model.LinearRegression`.
    Given rows on a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of
    `gpuml_dask.place`) it fits them where they are: one pass sums second moments of all chunks, and
    the model follows from the sum.

    Parameters are those of `gpuml.linear_model.LinearRegression`, and so are the fitted attributes:
    NumPy arrays in this process, whatever the rows were. They do not depend on how rows are
    divided, but for rounding.

    See Also
    --------
    gpuml.linear_model.LinearRegression : The same on one device.

    References
    ----------
    A. Bjorck, *Numerical methods for least squares problems*, SIAM (1996).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.linear_model import LinearRegression
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = LinearRegression().fit(X, y)
    ...     round(model.score(X, y), 2)
    1.0
    """


class Ridge(Predicts, FitsTargets, one_device.Ridge):
    r"""Linear least squares with an l2 penalty.

    .. math:: \min_{W, b} \sum_i w_i \, |y_i - W x_i - b|^2 + \sum_k \alpha_k |W_k|^2

    Given NumPy, CuPy or other data of this process, it is `gpuml.linear_model.Ridge`. Given rows on
    a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of `gpuml_dask.place`)
    it fits them where they are: one pass sums second moments of all chunks, and the model follows
    from the sum.

    Parameters are those of `gpuml.linear_model.Ridge`, and so are the fitted attributes: NumPy
    arrays in this process, whatever the rows were. They do not depend on how rows are divided, but
    for rounding.

    See Also
    --------
    gpuml.linear_model.Ridge : The same on one device.

    References
    ----------
    A. E. Hoerl, R. W. Kennard, "Ridge regression: biased estimation for nonorthogonal problems",
    Technometrics 12 (1970).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.linear_model import Ridge
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = Ridge(alpha=0.1).fit(X, y)
    ...     round(model.score(X, y), 2)
    1.0
    """


class Lasso(Predicts, FitsSparseModels, one_device.Lasso):
    r"""Linear least squares with an l1 penalty.

    .. math:: \min_{w, b} \frac{1}{2 \sum_i v_i} \sum_i v_i \, (y_i - x_i' w - b)^2 + \alpha |w|_1

    Given NumPy, CuPy or other data of this process, it is `gpuml.linear_model.Lasso`. Given rows on
    a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of `gpuml_dask.place`)
    it fits them where they are: one pass sums second moments of all chunks, and the model follows
    from the sum.

    Parameters are those of `gpuml.linear_model.Lasso`, and so are the fitted attributes: NumPy
    arrays in this process, whatever the rows were. They do not depend on how rows are divided, but
    for rounding.

    See Also
    --------
    gpuml.linear_model.Lasso : The same on one device.

    References
    ----------
    R. Tibshirani, "Regression shrinkage and selection via the lasso", J. R. Stat. Soc. B 58 (1996).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.linear_model import Lasso
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = Lasso(alpha=0.001).fit(X, y)
    ...     round(model.score(X, y), 2)
    1.0
    """


class ElasticNet(Predicts, FitsSparseModels, one_device.ElasticNet):
    r"""Linear least squares with an l1 and an l2 penalty.

    .. math:: \min_{w, b} \frac{1}{2 \sum_i v_i} \sum_i v_i \, (y_i - x_i' w - b)^2
              + \alpha \rho \, |w|_1 + \frac{\alpha (1 - \rho)}{2} |w|_2^2

    Given NumPy, CuPy or other data of this process, it is `gpuml.linear_model.ElasticNet`. Given
    rows on a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of
    `gpuml_dask.place`) it fits them where they are: one pass sums second moments of all chunks, and
    the model follows from the sum.

    Parameters are those of `gpuml.linear_model.ElasticNet`, and so are the fitted attributes: NumPy
    arrays in this process, whatever the rows were. They do not depend on how rows are divided, but
    for rounding.

    See Also
    --------
    gpuml.linear_model.ElasticNet : The same on one device.

    References
    ----------
    H. Zou, T. Hastie, "Regularization and variable selection via the elastic net",
    J. R. Stat. Soc. B 67 (2005).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.linear_model import ElasticNet
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = ElasticNet(alpha=0.001).fit(X, y)
    ...     round(model.score(X, y), 2)
    1.0
    """


class PoissonRegressor(Predicts, FitsTargets, one_device.PoissonRegressor):
    r"""Counts and rates whose logarithm is linear in the features.

    .. math:: \min_{w, b} \frac{1}{\sum_i s_i} \sum_i s_i \left( \mu_i - y_i \log \mu_i \right)
              + \frac{\alpha}{2} |w|_2^2, \qquad \mu_i = e^{w \cdot x_i + b}

    Given NumPy, CuPy or other data of this process, it is `gpuml.linear_model.PoissonRegressor`.
    Given rows on a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of
    `gpuml_dask.place`) it fits them where they are: each step is one pass, which sums gradients of
    all chunks.

    Parameters are those of `gpuml.linear_model.PoissonRegressor`, and so are the fitted attributes:
    NumPy arrays in this process, whatever the rows were. They do not depend on how rows are
    divided, but for rounding.

    See Also
    --------
    gpuml.linear_model.PoissonRegressor : The same on one device.

    References
    ----------
    P. McCullagh, J. A. Nelder, "Generalized linear models", 2nd edition (1989).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.linear_model import PoissonRegressor
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> y = (10 * X[:, 0]).astype(int)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = PoissonRegressor(alpha=0.01).fit(X, y)
    ...     round(model.score(X, y), 1)
    0.8
    """


class LogisticRegression(Classifies, FitsTargets, one_device.LogisticRegression):
    r"""Logistic regression with l2, l1, elastic-net or no penalty.

    .. math:: \min_{W, b} \frac{1}{\sum_i s_i} \Big( \sum_i s_i \, \ell(y_i, W x_i + b)
              + \frac{1}{C} \big( \frac{1 - \rho}{2} |W|_2^2 + \rho |W|_1 \big) \Big)

    Given NumPy, CuPy or other data of this process, it is `gpuml.linear_model.LogisticRegression`.
    Given rows on a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of
    `gpuml_dask.place`) it fits them where they are: every step sums gradients over all chunks, by
    NCCL between GPUs and by a tree of tasks between CPUs.

    Parameters are those of `gpuml.linear_model.LogisticRegression`, and so are the fitted
    attributes: NumPy arrays in this process, whatever the rows were. They do not depend on how rows
    are divided, but for rounding.

    See Also
    --------
    gpuml.linear_model.LogisticRegression : The same on one device, with the list of solvers.

    References
    ----------
    D. C. Liu, J. Nocedal, "On the limited memory BFGS method for large scale optimization",
    Mathematical Programming 45 (1989).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.linear_model import LogisticRegression
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> y = (X[:, 0] > 0.5).astype(int)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = LogisticRegression(C=100).fit(X, y)
    ...     model.predict_proba(X).compute().shape
    (300, 2)
    """

    def predict_proba(self, X):
        """Probabilities of the classes; of rows on workers lazily, block by block."""
        if lives_on_workers(X):
            return blockwise.predict_proba(self, X)
        return super().predict_proba(X)

    def predict_log_proba(self, X):
        """Logarithms of `predict_proba`; of rows on workers lazily, block by block."""
        if lives_on_workers(X):
            return np.log(blockwise.predict_proba(self, X))
        return super().predict_log_proba(X)
