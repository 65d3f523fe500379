"""Collections of which workers keep some chunks, and compute the others again in each pass."""

import os
import signal
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from scipy.sparse import csr_matrix

from gpuml.compose import ColumnTransformer
from gpuml.data import NeedsAllRows
from gpuml.linear_model import LogisticRegression, PoissonRegressor, Ridge
from gpuml.model_selection import GridSearchCV as OneDevice
from gpuml.naive_bayes import GaussianNB
from gpuml.neighbors import KNeighborsClassifier
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder, StandardScaler
from gpuml_dask.clustering import KMeans
from gpuml_dask.decomposition import PCA, IncrementalPCA
from gpuml_dask.impute import SimpleImputer
from gpuml_dask.linear_model import Ridge as DividedRidge
from gpuml_dask.mixture import GaussianMixture
from gpuml_dask.model_selection import GridSearchCV
from gpuml_dask.planning.plan import room_for_rows
from gpuml_dask.preprocessing import OrdinalEncoder, RobustScaler
from gpuml_dask.rows.placement import place
from gpuml_dask.waiting import facts_of

CHUNK, N_CHUNKS, P = 150, 5, 4
CHUNK_BYTES = CHUNK * P * 8


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(CHUNK * N_CHUNKS, P))
    return X, X @ rng.normal(size=P) + rng.normal(size=len(X))


class Reads:
    """How often each chunk was computed, by processes that note it in files."""

    def __init__(self, folder: Path):
        self.folder = folder

    def of(self, X: np.ndarray) -> da.Array:
        """A collection of X whose chunks are noted when they are computed."""
        return da.from_array(X, chunks=(CHUNK, -1)).map_blocks(
            _noted, str(self.folder), dtype=X.dtype, meta=np.empty((0, 0))
        )

    def counts(self) -> list[int]:
        """By chunk."""
        files = [self.folder / str(i) for i in range(N_CHUNKS)]
        return [file.stat().st_size if file.exists() else 0 for file in files]


def _noted(block, folder, block_info=None):
    with open(os.path.join(folder, str(block_info[0]["chunk-location"][0])), "a") as file:
        file.write("x")
    return block


@pytest.fixture
def reads(tmp_path):
    return Reads(tmp_path)


def kept(n_bytes):
    return dask.config.set({"gpuml.memory": n_bytes})


SEARCHES = {
    "least squares": (Ridge(), {"alpha": [0.1, 1.0, 10.0]}, 1e-10),
    "scaled": (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 10.0]}, 1e-10),
    "logistic": (LogisticRegression(tol=1e-8), {"C": [0.1, 10.0]}, 1e-7),
    "Poisson": (PoissonRegressor(tol=1e-8), {"alpha": [0.1, 10.0]}, 1e-7),
    "classes": (GaussianNB(), {"var_smoothing": [1e-9, 0.1]}, 1e-10),
}


def target_of(name, y):
    if name in ("logistic", "classes"):
        return np.digitize(y, [-1.0, 1.0])
    return np.exp(y / 10) if name == "Poisson" else y


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_gives_the_table_of_rows_in_memory(client, rows, reads, name):
    estimator, grid, tol = SEARCHES[name]
    X, y = rows[0], target_of(name, rows[1])
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    expected = OneDevice(estimator, grid, cv=3, scoring=None)
    weighted = not hasattr(estimator, "steps")
    expected.fit(X, y, **({"sample_weight": weight} if weighted else {}))
    with kept(2 * CHUNK_BYTES):
        search = GridSearchCV(estimator, grid, cv=3, client=client)
        weights = {"sample_weight": da.from_array(weight, chunks=400)} if weighted else {}
        search.fit(reads.of(X), da.from_array(y, chunks=400), **weights)
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(search.cv_results_[key], expected.cv_results_[key], atol=tol)
    assert "3 of 5 chunks of X" in str(search.plan_)
    assert "gpuml.memory" in str(search.plan_)
    once, *_ = counts = reads.counts()
    assert counts == [1, 1, *[counts[-1]] * 3]
    assert once <= counts[-1]


@pytest.mark.parametrize("name", ["least squares", "scaled", "classes"])
def test_sums_of_one_pass_read_the_rows_once(client, rows, reads, name):
    estimator, grid, _ = SEARCHES[name]
    with kept(0):
        search = GridSearchCV(estimator, grid, cv=3, client=client)
        search.fit(reads.of(rows[0]), target_of(name, rows[1]))
    scored = 1 if name == "classes" else 0  # accuracy is no sum of squares
    assert max(reads.counts()) <= 1 + scored
    assert search.best_estimator_.predict(rows[0]).shape == (len(rows[0]),)


def test_estimators_read_pass_by_pass(client, rows, reads):
    X, y = rows
    collection = reads.of(X)
    with kept(0):
        model = DividedRidge().fit(collection, da.from_array(y, chunks=CHUNK))
        assert reads.counts() == [1] * N_CHUNKS
        np.testing.assert_allclose(model.coef_, Ridge().fit(X, y).coef_, atol=1e-12)
        components = PCA(2).fit(collection).components_
        inertia = KMeans(3, random_state=0).fit(collection).inertia_
    np.testing.assert_allclose(np.abs(PCA(2).fit(X).components_), np.abs(components), atol=1e-10)
    assert inertia == pytest.approx(KMeans(3, random_state=0).fit(collection).inertia_, rel=0.2)


def test_chunks_update_components_one_after_the_other(client, rows, reads):
    with kept(0):
        model = IncrementalPCA(2, batch_size=50).fit(reads.of(rows[0]))  # chunks are of 150 rows
    assert reads.counts() == [1] * N_CHUNKS
    expected = IncrementalPCA(2, batch_size=50).fit(rows[0])
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-10)
    assert model.n_samples_seen_ == len(rows[0])


def test_mixtures_read_pass_by_pass(client, rows, reads):
    options = {"covariance_type": "diag", "random_state": 0, "max_iter": 5, "tol": 10.0}
    with kept(2 * CHUNK_BYTES):
        model = GaussianMixture(2, **options).fit(reads.of(rows[0]))
    assert reads.counts()[0] == 1 < reads.counts()[-1]
    expected = GaussianMixture(2, **options).fit(rows[0])
    np.testing.assert_allclose(model.means_, expected.means_, atol=1e-8)


def test_frames_whose_sizes_only_reading_tells(client, rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    collection = dd.from_pandas(frame, npartitions=4).map_partitions(lambda part: part)
    features, grid = collection[list("abcd")], {"alpha": [0.1, 10.0]}
    with kept(0):
        search = GridSearchCV(Ridge(), grid, client=client).fit(features, collection["y"])
    expected = OneDevice(Ridge(), grid).fit(frame[list("abcd")], y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=1e-10
    )
    assert list(search.best_estimator_.feature_names_in_) == list("abcd")
    assert "4 of 4 chunks" in str(search.plan_)


@pytest.mark.parametrize("how", ["mean of all rows", "cut at other bounds", "half on workers"])
def test_chunks_that_share_something(client, rows, reads, how):
    X, y = rows
    collection = reads.of(X)
    if how == "mean of all rows":
        collection, X = collection - collection.mean(axis=0), X - X.mean(axis=0)
    elif how == "cut at other bounds":
        collection = collection.rechunk((CHUNK - 40, -1))
    else:
        collection = da.concatenate([collection[: 2 * CHUNK].persist(), collection[2 * CHUNK :]])
    with kept(0):
        model = DividedRidge().fit(collection, da.from_array(y, chunks=300))
    np.testing.assert_allclose(model.coef_, Ridge().fit(X, y).coef_, atol=1e-10)
    # The mean is computed once, whoever needs it; rows cut elsewhere are read for each piece.
    assert max(reads.counts()) <= 2 + (how == "cut at other bounds")


def test_what_needs_all_rows_says_what_to_set(client, rows):
    X, y = rows
    collection = da.from_array(X, chunks=(CHUNK, -1))
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, client=client)
    with kept(0), pytest.raises(NeedsAllRows, match=r"gpuml\.memory.*persist\(\)"):
        search.fit(collection, y > 0)
    search.fit(collection.persist(), y > 0)
    with kept("1 GB"):
        search.fit(collection, y > 0)
    assert "computed again" not in str(search.plan_)


def test_what_is_not_read_in_passes_is_told(client, rows):
    """Of text, and of sparse rows: a setting without effect."""
    X, y = rows
    frame = pd.DataFrame(X).add_prefix("x").assign(name=np.where(y > 0, "a", "b"))
    columns = ColumnTransformer([("l", OneHotEncoder(), ["name"])], remainder="passthrough")
    pipe = make_pipeline(columns, Ridge())
    search = GridSearchCV(pipe, {"ridge__alpha": [1.0]}, client=client)
    lazy, targets = (dd.from_pandas(x, npartitions=3) for x in (frame, pd.Series(y)))
    told = r"gpuml\.memory.*chunks of X stay on the workers"
    with kept("1 kB"), pytest.warns(UserWarning, match=told):
        search.fit(lazy, targets)
    sparse = da.from_array(X, chunks=(CHUNK, -1)).map_blocks(csr_matrix)
    with (
        kept("1 kB"),
        pytest.warns(UserWarning, match=told),
        pytest.warns(UserWarning, match="rows go to one worker to fit Ridge: Sparse rows"),
    ):
        DividedRidge().fit(sparse, y)
    search.fit(lazy, targets)  # the setting is not there: warnings are errors


@pytest.mark.parametrize("step", [OrdinalEncoder(), RobustScaler(), SimpleImputer()], ids=repr)
def test_steps_fitted_by_columns_say_that_they_keep_all_rows(client, rows, step):
    X = da.from_array(np.round(rows[0]), chunks=(CHUNK, -1))
    with kept("1 kB"), pytest.warns(UserWarning, match=r"gpuml\.memory.*encoder, an imputer"):
        step.fit(X)
    with kept("1 kB"):
        step.fit(X.persist())  # there is nothing to compute again
    step.fit(X)


def test_rows_of_unknown_sizes_are_read_once(client, rows, reads):
    """Without the setting; with it, one more pass counts them."""
    X, y = rows
    lazy = reads.of(X)
    unknown = lazy[da.ones(len(X), dtype=bool, chunks=CHUNK)]
    DividedRidge().fit(unknown, y)
    assert reads.counts() == [1] * N_CHUNKS


def test_tables_of_users_say_how_much_stays(client, rows):
    X, y = rows
    collection = da.from_array(X, chunks=(CHUNK, -1))
    with place(collection, y, client=client, memory=CHUNK_BYTES) as table:
        assert "4 of 5 chunks" in table.X.rows.unread
        token = table.content_token()
        found = GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, client=client).fit(table.X, table.y)
    with place(X, y, client=client, chunks=CHUNK) as table:
        assert table.content_token() == token
    expected = OneDevice(Ridge(), {"alpha": [1.0, 2.0]}).fit(X, y)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=1e-12
    )


def test_wrong_rows_are_refused_when_they_are_read(client, rows):
    X, y = rows
    X = X.copy()
    X[CHUNK + 3, 1] = np.nan
    with kept(0), pytest.raises(ValueError, match="NaN"):
        DividedRidge().fit(da.from_array(X, chunks=(CHUNK, -1)), y)
    wrong = da.from_array(rows[0], chunks=(CHUNK, -1)).map_blocks(_without_first, dtype=float)
    with kept(0), pytest.raises(ValueError, match="its collection says 150"):
        DividedRidge().fit(wrong, y)


def _without_first(block):
    return block[1:]


def test_room_is_half_of_the_memory_unless_somebody_says_otherwise(client):
    def worker(limit, gpu=0):
        return {"memory_limit": limit, "resources": {"GPU": gpu} if gpu else {}}

    assert room_for_rows(None, [worker(100), worker(50)], gpus=True) == 75
    assert room_for_rows(None, [worker(100), worker(0)], gpus=True) == np.inf
    assert room_for_rows(None, [worker(100, gpu=1)], gpus=True) == np.inf
    assert room_for_rows("1kB", [worker(100, gpu=1)], gpus=False) == 1000
    with pytest.raises(ValueError, match="device='cpu'"):
        room_for_rows("1kB", [worker(100, gpu=1)], gpus=True)
    assert all("memory_limit" in facts for facts in facts_of(client).values())


@pytest.mark.exhaustive
def test_a_worker_may_die_meanwhile(rows, reads, tmp_path):
    X, y = rows
    target = target_of("logistic", y)
    estimator, grid, tol = SEARCHES["logistic"]
    expected = OneDevice(estimator, grid).fit(X, target)
    folder = tmp_path / "dask"
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=":0", local_directory=str(folder)
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        kept(0),
    ):
        (victim,) = client.run(os.getpid, workers=[sorted(client.nthreads())[0]]).values()
        collection = reads.of(X).map_blocks(_killing, victim, str(tmp_path), dtype=float)
        search = GridSearchCV(estimator, grid, client=client)
        search.fit(collection, da.from_array(target, chunks=400))
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=tol
    )
    assert not (tmp_path / "alive").exists()


def _killing(block, victim, folder):
    """The block; the fourth time on the victim it dies."""
    if os.getpid() == victim:
        path = Path(folder) / "times"
        with path.open("a") as file:
            file.write("x")
        if path.stat().st_size == 4:
            os.kill(victim, signal.SIGKILL)
    return block
