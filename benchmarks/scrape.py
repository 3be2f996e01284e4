"""Measures a scrape of /metrics with 1,000 groups of 10 members, and while 10,000 short-lived groups come and go.

`python -m benchmarks.scrape` (`make bench-scrape`; half a minute). The events of the members are recorded as a proxy
records them, and the admin port's application answers without a socket. Of each scrape the size, the processor time
(median of seven) and its share of a core at the chart's interval are measured. With `--record` they go to
docs/evidence/scrape.json, from which `python -m tools.scrape_table` makes the table of
docs/evidence/observability-cost.md.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import trio
from starlette.applications import Starlette

from benchmarks.visibility import get, held, life, observing
from proxy.admin.admin_http import Health, SingleProcessBackend, admin_app
from proxy.config.schema import Log, MetricsSection
from proxy.groups.observability import Observability
from proxy.metrics.registry import Metrics
from proxy.runtime import log_setup
from tools.scrape_table import RESULT, table
from translation.actions import Event, EventKind
from translation.members.member_state import MemberState

GROUPS, MEMBERS = 1_000, 10
SHORT_LIVED, EVERY = 10_000, 2_000
INTERVAL_S = 30
"""Of the chart's monitors."""


class Scraped:
    """A registry of groups, and the admin port that shows it."""

    def __init__(self) -> None:
        metrics = Metrics()
        self._observability: Observability = observing(metrics)
        self._site: Starlette = admin_app(SingleProcessBackend(metrics, Health(metrics), {}))

    def record(self, events: list[Event]) -> None:
        """As a proxy does with what its clients do."""
        for event in events:
            self._observability.record(event)

    def measure(self, seen: int) -> dict[str, Any]:
        """One row: after ``seen`` groups."""
        one = trio.run(held, partial(get, self._site, "/metrics"))
        return {
            "groups": seen,
            "kib": one["kib"],
            "ms": one["ms"],
            "share": one["ms"] / 1000 / INTERVAL_S,
            "rss_mib": _rss_mib(),
        }


def lasting() -> dict[str, Any]:
    """Groups that stay."""
    scraped = Scraped()
    for number in range(GROUPS):
        scraped.record(life(number, MEMBERS))
    return scraped.measure(GROUPS)


def short_lived() -> list[dict[str, Any]]:
    """Groups of one member each, one after another: it joins, and leaves."""
    scraped, rows = Scraped(), []
    for number in range(1, SHORT_LIVED + 1):
        joined = life(number, 1)
        left = Event(
            kind=EventKind.LEFT,
            group_id=joined[0].group_id,
            member_id=joined[0].member_id,
            protocol=joined[0].protocol,
            state=MemberState.ABSENT,
            owned=(),
        )
        scraped.record([*joined, left])
        if number % EVERY == 0:
            rows.append(scraped.measure(number))
    return rows


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrape", description=__doc__)
    parser.add_argument("--record", action="store_true", help="into docs/evidence/scrape.json")
    options = parser.parse_args()
    log_setup.configure(Log(level="warning"))
    result = {
        "interval_s": INTERVAL_S,
        "members": MEMBERS,
        "labels": MetricsSection().groups,
        "lasting": lasting(),
        "short_lived": short_lived(),
    }
    if options.record:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
