"""Searches and fits of rows in files are those of the same rows in memory, in bounded memory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit

import gpuml
from gpuml.cluster import KMeans
from gpuml.data import NeedsAllRows
from gpuml.decomposition import PCA, TruncatedSVD
from gpuml.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from gpuml.divided import read, stored
from gpuml.divided.holders import tree
from gpuml.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeCV,
)
from gpuml.mixture import GaussianMixture
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_val_predict,
    cross_val_score,
)
from gpuml.naive_bayes import BernoulliNB, GaussianNB
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MinMaxScaler, StandardScaler
from gpuml.reading import tables

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N_ROWS, N_FEATURES = 600, 4
NAMES = tuple(f"x{j}" for j in range(N_FEATURES))
# What of the pieces there is room for.
ROOMS = {"nothing stays": 0, "some stay": 9000, "all stay": 10**9}

rng = np.random.default_rng(0)
X = rng.normal(3.0, 1.0, size=(N_ROWS, N_FEATURES))
TARGETS = {
    "y": X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=N_ROWS),
    "label": np.where(X[:, 1] + rng.normal(size=N_ROWS) > 3, "yes", "no"),
    "count": rng.poisson(3, size=N_ROWS),
    "weight": rng.uniform(size=N_ROWS),
    "group": rng.integers(7, size=N_ROWS),
}

SEARCHES = [
    (Ridge(), {"alpha": [0.1, 10.0]}, "y"),
    (Lasso(), {"alpha": [0.01, 0.1]}, "y"),
    (ElasticNet(tol=1e-8), {"alpha": [0.01], "l1_ratio": [0.2, 0.8]}, "y"),
    (LinearRegression(), {"fit_intercept": [True, False]}, "y"),
    (
        make_pipeline(StandardScaler(), PCA(), Ridge()),
        {"pca__n_components": [2, 3], "ridge__alpha": [1.0]},
        "y",
    ),
    (LogisticRegression(), {"C": [0.1, 10.0]}, "label"),
    (PoissonRegressor(), {"alpha": [0.1, 1.0]}, "count"),
]
MOMENTS = [case for case in SEARCHES if case[2] == "y"]


def name_of(value):
    steps = getattr(value, "steps", [(None, value)])
    return "-".join(type(step).__name__ for _, step in steps)


def table(**columns):
    return pa.table({**dict(zip(NAMES, X.T, strict=True)), **TARGETS, **columns})


@pytest.fixture(params=ROOMS)
def room(request, monkeypatch):
    """Pieces of some 30 rows, of which all, some, or none stay in memory."""
    monkeypatch.setattr(stored, "LARGEST_PIECE_BYTES", 1000)
    monkeypatch.setattr(stored, "SMALLEST_PIECE_BYTES", 1000)
    made = read.Room
    monkeypatch.setattr(stored, "Room", lambda size: made(min(size, ROOMS[request.param])))
    return request.param


@pytest.fixture
def n_read(monkeypatch):
    """Counts the rows that are read as blocks."""
    count, filled = [0], tables.Table.filled

    def counted(self, *args, **kwargs):
        block = filled(self, *args, **kwargs)
        count[0] += len(block)
        return block

    monkeypatch.setattr(tables.Table, "filled", counted)
    return count


@pytest.fixture
def path(tmp_path):
    # Row groups that pieces do not end with.
    parquet.write_table(table(), tmp_path / "rows.parquet", row_group_size=130)
    return tmp_path / "rows.parquet"


def rows_of(path, *targets):
    return gpuml.read_parquet(path, [*NAMES, *targets])


def last_of(search):
    model = search.best_estimator_
    return model.steps[-1][1] if hasattr(model, "steps") else model


def check_alike(found, expected, rtol=1e-10):
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(
            found.cv_results_[name], expected.cv_results_[name], rtol=rtol, atol=rtol
        )
    assert found.best_params_ == expected.best_params_
    np.testing.assert_allclose(last_of(found).coef_, last_of(expected).coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(
    ("model", "grid", "target"), SEARCHES, ids=[name_of(c[0]) for c in SEARCHES]
)
def test_search_of_a_file_is_that_of_its_rows(path, room, model, grid, target, weighted):
    weight = {"weight": TARGETS["weight"]} if weighted else {}
    prefix = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
    named = {f"{prefix}sample_weight": name for name in weight}
    given = {f"{prefix}sample_weight": value for value in weight.values()}
    expected = GridSearchCV(model, grid).fit(X, TARGETS[target], **given)
    found = GridSearchCV(model, grid).fit(rows_of(path, target, *weight), target, **named)
    check_alike(found, expected)
    assert list(found.feature_names_in_) == list(NAMES)


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "cv",
    [
        KFold(3, shuffle=True, random_state=0),
        StratifiedKFold(3),
        StratifiedKFold(3, shuffle=True, random_state=0),
        TimeSeriesSplit(3),
        GroupKFold(3),
    ],
    ids=str,
)
def test_splits_are_those_of_the_same_rows(path, room, cv):
    grouped = isinstance(cv, GroupKFold)
    for model, grid, target in (SEARCHES[0], SEARCHES[5]):
        if isinstance(cv, StratifiedKFold) and target == "y":
            continue
        given = {"groups": TARGETS["group"]} if grouped else {}
        expected = GridSearchCV(model, grid, cv=cv).fit(X, TARGETS[target], **given)
        columns = ("group",) if grouped else ()
        named = {"groups": "group"} if grouped else {}
        found = GridSearchCV(model, grid, cv=cv).fit(
            rows_of(path, target, *columns), target, **named
        )
        check_alike(found, expected)


@pytest.mark.parametrize("scoring", ["r2", "neg_median_absolute_error", "neg_max_error"])
def test_scores_of_a_file(path, room, scoring):
    expected = cross_val_score(Ridge(), X, TARGETS["y"], scoring=scoring)
    found = cross_val_score(Ridge(), rows_of(path, "y"), "y", scoring=scoring)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_rounds_of_halving(path, room):
    expected, found = (
        HalvingGridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 100.0]}, random_state=0).fit(*rows)
        for rows in ((X, TARGETS["y"]), (rows_of(path, "y"), "y"))
    )
    check_alike(found, expected)


@pytest.mark.pairwise
@pytest.mark.parametrize(("model", "grid", "target"), MOMENTS, ids=[name_of(c[0]) for c in MOMENTS])
def test_least_squares_reads_the_rows_once(path, room, n_read, model, grid, target):
    GridSearchCV(model, grid).fit(rows_of(path, target), target)
    assert n_read[0] == N_ROWS


def test_losses_read_the_rows_some_ten_times_or_once_where_they_stay(path, room, n_read):
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 10.0]})
    search.fit(rows_of(path, "label"), "label")
    if room == "all stay":
        assert n_read[0] == N_ROWS
    elif room == "some stay":
        assert N_ROWS < n_read[0] < 16 * N_ROWS
    else:
        assert n_read[0] <= 16 * N_ROWS


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "model",
    [Ridge(), LinearRegression(), Lasso(0.1), LogisticRegression(tol=1e-8), PoissonRegressor()],
    ids=name_of,
)
def test_models_fit_a_file(path, room, model):
    target = {"LogisticRegression": "label", "PoissonRegressor": "count"}.get(name_of(model), "y")
    expected = type(model)(**model.get_params()).fit(X, TARGETS[target])
    found = model.fit(rows_of(path, target), target)
    assert found is model
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5)
    assert list(found.feature_names_in_) == list(NAMES)


@pytest.mark.pairwise
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (GaussianNB(), {"var_smoothing": [1e-9, 1e-2]}),
        (BernoulliNB(binarize=3.0), {"alpha": [0.1, 1.0]}),
        (LinearDiscriminantAnalysis(solver="lsqr"), {"shrinkage": [0.1, 0.5]}),
        (QuadraticDiscriminantAnalysis(), {"reg_param": [0.1, 0.5]}),
    ],
    ids=lambda value: name_of(value) if hasattr(value, "fit") else "",
)
def test_densities_fit_a_file_in_one_pass(path, room, n_read, model, grid):
    rows, y = rows_of(path, "label"), TARGETS["label"]
    found, expected = clone(model).fit(rows, "label"), clone(model).fit(X, y)
    assert n_read[0] == N_ROWS
    del found.feature_names_in_  # X has none
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-8)
    there, here = GridSearchCV(model, grid).fit(rows, "label"), GridSearchCV(model, grid).fit(X, y)
    scores, others = (each.cv_results_["mean_test_score"] for each in (there, here))
    np.testing.assert_allclose(scores, others, rtol=1e-10)
    assert n_read[0] <= 3 * N_ROWS  # the sums, and the scores


@pytest.mark.pairwise
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (KMeans(n_init=1, random_state=0), {"n_clusters": [2, 3]}),
        (GaussianMixture(random_state=0), {"n_components": [1, 3]}),
        (GaussianMixture(init_params="random", random_state=0), {"covariance_type": ["diag"]}),
    ],
    ids=lambda value: name_of(value) if hasattr(value, "fit") else "",
)
def test_clusters_and_mixtures_are_searched_in_a_file(path, room, model, grid):
    rows = rows_of(path)
    there, here = GridSearchCV(model, grid, cv=3).fit(rows), GridSearchCV(model, grid, cv=3).fit(X)
    scores, others = (each.cv_results_["mean_test_score"] for each in (there, here))
    np.testing.assert_allclose(scores, others, rtol=1e-8)
    assert there.best_params_ == here.best_params_


@pytest.mark.parametrize(
    "step", [StandardScaler(), MinMaxScaler(), PCA(2), TruncatedSVD(2)], ids=name_of
)
def test_steps_fit_a_file(path, room, n_read, step):
    rows = rows_of(path)
    found = step.fit(rows)
    assert n_read[0] <= (2 if isinstance(step, MinMaxScaler) else 1) * N_ROWS
    expected = type(step)(**step.get_params()).fit(X).transform(X)
    np.testing.assert_allclose(np.abs(rows.apply(found.transform)), np.abs(expected), rtol=1e-6)


def test_sums_of_pieces_far_from_each_other_keep_their_digits(tmp_path, room):
    """Means of pieces are thousands of deviations apart, as in a file that is sorted by time."""
    trend = 1e4 * np.arange(N_ROWS) / N_ROWS
    moved = X + trend[:, None]
    y = moved @ [1.0, -2.0, 0.5, 1.5]
    columns = dict(zip(NAMES, moved.T, strict=True))
    parquet.write_table(table(**columns, y=y), tmp_path / "rows.parquet")
    expected = LinearRegression().fit(moved, y)
    found = LinearRegression().fit(rows_of(tmp_path, "y"), "y")
    np.testing.assert_allclose(found.coef_, [1.0, -2.0, 0.5, 1.5], atol=1e-8)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-8)


def test_formats_give_the_same_search(tmp_path, path, room):
    model, grid, target = SEARCHES[0]
    expected = GridSearchCV(model, grid).fit(X, TARGETS[target])
    pytest.importorskip("pyarrow.csv").write_csv(table(), tmp_path / "rows.csv")
    of_csv = gpuml.read_csv(tmp_path / "rows.csv", [*NAMES, target])
    np.save(tmp_path / "rows.npy", np.column_stack([X, TARGETS[target]]))
    of_map = gpuml.read_array(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    for rows, y in (
        (of_csv, target),
        (of_map, str(N_FEATURES)),
        (of_map.select("0123"), TARGETS["y"]),
    ):
        check_alike(GridSearchCV(model, grid).fit(rows, y), expected)


def test_arrays_of_zarr(tmp_path, room):
    zarr = pytest.importorskip("zarr")
    z = zarr.create_array(str(tmp_path / "x"), shape=X.shape, chunks=(77, 2), dtype="f8")
    z[:] = X
    found = Ridge().fit(gpuml.read_array(z), TARGETS["y"])
    np.testing.assert_allclose(found.coef_, Ridge().fit(X, TARGETS["y"]).coef_, rtol=1e-10)


def test_several_files_folders_and_urls(tmp_path, room):
    fsspec = pytest.importorskip("fsspec")
    names = [tmp_path / f"part-{i}.parquet" for i in range(3)]
    for i, name in enumerate(names):
        parquet.write_table(table().slice(200 * i, 200), name)
    memory = fsspec.filesystem("memory")
    memory.put(str(names[0]), "/stored/one.parquet")
    expected = Ridge().fit(X, TARGETS["y"]).coef_
    for given in (names, tmp_path, str(tmp_path / "part-*.parquet")):
        rows = gpuml.read_parquet(given, [*NAMES, "y"])
        assert rows.shape == (N_ROWS, N_FEATURES + 1)
        np.testing.assert_allclose(Ridge().fit(rows, "y").coef_, expected, rtol=1e-10)
    rows = gpuml.read_parquet("memory://stored/one.parquet", [*NAMES, "y"])
    expected = Ridge().fit(X[:200], TARGETS["y"][:200]).coef_
    np.testing.assert_allclose(Ridge().fit(rows, "y").coef_, expected, rtol=1e-10)


def test_files_without_rows_among_others(tmp_path, room):
    for i, n in enumerate([0, 200, 0, 400, 0]):
        own = table().slice(max(0, 200 * (i - 2)), n)
        with parquet.ParquetWriter(tmp_path / f"{i}.parquet", own.schema) as file:
            if n:  # none has a row group without rows
                file.write_table(own)
    rows = rows_of(tmp_path, "y")
    np.testing.assert_array_equal(rows.drop("y")[:], X)
    expected = Ridge().fit(X, TARGETS["y"]).coef_
    np.testing.assert_allclose(Ridge().fit(rows, "y").coef_, expected, rtol=1e-10)


@pytest.mark.parametrize("name", [None, "id"])
def test_the_index_of_a_dataframe_is_no_feature(tmp_path, name):
    frame = table().to_pandas()
    frame.sample(frac=1, random_state=0).rename_axis(name).to_parquet(tmp_path / "rows.parquet")
    rows = gpuml.read_parquet(tmp_path)
    assert rows.columns == tuple(frame)
    index = "__index_level_0__" if name is None else name
    assert gpuml.read_parquet(tmp_path, [index, "y"]).columns == (index, "y")
    assert sorted(rows.column(index)) == list(range(N_ROWS))


def test_number_of_threads_changes_no_bit(path, room, monkeypatch):
    model, grid, target = SEARCHES[5]
    one = GridSearchCV(model, grid).fit(rows_of(path, target), target)
    monkeypatch.setattr(stored, "blas_threads", lambda: 5)
    three = GridSearchCV(model, grid).fit(rows_of(path, target), target)
    assert (one.cv_results_["mean_test_score"] == three.cv_results_["mean_test_score"]).all()
    assert (last_of(one).coef_ == last_of(three).coef_).all()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("model", "grid", "target"), SEARCHES, ids=[name_of(c[0]) for c in SEARCHES]
)
def test_blocks_are_worked_on_where_settings_say(path, room, model, grid, target):
    pytest.importorskip("cupy")
    expected = GridSearchCV(model, grid).fit(X, TARGETS[target])
    with gpuml.config_context(device="cuda"):
        found = GridSearchCV(model, grid).fit(rows_of(path, target), target)
    assert "cupy" in str(found.plan_)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-6
    )


def test_rows_as_users_have_them(path):
    rows = gpuml.read_parquet(path, [*NAMES, "y"], memory="2GiB")
    assert rows.memory == 2 * 2**30
    assert rows.shape == (N_ROWS, 5)
    assert "600 rows of 5 columns" in repr(rows)
    np.testing.assert_array_equal(rows.drop("y")[10:20], X[10:20])
    np.testing.assert_array_equal(rows.column("y"), TARGETS["y"])
    np.testing.assert_array_equal(np.concatenate(list(rows.select(["x2"]).blocks())), X[:, [2]])
    model = Ridge().fit(rows, "y")
    predicted = rows.drop("y").apply(model.predict)
    np.testing.assert_allclose(predicted, Ridge().fit(X, TARGETS["y"]).predict(X), rtol=1e-10)


def scored_by_me(model, X, y):
    return 0.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [Ridge, PoissonRegressor, LogisticRegression])
def test_scores_of_rows_in_files_are_those_in_memory(path, monkeypatch, kind, weighted):
    monkeypatch.setattr(stored, "LARGEST_PIECE_BYTES", 2**10)  # many blocks
    monkeypatch.setattr(stored, "SMALLEST_PIECE_BYTES", 2**10)
    target = {Ridge: "y", PoissonRegressor: "count", LogisticRegression: "label"}[kind]
    weight = np.random.default_rng(0).random(N_ROWS) if weighted else None
    rows, y = rows_of(path, target), TARGETS[target]
    search = GridSearchCV(kind(), {}).fit(rows, target)
    model, frame = (
        search.best_estimator_,
        rows.table.frame_of(NAMES, dict(zip(NAMES, X.T, strict=False)), N_ROWS),
    )
    expected = model.score(frame, y, weight)
    np.testing.assert_allclose(rows.drop(target).score(model, y, weight), expected, rtol=1e-12)
    np.testing.assert_allclose(search.score(rows, target), model.score(frame, y), rtol=1e-12)
    names = ["neg_mean_absolute_error", "neg_median_absolute_error"]
    for name in ["f1_macro", "roc_auc"] if target == "label" else names:
        other = GridSearchCV(kind(), {}, scoring=name).fit(rows, target)
        score = other.scorer_(other.best_estimator_, frame, y)
        np.testing.assert_allclose(other.score(rows, target), score, rtol=1e-12)
    with pytest.raises(ValueError, match="cannot be computed block by block"):
        GridSearchCV(kind(), {}, scoring=scored_by_me).fit(X, y).score(rows, target)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        rows.drop(target).score(model, y[1:])


@pytest.mark.parametrize(("kind", "n_passes"), [(Ridge, 1), (LogisticRegression, None)])
def test_the_plan_counts_every_reading(path, monkeypatch, kind, n_passes):
    """Those for steps, curvatures, scores and the best model too."""
    seen, reading = [], read.Pieces.read
    monkeypatch.setattr(
        read.Pieces, "read", lambda self, wanted: seen.append(wanted) or reading(self, wanted)
    )
    target = "y" if kind is Ridge else "label"
    found = GridSearchCV(kind(), {}).fit(rows_of(path, target), target)
    assert found.plan_.n_passes == len(seen)
    assert len(seen) > 4 if n_passes is None else len(seen) == n_passes


def test_float32_columns_are_read_as_such(tmp_path):
    one = pa.table({"a": X[:, 0].astype("f4"), "b": X[:, 1].astype("f4")})
    parquet.write_table(one, tmp_path / "a.parquet")
    assert gpuml.read_parquet(tmp_path)[:3].dtype == np.float32
    parquet.write_table(one.append_column("c", pa.array(range(N_ROWS))), tmp_path / "a.parquet")
    assert gpuml.read_parquet(tmp_path)[:3].dtype == np.float64
    parquet.write_table(pa.table({"a": pa.array([1, 2], "i1")}), tmp_path / "a.parquet")
    assert gpuml.read_parquet(tmp_path)[:].dtype == np.float64


# ---------------------------------------------------------------- what is refused


def test_no_rows_are_an_error_that_says_so(tmp_path):
    parquet.write_table(table().slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="have no rows"):
        gpuml.read_parquet(tmp_path, NAMES).apply(Ridge().fit(X, TARGETS["y"]).predict)


def test_columns_that_there_are_not(path):
    with pytest.raises(ValueError, match=r"no column 'x33'\. Did you mean 'x3'\?"):
        gpuml.read_parquet(path, ["x33"])
    with pytest.raises(ValueError, match="Did you mean 'label'"):
        Ridge().fit(gpuml.read_parquet(path), "labels")
    with pytest.raises(ValueError, match=r"Use \['x1'\]"):
        gpuml.read_parquet(path, "x1")


def test_columns_of_strings_are_named(path):
    with pytest.raises(ValueError, match=r"'label' \(string\).*rows.drop\('label'\)"):
        GridSearchCV(Ridge(), {}).fit(gpuml.read_parquet(path), "y")


@pytest.mark.parametrize("fit", [Ridge().fit, GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}).fit])
def test_nulls_are_named_with_their_row(tmp_path, room, fit):
    values = X[:, 1].tolist()
    values[333] = None
    parquet.write_table(table(x1=pa.array(values)), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="Column 'x1' .* has nulls, the first of them in row 333"):
        fit(rows_of(tmp_path, "y"), "y")


def test_a_file_that_goes_away_in_mid_search(path, monkeypatch):
    monkeypatch.setattr(stored, "Room", lambda size: read.Room(0))
    rows = rows_of(path, "label")
    made = LogisticRegression.multifit

    def removed(self, folds, *args, **kwargs):
        os.remove(path)
        return made(self, folds, *args, **kwargs)

    monkeypatch.setattr(LogisticRegression, "multifit", removed)
    with pytest.raises(OSError, match="was changed, or removed, after"):
        GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}).fit(rows, "label")


def test_files_of_different_columns(tmp_path):
    parquet.write_table(table(), tmp_path / "a.parquet")
    parquet.write_table(table().drop(["x1"]), tmp_path / "b.parquet")
    for columns in (None, ["x0", "x1"]):
        with pytest.raises(ValueError, match="has other columns than .*x1"):
            gpuml.read_parquet(tmp_path, columns=columns)
    with pytest.raises(ValueError, match="gone"):
        gpuml.read_parquet(tmp_path, columns=["x0", "gone"])


def test_columns_that_are_not_chosen_may_differ(tmp_path):
    parquet.write_table(table(), tmp_path / "a.parquet")
    parquet.write_table(table().drop(["x1"]), tmp_path / "b.parquet")
    rows = gpuml.read_parquet(tmp_path, columns=["x0", "x2"])
    expected = table().select(["x0", "x2"]).to_pandas().to_numpy()
    np.testing.assert_array_equal(rows[:], np.concatenate([expected, expected]))


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        gpuml.read_parquet(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="list of files is empty"):
        gpuml.read_parquet([])
    with pytest.raises(ValueError, match="all on this machine, or all at memory://"):
        gpuml.read_parquet([tmp_path / "none.parquet", "memory://one.parquet"])
    with pytest.raises(FileNotFoundError, match="There is no file"):
        gpuml.read_parquet(tmp_path)


def test_files_that_are_none_say_which(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"a.parquet cannot be read: .*Parquet"):
        gpuml.read_parquet(tmp_path)
    (tmp_path / "a.csv").write_text("a\n" + "1\n" * 600_000 + "1.5\n")
    with pytest.raises(ValueError, match=r"a.csv cannot be read: .*'1.5'. The first megabyte"):
        gpuml.read_csv(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("a,a\n1,2\n")
    with pytest.raises(ValueError, match="several columns of .*b.csv are called 'a'"):
        gpuml.read_csv(tmp_path / "b.csv")
    with pytest.raises(TypeError, match="read_array takes an open array, got str"):
        gpuml.read_array("a.npy")


def test_a_csv_file_that_was_changed(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,2\n3,5\n")
    rows = gpuml.read_csv(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,y\n1,2\n3,5\n7,8\n")
    with pytest.raises(OSError, match="was changed"):
        Ridge().fit(rows, "y")


def test_folders_named_after_values_are_told(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        parquet.write_table(table(), tmp_path / f"year={year}" / "0.parquet")
    with pytest.warns(UserWarning, match=r"named after values of 'year' \(year=2023\)"):
        rows = gpuml.read_parquet(tmp_path)
    assert "year" not in rows.columns


def test_folders_whatever_they_are_called(tmp_path):
    # Patterns are for files; Spark calls folders "x.parquet".
    folder = tmp_path / "[1]" / "x.parquet"
    folder.mkdir(parents=True)
    parquet.write_table(table(), folder / "0.parquet")
    assert len(gpuml.read_parquet(tmp_path / "[1]")) == N_ROWS


def test_what_writers_leave_in_folders_is_not_read(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    (tmp_path / "_temporary" / "0").mkdir(parents=True)
    for name in ("0.parquet", "_temporary/0/1.parquet", "_2.parquet", ".3.parquet"):
        parquet.write_table(table(), tmp_path / name)
    (tmp_path / "_temporary" / "unfinished.parquet").write_bytes(b"PAR1")
    assert len(gpuml.read_parquet(tmp_path)) == N_ROWS
    fsspec.filesystem("memory").put(str(tmp_path), "/leftovers", recursive=True)
    assert len(gpuml.read_parquet("memory://leftovers")) == N_ROWS
    assert len(gpuml.read_parquet(tmp_path / "_2.parquet")) == N_ROWS


def test_home_is_where_paths_of_it_are(path, monkeypatch):
    monkeypatch.setenv("HOME" if os.name == "posix" else "USERPROFILE", str(Path(path).parent))
    assert len(gpuml.read_parquet(f"~/{Path(path).name}")) == N_ROWS
    assert len(gpuml.read_parquet("~")) == N_ROWS


def test_several_targets_by_name_are_told_how(path):
    rows = gpuml.read_parquet(path, [*NAMES, "y", "count"])
    with pytest.raises(ValueError, match=r"the name of one column.*\['y', 'count'\]"):
        Ridge().fit(rows, ["y", "count"])
    values = rows.select(["y", "count"])[:]
    model = Ridge().fit(rows.drop("y", "count"), values)
    np.testing.assert_allclose(model.coef_, Ridge().fit(X, values).coef_)


def test_memory_that_does_not_do(path):
    for wrong in ("0GB", 0, float("inf"), float("nan"), True):
        with pytest.raises(ValueError, match="such as '4GB'"):
            gpuml.read_parquet(path, memory=wrong)
    assert gpuml.read_parquet(path, memory=np.int64(10**9)).memory == 10**9
    with pytest.raises(MemoryError, match=r"memory=1.0 MiB is too small for .*Give more memory="):
        Ridge().fit(gpuml.read_parquet(path, [*NAMES, "y"], memory="1MiB"), "y")
    with pytest.raises(ValueError, match="such as '4GB', got 'much'"):
        gpuml.read_parquet(path, memory="much")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (RandomForestRegressor(), {}),
        (Ridge(solver="sag"), {}),
        (Ridge(), {"scoring": lambda model, X, y: 1.0}),
        (Ridge(), {"return_predictions": True}),
    ],
    ids=["forest", "solver", "score", "predictions"],
)
def test_what_needs_all_rows_says_how_to_have_them(path, model, options):
    with pytest.raises(NeedsAllRows, match=r"Pass rows\[:\] as X") as raised:
        GridSearchCV(model, {}, **options).fit(rows_of(path, "y"), "y")
    assert NeedsAllRows.__name__ not in str(raised.value)


def test_arrays_are_not_made_by_the_way(path):
    rows = rows_of(path, "y")
    with pytest.raises(TypeError, match=r"rows\[i:j\], or rows\[:\] for all of them"):
        cross_val_predict(Ridge(), rows, "y")
    for needs in (RidgeCV().fit, lambda rows, y: np.asarray(rows)):
        with pytest.raises(TypeError, match=r"read pass by pass.*rows\[:\].*rows.apply"):
            needs(rows, TARGETS["y"])


@pytest.mark.filterwarnings("ignore:One or more of the test scores")
def test_candidates_that_fail_do_so_alone(path):
    search = GridSearchCV(Ridge(), {"alpha": [-1.0, 1.0]})
    with pytest.warns(FitFailedWarning, match="alpha"):
        search.fit(rows_of(path, "y"), "y")
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False]
    with pytest.raises(ValueError, match="alpha"):
        GridSearchCV(Ridge(), {"alpha": [-1.0]}, error_score="raise").fit(rows_of(path, "y"), "y")


def test_missing_values_are_those_of_all_fits(tmp_path):
    values = X[:, 1].copy()
    values[5] = np.nan
    parquet.write_table(table(x1=values), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="Input X contains NaN"):
        GridSearchCV(Ridge(), {"alpha": [1.0]}).fit(rows_of(tmp_path, "y"), "y")


# ---------------------------------------------------------------- memory, and order

MEMORY = """
import resource, sys
import numpy as np
import gpuml
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV

small, large, memory = sys.argv[1:]

def fit(path):
    rows = gpuml.read_parquet(path, memory=int(memory))
    GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}).fit(rows.drop("label"), "y")
    GridSearchCV(LogisticRegression(tol=1e-2), {"C": [1.0]}, cv=2).fit(rows.drop("y"), "label")

fit(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fit(large)
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss in KiB is Linux's")
def test_memory_of_a_search_stays_within_its_bound(tmp_path, rng):
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    n, p, memory = 1_000_000, 30, 100 * 10**6
    schema = pa.schema([*((f"x{j}", pa.float64()) for j in range(p)), ("y", "f8"), ("label", "i4")])
    for path, n_groups in ((small, 1), (large, 20)):
        with parquet.ParquetWriter(path, schema) as writer:
            for _ in range(n_groups):
                one = rng.integers(9, size=(p, n // 20)).astype(float)
                y = one[0] + rng.normal(size=n // 20)
                writer.write_table(pa.table([*one, y, (y > 4).astype("i4")], schema=schema))
    script = [sys.executable, "-c", MEMORY, str(small), str(large), str(memory)]
    environment = {**os.environ, "PYTHONPATH": str(Path(gpuml.__file__).parents[1])}
    done = subprocess.run(
        script, env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    # y, solvers and the memory allocator of a busy machine come on top of the limit.
    assert int(done.stdout) < 2 * memory < n * p * 8


def test_results_are_combined_by_a_tree_as_they_come():
    def level_by_level(left):
        while len(left) > 1:
            pairs = [f"({a}{b})" for a, b in zip(left[::2], left[1::2], strict=False)]
            left = pairs + left[2 * len(pairs) :]
        return left[0]

    for n in range(1, 40):
        names = [str(i) for i in range(n)]
        assert tree(iter(names), lambda a, b: f"({a}{b})") == level_by_level(names)
