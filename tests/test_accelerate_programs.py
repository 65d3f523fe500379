"""Whole programs under acceleration: as Python runs them, with the same results; and processes."""

import json
import pickle
import py_compile
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import gpuml

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "accelerated_script.py"
PAGE = ROOT / "docs" / "accelerate.md"


def python(*arguments, **options):
    """What an interpreter exits with and prints."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, **options
    )
    return done.returncode, done.stdout, done.stderr


def output_of(*arguments, **options):
    code, out, error = python(*arguments, **options)
    assert code == 0, error
    return out


def script(folder, text, name="script.py"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.exhaustive
def test_only_modules_that_are_asked_for_are_imported():
    out = output_of(
        "-c",
        "import gpuml, sys; print('sklearn' in sys.modules)\n"
        "gpuml.accelerate('sklearn.impute', quiet=True)\n"
        "print('sklearn.impute' in sys.modules, 'gpuml.model_selection' in sys.modules)",
    )
    assert out.split() == ["False", "True", "False"]


HALVING = [f"sklearn.model_selection.Halving{kind}SearchCV" for kind in ("Grid", "Random")]


@pytest.mark.exhaustive
def test_what_was_imported_before_does_not_change_what_is_replaced():
    replaced = "import gpuml; print(*gpuml.accelerate(quiet=True).replaced)\n"
    enable = "from sklearn.experimental import enable_halving_search_cv\n"
    fresh, again = (line.split() for line in output_of("-c", replaced * 2).splitlines())
    assert set(HALVING) <= set(fresh)
    assert again == fresh
    assert output_of("-c", enable + replaced).split() == fresh


@pytest.mark.exhaustive
def test_names_that_scikit_learn_has_later_may_be_asked_for():
    code = f"import gpuml; print(*gpuml.accelerate(*{HALVING[:1]}, quiet=True).replaced)"
    assert output_of("-c", code).split() == HALVING[:1]


# ---------------------------------------------------------------- pickles and processes


@pytest.mark.exhaustive
def test_pickles_load_without_acceleration(tmp_path):
    with gpuml.accelerate(quiet=True):
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import FeatureUnion, make_pipeline
        from sklearn.preprocessing import StandardScaler

    X = np.random.default_rng(0).normal(size=(20, 3))
    model = make_pipeline(FeatureUnion([("s", StandardScaler())]), Ridge()).fit(X, X[:, 0])
    path = tmp_path / "model.pickle"
    with gpuml.accelerate(quiet=True):
        path.write_bytes(pickle.dumps((model, X, model.predict(X))))
    code = (
        f"import pickle; model, X, y = pickle.load(open({str(path)!r}, 'rb'))\n"
        "print(type(model[-1]).__module__, abs(model.predict(X) - y).max() < 1e-12)\n"
        "import sklearn.linear_model as c; print(c.Ridge.__module__)"
    )
    assert output_of("-c", code).split() == [
        *("gpuml.linear_model.ridge", "True", "sklearn.linear_model._ridge")
    ]


WORKERS = """
import multiprocessing
import sys
import joblib
import numpy as np
import sklearn.linear_model as models
from sklearn.linear_model import Ridge

X = np.arange(12.0).reshape(6, 2)

def fitted(alpha):
    return type(Ridge(alpha=alpha).fit(X, X[:, 0])).__module__, type(models).__name__

def kind(model):
    return type(model).__module__, Ridge.__module__

if __name__ == "__main__":
    rows = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(fitted)(a) for a in (1, 2))
    print({module for module, _ in rows})
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(kind, [Ridge().fit(X, X[:, 0])]))
"""
CALL = "import gpuml\ngpuml.accelerate('sklearn.linear_model', quiet=True)\n"
OUR_MODULE, THEIR_MODULE = "gpuml.linear_model.ridge", "sklearn.linear_model._ridge"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("before", "text", "in_new_process"),
    [(["-m", "gpuml", "-q"], WORKERS, THEIR_MODULE), ([], CALL + WORKERS, OUR_MODULE)],
    ids=["python -m gpuml", "a call in the script"],
)
def test_models_and_functions_go_to_workers(tmp_path, before, text, in_new_process):
    path = script(tmp_path, text)
    rows = output_of(*before, path).splitlines()
    assert rows == [str({OUR_MODULE}), str([(OUR_MODULE, in_new_process)])]


# ---------------------------------------------------------------- python -m gpuml

SHOW = """import json, sys
main = sys.modules["__main__"]
print(json.dumps([
    __name__, globals().get("__file__"), sys.argv, sys.path[0], __package__, type(__loader__).__name__,
    __spec__ and __spec__.name, vars(main) is globals(), __doc__,
]))
"""
PROGRAMS = {
    "script": ["folder/show.py", "--only", "-q", "--", "x"],
    "path with dots": ["./folder/../folder/show.py", "-m", "json"],
    "link": ["link.py"],
    "compiled": ["folder/show.pyc"],
    "folder": ["folder", "x"],
    "zip": ["folder.zip"],
    "module": ["-m", "folder.show", "-c", "--device", "x"],
    "attached": ["-mfolder.show", "x", "--y"],
    "package": ["-m", "folder"],
    "string": ["-c", SHOW, "-q", "x"],
    "standard input": ["-", "x"],
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    root = tmp_path_factory.mktemp("programs")
    folder = root / "folder"
    folder.mkdir()
    for name in ("show.py", "__main__.py"):
        script(folder, SHOW, name)
    py_compile.compile(str(folder / "show.py"), cfile=str(folder / "show.pyc"))
    with zipfile.ZipFile(root / "folder.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    (root / "link.py").symlink_to(folder / "show.py")
    return root


@pytest.fixture
def both(tmp_path, monkeypatch):
    """What Python makes of a program, and what ``python -m gpuml`` makes of it."""
    # A scikit-learn without modules, for interpreters that start at once: nothing is replaced.
    (tmp_path / "stub" / "sklearn").mkdir(parents=True)
    script(tmp_path / "stub" / "sklearn", "", "__init__.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stub"))

    def run(*arguments, **options):
        return python(*arguments, **options), python("-m", "gpuml", *arguments, **options)

    return run


@pytest.mark.parametrize("arguments", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_are_set_up_as_by_python(both, programs, arguments):
    expected, ours = both(*arguments, cwd=programs, input=SHOW)
    assert expected[0] == 0
    assert ours == expected


FAILURES = {
    "exit code": "import sys; sys.exit(3)",
    "exit text": "raise SystemExit('enough')",
    "error": "def f():\n    1 / 0\n\ntry:\n    f()\nexcept ZeroDivisionError as e:\n"
    "    e.add_note('a note')\n    raise KeyError('a') from e\n",
    "syntax": "x = 1\ny = (2,\n",
    "interrupt": "raise KeyboardInterrupt",
    "at exit": "import atexit, sys\nx = 5\n"
    "atexit.register(lambda: print(x, __name__, sys.modules['__main__'].x))\nraise ValueError(x)",
    "own hook": "import sys, traceback\n"
    "sys.excepthook = lambda *a: print(len(traceback.extract_tb(a[2])), a[:2])\n"
    "def f(): raise ValueError('mine')\nf()\n",
}


@pytest.mark.parametrize("text", FAILURES.values(), ids=FAILURES)
def test_programs_end_as_under_python(both, tmp_path, text):
    expected, ours = both(script(tmp_path, text).name, cwd=tmp_path)
    assert ours == expected


@pytest.mark.exhaustive
@pytest.mark.some
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing.py"], 2, "can't open file '.*nothing.py': \\[Errno 2\\] No such file"),
        (["."], 1, "can't find '__main__' module in"),
        ([], 2, "there is nothing to run: name a script, -m MODULE or -c CODE"),
        (["--only", "sklearn.svn", "-c", "1"], 2, "error: gpuml has no counterpart"),
        (["--only", "", "-c", "1"], 2, "names with commas between are expected"),
        (["--device", "gpu", "-c", "1"], 2, "invalid choice: 'gpu'"),
        (["-q", "-m", "no.such"], 1, "No module named no"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path, arguments, code, message):
    ours, out, error = python("-m", "gpuml", *arguments, cwd=tmp_path)
    assert (ours, out) == (code, "")
    assert re.search(message, error), error
    assert "Traceback" not in error


@pytest.mark.exhaustive
def test_options_choose_names_and_the_device():
    options = ["--only", "sklearn.linear_model.Ridge,sklearn.pipeline", "--device", "cpu"]
    code = "import gpuml; print(gpuml.get_config()['device'])"
    done = python("-m", "gpuml", *options, "-c", code)
    names = (
        "sklearn.linear_model.Ridge",
        "sklearn.pipeline.FeatureUnion",
        "sklearn.pipeline.make_union",
    )
    assert done == (0, "cpu\n", f"gpuml: replaced {', '.join(names)}\n")


@pytest.mark.exhaustive
def test_packages_of_a_module_are_imported_after_the_names_are_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    script(tmp_path / "mine", "from sklearn.impute import SimpleImputer", "__init__.py")
    script(tmp_path / "mine", "import mine; print(mine.SimpleImputer.__module__)", "run.py")
    out = output_of(
        *("-m", "gpuml", "-q", "--only", "sklearn.impute", "-m", "mine.run"), cwd=tmp_path
    )
    assert out.startswith("gpuml.")


@pytest.mark.exhaustive
def test_an_unchanged_script_gives_the_same_results():
    theirs = output_of(EXAMPLE).splitlines()
    code, out, error = python("-m", "gpuml", EXAMPLE)
    assert code == 0, error
    first, *report = error.splitlines()
    assert re.fullmatch(r"gpuml: replaced \d+ names of \d+ scikit-learn modules", first)
    assert re.fullmatch(r"gpuml: 2 searches, \d+ fits in [\d.]+ s", report[0])
    assert "all candidates together" in report[1]
    assert re.fullmatch(r"gpuml:   saved at least \d+ passes over the rows: .*", report[2])
    assert re.fullmatch(r"gpuml:   (saved|lost) about [\d.]+ s: .* \(an estimate: .*", report[3])
    ours = out.splitlines()
    assert ours[0] == theirs[0]
    for mine, expected in zip(ours[1:], theirs[1:], strict=True):
        *names, score, mean, library = mine.split()
        *their_names, their_score, their_mean, their_library = expected.split()
        assert (names, library, their_library) == (their_names, "gpuml", "sklearn")
        np.testing.assert_allclose(
            [float(score), float(mean)], [float(their_score), float(their_mean)], atol=2e-4
        )


@pytest.mark.exhaustive
def test_search_results_are_the_same_to_many_digits(tmp_path):
    text = (
        "import json, numpy as np\n"
        "from sklearn.datasets import load_diabetes\n"
        "from sklearn.linear_model import Ridge\n"
        "from sklearn.model_selection import GridSearchCV, train_test_split\n"
        "from sklearn.pipeline import Pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "X, X2, y, y2 = train_test_split(*load_diabetes(return_X_y=True), random_state=0)\n"
        "steps = [('scale', StandardScaler()), ('ridge', Ridge())]\n"
        "grid = {'ridge__alpha': np.logspace(-3, 3, 7)}\n"
        "search = GridSearchCV(Pipeline(steps), grid, cv=4).fit(X, y)\n"
        "best = search.best_estimator_['ridge']\n"
        "print(json.dumps([search.best_params_, search.score(X2, y2), *best.coef_, "
        "*search.cv_results_['mean_test_score'], *search.cv_results_['rank_test_score'].tolist()]))"
    )
    path = script(tmp_path, text)
    (best, *theirs), (our_best, *ours) = (
        json.loads(output_of(*before, path)) for before in ([], ["-m", "gpuml", "-q"])
    )
    assert our_best == best
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


@pytest.mark.exhaustive
def test_the_examples_of_the_page_run(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    out = output_of(script(tmp_path, "\n".join(blocks)))
    shown = re.findall(r"^print\(.*# (.*)$", "\n".join(blocks), re.MULTILINE)
    assert shown
    assert out.splitlines() == shown
