"""Covariance estimators with scikit-learn's interface, and normal densities that they make."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import covariance as _rows
from gpuml.covariance._estimators import OAS, EmpiricalCovariance, LedoitWolf, ShrunkCovariance
from gpuml.covariance._functions import (
    empirical_covariance,
    ledoit_wolf,
    ledoit_wolf_shrinkage,
    log_likelihood,
    oas,
    shrunk_covariance,
)

if TYPE_CHECKING:  # the classes that `build` makes, with signatures for editors and type checkers
    from sklearn import covariance as sk

    from gpuml.adapters import Adapter

    class EllipticEnvelope(Adapter, sk.EllipticEnvelope): ...

    class GraphicalLasso(Adapter, sk.GraphicalLasso): ...

    class GraphicalLassoCV(Adapter, sk.GraphicalLassoCV): ...

    class MinCovDet(Adapter, sk.MinCovDet): ...
else:
    EllipticEnvelope = build(_rows.ELLIPTIC_ENVELOPE, __name__)
    GraphicalLasso = build(_rows.GRAPHICAL_LASSO, __name__)
    GraphicalLassoCV = build(_rows.GRAPHICAL_LASSO_CV, __name__)
    MinCovDet = build(_rows.MIN_COV_DET, __name__)

__all__ = [
    "OAS",
    "EllipticEnvelope",
    "EmpiricalCovariance",
    "GraphicalLasso",
    "GraphicalLassoCV",
    "LedoitWolf",
    "MinCovDet",
    "ShrunkCovariance",
    "empirical_covariance",
    "ledoit_wolf",
    "ledoit_wolf_shrinkage",
    "log_likelihood",
    "oas",
    "shrunk_covariance",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.covariance")
