"""Notebooks made from the examples, to be read and run cell by cell.

    python examples/make_notebooks.py [--output DIR] [NAME ...]
    pip install jupytext                                     # what it needs

Each script becomes one notebook: its text, a cell for its imports and settings, a cell for each
part of it, and last the options of the command line as a list to be edited, with the call.
Notebooks are not kept in the repository: they would say the same as the scripts, and fall behind
them. They are written to out/notebooks, if no other folder is named.

A script that starts a cluster runs in a notebook as it is; one that starts processes of its own
(`larger_than_memory`) does not, because they would look for its functions in a file: that notebook
runs the script.
"""

import argparse
import ast
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Not examples of the library, or nothing without a command of their own.
LEFT_OUT = ("make_notebooks.py", "accelerated_script.py")
# Processes that these start import the script.
AS_COMMANDS = ("larger_than_memory.py",)
RULE = "# -----"
PICTURES = """\
from pathlib import Path

from IPython.display import Image, display

for picture in sorted(Path("out").glob("{}*.png")):
    display(Image(str(picture)))
"""


def main():
    args = parse_arguments()
    try:
        import jupytext
    except ImportError:
        sys.exit("Notebooks are written by jupytext: pip install jupytext")
    args.output.mkdir(parents=True, exist_ok=True)
    for path in chosen(args.names):
        text = as_percent(path)
        notebook = jupytext.reads(text, fmt="py:percent")
        target = args.output / path.with_suffix(".ipynb").name
        jupytext.write(notebook, target)
        print(target)


def chosen(names):
    """Scripts of these names, without .py; all if there are none."""
    paths = sorted(path for path in HERE.glob("*.py") if path.name not in LEFT_OUT)
    unknown = set(names) - {path.stem for path in paths}
    if unknown:
        sys.exit(f"No such example: {', '.join(sorted(unknown))}")
    return [path for path in paths if not names or path.stem in names]


# ---------------------------------------------------------------- a script in cells


def as_percent(path):
    """The script in the percent format of jupytext, with a call in place of the command line."""
    source = path.read_text()
    tree = ast.parse(source)
    words = ast.get_docstring(tree)
    cells = [markdown(words)]
    if path.name in AS_COMMANDS:
        command = f'[sys.executable, r"{path.resolve()}", "--output", "out"]'
        run = f"import subprocess\nimport sys\n\nsubprocess.run({command}, check=True)"
        cells += [code(run), code(PICTURES.format(path.stem))]
        return "\n\n".join(cells) + "\n"
    lines = source.splitlines()
    first = tree.body[0].end_lineno
    guard = next(node.lineno for node in tree.body if is_guard(node)) - 1
    for title, part in parts_of(lines[first:guard]):
        if title:
            cells.append(markdown(f"## {title[0].upper()}{title[1:]}"))
        cells.append(code("\n".join(part)))
    cells.append(markdown("## Run it\n\nThe options are those of the command line."))
    call = f'import sys\n\nsys.argv = ["{path.name}", {options_of(source)}]\nmain()'
    cells.append(code(call))
    if "--output" in source:
        cells.append(code(PICTURES.format(path.stem.partition("_")[0])))
    return "\n\n".join(cells) + "\n"


def options_of(source):
    """What the list of options begins as."""
    return '"--output", "out"' if "--output" in source else ""


def is_guard(node):
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def parts_of(lines):
    """(title, lines) between the rules of a script; main, which comes before them, has none."""
    title, part = "", []
    for line in lines:
        if line.startswith(RULE):
            yield title, part
            title, part = line.strip("# -"), []
        else:
            part.append(line)
    yield title, part


def markdown(text):
    return "# %% [markdown]\n" + "\n".join(f"# {line}".rstrip() for line in text.splitlines())


def code(text):
    return "# %%\n" + text.strip("\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="examples, without .py (default: all)")
    parser.add_argument(
        "--output", type=Path, default=Path("out/notebooks"), help="folder to write to"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
