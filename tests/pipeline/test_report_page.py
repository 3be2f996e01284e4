"""The report as a person sees it: its figures, in a real browser, on paper."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright
from pyspark.sql import SparkSession

from pipeline.report import facts
from pipeline.report import job as report
from pipeline.rules.gains import AFTER, BEFORE
from tests.pipeline import large_fleet
from tests.pipeline.large_fleet import Fleet
from tests.skips import Need, without

pytestmark = pytest.mark.timeout(600)

GROUPS = 120
SIDEWAYS = "() => document.documentElement.scrollWidth > innerWidth"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    return folder, large_fleet.write(folder, GROUPS)


@pytest.fixture(scope="module")
def page(fleet: tuple[Path, Fleet], spark: SparkSession) -> Path:
    folder, _ = fleet
    out = folder / "report.html"
    report.run(spark, out, folder / "readiness", folder / "progress", folder / "audit")
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        without(Need.TOOLS, "no Chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


def test_the_figures_of_the_move_are_those_that_were_written(
    fleet: tuple[Path, Fleet], spark: SparkSession
) -> None:
    folder, written = fleet
    move = facts.progress(spark, folder / "progress").move
    left = facts.still_there(spark, folder / "readiness", folder / "progress")
    assert move.states == written.states
    assert move.gained.compared == written.compared
    assert all(written.compared[one] for one in ("shorter", "longer", "too_few")), "nothing is compared"
    assert move.moved_at[-1]["groups"] == GROUPS - written.states["not begun"]
    assert {(row["verdict"], row["state"]): row["count"] for row in left.counts} == written.left
    assert {row["code"]: row["groups"] for row in left.reasons} == written.blocked_by
    before, after = move.gained.kinds
    assert [(row["kind"], row["phase"]) for row in (before, after)] == [("join", BEFORE), ("join", AFTER)]
    assert after["stood_ms"] < before["stood_ms"]


def test_a_reader_of_the_first_lines_knows_how_it_stands(page: Path, fleet: tuple[Path, Fleet]) -> None:
    _, written = fleet
    text = page.read_text(encoding="utf-8")
    assert f"Of {GROUPS} groups in the journal {written.states['moved']} have moved" in text
    blocked = sum(written.blocked_by.values())
    can = sum(written.left.values()) - blocked
    assert f"Left are {can} groups that can move, and {blocked} that can&#39;t yet." in text
    assert "No partition was found to be owned by two members at once, as far as the journal tells" in text
    assert "_epochgate-5.b1.7.jsonl" in text


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_is_accessible(colours: Literal["light", "dark"], page: Path, browser: Browser) -> None:
    opened = browser.new_page(color_scheme=colours)
    opened.goto(page.as_uri())
    found = Axe().run(opened).response["violations"]
    opened.close()
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []


@pytest.mark.parametrize("width", [1280, 390])
def test_it_does_not_scroll_sideways(width: int, page: Path, browser: Browser, tmp_path: Path) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 900})
    opened.goto(page.as_uri())
    opened.screenshot(path=tmp_path / f"{width}.png", full_page=True)
    sideways = opened.evaluate(SIDEWAYS)
    opened.close()
    assert not sideways


def test_on_paper_nothing_is_cut_off(page: Path, browser: Browser, tmp_path: Path) -> None:
    """A4 has 182 mm between the margins, which are 688 pixels of CSS."""
    opened = browser.new_page(viewport={"width": 688, "height": 1000})
    opened.goto(page.as_uri())
    opened.emulate_media(media="print")
    wide = opened.evaluate(
        "() => [...document.querySelectorAll('main *')].filter(one => "
        "one.getBoundingClientRect().right > 689 && !one.closest('svg')).map(one => one.outerHTML.slice(0, 200))"
    )
    hidden = opened.evaluate("() => getComputedStyle(document.querySelector('nav')).display")
    pdf = opened.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    opened.close()
    assert (wide, hidden) == ([], "none")
    assert pdf.startswith(b"%PDF")
