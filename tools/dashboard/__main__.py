"""Draws the dashboard into docs/images, of a migration that is played on a real Kafka for six minutes.

``python -m tools.dashboard http://127.0.0.1:9090`` plays nothing, and draws the last hour that this Prometheus has.
Needs Chromium and Prometheus (Debian's packages `chromium` and `prometheus`) and, for Kafka, Java and Maven.
"""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tools` is not installed

from tools.dashboard import drawing, scene
from tools.dashboard.answers import Prometheus

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "charts" / "epochgate" / "files" / "dashboard.json"
IMAGES = ROOT / "docs" / "images"
ROWS = {"progress": slice(0, 2), "harm": slice(2, 4)}
"""The rows of each picture."""
VARIABLES = {"instance": ".*"}
AN_HOUR_S = 3600.0


def rows(dashboard: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """Return the panels of each row, the row itself first."""
    found: list[list[Mapping[str, Any]]] = []
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            found.append([])
        found[-1].append(panel)
    return found


def draw(prometheus: Prometheus) -> None:
    """Draw all pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise FileNotFoundError("no chromium here: install Debian's package `chromium`")
    dashboard = json.loads(DASHBOARD.read_text())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, some in ROWS.items():
            panels = [panel for row in rows(dashboard)[some] for panel in row]
            shown = [(panel, prometheus.lines(panel, VARIABLES)) for panel in panels]
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport={"width": 1440, "height": 800}, color_scheme=scheme)
                page.set_content(drawing.page(dashboard["title"], shown, (prometheus.start, prometheus.end)))
                file = IMAGES / f"dashboard-{name}-{scheme}.png"
                page.screenshot(path=file, full_page=True)
                page.close()
                say(f"{file.relative_to(ROOT)} ({file.stat().st_size // 1024} KiB)")
        browser.close()


def main(arguments: Sequence[str]) -> None:
    """Draw what a Prometheus knows, or play the migration first."""
    with contextlib.ExitStack() as stack:
        began = time.time()
        if arguments:
            url, began = arguments[0], began - AN_HOUR_S
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = stack.enter_context(scene.played(folder, say))
        draw(Prometheus(url, began, time.time()))


def say(line: str) -> None:
    """Print progress at once."""
    print(f"dashboard: {line}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
