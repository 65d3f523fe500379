"""Writes docs/benchmarks.md and its figures from the reports in benchmarks/results.

    python benchmarks/page.py              # page and figures (needs matplotlib)
    python benchmarks/page.py --text       # the page alone
    python benchmarks/page.py --check      # exit status 1 if the page is not what it should be

A figure is on the page if there are data for it. Nothing is typed in by hand: after new results,
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
PAGE, LOSSES = "benchmarks.md", "where-it-does-not-help.md"

HEAD = """\
<!-- Written by `make bench-page` (benchmarks/page.py) from benchmarks/results. Do not edit. -->

# Benchmarks

Every number on this page comes from a file of `benchmarks/results`. Each file is one run of a
script that timed gpuml and its rivals one after the other, on the same data and the same machine.
Above each table stand the machine and the command that repeats it.

- **Times** are medians; beside them stand the fastest and the slowest run, and how many runs there
  were. Data are in place before the clock starts; refits are included.
- **Ratio** is the rival's median divided by gpuml's on the same rows and candidates. Above 1, gpuml
  is faster. Nothing is extrapolated: a rival that would take too long got fewer rows or candidates,
  and is compared with gpuml on as many.
- **Rivals**: `sklearn` is scikit-learn with `n_jobs=-1`, all cores of the CPU (in sweeps, as many
  processes as `--jobs` says); `sklearn-one-process` the same with `n_jobs=None`; `cuml` is
  scikit-learn's search over cuML's estimator, from rows in CPU memory; where gpuml's are on the
  GPU it has no ratio. `-array-api` means rows on the GPU, under scikit-learn's
  `array_api_dispatch`. `gpuml_dask` is gpuml on a cluster.
- `benchmarks/README.md` says what each scenario is, and how it is measured.

`make bench` runs all of them and checks what comes out, `make bench-compare OLD=... NEW=...` says
what has become slower beyond noise, and `make bench-page` writes this page.
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


def sections(reports):
    """The page, part by part."""
    yield HEAD
    of = {
        "pitch": first_page,
        "ratios": glance,
        "cells": the_map,
        "sweep": growth,
        "devices": devices,
        "moved": moved,
        "limits": limits,
    }
    titles = {"cells": "## The map\n", "sweep": "## How time grows\n"}
    for name, function, shown in plan_of(reports):
        yield titles.pop(function, "")
        yield of[function](name, shown)
    near = [report for report in reports if report.benchmark == "optimum"]
    if near:
        yield "## How near to the optimum\n"
    for report in near:
        yield nearness_of(report)
    yield "## All results\n"
    for report in reports:
        yield details(report)


def first_page(name, reports):
    """The figure of the README."""
    rivals = len(figures.pitch(reports))
    return image(name, f"{rivals} grid searches: how many times as fast as the fastest rival")


def glance(name, reports):
    """The fastest rivals, and where gpuml does not help."""
    found = figures.comparisons(reports)
    slower = [one for one in reversed(found) if one.rival.ratio < MOST_SLOWER]
    rows = [
        (one.label, one.report.machine_name, f"{one.rival.ratio:.2f}") for one in reversed(slower)
    ]
    text = [
        "## At a glance\n",
        "The fastest rival of every task, in times of gpuml's. The scale is logarithmic.\n",
        image(name, "Time of the fastest rival divided by time of gpuml, for every task"),
    ]
    if rows:
        text += [
            "Where gpuml gains less than a tenth, or loses:\n",
            table(("task (fastest rival)", "machine", "ratio"), rows, 2),
        ]
    face = [r for report in reports for r in report.records if r.scenario == "face" and r.ratio]
    if face:
        low, high = min(r.ratio for r in face), max(r.ratio for r in face)
        text += [
            paragraph(
                "Calls that gpuml hands on to the library that does the work (k-means, forests,",
                "neighbours) take as long as there, and a little for the way: ratios of",
                f"{low:.2f} to {high:.2f}. Searches over such models take, per fit, some",
                "milliseconds of Python longer than the fits and predictions alone (`bare fits`,",
                "no scores).",
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
        paragraph(
            f"Searches over Ridge and LogisticRegression on {where}; one factor is varied, the",
            "others stay as they are. Both scales are logarithmic.",
            *note,
            *missing,
        ),
        image(name, f"Time of searches by rows, features, candidates, folds, classes: {where}"),
        ends_of(report),
        paragraph(
            "A time that grows as a power of a factor is a straight line above. Powers are fitted",
            "to the upper half of the levels. The last column says what they tend to as tasks",
            "become large; where calls take longer than the work, as on a GPU, they are near 0.",
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
            "## By devices\n",
            paragraph(
                "Searches on one worker of a cluster and on several. On a CPU, workers are parts",
                "of it: each has as many cores on its own as among others. Efficiency is what part",
                "of the ideal is reached: the same time for as many rows on each worker, or the",
                "same rows in a k-th of the time on k workers.",
            ),
            image(name, "Time of searches by number of workers"),
            table(heading, rows, 3),
        ]
    )


def moved(name, reports):
    """Bytes."""
    return "\n".join(
        [
            "## Bytes moved\n",
            paragraph(
                "What one run sends to the GPU, copies by every library counted (CUPTI), beside",
                "the size of the rows. Where rows are on the GPU, little moves; rows of the host",
                "go about once. Forests are cuML's and are fitted one by one: what they send when",
                "rows are on the GPU already is their own, since a search over models that do",
                "nothing sends next to nothing.",
            ),
            image(name, "Bytes sent to the GPU, as a share of the rows"),
        ]
    )


def limits(name, reports):
    """Fractions of the hardware limit."""
    return "\n".join(
        [
            "## How near the limit of the hardware\n",
            paragraph(
                "Part of gpuml's time that the hardware would ask for if nothing else had to be",
                "done, measured in the same run. Products: one product X'X (searches over Ridge,",
                "PCA), or for each pass of logistic regression the products with all models and",
                "back, by the matrix library of the machine. Copy: the rows once for each pass, at",
                "the bandwidth of a copy in memory. Link: the rows once for each pass over the",
                "link to the GPU. The rest of the time is something else: other work on the rows,",
                "work on small matrices, Python, and on a GPU the launch of kernels. The smaller",
                "the data, the more of it.",
            ),
            image(name, "Time that a hardware limit asks for, in per cent of gpuml's time"),
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
        f"### {report.name}\n",
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


def text_of(reports):
    """The page."""
    return "\n".join(part for part in sections(reports) if part)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="folder of reports")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the page")
    parser.add_argument("--text", action="store_true", help="leave figures as they are")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    reports = _results.read_all(options.results)
    page, text = options.docs / PAGE, text_of(reports)
    pages = {page: text}
    other = options.docs / LOSSES
    if other.exists():
        pages[other] = page_of_losses(other.read_text(), reports)
    if options.check:
        same = all(path.exists() and path.read_text() == pages[path] for path in pages)
        print(f"{page} is {'' if same else 'not '}what benchmarks/results make.")
        return 0 if same else 1
    for path, written in pages.items():
        path.write_text(written)
    if not options.text:
        import _plots

        plan = plan_of(reports)
        for old in set((options.docs / FOLDER).glob("*.svg")):
            if old.stem not in {name for name, *_ in plan}:
                old.unlink()
        _plots.draw(plan, options.docs / FOLDER)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
