"""A real browser (Debian's Chromium, headless) that looks at a page of the proxy."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, sync_playwright

SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")

_ROWS = """
selector => [...document.querySelectorAll(selector)].map(row => Object.fromEntries(
  [...row.children].map(cell => [cell.dataset.label ?? "", cell.innerText.replace(/\\s+/g, " ").trim()])))
"""
_FLAWS = """
() => [
  ...(document.documentElement.scrollWidth > innerWidth ? ["it scrolls sideways"] : []),
  ...[...document.querySelectorAll("td[data-label]")]
    .filter(cell => getComputedStyle(cell, "::before").content !== "none")
    .filter(cell => {
      const inside = document.createRange();
      inside.selectNodeContents(cell);
      return [...inside.getClientRects()].some(one => one.left - cell.getBoundingClientRect().left < 100);
    })
    .map(cell => `in the column of labels: ${cell.innerText}`),
  ...[...document.querySelectorAll("td")]
    .filter(cell => cell.scrollWidth > cell.clientWidth + 1)
    .map(cell => `out of its cell: ${cell.innerText}`),
  ...[...document.querySelectorAll("td.number")]
    .filter(cell => cell.firstChild && cell.checkVisibility())
    .filter(cell => {
      const inside = document.createRange();
      inside.selectNodeContents(cell);
      return new Set([...inside.getClientRects()].map(one => Math.round(one.top))).size > 1;
    })
    .map(cell => `a number on two lines: ${cell.innerText}`),
  ...[...document.querySelectorAll("label[for]")]
    .filter(label => Math.abs(label.getBoundingClientRect().top - label.control.getBoundingClientRect().top) > 20
      || label.getBoundingClientRect().right > label.control.getBoundingClientRect().left)
    .map(label => `apart from its control: ${label.innerText}`),
  ...[...document.querySelectorAll(".tiles dd")]
    .filter(tile => tile.scrollWidth > tile.clientWidth)
    .map(tile => `out of its tile: ${tile.innerText}`)]
"""
_VIOLATIONS = """
async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .map(rule => `axe: ${rule.id}: ${rule.help}: ${rule.nodes[0].html}`)
"""
"""The rules of axe-core that the page breaks, each with the first element that does."""


@contextlib.contextmanager
def open_page(chromium: str, url: str, errors: list[str]) -> Iterator[Page]:
    """The page at `url`. What the browser complains about goes to `errors`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        yield page
        browser.close()


def rows(page: Page, table: str) -> list[dict[str, str]]:
    """What the rows of a table say, by the heading of the column; that of the first column is ''.

    All at one moment, since the page replaces its rows.
    """
    found: list[dict[str, str]] = page.evaluate(_ROWS, f"table.{table} tbody tr")
    return found


def flaws(browser: Browser, url: str, pictures: Path) -> list[str]:
    """What is laid out badly in the page at `url`, or violates a rule of axe, on any screen. Pictures are kept."""
    found = []
    page = browser.new_page()
    page.goto(url)
    page.evaluate(AXE_SCRIPT)
    for size, viewport in SIZES.items():
        for scheme in SCHEMES:
            page.set_viewport_size(viewport)
            page.emulate_media(color_scheme=scheme)
            name = f"{pictures.name}-{size}-{scheme}"
            page.screenshot(path=pictures.with_name(f"{name}.png"), full_page=True)
            found += [f"{name}: {flaw}" for flaw in [*page.evaluate(_FLAWS), *page.evaluate(_VIOLATIONS)]]
    page.close()
    return found
