"""The guide to gpuml_dask does what it says."""

import re
from pathlib import Path

import numpy as np
import pytest

from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"


@pytest.mark.exhaustive
def test_the_examples_of_the_page_run(client, capsys):
    script, *others = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {"__name__": "__main__"}  # the script starts a cluster of its own
    exec(compile(script, PAGE.name, "exec"), names)
    assert "50 fits in 1 pass" in capsys.readouterr().out
    for block in others:
        exec(compile(block, PAGE.name, "exec"), names)
    out = capsys.readouterr().out
    for text in (
        "rows divided",
        "7 of 10 chunks of X (2.24 MB)",
        "tcp://",
        "[10, 4, 2] [2222, 6666, 19998]",
        "<class 'numpy.ndarray'> 1.0",
        "((5000, 5000, 5000, 5000),)",
    ):
        assert text in out
    assert out.endswith("\n0\n")  # passes of the search that was finished before

    expected = GridSearchCV(Ridge(), names["grid"]).fit(names["X"], names["y"])
    for search in (names["ridge"], names["by_rows"], names["again"]):
        np.testing.assert_allclose(
            search.cv_results_["mean_test_score"],
            expected.cv_results_["mean_test_score"],
            rtol=1e-10,
        )
    assert "all candidates together, rows divided" in str(names["tables"].plan_)
    assert names["logistic"].best_score_ > 0.9
    assert names["hyperband"].best_score_ > 0.9
    assert names["predictions"].compute().shape == (20_000,)
    names.clear()  # or its futures would still be on the workers
