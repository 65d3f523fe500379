"""Every measured figure of README and of the pages is that of a committed result."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Pages of benchmarks are written from the results: see test_benchmarks.py.
PAGES = [
    path.relative_to(ROOT).as_posix()
    for pattern in ("README.md", "*/README.md", "benchmarks/*/README.md", "docs/*.md")
    for path in sorted(ROOT.glob(pattern))
    if not path.name.startswith("benchmarks")
]

NUMBER = r"(?>\d+(?:,\d{3})*(?:\.\d+)?)"
WORD = "two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|fifty|(?:a )?hundred"
# "50 times" counts, "50 times as long" compares.
TIMES = r"times(?=\s(?:as|the|that|what|faster|slower|longer|more|less|gpuml|scikit-learn|cuML)\b)"
# Sizes in KiB, MiB and GiB are settings, and "7,000,000 x 100" is a shape.
UNIT = (
    r"(?:%|x\b(?! ?\d)|(?:ns|us|µs|ms|s|seconds?|milliseconds?|minutes?|min|hours?|h|per cent"
    rf"|[kKMGT]B(?:/s)?|{TIMES})\b)"
)
FIGURE = re.compile(
    rf"(?<![\w.,^/-])(?<!x ){NUMBER}(?:(?:,| to| and|;|/) {NUMBER})*\s?{UNIT}"
    rf"|(?<=\| ){NUMBER}(?= \||[:;]|, | \()"  # a cell of a table
    rf"|\b(?:(?:{WORD})\s(?:seconds|milliseconds|per cent|{TIMES})"
    rf"|{TIMES.replace('times', 'twice')}|half the time)\b"
)


@pytest.fixture(scope="module")
def published():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module("published")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def figures_in(text):
    """Places of figures in the words of a page: not in its code, output, formulas or addresses."""
    for code in (r"^( *)```[\s\S]*?^\1```", r"^(?:    .*\n)+", r"`[^`\n]*`", r"\]\([^)\n]*\)"):
        text = re.sub(code, lambda found: re.sub(r"\S", " ", found[0]), text, flags=re.M)
    return [found.span() for found in FIGURE.finditer(text)]


def places_of(piece, text):
    """Places of something given: words, with `...` for any within a paragraph, or a heading."""
    if piece.startswith("#"):
        pattern = rf"^{re.escape(piece)}\n[\s\S]*?(?=^{piece.split()[0]} |\Z)"
    else:
        parts = [r"\s+".join(map(re.escape, part.split())) for part in piece.split("...")]
        pattern = r"(?:(?!\n\n)[\s\S])*?".join(parts)
    return [found.span() for found in re.finditer(pattern, text, re.M)]


def unknown(page, text, published):
    """Figures that are neither measured nor given by the table."""
    known = [place for place, _ in published.figures(page, text)]
    for piece in published.table().get(page, {}).get("given", ()):
        found = places_of(piece, text)
        assert found, f"{page} has no longer {piece!r}: take it out of benchmarks/published.toml"
        known += found
    for start, end in figures_in(text):
        numbers = [m.span() for m in re.finditer(NUMBER, text[start:end])] or [(0, end - start)]
        if not all(
            any(a <= start + first and start + last <= b for a, b in known)
            for first, last in numbers
        ):
            yield f"{page}:{text.count(chr(10), 0, start) + 1}: {text[start:end]}"


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_measured(page, published):
    text = (ROOT / page).read_text()
    # What `benchmarks/page.py` writes is compared with the results by its own test.
    text = re.sub("<!-- from the map.*?<!-- end of the map -->", "", text, flags=re.DOTALL)
    _, changes = published.rewritten(page, text)
    assert changes == [], "run `make bench-page`"
    assert list(unknown(page, text, published)) == [], "name the source in published.toml"


def test_every_page_of_the_table_is_there(published):
    assert set(published.table()) <= set(PAGES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("takes 3.2 s, or 1,430 MB/s", ["3.2 s", "1,430 MB/s"]),
        ("61 x, 1.3 to 1.4 times the search", ["61 x", "1.3 to 1.4 times"]),
        ("(47 and 17 ms for 100,000 x 100)", ["47 and 17 ms"]),
        ("| 63 | 2.7 s (0.66 GB) | 0.104 (0.093 to start) | 4.9; 8.8 |", 5),
        ("twice as long, three times as fast, half the time", 3),
        ("7,000,000 x 100 float32, 10 x 5, 64 MiB; reads it 50 times, once or twice", 0),
        ("`3 s`\n\n    took 3 s\n\n```\n3 s\n```\n[it](a/3 s)", 0),
    ],
)
def test_what_counts_as_a_figure(text, found):
    figures = [text[start:end] for start, end in figures_in(text)]
    assert figures == found or len(figures) == found


def test_what_is_not_as_measured_is_found_and_put_right(published):
    page, text = "docs/results.md", (ROOT / "docs" / "results.md").read_text()
    measured = "| 10.8 ms |"
    assert text.count(measured) == 1
    right, changes = published.rewritten(page, text.replace(measured, "| 11.4 ms |"))
    assert right == text
    assert [change.partition(": ")[2] for change in changes] == ["11.4, by the results 10.8"]
    added = text + "\nA fit takes 5 ms.\n"
    assert [one.partition(": ")[2] for one in unknown(page, added, published)] == ["5 ms"]
    with pytest.raises(LookupError, match="docs/results.md has 0 times"):
        published.rewritten(page, text.replace("two H200 | 0.35 s", "H200 | 0.35 s"))


@pytest.mark.parametrize("source", ["ridge_search_h200; device", "ridge_search_cpu; flights; no"])
def test_a_source_is_one_record(source, published):
    with pytest.raises(LookupError, match=r"records of ridge_search_\w+ are"):
        published.number_of(source)
