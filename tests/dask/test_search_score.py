"""A search scores rows of Dask block by block, by any metric, and says so where it needs the rows."""

import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import make_scorer
from sklearn.neighbors import KernelDensity

from gpuml.cluster import BisectingKMeans, KMeans
from gpuml.covariance import EmpiricalCovariance
from gpuml.decomposition import PCA, FactorAnalysis
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.mixture import GaussianMixture
from gpuml.model_selection import GridSearchCV as SearchHere
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml_dask import predict as blockwise
from gpuml_dask.model_selection import GridSearchCV

N, BLOCK = 90, 20
NUMBERS = [
    *("r2", "explained_variance", "neg_mean_squared_error", "neg_mean_absolute_error"),
    *("neg_root_mean_squared_error", "neg_median_absolute_error", "neg_max_error"),
    "d2_absolute_error_score",
]
LABELS = [
    *("accuracy", "f1_macro", "balanced_accuracy", "matthews_corrcoef", "jaccard_weighted"),
    *("neg_log_loss", "neg_brier_score", "roc_auc_ovr", "top_k_accuracy", "adjusted_rand_score"),
]
OF_TWO = ["f1", "precision", "roc_auc", "average_precision"]


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=N)
    words = np.asarray(["hi", "lo", "mid"])[np.digitize(y, [-1.0, 1.0])]
    return X, {"numbers": y, "several": np.stack([y, y**2], axis=1), "words": words, "two": y > 0}


def in_blocks(x, size=BLOCK):
    """Blocks of rows, the first and the last of which have none."""
    x = da.from_array(x, chunks=(size, *x.shape[1:]))
    return da.concatenate([x[:0], x, x[:0]])


def search_of(kind, X, target, scoring, **options):
    numbers = target.dtype.kind == "f"
    model, grid = (Ridge(), {"alpha": [1.0]}) if numbers else (LogisticRegression(), {"C": [1.0]})
    return kind(model, grid, scoring=scoring, cv=2, **options).fit(X, target)


def outcome(function, *args, **kwargs):
    """The score or the error, and the texts of warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            found = f"{type(error).__name__}: {error}"
    return found, {str(each.message) for each in caught}


CASES = [
    *[("numbers", name) for name in NUMBERS],
    *[("several", name) for name in ("r2", "neg_mean_squared_error")],
    *[("words", name) for name in LABELS],
    *[("two", name) for name in OF_TWO],
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("target", "scoring"), CASES)
def test_scores_in_blocks_are_those_of_all_rows(rows, rng, target, scoring, weighted):
    X, y = rows[0], rows[1][target]
    search = search_of(SearchHere, X, y, scoring)
    weight = rng.integers(3, size=N).astype(float)
    options = {"sample_weight": weight} if weighted else {}
    expected, said = outcome(search.scorer_, search.best_estimator_, X, y, **options)
    blocks = {name: in_blocks(x) for name, x in options.items()}
    with dask.config.set(scheduler="threads", num_workers=2):
        found, told = outcome(blockwise.score, search, in_blocks(X), in_blocks(y), **blocks)
    assert told == said
    if isinstance(expected, str):
        assert found == expected
    else:
        assert found == pytest.approx(expected, rel=1e-12)


class OfFew(Ridge):
    """Predicts no more rows than a block has."""

    def predict(self, X):
        assert len(X) <= BLOCK
        return super().predict(X)


def first_only(model, X, y):
    return float(model.predict(X[:1])[0] - y[0])


@pytest.mark.parametrize(
    "scoring", [None, "r2", "neg_median_absolute_error", {"a": "neg_max_error"}]
)
def test_the_rows_stay_where_they_are(client, rows, scoring):
    X, y = rows[0], rows[1]["numbers"]
    refit = "a" if isinstance(scoring, dict) else True
    here = SearchHere(Ridge(), {"alpha": [1.0]}, scoring=scoring, refit=refit, cv=2).fit(X, y)
    there = GridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=scoring, refit=refit, cv=2).fit(X, y)
    there.best_estimator_ = OfFew().fit(X, y)
    lazy = in_blocks(X)
    unknown = lazy[da.ones(N, dtype=bool, chunks=lazy.chunks[:1])]
    frames = [dd.from_pandas(pd.DataFrame(x), npartitions=5) for x in (X, y)]
    for rows_there, targets in ((lazy, in_blocks(y)), (lazy, y), (unknown, in_blocks(y)), frames):
        assert there.score(rows_there, targets) == pytest.approx(here.score(X, y), rel=1e-12)


def test_scorers_that_need_the_rows_say_so(client, rows):
    X, y = rows[0], rows[1]["numbers"]
    there = search_of(GridSearchCV, X, y, first_only)
    with pytest.warns(UserWarning, match=r"first_only .* needs the rows.*make_scorer"):
        found = there.score(in_blocks(X), in_blocks(y))
    assert found == there.score(X, y)
    with pytest.raises(ValueError, match="a metric of targets and predictions"):
        blockwise.score(there, in_blocks(X), in_blocks(y))


OF_ROWS = {
    "k-means": (KMeans(random_state=0), {"n_clusters": [2, 3]}),
    "halved": (BisectingKMeans(random_state=0), {"n_clusters": [2, 3]}),
    "batches": (MiniBatchKMeans(random_state=0), {"n_clusters": [2, 3]}),
    "mixture": (GaussianMixture(random_state=0), {"n_components": [1, 2]}),
    "factors": (FactorAnalysis(), {"n_components": [1, 2]}),
    "density": (KernelDensity(), {"bandwidth": [0.5, 1.0]}),
    "pipeline": (make_pipeline(StandardScaler(), PCA()), {"pca__n_components": [1, 2]}),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_scores_without_targets_are_sums_over_blocks(client, rows, rng, name):
    X, _ = rows
    estimator, grid = OF_ROWS[name]
    here, there = (kind(estimator, grid, cv=2).fit(X) for kind in (SearchHere, GridSearchCV))
    lazy = in_blocks(X)
    unknown = lazy[da.ones(N, dtype=bool, chunks=lazy.chunks[:1])]
    for blocks in (lazy, unknown):  # a warning that rows are copied would be an error
        found = there.score(blocks)
        assert type(found) is float
        assert found == pytest.approx(here.score(X), rel=1e-12)
    weight, model = rng.uniform(size=N), here.best_estimator_
    if name in ("k-means", "halved", "batches"):
        found = blockwise.score(model, lazy, None, in_blocks(weight))
        assert found == pytest.approx(model.score(X, sample_weight=weight), rel=1e-12)
    else:
        with pytest.raises(TypeError, match="sample_weight"):
            blockwise.score(model, lazy, None, in_blocks(weight))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        blockwise.score(model, lazy[:0])


class OwnScore(PCA):
    def score(self, X, y=None):
        return float(len(X))


@pytest.mark.parametrize("model", [EmpiricalCovariance(), OwnScore(1)])
def test_other_scores_of_rows_say_that_they_need_them(client, rows, model):
    there = GridSearchCV(model, {}, cv=2).fit(rows[0])
    with pytest.warns(UserWarning, match="needs the rows"):
        assert there.score(in_blocks(rows[0])) == there.score(rows[0])


class Counted(Ridge):
    """Tells how much of the rows is predicted, not kept."""

    def predict(self, X):
        with open(self.folder, "a") as file:
            file.write("x" * len(X))
        return super().predict(X)


def test_local_targets_of_blocks_of_unknown_sizes_move_no_rows(client, rows, tmp_path):
    """Predictions are computed once, and only these are kept to align y with them."""
    X, y = rows[0], rows[1]["numbers"]
    model = Counted().fit(X, y)
    model.folder = str(tmp_path / "rows")
    lazy = in_blocks(X)
    unknown = lazy[da.ones(N, dtype=bool, chunks=lazy.chunks[:1])]
    found = blockwise.score(model, unknown, y)
    assert found == pytest.approx(Ridge().fit(X, y).score(X, y), rel=1e-12)
    assert (tmp_path / "rows").stat().st_size == N + 1  # and a row that tells the kind of results


def spread(y, predicted):
    return float(np.ptp(y - predicted))


def test_metrics_of_users_are_of_targets_and_predictions(client, rows):
    X, y = rows[0], rows[1]["numbers"]
    there = search_of(GridSearchCV, X, y, make_scorer(spread, greater_is_better=False))
    assert there.score(in_blocks(X), in_blocks(y)) == there.score(X, y)


def test_a_search_without_its_model_says_why_it_has_no_score(client, rows):
    X, y = rows[0], rows[1]["numbers"]
    there = search_of(GridSearchCV, X, y, "r2", refit=False)
    with pytest.raises(AttributeError, match="refit"):
        there.score(in_blocks(X), in_blocks(y))
