"""Pictures of searches and models: what they show is what the results say."""

import itertools
import re
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn.metrics as skm
from matplotlib.text import Text
from scipy.stats import loguniform
from sklearn import model_selection as sk
from sklearn.calibration import calibration_curve
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.decomposition import PCA as HostPCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression as HostLogisticRegression
from sklearn.linear_model import Ridge as HostRidge
from sklearn.linear_model import SGDClassifier

import gpuml_dask
from gpuml import inspection, model_selection
from gpuml.decomposition import PCA
from gpuml.inspection import ScreeDisplay, SearchDisplay
from gpuml.inspection._best import best_at
from gpuml.inspection._values import MISSING, axis_of, label_of
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_validate,
)
from gpuml.testing import count_transfers

mpl.use("Agg")
ALPHAS = np.logspace(-3, 3, 7)


@pytest.fixture(autouse=True)
def no_open_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def rows():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def ridge_search(rows):
    return GridSearchCV(Ridge(), {"alpha": ALPHAS}, return_train_score=True).fit(*rows)


class FakeSearch:
    """A search that was fitted, of which only the table is there."""

    def __init__(self, params, scores, **more):
        scores = np.asarray(scores, dtype=float)
        table = {f"split{i}_test_score": column for i, column in enumerate(scores.T)}
        self.cv_results_ = {
            **table,
            "mean_test_score": scores.mean(axis=1),
            "params": params,
            **more,
        }

    def fit(self, X, y=None):
        raise NotImplementedError


def drawn(display):
    """That the picture can be drawn to the end."""
    display.figure_.canvas.draw()
    return display


# ---------------------------------------------------------------- one parameter


def test_a_curve_shows_means_and_spread_of_the_table(ridge_search):
    display = drawn(SearchDisplay.from_search(ridge_search))
    table = ridge_search.cv_results_
    train, test = display.lines_
    np.testing.assert_array_equal(test.get_xdata(), ALPHAS)
    np.testing.assert_allclose(test.get_ydata(), table["mean_test_score"], rtol=1e-14)
    np.testing.assert_allclose(train.get_ydata(), table["mean_train_score"], rtol=1e-14)
    band = display.ax_.collections[-1].get_paths()[0].vertices[:, 1]
    highest = (table["mean_test_score"] + table["std_test_score"]).max()
    np.testing.assert_allclose(band.max(), highest, rtol=1e-12)
    assert display.ax_.get_xscale() == "log"
    assert display.figure_ is display.ax_.figure


def test_the_star_is_on_the_best_candidate(ridge_search):
    display = SearchDisplay.from_search(ridge_search)
    star = next(line for line in display.ax_.lines if line.get_label() == "best")
    assert star.get_xdata()[0] == ridge_search.best_params_["alpha"]
    np.testing.assert_allclose(star.get_ydata()[0], ridge_search.best_score_, rtol=1e-14)


def test_train_scores_can_be_left_out(ridge_search):
    assert len(SearchDisplay.from_search(ridge_search, train=False).lines_) == 1


@pytest.mark.parametrize("kind", ["scikit-learn", "gpuml_dask"])
def test_searches_of_other_packages_give_the_same_picture(rows, ridge_search, kind):
    made = {"scikit-learn": sk.GridSearchCV, "gpuml_dask": gpuml_dask.GridSearchCV}[kind]
    other = SearchDisplay.from_search(made(Ridge(), {"alpha": ALPHAS}).fit(*rows)).lines_[-1]
    ours = SearchDisplay.from_search(ridge_search).lines_[-1]
    np.testing.assert_allclose(other.get_xydata(), ours.get_xydata(), rtol=1e-9)


def test_names_have_places_and_no_line_between_them():
    params = [{"kernel": name} for name in ("rbf", "linear", "poly")]
    display = drawn(SearchDisplay.from_search(FakeSearch(params, [[0.1, 0.2], [0.5, 0.6], [0, 0]])))
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["rbf", "linear", "poly"]
    assert display.lines_[0].get_linestyle() == "None"


def test_of_candidates_at_one_value_the_best_is_shown():
    params = [{"a": a, "b": b} for a in (1, 2) for b in (1, 2)]
    scores = [[0.1, 0.1], [0.3, 0.3], [np.nan, 0.9], [0.2, 0.2]]
    display = SearchDisplay.from_search(FakeSearch(params, scores), params="a")
    np.testing.assert_allclose(display.lines_[0].get_ydata(), [0.3, 0.2])


def test_candidates_without_the_parameter_have_no_place():
    params = [{"a": 1.0}, {"a": 2.0}, {"b": 1.0}]
    display = drawn(SearchDisplay.from_search(FakeSearch(params, [[1], [2], [3]]), params="a"))
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), [1, 2])


def test_iterations_of_halving_are_lines_of_rising_strength(rows):
    search = HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, random_state=0).fit(*rows)
    display = drawn(SearchDisplay.from_search(search))
    assert [len(line.get_xdata()) for line in display.lines_] == search.n_candidates_
    strengths = [line.get_alpha() for line in display.lines_]
    assert strengths == sorted(set(strengths))
    for line, resource in zip(display.lines_, search.n_resources_, strict=True):
        assert f"resources: {resource}" in line.get_label()
    star = next(line for line in display.ax_.lines if line.get_label() == "best")
    assert star.get_xdata()[0] == search.best_params_["alpha"]


def test_models_of_hyperband_are_points(rows):
    X, y = rows
    draws = {"alpha": loguniform(1e-6, 1), "average": [True, False]}
    search = HyperbandSearchCV(SGDClassifier(), draws, max_iter=3, random_state=0).fit(X, y > 140)
    display = drawn(SearchDisplay.from_search(search))
    assert len(display.image_.get_offsets()) == len(search.cv_results_["params"])
    assert drawn(SearchDisplay.from_search(search, params="alpha")).lines_


# ---------------------------------------------------------------- two parameters


def test_cells_of_a_heat_map_hold_the_mean_scores(rows):
    grid = {"alpha": [1.0, 0.1, 10.0], "fit_intercept": [True, False]}
    search = GridSearchCV(Ridge(), grid).fit(*rows)
    display = drawn(SearchDisplay.from_search(search, params=["fit_intercept", "alpha"]))
    means = dict(
        zip(
            [(p["fit_intercept"], p["alpha"]) for p in search.cv_results_["params"]],
            search.cv_results_["mean_test_score"],
            strict=True,
        )
    )
    expected = [[means[(flag, alpha)] for alpha in (0.1, 1.0, 10.0)] for flag in (True, False)]
    np.testing.assert_allclose(display.image_.get_array(), expected, rtol=1e-14)
    assert display.text_[0].get_text() == f"{expected[0][0]:#.3g}"
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["0.1", "1", "10"]
    best = next(t for t in display.text_ if t.get_weight() == "bold")
    assert best.get_text() == f"{search.best_score_:#.3g}"


def test_cells_without_a_candidate_or_a_score_are_empty():
    params = [{"a": "p", "b": "x"}, {"a": "q", "b": "x"}, {"a": "p", "b": "y"}, {"a": "r"}]
    display = drawn(SearchDisplay.from_search(FakeSearch(params, [[1], [np.nan], [3], [4]])))
    table = np.ma.filled(display.image_.get_array(), np.nan)
    nan = np.nan
    np.testing.assert_array_equal(table, [[1, 3, nan], [nan, nan, nan], [nan, nan, 4]])
    assert len(display.text_) == 3
    assert display.ax_.get_xticklabels()[-1].get_text() == "not set"


@pytest.mark.parametrize(("annotate", "n"), [(None, 0), (True, 400), (False, 0)])
def test_numbers_are_written_up_to_a_size(annotate, n):
    params = [{"a": i, "b": j} for i in range(20) for j in range(20)]
    search = FakeSearch(params, np.arange(400.0)[:, None])
    assert len(SearchDisplay.from_search(search, annotate=annotate).text_) == n


def test_candidates_drawn_at_random_are_points_not_cells(rows):
    draws = {"alpha": loguniform(1e-3, 1e3), "tol": loguniform(1e-6, 1e-1)}
    search = RandomizedSearchCV(Ridge(), draws, n_iter=12, random_state=0).fit(*rows)
    display = drawn(SearchDisplay.from_search(search))
    np.testing.assert_allclose(
        np.sort(display.image_.get_array()), np.sort(search.cv_results_["mean_test_score"])
    )
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"


def test_of_halving_the_last_score_of_each_candidate_counts():
    params = [{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}]
    search = FakeSearch(
        [*params, params[0]],
        [[9.0], [2.0], [3.0], [4.0], [5.0]],
        iter=[0, 0, 0, 0, 1],
        n_resources=[10, 10, 10, 10, 30],
    )
    table = SearchDisplay.from_search(search).image_.get_array()
    np.testing.assert_array_equal(table, [[5, 3], [2, 4]])


# ---------------------------------------------------------------- more parameters


def test_every_scored_candidate_is_a_line_through_its_values():
    grid = sk.ParameterGrid({"a": [1, 2, 3], "b": ["x", "y"], "c": [True, False]})
    scores = np.arange(12.0)[:, None]
    scores[3] = np.nan
    display = drawn(SearchDisplay.from_search(FakeSearch(list(grid), scores)))
    lines = display.image_.get_segments()
    assert len(lines) == 11
    assert all(line.shape == (4, 2) for line in lines)
    np.testing.assert_allclose(lines[-1][-1], [3, 1])  # the best, on top, at the top of its axis
    np.testing.assert_array_equal(np.sort(display.image_.get_array()), np.delete(np.arange(12), 3))


def test_lines_of_other_grids_pass_below_the_axis():
    params = [{"k": "rbf", "g": 0.1, "C": 1}, {"k": "rbf", "g": 1.0, "C": 2}, {"k": "lin", "C": 1}]
    display = drawn(SearchDisplay.from_search(FakeSearch(params, [[1], [2], [3]])))
    heights = np.array([line[1][1] for line in display.image_.get_segments()])
    assert display.ax_.get_xticklabels()[1].get_text() == "g"
    np.testing.assert_allclose(heights[:2], [0, 1])
    assert heights[2] < -0.05
    assert "not set" in [text.get_text() for text in display.text_]


def overlapping(figure):
    """Texts of a drawn figure that lie on each other; turned ones by their distance in a row."""
    figure.canvas.draw()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    boxes = [
        (text.get_text(), text.get_window_extent()) for text in texts if not text.get_rotation()
    ]
    found = [
        (one, other)
        for (one, first), (other, second) in itertools.combinations(boxes, 2)
        if first.shrunk(0.95, 0.8).overlaps(second.shrunk(0.95, 0.8))
    ]
    turned = [text for text in texts if text.get_rotation() == 45]
    places = sorted(text.get_transform().transform(text.get_position())[0] for text in turned)
    height = max((text.get_size() for text in turned), default=0) * figure.dpi / 72
    close = [gap for gap in np.diff(places) if gap / 2**0.5 < 0.95 * height]
    return found, close


LONG_NAMES = {
    "elasticnet__fit_intercept": [True, False],
    "elasticnet__max_iter": list(range(100, 2000, 90)),
    "columntransformer__preprocessor": ["StandardScaler()", "QuantileTransformer()", "passthrough"],
    "elasticnet__l1_ratio": [0.1, 0.12, 0.5, 0.9],
}


@pytest.mark.parametrize("names", [(0, 1), (1, 1), (2, 3), (0, 2, 3), (0, 1, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("size", [None, (4.5, 3.2), (10.0, 4.0)], ids=str)
def test_labels_are_not_written_on_each_other(names, size):
    chosen = {
        f"{name}{i}": LONG_NAMES[name] for i, name in enumerate(list(LONG_NAMES)[n] for n in names)
    }
    params = list(sk.ParameterGrid(chosen))
    search = FakeSearch(params, np.arange(float(len(params)))[:, None])
    ax = None if size is None else plt.subplots(figsize=size, layout="constrained")[1]
    display = SearchDisplay.from_search(search, ax=ax, annotate=False)
    assert overlapping(display.figure_) == ([], [])


# ---------------------------------------------------------------- odd tables


@pytest.mark.parametrize("n_params", [1, 2, 3])
@pytest.mark.parametrize("n_candidates", [1, 8])
def test_tables_without_a_score_are_drawn_and_say_so(n_params, n_candidates):
    grid = list(sk.ParameterGrid({name: [1, 2] for name in "abc"[:n_params]}))[:n_candidates]
    search = FakeSearch(grid, np.full((len(grid), 2), np.nan))
    display = drawn(SearchDisplay.from_search(search, params=list("abc"[:n_params])))
    assert "every score is nan" in [text.get_text() for text in display.ax_.texts]


@pytest.mark.parametrize("n_others", [0, 1, 2])
def test_values_of_every_kind_can_be_drawn(n_others):
    odd = ["$x", "a_$b$^", np.array([1, 2]), np.nan, None, len, PCA(3), {"k": [1]}, [1], "x" * 99]
    others = {name: i % 3 for i, name in enumerate("yz"[:n_others])}
    params = [{"odd": value, **{k: v + i % 2 for k, v in others.items()}} for i, value in
              enumerate(odd)]  # fmt: skip
    drawn(SearchDisplay.from_search(FakeSearch(params, np.arange(10.0)[:, None])))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3], "linear"),
        ([0.1, 1, 10], "log"),
        (np.logspace(-3, 3, 50), "log"),
        ([1, 5, 10], "linear"),
        (np.linspace(0.001, 1, 50), "linear"),
        ([0, 0.01, 0.1, 1, 10], "symlog"),
        ([-10, 0.1, 1000], "linear"),
        ([0.0, 0.0], "linear"),
        ([1, 2, None], "names"),
        ([True, False], "names"),
        ([1, MISSING, 2], "linear"),
        ([1, np.inf], "names"),
        ([10**400, 1], "names"),
    ],
)
def test_the_axis_suits_the_values(values, kind):
    assert axis_of(list(values)).kind == kind


def test_uniform_draws_are_on_a_linear_axis_and_log_uniform_ones_on_a_log_axis(rng):
    draws = rng.uniform(size=(20, 200))
    assert {axis_of(list(each)).kind for each in draws} == {"linear"}
    assert {axis_of(list(10 ** (6 * each))).kind for each in draws} == {"log"}


def test_labels_tell_numbers_from_text():
    assert [label_of(v) for v in (0.1, 1e-9, True, None, "a$b", len)] == [
        *("0.1", "1e-09", "True", "None", r"a\$b", "len"),
    ]
    assert len(label_of("x" * 99)) < 30


def test_the_best_at_each_place(rng):
    places, scores = rng.integers(0, 5, 100).astype(float), rng.normal(size=100)
    scores[rng.random(100) < 0.3] = np.nan
    chosen = best_at(places, scores)
    np.testing.assert_array_equal(places[chosen], np.arange(5))
    for place, index in enumerate(chosen):
        assert scores[index] == np.nanmax(scores[places == place])


# ---------------------------------------------------------------- the door


def test_what_is_not_fitted_or_no_search_is_refused():
    with pytest.raises(NotFittedError, match="not fitted"):
        SearchDisplay.from_search(GridSearchCV(Ridge(), {"alpha": [1]}))
    with pytest.raises(TypeError, match="got int"):
        SearchDisplay.from_search(3)


def test_of_several_metrics_one_must_be_chosen(rows):
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, scoring=["r2", "neg_max_error"], refit=False)
    search.fit(*rows)
    with pytest.raises(ValueError, match="metric=: 'r2', 'neg_max_error'"):
        SearchDisplay.from_search(search)
    with pytest.raises(ValueError, match=r"no metric 'mse'; it has 'r2'"):
        SearchDisplay.from_search(search, metric="mse")
    line = SearchDisplay.from_search(search, metric="neg_max_error").lines_[0]
    np.testing.assert_allclose(line.get_ydata(), search.cv_results_["mean_test_neg_max_error"])


@pytest.mark.parametrize("params", ["beta", ["alpha", "beta"], [], ["alpha", "alpha"]])
def test_unknown_parameters_are_refused(ridge_search, params):
    with pytest.raises(ValueError, match="has 'alpha'"):
        SearchDisplay.from_search(ridge_search, params=params)


def test_a_search_without_parameters_has_no_picture(rows):
    search = GridSearchCV(Ridge(), {}).fit(*rows)
    with pytest.raises(ValueError, match="no parameters to draw"):
        SearchDisplay.from_search(search)


def test_columns_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match=r"lengths are \[1, 2\]"):
        SearchDisplay(values={"a": [1, 2]}, test_scores=[[1.0]]).plot()


def test_without_matplotlib_the_error_says_what_to_type(monkeypatch, ridge_search):
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        SearchDisplay.from_search(ridge_search)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        ScreeDisplay(explained_variance_ratio=[1.0]).plot()


def test_axes_of_the_user_are_drawn_on(ridge_search):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert SearchDisplay.from_search(ridge_search, ax=ax).ax_ is ax


# ---------------------------------------------------------------- scikit-learn's displays

CURVES = {
    "RocCurveDisplay": ("fpr", "tpr", "roc_auc"),
    "PrecisionRecallDisplay": ("precision", "recall", "average_precision"),
    "DetCurveDisplay": ("fpr", "fnr"),
    "ConfusionMatrixDisplay": ("confusion_matrix",),
}


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(120, 40))
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(float)
    return X, y, rng.random(120)


def assert_same_display(ours, theirs, names):
    assert isinstance(ours, type(theirs))
    for name in names:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    texts = [
        [text.get_text() for text in (d.ax_.xaxis.label, d.ax_.yaxis.label, *d.ax_.texts)]
        + [t.get_text() for legend in [d.ax_.get_legend()] if legend for t in legend.get_texts()]
        for d in (ours, theirs)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("kind", [LogisticRegression, HostLogisticRegression])
def test_on_numpy_displays_are_those_of_scikit_learn(problem, name, kind):
    X, y, weight = problem
    model = kind().fit(X, y)
    ours, theirs = (
        getattr(package, name).from_estimator(model, X, y, sample_weight=weight)
        for package in (inspection, skm)
    )
    assert_same_display(ours, theirs, CURVES[name])


@pytest.mark.each
@pytest.mark.parametrize("name", CURVES)
def test_of_device_data_only_answers_come_to_the_host(problem, name, library):
    X, y, weight = problem
    there = [library.asarray(each) for each in problem]
    model = LogisticRegression().fit(*there[:2])
    with count_transfers() as moved:
        ours = getattr(inspection, name).from_estimator(model, *there[:2], sample_weight=there[2])
    assert moved.to_host < X.nbytes / 4
    answers = model.predict_proba(there[0])[:, 1]
    if name == "ConfusionMatrixDisplay":
        answers = model.predict(there[0])
    theirs = getattr(skm, name).from_predictions(y, library.to_numpy(answers), sample_weight=weight)
    for attribute in CURVES[name]:
        np.testing.assert_array_equal(getattr(ours, attribute), getattr(theirs, attribute))
    again = getattr(inspection, name).from_predictions(there[1], answers, sample_weight=there[2])
    for attribute in CURVES[name]:
        np.testing.assert_array_equal(getattr(again, attribute), getattr(theirs, attribute))


def test_curves_of_folds_are_drawn_wherever_rows_are(problem, library):
    X, y, _ = problem
    there = library.asarray(X), library.asarray(y)
    model, asked = LogisticRegression(C=0.01), {"return_estimator": True, "return_indices": True}
    folds = cross_validate(model, *there, cv=2, **asked)
    on_host = cross_validate(model, X, y, cv=2, **asked)
    for name in ("RocCurveDisplay", "PrecisionRecallDisplay"):
        with count_transfers() as moved:
            ours = getattr(inspection, name).from_cv_results(folds, *there)
        assert moved.to_host < X.nbytes / 4
        theirs = getattr(skm, name).from_cv_results(on_host, X, y)
        score = CURVES[name][-1]
        np.testing.assert_allclose(getattr(ours, score), getattr(theirs, score), rtol=1e-3)


def test_errors_of_predictions_are_drawn_wherever_they_are(rng, library):
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=60)
    there = library.asarray(X), library.asarray(y)
    model = Ridge().fit(*there)
    ours = inspection.PredictionErrorDisplay.from_estimator(model, *there, random_state=0)
    np.testing.assert_array_equal(ours.y_true, y)
    np.testing.assert_array_equal(ours.y_pred, library.to_numpy(model.predict(there[0])))


def test_a_search_and_its_labels_as_a_model(problem, library):
    X, y, _ = problem
    there = library.asarray(X), library.asarray(y)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}).fit(*there)
    display = inspection.RocCurveDisplay.from_estimator(search, *there)
    assert display.pos_label == 1
    assert "GridSearchCV" in display.ax_.get_legend().get_texts()[0].get_text()


def test_errors_are_those_of_scikit_learn(problem):
    X, y, _ = problem
    with pytest.raises(NotFittedError, match="LogisticRegression instance is not fitted"):
        inspection.RocCurveDisplay.from_estimator(LogisticRegression(), X, y)
    with pytest.raises(ValueError, match="Got Ridge instead"):
        inspection.RocCurveDisplay.from_estimator(Ridge().fit(X, y), X, y)
    with pytest.raises(ValueError, match="only supports classifiers"):
        inspection.ConfusionMatrixDisplay.from_estimator(Ridge().fit(X, y), X, y)
    model = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="not a valid label"):
        inspection.RocCurveDisplay.from_estimator(model, X, y, pos_label=7)


# ---------------------------------------------------------------- components


@pytest.mark.parametrize("kind", [PCA, HostPCA])
def test_a_scree_shows_the_shares_and_their_sum(rows, kind):
    pca = kind(5).fit(rows[0])
    display = drawn(ScreeDisplay.from_estimator(pca))
    heights = [bar.get_height() for bar in display.bars_]
    np.testing.assert_allclose(heights, pca.explained_variance_ratio_, rtol=1e-14)
    np.testing.assert_allclose(
        display.line_.get_ydata(), np.cumsum(pca.explained_variance_ratio_), rtol=1e-14
    )
    assert display.ax_.get_legend().get_title().get_text() == "PCA"
    assert ScreeDisplay.from_estimator(pca, cumulative=False).line_ is None


def test_a_scree_of_components_on_a_device(rng, library):
    X = rng.normal(size=(50, 6))
    pca = PCA().fit(library.asarray(X))
    heights = [bar.get_height() for bar in ScreeDisplay.from_estimator(pca).bars_]
    np.testing.assert_allclose(heights, HostPCA().fit(X).explained_variance_ratio_, rtol=1e-6)


def test_models_without_components_have_no_scree(rows):
    with pytest.raises(NotFittedError):
        ScreeDisplay.from_estimator(PCA())
    with pytest.raises(TypeError, match="KMeans has no explained_variance_ratio_"):
        ScreeDisplay.from_estimator(KMeans(2, n_init=1).fit(rows[0]))


# ---------------------------------------------------------------- the page


@pytest.mark.exhaustive
def test_the_blocks_of_the_page_run(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[1] / "docs" / "pictures.md").read_text()
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "pictures.md", "exec"), names)
    assert (tmp_path / "alpha.png").stat().st_size > 0
    # What the page says is printed.
    assert f"\n    {capsys.readouterr().out.strip()}\n" in page


# ------------------------------------------------------- curves of several fits


@pytest.mark.parametrize("style", ["errorbar", "fill_between", None])
def test_curves_are_those_of_scikit_learn(style, rows):
    options = {"cv": 3, "scoring": "neg_mean_squared_error", "negate_score": True}
    options["std_display_style"] = style
    for name, more in (
        ("LearningCurveDisplay", {"train_sizes": [0.3, 1.0], "score_type": "both"}),
        ("ValidationCurveDisplay", {"param_name": "alpha", "param_range": ALPHAS}),
    ):
        ours = getattr(model_selection, name).from_estimator(Ridge(), *rows, **options, **more)
        theirs = getattr(sk, name).from_estimator(HostRidge(), *rows, **options, **more)
        np.testing.assert_allclose(ours.test_scores, theirs.test_scores, rtol=1e-8)
        assert ours.ax_.get_ylabel() == theirs.ax_.get_ylabel()
        assert ours.ax_.get_xscale() == theirs.ax_.get_xscale()
        assert isinstance(ours, getattr(sk, name))
        with pytest.raises(TypeError, match="unexpected keyword"):
            getattr(model_selection, name).from_estimator(Ridge(), *rows, widths=3, **more)


def test_bands_are_over_the_curves_of_folds(classes_and_folds):
    X, y, folds = classes_and_folds
    display = drawn(inspection.RocBandDisplay.from_cv_results(folds, X, y, name="l", folds=True))
    expected = [
        skm.roc_auc_score(y[test], model.decision_function(X[test]))
        for model, test in zip(folds["estimator"], folds["indices"]["test"], strict=True)
    ]
    np.testing.assert_allclose(display.areas, expected)
    np.testing.assert_allclose(display.line_.get_ydata(), display.curves.mean(axis=0))
    assert len(display.fold_lines_) == 5
    spread = f"{np.mean(expected):.2f} ± {np.std(expected):.2f}"
    assert display.line_.get_label() == f"l: mean (AUC = {spread})"
    # The area under what is drawn is near that under the steps.
    np.testing.assert_allclose(
        np.trapezoid(display.curves, display.grid, axis=1), expected, atol=0.01
    )
    assert (np.diff(display.curves, axis=1) >= 0).all()
    precision = drawn(inspection.PrecisionRecallBandDisplay.from_cv_results(folds, X, y))
    expected = [
        skm.average_precision_score(y[test], model.decision_function(X[test]))
        for model, test in zip(folds["estimator"], folds["indices"]["test"], strict=True)
    ]
    np.testing.assert_allclose(precision.areas, expected)
    shares = [(y[test]).mean() for test in folds["indices"]["test"]]
    assert (precision.curves[:, -1] >= shares).all()
    np.testing.assert_allclose(precision.curves.mean(axis=1), expected, atol=0.02)


@pytest.fixture(scope="module")
def classes_and_folds():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :4] / X[:, :4].max(axis=0)
    options = {"return_estimator": True, "return_indices": True}
    return X, y, cross_validate(LogisticRegression(), X, y, **options)


def test_calibration_of_held_out_rows(classes_and_folds):
    X, y, _ = classes_and_folds
    said = cross_val_predict(LogisticRegression(), X, y, method="predict_proba")[:, 1]
    display = drawn(inspection.CalibrationDisplay.from_predictions(y, said, n_bins=4))
    expected = calibration_curve(y, said, n_bins=4)
    np.testing.assert_allclose((display.prob_true, display.prob_pred), expected)
