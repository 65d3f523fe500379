"""Linear models with scikit-learn's names, on the device of their data."""

from gpuml.linear_model.elastic_net import ElasticNet, Lasso
from gpuml.linear_model.least_squares import LinearRegression
from gpuml.linear_model.logistic import LogisticRegression
from gpuml.linear_model.logistic_cv import LogisticRegressionCV
from gpuml.linear_model.poisson import PoissonRegressor
from gpuml.linear_model.regression_cv import ElasticNetCV, LassoCV
from gpuml.linear_model.ridge import Ridge
from gpuml.linear_model.ridge_classifier import RidgeClassifier
from gpuml.linear_model.ridge_cv import RidgeCV

__all__ = [
    "ElasticNet",
    "ElasticNetCV",
    "Lasso",
    "LassoCV",
    "LinearRegression",
    "LogisticRegression",
    "LogisticRegressionCV",
    "PoissonRegressor",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
]
