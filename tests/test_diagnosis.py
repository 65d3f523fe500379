"""`show_versions` and `doctor`: what is there, what is not, and what to type."""

import platform
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gpuml
from gpuml._settings import diagnosis as _diagnosis
from tests.test_packaging import requirements_of


def by_part(findings):
    return {finding.part: finding for finding in findings}


def test_versions_are_those_that_are_imported(capsys):
    gpuml.show_versions()
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    found = {line[0]: line[1].strip() for line in lines}
    assert found["gpuml"] == gpuml.__version__
    assert found["python"] == platform.python_version()
    assert found["numpy"] == np.__version__
    assert "no-such-package" not in found


def test_versions_import_nothing():
    code = (
        "import gpuml, sys; gpuml.show_versions();"
        "print({'numpy', 'sklearn', 'cupy', 'cuml', 'dask', 'torch'} & set(sys.modules) or 'none')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "none"


def test_the_doctor_prints_what_it_returns(capsys):
    findings = gpuml.doctor()
    printed = capsys.readouterr().out
    assert [f.part for f in findings][:5] == ["driver", "CuPy", "CuPy memory", "cuML", "cuDF"]
    for finding in findings:
        assert finding.part in printed
        assert finding.found in printed
        assert finding.advice in printed
    assert by_part(findings)["CPU"].works


def test_the_doctor_ends_with_a_summary_and_prints_its_findings_once(monkeypatch, capsys):
    found = [_diagnosis.Finding("driver", None, "no driver")]
    monkeypatch.setattr(_diagnosis, "_findings", lambda: iter(found))

    def last():
        assert repr(gpuml.doctor()) == f"<{len(found)} findings, printed above>"
        return capsys.readouterr().out.splitlines()[-1]

    assert last().startswith("Nothing is broken. gpuml runs on the CPU")
    found[0] = found[0]._replace(works=True)
    assert last() == "Nothing is broken."
    found.append(_diagnosis.Finding("CuPy", False, "sees no GPU"))
    assert last() == "To fix: CuPy."


@pytest.mark.parametrize(("number", "words"), [(1, "with 1 thread"), (4, "with 4 threads")])
def test_threads_of_blas_in_words(monkeypatch, number, words):
    pool = {"internal_api": "openblas", "user_api": "blas", "num_threads": number}
    monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: [pool])
    assert _diagnosis._threads() == f"openblas {words}"


def test_without_a_driver_nobody_is_told_to_install_what_needs_one(monkeypatch):
    monkeypatch.setattr(_diagnosis, "driver_version", lambda: None)
    monkeypatch.setattr(_diagnosis.importlib.util, "find_spec", lambda name: None)
    found = by_part(gpuml.doctor())
    assert "runs on the CPU" in found["driver"].found
    assert found["CuPy"] == _diagnosis.Finding("CuPy", None, "not needed on a CPU", "")
    assert "gpuml[dask]" in found["Dask"].advice


@pytest.mark.parametrize(
    ("version", "words", "extra"),
    [(12_040, "CUDA 12.4", "gpu-cu12"), (13_010, "CUDA 13.1", "gpu-cu13")],
)
def test_with_a_driver_the_extra_of_its_cuda_is_advised(monkeypatch, version, words, extra):
    monkeypatch.setattr(_diagnosis, "driver_version", lambda: version)
    monkeypatch.setattr(_diagnosis.importlib.util, "find_spec", lambda name: None)
    found = by_part(gpuml.doctor())
    assert found["driver"].found == words
    assert found["CuPy"].advice == f"pip install 'gpuml[{extra}]'"
    assert extra.replace("gpu", "dask") in found["dask-cuda"].advice


PACKAGES = {
    "CuPy": "cupy-cuda",
    "cuML": "cuml-cu",
    "cuDF": "cudf-cu",
    "CUPTI": "cupti-python",
    "Dask": "dask",
    "dask-cuda": "dask-cuda",
    "UCX": "distributed-ucxx",
}


@pytest.mark.parametrize("version", [12_040, 13_010])
def test_an_extra_that_is_advised_brings_what_is_missing(monkeypatch, version):
    monkeypatch.setattr(_diagnosis, "driver_version", lambda: version)
    monkeypatch.setattr(_diagnosis.importlib.util, "find_spec", lambda name: None)
    found = by_part(gpuml.doctor())
    for part, package in PACKAGES.items():
        advice = found[part].advice
        assert advice, part
        for extra in re.findall(r"gpuml\[([^]]*)\]", advice):
            assert any(line.startswith(package) for line in requirements_of(extra)), part


def test_what_is_installed_and_fails_is_broken_and_says_how(monkeypatch):
    blind = SimpleNamespace(__version__="14.2.0", is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "cupy", blind)
    monkeypatch.setattr(_diagnosis.importlib.util, "find_spec", lambda name: object())

    def fail(name):
        if name == "cupy":
            return blind
        raise ImportError(f"{name}: a library is missing\nand more lines")

    monkeypatch.setattr(_diagnosis.importlib, "import_module", fail)
    found = by_part(_diagnosis.doctor())
    assert found["CuPy"].works is False
    assert "sees no GPU" in found["CuPy"].found
    assert found["cuML"].found == "ImportError: cuml: a library is missing"


@pytest.mark.parametrize(
    ("names", "driver", "words"),
    [
        (("cupy-cuda12x", "cupy-cuda13x"), 13_000, "cupy-cuda12x and cupy-cuda13x overwrite"),
        (("cupy-cuda13x",), 12_080, "needs a driver for CUDA 13; this one is for 12.8"),
        (("cupy-cuda13x",), 13_000, None),
        (("cupy-cuda12x",), 13_000, None),
    ],
)
def test_distributions_of_cupy_that_do_not_go_together_are_told(monkeypatch, names, driver, words):
    monkeypatch.setattr(_diagnosis, "driver_version", lambda: driver)
    monkeypatch.setattr(_diagnosis, "_is_installed", lambda name: name in names)
    found = by_part(gpuml.doctor()).get("CuPy packages")
    assert (found is None) == (words is None)
    if found is not None:
        assert found.works is False
        assert words in found.found
        assert found.advice.startswith(f"pip uninstall {' '.join(names)}; pip install 'gpuml[gpu-")


def test_looking_at_cuml_leaves_the_allocator(monkeypatch):
    used = ["CuPy's"]

    def imported(name):
        if name == "cupy":
            cuda = SimpleNamespace(get_allocator=lambda: used[-1], set_allocator=used.append)
            return SimpleNamespace(cuda=cuda)
        used.append("RMM's")
        return SimpleNamespace(__version__="26.10")

    monkeypatch.setattr(_diagnosis.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(_diagnosis.importlib, "import_module", imported)
    assert _diagnosis._cuml() == "26.10"
    assert used == ["CuPy's", "RMM's", "CuPy's"]


@pytest.mark.gpu
def test_on_a_gpu_the_driver_and_cupy_work():
    pytest.importorskip("cupy")
    found = by_part(gpuml.doctor())
    assert found["driver"].works
    assert found["CuPy"].works
    assert "GiB" in found["CuPy"].found
