"""Models in files: `save`, `load`, versions, and what skops is trusted with."""

import base64
import builtins
import copy
import importlib
import pickle
import re
import sys
import zipfile
import zlib
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import gpuml
from gpuml._persistence import travel as _travel
from gpuml._persistence.stored import loading_device
from gpuml.exceptions import VersionWarning
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.preprocessing import SimpleImputer, StandardScaler
from gpuml.solvers import Status

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
needs_skops = pytest.mark.skipif(importlib.util.find_spec("skops") is None, reason="needs skops")
needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("skl2onnx", "onnxruntime")),
    reason="needs skl2onnx and onnxruntime",
)
SUFFIXES = ["joblib", "pkl.gz", pytest.param("skops", marks=needs_skops)]


@pytest.fixture
def ridge(rng):
    X = rng.random((30, 3))
    return Ridge().fit(X, X @ [1.0, 2.0, 3.0])


def public(name, module="gpuml"):
    return getattr(importlib.import_module(module), name)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_saved_is_loaded(suffix, ridge, tmp_path):
    path = tmp_path / f"model.{suffix}"
    gpuml.save(ridge, path)
    again = gpuml.load(str(path))
    np.testing.assert_array_equal(again.coef_, ridge.coef_)
    assert again.status_ is Status.MOMENTS
    assert list(tmp_path.iterdir()) == [path]


def test_the_suffix_asks_for_compression(ridge, tmp_path):
    gpuml.save(ridge, tmp_path / "model.pkl.z")
    assert zlib.decompress((tmp_path / "model.pkl.z").read_bytes())


class RunsCode:
    """What anybody can put into a pickle."""

    def __reduce__(self):
        return Path.touch, (self.mark,)


UNKNOWN = ["onnx", "txt", "2", "skops.gz", "SKOPS.Z", "tar", "skops ", ""]


@pytest.mark.parametrize("ending", UNKNOWN)
def test_unknown_suffixes_are_refused_by_name(ending, ridge, tmp_path):
    path = tmp_path / f"model.{ending}"
    named = re.escape(repr(f".{ending.lower()}"))
    with pytest.raises(ValueError, match=rf"model\..* ends in {named}.*Use \.skops"):
        gpuml.save(ridge, path)
    assert not path.exists()
    code = RunsCode()
    code.mark = tmp_path / "ran"
    path.write_bytes(pickle.dumps(code))
    with pytest.raises(ValueError, match=rf"ends in {named}.*joblib\.load"):
        gpuml.load(path)
    assert not code.mark.exists()


@needs_skops
@pytest.mark.parametrize(
    "name", ["m.skops", "m.SKOPS", "m.Skops", "m.pkl.skops", ".skops", "a.b.sKops"]
)
def test_no_case_of_skops_runs_code(name, ridge, tmp_path):
    path = tmp_path / name
    gpuml.save(ridge, path)
    assert zipfile.is_zipfile(path)
    np.testing.assert_array_equal(gpuml.load(path).coef_, ridge.coef_)
    code = RunsCode()
    code.mark = tmp_path / "ran"
    path.write_bytes(pickle.dumps(code))
    with pytest.raises(zipfile.BadZipFile):
        gpuml.load(path)
    assert not code.mark.exists()


MAGIC = {"gz": b"\x1f\x8b", "z": b"\x78", "bz2": b"BZh", "xz": b"\xfd7zXZ", "lzma": b"\x5d\x00"}


@pytest.mark.parametrize("suffix", MAGIC)
def test_every_known_suffix_is_read_as_it_was_written(suffix, ridge, tmp_path):
    for name in (
        f"a.{suffix}",
        f"B.JOBLIB.{suffix.upper()}",
        f"c.pickle.{suffix}",
        f"d.Pkl.{suffix}",
    ):
        gpuml.save(ridge, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(MAGIC[suffix])
        np.testing.assert_array_equal(gpuml.load(tmp_path / name).coef_, ridge.coef_)


def test_files_of_pickle_and_joblib_load(ridge, tmp_path):
    (tmp_path / "a").write_bytes(pickle.dumps(ridge))
    joblib.dump(ridge, tmp_path / "b")
    for name in "ab":
        np.testing.assert_array_equal(gpuml.load(tmp_path / name).coef_, ridge.coef_)


class Unsaved:
    def __reduce__(self):
        raise TypeError("cannot be saved")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_save_that_fails_leaves_the_old_file(suffix, ridge, tmp_path):
    path = tmp_path / f"model.{suffix}"
    gpuml.save(ridge, path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="cannot be saved"):
        gpuml.save(Ridge(alpha=Unsaved()), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


class Spy(_travel.Travels, BaseEstimator):
    """Says where it was loaded to."""

    def __setstate__(self, state):
        super().__setstate__(state)
        self.loaded_to = loading_device()


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_the_device_is_that_of_load_or_of_the_settings(device, tmp_path):
    gpuml.save(Spy(), tmp_path / "model")
    assert gpuml.load(tmp_path / "model", device=device).loaded_to == device
    with gpuml.config_context(device=device):
        assert gpuml.load(tmp_path / "model").loaded_to == device
    assert loading_device() == "auto"


def test_load_refuses_devices_that_it_cannot_load_to(ridge, tmp_path, monkeypatch):
    monkeypatch.setattr("gpuml.persistence.has_gpu", lambda: False)
    gpuml.save(ridge, tmp_path / "model")
    with pytest.raises(RuntimeError, match="sees no GPU"):
        gpuml.load(tmp_path / "model", device="cuda")
    with pytest.raises(ValueError, match="device must be None or one of"):
        gpuml.load(tmp_path / "model", device="gpu")


def test_gpuml_names_what_it_has():
    for name in gpuml.__all__:
        assert public(name) is not None
    with pytest.raises(AttributeError, match="no attribute 'loads'"):
        public("loads")


# ---------------------------------------------------------------- skops


def test_trusted_types_exist():
    for name in gpuml.trusted_types():
        module, _, attribute = name.rpartition(".")
        assert public(attribute, module) is not None, name


def test_without_skops_its_files_are_an_error_that_says_so(ridge, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for use in (lambda path: gpuml.save(ridge, path), gpuml.load):
        with pytest.raises(ImportError, match=r"gpuml\[skops\]"):
            use(tmp_path / "model.skops")


@needs_skops
def test_types_that_nobody_trusts_are_refused_by_name(tmp_path):
    path = tmp_path / "model.skops"
    model = make_pipeline(FunctionTransformer(builtins.eval), Ridge())
    gpuml.save(model, path)
    with pytest.raises(ValueError, match=r"does not know: \['builtins.eval'\]"):
        gpuml.load(path)
    assert gpuml.load(path, trusted=["builtins.eval"])[0].func is builtins.eval


@needs_skops
@pytest.mark.parametrize(
    ("cv", "scoring"),
    [
        (None, None),
        (3, "r2"),
        (LeaveOneOut(), "neg_max_error"),
        (KFold(2), ["r2", "neg_max_error"]),
    ],
    ids=str,
)
def test_searches_hold_nothing_that_is_not_trusted(cv, scoring, rng, tmp_path):
    X = rng.random((12, 2))
    pipeline = make_pipeline(SimpleImputer(), Ridge())
    refit = "r2" if isinstance(scoring, list) else True
    search = GridSearchCV(
        pipeline, {"ridge__alpha": [0.1, 1.0]}, cv=cv, scoring=scoring, refit=refit
    )
    search.fit(X, X[:, 0])
    gpuml.save(search, tmp_path / "search.skops")
    again = gpuml.load(tmp_path / "search.skops")
    assert str(again.plan_) == str(search.plan_)
    assert again.score(X, X[:, 0]) == search.score(X, X[:, 0])


# ---------------------------------------------------------------- versions


def saved(model, **made):
    """A pickle of a model as another version would have written it."""
    state = model.__getstate__()
    state["_gpuml"] = {**state["_gpuml"], **made}
    again = type(model).__new__(type(model))
    return lambda: again.__setstate__(state) or again


def test_versions_are_recorded(ridge):
    made = ridge.__getstate__()["_gpuml"]
    assert made == {"version": gpuml.__version__, "sklearn": sklearn.__version__, "format": 1}


def test_other_versions_warn(ridge):
    with pytest.warns(VersionWarning, match=r"Ridge was saved by gpuml 0\.0\.7 and is loaded by"):
        again = saved(ridge, version="0.0.7")()
    np.testing.assert_array_equal(again.coef_, ridge.coef_)
    with pytest.warns(InconsistentVersionWarning, match=r"Ridge from version 1\.2\.3"):
        saved(ridge, sklearn="1.2.3")()


def test_later_formats_are_refused(ridge):
    with pytest.raises(ValueError, match=r"saved by gpuml 9\.0 in format 2.*Load it with gpuml 9"):
        saved(ridge, version="9.0", format=2)()


def test_later_remarks_are_passed_over(ridge):
    np.testing.assert_array_equal(saved(ridge, made_on="moon")().coef_, ridge.coef_)


# ``Ridge(alpha=0).fit(X, 2 * X[:, 0] + 1)``, pickled by gpuml before states had marks.
OF_BEFORE = (
    "gASVxAEAAAAAAACMGGdwdW1sLmxpbmVhcl9tb2RlbC5yaWRnZZSMBVJpZGdllJOUKYGUfZQojAVhbHBoYZRLAIwN"
    "Zml0X2ludGVyY2VwdJSIjAZjb3B5X1iUiIwIbWF4X2l0ZXKUTowDdG9slEc/Gjbi6xxDLYwGc29sdmVylIwEYXV0"
    "b5SMCHBvc2l0aXZllImMDHJhbmRvbV9zdGF0ZZROjA5uX2ZlYXR1cmVzX2luX5RLAYwFY29lZl+UjBZudW1weS5f"
    "Y29yZS5tdWx0aWFycmF5lIwMX3JlY29uc3RydWN0lJOUjAVudW1weZSMB25kYXJyYXmUk5RLAIWUQwFilIeUUpQo"
    "SwFLAYWUaBOMBWR0eXBllJOUjAJmOJSJiIeUUpQoSwOMATyUTk5OSv////9K/////0sAdJRiiUMIAAAAAAAAAECU"
    "dJRijAppbnRlcmNlcHRflGgQjAZzY2FsYXKUk5RoH0MIAAAAAAAA8D+UhpRSlIwHc3RhdHVzX5SMFWdwdW1sLnNv"
    "bHZlcnMuX3Jlc3VsdJSMBlN0YXR1c5STlEsAhZRSlIwHbl9pdGVyX5RLAYwHc29sdmVyX5SMCGNob2xlc2t5lHVi"
    "Lg=="
)


def test_pickles_of_before_load_without_a_word():
    model = pickle.loads(base64.b64decode(OF_BEFORE))
    assert model.status_ is Status.MOMENTS
    np.testing.assert_allclose(model.predict([[10.0]]), [21.0])


# ---------------------------------------------------------------- what must not change


def test_a_loaded_state_holds_no_mark(ridge):
    again = pickle.loads(pickle.dumps(ridge))
    assert list(vars(again)) == list(vars(ridge))
    assert pickle.dumps(again) == pickle.dumps(pickle.loads(pickle.dumps(again)))


def test_hashes_depend_on_contents_only(library, rng):
    X, y = rng.random((20, 3)), rng.random(20)
    first, second = (Ridge().fit(library.asarray(X), library.asarray(y)) for _ in range(2))
    other = Ridge().fit(library.asarray(X), library.asarray(y + X[:, 0]))
    assert joblib.hash(first) == joblib.hash(second) == joblib.hash(copy.copy(first))
    assert joblib.hash(first) != joblib.hash(other)
    assert joblib.hash(clone(first)) == joblib.hash(Ridge())


def test_parts_that_were_shared_are_shared(rng):
    X = rng.random((12, 2))
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}).fit(X, X[:, 0])
    for again in (pickle.loads(pickle.dumps(search)), copy.deepcopy(search)):
        assert again.best_params_ is again.cv_results_["params"][again.best_index_]


def test_a_deep_copy_shares_nothing_and_a_shallow_one_all(ridge):
    ridge.itself_ = ridge
    deep, shallow = copy.deepcopy(ridge), copy.copy(ridge)
    assert deep.itself_ is deep
    assert not np.shares_memory(deep.coef_, ridge.coef_)
    assert shallow.coef_ is ridge.coef_


def test_nan_is_no_change(rng):
    X = rng.random((6, 2))
    X[0, 0] = np.nan
    imputer = SimpleImputer(missing_values=np.nan).fit(X)
    again = pickle.loads(pickle.dumps(imputer))
    assert np.isnan(again.missing_values)
    assert np.isfinite(again.transform(X)[0, 0])


# ---------------------------------------------------------------- the page


def run_blocks(blocks):
    names = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)


def blocks_of_the_page():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return blocks, [block for block in blocks if "skops" not in block and "onnx" not in block]


def test_the_examples_of_the_page_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, blocks = blocks_of_the_page()
    run_blocks(blocks)
    assert capsys.readouterr().out == "True\n" * 4


@needs_skops
@needs_onnx
def test_the_examples_that_need_more_packages_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks, _ = blocks_of_the_page()
    run_blocks(blocks)
    assert capsys.readouterr().out == "True\n" * 6


def test_a_user_class_with_a_state_of_its_own_still_works(rng):
    class Mine(LogisticRegression):
        def __getstate__(self):
            return {**super().__getstate__(), "note_": "mine"}

    X = rng.random((10, 2))
    model = Mine().fit(StandardScaler().fit_transform(X), X[:, 0] > 0.5)
    state = model.__getstate__()
    again = Mine.__new__(Mine)
    again.__setstate__(state)
    assert again.note_ == copy.copy(model).note_ == "mine"
