"""Writes what compiling the request path gains into docs/evidence/performance.md.

The run is in docs/evidence/compiled.json; the benchmark that made it is in the history, at commit d0d482fd.
``python -m tools.recorded_tables`` writes the page.
"""

import statistics
from collections.abc import Sequence

from tools.recorded import EVIDENCE, Entry, Recorded, markdown, one_by_one

MEASURES = {
    "heartbeat": "processor time of a translated Heartbeat, µs",
    "passing_heartbeat": "of a Heartbeat that passes through, µs",
    "request": "of a 100-byte request, µs",
    "in_process": "of a translated Heartbeat, the client in the same process, µs",
    "calls": "calls that the interpreter makes for it",
    "start_ms": "of a start until the proxy is ready, ms",
    "rest_mib": "resident memory then, MiB",
    "seeds": "seeds of the simulation in a minute of processor time",
}


def _cell(values: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


def table(run: Entry) -> str:
    """Return a row for each measure: medians with quartiles, and the change of the median."""
    rows = [
        (
            words,
            _cell(run["plain"][name]),
            _cell(run["compiled"][name]),
            f"{statistics.median(run['compiled'][name]) / statistics.median(run['plain'][name]) - 1:+.0%}",
        )
        for name, words in MEASURES.items()
    ]
    return markdown(("median (quartiles)", "plain", "compiled", "change"), rows) + (
        f"\n{run['modules']} extension modules of {run['bytes'] / 2**20:.0f} MiB, which took"
        f" {run['cpu_s'] / 60:.1f} minutes of processor time to build."
        f" Other processes used at most {run['others']:.2f} of a core.\n"
    )


def _title(run: Entry) -> str:
    return (
        f"Python {run['python']}, {run['processors']} processors, commit `{run['commit']}`, {run['date']}"
        f" (`{run['command']}`, {len(run['plain']['heartbeat'])} rounds):"
    )


RUNS = Recorded(
    EVIDENCE / "compiled.json",
    EVIDENCE / "performance.md",
    "compiled",
    lambda run: run["python"],
    one_by_one(_title, table),
)
