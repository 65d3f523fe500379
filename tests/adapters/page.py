"""Writes the table of docs/adapters.md from the rows: `python -m tests.adapters.page`."""

from pathlib import Path

from sklearn.base import is_classifier, is_regressor

from gpuml.adapters import all_rows

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
HEAD = "| class | cuML's | on the GPU | on the CPU, with a warning | what else differs |"


def table():
    """The table, a line for each class."""
    lines = [HEAD, "| --- | --- | --- | --- | --- |"]
    lines += [_line(path, row) for path, row in all_rows().items()]
    return "\n".join(lines)


def _line(path, row):
    cells = [f"`{path.removeprefix('gpuml.')}`"]
    if row.cuml is None:
        return _joined([*cells, "none", "nothing", "device data", _notes(row)])
    cells.append(f"`{row.cuml.removeprefix('cuml.')}`")
    supervised = is_classifier(row.sk()) or is_regressor(row.sk())
    methods = ("fit", *row.methods, *(("score",) if supervised else ()))
    cells.append(", ".join(f"`{name}`" for name in methods))
    reasons = [refusal.reason for refusal in row.refuses if refusal.reason]
    named = [f"`{refusal.parameter}`" for refusal in row.refuses if not refusal.reason]
    if named:
        reasons.insert(0, f"some values of {', '.join(dict.fromkeys(named))}")
    if not row.sparse:
        reasons.append("sparse X")
    return _joined([*cells, "; ".join(dict.fromkeys(reasons)), _notes(row)])


def _notes(row):
    notes = [" ".join(row.notes)] if row.notes else []
    if row.float32_only:
        notes.insert(0, "float64 rows are computed in float32.")
    notes += [f"No `{name}`: {why}." for name, why in row.absent.items()]
    return " ".join(notes)


def _joined(cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(text):
    """A page with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
