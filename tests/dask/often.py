"""How often tests repeat what is to hold at whatever moment something dies."""

import os

# A few moments in each run of the tests; more of them when one is to look for rare errors.
TIMES = int(os.environ.get("GPUML_TEST_TIMES", "1"))


def seeds(n_seeds):
    """Seeds of moments: `n_seeds`, which are enough to meet every case, or some times as many."""
    return range(n_seeds * TIMES)
