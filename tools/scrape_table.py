"""Writes what a scrape costs into docs/evidence/observability-cost.md: ``python -m tools.scrape_table``.

The figures are in docs/evidence/scrape.json, where ``python -m benchmarks.scrape --record`` puts them.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.markers import replaced

_ROOT = Path(__file__).resolve().parents[1]
RESULT = _ROOT / "docs" / "evidence" / "scrape.json"
PAGE = _ROOT / "docs" / "evidence" / "observability-cost.md"


def table(result: Mapping[str, Any]) -> str:
    """Return a row for the groups that stay, and one for each number of short-lived groups so far."""
    every = f"share of a core, scraped every {result['interval_s']} s"
    lasting = result["lasting"]
    rows = [
        f"| | KiB | ms of processor | {every} | process, MiB |",
        "| --- | --- | --- | --- | --- |",
        _row(f"{lasting['groups']:,} groups, {lasting['groups'] * result['members']:,} members", lasting),
        *(
            _row(f"{one['groups']:,} groups of one member have come and gone", one)
            for one in result["short_lived"]
        ),
    ]
    labels = (
        f"`metrics.groups` is {result['labels']:,}, so all of the lasting groups have series of their own."
    )
    return "\n".join(rows) + f"\n\n{labels}\n"


def _row(what: str, one: Mapping[str, Any]) -> str:
    return f"| {what} | {one['kib']:.0f} | {one['ms']:.0f} | {one['share']:.2%} | {one['rss_mib']:.0f} |"


def page(before: str, result: Mapping[str, Any]) -> str:
    """Return the page with these figures."""
    return replaced(before, "scrape", table(result))


def main() -> int:
    """Write the page."""
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), result), encoding="utf-8")
    print(PAGE.relative_to(_ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
