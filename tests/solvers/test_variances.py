"""Steps from variances of sparse features lead to minima in few passes."""

import numpy as np
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from scipy.special import logsumexp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import OneHotEncoder

from gpuml.designs import Sparse
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV
from gpuml.solvers.variances import _together


def words(rng, n, p, k):
    """Rows of texts about k topics, in words that are the rarer the later."""
    usual = 1.0 / np.arange(1, p + 1)
    y = rng.integers(0, k, n)
    of_topic = usual * np.exp(1.2 * rng.normal(size=(k, p)))
    of_topic /= of_topic.sum(axis=1, keepdims=True)
    counts = np.stack([rng.multinomial(60, of_topic[topic]) for topic in y])
    return TfidfTransformer().fit_transform(sparse.csr_array(counts)), y


def objective(model, X, y):
    z = X @ model.coef_.T + model.intercept_
    loss = (logsumexp(z, axis=1) - z[np.arange(len(y)), y]).sum()
    return model.C * loss + 0.5 * np.sum(model.coef_**2)


@pytest.mark.filterwarnings("ignore:lbfgs failed")  # scikit-learn's
@pytest.mark.parametrize("beside", [False, True], ids=["words", "words and numbers"])
@pytest.mark.parametrize(("n", "p"), [(1500, 700), (600, 1200)])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_models_of_texts_take_few_passes(rng, n, p, C, beside):
    X, y = words(rng, n, p, 3)
    if beside:  # which are not scaled
        X = sparse.hstack([X, sparse.csr_array(rng.normal(5, [1.0, 300.0], size=(n, 2)))]).tocsr()
    found = LogisticRegression(C=C).fit(X, y)
    assert found.n_iter_.max() < 60
    least = objective(LogisticRegression(C=C, tol=1e-9, max_iter=1000).fit(X, y), X, y)
    assert least < objective(sk.LogisticRegression(C=C).fit(X, y), X, y)
    assert objective(found, X, y) - least < 1e-4 * least


def test_searches_of_texts_take_few_passes(rng):
    X, y = words(rng, 900, 1200, 3)
    found = GridSearchCV(LogisticRegression(), {"C": [1.0, 100.0]}, cv=3, refit=False).fit(X, y)
    assert found.plan_.steps[0].n_passes < 70


def levels(rng, n):
    """Indicators of 30 columns of 20 levels, the usual first."""
    usual = 1.0 / np.arange(1, 21)
    of_rows = rng.choice(20, size=(n, 30), p=usual / usual.sum())
    return OneHotEncoder().fit_transform(of_rows).tocsr()


def numbers(rng, n):
    """Independent entries of one sign."""
    return sparse.random_array((n, 600), density=0.03, rng=rng, format="csr")


@pytest.mark.parametrize("n", [200, 2000, 8000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_words_go_together_and_levels_and_numbers_do_not(rng, n, dtype):
    def together(X):
        design = Sparse(X.astype(dtype))
        return _together(design, design.spread() if X.shape[0] else None, centred=True)

    assert together(words(rng, n, 600, 3)[0]) > 10
    assert together(levels(rng, n)) == 0
    assert together(numbers(rng, n)) == 0
    assert together(numbers(rng, n)[:0]) == 0
