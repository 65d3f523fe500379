"""The built site, as a reader sees it: `make docs-check`, or with GPUML_SITE=folder."""

import os
import posixpath
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import Browser, executable

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[1]
SITE = Path(os.environ.get("GPUML_SITE", ROOT / "out" / "docs"))
# Of the pages that are generated for classes and functions, some stand for all in the browser.
SOME_OF_THE_REFERENCE = ("Ridge", "GridSearchCV", "KMeans", "svd_compressed")
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# Pictures that are loaded when they are scrolled to are loaded now.
BROKEN = """Promise.all([...document.images].map(image => {
    image.loading = "eager";
    return image.decode().then(() => "", () => image.currentSrc);
})).then(all => all.filter(source => source.startsWith(location.origin)))"""

if not (SITE / "index.html").exists():
    pytest.skip(f"no site in {SITE}: make docs", allow_module_level=True)
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if "_static" not in path.parts  # a template of the theme
)


def is_looked_at(page):
    if "reference/generated/" not in page:
        return not page.startswith(("_modules", "genindex"))
    return page.rpartition(".html")[0].rpartition(".")[2] in SOME_OF_THE_REFERENCE


class Anchors(HTMLParser):
    """Links of a page, and where links into it may lead."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        for name in ("href", "src"):
            if given.get(name):
                self.links.add(given[name])


def test_no_link_is_dead():
    files = {path.relative_to(SITE).as_posix() for path in SITE.rglob("*") if path.is_file()}
    read = {page: Anchors((SITE / page).read_text()) for page in PAGES}
    dead = []
    for page, anchors in read.items():
        for link in anchors.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            inside = posixpath.join(posixpath.dirname(page), unquote(parts.path))
            target = posixpath.normpath(inside) if parts.path else page
            anchor = unquote(parts.fragment)
            known = target not in read or not anchor or anchor in read[target].ids
            if target not in files or not known:
                dead.append(f"{page}: {link}")
    assert not dead, "\n" + "\n".join(dead)


@pytest.fixture(scope="module")
def address():
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if executable() is None:
        pytest.skip("no Chromium is installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.parametrize("page", [page for page in PAGES if is_looked_at(page)])
@pytest.mark.parametrize("width", [400, 1400])
def test_a_page_fits_has_its_pictures_and_no_error(browser, address, page, width):
    browser.go(f"{address}/{page}", width)
    assert browser.value(OVERFLOW) <= 0
    assert browser.value(BROKEN) == []
    assert browser.errors() == []
    # Everything comes from the site: it works without a network.
    here = f"{address}/", "data:", "blob:"
    assert [url for url in browser.requests() if not url.startswith(here)] == []


def test_formulas_are_drawn(browser, address):
    browser.go(f"{address}/reference/generated/gpuml.linear_model.Ridge.html", 1400)
    assert any("/_static/tex-svg-full.js" in url for url in browser.requests())
    drawn = """MathJax.startup.promise.then(() => [
        document.querySelectorAll(".math").length,
        document.querySelectorAll(".math mjx-container > svg").length,
        document.querySelectorAll("[data-mjx-error]").length,
    ])"""
    n_formulas, n_drawn, n_wrong = browser.value(drawn)
    assert n_formulas == n_drawn > 0
    assert n_wrong == 0


def test_a_chart_is_light_on_dark_with_the_dark_theme(browser, address):
    browser.go(f"{address}/index.html", 1400)
    style = 'getComputedStyle(document.querySelector(".bd-content img")).filter'
    for theme, inverted in (("light", False), ("dark", True)):
        browser.value(f"document.documentElement.dataset.theme = {theme!r}")
        assert ("invert(1)" in browser.value(style)) == inverted


def test_classes_link_to_their_source_and_to_examples():
    text = (SITE / "reference/generated/gpuml.linear_model.Ridge.html").read_text()
    assert "_modules/gpuml/linear_model/ridge.html#Ridge" in text
    assert "auto_examples/01_grid_search.html" in text
    assert not (SITE / "_modules" / "sklearn").exists()


@pytest.mark.parametrize(
    ("words", "title"),
    [("randomized search", "RandomizedSearchCV"), ("optuna", "Optuna"), ("ridge", "Ridge")],
)
def test_the_search_finds_what_people_look_for(browser, address, words, title):
    browser.go(f"{address}/search.html?q={words.replace(' ', '+')}", 1400)
    found = """new Promise(resolve => {
        const look = tries => {
            const found = document.querySelector("#search-results");
            const items = [...found.querySelectorAll("li a")];
            const is_done = found.textContent.includes("Search finished");
            if (is_done || !tries) resolve(items.map(item => item.textContent));
            else setTimeout(() => look(tries - 1), 100);
        };
        look(300);
    })"""
    assert any(title in each for each in browser.value(found))
