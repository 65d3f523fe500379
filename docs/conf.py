"""How the site is built: `make docs`, or `sphinx-build docs out/docs`.

`DOCS_GALLERY=1` runs the lessons of the gallery for their pictures, as `make docs` does, and
`DOCS_GALLERY=pipeline` those with this in their names; without it they are shown as text.
Names of scikit-learn link to their pages; with `DOCS_LINKS=1` those of NumPy, SciPy and Dask too,
which needs the network. `DOCS_LINKS=folder` reads `sklearn.inv`, `numpy.inv`, ... from there.
`DOCS_SITE=https://...`, where each version has a folder of its own, adds a menu of versions.
"""

import os
import re
import sys
import warnings
from importlib.resources import files
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import _site  # noqa: E402

import gpuml  # noqa: E402

project = "gpuml"
author = "gpuml developers"
copyright = author
version = release = gpuml.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
# MathJax in one file, from a package: pages with formulas need no network.
mathjax_path = "tex-svg-full.js"
html_static_path = ["_static", str(files("mathjax") / "static/mathjax/es5" / mathjax_path)]
exclude_patterns = ["auto_examples/*.ipynb"]
# `a` in a docstring is code.
default_role = "code"

# ------------------------------------------------------------------------------------- pages

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# Anchors of headings are those of a code host.
myst_heading_anchors = 4
# Parts of the packages that scikit-learn's docstrings refer to.
extlinks = {
    "doi": ("https://doi.org/%s", "doi:%s"),
    "arxiv": ("https://arxiv.org/abs/%s", "arXiv:%s"),
}
# The copy button leaves prompts and what was printed out.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Links to the pages of others need lists of their names.
intersphinx_mapping = _site.inventories(os.environ.get("DOCS_LINKS", ""))

# --------------------------------------------------------------------------------- reference

autosummary_generate = True
autosummary_imported_members = True
_site.remove_old_stubs()
autosummary_context = {"public": _site.reference()}
autodoc_typehints = "none"
# The members of a class are listed on its page, each with its docstring.
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# numpydoc reads docstrings once more by itself, before `_site` has moved this section.
warnings.filterwarnings("ignore", message="Unknown section On A Gpu")

# ----------------------------------------------------------------------------------- gallery

RUN = os.environ.get("DOCS_GALLERY", "")
_site.remove_old_lessons()
sphinx_gallery_conf = {
    # Pages of classes and functions list the examples that use them.
    "backreferences_dir": "auto_examples/backreferences",
    "doc_module": ("gpuml", "gpuml_dask"),
    "reference_url": {"gpuml": None, "gpuml_dask": None},
    "examples_dirs": str(_site.LESSONS),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$" if RUN == "1" else RUN,
    "within_subsection_order": "FileNameSortKey",
    "first_notebook_cell": _site.INSTALL_CELL.rstrip(),
    "plot_gallery": bool(RUN),
    "default_thumb_file": str(DOCS / "_static" / "logo.svg"),
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
}

# -------------------------------------------------------------------------------------- look

html_theme = "pydata_sphinx_theme"
html_title = "gpuml"
html_copy_source = False
html_show_sourcelink = False
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/icon.svg"
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_start": ["navbar-logo", "version"],
}
# One address has the list of all versions, so that old sites show new versions too.
if SITE := os.environ.get("DOCS_SITE"):
    html_theme_options |= {
        "navbar_start": ["navbar-logo", "version-switcher"],
        "switcher": {"json_url": f"{SITE}/versions.json", "version_match": version},
        "check_switcher": False,
    }
html_sidebars = {"index": []}


def setup(app):
    """Hand sources and docstrings to `_site`."""
    # All pages are read again when what is done to them has changed.
    app.add_config_value("site", (DOCS / "_site.py").read_text(), "env")
    app.connect("source-read", _read)
    app.connect("autodoc-skip-member", _skipped)
    app.connect("viewcode-follow-imported", _source)
    app.connect("autodoc-process-docstring", _before_numpydoc, priority=10)
    app.connect("autodoc-process-docstring", _after_numpydoc, priority=900)


def _read(app, name, source):
    if name.startswith("reference/generated/"):
        source[0] = _site.keywords(name) + source[0]
    if (DOCS / f"{name}.md").exists():
        source[0] = _site.page_source(name, source[0])
    if name in _site.ROOT_PAGES:
        app.env.note_dependency(str(_site.ROOT / _site.ROOT_PAGES[name]), docname=name)


def _source(app, module, name):
    return _site.source_module(module, name)


def _skipped(app, what, name, value, skip, options):
    # Metadata routing: scikit-learn's, and the same on every page. The multifit protocol is for
    # authors of estimators, who find it on the page of `gpuml.extending`.
    hidden = r"set_\w+_request|get_metadata_routing"
    if not app.env.docname.startswith("reference/generated/gpuml.extending"):
        hidden += r"|multifit\w*|computes_on_gpu"
    return True if re.fullmatch(hidden, name) else None


def _before_numpydoc(app, what, name, value, options, lines):
    lines[:] = _site.docstring_lines(lines)


def _after_numpydoc(app, what, name, value, options, lines):
    lines[:] = _site.without_links(lines)  # it has added docstrings of properties
