"""Linear models with scikit-learn's names, on the device of their data."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use

if TYPE_CHECKING:
    from gpuml.linear_model.bayesian_ridge import BayesianRidge
    from gpuml.linear_model.elastic_net import ElasticNet, Lasso
    from gpuml.linear_model.gamma import GammaRegressor
    from gpuml.linear_model.huber import HuberRegressor
    from gpuml.linear_model.least_squares import LinearRegression
    from gpuml.linear_model.logistic import LogisticRegression
    from gpuml.linear_model.logistic_cv import LogisticRegressionCV
    from gpuml.linear_model.poisson import PoissonRegressor
    from gpuml.linear_model.quantile import QuantileRegressor
    from gpuml.linear_model.regression_cv import ElasticNetCV, LassoCV
    from gpuml.linear_model.ridge import Ridge
    from gpuml.linear_model.ridge_classifier import RidgeClassifier
    from gpuml.linear_model.ridge_classifier_cv import RidgeClassifierCV
    from gpuml.linear_model.ridge_cv import RidgeCV
    from gpuml.linear_model.tweedie import TweedieRegressor

__all__ = [
    "BayesianRidge",
    "ElasticNet",
    "ElasticNetCV",
    "GammaRegressor",
    "HuberRegressor",
    "Lasso",
    "LassoCV",
    "LinearRegression",
    "LogisticRegression",
    "LogisticRegressionCV",
    "PoissonRegressor",
    "QuantileRegressor",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "TweedieRegressor",
]

# A model brings its own solvers along, and no others.
_LATER = {
    "BayesianRidge": "gpuml.linear_model.bayesian_ridge",
    "ElasticNet": "gpuml.linear_model.elastic_net",
    "ElasticNetCV": "gpuml.linear_model.regression_cv",
    "GammaRegressor": "gpuml.linear_model.gamma",
    "HuberRegressor": "gpuml.linear_model.huber",
    "Lasso": "gpuml.linear_model.elastic_net",
    "LassoCV": "gpuml.linear_model.regression_cv",
    "LinearRegression": "gpuml.linear_model.least_squares",
    "LogisticRegression": "gpuml.linear_model.logistic",
    "LogisticRegressionCV": "gpuml.linear_model.logistic_cv",
    "PoissonRegressor": "gpuml.linear_model.poisson",
    "QuantileRegressor": "gpuml.linear_model.quantile",
    "Ridge": "gpuml.linear_model.ridge",
    "RidgeCV": "gpuml.linear_model.ridge_cv",
    "RidgeClassifier": "gpuml.linear_model.ridge_classifier",
    "RidgeClassifierCV": "gpuml.linear_model.ridge_classifier_cv",
    "TweedieRegressor": "gpuml.linear_model.tweedie",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER, mirrors="sklearn.linear_model")
