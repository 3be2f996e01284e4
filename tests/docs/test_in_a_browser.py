"""The site in a real browser: it draws its diagrams, fits every screen, and asks nobody else for anything."""

import functools
import http.server
import threading

import pytest
from playwright.sync_api import sync_playwright

from tests.skips import program

SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    path = program("chromium", "chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_page_with_diagrams(address, browser, size, scheme):
    context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)
    page = context.new_page()
    requests, errors = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{address}explanation/translation/")
    page.locator("div.mermaid").first.wait_for()
    page.wait_for_function("document.querySelectorAll('pre.mermaid').length === 0")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert (
        page.locator("body").get_attribute("data-md-color-scheme")
        == {"light": "default", "dark": "slate"}[scheme]
    )
    assert errors == []
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []
    context.close()
