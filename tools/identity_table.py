"""Writes what delegation tokens cost clients with certificates into docs/evidence/performance.md.

The runs are in docs/evidence/identity.json, where ``python -m benchmarks.identity --record`` puts them;
``python -m tools.recorded_tables`` writes the page.
"""

import statistics
from collections.abc import Sequence

from tools.recorded import EVIDENCE, Entry, Recorded, by_kafka, markdown, one_by_one, title

_NAMES = {
    "straight": "straight at Kafka, mTLS",
    "first": "through Epochgate, the first of a principal",
    "straight again": "straight, again",
    "later": "through Epochgate, a later one",
}
_BESIDE = {"first": "straight", "later": "straight again"}
_MOST_ADDED_MS = {"first": 50, "later": 5}


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile."""
    return {"p50": statistics.median(values), "p99": statistics.quantiles(values, n=100)[98]}


def _judged(run: Entry, name: str) -> str:
    added_ms = run["ms"][name]["p50"] - run["ms"][_BESIDE[name]]["p50"]
    most_ms = _MOST_ADDED_MS[name]
    return f"{'met' if added_ms <= most_ms else 'missed'} (at most {most_ms} ms more)"


def table(run: Entry) -> str:
    """Return the times of connections, what follows at rest, and what the proxy keeps."""
    rows = []
    for name, words in _NAMES.items():
        cells = [words]
        for quantile in ("p50", "p99"):
            found = run["ms"][name][quantile]
            beside = _BESIDE.get(name)
            added = "" if beside is None else f" (+{found - run['ms'][beside][quantile]:.0f})"
            cells.append(f"{found:.0f} ms{added}")
        rows.append(cells)
    connections = markdown(("until the first answer", "median", "99 %"), rows)
    request, memory = run["request_us"], run["memory"]
    rest = [
        [
            "request of 100 bytes",
            f"{request['identity']:.0f} µs",
            f"{request['relayed']:.0f} µs",
            f"{request['identity'] / request['relayed']:.2f}",
            "",
        ]
    ]
    for what, words in (("produce", "producer"), ("consume", "consumer")):
        one = run[what]
        rest.append(
            [
                words,
                f"{one['relayed_mb_s'] * one['ratio']:.0f} MB/s",
                f"{one['relayed_mb_s']:.0f} MB/s",
                f"{one['ratio']:.2f} ({one['ratios'][0]:.2f} to {one['ratios'][-1]:.2f})",
                f"{one['cpu_ratio']:.2f}",
            ]
        )
    return (
        f"{connections}\nTargets of the medians: the first {_judged(run, 'first')}, a later one "
        f"{_judged(run, 'later')}. "
        f"The first contains the pause of {run['pause_ms']:.0f} ms until brokers know a new token.\n\n"
        + markdown(("at rest", "delegation token", "SASL relayed", "ratio", "ratio of the proxy's CPU"), rest)
        + f"\n{run['principals']} principals, {run['open']} connections open: {run['made']} tokens made, "
        f"{run['left']} left after the end. {memory['principals']:,} principals that each connect once: "
        f"{memory['before_mib']:.1f} MiB before, {memory['after_mib']:.1f} MiB after; {memory['made']:,} tokens made, "
        f"{memory['left']:,} left after the end, which end by themselves.\n"
    )


RUNS = Recorded(
    EVIDENCE / "identity.json", EVIDENCE / "performance.md", "identity", by_kafka, one_by_one(title, table)
)
