"""What the site does to the sources of its pages: public names, links, docstrings.

`conf.py` calls it, and so does `tests/test_docs_site.py`, without Sphinx.
"""

import importlib
import inspect
import operator
import pkgutil
import re
import zlib
from pathlib import Path

import sklearn

DOCS = Path(__file__).parent
ROOT = DOCS.parent

# Pages of the site whose text is a file in the root of the repository.
ROOT_PAGES = {"readme": "README.md", "contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}

# The bar at the top. It is added to index.md here: a code host would show it as a block of code.
SECTIONS = (
    *("site/getting-started", "site/guide", "site/moving", "auto_examples/index"),
    *("reference/index", "site/development"),
)

KINDS = ("classes", "functions")
LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"^```.*?^```|^ {4}.*?$", re.MULTILINE | re.DOTALL)


def public_modules() -> list[str]:
    """Modules that `reference/index.rst` lists."""
    text = (DOCS / "reference" / "index.rst").read_text()
    return re.findall(r"^   (gpuml[\w.]*)$", text, re.MULTILINE)


def public_names(module: str) -> dict[str, object]:
    """Classes and functions of a public module, by name.

    They are those of ``__all__``, or, without one, those that the module defines itself.
    """
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None)
    if names is None:
        own = {name for name, value in vars(found).items() if _is_of(value, module)}
        names = [name for name in own if not name.startswith("_")]
    values = {name: getattr(found, name) for name in sorted(names, key=str.lower)}
    return {
        name: value
        for name, value in values.items()
        if inspect.isroutine(value) or inspect.isclass(value)
    }


def _is_of(value, module):
    return getattr(value, "__module__", None) == module


def reference() -> dict[str, dict[str, list[str]]]:
    """For the page of each public module: classes, functions, and what another page describes."""
    pages, described = {}, {}
    for module in public_modules():
        page = {"classes": [], "functions": [], "elsewhere": []}
        for name, value in public_names(module).items():
            if id(value) in described:
                page["elsewhere"].append(described[id(value)])
                continue
            described[id(value)] = f"{module}.{name}"
            page["classes" if inspect.isclass(value) else "functions"].append(name)
        pages[module] = page
    return pages


def page_source(name: str, text: str) -> str:
    """The text of a page as the site needs it; links of a code host become links of the site."""
    if name in ROOT_PAGES:
        path = ROOT / ROOT_PAGES[name]
        text = path.read_text()
    else:
        path = DOCS / f"{name}.md"
    text = _outside_code(text, lambda part: LINK.sub(lambda link: _link(link, path), part))
    if name == "readme":
        _, _, rest = text.partition("\n\n")  # the site has it above each page
        text = f"# gpuml\n\n{rest}"
    if name == "index":
        text = with_cards(with_tabs(text))
        text += "\n```{toctree}\n:hidden:\n\n" + "\n".join(SECTIONS) + "\n```\n"
    return text


REGION = r"<!-- {0} -->\n(.*?)<!-- end of {0} -->\n"


def with_tabs(text: str) -> str:
    """A page whose subsections between the marks of tabs are tabs of sphinx-design."""

    def tabs(region):
        _, *parts = re.split(r"^### (.*)\n", region[1], flags=re.MULTILINE)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        inside = "".join(f"````{{tab-item}} {name}\n{part.strip()}\n````\n" for name, part in pairs)
        return f"`````{{tab-set}}\n{inside}`````\n"

    return re.sub(REGION.format("tabs"), tabs, text, flags=re.DOTALL)


def with_cards(text: str) -> str:
    """A page whose table between the marks of cards is a grid of cards of sphinx-design.

    Its rows are what a reader wants, and links to pages.
    """

    def cards(region):
        rows = re.findall(r"^\| (.+?) \| (.+) \|$", region[1], re.MULTILINE)[2:]
        inside = "".join(
            f"````{{grid-item-card}} {wanted[0].upper()}{wanted[1:]}\n{links}\n````\n"
            for wanted, links in rows
        )
        return f"`````{{grid}} 1 2 3 3\n:gutter: 3\n\n{inside}`````\n"

    return re.sub(REGION.format("cards"), cards, text, flags=re.DOTALL)


def _outside_code(text, change):
    """`change` of what is not in a block of code."""
    parts, end = [], 0
    for block in CODE.finditer(text):
        parts += [change(text[end : block.start()]), block.group()]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def _link(link, page):
    image, words, target, anchor = link.groups(default="")
    if "://" in target or target.startswith("mailto:"):
        return link.group()
    file = (page.parent / target).resolve()
    if image:
        inside = file.is_relative_to(DOCS)
        return f"![{words}]({'/' if inside else '../'}{file.relative_to(DOCS if inside else ROOT)})"
    for name, of_root in ROOT_PAGES.items():
        if file == ROOT / of_root:
            return f"[{words}](/{name}.md{anchor})"
    if file == ROOT / "examples" / "README.md":
        return f"[{words}](/auto_examples/index.rst)"
    if file.is_relative_to(DOCS) and file.suffix == ".md":
        return f"[{words}](/{file.relative_to(DOCS)}{anchor})"
    # The site has no page of it, and the repository no address that all its copies share.
    path = file.relative_to(ROOT) if file.is_relative_to(ROOT) else target
    return f"{words}" if words.strip("`") == str(path) else f"{words} (`{path}`)"


def keywords(page: str) -> str:
    """Words of a name, by which the search finds it: "randomized search" of RandomizedSearchCV.

    >>> print(keywords("reference/generated/gpuml.model_selection.RandomizedSearchCV").strip())
    .. meta::
       :keywords: Randomized Search CV
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", page.rpartition(".")[2])
    return f".. meta::\n   :keywords: {' '.join(words)}\n\n"


def source_module(module: str, name: str) -> str:
    """The module whose page has the source of a public name: one of gpuml's, none of others'.

    >>> source_module("gpuml.linear_model", "Ridge")
    'gpuml.linear_model.ridge'
    """
    try:
        value = operator.attrgetter(name)(importlib.import_module(module))
    except AttributeError:  # an attribute of instances
        return module
    found = getattr(value, "__module__", None) or module
    # A class may inherit from one of its name in the other package, whose page is not its own.
    is_near = found.split(".")[0] == module.split(".", maxsplit=1)[0]
    is_own = is_near and getattr(value, "__qualname__", name) == name
    return found if is_own else module


OTHERS = {
    "sklearn": "https://scikit-learn.org/stable/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "dask": "https://docs.dask.org/en/stable/",
    "distributed": "https://distributed.dask.org/en/stable/",
}


def inventories(where: str) -> dict[str, tuple[str, str | None]]:
    """Sites of others, and the files of a folder that list their names.

    "1": the lists are read from the sites. "": without the network; scikit-learn's list is made of
    the scikit-learn that is installed.
    """
    if not where:
        return {"sklearn": (OTHERS["sklearn"], str(inventory_of_sklearn()))}
    folder = None if where == "1" else Path(where)
    found = {
        name: (url, None if folder is None else str(folder / f"{name}.inv"))
        for name, url in OTHERS.items()
    }
    return {name: pair for name, pair in found.items() if folder is None or Path(pair[1]).exists()}


def inventory_of_sklearn() -> Path:
    """The list of public names of scikit-learn, each with its page, as Sphinx reads it."""
    found = sorted(set(_names_of_sklearn()))
    lines = [f"{name} py:{kind} 1 modules/generated/$.html#$ -" for name, kind in found]
    head = (
        f"# Sphinx inventory version 2\n# Project: scikit-learn\n# Version: {sklearn.__version__}\n"
    )
    head += "# The remainder of this file is compressed using zlib.\n"
    path = DOCS / "reference" / "generated" / "sklearn.inv"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(head.encode() + zlib.compress("\n".join([*lines, ""]).encode()))
    return path


def _names_of_sklearn():
    for enabled in ("enable_halving_search_cv", "enable_iterative_imputer"):
        importlib.import_module(f"sklearn.experimental.{enabled}")
    inner = ("metrics.pairwise", "feature_extraction.text", "gaussian_process.kernels")
    every = [m.name for m in pkgutil.iter_modules(sklearn.__path__) if not m.name.startswith("_")]
    top = [name for name in every if name != "conftest"]  # which needs pytest
    for module in ("sklearn", *(f"sklearn.{part}" for part in (*top, *inner))):
        for name, value in public_names(module).items():
            yield f"{module}.{name}", "class" if inspect.isclass(value) else "function"


def remove_old_stubs() -> None:
    """Remove generated pages of names that are no longer public."""
    pages = reference()
    names = {
        f"{module}.{name}"
        for module, page in pages.items()
        for kind in KINDS
        for name in page[kind]
    }
    for stub in (DOCS / "reference" / "generated").glob("*.rst"):
        if stub.stem not in names | set(pages):
            stub.unlink()


# Roles whose targets are on scikit-learn's site: the words stay.
OF_SKLEARN = re.compile(r":(?:ref|term|user_guide):`[!~]?([^`<]+?)\s*(?:<[^`>]*>)?`")
# A name of a fitted attribute, which reStructuredText takes for a link.
ATTRIBUTE = re.compile(r"(?<![\w`.\\*])([A-Za-z]\w*)_(?![\w`])")
ON_A_GPU = re.compile(r"^On a GPU:\n(.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


def docstring_lines(lines: list[str]) -> list[str]:
    """A docstring as numpydoc needs it.

    Classes of `gpuml.adapters` have scikit-learn's docstrings, and other classes inherit methods
    with theirs. What they have of "On a GPU" is set off, where it is seen.
    """
    text = ON_A_GPU.sub(_admonition, "\n".join(without_links(lines)))
    return [_without_targets(line) for line in text.split("\n")]


def _admonition(found):
    note = "\n".join(f"   {line}" for line in found.group(1).split("\n"))
    note = note.replace("the table lists", ":doc:`the table </adapters>` lists")
    return f".. admonition:: On a GPU\n\n{note}"


def without_links(lines: list[str]) -> list[str]:
    """Lines without references to labels and terms of scikit-learn's site."""
    return OF_SKLEARN.sub(r"*\1*", "\n".join(lines)).split("\n")


def _without_targets(line):
    if line.lstrip().startswith((">>>", "...", "..")):
        return line
    names, colon, kind = line.partition(" : ")
    if not re.fullmatch(r"(\**\w+, )*\**\w+", names):
        return _escaped(line)
    # numpydoc itself escapes the last of the names that a line defines.
    *others, last = names.split(", ")
    names = ", ".join([*(_escaped(name) for name in others), last])
    return f"{names}{colon}{_escaped(kind)}"


def _escaped(text):
    """Text with the names of attributes escaped where they are not in backquotes."""
    parts = re.split(r"(`+[^`]*`+_{0,2})", text)
    return "".join(
        part if number % 2 else ATTRIBUTE.sub(r"\1\\_", part) for number, part in enumerate(parts)
    )


LESSONS = ROOT / "examples" / "lessons"
# The first cell of the notebooks: a machine such as Colab's has CuPy and cuML, and not gpuml.
INSTALL_CELL = """\
# Install gpuml: the wheel beside this notebook (`make dist` builds it), or else the last release.
from glob import glob

wheel = max(glob("gpuml-*.whl"), default="gpuml")
%pip install --quiet "{wheel}[examples,optuna]"
"""


def remove_old_lessons() -> None:
    """Remove generated pages of lessons that are no longer there."""
    names = {"index", *(path.stem for path in LESSONS.glob("*.py"))}
    generated = DOCS / "auto_examples"
    for old in generated.rglob("*.rst"):
        if old.relative_to(generated).with_suffix("").as_posix() not in names:
            old.unlink()
