"""Words that have one meaning each, in pages, docstrings, comments, messages and names of modules."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What is not said, as a regular expression, and what is said instead. In pages, and in all text of
# both packages and of the examples:
EVERYWHERE = {
    r"host memory|memory of the host": "CPU memory",
    r"device memory|memory of (the|a) (device|GPU)": "GPU memory",
    r"data frames?|frames? of (pandas|polars|cuDF|Dask)|(pandas|polars|cuDF|Dask) frames?": "DataFrame",
    r"second derivatives?": "Hessian, or curvature",
    r"a wish (to|for)": "the verb itself: 'Show a progress bar'",
    r"(who|whoever|those who|the one who|all who) asks?": "the caller",
}
# In pages for users:
PAGES = {
    r"frames?": "DataFrame",
    r"host (rows|data)|rows of the host": "rows, or data, in CPU memory",
    r"host (array|copy|copies)|host arrays": "NumPy array, or copy in CPU memory",
    r"(on|to|by|of) the host": "in CPU memory, or on the CPU",
}
# In pages for users too: turns of phrase that no stranger would use, and some that say nothing.
PLAIN = {
    r"(what|that) (is|was|are|were) asked for|(is|are|was|were) asked for": "what it is: 'the solver you chose'",
    r"whoever|for who|who wants?": "you",
    r"nobody (knows|says|has|works|asks)": "what happens, in the active voice",
    r"such of (those|them|these)|of which (some|those)": "some of them",
    r"(be|is|are) (not )?of ours|(of|by) our own|ours": "gpuml's",
    r"holes?": "missing values",
    r"some (ten|tens|\d+)": "about ten",
    r"(with|without) a word|a word about|unasked": "a warning, or silently",
    r"to the letter": "exactly",
    r"as (sizes|the sizes|they) say": "when: 'if the rows are too many for one worker'",
    r"goes? (at once|the same way)": "'is batched', or 'works the same way'",
    r"training parts?|held-out parts?": "training set, held-out rows",
    r"laid out": "ordered, copied, or prepared",
    r"mend(ed|s|ing)?": "fix",
    r"(and|or) its kin": "and similar classes",
    r"numbers? of rows": "sample sizes, or how many rows",
    r"lets? go of": "release",
    r"of what (they|it|these) makes?": "of their output",
    r"stands? (apart|before|behind|in front)": "comes before, or comes after",
    r"what is (left of|known of|behind)": "the noun: 'the remaining rows'",
    r"in units of their own": "unscaled",
    r"models? with a face": "models with a scikit-learn interface",
    r"what (people|a user) (have|has|wants?|asks?)": "you",
    r"one reading of": "one pass over",
    r"gives? back|a doubt (about|that)|is a matter of|as it (comes|is told)": "a plain verb",
    r"worked (on|out) (there|where)": "where it runs",
    r"in a way of (its|their) own|goes? by (itself|themselves)": "is fitted by itself",
}
# Names of modules say what they hold, and these do not.
MODULES = {
    *("costs", "door", "growing", "home", "kinds", "lessons", "now", "prepared", "routes", "sent"),
    *("small", "told", "who", "words"),
}

SOURCES = sorted(
    p
    for d in ("gpuml", "gpuml_dask", "examples", "benchmarks/programs")
    for p in ROOT.glob(f"{d}/**/*.py")
)
# Not the pages of benchmarks, whose tables have the names that committed results give to what ran.
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "benchmarks/**/README.md", "examples/README.md")
    for path in ROOT.glob(pattern)
    if not path.name.startswith("benchmarks")
)
# To those who work on the library a frame is also a change of coordinates.
FOR_USERS = [path for path in DOCUMENTS if path.name not in ("design.md", "numerics.md")]

CODE = r"`[^`\n]*`"
OF_PAGES = (r"^( *)```[\s\S]*?^\1```", r"^(?:    .*\n)+", CODE, r"\]\([^)\n]*\)")
OF_SOURCES = (CODE, r"^ *(?:>>>|\.\.\.) .*")
SAID = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", None)}
# Tokens of their own around f-strings, from Python 3.12 on.
QUOTES = {getattr(tokenize, f"FSTRING_{name}", None) for name in ("START", "END")}
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def without(patterns, text):
    """A text in which no phrase is found in, or across, what matches; lines keep their numbers."""
    for pattern in patterns:
        text = re.sub(pattern, lambda m: re.sub(r"[^\n]", "\0", m[0]), text, flags=re.M)
    return text


def prose_of_page(text):
    """The words of a page; of a changelog those of the release to come."""
    releases = [found.start() for found in re.finditer(r"^## \[", text, re.M)]
    return without(OF_PAGES, text[: releases[1]] if releases[1:] else text)


def prose_of_source(text):
    """Docstrings, comments and messages; a phrase may go on in the next comment or string."""
    said, row = [], 1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        said.append("\n" * (token.start[0] - row))
        row = token.end[0]
        if token.type in SAID:
            said.append(" " + re.sub(r"^#|^[a-zA-Z]{0,2}[\"']+|[\"']+$", "", token.string))
        elif token.type in QUOTES:
            continue
        elif token.type in LAYOUT:
            row = token.start[0]
        else:
            said.append("\0")
    return without(OF_SOURCES, "".join(said))


def banned(text, words):
    """Places of banned words in a text: line, words, and what to say instead."""
    for pattern, instead in words.items():
        pattern = pattern.replace(" ", r"\s+")
        for found in re.finditer(rf"(?<![\w.-])(?:{pattern})(?![\w(=-])", text, re.I):
            yield text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), instead


def said_in(path, prose, words):
    where = path.relative_to(ROOT).as_posix()
    return [
        f"{where}:{line}: {found!r}: say {instead}"
        for line, found, instead in banned(prose(path.read_text()), words)
    ]


@pytest.mark.parametrize(
    ("paths", "prose", "words"),
    [
        pytest.param(DOCUMENTS, prose_of_page, EVERYWHERE, id="pages"),
        pytest.param(FOR_USERS, prose_of_page, PAGES | PLAIN, id="pages for users"),
        pytest.param(SOURCES, prose_of_source, EVERYWHERE, id="sources"),
    ],
)
def test_banned_words_are_not_said(paths, prose, words):
    found = [line for path in paths for line in said_in(path, prose, words)]
    assert not found, "\n" + "\n".join(found)


def test_modules_say_what_they_hold():
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in SOURCES
        if path.stem.strip("_") in MODULES
    }
    assert not modules, f"name them by what they hold: {sorted(modules)}"


@pytest.mark.parametrize(
    ("prose", "text", "lines"),
    [
        (prose_of_page, "Rows in host\nmemory and in Device memory.", [1, 2]),
        (prose_of_page, "`host memory`, [a](host memory)\n\n    host memory\n", []),
        (prose_of_source, '"""A.\n\nIn host\nmemory."""\n', [3]),
        (prose_of_source, "x = 1\n# In host\n# memory.\n", [2]),
        (prose_of_source, 'error = (\n    "rows in host "\n    f"memory of {name}"\n)\n', [2]),
        (prose_of_source, 'where = {"host": host, "memory": "device", 1: memory}\n', []),
        (prose_of_source, '"""`host memory`\n\n>>> host memory\n"""\n', []),
    ],
)
def test_words_are_found_where_they_are(prose, text, lines):
    assert sorted(line for line, *_ in banned(prose(text), EVERYWHERE)) == lines
