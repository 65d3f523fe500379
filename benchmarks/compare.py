"""Two results side by side: what has become slower, beyond noise?

    python benchmarks/compare.py benchmarks/results/pca_cpu.json out/bench/pca.json
    python benchmarks/compare.py before/ after/          # folders: reports of the same name

A contender of gpuml's is *slower* if its median has grown by more than a tenth (``--threshold``)
and a one-sided Mann-Whitney test of all its runs, before and after, gives p <= 0.05. The test needs
three runs on both sides; with fewer, nothing is said. It is a regression, too, if it now fails, or
sends a tenth (and a MiB) more to the device. Rivals are shown, because they tell whether the
machine is the same, but nothing is said against them.

Exit status: 0; 1 where something has regressed; 2 for results of different machines, which say
nothing about each other (``--anyway``: compare them all the same).
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import _results
from rich.console import Console
from rich.table import Table
from scipy.stats import mannwhitneyu

LEVEL, THRESHOLD, FEWEST_RUNS = 0.05, 0.1, 3
MIB = 2**20
SAME = ("cpu", "cores")
SAME_GPU = ("name", "count")


@dataclass(frozen=True)
class Pair:
    """A record before and after."""

    old: _results.Record
    new: _results.Record
    threshold: float

    @property
    def ratio(self):
        """Of the medians, after to before; None if one failed."""
        if self.old.seconds is None or self.new.seconds is None:
            return None
        return self.new.seconds["median"] / self.old.seconds["median"]

    @property
    def p(self):
        """Of as large a shift in one direction, were both sides the same; None with few runs."""
        if self.ratio is None:
            return None
        before, after = self.old.seconds["runs"], self.new.seconds["runs"]
        if min(len(before), len(after)) < FEWEST_RUNS:
            return None
        direction = "greater" if self.ratio > 1 else "less"
        return float(mannwhitneyu(after, before, alternative=direction).pvalue)

    @property
    def verdict(self):
        """In a word or two."""
        if self.new.failed and not self.old.failed:
            return "fails now"
        if self.ratio is None:
            return "failed" if self.new.failed else "works now"
        if self._moves_more:
            return "moves more"
        if 1 / (1 + self.threshold) <= self.ratio <= 1 + self.threshold:
            return "same"
        if self.p is None:
            return "too few runs"
        if self.p > LEVEL:
            return "noise"
        return "slower" if self.ratio > 1 else "faster"

    @property
    def is_regression(self):
        """Whether gpuml has become worse."""
        return self.new.is_ours and self.verdict in ("slower", "fails now", "moves more")

    @property
    def _moves_more(self):
        before, after = self.old.bytes_to_device, self.new.bytes_to_device
        if before is None or after is None:
            return False
        return after - before > MIB and after > (1 + THRESHOLD) * before


def pairs(old, new, threshold=THRESHOLD):
    """What two reports have in common."""
    known = {record.key: record for record in old.records}
    return [
        Pair(known[record.key], record, threshold) for record in new.records if record.key in known
    ]


def differences(old, new):
    """In what two machines differ that makes times say nothing about each other."""
    one, other = old.machine, new.machine
    found = [f"{k}: {one[k]} and {other[k]}" for k in SAME if one[k] != other[k]]
    gpus = [machine.get("gpu") or {} for machine in (one, other)]
    for key in SAME_GPU:
        values = [gpu.get(key) for gpu in gpus]
        if values[0] != values[1]:
            found.append(f"GPU {key}: {values[0]} and {values[1]}")
    return found


def versions_apart(old, new):
    """Packages of other versions, in a line."""
    one, other = (report.machine["versions"] for report in (old, new))
    names = sorted(one.keys() | other.keys())
    apart = [f"{n} {one.get(n)} -> {other.get(n)}" for n in names if one.get(n) != other.get(n)]
    return ", ".join(apart)


def matched(old, new):
    """Reports of two files, or of the files of the same name of two folders."""
    if old.is_dir() != new.is_dir():
        raise SystemExit("Name two files, or two folders.")
    if not old.is_dir():
        return [(_results.read(old), _results.read(new))]
    names = sorted({p.name for p in old.glob("*.json")} & {p.name for p in new.glob("*.json")})
    if not names:
        raise SystemExit("The folders have no file of the same name.")
    return [(_results.read(old / name), _results.read(new / name)) for name in names]


def show(found):
    """Print pairs as a table."""
    table = Table(title="after / before", title_justify="left")
    for i, heading in enumerate(("benchmark", "what", "contender", "before s", "after s")):
        table.add_column(heading, justify="right" if i > 2 else "left")
    for heading in ("ratio", "p", "verdict"):
        table.add_column(heading, justify="left" if heading == "verdict" else "right")
    for pair in found:
        record = pair.new
        medians = [_median(each) for each in (pair.old, pair.new)]
        numbers = [_cell(pair.ratio, ".2f"), _cell(pair.p, ".3f")]
        verdict = f"{pair.verdict} !" if pair.is_regression else pair.verdict
        table.add_row(record.benchmark, record.what, record.contender, *medians, *numbers, verdict)
    # A log file has no width; rich would take 80 columns and fold every cell.
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _median(record):
    return f"{record.seconds['median']:.4f}" if record.seconds else "failed"


def _cell(value, form):
    return "" if value is None else format(value, form)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path, help="a report, or a folder of reports")
    parser.add_argument("new", type=Path)
    parser.add_argument("--threshold", type=float, default=THRESHOLD, help="growth that matters")
    parser.add_argument("--anyway", action="store_true", help="results of different machines")
    options = parser.parse_args(arguments)
    found = []
    for old, new in matched(options.old, options.new):
        apart = differences(old, new)
        if apart and not options.anyway:
            print(f"{new.name}: different machines ({'; '.join(apart)}). --anyway compares them.")
            return 2
        versions = versions_apart(old, new)
        if versions:
            print(f"{new.name}: other versions: {versions}")
        found += pairs(old, new, options.threshold)
    show(found)
    worse = [pair for pair in found if pair.is_regression]
    print(f"{len(found)} compared, {len(worse)} regressed.")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
