"""What type checkers of users know of the public classes."""

import inspect
import json
import re
import subprocess
import sys
import tomllib
from typing import Self

import pytest

import gpuml
from gpuml._settings.config import Options
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


def test_type_checkers_know_every_setting():
    assert set(Options.__annotations__) == set(gpuml.get_config())


RIGHT = """\
import numpy as np

import gpuml
from gpuml.cluster import KMeans
from gpuml.ensemble import RandomForestClassifier
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

X, y = np.zeros((10, 2)), np.zeros(10)
gpuml.set_config(device="cpu", block_bytes=2**20, progress=False, fallback="warn")
with gpuml.config_context(device="auto", block_bytes=None):
    model = Ridge(alpha=0.1, fit_intercept=False).fit(X, y)
print(model.coef_, model.predict(X))
pipe = make_pipeline(StandardScaler(), Ridge())
search = GridSearchCV(pipe, {"ridge__alpha": [1.0]}, cv=5, refit="1se").fit(X, y)
print(search.best_params_, search.plan_)


def share(forest: RandomForestClassifier) -> object:
    return forest.predict_proba(X)


print(share(RandomForestClassifier(n_estimators=10, max_depth=3).fit(X, y)))
print(KMeans(n_clusters=3, random_state=0).fit(X).labels_)
gpuml.save(model, "model.joblib")
"""
WRONG = {
    'gpuml.set_config(device="gpu")': 'Literal[\'gpu\']" cannot be assigned to parameter "device"',
    'gpuml.set_config(devise="cpu")': 'No parameter named "devise"',
    "Ridge(alfa=1.0)": 'No parameter named "alfa"',
    "Ridge().fitt(X, y)": 'Cannot access attribute "fitt"',
    "RandomForestClassifier(n_trees=10)": 'No parameter named "n_trees"',
    "KMeans(k=3)": 'No parameter named "k"',
}


@pytest.mark.exhaustive
def test_pyright_takes_a_right_script_and_finds_each_mistake_of_a_wrong_one(tmp_path):
    pytest.importorskip("pyright")
    imports = RIGHT.partition("gpuml.set_config")[0]
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(imports + "\n".join(WRONG) + "\n")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot start here: {(done.stderr or done.stdout)[-300:]}")
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [each for each in found if each["severity"] == "error"]
    assert not [each for each in errors if each["file"].endswith("right.py")]
    first = imports.count("\n")
    by_line = {each["range"]["start"]["line"] - first: each["message"] for each in errors}
    for line, (call, words) in enumerate(WRONG.items()):
        assert words in by_line.get(line, ""), call
    assert len(by_line) == len(WRONG)
