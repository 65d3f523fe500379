"""Fitted searches in notebooks: what is shown, and what never goes wrong."""

import base64
import io
import re
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from distributed import Client
from sklearn import model_selection as sk
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes
from sklearn.linear_model import SGDRegressor

import gpuml_dask
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV, HalvingGridSearchCV, HyperbandSearchCV, _html
from gpuml.testing import count_transfers

ALPHAS = [0.01, 0.1, 1.0, 10.0]


@pytest.fixture(scope="module")
def rows():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def search(rows):
    return GridSearchCV(Ridge(), {"alpha": ALPHAS}, scoring="r2").fit(*rows)


class Anything(BaseEstimator):
    """A model whose parameter may be anything."""

    def __init__(self, value=None):
        self.value = value

    def fit(self, X, y):
        return self

    def score(self, X, y):
        return 0.5


def html_of(search):
    return search._repr_mimebundle_()["text/html"]


def picture_of(html):
    kind, data = re.search(r"<img src='data:image/([\w+]+);base64,([^']*)'", html).groups()
    return kind, base64.b64decode(data)


def test_a_fitted_search_shows_what_it_found_and_did(search):
    html = html_of(search)
    assert f"{search.best_score_:.4g}" in html
    assert "(r2)" in html
    assert f"<th>alpha</th><td>{search.best_params_['alpha']:.6g}</td>" in html
    assert "20 fits in 1 pass on numpy:cpu" in html
    assert "no copies between CPU and GPU" in html
    assert "ms in all" in html
    kind, data = picture_of(html)
    assert kind == "svg+xml"
    assert data.startswith(b"<?xml")


def test_scikit_learn_s_diagram_is_below(search):
    diagram = sklearn.utils.estimator_html_repr(search)
    assert "sk-container" in html_of(search)
    without_ids = [re.sub(r"(sk-container-id|sk-estimator-id)-\d+", r"\1", text) for text in
                   (diagram, html_of(search))]  # fmt: skip
    assert without_ids[1].endswith(without_ids[0][-2000:])


def test_the_display_setting_of_scikit_learn_holds(search):
    assert "gpuml-search" in search._repr_html_()
    with sklearn.config_context(display="text"):
        assert set(search._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(search, "_repr_html_")


def test_what_is_not_fitted_is_scikit_learn_s_diagram():
    html = html_of(GridSearchCV(Ridge(), {"alpha": ALPHAS}))
    assert "gpuml-search" not in html
    assert "sk-container" in html


def test_text_is_scikit_learn_s(search):
    theirs = sk.GridSearchCV(Ridge(), {"alpha": ALPHAS}, scoring="r2")
    assert search._repr_mimebundle_()["text/plain"] == repr(search) == repr(theirs)


@pytest.mark.parametrize("shows", [True, False])
def test_terminals_of_ipython_draw_nothing(monkeypatch, search, shows):
    types = ["text/plain", "text/html"] if shows else ["text/plain"]
    shell = SimpleNamespace(display_formatter=SimpleNamespace(active_types=types))
    # matplotlib asks a loaded IPython for its version, when it is imported after that.
    ipython = SimpleNamespace(get_ipython=lambda: shell, version_info=(9, 0))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert ("gpuml-search" in html_of(search)) is shows


def test_values_are_text_and_no_markup(rows):
    bad = "<script>alert('x')</script>"
    search = GridSearchCV(Anything(), {"value": [bad, bad + "'\"&"]}, cv=2).fit(*rows)
    own = html_of(search).split("sk-container")[0]
    assert "<script" not in own
    assert "&lt;script&gt;" in own
    assert b"<script" not in picture_of(own)[1]


@pytest.mark.parametrize(
    "values",
    [
        ["$", "$x$", "\\frac"],
        [np.nan, None],
        [np.arange(5), "a"],
        [len, str],
        [object(), 3],
        [[], {}],
    ],
)
def test_odd_values_never_raise(rows, values):
    search = GridSearchCV(Anything(), {"value": values}, cv=2).fit(*rows)
    assert "<img" in html_of(search)


def test_a_search_that_cannot_be_described_is_the_diagram(search, monkeypatch):
    def fail(search):
        raise RuntimeError("no")

    monkeypatch.setattr(_html, "_table", fail)
    assert "gpuml-search" not in html_of(search)
    assert "sk-container" in html_of(search)


def test_without_matplotlib_there_is_no_picture(monkeypatch, search):
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    html = html_of(search)
    assert "20 fits in 1 pass" in html
    assert "<img" not in html


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"refit": "r2"}, ["(r2)", "<img"]),
        ({"refit": False}, ["20 fits in 1 pass"]),
        ({"refit": lambda table: 2}, ["<th>alpha</th><td>1</td>"]),
    ],
)
def test_several_metrics(rows, options, shown):
    scoring = ["r2", "neg_max_error"]
    html = html_of(GridSearchCV(Ridge(), {"alpha": ALPHAS}, scoring=scoring, **options).fit(*rows))
    for text in shown:
        assert text in html


def test_adaptive_searches(rows):
    halving = HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, random_state=0).fit(*rows)
    assert "<img" in html_of(halving)
    grid = {"alpha": np.logspace(-6, -1, 20)}
    hyperband = HyperbandSearchCV(SGDRegressor(), grid, max_iter=3, random_state=0).fit(*rows)
    html = html_of(hyperband)
    assert "<img" in html
    assert f"{hyperband.best_score_:.4g}" in html


def test_one_candidate_has_no_picture(rows):
    html = html_of(GridSearchCV(Ridge(), {"alpha": [1.0]}).fit(*rows))
    assert "best score" in html
    assert "<img" not in html


def test_many_candidates_are_an_image_of_dots(rows):
    search = GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 500)}).fit(*rows)
    assert picture_of(html_of(search))[0] == "png"


def test_no_figure_stays_open(search):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    html_of(search)
    assert pyplot.get_fignums() == before


@pytest.mark.exhaustive
def test_a_picture_takes_little_time(search):
    """Not more than a few figures of one line, drawn in turn with it."""
    from matplotlib.figure import Figure

    def line(search):
        figure = Figure()
        figure.subplots().plot([0, 1])
        figure.savefig(io.BytesIO(), format="svg")

    def seconds(draw):
        start = time.process_time()
        draw(search)
        return time.process_time() - start

    html_of(search)  # what has to be imported is
    ours, plain = zip(*((seconds(html_of), seconds(line)) for _ in range(5)), strict=True)
    assert min(ours) < 12 * min(plain)


# ---------------------------------------------------------------- what it cost


def test_the_plan_says_what_was_moved(rows, library):
    X, y = (library.asarray(each) for each in rows)
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS})
    search.fit(X, y)
    with count_transfers() as moved:
        search.fit(X, y)
    assert search.plan_.seconds > search.refit_time_
    if not library.needs_gpu:  # where copies that others make are counted as well
        assert search.plan_.bytes_to_host == moved.to_host
        assert search.plan_.bytes_to_device == moved.to_device
    there = library.needs_gpu or library.name == "array_api_strict"
    assert (search.plan_.bytes_to_host > 0) == there


def test_plans_are_equal_whatever_they_cost(rows):
    first, second = (GridSearchCV(Ridge(), {"alpha": ALPHAS}).fit(*rows).plan_ for _ in range(2))
    assert first == second
    assert first.seconds != second.seconds


def test_of_a_cluster_nobody_knows_here_what_was_moved(rows):
    with Client(processes=False, dashboard_address=":0", n_workers=1) as client:
        search = gpuml_dask.GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client).fit(*rows)
    assert search.plan_.bytes_to_host is None
    html = html_of(search)
    assert "on 1 worker" in html
    assert "moved" not in html.split("sk-container")[0]
    assert "<img" in html
