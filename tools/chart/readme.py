"""Writes the chart's README: a page around the table that helm-docs makes of the values' comments."""

import subprocess

from tools.chart.binaries import binary
from tools.chart.render import CHART

PATH = CHART / "README.md"


def wanted() -> str:
    """Return the text that ``README.md.gotmpl`` and ``values.yaml`` produce."""
    command = [
        str(binary("helm-docs")),
        "--chart-search-root",
        str(CHART),
        "--template-files",
        "README.md.gotmpl",
        "--sort-values-order",
        "file",
        "--dry-run",
        "--log-level",
        "warning",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=CHART)
    return done.stdout.strip() + "\n"
