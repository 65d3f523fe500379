"""Imports from scikit-learn give gpuml's classes: to whom, for how long, and what stays as it is."""

import contextlib
import doctest
import importlib
import inspect
import itertools
import pickle
import sys
import sysconfig
import threading
import unittest.mock
from pathlib import Path
from types import ModuleType, SimpleNamespace

import joblib
import pytest
import sklearn.datasets
import sklearn.linear_model
import sklearn.pipeline
from sklearn.preprocessing import StandardScaler as TheirScaler
from sklearn.utils import all_estimators

import gpuml
import gpuml.linear_model
import gpuml.pipeline
from gpuml._accelerate import table

ROOT = Path(__file__).parents[1]

THEIRS, OURS = sklearn.linear_model.Ridge, gpuml.linear_model.Ridge
# Defined in the public module itself, which is where pickles look for it.
THEIR_UNION, OUR_UNION = sklearn.pipeline.FeatureUnion, gpuml.pipeline.FeatureUnion


@pytest.fixture
def accelerated():
    with gpuml.accelerate(quiet=True) as acceleration:
        yield acceleration


# ---------------------------------------------------------------- what is replaced


def classes_in_both():
    """Classes of gpuml that subclass one of the same name in the module of the same path."""
    for path in sorted((ROOT / "gpuml").glob("[a-z]*")):
        if importlib.util.find_spec(f"sklearn.{path.stem}") is None:
            continue
        theirs = importlib.import_module(f"sklearn.{path.stem}")
        ours = importlib.import_module(f"gpuml.{path.stem}")
        for name in getattr(ours, "__all__", ()):
            mine, original = getattr(ours, name), vars(theirs).get(name)
            if mine is not original and isinstance(original, type) and issubclass(mine, original):
                yield f"sklearn.{path.stem}.{name}", mine


def test_every_class_that_gpuml_has_too_is_replaced(accelerated):
    expected = dict(classes_in_both())
    assert {
        *("sklearn.model_selection.GridSearchCV", "sklearn.model_selection.RandomizedSearchCV"),
        *("sklearn.model_selection.HalvingGridSearchCV", "sklearn.linear_model.Ridge"),
        *("sklearn.preprocessing.StandardScaler", "sklearn.compose.ColumnTransformer"),
    } <= set(expected)
    assert expected.items() <= accelerated.replaced.items()


def test_functions_are_replaced_where_signatures_are_the_same(accelerated):
    functions = {path for path, ours in accelerated.replaced.items() if inspect.isfunction(ours)}
    assert functions >= {
        *("sklearn.compose.make_column_transformer", "sklearn.pipeline.make_union"),
        *("sklearn.model_selection.cross_val_score", "sklearn.model_selection.cross_validate"),
    }
    assert not any(path.startswith("sklearn.metrics") for path in accelerated.replaced)


def test_what_is_replaced_has_the_same_parameters(accelerated):
    for path, ours in accelerated.replaced.items():
        if path.startswith("umap."):
            continue
        module, _, name = path.rpartition(".")
        theirs = vars(sys.modules[module])[name]
        assert inspect.isfunction(ours) or issubclass(ours, theirs), path
        mine = list(inspect.signature(ours).parameters)
        known = list(inspect.signature(theirs).parameters)
        assert mine[: len(known)] == known, path


@pytest.mark.parametrize(
    ("names", "there", "not_there"),
    [
        (["sklearn"], "sklearn.pipeline.FeatureUnion", None),
        (["sklearn.linear_model"], "sklearn.linear_model.Lasso", "sklearn.pipeline.FeatureUnion"),
        (
            ["sklearn.linear_model.Ridge"],
            "sklearn.linear_model.Ridge",
            "sklearn.linear_model.Lasso",
        ),
        (["sklearn.pipeline", "sklearn.impute"], "sklearn.impute.SimpleImputer", None),
    ],
    ids=str,
)
def test_names_choose_modules_and_names_in_them(names, there, not_there):
    with gpuml.accelerate(*names, quiet=True) as acceleration:
        assert there in acceleration.replaced
        assert not_there not in acceleration.replaced


def test_classes_of_other_packages_are_replaced_once_they_are_imported(tmp_path, monkeypatch):
    package = 'class UMAP: "one"\nclass Other: "one"\n'
    (tmp_path / "their_umap.py").write_text(package)
    (tmp_path / "our_manifold.py").write_text(package + "__all__ = ['UMAP']\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(table, "OTHERS", {"their_umap": "our_manifold", "not_installed": "gpuml"})
    assert "their_umap.UMAP" not in table.chosen(())
    with gpuml.accelerate("their_umap.UMAP", quiet=True) as acceleration:
        import our_manifold
        import their_umap

        assert acceleration.replaced == {"their_umap.UMAP": our_manifold.UMAP}
        assert their_umap.UMAP is our_manifold.UMAP
        assert their_umap.Other is not our_manifold.Other
    assert "their_umap.UMAP" in table.chosen(())
    for name in ("their_umap", "our_manifold"):
        del sys.modules[name]


@pytest.mark.parametrize(
    ("names", "options", "error", "message"),
    [
        (["sklearn.linear_model.Rid"], {}, ValueError, r"'sklearn.linear_model.Rid'. .*Ridge,"),
        (["Ridge"], {}, ValueError, "gpuml has no counterpart of 'Ridge'"),
        (["sklearn.svn", "sklearn.pipeline"], {}, ValueError, "counterpart of 'sklearn.svn'"),
        (["sklearn.metrics.r2_score"], {}, ValueError, "no counterpart"),
        ([["sklearn.pipeline"]], {}, TypeError, "an argument of its own"),
        ([], {"packages": "mine"}, TypeError, r"\('mine',\)"),
        ([], {"packages": ["mine", "sklearn.ensemble"]}, ValueError, "keep their own classes"),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_replaced(names, options, error, message):
    with pytest.raises(error, match=message):
        gpuml.accelerate(*names, **options)
    assert type(sklearn.pipeline) is ModuleType


def test_it_does_not_work_beside_accelerators_of_the_same_names(monkeypatch):
    accel = SimpleNamespace(enabled=lambda: True)
    monkeypatch.setitem(sys.modules, "cuml.accel", accel)
    with pytest.raises(RuntimeError, match=r"cuml\.accel is enabled"):
        gpuml.accelerate("sklearn.linear_model")
    accel.enabled = lambda: False
    gpuml.accelerate("sklearn.linear_model", quiet=True).undo()

    class Lazy(ModuleType):
        pass

    sklearn.linear_model.__class__ = Lazy
    try:
        with pytest.raises(RuntimeError, match=r"sklearn\.linear_model was changed by another"):
            gpuml.accelerate("sklearn.linear_model")
    finally:
        sklearn.linear_model.__class__ = ModuleType


# ---------------------------------------------------------------- who gets it

WAYS = {
    "from": "from sklearn.linear_model import Ridge as found",
    "attribute": "import sklearn.linear_model\nfound = sklearn.linear_model.Ridge",
    "alias": "import sklearn.linear_model as c\nfound = c.Ridge",
    "module": "from sklearn import linear_model\nfound = linear_model.Ridge",
    "star": "from sklearn.linear_model import *\nfound = Ridge",
    "getattr": "import sklearn\nfound = getattr(sklearn.linear_model, 'Ridge')",
    "importlib": "import importlib\nfound = importlib.import_module('sklearn.linear_model').Ridge",
    "called": "import sklearn.linear_model as c\nfound = type(c.Ridge())",
    "function": "def find():\n    import sklearn.linear_model as c\n    return c.Ridge\nfound = find()",
    "eval": "import sklearn.linear_model as c\nfound = eval('c.Ridge')",
    "thread": "import threading\nimport sklearn.linear_model as c\nfound = []\n"
    "one = threading.Thread(target=lambda: found.append(c.Ridge))\n"
    "one.start(); one.join(); found = found[0]",
}
INSTALLED = "/opt/venv/lib/python3.11/site-packages"
STANDARD = sysconfig.get_path("stdlib")
CALLERS = {
    "script": ({"__name__": "__main__", "__file__": "/home/me/script.py"}, OURS),
    "notebook": ({"__name__": "__main__"}, OURS),
    "exec": ({}, OURS),
    "spawned": ({"__name__": "__mp_main__", "__file__": "/home/me/script.py"}, OURS),
    "own module": ({"__name__": "mine.models", "__file__": "/home/me/mine/models.py"}, OURS),
    "module without file": ({"__name__": "mine", "__file__": None}, OURS),
    "script that is installed": ({"__name__": "__main__", "__file__": f"{INSTALLED}/a.py"}, OURS),
    "installed": ({"__name__": "theirs", "__file__": f"{INSTALLED}/theirs/__init__.py"}, THEIRS),
    "of Debian": ({"__name__": "a", "__file__": "/usr/lib/python3/dist-packages/a.py"}, THEIRS),
    "standard library": ({"__name__": "pydoc", "__file__": f"{STANDARD}/pydoc.py"}, THEIRS),
    "frozen": ({"__name__": "importlib._bootstrap"}, THEIRS),
    "scikit-learn": ({"__name__": "sklearn.x", "__file__": "/home/me/sklearn/x.py"}, THEIRS),
    "gpuml": ({"__name__": "gpuml.x", "__file__": "/home/me/gpuml/x.py"}, THEIRS),
}


def found_by(code, names=()):
    names = dict(names)
    exec(code, names)
    return names["found"]


@pytest.mark.parametrize("code", WAYS.values(), ids=WAYS)
def test_user_code_gets_ours_in_every_way_of_importing(accelerated, code):
    assert found_by(code) is OURS
    assert found_by(code, CALLERS["installed"][0]) is THEIRS
    accelerated.undo()
    assert found_by(code) is THEIRS


def test_it_stays_so_when_the_interpreter_has_adapted_to_a_loop(accelerated):
    def read(times):
        # Python rewrites instructions that run often, and again when what they read has changed.
        found = {(sklearn.linear_model.Ridge, sklearn.pipeline.FeatureUnion) for _ in range(times)}
        found |= {(type(sklearn.linear_model.Ridge()), sklearn.pipeline.FeatureUnion)}
        return found

    assert read(300) == read(300) == {(OURS, OUR_UNION)}
    accelerated.undo()
    assert read(300) == read(300) == {(THEIRS, THEIR_UNION)}
    with gpuml.accelerate(quiet=True):
        assert read(300) == read(300) == {(OURS, OUR_UNION)}
        kept = [pickle.loads(pickle.dumps(THEIR_UNION)) for _ in range(300)]
        assert set(kept) == {THEIR_UNION}


@pytest.mark.parametrize(("names", "expected"), CALLERS.values(), ids=CALLERS)
def test_it_is_user_code_that_gets_ours(accelerated, names, expected):
    assert found_by(WAYS["from"], names) is expected
    assert found_by(WAYS["function"], names) is expected


def test_packages_may_be_made_user_code():
    def finds(name):
        file = f"{INSTALLED}/{name.replace('.', '/')}.py"
        return found_by(WAYS["from"], {"__name__": name, "__file__": file})

    with gpuml.accelerate("sklearn.linear_model", packages=["theirs"], quiet=True):
        assert finds("theirs") is finds("theirs.models") is OURS
        assert finds("theirs2") is THEIRS
    with gpuml.accelerate("sklearn.linear_model", quiet=True):
        assert finds("theirs") is THEIRS


def test_scikit_learn_keeps_its_own_classes(accelerated):
    assert {x.__module__.split(".")[0] for _, x in all_estimators()} == {"sklearn"}
    make_union = vars(sklearn.pipeline)["make_union"]
    assert type(make_union(TheirScaler())) is THEIR_UNION
    found = vars(sklearn.linear_model)["Ridge"]
    assert found is THEIRS


def test_searches_by_halving_are_there_after_the_import_that_enables_them(accelerated):
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingGridSearchCV

    import gpuml.model_selection

    assert HalvingGridSearchCV is gpuml.model_selection.HalvingGridSearchCV


def test_docstrings_are_user_code(accelerated, tmp_path, monkeypatch):
    lines = (
        ">>> from sklearn.linear_model import Ridge",
        ">>> Ridge.__module__",
        repr(OURS.__module__),
    )
    (tmp_path / "documented.py").write_text("\n".join(['"""', *lines, '"""']))
    monkeypatch.syspath_prepend(tmp_path)
    assert doctest.testmod(importlib.import_module("documented")) == (0, 2)
    del sys.modules["documented"]


# ---------------------------------------------------------------- there and back


def state():
    return {
        name: (type(sys.modules[name]), dict(vars(sys.modules[name])))
        for name in ("sklearn.linear_model", "sklearn.pipeline", "sklearn.model_selection")
    }


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_several_are_undone_in_any_order(order):
    before = state()
    asked = ["sklearn.linear_model"], ["sklearn.linear_model.Ridge", "sklearn.pipeline"], []
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        accelerations = [enter(gpuml.accelerate(*names, quiet=True)) for names in asked]
        left = {0, 1, 2}
        for one in order:
            accelerations[one].undo()
            accelerations[one].undo()  # twice is once
            left.remove(one)
            assert (sklearn.linear_model.Ridge is OURS) == bool(left)
            assert (sklearn.linear_model.Lasso is gpuml.linear_model.Lasso) == bool({0, 2} & left)
            assert (sklearn.pipeline.FeatureUnion is OUR_UNION) == bool({1, 2} & left)
        assert state() == before


def test_a_block_ends_it_after_an_error_too():
    acceleration = gpuml.accelerate("sklearn.linear_model", quiet=True)
    with pytest.raises(ZeroDivisionError), acceleration:
        1 / (sklearn.linear_model.Ridge is not OURS)
    assert sklearn.linear_model.Ridge is THEIRS
    with pytest.raises(RuntimeError, match="was undone"), acceleration:
        pass


def test_a_reloaded_module_stays_replaced(accelerated):
    importlib.reload(sklearn.linear_model)
    assert sklearn.linear_model.Ridge is OURS
    accelerated.undo()
    assert sklearn.linear_model.Ridge is THEIRS


def test_what_others_put_into_a_module_comes_first(accelerated):
    with unittest.mock.patch("sklearn.linear_model.Ridge") as fake:
        assert sklearn.linear_model.Ridge is fake
    assert sklearn.linear_model.Ridge is OURS
    accelerated.undo()
    assert sklearn.linear_model.Ridge is THEIRS


def test_the_modules_look_as_they_did(accelerated):
    for module in (sklearn.linear_model, sklearn.pipeline):
        assert set(vars(module)) <= set(dir(module))
        assert repr(module).startswith("<module 'sklearn.")
        assert inspect.ismodule(module)
        assert inspect.getsource(module)
        assert pickle.loads(pickle.dumps(module)) is module
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018


def test_threads_find_one_of_the_two(accelerated):
    accelerated.undo()
    wrong = []

    def switch():
        for _ in range(50):
            with gpuml.accelerate("sklearn.linear_model.Ridge", quiet=True):
                if sklearn.linear_model.Ridge is not OURS:
                    wrong.append("theirs under acceleration")

    def read():
        found = {sklearn.linear_model.Ridge for _ in range(5000)}
        wrong.extend(found - {OURS, THEIRS})

    threads = [threading.Thread(target=one) for one in [switch, read] * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sklearn.linear_model.Ridge is THEIRS
    assert type(sklearn.linear_model) is ModuleType


# ---------------------------------------------------------------- what it says


def test_it_says_on_standard_error_what_is_new(capsys):
    with gpuml.accelerate("sklearn.linear_model.Ridge", "sklearn.pipeline"):
        out, error = capsys.readouterr()
        assert out == ""
        names = "linear_model.Ridge", "pipeline.FeatureUnion", "pipeline.make_union"
        assert error == f"gpuml: replaced {', '.join(f'sklearn.{name}' for name in names)}\n"
        with gpuml.accelerate("sklearn.pipeline"):
            assert capsys.readouterr().err == ""
        with gpuml.accelerate("sklearn.linear_model.Lasso", "sklearn.pipeline"):
            assert capsys.readouterr().err == "gpuml: replaced sklearn.linear_model.Lasso\n"
    with gpuml.accelerate("sklearn.pipeline", quiet=True):
        assert capsys.readouterr().err == ""


def test_names_imported_before_are_named(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "Rigid", THEIRS, raising=False)
    with gpuml.accelerate("sklearn.linear_model.Ridge") as acceleration:
        assert acceleration.kept == {"Rigid": "sklearn.linear_model.Ridge"}
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.endswith("in __main__: Rigid (sklearn.linear_model.Ridge)")


def test_what_is_returned_describes_itself():
    acceleration = gpuml.accelerate("sklearn.pipeline", quiet=True)
    assert repr(acceleration) == "<Acceleration of 2 names: sklearn.pipeline.FeatureUnion, ...>"
    acceleration.undo()
    assert repr(acceleration).endswith("; undone>")


# ---------------------------------------------------------------- pickles


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", [THEIRS, OURS, THEIR_UNION, OUR_UNION], ids=lambda x: x.__module__)
def test_pickles_keep_the_class(accelerated, tmp_path, kind, protocol):
    path = tmp_path / "model"
    model = kind([("scaler", TheirScaler())]) if "Union" in kind.__name__ else kind()
    assert type(pickle.loads(pickle.dumps(model, protocol))) is kind
    joblib.dump(model, path, protocol=protocol)
    assert type(joblib.load(path)) is kind
    assert pickle.loads(pickle.dumps(kind, protocol)) is kind


def test_a_notebook_is_accelerated_by_its_extension_which_reports_at_its_end(capsys):
    import sklearn.linear_model

    from gpuml.model_selection import GridSearchCV

    X, y = sklearn.datasets.make_regression(60, 3, random_state=0)
    search = GridSearchCV(OURS(), {"alpha": [0.1, 1.0, 10.0]}, cv=5)
    gpuml.load_ipython_extension(None)
    try:
        assert "names of" in capsys.readouterr().err
        assert sklearn.linear_model.Ridge.__module__.startswith("gpuml.")
        search.fit(X, y)
    finally:
        gpuml.unload_ipython_extension(None)
    assert sklearn.linear_model.Ridge.__module__.startswith("sklearn.")
    assert capsys.readouterr().err.startswith("gpuml: 1 search, 15 fits in ")
    search.fit(X, y)
    assert capsys.readouterr().err == ""
