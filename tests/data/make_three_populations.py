"""Writes three_populations.bed, .bim and .fam beside this file: simulated genotypes, 2 % missing.

    pip install msprime bed-reader
    python tests/data/make_three_populations.py

A and B split from each other 600 generations ago, and from C 1,500 generations ago. Neighbouring
variants are inherited apart from each other (a simulation for each of them), as a PCA of
populations wants them, and the rarer allele of each is in at least 5 % of the chromosomes.
"""

from pathlib import Path

import numpy as np

PATH = Path(__file__).with_name("three_populations.bed")
SAMPLES = {"A": 50, "B": 45, "C": 35}
VARIANTS = 1200
MISSING = 0.02
LEAST_SHARE = 0.05
SEED = 7


def main():
    from bed_reader import to_bed

    genotypes = np.array([variant for variant, _ in zip(variants(), range(VARIANTS), strict=False)])
    names = np.repeat(list(SAMPLES), list(SAMPLES.values()))
    random = np.random.default_rng(SEED)
    genotypes[random.random(genotypes.shape) < MISSING] = -127
    properties = {
        "fid": names,
        "iid": [f"{name}{i}" for i, name in enumerate(names)],
        "sid": [f"v{i}" for i in range(VARIANTS)],
        "bp_position": np.arange(VARIANTS),
        "allele_1": ["T"] * VARIANTS,
        "allele_2": ["A"] * VARIANTS,
    }
    to_bed(PATH, genotypes.T, properties=properties)


def variants():
    """Counts (samples,) of the derived allele of one variant after the other."""
    import msprime

    trees = msprime.sim_ancestry(
        SAMPLES, demography=history(), num_replicates=50 * VARIANTS, random_seed=SEED
    )
    for i, tree in enumerate(trees, 1):
        mutated = msprime.sim_mutations(
            tree, 2e-5, random_seed=i, model="binary", discrete_genome=False
        )
        for variant in mutated.variants():
            counts = variant.genotypes.reshape(-1, 2).sum(axis=1).astype(np.int8)
            share = counts.mean() / 2
            if LEAST_SHARE <= share <= 1 - LEAST_SHARE:
                yield counts
                break  # the others of this tree are no news


def history():
    import msprime

    demography = msprime.Demography()
    for name in ("A", "B", "C", "AB", "ABC"):
        demography.add_population(name=name, initial_size=10_000)
    demography.add_population_split(600, derived=["A", "B"], ancestral="AB")
    demography.add_population_split(1_500, derived=["AB", "C"], ancestral="ABC")
    return demography


if __name__ == "__main__":
    main()
