"""Writes docs/benchmarks*.md and their figures from the reports in benchmarks/results.

    python benchmarks/page.py              # pages and figures (needs matplotlib)
    python benchmarks/page.py --text       # the pages alone
    python benchmarks/page.py --check      # exit status 1 if the pages are not what they should be

A figure is on a page if there are data for it. Nothing is typed in by hand: after new results,
run it again.
"""

import argparse
import sys
from pathlib import Path

import _figures as figures
import _results
from _markdown import FOLDER, image, paragraph, seconds, table
from _page_map import nearness_of, page_of_losses, the_map

DOCS = Path(__file__).parents[1] / "docs"
LOSSES = "where-it-does-not-help.md"
MADE = "<!-- Written by `make bench-page` from benchmarks/results. Do not edit. -->\n"

# The pages: heading, and the functions of `_plots` whose figures are on it.
PAGES = {
    "benchmarks": ("How fast is gpuml, compared with its rivals?", ("pitch", "ratios")),
    "benchmarks-map": ("Which models are faster than the fastest rival?", ("cells",)),
    "benchmarks-growth": ("How does time grow with the data?", ("sweep",)),
    "benchmarks-hardware": (
        "How well does gpuml use the hardware?",
        ("devices", "moved", "limits"),
    ),
    "benchmarks-optimum": ("How near are fitted models to the optimum?", ()),
    "benchmarks-reports": ("What did each benchmark measure?", ()),
}

FIRST = """\
Each bar divides the time of the fastest rival by gpuml's, for the same task on the same data and
the same machine. Times are medians, and they include the refit. A search over a linear model
gains most, because gpuml reads the rows once for all candidates on all folds. Single fits and
small data gain little, or lose: see [where it does not help](where-it-does-not-help.md). Every
number comes from a file of `benchmarks/results`, and beside each table stands the command that
repeats it.

## Where are the details?

| question | page |
| --- | --- |
| What are the main results, in sentences? | [Results](results.md) |
| Which models are faster, on which shapes? | [The map](benchmarks-map.md) |
| How does time grow with rows, candidates and folds? | [Growth](benchmarks-growth.md) |
| How well are GPUs, links and clusters used? | [Hardware](benchmarks-hardware.md) |
| Are the models as good as scikit-learn's? | [Optimum](benchmarks-optimum.md) |
| What did each run measure, on which machine? | [All reports](benchmarks-reports.md) |

`make bench` runs all benchmarks, `make bench-compare OLD=... NEW=...` tells you what became
slower, and `make bench-page` writes these pages. `benchmarks/README.md` explains every scenario.
"""

HOW_TO_READ = """\
## How do you read the tables?

- **Times** are medians; beside them are the fastest and the slowest run, and the number of runs.
  The clock starts when the data is in place.
- **Ratio** is the rival's median divided by gpuml's on the same rows and candidates. Above 1,
  gpuml is faster. Nothing is extrapolated: a rival that would take too long gets fewer rows or
  candidates, and gpuml's time on as many is compared with it.
- **Rivals**: `sklearn` is scikit-learn with `n_jobs=-1`, on all cores of the CPU (in sweeps, with
  as many processes as `--jobs` says); `sklearn-one-process` is the same with `n_jobs=None`;
  `cuml` is scikit-learn's search over cuML's estimator, from rows in CPU memory, without a ratio
  where gpuml's rows are on the GPU. `-array-api` means rows on the GPU, under scikit-learn's
  `array_api_dispatch`. `gpuml_dask` is gpuml on a cluster.
"""

TABLE_HEAD = (
    *("what", "contender", "rows", "features", "candidates", "folds", "classes", "devices"),
    *("median", "fastest - slowest", "runs", "ratio"),
)
NUMBERS_FROM = 2
MOST_SLOWER = 1.1


# ---------------------------------------------------------------- figures


def plan_of(reports):
    """Names of figures, functions of `_plots`, and what they show; those that have data."""
    plan = []
    if figures.pitch(reports):
        plan.append(("pitch", "pitch", reports))
    if figures.comparisons(reports):
        plan.append(("ratios", "ratios", reports))
    plan += [(report.name, "cells", report) for report in figures.maps(reports)]
    plan += [(report.name, "sweep", report) for report in figures.sweeps(reports)]
    if figures.scalings(reports):
        plan.append(("devices", "devices", reports))
    if figures.moves(reports):
        plan.append(("moved", "moved", reports))
    if figures.at_limits(reports):
        plan.append(("limits", "limits", reports))
    return plan


# ---------------------------------------------------------------- sections


def sections(page, reports):
    """A page, part by part."""
    title, drawn = PAGES[page]
    yield f"{MADE}\n# {title}\n"
    of = {
        "pitch": first_page,
        "ratios": glance,
        "cells": the_map,
        "sweep": growth,
        "devices": devices,
        "moved": moved,
        "limits": limits,
    }
    for name, function, shown in plan_of(reports):
        if function in drawn:
            yield of[function](name, shown)
    near = [report for report in reports if report.benchmark == "optimum"]
    if page == "benchmarks-optimum" and near:
        yield from map(nearness_of, near)
    if page == "benchmarks-reports":
        yield from map(details, reports)


def first_page(name, reports):
    """The figure of the README."""
    rivals = len(figures.pitch(reports))
    words = f"{rivals} grid searches: how many times as fast as the fastest rival"
    return "\n".join([image(name, words), FIRST, HOW_TO_READ])


def glance(name, reports):
    """The fastest rivals, and where gpuml does not help."""
    found = figures.comparisons(reports)
    slower = [one for one in reversed(found) if one.rival.ratio < MOST_SLOWER]
    rows = [
        (one.label, one.report.machine_name, f"{one.rival.ratio:.2f}") for one in reversed(slower)
    ]
    text = [
        "## Which tasks gain, and which lose?\n",
        "Each line is a task with its fastest rival. The scale is logarithmic.\n",
        image(name, "Time of the fastest rival divided by time of gpuml, for every task"),
    ]
    if rows:
        text += [
            "gpuml gains less than a tenth, or loses, on these tasks:\n",
            table(("task (fastest rival)", "machine", "ratio"), rows, 2),
        ]
    face = [r for report in reports for r in report.records if r.scenario == "face" and r.ratio]
    if face:
        low, high = min(r.ratio for r in face), max(r.ratio for r in face)
        text += [
            paragraph(
                "For single fits of some models (k-means, forests, neighbours) gpuml calls another",
                f"library, and takes as long as that: the ratios are {low:.2f} to {high:.2f}.",
                "A search over such models takes a few milliseconds of Python per fit longer than",
                "the fits and predictions alone (`bare fits`, without scores).",
            )
        ]
    return "\n".join(text)


def growth(name, report):
    """One factor at a time."""
    where = report.machine_name
    note = [f"Remark on this run: {report.raw['note']}."] if report.raw.get("note") else []
    left_out = sum(1 for record in report.records if record.failed)
    missing = [f"{left_out} searches of scikit-learn were left out to save time."] * bool(left_out)
    text = [
        f"## {report.name}: {where}\n",
        paragraph(
            "Searches over Ridge and LogisticRegression. One factor varies, the others stay",
            "the same. Both scales are logarithmic.",
            *note,
            *missing,
        ),
        image(name, f"Time of searches by rows, features, candidates, folds, classes: {where}"),
        ends_of(report),
        paragraph(
            "If a time grows as a power of a factor, its curve above is a straight line. The",
            "powers below are fitted to the upper half of the levels. The last column explains",
            "the power for large tasks. It is near 0 if starting the operations takes longer than",
            "the operations, as on a GPU.",
        ),
        exponents_of(report),
        f"    {report.command}\n",
    ]
    return "\n".join(text)


def ends_of(report):
    """A table: from the lowest level of each factor to the highest, by how much time grows."""
    rows = []
    for model in dict.fromkeys(record.scenario for record in report.records):
        for factor, words in figures.FACTORS.items():
            ours, theirs = (figures.curve(report, model, factor, own) for own in (True, False))
            known = {getattr(record, factor) for record in theirs}
            ours = [record for record in ours if getattr(record, factor) in known]
            if len(ours) > 1:
                low, high = (getattr(ours[end], factor) for end in (0, -1))
                grown = [_growth(records) for records in (ours, theirs)]
                ratio = f"{theirs[-1].ratio:.1f}"
                rows.append((model, f"{words}: {low:,} to {high:,}", *grown, ratio))
    heading = ("model", "factor", "gpuml grows", "scikit-learn grows", "ratio at the end")
    return table(heading, rows, 2)


# Why time grows with a factor as it does. Exponents are of the upper half of the levels.
MODELS_OF_GROWTH = {
    ("Ridge", "n"): "one pass sums X'X and X'y of all folds; 1 once rows outweigh the start",
    (
        "Ridge",
        "d",
    ): "X'X takes n p^2, its decomposition p^3 for a fold; 1 while reading X is longer",
    ("Ridge", "candidates"): "one decomposition of a fold serves all alphas: near 0",
    ("Ridge", "folds"): "sums of folds are read once and added; a decomposition for each: below 1",
    ("LogisticRegression", "n"): "each pass reads all rows once, the passes stay as many: 1",
    (
        "LogisticRegression",
        "d",
    ): "products of n p, or for Newton's steps of n p^2 and p^3: 1 to 2",
    ("LogisticRegression", "candidates"): "all share each pass, with a column each: below 1",
    ("LogisticRegression", "folds"): "as candidates: a column for each fold: below 1",
    (
        "LogisticRegression",
        "classes",
    ): "a column for each class; Hessians grow as their square",
}


def exponents_of(report):
    """A table: the power of each factor that times follow, and what explains it."""
    rows = []
    for (model, factor), why in MODELS_OF_GROWTH.items():
        powers = [
            figures.exponent(figures.curve(report, model, factor, own), factor)
            for own in (True, False)
        ]
        if powers[0] is not None:
            shown = ("" if power is None else f"{power:.2f}" for power in powers)
            rows.append((model, figures.FACTORS[factor], *shown, why))
    heading = ("model", "factor", "gpuml's power", "scikit-learn's", "what gpuml's tends to")
    return table(heading, rows, 2)


def _growth(records):
    return f"{records[-1].seconds['median'] / records[0].seconds['median']:.1f} x"


def devices(name, reports):
    """Clusters."""
    rows = [
        (
            scaling.task,
            figures.kind_of(scaling.report, scaling.records[-1]),
            "rows grow with workers" if scaling.weak else "the same rows",
            scaling.records[-1].devices,
            seconds(scaling.records[0].seconds["median"]),
            seconds(scaling.records[-1].seconds["median"]),
            f"{scaling.efficiency:.0%}",
        )
        for scaling in figures.scalings(reports)
    ]
    heading = ("task", "on", "size", "workers", "on one", "on all", "efficiency")
    return "\n".join(
        [
            "## Do more devices help?\n",
            paragraph(
                "Searches on one worker of a cluster and on several. On a CPU, each worker has the",
                "same number of cores, however many workers there are. Efficiency is the share of",
                "the ideal: the same time with as many rows on each worker, or the same rows in a",
                "k-th of the time on k workers.",
            ),
            image(name, "Time of searches by number of workers"),
            table(heading, rows, 3),
        ]
    )


def moved(name, reports):
    """Bytes."""
    return "\n".join(
        [
            "## How much data moves to the GPU?\n",
            paragraph(
                "The bytes that one run sends to the GPU, as a share of the rows; copies by every",
                "library are counted (CUPTI). Rows on the GPU stay there, and rows in CPU memory",
                "are sent about once. Forests are cuML's, fitted one by one: the bytes they send",
                "although the rows are on the GPU are cuML's own, because the same search over",
                "models that do nothing sends almost none.",
            ),
            image(name, "Bytes sent to the GPU, as a share of the rows"),
        ]
    )


def limits(name, reports):
    """Fractions of the hardware limit."""
    return "\n".join(
        [
            "## How near is gpuml to the hardware's limits?\n",
            paragraph(
                "The least time that the hardware needs, measured in the same run, as a share of",
                "gpuml's time. Products: one product X'X (searches over Ridge, PCA), or for each",
                "pass of logistic regression the products with all models and back, by the matrix",
                "library of the machine. Copy: the rows once for each pass, at the bandwidth of a",
                "copy in memory. Link: the rows once for each pass over the link to the GPU. The",
                "rest of the time is other work on the rows, work on small matrices, Python, and",
                "on a GPU the launch of kernels. Its share is larger for small data.",
            ),
            image(name, "Least time that the hardware needs, in per cent of gpuml's time"),
        ]
    )


def details(report):
    """One file: machine, command, and all its records."""
    machine = report.machine
    versions = [f"Python {machine['python']}"]
    versions += [f"{name} {version}" for name, version in machine["versions"].items()]
    gpu = machine.get("gpu")
    if gpu:
        cuda = gpu["cuda_runtime"]
        versions += [f"CUDA {cuda // 1000}.{cuda % 1000 // 10}", f"driver {gpu['driver']}"]
    text = [
        f"## {report.name}\n",
        f"{report.machine_name}; gpuml {report.gpuml}.\n",
        f"    {report.command}\n",
        *(() if report.benchmark == "optimum" else (times_of(report),)),  # gaps are what it is for
        paragraph(f"Versions: {', '.join(versions)}."),
    ]
    return "\n".join(text)


def times_of(report):
    """A table of all its records."""
    return table(TABLE_HEAD, [row_of(record) for record in report.records], NUMBERS_FROM)


def row_of(record):
    """Cells of a record."""
    numbers = (record.n, record.d, record.candidates, record.folds, record.classes)
    clock = record.seconds
    if clock is None:
        times = (record.failed, None, None)
    else:
        spread = f"{seconds(clock['min'])} - {seconds(clock['max'])}"
        times = (seconds(clock["median"]), spread, clock["repeats"])
    what = record.scenario if record.task in ("", record.scenario) else None
    ratio = None if record.ratio is None else f"{record.ratio:.2f}"
    return (
        what or f"{record.scenario}: {record.task}",
        record.contender,
        *(None if n is None else f"{n:,}" for n in numbers),
        record.devices,
        *times,
        ratio,
    )


def text_of(page, reports):
    """A page."""
    return "\n".join(part for part in sections(page, reports) if part)


def texts_of(docs, reports):
    """Pages to what is to be written."""
    pages = {docs / f"{page}.md": text_of(page, reports) for page in PAGES}
    losses = docs / LOSSES
    if losses.exists():
        pages[losses] = page_of_losses(losses.read_text(), reports)
    return pages


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="folder of reports")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the pages")
    parser.add_argument("--text", action="store_true", help="leave figures as they are")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    reports = _results.read_all(options.results)
    pages = texts_of(options.docs, reports)
    if options.check:
        others = [path for path in pages if not path.exists() or path.read_text() != pages[path]]
        for path in others:
            print(f"{path} is not what benchmarks/results make.")
        return 1 if others else 0
    for path, written in pages.items():
        path.write_text(written)
    if not options.text:
        import _plots

        plan = plan_of(reports)
        for old in set((options.docs / FOLDER).glob("*.svg")):
            if old.stem not in {name for name, *_ in plan}:
                old.unlink()
        _plots.draw(plan, options.docs / FOLDER)
    print(*pages, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
