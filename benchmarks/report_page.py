"""Measures `epochgate pipeline report` for 20,000 groups: how long it takes, and how large and fast its page is.

`python -m benchmarks.report_page` (`make bench-report`). The tables are written directly, by
tests/pipeline/large_fleet.py: ten pauses and up to three windows a group. The page is loaded in Chromium several times
and the quickest counts: the browser's own `loadEventEnd`, and the seconds until its print as PDF is done.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from pipeline import spark as sessions
from pipeline.report import job as report
from tests.pipeline import large_fleet
from tests.pipeline.command_line import SETTINGS

RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench-report.json"
_LOADS = 5
_LOADED = "() => performance.getEntriesByType('navigation')[0].loadEventEnd"


def measure(groups: int, folder: Path) -> dict[str, float]:
    """Write the tables, make the page, and load it."""
    large_fleet.write(folder, groups)
    page = folder / "report.html"
    spark = sessions.start("bench", master="local[2]", conf=SETTINGS)
    try:
        begun = time.monotonic()
        report.run(spark, page, folder / "readiness", folder / "progress", folder / "audit")
        took_s = time.monotonic() - begun
    finally:
        spark.stop()
    load_ms, nodes, print_s = _in_browser(page)
    return {
        "groups": groups,
        "report_s": took_s,
        "html_kib": page.stat().st_size / 1024,
        "load_ms": load_ms,
        "nodes": nodes,
        "print_s": print_s,
    }


def _in_browser(page: Path) -> tuple[float, int, float]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        loads = []
        for _ in range(_LOADS):
            opened = browser.new_page()
            opened.goto(page.as_uri(), wait_until="load")
            opened.wait_for_function(f"({_LOADED})() > 0")
            loads.append(opened.evaluate(_LOADED))
            nodes = opened.evaluate("() => document.querySelectorAll('*').length")
            begun = time.monotonic()
            opened.pdf(path=page.with_suffix(".pdf"), prefer_css_page_size=True)
            print_s = time.monotonic() - begun
            opened.close()
        browser.close()
    return min(loads), nodes, print_s


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report_page", description=__doc__)
    parser.add_argument("--groups", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="epochgate-bench-report-") as folder:
        found = measure(options.groups, Path(folder))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    table = Table("groups", "report", "page", "elements", "loaded in", "printed in")
    table.add_row(
        f"{options.groups:,}",
        f"{found['report_s']:.1f} s",
        f"{found['html_kib']:.0f} KiB",
        f"{found['nodes']:.0f}",
        f"{found['load_ms']:.0f} ms",
        f"{found['print_s']:.1f} s",
    )
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
