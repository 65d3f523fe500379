"""gpuml's settings among Dask's: defaults, a schema, and the table of the guide agree."""

import re
from pathlib import Path

import dask
import pytest

import gpuml_dask._dask
from gpuml_dask._annotations import submit_near
from gpuml_dask.rows.placement import MEMORY
from gpuml_dask.searching.by_rows import ASKED_PLAN
from gpuml_dask.sums.divided import BLOCK_BYTES
from gpuml_dask.waiting import PATIENCE, patience

ROOT = Path(__file__).parents[2]
USED = {PATIENCE, ASKED_PLAN, BLOCK_BYTES, MEMORY}


def read(path):
    (found,) = dask.config.collect_yaml([str(path)])
    return found


def test_every_setting_has_a_default_a_schema_and_a_line_in_the_guide():
    defaults = read(gpuml_dask._dask.SETTINGS)["gpuml"]
    schema = read(gpuml_dask._dask.SETTINGS.with_name("gpuml-schema.yaml"))
    guide = (ROOT / "docs" / "distributed.md").read_text()
    assert {f"gpuml.{name}" for name in defaults} == USED
    assert schema["properties"]["gpuml"]["properties"].keys() == defaults.keys()
    for name, default in defaults.items():
        (line,) = re.findall(rf"^\| `gpuml\.{name}` \|.*$", guide, re.M)
        assert f'"{default}"' in line if isinstance(default, str) else f"| {default} |" in line


def test_settings_are_found_where_dask_looks():
    with dask.config.set({"gpuml.patience": "2 minutes"}):
        assert patience() == 120
    assert dask.config.get("gpuml.patience") == "60s"


@pytest.mark.parametrize("strictly", [False, True])
def test_tasks_run_on_workers_of_their_own_and_are_one_message(client, monkeypatch, strictly):
    messages, send = [], client._send_to_scheduler
    monkeypatch.setattr(client, "_send_to_scheduler", lambda m: messages.append(m["op"]) or send(m))
    workers = sorted(client.nthreads())
    number = client.submit(int, 5, pure=False)
    homes = {("near", i): workers[i % len(workers)] for i in range(12)}
    tasks = {key: (pow, number, key[1]) for key in homes}
    before = messages.count("update-graph")
    futures = submit_near(client, tasks, homes, priority=1, strictly=strictly)
    assert messages.count("update-graph") == before + 1
    assert client.gather(futures) == [5**i for i in range(12)]
    assert [future.key for future in futures] == list(homes)
    for key, held_by in client.who_has(futures).items():
        key = next(each for each in homes if str(each) == str(key))
        assert homes[key] in held_by
