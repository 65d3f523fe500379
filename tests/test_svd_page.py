"""docs/svd.md: its examples run, and print what they say."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.exhaustive

PAGE = Path(__file__).parents[1] / "docs" / "svd.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run_blocks(blocks, capsys):
    names = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
        assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", block)


def test_the_examples_of_the_page_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in BLOCKS if "import zarr" not in block and "dask" not in block]
    assert len(blocks) > 5
    run_blocks(blocks, capsys)


def test_the_examples_that_need_more_packages_run(capsys, tmp_path, monkeypatch):
    pytest.importorskip("dask.array", reason="needs gpuml[dask]")
    pytest.importorskip("zarr", reason="needs zarr")
    monkeypatch.chdir(tmp_path)
    run_blocks(BLOCKS, capsys)
