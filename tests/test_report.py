"""The report of an accelerated program: what ran where, and an estimate of what that saved."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
from sklearn.datasets import make_regression
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

import gpuml
from gpuml._accelerate.report import Report
from gpuml._settings.observers import batch_observers, plan_observers
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.model_selection.jobs import Job
from gpuml.model_selection.timed import tell_of_batch
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.protocol import Group
from gpuml.resampling.split import split_rows

X, y = make_regression(60, 3, random_state=0)
ALONE = sklearn.linear_model.Ridge()  # whose fits are one by one


def searched(model, X=X, y=y):
    return GridSearchCV(model, {"alpha": [0.1, 1.0, 10.0]}, cv=5).fit(X, y)


@pytest.fixture
def report():
    report = Report().begin()
    yield report
    report.end()


def test_it_watches_until_its_end(capsys):
    before = list(plan_observers), list(batch_observers)
    report = Report().begin()
    searched(Ridge())
    report.end()
    searched(Ridge())
    assert (list(plan_observers), list(batch_observers)) == before
    first, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("gpuml: 1 search, 15 fits in ")


def test_it_says_what_was_saved(report):
    searched(Ridge())
    passes, seconds = report.lines()[2:]
    assert passes == "  saved at least 14 passes over the rows: each single fit needs one"
    assert seconds.startswith(("  saved about ", "  lost about "))
    assert "an estimate" in seconds


def test_fits_one_by_one_save_nothing(report):
    searched(ALONE)
    assert not [line for line in report.lines() if "saved" in line or "estimate" in line]


# ---------------------------------------------------------------- estimated seconds


class OneFit:
    """An evaluator whose single fits take given seconds, one after the other."""

    def __init__(self, *seconds, n_jobs=None, **result):
        splits = split_rows(KFold(5), X, y, len(X))
        self.job = Job(Ridge(), X, y, splits, None, n_jobs)
        self.seconds, self.result, self.fits = list(seconds), result, []

    def fit_split(self, split, params):
        self.fits.append((split, *params))
        print("a line of an estimator")
        warnings.warn("did not converge", stacklevel=1)
        check_random_state(None).normal()  # as of a fit with random_state=None
        return [{"fit_time": self.seconds.pop(0), "score_time": 0.25, **self.result}]


GROUP = Group({"tol": 0.1}, [{"alpha": 0.1}, {"alpha": 1.0}, {"alpha": 10.0}], [0, 1, 2])


@pytest.mark.parametrize(
    ("single", "n_jobs", "words"),
    [
        (1.75, 1, "saved about 29 s: batched fits took 1 s, one at a time they take about 30 s"),
        (1.75, 3, "saved about 9 s: batched fits took 1 s, one at a time they take about 10 s"),
        (1.75, 99, "saved about 1 s: batched fits took 1 s, one at a time they take about 2 s"),
        (-0.2, 1, "lost about 0.25 s: batched fits took 1 s, one at a time they take about 0.75 s"),
    ],
)
def test_seconds_are_those_of_one_fit_times_the_number_of_fits(report, single, n_jobs, words):
    tell_of_batch(OneFit(single, single, n_jobs=n_jobs), GROUP, (), 1.0)
    report.add_plan(searched(ALONE).plan_)
    (line,) = (line for line in report.lines() if "estimate" in line)
    assert line.startswith(f"  {words} (an estimate: one fit of each batch was timed alone, in ")


def test_the_middle_candidate_is_fitted_on_a_split_that_was_not_left_out(report):
    evaluator = OneFit(1.0)
    tell_of_batch(evaluator, GROUP, {0, 2}, 1.0)
    assert evaluator.fits == [(1, {"alpha": 1.0, "tol": 0.1})]
    assert report.alone == 1.25 * 3 * 3


def test_short_fits_are_timed_twice(report):
    tell_of_batch(OneFit(-0.2, -0.22), GROUP, (), 1.0)
    assert report.alone == pytest.approx(0.03 * 15)


@pytest.mark.filterwarnings("error")
def test_the_program_does_not_see_the_extra_fit(report, capsys):
    shared = check_random_state(None)
    state = shared.get_state()
    expected = shared.normal(size=3)
    shared.set_state(state)
    tell_of_batch(OneFit(1.0), GROUP, (), 1.0)
    assert capsys.readouterr() == ("", "")
    np.testing.assert_array_equal(shared.normal(size=3), expected)


def test_no_estimate_for_a_fit_that_fails_alone(report):
    tell_of_batch(OneFit(1.0, fit_error="it is singular"), GROUP, (), 1.0)
    assert (report.together, report.alone) == (0, 0)


def test_no_estimate_for_rows_in_files(report, tmp_path):
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    table.to_parquet(tmp_path / "rows.parquet")
    searched(Ridge(), gpuml.read_parquet(tmp_path / "rows.parquet"), "y")
    assert report.alone == 0
    assert len(report.plans) == 1


@pytest.mark.parametrize("y", [y, y > 0], ids=["numbers", "classes"])
def test_a_batch_has_the_seconds_of_its_fits_and_scores(report, y):
    model, name = (Ridge(), "ridge__alpha"), (LogisticRegression(), "logisticregression__C")
    model, name = model if y.dtype != bool else name
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {name: [1.0, 2.0]}).fit(X, y)
    table = search.cv_results_
    seconds = 5 * (table["mean_fit_time"] + table["mean_score_time"]).sum()
    assert report.together == pytest.approx(seconds)
    assert report.alone > 0
    assert report.timing < search.plan_.seconds
