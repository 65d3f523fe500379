"""Makes `statsmodels_reference.json`: what statsmodels says of the models in `tests/test_inference.py`.

pip install statsmodels
python -m tests.data.statsmodels_reference
"""

import json
from pathlib import Path

import numpy as np

from tests.test_inference import REFERENCE_CASES, rows


def family(sm, kind):
    """The family of a generalised linear model."""
    return {
        "logistic": sm.families.Binomial,
        "poisson": sm.families.Poisson,
        "gamma": lambda: sm.families.Gamma(sm.families.links.Log()),
        "inverse_gaussian": lambda: sm.families.InverseGaussian(sm.families.links.Log()),
    }[kind]()


def fitted(kind, covariance, weights):
    """A model of statsmodels with its standard errors."""
    import statsmodels.api as sm  # which nothing else needs

    X, y, groups, weight = rows(kind)
    X = np.column_stack([X, np.ones(len(X))])
    options = {}
    if covariance != "classical":
        options["cov_type"] = {"clustered": "cluster"}.get(covariance, covariance)
    if covariance == "clustered":
        options["cov_kwds"] = {"groups": groups}
    if kind != "least_squares":
        name = {"frequency": "freq_weights", "precision": "var_weights"}.get(weights)
        weighted = {name: weight} if name else {}
        return sm.GLM(y, X, family=family(sm, kind), **weighted).fit(tol=1e-14, **options)
    if weights == "frequency":  # OLS has none
        times = weight.astype(int)
        X, y, weight = np.repeat(X, times, axis=0), np.repeat(y, times), np.ones(times.sum())
    elif weights is None:
        weight = np.ones(len(y))
    return sm.WLS(y, X, weights=weight).fit(use_t=True, **options)


def main():
    import statsmodels

    found = []
    for case in REFERENCE_CASES:
        model = fitted(*case)
        found.append(
            {
                "case": case,
                "coef": model.params.tolist(),
                "std_error": model.bse.tolist(),
                "p_value": model.pvalues.tolist(),
                "interval": model.conf_int().tolist(),
                "log_likelihood": float(model.llf),
                "aic": float(model.aic),
                "scale": float(model.scale),
            }
        )
    record = {"statsmodels": statsmodels.__version__, "results": found}
    path = Path(__file__).with_name("statsmodels_reference.json")
    path.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
