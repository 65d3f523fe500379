"""Writes the table of docs/adapters.md from the rows: `python -m tests.adapters.page`."""

from pathlib import Path

from sklearn.base import is_classifier, is_regressor

from gpuml.adapters import all_rows
from gpuml.adapters._intelex_rows import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
INTELEX = "<!-- intelex: begin -->", "<!-- intelex: end -->"
HEAD = "| class | cuML's | on the GPU | on the CPU, with a warning | what else differs |"


def table():
    """The table, a line for each class."""
    lines = [HEAD, "| --- | --- | --- | --- | --- |"]
    lines += [_line(path, row) for path, row in all_rows().items()]
    return "\n".join(lines)


def intelex_table():
    """The table of scikit-learn-intelex's classes."""
    lines = [
        "| class | methods | on request only | refused here, besides what oneDAL refuses | what differs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for path, row in all_rows().items():
        if row.sk in ROWS:
            own = ROWS[row.sk]
            cells = [f"`{path.removeprefix('gpuml.')}`", _methods(own), "yes" if own.asked else ""]
            lines.append(_joined([*cells, _refused(own), _notes(own)]))
    return "\n".join(lines)


def _line(path, row):
    cells = [f"`{path.removeprefix('gpuml.')}`"]
    if row.cuml is None:
        return _joined([*cells, "none", "nothing", "device data", _notes(row)])
    cells.append(f"`{row.cuml.removeprefix('cuml.')}`")
    return _joined([*cells, _methods(row), _refused(row), _notes(row)])


def _methods(row):
    supervised = is_classifier(row.sk()) or is_regressor(row.sk())
    methods = ("fit", *row.methods, *(("score",) if supervised else ()))
    return ", ".join(f"`{name}`" for name in methods)


def _refused(row):
    reasons = [refusal.reason for refusal in row.refuses if refusal.reason]
    named = [f"`{refusal.parameter}`" for refusal in row.refuses if not refusal.reason]
    if named:
        reasons.insert(0, f"some values of {', '.join(dict.fromkeys(named))}")
    if not row.sparse:
        reasons.append("sparse X")
    return "; ".join(dict.fromkeys(reasons))


def _notes(row):
    notes = [" ".join(row.notes)] if row.notes else []
    if row.float32_only:
        notes.insert(0, "float64 rows are computed in float32.")
    notes += [f"No `{name}`: {why}." for name, why in row.absent.items()]
    return " ".join(notes)


def _joined(cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(text):
    """A page with the tables of today."""
    for (begin, end), lines in (((BEGIN, END), table()), (INTELEX, intelex_table())):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n\n{lines}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
