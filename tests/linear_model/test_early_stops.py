"""`saga` within `max_iter`: as near to the minimum as scikit-learn's, and no slower by much."""

import time
import warnings

import numpy as np
import pytest
import sklearn.linear_model as sk
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from gpuml.linear_model import LogisticRegression

# Many coefficients, because of many classes or features; features of many sizes; many rows.
DATA = {
    "classes": lambda: load_digits(return_X_y=True),
    "wide": lambda: make_classification(200, 800, random_state=0),
    "scales": lambda: load_breast_cancer(return_X_y=True),
    "tall": lambda: make_classification(3000, 30, random_state=0),
}
PENALTIES = {"l2": {}, "l1": {"l1_ratio": 1.0}, "both": {"l1_ratio": 0.5, "C": 10.0}}


def fitted(kind, X, y, **params):
    with warnings.catch_warnings():
        if kind is sk.LogisticRegression:
            warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(solver="saga", random_state=0, **params).fit(X, y)


def objective(model, X, y):
    """Per row, as both minimise it."""
    W, share = model.coef_, model.l1_ratio
    penalty = share * np.abs(W).sum() + (1 - share) / 2 * np.sum(W**2)
    return log_loss(y, model.predict_proba(X)) + penalty / (model.C * len(y))


@pytest.mark.each
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("data", DATA)
def test_the_default_number_of_passes_is_enough(data, penalty):
    X, y = DATA[data]()
    ours, theirs = (
        objective(fitted(kind, X, y, **PENALTIES[penalty]), X, y)
        for kind in (LogisticRegression, sk.LogisticRegression)
    )
    assert ours <= theirs + 1e-5


@pytest.mark.parametrize("data", ["classes", "wide"])
def test_what_is_stopped_takes_about_as_long(data):
    """Of seconds of this process, so that it matters little what else runs."""
    X, y = DATA[data]()

    def seconds(kind):
        # Nobody converges.
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted(kind, X, y, max_iter=30, l1_ratio=1.0, tol=1e-15)
        return time.process_time() - started

    ours, theirs = (
        min(seconds(kind) for _ in range(3)) for kind in (LogisticRegression, sk.LogisticRegression)
    )
    assert ours < 10 * theirs
