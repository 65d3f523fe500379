"""Linear models with scikit-learn's names, on the device of their data."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use

if TYPE_CHECKING:
    from gpuml.linear_model.ard_regression import ARDRegression
    from gpuml.linear_model.banded_ridge import BandedRidge, BandedRidgeCV
    from gpuml.linear_model.bayesian_ridge import BayesianRidge
    from gpuml.linear_model.elastic_net import ElasticNet, Lasso
    from gpuml.linear_model.gamma import GammaRegressor
    from gpuml.linear_model.huber import HuberRegressor
    from gpuml.linear_model.least_angle import Lars, LassoLars, LassoLarsIC
    from gpuml.linear_model.least_squares import LinearRegression
    from gpuml.linear_model.logistic import LogisticRegression
    from gpuml.linear_model.logistic_cv import LogisticRegressionCV
    from gpuml.linear_model.matching_pursuit import OrthogonalMatchingPursuit
    from gpuml.linear_model.multi_task import (
        MultiTaskElasticNet,
        MultiTaskElasticNetCV,
        MultiTaskLasso,
        MultiTaskLassoCV,
    )
    from gpuml.linear_model.path_cv import LarsCV, LassoLarsCV, OrthogonalMatchingPursuitCV
    from gpuml.linear_model.path_functions import (
        lars_path,
        lars_path_gram,
        orthogonal_mp,
        orthogonal_mp_gram,
    )
    from gpuml.linear_model.poisson import PoissonRegressor
    from gpuml.linear_model.quantile import QuantileRegressor
    from gpuml.linear_model.regression_cv import ElasticNetCV, LassoCV
    from gpuml.linear_model.ridge import Ridge
    from gpuml.linear_model.ridge_classifier import RidgeClassifier
    from gpuml.linear_model.ridge_classifier_cv import RidgeClassifierCV
    from gpuml.linear_model.ridge_cv import RidgeCV
    from gpuml.linear_model.tweedie import TweedieRegressor

__all__ = [
    "ARDRegression",
    "BandedRidge",
    "BandedRidgeCV",
    "BayesianRidge",
    "ElasticNet",
    "ElasticNetCV",
    "GammaRegressor",
    "HuberRegressor",
    "Lars",
    "LarsCV",
    "Lasso",
    "LassoCV",
    "LassoLars",
    "LassoLarsCV",
    "LassoLarsIC",
    "LinearRegression",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MultiTaskElasticNet",
    "MultiTaskElasticNetCV",
    "MultiTaskLasso",
    "MultiTaskLassoCV",
    "OrthogonalMatchingPursuit",
    "OrthogonalMatchingPursuitCV",
    "PoissonRegressor",
    "QuantileRegressor",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "TweedieRegressor",
    "lars_path",
    "lars_path_gram",
    "orthogonal_mp",
    "orthogonal_mp_gram",
]

# A model brings its own solvers along, and no others.
_LATER = {
    "ARDRegression": "gpuml.linear_model.ard_regression",
    "BandedRidge": "gpuml.linear_model.banded_ridge",
    "BandedRidgeCV": "gpuml.linear_model.banded_ridge",
    "BayesianRidge": "gpuml.linear_model.bayesian_ridge",
    "ElasticNet": "gpuml.linear_model.elastic_net",
    "ElasticNetCV": "gpuml.linear_model.regression_cv",
    "GammaRegressor": "gpuml.linear_model.gamma",
    "HuberRegressor": "gpuml.linear_model.huber",
    "Lars": "gpuml.linear_model.least_angle",
    "LarsCV": "gpuml.linear_model.path_cv",
    "Lasso": "gpuml.linear_model.elastic_net",
    "LassoCV": "gpuml.linear_model.regression_cv",
    "LassoLars": "gpuml.linear_model.least_angle",
    "LassoLarsCV": "gpuml.linear_model.path_cv",
    "LassoLarsIC": "gpuml.linear_model.least_angle",
    "LinearRegression": "gpuml.linear_model.least_squares",
    "LogisticRegression": "gpuml.linear_model.logistic",
    "LogisticRegressionCV": "gpuml.linear_model.logistic_cv",
    "MultiTaskElasticNet": "gpuml.linear_model.multi_task",
    "MultiTaskElasticNetCV": "gpuml.linear_model.multi_task",
    "MultiTaskLasso": "gpuml.linear_model.multi_task",
    "MultiTaskLassoCV": "gpuml.linear_model.multi_task",
    "OrthogonalMatchingPursuit": "gpuml.linear_model.matching_pursuit",
    "OrthogonalMatchingPursuitCV": "gpuml.linear_model.path_cv",
    "PoissonRegressor": "gpuml.linear_model.poisson",
    "QuantileRegressor": "gpuml.linear_model.quantile",
    "Ridge": "gpuml.linear_model.ridge",
    "RidgeCV": "gpuml.linear_model.ridge_cv",
    "RidgeClassifier": "gpuml.linear_model.ridge_classifier",
    "RidgeClassifierCV": "gpuml.linear_model.ridge_classifier_cv",
    "TweedieRegressor": "gpuml.linear_model.tweedie",
    "lars_path": "gpuml.linear_model.path_functions",
    "lars_path_gram": "gpuml.linear_model.path_functions",
    "orthogonal_mp": "gpuml.linear_model.path_functions",
    "orthogonal_mp_gram": "gpuml.linear_model.path_functions",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER, mirrors="sklearn.linear_model")
