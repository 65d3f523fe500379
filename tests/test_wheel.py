"""The wheel: what is in it, and that the README's first example runs from it alone."""

import importlib.util
import io
import os
import re
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import gpuml
from tests.wheels import PACKAGES, ROOT, SETUPTOOLS, build_wheel, run

pytestmark = pytest.mark.exhaustive


def sources():
    """Files of both packages, as they are named in a wheel."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*"))
    files = (path for path in found if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def check_contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (about,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        metadata = Parser().parsestr(archive.read(f"{about}/METADATA").decode())
        licence = archive.read(f"{about}/licenses/LICENSE").decode()
    held = {name for name in names if not name.startswith(about)}
    # Nothing is missing, and nothing is there that is not a file of a package.
    assert held == sources()
    assert "gpuml/py.typed" in held
    assert {name for name in held if name.endswith((".cu", ".cuh"))}
    assert licence == (ROOT / "LICENSE").read_text()
    assert metadata["Version"] == gpuml.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(line.startswith("scikit-learn") for line in metadata.get_all("Requires-Dist"))


def first_example():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return blocks[0]


# One test, so that one process builds the wheel, once.
def test_the_wheel_has_what_it_should_and_runs_the_readme_s_example(tmp_path):
    pytest.importorskip("setuptools", minversion=SETUPTOOLS)
    pytest.importorskip("pip")
    wheel = build_wheel(tmp_path)
    check_contents(wheel)

    target, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    run([*pip, "--no-deps", "--no-index", "--no-compile", "--target", str(target), str(wheel)],
        elsewhere)  # fmt: skip
    script = elsewhere / "example.py"
    script.write_text(first_example())
    # The folder comes before whatever this environment has, such as this repository itself.
    where = "import gpuml, gpuml_dask; print(gpuml.__path__[0], gpuml_dask.__path__[0])"
    found = run([sys.executable, "-c", where], elsewhere, PYTHONPATH=str(target)).split()
    assert [Path(name) for name in found] == [target / package for package in PACKAGES]
    printed = run([sys.executable, str(script)], elsewhere, PYTHONPATH=str(target))
    assert "alpha" in printed


def test_an_sdist_packed_again_is_the_same_whatever_the_files_times(tmp_path):
    spec = importlib.util.spec_from_file_location("dist", ROOT / ".ci" / "dist.py")
    dist = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dist)

    def archive(names, time):
        path = tmp_path / "a.tar.gz"
        with tarfile.open(path, "w:gz") as made:
            for name in names:
                (tmp_path / name).write_text(name * 100)
                os.utime(tmp_path / name, (time, time))
                made.add(tmp_path / name, f"a-1/{name}")
        return path.read_bytes()

    one, other = archive(["x", "y"], 1e9), archive(["y", "x"], 2e9)
    assert one != other
    packed = dist.packed_again(one, 1_600_000_000)
    assert packed == dist.packed_again(other, 1_600_000_000)
    with tarfile.open(fileobj=io.BytesIO(packed)) as new:
        assert new.getnames() == ["a-1/x", "a-1/y"]
        assert new.extractfile("a-1/y").read() == b"y" * 100
        assert {member.mtime for member in new} == {1_600_000_000}
