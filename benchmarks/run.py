"""All benchmarks, one after the other, each in a process of its own: what `make bench` calls.

    python benchmarks/run.py --out out/bench
    python benchmarks/run.py --scenario ridge_search pca --device cuda --out out/bench
    python benchmarks/run.py --scale 0.01 --repeats 2 --out out/bench     # whether all of them work

Each leaves a report ``OUT/<name>.json``, whose records and machine are as schema.json beside this
file has them, and what it printed in ``OUT/<name>.log``. A benchmark that fails, or that takes
longer than its budget, is a result too: ``OUT/run.json`` says so, and the others run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import _harness as harness
import _results
import _schema

import gpuml

HERE = Path(__file__).parent
TABLES = [f"{model}{more}" for model in ("ridge", "logistic") for more in ("", "-many-levels")]
# What scripts call theirs, by device.
SCENARIOS = {
    "ridge_search": {"cpu": ["diabetes", "flights"], "cuda": ["diabetes", "device", "host"]},
    "logistic_search": {"cpu": ["cpu", "real"], "cuda": ["device", "multinomial"]},
    "pca": {"cpu": ["cpu"], "cuda": ["device"]},
    "pipeline_search": {"cpu": ["host"], "cuda": ["device"]},
    "table_search": {"cpu": [*TABLES, "large"], "cuda": [*TABLES, "device", "host"]},
    "selection": {"cpu": ["cpu"], "cuda": ["device"]},
    "models": {"cpu": ["cpu"], "cuda": ["device"]},
    "tree_search": {"cpu": ["cpu"], "cuda": []},
    "bands": {"cpu": ["cpu"], "cuda": ["device"]},
    "validation": {"cpu": ["cpu"], "cuda": ["device"]},
    "generic_search": {"cpu": ["cpu"], "cuda": ["device", "host"]},
}
ADAPTER_ROWS = {"cpu": (1_000, 100_000), "cuda": (1_000, 1_000_000)}
# Of its budget, what a script with one of its own gets: the rest is for its start and its end.
OWN_BUDGET = 0.9


def of_scenarios(name):
    """Arguments of a script that has scenarios for each device."""

    def arguments(options):
        return ["--scenario", *SCENARIOS[name][options.device], "--scale", options.scale]

    return arguments


def of_adapters(options):
    rows = [max(100, int(n * options.scale)) for n in ADAPTER_ROWS[options.device]]
    return ["--device", options.device, "--rows", *rows, "--scale", options.scale]


def of_cluster(options):
    sizes = ["--workers", options.workers, "--scale", options.scale]
    return ["--device", options.device, *sizes]


def of_svd(options):
    sizes = ["--scale", options.scale, "--gpus", options.workers]
    return ["--device", options.device, *sizes, "--budget", int(OWN_BUDGET * options.budget)]


def of_sweep(options):
    return ["--device", options.device, "--scale", options.scale]


def of_map(options):
    # Rows in CPU memory, and no GPU, whatever the device.
    return ["--scale", options.scale, "--budget", int(OWN_BUDGET * options.budget)]


BENCHMARKS = {
    **{name: of_scenarios(name) for name in SCENARIOS},
    "dask_search": of_cluster,
    "svd": of_svd,
    "adapters": of_adapters,
    "sweep": of_sweep,
    "map": of_map,
    "optimum": of_map,
}


# ---------------------------------------------------------------- one benchmark


def command_of(name, options):
    """Words of the command line, without the interpreter."""
    repeats = ["--repeats", options.repeats] if options.repeats else []
    words = [HERE / f"{name}.py", *BENCHMARKS[name](options), *repeats]
    return [str(word) for word in [*words, "--json", options.out / f"{name}.json"]]


def run_one(name, options):
    """Run a script; how it went."""
    command = command_of(name, options)
    path = options.out / f"{name}.json"
    path.unlink(missing_ok=True)
    start = time.monotonic()
    with (options.out / f"{name}.log").open("w") as log:
        log.write(" ".join(["python", *command]) + "\n")
        log.flush()
        status = finished(command, log, options)
    seconds = time.monotonic() - start
    try:
        n_records = complete(path, command, status, options)
    except (OSError, ValueError, KeyError, TypeError) as error:
        n_records = 0
        status = status if status != "ok" else harness.failure(error)
    return {"benchmark": name, "status": status, "seconds": seconds, "records": n_records}


def finished(command, log, options):
    """Wait for a process; "ok", or why it failed."""
    environment = os.environ | ({"SCIPY_ARRAY_API": "1"} if options.device == "cuda" else {})
    # A session of its own, so that its workers end with it.
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        code = process.wait(options.budget)
    except subprocess.TimeoutExpired:
        return f"failed: more than {options.budget:g} s"
    finally:
        end(process)
    return "ok" if code == 0 else f"failed: exit status {code}: {last_line(log.name)}"


def end(process):
    """End whatever of a process and its workers is left."""
    for how, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, how)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def last_line(path):
    lines = Path(path).read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "no message"


def complete(path, command, status, options):
    """Add to a report what scripts leave out, check it, and say how many records it has."""
    raw = json.loads(path.read_text())
    raw.setdefault("benchmark", path.stem)
    raw.setdefault("command", harness.without_paths(command[1:]))
    # A script that was cut off may not have come to it.
    raw.setdefault("machine", harness.machine())
    if status != "ok":
        raw["unfinished"] = status
    raw["records"] = [record.as_dict() for record in _results.report_of(raw, path.stem).records]
    _schema.check(raw)
    harness.write_json(raw, path)
    return len(raw["records"])


# ---------------------------------------------------------------- all of them


def rows_of(outcome, options):
    """Rows of the last table."""
    name = outcome["benchmark"]
    if outcome["status"] != "ok" or not outcome["records"]:
        yield {"benchmark": name, "what": "", "contender": outcome["status"][:60]}
    if not outcome["records"]:
        return
    records = _results.read(options.out / f"{name}.json").records
    if name in ("sweep", "map"):
        ratios = [record.ratio for record in records if record.ratio]
        said = f"x gpuml: {min(ratios):.2f} to {max(ratios):.1f}" if ratios else ""
        yield {"benchmark": name, "what": f"{len(ratios)} searches", "contender": said}
        return
    for record in records:
        row = {"benchmark": name, "what": record.what}
        yield row | {"contender": record.contender} | clock(record)


def clock(record):
    if record.seconds is None:
        return {"median s": (record.failed or "")[:40]}
    spread = (record.seconds["max"] - record.seconds["min"]) / record.seconds["median"]
    return {
        "median s": f"{record.seconds['median']:.4f}",
        "runs": record.seconds["repeats"],
        "spread": f"{spread:.0%}" if record.seconds["repeats"] > 1 else None,
        "x gpuml": harness.cell(record.ratio, ".1f"),
    }


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--scenario", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--workers", type=int, default=2, help="of the clusters")
    add(
        "--scale", type=float, default=1.0, help="share of the rows; real data are left as they are"
    )
    add("--repeats", type=int, help="timed runs of gpuml; default: those of each benchmark")
    add("--budget", type=float, default=900, help="seconds that each benchmark may take")
    add("--out", type=Path, required=True, help="folder for reports")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for name in options.scenario:
        print(f"{name} ...", file=sys.stderr, flush=True)
        outcomes.append(run_one(name, options))
        print(f"{name}: {outcomes[-1]['status']}", file=sys.stderr, flush=True)
    summary = {"benchmark": "run", "gpuml": gpuml.__version__, "outcomes": outcomes}
    summary |= {"machine": harness.machine(), "records": []}
    harness.write_json(summary, options.out / "run.json")
    headings = ("benchmark", "what", "contender", "median s", "runs", "spread", "x gpuml")
    rows = [row for outcome in outcomes for row in rows_of(outcome, options)]
    rows = [{heading: row.get(heading) for heading in headings} for row in rows]
    harness.print_table(str(options.out), rows)


if __name__ == "__main__":
    main()
