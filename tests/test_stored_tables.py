"""Categories and holes of files are what they are in the same DataFrame, reading by reading."""

import numpy as np
import pytest
from sklearn import compose, impute, preprocessing
from sklearn.model_selection import KFold, RepeatedKFold, StratifiedKFold, TimeSeriesSplit

import gpuml
from gpuml.compose import ColumnTransformer, make_column_selector
from gpuml.data import NeedsAllRows
from gpuml.divided import read, stored
from gpuml.impute import SimpleImputer
from gpuml.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from gpuml.model_selection import GridSearchCV, cross_val_score
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from gpuml.reading import levels, tables
from gpuml.solvers import medians, modes

pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")

N_ROWS = 400
ROOMS = {"nothing stays": 0, "some stay": 9000, "all stay": 10**9}
FEATURES = ["age", "size", "rooms", "town", "kind", "floor"]


def made_frame():
    rng = np.random.default_rng(0)

    def holes(values):
        return pandas.Series(values).mask(rng.random(N_ROWS) < 0.1)

    frame = pandas.DataFrame(
        {
            "age": holes(rng.normal(3.0, 1.0, N_ROWS)),
            "size": rng.normal(50.0, 9.0, N_ROWS),
            "rooms": holes(rng.integers(1, 6, N_ROWS).astype(float)),
            # Levels are met in another order than they are sorted in; one is rare.
            "town": holes(rng.choice(["york", "bath", "ely"], N_ROWS, p=[0.6, 0.39, 0.01])),
            "kind": pandas.Categorical(rng.choice(["flat", "house"], N_ROWS)),
            "floor": rng.integers(-1, 3, N_ROWS),
            "weight": rng.uniform(0.5, 2.0, N_ROWS),
        }
    )
    mean = frame["age"].fillna(2.0) + 2.0 * (frame["town"] == "york") - (frame["floor"] == 2)
    frame["price"] = mean + rng.normal(size=N_ROWS)
    frame["late"] = np.where(mean + rng.normal(size=N_ROWS) > 4, "yes", "no")
    frame["count"] = rng.poisson(np.exp(0.1 * mean))
    return frame


FRAME = made_frame()
NUMBERS, NAMES = ["age", "size", "rooms"], ["town", "kind"]


def known(*steps):
    return make_pipeline(SimpleImputer(strategy="most_frequent"), *steps)


SCALED = ("n", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS)
CODED = ("c", OneHotEncoder(handle_unknown="ignore"), NAMES)
STEPS = {
    "one-hot": ColumnTransformer([SCALED, CODED]),
    "jobs": ColumnTransformer([SCALED, CODED], n_jobs=2, sparse_threshold=0),
    "filled": ColumnTransformer(
        [SCALED, ("c", known(OneHotEncoder(drop="first")), NAMES)], remainder="passthrough"
    ),
    "filled by a name": ColumnTransformer(
        [
            ("n", SimpleImputer(strategy="constant", add_indicator=True), NUMBERS),
            (
                "c",
                make_pipeline(
                    SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder()
                ),
                ["town"],
            ),
        ]
    ),
    "ordinal": ColumnTransformer(
        [
            SCALED,
            (
                "c",
                OrdinalEncoder(
                    handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
                ),
                [*NAMES, "floor"],
            ),
        ]
    ),
    "numbers twice": ColumnTransformer(
        [SCALED, ("c", OneHotEncoder(handle_unknown="ignore"), ["floor", "rooms"])],
        transformer_weights={"c": 0.5},
    ),
    "medians": ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS), CODED]
    ),
    "modes": ColumnTransformer(
        [
            (
                "n",
                make_pipeline(SimpleImputer(strategy="most_frequent"), StandardScaler()),
                NUMBERS,
            ),
            CODED,
        ]
    ),
    "selectors": ColumnTransformer(
        [
            ("n", SimpleImputer(), make_column_selector(dtype_include=float)),
            ("c", known(OneHotEncoder()), make_column_selector(dtype_include="category")),
        ]
    ),
    "scikit-learn's": compose.ColumnTransformer(
        [
            (
                "n",
                make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler()),
                NUMBERS,
            ),
            ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), NAMES),
        ]
    ),
}
MODELS = [
    (Ridge(), {"alpha": [0.1, 10.0]}, "price"),
    (Lasso(tol=1e-8), {"alpha": [0.01, 0.1]}, "price"),
    (ElasticNet(tol=1e-8), {"l1_ratio": [0.2, 0.8]}, "price"),
    (RidgeClassifier(), {"alpha": [0.1, 10.0]}, "late"),
    (LogisticRegression(tol=1e-8), {"C": [0.1, 10.0]}, "late"),
    (PoissonRegressor(tol=1e-8), {"alpha": [0.1, 1.0]}, "count"),
]


def name_of(value):
    return type(value).__name__


@pytest.fixture(params=ROOMS)
def room(request, monkeypatch):
    """Pieces of some 25 rows, of which all, some, or none stay in memory."""
    monkeypatch.setattr(stored, "LARGEST_PIECE_BYTES", 1400)
    monkeypatch.setattr(stored, "SMALLEST_PIECE_BYTES", 1400)
    made = read.Room
    monkeypatch.setattr(stored, "Room", lambda size: made(min(size, ROOMS[request.param])))
    return request.param


@pytest.fixture
def path(tmp_path):
    # Row groups that pieces do not end with, each with a dictionary of its own.
    FRAME.to_parquet(tmp_path / "rows.parquet", row_group_size=90)
    return tmp_path / "rows.parquet"


def rows_of(path, *targets):
    return gpuml.read_parquet(path, [*FEATURES, *targets])


def searched(steps, model, grid, X, y, **options):
    pipeline = make_pipeline(steps, model)
    name = pipeline.steps[-1][0]
    fit = {f"{name}__{key}": value for key, value in options.pop("fit", {}).items()}
    grid = {f"{name}__{key}": values for key, values in grid.items()}
    return GridSearchCV(pipeline, grid, **options).fit(X, y, **fit)


def check_alike(found, expected, rtol=1e-9):
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(
            found.cv_results_[name], expected.cv_results_[name], rtol=rtol, atol=rtol
        )
    assert found.best_params_ == expected.best_params_
    models = [search.best_estimator_[-1] for search in (found, expected)]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-6, atol=1e-7)
    check_learnt(found.best_estimator_[0], expected.best_estimator_[0])


EXACT = (
    "categories_",
    "infrequent_categories_",
    "sparse_output_",
    "output_indices_",
    "n_features_in_",
    "feature_names_in_",
)
ROUNDED = ("statistics_", "mean_", "var_", "scale_")


def check_learnt(found, expected):
    """Steps, and steps inside them, know the same."""
    assert type(found) is type(expected)
    assert set(vars(found)) == set(vars(expected))
    for name in EXACT:
        assert repr(getattr(found, name, None)) == repr(getattr(expected, name, None))
    for name in ROUNDED:
        one, other = (np.asarray(getattr(each, name, None)) for each in (found, expected))
        if other.dtype == object:
            assert one.tolist() == other.tolist()
        else:
            np.testing.assert_allclose(one, other, rtol=1e-9)
    for name in ("transformers_", "steps"):
        pairs = zip(getattr(found, name, ()), getattr(expected, name, ()), strict=True)
        for one, other in pairs:
            if hasattr(other[1], "get_params"):
                check_learnt(one[1], other[1])


@pytest.mark.pairwise
@pytest.mark.parametrize(("model", "grid", "target"), MODELS, ids=[name_of(m) for m, *_ in MODELS])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_search_of_a_file_is_that_of_its_dataframe(path, room, steps, model, grid, target):
    expected = searched(steps, model, grid, FRAME[FEATURES], FRAME[target])
    found = searched(steps, model, grid, rows_of(path, target), target)
    check_alike(found, expected, 1e-9 if target == "price" else 1e-6)
    assert "all candidates together" in str(found.plan_)
    predicted = found.predict(FRAME[FEATURES])
    if target == "late":
        np.testing.assert_array_equal(predicted, expected.predict(FRAME[FEATURES]))
    else:
        np.testing.assert_allclose(predicted, expected.predict(FRAME[FEATURES]), rtol=1e-5)
    np.testing.assert_array_equal(rows_of(path).apply(found.predict), predicted)
    names = [search.best_estimator_[0].get_feature_names_out() for search in (found, expected)]
    np.testing.assert_array_equal(*names)


RARE = {
    "few": OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.01),
    "most": OneHotEncoder(handle_unknown="ignore", max_categories=7),
    "both": known(OneHotEncoder(handle_unknown="ignore", min_frequency=4, max_categories=20)),
    "named": make_pipeline(
        SimpleImputer(strategy="constant", fill_value="none"),
        OneHotEncoder(handle_unknown="ignore", min_frequency=3),
    ),
}


@pytest.mark.parametrize("encoder", RARE.values(), ids=RARE)
@pytest.mark.parametrize("n_levels", [90, 10**6], ids=["as they are", "merged"])
def test_rare_levels_are_those_of_memory(tmp_path, encoder, n_levels):
    rng = np.random.default_rng(0)
    frame = pandas.concat([FRAME] * 6, ignore_index=True)
    numbers = (n_levels * rng.uniform(size=len(frame)) ** 4).astype(int)
    frame["street"] = pandas.Series([f"s{n}" for n in numbers]).mask(rng.random(len(frame)) < 0.1)
    frame["price"] += numbers == 0
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    steps = ColumnTransformer(
        [SCALED, ("c", encoder, ["street"]), ("d", OneHotEncoder(), ["kind"])]
    )
    X, grid = frame[[*FEATURES, "street"]], {"alpha": [0.1, 10.0]}
    rows = gpuml.read_parquet(tmp_path, [*X, "price"])
    if encoder is RARE["both"] and n_levels > 1024:
        with pytest.raises(NeedsAllRows, match="has more than 1,024 values"):
            searched(steps, Ridge(), grid, rows, "price")
        return
    expected = searched(steps, Ridge(), grid, X, frame["price"])
    found = searched(steps, Ridge(), grid, rows, "price")
    check_alike(found, expected)
    assert found.plan_.n_passes == (2 if n_levels < 128 else 3)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-9)


SHUFFLED = KFold(3, shuffle=True, random_state=0)


@pytest.mark.parametrize(
    ("model", "target", "options"),
    [
        (Ridge(), "price", {"cv": SHUFFLED}),
        (Ridge(), "price", {"scoring": "neg_mean_absolute_error"}),
        (LogisticRegression(tol=1e-8), "late", {"cv": StratifiedKFold(3)}),
        (LogisticRegression(tol=1e-8), "late", {"scoring": ["roc_auc", "neg_log_loss"]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_splits_scores_and_weights_are_those_of_memory(path, model, target, options, weighted):
    options = {"refit": False, **options}
    fits = [({}, {}), ({"sample_weight": FRAME["weight"]}, {"sample_weight": "weight"})][weighted]
    steps, grid = STEPS["one-hot"], {}
    expected = searched(steps, model, grid, FRAME[FEATURES], FRAME[target], fit=fits[0], **options)
    rows = rows_of(path, target, *(["weight"] if weighted else []))
    found = searched(steps, model, grid, rows, target, fit=fits[1], **options)
    for name, scores in expected.cv_results_.items():
        if "_test_" in name:
            np.testing.assert_allclose(found.cv_results_[name], scores, rtol=1e-6, atol=1e-9)


def test_settings_of_steps_are_searched_in_the_same_passes(path):
    grid = {
        "columntransformer__n__simpleimputer__strategy": ["mean", "median", "most_frequent"],
        "columntransformer__n__standardscaler__with_std": [True, False],
        "ridge__alpha": [0.1, 10.0],
    }
    pipeline = make_pipeline(STEPS["one-hot"], Ridge())
    expected = GridSearchCV(pipeline, grid).fit(FRAME[FEATURES], FRAME["price"])
    found = GridSearchCV(pipeline, grid).fit(rows_of(path, "price"), "price")
    check_alike(found, expected)
    # One for levels and holes, one for medians, and one for the most frequent values.
    assert found.plan_.n_passes == 4


def test_explain_reads_nothing_and_counts_the_reading_for_levels(path, monkeypatch):
    monkeypatch.setattr(tables.Table, "decoded", lambda *_: pytest.fail("rows were read"))
    search = GridSearchCV(make_pipeline(STEPS["one-hot"], Ridge()), {"ridge__alpha": [0.1, 1.0]})
    assert search.explain(rows_of(path, "price"), "price").n_passes == 2
    with pytest.raises(ValueError, match=r"'town' .*a ColumnTransformer that encodes them"):
        GridSearchCV(Ridge(), {}).explain(rows_of(path, "price"), "price")


def test_one_reading_finds_levels_and_no_pass_reads_columns_in_vain(path, monkeypatch):
    monkeypatch.setattr(stored, "Room", lambda size: read.Room(0))
    asked, decoded = [], tables.Table.decoded

    def noted(self, columns, spans):
        asked.append(list(columns))
        return decoded(self, columns, spans)

    monkeypatch.setattr(tables.Table, "decoded", noted)
    steps = ColumnTransformer([("n", SimpleImputer(), ["age"]), ("c", OneHotEncoder(), ["kind"])])
    searched(steps, Ridge(), {"alpha": [0.1, 1.0]}, rows_of(path, "price"), "price")
    assert asked == [["age", "kind"]] * 2


def test_holes_of_numbers_without_other_columns(path):
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), Ridge())
    expected = GridSearchCV(pipeline, {"ridge__alpha": [0.1]}).fit(FRAME[NUMBERS], FRAME["price"])
    rows = gpuml.read_parquet(path, [*NUMBERS, "price"])
    found = GridSearchCV(pipeline, {"ridge__alpha": [0.1]}).fit(rows, "price")
    check_alike(found, expected)
    X = FRAME[NUMBERS].to_numpy()
    found = GridSearchCV(pipeline, {"ridge__alpha": [0.1]}).fit(
        gpuml.read_array(X), FRAME["price"].to_numpy()
    )
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9
    )


def test_csv_and_plain_strings(path, tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    steps = STEPS["filled"]
    expected = searched(steps, Ridge(), {"alpha": [0.1]}, FRAME[FEATURES], FRAME["price"])
    rows = gpuml.read_csv(tmp_path / "rows.csv", [*FEATURES, "price"])
    found = searched(steps, Ridge(), {"alpha": [0.1]}, rows, "price")
    check_alike(found, expected)
    scores = cross_val_score(make_pipeline(steps, Ridge(0.1)), rows, "price")
    np.testing.assert_allclose(scores.mean(), expected.cv_results_["mean_test_score"][0])


def test_levels_of_files_that_others_lack(tmp_path):
    FRAME[:150].to_parquet(tmp_path / "a.parquet")
    more = FRAME[150:].assign(town="hull")
    more.to_parquet(tmp_path / "b.parquet")
    every = pandas.concat([FRAME[:150], more])
    # Of the first splits, no training part has bath.
    expected = searched(STEPS["one-hot"], Ridge(), {}, every[FEATURES], every["price"])
    found = searched(STEPS["one-hot"], Ridge(), {}, rows_of(tmp_path, "price"), "price")
    check_alike(found, expected)


@pytest.mark.parametrize(
    "cv",
    [
        KFold(3),
        SHUFFLED,
        TimeSeriesSplit(3),
        RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("errors", [4.0, 1e-3], ids=["near", "missed at first"])
def test_medians_are_exact_though_a_sample_says_where_they_are(path, monkeypatch, cv, errors):
    monkeypatch.setattr(medians, "SAMPLE_ROWS", 50)
    monkeypatch.setattr(medians, "ERRORS", errors)
    monkeypatch.setattr(stored, "LARGEST_PIECE_BYTES", 1400)
    monkeypatch.setattr(stored, "SMALLEST_PIECE_BYTES", 1400)
    steps = STEPS["medians"]
    expected = searched(steps, Ridge(), {}, FRAME[FEATURES], FRAME["price"], cv=cv)
    found = searched(steps, Ridge(), {}, rows_of(path, "price"), "price", cv=cv)
    check_alike(found, expected)


@pytest.mark.parametrize("cv", [SHUFFLED, TimeSeriesSplit(3)], ids=name_of)
def test_most_frequent_values_are_those_of_training_parts(path, room, cv):
    steps = STEPS["modes"]
    expected = searched(steps, Ridge(), {}, FRAME[FEATURES], FRAME["price"], cv=cv)
    found = searched(steps, Ridge(), {}, rows_of(path, "price"), "price", cv=cv)
    check_alike(found, expected)


def test_most_frequent_of_too_many_values(path, monkeypatch):
    monkeypatch.setattr(modes, "MOST_VALUES", 100)
    monkeypatch.setattr(stored, "LARGEST_PIECE_BYTES", 1400)
    monkeypatch.setattr(stored, "SMALLEST_PIECE_BYTES", 1400)
    with pytest.raises(NeedsAllRows, match="more than 100 values.*set strategy='mean' or 'median'"):
        searched(STEPS["modes"], Ridge(), {}, rows_of(path, "price"), "price")


@pytest.mark.gpu
@pytest.mark.pairwise
@pytest.mark.parametrize(("model", "grid", "target"), MODELS, ids=[name_of(m) for m, *_ in MODELS])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_blocks_are_worked_on_where_settings_say(path, room, steps, model, grid, target):
    if not pytest.importorskip("cupy").is_available():
        pytest.skip("no GPU")
    expected = searched(steps, model, grid, FRAME[FEATURES], FRAME[target])
    with gpuml.config_context(device="cuda"):
        found = searched(steps, model, grid, rows_of(path, target), target)
    assert "cupy" in str(found.plan_)
    check_alike(found, expected, rtol=1e-6)


def test_number_of_threads_changes_no_bit(path, room, monkeypatch):
    scores = []
    for threads in (1, 5):
        monkeypatch.setattr(stored, "blas_threads", lambda n=threads: n)
        found = searched(
            STEPS["filled"], Ridge(), {"alpha": [0.1]}, rows_of(path, "price"), "price"
        )
        scores.append(found.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(*scores)


# ---------------------------------------------------------------- what is refused


def of_numbers(step):
    return ColumnTransformer([("n", step, NUMBERS)])


def of_names(step):
    return ColumnTransformer([("c", step, NAMES)])


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (of_numbers(make_pipeline(SimpleImputer(), MinMaxScaler())), "use StandardScaler"),
        (of_numbers(preprocessing.KBinsDiscretizer()), "KBinsDiscretizer of columns"),
        (of_names(preprocessing.OneHotEncoder(min_frequency=3)), "use gpuml's"),
        (of_names(preprocessing.TargetEncoder()), "TargetEncoder of columns"),
        (ColumnTransformer([("c", "passthrough", NAMES)]), "passthrough of columns"),
        (ColumnTransformer([("c", STEPS["one-hot"], NAMES + NUMBERS)]), "inside another"),
        (of_names(OneHotEncoder()).set_output(transform="pandas"), "set_output"),
        (make_pipeline(of_numbers(SimpleImputer()), MinMaxScaler()), "MinMaxScaler"),
    ],
)
def test_what_needs_rows_in_memory_says_what_to_do(path, monkeypatch, steps, says):
    monkeypatch.setattr(tables.Table, "decoded", lambda *_: pytest.fail("rows were read"))
    steps = steps.steps if hasattr(steps, "steps") else [("columns", steps)]
    pipeline = make_pipeline(*(step for _, step in steps), Ridge())
    with pytest.raises(NeedsAllRows, match=f"{says}.*pandas.read_parquet"):
        GridSearchCV(pipeline, {}).fit(rows_of(path, "price"), "price")


def test_settings_that_need_rows_are_refused_too(path):
    grid = {"columntransformer__n__standardscaler": [StandardScaler(), MinMaxScaler()]}
    with pytest.raises(
        NeedsAllRows, match="MinMaxScaler is fitted to rows in memory; use Standard"
    ):
        GridSearchCV(make_pipeline(STEPS["one-hot"], Ridge()), grid).fit(
            rows_of(path, "price"), "price"
        )


def test_columns_of_too_many_levels(path, monkeypatch):
    steps = ColumnTransformer([("c", OneHotEncoder(), ["size"])])
    monkeypatch.setattr("gpuml.divided.tables.MOST_LEVELS", 100)
    with pytest.raises(NeedsAllRows, match="'size' has more than 100 values.*leave the column out"):
        searched(steps, Ridge(), {}, rows_of(path, "price"), "price")


def test_columns_that_there_are_not(path):
    steps = ColumnTransformer([("c", OneHotEncoder(), ["city"])])
    with pytest.raises(ValueError, match="not columns of the dataframe: {'city'}"):
        searched(steps, Ridge(), {}, rows_of(path, "price"), "price")


def test_infinite_values(path):
    FRAME.assign(age=np.inf).to_parquet(path)
    with pytest.raises(ValueError, match="'age' of .* holds infinity"):
        searched(STEPS["one-hot"], Ridge(), {}, rows_of(path, "price"), "price")


# ---------------------------------------------------------------- codes of values


@pytest.mark.parametrize(
    "given",
    [
        pa.array(["b", None, "a", "b"]),
        pa.array(["b", None, "a", "b"]).dictionary_encode(),
        pa.array(["x", "b", None, "a", "b"]).dictionary_encode().slice(1),
        pa.array([2.0, np.nan, 1.0, 2.0]),
        pa.array([2, None, 1, 2], "int8"),
        pa.array([True, None, False, True]),
        np.array([2.0, np.nan, 1.0, 2.0]),
    ],
    ids=lambda each: str(each.dtype if isinstance(each, np.ndarray) else each.type),
)
def test_codes_are_those_of_values(given):
    coder = levels.Coder("column", 5)
    for values in (given, given[2:]):
        codes = coder(values).tolist()
        expected = [v if v is not None and v == v else None for v in values.tolist()]
        assert [coder.values[int(code)] if code >= 0 else None for code in codes] == expected


def test_models_of_other_families(path):
    expected = LinearRegression().fit(FRAME[["size"]], FRAME["price"])
    steps = ColumnTransformer([("n", "passthrough", ["size"])])
    found = searched(steps, LinearRegression(), {}, rows_of(path, "price"), "price")
    np.testing.assert_allclose(found.best_estimator_[-1].coef_, expected.coef_, rtol=1e-9)
