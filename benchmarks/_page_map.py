"""What pages say of maps: cells, those a rival wins, those without a ratio, memory."""

import statistics
import tomllib
from pathlib import Path

import _figures as figures
from _markdown import image, paragraph, table

MAP_RIVALS = {
    "cpu": "scikit-learn (all cores), scikit-learn-intelex, himalaya, skglm, celer, adelie, glum",
    "gpu": "scikit-learn under its array API, its search over cuML, and himalaya, rows on the GPU",
}


def the_map(name, report):
    """Every cell of a map as a dot, and those where a rival is faster with the reason."""
    found = figures.cells(report)
    note = [f"Remark on this run: {report.raw['note']}."] if report.raw.get("note") else []
    ratios = [one.rival.ratio for one in found]
    spread = (
        f"{len(found)} cells, ratios from {min(ratios):.2f} to {max(ratios):.0f}, half of them "
        f"above {statistics.median(ratios):.1f}."
        if ratios
        else "No rival was measured."
    )
    text = [
        f"## {report.name}: {report.machine_name}\n",
        paragraph(
            "Each dot is a model on rows of one shape, with one kind of splits. It compares gpuml",
            f"with the fastest of {MAP_RIVALS[report.raw.get('device', 'cpu')]}.",
            spread,
            "A rival with a tolerance gets the loosest one at which its objective is as good as",
            "gpuml's, unless it is far slower at a looser one.",
            *note,
        ),
        image(name, "Time of the fastest rival divided by time of gpuml, for every cell"),
        losses_of(report),
        not_compared(report),
        memory_of(report),
    ]
    return "\n".join(part for part in text if part)


def losses_of(report):
    """The cells of a map in which a rival is faster, with reasons; nothing if there are none."""
    reasons = reasons_of(report.name)
    rows = [
        (
            figures.cell_of(one.rival),
            one.rival.contender,
            f"{one.rival.ratio:.2f}",
            reasons.get(figures.cell_of(one.rival), "No reason is known."),
        )
        for one in figures.cells(report)
        if one.rival.ratio < 1
    ]
    if not rows:
        return ""
    heading = ("cell", "rival", "ratio", "reason")
    return f"Where a rival is faster, and why:\n\n{table(heading, rows, 4)}"


def not_compared(report):
    """Cells of a map without a ratio: why gpuml, or each rival, has no time."""
    compared = {one.rival.problem + (one.rival.dtype,) for one in figures.cells(report)}
    missing = {}
    for record in report.records:
        if record.problem + (record.dtype,) not in compared and record.failed:
            words = f"{record.contender}: {record.failed}"
            missing.setdefault(figures.cell_of(record), []).append(words)
    if not missing:
        return ""
    rows = [(cell, "; ".join(words)) for cell, words in missing.items()]
    return f"Not compared with any rival:\n\n{table(('cell', 'why'), rows, 2)}"


def nearness_of(report):
    """Gaps to the optimum of gpuml and scikit-learn, a line for each model and penalty."""
    rows = [
        (
            scenario["scenario"],
            figures.shape_of(scenario["problem"]),
            *(f"{contender['gap']:.0e}" for contender in scenario["contenders"]),
        )
        for scenario in report.raw["scenarios"]
    ]
    said = paragraph(
        "The table shows how far the objective of a fitted model is above the lowest known one,",
        "as a share of it: for one model of each cell of the map that has a tolerance, at the",
        "default tolerance and three penalties of the search. The lowest one is the best of all",
        f"solvers, some of them at a tolerance of 1e-10. The machine: {report.machine_name}.",
    )
    heading = ("model", "rows", "gpuml", "scikit-learn")
    return f"{said}\n{table(heading, rows, 2)}"


# Of the rows: with what a fit may hold beside them, a page does not list it.
MOST_MEMORY = 1.3


def memory_of(report):
    """Cells of a map in which gpuml held more than 1.3 times the rows."""
    rows = []
    for scenario in report.raw["scenarios"]:
        problem, own = scenario["problem"], scenario["contenders"][0]
        on_gpu = problem["library"] == "cupy"
        extra = own.get("extra_pool_bytes" if on_gpu else "extra_host_bytes")
        if extra is not None and extra > FEW_BYTES + (MOST_MEMORY - 1) * problem["bytes"]:
            cell = f"{scenario['scenario']}, {figures.shape_of(problem)}"
            rows.append((cell, *(f"{size / 1e6:,.1f} MB" for size in (problem["bytes"], extra))))
    if not rows:
        return ""
    said = paragraph(
        f"In these cells, the first run of gpuml took more than {FEW_BYTES / 1e6:.0f} MB, and more",
        f"than {MOST_MEMORY - 1:.1f} of the size of the rows, beside them. Loaded code counts:",
    )
    return f"{said}\n{table(('cell', 'rows', 'beside them'), rows, 1)}"


# What libraries load and buffers take, whatever the rows are.
FEW_BYTES = 64e6


def reasons_of(name):
    """Sentences of `map_reasons.toml` for a report, by cell."""
    path = Path(__file__).parent / "map_reasons.toml"
    return tomllib.loads(path.read_text()).get(name, {})


BEGIN, END = "<!-- from the map, by `make bench-page` -->\n", "<!-- end of the map -->\n"


def page_of_losses(text, reports):
    """`where-it-does-not-help.md` with the cells of maps in which a rival is faster."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    parts = [f"On {r.machine_name}:\n\n{losses_of(r)}" for r in figures.maps(reports)]
    lost = "\n".join(part for part in parts if "| ---" in part)
    none = "In no cell of a map that is committed.\n" if figures.maps(reports) else NO_MAP
    return f"{before}{BEGIN}\n{lost or none}\n{END}{after}"


NO_MAP = "No map is committed yet.\n"
