"""docs/adapters.md says what the rows say, and its example runs."""

import re
import subprocess
import sys

from gpuml.adapters import all_rows
from tests.adapters.page import PAGE, page


def test_the_page_is_of_today():
    text = PAGE.read_text()
    assert page(text) == text, "run: python -m tests.adapters.page"


def test_the_table_has_every_class():
    text = PAGE.read_text()
    for path in all_rows():
        assert f"| `{path.removeprefix('gpuml.')}` |" in text


def test_the_example_shows_what_it_says():
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == re.findall(r"print\(.*# (.*)", code)
