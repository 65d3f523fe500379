"""A search over a DataFrame or array is the same search over its pieces, whatever each piece lacks."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit

from gpuml import get_config
from gpuml.compose import ColumnTransformer
from gpuml.data import NeedsAllRows
from gpuml.divided import DividedRows, InProcess, Share, divided_splits, frames, rows_like, tables
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.metrics.scorer import check_scoring
from gpuml.model_selection.divided import DividedEvaluator, why_not_divided
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.one_by_one import Task
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from gpuml.resampling.split import check_splitter, split_rows
from tests.test_stored_tables import (
    CODED,
    FEATURES,
    FRAME,
    MODELS,
    N_ROWS,
    NAMES,
    NUMBERS,
    SCALED,
    STEPS,
    check_learnt,
    known,
    name_of,
)

pandas = pytest.importorskip("pandas")

SIZES = (97, 1, 180, 122)


def pieces_of(x, sizes=SIZES):
    ends = np.cumsum(sizes).tolist()
    return [None if x is None else x[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def divided_rows(X, y, weight=None, change=lambda piece: piece):
    of_each = zip(pieces_of(X), pieces_of(y), pieces_of(weight), strict=True)
    shares = [Share(change(part), *rest) for part, *rest in of_each]
    header = shares[0].X[:0]
    return DividedRows(InProcess(shares), SIZES, X.shape[1], get_config(), header=header)


def searched(evaluator, params):
    """Scores (candidate, split), and the model of candidate 0; None if they cannot share a pass."""
    found = [item for group in evaluator.groups(params) for item in evaluator.fit_group(group)]
    if not found:
        return None
    assert [position for position, _ in found] == list(range(len(params)))
    scores = [[split["test_scores"] for split in results] for _, results in found]
    return np.asarray(scores, dtype=float), evaluator.refit(0)


def jobs(steps, model, X, y, cv=None, weight=None, change=lambda piece: piece):
    """The job of all rows, and that of their pieces."""
    estimator = make_pipeline(steps, model)
    own = {} if weight is None else {f"{estimator.steps[-1][0]}__sample_weight": weight}
    score = {} if weight is None else {"sample_weight": weight}
    task = Task(check_scoring(estimator, None), own, score, False, np.nan, 0)
    groups = {"groups": np.arange(len(y)) % 7} if isinstance(cv, GroupKFold) else {}
    classifier = y.dtype.kind not in "if"
    splitter = check_splitter(cv or 3, y, classifier=classifier)
    rows = divided_rows(X, y, weight, change)
    splits = divided_splits(splitter, rows.shares, SIZES, classifier=classifier, **groups)
    every = split_rows(splitter, X, y, len(y), **groups)
    return Job(estimator, X, y, every, task), Job(estimator, rows, None, splits, task)


def check_alike(steps, model, grid, X, y, *, rtol=1e-9, **options):
    whole, divided = jobs(steps, model, X, y, **options)
    name = whole.estimator.steps[-1][0]
    params = [{f"{name}__{key}": v} for key, values in grid.items() for v in values] or [{}]
    expected = searched(Evaluator(whole), params)
    evaluator = DividedEvaluator(divided)
    found = searched(evaluator, params)
    assert found is not None, evaluator.refusals
    np.testing.assert_allclose(found[0], expected[0], rtol=rtol, atol=rtol)
    coefs = [each[1][-1].coef_ for each in (found, expected)]
    np.testing.assert_allclose(*coefs, rtol=1e-6, atol=1e-7)
    check_learnt(found[1][0], expected[1][0])
    return found, expected


@pytest.mark.pairwise
@pytest.mark.parametrize(("model", "grid", "target"), MODELS, ids=[name_of(m) for m, *_ in MODELS])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_pieces_of_a_frame_are_searched_as_the_frame(steps, model, grid, target):
    X, y = FRAME[FEATURES], FRAME[target].to_numpy()
    check_alike(steps, model, grid, X, y, rtol=1e-9 if target == "price" else 1e-6)


@pytest.mark.parametrize(
    "cv", [KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3), GroupKFold(3)], ids=name_of
)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_splits_and_weights(cv, weighted):
    weight = FRAME["weight"].to_numpy() if weighted else None
    X, y = FRAME[FEATURES], FRAME["price"].to_numpy()
    for steps in (STEPS["one-hot"], STEPS["medians"], STEPS["modes"]):
        check_alike(steps, Ridge(), {"alpha": [0.1, 1.0]}, X, y, cv=cv, weight=weight)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_dealt_splits_of_labels(weighted):
    weight = FRAME["weight"].to_numpy() if weighted else None
    X, y = FRAME[FEATURES], FRAME["late"].to_numpy(dtype=object)
    model = LogisticRegression(tol=1e-8)
    for cv in (None, StratifiedKFold(3, shuffle=True, random_state=0)):
        check_alike(STEPS["filled"], model, {"C": [1.0]}, X, y, rtol=1e-6, cv=cv, weight=weight)


def missing(X, **where):
    out = X.copy()
    for name, rows in where.items():
        out.loc[rows, name] = None
    return out


def own_categories(piece):
    return piece.assign(kind=piece["kind"].astype(object).astype("category"))


# What the whole frame is, and what becomes of each piece.
KINDS = {
    "strings of objects": lambda X: X.astype({"town": object}),
    "None and nan": lambda X: X.assign(
        town=[None if t == "ely" else t for t in X["town"].astype(object)]
    ),
    "nullable": lambda X: X.convert_dtypes(dtype_backend="numpy_nullable"),
    "pyarrow": lambda X: X.convert_dtypes(dtype_backend="pyarrow"),
    "bools": lambda X: X.assign(floor=X["floor"] > 0),
    "categories": lambda X: X.astype({"town": "category", "rooms": "category"}).assign(
        rooms=X["rooms"]
    ),
    "categories of numbers": lambda X: X.assign(kind=pandas.Categorical(X["floor"])),
    "unused categories": lambda X: X.assign(
        kind=pandas.Categorical(X["kind"], categories=["tent", "house", "boat", "flat"])
    ),
    "no value in one piece": lambda X: missing(
        X, age=slice(98, 277), town=slice(0, 96), kind=slice(278, 399)
    ),
    "holes in one piece": lambda X: X.assign(
        age=X["age"].fillna(0.0).where(np.arange(N_ROWS) != 97),
        town=X["town"].fillna("ely").where(np.arange(N_ROWS) != 97),
    ),
    "levels of one piece": lambda X: X.assign(
        town=np.repeat(["york", "bath", "bath", "hull"], SIZES)
    ),
    "no value at all": lambda X: X.assign(rooms=np.nan),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["one-hot", "filled", "ordinal", "medians"])
def test_what_columns_hold(kind, name):
    X, y = KINDS[kind](FRAME[FEATURES]), FRAME["price"].to_numpy()
    steps, cv = STEPS[name], KFold(3, shuffle=True, random_state=0)
    if kind == "no value at all":
        with pytest.warns(UserWarning, match="Skipping features without any observed values"):
            check_alike(steps, Ridge(), {"alpha": [0.1]}, X, y, cv=cv)
    else:
        check_alike(steps, Ridge(), {"alpha": [0.1]}, X, y, cv=cv)


def test_pieces_with_categories_of_their_own_are_those_of_their_join():
    X, y = FRAME[FEATURES], FRAME["price"].to_numpy()
    X = X.assign(kind=np.repeat(["flat", "house", "tent", "flat"], SIZES).astype(object))
    steps, cv = STEPS["one-hot"], KFold(3, shuffle=True, random_state=0)
    check_alike(steps, Ridge(), {"alpha": [0.1]}, X, y, cv=cv, change=own_categories)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, object])
def test_arrays_with_holes(dtype):
    X = FRAME[NUMBERS].to_numpy().astype(dtype)
    steps = ColumnTransformer([("n", SimpleImputer(), [0, 1]), ("c", OneHotEncoder(), [2])])
    if dtype is object:
        steps = ColumnTransformer([("c", OneHotEncoder(handle_unknown="ignore"), [2])])
    check_alike(steps, Ridge(), {"alpha": [0.1]}, X, FRAME["price"].to_numpy())


def test_steps_without_a_column_transformer():
    X, y = FRAME[NUMBERS], FRAME["price"].to_numpy()
    check_alike(make_pipeline(SimpleImputer(), StandardScaler()), Ridge(), {}, X, y)
    filled = known(OneHotEncoder(handle_unknown="ignore"))
    check_alike(ColumnTransformer([("c", filled, NAMES)]), Ridge(), {}, FRAME[FEATURES], y)


@pytest.mark.parametrize("options", [{"min_frequency": 3}, {"max_categories": 5}], ids=str)
def test_rare_levels_are_groups(options):
    X, y = FRAME[FEATURES], FRAME["price"].to_numpy()
    rng = np.random.default_rng(0)
    streets = [f"s{n}" for n in (2000 * rng.uniform(size=N_ROWS) ** 4).astype(int)]
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", **options)
    steps = ColumnTransformer([SCALED, ("c", encoder, ["street", "kind"])])
    check_alike(steps, Ridge(), {"alpha": [0.1]}, X.assign(street=streets), y)


def test_a_survey_brings_few_rows_here():
    X, y = FRAME[FEATURES], FRAME["price"].to_numpy()
    rows = divided_rows(X, y)
    few = rows.frame_for(STEPS["one-hot"])
    assert len(few) == 4  # three towns and a hole
    assert few.dtypes.equals(X.dtypes)
    (found,) = rows.tables.values()
    assert found.table.n_rows == 0
    assert found.table.with_holes.tolist() == [0, 2]
    assert [share.X.codes[0].dtype for share in found.shares.pieces] == [np.uint8] * len(SIZES)
    assert rows.frame_for(STEPS["one-hot"]) is few


@pytest.mark.parametrize("kind", ["nullable", "pyarrow", "bools", "categories of numbers"])
def test_rows_like_others_have_their_dtypes(kind):
    X = KINDS[kind](FRAME[FEATURES])
    rows = rows_like(X[:0], 3)
    assert rows.shape == (3, len(FEATURES))
    assert rows.dtypes.equals(X.dtypes)


# ---------------------------------------------------------------- what is refused


def refusal(steps, X, change=lambda piece: piece):
    y = FRAME["price"].to_numpy()
    _, job = jobs(steps, Ridge(), X, y, change=change)
    evaluator = DividedEvaluator(job)
    assert searched(evaluator, [{}]) is None
    (reason,) = evaluator.refusals
    return reason


def test_as_many_levels_as_there_may_be(monkeypatch):
    monkeypatch.setattr(tables, "MOST_LEVELS", 3)
    X, y = FRAME[FEATURES], FRAME["price"].to_numpy()  # three towns, and holes
    encoder = OneHotEncoder(handle_unknown="ignore")
    check_alike(ColumnTransformer([("c", encoder, ["town"])]), Ridge(), {}, X, y)


def test_too_many_levels(monkeypatch):
    monkeypatch.setattr(tables, "MOST_LEVELS", 100)
    reason = refusal(ColumnTransformer([("c", OneHotEncoder(), ["size"])]), FRAME[FEATURES])
    assert "Column 'size' has more than 100 values" in reason
    assert "leave the column out" in reason


def test_infinity_and_mixed_levels():
    X = FRAME[FEATURES]
    assert "infinity" in refusal(STEPS["one-hot"], X.assign(age=np.inf))
    X = X.assign(town=np.repeat(np.asarray(["york", 3, 4, 5], dtype=object), SIZES))
    assert "not supported between instances" in refusal(STEPS["one-hot"], X)


def test_rows_without_a_header_and_sparse_ones_need_one_place():
    X, y = FRAME[FEATURES], FRAME["price"].to_numpy()
    with pytest.raises(NeedsAllRows, match="are found where all its rows are"):
        DividedRows(InProcess([Share(X, y)]), (N_ROWS,), 6, {}).frame_for(STEPS["one-hot"])
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(X[NUMBERS].to_numpy())
    with pytest.raises(NeedsAllRows, match="Sparse rows"):
        frames._read(Share(sparse, y), None, None)


def test_values_that_change_when_parts_are_joined():
    whole = 2**53 + np.arange(N_ROWS) % 3
    X = FRAME[FEATURES].assign(floor=whole)

    def change(piece):
        return piece.assign(floor=piece["floor"].astype(float)) if len(piece) == 1 else piece

    steps = ColumnTransformer([("c", OneHotEncoder(handle_unknown="ignore"), ["floor"])])
    assert "the same dtype in all parts" in refusal(steps, X, change)


def test_reasons_that_a_header_says():
    X, y = FRAME[FEATURES], FRAME["price"].to_numpy()
    whole, _ = jobs(STEPS["one-hot"], Ridge(), X, y)
    assert why_not_divided(whole, X[:0]) is None
    assert "where all its rows are" in why_not_divided(whole)
    scaled = make_pipeline(SimpleImputer(), MinMaxScaler())
    whole, _ = jobs(ColumnTransformer([("n", scaled, NUMBERS)]), Ridge(), X, y)
    assert "use StandardScaler" in why_not_divided(whole, X[:0])
    whole, _ = jobs(ColumnTransformer([CODED]), Ridge(), X, y)
    assert "not columns of the dataframe" in why_not_divided(whole, X[NUMBERS][:0])
