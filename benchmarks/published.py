"""Measured figures of README and the pages, and the results that each of them is from.

    python benchmarks/published.py             # writes them anew, after new results
    python benchmarks/published.py --check     # exit status 1 if a page prints something else

published.toml has pieces of the pages in which a figure is written as its unit and its source:

    {ms ridge_search_cpu; diabetes; gpuml}     median seconds of the one record of that report which
                                               has these words as scenario, task or contender
    {s svd_h200; n=2000000; dask, cupy}      and these facts
    {x ridge_search_cpu; flights; sklearn; .ratio}                     a field of the record
    {x ridge_search_h200; host; cuml / ridge_search_h200; host; gpuml; n=7000000}     a quotient
    {GB svd_cpu: scenarios; packed; contenders; dask; total_bytes}     a way through the file: names
                                               of a list are those of the item that has them

As many decimals as the page has are compared, and written. tests/test_published_figures.py finds
figures that no piece knows of.
"""

import argparse
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import _results

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".toml")
UNITS = {"s": 1, "ms": 1e3, "B": 1, "MB": 1e-6, "GB": 1e-9, "%": 100, "x": 1}
SOURCE = re.compile(r"\{(\S+)\s([^}]*)\}")
NUMBER = r"(\d+(?:,\d{3})*(?:\.\d+)?)"


def table():
    """Pages to what is "measured" and what is "given" there."""
    return tomllib.loads(TABLE.read_text())


# ---------------------------------------------------------------- from a source to a number


@cache
def report(name):
    return _results.read(_results.RESULTS / f"{name}.json")


def number_of(source):
    """What the results have, in seconds, bytes or as a ratio."""
    values = [_value(part) for part in re.sub(r"\s+", " ", source).split(" / ")]
    return values[0] if len(values) == 1 else values[0] / values[1]


def _value(source):
    name, mark, rest = re.fullmatch(r"(\w+)([;:]) (.*)", source).groups()
    steps = rest.split("; ")
    return _from_file(name, steps) if mark == ":" else _from_record(name, steps)


def _from_file(name, steps):
    inner = report(name).raw
    for step in steps:
        if isinstance(inner, list):
            (inner,) = [item for item in inner if step in map(str, item.values())]
        else:
            inner = inner[step]
    return inner


def _from_record(name, steps):
    field = steps.pop()[1:] if steps[-1].startswith(".") else None
    facts = dict(step.split("=") for step in steps if "=" in step)
    words = {step for step in steps if "=" not in step}
    found = [
        one
        for one in report(name).records
        if words <= {one.scenario, one.task, one.contender}
        and all(str(getattr(one, fact)) == value for fact, value in facts.items())
    ]
    if len(found) != 1:
        raise LookupError(f"{len(found)} records of {name} are {'; '.join(steps)}")
    return getattr(found[0], field) if field else found[0].seconds["median"]


# ---------------------------------------------------------------- pages


def figures(page, text):
    """Figures of a page that are known: their place, and what should stand there.

    Raises
    ------
    LookupError
        A piece is not, or more than once, on the page.
    """
    for piece in table().get(page, {}).get("measured", ()):
        sources = SOURCE.findall(piece)
        words = [re.escape(word) for word in SOURCE.sub("\0", piece).split()]
        pattern = r"\s+".join(words).replace("\0", NUMBER)
        found = list(re.finditer(pattern, text))
        if len(found) != 1:
            raise LookupError(f"{page} has {len(found)} times: {piece}")
        for group, (unit, source) in enumerate(sources, 1):
            printed = found[0][group]
            decimals = len(printed.partition(".")[2])
            expected = f"{number_of(source) * UNITS[unit]:,.{decimals}f}"
            if "," not in printed:
                expected = expected.replace(",", "")
            yield found[0].span(group), expected


def rewritten(page, text):
    """The page with the figures of the results, and what has changed."""
    changes = []
    for (start, end), expected in sorted(figures(page, text), reverse=True):
        if text[start:end] != expected:
            line = text.count("\n", 0, start) + 1
            changes.append(f"{page}:{line}: {text[start:end]}, by the results {expected}")
            text = text[:start] + expected + text[end:]
    return text, changes[::-1]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    every = []
    for page in table():
        text, changes = rewritten(page, (ROOT / page).read_text())
        every += changes
        if changes and not options.check:
            (ROOT / page).write_text(text)
    print("\n".join(every) or "The pages print what the results have.")
    return 1 if every and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
