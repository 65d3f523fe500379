"""``python -m gpuml script.py``: run a program with its imports from scikit-learn accelerated."""

import argparse
import builtins
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import BuiltinImporter, ModuleSpec, SourceFileLoader, SourcelessFileLoader
from types import ModuleType, TracebackType
from typing import Any

from gpuml._accelerate import accelerate
from gpuml._accelerate.callers import is_within
from gpuml._accelerate.report import Report
from gpuml._settings.config import DEVICES, set_config

# Names that Python sets in `__main__`, and a function that compiles what is run there.
Contents = tuple[Mapping[str, object], Callable[[], Any]]


@dataclass(frozen=True)
class Program:
    """What Python would run, and the state that it would set up."""

    argv: list[str]
    load: Callable[[], Contents]  # may import packages that a module is in
    folder: str | None = None  # first entry of sys.path; None keeps the current one


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser()
    options = parser.parse_args(arguments)
    program = find_program(options, parser)
    sys.argv[:] = program.argv
    if program.folder is not None and not sys.flags.safe_path:
        sys.path[0] = program.folder
    if options.device is not None:
        set_config(device=options.device)
    try:
        accelerate(*options.only, quiet=options.quiet)
    except ValueError as error:
        parser.error(str(error))
    if not options.quiet:
        Report().begin()
    run(program)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpuml",
        description="Run a program. Where it imports names from scikit-learn that gpuml has too, "
        "it gets gpuml's.",
        epilog="What follows the program is passed on to it.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "-q",
        "--quiet",
        action="store_true",
        help="print neither what is replaced nor, at the end, what searches did",
    )
    add(
        *("--only",),
        type=names_of,
        default=(),
        metavar="NAMES",
        help="replace these alone: modules, or names in them, with commas between",
    )
    add("--device", choices=DEVICES, help="where data in CPU memory is worked on")
    rest = argparse.REMAINDER
    add("-m", nargs=rest, dest="module", help="run a module")
    add("-c", nargs=rest, dest="source", help="run a string")
    add("script", nargs=rest, help="run a file, a folder, or - for standard input")
    return parser


def names_of(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError("names with commas between are expected")
    return names


# ---------------------------------------------------------------- programs


def find_program(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Program:
    # What follows an attached value, as in -mtimeit, is in `script`.
    if options.module:
        return module_program(*options.module, *options.script)
    if options.source:
        text, *others = options.source
        return text_program(text, "<string>", ["-c", *others, *options.script])
    if not options.script:
        parser.error("there is nothing to run: name a script, -m MODULE or -c CODE.")
    if options.script[0] == "-":
        text, label = sys.stdin.read(), "<stdin>"
        return text_program(text, label, options.script, __file__=label, __cached__=None)
    return file_program(*options.script)


def text_program(text: str, label: str, argv: list[str], **names: object) -> Program:
    names |= {"__loader__": BuiltinImporter, "__package__": None, "__spec__": None}
    compiled = partial(compile, text, label, "exec", dont_inherit=True)
    return Program(argv, lambda: (names, compiled), folder="")


def module_program(name: str, *arguments: str) -> Program:
    return Program(["-m", *arguments], partial(load_module, name))


def load_module(name: str) -> Contents:
    spec, why = find_module(name), ""
    if spec is not None and spec.submodule_search_locations is not None:
        why = f"; {name!r} is a package and cannot be directly executed"
        name += ".__main__"
        spec = find_module(name)
    if spec is None:
        sys.exit(f"{sys.executable}: No module named {name}{why}")
    sys.argv[0] = str(spec.origin)
    return contents_of(spec)


def find_module(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not is_within(name, [error.name]):
            raise  # a package above it failed to import another one
        return None


def file_program(path: str, *arguments: str) -> Program:
    argv = [path, *arguments]
    absolute = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    importer = pkgutil.get_importer(absolute)
    if importer is not None:  # a folder, or a zip file
        spec = importer.find_spec("__main__")
        if spec is None:
            sys.exit(f"{sys.executable}: can't find '__main__' module in {absolute!r}")
        return Program(argv, partial(contents_of, spec), absolute)
    try:
        with open(absolute, "rb"):
            pass
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        sys.stderr.write(f"{sys.executable}: can't open file {absolute!r}: {reason}\n")
        sys.exit(2)
    folder = os.path.dirname(os.path.realpath(absolute))
    return Program(argv, partial(contents_of_script, absolute), folder)


def contents_of_script(file: str) -> Contents:
    """Names and code of a script, which is compiled each time; no bytecode is written."""
    names = {"__file__": file, "__cached__": None, "__package__": None, "__spec__": None}
    if file.endswith(".pyc"):
        compiled = SourcelessFileLoader("__main__", file)
        return {**names, "__loader__": compiled}, partial(compiled.get_code, "__main__")
    source = SourceFileLoader("__main__", file)
    return (
        {**names, "__loader__": source},
        lambda: source.source_to_code(source.get_data(file), file),
    )


def contents_of(spec: ModuleSpec) -> Contents:
    names = {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": spec.loader,
        "__package__": spec.parent,
        "__spec__": spec,
    }
    return names, lambda: spec.loader.get_code(spec.name)  # type: ignore[union-attr]


# ---------------------------------------------------------------- running


def run(program: Program) -> None:
    """Run a program as ``__main__``, which it stays to the end of the process.

    `runpy` would put back the module that was there before: to functions that run at exit, and to
    pickles that they write, the names of the program would be gone.
    """
    names, code = program.load()
    module = ModuleType("__main__")
    vars(module).update(names, __builtins__=builtins)
    sys.modules["__main__"] = module
    try:
        exec(code(), vars(module))
    except SystemExit:
        raise
    except BaseException:
        show_without_us(vars(module))
        raise


def show_without_us(names: dict[str, object]) -> None:
    """Let the traceback that Python is about to print begin where the program does."""
    show = sys.excepthook

    def hook(kind, error, traceback):
        sys.excepthook = show
        sys.last_traceback = part = part_of_program(traceback, names)
        show(kind, error.with_traceback(part), part)

    sys.excepthook = hook


def part_of_program(
    traceback: TracebackType | None, names: dict[str, object]
) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_globals is not names:
        traceback = traceback.tb_next
    return traceback


if __name__ == "__main__":
    main()
