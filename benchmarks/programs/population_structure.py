"""Where do these people come from? Principal components of packed genotypes.

    python benchmarks/programs/population_structure.py [--samples N] [--variants N] [--output DIR]
    python benchmarks/programs/population_structure.py --samples 1000000 --source model \\
        --device cuda

Five populations split from each other some time ago, and a sixth has ancestors in two of them.
Their genotypes (0, 1 or 2 copies of an allele; 2 % are missing) are simulated by msprime, if it is
installed (`--source msprime`: neighbours on a chromosome are inherited together, as in real data),
or drawn from a model of allele frequencies that drift (`--source model`: any number of samples,
block by block, so that only the packed ones are ever in memory).

`svd_compressed` reads the packed genotypes once for each power step. Centring, and scaling as
Patterson, Price and Reich (2006) do, are part of the products: no standardised matrix is ever
formed. The error bounds of the singular values come with it.
"""

import argparse
import importlib.util
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import gpuml
from gpuml.encodings import Packed, pack
from gpuml.linalg import SVD, ErrorEstimate, svd_compressed

POPULATIONS = ("A1", "A2", "B1", "B2", "C", "A1 with C")
COLORS = ("tab:blue", "tab:cyan", "tab:red", "tab:orange", "tab:green", "tab:purple")
# A sixth that is a mixture of others is between them.
N_DIRECTIONS = 4
MISSING = 0.02
LEAST_SHARE = 0.05
SEED = 1
# Genotypes made at once.
MAKE_VALUES = 2**24
MOST_DOTS = 20_000


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device, progress=True)
    source = chosen(args.source)
    console = Console()
    console.print(f"Simulating {args.samples:,} samples by {source} ...")
    populations = np.arange(args.samples) % len(POPULATIONS)
    if source == "msprime":
        genotypes = simulated(populations, args.variants)
    else:
        genotypes = drawn(populations, args.variants)
    if args.resident:
        genotypes = genotypes.to_device()
    result = decomposed(genotypes, args)

    console.print(cost_table(result))
    console.print(value_table(result))
    share = share_at_home(result, populations)
    console.print(f"Nearer to the middle of their own population than to others: {share:.1%}")
    path = draw(result, populations, args.output)
    console.print(f"Picture: {path}", soft_wrap=True)


def chosen(source):
    """Which simulation, if that is left open."""
    if source != "auto":
        return source
    return "msprime" if importlib.util.find_spec("msprime") is not None else "model"


# ---------------------------------------------------------------- genotypes


def drawn(populations, n_variants):
    """Packed genotypes of populations whose allele frequencies drifted (Balding and Nichols)."""
    random = np.random.default_rng(SEED)
    shares = drifted(random, n_variants)
    data = np.empty((len(populations), -(-n_variants // 4)), dtype=np.uint8)
    step = max(1, MAKE_VALUES // n_variants)
    for first in range(0, len(populations), step):
        members = populations[first : first + step]
        own = shares[members]
        # Of the last population, each has another share of the ancestors.
        mixed = members == len(POPULATIONS) - 1
        part = random.beta(4, 4, size=(np.count_nonzero(mixed), 1)).astype(np.float32)
        own[mixed] = part * shares[0] + (1 - part) * shares[4]
        counts = np.zeros(own.shape, dtype=np.int8)
        for _ in range(2):
            counts += random.random(own.shape, dtype=np.float32) < own
        data[first : first + step] = pack(with_missing(counts, random)).data
    return Packed(data, n_variants)


def drifted(random, n_variants):
    """Allele frequencies (populations, variants): of the ancestors, of three groups, of parts."""
    ancestors = random.uniform(0.1, 0.9, n_variants)
    a, b, c = (after_drift(random, ancestors, 0.02) for _ in range(3))
    parts = [after_drift(random, group, 0.008) for group in (a, a, b, b, c)]
    return np.stack([*parts, ancestors]).astype(np.float32)


def after_drift(random, shares, distance):
    """Frequencies that have drifted so far (a fixation index), from a beta distribution."""
    size = (1 - distance) / distance
    return random.beta(shares * size, (1 - shares) * size).clip(0.01, 0.99)


def simulated(populations, n_variants):
    """Packed genotypes of a history that msprime simulates along a chromosome."""
    import msprime

    names = [name.replace(" ", "_") for name in POPULATIONS]
    sizes = {name: int(np.sum(populations == i)) for i, name in enumerate(names)}
    # More than are wanted: rare variants are left out, and the others are thinned.
    trees = msprime.sim_ancestry(
        sizes,
        demography=history(msprime, names),
        sequence_length=600 * n_variants,
        recombination_rate=5e-8,
        random_seed=SEED,
    )
    trees = msprime.sim_mutations(trees, rate=2e-8, random_seed=SEED, model="binary")
    # msprime has the samples of a population together; here populations take turns.
    order = np.argsort(np.argsort(populations, kind="stable"), kind="stable")
    random = np.random.default_rng(SEED)
    rows = list(common(trees))
    rows = [rows[i] for i in np.linspace(0, len(rows) - 1, min(n_variants, len(rows))).astype(int)]
    return pack(with_missing(np.array(rows).T[order], random))


def common(trees):
    """Counts (samples,) of each variant that is not rare."""
    for variant in trees.variants():
        counts = variant.genotypes.reshape(-1, 2).sum(axis=1, dtype=np.int8)
        if LEAST_SHARE <= counts.mean() / 2 <= 1 - LEAST_SHARE:
            yield counts


def history(msprime, names):
    """Generations ago: A, B and C split 800, their parts 300, and A1 met C 15."""
    demography = msprime.Demography()
    for name in (*names, "A", "B", "ABC"):
        demography.add_population(name=name, initial_size=10_000)
    demography.add_admixture(15, derived=names[5], ancestral=["A1", "C"], proportions=[0.5, 0.5])
    demography.add_population_split(300, derived=["A1", "A2"], ancestral="A")
    demography.add_population_split(300, derived=["B1", "B2"], ancestral="B")
    demography.add_population_split(800, derived=["A", "B", "C"], ancestral="ABC")
    return demography


def with_missing(counts, random):
    """Some genotypes were not read: -1."""
    counts[random.random(counts.shape, dtype=np.float32) < MISSING] = -1
    return counts


# ---------------------------------------------------------------- the decomposition


@dataclass(frozen=True)
class Result:
    """What was found, of how much, in which time."""

    genotypes: Packed
    found: SVD
    error: ErrorEstimate
    seconds: float
    passes: int

    @property
    def coordinates(self):
        """Of the samples, (samples, components)."""
        return self.found.u * self.found.s


def decomposed(genotypes, args):
    """Components of all genotypes, after a few samples have paid for imports."""
    options = {"center": True, "scale": "patterson", "return_error": True, "random_state": SEED}
    options["n_power_iter"] = args.n_power_iter
    with gpuml.config_context(progress=False):
        svd_compressed(genotypes[:50], 2, **options)
    start = time.perf_counter()
    found, error = svd_compressed(genotypes, args.components, **options)
    found = SVD(*(x.get() if hasattr(x, "get") else x for x in found))
    # One for the means, one for each power step, one to project, one for the error.
    passes = args.n_power_iter + 3
    return Result(genotypes, found, error, time.perf_counter() - start, passes)


def share_at_home(result, populations):
    """Of samples, those that are nearest to the mean of their own population."""
    x = result.coordinates[:, :N_DIRECTIONS]
    means = [x[populations == i].mean(axis=0) for i in range(len(POPULATIONS))]
    nearest = np.argmin([((x - mean) ** 2).sum(axis=1) for mean in means], axis=0)
    return np.mean(nearest == populations)


# ---------------------------------------------------------------- telling about it


def cost_table(result):
    """One row for each thing worth knowing."""
    n, p = result.genotypes.shape
    read = result.passes * result.genotypes.nbytes
    table = Table(title="Components of standardised genotypes")
    table.add_column("")
    table.add_column("packed", justify="right")
    for label, value in {
        "samples x variants": f"{n:,} x {p:,}",
        "bytes, packed": f"{result.genotypes.nbytes / 1e6:,.1f} MB",
        "bytes, standardised in float64 (never formed)": f"{8 * n * p / 1e6:,.1f} MB",
        "passes over the genotypes": f"{result.passes}",
        "bytes read": f"{read / 1e6:,.1f} MB",
        "seconds": f"{result.seconds:.3f}",
        "genotypes per second": f"{result.passes * n * p / result.seconds:.2e}",
    }.items():
        table.add_row(label, value)
    return table


def value_table(result):
    """Singular values, and within which distance of them there is one for certain."""
    table = Table(title="Singular values")
    for heading in ("component", "singular value", "error at most", "relative"):
        table.add_column(heading, justify="right")
    values = zip(result.found.s, result.error.singular_values, strict=True)
    for i, (value, error) in enumerate(values, 1):
        table.add_row(str(i), f"{value:,.3f}", f"{error:,.3f}", f"{error / value:.1e}")
    table.caption = f"Products in {result.found.s.dtype}: below 1e-4 rounding has its part"
    return table


def draw(result, populations, folder):
    """Write a scree plot beside the samples along the first four components."""
    import matplotlib

    matplotlib.use("Agg")  # files, on machines without a screen too
    from matplotlib import pyplot

    figure, (scree, *maps) = pyplot.subplots(1, 3, figsize=(13.5, 4.4), layout="constrained")
    draw_scree(scree, result)
    draw_map(maps[0], result, populations, 0)
    draw_map(maps[1], result, populations, 2)
    handles, labels = maps[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, markerscale=2.5)
    n, p = result.genotypes.shape
    figure.suptitle(f"{n:,} samples, {p:,} variants: components in {result.seconds:.2f} s")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "population_structure.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def draw_scree(panel, result):
    """Singular values with their error bounds."""
    values, errors = result.found.s, result.error.singular_values
    counts = np.arange(1, len(values) + 1)
    colors = np.where(counts <= N_DIRECTIONS, "cornflowerblue", "0.85")
    panel.bar(counts, values, color=colors, width=0.75)
    panel.errorbar(counts, values, errors, fmt="o", color="0.25", ms=3, capsize=3)
    panel.set_xticks(counts)
    panel.set(xlabel="component", ylabel="singular value, with its error bound")
    panel.set_title("Five populations differ in four directions")
    panel.spines[["top", "right"]].set_visible(False)


def draw_map(panel, result, populations, first):
    """Samples along two components, coloured by population."""
    x = result.coordinates
    second = first + 1
    # The same picture whatever the number of samples, and no population on top of the others.
    random = np.random.default_rng(SEED)
    shown = random.permutation(len(x))[:MOST_DOTS]
    size = float(np.clip(2e4 / len(shown), 2, 14))
    colors = np.array(COLORS)[populations[shown]]
    panel.scatter(x[shown, first], x[shown, second], s=size, c=colors, alpha=0.6, lw=0)
    for name, color in zip(POPULATIONS, COLORS, strict=True):
        panel.scatter([], [], s=14, color=color, lw=0, label=name)
    panel.axhline(0, color="0.85", lw=0.8, zorder=0)
    panel.axvline(0, color="0.85", lw=0.8, zorder=0)
    panel.set(xlabel=f"PC {first + 1}", ylabel=f"PC {second + 1}")
    panel.set_title(f"Samples along PC {first + 1} and PC {second + 1}")
    panel.spines[["top", "right"]].set_visible(False)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--samples", type=int, default=1_500)
    add("--variants", type=int, default=10_000)
    add("--source", choices=["auto", "msprime", "model"], default="auto")
    add("--components", type=int, default=8)
    add("--n-power-iter", type=int, default=4)
    add("--output", type=Path, default=Path(), help="folder of the picture")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--resident", action="store_true", help="copy the packed genotypes to the GPU first")
    args = parser.parse_args()
    if args.components < N_DIRECTIONS or args.samples < 10 * len(POPULATIONS):
        sys.exit(f"At least {N_DIRECTIONS} components and {10 * len(POPULATIONS)} samples, please.")
    return args


if __name__ == "__main__":
    main()
