"""Laws of all rows of the table."""

import importlib
import warnings

import pytest

from gpuml._persistence.travel import Travels
from gpuml.adapters import Adapter, all_rows

ROWS = all_rows()


@pytest.mark.parametrize("path", ROWS)
def test_adapters_hide_nothing_of_scikit_learn(path):
    # Its methods call its private ones: a name of ours in front of one of these would be called.
    ours = {name for kind in (Adapter, Travels) for name in vars(kind) if not name.startswith("__")}
    # Four are: what one finds is kept, and is what scikit-learn's finds; the others call
    # scikit-learn's, whose error gets a question added, and whose tables get descriptions.
    assert ours & set(dir(ROWS[path].sk)) == {
        *("_get_param_names", "set_params", "_get_params_html", "_get_fitted_attr_html")
    }
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    assert kind._get_param_names() == super(Travels, kind)._get_param_names()


@pytest.mark.parametrize("path", ROWS)
def test_notebooks_show_them_without_a_warning(path):
    module, _, name = path.rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = getattr(importlib.import_module(module), name)()._repr_html_()
    assert "On a GPU" not in shown  # which is no parameter


@pytest.mark.parametrize("path", ROWS)
def test_names_of_rows_are_those_of_scikit_learn(path):
    row = ROWS[path]
    for name in row.methods:
        assert callable(getattr(row.sk, name, None)), name
    assert not set(row.light) & set(row.absent)
    assert not set(row.kept) & set(row.absent)


@pytest.mark.filterwarnings("ignore:Attribute `prob:FutureWarning")  # of scikit-learn's SVC
@pytest.mark.parametrize("path", ROWS)
def test_what_is_there_after_fit_only_says_so_as_in_scikit_learn(path):
    module, _, name = path.rpartition(".")
    unfitted, rival = getattr(importlib.import_module(module), name)(), ROWS[path].sk()
    properties = [n for n in dir(ROWS[path].sk) if isinstance(getattr(type(rival), n), property)]
    for name in [n for n in properties if n.endswith("_") and not n.startswith("_")]:
        with pytest.raises(AttributeError) as theirs:
            getattr(rival, name)
        with pytest.raises(AttributeError) as ours:
            getattr(unfitted, name)
        assert (type(ours.value), str(ours.value)) == (type(theirs.value), str(theirs.value))
