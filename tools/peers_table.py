"""Writes Epochgate beside other proxies into docs/evidence/performance.md.

The runs are in docs/evidence/peers.json; benchmarks/peers.py makes them. ``python -m tools.recorded_tables`` writes the
page.
"""

import statistics
from collections.abc import Mapping, Sequence

from tools.recorded import EVIDENCE, Entry, Recorded, markdown, one_by_one

DIRECT = "direct"
MEASURES = {
    "consumer_mb_s": ("consumer, MB/s", 0),
    "consumer_ratio": ("consumer, ratio of direct", 2),
    "consumer_cpu_s_per_gb": ("its processor time, s/GB", 2),
    "producer_mb_s": ("producer, MB/s", 0),
    "producer_ratio": ("producer, ratio of direct", 2),
    "producer_cpu_s_per_gb": ("its processor time, s/GB", 2),
    "request_straight_us": ("100-byte request, p50 straight at the broker in turn, µs", 0),
    "request_added_us": ("100-byte request, p50 added, µs", 0),
    "request_cpu_us": ("its processor time, µs", 0),
    "passing_straight_us": ("classic Heartbeat, p50 straight at the broker in turn, µs", 0),
    "passing_added_us": ("Heartbeat that passes through, p50 added, µs", 0),
    "passing_cpu_us": ("its processor time, µs", 0),
    "translated_added_us": ("translated Heartbeat, p50 added to a classic one, µs", 0),
    "translated_cpu_us": ("its processor time, µs", 0),
    "rest_mib": ("resident memory at rest, MiB", 0),
    "start_s": ("from start to the first accept, s", 2),
    "requests_s_200": ("requests/s of 200 connections", 0),
    "requests_s_5000": ("requests/s of 5,000 connections", 0),
    "closed_of_5000": ("of these, closed by the other side", 0),
    "two_consumers_mb_s": ("two consumers, MB/s", 0),
    "small_alone_p99_us": ("request of a small client, p99, µs", 0),
    "small_beside_bulk_p99_us": ("the same beside a bulk consumer, p99, µs", 0),
}
"""What each is called, and its decimals."""
KINDS = ("cost", "saturation")


def table(run: Entry) -> str:
    """Return a row for each measure and a column for each way: medians with quartiles."""
    ways = {way: _with_ratios(found, run["ways"][DIRECT]) for way, found in run["ways"].items()}
    rows = [
        (words, *(_cell(found.get(measure, ()), decimals) for found in ways.values()))
        for measure, (words, decimals) in MEASURES.items()
        if any(measure in found for found in ways.values())
    ]
    rows.append(
        ("turns that were not quiet", *(_not_quiet(found["not_quiet"]) for found in ways.values())),
    )
    head = [f"{way} {run['versions'].get(way, '')}".strip() for way in ways]
    skipped = [f"{name} was skipped: {reason}\n" for name, reason in run["skipped"].items()]
    return "\n".join([markdown(("median (quartiles)", *head), rows), *skipped])


def title(run: Entry) -> str:
    """Say with what a run was measured, as the line above its table."""
    rounds = len(run["ways"][DIRECT]["not_quiet"])
    return (
        f"Kafka {run['kafka']}, {run['machine']}, commit `{run['commit']}`, {run['date']}"
        f" (`{run['command']}`, {rounds} rounds):"
    )


def _with_ratios(
    found: Mapping[str, Sequence[float]], direct: Mapping[str, Sequence[float]]
) -> Mapping[str, Sequence[float]]:
    """Add the throughput's ratios to that of the same round straight at the broker."""
    return {
        **found,
        **{
            f"{what}_ratio": [one / of for one, of in zip(found[name], direct[name], strict=True)]
            for what, name in (("consumer", "consumer_mb_s"), ("producer", "producer_mb_s"))
            if found is not direct and name in found
        },
    }


def _cell(values: Sequence[float], decimals: int) -> str:
    if len(values) < 2:
        return "".join(f"{value:,.{decimals}f}" for value in values)
    low, middle, high = (f"{value:,.{decimals}f}" for value in statistics.quantiles(values, n=4))
    return f"{middle} ({low} to {high})"


def _not_quiet(turns: Sequence[float]) -> str:
    count = f"{sum(turns):.0f} of {len(turns)}"
    return f"**{count}**" if any(turns) else count


RUNS = Recorded(
    EVIDENCE / "peers.json",
    EVIDENCE / "performance.md",
    "peers",
    lambda run: KINDS.index(run["kind"]),
    one_by_one(title, table),
)
