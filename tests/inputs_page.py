"""Writes the tables of `docs/inputs.md`.

`python -m tests.inputs_page`, from the root of the repository, runs the kinds of input whose
libraries are here, replaces their outcomes in `tests/inputs_outcomes.json`, and writes the tables
from that file. On a machine with a GPU it runs the kinds that need one too.
"""

from collections import Counter

from tests.inputs_kinds import KINDS, OUTPUTS, REFUSED, ROWS, TARGETS
from tests.inputs_table import PAGE, run_all, stored

START = "<!-- {} table: written by tests/inputs_page.py -->\n"
END = "<!-- end of table -->\n"
NOT_RUN = "not run on a GPU yet"
GROUPS = {
    "linear models of numbers": (
        *("ElasticNet", "ElasticNetCV", "Lasso", "LassoCV", "LinearRegression", "Ridge", "RidgeCV"),
        *("GridSearchCV", "Pipeline"),
    ),
    "classifiers": ("LogisticRegression", "LogisticRegressionCV", "RidgeClassifier"),
    "decompositions": ("PCA", "IncrementalPCA", "TruncatedSVD"),
    "preprocessing": None,  # all others
}


def write_page() -> None:
    """Put the tables of this moment into the page."""
    PAGE.write_text(page(PAGE.read_text()))


def page(text: str) -> str:
    """The page with the tables that follow from the outcomes."""
    found = stored()
    tables = {
        "rows": _grouped(ROWS, found["rows"]),
        "refused": _grouped(REFUSED, found["rows"]),
        "targets": _plain(TARGETS, found["targets"]),
        "outputs": _plain(OUTPUTS, found["outputs"]),
        "gpu": f"Rows of a GPU: {found['gpu'] or NOT_RUN}.\n",
    }
    for name, table in tables.items():
        start = START.format(name)
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(END)
        text = before + start + table + END + after
    return text


def _grouped(kinds, found):
    """A row for a kind, a column for a group of estimators."""
    return _table(
        ["input", *GROUPS],
        [[kind.name, *_cells(found.get(kind.name))] for kind in kinds],
    )


def _cells(outcomes):
    if outcomes is None:
        return [NOT_RUN] + [""] * (len(GROUPS) - 1)
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


def _plain(kinds, found):
    """A row for a kind, a column for each outcome; GPU kinds may have columns of their own."""
    columns = list(dict.fromkeys(c for kind in kinds for c in (found.get(kind.name) or {})))
    rows = []
    for kind in kinds:
        outcomes = found.get(kind.name)
        empty = {columns[0]: NOT_RUN}
        rows.append([kind.name, *[(outcomes or empty).get(c, "") for c in columns]])
    return _table(["input", *columns], rows)


def _table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    run_all(KINDS)
    write_page()
