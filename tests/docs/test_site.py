"""The documentation site: it builds with `--strict`, its links lead somewhere, and it loads nothing from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools.docs_site import hooks, mermaid

from .conftest import ROOT

ASSETS = {("script", "src"), ("img", "src"), ("source", "srcset"), ("iframe", "src"), ("link", "href")}


class Html(HTMLParser):
    """What a page of the site loads, where it links to, and the anchors that it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.assets: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.anchors.add(value)
            elif (tag, name) in ASSETS:
                self.assets.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Html]:
    return {file: Html(file) for file in site.rglob("*.html")}


def test_every_page_of_docs_is_in_the_site(site):
    for source in (ROOT / "docs").rglob("*.md"):
        name = source.relative_to(ROOT / "docs").with_suffix("")
        folder = site / name.parent if name.name == "index" else site / name
        assert (folder / "index.html").exists(), name


def test_links_and_anchors_lead_somewhere(site, pages):
    broken = []
    for file, page in pages.items():
        if file.name == "404.html":
            continue  # its links begin at the root of the server
        for link in (*page.links, *(asset.partition("#")[0] for asset in page.assets)):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else set()
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in anchors):
                broken.append((str(file.relative_to(site)), link))
    assert not broken


def test_a_page_loads_nothing_from_elsewhere(site, pages):
    elsewhere = {
        asset
        for page in pages.values()
        for asset in page.assets
        if urlsplit(asset).scheme or urlsplit(asset).netloc
    }
    assert elsewhere == set()
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", style.read_text(encoding="utf-8")), (
            style
        )


def test_links_to_files_of_the_repository_lead_to_files_that_exist(pages):
    forge = "https://github.com/epochgate/epochgate/"
    linked = {link for page in pages.values() for link in page.links if link.startswith(f"{forge}blob/main/")}
    assert linked
    for link in linked:
        assert (ROOT / urlsplit(link).path.split("/blob/main/")[1]).exists(), link


def test_a_page_with_a_diagram_loads_the_local_script_before_the_theme(tmp_path, monkeypatch):
    page = type("Page", (), {"url": "explanation/translation/"})
    html = (
        '<pre class="mermaid"><code>x</code></pre><script src="../../assets/javascripts/bundle.js"></script>'
    )
    shown = hooks.on_post_page(html, page)
    assert re.findall(r'script src="([^"]+)"', shown) == [
        "../../assets/javascripts/mermaid.min.js",
        "../../assets/javascripts/bundle.js",
    ]


def test_a_page_without_a_diagram_does_not_load_the_script():
    html = '<script src="bundle.js"></script>'
    assert hooks.on_post_page(html, type("Page", (), {"url": ""})) == html


def test_an_archive_that_is_not_the_pinned_one_is_refused():
    with pytest.raises(mermaid.NoMermaidError, match="SHA-512"):
        mermaid._script_in(b"something else")
