"""Writes the processor time of TLS into docs/evidence/performance.md: ``python -m tools.recorded_tables``.

The runs are in docs/evidence/tls.json, where ``python -m benchmarks.tls_relay COMMIT --record`` puts them.
"""

import statistics

from tools.recorded import EVIDENCE, Entry, Recorded, markdown, one_by_one

WORK = {
    "MiB": "a MiB relayed",
    "exchange": "100 bytes there and back",
    "handshake": "a handshake, both sides",
}
PARTS = {"openssl": "OpenSSL", "kernel": "kernel", "rest": "the rest"}


def _median(run: Entry, version: str, work: str, *parts: str) -> float:
    return float(statistics.median(sum(one[work][part] for part in parts) for one in run[version]))


def _change(run: Entry, work: str, *parts: str) -> str:
    return f"{_median(run, 'after', work, *parts) / _median(run, 'before', work, *parts) - 1:+.0%}"


def table(run: Entry) -> str:
    """Return a row for each work: medians before and after, and the change of what is not OpenSSL's."""
    rows = []
    for work, words in WORK.items():
        split = [
            (f"{_median(run, 'before', work, part):,.0f}", f"{_median(run, 'after', work, part):,.0f}")
            for part in PARTS
        ]
        cells = [f"{before} → {after}" for before, after in split]
        without, every = _change(run, work, "kernel", "rest"), _change(run, work, *PARTS)
        if work == "handshake":  # its OpenSSL is not timed on its own
            cells[0], without = "in the rest", ""
        rows.append((words, *cells, without, every))
    return markdown(("median, µs", *PARTS.values(), "change without OpenSSL", "change of all"), rows)


def _title(run: Entry) -> str:
    return (
        f"{run['openssl']}, commit `{run['commit']}` after `{run['base']}`, {run['date']}, load average"
        f" {run['load']:g} (`{run['command']}`, {len(run['after'])} rounds):"
    )


RUNS = Recorded(
    EVIDENCE / "tls.json",
    EVIDENCE / "performance.md",
    "tls",
    lambda run: run["base"],
    one_by_one(_title, table),
)
