"""What type checkers of users know of the public classes."""

import inspect
import re
import tomllib
from typing import Self

import pytest

from tests.test_architecture import ROOT, SOURCES

pytest.importorskip("numpydoc")  # by which the list of public classes is read

from tests.test_docstrings import CLASSES


def fits():
    """`fit` and `partial_fit` of public classes that the two packages write out."""
    for name, kind in CLASSES.items():
        for key in ("fit", "partial_fit"):
            method = inspect.unwrap(getattr(kind, key, None) or repr)
            written = getattr(method, "__module__", None) or ""
            if written.split(".")[0] in ("gpuml", "gpuml_dask"):
                yield pytest.param(method, id=f"{name}.{key}")


@pytest.mark.parametrize("method", list(fits()))
def test_fit_gives_an_estimator_of_its_own_class(method):
    assert inspect.get_annotations(method).get("return") is Self


def test_no_module_is_left_out():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert told["files"] == ["gpuml", "gpuml_dask"]
    silent = {"exclude", "ignore_errors", "disable_error_code"}
    assert not [each for each in (told, *told.get("overrides", ())) if silent & set(each)]
    whole = r"(?m)^# *(?:mypy: *|type: *ignore *$)"  # comments that leave out a whole module
    assert not [name for name, source in SOURCES.items() if re.search(whole, source)]


@pytest.mark.exhaustive
def test_a_type_checker_sees_it_behind_decorators(tmp_path):
    api = pytest.importorskip("mypy.api")
    classes = {
        "gpuml.linear_model.Ridge": "Ridge",
        "gpuml.model_selection.GridSearchCV": "GridSearchCV",
        "gpuml.preprocessing.StandardScaler": "StandardScaler",
        "gpuml_dask.linear_model.Ridge": "Ridge",
    }
    lines = []
    for i, path in enumerate(classes):
        module, _, name = path.rpartition(".")
        lines.append(f"from {module} import {name} as C{i}")
        lines.append(f"def of{i}(model: C{i}) -> None: reveal_type(model.fit([[1.0]], [1.0]))")
    program = tmp_path / "program.py"
    program.write_text("\n".join(lines))
    options = (
        *("--config-file", str(ROOT / "pyproject.toml")),
        *("--cache-dir", str(ROOT / ".mypy_cache")),
    )
    said, errors, _ = api.run([*options, str(program)])
    seen = [line.split('"')[1].rpartition(".")[2] for line in said.splitlines() if '"' in line]
    assert (seen, errors) == (list(classes.values()), "")
