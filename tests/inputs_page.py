"""Writes the tables of `docs/inputs.md`.

`python -m tests.inputs_page`, from the root of the repository, writes what every kind of input has to
give. `tests/test_inputs.py` runs them and compares.
"""

from collections import Counter

from tests.inputs_kinds import OUTPUTS, REFUSED, ROWS, TARGETS
from tests.inputs_table import (
    PAGE,
    expected_of_output,
    expected_of_rows,
    expected_of_target,
    outputs,
    places,
)

START = "<!-- {} table: written by tests/inputs_page.py -->\n"
END = "<!-- end of table -->\n"
GROUPS = {
    "linear models of numbers": (
        *("BayesianRidge", "ElasticNet", "ElasticNetCV", "Lasso", "LassoCV", "LinearRegression"),
        *("CCA", "PLSCanonical", "PLSRegression", "Ridge", "RidgeCV"),
        *("BandedRidge", "BandedRidgeCV"),
        *("GridSearchCV", "Pipeline"),
        *("GammaRegressor", "HuberRegressor", "PoissonRegressor", "QuantileRegressor"),
        *("ARDRegression", "Lars", "LarsCV", "LassoLars", "LassoLarsCV", "LassoLarsIC"),
        *("MultiTaskElasticNet", "MultiTaskElasticNetCV", "MultiTaskLasso", "MultiTaskLassoCV"),
        *("OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV"),
        *("LinearSVR", "TweedieRegressor"),
    ),
    "classifiers": (
        *("LinearDiscriminantAnalysis", "LinearSVC", "LogisticRegression", "LogisticRegressionCV"),
        *("QuadraticDiscriminantAnalysis", "RidgeClassifier", "RidgeClassifierCV"),
        "GaussianProcessClassifier",
    ),
    "covariances": ("EmpiricalCovariance", "LedoitWolf", "OAS", "ShrunkCovariance"),
    "decompositions": ("PCA", "FactorAnalysis", "IncrementalPCA", "PLSSVD", "TruncatedSVD"),
    "preprocessing": None,  # all others
}


def write_page() -> None:
    """Put the tables of this moment into the page."""
    PAGE.write_text(page(PAGE.read_text()))


def page(text: str) -> str:
    """The page with the tables that follow from the rules."""
    tables = {
        "rows": _grouped(ROWS),
        "refused": _grouped(REFUSED),
        "targets": _plain(TARGETS, places, expected_of_target),
        "outputs": _plain(OUTPUTS, outputs, expected_of_output),
    }
    for name, table in tables.items():
        start = START.format(name)
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(END)
        text = before + start + table + END + after
    return text


def _grouped(kinds):
    """A row for a kind, a column for a group of estimators."""
    return _table(
        ["input", *GROUPS],
        [[kind.name, *_cells(expected_of_rows(kind))] for kind in kinds],
    )


def _cells(outcomes):
    named = {name for names in GROUPS.values() if names for name in names}
    return [
        _summary({n: o for n, o in outcomes.items() if n in (names or outcomes.keys() - named)})
        for names in GROUPS.values()
    ]


def _summary(outcomes):
    """The outcome of most estimators, and who has another."""
    (usual, _), *others = Counter(outcomes.values()).most_common()
    words = [
        f"{', '.join(f'`{n}`' for n, o in outcomes.items() if o == other)}: {other}"
        for other, _ in others
    ]
    return "; ".join([usual, *words])


def _plain(kinds, columns_of, expected):
    """A row for a kind, a column for each outcome; GPU kinds may have columns of their own."""
    columns = list(dict.fromkeys(c for kind in kinds for c in columns_of(kind)))
    rows = [
        [kind.name, *[expected(kind, c) if c in columns_of(kind) else "" for c in columns]]
        for kind in kinds
    ]
    return _table(["input", *columns], rows)


def _table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    write_page()
